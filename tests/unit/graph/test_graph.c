/* test_graph.c - the step graph's own rules, on backend ref:
 * nothing runs until read, and no more than needed; errors stick with their sentence; equal
 * structures share a plan; values survive as promised; updates, bindings, eager mode, mid-step
 * reads; planned memory is the memory used; a second step allocates nothing; failing allocations
 * leave no trace. */
#include "vv_test.h"

#include <vivace/ext/backend.h>

static vv_graph *new_graph(void)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find("ref");
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    return g;
}

static vv_tensor *tensor_of(int n, const float *values)
{
    vv_tensor *t;
    int64_t shape[1] = {n};
    assert_ok(vv_tensor_from(&t, VV_F32, 1, shape, values));
    return t;
}

static void test_lazy_and_minimal(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_tensor *t = tensor_of(3, (float[]){1, 2, 3});
    vv_node *x = vv_leaf(g, t);
    assert_ptr_equal(x, vv_leaf(g, t));
    vv_node *used = vv_mul(x, x), *unused = vv_exp(x);
    (void)unused;
    vv_graph_stats stats;
    vv_graph_get_stats(g, &stats);
    assert_int_equal(stats.run_count, 0);
    vv_tensor_set(t, 2, 5.0); /* read when evaluated, not when built */
    double sum;
    assert_ok(vv_node_item(vv_sum_all(used), &sum));
    assert_near(sum, 1 + 4 + 25, 1e-6, 0);
    vv_str plan = {0};
    vv_graph_describe_plan(g, &plan);
    assert_null(strstr(vv_str_text(&plan), "exp"));
    vv_str_fini(&plan);
    vv_tensor_free(t);
    vv_graph_free(g);
}

static void test_errors_stick(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_tensor *a = tensor_of(3, (float[]){1, 2, 3}), *b = tensor_of(4, (float[]){1, 2, 3, 4});
    vv_graph_push_scope(g, "layer1");
    vv_node *bad = vv_add(vv_leaf(g, a), vv_leaf(g, b));
    vv_graph_pop_scope(g);
    assert_null(bad);
    vv_node *more = vv_exp(vv_mul(bad, bad));
    assert_null(more);
    assert_null(vv_add(vv_leaf(g, a), vv_leaf(g, a)));
    assert_fails(vv_graph_status(g), VV_ESHAPE);
    assert_says("layer1");
    vv_node *out[1] = {more};
    assert_fails(vv_eval(g, out, 1), VV_ESHAPE);
    assert_says("[3]");
    vv_graph_reset(g);
    assert_ok(vv_graph_status(g));
    double value;
    assert_ok(vv_node_item(vv_sum_all(vv_leaf(g, b)), &value));
    assert_near(value, 10, 1e-6, 0);
    vv_tensor_free(a);
    vv_tensor_free(b);
    vv_graph_free(g);
}

/* A layer's own failure sticks like an op's, with the scope before it; the first one stays. */
static void test_own_failures_stick(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_graph_push_scope(g, "layer2");
    assert_null(vv_graph_fail(g, vv_fail(VV_EUNSUPPORTED, "no such thing")));
    vv_graph_pop_scope(g);
    assert_null(vv_graph_fail(g, vv_fail(VV_EINVAL, "another")));
    assert_fails(vv_graph_status(g), VV_EUNSUPPORTED);
    assert_says("layer2: no such thing");
    vv_graph_free(g);
}

/* Draws while building are a function of (seed, step, order), whatever the first row. */
static void test_decisions_are_replayed(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    uint64_t draws[4][2];
    for (int i = 0; i < 4; i++) {
        vv_graph_reset(g);
        vv_graph_set_rng(g, i == 3 ? 8 : 7, i == 2 ? 6 : 5, i);
        for (int k = 0; k < 2; k++) {
            vv_rng rng = vv_graph_rng(g);
            draws[i][k] = vv_rng_u64(&rng);
        }
    }
    assert_memory_equal(draws[0], draws[1], sizeof draws[0]);
    assert_true(draws[0][0] != draws[0][1]);
    assert_true(draws[0][0] != draws[2][0] && draws[0][0] != draws[3][0]);
    vv_graph_free(g);
}

static double step(vv_graph *g, vv_tensor *t, double scale)
{
    vv_graph_reset(g);
    vv_node *x = vv_leaf(g, t);
    vv_node *loss = vv_sum_all(vv_mul(vv_square(x), vv_scalar(g, scale)));
    vv_node *grad;
    assert_ok(vv_grad(g, loss, &x, 1, &grad));
    vv_node *outs[2] = {loss, grad};
    assert_ok(vv_eval(g, outs, 2));
    const vv_tensor *value;
    assert_ok(vv_node_value(grad, &value));
    for (int i = 0; i < 3; i++)
        assert_near(vv_tensor_get(value, i), 2 * scale * vv_tensor_get(t, i), 1e-6, 1e-6);
    double item;
    assert_ok(vv_node_item(loss, &item));
    return item;
}

