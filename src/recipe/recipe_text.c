/* recipe_text.c - the resolved recipe as YAML, every default written out. */
#include "recipe/recipe_impl.h"

#include <string.h>

static vv_status add_value(const vv_desc *desc, const void *opts, const vv_field *field, vv_str *out)
{
    vv_str text = {0};
    vv_status status = vv_opts_get(desc, opts, field->name, &text);
    if (status == VV_OK) {
        if (field->type == VV_FIELD_STRING)
            vv_str_add_json(out, vv_str_text(&text));
        else
            vv_str_add(out, text.length ? vv_str_text(&text) : "none");
        status = vv_str_status(out);
    }
    vv_str_fini(&text);
    return status;
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

vv_status vv_recipe_text(const vv_recipe *r, vv_str *out)
{
    VV_TRY(add_fields(&vvi_recipe_top_desc, &r->top, "", out));
    VV_TRY(add_single("model", &r->model, out));
    VV_TRY(add_single("dataset", &r->dataset, out));
    vv_str_add(out, "transform:\n");
    VV_TRY(add_fields(&vvi_transform_desc, &r->transform, "  ", out));
    VV_TRY(add_single("optimizer", &r->optimizer, out));
    VV_TRY(add_several("schedules", &r->schedules, out));
    VV_TRY(add_several("methods", &r->methods, out));
    VV_TRY(add_several("callbacks", &r->callbacks, out));
    VV_TRY(add_several("loggers", &r->loggers, out));
    return vv_str_status(out);
}
