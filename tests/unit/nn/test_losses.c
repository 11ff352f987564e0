/* test_losses.c - what must hold of losses by name: items and gradients are PyTorch's, gradients
 * are those of finite differences, soft targets of one class are that class, ignored pixels do not
 * count, parts of a batch add up to the whole, and wrong settings and models are refused. */
#include "vv_test.h"

#include <vivace/losses.h>
#include <vivace/registry.h>

#include "golden/losses_golden.h"

enum { ALL = LOSS_N * LOSS_P * LOSS_K };

typedef struct rig {
    vv_model *model;
    vv_graph *graph;
    vv_tensor *x, *y;
} rig;

static void rig_init(rig *r)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {LOSS_N, LOSS_P, LOSS_K};
    vv_module *net = NULL;

    assert_ok(vv_identity_new(&net));
    assert_ok(vv_segmenter_build(&r->model, net, LOSS_K, 1));
    assert_ok(vv_graph_new(&r->graph, &opts));
    assert_ok(vv_tensor_new(&r->x, VV_F32, 3, shape));
    assert_ok(vv_tensor_new(&r->y, VV_I32, 2, shape));
    for (int64_t i = 0; i < ALL; i++)
        vv_tensor_set(r->x, i, (double)(i * 37 % 101) / 101.0 * 6.0 - 3.0);
    for (int64_t i = 0; i < LOSS_N * LOSS_P; i++)
        vv_tensor_set(r->y, i, loss_target[i]);
}

static void rig_fini(rig *r)
{
    vv_model_free(r->model);
    vv_graph_free(r->graph);
    vv_tensor_free(r->x);
    vv_tensor_free(r->y);
}

static const vv_loss_desc *find(const char *name)
{
    const vv_desc *desc = NULL;

    assert_ok(vv_registry_find(&desc, "loss", name));
    return (const vv_loss_desc *)(const void *)desc;
}

/* "a=1,class_weights=1,2,b=3": class_weights, which has commas, comes last. */
static void set_loss(vv_model *model, const char *name, const char *settings)
{
    const vv_loss_desc *desc = find(name);
    const char *weights = strstr(settings, "class_weights=");
    vv_class_loss_opts opts;
    char rest[128];

    const int length = (int)(weights ? (size_t)(weights - settings) : strlen(settings));

    snprintf(rest, sizeof rest, "%.*s", length, settings);
    if (rest[0] && rest[strlen(rest) - 1] == ',')
        rest[strlen(rest) - 1] = '\0';
    assert_ok(vv_opts_init(&desc->desc, &opts));
    if (rest[0])
        assert_ok(vv_opts_set_all(&desc->desc, &opts, rest));
    if (weights)
        assert_ok(vv_opts_set(&desc->desc, &opts, "class_weights", strchr(weights, '=') + 1));
    assert_ok(vv_model_use_loss(model, desc, &opts));
    vv_opts_fini(&desc->desc, &opts);
}

static double total(rig *r, vv_tensor *x, vv_tensor *y)
{
    double value;

    vv_graph_reset(r->graph);
    assert_ok(vv_node_item(vv_sum_all(vv_model_loss(r->model, vv_leaf(r->graph, x),
                                                    vv_leaf(r->graph, y))), &value));
    return value;
}

static void numbers_of_pytorch(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof loss_cases / sizeof *loss_cases; c++) {
        const loss_case *want = &loss_cases[c];
        const vv_tensor *items, *grad;
        rig r;

        rig_init(&r);
        set_loss(r.model, want->name, want->settings);
        vv_node *x = vv_leaf(r.graph, r.x), *outs[2];

        outs[0] = vv_model_loss(r.model, x, vv_leaf(r.graph, r.y));
        assert_ok(vv_grad(r.graph, vv_sum_all(outs[0]), &x, 1, &outs[1]));
        assert_ok(vv_eval(r.graph, outs, 2));
        assert_ok(vv_node_value(outs[0], &items));
        assert_ok(vv_node_value(outs[1], &grad));
        assert_int_equal(items->count, want->count);
        for (int i = 0; i < want->count; i++)
            assert_near(vv_tensor_get(items, i), want->items[i], 2e-6, 2e-5);
        for (int i = 0; i < ALL; i++)
            if (fabs(vv_tensor_get(grad, i) - want->grads[i]) > 2e-6 + 1e-4 * fabs(want->grads[i]))
                fail_msg("%s %s: gradient %d is %g, PyTorch's %g", want->name, want->settings, i,
                         vv_tensor_get(grad, i), want->grads[i]);

        /* Finite differences along a direction, in the step where both errors are small. */
        double slope = 0.0, up, down;
        const double step = 0.01;

        for (int i = 0; i < ALL; i++)
            slope += vv_tensor_get(grad, i) * (double)(i % 5 - 2);
        for (int i = 0; i < ALL; i++)
            vv_tensor_set(r.x, i, vv_tensor_get(r.x, i) + step * (double)(i % 5 - 2));
        up = total(&r, r.x, r.y);
        for (int i = 0; i < ALL; i++)
            vv_tensor_set(r.x, i, vv_tensor_get(r.x, i) - 2.0 * step * (double)(i % 5 - 2));
        down = total(&r, r.x, r.y);
        assert_near((up - down) / (2.0 * step), slope, 2e-3, 5e-3);
        rig_fini(&r);
    }
}

