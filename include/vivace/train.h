/* train.h - the Trainer: a run is a clock that fires events. */
#ifndef VIVACE_TRAIN_H
#define VIVACE_TRAIN_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_method_list {
    vv_method *const *items;
    int count;
} vv_method_list;
/* VV_LIST(vv_label_smoothing(0.1), vv_cutmix(1.0)): a NULL inside (a constructor that failed) makes
   vv_trainer_new fail with that constructor's sentence. */
#define VV_LIST(...)                                                                               \
    ((vv_method_list){(vv_method *[]){__VA_ARGS__},                                                \
                      (int)(sizeof((vv_method *[]){__VA_ARGS__}) / sizeof(vv_method *))})

/* Profiling in cycles, within each epoch: after skip_first batches come `wait` ones that are left
   alone, `warmup` ones that run with the profiler on but are not kept, and `active` ones that are
   recorded; then a trace is written, and the next cycle begins. The epoch's last batch ends a trace
   too. Traces are run_dir/traces/ep<epoch>-ba<batch>-rank0.json, in Chrome's format. */
typedef struct vv_profile_opts {
    int64_t skip_first, wait, warmup, active;
    int64_t repeat; /* cycles an epoch; 0 = as many as fit */
} vv_profile_opts;
#define VV_PROFILE_DEFAULTS {0, 0, 1, 4, 1}

/* Batches that begin at `from` or later have `size` rows, and their learning rate is multiplied. A
   share of the duration (dur) counts what max_duration counts: batches if it is in ba, else
   samples. Epochs then have different numbers of batches, and give each sample once as always. */
typedef struct vv_batch_stage {
    vv_time from;     /* dur, ep, ba, sp or tok; not read of the first stage, which is from 0 */
    int64_t size;
    double lr_factor; /* 1 = as the schedules say */
} vv_batch_stage;

typedef struct vv_eval_set { /* one evaluator; what is left out is 0 or NULL */
    const char *label;       /* "eval"; metrics go by label and name */
    vv_loader *loader;       /* borrowed; must not drop the last batch */
    const char *metrics;     /* comma-separated; NULL = accuracy,cross_entropy (numbers: mse) */
    const char *interval;    /* NULL = the trainer's eval_interval */
    const char *subset;      /* "10ba" or "500sp": the first of the set; NULL = all */
    int64_t microbatch;      /* 0 = the trainer's eval_microbatch */
    const vv_metric_desc *const *own_metrics; /* further ones, NULL-ended; or NULL */
} vv_eval_set;

/* For vv_trainer_opts.microbatch, beside a number of rows. What is chosen is printed in the plan,
   kept in checkpoints, and the same when the run goes on. */
#define VV_MICROBATCH_AUTO (-1)    /* the largest whose step fits in the memory limit */
#define VV_MICROBATCH_FASTEST (-2) /* by timing a few sizes; not with batch statistics */
#define VV_MICROBATCH_FASTEST_ANY (-3) /* the same, whatever the model */
/* "8", "0", "auto", "fastest", "fastest_any". */
VV_API VV_MUST_USE vv_status vv_microbatch_parse(int64_t *out, const char *text);

