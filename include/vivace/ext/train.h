/* ext/train.h - for those who write methods, callbacks and loggers: events, the state of a run, and
 * the descriptors. Only this header is needed. */
#ifndef VIVACE_EXT_TRAIN_H
#define VIVACE_EXT_TRAIN_H

#include <vivace/metrics.h>
#include <vivace/optim.h>
#include <vivace/weights.h>

VV_BEGIN_DECLS

/* X(enumerator, "name", kind): kind 'b' opens an interval, 'a' closes it, '-' neither.
   In order of occurrence (spec: trainer.md section 1). */
#define VV_EVENT_LIST(X)                                                                           \
    X(INIT, "init", '-')                                                                           \
    X(BEFORE_LOAD, "before_load", 'b')                                                             \
    X(AFTER_LOAD, "after_load", 'a')                                                               \
    X(FIT_START, "fit_start", 'b')                                                                 \
    X(ITERATION_START, "iteration_start", 'b')                                                     \
    X(EPOCH_START, "epoch_start", 'b')                                                             \
    X(BEFORE_DATALOADER, "before_dataloader", 'b')                                                 \
    X(AFTER_DATALOADER, "after_dataloader", 'a')                                                   \
    X(BATCH_START, "batch_start", 'b')                                                             \
    X(BEFORE_TRAIN_BATCH, "before_train_batch", 'b')                                               \
    X(BEFORE_FORWARD, "before_forward", 'b')                                                       \
    X(AFTER_FORWARD, "after_forward", 'a')                                                         \
    X(BEFORE_LOSS, "before_loss", 'b')                                                             \
    X(AFTER_LOSS, "after_loss", 'a')                                                               \
    X(BEFORE_BACKWARD, "before_backward", 'b')                                                     \
    X(AFTER_BACKWARD, "after_backward", 'a')                                                       \
    X(AFTER_TRAIN_BATCH, "after_train_batch", 'a')                                                 \
    X(BATCH_END, "batch_end", 'a')                                                                 \
    X(BATCH_CHECKPOINT, "batch_checkpoint", '-')                                                   \
    X(EPOCH_END, "epoch_end", 'a')                                                                 \
    X(EPOCH_CHECKPOINT, "epoch_checkpoint", '-')                                                   \
    X(ITERATION_END, "iteration_end", 'a')                                                         \
    X(ITERATION_CHECKPOINT, "iteration_checkpoint", '-')                                           \
    X(FIT_END, "fit_end", 'a')                                                                     \
    X(EVAL_BEFORE_ALL, "eval_before_all", 'b')                                                     \
    X(EVAL_START, "eval_start", 'b')                                                               \
    X(EVAL_BATCH_START, "eval_batch_start", 'b')                                                   \
    X(EVAL_BEFORE_FORWARD, "eval_before_forward", 'b')                                             \
    X(EVAL_AFTER_FORWARD, "eval_after_forward", 'a')                                               \
    X(EVAL_BATCH_END, "eval_batch_end", 'a')                                                       \
    X(EVAL_END, "eval_end", 'a')                                                                   \
    X(EVAL_AFTER_ALL, "eval_after_all", 'a')                                                       \
    X(EVAL_STANDALONE_START, "eval_standalone_start", 'b')                                         \
    X(EVAL_STANDALONE_END, "eval_standalone_end", 'a')                                             \
    X(PREDICT_START, "predict_start", 'b')                                                         \
    X(PREDICT_BATCH_START, "predict_batch_start", 'b')                                             \
    X(PREDICT_BEFORE_FORWARD, "predict_before_forward", 'b')                                       \
    X(PREDICT_AFTER_FORWARD, "predict_after_forward", 'a')                                         \
    X(PREDICT_BATCH_END, "predict_batch_end", 'a')                                                 \
    X(PREDICT_END, "predict_end", 'a')

typedef enum vv_event {
#define VV_EVENT_ENUM(name, text, kind) VV_EVENT_##name,
    VV_EVENT_LIST(VV_EVENT_ENUM)
#undef VV_EVENT_ENUM
        VV_EVENT_COUNT
} vv_event;
#define VV_EVENT_BIT(event) (UINT64_C(1) << (event))
VV_API VV_BORROWED const char *vv_event_name(vv_event event);

/* Saved state of methods and callbacks: an ordered list of named values that goes into the
   checkpoint. Doubles are kept bit-exactly. get: VV_ENOTFOUND if absent. */