static void test_plans_are_shared_and_second_step_allocates_nothing(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_tensor *t = tensor_of(3, (float[]){1, 2, 3});
    assert_near(step(g, t, 1.0), 14, 1e-6, 0);
    step(g, t, 2.0); /* arena settles into one chunk */
    uint64_t before = vv_memory_alloc_count();
    assert_near(step(g, t, 3.0), 42, 1e-6, 0);
    assert_int_equal(vv_memory_alloc_count(), before);
    vv_graph_stats stats;
    vv_graph_get_stats(g, &stats);
    assert_int_equal(stats.plan_count, 1);
    assert_int_equal(stats.run_count, 3);
    assert_int_equal(stats.planned_bytes, stats.peak_bytes);
    vv_tensor_free(t);
    vv_graph_free(g);
}

static void test_two_equal_structures_in_one_step(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_tensor *a = tensor_of(2, (float[]){1, 2}), *b = tensor_of(2, (float[]){10, 20});
    vv_node *x = vv_square(vv_leaf(g, a)), *y = vv_square(vv_leaf(g, b));
    assert_ok(vv_eval(g, &x, 1));
    assert_ok(vv_eval(g, &y, 1));
    const vv_tensor *vx, *vy;
    assert_ok(vv_node_value(x, &vx));
    assert_ok(vv_node_value(y, &vy));
    assert_near(vv_tensor_get(vx, 1), 4, 0, 0);
    assert_near(vv_tensor_get(vy, 1), 400, 0, 0);
    vv_tensor *kept;
    assert_ok(vv_node_keep(x, &kept));
    vv_graph_reset(g);
    y = vv_square(vv_leaf(g, b));
    assert_ok(vv_eval(g, &y, 1));
    assert_near(vv_tensor_get(kept, 1), 4, 0, 0);
    vv_tensor_free(kept);
    vv_tensor_free(a);
    vv_tensor_free(b);
    vv_graph_free(g);
}

static void test_bind_and_update(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_tensor *t = tensor_of(2, (float[]){1, 2}), *sum = tensor_of(2, (float[]){100, 100}),
              *running = tensor_of(2, (float[]){0, 0});
    for (int i = 0; i < 2; i++) {
        vv_graph_reset(g);
        vv_node *y = vv_square(vv_leaf(g, t));
        assert_ok(vv_bind_output(y, sum, i ? VV_BIND_ADD : VV_BIND_WRITE));
        assert_ok(vv_update(g, running, vv_add(vv_leaf(g, running), vv_leaf(g, t))));
        assert_ok(vv_eval(g, &y, 1));
    }
    assert_near(vv_tensor_get(sum, 1), 8, 0, 0);
    assert_near(vv_tensor_get(running, 1), 4, 0, 0);
    vv_graph_reset(g);
    vv_graph_set_updates(g, false);
    vv_node *y = vv_square(vv_leaf(g, t));
    assert_ok(vv_update(g, running, vv_add(vv_leaf(g, running), vv_leaf(g, t))));
    assert_ok(vv_eval(g, &y, 1));
    assert_near(vv_tensor_get(running, 1), 4, 0, 0);
    vv_tensor *wrong = tensor_of(3, (float[]){0, 0, 0});
    assert_fails(vv_bind_output(y, wrong, VV_BIND_WRITE), VV_ESHAPE);
    vv_tensor_free(wrong);
    vv_tensor_free(t);
    vv_tensor_free(sum);
    vv_tensor_free(running);
    vv_graph_free(g);
}

static void test_mid_step_read_keeps_the_rest(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_tensor *t = tensor_of(2, (float[]){1, 2});
    int64_t shape[1] = {2};
    vv_node *noise = vv_random_uniform(g, 1, shape);
    vv_node *y = vv_add(vv_leaf(g, t), noise), *s = vv_sum_all(y);
    double item, n0;
    assert_ok(vv_node_item(s, &item));
    const vv_tensor *value;
    assert_ok(vv_node_value(noise, &value));
    n0 = vv_tensor_get(value, 0) + vv_tensor_get(value, 1);
    assert_near(item, 3 + n0, 1e-6, 0);
    vv_graph_stats stats;
    vv_graph_get_stats(g, &stats);
    assert_int_equal(stats.run_count, 1); /* noise and y were kept by the first read */
    assert_true(stats.kept_bytes > 0);
    vv_tensor_free(t);
    vv_graph_free(g);
}

static void test_eager_names_the_first_nan(void **state)
{
    (void)state;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find("ref");
    opts.eager = true;
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    vv_tensor *t = tensor_of(2, (float[]){1, -2});
    vv_graph_push_scope(g, "encoder");
    vv_node *y = vv_exp(vv_log(vv_leaf(g, t)));
    vv_node *z = vv_add(y, y);
    (void)z;
    assert_fails(vv_graph_status(g), VV_ENUMERIC);
    assert_says("encoder: unary");
    vv_graph_reset(g);
    vv_node *fine = vv_square(vv_leaf(g, t));
    double item;
    assert_ok(vv_node_item(vv_sum_all(fine), &item));
    assert_near(item, 5, 1e-6, 0);
    vv_tensor_free(t);
    vv_graph_free(g);
}

