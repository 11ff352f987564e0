/* test_model.c - what must hold of a classifier: its loss is cross-entropy of indices and soft
 * targets, ignored items have none and are not counted, class weights scale, and a described model
 * is built from checked options. */
#include "nn_test.h"

#include <vivace/model.h>

static vv_model *classifier(int64_t classes)
{
    vv_model *model = NULL;

    assert_ok(vv_classifier_new(&model, new_identity(), classes));
    return model;
}

static double item(vv_node *losses, int i)
{
    const vv_tensor *tensor = NULL;

    assert_non_null(losses);
    assert_ok(vv_node_value(losses, &tensor));
    return vv_tensor_get(tensor, i);
}

static void the_loss_takes_both_kinds_of_target(void **state)
{
    (void)state;
    const float logits[] = {0, 0, 0, 0, 1, 2};
    const int32_t index[] = {1, -100};
    const float soft[] = {0.5f, 0.5f, 0.0f, 0.0f, 0.0f, 0.0f}, weights[] = {1, 3, 1};
    const double rest = log(1.0 + exp(1.0) + exp(2.0));
    vv_graph *graph = new_graph();
    vv_model *model = classifier(3);
    vv_node *output = vv_data(graph, VV_F32, 2, (int64_t[]){2, 3}, logits), *loss;

    loss = vv_model_loss(model, output, vv_data(graph, VV_I32, 1, (int64_t[]){2}, index));
    assert_near(item(loss, 0), log(3.0), 1e-6, 0.0);
    assert_near(item(loss, 1), 0.0, 0.0, 0.0);
    loss = vv_model_loss(model, output, vv_data(graph, VV_F32, 2, (int64_t[]){2, 3}, soft));
    assert_near(item(loss, 0), log(3.0), 1e-6, 0.0);
    assert_near(item(loss, 1), 0.0, 0.0, 0.0);
    model->ignore_index = -1;
    assert_ok(vv_tensor_from(&model->class_weights, VV_F32, 1, (int64_t[]){3}, weights));
    loss =
        vv_model_loss(model, output, vv_data(graph, VV_I32, 1, (int64_t[]){2}, (int32_t[]){-1, 1}));
    assert_near(item(loss, 0), 0.0, 0.0, 0.0);
    assert_near(item(loss, 1), 3.0 * (rest - 1.0), 1e-5, 0.0);
    assert_null(vv_model_loss(model, NULL, output));
    assert_null(vv_model_loss(model, output, NULL));
    vv_model_free(model);
    vv_graph_free(graph);
}

/* Each class by itself: log(1 + e^x) - t x, summed; the same for an index and its distribution;
   nothing for rows without a class; class weights scale classes. */
