/* activation_monitor.c - the activation_monitor callback. The statistics are nodes of the step's
 * own graph, handed out with the step's own results, so a batch that is looked at keeps no
 * activation longer than training does. */
#include "activation_monitor.h"

#include <string.h>

#include <vivace/memory.h>

static const vv_field fields[] = {
    {"interval", "Time between batches that are looked at (ba, ep, sp, dur).", VV_FIELD_TIME,
     offsetof(vv_activation_monitor_opts, interval), "25ba", 0, 0, NULL},
    {"ignore", "Kinds of module to leave out, comma-separated.", VV_FIELD_STRING,
     offsetof(vv_activation_monitor_opts, ignore), "", 0, 0, NULL},
    {.name = NULL},
};

enum { L2, AVERAGE, KURTOSIS, MAXIMUM, KINDS };
static const char *const kinds[KINDS] = {"l2_norm", "average", "kurtosis", "max"};

typedef struct output {
    const vv_module *module;
    vv_tensor *values[KINDS]; /* [] f32 each */
} output;

typedef struct activation_monitor {
    const vv_activation_monitor_opts *opts;
    output *outputs; /* of the microbatch that is looked at */
    int count, capacity;
    bool watching;
    vv_status status;
} activation_monitor;

static bool is_ignored(const char *list, const char *kind)
{
    size_t length = strlen(kind);
    while (*list) {
        size_t end = strcspn(list, ","), lead = strspn(list, " ");
        size_t word = lead < end ? end - lead : 0;
        if (word == length && strncmp(list + lead, kind, length) == 0)
            return true;
        list += end + (list[end] == ',');
    }
    return false;
}

/* Means over all rows along the last axis; kurtosis is Pearson's, m4 / m2^2: 3 for a normal
   distribution. A row without spread has 0. */
static vv_status add_nodes(output *o, vv_graph *graph, vv_node *x)
{
    const int last = vv_node_ndim(x) - 1;
    x = vv_cast(x, VV_F32);
    vv_node *d = vv_sub(x, vv_mean(x, &last, 1, true)), *square = vv_square(d);
    vv_node *m2 = vv_mean(square, &last, 1, false),
            *m4 = vv_mean(vv_square(square), &last, 1, false);
    vv_node *nodes[KINDS] = {
        vv_mean_all(vv_sqrt(vv_sum(vv_square(x), &last, 1, false))),
        vv_mean_all(x),
        vv_mean_all(vv_div(m4, vv_affine(vv_square(m2), 1.0, 1e-30))),
        vv_mean_all(vv_max(x, &last, 1, false)),
    };
    for (int i = 0; i < KINDS; i++) {
        VV_TRY(vv_tensor_new(&o->values[i], VV_F32, 0, NULL));
        VV_TRY(vv_update(graph, o->values[i], nodes[i]));
    }
    return VV_OK;
}

static void hear(void *ctx, vv_module *module, vv_graph *graph, vv_node *x)
{
    activation_monitor *self = ctx;
    vv_dtype dtype = vv_node_dtype(x);
    if (self->status != VV_OK || vv_node_ndim(x) < 1 || (dtype != VV_F32 && dtype != VV_BF16) ||
        is_ignored(self->opts->ignore, vv_module_type(module)->name))
        return;
    for (int i = 0; i < self->count; i++)
        if (self->outputs[i].module == module)
            return; /* a shared module: its first output */
    if (self->count == self->capacity) {
        int capacity = self->capacity ? 2 * self->capacity : 64;
        self->status =
            vv_realloc_array(&self->outputs, (size_t)capacity, sizeof *self->outputs);
        if (self->status != VV_OK)
            return;
        self->capacity = capacity;
    }
    output *o = &self->outputs[self->count++];
    *o = (output){.module = module};
    self->status = add_nodes(o, graph, x);
}

static void forget(activation_monitor *self)
{
    for (int i = 0; i < self->count; i++)
        for (int k = 0; k < KINDS; k++)
            vv_tensor_free(self->outputs[i].values[k]);
    self->count = 0;
    self->watching = false;
}

/* ---- logging, by the paths of the tree ---- */

typedef struct walk {
    activation_monitor *self;
    vv_state *state;
    vv_status status;
} walk;

static bool log_module(void *ctx, const char *path, vv_module *module)
{
    walk *w = ctx;
    const output *found = NULL;
    for (int i = 0; i < w->self->count && !found; i++)
        if (w->self->outputs[i].module == module)
            found = &w->self->outputs[i];
    for (int k = 0; found && k < KINDS && w->status == VV_OK; k++) {
        vv_str name = {0};
        vv_str_addf(&name, "activations/%s/%s", kinds[k], path[0] ? path : "model");
        w->status = vv_str_status(&name);
        if (w->status == VV_OK)
            vv_log_metric(w->state, vv_str_text(&name), vv_tensor_get(found->values[k], 0));
        vv_str_fini(&name);
    }
    return w->status == VV_OK;
}

static vv_status begin(activation_monitor *self, vv_state *state)
{
    bool due;
    if (state->micro_first != 0)
        return VV_OK;
    VV_TRY(vv_state_due(&due, state, self->opts->interval, state->time.batch));
    if (!due || self->count > 0) /* looked at already: a second pass over the batch */
        return VV_OK;
    self->status = VV_OK;
    self->watching = true;
    vv_module_observe(state->model->net, hear, self);
    return VV_OK;
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    activation_monitor *self = callback->self;
    bool due;
    self->opts = callback->opts;
    switch (event) {
    case VV_EVENT_FIT_START: /* a unit that cannot be resolved is told now */
        return vv_fail_within(vv_state_due(&due, state, self->opts->interval, 0), "interval");
    case VV_EVENT_BEFORE_FORWARD:
        return begin(self, state);
    case VV_EVENT_AFTER_FORWARD:
        if (self->watching)
            vv_module_observe(state->model->net, NULL, NULL);
        self->watching = false;
        return self->status;
    default: {
        walk w = {self, state, VV_OK};
        if (self->count > 0)
            vv_module_each(state->model->net, log_module, &w);
        forget(self);
        return w.status;
    }
    }
}

static void fini(vv_callback *callback)
{
    activation_monitor *self = callback->self;
    forget(self);
    vv_dealloc(self->outputs);
}

const vv_callback_desc vv_callback_activation_monitor = {
    .desc = {"callback", "activation_monitor", "Logs statistics of each module's output.", "",
             "any", fields, sizeof(vv_activation_monitor_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BEFORE_FORWARD) |
              VV_EVENT_BIT(VV_EVENT_AFTER_FORWARD) | VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .self_size = sizeof(activation_monitor),
    .apply = apply,
    .fini = fini,
};
