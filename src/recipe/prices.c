/* prices.c - the price table: from a file, or the copy that is built in. */
#include <vivace/prices.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/describe.h>
#include <vivace/memory.h>

#include "base/file.h"
#include "recipe/yaml_tree.h"
#include "src/recipe/prices_builtin.h" /* generated */

static const char builtin_name[] = "the built-in price table";

typedef struct price_settings {
    const char *name, *accelerator, *region, *kind, *date, *source;
    double usd_per_hour;
    int64_t cores, accelerators;
} price_settings;

#define AT(field) offsetof(price_settings, field)
static const vv_field fields[] = {
    {.name = "name", .help = "of the hardware", .type = VV_FIELD_STRING, .offset = AT(name)},
    {.name = "usd_per_hour", .help = "price of the whole machine", .type = VV_FIELD_FLOAT, .offset = AT(usd_per_hour), .min = 0, .max = 1e9},
    {.name = "cores", .help = "virtual CPUs", .type = VV_FIELD_INT, .offset = AT(cores), .fallback = "0", .min = 0, .max = 1e9},
    {.name = "accelerators", .help = "their number", .type = VV_FIELD_INT, .offset = AT(accelerators), .fallback = "0", .min = 0, .max = 1e9},
    {.name = "accelerator", .help = "their kind", .type = VV_FIELD_STRING, .offset = AT(accelerator), .fallback = ""},
    {.name = "region", .help = "where the price holds", .type = VV_FIELD_STRING, .offset = AT(region), .fallback = ""},
    {.name = "kind", .help = "on-demand, spot, ...", .type = VV_FIELD_STRING, .offset = AT(kind), .fallback = ""},
    {.name = "date", .help = "of the price", .type = VV_FIELD_STRING, .offset = AT(date), .fallback = ""},
    {.name = "source", .help = "where it was read", .type = VV_FIELD_STRING, .offset = AT(source), .fallback = ""},
    {.name = NULL},
};
static const vv_desc desc = {.kind = "price", .name = "price", .summary = "What a machine costs.",
                             .cite = "", .domains = "any", .fields = fields,
                             .opts_size = sizeof(price_settings)};

static vv_status copy_price(vv_price *out, const price_settings *from)
{
    out->usd_per_hour = from->usd_per_hour;
    out->cores = from->cores;
    out->accelerators = from->accelerators;
    const struct {
        char **to;
        const char *text;
    } texts[] = {
        {&out->name, from->name},     {&out->accelerator, from->accelerator},
        {&out->region, from->region}, {&out->kind, from->kind},
        {&out->date, from->date},     {&out->source, from->source},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        VV_TRY(vv_strdup(texts[i].to, texts[i].text ? texts[i].text : ""));
    return VV_OK;
}

static vv_status read_price(vv_price *out, const vvi_yaml *node)
{
    price_settings settings = {0};
    vv_str text = {0};
    vv_status status;
    if (node->kind != VVI_YAML_MAP)
        return vv_fail(VV_EFORMAT, "an entry is `{name: ..., usd_per_hour: ...}`");
    VV_TRY(vv_opts_init(&desc, &settings));
    if (!vvi_yaml_get(node, "name") || !vvi_yaml_get(node, "usd_per_hour"))
        VV_GO(vv_fail(VV_EINVAL, "an entry needs `name` and `usd_per_hour`"));
    for (int i = 0; i < node->count; i++) {
        vv_str_clear(&text);
        VV_GO(vvi_yaml_flat(node->items[i], &text));
        VV_GO(vv_opts_set(&desc, &settings, node->keys[i], vv_str_text(&text)));
    }
    if (!(settings.usd_per_hour > 0.0))
        VV_GO(vv_fail(VV_EINVAL, "%s: usd_per_hour must be above 0", settings.name));
    status = copy_price(out, &settings);
out:
    vv_str_fini(&text);
    vv_opts_fini(&desc, &settings);
    return status;
}

static vv_status read_tree(vv_price_list *out, const vvi_yaml *root)
{
    const vvi_yaml *prices = vvi_yaml_get(root, "prices");
    if (!prices || prices->kind != VVI_YAML_LIST)
        return vv_fail(VV_EFORMAT, "%s: a price table is a list of entries below `prices:`",
                       out->origin);
    VV_TRY(vv_alloc_array(&out->items, (size_t)prices->count, sizeof *out->items));
    for (int i = 0; i < prices->count; i++) {
        out->count = i + 1;
        VV_TRY(vv_fail_within(read_price(&out->items[i], prices->items[i]), "%s:%d", out->origin,
                              prices->items[i]->line));
        for (int j = 0; j < i; j++)
            if (strcmp(out->items[i].name, out->items[j].name) == 0)
                return vv_fail(VV_EINVAL, "%s:%d: %s is there twice", out->origin,
                               prices->items[i]->line, out->items[i].name);
    }
    return VV_OK;
}

static vv_status read_builtin(vv_str *out)
{
    for (size_t i = 0; i < sizeof builtin_lines / sizeof *builtin_lines; i++) {
        vv_str_add(out, builtin_lines[i]);
        vv_str_add(out, "\n");
    }
    return vv_str_status(out);
}

vv_status vv_prices_read(vv_price_list *out, const char *path)
{
    *out = (vv_price_list){0};
    vvi_yaml *root = NULL;
    char *file = NULL;
    size_t length = 0;
    vv_str text = {0};
    vv_status status;
    if (!path)
        path = getenv("VIVACE_PRICES");
    if ((!path || !path[0]) && vvi_exists("prices.yaml"))
        path = "prices.yaml";
    if (path && path[0]) {
        VV_GO(vv_strdup(&out->origin, path));
        VV_GO(vv_fail_within(vvi_file_read_all(&file, &length, path), "price table"));
        VV_GO(vvi_yaml_parse(&root, file, length, path));
    } else {
        VV_GO(vv_strdup(&out->origin, builtin_name));
        VV_GO(read_builtin(&text));
        VV_GO(vvi_yaml_parse(&root, vv_str_text(&text), text.length, builtin_name));
    }
    status = read_tree(out, root);
out:
    vvi_yaml_free(root);
    vv_dealloc(file);
    vv_str_fini(&text);
    return status;
}

void vv_prices_fini(vv_price_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const vv_price *p = &list->items[i];
        char *const texts[] = {p->name, p->accelerator, p->region, p->kind, p->date, p->source};
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
            vv_dealloc(texts[j]);
    }
    vv_dealloc(list->items);
    vv_dealloc(list->origin);
    *list = (vv_price_list){0};
}

static const char *name_at(const void *ctx, int i)
{
    return ((const vv_price_list *)ctx)->items[i].name;
}

vv_status vv_price_find(const vv_price **out, const vv_price_list *list, const char *name)
{
    *out = NULL;
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0) {
            *out = &list->items[i];
            return VV_OK;
        }
    int near = vv_nearest(name, name_at, list, list->count);
    if (near >= 0)
        return vv_fail(VV_ENOTFOUND, "'%s' is not in %s; did you mean '%s'?", name, list->origin,
                       list->items[near].name);
    return vv_fail(VV_ENOTFOUND,
                   "'%s' is not in %s; add it to a prices.yaml, or give usd_per_hour", name,
                   list->origin);
}