typedef struct vv_record vv_record;
VV_API VV_MUST_USE vv_status vv_record_new(VV_OWNED vv_record **out);
VV_API void vv_record_free(VV_TAKES vv_record *record);
VV_API VV_MUST_USE vv_status vv_record_set_int(vv_record *record, const char *key, int64_t value);
VV_API VV_MUST_USE vv_status vv_record_set_double(vv_record *record, const char *key, double value);
VV_API VV_MUST_USE vv_status vv_record_set_text(vv_record *record, const char *key,
                                                const char *text);
VV_API VV_MUST_USE vv_status vv_record_set_tensor(vv_record *record, const char *key,
                                                  vv_tensor *tensor); /* kept, read at write time */
VV_API VV_MUST_USE vv_status vv_record_get_int(const vv_record *record, const char *key,
                                               int64_t *out);
VV_API VV_MUST_USE vv_status vv_record_get_double(const vv_record *record, const char *key,
                                                  double *out);
VV_API VV_MUST_USE vv_status vv_record_get_text(const vv_record *record, const char *key,
                                                VV_BORROWED const char **out);
VV_API VV_MUST_USE vv_status vv_record_get_tensor(const vv_record *record, const char *key,
                                                  VV_BORROWED const vv_tensor **out);
/* A second set of weights under "<prefix>.<name>"; get: each must be there and fit. */
VV_API VV_MUST_USE vv_status vv_record_set_weights(vv_record *record, const char *prefix,
                                                   const vv_weights *weights);
VV_API VV_MUST_USE vv_status vv_record_get_weights(const vv_record *record, const char *prefix,
                                                   vv_weights *weights);

typedef struct vv_method vv_method;
typedef struct vv_callback vv_callback;
typedef struct vv_trainer vv_trainer;
struct vv_trainer_opts; /* train.h */

/* The state of a run: what methods and callbacks may read, and (where said) change. */
typedef struct vv_state {
    vv_trainer *trainer;
    vv_model *model;           /* methods change model->net by surgery */
    vv_optimizer *optimizer;   /* NULL before it is made */
    vv_method *const *methods; /* in resolved order */
    int method_count;
    uint64_t seed;
    vv_precision precision;
    bool dry; /* the step is only planned: see vv_method_desc.points */

    /* time */
    vv_timestamp time;         /* counts of finished batches */
    int64_t microbatch;        /* rows per microbatch; 0 = the whole batch */
    vv_time max_duration;
    vv_axis axis;              /* batches per epoch, total batches, ... */
    double progress; /* share of the run that is done, in [0,1], fine-grained: of its batches, or
                        of its seconds where it is a budget (axis.budget_seconds) */
    double usd_per_hour;       /* price of the hardware; 0 = not known */
    vv_sample_spec input_spec; /* of the training set */
    vv_loader *train_loader;   /* NULL without training; methods may read it outside fit's epochs
                                  (FIT_START, EPOCH_END, FIT_END): fit positions it at each epoch */

    /* the batch: valid from AFTER_DATALOADER to BATCH_END. Methods may replace its tensors at
       AFTER_DATALOADER (free the old one). It is the whole batch, before microbatches are cut. */
    vv_batch *batch;

    /* the microbatch: valid between BEFORE_FORWARD and AFTER_BACKWARD (and the EVAL_ and PREDICT_
       counterparts). Methods may replace the nodes. */
    vv_graph *graph;
    vv_batch *micro;           /* rows of `batch`, sharing its tensors */
    int64_t micro_first;       /* first row within the batch */
    vv_node *input;            /* before forward */
    vv_node *target;           /* class index or soft, not yet mixed; loss reads it */
    /* If the batch is mixed (else NULL): row i has loss (1 - w) * loss(target) + w *
       loss(mix_target). The Trainer mixes the losses, after BEFORE_LOSS; cross-entropy is linear in
       the target, so this equals mixing the targets, and works for class indices. A method that
       changes `target` at BEFORE_LOSS changes mix_target alike (smoothing both, then mixing =
       smoothing the mixture). A method that folds the mixture into `target` itself sets both to
       NULL. */
    vv_node *mix_target;
    vv_node *mix_weight;       /* f32 [N] */
    vv_node *output;           /* logits, from AFTER_FORWARD */
    vv_node *loss_items;       /* f32 [N] per-item loss, from AFTER_LOSS; methods may replace it */
    vv_node *loss; /* [] sum of items / items of the whole batch, from BEFORE_BACKWARD */
    int64_t loss_item_count;   /* items of the whole batch, over all microbatches and ranks; set
                                  before BATCH_START, methods may change it until BEFORE_FORWARD */

    /* the evaluation that runs, from EVAL_START to EVAL_END: */
    const char *eval_label;    /* the evaluator's; NULL outside */
    int64_t eval_batch, eval_batch_count; /* finished batches of all */

    double train_loss;         /* of the last finished batch: the true objective */
    double grad_norm;          /* before clipping, of the last batch; NaN if nobody asked */
    bool stop;                 /* a callback sets it: the run ends after this batch */
    bool skip_step; /* set at AFTER_TRAIN_BATCH: no clipping, no optimizer step for this batch; the
                       clock goes on. False again at the next batch */
} vv_state;

