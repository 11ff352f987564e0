/* resume_world.h - the run that the tests of resuming kill: 10 shuffled samples in batches of 2,
 * accumulation over microbatches of 1, dropout, momentum, a learning-rate schedule, and a running
 * average of the weights kept by a method. */
#ifndef RESUME_WORLD_H
#define RESUME_WORLD_H

#include "unit/train/train_test.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- a method with state: the average of weights, and how often it averaged ---- */
typedef struct averager {
    vv_tensor *average;
    int64_t updates;
    double weight_sum; /* a double that is not exact in f32 */
} averager;

static inline vv_tensor *first_weight(vv_state *state)
{
    return vv_module_param(vv_module_find(state->model->net, "0"), "weight")->value;
}

static inline vv_status averager_apply(vv_method *method, vv_event event, vv_state *state)
{
    averager *self = method->self;
    vv_tensor *weight = first_weight(state);
    if (event == VV_EVENT_INIT)
        return vv_tensor_clone(&self->average, weight);
    float *e = self->average->data;
    const float *w = weight->data;
    for (int64_t i = 0; i < weight->count; i++)
        e[i] = 0.9f * e[i] + 0.1f * w[i];
    self->updates++;
    self->weight_sum += 1.0 / (double)(self->updates + 2);
    vv_rng rng = vv_state_rng(state, "averager"); /* draws that a resume must repeat */
    vv_log_metric(state, "averager/draw", vv_rng_uniform(&rng));
    return VV_OK;
}

static inline vv_status averager_save(vv_method *method, vv_record *record)
{
    averager *self = method->self;
    VV_TRY(vv_record_set_tensor(record, "average", self->average));
    VV_TRY(vv_record_set_double(record, "weight_sum", self->weight_sum));
    return vv_record_set_int(record, "updates", self->updates);
}

static inline vv_status averager_load(vv_method *method, const vv_record *record)
{
    averager *self = method->self;
    const vv_tensor *saved;
    VV_TRY(vv_record_get_tensor(record, "average", &saved));
    VV_TRY(vv_tensor_copy(self->average, saved));
    VV_TRY(vv_record_get_double(record, "weight_sum", &self->weight_sum));
    return vv_record_get_int(record, "updates", &self->updates);
}

static inline void averager_fini(vv_method *method)
{
    vv_tensor_free(((averager *)method->self)->average);
}

static const vv_method_desc averager_desc = {
    .desc = {"method", "averager", "For a test.", "", "any", tt_no_fields, 0},
    .phase = VV_PHASE_WEIGHTS,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .self_size = sizeof(averager),
    .apply = averager_apply,
    .save = averager_save,
    .load = averager_load,
    .fini = averager_fini,
};

/* What a run is and what it leaves. */
typedef struct world {
    const char *run_dir, *duration, *save;
    int save_keep;
    bool best_backend; /* else `ref`, which starts faster */
    bool fresh;        /* does not look for an earlier run */
    const char *name;
    const char *eval;  /* interval; NULL = 1ep */
    vv_save_opts saving;
    uint64_t seed;     /* of the loader and the run; 0 = 3 and 17 */
    tt_listen *listen;
    void *ctx;
    void (*spoil)(vv_dataset *train); /* may change the training set */
    /* results */
    tt_weights weights; /* the model's, then the average */
    int64_t batches, epochs;
    vv_status status;
} world;

