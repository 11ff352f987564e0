/* test_surgery.c - what must hold of surgery: policies are asked in order and depth first; a shared
 * layer is replaced once and put into all of its places; the index counts matches, declined ones
 * too; new layers are not entered and the root is never replaced; a replacement may keep the old
 * layer inside; the optimizer follows; and a failure leaves the tree as it was. */
#include "nn_test.h"

#include <vivace/optim.h>

/* What a policy saw, and what it is to do. */
typedef struct record {
    vv_module *layers[16];
    int indices[16];
    int count;
    int decline; /* this call gives NULL; -1 = none */
    int fail;    /* this call fails; -1 = none */
    bool wrap;   /* the new layer holds the old one */
} record;

static vv_status replace(void *ctx, vv_module *layer, int index, vv_module **out)
{
    record *r = ctx;
    int call = r->count;

    *out = NULL;
    assert_true(call < 16);
    r->layers[call] = layer;
    r->indices[call] = index;
    r->count++;
    if (call == r->decline)
        return VV_OK;
    if (call == r->fail)
        return vv_fail(VV_EUNSUPPORTED, "policy: not this one");
    VV_TRY(vv_sequential_new(out));
    if (!r->wrap)
        return VV_OK;
    vv_status status = vv_sequential_push(*out, VV_OK, vv_module_keep(layer));
    if (status != VV_OK) {
        vv_module_free(*out);
        *out = NULL;
    }
    return status;
}

/* Sequential: 0 = Linear, 1 = Sequential(0 = Linear, 1 = the first Linear again, 2 = Identity). */
static vv_module *tree_new(void)
{
    vv_module *root = new_sequential(), *inner = new_sequential(), *linear = new_linear(2, 2);

    assert_ok(vv_sequential_push(root, VV_OK, linear));
    assert_ok(vv_sequential_push(inner, VV_OK, new_linear(3, 3)));
    assert_ok(vv_sequential_push(inner, VV_OK, vv_module_keep(linear)));
    assert_ok(vv_sequential_push(inner, VV_OK, new_identity()));
    assert_ok(vv_sequential_push(root, VV_OK, inner));
    return root;
}

static void shared_layers_are_replaced_once_and_rewired(void **state)
{
    (void)state;
    vv_module *root = tree_new();
    vv_module *first = vv_module_find(root, "0"), *second = vv_module_find(root, "1.0");
    record r = {.decline = -1, .fail = -1};
    const vv_policy policy = {&vv_linear_class, replace, &r, NULL};
    int count = 0;

    assert_ok(vv_module_replace(root, &policy, 1, NULL, &count));
    assert_int_equal(count, 2);
    assert_int_equal(r.count, 2);
    assert_ptr_equal(r.layers[0], first); /* depth first, in order of addition */
    assert_ptr_equal(r.layers[1], second);
    assert_int_equal(r.indices[0], 0);
    assert_int_equal(r.indices[1], 1);
    assert_ptr_equal(vv_module_find(root, "0"), vv_module_find(root, "1.1"));
    assert_ptr_equal(vv_module_type(vv_module_find(root, "0")), &vv_sequential_class);
    assert_int_equal(vv_module_count(root, &vv_linear_class), 0);
    assert_int_equal(vv_module_param_count(root), 0);
    vv_module_free(root);
}

