/* mlperf.c - the mlperf callback: which event of a run is which line of an MLPerf log. */
#include "mlperf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <vivace/train.h>

#include "mlperf_log.h"

static const char *const benchmarks[] = {"resnet", "bert", NULL};
static const char *const divisions[] = {"open", "closed", NULL};
static const char *const statuses[] = {"onprem", "cloud", "preview", NULL};
#define AT(field) offsetof(vv_mlperf_opts, field)
static const vv_field fields[] = {
    {"dir", "Folder of systems/ and results/; empty = mlperf in the run's folder.",
     VV_FIELD_STRING, AT(dir), "", 0, 0, NULL},
    {"index", "Number of the result file.", VV_FIELD_INT, AT(index), "0", 0, 1e6, NULL},
    {"benchmark", "Which benchmark: epochs are counted by samples for bert.", VV_FIELD_CHOICE,
     AT(benchmark), "resnet", 0, 0, benchmarks},
    {"target", "The run has succeeded when the metric is better.", VV_FIELD_FLOAT, AT(target),
     "0.759", 0, 0, NULL},
    {"division", "Division of the submission.", VV_FIELD_CHOICE, AT(division), "open", 0, 0,
     divisions},
    {"monitor", "The metric that the target is for.", VV_FIELD_STRING, AT(monitor), "accuracy", 0,
     0, NULL},
    {"label", "The evaluator's label.", VV_FIELD_STRING, AT(label), "eval", 0, 0, NULL},
    {"submitter", "Who submits.", VV_FIELD_STRING, AT(submitter), "vivace", 0, 0, NULL},
    {"system_name", "Name of the machine; empty = <threads>xcpu_vivace.", VV_FIELD_STRING,
     AT(system_name), "", 0, 0, NULL},
    {"status", "Where the machine is.", VV_FIELD_CHOICE, AT(status), "onprem", 0, 0, statuses},
    {"exit_at_target", "End the run when the target is reached.", VV_FIELD_BOOL,
     AT(exit_at_target), "false", 0, 0, NULL},
    {.name = NULL},
};

typedef struct mlperf {
    mlperf_log log;
    bool resumed, running, stopped, in_block; /* run_start and run_stop are written; a block */
} mlperf;

static const char point[] = "POINT_IN_TIME", start[] = "INTERVAL_START", stop[] = "INTERVAL_END";

/* epoch_num: epochs, or samples for bert. */
static vv_status line_at(const mlperf *self, const vv_mlperf_opts *opts, const vv_state *state,
                         const char *type, const char *key, const char *value)
{
    char metadata[64];
    int64_t epoch = opts->benchmark == 1 ? state->time.sample : state->time.epoch;
    snprintf(metadata, sizeof metadata, "\"epoch_num\": %lld", (long long)epoch);
    return mlperf_log_line(&self->log, type, key, value, metadata);
}

static vv_status line_int(const mlperf *self, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return mlperf_log_line(&self->log, point, key, text, "");
}

static vv_status line_text(const mlperf *self, const char *key, const char *value)
{
    vv_str json = {0};
    vv_str_add_json(&json, value);
    vv_status status = vv_str_status(&json);
    if (status == VV_OK)
        status = mlperf_log_line(&self->log, point, key, vv_str_text(&json), "");
    vv_str_fini(&json);
    return status;
}

static vv_status open_log(mlperf *self, const vv_mlperf_opts *opts, const vv_state *state,
                          vv_str *dir, vv_str *system)
{
    const char *run = vv_trainer_run_dir(state->trainer);
    if (!opts->dir[0] && !run)
        return vv_fail(VV_EINVAL, "dir must be given: the run has no folder for results");
    vv_str_addf(dir, "%s%s", opts->dir[0] ? opts->dir : run, opts->dir[0] ? "" : "/mlperf");
    if (opts->system_name[0])
        vv_str_add(system, opts->system_name);
    else
        vv_str_addf(system, "%dxcpu_vivace", vv_threads());
    VV_TRY(vv_str_status(dir));
    VV_TRY(vv_str_status(system));
    VV_TRY(mlperf_log_open(&self->log, vv_str_text(dir), vv_str_text(system),
                           benchmarks[opts->benchmark], opts->index, self->resumed));
    return mlperf_log_system(vv_str_text(dir), vv_str_text(system), opts->submitter,
                             divisions[opts->division], statuses[opts->status], vv_threads());
}

