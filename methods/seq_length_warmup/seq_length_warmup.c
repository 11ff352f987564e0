/* seq_length_warmup.c - training starts on short sequences (Li et al., arXiv 2108.06084): the
 * length of the moment, cutting batches to it, the method. */
#include "seq_length_warmup.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

static const vv_seq_length_warmup_opts defaults = VV_SEQ_LENGTH_WARMUP_DEFAULTS;

int64_t vv_warmup_length(const vv_seq_length_warmup_opts *opts, double progress)
{
    const vv_seq_length_warmup_opts *o = opts ? opts : &defaults;
    const int64_t steps = (o->max_seq_length - o->min_seq_length) / o->step_size;
    if (!(progress < o->duration))
        return o->max_seq_length;
    /* A batch number over a number of batches may come out a bit below a whole. */
    const double done = floor((double)steps * (progress / o->duration) * (1.0 + 1e-12));
    const int64_t length = o->min_seq_length + o->step_size * (int64_t)done;
    return length < o->max_seq_length ? length : o->max_seq_length;
}

/* ---- cutting ---- */

typedef struct rows { /* of tokens: [N,K,T] */
    int64_t n, k, t;
} rows;

static rows rows_of(const vv_tensor *tensor)
{
    const bool grouped = tensor->ndim == 3;
    return (rows){tensor->shape[0], grouped ? tensor->shape[1] : 1,
                  tensor->shape[grouped ? 2 : 1]};
}

static vv_status reuse(vv_tensor **inout, const vv_tensor *like, int64_t n, int64_t t)
{
    const rows r = rows_of(like);
    const int64_t two[2] = {n, t}, three[3] = {n, r.k, t};
    return vv_tensor_reuse(inout, VV_I32, like->ndim, like->ndim == 3 ? three : two);
}

static void become(vv_tensor **out, vv_tensor *tensor)
{
    vv_tensor *kept = vv_tensor_keep(tensor);
    vv_tensor_free(*out);
    *out = kept;
}

static bool is_per_token(const vv_tensor *target, int64_t t)
{
    return target && target->dtype == VV_I32 && target->ndim == 2 && target->shape[1] == t;
}

static int64_t last_valid(const int32_t *group, rows r)
{
    int64_t last = r.t - 1;
    while (r.k == 2 && last > 0 && group[r.t + last] < 0)
        last--;
    return last;
}

/* Column `from[n]` of each row goes to the last place of the shortened one. */
static void truncate_rows(vv_tensor *out, const vv_tensor *in, int64_t length, const int64_t *from)
{
    const rows r = rows_of(in);
    const int32_t *x = in->data;
    int32_t *y = out->data;
    for (int64_t i = 0; i < r.n * r.k; i++, x += r.t, y += length) {
        memcpy(y, x, (size_t)length * sizeof *y);
        if (from)
            y[length - 1] = x[from[i / r.k]];
    }
}

/* Each of the K sequences of all rows as one, cut into pieces. */
static void join_rows(vv_tensor *out, const vv_tensor *in, int64_t length)
{
    const rows r = rows_of(in);
    const int32_t *x = in->data;
    int32_t *y = out->data;
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t k = 0; k < r.k; k++)
            for (int64_t j = 0; j < length; j++, y++) {
                const int64_t at = i * length + j;
                *y = x[(at / r.t * r.k + k) * r.t + at % r.t];
            }
}

static vv_status find_ends(const vv_tensor *input, int64_t length, int64_t **out)
{
    const rows r = rows_of(input);
    VV_TRY(vv_alloc_array(out, (size_t)r.n, sizeof **out));
    for (int64_t n = 0; n < r.n; n++) {
        const int64_t last = last_valid((const int32_t *)input->data + n * r.k * r.t, r);
        (*out)[n] = last < length ? length - 1 : last; /* within: stays */
    }
    return VV_OK;
}

vv_status vv_set_sequence_length(vv_tensor **out, vv_tensor **out_target, vv_tensor *input,
                                 vv_tensor *target, int64_t length, bool truncate, bool end)
{
    vv_status status = VV_OK;
    int64_t *ends = NULL;
    if (input->dtype != VV_I32 || input->ndim < 2 || input->ndim > 3)
        return vv_fail(VV_ETYPE,
                       "seq_length_warmup: needs tokens i32 [N,T] or [N,K,T], got %s with "
                       "%d axes",
                       vv_dtype_name(input->dtype), input->ndim);
    if (length < 1)
        return vv_fail(VV_EINVAL, "seq_length_warmup: a length of %lld tokens", (long long)length);
    const rows r = rows_of(input);
    const bool per_token = is_per_token(target, r.t);
    if (length >= r.t) {
        become(out, input);
        if (target)
            become(out_target, target);
        return VV_OK;
    }
    if (*out == input || (target && *out_target == target))
        return vv_fail(VV_EINVAL, "seq_length_warmup: the results need tensors of their own");
    if (!truncate && target && !per_token)
        return vv_fail(VV_ESHAPE, "seq_length_warmup: rows with one target each cannot be cut into "
                                  "several; set truncate to true");
    const int64_t n = truncate ? r.n : r.n * r.t / length;
    VV_GO(reuse(out, input, n, length));
    if (per_token)
        VV_GO(reuse(out_target, target, n, length));
    else if (target)
        become(out_target, target);
    if (!truncate) {
        join_rows(*out, input, length);
        if (per_token)
            join_rows(*out_target, target, length);
        goto out;
    }
    if (end)
        VV_GO(find_ends(input, length, &ends));
    truncate_rows(*out, input, length, ends);
    if (per_token) /* a token and its target stay together */
        truncate_rows(*out_target, target, length, ends);
out:
    vv_dealloc(ends);
    return status;
}

