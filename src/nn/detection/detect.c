/* detect.c - from a detector's output to what it found, and that as JSON. */
#include <vivace/detection.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "nn/module.h"

void vv_module_set_detector(vv_module *module, const vv_detector *detector)
{
    module->detector = detector;
}

const vv_detector *vv_module_detector(const vv_module *module)
{
    return module->detector;
}

typedef struct scored {
    double score;
    int64_t at; /* default box, or place in the list: decides among equals */
    int32_t label;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

/* probability[boxes,classes] of one image; decoded[boxes,4], clipped to the image. */
static void read_output(const float *output, const float *priors, int64_t boxes, int64_t classes,
                        float *probability, float *decoded)
{
    for (int64_t i = 0; i < boxes; i++) {
        const float *row = output + i * (4 + classes), *logits = row + 4;
        float *p = probability + i * classes, *box = decoded + 4 * i;
        double sum = 0.0, top = -HUGE_VAL;
        for (int64_t k = 0; k < classes; k++)
            top = fmax(top, (double)logits[k]);
        for (int64_t k = 0; k < classes; k++)
            sum += exp((double)logits[k] - top);
        for (int64_t k = 0; k < classes; k++)
            p[k] = (float)(exp((double)logits[k] - top) / sum);
        vv_box_decode(box, row, priors + 4 * i);
        for (int k = 0; k < 4; k++)
            box[k] = fminf(fmaxf(box[k], 0.0f), 1.0f);
    }
}

/* Takes out of list[count] (the best first) what overlaps a better one; returns how many stay. */
static int64_t suppress(scored *list, int64_t count, const float *decoded, double overlap)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        bool free = true;
        for (int64_t k = 0; k < kept && free; k++)
            free = vv_box_iou(decoded + 4 * list[i].at, decoded + 4 * list[k].at) <= overlap;
        if (free)
            list[kept++] = list[i];
    }
    return kept;
}

static int64_t limit(int64_t count, int64_t most)
{
    return count < most ? count : most;
}

/* Found things of one class behind list[0..], at most `candidates` before overlaps go. */
static int64_t find_class(scored *list, const float *probability, const float *decoded,
                          int64_t boxes, int64_t classes, int32_t label, const vv_detect_opts *o)
{
    int64_t count = 0;
    for (int64_t i = 0; i < boxes; i++) {
        const float p = probability[i * classes + label];
        if ((double)p > o->min_score)
            list[count++] = (scored){(double)p, i, label};
    }
    qsort(list, (size_t)count, sizeof *list, by_score);
    return suppress(list, limit(count, o->candidates), decoded, o->overlap);
}

static vv_status hand_out(vv_detection **out, const scored *list, int64_t count,
                          const float *decoded)
{
    if (count == 0)
        return VV_OK;
    VV_TRY(vv_alloc_array(out, (size_t)count, sizeof **out));
    for (int64_t i = 0; i < count; i++) {
        memcpy((*out)[i].box, decoded + 4 * list[i].at, sizeof (*out)[i].box);
        (*out)[i].score = (float)list[i].score;
        (*out)[i].label = list[i].label;
    }
    return VV_OK;
}

vv_status vv_detect(vv_detection **out, int64_t *count, const float *output, const float *priors,
                    int64_t boxes, int64_t classes, const vv_detect_opts *opts)
{
    const vv_detect_opts defaults = VV_DETECT_DEFAULTS;
    const vv_detect_opts *o = opts ? opts : &defaults;
    float *probability = NULL, *decoded = NULL;
    scored *list = NULL;
    vv_status status = VV_OK;
    int64_t found = 0;
    size_t cells;
    *out = NULL;
    *count = 0;
    if (boxes < 0 || classes < 2 || o->candidates < 1 || o->keep < 1)
        return vv_fail(
            VV_EINVAL,
            "detect: %lld boxes, %lld classes (with the background), candidates %lld and "
            "keep %lld; at least two classes and one of each are needed",
            (long long)boxes, (long long)classes, (long long)o->candidates, (long long)o->keep);
    VV_GO(vv_size_mul(&cells, (size_t)boxes, (size_t)classes));
    VV_GO(vv_alloc_array(&probability, cells, sizeof *probability));
    VV_GO(vv_alloc_array(&decoded, (size_t)boxes, 4 * sizeof *decoded));
    /* Each class leaves at most `candidates`, and needs room for all boxes while it is sorted. */
    const int64_t room = (classes - 1) * limit(o->candidates, boxes) + boxes;
    VV_GO(vv_alloc_array(&list, (size_t)room, sizeof *list));
    read_output(output, priors, boxes, classes, probability, decoded);
    for (int64_t k = 1; k < classes; k++)
        found += find_class(list + found, probability, decoded, boxes, classes, (int32_t)k, o);
    qsort(list, (size_t)found, sizeof *list, by_score);
    found = limit(found, o->keep);
    VV_GO(hand_out(out, list, found, decoded));
    *count = found;
out:
    vv_dealloc(probability);
    vv_dealloc(decoded);
    vv_dealloc(list);
    return status;
}

vv_status vv_model_detect(vv_detection **out, int64_t *count, const vv_model *model,
                          const vv_tensor *output, int64_t row, const vv_detect_opts *opts)
{
    const vv_detector *detector = vv_module_detector(model->net);
    *out = NULL;
    *count = 0;
    if (!detector || output->dtype != VV_F32 || output->ndim != 3 || row < 0 ||
        row >= output->shape[0])
        return vv_fail(VV_EINVAL,
                       "detect: row %lld of an output of %d dimensions from model %s; an "
                       "f32 output [N,B,4 + classes] of a detector is needed",
                       (long long)row, output->ndim, model->name ? model->name : "(unnamed)");
    const int64_t boxes = output->shape[1], width = output->shape[2];
    const float *priors = detector->priors(model->net, boxes, NULL);
    if (!priors)
        return vv_fail(VV_ESTATE, "detect: the net has no default boxes for an output of %lld",
                       (long long)boxes);
    return vv_detect(out, count, (const float *)output->data + row * boxes * width, priors, boxes,
                     width - 4, opts);
}

vv_status vv_detections_json(vv_str *out, const vv_detection *found, int64_t count,
                             const char *const *names, int64_t height, int64_t width)
{
    vv_str_add(out, "[");
    for (int64_t i = 0; i < count; i++) {
        const vv_detection *d = &found[i];
        vv_str_addf(out, "%s{\"label\":%d,", i ? "," : "", (int)d->label);
        if (names && names[d->label]) {
            vv_str_add(out, "\"class\":");
            vv_str_add_json(out, names[d->label]);
            vv_str_add(out, ",");
        }
        vv_str_addf(out, "\"score\":%.4f,\"box\":[%.2f,%.2f,%.2f,%.2f]}", (double)d->score,
                    (double)d->box[0] * (double)width, (double)d->box[1] * (double)height,
                    (double)d->box[2] * (double)width, (double)d->box[3] * (double)height);
    }
    vv_str_add(out, "]");
    return vv_str_status(out);
}
