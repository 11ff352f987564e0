/* nan_monitor.c - the nan_monitor callback. It looks once the batch's loss and whole gradient are
 * known and before the optimizer steps, so the weights and the last checkpoint are still sound. */
#include "nan_monitor.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "nan_search.h"

static const char *const actions[] = {"stop", "skip", "roll_back", NULL};
static const vv_field fields[] = {
    {"action", "stop: the run fails; skip: the step is not taken; roll_back: weights of the last "
               "checkpoint, the run goes on behind the bad batch.", VV_FIELD_CHOICE,
     offsetof(vv_nan_monitor_opts, action), "stop", 0, 0, actions},
    {"infinity", "Infinities count as well.", VV_FIELD_BOOL,
     offsetof(vv_nan_monitor_opts, infinity), "true", 0, 0, NULL},
    {"gradients", "Look at the gradients as well, not at the loss alone.", VV_FIELD_BOOL,
     offsetof(vv_nan_monitor_opts, gradients), "true", 0, 0, NULL},
    {"tolerance", "Skips in a row, or roll-backs in all, before the run fails.", VV_FIELD_INT,
     offsetof(vv_nan_monitor_opts, tolerance), "3", 1, 1e9, NULL},
    {.name = NULL},
};

typedef struct nan_monitor {
    nan_probe probe;
    vv_tensor **buffers; /* as they were before the batch: a skipped one must not have moved them */
    int buffer_count;
    vv_status status; /* of the walk over buffers */
    int at;
    int64_t in_a_row, roll_backs;
} nan_monitor;

static bool is_bad(const vv_nan_monitor_opts *opts, double value)
{
    return isnan(value) || (opts->infinity && isinf(value));
}

/* ---- buffers: running statistics are updated by the forward pass ---- */

static bool count_buffer(void *ctx, const char *path, vv_module *owner, vv_tensor *buffer)
{
    (void)path, (void)owner, (void)buffer;
    ++*(int *)ctx;
    return true;
}

static void drop_buffers(nan_monitor *self)
{
    for (int i = 0; i < self->buffer_count; i++)
        vv_tensor_free(self->buffers[i]);
    vv_dealloc(self->buffers);
    self->buffers = NULL;
    self->buffer_count = 0;
}

static bool keep_buffer(void *ctx, const char *path, vv_module *owner, vv_tensor *buffer)
{
    nan_monitor *self = ctx;
    vv_tensor **copy = &self->buffers[self->at++];
    (void)path, (void)owner;
    if (!*copy)
        self->status = vv_tensor_clone(copy, buffer);
    else
        memcpy((*copy)->data, buffer->data, buffer->bytes);
    return self->status == VV_OK;
}

static bool give_back(void *ctx, const char *path, vv_module *owner, vv_tensor *buffer)
{
    nan_monitor *self = ctx;
    (void)path, (void)owner;
    memcpy(buffer->data, self->buffers[self->at++]->data, buffer->bytes);
    return true;
}

static vv_status keep_buffers(nan_monitor *self, vv_module *net)
{
    int count = 0;
    vv_module_each_buffer(net, count_buffer, &count);
    if (count != self->buffer_count) {
        drop_buffers(self);
        VV_TRY(vv_alloc_array(&self->buffers, (size_t)count, sizeof(vv_tensor *)));
        self->buffer_count = count;
    }
    self->at = 0;
    self->status = VV_OK;
    vv_module_each_buffer(net, keep_buffer, self);
    return self->status;
}

/* ---- what is done about it ---- */

static vv_status fail(const char *head, const char *more)
{
    return vv_fail(VV_ENUMERIC,
                   "%s%s; lower the learning rate, warm it up, or clip the gradients", head, more);
}

static void tell(vv_state *state, const char *head, const char *done)
{
    vv_str text = {0};
    vv_str_addf(&text, "nan_monitor: %s; %s", head, done);
    vv_log_message(state, vv_str_text(&text));
    vv_str_fini(&text);
}

static vv_status skip(nan_monitor *self, const vv_nan_monitor_opts *opts, vv_state *state,
                      const char *head)
{
    if (++self->in_a_row > opts->tolerance)
        return fail(head, ", after as many skipped steps in a row as are tolerated");
    self->at = 0;
    vv_module_each_buffer(state->model->net, give_back, self);
    state->skip_step = true;
    vv_log_metric(state, "nan_monitor/skipped_in_a_row", (double)self->in_a_row);
    tell(state, head, "the step is not taken");
    return VV_OK;
}

