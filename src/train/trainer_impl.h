/* trainer_impl.h - the Trainer's inside, shared by the files of this folder. */
#ifndef VVI_TRAINER_IMPL_H
#define VVI_TRAINER_IMPL_H

#include <stdatomic.h>
#include <stdio.h>

#include <vivace/memory.h>
#include <vivace/safetensors.h>
#include <vivace/train.h>

#include "base/pattern.h"
#include "train/run_folder.h"

struct json_t; /* jansson.h */

/* ---- interval.c: when evaluation and saving are due (spec: trainer.md 3.5) ---- */
typedef struct vvi_interval {
    vv_time every;
    bool never;         /* not even at the end */
    bool checkpoint; /* looks at *_CHECKPOINT events and ends with them; else *_END and FIT_END */
    int64_t last_batch; /* batch count at which it fired last; -1 = not yet */
} vvi_interval;
/* NULL or "" = never; a zero count = only at the end. */
vv_status vvi_interval_parse(vvi_interval *out, const char *text, bool checkpoint);
/* Whether it fires now; the caller then sets last_batch. `previous`: the clock before this
   batch. */
bool vvi_interval_due(const vvi_interval *interval, vv_event event, const vv_timestamp *previous,
                      const vv_timestamp *now, vv_time max_duration, const vv_axis *axis);
/* Elapsed fraction in max_duration's own unit (so coarse for epochs). */
double vvi_elapsed(const vv_timestamp *now, vv_time max_duration);

/* ---- the parts of a trainer ---- */
#define VVI_MAX_METRICS 16 /* of one evaluator, or of training */
typedef struct vvi_metric {
    vv_metric *metric;
    const vv_metric_desc *type;
    const char *name; /* the metric's */
    double value, best;
    int64_t best_batch;
    bool valid; /* value and best hold something */
} vvi_metric;

/* ---- estimate.c: how long the run will still take ---- */
typedef struct vvi_eval_times {
    int64_t runs, expected; /* in this process */
    double first, sum;      /* seconds */
} vvi_eval_times;
typedef struct vvi_estimator {
    bool started; /* after the first batch of this process, which is slower than others */
    double start_seconds, start_progress;
} vvi_estimator;
/* left[i] evaluations to come, of mean[i] seconds each (NaN: not known). */
double vvi_estimate(const vvi_estimator *estimator, double seconds, double progress,
                    const int64_t *left, const double *mean, int count);
double vvi_eval_mean(const vvi_eval_times *times);

typedef struct vvi_evaluator {
    vvi_eval_times times;
    char *label;
    vv_loader *loader;
    vvi_metric *metrics;
    int metric_count;
    vvi_interval interval;
    int64_t microbatch; /* 0 = the trainer's */
    int64_t subset;     /* samples; 0 = all */
    bool subset_cut;    /* more was asked for than there is */
} vvi_evaluator;

/* ---- sizing.c: precision, microbatch and memory, decided before step 0 ---- */
typedef struct vvi_sizing {
    bool known;
    vv_plan_cost cost; /* of the largest microbatch at the largest shape */
    int64_t rows;
    int largest_ndim;
    int64_t largest[VV_MAX_DIMS]; /* that input, rows first */
    size_t fixed_bytes;           /* weights, gradients, optimizer */
    size_t batch_bytes;           /* a whole batch from the loader */
    size_t available_bytes;
    bool limit_given;
    char precision_note[160], microbatch_note[160]; /* why it was chosen; may be "" */
} vvi_sizing;
size_t vvi_sizing_needed(const vvi_sizing *sizing);

/* Metrics of training: of the batch, and over the epoch so far. */
typedef struct vvi_train_metrics {
    vvi_metric *batch, *epoch;  /* alike; `value` is the last finished batch's and epoch's */
    int count;
    int node_counts[VVI_MAX_METRICS]; /* of the microbatch */
    double loss_sum;           /* of the epoch, and how many items it is of */
    int64_t loss_items;
    double loss;               /* mean of the last finished epoch; NaN before */
} vvi_train_metrics;
/* Nodes of a step beside parameters and gradients. */
#define VVI_SPARE_NODES (1 + VV_METRIC_NODES * VVI_MAX_METRICS)

