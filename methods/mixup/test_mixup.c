/* test_mixup.c - what must hold: each element is (1 - m) * own + m * partner's unmixed one; m is at
 * most 1/2; alpha 0 mixes nothing; the loss is that of the mixture in both forms; neither the
 * microbatch size nor the form changes the training; the loader's tensors are never written. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "mixup.h"

static void rows_are_mixed(void **unused)
{
    (void)unused;
    const int64_t shape[] = {3, 2}, rows = 3, partner[] = {1, 2, 0}, outside[] = {1, 2, 3};
    static const float x[] = {1, 2, 10, 20, 100, 200};
    static const int32_t y[] = {5, 6, 7};
    vv_tensor *input, *target, *mixed = NULL, *mix_target = NULL;
    assert_ok(vv_tensor_from(&input, VV_F32, 2, shape, x));
    assert_ok(vv_tensor_from(&target, VV_I32, 1, &rows, y));
    assert_ok(vv_mixup_batch(&mixed, &mix_target, input, target, partner, 0.25));
    for (int i = 0; i < 6; i++)
        assert_near(vv_tensor_get(mixed, i),
                    0.75 * (double)x[i] + 0.25 * (double)x[2 * partner[i / 2] + i % 2], 1e-6, 1e-6);
    for (int i = 0; i < 3; i++)
        assert_int_equal(vv_tensor_get(mix_target, i), y[partner[i]]);
    assert_memory_equal(input->data, x, sizeof x);
    /* A buffer that nobody else holds is used again. */
    const vv_tensor *before = mixed;
    assert_ok(vv_mixup_batch(&mixed, &mix_target, input, target, partner, 0.0));
    assert_ptr_equal(mixed, before);
    assert_memory_equal(mixed->data, x, sizeof x);
    vv_tensor *kept = vv_tensor_keep(mixed);
    assert_ok(vv_mixup_batch(&mixed, &mix_target, input, target, partner, 0.5));
    assert_ptr_not_equal(mixed, kept);
    assert_memory_equal(kept->data, x, sizeof x);
    vv_tensor_free(kept);

    assert_fails(vv_mixup_batch(&mixed, &mix_target, input, target, outside, 0.5), VV_EINVAL);
    assert_fails(vv_mixup_batch(&mixed, &mix_target, input, target, partner, 1.5), VV_EINVAL);
    assert_fails(vv_mixup_batch(&mixed, &mix_target, target, target, partner, 0.5), VV_ETYPE);
    assert_fails(vv_mixup_batch(&mixed, &mix_target, mixed, target, partner, 0.5), VV_EINVAL);
    vv_tensor_free(input);
    vv_tensor_free(target);
    vv_tensor_free(mixed);
    vv_tensor_free(mix_target);
}

static void draws(void **unused)
{
    (void)unused;
    int64_t partner[16];
    double weight, sum = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        vv_rng rng = vv_rng_at(1, "test", i);
        vv_mixup_draw(&rng, 1.0, 16, partner, &weight);
        assert_true(weight >= 0.0 && weight <= 0.5);
        sum += weight;
        unsigned seen = 0;
        for (int k = 0; k < 16; k++)
            seen |= 1u << partner[k];
        assert_int_equal(seen, 0xffff);
    }
    assert_near(sum / 4000, 0.25, 0.012, 0); /* uniform on [0, 1/2]: 5 deviations of the mean */
    vv_rng rng = vv_rng_at(1, "test", 0);
    vv_mixup_draw(&rng, 0.0, 16, partner, &weight);
    assert_true(weight == 0.0);
}

