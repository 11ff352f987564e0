/* describe.c - described types: options structs filled, checked, copied and freed by their tables.
 */
#include <vivace/describe.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <vivace/memory.h>

#include "base/describe_text.h"
#include "base/number.h"

const void *vvi_field_slot(const vv_field *field, const void *opts)
{
    return (const char *)opts + field->offset;
}

static void *slot_of(const vv_field *field, void *opts)
{
    return (char *)opts + field->offset;
}

/* Strings are kept as const char *; memcpy moves them without casting the const away. */
static char *string_at(const vv_field *field, const void *opts)
{
    char *text;
    memcpy(&text, vvi_field_slot(field, opts), sizeof text);
    return text;
}

static void put_string(const vv_field *field, void *opts, char *text)
{
    memcpy(slot_of(field, opts), &text, sizeof text);
}

static int field_count(const vv_desc *desc)
{
    int count = 0;
    while (desc->fields && desc->fields[count].name)
        count++;
    return count;
}

const vv_field *vv_desc_field(const vv_desc *desc, const char *name)
{
    for (const vv_field *field = desc->fields; field && field->name; field++)
        if (strcmp(field->name, name) == 0)
            return field;
    return NULL;
}

static const char *field_name_at(const void *ctx, int i)
{
    return ((const vv_field *)ctx)[i].name;
}

vv_status vvi_unknown_key(const vv_desc *desc, const char *key)
{
    int count = field_count(desc);
    if (count == 0)
        return vv_fail(VV_ENOTFOUND, "unknown setting '%s' of %s; it has no settings", key,
                       desc->name);
    int near = vv_nearest(key, field_name_at, desc->fields, count);
    if (near >= 0)
        return vv_fail(VV_ENOTFOUND, "unknown setting '%s' of %s; did you mean '%s'?", key,
                       desc->name, desc->fields[near].name);
    char names[512] = "";
    for (int i = 0, at = 0; i < count && at < (int)sizeof names; i++)
        at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", i ? ", " : "",
                       desc->fields[i].name);
    return vv_fail(VV_ENOTFOUND, "unknown setting '%s' of %s; it has: %s", key, desc->name, names);
}

/* ---- checking ---- */

static bool has_limits(const vv_field *field)
{
    return field->min != 0.0 || field->max != 0.0;
}

static vv_status out_of_limits(const vv_desc *desc, const vv_field *field, const char *value)
{
    char lo[40], hi[40];
    return vv_fail(VV_EINVAL, "%s.%s: %s is outside %s%s, %s%s", desc->name, field->name, value,
                   isinf(field->min) ? "(" : "[", vvi_number_text(field->min, lo, sizeof lo),
                   vvi_number_text(field->max, hi, sizeof hi), isinf(field->max) ? ")" : "]");
}

static vv_status check_int(const vv_desc *desc, const vv_field *field, int64_t value)
{
    char text[40];
    if (!has_limits(field) || ((double)value >= field->min && (double)value <= field->max))
        return VV_OK;
    snprintf(text, sizeof text, "%lld", (long long)value);
    return out_of_limits(desc, field, text);
}

static vv_status check_float(const vv_desc *desc, const vv_field *field, double value)
{
    char text[40];
    if (isnan(value))
        return vv_fail(VV_EINVAL, "%s.%s: the value is not a number", desc->name, field->name);
    if (!has_limits(field) || (value >= field->min && value <= field->max))
        return VV_OK;
    return out_of_limits(desc, field, vvi_number_text(value, text, sizeof text));
}

static int choice_count(const vv_field *field)
{
    int count = 0;
    while (field->choices && field->choices[count])
        count++;
    return count;
}

static vv_status check_time(const vv_desc *desc, const vv_field *field, const vv_time *time)
{
    if ((unsigned)time->unit > VV_UNIT_NONE)
        return vv_fail(VV_EINVAL, "%s.%s: %d is no unit of time", desc->name, field->name,
                       (int)time->unit);
    if (time->unit == VV_UNIT_DURATION && !isfinite(time->fraction))
        return vv_fail(VV_EINVAL, "%s.%s: the fraction of the duration is not finite", desc->name,
                       field->name);
    return VV_OK;
}

static vv_status missing(const vv_desc *desc, const vv_field *field)
{
    return vv_fail(VV_EINVAL, "%s.%s must be given: %s", desc->name, field->name, field->help);
}

