/* outline.c - a model layer by layer: shapes of outputs, parameters, multiply-adds. */
#include <vivace/outline.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/ext/inspect.h>
#include <vivace/memory.h>

typedef struct listing {
    vv_outline *outline;
    vv_module **modules; /* of the rows */
    size_t text_bytes;
    vv_status status;
} listing;

/* ---- rows ---- */

static bool count_module(void *ctx, const char *path, vv_module *module)
{
    listing *l = ctx;
    (void)module;
    l->outline->count++;
    l->text_bytes += strlen(path) + 1;
    return true;
}

static bool add_row(void *ctx, const char *path, vv_module *module)
{
    listing *l = ctx;
    vv_outline *o = l->outline;
    char *copy = o->text + l->text_bytes;
    vv_outline_row row = {.path = copy, .type = vv_module_type(module)->name, .ndim = -1};
    memcpy(copy, path, strlen(path) + 1);
    l->text_bytes += strlen(path) + 1;
    row.level = path[0] != '\0';
    for (const char *c = path; *c; c++)
        row.level += *c == '.';
    row.params = vv_module_param_count(module);
    l->modules[o->count] = module;
    o->rows[o->count++] = row;
    return true;
}

static vv_status list_modules(listing *l, vv_module *net)
{
    vv_outline *o = l->outline;
    vv_module_each(net, count_module, l);
    VV_TRY(vv_alloc_array(&o->rows, (size_t)o->count, sizeof *o->rows));
    VV_TRY(vv_alloc_array(&l->modules, (size_t)o->count, sizeof(vv_module *)));
    VV_TRY(vv_alloc(&o->text, l->text_bytes));
    o->count = 0;
    l->text_bytes = 0;
    vv_module_each(net, add_row, l);
    return VV_OK;
}

/* ---- outputs and arithmetic ---- */

static void see_output(void *ctx, vv_module *module, vv_graph *graph, vv_node *output)
{
    listing *l = ctx;
    (void)graph;
    for (int i = 0; i < l->outline->count; i++) {
        vv_outline_row *row = &l->outline->rows[i];
        if (l->modules[i] != module)
            continue;
        row->ndim = vv_node_ndim(output) > 0 ? vv_node_ndim(output) - 1 : 0;
        for (int k = 0; k < row->ndim; k++)
            row->shape[k] = vv_node_shape(output)[k + 1];
        return;
    }
}

/* The row of a scope ("layer1/0/conv1", `length` characters), or of the nearest module above that
   has one. */
static const vv_outline_row *row_at(const vv_outline *o, const char *scope, size_t length)
{
    while (length > 0) {
        for (int i = 0; i < o->count; i++) {
            const char *path = o->rows[i].path;
            size_t n = 0;
            while (n < length && path[n] && path[n] == (scope[n] == '/' ? '.' : scope[n]))
                n++;
            if (n == length && !path[n])
                return &o->rows[i];
        }
        while (length > 0 && scope[length - 1] != '/')
            length--;
        length -= length > 0;
    }
    return &o->rows[0];
}

/* A node's name is its scope, a colon and its op. */
static bool add_work(void *ctx, vv_node *node)
{
    listing *l = ctx;
    const int64_t work = vv_node_flops(node) / 2;
    if (!work)
        return true;
    const char *name = vv_node_name(node), *colon = strrchr(name, ':');
    const vv_outline_row *row = row_at(l->outline, name, colon ? (size_t)(colon - name) : 0);
    for (int i = 0; i < l->outline->count; i++) {
        vv_outline_row *r = &l->outline->rows[i];
        const size_t n = strlen(r->path);
        if (n == 0 || (strncmp(r->path, row->path, n) == 0 &&
                       (row->path[n] == '\0' || row->path[n] == '.')))
            r->multiply_adds += work;
    }
    return true;
}

static vv_status build_forward(listing *l, vv_model *model, const vv_sample_spec *input)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const vv_dtype dtype = input->input_dtype != VV_U8 ? VV_I32 : VV_F32;
    int64_t shape[VV_MAX_DIMS] = {1};
    vv_graph *graph = NULL;
    vv_status status;
    if (input->input_ndim + 1 > VV_MAX_DIMS)
        return vv_fail(VV_EINVAL, "outline: samples have too many dimensions");
    for (int i = 0; i < input->input_ndim; i++)
        shape[i + 1] = input->input_shape[i];
    VV_GO(vv_graph_new(&graph, &opts));
    vv_module_set_training(model->net, false);
    vv_module_observe(model->net, see_output, l);
    (void)vv_module_forward(model->net, graph,
                            vv_zeros(graph, dtype, input->input_ndim + 1, shape));
    vv_module_observe(model->net, NULL, NULL);
    VV_GO(vv_graph_status(graph));
    vv_graph_each_node(graph, add_work, l);
