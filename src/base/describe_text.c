/* describe_text.c - options as text: "key=value" lists, single values, JSON. */
#include "base/describe_text.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/number.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void vvi_trim(const char **start, const char **end)
{
    while (*start < *end && is_blank(**start))
        ++*start;
    while (*start < *end && is_blank((*end)[-1]))
        --*end;
}

/* The end of one "key=value": the next comma that is not inside brackets. */
static const char *end_of_setting(const char *s)
{
    int depth = 0;
    for (; *s && (*s != ',' || depth > 0); s++)
        depth += (*s == '[') - (*s == ']' && depth > 0);
    return s;
}

static vv_status copy_trimmed(char **out, const char *start, const char *end)
{
    vvi_trim(&start, &end);
    VV_TRY(vv_alloc(out, (size_t)(end - start) + 1));
    memcpy(*out, start, (size_t)(end - start));
    return VV_OK;
}

static vv_status set_one(const vv_desc *desc, void *opts, const char *start, const char *end)
{
    vv_status status = VV_OK;
    char *key = NULL, *value = NULL;
    const char *equal = memchr(start, '=', (size_t)(end - start));
    VV_GO(copy_trimmed(&key, start, equal ? equal : end));
    if (!equal || !key[0]) {
        status = vv_fail(VV_EINVAL, "settings of %s: '%s' is not key=value", desc->name,
                         equal ? "=" : key);
        goto out;
    }
    VV_GO(copy_trimmed(&value, equal + 1, end));
    VV_GO(vv_opts_set(desc, opts, key, value));
out:
    vv_dealloc(key);
    vv_dealloc(value);
    return status;
}

vv_status vv_opts_set_all(const vv_desc *desc, void *opts, const char *settings)
{
    const char *start = settings, *all_end = settings + strlen(settings);
    vvi_trim(&start, &all_end);
    if (start == all_end)
        return VV_OK;
    for (;;) {
        const char *end = end_of_setting(start);
        VV_TRY(set_one(desc, opts, start, end));
        if (!*end)
            return VV_OK;
        start = end + 1;
    }
}

static const char *choice_name(const vv_field *field, int choice)
{
    for (int i = 0; field->choices && field->choices[i]; i++)
        if (i == choice)
            return field->choices[i];
    return "";
}

static const char *string_text(const void *slot)
{
    const char *text;
    memcpy(&text, slot, sizeof text);
    return text;
}

/* One field as vv_opts_set reads it. */
static void add_value(const vv_field *field, const void *slot, vv_str *out)
{
    char buf[64];
    switch (field->type) {
    case VV_FIELD_BOOL:
        vv_str_add(out, *(const bool *)slot ? "true" : "false");
        break;
    case VV_FIELD_INT:
        vv_str_addf(out, "%lld", (long long)*(const int64_t *)slot);
        break;
    case VV_FIELD_FLOAT:
        vv_str_add(out, vvi_number_text(*(const double *)slot, buf, sizeof buf));
        break;
    case VV_FIELD_STRING:
        vv_str_add(out, string_text(slot));
        break;
    case VV_FIELD_CHOICE:
        vv_str_add(out, choice_name(field, *(const int *)slot));
        break;
    case VV_FIELD_TIME:
        vv_str_add(out, vv_time_text(*(const vv_time *)slot, buf, sizeof buf));
        break;
    case VV_FIELD_TIMES: {
        const vv_times *times = slot;
        vv_str_add(out, "[");
        for (int i = 0; i < times->count; i++)
            vv_str_addf(out, "%s%s", i ? ", " : "", vv_time_text(times->items[i], buf, sizeof buf));
        vv_str_add(out, "]");
        break;
    }
    }
}

vv_status vv_opts_get(const vv_desc *desc, const void *opts, const char *key, vv_str *out)
{
    const vv_field *field = vv_desc_field(desc, key);
    if (!field)
        return vvi_unknown_key(desc, key);
    add_value(field, vvi_field_slot(field, opts), out);
    return vv_str_status(out);
}

