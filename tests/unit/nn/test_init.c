/* test_init.c - what must hold of initialisers: each has the distribution its paper or PyTorch
 * gives it (variance within 5% for fixed seeds), draws depend on (seed, parameter path) alone,
 * order matters, and unknown names are refused with the nearest one. */
#include "nn_test.h"

typedef struct moments {
    double mean, variance, low, high;
} moments;

static moments moments_of(const vv_module *module, const char *name)
{
    const vv_tensor *t = vv_module_param(module, name)->value;
    moments m = {0.0, 0.0, INFINITY, -INFINITY};

    for (int64_t i = 0; i < t->count; i++) {
        double x = vv_tensor_get(t, i);

        m.mean += x / (double)t->count;
        m.variance += x * x / (double)t->count;
        m.low = fmin(m.low, x);
        m.high = fmax(m.high, x);
    }
    m.variance -= m.mean * m.mean;
    return m;
}

/* conv: 64 -> 128 in 4 groups, 3x3: fan in 144, fan out 1152; linear 200 -> 300; bn 4096. */
static vv_module *net_new(void)
{
    const vv_conv_opts grouped = {{1, 1}, {1, 1}, {1, 1}, 4, {0, 0}};
    vv_module *net = new_sequential(), *part = NULL;

    assert_ok(vv_conv2d_new(&part, 64, 128, 3, &grouped, true));
    assert_ok(vv_module_add_child(net, "conv", part));
    assert_ok(vv_module_add_child(net, "linear", new_linear(200, 300)));
    assert_ok(vv_batch_norm_new(&part, 4096, 1e-5, 0.1));
    assert_ok(vv_module_add_child(net, "bn", part));
    assert_ok(vv_embedding_new(&part, 100, 50));
    assert_ok(vv_module_add_child(net, "embedding", part));
    return net;
}

static void check_uniform(const vv_module *layer, const char *name, double bound)
{
    moments m = moments_of(layer, name);

    assert_near(m.variance, bound * bound / 3.0, 0.0, 0.05);
    assert_near(m.mean, 0.0, 0.02 * bound, 0.0);
    assert_true(m.low >= -bound && m.high <= bound);
    assert_true(m.low < -0.98 * bound && m.high > 0.98 * bound);
}

static void check_normal(const vv_module *layer, double variance)
{
    moments m = moments_of(layer, "weight");

    assert_near(m.variance, variance, 0.0, 0.05);
    assert_near(m.mean, 0.0, 0.02 * sqrt(variance), 0.0);
    assert_true(m.high > 3.0 * sqrt(variance)); /* not a bounded distribution */
}

static void named_ones_have_their_distribution(void **state)
{
    (void)state;
    vv_module *net = net_new();
    const vv_module *conv = vv_module_find(net, "conv"), *linear = vv_module_find(net, "linear");
    const vv_module *bn = vv_module_find(net, "bn");
    const double conv_in = 16 * 9, conv_out = 128 * 9, linear_in = 200, linear_out = 300;

    assert_ok(vv_module_init(net, "kaiming_normal", 1));
    check_normal(conv, 2.0 / conv_in);
    check_normal(linear, 2.0 / linear_in);
    assert_near(moments_of(conv, "bias").high, 0.0, 0.0, 0.0); /* biases are left alone */
    assert_ok(vv_module_init(net, "kaiming_uniform", 2));
    check_uniform(conv, "weight", sqrt(6.0 / conv_in));
    check_uniform(linear, "weight", sqrt(6.0 / linear_in));
    assert_ok(vv_module_init(net, "xavier_uniform", 3));
    check_uniform(conv, "weight", sqrt(6.0 / (conv_in + conv_out)));
    check_uniform(linear, "weight", sqrt(6.0 / (linear_in + linear_out)));
    assert_ok(vv_module_init(net, "xavier_normal", 4));
    check_normal(conv, 2.0 / (conv_in + conv_out));
    check_normal(linear, 2.0 / (linear_in + linear_out));
    assert_ok(vv_module_init(net, "kaiming_normal_fan_out", 5));
    check_normal(conv, 2.0 / conv_out);
    check_normal(linear, 2.0 / (linear_in + linear_out)); /* convolutions only */
    assert_ok(vv_module_init(net, "linear_log_constant_bias", 6));
    assert_near(moments_of(linear, "bias").high, -log(300.0), 1e-6, 0.0);
    assert_near(moments_of(linear, "bias").low, -log(300.0), 1e-6, 0.0);
    assert_ok(vv_module_init(net, "bn_uniform", 7));
    assert_near(moments_of(bn, "weight").mean, 0.5, 0.02, 0.0);
    assert_near(moments_of(bn, "weight").variance, 1.0 / 12.0, 0.0, 0.05);
    assert_true(moments_of(bn, "weight").low >= 0.0 && moments_of(bn, "weight").high <= 1.0);
    assert_ok(vv_module_init(net, "bn_ones", 8));
    assert_true(moments_of(bn, "weight").low == 1.0 && moments_of(bn, "weight").high == 1.0);
    vv_module_free(net);
}

