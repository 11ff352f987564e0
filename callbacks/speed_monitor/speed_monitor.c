/* speed_monitor.c - the speed_monitor callback: rates over a sliding window of batches, in training
 * time (evaluation and saving not counted), and training and evaluation seconds. */
#include "speed_monitor.h"

#include <vivace/memory.h>

static const vv_field fields[] = {
    {"window_size", "Batches over which rates are taken.", VV_FIELD_INT,
     offsetof(vv_speed_monitor_opts, window_size), "100", 1, 1e6, NULL},
    {"mfu", "Measure the machine's arithmetic peak at the start (about 0.3 s) and log the share of "
            "it that training reaches.", VV_FIELD_BOOL,
     offsetof(vv_speed_monitor_opts, mfu), "true", 0, 0, NULL},
    {.name = NULL},
};

typedef struct mark { /* the end of a batch */
    double seconds, flops;
    int64_t sample, token;
} mark;

typedef struct speed_monitor {
    mark *ring;    /* window_size marks */
    int64_t count; /* marks made in this process */
    double flops;  /* so far in this process */
    double peak;   /* flop/s; 0 = not measured */
} speed_monitor;

static void log_rates(const vv_speed_monitor_opts *opts, const speed_monitor *self, vv_state *state,
                      const mark *now, const mark *then)
{
    double seconds = now->seconds - then->seconds;
    double flops = (now->flops - then->flops) / seconds;
    vv_log_metric(state, "throughput/batches_per_sec", (double)opts->window_size / seconds);
    vv_log_metric(state, "throughput/samples_per_sec",
                  (double)(now->sample - then->sample) / seconds);
    if (now->token > then->token)
        vv_log_metric(state, "throughput/tokens_per_sec",
                      (double)(now->token - then->token) / seconds);
    vv_log_metric(state, "throughput/flops_per_sec", flops);
    if (self->peak > 0.0)
        vv_log_metric(state, "throughput/mfu", flops / self->peak);
}

static vv_status batch_end(const vv_speed_monitor_opts *opts, speed_monitor *self, vv_state *state)
{
    int64_t room = opts->window_size;
    if (!self->ring)
        VV_TRY(vv_alloc_array(&self->ring, (size_t)room, sizeof *self->ring));
    mark now = {state->time.total_seconds, self->flops, state->time.sample, state->time.token};
    mark oldest = self->ring[self->count % room]; /* window_size batches ago; `now` replaces it */
    self->ring[self->count++ % room] = now;
    if (self->count > room && now.seconds > oldest.seconds)
        log_rates(opts, self, state, &now, &oldest);
    vv_log_metric(state, "time/train", state->time.total_seconds);
    vv_log_metric(state, "time/val", vv_state_eval_seconds(state));
    vv_log_metric(state, "time/total", vv_state_wall_seconds(state));
    return VV_OK;
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_speed_monitor_opts *opts = callback->opts;
    speed_monitor *self = callback->self;
    vv_graph_stats stats;
    switch (event) {
    case VV_EVENT_FIT_START:
        if (opts->mfu)
            self->peak = 1e9 * vv_measure_peak_gflops(state->precision);
        return VV_OK;
    case VV_EVENT_AFTER_BACKWARD:
        vv_graph_get_stats(state->graph, &stats);
        self->flops += (double)stats.flops;
        return VV_OK;
    default:
        return batch_end(opts, self, state);
    }
}

static void fini(vv_callback *callback)
{
    vv_dealloc(((speed_monitor *)callback->self)->ring);
}

const vv_callback_desc vv_callback_speed_monitor = {
    .desc = {"callback", "speed_monitor", "Logs throughput and where the time goes.", "", "any",
             fields, sizeof(vv_speed_monitor_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END) |
              VV_EVENT_BIT(VV_EVENT_AFTER_BACKWARD),
    .self_size = sizeof(speed_monitor),
    .apply = apply,
    .fini = fini,
};
