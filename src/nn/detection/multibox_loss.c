/* multibox_loss.c - SSD's loss of each image (Liu et al., arXiv 1512.02325, section 2.2).
 *
 * Which default box stands for which box follows from the target alone and is found outside the
 * graph; which of the others are hard depends on the output and is found inside. */
#include <vivace/detection.h>

#include <math.h>

#include <vivace/memory.h>

#include "graph/node.h"

/* What the matching says, for the graph. */
typedef struct matched {
    int32_t *classes; /* [N,B], 0 = background */
    float *offsets;   /* [N,B,4] */
    uint8_t *stands;  /* [N,B]: for a box */
    int32_t *counted; /* [N]: default boxes in the loss of classes */
    float *share;     /* [N]: 1 / those that stand for a box; 0 */
    int32_t *match;   /* [B] scratch */
} matched;

static void matched_fini(matched *m)
{
    vv_dealloc(m->classes);
    vv_dealloc(m->offsets);
    vv_dealloc(m->stands);
    vv_dealloc(m->counted);
    vv_dealloc(m->share);
    vv_dealloc(m->match);
    *m = (matched){NULL};
}

static vv_status matched_init(matched *m, int64_t images, int64_t boxes)
{
    vv_status status = VV_OK;
    size_t all;
    VV_TRY(vv_size_mul(&all, (size_t)images, (size_t)boxes));
    VV_GO(vv_alloc_array(&m->classes, all, sizeof *m->classes));
    VV_GO(vv_alloc_array(&m->offsets, all, 4 * sizeof *m->offsets));
    VV_GO(vv_alloc_array(&m->stands, all, sizeof *m->stands));
    VV_GO(vv_alloc_array(&m->counted, (size_t)images, sizeof *m->counted));
    VV_GO(vv_alloc_array(&m->share, (size_t)images, sizeof *m->share));
    VV_GO(vv_alloc_array(&m->match, (size_t)boxes, sizeof *m->match));
    return VV_OK;
out:
    matched_fini(m);
    return status;
}

static vv_status match_image(const matched *m, int64_t image, const float *priors, int64_t boxes,
                             const float *target, int64_t rows, const vv_multibox_opts *o)
{
    int64_t stands = 0;
    VV_TRY(vv_boxes_match(m->match, priors, boxes, target, rows, o->overlap));
    for (int64_t i = 0; i < boxes; i++) {
        const int64_t at = image * boxes + i;
        m->stands[at] = m->match[i] >= 0;
        m->classes[at] = 0;
        if (m->match[i] < 0)
            continue;
        const float *row = target + m->match[i] * VV_TARGET_COLUMNS;
        m->classes[at] = (int32_t)lrintf(row[VV_TARGET_CLASS]);
        vv_box_encode(m->offsets + 4 * at, row, priors + 4 * i);
        stands++;
    }
    const double counted = (double)stands + floor((double)stands * o->negatives);
    m->counted[image] = (int32_t)fmin(counted, (double)boxes);
    m->share[image] = stands ? 1.0f / (float)stands : 0.0f;
    return VV_OK;
}

/* Loss per image from output and what was matched. */
static vv_node *image_losses(vv_node *output, const matched *m)
{
    vv_graph *g = vv_node_graph(output);
    const int64_t *shape = vv_node_shape(output);
    const int64_t boxes[3] = {shape[0], shape[1], 4};
    vv_node *offsets = vv_cast(vv_slice(output, 2, 0, 4, 1), VV_F32);
    vv_node *logits = vv_cast(vv_slice(output, 2, 4, shape[2], 1), VV_F32);
    vv_node *classes = vv_data(g, VV_I32, 2, boxes, m->classes);
    vv_node *stands = vv_data(g, VV_BOOL, 2, boxes, m->stands);
    vv_node *zero = vv_full(g, VV_F32, 0, NULL, 0.0),
            *first = vv_full(g, VV_F32, 0, NULL, HUGE_VAL);

    vv_node *off = vv_smooth_l1(offsets, vv_data(g, VV_F32, 3, boxes, m->offsets), 1.0);
    off = vv_where(stands, vv_sum(off, (const int[]){2}, 1, false), zero);
    vv_node *entropy = vv_cross_entropy(logits, classes, NULL, -1);
    vv_node *hard = vv_largest(vv_where(stands, first, vv_stop_gradient(entropy)),
                               vv_data(g, VV_I32, 1, boxes, m->counted));
    vv_node *both = vv_add(off, vv_where(hard, entropy, zero));
    return vv_mul(vv_sum(both, (const int[]){1}, 1, false),
                  vv_data(g, VV_F32, 1, boxes, m->share));
}