/* Items of single images add up to those of all, and so do the counts. */
static void parts_and_soft_targets(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof loss_cases / sizeof *loss_cases; c++) {
        const int64_t xs[] = {1, LOSS_P, LOSS_K}, all[] = {LOSS_N, LOSS_P, LOSS_K};
        vv_tensor *soft = NULL, *x = NULL, *y = NULL;
        double parts = 0.0;
        int64_t count = 0;
        rig r;

        rig_init(&r);
        set_loss(r.model, loss_cases[c].name, loss_cases[c].settings);
        const double whole = total(&r, r.x, r.y);

        assert_ok(vv_tensor_new(&x, VV_F32, 3, xs));
        assert_ok(vv_tensor_new(&y, VV_I32, 2, xs));
        for (int64_t n = 0; n < LOSS_N; n++) {
            for (int64_t i = 0; i < x->count; i++)
                vv_tensor_set(x, i, vv_tensor_get(r.x, n * x->count + i));
            for (int64_t i = 0; i < y->count; i++)
                vv_tensor_set(y, i, vv_tensor_get(r.y, n * y->count + i));
            parts += total(&r, x, y);
            count += vv_model_loss_items(r.model, y);
        }
        assert_near(parts, whole, 1e-5, 1e-6);
        assert_int_equal(count, vv_model_loss_items(r.model, r.y));
        /* The last image has no class at all. */
        assert_int_equal(vv_model_loss_items(r.model, y), 0);

        assert_ok(vv_tensor_new(&soft, VV_F32, 3, all));
        for (int64_t i = 0; i < LOSS_N * LOSS_P; i++)
            if (loss_target[i] >= 0)
                vv_tensor_set(soft, i * LOSS_K + loss_target[i], 1.0);
        assert_near(total(&r, r.x, soft), whole, 1e-5, 1e-6);
        assert_int_equal(vv_model_loss_items(r.model, soft), vv_model_loss_items(r.model, r.y));
        vv_tensor_free(soft);
        vv_tensor_free(x);
        vv_tensor_free(y);
        rig_fini(&r);
    }
}

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    static const char *const bad[] = {"1,2,3", "1,2,3,4,5", "1,2,x,4", "-1,1,1,1", "1,1,1,1,"};
    const vv_loss_desc *desc = find("focal");
    vv_class_loss_opts opts;
    vv_module *net = NULL;
    vv_model *numbers = NULL;
    rig r;

    rig_init(&r);
    assert_ok(vv_opts_init(&desc->desc, &opts));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_ok(vv_opts_set(&desc->desc, &opts, "class_weights", bad[i]));
        assert_fails(vv_model_use_loss(r.model, desc, &opts), VV_EINVAL);
        assert_says("class_weights");
    }
    assert_null(r.model->loss); /* a failure changes nothing */
    vv_opts_fini(&desc->desc, &opts);
    assert_ok(vv_identity_new(&net));
    assert_ok(vv_regressor_new(&numbers, net));
    assert_fails(vv_model_use_loss(numbers, desc, NULL), VV_EINVAL);
    assert_says("numbers");
    vv_model_free(numbers);
    for (uint64_t nth = 1; nth < 100; nth++) {
        vv_memory_fail_at(nth);
        const vv_status status = vv_model_use_loss(r.model, desc, NULL);

        vv_memory_fail_at(0);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
    }
    rig_fini(&r);
    assert_int_equal(vv_memory_live_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_pytorch),
        cmocka_unit_test(parts_and_soft_targets),
        cmocka_unit_test(what_is_wrong_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
