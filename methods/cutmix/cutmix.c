/* cutmix.c - CutMix (Yun et al., arXiv 1905.04899), drawn once per batch. */
#include "cutmix.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

static int64_t clip(int64_t at, int64_t limit)
{
    return at < 0 ? 0 : at > limit ? limit : at;
}

vv_cutmix_box vv_cutmix_box_at(int64_t height, int64_t width, int64_t cut_height, int64_t cut_width,
                               int64_t row, int64_t column)
{
    const int64_t top = row - cut_height / 2, left = column - cut_width / 2;
    return (vv_cutmix_box){clip(top, height), clip(left, width), clip(top + cut_height, height),
                           clip(left + cut_width, width)};
}

/* Middle of a cut along one side. Uniform: all starts whose cut touches the image, so that each
   pixel is covered by equally many of them. */
static int64_t draw_middle(vv_rng *rng, int64_t side, int64_t cut, bool uniform)
{
    if (!uniform || cut == 0)
        return vv_rng_below(rng, side);
    return vv_rng_below(rng, side + cut - 1) - (cut - 1) + cut / 2;
}

void vv_cutmix_draw(vv_rng *rng, const vv_cutmix_opts *opts, int64_t rows, int64_t height,
                    int64_t width, int64_t *partner, vv_cutmix_box *box)
{
    static const vv_cutmix_opts defaults = VV_CUTMIX_DEFAULTS;
    if (!opts)
        opts = &defaults;
    double side = opts->length;
    if (!(side > 0.0))
        side = opts->alpha > 0.0 ? sqrt(1.0 - vv_rng_beta(rng, opts->alpha, opts->alpha)) : 0.0;
    if (side > 1.0)
        side = 1.0;
    const int64_t cut_height = (int64_t)((double)height * side);
    const int64_t cut_width = (int64_t)((double)width * side);
    const int64_t row = draw_middle(rng, height, cut_height, opts->uniform_sampling);
    const int64_t column = draw_middle(rng, width, cut_width, opts->uniform_sampling);
    *box = vv_cutmix_box_at(height, width, cut_height, cut_width, row, column);
    vv_rng_permutation(rng, partner, rows);
}

static bool is_mask(const vv_tensor *input, const vv_tensor *target)
{
    return target->ndim == 3 && target->shape[1] == input->shape[1] &&
           target->shape[2] == input->shape[2];
}

/* The rectangle's rows of another item, where items are `width` pixels a row. */
static void paste(char *to, const char *from, const vv_cutmix_box *box, int64_t width, size_t pixel)
{
    for (int64_t y = box->top; y < box->bottom; y++) {
        const size_t at = (size_t)(y * width + box->left) * pixel;

        memcpy(to + at, from + at, (size_t)(box->right - box->left) * pixel);
    }
}

static vv_status check(const vv_tensor *input, const vv_tensor *target, const int64_t *partner,
                       const vv_cutmix_box *box)
{
    if (input->ndim != 4)
        return vv_fail(VV_ESHAPE, "cutmix: input has %d axes; images [N,H,W,C] are needed",
                       input->ndim);
    if (target->ndim < 1 || target->shape[0] != input->shape[0] ||
        (target->ndim > 2 && !is_mask(input, target)))
        return vv_fail(VV_ESHAPE,
                       "cutmix: %lld images need as many targets, [N], [N,K] or masks of their "
                       "size [N,H,W]", (long long)input->shape[0]);
    if (box->top < 0 || box->left < 0 || box->top > box->bottom || box->left > box->right ||
        box->bottom > input->shape[1] || box->right > input->shape[2])
        return vv_fail(VV_EINVAL,
                       "cutmix: rows [%lld, %lld) and columns [%lld, %lld) are not within "
                       "images of %lldx%lld",
                       (long long)box->top, (long long)box->bottom, (long long)box->left,
                       (long long)box->right, (long long)input->shape[1],
                       (long long)input->shape[2]);
    for (int64_t i = 0; i < input->shape[0]; i++)
        if (partner[i] < 0 || partner[i] >= input->shape[0])
            return vv_fail(VV_EINVAL,
                           "cutmix: partner %lld of image %lld is not in the batch of %lld",
                           (long long)partner[i], (long long)i, (long long)input->shape[0]);
    return VV_OK;
}

vv_status vv_cutmix_batch(vv_tensor **mixed, vv_tensor **mix_target, double *weight,
                          const vv_tensor *input, const vv_tensor *target, const int64_t *partner,
                          vv_cutmix_box box)
{
    VV_TRY(check(input, target, partner, &box));
    if (*mixed == input || *mix_target == target) /* partners must be unmixed */
        return vv_fail(VV_EINVAL, "cutmix: the results need tensors of their own");
    VV_TRY(vv_tensor_reuse(mixed, input->dtype, input->ndim, input->shape));
    VV_TRY(vv_tensor_reuse(mix_target, target->dtype, target->ndim, target->shape));
    const int64_t rows = input->shape[0], height = input->shape[1], width = input->shape[2];
    const size_t pixel = (size_t)input->shape[3] * vv_dtype_size(input->dtype);
    const size_t image = (size_t)(height * width) * pixel;
    const size_t label = rows ? target->bytes / (size_t)rows : 0;
    char *to = (*mixed)->data, *to_target = (*mix_target)->data;
    const char *from = input->data, *from_target = target->data;
    const bool masks = is_mask(input, target);
    if (input->bytes)
        memcpy(to, from, input->bytes);
    if (masks && target->bytes)
        memcpy(to_target, from_target, target->bytes);
    for (int64_t i = 0; i < rows; i++) {
        const size_t own = (size_t)i, other = (size_t)partner[i];
        paste(to + own * image, from + other * image, &box, width, pixel);
        if (masks)
            paste(to_target + own * label, from_target + other * label, &box, width,
                  vv_dtype_size(target->dtype));
        else
            memcpy(to_target + own * label, from_target + other * label, label);
    }
    const int64_t area = (box.bottom - box.top) * (box.right - box.left);
    *weight = height * width > 0 && !masks ? (double)area / (double)(height * width) : 0.0;
    return VV_OK;
}

