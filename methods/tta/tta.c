/* tta.c - views, their average, the gate, the method. */
#include "tta.h"

#include <stdlib.h>

#include <vivace/memory.h>

static const vv_tta_opts defaults = VV_TTA_DEFAULTS;

/* ---- views ---- */

/* Lines of `axis` in the order `from`: reflected at the ends, mirrored if asked. */
static vv_node *lines(vv_node *x, int axis, int64_t shift, bool mirror)
{
    if (!x || (shift == 0 && !mirror))
        return x;
    vv_graph *graph = vv_node_graph(x);
    const int64_t size = vv_node_shape(x)[axis];
    int32_t *from = NULL;
    const vv_status status = vv_alloc_array(&from, (size_t)size + 1, sizeof *from);
    if (status != VV_OK)
        return vv_graph_fail(graph, status);
    for (int64_t i = 0; i < size; i++) {
        int64_t at = (mirror ? size - 1 - i : i) - shift;
        at = at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
        from[i] = (int32_t)(at < 0 ? 0 : at);
    }
    vv_node *index = vv_data(graph, VV_I32, 1, &size, from);
    vv_dealloc(from);
    return vv_gather(x, index, axis);
}

vv_node *vv_tta_view(vv_node *x, int64_t dy, int64_t dx, bool mirror)
{
    if (!x)
        return NULL;
    const int64_t *shape = vv_node_shape(x);
    if (vv_node_ndim(x) != 4 || llabs(dy) >= shape[1] || llabs(dx) >= shape[2])
        return vv_graph_fail(vv_node_graph(x),
                             vv_fail(VV_ESHAPE, "tta: a shift by %lld and %lld pixels needs larger "
                                                "images [N,H,W,C]",
                                     (long long)dy, (long long)dx));
    return lines(lines(x, 1, dy, false), 2, dx, mirror);
}

vv_node *vv_tta_forward(vv_module *net, vv_graph *graph, vv_node *x, vv_node *own,
                        const vv_tta_opts *opts)
{
    const vv_tta_opts *o = opts ? opts : &defaults;
    const bool shifts = o->views == VV_TTA_FLIP_TRANSLATE;
    if (!own)
        own = vv_module_forward(net, graph, x);
    vv_node *mirrored = vv_module_forward(net, graph, vv_tta_view(x, 0, 0, true));
    vv_node *mean = vv_affine(vv_add(own, mirrored), shifts ? 0.25 : 0.5, 0.0);
    for (int64_t d = -1; d <= 1 && shifts; d += 2)
        for (int mirror = 0; mirror < 2; mirror++) {
            vv_node *y = vv_module_forward(net, graph, vv_tta_view(x, d, d, mirror));
            mean = vv_add(mean, vv_affine(y, 0.125, 0.0));
        }
    return mean;
}

/* ---- the gate ---- */

/* Rows that are unsure, in `rows`; for each row, in `source`, where its logits will lie: its own
   place, or behind them all. */
static int64_t unsure(const vv_tensor *top, double confidence, int32_t *rows, int32_t *source)
{
    int64_t count = 0;
    for (int64_t i = 0; i < top->count; i++) {
        source[i] = (int32_t)i;
        if (vv_tensor_get(top, i) < confidence) {
            source[i] = (int32_t)(top->count + count);
            rows[count++] = (int32_t)i;
        }
    }
    return count;
}

/* Numbers of rows are rounded up to a multiple, so that few plans are made. */
#define ROWS_STEP 16

vv_status vv_tta_gated(vv_node **out, vv_module *net, vv_graph *graph, vv_node *x, vv_node *own,
                       const vv_tta_opts *opts, int64_t *again)
{
    const vv_tta_opts *o = opts ? opts : &defaults;
    const int last[] = {-1};
    vv_status status = VV_OK;
    const vv_tensor *top;
    int32_t *rows = NULL, *source = NULL;
    *out = own;
    VV_TRY(vv_graph_status(graph));
    if (vv_node_ndim(own) != 2)
        return vv_fail(VV_ESHAPE, "tta: the model gives %d axes; logits [N,classes] are needed",
                       vv_node_ndim(own));
    VV_TRY(vv_node_value(vv_max(vv_softmax(own), last, 1, false), &top));
    const size_t room = (size_t)top->count + ROWS_STEP;
    VV_GO(vv_alloc_array(&rows, room, sizeof *rows));
    VV_GO(vv_alloc_array(&source, room, sizeof *source));
    const int64_t count = unsure(top, o->confidence, rows, source), all = top->count;
    if (again)
        *again = count;
    if (count == 0)
        goto out;
    int64_t padded = (count + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP;
    padded = padded < all ? padded : all;
    for (int64_t i = count; i < padded; i++)
        rows[i] = rows[count - 1];
    vv_node *index = vv_data(graph, VV_I32, 1, &padded, rows);
    vv_node *mean = vv_tta_forward(net, graph, vv_gather(x, index, 0), vv_gather(own, index, 0), o);
    vv_node *const both[2] = {own, mean};
    *out = vv_gather(vv_concat(both, 2, 0), vv_data(graph, VV_I32, 1, &all, source), 0);
    status = vv_graph_status(graph);
out:
    vv_dealloc(rows);
    vv_dealloc(source);
    return status;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_tta_opts *o = method->opts;
    vv_module *net = state->model->net;
    (void)event;
    method->effect++;
    if (o->confidence < 1.0)
        return vv_tta_gated(&state->output, net, state->graph, state->input, state->output, o,
                            NULL);
    state->output = vv_tta_forward(net, state->graph, state->input, state->output, o);
    return vv_graph_status(state->graph);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_tta_opts *o = method->opts;
    if (state->input_spec.input_ndim != 3)
        return vv_fail(VV_EINVAL, "needs images [H,W,C]; these samples have %d axes",
                       state->input_spec.input_ndim);
    VV_TRY(vv_sample_spec_check_movable(&state->input_spec));
    vv_str_addf(line, "evaluation averages the logits of %d views",
                o->views == VV_TTA_FLIP ? 2 : 6);
    if (o->confidence < 1.0)
        vv_str_addf(line, " of images with a largest probability below %g", o->confidence);
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_tta_opts, member)
static const char *const views[] = {"flip", "flip_translate", NULL};
static const vv_field fields[] = {
    {"views", "flip: two; flip_translate: six, with shifts by one pixel.", VV_FIELD_CHOICE,
     AT(views), "flip_translate", 0, 0, views},
    {"confidence", "Images whose largest probability is at least this keep their own logits; 1 = "
                   "none do.",
     VV_FIELD_FLOAT, AT(confidence), "1", 0, 1, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_tta = {
    .desc = {.kind = "method",
             .name = "tta",
             .summary = "Averages the logits of several views of each image in evaluation.",
             .cite = "Jordan, 94% on CIFAR-10 in 3.29 Seconds on a Single GPU (arXiv 2404.00498)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_tta_opts)},
    .phase = VV_PHASE_AUGMENT,
    .events = VV_EVENT_BIT(VV_EVENT_EVAL_AFTER_FORWARD) |
              VV_EVENT_BIT(VV_EVENT_PREDICT_AFTER_FORWARD),
    .apply = apply,
    .plan = plan,
};

vv_method *vv_tta(const vv_tta_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_tta, opts) == VV_OK ? method : NULL;
}
