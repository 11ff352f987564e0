/* test_ssd.c - what must hold of SSD: 8732 default boxes for 300 pixels, as published; an output
 * of the described shape; numbers, losses and gradients of PyTorch (ssd_golden.safetensors, made by
 * make_ssd.py); other sizes get default boxes of their own; weights of torchvision's ResNet load
 * into the backbone; what cannot be built says why. */
#include "model_test.h"

#include <unistd.h>

#include <vivace/resnet.h>
#include <vivace/safetensors.h>

#include "ssd.h"

#define GOLDEN VV_SOURCE_ROOT "/models/ssd/ssd_golden.safetensors"

static vv_sample_spec boxes_spec(int64_t side, int64_t classes)
{
    vv_sample_spec spec = image_spec(side, side, 3, classes);
    spec.target_dtype = VV_F32;
    spec.target_ndim = 2;
    spec.target_shape[0] = 5;
    spec.target_shape[1] = VV_TARGET_COLUMNS;
    return spec;
}

static void default_boxes_of_300(void **state)
{
    (void)state;
    static const int64_t sides[6][2] = {{38, 38}, {19, 19}, {10, 10}, {5, 5}, {3, 3}, {1, 1}};
    static const int64_t size[2] = {300, 300};
    static float boxes[8732][4];
    assert_int_equal(vv_ssd_boxes(NULL, size, 6, sides), 8732);
    assert_int_equal(vv_ssd_boxes(&boxes[0][0], size, 6, sides), 8732);
    /* The first cell: 21, sqrt(21 * 45), 21 sqrt 2 wide, 21 sqrt 2 high. */
    const double first[4][2] = {{21, 21},
                                {sqrt(21.0 * 45), sqrt(21.0 * 45)},
                                {21 * sqrt(2.0), 21 / sqrt(2.0)},
                                {21 / sqrt(2.0), 21 * sqrt(2.0)}};
    for (int k = 0; k < 4; k++) {
        assert_near((double)boxes[k][0], 4.0 / 300, 1e-7, 0);
        assert_near((double)boxes[k][1], 4.0 / 300, 1e-7, 0);
        assert_near((double)boxes[k][2], first[k][0] / 300, 1e-7, 0);
        assert_near((double)boxes[k][3], first[k][1] / 300, 1e-7, 0);
    }
    /* x moves first; the 19x19 map begins behind 38 * 38 * 4 boxes and has six a cell. */
    assert_near((double)boxes[4][0], 12.0 / 300, 1e-7, 0);
    assert_near((double)boxes[4][1], 4.0 / 300, 1e-7, 0);
    float(*second)[4] = &boxes[38 * 38 * 4];
    assert_near((double)second[0][2], 45.0 / 300, 1e-7, 0);
    assert_near((double)second[1][2], sqrt(45.0 * 99) / 300, 1e-6, 0);
    assert_near((double)second[4][2], 45 * sqrt(3.0) / 300, 1e-6, 0);
    assert_near((double)second[6 * 19 + 6][1], 24.0 / 300, 1e-6, 0);
    assert_near((double)second[6 * 19 + 6][0], 24.0 / 300, 1e-6, 0);
    /* The last: one cell; 261 and what exceeds the image is cut. */
    assert_near((double)boxes[8728][2], 261.0 / 300, 1e-6, 0);
    assert_near((double)boxes[8729][2], sqrt(261.0 * 315) / 300, 1e-6, 0);
    assert_near((double)boxes[8730][2], 1.0, 0, 0);
    assert_near((double)boxes[8731][3], 1.0, 0, 0);
    for (int i = 0; i < 8732; i++)
        for (int k = 0; k < 4; k++)
            assert_true(boxes[i][k] >= 0.0f && boxes[i][k] <= 1.0f);
}

