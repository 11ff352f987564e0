/* speed_monitor.c - the speed_monitor callback: rates over a sliding window of batches, in training
 * time (evaluation and saving not counted), and training and evaluation seconds. */
#include "speed_monitor.h"

#include <vivace/memory.h>

static const vv_field fields[] = {
    {"window_size", "Batches over which rates are taken.", VV_FIELD_INT,
     offsetof(vv_speed_monitor_opts, window_size), "100", 1, 1e6, NULL},
    {.name = NULL},
};

typedef struct mark { /* the end of a batch */
    double seconds, flops;
    int64_t sample;
} mark;

typedef struct speed_monitor {
    mark *ring;     /* window_size marks */
    int64_t count;  /* marks made in this process */
    double flops;   /* so far in this process */
    double eval_seconds, eval_start;
} speed_monitor;

static vv_status batch_end(const vv_speed_monitor_opts *opts, speed_monitor *self, vv_state *state)
{
    int64_t room = opts->window_size;
    if (!self->ring)
        VV_TRY(vv_alloc_array(&self->ring, (size_t)room, sizeof *self->ring));
    mark now = {state->time.total_seconds, self->flops, state->time.sample};
    mark oldest = self->ring[self->count % room]; /* window_size batches ago; `now` replaces it */
    self->ring[self->count++ % room] = now;
    double seconds = now.seconds - oldest.seconds;
    if (self->count > room && seconds > 0.0) {
        vv_log_metric(state, "throughput/batches_per_sec", (double)room / seconds);
        vv_log_metric(state, "throughput/samples_per_sec",
                      (double)(now.sample - oldest.sample) / seconds);
        vv_log_metric(state, "throughput/flops_per_sec", (now.flops - oldest.flops) / seconds);
    }
    vv_log_metric(state, "time/train", state->time.total_seconds);
    vv_log_metric(state, "time/val", self->eval_seconds);
    vv_log_metric(state, "time/total", state->time.total_seconds + self->eval_seconds);
    return VV_OK;
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    speed_monitor *self = callback->self;
    vv_graph_stats stats;
    switch (event) {
    case VV_EVENT_AFTER_BACKWARD:
        vv_graph_get_stats(state->graph, &stats);
        self->flops += (double)stats.flops;
        return VV_OK;
    case VV_EVENT_EVAL_BEFORE_ALL:
        self->eval_start = vv_clock();
        return VV_OK;
    case VV_EVENT_EVAL_AFTER_ALL:
        self->eval_seconds += vv_clock() - self->eval_start;
        return VV_OK;
    default:
        return batch_end(callback->opts, self, state);
    }
}

static vv_status save(vv_callback *callback, vv_record *record)
{
    const speed_monitor *self = callback->self;
    return vv_record_set_double(record, "eval_seconds", self->eval_seconds);
}

static vv_status load(vv_callback *callback, const vv_record *record)
{
    speed_monitor *self = callback->self;
    return vv_record_get_double(record, "eval_seconds", &self->eval_seconds);
}

static void fini(vv_callback *callback)
{
    vv_dealloc(((speed_monitor *)callback->self)->ring);
}

const vv_callback_desc vv_callback_speed_monitor = {
    .desc = {"callback", "speed_monitor", "Logs throughput and where the time goes.", "", "any",
             fields, sizeof(vv_speed_monitor_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_BATCH_END) | VV_EVENT_BIT(VV_EVENT_AFTER_BACKWARD) |
              VV_EVENT_BIT(VV_EVENT_EVAL_BEFORE_ALL) | VV_EVENT_BIT(VV_EVENT_EVAL_AFTER_ALL),
    .self_size = sizeof(speed_monitor),
    .apply = apply,
    .save = save,
    .load = load,
    .fini = fini,
};