static void yes_or_no_for_each_class(void **state)
{
    (void)state;
    const float logits[] = {0.5f, -1.0f, 2.0f, 0.0f, 1.0f, -3.0f};
    const int32_t index[] = {2, -100};
    const float soft[] = {0.25f, 0.0f, 0.75f, 0.0f, 0.0f, 0.0f}, weights[] = {1, 3, 2};
    double want = 0.0, mixed, weighted = 0.0;
    vv_graph *graph = new_graph();
    vv_model *model = classifier(3);
    vv_node *output = vv_data(graph, VV_F32, 2, (int64_t[]){2, 3}, logits), *loss;
    vv_tensor *labels = NULL;
    vv_str note = {0};

    for (int k = 0; k < 3; k++) {
        want += log1p(exp((double)logits[k]));
        weighted += (double)weights[k] * (log1p(exp((double)logits[k])) -
                                          (k == 2 ? (double)logits[k] : 0.0));
    }
    mixed = want - 0.25 * 0.5 - 0.75 * 2.0;
    want -= 2.0;
    assert_fails(vv_model_set_loss(model, "focal"), VV_EINVAL);
    assert_ok(vv_model_set_loss(model, "binary_cross_entropy"));
    assert_ok(vv_model_set_loss(model, "auto"));
    assert_ptr_equal(model->loss, &vv_binary_cross_entropy_class);
    assert_ok(vv_model_loss_note(model, &note)); /* no Linear with as many outputs */
    assert_int_equal(note.length, 0);
    vv_node *target = vv_data(graph, VV_I32, 1, (int64_t[]){2}, index);
    loss = vv_model_loss(model, output, target);
    assert_int_equal(vv_node_ndim(loss), 1);
    assert_near(item(loss, 0), want, 1e-6, 0.0);
    assert_near(item(loss, 1), 0.0, 0.0, 0.0);
    loss = vv_model_loss(model, output, vv_model_dense_target(model, output, target));
    assert_near(item(loss, 0), want, 1e-6, 0.0);
    loss = vv_model_loss(model, output, vv_data(graph, VV_F32, 2, (int64_t[]){2, 3}, soft));
    assert_near(item(loss, 0), mixed, 1e-6, 0.0);
    assert_near(item(loss, 1), 0.0, 0.0, 0.0);
    assert_ok(vv_tensor_from(&labels, VV_I32, 1, (int64_t[]){2}, index));
    assert_int_equal(vv_model_loss_items(model, labels), 1);
    assert_ok(vv_model_check_target(model, labels));
    vv_tensor_free(labels);
    assert_ok(vv_tensor_from(&model->class_weights, VV_F32, 1, (int64_t[]){3}, weights));
    assert_near(item(vv_model_loss(model, output, target), 0), weighted, 1e-5, 0.0);
    model->z_loss = 1e-4;
    assert_null(vv_model_loss(model, output, target));
    assert_fails(vv_graph_status(graph), VV_EINVAL);
    assert_says("z_loss");
    vv_model_free(model);
    vv_graph_free(graph);

    assert_ok(vv_regressor_new(&model, new_identity()));
    assert_fails(vv_model_set_loss(model, "binary_cross_entropy"), VV_EINVAL);
    vv_model_free(model);
    assert_ok(vv_classifier_new(&model, new_linear(4, 100), 100));
    assert_ok(vv_model_set_loss(model, "binary_cross_entropy"));
    assert_ok(vv_module_init(model->net, "kaiming_normal", 1));
    assert_ok(vv_model_loss_note(model, &note));
    assert_non_null(strstr(vv_str_text(&note), "head_bias of -4.61"));
    vv_str_clear(&note);
    assert_ok(vv_module_init(model->net, "linear_log_constant_bias", 1));
    assert_ok(vv_model_loss_note(model, &note));
    assert_int_equal(note.length, 0);
    vv_str_fini(&note);
    vv_model_free(model);
}

/* Also where the index without a loss is a class; the loss stays the same. */
static void targets_become_distributions(void **state)
{
    (void)state;
    const float logits[] = {0, 1, 2, 2, 1, 0, 1, 1, 5};
    const int32_t index[] = {2, 1, -100};
    vv_tensor *labels = NULL;
    vv_graph *graph = new_graph();
    vv_model *model = classifier(3);
    vv_node *output = vv_data(graph, VV_F32, 2, (int64_t[]){3, 3}, logits);
    vv_node *target = vv_data(graph, VV_I32, 1, (int64_t[]){3}, index);

    vv_node *dense = vv_model_dense_target(model, output, target);
    vv_node *hard = vv_model_loss(model, output, target);
    vv_node *soft = vv_model_loss(model, output, dense);

    assert_near(item(dense, 2), 1.0, 0.0, 0.0);
    assert_near(item(dense, 4), 1.0, 0.0, 0.0);
    assert_near(item(dense, 6) + item(dense, 7) + item(dense, 8), 0.0, 0.0, 0.0);
    for (int i = 0; i < 3; i++)
        assert_near(item(soft, i), item(hard, i), 1e-6, 0.0);
    assert_ptr_equal(vv_model_dense_target(model, output, dense), dense);

    assert_ok(vv_tensor_from(&labels, VV_I32, 1, (int64_t[]){3}, index));
    assert_ok(vv_model_check_target(model, labels));
    model->ignore_index = 1;
    dense = vv_model_dense_target(model, output, target);
    assert_near(item(dense, 2), 1.0, 0.0, 0.0);
    assert_near(item(dense, 3) + item(dense, 4) + item(dense, 5), 0.0, 0.0, 0.0);
    assert_fails(vv_model_check_target(model, labels), VV_EINVAL);
    assert_says("row 2 is -100");
    vv_tensor_free(labels);
    assert_null(vv_model_dense_target(model, output, NULL));
    assert_null(vv_model_dense_target(model, NULL, target));
    vv_model_free(model);
    vv_graph_free(graph);
}