/* The full model, planned without running it. */
static void shape_of_ssd300(void **state)
{
    (void)state;
    const vv_sample_spec spec = boxes_spec(300, 81);
    const int64_t shape[4] = {2, 300, 300, 3};
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_model *model = model_make(&vv_model_ssd, NULL, &spec);
    vv_graph *graph;
    int64_t size[2];
    assert_ok(vv_graph_new(&graph, &opts));
    vv_node *y = vv_module_forward(model->net, graph, vv_zeros(graph, VV_F32, 4, shape));
    assert_ok(vv_graph_status(graph));
    assert_int_equal(vv_node_shape(y)[0], 2);
    assert_int_equal(vv_node_shape(y)[1], 8732);
    assert_int_equal(vv_node_shape(y)[2], 85);
    const vv_detector *detector = vv_module_detector(model->net);
    assert_non_null(detector->priors(model->net, 8732, size));
    assert_int_equal(size[0], 300);
    assert_null(detector->priors(model->net, 8731, NULL));
    assert_int_equal(model->task, VV_TASK_DETECT);
    net_has_names(model->net, "conv1.weight bn1.bias layer1.0.conv1.weight layer3.5.bn2.weight "
                              "layer3.0.downsample.0.weight extra.0.0.weight extra.4.2.bias "
                              "loc.0.weight conf.5.bias");
    assert_null(vv_module_find(model->net, "layer4"));
    assert_int_equal(vv_module_param_count(model->net), 19972534);
    vv_graph_free(graph);
    vv_model_free(model);
}

/* ---- numbers of PyTorch ---- */

/* Number i of `name`, in [-0.5, 0.5); as in make_ssd.py. */
static double draw(const char *name, uint64_t i)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    uint32_t x = (uint32_t)(i * 2654435761u) ^ hash;
    x *= 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    return (double)(x >> 8) / 16777216.0 - 0.5;
}

static bool fill_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)ctx;
    (void)owner;
    vv_tensor *t = param->value;
    const size_t length = strlen(path);
    const bool gamma = t->ndim == 1 && strcmp(path + length - 6, "weight") == 0;
    for (int64_t i = 0; i < t->count; i++) {
        const double u = draw(path, (uint64_t)i);
        vv_tensor_set(t, i, t->ndim > 1 ? u * (4.0 / sqrt((double)(t->count / t->shape[0])))
                            : gamma     ? 1.0 + 0.2 * u
                                        : 0.2 * u);
    }
    return true;
}

static bool add_state(void *ctx, const char *name, vv_tensor *tensor)
{
    assert_ok(vv_safetensors_add(ctx, name, tensor));
    return true;
}

static const vv_tensor *golden(const vv_safetensors *file, const char *name)
{
    const vv_tensor *t = vv_safetensors_find(file, name);
    if (!t)
        fail_msg("no %s in " GOLDEN, name);
    return t;
}

/* |a - b| within tol of the golden tensor's largest magnitude. */
static void check_equal(const char *what, const vv_tensor *have, int64_t stride,
                        const vv_tensor *want, double tol)
{
    double largest = 1e-12;
    assert_int_equal((have->count + stride - 1) / stride, want->count);
    for (int64_t i = 0; i < want->count; i++)
        largest = fmax(largest, fabs(vv_tensor_get(want, i)));
    for (int64_t i = 0; i < want->count; i++) {
        const double a = vv_tensor_get(have, i * stride), b = vv_tensor_get(want, i);
        if (!(fabs(a - b) <= tol * largest))
            fail_msg("%s[%lld] = %.9g, PyTorch has %.9g (largest %.9g)", what, (long long)i, a, b,
                     largest);
    }
}

typedef struct golden_run {
    vv_safetensors *file;
    vv_model *model;
    vv_graph *graph;
    vv_tensor *images, *target;
    model_names names;
    vv_node *outs[MODEL_TEST_MAX_PARAMS + 2]; /* gradients, losses, output */
} golden_run;

