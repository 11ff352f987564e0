/* method_world.h - the small world in which methods on training and weights are tested: images of
 * noise whose class can be learnt, a net with a batch norm, runs whose weights are compared. */
#ifndef METHOD_WORLD_H
#define METHOD_WORLD_H

#include "vv_test.h"

#include <unistd.h>

#include <vivace/registry.h>
#include <vivace/train.h>

#define MW_SIDE 4
#define MW_PIXELS (MW_SIDE * MW_SIDE * 3)
#define MW_CLASSES 3

typedef struct mw_data {
    vv_dataset *set;
    vv_loader *train, *eval;
} mw_data;

static inline void mw_open(mw_data *d, int64_t count, int64_t batch)
{
    const vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {MW_SIDE, MW_SIDE, 3}, .classes = MW_CLASSES};
    float *inputs = test_calloc((size_t)(count * MW_PIXELS), sizeof *inputs);
    int32_t *targets = test_calloc((size_t)count, sizeof *targets);
    vv_rng rng = vv_rng_at(4, "method world", 0);
    for (int64_t i = 0; i < count; i++) {
        targets[i] = (int32_t)(i % MW_CLASSES);
        for (int j = 0; j < MW_PIXELS; j++)
            inputs[i * MW_PIXELS + j] =
                (float)(vv_rng_normal(&rng) + (j % 3 == targets[i] ? 0.7 : 0.0));
    }
    assert_ok(vv_dataset_from_arrays(&d->set, &spec, count, inputs, targets));
    test_free(inputs);
    test_free(targets);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = batch;
    opts.workers = 0;
    opts.seed = 3;
    assert_ok(vv_loader_new(&d->eval, d->set, &opts));
    opts.shuffle = true;
    assert_ok(vv_loader_new(&d->train, d->set, &opts));
}

static inline void mw_close(mw_data *d)
{
    vv_loader_free(d->train);
    vv_loader_free(d->eval);
    vv_dataset_free(d->set);
}

static inline void mw_push(vv_module *net, vv_status made, vv_module *layer)
{
    assert_ok(vv_sequential_push(net, made, layer));
}

/* Conv 3-4, [batch norm,] ReLU, conv 4-4, ReLU, flatten, linear. */
static inline vv_module *mw_net(bool norm)
{
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    vv_module *net, *layer;
    conv.pad[0] = conv.pad[1] = 1;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, 3, 4, 3, &conv, !norm);
    mw_push(net, made, layer);
    made = norm ? vv_batch_norm_new(&layer, 4, 1e-5, 0.1) : vv_identity_new(&layer);
    mw_push(net, made, layer);
    made = vv_activation_new(&layer, VV_ACT_RELU, 0);
    mw_push(net, made, layer);
    made = vv_conv2d_new(&layer, 4, 4, 3, &conv, true);
    mw_push(net, made, layer);
    made = vv_activation_new(&layer, VV_ACT_RELU, 0);
    mw_push(net, made, layer);
    made = vv_flatten_new(&layer);
    mw_push(net, made, layer);
    made = vv_linear_new(&layer, MW_SIDE * MW_SIDE * 4, MW_CLASSES, true);
    mw_push(net, made, layer);
    assert_ok(vv_module_init_default(net, 5));
    return net;
}

/* One f32 parameter called "weight" with these values, and no forward of its own. */
static inline vv_node *mw_pass(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    (void)graph;
    return x;
}
static const vv_module_class mw_bare_class = {"Bare", mw_pass, NULL};
static inline vv_module *mw_bare(const float *values, int64_t count)
{
    vv_module *net;
    vv_param *param;
    assert_ok(vv_module_new(&net, &mw_bare_class, 0));
    assert_ok(vv_param_new(&param, 1, &count));
    memcpy(param->value->data, values, (size_t)count * sizeof *values);
    assert_ok(vv_module_add_param(net, "weight", param));
    return net;
}

static inline vv_trainer_opts mw_opts(const mw_data *d, bool norm, const char *duration)
{
    static const vv_sgd_opts sgd = {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, mw_net(norm), MW_CLASSES));
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = d->train;
    opts.max_duration = duration;
    opts.seed = 9;
    return opts;
}