static void add_json_times(const vv_times *times, vv_str *out)
{
    char buf[64];
    vv_str_add(out, "[");
    for (int i = 0; i < times->count; i++)
        vv_str_addf(out, "%s\"%s\"", i ? "," : "", vv_time_text(times->items[i], buf, sizeof buf));
    vv_str_add(out, "]");
}

static void add_json_double(double value, vv_str *out)
{
    char buf[64];
    const char *text = vvi_number_text(value, buf, sizeof buf);
    /* JSON has no infinity. */
    if (isfinite(value))
        vv_str_add(out, text);
    else
        vv_str_add_json(out, text);
}

static void add_json_value(const vv_field *field, const void *slot, vv_str *out)
{
    char buf[64];
    switch (field->type) {
    case VV_FIELD_BOOL:
    case VV_FIELD_INT:
        add_value(field, slot, out);
        break;
    case VV_FIELD_FLOAT:
        add_json_double(*(const double *)slot, out);
        break;
    case VV_FIELD_STRING:
        if (string_text(slot))
            vv_str_add_json(out, string_text(slot));
        else
            vv_str_add(out, "null");
        break;
    case VV_FIELD_CHOICE:
        vv_str_add_json(out, choice_name(field, *(const int *)slot));
        break;
    case VV_FIELD_TIME:
        vv_str_add_json(out, vv_time_text(*(const vv_time *)slot, buf, sizeof buf));
        break;
    case VV_FIELD_TIMES:
        add_json_times(slot, out);
        break;
    }
}

void vv_opts_to_json(const vv_desc *desc, const void *opts, vv_str *out)
{
    vv_str_add(out, "{");
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        if (field != desc->fields)
            vv_str_add(out, ",");
        vv_str_add_json(out, field->name);
        vv_str_add(out, ":");
        add_json_value(field, vvi_field_slot(field, opts), out);
    }
    vv_str_add(out, "}");
}

/* "key":"text", null for NULL */
static void add_json_pair(vv_str *out, const char *before, const char *key, const char *text)
{
    vv_str_add(out, before);
    vv_str_add_json(out, key);
    vv_str_add(out, ":");
    if (text)
        vv_str_add_json(out, text);
    else
        vv_str_add(out, "null");
}

static void add_json_field(const vv_field *field, vv_str *out)
{
    static const char *const types[] = {
        [VV_FIELD_BOOL] = "bool",     [VV_FIELD_INT] = "int",       [VV_FIELD_FLOAT] = "float",
        [VV_FIELD_STRING] = "string", [VV_FIELD_CHOICE] = "choice", [VV_FIELD_TIME] = "time",
        [VV_FIELD_TIMES] = "times",
    };
    bool is_number = field->type == VV_FIELD_INT || field->type == VV_FIELD_FLOAT;
    add_json_pair(out, "{", "name", field->name);
    add_json_pair(out, ",", "type", types[field->type]);
    add_json_pair(out, ",", "default", field->fallback);
    add_json_pair(out, ",", "help", field->help);
    if (is_number && (field->min != 0.0 || field->max != 0.0)) {
        vv_str_add(out, ",\"min\":");
        add_json_double(field->min, out);
        vv_str_add(out, ",\"max\":");
        add_json_double(field->max, out);
    } else {
        vv_str_add(out, ",\"min\":null,\"max\":null");
    }
    vv_str_add(out, ",\"choices\":[");
    for (int i = 0; field->choices && field->choices[i]; i++) {
        vv_str_add(out, i ? "," : "");
        vv_str_add_json(out, field->choices[i]);
    }
    vv_str_add(out, "]}");
}

void vv_desc_to_json(const vv_desc *desc, vv_str *out)
{
    add_json_pair(out, "{", "kind", desc->kind);
    add_json_pair(out, ",", "name", desc->name);
    add_json_pair(out, ",", "summary", desc->summary);
    add_json_pair(out, ",", "domains", desc->domains);
    add_json_pair(out, ",", "cite", desc->cite);
    vv_str_add(out, ",\"fields\":[");
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        vv_str_add(out, field == desc->fields ? "" : ",");
        add_json_field(field, out);
    }
    vv_str_add(out, "]}");
}
