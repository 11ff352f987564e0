/* step_dry.c - a step that is planned but not done: methods act on a made-up batch at a given
 * moment of the run, the graph is built and planned, and everything is put back. */
#include <string.h>

#include "data/layout.h"
#include "record.h"
#include "trainer_impl.h"

/* Methods that mix or choose need a few rows. */
#define VVI_FEWEST_ROWS 8

/* Small numbers of both signs (zeros would divide by their own deviation); 0 where they are
   indices. */
static void fill(vv_tensor *tensor)
{
    for (int64_t i = 0; tensor->dtype == VV_F32 && i < tensor->count; i++)
        ((float *)tensor->data)[i] = (float)(i * 7 % 251) / 125.0f - 1.0f;
}

static vv_status make_tensor(vv_tensor **out, vv_dtype dtype, int64_t rows, int ndim,
                             const int64_t *shape)
{
    *out = NULL;
    if (ndim + 1 > VV_MAX_DIMS)
        return vv_fail(VV_ESHAPE, "samples have %d axes; at most %d", ndim, VV_MAX_DIMS - 1);
    int64_t full[VV_MAX_DIMS] = {rows};
    memcpy(full + 1, shape, (size_t)ndim * sizeof *shape);
    return vv_tensor_new(out, dtype, ndim + 1, full);
}

/* As the loader would give it, at the samples' full size. Targets: class 0, or a distribution. */
static vv_status make_batch(const vv_sample_spec *spec, int64_t rows, vv_batch **out)
{
    /* Images come out of the loader as floats. */
    bool image = spec->input_dtype == VV_U8 && spec->input_ndim == 3;
    vv_dtype dtype = image ? VV_F32 : spec->input_dtype;
    vv_status status = VV_OK;
    vv_batch *batch = NULL;
    VV_GO(vv_alloc(&batch, sizeof *batch));
    batch->count = rows;
    VV_GO(vv_alloc_array(&batch->sample, (size_t)rows, sizeof *batch->sample));
    VV_GO(make_tensor(&batch->input, dtype, rows, spec->input_ndim, spec->input_shape));
    VV_GO(make_tensor(&batch->target, spec->target_dtype, rows, spec->target_ndim,
                      spec->target_shape));
    fill(batch->input);
    if (spec->target_dtype == VV_F32 && spec->target_ndim > 0)
        vv_tensor_fill(batch->target,
                       1.0 / (double)spec->target_shape[spec->target_ndim - 1]);
    *out = batch;
    return VV_OK;
out:
    vv_batch_free(batch);
    *out = NULL;
    return status;
}

static void set_clock(vv_trainer *t, double moment)
{
    vv_state *s = &t->state;
    int64_t total = s->axis.total_batches, per_epoch = s->axis.batches_per_epoch;
    int64_t batch = total > 1 ? (int64_t)(moment * (double)(total - 1) + 0.5) : 0;
    s->time = (vv_timestamp){.batch = batch};
    s->time.sample = batch * t->batch_size;
    if (t->stage_count) {
        const vvi_place at = vvi_layout_find(vvi_loader_layout(t->train), batch);
        s->time.epoch = s->time.epoch_in_iteration = at.epoch;
        s->time.batch_in_epoch = at.batch;
        s->time.sample_in_epoch = at.first;
        s->time.sample = vvi_stages_samples(t, batch);
    } else if (per_epoch > 0) {
        s->time.epoch = s->time.epoch_in_iteration = batch / per_epoch;
        s->time.batch_in_epoch = batch % per_epoch;
        s->time.sample_in_epoch = s->time.batch_in_epoch * t->batch_size;
    }
    s->progress = total > 0 ? (double)batch / (double)total : moment;
}

static vv_status tell_methods(vv_trainer *t, int64_t rows)
{
    vv_state *s = &t->state;
    VV_TRY(make_batch(&s->input_spec, rows, &s->batch));
    VV_TRY(vvi_engine_fire(t, VV_EVENT_AFTER_DATALOADER));
    s->loss_item_count = vv_model_loss_items(s->model, s->batch->target);
    return VV_OK;
}

/* ---- what is put back ---- */

/* Whether a method may act in a dry step and says how to put it back. */
static bool is_recorded(const vv_method *m)
{
    static const uint64_t acting =
        VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER) | VV_EVENT_BIT(VV_EVENT_BEFORE_FORWARD) |
        VV_EVENT_BIT(VV_EVENT_AFTER_FORWARD) | VV_EVENT_BIT(VV_EVENT_BEFORE_LOSS) |
        VV_EVENT_BIT(VV_EVENT_AFTER_LOSS) | VV_EVENT_BIT(VV_EVENT_BEFORE_BACKWARD);
    return (m->type->events & acting) && m->type->save && m->type->load && !m->type->swap;
}

