/* progressive_resizing.c - the schedule of sizes, the resizing of batches, the method. */
#include "progressive_resizing.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

/* ---- how large ---- */

static const vv_progressive_resizing_opts defaults = VV_PROGRESSIVE_RESIZING_DEFAULTS;

double vv_resizing_scale(const vv_progressive_resizing_opts *opts, double progress)
{
    const vv_progressive_resizing_opts *o = opts ? opts : &defaults;
    const double ramp = 1.0 - o->finetune_fraction - o->delay_fraction;
    if (progress < o->delay_fraction)
        return o->initial_scale;
    double grown = ramp > 0.0 ? (progress - o->delay_fraction) / ramp : 1.0;
    /* 1 at the start of fine-tuning, whatever 1 - a - b rounded to. */
    if (grown >= 1.0 || progress >= 1.0 - o->finetune_fraction)
        return 1.0;
    return o->initial_scale + (1.0 - o->initial_scale) * grown;
}

int64_t vv_resizing_side(int64_t full, double scale, int64_t increment)
{
    if (scale >= 1.0 || full <= increment)
        return full;
    int64_t side = (int64_t)rint((double)full * scale / (double)increment) * increment;
    if (side < increment)
        side = increment;
    return side < full ? side : full;
}

/* ---- bilinear, images f32 ---- */

/* For each output element of a row (or each output row): the two it lies between, and the share of
   the second. */
typedef struct line_map {
    int64_t *lo, *hi;
    float *share;
} line_map;

static void line_map_fini(line_map *map)
{
    vv_dealloc(map->lo);
    vv_dealloc(map->hi);
    vv_dealloc(map->share);
}

/* Half-pixel centres: output i lies at (i + 1/2) * from / to - 1/2, held within the line. `unit`
   elements (channels) go together. */
static vv_status line_map_init(line_map *map, int64_t from, int64_t to, int64_t unit)
{
    *map = (line_map){0};
    const size_t count = (size_t)(to * unit);
    VV_TRY(vv_alloc_array(&map->lo, count, sizeof *map->lo));
    VV_TRY(vv_alloc_array(&map->hi, count, sizeof *map->hi));
    VV_TRY(vv_alloc_array(&map->share, count, sizeof *map->share));
    for (int64_t i = 0; i < to; i++) {
        double at = ((double)i + 0.5) * (double)from / (double)to - 0.5;
        if (at < 0.0)
            at = 0.0;
        int64_t lo = (int64_t)at;
        if (lo > from - 1)
            lo = from - 1;
        const int64_t hi = lo < from - 1 ? lo + 1 : lo;
        for (int64_t c = 0; c < unit; c++) {
            map->lo[i * unit + c] = lo * unit + c;
            map->hi[i * unit + c] = hi * unit + c;
            map->share[i * unit + c] = (float)(at - (double)lo);
        }
    }
    return VV_OK;
}

static void blend_rows(float *restrict out, const float *a, const float *b, float share,
                       int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] + share * (b[i] - a[i]);
}

static void pick(float *restrict out, const float *restrict row, const line_map *map, int64_t count)
{
    const int64_t *lo = map->lo, *hi = map->hi;
    const float *share = map->share;
    for (int64_t i = 0; i < count; i++)
        out[i] = row[lo[i]] + share[i] * (row[hi[i]] - row[lo[i]]);
}

static vv_status bilinear(vv_tensor *out, const vv_tensor *in)
{
    const int64_t height = in->shape[1], width = in->shape[2], channels = in->shape[3];
    const int64_t to_height = out->shape[1], to_row = out->shape[2] * channels;
    const int64_t row = width * channels;
    vv_status status = VV_OK;
    line_map down = {0}, across = {0};
    float *blended = NULL;
    VV_GO(line_map_init(&down, height, to_height, 1));
    VV_GO(line_map_init(&across, width, out->shape[2], channels));
    VV_GO(vv_alloc_aligned(&blended, (size_t)row * sizeof *blended));
    const float *x = in->data;
    float *y = out->data;
    for (int64_t n = 0; n < in->shape[0]; n++, x += height * row)
        for (int64_t i = 0; i < to_height; i++, y += to_row) {
            blend_rows(blended, x + down.lo[i] * row, x + down.hi[i] * row, down.share[i], row);
            pick(y, blended, &across, to_row);
        }
out:
    line_map_fini(&down);
    line_map_fini(&across);
    vv_dealloc(blended);
    return status;
}

