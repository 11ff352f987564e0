/* recipe_facts.c - what the run store is told that only the recipe knows: every setting under its
 * dotted name, the schedule's ratio, where the price comes from. */
#include <string.h>

#include "recipe/recipe_impl.h"

static vv_status add_fields(const vv_desc *desc, const void *opts, const char *prefix, int *count,
                            vv_str *out)
{
    vv_str key = {0}, text = {0};
    vv_status status = VV_OK;
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        vv_str_clear(&key);
        vv_str_clear(&text);
        vv_str_addf(&key, "%s%s", prefix, field->name);
        VV_GO(vv_str_status(&key)); /* clearing forgets it */
        VV_GO(vv_opts_get(desc, opts, field->name, &text));
        vv_str_add(out, (*count)++ ? "," : "");
        vv_str_add_json(out, vv_str_text(&key));
        vv_str_add(out, ":");
        vv_str_add_json(out, vv_str_text(&text));
    }
out:
    vv_str_fini(&key);
    vv_str_fini(&text);
    return status;
}

/* "model": its name; "model.width": its settings. */
static vv_status add_part(const char *path, const vvi_part *part, int *count, vv_str *out)
{
    vv_str prefix = {0};
    vv_str_add(out, (*count)++ ? "," : "");
    vv_str_add_json(out, path);
    vv_str_add(out, ":");
    vv_str_add_json(out, part->desc->name);
    vv_str_addf(&prefix, "%s.", path);
    vv_status status = vv_str_status(&prefix);
    if (status == VV_OK)
        status = add_fields(part->desc, part->opts, vv_str_text(&prefix), count, out);
    vv_str_fini(&prefix);
    return status;
}

static vv_status add_parts(const char *section, const vvi_parts *parts, int *count, vv_str *out)
{
    vv_str prefix = {0};
    vv_status status = VV_OK;
    for (int i = 0; i < parts->count && status == VV_OK; i++) {
        const char *name = parts->items[i].desc->name;
        vv_str_clear(&prefix);
        vv_str_addf(&prefix, "%s.%s", section, name);
        vv_str_add(out, (*count)++ ? "," : "");
        vv_str_add_json(out, vv_str_text(&prefix));
        vv_str_add(out, ":\"on\"");
        vv_str_add(&prefix, ".");
        status = vv_str_status(&prefix);
        if (status == VV_OK)
            status = add_fields(parts->items[i].desc, parts->items[i].opts, vv_str_text(&prefix),
                                count, out);
    }
    vv_str_fini(&prefix);
    return status;
}

vv_status vvi_recipe_facts(const vv_recipe *r, const vv_price *price, vv_str *out)
{
    int count = 0;
    vv_str_addf(out, "{\"scale_schedule_ratio\":%.17g,\"settings\":{", r->top.scale_schedule_ratio);
    VV_TRY(add_fields(&vvi_recipe_top_desc, &r->top, "", &count, out));
    VV_TRY(add_part("model", &r->model, &count, out));
    VV_TRY(add_part("dataset", &r->dataset, &count, out));
    VV_TRY(add_part("optimizer", &r->optimizer, &count, out));
    VV_TRY(add_fields(&vvi_transform_desc, &r->transform, "transform.", &count, out));
    VV_TRY(add_parts("schedules", &r->schedules, &count, out));
    VV_TRY(add_parts("methods", &r->methods, &count, out));
    vv_str_add(out, "}");
    if (price) {
        vv_str_add(out, ",\"price\":{\"kind\":");
        vv_str_add_json(out, price->kind);
        vv_str_add(out, ",\"region\":");
        vv_str_add_json(out, price->region);
        vv_str_add(out, ",\"date\":");
        vv_str_add_json(out, price->date);
        vv_str_add(out, ",\"source\":");
        vv_str_add_json(out, price->source);
        vv_str_add(out, "}");
    }
    vv_str_add(out, "}");
    return vv_str_status(out);
}