static void the_index_counts_declined_matches(void **state)
{
    (void)state;
    vv_module *root = new_sequential();
    record r = {.decline = 1, .fail = -1};
    const vv_policy policy = {&vv_linear_class, replace, &r, NULL};
    int count = 0;

    for (int i = 0; i < 3; i++)
        assert_ok(vv_sequential_push(root, VV_OK, new_linear(2, 2)));
    assert_ok(vv_module_replace(root, &policy, 1, NULL, &count));
    assert_int_equal(count, 2);
    assert_int_equal(r.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(r.indices[i], i);
    assert_ptr_equal(vv_module_type(vv_module_find(root, "1")), &vv_linear_class);
    assert_ptr_equal(vv_module_type(vv_module_find(root, "2")), &vv_sequential_class);
    vv_module_free(root);
}

static void the_first_policy_that_gives_a_layer_wins(void **state)
{
    (void)state;
    vv_module *root = new_sequential();
    record a = {.decline = 0, .fail = -1}, b = {.decline = -1, .fail = -1};
    record c = {.decline = -1, .fail = -1};
    const vv_policy policies[] = {{&vv_linear_class, replace, &a, NULL},
                                  {&vv_linear_class, replace, &b, NULL},
                                  {&vv_identity_class, replace, &c, NULL}};

    assert_ok(vv_sequential_push(root, VV_OK, new_linear(2, 2)));
    assert_ok(vv_sequential_push(root, VV_OK, new_linear(2, 2)));
    assert_ok(vv_sequential_push(root, VV_OK, new_identity()));
    assert_ok(vv_module_replace(root, policies, 3, NULL, NULL));
    assert_int_equal(a.count, 2); /* declined the first, took the second */
    assert_int_equal(b.count, 1); /* was asked about the first alone */
    assert_int_equal(b.indices[0], 0);
    assert_int_equal(c.count, 1);
    vv_module_free(root);
}

static void the_root_stays_and_new_layers_are_not_entered(void **state)
{
    (void)state;
    vv_module *root = new_sequential();
    record r = {.decline = -1, .fail = -1, .wrap = true};
    const vv_policy both[] = {{&vv_linear_class, replace, &r, NULL},
                              {&vv_sequential_class, replace, &r, NULL}};
    vv_module *linear = new_linear(2, 2);
    int count = 0;

    assert_ok(vv_sequential_push(root, VV_OK, linear));
    vv_module_set_training(root, false);
    /* The replacement is a Sequential around the old Linear: neither is asked about again. */
    assert_ok(vv_module_replace(root, both, 2, NULL, &count));
    assert_int_equal(count, 1);
    assert_int_equal(r.count, 1);
    assert_ptr_equal(vv_module_find(root, "0.0"), linear);
    assert_false(vv_module_training(vv_module_find(root, "0"))); /* as the layer it stands for */
    vv_module_free(root);
}

static void a_wrapped_shared_layer_stays_inside_its_wrapper(void **state)
{
    (void)state;
    vv_module *root = tree_new(), *linear = vv_module_find(root, "0");
    record r = {.decline = -1, .fail = -1, .wrap = true};
    const vv_policy policy = {&vv_linear_class, replace, &r, NULL};

    assert_ok(vv_module_replace(root, &policy, 1, NULL, NULL));
    assert_ptr_equal(vv_module_find(root, "0"), vv_module_find(root, "1.1"));
    assert_ptr_equal(vv_module_find(root, "0.0"), linear);
    assert_int_equal(vv_module_count(root, &vv_linear_class), 2);
    assert_int_equal(vv_module_param_count(root), 2 * 2 + 2 + 3 * 3 + 3);
    vv_module_free(root);
}

static vv_status swallow_parent(void *ctx, vv_module *layer, int index, vv_module **out)
{
    (void)layer;
    (void)index;
    VV_TRY(vv_sequential_new(out));
    return vv_sequential_push(*out, VV_OK, vv_module_keep(ctx));
}

static void a_failure_leaves_the_tree_as_it_was(void **state)
{
    (void)state;
    vv_module *root = tree_new();
    vv_module *first = vv_module_find(root, "0"), *second = vv_module_find(root, "1.0");
    record r = {.decline = -1, .fail = 1};
    const vv_policy policy = {&vv_linear_class, replace, &r, NULL};
    const vv_policy cyclic = {&vv_identity_class, swallow_parent, vv_module_find(root, "1"), NULL};
    const vv_policy none = {&vv_linear_class, NULL, NULL, NULL};
    int count = 7;

    assert_fails(vv_module_replace(root, &policy, 1, NULL, &count), VV_EUNSUPPORTED);
    assert_int_equal(count, 0);
    assert_ptr_equal(vv_module_find(root, "0"), first);
    assert_ptr_equal(vv_module_find(root, "1.1"), first);
    assert_ptr_equal(vv_module_find(root, "1.0"), second);
    assert_fails(vv_module_replace(root, &cyclic, 1, NULL, NULL), VV_EINVAL);
    assert_fails(vv_module_replace(root, &none, 1, NULL, NULL), VV_EINVAL);
    assert_fails(vv_module_replace(root, NULL, 2, NULL, NULL), VV_EINVAL);
    assert_int_equal(vv_module_param_count(root), 2 * 2 + 2 + 3 * 3 + 3);
    vv_module_free(root);
}

static vv_status new_linear_for(void *ctx, vv_module *layer, int index, vv_module **out)
{
    const vv_linear_layer *old = vv_module_self(layer);

    (void)ctx;
    (void)index;
    return vv_linear_new(out, old->in_features, old->out_features, false);
}

static void the_optimizer_follows(void **state)
{
    (void)state;
    vv_module *root = tree_new(), *bn = NULL;
    vv_optimizer *optimizer = NULL;
    const vv_policy policy = {&vv_linear_class, new_linear_for, NULL, NULL};
    int count = 0;

    assert_ok(vv_batch_norm_new(&bn, 4, 1e-5, 0.1));
    assert_ok(vv_module_add_child(root, "bn", bn));
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, root));
    assert_int_equal(vv_optimizer_param_count(optimizer), 6);
    assert_ok(vv_module_replace(root, &policy, 1, optimizer, &count));
    assert_int_equal(count, 2);
    assert_int_equal(vv_optimizer_param_count(optimizer), 4); /* two weights without bias, and bn */
    assert_ok(vv_optimizer_check(optimizer, root));
    vv_optimizer_free(optimizer);
    vv_module_free(root);
}