static void defaults_are_those_of_pytorch(void **state)
{
    (void)state;
    vv_module *net = net_new(), *part = NULL;
    const vv_module *bn = vv_module_find(net, "bn");

    assert_ok(vv_conv_transpose2d_new(&part, 32, 64, 4, NULL, true));
    assert_ok(vv_module_add_child(net, "up", part));
    vv_tensor_fill(vv_module_param(bn, "weight")->value, 7.0);
    vv_tensor_fill(vv_module_param(bn, "bias")->value, 7.0);
    assert_ok(vv_module_init_default(net, 11));
    check_uniform(vv_module_find(net, "conv"), "weight", 1.0 / sqrt(16 * 9));
    check_uniform(vv_module_find(net, "linear"), "weight", 1.0 / sqrt(200));
    check_uniform(vv_module_find(net, "up"), "weight",
                  1.0 / sqrt(64 * 16)); /* weight [in,out,k,k] */
    assert_true(moments_of(vv_module_find(net, "linear"), "bias").high > 0.0);
    assert_true(moments_of(vv_module_find(net, "linear"), "bias").high <= 1.0 / sqrt(200));
    check_normal(vv_module_find(net, "embedding"), 1.0);
    assert_true(moments_of(bn, "weight").low == 1.0 && moments_of(bn, "weight").high == 1.0);
    assert_true(moments_of(bn, "bias").low == 0.0 && moments_of(bn, "bias").high == 0.0);
    vv_module_free(net);
}

static void draws_depend_on_seed_and_path_alone(void **state)
{
    (void)state;
    vv_module *a = net_new(), *b = new_sequential(), *part = NULL;
    const vv_tensor *one, *two;

    /* b has another layer in front, and its linear has the same path as a's. */
    assert_ok(vv_module_add_child(b, "more", new_linear(7, 7)));
    assert_ok(vv_module_add_child(b, "linear", new_linear(200, 300)));
    assert_ok(vv_module_add_child(b, "other", new_linear(200, 300)));
    assert_ok(vv_module_init(a, "kaiming_normal", 5));
    assert_ok(vv_module_init(b, "kaiming_normal", 5));
    one = vv_module_param(vv_module_find(a, "linear"), "weight")->value;
    two = vv_module_param(vv_module_find(b, "linear"), "weight")->value;
    assert_memory_equal(one->data, two->data, one->bytes);
    part = vv_module_find(b, "other");
    assert_memory_not_equal(one->data, vv_module_param(part, "weight")->value->data, one->bytes);
    assert_ok(vv_module_init(b, "kaiming_normal", 6));
    assert_memory_not_equal(one->data, two->data, one->bytes);
    vv_module_free(a);
    vv_module_free(b);
}

static void the_list_is_read_in_order(void **state)
{
    (void)state;
    vv_module *net = net_new();
    const vv_module *bn = vv_module_find(net, "bn");

    assert_ok(vv_module_init(net, "bn_uniform, bn_ones", 1));
    assert_true(moments_of(bn, "weight").low == 1.0);
    assert_ok(vv_module_init(net, " bn_ones ,bn_uniform,", 1));
    assert_true(moments_of(bn, "weight").low < 0.01);
    assert_ok(vv_module_init(net, "", 1));
    assert_ok(vv_module_init(net, NULL, 1));
    assert_fails(vv_module_init(net, "kaiming_norml", 1), VV_EINVAL);
    assert_says("kaiming_normal");
    assert_fails(vv_module_init(net, "bn_ones,zzzzzzzzzz", 1), VV_EINVAL);
    assert_true(moments_of(bn, "weight").low < 0.01); /* refused before anything is done */
    vv_module_free(net);
}

/* vv_param_fill_normal: mean, variance, fourth moment and both tails of N(0, std^2); a function of
   seed and path, and a shorter parameter has the longer one's first numbers. */
static void filled_by_hand(void **state)
{
    (void)state;
    enum { N = 200000 };
    const int64_t count = N, some = 1001;
    vv_param *param = NULL, *shorter = NULL;
    double sum = 0.0, square = 0.0, fourth = 0.0;
    int64_t below = 0, above = 0;

    assert_ok(vv_param_new(&param, 1, &count));
    assert_ok(vv_param_new(&shorter, 1, &some));
    vv_param_fill_normal(param, 0.5, 9, "a.weight");
    vv_param_fill_normal(shorter, 0.5, 9, "a.weight");
    assert_memory_equal(param->value->data, shorter->value->data, (size_t)some * sizeof(float));
    for (int64_t i = 0; i < N; i++) {
        const double z = vv_tensor_get(param->value, i) / 0.5;
        sum += z;
        square += z * z;
        fourth += z * z * z * z;
        below += z < -1.959964;
        above += z > 2.326348;
    }
    assert_near(sum / N, 0.0, 4.0 / sqrt(N), 0.0);
    assert_near(square / N, 1.0, 4.0 * sqrt(2.0 / N), 0.0);
    assert_near(fourth / N, 3.0, 4.0 * sqrt(96.0 / N), 0.0);
    assert_near((double)below / N, 0.025, 4.0 * sqrt(0.025 / N), 0.0);
    assert_near((double)above / N, 0.01, 4.0 * sqrt(0.01 / N), 0.0);
    vv_param_fill_normal(shorter, 0.5, 9, "b.weight");
    assert_true(memcmp(param->value->data, shorter->value->data, 64) != 0);
    vv_param_fill_uniform(param, -2.0, 3.0, 9, "a.weight");
    sum = 0.0;
    for (int64_t i = 0; i < N; i++) {
        const double u = vv_tensor_get(param->value, i);
        assert_true(u >= -2.0 && u <= 3.0);
        sum += u;
    }
    assert_near(sum / N, 0.5, 4.0 * 5.0 / sqrt(12.0 * N), 0.0);
    vv_param_free(param);
    vv_param_free(shorter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_ones_have_their_distribution),
        cmocka_unit_test(defaults_are_those_of_pytorch),
        cmocka_unit_test(draws_depend_on_seed_and_path_alone),
        cmocka_unit_test(the_list_is_read_in_order),
        cmocka_unit_test(filled_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
