/* test_module.c - what must hold of a module tree: names are checked and become PyTorch's paths,
 * traversals meet each shared thing once and in order of addition, children can be exchanged,
 * freezing reaches every parameter, loading checks everything before it changes anything, and
 * nothing leaks whichever allocation fails. */
#include "nn_test.h"

/* a = Sequential(0 = Linear(2,3), 1 = BatchNorm2d(3)), b = a's layer 0 again. */
static vv_module *shared_tree(void)
{
    vv_module *root = new_sequential(), *a = new_sequential(), *bn = NULL;
    vv_module *linear = new_linear(2, 3);

    assert_ok(vv_sequential_push(a, VV_OK, vv_module_keep(linear)));
    assert_ok(vv_batch_norm_new(&bn, 3, 1e-5, 0.1));
    assert_ok(vv_sequential_push(a, VV_OK, bn));
    assert_ok(vv_module_add_child(root, "a", a));
    assert_ok(vv_module_add_child(root, "b", linear));
    return root;
}

static void names_follow_the_order_of_addition(void **state)
{
    (void)state;
    vv_module *root = shared_tree();
    name_list params = {0}, buffers = {0}, states = {0}, modules = {0};

    vv_module_each_param(root, take_param, &params);
    assert_string_equal(params.text, "a.0.weight a.0.bias a.1.weight a.1.bias");
    vv_module_each_buffer(root, take_buffer, &buffers);
    assert_string_equal(buffers.text, "a.1.running_mean a.1.running_var a.1.num_batches_tracked");
    vv_module_each_state(root, take_state, &states);
    assert_string_equal(states.text, "a.0.weight a.0.bias a.1.weight a.1.bias a.1.running_mean "
                                     "a.1.running_var a.1.num_batches_tracked");
    vv_module_each(root, take_module, &modules);
    assert_string_equal(modules.text, "<root> a a.0 a.1");
    assert_int_equal(vv_module_param_count(root), 2 * 3 + 3 + 3 + 3);
    assert_int_equal(vv_module_count(root, &vv_linear_class), 1);
    assert_int_equal(vv_module_count(root, &vv_sequential_class), 1); /* the root does not count */
    vv_module_free(root);
}

static void tied_parameters_and_buffers_are_met_once(void **state)
{
    (void)state;
    vv_module *root = new_sequential(), *first = new_identity(), *second = new_identity();
    vv_param *param = NULL;
    vv_tensor *buffer = NULL;
    const int64_t shape[] = {4};
    name_list params = {0}, buffers = {0};

    assert_ok(vv_param_new(&param, 1, shape));
    assert_ok(vv_tensor_new(&buffer, VV_F32, 1, shape));
    assert_ok(vv_module_add_param(first, "w", vv_param_keep(param)));
    assert_ok(vv_module_add_param(second, "tied", param));
    assert_ok(vv_module_add_buffer(first, "b", vv_tensor_keep(buffer)));
    assert_ok(vv_module_add_buffer(second, "same", buffer));
    assert_ok(vv_module_add_child(root, "first", first));
    assert_ok(vv_module_add_child(root, "second", second));
    vv_module_each_param(root, take_param, &params);
    vv_module_each_buffer(root, take_buffer, &buffers);
    assert_string_equal(params.text, "first.w");
    assert_string_equal(buffers.text, "first.b");
    assert_int_equal(vv_module_param_count(root), 4);
    /* Below `second` alone the tied parameter is the first and only one. */
    params = (name_list){0};
    vv_module_each_param(second, take_param, &params);
    assert_string_equal(params.text, "tied");
    vv_module_free(root);
}

static bool nested(void *ctx, const char *path, vv_module *module)
{
    name_list inner = {0};

    (void)module;
    vv_module_each(((void **)ctx)[0], take_module, &inner);
    assert_string_equal(inner.text, "<root> a a.0 a.1");
    name_add(((void **)ctx)[1], path[0] ? path : "<root>");
    return true;
}