/* How checkpoints are named, kept and written; all zero = the defaults. */
typedef enum vv_better { VV_BETTER_AUTO, VV_BETTER_MIN, VV_BETTER_MAX } vv_better;
typedef struct vv_save_opts {
    const char *name;        /* of a file, without its ending; NULL = "ep{epoch:04}-ba{batch:08}".
                                {run_name} {rank} {local_rank} {world_size} {local_world_size}
                                {node_rank} {iteration} {epoch} {batch} {sample} {token}
                                {batch_in_epoch} {sample_in_epoch} {token_in_epoch}
                                {epoch_in_iteration} {batch_in_iteration} {token_in_iteration}
                                {total_wct} {iteration_wct} {epoch_wct} {batch_wct}; :08 pads with
                                zeros */
    const char *latest;      /* link to the newest; NULL = "latest", "none" = no link */
    int keep_best;           /* kept beside the newest `save_keep`; an evaluation that is among the
                                best is saved at once */
    const char *best_metric; /* "accuracy", "eval/accuracy"; NULL = the first there is */
    vv_better best_mode;     /* which values are better; AUTO = as the metric says */
    bool weights_only;       /* no state to continue from (an interruption saves all the same) */
    bool zstd;               /* packed: "NAME.safetensors.zst" */
    bool overwrite;          /* an earlier run's checkpoints in run_dir give way to the first whole
                                one of this run */
} vv_save_opts;
/* What is taken from a checkpoint; all zero = everything, strictly. Patterns are comma-separated,
   "*" matches anything; they are compared with "model/fc.weight" (or "fc.weight"), "optimizer",
   "optimizer/fc.weight.momentum_buffer", "time", "seed", "metrics", "frozen", "methods/NAME",
   "callbacks/NAME"; "state/" may stand in front. */
typedef struct vv_load_opts {
    bool partial;                /* weights that are missing or too many are told, not refused */
    const char *ignore;          /* patterns of what is left as it is */
    const char *exclude_methods; /* comma-separated: surgery that is not done again */
    /* How methods are found by name, so that surgery a checkpoint was made with is done again where
       the run lacks it: vv_method_find of registry.h. NULL = then it is an error. */
    vv_status (*find_method)(const vv_method_desc **out, const char *name);
    bool new_head; /* a head that was made for another number of classes starts anew, told: for
                      fine-tuning. Needs load_weights_only */
} vv_load_opts;

struct vv_trainer_opts {
    VV_TAKES vv_model *model;
    VV_TAKES vv_optimizer *optimizer; /* NULL = made from optimizer_desc after surgery */
    const vv_optimizer_desc
        *optimizer_desc; /* with optimizer NULL; NULL = decoupled_sgdw, lr 0.1 */
    const void *optimizer_opts;
    VV_BORROWED vv_loader *train;     /* must outlive the trainer */
    VV_BORROWED vv_loader *eval;      /* short for one eval_set labelled "eval"; may be NULL */
    const vv_eval_set *eval_sets;     /* more evaluators */
    int eval_set_count;
    /* "10ep", "500ba", "1e6sp", "1e9tok", "3iter"; or a budget, "900sec", "1h20m", "2usd", of
       training time: evaluation, saving and start are not counted. */
    const char *max_duration;
    const char *iteration_length;     /* "2ep", "100ba", "1e6tok"; NULL or "" = no iterations */
    double usd_per_hour;              /* of the hardware; 0 = not known */
    const char *hardware;             /* its name, stored in summary.json; may be NULL */
    const char *price_note;           /* where the price comes from, with its date; may be NULL */
    double deadline_seconds; /* how long the machine lasts after SIGTERM; 0 = not known */
    const char *eval_interval;        /* "1ep"; "0ep" = only at the end */
    vv_method_list methods;           /* taken */
    VV_TAKES vv_schedule **schedules; /* NULL-ended; multiplied; NULL = constant */
    double scale_schedule_ratio;      /* 1 */
    VV_TAKES vv_callback **callbacks; /* NULL-ended or NULL; those on by default (nan_monitor) are
                                         added with their defaults unless named here */
    bool no_default_callbacks;        /* waives them */
    VV_TAKES vv_logger **loggers;     /* NULL-ended or NULL */
    vv_precision precision;
    const vv_backend *backend;        /* NULL = best */
    int64_t microbatch; /* rows per microbatch; 0 = the whole batch; or VV_MICROBATCH_AUTO, ... */
    int64_t eval_microbatch;          /* 0 = the eval loader's batch */
    uint64_t seed;
    double grad_clip_norm;            /* 0 = off; on the whole, unscaled gradient, once */
    const char *run_dir;              /* NULL = nothing is written */
    const char *run_name;
    const char *save_interval;        /* "1ep"; NULL or "" = never; needs run_dir */
    int save_keep;                    /* checkpoints kept; 0 = all */
    bool resume; /* continue from run_dir's latest checkpoint if there is one */
    const char *load_path; /* checkpoint or run folder to start from; may hold {run_name} */
    bool load_weights_only;
    bool allow_no_effect;             /* waives the error of a method that matched nothing */
    const vv_profile_opts *profile;   /* NULL = off; else needs run_dir */
    const char *recipe_text; /* stored in run_dir/recipe.yaml and summary.json; NULL = none */
    const char *command;              /* stored in summary.json */
    int64_t memory_limit;   /* bytes for weights, gradients, optimizer, a batch and a step; 0 = what
                               is free, less a margin */
    vv_recompute recompute; /* VV_RECOMPUTE_AUTO */
    const char *train_metrics; /* of the training pass, comma-separated; NULL = the loss alone */
    vv_save_opts save;
    vv_load_opts load; /* for load_path, resuming, and vv_trainer_load */
    /* Instead of the loader's batch size; the array is read by vv_trainer_new. The loader has them
       as long as the trainer lives. */
    const vv_batch_stage *batch_stages;
    int batch_stage_count; /* 0 = none */
    vv_conv_choice conv; /* VV_CONV_RULE; AUTO: trials' results are stored in checkpoints */
};
typedef struct vv_trainer_opts vv_trainer_opts;
/* In the fields' order, because C++ knows no other before 2020. */
#define VV_TRAINER_DEFAULTS                                                                        \
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, /* max_duration */ "1ep", NULL, 0.0, NULL, NULL, \
     0.0, /* eval_interval */ "1ep", {NULL, 0}, NULL, /* scale_schedule_ratio */ 1.0, NULL, false, \
     NULL, VV_PRECISION_FP32, NULL, /* microbatch */ 0, 0, 0, 0.0, /* run_dir */ NULL, NULL, NULL, \
     0, /* resume */ false, NULL, false, false, /* profile */ NULL, NULL, NULL, 0,                 \
     VV_RECOMPUTE_AUTO, NULL, /* save */ {NULL, NULL, 0, NULL, VV_BETTER_AUTO, false, false,       \
     false}, /* load */ {false, NULL, NULL, NULL, false}, /* batch_stages */ NULL, \
     0, VV_CONV_RULE}