static vv_status check_field(const vv_desc *desc, const vv_field *field, const void *opts)
{
    const void *slot = vvi_field_slot(field, opts);
    switch (field->type) {
    case VV_FIELD_BOOL:
        return VV_OK;
    case VV_FIELD_INT:
        return check_int(desc, field, *(const int64_t *)slot);
    case VV_FIELD_FLOAT:
        return check_float(desc, field, *(const double *)slot);
    case VV_FIELD_STRING:
        return !field->fallback && !string_at(field, opts) ? missing(desc, field) : VV_OK;
    case VV_FIELD_CHOICE: {
        int choice = *(const int *)slot;
        if (choice >= 0 && choice < choice_count(field))
            return VV_OK;
        return vv_fail(VV_EINVAL, "%s.%s: choice %d is outside 0..%d", desc->name, field->name,
                       choice, choice_count(field) - 1);
    }
    case VV_FIELD_TIME:
        VV_TRY(check_time(desc, field, slot));
        return !field->fallback && vv_time_is_none(*(const vv_time *)slot) ? missing(desc, field)
                                                                           : VV_OK;
    case VV_FIELD_TIMES: {
        const vv_times *times = slot;
        if (times->count < 0 || (times->count > 0 && !times->items))
            return vv_fail(VV_EINVAL, "%s.%s: a list of %d times without items", desc->name,
                           field->name, times->count);
        for (int i = 0; i < times->count; i++)
            VV_TRY(check_time(desc, field, &times->items[i]));
        return VV_OK;
    }
    }
    return vv_fail(VV_EINTERNAL, "%s.%s: unknown field type %d", desc->name, field->name,
                   (int)field->type);
}

vv_status vv_opts_check(const vv_desc *desc, const void *opts)
{
    for (const vv_field *field = desc->fields; field && field->name; field++)
        VV_TRY(check_field(desc, field, opts));
    return VV_OK;
}

/* ---- setting ---- */

static vv_status wrong_type(const vv_desc *desc, const vv_field *field, const char *value,
                            const char *wanted)
{
    return vv_fail(VV_EINVAL, "%s.%s: '%s' is not %s", desc->name, field->name, value, wanted);
}

static vv_status set_bool(const vv_desc *desc, const vv_field *field, void *slot, const char *value)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(value, words[i]) == 0) {
            *(bool *)slot = i % 2 == 1;
            return VV_OK;
        }
    }
    return wrong_type(desc, field, value, "true or false");
}

static vv_status set_int(const vv_desc *desc, const vv_field *field, void *slot, const char *value)
{
    vvi_number number;
    const char *end = vvi_number_read(&number, value);
    if (!end || *end || !number.is_whole)
        return wrong_type(desc, field, value, "a whole number");
    VV_TRY(check_int(desc, field, number.integer));
    *(int64_t *)slot = number.integer;
    return VV_OK;
}

static vv_status set_float(const vv_desc *desc, const vv_field *field, void *slot,
                           const char *value)
{
    vvi_number number;
    const char *end = vvi_number_read(&number, value);
    const char *unsigned_value = value + (*value == '-' || *value == '+');
    if (strcasecmp(unsigned_value, "inf") == 0 || strcasecmp(unsigned_value, ".inf") == 0) {
        number.value = *value == '-' ? -HUGE_VAL : HUGE_VAL;
        end = "";
    }
    if (!end || *end)
        return wrong_type(desc, field, value, "a number");
    VV_TRY(check_float(desc, field, number.value));
    *(double *)slot = number.value;
    return VV_OK;
}

static const char *choice_at(const void *ctx, int i)
{
    return ((const char *const *)ctx)[i];
}

static vv_status set_choice(const vv_desc *desc, const vv_field *field, void *slot,
                            const char *value)
{
    int count = choice_count(field);
    for (int i = 0; i < count; i++) {
        if (strcmp(value, field->choices[i]) == 0) {
            *(int *)slot = i;
            return VV_OK;
        }
    }
    int near = vv_nearest(value, choice_at, field->choices, count);
    if (near >= 0)
        return vv_fail(VV_EINVAL, "%s.%s: unknown choice '%s'; did you mean '%s'?", desc->name,
                       field->name, value, field->choices[near]);
    char names[512] = "";
    for (int i = 0, at = 0; i < count && at < (int)sizeof names; i++)
        at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", i ? ", " : "",
                       field->choices[i]);
    return vv_fail(VV_EINVAL, "%s.%s: unknown choice '%s'; it is one of: %s", desc->name,
                   field->name, value, names);
}

static bool means_none(const char *value)
{
    return !*value || strcasecmp(value, "none") == 0;
}

static vv_status read_time(const vv_desc *desc, const vv_field *field, vv_time *time,
                           const char *value)
{
    if (means_none(value)) {
        *time = vv_time_none();
        return VV_OK;
    }
    vv_time read;
    vv_status status = vv_time_parse(&read, value, VV_UNIT_NONE);
    if (status != VV_OK)
        return vv_fail_within(status, "%s.%s", desc->name, field->name);
    *time = read;
    return VV_OK;
}

/* One item of a list: [start, end) without outer spaces. */
static vv_status read_item(const vv_desc *desc, const vv_field *field, vv_time *time,
                           const char *start, const char *end)
{
    char word[128];
    vvi_trim(&start, &end);
    size_t length = (size_t)(end - start);
    if (length == 0 || length >= sizeof word)
        return vv_fail(VV_EINVAL,
                       "%s.%s: an item is empty or too long; write a list of times such as "
                       "[10ep, 20ep]",
                       desc->name, field->name);
    memcpy(word, start, length);
    word[length] = '\0';
    return read_time(desc, field, time, word);
}