static vv_status head(const mlperf *self, const vv_mlperf_opts *opts, const vv_state *state,
                      const char *system)
{
    const char *name = opts->benchmark == 1 ? "bert" : "resnet";
    VV_TRY(mlperf_log_line(&self->log, start, "init_start", "null", ""));
    VV_TRY(line_text(self, "submission_benchmark", name));
    VV_TRY(line_text(self, "submission_org", opts->submitter));
    VV_TRY(line_text(self, "submission_division", divisions[opts->division]));
    VV_TRY(line_text(self, "submission_status", statuses[opts->status]));
    VV_TRY(line_text(self, "submission_platform", system));
    VV_TRY(line_int(self, "seed", (int64_t)state->seed));
    VV_TRY(line_int(self, "global_batch_size", vv_loader_batch_size(state->train_loader)));
    VV_TRY(line_int(self, "train_samples", vv_loader_sample_count(state->train_loader)));
    VV_TRY(line_int(self, "eval_samples", vv_state_eval_samples(state, opts->label)));
    VV_TRY(mlperf_log_line(&self->log, stop, "init_stop", "null", ""));
    return mlperf_log_line(&self->log, start, "run_start", "null", "");
}

static vv_status fit_start(mlperf *self, const vv_mlperf_opts *opts, vv_state *state)
{
    const vv_watch watch = {opts->monitor, opts->label, 0};
    vv_str dir = {0}, system = {0};
    vv_status status;
    VV_GO(vv_watch_check(&watch, state));
    if (vv_watch_on_train(&watch))
        VV_GO(vv_fail(VV_EINVAL, "label: the target is for an evaluator's metric"));
    VV_GO(open_log(self, opts, state, &dir, &system));
    if (!self->resumed)
        VV_GO(head(self, opts, state, vv_str_text(&system)));
    self->running = true;
out:
    vv_str_fini(&dir);
    vv_str_fini(&system);
    return status;
}

static vv_status run_stop(mlperf *self, const char *how)
{
    char metadata[48];
    self->stopped = true;
    snprintf(metadata, sizeof metadata, "\"status\": \"%s\"", how);
    return mlperf_log_line(&self->log, stop, "run_stop", "null", metadata);
}

static vv_status eval_end(mlperf *self, const vv_mlperf_opts *opts, vv_state *state)
{
    const vv_watch watch = {opts->monitor, opts->label, 0};
    char text[40];
    double value;
    VV_TRY(vv_watch_value(&watch, state, &value));
    snprintf(text, sizeof text, isfinite(value) ? "%.9g" : "null", value);
    VV_TRY(line_at(self, opts, state, stop, "eval_stop", "null"));
    VV_TRY(line_at(self, opts, state, point, "eval_accuracy", text));
    if (self->in_block)
        VV_TRY(line_at(self, opts, state, stop, "block_stop", "null"));
    self->in_block = false;
    if (!(vv_watch_less_is_better(&watch) ? value < opts->target : value > opts->target))
        return VV_OK;
    state->stop = state->stop || opts->exit_at_target;
    return run_stop(self, "success");
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_mlperf_opts *opts = callback->opts;
    mlperf *self = callback->self;
    if (event == VV_EVENT_FIT_START)
        return fit_start(self, opts, state);
    if (!self->running || self->stopped)
        return VV_OK;
    switch (event) {
    case VV_EVENT_EPOCH_START:
        VV_TRY(line_at(self, opts, state, start, "epoch_start", "null"));
        if (self->in_block)
            return VV_OK;
        self->in_block = true;
        return line_at(self, opts, state, start, "block_start", "null");
    case VV_EVENT_EPOCH_END:
        return line_at(self, opts, state, stop, "epoch_stop", "null");
    case VV_EVENT_EVAL_BEFORE_ALL:
        return line_at(self, opts, state, start, "eval_start", "null");
    default: /* EVAL_AFTER_ALL */
        return eval_end(self, opts, state);
    }
}

static vv_status save(vv_callback *callback, vv_record *record)
{
    const mlperf *self = callback->self;
    VV_TRY(vv_record_set_int(record, "in_block", self->in_block));
    return vv_record_set_int(record, "stopped", self->stopped);
}

static vv_status load(vv_callback *callback, const vv_record *record)
{
    mlperf *self = callback->self;
    int64_t in_block, stopped;
    VV_TRY(vv_record_get_int(record, "in_block", &in_block));
    VV_TRY(vv_record_get_int(record, "stopped", &stopped));
    self->in_block = in_block != 0;
    self->stopped = stopped != 0;
    self->resumed = true;
    return VV_OK;
}

/* A run that never reached the target says so when it is over. */
static void fini(vv_callback *callback)
{
    mlperf *self = callback->self;
    if (self->running && !self->stopped)
        (void)!run_stop(self, "aborted");
    mlperf_log_fini(&self->log);
}

const vv_callback_desc vv_callback_mlperf = {
    .desc = {"callback", "mlperf", "Writes the result files of an MLPerf submission.",
             "https://github.com/mlcommons/logging", "any", fields, sizeof(vv_mlperf_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_EPOCH_START) |
              VV_EVENT_BIT(VV_EVENT_EPOCH_END) | VV_EVENT_BIT(VV_EVENT_EVAL_BEFORE_ALL) |
              VV_EVENT_BIT(VV_EVENT_EVAL_AFTER_ALL),
    .self_size = sizeof(mlperf),
    .apply = apply,
    .save = save,
    .load = load,
    .fini = fini,
};