/* ---- nearest neighbour and crop, any element type ---- */

static size_t pixel_bytes(const vv_tensor *t)
{
    return vv_dtype_size(t->dtype) * (size_t)(t->ndim > 3 ? t->shape[3] : 1);
}

static void nearest(vv_tensor *out, const vv_tensor *in)
{
    const int64_t height = in->shape[1], width = in->shape[2];
    const int64_t to_height = out->shape[1], to_width = out->shape[2];
    const size_t pixel = pixel_bytes(in);
    char *to = out->data;
    for (int64_t n = 0; n < in->shape[0]; n++)
        for (int64_t i = 0; i < to_height; i++) {
            const int64_t from_row = n * height + i * height / to_height;
            const char *row = (const char *)in->data + (size_t)(from_row * width) * pixel;
            for (int64_t j = 0; j < to_width; j++, to += pixel)
                memcpy(to, row + (size_t)(j * width / to_width) * pixel, pixel);
        }
}

static void crop(vv_tensor *out, const vv_tensor *in, int64_t top, int64_t left)
{
    const int64_t height = in->shape[1], width = in->shape[2];
    const size_t pixel = pixel_bytes(in), row = (size_t)out->shape[2] * pixel;
    char *to = out->data;
    for (int64_t n = 0; n < in->shape[0]; n++)
        for (int64_t i = 0; i < out->shape[1]; i++, to += row) {
            const int64_t from = (n * height + top + i) * width + left;
            memcpy(to, (const char *)in->data + (size_t)from * pixel, row);
        }
}

/* *inout gets the shape of `like` with other sides. */
static vv_status reuse(vv_tensor **inout, const vv_tensor *like, int64_t height, int64_t width)
{
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, like->shape, sizeof shape);
    shape[1] = height;
    shape[2] = width;
    return vv_tensor_reuse(inout, like->dtype, like->ndim, shape);
}

static void become(vv_tensor **out, vv_tensor *tensor)
{
    vv_tensor *kept = vv_tensor_keep(tensor);
    vv_tensor_free(*out);
    *out = kept;
}

static vv_status check_tensors(const vv_tensor *input, const vv_tensor *target, int64_t increment,
                               vv_resizing_mode mode)
{
    if (input->ndim != 4 || input->count == 0)
        return vv_fail(VV_ESHAPE,
                       "progressive_resizing: input has %d axes and %lld elements; images "
                       "[N,H,W,C] are needed",
                       input->ndim, (long long)input->count);
    if (mode == VV_RESIZING_RESIZE && input->dtype != VV_F32)
        return vv_fail(VV_ETYPE, "progressive_resizing: images are %s; resizing needs f32",
                       vv_dtype_name(input->dtype));
    if (target && (target->ndim < 3 || target->ndim > 4 || target->count == 0))
        return vv_fail(VV_ESHAPE,
                       "progressive_resizing: resize_targets needs targets with a height "
                       "and a width ([N,h,w]); these have %d axes",
                       target->ndim);
    if (increment < 1)
        return vv_fail(VV_EINVAL, "progressive_resizing: size_increment %lld must be at least 1",
                       (long long)increment);
    return VV_OK;
}

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

