/* ema.c - an exponential moving average of the weights. The Trainer exchanges it with the trained
 * weights around evaluation, prediction and saving. */
#include "ema.h"

#include <math.h>

double vv_ema_smoothing(double interval, double half_life)
{
    return exp2(-interval / half_life);
}

void vv_ema_update(vv_weights *average, double smoothing)
{
    vv_weights_move(average, 1.0 - smoothing);
}

/* With A_n = s A_(n-1) + (1 - s) w_n and A_0 = 0, A_n / (1 - s^n) moves towards w_n by
   (1 - s) / (1 - s^n): 1 for n = 1, so the start value never counts. */
void vv_ema_update_corrected(vv_weights *average, double smoothing, int64_t n)
{
    const double rest = 1.0 - smoothing;
    vv_weights_move(average, n > 1 ? rest / (1.0 - pow(smoothing, (double)n)) : 1.0);
}

/* ---- the Trainer's method ---- */

typedef struct averager {
    vv_weights *weights; /* the average; while it is in the model, the trained ones */
    double start;        /* in batches; below 0 = not resolved yet */
    int64_t updates;
    bool started, in, loaded;
} averager;

static bool by_epoch(const vv_ema_opts *opts)
{
    return opts->update_interval.unit == VV_UNIT_EPOCH ||
           (vv_time_is_none(opts->update_interval) && opts->half_life.unit == VV_UNIT_EPOCH &&
            opts->smoothing == 0.0);
}

static int64_t interval_of(const vv_ema_opts *opts)
{
    return vv_time_is_none(opts->update_interval) ? 1 : opts->update_interval.count;
}

static double smoothing_of(const vv_ema_opts *opts)
{
    return opts->smoothing > 0.0
               ? opts->smoothing
               : vv_ema_smoothing((double)interval_of(opts), (double)opts->half_life.count);
}

static bool counts(vv_time time)
{
    return (time.unit == VV_UNIT_BATCH || time.unit == VV_UNIT_EPOCH) && time.count > 0;
}

static vv_status check(const void *options)
{
    const vv_ema_opts *opts = options;
    const vv_time half_life = opts->half_life;
    const bool usual = half_life.unit == VV_UNIT_BATCH && half_life.count == 1000;
    if (opts->smoothing > 0.0 && !vv_time_is_none(half_life) && !usual)
        return vv_fail(VV_EINVAL, "half_life and smoothing say the same thing; give one of them");
    if (opts->smoothing == 1.0)
        return vv_fail(VV_EINVAL, "smoothing 1 never takes anything into the average; stay below");
    if (opts->smoothing == 0.0 && !counts(half_life))
        return vv_fail(VV_EINVAL, "half_life: give batches (ba) or epochs (ep) above 0, or "
                                  "smoothing instead");
    if (vv_time_is_none(opts->update_interval))
        return VV_OK;
    if (!counts(opts->update_interval))
        return vv_fail(VV_EINVAL, "update_interval: give batches (ba) or epochs (ep) above 0");
    if (opts->smoothing == 0.0 && opts->update_interval.unit != half_life.unit)
        return vv_fail(VV_EINVAL, "update_interval and half_life need the same unit, ba or ep");
    return VV_OK;
}

static bool starts_at_once(const vv_ema_opts *opts)
{
    return opts->ema_start.count == 0 && opts->ema_start.fraction == 0.0;
}

static void start(averager *self)
{
    vv_weights_copy(self->weights);
    self->started = true;
    self->updates = 0;
}

/* After a load, or where there was none: an average that was not in the file starts anew. */
static vv_status after_load(vv_method *method, vv_state *state)
{
    averager *self = method->self;
    if (state->optimizer && vv_optimizer_averages(state->optimizer))
        return vv_fail(VV_EINVAL,
                       "the optimizer %s averages the weights itself; remove the method, or use "
                       "another optimizer", vv_optimizer_type(state->optimizer)->desc.name);
    VV_TRY(vv_weights_check(self->weights, state->model->net));
    if (!self->loaded) {
        vv_weights_copy(self->weights);
        self->started = starts_at_once(method->opts);
        self->updates = 0;
    }
    self->loaded = false;
    return VV_OK;
}

