/* describe_model.c - `vivace describe model NAME`: the model as a tree, with outputs, parameters
 * and multiply-adds. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/outline.h>

typedef struct request {
    const vv_model_desc *desc;
    void *opts;
    vv_sample_spec spec;
    long levels; /* printed; -1 = all */
    bool json;
} request;

static bool is_key(const char *setting, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(setting, key, n) == 0 && setting[n] == '=';
}

static vv_status take_setting(request *r, const char *setting)
{
    static const char *const about_data[] = {"image", "channels", "classes", "tokens"};
    char *end;
    for (size_t i = 0; i < sizeof about_data / sizeof about_data[0]; i++)
        if (is_key(setting, about_data[i]))
            return vv_sample_spec_parse(&r->spec, setting);
    if (is_key(setting, "format")) {
        r->json = strcmp(setting, "format=json") == 0;
        if (!r->json && strcmp(setting, "format=text") != 0)
            return vv_fail(VV_EINVAL, "%s: format is text or json", setting);
        return VV_OK;
    }
    if (is_key(setting, "tree_levels")) {
        r->levels = strtol(setting + 12, &end, 10);
        if (end == setting + 12 || *end || r->levels < 0)
            return vv_fail(VV_EINVAL, "%s: tree_levels is a number from 0", setting);
        return VV_OK;
    }
    return vv_opts_set_all(&r->desc->desc, r->opts, setting);
}

/* ---- text ---- */

static void add_grouped(vv_str *out, int64_t number)
{
    char digits[32];
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            vv_str_add(out, ",");
        vv_str_addn(out, digits + i, 1);
    }
}

static void add_amount(vv_str *out, int64_t number)
{
    static const char units[] = " KMGT";
    double amount = (double)number;
    int unit = 0;
    for (; amount >= 1000.0 && unit < 4; unit++)
        amount /= 1000.0;
    vv_str_addf(out, unit ? "%.3g %c" : "%.3g", amount, units[unit]);
}

static void add_shape(vv_str *out, int ndim, const int64_t *shape, const char *between)
{
    for (int i = 0; i < ndim; i++)
        vv_str_addf(out, "%s%lld", i ? between : "", (long long)shape[i]);
}

/* A cell of `width` characters; right = numbers. */
static void add_cell(vv_str *line, const vv_str *cell, int width, bool right)
{
    vv_str_addf(line, right ? "%*s" : "%-*s", width, vv_str_text(cell));
}

static void print_row(const vv_outline_row *row)
{
    const char *dot = strrchr(row->path, '.'), *name = dot ? dot + 1 : row->path;
    vv_str line = {0}, cell = {0};
    vv_str_addf(&cell, "%*s%s", 2 * row->level, "", row->level ? name : row->type);
    add_cell(&line, &cell, 34, false);
    vv_str_addf(&line, " %-20s ", row->level ? row->type : "");
    vv_str_clear(&cell);
    if (row->ndim >= 0)
        add_shape(&cell, row->ndim, row->shape, "x");
    add_cell(&line, &cell, 16, false);
    vv_str_clear(&cell);
    if (row->params)
        add_grouped(&cell, row->params);
    add_cell(&line, &cell, 14, true);
    vv_str_clear(&cell);
    if (row->multiply_adds)
        add_amount(&cell, row->multiply_adds);
    add_cell(&line, &cell, 15, true);
    while (line.length && line.text[line.length - 1] == ' ')
        line.text[--line.length] = '\0';
    puts(vv_str_text(&line));
    vv_str_fini(&line);
    vv_str_fini(&cell);
}

