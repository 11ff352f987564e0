/* cutout.c - CutOut (DeVries and Taylor, arXiv 1708.04552). */
#include "cutout.h"

#include <string.h>

#include <vivace/memory.h>

static const vv_cutout_opts defaults = VV_CUTOUT_DEFAULTS;

/* Rows from the first of `side` around `centre` on; an odd side has its centre in the middle. */
static void interval(vv_rng *rng, int64_t size, int64_t side, bool beyond, int64_t *first,
                     int64_t *last)
{
    const int64_t half = side / 2;
    const int64_t centre =
        beyond ? vv_rng_below(rng, size + 2 * half) - half : vv_rng_below(rng, size);
    *first = centre - half > 0 ? centre - half : 0;
    *last = centre - half + side < size ? centre - half + side : size;
    if (*last < *first)
        *last = *first;
}

vv_hole vv_cutout_draw(vv_rng *rng, int64_t height, int64_t width, const vv_cutout_opts *opts)
{
    const vv_cutout_opts *o = opts ? opts : &defaults;
    const int64_t smaller = height < width ? height : width;
    int64_t side = (int64_t)((double)smaller * o->length);
    vv_hole hole;
    side = side > 1 ? side : 1;
    interval(rng, height, side, o->uniform_sampling, &hole.top, &hole.bottom);
    interval(rng, width, side, o->uniform_sampling, &hole.left, &hole.right);
    return hole;
}

static vv_status check_hole(const vv_hole *hole, const int64_t *shape)
{
    if (hole->top < 0 || hole->bottom > shape[1] || hole->top > hole->bottom || hole->left < 0 ||
        hole->right > shape[2] || hole->left > hole->right)
        return vv_fail(VV_EINVAL,
                       "cutout: rows %lld to %lld and columns %lld to %lld are not within images "
                       "of %lldx%lld",
                       (long long)hole->top, (long long)hole->bottom, (long long)hole->left,
                       (long long)hole->right, (long long)shape[1], (long long)shape[2]);
    return VV_OK;
}

static void cut(char *image, const vv_hole *hole, int64_t width, size_t pixel)
{
    for (int64_t y = hole->top; y < hole->bottom; y++)
        memset(image + (size_t)(y * width + hole->left) * pixel, 0,
               (size_t)(hole->right - hole->left) * pixel);
}

vv_status vv_cutout_batch(vv_tensor **out, const vv_tensor *input, const vv_hole *holes,
                          const vv_cutout_opts *opts)
{
    const vv_cutout_opts *o = opts ? opts : &defaults;
    if (input->ndim != 4)
        return vv_fail(VV_ESHAPE, "cutout: input has %d axes; images [N,H,W,C] are needed",
                       input->ndim);
    if (*out == input || o->num_holes < 0)
        return vv_fail(VV_EINVAL, "cutout: %s", *out == input
                                                    ? "the result needs a tensor of its own"
                                                    : "num_holes must not be negative");
    const int64_t rows = input->shape[0], sets = o->per_sample ? rows : rows > 0;
    for (int64_t i = 0; i < sets * o->num_holes; i++)
        VV_TRY(check_hole(&holes[i], input->shape));
    VV_TRY(vv_tensor_reuse(out, input->dtype, input->ndim, input->shape));
    memcpy((*out)->data, input->data, input->bytes);
    const size_t pixel = vv_dtype_size(input->dtype) * (size_t)input->shape[3];
    const size_t image = pixel * (size_t)(input->shape[1] * input->shape[2]);
    for (int64_t n = 0; n < rows; n++) {
        const vv_hole *own = holes + (o->per_sample ? n * o->num_holes : 0);
        for (int64_t i = 0; i < o->num_holes; i++)
            cut((char *)(*out)->data + (size_t)n * image, &own[i], input->shape[2], pixel);
    }
    return VV_OK;
}

/* ---- the Trainer's method ---- */

typedef struct cutter { /* used again once the batch before has let go of it */
    vv_tensor *input;
    vv_hole *holes;
} cutter;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_cutout_opts *opts = method->opts;
    cutter *self = method->self;
    vv_batch *batch = state->batch;
    (void)event;
    if (batch->input->ndim != 4)
        return vv_fail(VV_ESHAPE, "the batch has %d axes; images [N,H,W,C] are needed",
                       batch->input->ndim);
    const int64_t count = opts->num_holes * (opts->per_sample ? batch->count : 1);
    VV_TRY(vv_realloc_array(&self->holes, (size_t)count + 1, sizeof *self->holes));
    vv_rng rng = vv_state_rng(state, "cutout");
    for (int64_t i = 0; i < count; i++)
        self->holes[i] =
            vv_cutout_draw(&rng, batch->input->shape[1], batch->input->shape[2], opts);
    VV_TRY(vv_cutout_batch(&self->input, batch->input, self->holes, opts));
    vv_tensor_free(batch->input);
    batch->input = vv_tensor_keep(self->input);
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_cutout_opts *opts = method->opts;
    if (state->train_loader && state->input_spec.input_ndim != 3)
        return vv_fail(VV_EINVAL, "needs images [H,W,C]; these samples have %d axes",
                       state->input_spec.input_ndim);
    vv_str_addf(line, "cuts %lld hole%s of %g of the smaller side, %s", (long long)opts->num_holes,
                opts->num_holes == 1 ? "" : "s", opts->length,
                opts->per_sample ? "its own for each image" : "the same for all images of a batch");
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    cutter *self = method->self;
    vv_tensor_free(self->input);
    vv_dealloc(self->holes);
}

#define AT(member) offsetof(vv_cutout_opts, member)
static const vv_field fields[] = {
    {"num_holes", "Holes in an image.", VV_FIELD_INT, AT(num_holes), "1", 1, 1024, NULL},
    {"length", "Side of a hole as a share of the image's smaller side.", VV_FIELD_FLOAT, AT(length),
     "0.5", 0, 1, NULL},
    {"uniform_sampling", "Let centres reach beyond the border, so that each pixel is cut as often.",
     VV_FIELD_BOOL, AT(uniform_sampling), "false", 0, 0, NULL},
    {"per_sample", "Draw holes for each image; else once for the batch.", VV_FIELD_BOOL,
     AT(per_sample), "false", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_cutout = {
    .desc = {.kind = "method",
             .name = "cutout",
             .summary = "Cuts square holes into the training images.",
             .cite = "DeVries and Taylor, Improved Regularization of Convolutional Neural Networks "
                     "with Cutout (arXiv 1708.04552)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_cutout_opts)},
    .phase = VV_PHASE_AUGMENT,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .self_size = sizeof(cutter),
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_cutout(const vv_cutout_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_cutout, opts) == VV_OK ? method : NULL;
}
