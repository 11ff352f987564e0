/* profile.c - the profiler: which batches are looked at, and what is recorded of them. */
#include "profile.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/file.h"

#define MOST_SPANS 4000000 /* of one trace: some 300 MB */

struct vvi_profiler {
    vv_profile_opts opts;
    vv_trainer *trainer;
    char *folder;
    double zero; /* the clock when the first fit began */
    vvi_trace trace;
    vvi_profile_table table;
    bool hooked, active, save_due;
    bool broken; /* could not write */
    int64_t resumed_epoch, resumed_batch; /* where this process began; -1 = not yet known */
    int64_t traces;
    /* of the run of the graph that goes on: */
    double forward_start, forward_end, backward_start, backward_end;
};

const char *const vvi_profile_memory_names[4] = {"live_bytes", "slab_bytes", "result_bytes",
                                                 "kept_bytes"};

vvi_profile_action vvi_profile_at(const vv_profile_opts *opts, int64_t skip, int64_t batch_in_epoch,
                                  int64_t batches_per_epoch)
{
    int64_t at = batch_in_epoch - opts->skip_first - skip;
    int64_t cycle = opts->wait + opts->warmup + opts->active;
    if (at < 0 || (opts->repeat > 0 && at / cycle >= opts->repeat))
        return VVI_PROFILE_SKIP;
    int64_t in_cycle = at % cycle;
    if (in_cycle < opts->wait)
        return VVI_PROFILE_SKIP;
    if (in_cycle < opts->wait + opts->warmup)
        return VVI_PROFILE_WARMUP;
    bool last = in_cycle == cycle - 1 || batch_in_epoch == batches_per_epoch - 1;
    return last ? VVI_PROFILE_SAVE : VVI_PROFILE_ACTIVE;
}

vv_status vvi_profiler_new(vvi_profiler **out, const vv_profile_opts *opts, vv_trainer *trainer)
{
    *out = NULL;
    if (!trainer->run_dir)
        return vv_fail(VV_EINVAL, "profile: traces need a run folder; set run_dir");
    if (opts->skip_first < 0 || opts->wait < 0 || opts->warmup < 0 || opts->repeat < 0 ||
        opts->active < 1)
        return vv_fail(VV_EINVAL, "profile: active must be at least 1, the others 0 or more");
    vv_status status = VV_OK;
    vvi_profiler *p = NULL;
    VV_GO(vv_alloc(&p, sizeof *p));
    p->opts = *opts;
    p->trainer = trainer;
    p->resumed_epoch = -1;
    p->zero = -1.0;
    VV_GO(vvi_path_join(&p->folder, trainer->run_dir, "traces"));
    *out = p;
    return VV_OK;
out:
    vvi_profiler_free(p);
    return status;
}

void vvi_profiler_free(vvi_profiler *p)
{
    if (!p)
        return;
    if (p->trainer->graph)
        vv_graph_set_trace(p->trainer->graph, NULL, NULL);
    vv_dealloc(p->trace.spans);
    vv_str_fini(&p->trace.names);
    vv_dealloc(p->table.rows);
    vv_dealloc(p->folder);
    vv_dealloc(p);
}

bool vvi_profile_active(const vvi_profiler *p)
{
    return p->active;
}

/* ---- recording ---- */

static int64_t nanoseconds(const vvi_profiler *p, double clock)
{
    return llround((clock - p->zero) * 1e9);
}

/* Both ends are rounded alike, so what lies within another span stays within. NULL: no room. */
static vvi_span *add(vvi_profiler *p, char phase, double start, double end, const char *category,
                     const char *name)
{
    vvi_trace *trace = &p->trace;
    if (trace->count == trace->capacity) {
        int64_t capacity = trace->capacity ? 2 * trace->capacity : 1024;
        if (capacity > MOST_SPANS ||
            vv_realloc_array(&trace->spans, (size_t)capacity, sizeof *trace->spans) != VV_OK) {
            trace->dropped++; /* a profile never ends a run */
            return NULL;
        }
        trace->capacity = capacity;
    }
    const vv_timestamp *now = &p->trainer->state.time;
    int64_t start_ns = nanoseconds(p, start);
    vvi_span *span = &trace->spans[trace->count++];
    *span = (vvi_span){.phase = phase, .start_ns = start_ns, .ns = nanoseconds(p, end) - start_ns,
                       .category = category, .name = name, .node = -1, .epoch = now->epoch,
                       .batch = now->batch};
    return span;
}