static void test_grad_of_unrelated_is_zero_and_fan_out_adds(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_tensor *a = tensor_of(2, (float[]){3, 4}), *b = tensor_of(2, (float[]){5, 6});
    vv_node *wrt[2] = {vv_leaf(g, a), vv_leaf(g, b)}, *grads[2];
    vv_node *y = vv_add(vv_square(wrt[0]), vv_mul(wrt[0], wrt[0]));
    assert_fails(vv_grad(g, y, wrt, 2, grads), VV_ESHAPE);
    assert_ok(vv_grad(g, vv_sum_all(y), wrt, 2, grads));
    assert_ok(vv_eval(g, grads, 2));
    const vv_tensor *value;
    assert_ok(vv_node_value(grads[0], &value));
    assert_near(vv_tensor_get(value, 1), 16, 1e-6, 0);
    assert_ok(vv_node_value(grads[1], &value));
    assert_near(vv_tensor_get(value, 0), 0, 0, 0);
    vv_tensor_free(a);
    vv_tensor_free(b);
    vv_graph_free(g);
}

/* Only result 0 of a node is kept by a read; its further results must still be right afterwards. */
static void test_further_results_after_a_read(void **state)
{
    (void)state;
    vv_graph *g = new_graph();
    vv_tensor *t;
    int64_t shape[2] = {2, 2};
    assert_ok(vv_tensor_from(&t, VV_F32, 2, shape, (float[]){1, 10, 3, 16}));
    vv_node *mean, *var, *y = vv_batch_norm(vv_leaf(g, t), NULL, NULL, 0.0, &mean, &var);
    const vv_tensor *value;
    assert_ok(vv_node_value(y, &value));
    assert_near(vv_tensor_get(value, 0), -1, 1e-6, 0);
    vv_node *sum = vv_add(var, vv_slice(vv_reshape(y, 1, (int64_t[]){4}), 0, 2, 4, 1));
    assert_ok(vv_node_value(var, &value));
    assert_near(vv_tensor_get(value, 0), 1, 1e-6, 0);
    assert_near(vv_tensor_get(value, 1), 9, 1e-6, 0);
    assert_ok(vv_node_value(sum, &value));
    assert_near(vv_tensor_get(value, 1), 10, 1e-6, 0);
    assert_ok(vv_node_value(mean, &value));
    assert_near(vv_tensor_get(value, 1), 13, 1e-6, 0);
    vv_tensor_free(t);
    vv_graph_free(g);
}

/* One whole step; any failure is passed on. */
static vv_status try_step(double *item)
{
    vv_status status;
    vv_graph *g = NULL;
    vv_tensor *t = NULL, *running = NULL;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find("ref");
    int64_t shape[2] = {4, 3};
    VV_GO(vv_graph_new(&g, &opts));
    VV_GO(vv_tensor_new(&t, VV_F32, 2, shape));
    VV_GO(vv_tensor_new(&running, VV_F32, 1, shape + 1));
    vv_tensor_fill(t, 2.0);
    vv_node *x = vv_leaf(g, t), *mean, *var, *grad;
    vv_node *y = vv_relu(vv_batch_norm(x, NULL, NULL, 1e-5, &mean, &var));
    VV_GO(vv_update(g, running, mean));
    vv_node *loss = vv_sum_all(vv_add(y, vv_square(x)));
    VV_GO(vv_grad(g, loss, &x, 1, &grad));
    vv_node *outs[2] = {loss, grad};
    VV_GO(vv_eval(g, outs, 2));
    VV_GO(vv_node_item(loss, item));
out:
    vv_tensor_free(t);
    vv_tensor_free(running);
    vv_graph_free(g);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    double item;
    int64_t live = vv_memory_live_count();
    for (uint64_t n = 1; n < 10000; n++) {
        vv_memory_fail_at(n);
        vv_error_clear();
        vv_status status = try_step(&item);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK) {
            assert_near(item, 48, 1e-4, 0);
            assert_true(n > 10);
            return;
        }
        assert_int_equal(status, VV_ENOMEM);
        assert_true(vv_error()[0] != 0);
    }
    fail_msg("never succeeded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lazy_and_minimal),
        cmocka_unit_test(test_errors_stick),
        cmocka_unit_test(test_own_failures_stick),
        cmocka_unit_test(test_decisions_are_replayed),
        cmocka_unit_test(test_plans_are_shared_and_second_step_allocates_nothing),
        cmocka_unit_test(test_two_equal_structures_in_one_step),
        cmocka_unit_test(test_bind_and_update),
        cmocka_unit_test(test_mid_step_read_keeps_the_rest),
        cmocka_unit_test(test_eager_names_the_first_nan),
        cmocka_unit_test(test_grad_of_unrelated_is_zero_and_fan_out_adds),
        cmocka_unit_test(test_further_results_after_a_read),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