static golden_run *golden_new(void)
{
    const vv_sample_spec spec = boxes_spec(96, 4);
    const int64_t shape[4] = {3, 96, 96, 3};
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    golden_run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_ok(vv_safetensors_open(&r->file, GOLDEN));
    r->model = model_make(&vv_model_ssd, "backbone=resnet18,width=4,levels=4", &spec);
    vv_module_each_param(r->model->net, fill_param, NULL);
    vv_module_each_param(r->model->net, model_take_param, &r->names);
    assert_ok(vv_tensor_new(&r->images, VV_F32, 4, shape));
    for (int64_t i = 0; i < r->images->count; i++)
        vv_tensor_set(r->images, i, draw("images", (uint64_t)i));
    const vv_tensor *target = golden(r->file, "target");
    assert_ok(vv_tensor_from(&r->target, VV_F32, 3, target->shape, target->data));
    assert_ok(vv_graph_new(&r->graph, &opts));
    return r;
}

static void golden_free(golden_run *r)
{
    vv_graph_free(r->graph);
    vv_tensor_free(r->images);
    vv_tensor_free(r->target);
    vv_model_free(r->model);
    vv_safetensors_close(r->file);
    free(r);
}

/* Output and losses of images first..first + count, and gradients of their sum / 3. */
static void golden_eval(golden_run *r, int64_t first, int64_t count)
{
    vv_node *leaves[MODEL_TEST_MAX_PARAMS];
    vv_tensor *images, *target;
    const int n = r->names.count;
    assert_ok(vv_tensor_rows(&images, r->images, first, count));
    assert_ok(vv_tensor_rows(&target, r->target, first, count));
    vv_graph_reset(r->graph);
    r->outs[n + 1] = vv_module_forward(r->model->net, r->graph, vv_leaf(r->graph, images));
    r->outs[n] = vv_model_loss(r->model, r->outs[n + 1], vv_leaf(r->graph, target));
    vv_node *loss = vv_affine(vv_sum_all(r->outs[n]), 1.0 / 3, 0.0);
    assert_ok(vv_graph_status(r->graph));
    for (int i = 0; i < n; i++)
        leaves[i] = vv_leaf(r->graph, r->names.params[i]->value);
    assert_ok(vv_grad(r->graph, loss, leaves, n, r->outs));
    assert_ok(vv_eval(r->graph, r->outs, n + 2));
    vv_tensor_free(images);
    vv_tensor_free(target);
}

static void numbers_of_pytorch(void **state)
{
    (void)state;
    golden_run *r = golden_new();
    const int n = r->names.count;
    const char *name = r->names.text;
    const vv_tensor *value;
    golden_eval(r, 0, 3);
    assert_ok(vv_node_value(r->outs[n], &value));
    check_equal("items", value, 1, golden(r->file, "items"), 1e-5);
    assert_near(vv_tensor_get(value, 2), 0.0, 0, 0); /* no boxes: no loss */
    for (int i = 0; i < n; i++) {
        char key[128];
        snprintf(key, sizeof key, "grads/%.*s", (int)strcspn(name, " "), name);
        name += strcspn(name, " ") + 1;
        assert_ok(vv_node_value(r->outs[i], &value));
        check_equal(key, value, value->count / 500 > 1 ? value->count / 500 : 1,
                    golden(r->file, key), 1e-4);
    }
    const vv_tensor *output = golden(r->file, "output");
    vv_tensor *first;
    assert_ok(vv_node_keep(r->outs[n + 1], &first));
    vv_tensor *row;
    assert_ok(vv_tensor_rows(&row, first, 0, 1));
    check_equal("output", row, 1, output, 1e-5);
    vv_tensor_free(row);
    vv_tensor_free(first);
    golden_free(r);
}