typedef struct kept {
    int effect;
    vv_record *record; /* NULL = none */
} kept;

static vv_status keep_methods(vv_trainer *t, kept *list)
{
    for (int i = 0; i < t->method_count; i++) {
        vv_method *m = t->methods[i];
        list[i].effect = m->effect;
        if (!is_recorded(m))
            continue;
        VV_TRY(vv_record_new(&list[i].record));
        VV_TRY(m->type->save(m, list[i].record));
        VV_TRY(vvi_record_detach(list[i].record));
    }
    return VV_OK;
}

static vv_status put_back_methods(vv_trainer *t, const kept *list)
{
    for (int i = 0; i < t->method_count; i++) {
        vv_method *m = t->methods[i];
        m->effect = list[i].effect;
        if (list[i].record)
            VV_TRY(vv_fail_within(m->type->load(m, list[i].record), "method %s after planning",
                                  m->type->desc.name));
    }
    return VV_OK;
}

static size_t sample_bytes(size_t item, int ndim, const int64_t *shape)
{
    for (int i = 0; i < ndim; i++)
        item *= (size_t)shape[i];
    return item;
}

size_t vvi_batch_bytes(const vv_trainer *t)
{
    const vv_sample_spec *spec = &t->state.input_spec;
    bool image = spec->input_dtype == VV_U8 && spec->input_ndim == 3; /* floats in a batch */
    size_t item = image ? sizeof(float) : vv_dtype_size(spec->input_dtype);
    return (size_t)t->batch_size *
           (sample_bytes(item, spec->input_ndim, spec->input_shape) +
            sample_bytes(vv_dtype_size(spec->target_dtype), spec->target_ndim, spec->target_shape));
}

/* A batch that has `rows` rows or all there are, after methods have chosen among them. */
static vv_status prepare_batch(vv_trainer *t, int64_t rows)
{
    vv_state *s = &t->state;
    int64_t size = rows > VVI_FEWEST_ROWS ? rows : VVI_FEWEST_ROWS;
    size = size < t->batch_size ? size : t->batch_size;
    for (;;) {
        VV_TRY(tell_methods(t, size));
        if (s->batch->count >= rows || size == t->batch_size)
            break;
        int64_t left = s->batch->count > 0 ? s->batch->count : 1;
        int64_t larger = size * (rows / left + 1);
        size = larger < t->batch_size ? larger : t->batch_size;
        vv_batch_free(s->batch);
        s->batch = NULL;
    }
    return VV_OK;
}

static vv_status plan_step(vv_trainer *t, int64_t rows, vv_bind how, bool run, vvi_dry_result *out)
{
    vv_state *s = &t->state;
    int64_t count = rows < s->batch->count ? rows : s->batch->count;
    if (count < 1)
        return vv_fail(VV_ESTATE, "methods took all rows of the batch");
    VV_TRY(vvi_step_prepare(t));
    vv_graph_set_dry(t->graph, true);
    VV_TRY(vvi_step_build(t, 0, count, true, how));
    const vv_tensor *input = s->micro->input;
    out->ndim = input->ndim;
    memcpy(out->shape, input->shape, sizeof out->shape);
    VV_TRY(vv_graph_plan_cost(t->graph, t->nodes, t->node_count, &out->cost));
    if (!run)
        return VV_OK;
    double start = vv_clock();
    VV_TRY(vv_eval(t->graph, t->nodes, t->node_count));
    out->seconds = vv_clock() - start;
    return VV_OK;
}

vv_status vvi_step_dry(vv_trainer *t, double moment, int64_t rows, vv_bind how, bool run,
                       vvi_dry_result *out)
{
    vv_state *s = &t->state;
    const vv_state before = *s;
    vv_status status = VV_OK;
    kept *list = NULL;
    *out = (vvi_dry_result){0};
    VV_TRY(vv_alloc_array(&list, (size_t)t->method_count + 1, sizeof *list));
    VV_GO(keep_methods(t, list));
    s->dry = true;
    s->batch = NULL;
    vv_module_set_training(s->model->net, true);
    set_clock(t, moment);
    status = prepare_batch(t, rows);
    if (status == VV_OK)
        status = plan_step(t, rows, how, run, out);
    vv_fail_within(status, "a training step with the data's shapes");
    vvi_step_forget(t);
    vv_graph_reset(t->graph);
    vv_graph_set_dry(t->graph, false);
    vv_batch_free(s->batch);
    *s = before;
    vv_status back = put_back_methods(t, list);
    status = status == VV_OK ? back : status;
out:
    for (int i = 0; i < t->method_count; i++)
        vv_record_free(list[i].record);
    vv_dealloc(list);
    return status;
}
