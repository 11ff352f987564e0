/* system_metrics.c - the system_metrics callback: what the machine did since the last look. */
#include "system_metrics.h"

#include <math.h>

#include "proc_read.h"

static const vv_field fields[] = {
    {"interval", "Time between batches at which is looked (ba, ep, sp, dur).", VV_FIELD_TIME,
     offsetof(vv_system_metrics_opts, interval), "10ba", 0, 0, NULL},
    {"proc", "Folder with the kernel's files; another one where a container has the host's.",
     VV_FIELD_STRING, offsetof(vv_system_metrics_opts, proc), "/proc", 0, 0, NULL},
    {.name = NULL},
};

typedef struct system_metrics {
    proc_counters last;
    double seconds; /* clock at `last` */
} system_metrics;

static void log_known(vv_state *state, const char *name, double value)
{
    if (isfinite(value))
        vv_log_metric(state, name, value);
}

static void look(const vv_system_metrics_opts *opts, system_metrics *self, vv_state *state)
{
    proc_counters now;
    const proc_counters *last = &self->last;
    double clock = vv_clock(), seconds = clock - self->seconds;
    proc_read(&now, opts->proc);
    double ticks = now.cpu_total - last->cpu_total;
    if (ticks > 0.0) {
        log_known(state, "system/cpu_percent", 100.0 * (now.cpu_busy - last->cpu_busy) / ticks);
        log_known(state, "system/process_cpu_percent",
                  100.0 * (now.process - last->process) / ticks);
    }
    log_known(state, "system/memory_used", now.memory_total - now.memory_free);
    log_known(state, "system/memory_percent",
              100.0 * (now.memory_total - now.memory_free) / now.memory_total);
    if (seconds > 0.0) {
        log_known(state, "system/disk_read_per_sec", (now.disk_read - last->disk_read) / seconds);
        log_known(state, "system/disk_written_per_sec",
                  (now.disk_written - last->disk_written) / seconds);
        log_known(state, "system/network_received_per_sec",
                  (now.net_received - last->net_received) / seconds);
        log_known(state, "system/network_sent_per_sec", (now.net_sent - last->net_sent) / seconds);
    }
    self->last = now;
    self->seconds = clock;
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_system_metrics_opts *opts = callback->opts;
    system_metrics *self = callback->self;
    bool due;
    if (event == VV_EVENT_FIT_START) {
        proc_read(&self->last, opts->proc);
        self->seconds = vv_clock();
        if (isnan(self->last.cpu_total) && isnan(self->last.memory_total))
            return vv_fail(VV_EUNSUPPORTED,
                           "proc: %s does not tell how busy the machine is; system_metrics needs "
                           "Linux, or the folder with the kernel's files", opts->proc);
        return vv_fail_within(vv_state_due(&due, state, opts->interval, 0), "interval");
    }
    VV_TRY(vv_state_due(&due, state, opts->interval, state->time.batch));
    if (due)
        look(opts, self, state);
    return VV_OK;
}

const vv_callback_desc vv_callback_system_metrics = {
    .desc = {"callback", "system_metrics", "Logs how busy the machine is.", "", "any", fields,
             sizeof(vv_system_metrics_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .self_size = sizeof(system_metrics),
    .apply = apply,
};
