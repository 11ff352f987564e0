/* lookahead.c - Lookahead (Zhang et al., arXiv 1907.08610) with the growing share of the slow
 * weights that speed records on CIFAR-10 use. */
#include "lookahead.h"

#include <math.h>

double vv_lookahead_share(const vv_lookahead_opts *opts, double progress)
{
    return pow(opts->decay, (double)opts->interval) * pow(progress, opts->power);
}

void vv_lookahead_update(vv_weights *slow, double share)
{
    vv_weights_move(slow, 1.0 - share);
    vv_weights_restore(slow);
}

/* ---- the Trainer's method ---- */

typedef struct looker {
    vv_weights *slow;
    bool loaded;
} looker;

static vv_status after_load(looker *self, const vv_state *state)
{
    if (state->optimizer && vv_optimizer_averages(state->optimizer))
        return vv_fail(VV_EINVAL,
                       "the optimizer %s averages the weights itself; remove the method, or use "
                       "another optimizer", vv_optimizer_type(state->optimizer)->desc.name);
    VV_TRY(vv_weights_check(self->slow, state->model->net));
    if (!self->loaded)
        vv_weights_copy(self->slow);
    self->loaded = false;
    return VV_OK;
}

static void batch_end(vv_method *method, const vv_state *state)
{
    const vv_lookahead_opts *opts = method->opts;
    looker *self = method->self;
    self->loaded = false; /* going back in a run loads without AFTER_LOAD */
    if (state->time.batch % opts->interval == 0) {
        vv_lookahead_update(self->slow, vv_lookahead_share(opts, state->progress));
        method->effect++;
    }
    /* The run ends with the slow weights, and before its last evaluation. */
    if (state->time.batch >= state->axis.total_batches)
        vv_weights_restore(self->slow);
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    looker *self = method->self;
    switch (event) {
    case VV_EVENT_INIT:
        return vv_weights_new(&self->slow, state->model->net);
    case VV_EVENT_AFTER_LOAD:
        return after_load(self, state);
    case VV_EVENT_FIT_START:
        return vv_weights_check(self->slow, state->model->net);
    case VV_EVENT_BATCH_END:
        batch_end(method, state);
        return VV_OK;
    default: /* FIT_END, for a run that was stopped early */
        vv_weights_restore(self->slow);
        return VV_OK;
    }
}

static vv_status save(vv_method *method, vv_record *record)
{
    const looker *self = method->self;
    return vv_record_set_weights(record, "slow", self->slow);
}

static vv_status load(vv_method *method, const vv_record *record)
{
    looker *self = method->self;
    VV_TRY(vv_record_get_weights(record, "slow", self->slow));
    self->loaded = true;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_lookahead_opts *opts = method->opts;
    (void)state;
    vv_str_addf(line, "every %lld steps the weights go back to slow ones, which keep ",
                (long long)opts->interval);
    if (opts->power > 0.0)
        vv_str_addf(line, "from 0 to %.3g", vv_lookahead_share(opts, 1.0));
    else
        vv_str_addf(line, "%.3g", vv_lookahead_share(opts, 1.0));
    vv_str_add(line, " of themselves; the run ends with those");
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    looker *self = method->self;
    vv_weights_free(self->slow);
}

static const vv_field fields[] = {
    {"interval", "Steps between two updates of the slow weights.", VV_FIELD_INT,
     offsetof(vv_lookahead_opts, interval), "5", 1, 1e9, NULL},
    {"decay", "Share of the slow weights that is kept per step, at the end of the run.",
     VV_FIELD_FLOAT, offsetof(vv_lookahead_opts, decay), "0.95", 0, 1, NULL},
    {"power", "The share kept grows with this power of the run's progress; 0 = the same all along.",
     VV_FIELD_FLOAT, offsetof(vv_lookahead_opts, power), "3", 0, 100, NULL},
    {.name = NULL},
};
static const vv_conflict conflicts[] = {
    {"swa", "after swa exchanges the weights, the slow ones would pull them back"},
    {NULL, NULL},
};

const vv_method_desc vv_method_lookahead = {
    .desc = {.kind = "method",
             .name = "lookahead",
             .summary = "Pulls the weights back to slowly following ones every few steps.",
             .cite = "Zhang et al., Lookahead Optimizer: k steps forward, 1 step back (arXiv "
                     "1907.08610)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_lookahead_opts)},
    .phase = VV_PHASE_WEIGHTS,
    .conflicts = conflicts,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_LOAD) |
              VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END) |
              VV_EVENT_BIT(VV_EVENT_FIT_END),
    .self_size = sizeof(looker),
    .apply = apply,
    .plan = plan,
    .save = save,
    .load = load,
    .fini = fini,
};

vv_method *vv_lookahead(int64_t interval)
{
    vv_lookahead_opts opts = VV_LOOKAHEAD_DEFAULTS;
    vv_method *method = NULL;
    opts.interval = interval;
    return vv_method_new(&method, &vv_method_lookahead, &opts) == VV_OK ? method : NULL;
}