static void matches_and_finds_as_pytorch(void **state)
{
    (void)state;
    golden_run *r = golden_new();
    const vv_tensor *priors = golden(r->file, "priors"), *stands = golden(r->file, "stands");
    const vv_tensor *found = golden(r->file, "found");
    static const int64_t sides[4][2] = {{12, 12}, {6, 6}, {3, 3}, {2, 2}}, size[2] = {96, 96};
    static float boxes[844][4];
    int32_t match[844];
    vv_detection *list;
    int64_t count;
    assert_int_equal(vv_ssd_boxes(&boxes[0][0], size, 4, sides), 844);
    for (int64_t i = 0; i < 844 * 4; i++)
        assert_near((double)boxes[i / 4][i % 4], vv_tensor_get(priors, i), 1e-6, 0);
    for (int64_t n = 0; n < 3; n++) {
        const float *rows = (const float *)r->target->data + n * 5 * 6;
        int64_t row = -1, at = -1; /* PyTorch counts only rows that are boxes */
        assert_ok(vv_boxes_match(match, &boxes[0][0], 844, rows, 5, 0.5));
        for (int64_t i = 0; i < 844; i++) {
            const int64_t want = (int64_t)vv_tensor_get(stands, n * 844 + i);
            for (row = at = -1; want > at;)
                at += rows[++row * 6 + 4] > 0.0f && rows[row * 6 + 5] == 0.0f;
            assert_int_equal(match[i], row);
        }
    }
    const vv_tensor *output = golden(r->file, "output");
    assert_ok(vv_detect(&list, &count, output->data, priors->data, 844, 4, NULL));
    assert_int_equal(count, found->shape[0]);
    for (int64_t i = 0; i < count; i++) {
        assert_near((double)list[i].score, vv_tensor_get(found, i * 6 + 4), 1e-6, 1e-5);
        assert_int_equal(list[i].label, (int)vv_tensor_get(found, i * 6 + 5));
        for (int k = 0; k < 4; k++)
            assert_near((double)list[i].box[k], vv_tensor_get(found, i * 6 + k), 1e-5, 0);
    }
    vv_dealloc(list);
    golden_free(r);
}

/* With statistics that do not depend on the batch, images one by one give the same losses and, in
   sum, the same gradients. */
static void microbatches_change_nothing(void **state)
{
    (void)state;
    golden_run *r = golden_new();
    const int n = r->names.count;
    double whole[3], *sums = calloc((size_t)n, sizeof *sums);
    const vv_tensor *value;
    assert_non_null(sums);
    vv_module_set_training(r->model->net, false);
    golden_eval(r, 0, 3);
    assert_ok(vv_node_value(r->outs[n], &value));
    for (int i = 0; i < 3; i++)
        whole[i] = vv_tensor_get(value, i);
    for (int i = 0; i < n; i++) {
        assert_ok(vv_node_value(r->outs[i], &value));
        sums[i] = vv_tensor_get(value, value->count / 2);
    }
    for (int part = 0; part < 3; part++) {
        golden_eval(r, part, 1);
        assert_ok(vv_node_value(r->outs[n], &value));
        assert_near(vv_tensor_get(value, 0), whole[part], 0, 1e-5);
        for (int i = 0; i < n; i++) {
            assert_ok(vv_node_value(r->outs[i], &value));
            sums[i] -= vv_tensor_get(value, value->count / 2);
        }
    }
    for (int i = 0; i < n; i++)
        assert_near(sums[i], 0.0, 2e-4, 0);
    free(sums);
    golden_free(r);
}

/* ---- sizes, weights, refusals ---- */

static void other_sizes_have_boxes_of_their_own(void **state)
{
    (void)state;
    const vv_sample_spec spec = boxes_spec(96, 4);
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_model *model = model_make(&vv_model_ssd, "backbone=resnet18,width=4,levels=4", &spec);
    const vv_detector *detector = vv_module_detector(model->net);
    vv_graph *graph;
    int64_t size[2];
    assert_ok(vv_graph_new(&graph, &opts));
    for (int64_t side = 64; side <= 160; side += 8) { /* more sizes than are kept */
        const int64_t shape[4] = {1, side, side + 16, 3};
        vv_graph_reset(graph);
        vv_node *y = vv_module_forward(model->net, graph, vv_zeros(graph, VV_F32, 4, shape));
        assert_ok(vv_graph_status(graph));
        const int64_t count = vv_node_shape(y)[1];
        assert_non_null(detector->priors(model->net, count, size));
        assert_int_equal(size[0], side);
        assert_int_equal(size[1], side + 16);
    }
    vv_graph_free(graph);
    vv_model_free(model);
}

