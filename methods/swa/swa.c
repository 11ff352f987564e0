/* swa.c - Stochastic Weight Averaging (Izmailov et al., arXiv 1803.05407). */
#include "swa.h"

#include <math.h>

#define PI 3.14159265358979323846

/* mean_n = mean_(n-1) + (w - mean_(n-1)) / n */
void vv_swa_update(vv_weights *mean, int64_t n)
{
    vv_weights_move(mean, 1.0 / (double)n);
}

double vv_swa_lr(vv_swa_anneal strategy, int64_t anneal_steps, double lr0, double swa_lr, int64_t k)
{
    double part = k < anneal_steps ? (double)k / (double)anneal_steps : 1.0;
    if (strategy == VV_SWA_COS)
        part = (1.0 - cos(PI * part)) / 2.0;
    return (1.0 - part) * lr0 + part * swa_lr;
}

/* ---- the Trainer's method ---- */

typedef struct averager {
    vv_weights *mean;
    double start, end;       /* in batches */
    double lr0;              /* learning rate when averaging started */
    int64_t events, updates; /* intervals' units met since the start; weights in the mean */
    int64_t norms_at;        /* batch of the last new statistics; -1 = none */
    bool started, completed, loaded;
} averager;

static bool by_epoch(const vv_swa_opts *opts)
{
    return opts->update_interval.unit == VV_UNIT_EPOCH;
}

static vv_status check(const void *options)
{
    const vv_swa_opts *opts = options;
    const vv_time a = opts->swa_start, b = opts->swa_end, every = opts->update_interval;
    if (a.unit != b.unit || (a.unit != VV_UNIT_DURATION && a.unit != VV_UNIT_EPOCH))
        return vv_fail(VV_EINVAL, "swa_start and swa_end: give both as shares of the run (dur) or "
                                  "both in epochs (ep)");
    if (a.unit == VV_UNIT_DURATION &&
        !(a.fraction >= 0.0 && a.fraction <= 1.0 && b.fraction >= 0.0 && b.fraction <= 1.0))
        return vv_fail(VV_EINVAL, "swa_start and swa_end: shares of the run lie in [0, 1]");
    if (!(a.unit == VV_UNIT_DURATION ? a.fraction < b.fraction : a.count < b.count))
        return vv_fail(VV_EINVAL, "swa_start must come before swa_end");
    if ((every.unit != VV_UNIT_EPOCH && every.unit != VV_UNIT_BATCH) || every.count < 1)
        return vv_fail(VV_EINVAL, "update_interval: give epochs (ep) or batches (ba) above 0");
    if (opts->schedule_swa_lr != (opts->swa_lr > 0.0))
        return vv_fail(VV_EINVAL, "schedule_swa_lr and swa_lr go together: give both or neither");
    return VV_OK;
}

static vv_status after_load(vv_method *method, vv_state *state)
{
    const vv_swa_opts *opts = method->opts;
    averager *self = method->self;
    if (state->optimizer && vv_optimizer_averages(state->optimizer))
        return vv_fail(VV_EINVAL,
                       "the optimizer %s averages the weights itself; remove the method, or use "
                       "another optimizer", vv_optimizer_type(state->optimizer)->desc.name);
    VV_TRY(vv_weights_check(self->mean, state->model->net));
    if (!self->loaded) {
        self->started = self->completed = false;
        self->events = self->updates = 0;
        self->norms_at = -1;
    }
    self->loaded = false;
    if (!state->train_loader)
        return VV_OK;
    VV_TRY(vv_fail_within(vv_time_to_batches(&self->start, opts->swa_start, &state->axis),
                          "swa_start"));
    return vv_fail_within(vv_time_to_batches(&self->end, opts->swa_end, &state->axis), "swa_end");
}

static vv_status new_norms(averager *self, const vv_swa_opts *opts, vv_state *state)
{
    self->norms_at = state->time.batch;
    return vv_state_recompute_norms(state, opts->norm_batches, NULL);
}

/* The mean becomes the weights; velocities that led elsewhere are dropped. */
static vv_status complete(vv_method *method, vv_state *state)
{
    averager *self = method->self;
    self->completed = true;
    method->effect++;
    vv_weights_restore(self->mean);
    vv_optimizer_reset(state->optimizer);
    VV_TRY(new_norms(self, method->opts, state));
    vv_log_metric(state, "swa/weights_averaged", (double)self->updates);
    return VV_OK;
}