static vv_status operate(void *ctx)
{
    vv_module *root = NULL, *part = NULL;
    const vv_module *before[2];
    record r = {.decline = -1, .fail = -1, .wrap = true};
    const vv_policy policy = {&vv_linear_class, replace, &r, NULL};
    vv_status status = VV_OK;

    (void)ctx;
    VV_GO(vv_sequential_new(&root));
    for (int i = 0; i < 2; i++) {
        status = vv_linear_new(&part, 2, 2, true);
        VV_GO(vv_sequential_push(root, status, part));
        before[i] = vv_module_child(root, i);
    }
    status = vv_module_replace(root, &policy, 1, NULL, NULL);
    for (int i = 0; status != VV_OK && i < 2; i++)
        assert_ptr_equal(vv_module_child(root, i), before[i]);
out:
    vv_module_free(root);
    return status;
}

/* Layers inside a module of the class named by not_inside are passed over and not counted. */
static void a_second_pass_finds_nothing_inside_its_own_wrappers(void **state)
{
    (void)state;
    vv_module *root = new_sequential(), *inner = new_sequential();
    record r = {.decline = -1, .fail = -1};
    const vv_policy policy = {&vv_linear_class, replace, &r, &vv_identity_class};
    const vv_policy outside = {&vv_linear_class, replace, &r, &vv_sequential_class};
    int count = 7;

    assert_ok(vv_sequential_push(inner, VV_OK, new_linear(2, 2)));
    assert_ok(vv_sequential_push(root, VV_OK, inner));
    assert_ok(vv_module_replace(root, &outside, 1, NULL, &count));
    assert_int_equal(count, 0);
    assert_int_equal(r.count, 0);
    assert_ok(vv_module_replace(root, &policy, 1, NULL, &count));
    assert_int_equal(count, 1);
    vv_module_free(root);
}

static void nothing_leaks_when_allocations_fail(void **state)
{
    (void)state;
    survives_each_failure(operate, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_layers_are_replaced_once_and_rewired),
        cmocka_unit_test(the_index_counts_declined_matches),
        cmocka_unit_test(the_first_policy_that_gives_a_layer_wins),
        cmocka_unit_test(the_root_stays_and_new_layers_are_not_entered),
        cmocka_unit_test(a_wrapped_shared_layer_stays_inside_its_wrapper),
        cmocka_unit_test(a_failure_leaves_the_tree_as_it_was),
        cmocka_unit_test(the_optimizer_follows),
        cmocka_unit_test(a_second_pass_finds_nothing_inside_its_own_wrappers),
        cmocka_unit_test(nothing_leaks_when_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
