/* optimizer_monitor.c - the optimizer_monitor callback: l2 norms of what a step does, per parameter
 * and in all. The update is the change that really happened, w_new - w_old, so it is right for
 * every optimizer, decay and learning rate. */
#include "optimizer_monitor.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

static const vv_field fields[] = {
    {"interval", "Time between batches that are looked at (ba, ep, sp, dur).", VV_FIELD_TIME,
     offsetof(vv_optimizer_monitor_opts, interval), "10ba", 0, 0, NULL},
    {"layers", "Norms of each parameter, not of the whole alone.", VV_FIELD_BOOL,
     offsetof(vv_optimizer_monitor_opts, layers), "true", 0, 0, NULL},
    {.name = NULL},
};

typedef struct old_value { /* a parameter before the step */
    uint64_t id;
    vv_tensor *value;
} old_value;

typedef struct optimizer_monitor {
    old_value *old; /* NULL between the batches that are looked at */
    int count, capacity;
} optimizer_monitor;

/* One walk over the tree. */
typedef struct walk {
    vv_state *state;
    const vv_optimizer_monitor_opts *opts;
    optimizer_monitor *self;
    double grad, param, update; /* sums of squares */
    const char *state_name;     /* of the moment */
    vv_status status;
} walk;

static double squares(const vv_tensor *a, const vv_tensor *b)
{
    const float *x = a->data, *y = b ? b->data : NULL;
    double sum = 0.0;
    for (int64_t i = 0; i < a->count; i++) {
        double d = y ? (double)x[i] - (double)y[i] : (double)x[i];
        sum += d * d;
    }
    return sum;
}

static bool log_norm(walk *w, const char *what, const char *path, size_t length, double sum)
{
    vv_str name = {0};
    vv_str_addf(&name, "l2_norm/%s/", what);
    vv_str_addn(&name, path, length);
    w->status = vv_str_status(&name);
    if (w->status == VV_OK)
        vv_log_metric(w->state, vv_str_text(&name), sqrt(sum));
    vv_str_fini(&name);
    return w->status == VV_OK;
}

/* ---- before the optimizer: whole gradients, values to compare with ---- */

static bool keep(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    walk *w = ctx;
    optimizer_monitor *self = w->self;
    (void)owner;
    if (param->frozen || !param->grad)
        return true;
    double sum = squares(param->grad, NULL);
    w->grad += sum;
    if (w->opts->layers && !log_norm(w, "grad", path, strlen(path), sum))
        return false;
    if (self->count == self->capacity) {
        int capacity = self->capacity ? 2 * self->capacity : 32;
        w->status = vv_realloc_array(&self->old, (size_t)capacity, sizeof *self->old);
        if (w->status != VV_OK)
            return false;
        self->capacity = capacity;
    }
    old_value *old = &self->old[self->count];
    old->id = param->id;
    w->status = vv_tensor_clone(&old->value, param->value);
    self->count += w->status == VV_OK;
    return w->status == VV_OK;
}

/* ---- after it ---- */

static const vv_tensor *old_of(const optimizer_monitor *self, uint64_t id)
{
    for (int i = 0; i < self->count; i++)
        if (self->old[i].id == id)
            return self->old[i].value;
    return NULL;
}

static bool compare(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    walk *w = ctx;
    const vv_tensor *old = old_of(w->self, param->id);
    (void)owner;
    if (!old || !vv_tensor_same_shape(old, param->value))
        return true;
    double value = squares(param->value, NULL), change = squares(param->value, old);
    w->param += value;
    w->update += change;
    return !w->opts->layers || (log_norm(w, "param", path, strlen(path), value) &&
                                log_norm(w, "update", path, strlen(path), change));
}

/* State tensors are named "<path>.<state>". */
static bool log_moment(void *ctx, const char *name, vv_tensor *tensor)
{
    walk *w = ctx;
    size_t length = strlen(name), end = strlen(w->state_name);
    if (tensor->dtype != VV_F32 || length <= end + 1 || name[length - end - 1] != '.' ||
        strcmp(name + length - end, w->state_name) != 0)
        return true;
    return log_norm(w, "moment", name, length - end - 1, squares(tensor, NULL));
}

static void forget(optimizer_monitor *self)
{
    for (int i = 0; i < self->count; i++)
        vv_tensor_free(self->old[i].value);
    vv_dealloc(self->old);
    *self = (optimizer_monitor){0};
}

static vv_status before_step(walk *w)
{
    bool due;
    VV_TRY(vv_state_due(&due, w->state, w->opts->interval, w->state->time.batch + 1));
    if (!due)
        return VV_OK;
    forget(w->self);
    vv_module_each_param(w->state->model->net, keep, w);
    VV_TRY(w->status);
    vv_log_metric(w->state, "l2_norm/grad/global", sqrt(w->grad));
    return VV_OK;
}

static vv_status after_step(walk *w)
{
    vv_state *state = w->state;
    if (w->self->count == 0)
        return VV_OK;
    vv_module_each_param(state->model->net, compare, w);
    VV_TRY(w->status);
    vv_log_metric(state, "l2_norm/param/global", sqrt(w->param));
    vv_log_metric(state, "l2_norm/update/global", sqrt(w->update));
    const vv_optimizer_desc *type = vv_optimizer_type(state->optimizer);
    if (!w->opts->layers || type->state_count == 0)
        return VV_OK;
    w->state_name = type->state_names[0];
    VV_TRY(vv_optimizer_each_state(state->optimizer, state->model->net, log_moment, w));
    return w->status;
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    bool due;
    walk w = {.state = state, .opts = callback->opts, .self = callback->self};
    if (event == VV_EVENT_FIT_START) /* a unit that cannot be resolved is told now */
        return vv_fail_within(vv_state_due(&due, state, w.opts->interval, 0), "interval");
    if (event == VV_EVENT_AFTER_TRAIN_BATCH)
        return before_step(&w);
    vv_status status = after_step(&w);
    forget(w.self);
    return status;
}

static void fini(vv_callback *callback)
{
    forget(callback->self);
}

const vv_callback_desc vv_callback_optimizer_monitor = {
    .desc = {"callback", "optimizer_monitor",
             "Logs norms of gradients, parameters, moments and updates.", "", "any", fields,
             sizeof(vv_optimizer_monitor_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH) |
              VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .self_size = sizeof(optimizer_monitor),
    .apply = apply,
    .fini = fini,
};