static void print_text(const request *r, const vv_outline *outline)
{
    const vv_outline_row *net = &outline->rows[0];
    const vv_sample_spec *spec = &r->spec;
    char bytes[24];
    vv_str text = {0};
    add_shape(&text, spec->input_ndim, spec->input_shape, "x");
    vv_str_addf(&text, " %s, %lld classes", spec->tokens ? "tokens" : "pixels",
                (long long)spec->classes);
    printf("\nfor one sample of %s:\n", vv_str_text(&text));
    printf("%-34s %-20s %-16s%14s%15s\n", "layer", "type", "output", "parameters",
           "multiply-adds");
    for (int i = 0; i < outline->count; i++)
        if (r->levels < 0 || outline->rows[i].level <= r->levels)
            print_row(&outline->rows[i]);
    vv_str_clear(&text);
    vv_str_add(&text, "total: ");
    add_grouped(&text, net->params);
    vv_str_addf(&text, " parameters (%s in fp32), ",
                vv_bytes_text((size_t)net->params * 4, bytes, sizeof bytes));
    add_amount(&text, net->multiply_adds);
    vv_str_add(&text, " multiply-adds forward");
    puts(vv_str_text(&text));
    vv_str_fini(&text);
}

/* ---- JSON ---- */

static void add_json_row(vv_str *out, const vv_outline_row *row)
{
    vv_str_add(out, "{\"path\": ");
    vv_str_add_json(out, row->path);
    vv_str_add(out, ", \"type\": ");
    vv_str_add_json(out, row->type);
    if (row->ndim >= 0) {
        vv_str_add(out, ", \"output\": [");
        add_shape(out, row->ndim, row->shape, ", ");
        vv_str_add(out, "]");
    }
    vv_str_addf(out, ", \"parameters\": %lld, \"multiply_adds\": %lld}", (long long)row->params,
                (long long)row->multiply_adds);
}

static int print_json(const request *r, const vv_outline *outline)
{
    const vv_outline_row *net = &outline->rows[0];
    vv_str out = {0};
    int code = CLI_DONE;
    vv_str_add(&out, "{\"model\": ");
    vv_str_add_json(&out, r->desc->desc.name);
    vv_str_add(&out, ", \"input\": [");
    add_shape(&out, r->spec.input_ndim, r->spec.input_shape, ", ");
    vv_str_addf(&out, "], \"classes\": %lld, \"parameters\": %lld, \"bytes_fp32\": %lld, "
                      "\"multiply_adds\": %lld,\n \"layers\": [",
                (long long)r->spec.classes, (long long)net->params, (long long)net->params * 4,
                (long long)net->multiply_adds);
    for (int i = 0, n = 0; i < outline->count; i++)
        if (r->levels < 0 || outline->rows[i].level <= r->levels) {
            vv_str_add(&out, n++ ? ",\n  " : "\n  ");
            add_json_row(&out, &outline->rows[i]);
        }
    vv_str_add(&out, "]}");
    if (vv_str_status(&out) == VV_OK)
        puts(vv_str_text(&out));
    else
        code = cli_fail();
    vv_str_fini(&out);
    return code;
}

/* ---- the verb ---- */

int cli_describe_model(const vv_desc *desc, const char *const *settings, int count)
{
    request r = {.desc = (const vv_model_desc *)(const void *)desc, .levels = -1};
    vv_outline outline = {0};
    vv_model *model = NULL;
    bool filled = false;
    vv_status status = VV_OK;
    int code = CLI_DONE;
    VV_GO(vv_alloc(&r.opts, desc->opts_size + 1));
    VV_GO(vv_opts_init(desc, r.opts));
    filled = true;
    VV_GO(vv_sample_spec_parse(&r.spec, r.desc->typical ? r.desc->typical
                                                        : "image=224,classes=1000"));
    for (int i = 0; i < count; i++)
        VV_GO(take_setting(&r, settings[i]));
    VV_GO(vv_outline_build(&model, r.desc, r.opts, &r.spec));
    VV_GO(vv_outline_make(&outline, model, &r.spec));
    if (r.json)
        code = print_json(&r, &outline);
    else
        print_text(&r, &outline);
out:
    if (filled)
        vv_opts_fini(desc, r.opts);
    vv_dealloc(r.opts);
    vv_outline_fini(&outline);
    vv_model_free(model);
    return status == VV_OK ? code : cli_fail();
}

bool cli_describe_as_json(const char *const *settings, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(settings[i], "format=json") == 0)
            return true;
    return false;
}