static bool stop_at_second(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    take_param(ctx, path, owner, param);
    return ((name_list *)ctx)->count < 2;
}

static void traversals_nest_and_stop(void **state)
{
    (void)state;
    vv_module *root = shared_tree();
    name_list outer = {0}, two = {0};
    void *ctx[] = {root, &outer};

    vv_module_each(root, nested, ctx);
    assert_string_equal(outer.text, "<root> a a.0 a.1");
    vv_module_each_param(root, stop_at_second, &two);
    assert_string_equal(two.text, "a.0.weight a.0.bias");
    vv_module_free(root);
}

static void paths_find_modules(void **state)
{
    (void)state;
    vv_module *root = shared_tree();

    assert_ptr_equal(vv_module_find(root, ""), root);
    assert_ptr_equal(vv_module_find(root, "a.0"), vv_module_find(root, "b"));
    assert_ptr_equal(vv_module_type(vv_module_find(root, "a.1")), &vv_batch_norm_class);
    assert_null(vv_module_find(root, "a.2"));
    assert_null(vv_module_find(root, "a."));
    assert_null(vv_module_find(root, ".a"));
    assert_null(vv_module_find(root, "aa"));
    assert_null(vv_module_find(root, "a.0.weight"));
    assert_string_equal(vv_module_child_name(root, 1), "b");
    assert_null(vv_module_child(root, 2));
    assert_null(vv_module_child(root, -1));
    assert_null(vv_module_child_name(root, 2));
    assert_null(vv_module_param(root, "weight"));
    assert_non_null(vv_module_buffer(vv_module_find(root, "a.1"), "running_var"));
    vv_module_free(root);
}

static void bad_names_are_refused(void **state)
{
    (void)state;
    vv_module *root = shared_tree(), *bn = vv_module_find(root, "a.1");
    vv_param *param = NULL;
    vv_tensor *tensor = NULL;
    const int64_t one[] = {1};
    char name[80];

    memset(name, 'x', sizeof name);
    name[64] = '\0';
    assert_fails(vv_module_add_child(root, "", new_identity()), VV_EINVAL);
    assert_fails(vv_module_add_child(root, "a.b", new_identity()), VV_EINVAL);
    assert_says("a.b");
    assert_fails(vv_module_add_child(root, name, new_identity()), VV_EINVAL);
    assert_fails(vv_module_add_child(root, "a", new_identity()), VV_EEXIST);
    assert_fails(vv_module_add_child(root, NULL, new_identity()), VV_EINVAL);
    assert_fails(vv_module_add_child(root, "c", NULL), VV_EINVAL);
    assert_ok(vv_param_new(&param, 1, one));
    assert_fails(vv_module_add_param(bn, "weight", param), VV_EEXIST);
    assert_ok(vv_param_new(&param, 1, one));
    assert_fails(vv_module_add_param(bn, "running_mean", param), VV_EEXIST);
    assert_fails(vv_module_add_param(bn, "none", NULL), VV_EINVAL);
    assert_ok(vv_tensor_new(&tensor, VV_F32, 1, one));
    assert_fails(vv_module_add_buffer(bn, "bias", tensor), VV_EEXIST);
    assert_fails(vv_module_add_buffer(bn, "none", NULL), VV_EINVAL);
    name[63] = '\0'; /* the longest that fits */
    assert_ok(vv_module_add_child(root, name, new_identity()));
    assert_non_null(vv_module_find(root, name));
    vv_module_free(root);
}

static void cycles_are_refused(void **state)
{
    (void)state;
    vv_module *root = shared_tree(), *a = vv_module_find(root, "a");

    assert_fails(vv_module_add_child(a, "up", vv_module_keep(root)), VV_EINVAL);
    assert_fails(vv_module_add_child(root, "self", vv_module_keep(root)), VV_EINVAL);
    assert_fails(vv_module_set_child(a, 0, vv_module_keep(root)), VV_EINVAL);
    assert_says("cycle");
    vv_module_free(root);
}