static void items_without_a_loss_are_not_counted(void **state)
{
    (void)state;
    const int32_t index[] = {0, -100, 2, -100, 1};
    const int64_t wide[] = {0, -100, 2};
    const float soft[] = {0.5f, 0.5f, 0, 0, 1, 0};
    vv_model *model = classifier(2);
    vv_tensor *target = NULL;

    assert_ok(vv_tensor_from(&target, VV_I32, 1, (int64_t[]){5}, index));
    assert_int_equal(vv_model_loss_items(model, target), 3);
    model->ignore_index = 1;
    assert_int_equal(vv_model_loss_items(model, target), 4);
    vv_tensor_free(target);
    model->ignore_index = -100;
    assert_ok(vv_tensor_from(&target, VV_I64, 1, (int64_t[]){3}, wide));
    assert_int_equal(vv_model_loss_items(model, target), 2);
    vv_tensor_free(target);
    assert_ok(vv_tensor_from(&target, VV_F32, 2, (int64_t[]){3, 2}, soft));
    assert_int_equal(vv_model_loss_items(model, target), 2);
    vv_tensor_free(target);
    vv_model_free(model);
}

/* ---- building ---- */

typedef struct toy_opts {
    int64_t width;
} toy_opts;

static vv_status toy_build(vv_model **out, const void *opts, const vv_sample_spec *input,
                           uint64_t seed)
{
    vv_module *net = NULL;

    VV_TRY(vv_model_need_image("toy", input, 4));
    VV_TRY(vv_linear_new(&net, ((const toy_opts *)opts)->width, input->classes, true));
    return vv_classifier_build(out, net, input->classes, seed);
}

static const vv_field toy_fields[] = {
    {"width", "Width.", VV_FIELD_INT, offsetof(toy_opts, width), "5", 1, 10, NULL},
    {.name = NULL},
};
static const vv_model_desc toy = {
    .desc = {"model", "toy", "A toy.", "", "cv", toy_fields, sizeof(toy_opts)}, .build = toy_build};

static const vv_sample_spec images = {.input_dtype = VV_U8,
                                      .target_dtype = VV_I32,
                                      .input_ndim = 3,
                                      .input_shape = {8, 8, 1},
                                      .classes = 3};

static void models_are_built_from_checked_options(void **state)
{
    (void)state;
    const toy_opts wide = {7}, wrong = {11};
    vv_sample_spec bad = images;
    vv_model *model = NULL;

    assert_ok(vv_model_build(&model, &toy, NULL, &images, 1));
    assert_string_equal(model->name, "toy");
    assert_int_equal(model->classes, 3);
    assert_int_equal(model->task, VV_TASK_CLASSIFY);
    assert_int_equal(model->ignore_index, -100);
    assert_int_equal(vv_module_param_count(model->net), 5 * 3 + 3);
    assert_true(vv_tensor_get(vv_module_param(model->net, "weight")->value, 0) != 0.0);
    vv_model_free(model);
    assert_ok(vv_model_build(&model, &toy, &wide, &images, 1));
    assert_int_equal(vv_module_param_count(model->net), 7 * 3 + 3);
    vv_model_free(model);

    assert_fails(vv_model_build(&model, &toy, &wrong, &images, 1), VV_EINVAL);
    assert_says("toy");
    assert_says("width");
    assert_null(model);
    bad.input_shape[1] = 3;
    assert_fails(vv_model_build(&model, &toy, NULL, &bad, 1), VV_EINVAL);
    assert_says("8x3");
    bad = images;
    bad.classes = 0;
    assert_fails(vv_model_build(&model, &toy, NULL, &bad, 1), VV_EINVAL);
    bad = images;
    bad.input_ndim = 1;
    assert_fails(vv_model_build(&model, &toy, NULL, &bad, 1), VV_EINVAL);
    assert_fails(vv_model_build(&model, NULL, NULL, &images, 1), VV_EINVAL);
    assert_fails(vv_model_build(&model, &toy, NULL, NULL, 1), VV_EINVAL);
    assert_fails(vv_classifier_new(&model, NULL, 3), VV_EINVAL);
    assert_fails(vv_classifier_build(&model, NULL, 3, 0), VV_EINVAL);
    assert_fails(vv_classifier_new(&model, new_identity(), 0), VV_EINVAL);
    assert_null(model);
    vv_model_free(NULL);
}