/* Updates up to a number of batches of the run, from a start in batches. */
static double updates_until(const vv_ema_opts *opts, const vv_axis *axis, double from)
{
    const double every = (double)interval_of(opts);
    const double batches = (double)axis->total_batches - from;
    if (!by_epoch(opts))
        return floor(batches / every);
    if (axis->knots) /* epochs have not the same number of batches */
        return floor((vv_axis_epochs(axis, (double)axis->total_batches) -
                      vv_axis_epochs(axis, from)) / every);
    return floor(batches / (double)axis->batches_per_epoch / every);
}

static vv_status fit_start(vv_method *method, vv_state *state)
{
    const vv_ema_opts *opts = method->opts;
    averager *self = method->self;
    VV_TRY(vv_weights_check(self->weights, state->model->net));
    if (starts_at_once(opts))
        self->start = 0.0;
    else
        VV_TRY(vv_fail_within(vv_time_to_batches(&self->start, opts->ema_start, &state->axis),
                              "ema_start"));
    const double updates = updates_until(opts, &state->axis, self->start);
    const double left = pow(smoothing_of(opts), updates > 0.0 ? updates : 0.0);
    if (opts->bias_corrected || left <= 0.1)
        return VV_OK;
    vv_str text = {0};
    vv_str_addf(&text,
                "ema: after the run's %.0f updates the start value still makes up %.0f%% of the "
                "average; take a shorter half_life (a smaller smoothing), or bias_corrected",
                updates, 100.0 * left);
    vv_log_message(state, vv_str_text(&text));
    vv_str_fini(&text);
    return VV_OK;
}

static void update(vv_method *method, const vv_state *state, int64_t now)
{
    const vv_ema_opts *opts = method->opts;
    averager *self = method->self;
    self->loaded = false; /* going back in a run loads without AFTER_LOAD */
    if (!self->started && (double)state->time.batch >= self->start)
        start(self);
    if (!self->started || now % interval_of(opts) != 0)
        return;
    self->updates++;
    method->effect++;
    if (opts->bias_corrected)
        vv_ema_update_corrected(self->weights, smoothing_of(opts), self->updates);
    else
        vv_ema_update(self->weights, smoothing_of(opts));
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_ema_opts *opts = method->opts;
    averager *self = method->self;
    switch (event) {
    case VV_EVENT_INIT:
        self->start = -1.0;
        return vv_weights_new(&self->weights, state->model->net);
    case VV_EVENT_AFTER_LOAD:
        return after_load(method, state);
    case VV_EVENT_FIT_START:
        return fit_start(method, state);
    case VV_EVENT_BATCH_END:
        if (!by_epoch(opts))
            update(method, state, state->time.batch);
        return VV_OK;
    default:
        if (by_epoch(opts))
            update(method, state, state->time.epoch);
        return VV_OK;
    }
}

static void swap(vv_method *method, bool in)
{
    averager *self = method->self;
    if (!self->weights || !self->started || self->in == in)
        return;
    vv_weights_swap(self->weights);
    self->in = in;
}

static vv_status save(vv_method *method, vv_record *record)
{
    const averager *self = method->self;
    VV_TRY(vv_record_set_int(record, "started", self->started));
    VV_TRY(vv_record_set_int(record, "updates", self->updates));
    return self->started ? vv_record_set_weights(record, "trained", self->weights) : VV_OK;
}

/* The model holds the average, as saved: the exchange after this gives it its trained weights. */
static vv_status load(vv_method *method, const vv_record *record)
{
    averager *self = method->self;
    int64_t started;
    VV_TRY(vv_record_get_int(record, "started", &started));
    VV_TRY(vv_record_get_int(record, "updates", &self->updates));
    if (started)
        VV_TRY(vv_record_get_weights(record, "trained", self->weights));
    else
        vv_weights_copy(self->weights);
    self->started = self->in = started != 0;
    self->loaded = true;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_ema_opts *opts = method->opts;
    char text[64];
    (void)state;
    vv_str_addf(line, "keeps %.6g of the average every %lld %s%s", smoothing_of(opts),
                (long long)interval_of(opts), by_epoch(opts) ? "epochs" : "batches",
                opts->bias_corrected ? ", bias-corrected" : "");
    if (!starts_at_once(opts))
        vv_str_addf(line, " from %s on", vv_time_text(opts->ema_start, text, sizeof text));
    vv_str_add(line, "; evaluates and saves the average");
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    averager *self = method->self;
    vv_weights_free(self->weights);
}

