/* test_activation_monitor.c - the statistics are those of each module's output on the first
 * microbatch of the first batch of each interval; kinds may be left out; training is bit-equal to
 * training without the callback, whatever is fused. */
#include "callbacks/callback_test.h"

#include <vivace/activation_monitor.h>

static double value_of(const numbers *got, const char *name, int64_t batch)
{
    for (int i = 0; i < got->count; i++)
        if (got->batches[i] == batch && strcmp(got->names[i], name) == 0)
            return got->values[i];
    return (double)NAN;
}

typedef struct seen { /* the model's output at batch 0, first microbatch */
    double l2, average, kurtosis, max;
} seen;

static vv_status watch(void *ctx, vv_event event, vv_state *state)
{
    seen *s = ctx;
    if (event != VV_EVENT_AFTER_BACKWARD || state->time.batch != 0 || state->micro_first != 0)
        return VV_OK;
    vv_tensor *out;
    assert_ok(vv_node_keep(state->output, &out));
    int64_t rows = out->shape[0], n = out->shape[1];
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0.0, square = 0.0, m2 = 0.0, m4 = 0.0, max = -HUGE_VAL;
        for (int64_t i = 0; i < n; i++) {
            double x = vv_tensor_get(out, r * n + i);
            mean += x / (double)n;
            square += x * x;
            max = x > max ? x : max;
        }
        for (int64_t i = 0; i < n; i++) {
            double d = vv_tensor_get(out, r * n + i) - mean;
            m2 += d * d / (double)n;
            m4 += d * d * d * d / (double)n;
        }
        s->l2 += sqrt(square) / (double)rows;
        s->average += mean / (double)rows;
        s->kurtosis += m4 / (m2 * m2) / (double)rows;
        s->max += max / (double)rows;
    }
    vv_tensor_free(out);
    return VV_OK;
}

static void test_statistics(void **unused)
{
    (void)unused;
    vv_activation_monitor_opts opts = {{VV_UNIT_BATCH, 4, 0.0}, "ReLU, Dropout"};
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    seen s = {0};
    assert_ok(vv_callback_new(&callback, &vv_callback_activation_monitor, &opts));
    assert_ok(callback_run(callback, "2ep", watch, &s, &got, &end));
    for (int64_t b = 1; b <= 10; b++) /* batches 0, 4 and 8: told when the clock counts them */
        assert_int_equal(isnan(value_of(&got, "activations/max/0", b)), b != 1 && b != 5 && b != 9);
    assert_near(value_of(&got, "activations/l2_norm/3", 1), s.l2, 0.0, 1e-5);
    assert_near(value_of(&got, "activations/average/3", 1), s.average, 1e-6, 1e-5);
    assert_near(value_of(&got, "activations/kurtosis/3", 1), s.kurtosis, 0.0, 1e-4);
    assert_near(value_of(&got, "activations/max/3", 1), s.max, 1e-6, 1e-5);
    assert_near(value_of(&got, "activations/max/model", 1), s.max, 1e-6, 1e-5);
    assert_true(isnan(value_of(&got, "activations/max/1", 1)) !=
                isnan(value_of(&got, "activations/max/2", 1)));
}

/* Convolution, batch norm and ReLU, which are fused where nobody else reads what lies between. */
static tt_weights train_conv(bool monitor, vv_precision precision)
{
    enum { SIDE = 6, COUNT = 12 };
    vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 3,
                           .input_shape = {SIDE, SIDE, 3}, .classes = 3};
    float inputs[COUNT * SIDE * SIDE * 3];
    int32_t targets[COUNT];
    vv_rng rng = vv_rng_at(9, "images", 0);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        inputs[i] = (float)vv_rng_normal(&rng);
    for (int i = 0; i < COUNT; i++)
        targets[i] = i % 3;
    vv_dataset *set;
    vv_loader *loader;
    vv_loader_opts rows = VV_LOADER_DEFAULTS;
    rows.batch_size = 4;
    rows.workers = 0;
    assert_ok(vv_dataset_from_arrays(&set, &spec, COUNT, inputs, targets));
    assert_ok(vv_loader_new(&loader, set, &rows));
    vv_module *net, *layer;
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, 3, 8, 3, &conv, false);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_batch_norm_new(&layer, 8, 1e-5, 0.1);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_activation_new(&layer, VV_ACT_RELU, 0.0);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_adaptive_avg_pool_new(&layer, 1, 1);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 8, 3, true);
    assert_ok(vv_sequential_push(net, made, layer));
    vv_activation_monitor_opts opts = {{VV_UNIT_BATCH, 2, 0.0}, ""};
    vv_callback *callbacks[2] = {NULL};
    if (monitor)
        assert_ok(vv_callback_new(&callbacks[0], &vv_callback_activation_monitor, &opts));
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_build(&o.model, net, 3, 21));
    o.train = loader;
    o.max_duration = "3ep";
    o.microbatch = 2;
    o.callbacks = callbacks;
    o.precision = precision;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &o));
    assert_ok(vv_trainer_fit(trainer));
    tt_weights w = tt_weights_of(trainer);
    vv_trainer_free(trainer);
    vv_loader_free(loader);
    vv_dataset_free(set);
    return w;
}

static void test_training_is_the_same(void **unused)
{
    (void)unused;
    const vv_precision precisions[] = {VV_PRECISION_FP32, VV_PRECISION_AMP_BF16,
                                       VV_PRECISION_BF16};
    for (int i = 0; i < 3; i++) {
        tt_weights with = train_conv(true, precisions[i]);
        tt_weights without = train_conv(false, precisions[i]);
        assert_same_bits(&with, &without);
        free(with.values);
        free(without.values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_training_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
