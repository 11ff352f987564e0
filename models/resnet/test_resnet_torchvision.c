/* test_resnet_torchvision.c - weights of torchvision's ResNet-18 and ResNet-50, in a safetensors
 * file under its names, load strictly, none missing and none too many, and give its logits (made by
 * make_torchvision.py with torchvision's own networks). */
#include "model_test.h"

#include <unistd.h>

#include <vivace/safetensors.h>

#include "resnet.h"
#include "torchvision_golden.h"

/* Number i of `name`, in [-0.5, 0.5); as in make_torchvision.py. */
static double draw(uint32_t hash, uint64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761u) ^ hash;
    x *= 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    return (double)(x >> 8) / 16777216.0 - 0.5;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static vv_tensor *make_tensor(const tv_tensor *t)
{
    vv_tensor *tensor;
    const uint32_t hash = hash_of(t->name);
    assert_ok(vv_tensor_new(&tensor, VV_F32, t->ndim, t->shape));
    const double fan_in = t->ndim >= 2 ? (double)(tensor->count / t->shape[0]) : 1.0;
    for (int64_t i = 0; i < tensor->count; i++) {
        double u = draw(hash, (uint64_t)i);
        ((float *)tensor->data)[i] = (float)(t->ndim >= 2 ? u * (4.0 / sqrt(fan_in))
                                             : ends_with(t->name, "weight")      ? 1.0 + 0.2 * u
                                             : ends_with(t->name, "running_var") ? 1.0 + 0.5 * u
                                                                                 : 0.2 * u);
    }
    return tensor;
}

static void write_weights(const char *path, const tv_tensor *list, int count)
{
    vv_safetensors_writer *writer;
    vv_tensor *tensor;
    const int64_t batches = 12;
    assert_ok(vv_safetensors_writer_new(&writer));
    for (int i = 0; i < count; i++) {
        tensor = make_tensor(&list[i]);
        assert_ok(vv_safetensors_add(writer, list[i].name, tensor));
        vv_tensor_free(tensor);
    }
    assert_ok(vv_tensor_from(&tensor, VV_I64, 0, NULL, &batches));
    assert_ok(vv_safetensors_add(writer, "bn1.num_batches_tracked", tensor));
    vv_tensor_free(tensor);
    assert_ok(vv_safetensors_write(writer, path));
    vv_safetensors_writer_free(writer);
}

static void check_logits(vv_module *net, const double *expected)
{
    const int64_t shape[] = {1, 64, 64, 3};
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_tensor *image;
    vv_graph *graph;
    const vv_tensor *logits;
    assert_ok(vv_tensor_new(&image, VV_F32, 4, shape));
    for (int64_t i = 0; i < image->count; i++)
        ((float *)image->data)[i] = (float)draw(hash_of("input"), (uint64_t)i);
    assert_ok(vv_graph_new(&graph, &opts));
    vv_module_set_training(net, false);
    vv_node *y = vv_module_forward(net, graph, vv_leaf(graph, image));
    assert_ok(vv_graph_status(graph));
    assert_ok(vv_node_value(y, &logits));
    assert_int_equal(logits->count, 10);
    for (int64_t i = 0; i < 10; i++)
        assert_near(vv_tensor_get(logits, i), expected[i], 2e-3, 1e-3);
    vv_graph_free(graph);
    vv_tensor_free(image);
}

static void check_net(vv_resnet_depth depth, const tv_tensor *list, int count,
                      const double *expected)
{
    const vv_resnet_opts opts = {depth, VV_RESNET_STEM_IMAGENET, 1, 64};
    char dir[] = "/tmp/vivace-test-XXXXXX", path[64];
    vv_module *net;
    vv_model *model;
    vv_safetensors *file;
    int loaded;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/tv.safetensors", dir);
    write_weights(path, list, count);
    assert_ok(vv_resnet_new(&net, 3, 10, &opts));
    assert_ok(vv_classifier_new(&model, net, 10));
    assert_ok(vv_safetensors_open(&file, path));
    assert_ok(vv_model_load(model, file, true, NULL, NULL, &loaded));
    assert_int_equal(loaded, count + 1);
    vv_safetensors_close(file);
    check_logits(net, expected);
    vv_model_free(model);
    unlink(path);
    rmdir(dir);
}

static void resnet18(void **state)
{
    (void)state;
    check_net(VV_RESNET_18, tv_resnet18, sizeof tv_resnet18 / sizeof tv_resnet18[0], tv_logits18);
}

static void resnet50(void **state)
{
    (void)state;
    check_net(VV_RESNET_50, tv_resnet50, sizeof tv_resnet50 / sizeof tv_resnet50[0], tv_logits50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(resnet18), cmocka_unit_test(resnet50)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