void vvi_profile_span(vvi_profiler *p, double began, const char *category, const char *name,
                      const char *detail)
{
    if (!p->active)
        return;
    double end = vv_clock();
    vvi_span *span = add(p, 'X', began, end, category, name);
    if (span)
        span->detail = detail;
    /* The table is about training; of an evaluation it has the whole. */
    if (!p->trainer->state.eval_label)
        vvi_profile_count(&p->table, category, name, NULL, false, end - began, 0);
}

void vvi_profile_instant(const vv_trainer *t, const char *category, const char *name)
{
    vvi_profiler *p = t->profiler;
    if (!p || !p->active)
        return;
    double now = vv_clock();
    add(p, 'i', now, now, category, name);
}

/* One instruction of the graph has run. */
static void note_instruction(void *ctx, const vv_graph_span *run)
{
    vvi_profiler *p = ctx;
    if (!p->active)
        return;
    double end = run->start + run->seconds;
    vvi_span *span = add(p, 'X', run->start, end, "op", run->op);
    vv_str *names = &p->trace.names;
    if (span) {
        int64_t at = (int64_t)names->length;
        vv_str_addn(names, run->name, strlen(run->name) + 1);
        span->kernel = run->kernel;
        span->node = vv_str_status(names) == VV_OK ? at : -1;
    }
    if (!p->trainer->state.eval_label)
        vvi_profile_count(&p->table, "op", run->op, run->kernel, run->backward, run->seconds,
                          run->flops);
    double *start = run->backward ? &p->backward_start : &p->forward_start;
    if (*start < 0.0)
        *start = run->start;
    *(run->backward ? &p->backward_end : &p->forward_end) = end;
}

static void forget_run(vvi_profiler *p)
{
    p->forward_start = p->backward_start = -1.0;
}

static void note_memory(vvi_profiler *p)
{
    vv_graph_stats stats;
    vv_graph_get_stats(p->trainer->graph, &stats);
    const int64_t bytes[4] = {(int64_t)vv_memory_live_bytes(), (int64_t)stats.planned_bytes,
                              (int64_t)stats.result_bytes, stats.kept_bytes};
    double now = vv_clock();
    vvi_span *span = add(p, 'C', now, now, "memory", "memory");
    for (int i = 0; i < 4; i++) {
        if (span)
            span->bytes[i] = bytes[i];
        if (bytes[i] > p->table.most_bytes[i])
            p->table.most_bytes[i] = bytes[i];
    }
}

void vvi_profile_run(const vv_trainer *t, double began)
{
    vvi_profiler *p = t->profiler;
    if (began < 0.0 || !p || !p->active)
        return;
    vvi_profile_span(p, began, "graph", "run", NULL);
    /* What ran in this call: values that were read earlier in the step lie before `began`. */
    bool forward = p->forward_start >= 0.0 && p->forward_end > began;
    bool backward = p->backward_start >= 0.0 && p->backward_end > began;
    double start = fmax(p->forward_start, began), end = p->forward_end;
    if (backward && end > p->backward_start)
        end = p->backward_start; /* forward values that only the backward part needs */
    if (forward && end > start) {
        add(p, 'X', start, end, "graph", "forward");
        vvi_profile_count(&p->table, "graph", "forward", NULL, false, end - start, 0);
    }
    if (backward) {
        start = fmax(p->backward_start, began);
        end = fmax(p->backward_end, forward ? p->forward_end : 0.0);
        add(p, 'X', start, end, "graph", "backward");
        vvi_profile_count(&p->table, "graph", "backward", NULL, false, end - start, 0);
    }
    forget_run(p);
    note_memory(p);
}

/* ---- the schedule ---- */

