/* alibi.c - attention with linear biases (Press et al., arXiv 2108.12409): surgery on attention and
 * on the table of positions, shorter rows while training. */
#include "alibi.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

/* ---- surgery ---- */

static bool switch_on(void *ctx, const char *path, vv_module *module)
{
    (void)path;
    if (vv_module_type(module) != &vv_attention_class)
        return true;
    vv_attention_layer *layer = vv_module_self(module);
    if (!layer->alibi) {
        layer->alibi = true;
        layer->rotary_base = 0.0;
        ++*(int *)ctx;
    }
    return true;
}

/* The module that holds `path`, and which child of it that is. */
static vv_module *parent_of(vv_module *net, const char *path, int *child)
{
    char above[1024] = "";
    const char *dot = strrchr(path, '.');
    if (dot && (size_t)(dot - path) < sizeof above)
        memcpy(above, path, (size_t)(dot - path));
    vv_module *parent = dot ? vv_module_find(net, above) : net;
    const char *name = dot ? dot + 1 : path;
    for (*child = 0; parent && *child < vv_module_child_count(parent); ++*child)
        if (strcmp(vv_module_child_name(parent, *child), name) == 0)
            return parent;
    return NULL;
}

/* *out = what takes the table's place; NULL = there is none, or it is done already. */
static vv_status empty_table(vv_module *net, int64_t rows, vv_module **out, vv_module **parent,
                             int *child)
{
    const vv_language *parts = vv_module_language(net);
    *out = NULL;
    *parent = parts && parts->positions ? parent_of(net, parts->positions, child) : NULL;
    if (!*parent)
        return VV_OK;
    const vv_module *old = vv_module_child(*parent, *child);
    if (vv_module_type(old) != &vv_embedding_class)
        return VV_OK;
    const vv_embedding_layer *table = vv_module_self(vv_module_child(*parent, *child));
    if (table->off)
        return VV_OK;
    VV_TRY(vv_embedding_new(out, rows > 0 ? rows : table->rows, table->dim));
    ((vv_embedding_layer *)vv_module_self(*out))->off = true;
    vv_module_set_frozen(*out, true);
    return VV_OK;
}

/* Takes `part`; on failure the old one is back. */
static vv_status exchange(vv_module *net, vv_optimizer *optimizer, vv_module *parent, int child,
                          vv_module *part)
{
    vv_module *old = vv_module_keep(vv_module_child(parent, child));
    vv_status status = vv_module_set_child(parent, child, part);
    if (status == VV_OK && optimizer) {
        status = vv_optimizer_sync(optimizer, net);
        if (status != VV_OK)
            status = vv_module_set_child(parent, child, vv_module_keep(old)) == VV_OK
                         ? status
                         : VV_EINTERNAL;
    }
    vv_module_free(old);
    return status;
}

vv_status vv_apply_alibi(vv_module *net, int64_t max_sequence_length, vv_optimizer *optimizer,
                         int *count)
{
    vv_module *table = NULL, *parent = NULL;
    int child = 0, changed = 0;
    if (count)
        *count = 0;
    if (!net)
        return vv_fail(VV_EINVAL, "alibi: no net");
    if (vv_module_count(net, &vv_attention_class) == 0)
        return VV_OK; /* positions stay where nothing takes their place */
    VV_TRY(empty_table(net, max_sequence_length, &table, &parent, &child));
    if (table)
        VV_TRY(exchange(net, optimizer, parent, child, table));
    vv_module_each(net, switch_on, &changed);
    if (count)
        *count = changed;
    return VV_OK;
}

/* ---- shorter rows ---- */

vv_status vv_split_sequences(vv_tensor **inout, const vv_tensor *rows, int64_t pieces)
{
    if (rows->dtype != VV_I32 || rows->ndim < 2 || rows->ndim > 3)
        return vv_fail(VV_ETYPE, "alibi: needs tokens i32 [N,T] or [N,K,T], got %s with %d axes",
                       vv_dtype_name(rows->dtype), rows->ndim);
    const int64_t n = rows->shape[0], k = rows->ndim == 3 ? rows->shape[1] : 1;
    const int64_t t = rows->shape[rows->ndim - 1];
    if (pieces < 1 || t % pieces != 0)
        return vv_fail(VV_ESHAPE,
                       "alibi: rows of %lld tokens cannot be cut into %lld equal pieces; choose a "
                       "train_sequence_length_scaling whose inverse divides the length",
                       (long long)t, (long long)pieces);
    if (*inout == rows)
        return vv_fail(VV_EINVAL, "alibi: the result needs a tensor of its own");
    const int64_t length = t / pieces, two[2] = {n * pieces, length},
                  three[3] = {n * pieces, k, length};
    VV_TRY(vv_tensor_reuse(inout, VV_I32, rows->ndim, rows->ndim == 3 ? three : two));
    const int32_t *x = rows->data;
    int32_t *y = (*inout)->data;
    for (int64_t i = 0; i < n; i++, x += k * t)
        for (int64_t p = 0; p < pieces; p++)
            for (int64_t j = 0; j < k; j++, y += length)
                memcpy(y, x + j * t + p * length, (size_t)length * sizeof *y);
    return VV_OK;
}

/* ---- the Trainer's method ---- */