/* Takes what opts marks as taken, even on failure (of lists: the items, not the array). Fires INIT
   (surgery), loads a checkpoint if asked, resolves the plan; what cannot work fails here. */
VV_API VV_MUST_USE vv_status vv_trainer_new(VV_OWNED vv_trainer **out, const vv_trainer_opts *opts);
VV_API void vv_trainer_free(VV_TAKES vv_trainer *trainer);
/* The printed plan (G4): schedule on one axis, evaluation and save points, methods in order with
   what they do, parameters, memory, threads, precision, kernels. */
VV_API VV_MUST_USE vv_status vv_trainer_plan(vv_trainer *trainer, vv_str *out);
/* The same as one JSON object: steps, schedule, evaluations, saves, methods (with events and
   matched), parameters, planned_memory_bytes, microbatch, precision, threads, expected_seconds,
   expected_usd,
   ... What is not known is null. */
VV_API VV_MUST_USE vv_status vv_trainer_plan_json(vv_trainer *trainer, vv_str *out);
/* Times a microbatch of zeros (fewer rows of it if it is large), which takes about a second, so
   that the plan can say how long the run will take; nothing is trained and nobody hears of it.
   Methods, the loader, the optimizer's pass and evaluation are not in it. */
VV_API VV_MUST_USE vv_status vv_trainer_time_step(vv_trainer *trainer);
/* Trains up to max_duration (absolute: a resumed or finished run does only what is missing; VV_OK
   and nothing done if nothing is). */
VV_API VV_MUST_USE vv_status vv_trainer_fit(vv_trainer *trainer);
/* Whether fit has nothing left to do: the duration was reached, or a callback ended the run, and
   what comes at the end is done. */
