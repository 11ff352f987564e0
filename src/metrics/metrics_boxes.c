/* metrics_boxes.c - metrics of detectors: average precision and recall of COCO's evaluation.
 *
 * Ranking needs every found box at once, so the tally's values hold, image after image: how many
 * boxes there are and how many were found, then six numbers each. */
#include <math.h>

#include <vivace/detection.h>
#include <vivace/memory.h>

#include "metrics/coco_ap.h"
#include "metrics/metric_impl.h"

enum { NUMBERS = 6 }; /* of a box: edges in pixels, then class and crowd, or score and class */

#define EVERY {0.0, 1e10}
#define SMALL {0.0, 1024.0}
#define MEDIUM {1024.0, 9216.0}
#define LARGE {9216.0, 1e10}

static const struct {
    const vv_metric_desc *type;
    vvi_coco_opts opts;
} kinds[] = {
    {&vvi_metric_map, {0.0, EVERY, 100, false}},
    {&vvi_metric_map50, {0.5, EVERY, 100, false}},
    {&vvi_metric_map75, {0.75, EVERY, 100, false}},
    {&vvi_metric_map_small, {0.0, SMALL, 100, false}},
    {&vvi_metric_map_medium, {0.0, MEDIUM, 100, false}},
    {&vvi_metric_map_large, {0.0, LARGE, 100, false}},
    {&vvi_metric_mar1, {0.0, EVERY, 1, true}},
    {&vvi_metric_mar10, {0.0, EVERY, 10, true}},
    {&vvi_metric_mar100, {0.0, EVERY, 100, true}},
};

static vv_status size_boxes(const vv_metric *m, int64_t *sums, int64_t *counts)
{
    *sums = *counts = 0;
    if (m->model->task == VV_TASK_DETECT && vv_module_detector(m->model->net))
        return VV_OK;
    return vv_fail(VV_EINVAL, "metric %s measures boxes, the model finds none; use %s", m->name,
                   m->model->task == VV_TASK_REGRESS ? "mse" : "accuracy or miou");
}

static vv_status build_boxes(const vv_metric *m, vv_node *output, vv_node *target, vv_node **nodes)
{
    const bool fits = vv_node_ndim(target) == 3 && vv_node_dtype(target) == VV_F32 &&
                      vv_node_shape(target)[2] == VV_TARGET_COLUMNS && vv_node_ndim(output) == 3;
    if (!fits)
        return vv_fail(VV_ESHAPE,
                       "metric %s: targets [N,M,6] of f32 and an output [N,B,4 + classes] "
                       "are needed",
                       m->name);
    nodes[0] = vv_cast(output, VV_F32);
    nodes[1] = target;
    return vvi_metric_built(output, nodes, 2);
}

static vv_status push_edges(vv_tally *tally, const float edge[4], const int64_t size[2])
{
    for (int i = 0; i < 4; i++)
        VV_TRY(vvi_tally_push(tally, (double)edge[i] * (double)size[i % 2 ? 0 : 1]));
    return VV_OK;
}

static bool is_there(const float *row)
{
    return row[VV_TARGET_CLASS] >= 0.5f;
}

static vv_status push_image(vv_tally *tally, const float *target, int64_t rows,
                            const vv_detection *found, int64_t founds, const int64_t size[2])
{
    int64_t boxes = 0;
    for (int64_t r = 0; r < rows; r++)
        boxes += is_there(target + r * VV_TARGET_COLUMNS);
    VV_TRY(vvi_tally_push(tally, (double)boxes));
    VV_TRY(vvi_tally_push(tally, (double)founds));
    for (int64_t r = 0; r < rows; r++) {
        const float *row = target + r * VV_TARGET_COLUMNS;
        if (!is_there(row))
            continue;
        VV_TRY(push_edges(tally, row, size));
        VV_TRY(vvi_tally_push(tally, (double)row[VV_TARGET_CLASS]));
        VV_TRY(vvi_tally_push(tally, (double)row[VV_TARGET_CROWD]));
    }
    for (int64_t i = 0; i < founds; i++) {
        VV_TRY(push_edges(tally, found[i].box, size));
        VV_TRY(vvi_tally_push(tally, (double)found[i].score));
        VV_TRY(vvi_tally_push(tally, (double)found[i].label));
    }
    return VV_OK;
}