/* Checkpoints in the run's folder (saver.c). */
typedef struct vvi_saver {
    char *pattern, *latest; /* latest "" = no link */
    int keep_best;
    bool by_metric, higher; /* checkpoints note a value; higher is better */
    int evaluator, metric;  /* whose */
    bool weights_only, packed, overwrite;
    int64_t saves; /* so far */
    vvi_checkpoint_list list;
} vvi_saver;

/* What is taken from checkpoints (restore.c). */
typedef struct vvi_loading {
    bool partial, new_head;
    vvi_patterns ignore, exclude_methods;
    vv_status (*find_method)(const vv_method_desc **out, const char *name);
} vvi_loading;

typedef enum vvi_run_status {
    VVI_RUN_RUNNING,
    VVI_RUN_DONE,
    VVI_RUN_INTERRUPTED,
    VVI_RUN_FAILED,
} vvi_run_status;

typedef struct vvi_profiler vvi_profiler; /* profile.h */

typedef struct vvi_batch_stage {
    int64_t first_batch, size;
    double lr_factor;
} vvi_batch_stage;

struct vv_trainer {
    vv_state state;
    vv_graph *graph;

    vv_method **methods; /* in resolved order */
    int method_count;
    char **method_lines; /* what `plan` said of the unchanged model; items may be NULL */
    vv_callback **callbacks;
    int callback_count;
    vv_logger **loggers;
    int logger_count, loggers_open;

    vv_schedule **schedules;
    int schedule_count;
    double ssr;
    vv_time iteration_length; /* ep, ba or tok; none = the run is one iteration */

    vv_loader *train;
    vvi_train_metrics train_metrics;
    vvi_evaluator *evaluators;
    int evaluator_count;
    vvi_interval save_every;
    int save_keep;
    vvi_saver saver;
    vvi_loading loading;
    vv_time
        max_duration; /* as given and scaled; state.max_duration shrinks when a callback stops */
    int64_t batch_size; /* the largest */
    int64_t samples_per_epoch, tokens_per_sample;
    bool stages_set; /* the loader has the stages */
    struct vvi_batch_stage *stages; /* of batch sizes; none = one size */
    int stage_count;
    vv_axis_knot *knots;
    int64_t microbatch, eval_microbatch;
    double grad_clip_norm;
    bool told_gradient; /* of one that is not finite, since the last finite one */
    bool allow_no_effect;
    const vv_backend *backend;
    vv_conv_choice conv;
    vv_recompute recompute;
    int64_t memory_limit;
    vvi_sizing sizing;

    char *run_dir, *run_name, *checkpoint_dir; /* NULL without a run folder */
    char *recipe_text, *command, *hardware, *price_note; /* the last two may be NULL */
    double deadline_seconds; /* from SIGTERM to the end of the machine; 0 = not known */
    vv_timestamp previous; /* the clock before the last batch */
    bool finished;         /* the run's end (FIT_END and the last evaluation) is done */
    bool stopped;          /* a callback ended it */
    bool resumed;
    atomic_int interrupted;
    vvi_run_status run_status;
    double eval_seconds;
    vvi_estimator estimator;
    double wall_before, wall_start; /* earlier fits; clock at this fit's start, 0 outside */
    bool fitting;

    FILE *log;
    int64_t log_bytes;  /* where the loaded checkpoint's log ends; -1 = not resumed */
    vv_str pending;     /* ,"name":value... logged since the last line */
    vv_str early;       /* lines from before the log was opened */
    vv_status deferred; /* first failure of a logger where none could be returned */
    vv_str deferred_text;

    /* the step's scratch: non-frozen parameters, their leaves and gradients */
    vv_param **params;
    vv_node **nodes; /* 2 * capacity + VVI_SPARE_NODES: loss, gradients, then leaves or metrics */
    int param_count, param_capacity;
    int node_count; /* of `nodes` that the step built last evaluates */
    vvi_profiler *profiler; /* NULL = off */
    bool in_step;  /* vv_state_gradients is allowed */
    /* An evaluation that an interruption put off: the event whose it is, VV_EVENT_COUNT = none. */
    vv_event put_off;
    double save_seconds;  /* what the last checkpoint took */
    bool deadline_told;
    double batch_seconds_measured; /* by vv_trainer_time_step; 0 = not yet */
    const char *not_measured;      /* why it was not; NULL = nobody asked */
    int firing;    /* the method that is told something now */
    bool averaged; /* the model holds the weights that are evaluated and saved */
};