static void children_can_be_exchanged(void **state)
{
    (void)state;
    vv_module *root = shared_tree(), *a = vv_module_find(root, "a");
    vv_module *linear = vv_module_find(root, "b"), *other = new_linear(2, 3);
    name_list params = {0};

    assert_fails(vv_module_set_child(a, 2, new_identity()), VV_EINVAL);
    assert_fails(vv_module_set_child(a, -1, new_identity()), VV_EINVAL);
    assert_fails(vv_module_set_child(a, 0, NULL), VV_EINVAL);
    assert_ok(vv_module_set_child(a, 0, other));
    assert_ptr_equal(vv_module_find(root, "a.0"), other);
    assert_ptr_equal(vv_module_find(root, "b"), linear);
    vv_module_each_param(root, take_param, &params);
    assert_string_equal(params.text, "a.0.weight a.0.bias a.1.weight a.1.bias b.weight b.bias");
    assert_ok(vv_module_set_child(a, 0, vv_module_keep(other))); /* itself */
    assert_int_equal(vv_module_param_count(root), 9 + 6 + 9);
    vv_module_free(root);
}

static void parameters_have_ids_that_never_repeat(void **state)
{
    (void)state;
    vv_param *a = NULL, *b = NULL;
    const int64_t shape[] = {2, 3};
    uint64_t old;

    assert_ok(vv_param_new(&a, 2, shape));
    assert_int_equal(a->value->count, 6);
    assert_int_equal(a->value->dtype, VV_F32);
    assert_null(a->grad);
    assert_false(a->frozen);
    old = a->id;
    vv_param_free(a);
    assert_ok(vv_param_new(&b, 2, shape));
    assert_true(b->id > old && old > 0);
    vv_param_free(b);
    vv_param_free(NULL);
    vv_module_free(NULL);
}

static void training_and_frozen_reach_the_whole_tree(void **state)
{
    (void)state;
    vv_module *root = shared_tree();

    assert_true(vv_module_training(vv_module_find(root, "a.0")));
    vv_module_set_training(root, false);
    assert_false(vv_module_training(root));
    assert_false(vv_module_training(vv_module_find(root, "a.1")));
    vv_module_set_frozen(vv_module_find(root, "a"), true);
    assert_true(vv_module_param(vv_module_find(root, "b"), "weight")->frozen);
    assert_true(vv_module_param(vv_module_find(root, "a.1"), "bias")->frozen);
    vv_module_set_frozen(root, false);
    assert_false(vv_module_param(vv_module_find(root, "a.1"), "bias")->frozen);
    vv_module_free(root);
}

/* ---- loading ---- */

typedef struct file {
    const char *names[8];
    vv_tensor *tensors[8];
    int count;
} file;

static const vv_tensor *file_find(void *ctx, const char *name)
{
    const file *f = ctx;

    for (int i = 0; i < f->count; i++)
        if (f->names[i] && !strcmp(f->names[i], name))
            return f->tensors[i];
    return NULL;
}

static bool file_take(void *ctx, const char *name, vv_tensor *tensor)
{
    static const char *const known[] = {"0.weight", "0.bias", "1.weight", "1.bias"};
    file *f = ctx;

    for (int i = 0; i < 4; i++)
        if (!strcmp(known[i], name))
            f->names[f->count] = known[i];
    assert_ok(vv_tensor_clone(&f->tensors[f->count], tensor));
    f->count++;
    return true;
}