static void take_weights(averager *self, const vv_swa_opts *opts, const vv_state *state)
{
    if (!self->started) {
        self->started = true;
        self->lr0 = vv_optimizer_lr(state->optimizer, 0);
    }
    if (self->events++ % opts->update_interval.count == 0)
        vv_swa_update(self->mean, ++self->updates);
}

static vv_status batch_end(vv_method *method, vv_state *state)
{
    const vv_swa_opts *opts = method->opts;
    averager *self = method->self;
    const double now = (double)state->time.batch;
    self->loaded = false; /* going back in a run loads without AFTER_LOAD */
    const bool unit_ends =
        !by_epoch(opts) || state->time.batch_in_epoch ==
                               vv_axis_epoch_batches(&state->axis, state->time.epoch);
    if (!self->completed && now >= self->start && unit_ends)
        take_weights(self, opts, state);
    if (!self->completed && now >= self->end && self->updates > 0)
        return complete(method, state);
    /* Weights that went on after the exchange get statistics of their own for the last
       evaluation. */
    if (self->completed && state->time.batch >= state->axis.total_batches)
        return new_norms(self, opts, state);
    return VV_OK;
}

/* For a run that was stopped early. */
static vv_status fit_end(vv_method *method, vv_state *state)
{
    averager *self = method->self;
    if (!self->completed && self->updates > 0)
        return complete(method, state);
    if (self->completed && self->norms_at != state->time.batch)
        return new_norms(self, method->opts, state);
    return VV_OK;
}

/* The main schedule has just set this batch's learning rate; while averaging runs, ours holds. */
static void set_lr(const averager *self, const vv_swa_opts *opts, const vv_state *state)
{
    if (!opts->schedule_swa_lr || self->completed || self->updates == 0)
        return;
    const double lr = vv_swa_lr((vv_swa_anneal)opts->anneal_strategy, opts->anneal_steps, self->lr0,
                                opts->swa_lr, self->updates);
    vv_optimizer_set_lr_factor(state->optimizer, 1.0);
    const double initial = vv_optimizer_lr(state->optimizer, 0);
    vv_optimizer_set_lr_factor(state->optimizer, initial > 0.0 ? lr / initial : 0.0);
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    averager *self = method->self;
    switch (event) {
    case VV_EVENT_INIT:
        return vv_weights_new(&self->mean, state->model->net);
    case VV_EVENT_AFTER_LOAD:
        return after_load(method, state);
    case VV_EVENT_FIT_START:
        return vv_weights_check(self->mean, state->model->net);
    case VV_EVENT_BATCH_START:
        set_lr(self, method->opts, state);
        return VV_OK;
    case VV_EVENT_BATCH_END:
        return batch_end(method, state);
    default:
        return fit_end(method, state);
    }
}

static vv_status save(vv_method *method, vv_record *record)
{
    const averager *self = method->self;
    VV_TRY(vv_record_set_int(record, "started", self->started));
    VV_TRY(vv_record_set_int(record, "completed", self->completed));
    VV_TRY(vv_record_set_int(record, "events", self->events));
    VV_TRY(vv_record_set_int(record, "updates", self->updates));
    VV_TRY(vv_record_set_int(record, "norms_at", self->norms_at));
    VV_TRY(vv_record_set_double(record, "lr0", self->lr0));
    return self->updates > 0 && !self->completed
               ? vv_record_set_weights(record, "mean", self->mean)
               : VV_OK;
}