static vv_status add_boxes(vv_metric *m, const vv_tensor *const *values)
{
    const vv_tensor *output = values[0], *target = values[1];
    const int64_t rows = target->shape[1], before = m->tally.value_count;
    int64_t size[2] = {0, 0};
    vv_status status = VV_OK;
    vv_module_detector(m->model->net)->priors(m->model->net, output->shape[1], size);
    for (int64_t n = 0; n < output->shape[0] && status == VV_OK; n++) {
        const float *image = (const float *)target->data + n * rows * VV_TARGET_COLUMNS;
        vv_detection *found = NULL;
        int64_t founds = 0;
        status = vv_model_detect(&found, &founds, m->model, output, n, NULL);
        if (status == VV_OK)
            status = push_image(&m->tally, image, rows, found, founds, size);
        vv_dealloc(found);
    }
    if (status != VV_OK) /* all of the microbatch or nothing of it */
        m->tally.value_count = before;
    return status;
}

/* ---- the value ---- */

static void read_box(vvi_coco_box *box, const double *v, int64_t image, bool there)
{
    for (int i = 0; i < 4; i++)
        box->edge[i] = v[i];
    box->area = (v[2] - v[0]) * (v[3] - v[1]);
    box->image = image;
    box->score = there ? 0.0 : v[4];
    box->label = (int32_t)(there ? v[4] : v[5]);
    box->crowd = there && v[5] > 0.5;
}

static void count_boxes(const vv_tally *tally, int64_t *truths, int64_t *founds)
{
    const double *v = tally->values, *end = v + tally->value_count;
    *truths = *founds = 0;
    for (; v < end; v += 2 + NUMBERS * (int64_t)(v[0] + v[1])) {
        *truths += (int64_t)v[0];
        *founds += (int64_t)v[1];
    }
}

static void read_boxes(const vv_tally *tally, vvi_coco_box *truth, vvi_coco_box *found)
{
    const double *v = tally->values, *end = v + tally->value_count;
    for (int64_t image = 0; v < end; image++) {
        const int64_t truths = (int64_t)v[0], founds = (int64_t)v[1];
        v += 2;
        for (int64_t i = 0; i < truths; i++, v += NUMBERS)
            read_box(truth++, v, image, true);
        for (int64_t i = 0; i < founds; i++, v += NUMBERS)
            read_box(found++, v, image, false);
    }
}

static vv_status value_boxes(const vv_metric *m, double *out)
{
    vvi_coco_box *truth = NULL, *found = NULL;
    const vvi_coco_opts *opts = &kinds[0].opts;
    int64_t truths, founds;
    vv_status status = VV_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].type == m->type)
            opts = &kinds[i].opts;
    count_boxes(&m->tally, &truths, &founds);
    VV_GO(vv_alloc_array(&truth, (size_t)truths + 1, sizeof *truth));
    VV_GO(vv_alloc_array(&found, (size_t)founds + 1, sizeof *found));
    read_boxes(&m->tally, truth, found);
    VV_GO(vvi_coco_ap(out, truth, truths, found, founds, m->model->classes, opts));
out:
    vv_dealloc(truth);
    vv_dealloc(found);
    return status;
}

/* ---- the table's rows ---- */

static const vv_field no_fields[] = {{.name = NULL}};

#define COCO "Lin et al., Microsoft COCO: Common objects in context, arXiv 1405.0312"
#define ROW(row, text, help)                                                                \
    const vv_metric_desc vvi_metric_##row = {{"metric", text, help, COCO, "cv", no_fields, 0}, \
                                             true, size_boxes, build_boxes, add_boxes, value_boxes}
ROW(map, "map", "Average precision of boxes, mean over IoU .50, .55, ... .95 and classes.");
ROW(map50, "map50", "Average precision of boxes at IoU .50.");
ROW(map75, "map75", "Average precision of boxes at IoU .75.");
ROW(map_small, "map_small", "As map, of boxes under 32x32 pixels of the net's input.");
ROW(map_medium, "map_medium", "As map, of boxes from 32x32 to 96x96 pixels of the net's input.");
ROW(map_large, "map_large", "As map, of boxes over 96x96 pixels of the net's input.");
ROW(mar1, "mar1", "Average recall with one box an image and class, over the IoUs of map.");
ROW(mar10, "mar10", "Average recall with ten boxes an image and class.");
ROW(mar100, "mar100", "Average recall with a hundred boxes an image and class.");