out:
    vv_graph_free(graph);
    return status;
}

vv_status vv_outline_make(vv_outline *out, vv_model *model, const vv_sample_spec *input)
{
    listing l = {.outline = out};
    vv_status status;
    *out = (vv_outline){0};
    if (!model || !input)
        return vv_fail(VV_EINVAL, "outline: no %s given", model ? "description of data" : "model");
    VV_GO(list_modules(&l, model->net));
    VV_GO(build_forward(&l, model, input));
out:
    vv_dealloc(l.modules);
    if (status != VV_OK)
        vv_outline_fini(out);
    return status;
}

void vv_outline_fini(vv_outline *outline)
{
    vv_dealloc(outline->rows);
    vv_dealloc(outline->text);
    *outline = (vv_outline){0};
}

/* ---- data that are not there ---- */

static vv_status parse_count(int64_t *out, const char *key, const char **at)
{
    char *end;
    errno = 0;
    const long long value = strtoll(*at, &end, 10);
    if (end == *at || errno || value < 1 || value > 100000000)
        return vv_fail(VV_EINVAL, "%s: \"%s\" is no number from 1 to 100000000", key, *at);
    *at = end;
    *out = value;
    return VV_OK;
}

static vv_status parse_image(vv_sample_spec *spec, const char **at)
{
    VV_TRY(parse_count(&spec->input_shape[0], "image", at));
    spec->input_shape[1] = spec->input_shape[0];
    if (**at == 'x') {
        ++*at;
        VV_TRY(parse_count(&spec->input_shape[1], "image", at));
    }
    if (spec->input_ndim != 3)
        spec->input_shape[2] = 3;
    spec->input_ndim = 3;
    spec->input_dtype = VV_U8;
    spec->target_ndim = 0;
    spec->tokens = 0;
    return VV_OK;
}

static vv_status parse_tokens(vv_sample_spec *spec, const char **at)
{
    VV_TRY(parse_count(&spec->tokens, "tokens", at));
    spec->input_ndim = spec->target_ndim = 1;
    spec->input_shape[0] = spec->target_shape[0] = spec->tokens;
    spec->input_dtype = VV_I32;
    return VV_OK;
}

static const char *after(const char *at, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(at, key, n) == 0 && at[n] == '=' ? at + n + 1 : NULL;
}

vv_status vv_sample_spec_parse(vv_sample_spec *spec, const char *text)
{
    spec->target_dtype = VV_I32;
    for (const char *at = text; at && *at;) {
        const char *value;
        if ((value = after(at, "image"))) {
            VV_TRY(parse_image(spec, &value));
        } else if ((value = after(at, "tokens"))) {
            VV_TRY(parse_tokens(spec, &value));
        } else if ((value = after(at, "channels"))) {
            VV_TRY(parse_count(&spec->input_shape[2], "channels", &value));
        } else if ((value = after(at, "classes"))) {
            VV_TRY(parse_count(&spec->classes, "classes", &value));
        } else {
            return vv_fail(VV_EINVAL, "\"%s\": image=HEIGHTxWIDTH, channels=, classes= and tokens= "
                                      "tell what data are like", at);
        }
        if (*value && *value != ',')
            return vv_fail(VV_EINVAL, "\"%s\": what is \"%s\"? Image sizes are like 224 or 224x192",
                           text, value);
        at = *value ? value + 1 : value;
    }
    spec->vocabulary = spec->tokens ? spec->classes : 0;
    return VV_OK;
}

/* Targets that models may ask for. Images: a class, a mask, boxes; tokens: a class of each, or one
   of all. */
enum { FORMS = 3, BOXES = 16 };

static void set_target(vv_sample_spec *spec, int form)
{
    const bool image = spec->input_ndim == 3;
    spec->target_dtype = image && form == 2 ? VV_F32 : VV_I32;
    spec->target_ndim = image ? (form ? 2 : 0) : form == 0;
    if (!image || !form)
        return;
    spec->target_shape[0] = form == 2 ? BOXES : spec->input_shape[0];
    spec->target_shape[1] = form == 2 ? 6 : spec->input_shape[1];
}

vv_status vv_outline_build(vv_model **out, const vv_model_desc *desc, const void *opts,
                           vv_sample_spec *spec)
{
    *out = NULL;
    for (int form = 0; form < FORMS; form++) {
        set_target(spec, form);
        if (vv_model_build(out, desc, opts, spec, 17) == VV_OK)
            return VV_OK;
    }
    set_target(spec, 0); /* for its sentence */
    return vv_model_build(out, desc, opts, spec, 17);
}