vv_status vv_resize_batch(vv_tensor **out, vv_tensor **out_target, vv_tensor *input,
                          vv_tensor *target, double scale, int64_t size_increment,
                          vv_resizing_mode mode, vv_rng *rng)
{
    VV_TRY(check_tensors(input, target, size_increment, mode));
    const int64_t height = input->shape[1], width = input->shape[2];
    const int64_t to_height = vv_resizing_side(height, scale, size_increment);
    const int64_t to_width = vv_resizing_side(width, scale, size_increment);
    if (to_height == height && to_width == width) {
        become(out, input);
        if (target)
            become(out_target, target);
        return VV_OK;
    }
    if (*out == input || (target && *out_target == target))
        return vv_fail(VV_EINVAL, "progressive_resizing: the results need tensors of their own");
    VV_TRY(reuse(out, input, to_height, to_width));
    if (target) /* sides by the same ratio */
        VV_TRY(reuse(out_target, target, at_least_one(target->shape[1] * to_height / height),
                     at_least_one(target->shape[2] * to_width / width)));
    if (mode == VV_RESIZING_RESIZE) {
        if (target)
            nearest(*out_target, target);
        return bilinear(*out, input);
    }
    if (!rng)
        return vv_fail(VV_EINVAL, "progressive_resizing: a crop needs a source of random numbers");
    const int64_t top = vv_rng_below(rng, height - to_height + 1);
    const int64_t left = vv_rng_below(rng, width - to_width + 1);
    crop(*out, input, top, left);
    if (target)
        crop(*out_target, target, top * target->shape[1] / height, left * target->shape[2] / width);
    return VV_OK;
}

/* ---- the Trainer's method ---- */

typedef struct resizer { /* buffers, used again once the batch before has let go of them */
    vv_tensor *input, *target;
} resizer;

static vv_status check(const void *opts)
{
    const vv_progressive_resizing_opts *o = opts;
    if (o->delay_fraction + o->finetune_fraction > 1.0)
        return vv_fail(VV_EINVAL, "delay_fraction %g and finetune_fraction %g together exceed 1",
                       o->delay_fraction, o->finetune_fraction);
    return VV_OK;
}

/* Builds, without running it, a forward pass at the smallest size: a model that takes one size only
   says so before training. */
static vv_status probe(const vv_progressive_resizing_opts *o, const vv_state *state)
{
    const int64_t *full = state->input_spec.input_shape;
    const int64_t shape[4] = {2, vv_resizing_side(full[0], o->initial_scale, o->size_increment),
                              vv_resizing_side(full[1], o->initial_scale, o->size_increment),
                              full[2]};
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    vv_status status = VV_OK;
    vv_graph *graph = NULL;
    vv_tensor *input = NULL;
    VV_GO(vv_graph_new(&graph, &graph_opts));
    VV_GO(vv_tensor_new(&input, VV_F32, 4, shape));
    vv_module_forward(state->model->net, graph, vv_leaf(graph, input));
    status = vv_fail_within(vv_graph_status(graph),
                            "the model cannot take images of %lldx%lld, the smallest size",
                            (long long)shape[1], (long long)shape[2]);
out:
    vv_graph_free(graph);
    vv_tensor_free(input);
    return status;
}

