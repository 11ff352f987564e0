/* recipe_text.c - the resolved recipe as YAML, every default written out. */
#include "recipe/recipe_impl.h"

#include "base/utf8.h"

/* The code of a character that YAML refuses or takes for a line break unless it is escaped: U+0080
   to U+009F, U+2028, U+2029, U+FEFF, U+FFFE, U+FFFF. 0 for any other. */
static unsigned must_escape(const unsigned char *s, size_t length)
{
    unsigned code = 0;
    if (length == 2)
        code = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
    if (length == 3)
        code = (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    const bool is_bad = (code >= 0x80 && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
                        code == 0xfeff || code >= 0xfffe;
    return is_bad ? code : 0;
}

/* JSON's quotes and escapes are YAML's too, but for a few characters. */
static vv_status add_quoted(const char *text, vv_str *out)
{
    vv_str json = {0};
    vv_str_add_json(&json, text);
    const unsigned char *s = (const unsigned char *)vv_str_text(&json);
    while (*s) {
        const size_t length = vvi_utf8_length(s);
        const unsigned code = must_escape(s, length);
        if (code)
            vv_str_addf(out, "\\u%04x", code);
        else
            vv_str_addn(out, (const char *)s, length);
        s += length;
    }
    const vv_status status = vv_str_status(&json);
    vv_str_fini(&json);
    return status;
}

static vv_status add_value(const vv_desc *desc, const void *opts, const vv_field *field,
                           vv_str *out)
{
    vv_str text = {0};
    vv_status status = vv_opts_get(desc, opts, field->name, &text);
    if (status == VV_OK && field->type == VV_FIELD_STRING)
        status = add_quoted(vv_str_text(&text), out);
    else if (status == VV_OK)
        vv_str_add(out, vv_str_text(&text));
    vv_str_fini(&text);
    return status == VV_OK ? vv_str_status(out) : status;
}

static vv_status add_fields(const vv_desc *desc, const void *opts, const char *indent, vv_str *out)
{
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        vv_str_addf(out, "%s%s: ", indent, field->name);
        VV_TRY(add_value(desc, opts, field, out));
        vv_str_add(out, "\n");
    }
    return vv_str_status(out);
}

static vv_status add_single(const char *section, const vvi_part *part, vv_str *out)
{
    vv_str_addf(out, "%s:\n  name: %s\n", section, part->desc->name);
    return add_fields(part->desc, part->opts, "  ", out);
}

static vv_status add_evaluators(const vv_recipe *r, vv_str *out)
{
    if (r->evaluator_count)
        vv_str_add(out, "evaluators:\n");
    for (int i = 0; i < r->evaluator_count; i++) {
        const vvi_eval_part *e = &r->evaluators[i];
        vv_str_add(out, "  ");
        VV_TRY(add_quoted(e->label, out));
        vv_str_addf(out, ":\n    dataset:\n      name: %s\n", e->dataset.desc->name);
        VV_TRY(add_fields(e->dataset.desc, e->dataset.opts, "      ", out));
        VV_TRY(add_fields(&vvi_eval_desc, &e->opts, "    ", out));
    }
    return vv_str_status(out);
}

static vv_status add_several(const char *section, const vvi_parts *parts, vv_str *out)
{
    if (!parts->count)
        return VV_OK;
    vv_str_addf(out, "%s:\n", section);
    for (int i = 0; i < parts->count; i++) {
        vv_str_addf(out, "  - name: %s\n", parts->items[i].desc->name);
        VV_TRY(add_fields(parts->items[i].desc, parts->items[i].opts, "    ", out));
    }
    return VV_OK;
}

/* What the recipe has without naming it is left out by name. */
static void add_waivers(const vvi_parts *callbacks, vv_str *out)
{
    const vv_desc *desc;
    bool head = callbacks->count > 0;
    for (int i = 0; (desc = vvi_default_callback(&i)); i++)
        if (!vvi_parts_have(callbacks, desc)) {
            vv_str_addf(out, "%s  - %s: off\n", head ? "" : "callbacks:\n", desc->name);
            head = true;
        }
}

vv_status vv_recipe_text(const vv_recipe *r, vv_str *out)
{
    VV_TRY(add_fields(&vvi_recipe_top_desc, &r->top, "", out));
    VV_TRY(add_single("model", &r->model, out));
    if (r->loss.desc)
        VV_TRY(add_single("loss", &r->loss, out));
    VV_TRY(add_single("dataset", &r->dataset, out));
    vv_str_add(out, "transform:\n");
    VV_TRY(add_fields(&vvi_transform_desc, &r->transform, "  ", out));
    VV_TRY(add_evaluators(r, out));
    if (r->profiled) {
        vv_str_add(out, "profile:\n");
        VV_TRY(add_fields(&vvi_profile_desc, &r->profile, "  ", out));
    }
    VV_TRY(add_single("optimizer", &r->optimizer, out));
    VV_TRY(add_several("schedules", &r->schedules, out));
    VV_TRY(add_several("methods", &r->methods, out));
    VV_TRY(add_several("callbacks", &r->callbacks, out));
    add_waivers(&r->callbacks, out);
    VV_TRY(add_several("loggers", &r->loggers, out));
    return vv_str_status(out);
}