/* ---- the Trainer's method ---- */

typedef struct cutter { /* buffers, used again once the batch before has let go of them */
    vv_tensor *input, *target;
} cutter;

static vv_status check(const void *opts)
{
    const vv_seq_length_warmup_opts *o = opts;
    if (o->max_seq_length < o->min_seq_length)
        return vv_fail(VV_EINVAL, "max_seq_length %lld is below min_seq_length %lld",
                       (long long)o->max_seq_length, (long long)o->min_seq_length);
    return VV_OK;
}

/* The settings with no length above the data's. */
static vv_seq_length_warmup_opts fitted(const vv_method *method, int64_t t)
{
    vv_seq_length_warmup_opts o = *(const vv_seq_length_warmup_opts *)method->opts;
    o.max_seq_length = o.max_seq_length < t ? o.max_seq_length : t;
    o.min_seq_length = o.min_seq_length < o.max_seq_length ? o.min_seq_length : o.max_seq_length;
    return o;
}

/* A row that was cut out of others comes from the sample where it begins. */
static vv_status spread_samples(vv_batch *batch, int64_t count, int64_t t, int64_t length)
{
    int64_t *sample = NULL;
    VV_TRY(vv_alloc_array(&sample, (size_t)count, sizeof *sample));
    for (int64_t i = 0; i < count && batch->sample; i++)
        sample[i] = batch->sample[i * length / t];
    vv_batch_set_samples(batch, sample, count);
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    cutter *self = method->self;
    vv_batch *batch = state->batch;
    (void)event;
    const int64_t t = batch->input->shape[batch->input->ndim - 1];
    const vv_seq_length_warmup_opts o = fitted(method, t);
    const int64_t length = vv_warmup_length(&o, state->progress);
    VV_TRY(vv_set_sequence_length(&self->input, &self->target, batch->input, batch->target, length,
                                  o.truncate, o.preserve_end_of_sequence));
    const int64_t count = self->input->shape[0];
    vv_log_metric(state, "seq_length_warmup/curr_seq_len", (double)length);
    vv_log_metric(state, "seq_length_warmup/curr_bs", (double)count);
    if (self->input == batch->input) { /* full length: hold on to nothing of the loader's */
        become(&self->input, NULL);
        become(&self->target, NULL);
        return VV_OK;
    }
    if (count != batch->count)
        VV_TRY(spread_samples(batch, count, t, length));
    become(&batch->input, self->input);
    become(&batch->target, self->target);
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_sample_spec *data = &state->input_spec;
    if (!state->train_loader) {
        vv_str_add(line, "nothing to train");
        return vv_str_status(line);
    }
    if (data->input_dtype != VV_I32 || data->input_ndim < 1 || data->input_ndim > 2)
        return vv_fail(VV_EINVAL, "needs rows of tokens, i32 [T] or [K,T]; these samples are %s "
                                  "with %d axes",
                       vv_dtype_name(data->input_dtype), data->input_ndim);
    const int64_t t = data->input_shape[data->input_ndim - 1];
    const vv_seq_length_warmup_opts o = fitted(method, t);
    if (!o.truncate && data->target_ndim == 0)
        return vv_fail(VV_EINVAL, "samples with one target each cannot be cut into several; set "
                                  "truncate to true");
    vv_str_addf(line, "%s sequences of %lld tokens to %lld at first, growing by %lld to %lld at "
                      "%g%% of training",
                o.truncate ? "truncates" : "cuts", (long long)t, (long long)o.min_seq_length,
                (long long)o.step_size, (long long)o.max_seq_length, 100.0 * o.duration);
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    cutter *self = method->self;
    vv_tensor_free(self->input);
    vv_tensor_free(self->target);
}

#define AT(member) offsetof(vv_seq_length_warmup_opts, member)
static const vv_field fields[] = {
    {"duration", "Share of the run in which sequences grow.", VV_FIELD_FLOAT, AT(duration), "0.3",
     0, 1, NULL},
    {"min_seq_length", "Tokens in a row at the start.", VV_FIELD_INT, AT(min_seq_length), "8", 1,
     16777216, NULL},
    {"max_seq_length", "Tokens in a row at the end, at most as many as the data have.",
     VV_FIELD_INT, AT(max_seq_length), "1024", 1, 16777216, NULL},
    {"step_size", "Tokens by which rows grow; a multiple of 8 is fast.", VV_FIELD_INT,
     AT(step_size), "8", 1, 16777216, NULL},
    {"truncate", "true: rows lose their ends; false: they are cut into more rows.", VV_FIELD_BOOL,
     AT(truncate), "true", 0, 0, NULL},
    {"preserve_end_of_sequence", "A truncated row ends with its own last token.", VV_FIELD_BOOL,
     AT(preserve_end_of_sequence), "false", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_seq_length_warmup = {
    .desc = {.kind = "method",
             .name = "seq_length_warmup",
             .summary = "Starts training on short sequences and lets them grow.",
             .cite = "Li et al., The stability-efficiency dilemma (arXiv 2108.06084)",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_seq_length_warmup_opts)},
    .phase = VV_PHASE_LAYOUT, /* behind surgery: alibi reshapes first, then rows are cut */
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .self_size = sizeof(cutter),
    .check = check,
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_seq_length_warmup(const vv_seq_length_warmup_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_seq_length_warmup, opts) == VV_OK ? method : NULL;
}
