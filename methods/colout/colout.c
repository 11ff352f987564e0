/* colout.c - ColOut: dropping rows and columns. */
#include "colout.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

static const vv_colout_opts defaults = VV_COLOUT_DEFAULTS;

int64_t vv_colout_kept(int64_t size, double p)
{
    /* 1e-9: (1 - 0.9) * 10 is a little below 1, and 1 is meant. */
    const int64_t kept = (int64_t)floor((1.0 - p) * (double)size + 0.5 + 1e-9);
    return kept < 1 ? 1 : kept > size ? size : kept;
}

vv_status vv_colout_draw(vv_rng *rng, int64_t size, double p, int64_t *kept)
{
    if (size < 1 || !(p >= 0.0 && p <= 1.0))
        return vv_fail(VV_EINVAL, "colout: %lld rows or columns and a share of %g; at least one, "
                                  "and a share within 0..1, are needed",
                       (long long)size, p);
    /* One pass: each takes the chance that the rest of the choice falls on it (Knuth, 3.4.2 S). */
    int64_t wanted = vv_colout_kept(size, p), count = 0;
    for (int64_t i = 0; i < size && wanted > 0; i++)
        if (vv_rng_below(rng, size - i) < wanted) {
            kept[count++] = i;
            wanted--;
        }
    return VV_OK;
}

static vv_status check_indices(const char *what, const int64_t *index, int64_t count, int64_t size)
{
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= size)
            return vv_fail(VV_EINVAL, "colout: %s %lld is not within %lld", what,
                           (long long)index[i], (long long)size);
    return VV_OK;
}

/* Elements of `pixel` bytes; the usual sizes as plain assignments. */
static void take_row(char *restrict out, const char *restrict row, const int64_t *columns,
                     int64_t width, size_t pixel)
{
    if (pixel == 12)
        for (int64_t x = 0; x < width; x++)
            memcpy(out + (size_t)x * 12, row + (size_t)columns[x] * 12, 12);
    else if (pixel == 4)
        for (int64_t x = 0; x < width; x++)
            memcpy(out + (size_t)x * 4, row + (size_t)columns[x] * 4, 4);
    else
        for (int64_t x = 0; x < width; x++)
            memcpy(out + (size_t)x * pixel, row + (size_t)columns[x] * pixel, pixel);
}

vv_status vv_colout_take(vv_tensor **out, const vv_tensor *input, const int64_t *rows,
                         int64_t height, const int64_t *columns, int64_t width, bool per_image)
{
    if (input->ndim < 3 || height < 1 || width < 1)
        return vv_fail(VV_ESHAPE, "colout: input has %d axes, %lldx%lld are kept; [N,H,W,...] and "
                                  "at least one each are needed",
                       input->ndim, (long long)height, (long long)width);
    if (*out == input)
        return vv_fail(VV_EINVAL, "colout: the result needs a tensor of its own");
    const int64_t images = input->shape[0], sets = per_image ? images : images > 0;
    VV_TRY(check_indices("row", rows, sets * height, input->shape[1]));
    VV_TRY(check_indices("column", columns, sets * width, input->shape[2]));
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, input->shape, sizeof shape);
    shape[1] = height;
    shape[2] = width;
    VV_TRY(vv_tensor_reuse(out, input->dtype, input->ndim, shape));
    size_t pixel = vv_dtype_size(input->dtype);
    for (int i = 3; i < input->ndim; i++)
        pixel *= (size_t)input->shape[i];
    char *to = (*out)->data;
    for (int64_t n = 0; n < images; n++) {
        const int64_t *own_rows = rows + (per_image ? n * height : 0);
        const int64_t *own_columns = columns + (per_image ? n * width : 0);
        for (int64_t y = 0; y < height; y++, to += (size_t)width * pixel) {
            const int64_t from = (n * input->shape[1] + own_rows[y]) * input->shape[2];
            take_row(to, (const char *)input->data + (size_t)from * pixel, own_columns, width,
                     pixel);
        }
    }
    return VV_OK;
}

static bool same_sides(const vv_tensor *input, const vv_tensor *target)
{
    return target->ndim > 2 && target->shape[0] == input->shape[0] &&
           target->shape[1] == input->shape[1] && target->shape[2] == input->shape[2];
}