/* ---- engine.c ---- */
/* Puts methods into their order; refuses duplicates, conflicts, cycles. */
vv_status vvi_engine_order(vv_method **methods, int count);
/* Tells methods, callbacks and loggers, in the event's order. */
vv_status vvi_engine_fire(vv_trainer *trainer, vv_event event);
/* Tells the methods before number `count` only. */
vv_status vvi_engine_fire_before(vv_trainer *trainer, vv_event event, int count);
bool vvi_event_reversed(vv_event event);
char vvi_event_kind(vv_event event);

/* Callbacks of this build, NULL-ended: made by the build from callbacks/, so that the core knows
   which are on by default without naming one. */
extern const vv_callback_desc *const vvi_callback_table[];

/* ---- run_axis.c ---- */
vv_status vvi_axis_resolve(vv_trainer *trainer, const vv_trainer_opts *opts);
/* Once the evaluators and save_every are known. */
vv_status vvi_axis_check_intervals(const vv_trainer *trainer);
/* Its length (none: never) is reached. */
bool vvi_iteration_ends(vv_time length, const vv_timestamp *now);
void vvi_iteration_next(vv_timestamp *now);

/* ---- batch_stages.c: batch sizes that change ---- */
/* Once the duration is known; the loader has them from then on. */
vv_status vvi_stages_set(vv_trainer *trainer, const vv_batch_stage *stages, int count);
vv_status vvi_stages_axis(vv_trainer *trainer); /* the axis' knots */
void vvi_stages_fini(vv_trainer *trainer);
/* [[position, size], ...], and whether a file's are the same (none: those of one size). */
void vvi_stages_json(const vv_trainer *trainer, vv_str *out);
bool vvi_stages_same(const vv_trainer *trainer, const struct json_t *saved);
double vvi_stages_lr_factor(const vv_trainer *trainer, double batch);
int64_t vvi_stages_largest(const vv_trainer *trainer); /* rows of the largest batch */
/* Samples in the first batches of the run. */
int64_t vvi_stages_samples(const vv_trainer *trainer, int64_t batches);

/* ---- step.c ---- */
/* Gradients of state.batch into param->grad over all microbatches; *loss = the true objective. */
vv_status vvi_step_gradients(vv_trainer *trainer, bool updates, double *loss);
/* The whole optimizer step on state.batch. */
vv_status vvi_train_step(vv_trainer *trainer);
/* Loss items of the microbatch from state.output, target and the mixture. */
vv_node *vvi_loss_items(const vv_trainer *trainer);
/* (1 - w) * a + w * b per row; w is [N], a and b may have more axes. */
vv_node *vvi_mix_items(vv_node *a, vv_node *b, vv_node *weight);
/* Lists the parameters that learn and makes room for their gradients. */
vv_status vvi_step_prepare(vv_trainer *trainer);
/* Builds the graph of rows [first, first + count) of state.batch: state.micro, .loss and the
   trainer's nodes are there until vvi_step_forget. */
vv_status vvi_step_build(vv_trainer *trainer, int64_t first, int64_t count, bool updates,
                         vv_bind how);
void vvi_step_forget(vv_trainer *trainer);

/* ---- step_dry.c: a step that is planned but not done ---- */
typedef struct vvi_dry_result {
    vv_plan_cost cost;
    int ndim;
    int64_t shape[VV_MAX_DIMS]; /* of the input that the network sees */
    double seconds;             /* of the run, if it was run */
} vvi_dry_result;
/* The step at a moment of the run (share of it) with a batch of `rows` made-up rows, all in one
   microbatch, on the trainer's graph; methods act, nothing of the run changes. `run`: for the time
   it takes; gradients are overwritten. */
vv_status vvi_step_dry(vv_trainer *trainer, double moment, int64_t rows, vv_bind how, bool run,
                       vvi_dry_result *out);
/* Bytes of a whole batch, input and target, as the loader gives it. */
size_t vvi_batch_bytes(const vv_trainer *trainer);
/* Best of a few dry steps of `rows` rows on the graph, at the end's size; the first prepares
   kernels and touches memory. */
vv_status vvi_time_step(vv_trainer *trainer, vv_graph *graph, int64_t rows, double *seconds);

/* ---- sizing.c ---- */
/* Resolves precision and microbatch, and proves that the largest step fits. `stored`: a checkpoint
   that the run goes on from, or NULL. */