/* Logs a number under a name ("blurpool/num_blurconv_layers") at the current time. */
VV_API void vv_log_metric(vv_state *state, const char *name, double value);
/* Tells the user a sentence ("3 of 12 layers matched"): goes to the run's log and to every
   logger. */
VV_API void vv_log_message(vv_state *state, const char *text);
/* The run's name and its resolved recipe as YAML; NULL if the trainer was given none. */
VV_API VV_BORROWED const char *vv_state_run_name(const vv_state *state);
VV_API VV_BORROWED const char *vv_state_recipe(const vv_state *state);
/* A reproducible random cursor for a method: a function of (seed, method, batch) only. */
VV_API vv_rng vv_state_rng(const vv_state *state, const char *stream);
/* Stage number i of a run whose batches change in size: its first batch, the rows of its batches,
   and what multiplies the learning rate. False past the end; without stages there is none. */
VV_API bool vv_state_batch_stage(const vv_state *state, int i, int64_t *first_batch, int64_t *size,
                                 double *lr_factor);
/* Metric of the last evaluation: label "eval", name "accuracy"; or of training: label "train" (last
   batch) or "train_epoch" (last epoch's average), name "loss" or one of train_metrics. VV_ENOTFOUND
   if nobody of that label computes it, VV_ESTATE if there is no value yet. */
VV_API VV_MUST_USE vv_status vv_state_metric(const vv_state *state, const char *label,
                                             const char *name, double *out);
/* Metric number i of all evaluators, in order; false past the end. *value is NaN before the first
   evaluation. */
VV_API bool vv_state_metric_at(const vv_state *state, int i, VV_BORROWED const char **label,
                               VV_BORROWED const char **name, double *value);

/* ---- for those who watch a run ---- */
/* Whether a multiple of `every` lies in (batch - 1, batch] on the run's axis of batches; batch 0
   counts as one. At BATCH_END ask for time.batch; at AFTER_TRAIN_BATCH for time.batch + 1; for the
   first batch of each interval ask at BATCH_START for time.batch. Never if `every` is none or 0.
   Fails if the axis cannot resolve the unit. */
VV_API VV_MUST_USE vv_status vv_state_due(bool *out, const vv_state *state, vv_time every,
                                          int64_t batch);
/* Seconds the run will still take: training at the rate since this process started (its first
   batch left out), and the evaluations to come at their mean (the first left out if there were
   more). NaN before that is known. */
VV_API double vv_state_remaining_seconds(const vv_state *state);
/* Seconds in all fits of the run so far: training, evaluation, saving; and evaluation alone. */
VV_API double vv_state_wall_seconds(const vv_state *state);
VV_API double vv_state_eval_seconds(const vv_state *state);
/* Samples of one evaluation; -1 if there is no evaluator of that label. */
VV_API int64_t vv_state_eval_samples(const vv_state *state, const char *label);

/* A number to watch: a metric of an evaluator, or "loss" of label "train". */
typedef struct vv_watch {
    const char *monitor, *label;
    int direction; /* index into vv_watch_directions: 0 as the metric says, 1 less is better,
                      2 greater is better */
} vv_watch;
extern VV_API const char *const vv_watch_directions[]; /* "auto", "less", "greater", NULL */
VV_API bool vv_watch_on_train(const vv_watch *watch);
VV_API bool vv_watch_less_is_better(const vv_watch *watch);
/* At FIT_START: a wrong name is told now, not after the first epoch. */
VV_API VV_MUST_USE vv_status vv_watch_check(const vv_watch *watch, const vv_state *state);
/* The value as it is now. */
VV_API VV_MUST_USE vv_status vv_watch_value(const vv_watch *watch, const vv_state *state,
                                            double *out);