static vv_status resize(vv_method *method, vv_state *state)
{
    const vv_progressive_resizing_opts *o = method->opts;
    resizer *self = method->self;
    vv_batch *batch = state->batch;
    const double scale = vv_resizing_scale(o, state->progress);
    vv_rng rng = vv_state_rng(state, "progressive_resizing");
    VV_TRY(vv_resize_batch(&self->input, &self->target, batch->input,
                           o->resize_targets ? batch->target : NULL, scale, o->size_increment,
                           (vv_resizing_mode)o->mode, &rng));
    const int64_t *shape = self->input->shape;
    vv_log_metric(state, "progressive_resizing/height", (double)shape[1]);
    vv_log_metric(state, "progressive_resizing/width", (double)shape[2]);
    vv_log_metric(state, "progressive_resizing/scale_factor", scale);
    if (self->input == batch->input) { /* full size: hold on to nothing of the loader's */
        become(&self->input, NULL);
        become(&self->target, NULL);
        return VV_OK;
    }
    become(&batch->input, self->input);
    if (o->resize_targets)
        become(&batch->target, self->target);
    method->effect++;
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_progressive_resizing_opts *o = method->opts;
    if (event == VV_EVENT_AFTER_DATALOADER)
        return resize(method, state);
    return state->train_loader ? probe(o, state) : VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_progressive_resizing_opts *o = method->opts;
    const vv_sample_spec *data = &state->input_spec;
    if (!state->train_loader) {
        vv_str_add(line, "nothing to train");
        return vv_str_status(line);
    }
    if (data->input_ndim != 3)
        return vv_fail(VV_EINVAL, "needs images [H,W,C]; these samples have %d axes",
                       data->input_ndim);
    if (o->resize_targets && data->target_ndim < 2)
        return vv_fail(VV_EINVAL,
                       "resize_targets needs targets with a height and a width; these have "
                       "%d axes; set it to false",
                       data->target_ndim);
    const bool placed = vv_sample_spec_is_placed(data);
    const bool boxes = placed && data->target_dtype == VV_F32;
    if (placed && !boxes && !o->resize_targets)
        return vv_fail(VV_EINVAL, "the targets are masks; set resize_targets to true");
    if (boxes && (o->resize_targets || o->mode == VV_RESIZING_CROP))
        return vv_fail(VV_EINVAL, "the targets are boxes in shares of the image, which fit any "
                                  "size; mode must be resize and resize_targets false");
    const int64_t height = data->input_shape[0], width = data->input_shape[1];
    vv_str_addf(line,
                "%s images to %lldx%lld until %g%% of training, growing by %lld to %lldx%lld at "
                "%g%%",
                o->mode == VV_RESIZING_CROP ? "crops" : "resizes",
                (long long)vv_resizing_side(height, o->initial_scale, o->size_increment),
                (long long)vv_resizing_side(width, o->initial_scale, o->size_increment),
                100.0 * o->delay_fraction, (long long)o->size_increment, (long long)height,
                (long long)width, 100.0 * (1.0 - o->finetune_fraction));
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    resizer *self = method->self;
    vv_tensor_free(self->input);
    vv_tensor_free(self->target);
}

#define AT(member) offsetof(vv_progressive_resizing_opts, member)
static const char *const mode_names[] = {"resize", "crop", NULL};
static const vv_field fields[] = {
    {"mode", "resize: the whole image, smaller; crop: a random window of it.", VV_FIELD_CHOICE,
     AT(mode), "resize", 0, 0, mode_names},
    {"initial_scale", "Scale of height and width at the start.", VV_FIELD_FLOAT, AT(initial_scale),
     "0.5", 0, 1, NULL},
    {"finetune_fraction", "Last part of training, at full size.", VV_FIELD_FLOAT,
     AT(finetune_fraction), "0.2", 0, 1, NULL},
    {"delay_fraction", "First part of training, at the initial scale.", VV_FIELD_FLOAT,
     AT(delay_fraction), "0.5", 0, 1, NULL},
    {"size_increment", "Height and width are multiples of this many pixels.", VV_FIELD_INT,
     AT(size_increment), "4", 1, 4096, NULL},
    {"resize_targets", "Targets are images too, and change alike (nearest neighbour).", VV_FIELD_BOOL,
     AT(resize_targets), "false", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_progressive_resizing = {
    .desc = {.kind = "method",
             .name = "progressive_resizing",
             .summary = "Starts training on small images and grows them to the full size.",
             .cite = "Howard, fast.ai (2018)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_progressive_resizing_opts)},
    .phase = VV_PHASE_RESIZE,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .self_size = sizeof(resizer),
    .check = check,
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_progressive_resizing(const vv_progressive_resizing_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_progressive_resizing, opts) == VV_OK ? method : NULL;
}