vv_status vv_colout_batch(vv_tensor **out, vv_tensor **out_target, const vv_tensor *input,
                          const vv_tensor *target, const vv_colout_opts *opts, vv_rng *rng,
                          bool *target_resized)
{
    const vv_colout_opts *o = opts ? opts : &defaults;
    vv_status status = VV_OK;
    int64_t *rows = NULL, *columns = NULL;
    if (target_resized)
        *target_resized = false;
    if (input->ndim != 4 || input->count == 0)
        return vv_fail(VV_ESHAPE, "colout: input has %d axes and %lld elements; images [N,H,W,C] "
                                  "are needed",
                       input->ndim, (long long)input->count);
    const bool alike = target && o->resize_target != VV_COLOUT_FALSE && same_sides(input, target);
    if (target && o->resize_target == VV_COLOUT_TRUE && !alike)
        return vv_fail(VV_ESHAPE, "colout: resize_target needs targets of the images' height and "
                                  "width; these have %d axes",
                       target->ndim);
    const int64_t height = vv_colout_kept(input->shape[1], o->p_row);
    const int64_t width = vv_colout_kept(input->shape[2], o->p_col);
    const int64_t sets = o->batch ? 1 : input->shape[0];
    VV_GO(vv_alloc_array(&rows, (size_t)(sets * height), sizeof *rows));
    VV_GO(vv_alloc_array(&columns, (size_t)(sets * width), sizeof *columns));
    for (int64_t i = 0; i < sets; i++) {
        VV_GO(vv_colout_draw(rng, input->shape[1], o->p_row, rows + i * height));
        VV_GO(vv_colout_draw(rng, input->shape[2], o->p_col, columns + i * width));
    }
    VV_GO(vv_colout_take(out, input, rows, height, columns, width, !o->batch));
    if (alike)
        VV_GO(vv_colout_take(out_target, target, rows, height, columns, width, !o->batch));
    if (target_resized)
        *target_resized = alike;
out:
    vv_dealloc(rows);
    vv_dealloc(columns);
    return status;
}

/* ---- the Trainer's method ---- */

typedef struct picker { /* used again once the batch before has let go of them */
    vv_tensor *input, *target;
} picker;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    picker *self = method->self;
    vv_batch *batch = state->batch;
    bool resized;
    (void)event;
    vv_rng rng = vv_state_rng(state, "colout");
    VV_TRY(vv_colout_batch(&self->input, &self->target, batch->input, batch->target, method->opts,
                           &rng, &resized));
    vv_tensor_free(batch->input);
    batch->input = vv_tensor_keep(self->input);
    if (resized) {
        vv_tensor_free(batch->target);
        batch->target = vv_tensor_keep(self->target);
    }
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_colout_opts *o = method->opts;
    const vv_sample_spec *data = &state->input_spec;
    if (!state->train_loader) {
        vv_str_add(line, "nothing to train");
        return vv_str_status(line);
    }
    if (data->input_ndim != 3)
        return vv_fail(VV_EINVAL, "needs images [H,W,C]; these samples have %d axes",
                       data->input_ndim);
    if (state->model->task == VV_TASK_DETECT)
        return vv_fail(VV_EINVAL, "the targets are boxes, which would not fit images without some "
                                  "rows and columns");
    if (o->resize_target == VV_COLOUT_TRUE && data->target_ndim < 2)
        return vv_fail(VV_EINVAL, "resize_target needs targets with a height and a width; these "
                                  "have %d axes; set it to auto",
                       data->target_ndim);
    vv_str_addf(line, "keeps %lld of %lld rows and %lld of %lld columns, %s",
                (long long)vv_colout_kept(data->input_shape[0], o->p_row),
                (long long)data->input_shape[0],
                (long long)vv_colout_kept(data->input_shape[1], o->p_col),
                (long long)data->input_shape[1],
                o->batch ? "the same in each image of a batch" : "others in each image");
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    picker *self = method->self;
    vv_tensor_free(self->input);
    vv_tensor_free(self->target);
}

#define AT(member) offsetof(vv_colout_opts, member)
static const char *const targets[] = {"auto", "true", "false", NULL};
static const vv_field fields[] = {
    {"p_row", "Share of rows that are left out.", VV_FIELD_FLOAT, AT(p_row), "0.15", 0, 1, NULL},
    {"p_col", "Share of columns that are left out.", VV_FIELD_FLOAT, AT(p_col), "0.15", 0, 1, NULL},
    {"batch", "The same rows and columns for the whole batch; else each image's own.",
     VV_FIELD_BOOL, AT(batch), "true", 0, 0, NULL},
    {"resize_target", "Targets change alike; auto: if they have the images' height and width.",
     VV_FIELD_CHOICE, AT(resize_target), "auto", 0, 0, targets},
    {.name = NULL},
};

const vv_method_desc vv_method_colout = {
    .desc = {.kind = "method",
             .name = "colout",
             .summary = "Leaves out random rows and columns of the training images.",
             .cite = "",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_colout_opts)},
    .phase = VV_PHASE_RESIZE,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .self_size = sizeof(picker),
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_colout(const vv_colout_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_colout, opts) == VV_OK ? method : NULL;
}