static void set_hooks(vvi_profiler *p, bool hooked, bool active)
{
    if (hooked != p->hooked)
        vv_graph_set_trace(p->trainer->graph, hooked ? note_instruction : NULL, p);
    p->hooked = hooked;
    p->active = active;
    forget_run(p);
}

static void clear_trace(vvi_profiler *p)
{
    p->trace.count = p->trace.dropped = 0;
    vv_str_clear(&p->trace.names);
}

static vv_status save_trace(vvi_profiler *p)
{
    const vv_trainer *t = p->trainer;
    const vv_timestamp *now = &t->state.time;
    const int64_t epoch = (int64_t)vv_axis_epochs(&t->state.axis, (double)now->batch); /* as
                                                                     checkpoints count */
    vv_str path = {0};
    vv_str_addf(&path, "%s/ep%04lld-ba%08lld-rank0.json", p->folder, (long long)epoch,
                (long long)now->batch);
    vv_status status = vv_str_status(&path);
    if (status == VV_OK)
        status = vvi_mkdirs(p->folder);
    if (status == VV_OK)
        status = vvi_trace_write(&p->trace, vv_str_text(&path), t->run_name);
    vv_str_fini(&path);
    clear_trace(p);
    p->save_due = false;
    p->traces++;
    return vv_fail_within(status, "profile");
}

static void give_up(vvi_profiler *p)
{
    vv_str text = {0};
    set_hooks(p, false, false);
    clear_trace(p);
    p->broken = true;
    vv_str_addf(&text, "the profiler stops: %s", vv_error());
    vv_log_message(&p->trainer->state, vv_str_text(&text));
    vv_str_fini(&text);
}

void vvi_profile_batch(vv_trainer *t)
{
    vvi_profiler *p = t->profiler;
    const vv_timestamp *now = &t->state.time;
    /* The look for a batch at an epoch's end: what is done there belongs to the last one. */
    if (!p || p->broken)
        return;
    const int64_t per_epoch = vv_axis_epoch_batches(&t->state.axis, now->epoch);
    if (now->batch_in_epoch >= per_epoch)
        return;
    if (p->save_due && save_trace(p) != VV_OK) {
        give_up(p);
        return;
    }
    if (p->resumed_epoch < 0) {
        p->zero = vv_clock();
        p->resumed_epoch = now->epoch;
        p->resumed_batch = now->batch_in_epoch;
    }
    int64_t skip = now->epoch == p->resumed_epoch ? p->resumed_batch : 0;
    vvi_profile_action action =
        vvi_profile_at(&p->opts, skip, now->batch_in_epoch, per_epoch);
    bool active = action == VVI_PROFILE_ACTIVE || action == VVI_PROFILE_SAVE;
    set_hooks(p, action != VVI_PROFILE_SKIP, active);
    p->save_due = action == VVI_PROFILE_SAVE;
    p->table.batches += active;
}

static vv_status write_table(vvi_profiler *p)
{
    vv_str text = {0}, path = {0};
    vvi_profile_text(&p->table, &text);
    vv_str_addf(&path, "%s/summary.txt", p->folder);
    vv_status status = vv_str_status(&text);
    if (status == VV_OK)
        status = vv_str_status(&path);
    if (status == VV_OK)
        status = vvi_file_write_atomic(vv_str_text(&path), vv_str_text(&text), text.length);
    vv_str_fini(&text);
    vv_str_fini(&path);
    return vv_fail_within(status, "profile");
}

void vvi_profile_finish(vv_trainer *t)
{
    vvi_profiler *p = t->profiler;
    if (!p || p->broken)
        return;
    vv_status status = p->active && p->trace.count ? save_trace(p) : VV_OK;
    set_hooks(p, false, false);
    if (status == VV_OK && p->table.batches)
        status = write_table(p);
    if (status != VV_OK)
        give_up(p);
}

vv_status vv_trainer_profile(vv_trainer *t, vv_str *out)
{
    if (t->profiler && t->profiler->table.batches)
        vvi_profile_text(&t->profiler->table, out);
    return vv_str_status(out);
}