static bool fits(vv_node *output, vv_node *target)
{
    char have[96], want[96];
    const int64_t *o = vv_node_shape(output), *t = vv_node_shape(target);
    if (vv_node_ndim(output) == 3 && vv_node_ndim(target) == 3 && o[0] == t[0] && o[2] > 4 &&
        t[2] == VV_TARGET_COLUMNS && vv_node_dtype(target) == VV_F32)
        return true;
    vvi_node_fail(vv_node_graph(output), VV_ESHAPE,
                  "multibox_loss: target %s of %s does not fit output %s; [N,M,6] of f32 and "
                  "[N,B,4 + classes] are needed",
                  vv_shape_text(vv_node_ndim(target), t, want, sizeof want),
                  vv_dtype_name(vv_node_dtype(target)),
                  vv_shape_text(vv_node_ndim(output), o, have, sizeof have));
    return false;
}

vv_node *vv_multibox_loss(vv_node *output, vv_node *target, const float *priors,
                          const vv_multibox_opts *opts)
{
    const vv_multibox_opts defaults = VV_MULTIBOX_DEFAULTS;
    if (!output || !target || !fits(output, target))
        return NULL;
    const int64_t images = vv_node_shape(output)[0], boxes = vv_node_shape(output)[1];
    const int64_t rows = vv_node_shape(target)[1];
    const vv_tensor *value = NULL;
    vv_node *items = NULL;
    matched m = {NULL};
    vv_status status = VV_OK;
    VV_GO(vv_node_value(target, &value));
    VV_GO(matched_init(&m, images, boxes));
    for (int64_t n = 0; n < images; n++)
        VV_GO(match_image(&m, n, priors, boxes,
                          (const float *)value->data + n * rows * VV_TARGET_COLUMNS, rows,
                          opts ? opts : &defaults));
    items = image_losses(output, &m);
out:
    matched_fini(&m);
    return status == VV_OK ? items : vv_graph_fail(vv_node_graph(output), status);
}

/* ---- as the loss of a model ---- */

static vv_node *items(const vv_model *model, vv_node *output, vv_node *target)
{
    const vv_detector *detector = vv_module_detector(model->net);
    if (!output || !target)
        return NULL;
    const int64_t boxes = vv_node_ndim(output) == 3 ? vv_node_shape(output)[1] : 0;
    const float *priors = detector ? detector->priors(model->net, boxes, NULL) : NULL;
    if (!priors)
        return vvi_node_fail(vv_node_graph(output), VV_ESTATE,
                             "multibox_loss: the net has no default boxes for an output of %lld",
                             (long long)boxes);
    return vv_multibox_loss(output, target, priors, model->loss_opts);
}

static bool is_whole_box(const float *row)
{
    return row[0] < row[2] && row[1] < row[3] && row[0] >= -1.0f && row[1] >= -1.0f &&
           row[2] <= 2.0f && row[3] <= 2.0f; /* NaN: false */
}

static vv_status check(const vv_model *model, const vv_tensor *target)
{
    if (target->dtype != VV_F32 || target->ndim != 3 || target->shape[2] != VV_TARGET_COLUMNS)
        return vv_fail(VV_ESHAPE, "the targets of a detector are f32 [N,M,6]; these have %d "
                                  "dimensions of %s", target->ndim, vv_dtype_name(target->dtype));
    const int64_t rows = target->shape[1];
    for (int64_t i = 0; i < target->shape[0] * rows; i++) {
        const float *row = (const float *)target->data + i * VV_TARGET_COLUMNS;
        const double label = (double)row[VV_TARGET_CLASS];
        if (label < 0.5)
            continue;
        if (label != floor(label) || !(label < (double)model->classes))
            return vv_fail(VV_EINVAL,
                           "box %lld of row %lld has class %g, classes are 1..%lld; check the "
                           "annotations or the number of classes",
                           (long long)(i % rows), (long long)(i / rows), label,
                           (long long)(model->classes - 1));
        if (!is_whole_box(row))
            return vv_fail(VV_EINVAL,
                           "box %lld of row %lld is {%g, %g, %g, %g}; a box is {x0, y0, x1, y1} in "
                           "shares of the image, with x0 < x1 and y0 < y1",
                           (long long)(i % rows), (long long)(i / rows), (double)row[0],
                           (double)row[1], (double)row[2], (double)row[3]);
    }
    return VV_OK;
}

static int64_t count(const vv_model *model, const vv_tensor *target)
{
    (void)model;
    return target->ndim > 0 ? target->shape[0] : 0;
}

const vv_loss_class vv_multibox_loss_class = {
    .name = "multibox",
    .items = items,
    .check = check,
    .count = count,
    .indices_only = true,
};