#define ROW(member, kind, fallback, low, high, help) \
    {#member, help, kind, offsetof(vv_ema_opts, member), fallback, low, high, NULL}
static const vv_field fields[] = {
    ROW(half_life, VV_FIELD_TIME, "1000ba", 0, 0,
        "Time in which half of the average is renewed, in batches or epochs."),
    ROW(smoothing, VV_FIELD_FLOAT, "0", 0, 1,
        "Share of the average that an update keeps, instead of half_life; 0 = half_life decides."),
    ROW(update_interval, VV_FIELD_TIME, "none", 0, 0,
        "Time between updates, in half_life's unit; none = 1 of it."),
    ROW(ema_start, VV_FIELD_TIME, "0dur", 0, 0,
        "Time at which averaging starts, in any unit; evaluation uses the trained weights before."),
    ROW(bias_corrected, VV_FIELD_BOOL, "false", 0, 0,
        "Leave the start value out of the average, as Adam does."),
    {.name = NULL},
};
static const char *const after[] = {"lookahead", NULL};
static const vv_conflict conflicts[] = {
    {"swa", "both average the weights, and one would average the other's average"},
    {NULL, NULL},
};

const vv_method_desc vv_method_ema = {
    .desc = {.kind = "method",
             .name = "ema",
             .summary = "Evaluates and saves an exponential moving average of the weights.",
             .cite = "Polyak & Juditsky, Acceleration of Stochastic Approximation by Averaging "
                     "(SIAM J. Control Optim. 30, 1992)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_ema_opts)},
    .phase = VV_PHASE_WEIGHTS,
    .after = after,
    .conflicts = conflicts,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_LOAD) |
              VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END) |
              VV_EVENT_BIT(VV_EVENT_EPOCH_END),
    .self_size = sizeof(averager),
    .check = check,
    .apply = apply,
    .plan = plan,
    .save = save,
    .load = load,
    .swap = swap,
    .fini = fini,
};

vv_method *vv_ema(const char *half_life)
{
    vv_method *method = NULL;
    vv_ema_opts opts;
    if (vv_opts_init(&vv_method_ema.desc, &opts) != VV_OK)
        return NULL;
    if (vv_opts_set(&vv_method_ema.desc, &opts, "half_life", half_life ? half_life : "") == VV_OK &&
        vv_method_new(&method, &vv_method_ema, &opts) != VV_OK)
        method = NULL;
    vv_opts_fini(&vv_method_ema.desc, &opts);
    return method;
}

/* ---- the average itself ---- */

static vv_status readable(const vv_method *method, const averager **out)
{
    if (!method || method->type != &vv_method_ema)
        return vv_fail(VV_EINVAL, "ema: this is not the method ema");
    *out = method->self;
    if (!(*out)->weights || !(*out)->started || (*out)->in)
        return vv_fail(VV_ESTATE, "ema: %s", (*out)->in ? "the average is in the model now"
                                                        : "averaging has not started yet");
    return VV_OK;
}

vv_status vv_ema_find(const vv_tensor **out, const vv_method *method, const char *name)
{
    const averager *self = NULL;
    *out = NULL;
    VV_TRY(readable(method, &self));
    *out = vv_weights_find(self->weights, name);
    return *out ? VV_OK : vv_fail(VV_ENOTFOUND, "ema: the model has no weight \"%s\"", name);
}

static const vv_tensor *find(void *ctx, const char *name)
{
    const averager *self = ctx;
    return vv_weights_find(self->weights, name);
}

vv_status vv_ema_copy_to(const vv_method *method, vv_module *net)
{
    const averager *self = NULL;
    VV_TRY(readable(method, &self));
    averager copy = *self;
    return vv_module_load(net, find, &copy, true, NULL);
}
