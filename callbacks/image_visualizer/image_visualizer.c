/* image_visualizer.c - the image_visualizer callback: grids of inputs, after every method that
 * changes them, with the normalisation taken off again. */
#include "image_visualizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/train.h>

static const vv_field fields[] = {
    {"interval", "Time between training batches that are shown (ba, ep, sp, dur).", VV_FIELD_TIME,
     offsetof(vv_image_visualizer_opts, interval), "100ba", 0, 0, NULL},
    {"num_images", "Images in one grid at most.", VV_FIELD_INT,
     offsetof(vv_image_visualizer_opts, num_images), "8", 1, 1024, NULL},
    {"dir", "Folder of the files; empty = images in the run's folder.", VV_FIELD_STRING,
     offsetof(vv_image_visualizer_opts, dir), "", 0, 0, NULL},
    {.name = NULL},
};

typedef struct image_visualizer {
    bool shown; /* this batch, or this evaluation's first batch */
    int evaluator;
} image_visualizer;

enum { GAP = 2 }; /* white pixels around each image */

static vv_status make_folder(const vv_image_visualizer_opts *opts, const vv_state *state,
                             vv_str *path)
{
    const char *run = vv_trainer_run_dir(state->trainer);
    if (opts->dir[0])
        vv_str_add(path, opts->dir);
    else if (run)
        vv_str_addf(path, "%s/images", run);
    else
        return vv_fail(VV_EINVAL, "dir must be given: the run has no folder for images");
    VV_TRY(vv_str_status(path));
    return vv_make_folder(vv_str_text(path));
}

/* What cannot be shown is told before the first batch. */
static vv_status check(const vv_image_visualizer_opts *opts, const vv_state *state)
{
    const vv_sample_spec *spec = &state->input_spec;
    bool due;
    if (spec->input_ndim != 3 || (spec->input_shape[2] != 1 && spec->input_shape[2] != 3))
        return vv_fail(VV_EINVAL, "it shows images of 1 or 3 channels; the data are none");
    if (!vv_png_available())
        return vv_fail(VV_EUNSUPPORTED, "this build cannot write PNG images; build it with libpng "
                                        "(-Dpng=enabled), or leave image_visualizer out");
    VV_TRY(vv_fail_within(vv_state_due(&due, state, opts->interval, 0), "interval"));
    vv_str path = {0};
    vv_status status = make_folder(opts, state, &path);
    vv_str_fini(&path);
    return status;
}

/* (x * std + mean) * 255 where the loader normalised, x * 255 where it did not. */
static uint8_t pixel(double x, double mean, double std)
{
    double value = 255.0 * (x * std + mean);
    return value >= 255.0 ? 255 : value > 0.0 ? (uint8_t)lround(value) : 0;
}

/* images: [N,H,W,C]; *out = the grid, as square as may be. */
static vv_status make_grid(uint8_t **out, int64_t *height, int64_t *width, const vv_state *state,
                           const vv_tensor *images, int64_t most)
{
    const vv_sample_spec *spec = &state->input_spec;
    const vv_loader *loader = state->train_loader;
    int64_t count = images->shape[0] < most ? images->shape[0] : most;
    int64_t h = images->shape[1], w = images->shape[2], c = images->shape[3];
    int64_t columns = (int64_t)ceil(sqrt((double)count)), rows = (count + columns - 1) / columns;
    bool normalised = loader && vv_loader_transform(loader)->normalise &&
                      spec->input_dtype == VV_U8;
    *height = rows * (h + GAP) + GAP;
    *width = columns * (w + GAP) + GAP;
    VV_TRY(vv_alloc_array(out, (size_t)(*height * *width), (size_t)c));
    memset(*out, 255, (size_t)(*height * *width * c));
    for (int64_t n = 0; n < count; n++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t i = 0; i < w * c; i++) {
                int64_t channel = i % c < 4 ? i % c : 3;
                bool known = normalised && spec->std[channel] > 0.0f;
                double x = vv_tensor_get(images, (n * h + y) * w * c + i);
                int64_t top = GAP + n / columns * (h + GAP) + y;
                int64_t left = GAP + n % columns * (w + GAP);
                (*out)[(top * *width + left) * c + i] =
                    pixel(x, known ? (double)spec->mean[channel] : 0.0,
                          known ? (double)spec->std[channel] : 1.0);
            }
    return VV_OK;
}

static vv_status show(vv_callback *callback, vv_state *state, const char *name)
{
    const vv_image_visualizer_opts *opts = callback->opts;
    const vv_tensor *images;
    vv_str path = {0};
    uint8_t *grid = NULL;
    int64_t height, width;
    vv_status status;
    VV_GO(vv_node_value(state->input, &images));
    if (images->ndim != 4 || (images->shape[3] != 1 && images->shape[3] != 3))
        goto out; /* a method made something else of them */
    VV_GO(make_folder(opts, state, &path));
    vv_str_addf(&path, "/%s-ba%08lld.png", name, (long long)state->time.batch);
    VV_GO(vv_str_status(&path));
    VV_GO(make_grid(&grid, &height, &width, state, images, opts->num_images));
    VV_GO(vv_png_write(vv_str_text(&path), grid, height, width, images->shape[3]));
out:
    vv_str_fini(&path);
    vv_dealloc(grid);
    return status;
}

static vv_status train_batch(vv_callback *callback, vv_state *state)
{
    const vv_image_visualizer_opts *opts = callback->opts;
    image_visualizer *self = callback->self;
    bool due;
    if (self->shown || state->micro_first != 0)
        return VV_OK;
    self->shown = true;
    VV_TRY(vv_state_due(&due, state, opts->interval, state->time.batch));
    return due ? show(callback, state, "train") : VV_OK;
}

static vv_status eval_batch(vv_callback *callback, vv_state *state)
{
    image_visualizer *self = callback->self;
    char name[32];
    if (self->shown)
        return VV_OK;
    self->shown = true;
    if (self->evaluator > 1)
        snprintf(name, sizeof name, "eval%d", self->evaluator);
    else
        snprintf(name, sizeof name, "eval");
    return show(callback, state, name);
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    image_visualizer *self = callback->self;
    switch (event) {
    case VV_EVENT_FIT_START:
        return check(callback->opts, state);
    case VV_EVENT_BEFORE_FORWARD:
        return train_batch(callback, state);
    case VV_EVENT_EVAL_BEFORE_FORWARD:
        return state->micro_first == 0 ? eval_batch(callback, state) : VV_OK;
    case VV_EVENT_EVAL_BEFORE_ALL:
        self->evaluator = 0;
        return VV_OK;
    case VV_EVENT_EVAL_START:
        self->evaluator++;
        self->shown = !vv_png_available(); /* an evaluation alone: nothing was checked */
        return VV_OK;
    default: /* BATCH_START, EVAL_END */
        self->shown = event == VV_EVENT_EVAL_END;
        return VV_OK;
    }
}

const vv_callback_desc vv_callback_image_visualizer = {
    .desc = {"callback", "image_visualizer", "Writes what the network sees as PNG images.", "",
             "cv", fields, sizeof(vv_image_visualizer_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_START) |
              VV_EVENT_BIT(VV_EVENT_BEFORE_FORWARD) | VV_EVENT_BIT(VV_EVENT_EVAL_BEFORE_ALL) |
              VV_EVENT_BIT(VV_EVENT_EVAL_START) | VV_EVENT_BIT(VV_EVENT_EVAL_BEFORE_FORWARD) |
              VV_EVENT_BIT(VV_EVENT_EVAL_END),
    .self_size = sizeof(image_visualizer),
    .apply = apply,
};