/* A loss of rows: the squared distance of its two numbers from the target's. */
static vv_node *distance_items(const vv_model *model, vv_node *output, vv_node *target)
{
    const double *scale = model->loss_opts;
    static const int last[] = {1};

    return vv_mul(vv_sum(vv_squared_error(output, target), last, 1, false),
                  vv_scalar(vv_node_graph(output), *scale));
}

static int64_t distance_count(const vv_model *model, const vv_tensor *target)
{
    (void)model;
    return target->shape[0];
}

static vv_status distance_check(const vv_model *model, const vv_tensor *target)
{
    (void)model;
    return vv_tensor_get(target, 0) < 0.0 ? vv_fail(VV_EINVAL, "distance: negative") : VV_OK;
}

static const vv_loss_class distance = {"distance", distance_items, distance_count, distance_check,
                                       true};

/* It takes the place of the task's loss, its count and its check; boxes have no loss without. */
static void a_model_may_have_a_loss_of_its_own(void **state)
{
    (void)state;
    const float output_values[] = {0, 0, 1, 2}, target_values[] = {1, 2, 1, 0};
    double *scale = NULL;
    vv_tensor *numbers = NULL;
    vv_graph *graph = new_graph();
    vv_model *model = classifier(2);
    vv_node *output = vv_data(graph, VV_F32, 2, (int64_t[]){2, 2}, output_values);
    vv_node *target = vv_data(graph, VV_F32, 2, (int64_t[]){2, 2}, target_values);

    assert_ok(vv_tensor_from(&numbers, VV_F32, 2, (int64_t[]){2, 2}, target_values));
    assert_ok(vv_alloc(&scale, sizeof *scale));
    *scale = 3.0;
    model->loss = &distance;
    model->loss_opts = scale;
    vv_node *items = vv_model_loss(model, output, target);
    assert_near(item(items, 0), 15.0, 1e-6, 0.0);
    assert_near(item(items, 1), 12.0, 1e-6, 0.0);
    assert_int_equal(vv_model_loss_items(model, numbers), 2);
    assert_ok(vv_model_check_target(model, numbers));
    vv_tensor_set(numbers, 0, -1.0);
    assert_fails(vv_model_check_target(model, numbers), VV_EINVAL);
    assert_null(vv_model_dense_target(model, output, target));
    assert_fails(vv_graph_status(graph), VV_EINVAL);
    assert_says("distance");
    vv_graph_reset(graph);
    model->loss = NULL;
    model->task = VV_TASK_DETECT;
    output = vv_data(graph, VV_F32, 2, (int64_t[]){2, 2}, output_values);
    assert_null(vv_model_loss(model, output, output));
    assert_fails(vv_graph_status(graph), VV_EINVAL);
    assert_says("boxes");
    assert_int_equal(vv_model_loss_items(model, numbers), 2);
    assert_ok(vv_model_check_target(model, numbers));
    vv_tensor_free(numbers);
    vv_model_free(model);
    vv_graph_free(graph);
}

static vv_status build_and_free(void *ctx)
{
    vv_model *model = NULL;
    vv_status status = vv_model_build(&model, &toy, ctx, &images, 1);

    vv_model_free(model);
    return status;
}

static void nothing_leaks_when_allocations_fail(void **state)
{
    (void)state;
    survives_each_failure(build_and_free, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_takes_both_kinds_of_target),
        cmocka_unit_test(yes_or_no_for_each_class),
        cmocka_unit_test(targets_become_distributions),
        cmocka_unit_test(items_without_a_loss_are_not_counted),
        cmocka_unit_test(models_are_built_from_checked_options),
        cmocka_unit_test(a_model_may_have_a_loss_of_its_own),
        cmocka_unit_test(nothing_leaks_when_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
