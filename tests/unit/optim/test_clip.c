/* test_clip.c - what must hold of clipping: it acts on the global gradient, all parameters jointly,
 * and gives the norm before; nothing is changed below the limit, at zero, in frozen parameters, or
 * when a gradient is not finite, which is told by name; adaptive clipping goes unit by unit, with a
 * floor for small weights. Values: arithmetic on small vectors. */
#include "optim_test.h"

static vv_module *pair(float g0, float g1)
{
    vv_module *box = box_new(2, 1);
    assert_ok(vv_grads_ensure(box));
    box_grad(box, 0)[0] = g0;
    box_grad(box, 1)[0] = g1;
    return box;
}

/* Microbatches gave (3,0) and (0,4); the sum is clipped, as one vector over both parameters. */
static void by_norm(void **unused)
{
    (void)unused;
    double norm = 0.0;
    vv_module *box = pair(3.0f, 4.0f);
    assert_ok(vv_clip_grad_norm(box, 1.0, &norm));
    assert_near(norm, 5.0, 1e-9, 0.0);
    assert_near((double)box_grad(box, 0)[0], 0.6, 1e-6, 0.0);
    assert_near((double)box_grad(box, 1)[0], 0.8, 1e-6, 0.0);
    assert_ok(vv_clip_grad_norm(box, 1.0 + 1e-6, &norm)); /* below: nothing changes */
    assert_near((double)box_grad(box, 0)[0], 0.6, 1e-6, 0.0);
    box_param(box, 0)->frozen = true; /* then it is as if it were not there */
    assert_ok(vv_clip_grad_norm(box, 0.4, &norm));
    assert_near(norm, 0.8, 1e-6, 0.0);
    assert_near((double)box_grad(box, 0)[0], 0.6, 1e-6, 0.0);
    assert_near((double)box_grad(box, 1)[0], 0.4, 1e-6, 0.0);
    vv_module_free(box);

    box = pair(1.5f, 2.0f); /* averaged over two ranks */
    assert_ok(vv_clip_grad_norm(box, 1.0, &norm));
    assert_near(norm, 2.5, 1e-9, 0.0);
    assert_near((double)box_grad(box, 0)[0], 0.6, 1e-6, 0.0);
    assert_near((double)box_grad(box, 1)[0], 0.8, 1e-6, 0.0);
    vv_module_free(box);

    box = pair(0.0f, 0.0f);
    assert_ok(vv_clip_grad_norm(box, 1.0, &norm));
    assert_true(norm == 0.0 && box_grad(box, 0)[0] == 0.0f);
    vv_module_free(box);
}

static void by_value(void **unused)
{
    (void)unused;
    double norm = 0.0;
    vv_module *box = pair(3.0f, -4.0f);
    assert_ok(vv_clip_grad_value(box, 3.5, &norm));
    assert_near(norm, 5.0, 1e-9, 0.0);
    assert_true(box_grad(box, 0)[0] == 3.0f && box_grad(box, 1)[0] == -3.5f);
    assert_ok(vv_clip_grad_value(box, 1.0, NULL));
    assert_true(box_grad(box, 0)[0] == 1.0f && box_grad(box, 1)[0] == -1.0f);
    vv_module_free(box);
}

static void not_finite(void **unused)
{
    (void)unused;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        double norm = 0.0;
        vv_module *box = pair(3.0f, bad[i]);
        assert_fails(vv_clip_grad_norm(box, 1.0, &norm), VV_ENUMERIC);
        assert_says("p1");
        assert_false(isfinite(norm));
        assert_fails(vv_clip_grad_value(box, 1.0, &norm), VV_ENUMERIC);
        assert_says("p1");
        assert_fails(vv_clip_grad_adaptive(box, NULL, &norm), VV_ENUMERIC);
        assert_says("p1");
        assert_true(box_grad(box, 0)[0] == 3.0f);
        assert_memory_equal(box_grad(box, 1), &bad[i], sizeof bad[i]);
        vv_module_free(box);
    }
    vv_module *box = pair(3.0f, 4.0f); /* finite, though its squares are beyond float */
    box_grad(box, 0)[0] = 1e30f;
    double norm = 0.0;
    assert_ok(vv_clip_grad_norm(box, 1.0, &norm));
    assert_near(norm, 1e30, 0.0, 1e-6);
    assert_near((double)box_grad(box, 0)[0], 1.0, 1e-6, 0.0);
    vv_module_free(box);
}

/* A tree of two linear-like layers: "a" and "b", each with a weight [rows,2] and the first with a
   bias. */