VV_API bool vv_trainer_finished(const vv_trainer *trainer);
/* Evaluates now. */
VV_API VV_MUST_USE vv_status vv_trainer_eval(vv_trainer *trainer);
/* Outputs (logits) of every sample of a loader, f32 [count, classes]. */
VV_API VV_MUST_USE vv_status vv_trainer_predict(vv_trainer *trainer, vv_loader *loader,
                                                VV_OWNED vv_tensor **out);
/* Of one batch, in evaluation mode; its targets are not read but must be there. */
VV_API VV_MUST_USE vv_status vv_trainer_predict_batch(vv_trainer *trainer, vv_batch *batch,
                                                      VV_OWNED vv_tensor **out);
/* A checkpoint now. The path may have the placeholders of vv_save_opts; ".zst" at its end packs
   it. */
VV_API VV_MUST_USE vv_status vv_trainer_save(vv_trainer *trainer, const char *path);
VV_API VV_MUST_USE vv_status vv_trainer_save_weights(vv_trainer *trainer, const char *path);
/* Appends a checkpoint's name as of now, made from a template with the placeholders of
   vv_save_opts. VV_EINVAL if the template would give the same name again at another time. */
VV_API VV_MUST_USE vv_status vv_trainer_file_name(const vv_trainer *trainer, vv_str *out,
                                                  const char *pattern);
VV_API VV_MUST_USE vv_status vv_trainer_load(vv_trainer *trainer, const char *path,
                                             bool weights_only);
/* *out = path of the newest checkpoint that verifies in a run's folder; VV_ENOTFOUND if there is
   none. */
VV_API VV_MUST_USE vv_status vv_checkpoint_latest(vv_str *out, const char *run_dir);
/* What a checkpoint holds, for people or as one JSON object. `path`: a file, or a run's folder (its
   newest whole one). Files of other programs are described as far as they can be. */
VV_API VV_MUST_USE vv_status vv_checkpoint_inspect(vv_str *out, const char *path, bool json);
/* Reads a file, or every checkpoint of a run's folder, and checks it: a line each in `out`. *wrong
   = how many are damaged, the link to the newest included. VV_ENOTFOUND if there is none. */
VV_API VV_MUST_USE vv_status vv_checkpoint_verify(vv_str *out, int *wrong, const char *path);
/* What a checkpoint says of the data its model was made for: samples, and how an image becomes one.
   Enough to use the model without the data. */
typedef struct vv_saved_input {
    vv_sample_spec spec;
    int64_t samples;          /* of the training set */
    vv_image_prepare prepare;
    bool normalise;           /* by spec's mean and deviation; else pixel / 255 */
    char **class_names;       /* spec.classes names, or NULL */
} vv_saved_input;
/* VV_ENOTFOUND if the file does not tell. Zero it first; vv_saved_input_fini also after a
   failure. */
VV_API VV_MUST_USE vv_status vv_saved_input_read(vv_saved_input *out, const vv_safetensors *file);
VV_API void vv_saved_input_fini(vv_saved_input *input);
/* Makes fit stop cleanly after the current batch (async-signal-safe): it saves and returns
   VV_EINTERRUPTED. */
VV_API void vv_trainer_interrupt(vv_trainer *trainer);
VV_API VV_BORROWED vv_state *vv_trainer_state(vv_trainer *trainer);
VV_API VV_BORROWED vv_graph *vv_trainer_graph(vv_trainer *trainer);
/* The run's folder; NULL without one. */
VV_API VV_BORROWED const char *vv_trainer_run_dir(const vv_trainer *trainer);
/* Where the time of the batches profiled so far by this process went, as text; nothing if there
   were none. Also written to run_dir/traces/summary.txt. */
VV_API VV_MUST_USE vv_status vv_trainer_profile(vv_trainer *trainer, vv_str *out);
/* summary.json's contents as of now. */
VV_API VV_MUST_USE vv_status vv_trainer_summary(vv_trainer *trainer, vv_str *out);

VV_END_DECLS

#endif
