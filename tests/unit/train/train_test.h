/* train_test.h - small worlds for tests of the Trainer: data, a network, a listener. */
#ifndef TRAIN_TEST_H
#define TRAIN_TEST_H

#include "vv_test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vivace/train.h>

#define TT_FEATURES 8
#define TT_CLASSES 3

static const vv_field tt_no_fields[] = {{.name = NULL}};

typedef struct tt_data {
    vv_dataset *set;
    vv_loader *loader;
} tt_data;

/* `count` samples of noise whose class follows from three of the features. */
static inline void tt_data_init(tt_data *data, int64_t count, int64_t batch, bool shuffle)
{
    vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                           .input_shape = {TT_FEATURES}, .classes = TT_CLASSES};
    float *inputs = test_calloc((size_t)(count * TT_FEATURES), sizeof *inputs);
    int32_t *targets = test_calloc((size_t)count, sizeof *targets);
    vv_rng rng = vv_rng_at(7, "test data", 0);
    for (int64_t i = 0; i < count; i++) {
        float *x = inputs + i * TT_FEATURES;
        for (int j = 0; j < TT_FEATURES; j++)
            x[j] = (float)vv_rng_normal(&rng);
        targets[i] = x[0] > x[1] ? (x[0] > x[2] ? 0 : 2) : (x[1] > x[2] ? 1 : 2);
    }
    assert_ok(vv_dataset_from_arrays(&data->set, &spec, count, inputs, targets));
    test_free(inputs);
    test_free(targets);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = batch;
    opts.shuffle = shuffle;
    opts.seed = 3;
    opts.workers = 0;
    assert_ok(vv_loader_new(&data->loader, data->set, &opts));
}

static inline void tt_data_fini(tt_data *data)
{
    vv_loader_free(data->loader);
    vv_dataset_free(data->set);
}

/* Linear 8-16, ReLU, dropout, linear 16-3. */
static inline vv_model *tt_mlp(double dropout)
{
    vv_module *net, *layer;
    vv_model *model;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_linear_new(&layer, TT_FEATURES, 16, true);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_activation_new(&layer, VV_ACT_RELU, 0.0);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_dropout_new(&layer, dropout);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 16, TT_CLASSES, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 11));
    assert_ok(vv_classifier_new(&model, net, TT_CLASSES));
    return model;
}

/* ---- a callback that hands every event to a function ---- */
typedef vv_status tt_listen(void *ctx, vv_event event, vv_state *state);
typedef struct tt_listener {
    tt_listen *fn;
    void *ctx;
} tt_listener;

static inline vv_status tt_listener_apply(vv_callback *callback, vv_event event, vv_state *state)
{
    tt_listener *self = callback->self;
    return self->fn ? self->fn(self->ctx, event, state) : VV_OK;
}

static const vv_callback_desc tt_listener_desc = {
    .desc = {"callback", "listener", "Tells a test of every event.", "", "any", tt_no_fields, 0},
    .events = ~UINT64_C(0),
    .self_size = sizeof(tt_listener),
    .apply = tt_listener_apply,
};

static inline vv_callback *tt_listen_with(tt_listen *fn, void *ctx)
{
    vv_callback *callback;
    assert_ok(vv_callback_new(&callback, &tt_listener_desc, NULL));
    *(tt_listener *)callback->self = (tt_listener){fn, ctx};
    return callback;
}

/* ---- folders ---- */
/* In memory where there is such a place: checkpoints are fsynced, and tests write many. */
static inline void tt_folder(char *path, size_t bytes)
{
    const char *base = getenv("TMPDIR");
    if (!base || !base[0])
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, bytes, "%s/vivace-test-XXXXXX", base);
    assert_non_null(mkdtemp(path));
}

static inline void tt_remove(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char inner[2048];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%.1500s/%s", path, entry->d_name);
        struct stat info;
        if (lstat(inner, &info) == 0 && S_ISDIR(info.st_mode))
            tt_remove(inner);
        else
            unlink(inner);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

/* All weights one after the other. */
typedef struct tt_weights {
    float *values;
    size_t count;
} tt_weights;

static inline bool tt_add_weights(void *ctx, const char *name, vv_tensor *tensor)
{
    (void)name;
    tt_weights *w = ctx;
    if (tensor->dtype != VV_F32)
        return true;
    size_t count = (size_t)tensor->count;
    w->values = realloc(w->values, (w->count + count + 1) * sizeof(float));
    memcpy(w->values + w->count, tensor->data, count * sizeof(float));
    w->count += count;
    return true;
}

static inline tt_weights tt_weights_of(vv_trainer *trainer)
{
    tt_weights w = {0};
    vv_module_each_state(vv_trainer_state(trainer)->model->net, tt_add_weights, &w);
    return w;
}

static inline void assert_same_bits(const tt_weights *a, const tt_weights *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->values, b->values, a->count * sizeof(float));
}

#endif