vv_status vvi_size_up(vv_trainer *trainer, const vv_trainer_opts *opts,
                      const vv_safetensors *stored);
/* Times a step in fp32 and in amp_bf16 and says which is faster; sizing's note has the times. */
vv_status vvi_measure_precision(vv_trainer *trainer, int64_t microbatch, vv_precision *out);
vv_status vvi_graph_make(vv_trainer *trainer, vv_precision precision, vv_graph **out);

/* ---- metric_set.c ---- */
/* names: comma-separated; NULL or "" = the task's usual ones. own: NULL-ended or NULL. */
vv_status vvi_metrics_make(vvi_metric **out, int *count, const char *names,
                           const vv_metric_desc *const *own, const vv_model *model);
void vvi_metrics_free(vvi_metric *metrics, int count);

/* ---- predict.c ---- */
/* The model's output for rows of the current batch; `before` and `after` fire around it. */
vv_status vvi_forward_rows(vv_trainer *trainer, int64_t first, int64_t count, vv_event before,
                           vv_event after);
void vvi_forget_micro(vv_state *state);

/* ---- evaluate.c ---- */
vv_status vvi_evaluator_init(vvi_evaluator *out, const vv_eval_set *set, const char *interval,
                             const vv_model *model);
/* Messages about what evaluators will not do as asked. */
void vvi_evaluators_tell(vv_trainer *trainer);
void vvi_evaluator_fini(vvi_evaluator *evaluator);
/* Runs the evaluators that are due at this event. */
vv_status vvi_evaluate_due(vv_trainer *trainer, vv_event event);

/* ---- averages.c ---- */
/* Puts the weights that are evaluated and saved into the model (`on`), or the trained ones back;
   returns what was in before, for putting it back. */
bool vvi_weights_average(vv_trainer *trainer, bool on);

/* ---- train_metrics.c ---- */
vv_status vvi_train_metrics_init(vv_trainer *trainer, const char *names);
void vvi_train_metrics_fini(vv_trainer *trainer);
void vvi_train_metrics_begin(vv_trainer *trainer); /* a batch */
/* Nodes of the microbatch in the state; `add` reads them once they have run. */
vv_status vvi_train_metrics_build(vv_trainer *trainer, vv_node **nodes, int *count);
vv_status vvi_train_metrics_add(vv_trainer *trainer, vv_node *const *nodes);
/* The batch is done: its values are logged and go into the epoch's. */
vv_status vvi_train_metrics_batch(vv_trainer *trainer);
/* The epoch is done: its averages are logged, and the next begins. */
vv_status vvi_train_metrics_epoch(vv_trainer *trainer);
/* The epoch so far as one JSON object, and back; labels "train" and "train_epoch". */
void vvi_train_metrics_save(const vv_trainer *trainer, vv_str *out);
vv_status vvi_train_metrics_load(vv_trainer *trainer, const struct json_t *saved);
bool vvi_train_metrics_label(const char *label);
vv_status vvi_train_metrics_get(const vv_trainer *trainer, const char *label, const char *name,
                                double *out);

/* ---- saver.c ---- */
vv_status vvi_saver_init(vv_trainer *trainer, const vv_trainer_opts *opts);
void vvi_saver_fini(vvi_saver *saver);
/* Reads which checkpoints the run's folder has. */
vv_status vvi_saver_open(vv_trainer *trainer);
/* A sentence if a checkpoint is known not to fit on the disk. */
vv_status vvi_saver_room(vv_trainer *trainer);
/* What fills names' placeholders now. */
vvi_name_facts vvi_saver_facts(const vv_trainer *trainer);
/* The value by which the best are chosen, if it was evaluated at this batch. */
bool vvi_saver_value(const vv_trainer *trainer, double *out);
/* Into the run's folder, with rotation and "latest". */
vv_status vvi_checkpoint_save(vv_trainer *trainer);
vv_status vvi_checkpoint_due(vv_trainer *trainer, vv_event event);

/* ---- checkpoint.c, restore.c, start.c ---- */
vv_status vvi_checkpoint_write(vv_trainer *trainer, const char *path, bool weights_only);
/* What the numbers' last bits depend on, as the members of a JSON object. */
void vvi_machine_json(const vv_trainer *trainer, vv_str *out);
/* saved_input.c: what the data are, among a checkpoint's texts. */
vv_status vvi_saved_input_write(const vv_trainer *trainer, vv_safetensors_writer *writer);
vv_status vvi_loading_init(vvi_loading *loading, const vv_load_opts *opts);
void vvi_loading_fini(vvi_loading *loading);
/* Adds the methods whose surgery the file was made with and the trainer lacks, from number *first
   on in `methods` (then in their order), or refuses. Lines for the user go to `told`. */