static vv_module *layer(int64_t rows, bool bias, const float *weight, const float *grad)
{
    vv_module *box = NULL;
    vv_param *param = NULL;
    assert_ok(vv_module_new(&box, &box_class, 0));
    assert_ok(vv_param_new(&param, 2, (const int64_t[]){rows, 2}));
    memcpy(param->value->data, weight, param->value->bytes);
    assert_ok(vv_module_add_param(box, "weight", param));
    if (bias) {
        assert_ok(vv_param_new(&param, 1, (const int64_t[]){2}));
        memcpy(param->value->data, (const float[]){3, 4}, param->value->bytes);
        assert_ok(vv_module_add_param(box, "bias", param));
    }
    assert_ok(vv_grads_ensure(box));
    memcpy(vv_module_param(box, "weight")->grad->data, grad, (size_t)rows * 2 * sizeof(float));
    if (bias)
        memcpy(param->grad->data, (const float[]){7, 24}, param->grad->bytes);
    return box;
}

static void is(const vv_param *param, const double *expected)
{
    for (int64_t i = 0; i < param->grad->count; i++)
        assert_near(vv_tensor_get(param->grad, i), expected[i], 1e-6, 1e-6);
}

static void adaptive(void **unused)
{
    (void)unused;
    static const float weight[] = {3, 4, 9, 40}, grad[] = {7, 24, 5, 12};
    static const float zero[] = {0, 0};
    static const double clipped[] = {0.7, 2.4, 5, 12}, vector[] = {0.7, 2.4}, same[] = {7, 24};
    vv_clip_adaptive_opts opts = VV_CLIP_ADAPTIVE_DEFAULTS;
    double norm = 0.0;
    opts.threshold = 0.5;
    vv_module *a = layer(2, true, weight, grad);
    assert_ok(vv_clip_grad_adaptive(a, &opts, &norm)); /* the second row is below */
    is(vv_module_param(a, "weight"), clipped);
    is(vv_module_param(a, "bias"), vector);
    assert_near(norm, sqrt(25.0 * 25 + 13 * 13 + 25 * 25), 0.0, 1e-9);
    vv_module_free(a);

    /* Weights of zero: by the floor, eps * threshold of 1e-3 * 0.5 along the gradient. */
    const double floor_of[] = {7.0 / 25 * 5e-4, 24.0 / 25 * 5e-4}, none[] = {0, 0};
    a = layer(1, false, zero, grad);
    assert_ok(vv_clip_grad_adaptive(a, &opts, NULL));
    is(vv_module_param(a, "weight"), floor_of);
    opts.eps = 0.0;
    assert_ok(vv_clip_grad_adaptive(a, &opts, NULL));
    is(vv_module_param(a, "weight"), none);
    assert_ok(vv_clip_grad_adaptive(a, &opts, NULL)); /* 0 / 0 */
    is(vv_module_param(a, "weight"), none);
    vv_module_free(a);

    vv_module *tree = NULL;
    opts.eps = 1e-3;
    opts.exempt_last = true;
    assert_ok(vv_module_new(&tree, &box_class, 0));
    assert_ok(vv_module_add_child(tree, "a", layer(2, true, weight, grad)));
    assert_ok(vv_module_add_child(tree, "b", layer(1, false, weight, grad)));
    assert_ok(vv_clip_grad_adaptive(tree, &opts, NULL));
    is(vv_module_param(vv_module_find(tree, "a"), "weight"), clipped);
    is(vv_module_param(vv_module_find(tree, "b"), "weight"), same);
    vv_module_free(tree);
}

static void refusals(void **unused)
{
    (void)unused;
    const double bad[] = {0.0, -1.0, (double)NAN, (double)INFINITY};
    vv_module *box = pair(3.0f, 4.0f);
    for (int i = 0; i < 4; i++) {
        vv_clip_adaptive_opts opts = VV_CLIP_ADAPTIVE_DEFAULTS;
        opts.threshold = bad[i];
        assert_fails(vv_clip_grad_norm(box, bad[i], NULL), VV_EINVAL);
        assert_fails(vv_clip_grad_value(box, bad[i], NULL), VV_EINVAL);
        assert_fails(vv_clip_grad_adaptive(box, &opts, NULL), VV_EINVAL);
        opts = (vv_clip_adaptive_opts)VV_CLIP_ADAPTIVE_DEFAULTS;
        opts.eps = bad[i];
        if (bad[i] != 0.0)
            assert_fails(vv_clip_grad_adaptive(box, &opts, NULL), VV_EINVAL);
    }
    assert_true(box_grad(box, 0)[0] == 3.0f);
    vv_module_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_norm),  cmocka_unit_test(by_value), cmocka_unit_test(not_finite),
        cmocka_unit_test(adaptive), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