/* For methods that need a second pass (SAM), at AFTER_TRAIN_BATCH: computes the gradients of the
   current batch again, at the weights as they are now, into param->grad. BEFORE_FORWARD to
   AFTER_BACKWARD fire again per microbatch; random nodes draw the same numbers; running statistics
   stay. AFTER_TRAIN_BATCH is then told again to the methods that come before the asking one, so
   that clipping acts on both gradients. *loss (may be NULL) = the batch's loss at these weights. */
VV_API VV_MUST_USE vv_status vv_state_gradients(vv_state *state, double *loss);

/* For methods that exchange weights, at BATCH_END, EPOCH_END or FIT_END: running statistics of
   batch norms anew at the weights as they are. They become the mean over the first `batches`
   batches of the epoch (0 = all of it), in training mode, without other methods; batch norms of
   other classes than vv_batch_norm_class move by their own rule. The loader is left where it was.
   *count (may be NULL) = batch norms found; without any nothing is read. */
VV_API VV_MUST_USE vv_status vv_state_recompute_norms(vv_state *state, int64_t batches, int *count);

/* At AFTER_TRAIN_BATCH: weights, buffers, optimizer and methods become what the newest checkpoint
   of the run holds, and this batch's step is not taken. The clock, the order of the data, callbacks
   and the log go on: the batches since that checkpoint are left behind. *batch (may be NULL) = the
   checkpoint's. VV_ENOTFOUND if the run has saved none. */
VV_API VV_MUST_USE vv_status vv_state_roll_back(vv_state *state, int64_t *batch);

/* For methods that mix, at BEFORE_LOSS: folds mix_target into `target` as one soft target and takes
   the mixture off. A wrong class index is an error, as in the plain loss. */
VV_API VV_MUST_USE vv_status vv_state_fold_mix(vv_state *state);

/* ---- methods ---- */
/* Order on one event: phase first, then `after`, then the order the user gave. Clean-up events
   (AFTER_FORWARD, AFTER_LOSS, AFTER_BACKWARD) run in reverse. */
typedef enum vv_phase {
    VV_PHASE_SELECT,   /* chooses samples (selective backprop) */
    VV_PHASE_RESIZE,   /* changes the size of inputs */
    VV_PHASE_AUGMENT,  /* changes inputs */
    VV_PHASE_MIX,      /* mixes samples */
    VV_PHASE_TARGET,   /* changes targets */
    VV_PHASE_SURGERY,  /* changes the model */
    VV_PHASE_LAYOUT,   /* after all surgery */
    VV_PHASE_GRADIENT, /* acts on gradients */
    VV_PHASE_WEIGHTS,  /* acts on weights (averages, freezing) */
} vv_phase;

/* A method that one cannot be used together with, and why. */
typedef struct vv_conflict {
    const char *name;
    const char *reason; /* "both average the weights"; NULL = none is told */
} vv_conflict;