/* ---- the Trainer's method ---- */

typedef struct mixer { /* buffers, used again once the batch before has let go of them */
    vv_tensor *mixed, *target, *weight;
    int64_t *partner;
} mixer;

static vv_status mix(vv_method *method, vv_state *state)
{
    mixer *self = method->self;
    vv_batch *batch = state->batch;
    vv_cutmix_box box;
    double weight;
    if (batch->mix_target)
        return vv_fail(VV_ESTATE, "the batch is mixed already; keep only one method that mixes");
    if (batch->input->ndim != 4)
        return vv_fail(VV_ESHAPE, "the data are not images; cutmix needs [N,H,W,C]");
    vv_rng rng = vv_state_rng(state, "cutmix");
    VV_TRY(vv_realloc_array(&self->partner, (size_t)batch->count + 1, sizeof *self->partner));
    vv_cutmix_draw(&rng, method->opts, batch->count, batch->input->shape[1], batch->input->shape[2],
                   self->partner, &box);
    if (box.top == box.bottom || box.left == box.right)
        return VV_OK;
    VV_TRY(vv_cutmix_batch(&self->mixed, &self->target, &weight, batch->input, batch->target,
                           self->partner, box));
    method->effect++;
    if (is_mask(batch->input, batch->target)) { /* each pixel has its own target: nothing to mix */
        vv_tensor_free(batch->input);
        batch->input = vv_tensor_keep(self->mixed);
        vv_tensor_free(batch->target);
        batch->target = vv_tensor_keep(self->target);
        return VV_OK;
    }
    VV_TRY(vv_tensor_reuse(&self->weight, VV_F32, 1, &batch->count));
    vv_tensor_fill(self->weight, weight);
    vv_tensor_free(batch->input);
    batch->input = vv_tensor_keep(self->mixed);
    batch->mix_target = vv_tensor_keep(self->target);
    batch->mix_weight = vv_tensor_keep(self->weight);
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_cutmix_opts *opts = method->opts;
    if (event == VV_EVENT_AFTER_DATALOADER)
        return mix(method, state);
    return opts->interpolate_loss || !state->mix_target ? VV_OK : vv_state_fold_mix(state);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_cutmix_opts *opts = method->opts;
    const vv_sample_spec *data = &state->input_spec;
    if (state->train_loader && data->input_ndim != 3)
        return vv_fail(VV_EINVAL, "needs images [H,W,C]; these samples have %d axes",
                       data->input_ndim);
    if (state->model->task == VV_TASK_DETECT)
        return vv_fail(VV_EINVAL, "the model finds boxes, and boxes cannot be mixed by weight");
    if (opts->length > 0.0)
        vv_str_addf(line, "pastes a rectangle of sides %g of the image's", opts->length);
    else if (opts->alpha > 0.0)
        vv_str_addf(line, "pastes a rectangle of area 1 - Beta(%g, %g)", opts->alpha, opts->alpha);
    else
        vv_str_add(line, "alpha and length are 0: mixes nothing");
    if (opts->length > 0.0 || opts->alpha > 0.0)
        vv_str_addf(line, " from another image of the batch, and mixes the %s by area",
                    opts->interpolate_loss ? "losses" : "targets");
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    mixer *self = method->self;
    vv_tensor_free(self->mixed);
    vv_tensor_free(self->target);
    vv_tensor_free(self->weight);
    vv_dealloc(self->partner);
}

#define AT(member) offsetof(vv_cutmix_opts, member)
static const vv_field fields[] = {
    {"alpha", "The share an image keeps is drawn from Beta(alpha, alpha); 0 mixes nothing.",
     VV_FIELD_FLOAT, AT(alpha), "1", 0, 100, NULL},
    {"length", "Sides of the rectangle as a share of the image's; 0 = drawn by alpha.",
     VV_FIELD_FLOAT, AT(length), "0", 0, 1, NULL},
    {"uniform_sampling", "Cover every pixel equally often; else the rectangle's middle is uniform and "
                         "borders are covered less.",
     VV_FIELD_BOOL, AT(uniform_sampling), "false", 0, 0, NULL},
    {"interpolate_loss", "Mix the losses of both targets instead of the targets; the same numbers "
                         "for cross-entropy.",
     VV_FIELD_BOOL, AT(interpolate_loss), "false", 0, 0, NULL},
    {.name = NULL},
};
static const vv_conflict conflicts[] = {
    {"mixup", "both mix the batch, and the second would mix mixtures"},
    {NULL, NULL},
};

const vv_method_desc vv_method_cutmix = {
    .desc = {.kind = "method",
             .name = "cutmix",
             .summary = "Pastes a rectangle of another image and mixes the targets by area.",
             .cite = "Yun et al., CutMix: Regularization Strategy to Train Strong Classifiers with "
                     "Localizable Features (arXiv 1905.04899)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_cutmix_opts)},
    .phase = VV_PHASE_MIX,
    .conflicts = conflicts,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER) | VV_EVENT_BIT(VV_EVENT_BEFORE_LOSS),
    .self_size = sizeof(mixer),
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_cutmix(double alpha)
{
    vv_cutmix_opts opts = VV_CUTMIX_DEFAULTS;
    vv_method *method = NULL;
    opts.alpha = alpha;
    return vv_method_new(&method, &vv_method_cutmix, &opts) == VV_OK ? method : NULL;
}