/* Logits (2,1,0,-1), classes 0 and 3, weight 0.7 on class 0: loss 1.340190 in both forms. */
static void both_forms(void **unused)
{
    (void)unused;
    static const float logits[] = {2, 1, 0, -1}, weight = 0.3f;
    static const int32_t pair[] = {0, 3};
    static const double gradient[] = {-0.056086, 0.236883, 0.087144, -0.267941};
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {1, 4}, one = 1;
    for (int i = 0; i < 2; i++) {
        vv_module *net;
        vv_state state = {0};
        vv_method *method;
        vv_node *grad;
        const vv_tensor *value;
        double loss;
        assert_ok(vv_identity_new(&net));
        assert_ok(vv_classifier_new(&state.model, net, 4));
        assert_ok(vv_graph_new(&state.graph, &graph_opts));
        assert_ok(vv_method_make(&method, "mixup", i ? "interpolate_loss=true" : ""));
        state.output = vv_data(state.graph, VV_F32, 2, shape, logits);
        state.target = vv_data(state.graph, VV_I32, 1, &one, pair);
        state.mix_target = vv_data(state.graph, VV_I32, 1, &one, pair + 1);
        state.mix_weight = vv_data(state.graph, VV_F32, 1, &one, &weight);
        assert_ok(method->type->apply(method, VV_EVENT_BEFORE_LOSS, &state));
        assert_int_equal(state.mix_target != NULL, i);
        vv_node *items = vv_model_loss(state.model, state.output, state.target);
        if (state.mix_target) /* as the Trainer does */
            items = vv_lerp(items, vv_model_loss(state.model, state.output, state.mix_target),
                            state.mix_weight);
        vv_node *sum = vv_sum_all(items);
        assert_ok(vv_grad(state.graph, sum, &state.output, 1, &grad));
        assert_ok(vv_node_item(sum, &loss));
        assert_near(loss, 1.340190, 1e-6, 0);
        assert_ok(vv_node_value(grad, &value));
        for (int k = 0; k < 4; k++)
            assert_near(vv_tensor_get(value, k), gradient[k], 1e-6, 0);
        vv_method_free(method);
        vv_graph_free(state.graph);
        vv_model_free(state.model);
    }
}

/* ---- through the Trainer ---- */

#define FEATURES 6
#define SAMPLES 12

typedef struct run {
    float weights[FEATURES * 3 + 3];
    double loss;
} run;

static bool take(void *ctx, const char *name, vv_tensor *tensor)
{
    float **to = ctx;
    (void)name;
    memcpy(*to, tensor->data, tensor->bytes);
    *to += tensor->count;
    return true;
}

/* Two epochs of a linear classifier; the data must be as they were. */
static run train(const char *settings, int64_t microbatch)
{
    const vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                                 .input_shape = {FEATURES}, .classes = 3};
    float inputs[SAMPLES * FEATURES];
    int32_t targets[SAMPLES];
    vv_rng rng = vv_rng_at(4, "data", 0);
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        inputs[i] = (float)vv_rng_normal(&rng);
    for (int i = 0; i < SAMPLES; i++)
        targets[i] = i % 3;
    vv_dataset *set;
    vv_loader *loader;
    vv_module *net;
    vv_trainer *trainer;
    vv_method *method = NULL;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    loading.batch_size = 6;
    assert_ok(vv_dataset_from_arrays(&set, &spec, SAMPLES, inputs, targets));
    assert_ok(vv_loader_new(&loader, set, &loading));
    assert_ok(vv_linear_new(&net, FEATURES, 3, true));
    assert_ok(vv_module_init_default(net, 5));
    if (settings)
        assert_ok(vv_method_make(&method, "mixup", settings));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, net, 3));
    opts.train = loader;
    opts.max_duration = "2ep";
    opts.microbatch = microbatch;
    opts.seed = 9;
    opts.methods = (vv_method_list){&method, method ? 1 : 0};
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    run result = {.loss = vv_trainer_state(trainer)->train_loss};
    float *to = result.weights;
    vv_module_each_state(net, take, &to);
    vv_trainer_free(trainer);
    assert_memory_equal(set->inputs, inputs, sizeof inputs);
    vv_loader_free(loader);
    vv_dataset_free(set);
    return result;
}

static double difference(const run *a, const run *b)
{
    double most = fabs(a->loss - b->loss);
    for (int i = 0; i < FEATURES * 3 + 3; i++)
        most = fmax(most, fabs((double)a->weights[i] - (double)b->weights[i]));
    return most;
}

static void training(void **unused)
{
    (void)unused;
    const run whole = train("alpha=1", 0), parts = train("alpha=1", 2), odd = train("alpha=1", 4);
    const run losses = train("alpha=1,interpolate_loss=true", 0);
    const run loss_parts = train("alpha=1,interpolate_loss=true", 2);
    const run plain = train(NULL, 0), zero = train("alpha=0", 0);
    assert_near(difference(&whole, &parts), 0, 1e-6, 0);
    assert_near(difference(&whole, &odd), 0, 1e-6, 0);
    assert_near(difference(&whole, &losses), 0, 1e-6, 0);
    assert_near(difference(&whole, &loss_parts), 0, 1e-6, 0);
    assert_true(difference(&whole, &plain) > 1e-3);
    assert_memory_equal(plain.weights, zero.weights, sizeof plain.weights);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_mixup_opts defaults = VV_MIXUP_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *method;
    assert_ok(vv_method_make(&method, "mixup", NULL));
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
    vv_error_clear();
    assert_null(vv_mixup(-1));
    assert_says("alpha");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_mixed), cmocka_unit_test(draws),    cmocka_unit_test(both_forms),
        cmocka_unit_test(training),       cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