static inline vv_method *mw_method(const char *name, const char *settings)
{
    vv_method *method;
    assert_ok(vv_method_make(&method, name, settings));
    return method;
}

/* ---- weights ---- */

typedef struct mw_weights {
    float values[1024];
    int count;
} mw_weights;

static inline bool mw_take(void *ctx, const char *name, vv_tensor *tensor)
{
    mw_weights *w = ctx;
    (void)name;
    if (tensor->dtype != VV_F32)
        return true;
    assert_true(w->count + tensor->count <= 1024);
    memcpy(w->values + w->count, tensor->data, tensor->bytes);
    w->count += (int)tensor->count;
    return true;
}

static inline mw_weights mw_of(vv_module *net)
{
    mw_weights w = {.count = 0};
    vv_module_each_state(net, mw_take, &w);
    return w;
}

static inline mw_weights mw_of_trainer(vv_trainer *trainer)
{
    return mw_of(vv_trainer_state(trainer)->model->net);
}

static inline double mw_difference(const mw_weights *a, const mw_weights *b)
{
    double most = 0;
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++)
        most = fmax(most, fabs((double)a->values[i] - (double)b->values[i]));
    return most;
}

static inline bool mw_equal(const mw_weights *a, const mw_weights *b)
{
    return a->count == b->count &&
           memcmp(a->values, b->values, (size_t)a->count * sizeof(float)) == 0;
}

/* ---- runs ---- */

/* Trains to the duration with at most one method; the net's final state. */
static inline mw_weights mw_run(bool norm, const char *duration, int64_t microbatch,
                                const char *method, const char *settings)
{
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, norm, duration);
    vv_method *m = method ? mw_method(method, settings) : NULL;
    opts.methods = (vv_method_list){&m, m ? 1 : 0};
    opts.microbatch = microbatch;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    const mw_weights w = mw_of_trainer(trainer);
    vv_trainer_free(trainer);
    mw_close(&d);
    return w;
}

/* A path for a file of this test; removed by the caller. */
static inline void mw_path(char path[256])
{
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%s/vivace-method-XXXXXX", base && base[0] ? base : "/tmp");
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
}

/* A callback of the test's own. */
static const vv_field mw_no_fields[] = {{.name = NULL}};
#define MW_CALLBACK(name_, events_, function)                                                      \
    {                                                                                              \
        .desc = {"callback", name_, "Acts for a test.", "", "any", mw_no_fields, 0},               \
        .events = events_, .apply = function,                                                      \
    }
static inline vv_callback *mw_callback(const vv_callback_desc *desc)
{
    vv_callback *callback;
    assert_ok(vv_callback_new(&callback, desc, NULL));
    return callback;
}

static inline vv_status mw_interrupt(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    vv_trainer_interrupt(state->trainer);
    return VV_OK;
}

/* Trains `duration` in sittings of one batch each, every one from the checkpoint before. */
static inline mw_weights mw_run_resumed(bool norm, const char *duration, const char *method,
                                        const char *settings)
{
    static const vv_callback_desc stopper =
        MW_CALLBACK("stopper", VV_EVENT_BIT(VV_EVENT_BATCH_END), mw_interrupt);
    mw_data d;
    mw_weights w = {.count = 0};
    char path[256];
    mw_path(path);
    mw_open(&d, 12, 6);
    for (int i = 0;; i++) {
        vv_trainer *trainer;
        vv_trainer_opts opts = mw_opts(&d, norm, duration);
        vv_method *m = method ? mw_method(method, settings) : NULL;
        vv_callback *callbacks[2] = {mw_callback(&stopper), NULL};
        opts.methods = (vv_method_list){&m, m ? 1 : 0};
        opts.callbacks = callbacks;
        opts.load_path = i ? path : NULL;
        assert_ok(vv_trainer_new(&trainer, &opts));
        const vv_status status = vv_trainer_fit(trainer);
        if (status == VV_OK) {
            w = mw_of_trainer(trainer);
        } else {
            assert_int_equal(status, VV_EINTERRUPTED);
            assert_ok(vv_trainer_save(trainer, path));
        }
        vv_trainer_free(trainer);
        if (status == VV_OK)
            break;
        assert_true(i < 100);
    }
    unlink(path);
    mw_close(&d);
    return w;
}

#endif
