/* memory_monitor.c - the memory_monitor callback: bytes of the step graph, of the library and of
 * the whole process. */
#include "memory_monitor.h"

#include <stdio.h>

#include <vivace/memory.h>
#include <vivace/train.h>

static const vv_field fields[] = {
    {"interval", "Time between batches that are looked at (ba, ep, sp, dur).", VV_FIELD_TIME,
     offsetof(vv_memory_monitor_opts, interval), "1ba", 0, 0, NULL},
    {.name = NULL},
};

/* What the kernel knows of the process; 0 where it does not tell. */
static void read_process(double *resident, double *peak)
{
    char line[256];
    long long kib;
    *resident = *peak = 0.0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmRSS: %lld", &kib) == 1)
            *resident = 1024.0 * (double)kib;
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            *peak = 1024.0 * (double)kib;
    }
    fclose(file);
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_memory_monitor_opts *opts = callback->opts;
    bool due;
    if (event == VV_EVENT_FIT_START) /* a unit that cannot be resolved is told now */
        return vv_fail_within(vv_state_due(&due, state, opts->interval, 0), "interval");
    VV_TRY(vv_state_due(&due, state, opts->interval, state->time.batch));
    if (!due)
        return VV_OK;
    vv_graph_stats stats;
    double resident, peak;
    vv_graph_get_stats(vv_trainer_graph(state->trainer), &stats);
    vv_log_metric(state, "memory/slab_planned", (double)stats.planned_bytes);
    vv_log_metric(state, "memory/slab_peak", (double)stats.peak_bytes);
    vv_log_metric(state, "memory/library", (double)vv_memory_live_bytes());
    vv_log_metric(state, "memory/library_peak", (double)vv_memory_peak_bytes());
    read_process(&resident, &peak);
    if (resident > 0.0)
        vv_log_metric(state, "memory/resident", resident);
    if (peak > 0.0)
        vv_log_metric(state, "memory/resident_peak", peak);
    return VV_OK;
}

const vv_callback_desc vv_callback_memory_monitor = {
    .desc = {"callback", "memory_monitor", "Logs how much memory the run uses.", "", "any", fields,
             sizeof(vv_memory_monitor_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .apply = apply,
};