typedef struct vv_method_desc {
    vv_desc desc;                  /* kind "method" */
    vv_phase phase;
    const char *const *after;      /* NULL-ended names this one runs after, or NULL */
    const vv_conflict *conflicts;  /* ended by name NULL; or NULL. One side's word is enough */
    uint64_t events;               /* VV_EVENT_BITs at which apply is called */
    bool required_on_load; /* its surgery must be redone before a checkpoint's weights fit */
    size_t self_size;              /* private data, zeroed */
    /* Refuses bad settings with a sentence. May be NULL. */
    vv_status (*check)(const void *opts);
    vv_status (*apply)(vv_method *method, vv_event event, vv_state *state);
    /* One line for the plan: what it will do, how many layers it matches. Called before INIT on an
       unchanged model; must change nothing. */
    vv_status (*plan)(vv_method *method, const vv_state *state, vv_str *line);
    vv_status (*save)(vv_method *method, vv_record *record); /* may be NULL: nothing to save */
    vv_status (*load)(vv_method *method, const vv_record *record);
    void (*fini)(vv_method *method);
    /* The plan builds steps without doing them: state->dry is set, a batch of made-up rows is told
       at AFTER_DATALOADER and from BEFORE_FORWARD to BEFORE_BACKWARD, numbers and messages are not
       logged, and the graph is planned, not run. Afterwards `effect` is put back, and what the
       method saves by `load`; anything else it leaves as it was. `points` (may be NULL): moments of
       the run, as shares of it in [0,1], at which what this method makes of a step is largest,
       beside the first batch and the last; fills at most `most` and returns how many. */
    int (*points)(const vv_method *method, const vv_state *state, double *points, int most);
    /* For averages: weights that are evaluated and saved but not trained. `in`: puts them into the
       model; else the trained ones back, bit by bit. The Trainer calls it in pairs around
       evaluation, prediction and saving, also if those fail; nothing may fail here. `save` runs
       with them in; `load` finds them in the model and is followed by swap(method, false). */
    void (*swap)(vv_method *method, bool in);
    /* Called first by vv_trainer_new, before anything is made: a method may change the Trainer's
       options (of the lists only the pointers are copied). */
    vv_status (*configure)(vv_method *method, struct vv_trainer_opts *opts);
} vv_method_desc;

struct vv_method {
    const vv_method_desc *type;
    void *opts;  /* struct of type->desc */
    void *self;  /* type->self_size bytes */
    int effect;  /* layers changed or batches touched; 0 at the end of INIT for surgery = an error
                    unless `allow_no_effect` */
    bool surgery;          /* set by the library: phase SURGERY */
    bool allow_no_effect;  /* the user's waiver */
};
/* *out = method with a deep copy of opts (NULL = defaults), checked. */
VV_API VV_MUST_USE vv_status vv_method_new(VV_OWNED vv_method **out, const vv_method_desc *desc,
                                           const void *opts);
VV_API void vv_method_free(VV_TAKES vv_method *method);

/* ---- callbacks ---- */
typedef struct vv_callback_desc {
    vv_desc desc; /* kind "callback" */
    uint64_t events;
    size_t self_size;
    vv_status (*apply)(vv_callback *callback, vv_event event, vv_state *state);
    vv_status (*save)(vv_callback *callback, vv_record *record);
    vv_status (*load)(vv_callback *callback, const vv_record *record);
    void (*fini)(vv_callback *callback);
    bool on_by_default; /* every Trainer and recipe has it unless it is waived */
} vv_callback_desc;
struct vv_callback {
    const vv_callback_desc *type;
    void *opts;
    void *self;
};
VV_API VV_MUST_USE vv_status vv_callback_new(VV_OWNED vv_callback **out,
                                             const vv_callback_desc *desc, const void *opts);
VV_API void vv_callback_free(VV_TAKES vv_callback *callback);

/* ---- files of callbacks and loggers ---- */
/* *out = "run_dir/name"; `name` alone if it is absolute or there is no run_dir. */
VV_API VV_MUST_USE vv_status vv_run_path(VV_OWNED char **out, const char *run_dir,
                                         const char *name);
/* Makes a folder and those above it; one that exists is no error. */
VV_API VV_MUST_USE vv_status vv_make_folder(const char *path);

/* ---- loggers: where numbers and progress go ---- */
typedef struct vv_logger vv_logger;
typedef struct vv_logger_desc {
    vv_desc desc; /* kind "logger" */
    size_t self_size;
    vv_status (*open)(vv_logger *logger, const char *run_dir /* NULL = none */, bool resumed);
    /* One number; `state` has the time. May be NULL. */
    vv_status (*metric)(vv_logger *logger, const vv_state *state, const char *name, double value);
    /* Events, for progress bars and flushing. May be NULL. */
    vv_status (*event)(vv_logger *logger, vv_event event, const vv_state *state);
    /* A sentence for the user (vv_log_message). May be NULL. */
    vv_status (*message)(vv_logger *logger, const vv_state *state, const char *text);
    void (*close)(vv_logger *logger);
} vv_logger_desc;
struct vv_logger {
    const vv_logger_desc *type;
    void *opts;
    void *self;
};
VV_API VV_MUST_USE vv_status vv_logger_new(VV_OWNED vv_logger **out, const vv_logger_desc *desc,
                                           const void *opts);
VV_API void vv_logger_free(VV_TAKES vv_logger *logger);

VV_END_DECLS

#endif