static void loading_checks_before_it_changes(void **state)
{
    (void)state;
    vv_module *source = new_sequential(), *net = new_sequential();
    file f = {.count = 0};
    const int64_t wrong[] = {5};
    int loaded = -1;

    assert_ok(vv_sequential_push(source, VV_OK, new_linear(2, 3)));
    assert_ok(vv_sequential_push(source, VV_OK, new_linear(3, 1)));
    assert_ok(vv_sequential_push(net, VV_OK, new_linear(2, 3)));
    assert_ok(vv_sequential_push(net, VV_OK, new_linear(3, 1)));
    assert_ok(vv_module_init_default(source, 3));
    vv_module_each_state(source, file_take, &f);
    assert_int_equal(f.count, 4);
    const vv_tensor *weight = vv_module_param(vv_module_find(net, "0"), "weight")->value;

    /* A missing name: strict refuses and changes nothing, otherwise the model keeps its own. */
    f.names[3] = NULL;
    assert_fails(vv_module_load(net, file_find, &f, true, &loaded), VV_ENOTFOUND);
    assert_says("1.bias");
    assert_int_equal(loaded, 0);
    assert_true(vv_tensor_get(weight, 0) == 0.0);
    assert_ok(vv_module_load(net, file_find, &f, false, &loaded));
    assert_int_equal(loaded, 3);
    assert_memory_equal(weight->data, f.tensors[0]->data, weight->bytes);

    /* A wrong shape is an error either way. */
    f.names[3] = "1.bias";
    assert_ok(vv_module_load(net, file_find, &f, true, NULL));
    vv_tensor_free(f.tensors[3]);
    assert_ok(vv_tensor_new(&f.tensors[3], VV_F32, 1, wrong));
    assert_fails(vv_module_load(net, file_find, &f, false, &loaded), VV_ESHAPE);
    assert_says("1.bias");
    assert_says("[5]");
    for (int i = 0; i < f.count; i++)
        vv_tensor_free(f.tensors[i]);
    vv_module_free(source);
    vv_module_free(net);
}

/* ---- running ---- */

static void null_passes_through_and_scopes_name_errors(void **state)
{
    (void)state;
    vv_graph *graph = new_graph();
    vv_module *root = shared_tree();
    const float data[] = {1, 2, 3};
    const int64_t shape[] = {1, 3};

    assert_null(vv_module_forward(root, graph, NULL));
    assert_null(vv_module_forward(NULL, graph, NULL));
    assert_ok(vv_graph_status(graph));
    /* Linear(2,3) given 3 features: the sentence says where. */
    assert_null(vv_module_forward(root, graph, vv_data(graph, VV_F32, 2, shape, data)));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    vv_graph_free(graph);
    vv_module_free(root);
}

/* ---- memory ---- */

static vv_status make_tree(void *ctx)
{
    vv_module *root = NULL, *part = NULL;
    vv_status status = VV_OK;

    (void)ctx;
    VV_GO(vv_sequential_new(&root));
    for (int i = 0; i < 6; i++) {
        status = vv_conv2d_new(&part, 2, 4, 3, NULL, true);
        VV_GO(vv_sequential_push(root, status, part));
        VV_GO(vv_batch_norm_new(&part, 4, 1e-5, 0.1));
        VV_GO(vv_sequential_push(root, VV_OK, part));
    }
    VV_GO(vv_embedding_new(&part, 3, 2));
    VV_GO(vv_module_add_child(root, "embedding", part));
    VV_GO(vv_group_norm_new(&part, 2, 4, 1e-5));
    VV_GO(vv_module_set_child(root, 0, part));
out:
    vv_module_free(root);
    return status;
}

static void nothing_leaks_when_allocations_fail(void **state)
{
    (void)state;
    survives_each_failure(make_tree, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_order_of_addition),
        cmocka_unit_test(tied_parameters_and_buffers_are_met_once),
        cmocka_unit_test(traversals_nest_and_stop),
        cmocka_unit_test(paths_find_modules),
        cmocka_unit_test(bad_names_are_refused),
        cmocka_unit_test(cycles_are_refused),
        cmocka_unit_test(children_can_be_exchanged),
        cmocka_unit_test(parameters_have_ids_that_never_repeat),
        cmocka_unit_test(training_and_frozen_reach_the_whole_tree),
        cmocka_unit_test(loading_checks_before_it_changes),
        cmocka_unit_test(null_passes_through_and_scopes_name_errors),
        cmocka_unit_test(nothing_leaks_when_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