static vv_status load(vv_method *method, const vv_record *record)
{
    averager *self = method->self;
    int64_t started, completed;
    VV_TRY(vv_record_get_int(record, "started", &started));
    VV_TRY(vv_record_get_int(record, "completed", &completed));
    VV_TRY(vv_record_get_int(record, "events", &self->events));
    VV_TRY(vv_record_get_int(record, "updates", &self->updates));
    VV_TRY(vv_record_get_int(record, "norms_at", &self->norms_at));
    VV_TRY(vv_record_get_double(record, "lr0", &self->lr0));
    self->started = started != 0;
    self->completed = completed != 0;
    self->loaded = true;
    return self->updates > 0 && !self->completed
               ? vv_record_get_weights(record, "mean", self->mean)
               : VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_swa_opts *opts = method->opts;
    char a[64], b[64], c[64];
    (void)state;
    vv_str_addf(line,
                "averages the weights every %s from %s to %s, goes on with the mean and gives "
                "batch norms statistics that fit it",
                vv_time_text(opts->update_interval, a, sizeof a),
                vv_time_text(opts->swa_start, b, sizeof b),
                vv_time_text(opts->swa_end, c, sizeof c));
    if (opts->schedule_swa_lr)
        vv_str_addf(line, "; learning rate to %g over %lld updates", opts->swa_lr,
                    (long long)opts->anneal_steps);
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    averager *self = method->self;
    vv_weights_free(self->mean);
}

#define ROW(member, kind, fallback, low, high, choices, help) \
    {#member, help, kind, offsetof(vv_swa_opts, member), fallback, low, high, choices}
static const char *const strategies[] = {"linear", "cos", NULL};
static const vv_field fields[] = {
    ROW(swa_start, VV_FIELD_TIME, "0.7dur", 0, 0, NULL,
        "Time at which averaging starts, as a share of the run (dur) or in epochs."),
    ROW(swa_end, VV_FIELD_TIME, "0.97dur", 0, 0, NULL,
        "Time at which the mean becomes the weights, in swa_start's unit; 1dur = at the end."),
    ROW(update_interval, VV_FIELD_TIME, "1ep", 0, 0, NULL,
        "Time between weights that enter the mean, in epochs or batches."),
    ROW(schedule_swa_lr, VV_FIELD_BOOL, "false", 0, 0, NULL,
        "Anneal the learning rate to swa_lr while averaging, instead of the main schedule."),
    ROW(anneal_strategy, VV_FIELD_CHOICE, "linear", 0, 0, strategies, "Shape of that annealing."),
    ROW(anneal_steps, VV_FIELD_INT, "10", 1, 1e9, NULL, "Averaging updates that it takes."),
    ROW(swa_lr, VV_FIELD_FLOAT, "0", 0, 1e6, NULL,
        "Learning rate it ends at, needed with schedule_swa_lr."),
    ROW(norm_batches, VV_FIELD_INT, "0", 0, 1e9, NULL,
        "Batches from which batch norms get new running statistics; 0 = a whole epoch."),
    {.name = NULL},
};
static const vv_conflict conflicts[] = {
    {"ema", "both average the weights, and one would average the other's average"},
    {"lookahead", "after swa exchanges the weights, the slow ones would pull them back"},
    {NULL, NULL},
};

const vv_method_desc vv_method_swa = {
    .desc = {.kind = "method",
             .name = "swa",
             .summary = "Ends training with the mean of the weights along its last part.",
             .cite = "Izmailov et al., Averaging Weights Leads to Wider Optima and Better "
                     "Generalization (arXiv 1803.05407)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_swa_opts)},
    .phase = VV_PHASE_WEIGHTS,
    .conflicts = conflicts,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_LOAD) |
              VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_START) |
              VV_EVENT_BIT(VV_EVENT_BATCH_END) | VV_EVENT_BIT(VV_EVENT_FIT_END),
    .self_size = sizeof(averager),
    .check = check,
    .apply = apply,
    .plan = plan,
    .save = save,
    .load = load,
    .fini = fini,
};

vv_method *vv_swa(const char *start, const char *end, const char *interval)
{
    const vv_desc *desc = &vv_method_swa.desc;
    vv_method *method = NULL;
    vv_swa_opts opts;
    if (vv_opts_init(desc, &opts) != VV_OK)
        return NULL;
    if (vv_opts_set(desc, &opts, "swa_start", start ? start : "") == VV_OK &&
        vv_opts_set(desc, &opts, "swa_end", end ? end : "") == VV_OK &&
        vv_opts_set(desc, &opts, "update_interval", interval ? interval : "") == VV_OK &&
        vv_method_new(&method, &vv_method_swa, &opts) != VV_OK)
        method = NULL;
    vv_opts_fini(desc, &opts);
    return method;
}