vv_status vvi_restore_surgery(vv_trainer *trainer, const vv_safetensors *file, int *added,
                              vv_str *told);
vv_status vvi_restore(vv_trainer *trainer, const vv_safetensors *file, const char *path,
                      bool weights_only);
/* Each line of `told` as a message. */
void vvi_tell_lines(vv_trainer *trainer, const vv_str *told);

typedef struct vvi_start { /* the file a run starts from, open; NULL = none */
    vv_safetensors *file;
    char *path;
    bool weights_only;
    vv_str told; /* for the user, once loggers listen */
} vvi_start;
/* Makes the run's folder ready, finds and opens what to start from, adds its surgery methods. */
vv_status vvi_start_open(vv_trainer *trainer, const vv_trainer_opts *opts, vvi_start *out);
vv_status vvi_start_load(vv_trainer *trainer, const vvi_start *start);
void vvi_start_fini(vvi_start *start);

/* ---- runlog.c ---- */
vv_status vvi_log_open(vv_trainer *trainer);
vv_status vvi_log_batch(vv_trainer *trainer);
vv_status vvi_log_eval(vv_trainer *trainer, const vvi_evaluator *evaluator, int64_t samples,
                       double seconds);
/* An "epoch" or "end" line with what was logged since the last one. */
vv_status vvi_log_mark(vv_trainer *trainer, const char *event);
/* Everything on disk; *bytes = the log's length. */
vv_status vvi_log_sync(vv_trainer *trainer, int64_t *bytes);
void vvi_log_close(vv_trainer *trainer);
/* A number in JSON, exact; NaN and infinities become null. */
void vvi_json_number(vv_str *out, double value);

/* ---- run_plan.c, plan_json.c: the plan as text and as JSON ---- */
typedef struct vvi_points { /* when an interval fires, in batches */
    int64_t count, first, last;
} vvi_points;
bool vvi_points_known(const vv_trainer *trainer, const vvi_interval *interval);
/* Those after batch `after`. */
vvi_points vvi_points_count(const vv_trainer *trainer, vvi_interval interval, int64_t after);
/* Positions on the axis at which the plan tells the learning rate; returns their number. */
enum { VVI_PLAN_POINTS = 8 };
int vvi_plan_positions(const vv_trainer *trainer, double *at);
vv_status vvi_plan_lr(vv_trainer *trainer, int group, double position, double *out);
typedef struct vvi_plan_cost {
    int64_t params, frozen, rows; /* rows: of a microbatch */
    double step_bytes, weight_bytes, batch_flops;
} vvi_plan_cost;
vv_status vvi_plan_cost_of(vv_trainer *trainer, vvi_plan_cost *out);
/* The run's length in batches of the largest size. */
double vvi_whole_batches(const vv_trainer *trainer);
typedef struct vvi_expected {
    double seconds, usd; /* NaN = not known */
    const char *note;    /* what `seconds` stands on, or why it is not known */
} vvi_expected;
vvi_expected vvi_expect(const vv_trainer *trainer);
const char *vvi_phase_name(vv_phase phase);

/* ---- summary.c ---- */
vv_status vvi_summary_write(vv_trainer *trainer, vvi_run_status status);
const char *vvi_precision_name(vv_precision precision);
/* A batch has been counted. */
void vvi_estimate_batch(vv_trainer *trainer);
/* How often the interval will fire after batch `batch`; 0 where that is not counted. */
int64_t vvi_points_after(const vv_trainer *trainer, const vvi_interval *interval, int64_t batch);
double vvi_wall_seconds(const vv_trainer *trainer);
/* Learning-rate multiplier at a position of the axis. */
vv_status vvi_lr_factor(const vv_trainer *trainer, double position, double *out);

/* ---- fit.c ---- */
bool vvi_run_over(const vv_trainer *trainer); /* the duration is reached */
bool vvi_interrupted(const vv_trainer *trainer); /* fit runs, and somebody wants it to leave */
void vvi_set_progress(vv_trainer *trainer);

#endif