/* One call of the same command: resumes if there is something to resume. */
static inline void world_run(world *w)
{
    tt_data train, eval;
    tt_data_init(&train, 10, 2, true);
    tt_data_init(&eval, 6, 4, false);
    if (w->spoil)
        w->spoil(train.set);
    vv_schedule *schedules[] = {NULL, NULL};
    const vv_schedule_desc *decay = vv_schedule_find("exponential");
    assert_non_null(decay);
    vv_schedule_settings settings;
    assert_ok(vv_opts_init(&decay->desc, &settings));
    assert_ok(vv_opts_set_all(&decay->desc, &settings, "gamma=0.9,decay_period=3ba"));
    assert_ok(vv_schedule_new(&schedules[0], decay, &settings));
    vv_opts_fini(&decay->desc, &settings);
    vv_method *method;
    assert_ok(vv_method_new(&method, &averager_desc, NULL));
    vv_callback *callbacks[] = {w->listen ? tt_listen_with(w->listen, w->ctx) : NULL, NULL};
    vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.25);
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = train.loader;
    opts.eval = eval.loader;
    opts.max_duration = w->duration;
    opts.schedules = schedules;
    opts.methods = VV_LIST(method);
    opts.callbacks = callbacks;
    opts.microbatch = 1;
    opts.seed = w->seed ? w->seed : 17;
    if (w->seed)
        assert_ok(vv_loader_set_seed(train.loader, w->seed));
    opts.run_name = w->name;
    opts.save = w->saving;
    opts.eval_interval = w->eval ? w->eval : "1ep";
    opts.run_dir = w->run_dir;
    opts.save_interval = w->save;
    opts.save_keep = w->save_keep;
    opts.resume = !w->fresh;
    opts.backend = w->best_backend ? NULL : vv_backend_find("ref");
    vv_trainer *trainer;
    w->status = vv_trainer_new(&trainer, &opts);
    w->weights = (tt_weights){0};
    if (w->status == VV_OK) {
        w->status = vv_trainer_fit(trainer);
        vv_state *state = vv_trainer_state(trainer);
        w->batches = state->time.batch;
        w->epochs = state->time.epoch;
        w->weights = tt_weights_of(trainer);
        averager *self = state->methods[0]->self;
        tt_add_weights(&w->weights, "average", self->average);
        w->weights.values = realloc(w->weights.values, (w->weights.count + 2) * sizeof(float));
        memcpy(w->weights.values + w->weights.count, &self->weight_sum, sizeof(double));
        w->weights.count += 2;
    }
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
}

/* The batch and evaluation lines of a run's log, times cut off. Freed by the caller. */
static inline char *world_trace(const char *run_dir)
{
    char path[512], line[4096];
    snprintf(path, sizeof path, "%s/log.jsonl", run_dir);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1);
    size_t length = 0;
    while (fgets(line, sizeof line, file)) {
        if (strstr(line, "\"event\":\"message\"") || strstr(line, "\"event\":\"end\""))
            continue;
        char *seconds = strstr(line, ",\"seconds\":");
        assert_non_null(seconds);
        strcpy(seconds, "}\n");
        size_t n = strlen(line);
        text = realloc(text, length + n + 1);
        memcpy(text + length, line, n + 1);
        length += n;
    }
    fclose(file);
    return text;
}

/* ---- lives in processes of their own ----
   A forked child would inherit a thread pool without its threads, so the test program starts itself
   anew: `life <run_dir> <duration> <save> <keep> <what> <a> <b> <c> <backend>`. */
#define LIFE_ARGC 10

/* What a life does beside training: given in main's table. */
typedef struct life_kind {
    const char *name;
    tt_listen *listen;
    int (*check)(const world *w); /* exit code; NULL = 0 if the run succeeded */
} life_kind;

static int64_t life_args[3]; /* for the listener */

static inline pid_t life_start(const world *w, const char *kind, int64_t a, int64_t b, int64_t c)
{
    char keep[16], numbers[3][32];
    const char *backend = w->best_backend ? "best" : "ref";
    snprintf(keep, sizeof keep, "%d", w->save_keep);
    snprintf(numbers[0], sizeof numbers[0], "%" PRId64, a);
    snprintf(numbers[1], sizeof numbers[1], "%" PRId64, b);
    snprintf(numbers[2], sizeof numbers[2], "%" PRId64, c);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "life", w->run_dir, w->duration, w->save, keep, kind, numbers[0],
              numbers[1], numbers[2], backend, (char *)NULL);
        _exit(127);
    }
    return child;
}

static inline int life_main(char **argv, const life_kind *kinds)
{
    world w = {.run_dir = argv[1], .duration = argv[2], .save = argv[3],
               .save_keep = (int)strtol(argv[4], NULL, 10),
               .best_backend = strcmp(argv[9], "best") == 0};
    for (int i = 0; i < 3; i++)
        life_args[i] = strtoll(argv[6 + i], NULL, 10);
    while (kinds->name && strcmp(kinds->name, argv[5]) != 0)
        kinds++;
    if (!kinds->name)
        return 126;
    w.listen = kinds->listen;
    world_run(&w);
    free(w.weights.values);
    return kinds->check ? kinds->check(&w) : w.status == VV_OK ? 0 : 4;
}

/* How it ended, as of waitpid. */
static inline int life_end(pid_t child)
{
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

#endif