typedef struct splitter { /* buffers, used again once the batch before has let go of them */
    vv_tensor *input, *target;
} splitter;

static int64_t pieces_of(const vv_alibi_opts *o)
{
    return (int64_t)rint(1.0 / o->train_sequence_length_scaling);
}

static vv_status check(const void *opts)
{
    const vv_alibi_opts *o = opts;
    const double pieces = 1.0 / o->train_sequence_length_scaling;
    /* 0.3333 stands for a third */
    if (fabs(pieces - rint(pieces)) > 1e-3 * pieces)
        return vv_fail(VV_EINVAL,
                       "train_sequence_length_scaling: %g is not 1 over a whole number, such as 1, "
                       "0.5, 0.3333 or 0.25",
                       o->train_sequence_length_scaling);
    return VV_OK;
}

static void take(vv_tensor **inout, vv_tensor *tensor)
{
    vv_tensor *kept = vv_tensor_keep(tensor);
    vv_tensor_free(*inout);
    *inout = kept;
}

static vv_status split_batch(vv_method *method, vv_state *state)
{
    splitter *self = method->self;
    vv_batch *batch = state->batch;
    const int64_t pieces = pieces_of(method->opts);
    int64_t *sample = NULL;
    if (pieces == 1)
        return VV_OK;
    if (batch->target->ndim < 2)
        return vv_fail(VV_ESHAPE,
                       "alibi: rows with one target each cannot be cut into several; set "
                       "train_sequence_length_scaling to 1");
    VV_TRY(vv_split_sequences(&self->input, batch->input, pieces));
    VV_TRY(vv_split_sequences(&self->target, batch->target, pieces));
    VV_TRY(vv_alloc_array(&sample, (size_t)(batch->count * pieces), sizeof *sample));
    for (int64_t i = 0; i < batch->count * pieces && batch->sample; i++)
        sample[i] = batch->sample[i / pieces];
    vv_batch_set_samples(batch, sample, batch->count * pieces);
    take(&batch->input, self->input);
    take(&batch->target, self->target);
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_alibi_opts *o = method->opts;
    int count;
    if (event == VV_EVENT_AFTER_DATALOADER)
        return split_batch(method, state);
    VV_TRY(vv_apply_alibi(state->model->net, o->max_sequence_length, state->optimizer, &count));
    method->effect += count;
    return VV_OK;
}

static vv_status check_length(const vv_alibi_opts *o, const vv_sample_spec *data)
{
    const int64_t pieces = pieces_of(o);
    if (data->input_dtype != VV_I32 || data->input_ndim < 1 || data->input_ndim > 2)
        return vv_fail(VV_EINVAL, "needs rows of tokens, i32 [T] or [K,T]; these samples are %s "
                                  "with %d axes",
                       vv_dtype_name(data->input_dtype), data->input_ndim);
    const int64_t t = data->input_shape[data->input_ndim - 1];
    if (o->max_sequence_length > 0 && t > o->max_sequence_length)
        return vv_fail(VV_EINVAL, "samples of %lld tokens exceed max_sequence_length %lld",
                       (long long)t, (long long)o->max_sequence_length);
    if (pieces > 1 && data->target_ndim == 0)
        return vv_fail(VV_EINVAL, "samples with one target each cannot be cut into several; set "
                                  "train_sequence_length_scaling to 1");
    if (t % pieces != 0)
        return vv_fail(VV_EINVAL, "samples of %lld tokens cannot be cut into %lld equal pieces; "
                                  "choose another train_sequence_length_scaling",
                       (long long)t, (long long)pieces);
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_alibi_opts *o = method->opts;
    const vv_sample_spec *data = &state->input_spec;
    const int64_t pieces = pieces_of(o);
    const int count = vv_module_count(state->model->net, &vv_attention_class);
    if (state->train_loader)
        VV_TRY(check_length(o, data));
    vv_str_addf(line, "distances instead of positions in %d attention layer%s", count,
                count == 1 ? "" : "s");
    if (state->train_loader && pieces > 1)
        vv_str_addf(line, "; trains on %lld times as many rows of %lld tokens", (long long)pieces,
                    (long long)(data->input_shape[data->input_ndim - 1] / pieces));
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    splitter *self = method->self;
    vv_tensor_free(self->input);
    vv_tensor_free(self->target);
}

#define AT(member) offsetof(vv_alibi_opts, member)
static const vv_field fields[] = {
    {"max_sequence_length", "Rows of the table of zeros that is left; 0 = as many as before.",
     VV_FIELD_INT, AT(max_sequence_length), "0", 0, 16777216, NULL},
    {"train_sequence_length_scaling",
     "Length of rows in training as a share of the data's, 1 over a whole number.", VV_FIELD_FLOAT,
     AT(train_sequence_length_scaling), "0.25", 1e-4, 1, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_alibi = {
    .desc = {.kind = "method",
             .name = "alibi",
             .summary =
                 "Replaces learned positions by a penalty on distance; trains on shorter rows.",
             .cite = "Press et al., Train short, test long (arXiv 2108.12409)",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_alibi_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .required_on_load = true,
    .self_size = sizeof(splitter),
    .check = check,
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_alibi(const vv_alibi_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_alibi, opts) == VV_OK ? method : NULL;
}