/* A file of a whole ResNet: its last stage and classifier are left out by name, the heads keep
   their own weights. */
static void backbone_weights_load(void **state)
{
    (void)state;
    const vv_sample_spec spec = boxes_spec(96, 4);
    const vv_resnet_trunk_opts trunk = {VV_RESNET_18, 3, 4, 4, {1, 2, 2, 2}, {0}};
    char dir[] = "/tmp/vivace-test-XXXXXX", path[64];
    vv_model *model = model_make(&vv_model_ssd, "backbone=resnet18,width=4,levels=4", &spec);
    vv_module *resnet;
    vv_safetensors_writer *writer;
    vv_safetensors *file;
    int64_t width;
    int loaded;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/resnet.safetensors", dir);
    assert_ok(vv_sequential_new(&resnet));
    assert_ok(vv_resnet_trunk_add(resnet, &trunk, &width));
    assert_int_equal(width, 32);
    vv_module_each_param(resnet, fill_param, NULL);
    assert_ok(vv_safetensors_writer_new(&writer));
    vv_module_each_state(resnet, add_state, writer);
    assert_ok(vv_safetensors_write(writer, path));
    vv_safetensors_writer_free(writer);
    assert_ok(vv_safetensors_open(&file, path));
    const vv_param *head = vv_module_param(vv_module_find(model->net, "loc.0"), "weight");
    const double before = vv_tensor_get(head->value, 7);
    assert_fails(vv_model_load(model, file, true, NULL, NULL, &loaded), VV_ENOTFOUND);
    assert_ok(
        vv_model_load(model, file, true, "layer4.*,fc.*,extra.*,loc.*,conf.*", NULL, &loaded));
    assert_int_equal(loaded, 90);
    const vv_param *conv = vv_module_param(vv_module_find(model->net, "layer3.1.conv2"), "weight");
    assert_near(vv_tensor_get(conv->value, 11),
                draw("layer3.1.conv2.weight", 11) * 4.0 / sqrt(16.0 * 9), 1e-6, 0);
    assert_near(vv_tensor_get(head->value, 7), before, 0, 0);
    vv_safetensors_close(file);
    vv_module_free(resnet);
    vv_model_free(model);
    unlink(path);
    rmdir(dir);
}

static void says_what_cannot_be(void **state)
{
    (void)state;
    vv_sample_spec spec = boxes_spec(96, 4);
    vv_model *model = NULL;
    vv_module *net = NULL;
    spec = boxes_spec(300, 3);
    model_desc_is_sane(&vv_model_ssd, &spec, 97);
    spec = boxes_spec(96, 4);
    assert_fails(vv_model_build(&model, &vv_model_ssd, NULL, &spec, 1), VV_EINVAL);
    assert_says("images of 96x96 give 4 maps, levels asks for 6; set levels to 4");
    spec = image_spec(300, 300, 3, 4);
    assert_fails(vv_model_build(&model, &vv_model_ssd, NULL, &spec, 1), VV_EINVAL);
    assert_says("needs data whose targets are boxes");
    assert_fails(vv_ssd_new(&net, 3, 1, NULL), VV_EINVAL);
    assert_says("the background and one class");
    assert_null(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_boxes_of_300),
        cmocka_unit_test(shape_of_ssd300),
        cmocka_unit_test(numbers_of_pytorch),
        cmocka_unit_test(matches_and_finds_as_pytorch),
        cmocka_unit_test(microbatches_change_nothing),
        cmocka_unit_test(other_sizes_have_boxes_of_their_own),
        cmocka_unit_test(backbone_weights_load),
        cmocka_unit_test(says_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