static vv_status roll_back(nan_monitor *self, const vv_nan_monitor_opts *opts, vv_state *state,
                           const char *head)
{
    if (++self->roll_backs > opts->tolerance)
        return fail(head, ", after as many roll-backs as are tolerated");
    int64_t batch;
    VV_TRY(vv_fail_within(vv_state_roll_back(state, &batch), "%s", head));
    vv_str text = {0};
    vv_status status = VV_OK;
    if (nan_in_weights(state->model->net, opts->infinity, &text)) {
        status = vv_fail(VV_ENUMERIC, "%s; %s is bad in the checkpoint of batch %lld too", head,
                         vv_str_text(&text), (long long)batch);
    } else {
        vv_log_metric(state, "nan_monitor/roll_backs", (double)self->roll_backs);
        vv_str_addf(&text, "the run goes on behind it with the weights of batch %lld",
                    (long long)batch);
        tell(state, head, vv_str_text(&text));
    }
    vv_str_fini(&text);
    return status;
}

static vv_status act(vv_callback *callback, vv_state *state, const char *what, double value)
{
    const vv_nan_monitor_opts *opts = callback->opts;
    nan_monitor *self = callback->self;
    bool weights = false;
    vv_str head = {0};
    vv_str_addf(&head, "%s of batch %lld (epoch %lld) is %g; the first bad tensor is ", what,
                (long long)state->time.batch, (long long)state->time.epoch, value);
    vv_status status = vv_str_status(&head);
    self->probe.infinity = opts->infinity;
    if (status == VV_OK)
        status = nan_search(&self->probe, state, &head, &weights);
    const char *text = vv_str_text(&head);
    if (status == VV_OK && opts->action == VV_NAN_ROLL_BACK)
        status = roll_back(self, opts, state, text);
    else if (status == VV_OK && opts->action == VV_NAN_SKIP && !weights)
        status = skip(self, opts, state, text);
    else if (status == VV_OK)
        status = fail(text, "");
    vv_str_fini(&head);
    return status;
}

static vv_status judge(vv_callback *callback, vv_state *state)
{
    const vv_nan_monitor_opts *opts = callback->opts;
    nan_monitor *self = callback->self;
    double norm = 0.0;
    if (is_bad(opts, state->train_loss))
        return act(callback, state, "the loss", state->train_loss);
    if (opts->gradients)
        VV_TRY(vv_grads_norm(state->model->net, &norm));
    if (is_bad(opts, norm))
        return act(callback, state, "the gradient's norm", norm);
    self->in_a_row = 0;
    return VV_OK;
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_nan_monitor_opts *opts = callback->opts;
    nan_monitor *self = callback->self;
    if (event == VV_EVENT_AFTER_FORWARD)
        return self->probe.active ? nan_probe_look(&self->probe) : VV_OK;
    if (event == VV_EVENT_AFTER_TRAIN_BATCH)
        return judge(callback, state);
    return opts->action == VV_NAN_SKIP ? keep_buffers(self, state->model->net) : VV_OK;
}

static vv_status save(vv_callback *callback, vv_record *record)
{
    const nan_monitor *self = callback->self;
    VV_TRY(vv_record_set_int(record, "in_a_row", self->in_a_row));
    return vv_record_set_int(record, "roll_backs", self->roll_backs);
}

static vv_status load(vv_callback *callback, const vv_record *record)
{
    nan_monitor *self = callback->self;
    VV_TRY(vv_record_get_int(record, "in_a_row", &self->in_a_row));
    return vv_record_get_int(record, "roll_backs", &self->roll_backs);
}

static void fini(vv_callback *callback)
{
    nan_monitor *self = callback->self;
    drop_buffers(self);
    nan_probe_fini(&self->probe);
}

const vv_callback_desc vv_callback_nan_monitor = {
    .desc = {"callback", "nan_monitor",
             "Stops, skips or rolls back where a loss or gradient is no longer a number.", "",
             "any", fields, sizeof(vv_nan_monitor_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_BEFORE_TRAIN_BATCH) | VV_EVENT_BIT(VV_EVENT_AFTER_FORWARD) |
              VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH),
    .self_size = sizeof(nan_monitor),
    .apply = apply,
    .save = save,
    .load = load,
    .fini = fini,
    .on_by_default = true,
};