static vv_status set_times(const vv_desc *desc, const vv_field *field, void *slot,
                           const char *value)
{
    vv_status status = VV_OK;
    vv_times *times = slot, made = {0};
    const char *start = value, *end = value + strlen(value);
    vvi_trim(&start, &end);
    bool bracket = start < end && *start == '[';
    if (bracket != (start < end && end[-1] == ']'))
        return wrong_type(desc, field, value, "a list such as [10ep, 20ep]");
    start += bracket;
    end -= bracket;
    vvi_trim(&start, &end);
    bool empty = start == end || (end - start == 4 && strncasecmp(start, "none", 4) == 0);
    size_t count = !empty;
    for (const char *s = start; s < end; s++)
        count += *s == ',';
    if (count)
        VV_GO(vv_alloc_array(&made.items, count, sizeof *made.items));
    while (made.count < (int)count) {
        const char *comma = memchr(start, ',', (size_t)(end - start));
        const char *stop = comma ? comma : end;
        VV_GO(read_item(desc, field, &made.items[made.count++], start, stop));
        start = comma ? comma + 1 : end;
    }
    vv_dealloc(times->items);
    *times = made;
    return VV_OK;
out:
    vv_dealloc(made.items);
    return status;
}

static vv_status set_string(const vv_field *field, void *opts, const char *value)
{
    char *copy;
    VV_TRY(vv_strdup(&copy, value));
    vv_dealloc(string_at(field, opts));
    put_string(field, opts, copy);
    return VV_OK;
}

static vv_status set_field(const vv_desc *desc, const vv_field *field, void *opts,
                           const char *value)
{
    void *slot = slot_of(field, opts);
    switch (field->type) {
    case VV_FIELD_BOOL:
        return set_bool(desc, field, slot, value);
    case VV_FIELD_INT:
        return set_int(desc, field, slot, value);
    case VV_FIELD_FLOAT:
        return set_float(desc, field, slot, value);
    case VV_FIELD_STRING:
        return set_string(field, opts, value);
    case VV_FIELD_CHOICE:
        return set_choice(desc, field, slot, value);
    case VV_FIELD_TIME:
        return read_time(desc, field, slot, value);
    case VV_FIELD_TIMES:
        return set_times(desc, field, slot, value);
    }
    return vv_fail(VV_EINTERNAL, "%s.%s: unknown field type %d", desc->name, field->name,
                   (int)field->type);
}

vv_status vv_opts_set(const vv_desc *desc, void *opts, const char *key, const char *value)
{
    const vv_field *field = vv_desc_field(desc, key);
    if (!field)
        return vvi_unknown_key(desc, key);
    return set_field(desc, field, opts, value);
}

/* ---- the struct as a whole ---- */

vv_status vv_opts_init(const vv_desc *desc, void *opts)
{
    memset(opts, 0, desc->opts_size);
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        vv_status status = VV_OK;
        if (field->fallback)
            status = set_field(desc, field, opts, field->fallback);
        else if (field->type == VV_FIELD_TIME)
            *(vv_time *)slot_of(field, opts) = vv_time_none();
        if (status != VV_OK) {
            vv_opts_fini(desc, opts);
            return vv_fail_within(status, "default of %s", desc->name);
        }
    }
    return VV_OK;
}

static vv_status copy_field(const vv_field *field, void *dst, const void *src)
{
    if (field->type == VV_FIELD_STRING) {
        const char *text = string_at(field, src);
        char *copy = NULL;
        if (text)
            VV_TRY(vv_strdup(&copy, text));
        put_string(field, dst, copy);
    } else if (field->type == VV_FIELD_TIMES) {
        const vv_times *from = vvi_field_slot(field, src);
        vv_times made = {0};
        if (from->count > 0) {
            VV_TRY(vv_alloc_array(&made.items, (size_t)from->count, sizeof *made.items));
            memcpy(made.items, from->items, (size_t)from->count * sizeof *made.items);
            made.count = from->count;
        }
        *(vv_times *)slot_of(field, dst) = made;
    }
    return VV_OK;
}

static void forget_owned(const vv_desc *desc, void *opts)
{
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        if (field->type == VV_FIELD_STRING)
            put_string(field, opts, NULL);
        else if (field->type == VV_FIELD_TIMES)
            *(vv_times *)slot_of(field, opts) = (vv_times){0};
    }
}

vv_status vv_opts_copy(const vv_desc *desc, void *dst, const void *src)
{
    memcpy(dst, src, desc->opts_size);
    forget_owned(desc, dst);
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        vv_status status = copy_field(field, dst, src);
        if (status != VV_OK) {
            vv_opts_fini(desc, dst);
            return status;
        }
    }
    return VV_OK;
}

void vv_opts_fini(const vv_desc *desc, void *opts)
{
    if (!opts)
        return;
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        if (field->type == VV_FIELD_STRING)
            vv_dealloc(string_at(field, opts));
        else if (field->type == VV_FIELD_TIMES)
            vv_dealloc(((vv_times *)slot_of(field, opts))->items);
    }
    forget_owned(desc, opts);
}
