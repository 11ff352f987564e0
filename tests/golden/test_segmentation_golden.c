/* test_segmentation_golden.c - what must hold: U-Net and DeepLabv3 (heads plus, plain and
 * torchvision) give PyTorch's logits in evaluation, and its loss and every gradient in training, by
 * weights and names that both sides share (make_segmentation.py). */
#include "vv_test.h"

#include <vivace/deeplabv3.h>
#include <vivace/resnet.h>
#include <vivace/unet.h>

#include "golden/segmentation_golden.h"

enum { CLASSES = 5, MOST = 512 };

/* Numbers in [-0.5, 0.5): FNV-1a of the name, then a hash of hash and index. */
static uint32_t hash_name(const char *prefix, const char *name)
{
    uint32_t h = 2166136261u;

    for (const char *s = prefix; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    for (const char *s = name; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    return h;
}

static double draw(uint32_t h, int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ h;

    x *= 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    return (double)(x >> 8) / 16777216.0 - 0.5;
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t a = strlen(name), b = strlen(ending);

    return a >= b && strcmp(name + a - b, ending) == 0;
}

static bool fill(void *ctx, const char *name, vv_tensor *t)
{
    const uint32_t h = hash_name("", name);
    double fan = 1.0, scale = 0.2, shift = 0.0;

    (void)ctx;
    for (int i = 1; i < t->ndim; i++)
        fan *= (double)t->shape[i];
    if (t->ndim >= 2)
        scale = 4.0 / sqrt(fan);
    else if (ends_with(name, "bn3.weight"))
        shift = 0.2;
    else if (ends_with(name, "weight"))
        shift = 1.0;
    else if (ends_with(name, "running_var"))
        scale = 0.5, shift = 1.0;
    for (int64_t i = 0; i < t->count; i++)
        vv_tensor_set(t, i, shift + scale * draw(h, i));
    return true;
}

typedef struct params {
    vv_param *list[MOST];
    char names[MOST][96];
    int count;
} params;

static bool take(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    params *p = ctx;

    (void)owner;
    assert_true(p->count < MOST);
    snprintf(p->names[p->count], sizeof p->names[0], "%s", path);
    p->list[p->count++] = param;
    return true;
}

/* Takes the net. */
static void compare(vv_module *net, int64_t height, int64_t width, const double *logits,
                    size_t logit_count, double loss, double error, const net_grad *grads,
                    size_t grad_count)
{
    const double room = 1e-3 + 2.0 * error; /* PyTorch's own in single precision */
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {2, height, width, 3};
    params *p = calloc(1, sizeof *p);
    vv_node *leaves[MOST], *outs[MOST + 1];
    vv_model *model = NULL;
    vv_graph *graph = NULL;
    vv_tensor *x = NULL, *y = NULL;
    const vv_tensor *value = NULL;
    double got;

    assert_non_null(p);
    assert_ok(vv_segmenter_build(&model, net, CLASSES, 1));
    vv_module_each_state(net, fill, NULL);
    vv_module_each_param(net, take, p);
    assert_int_equal(p->count, grad_count);
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    assert_ok(vv_tensor_new(&y, VV_I32, 3, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, 2.0 * draw(hash_name("", "input"), i));
    for (int64_t i = 0; i < y->count; i++)
        vv_tensor_set(y, i, (double)(i * 7 % (CLASSES + 1) - 1));
    assert_ok(vv_graph_new(&graph, &opts));

    vv_module_set_training(net, false);
    vv_node *out = vv_module_forward(net, graph, vv_leaf(graph, x));
    assert_ok(vv_node_value(out, &value));
    assert_int_equal(value->ndim, 4);
    assert_int_equal(value->count, 2 * height * width * CLASSES);
    for (size_t i = 0; i < logit_count; i++) {
        const int64_t at = (int64_t)((double)(value->count - 1) * (double)i /
                                     (double)(logit_count - 1));
        assert_near(vv_tensor_get(value, at), logits[i], 2e-4, 1e-3);
    }

    vv_graph_reset(graph);
    vv_module_set_training(net, true);
    out = vv_module_forward(net, graph, vv_leaf(graph, x));
    vv_node *sum = vv_sum_all(vv_model_loss(model, out, vv_leaf(graph, y)));
    vv_node *mean = vv_div(sum, vv_scalar(graph, (double)vv_model_loss_items(model, y)));
    for (int i = 0; i < p->count; i++)
        leaves[i] = vv_leaf(graph, p->list[i]->value);
    assert_ok(vv_grad(graph, mean, leaves, p->count, outs));
    outs[p->count] = mean;
    assert_ok(vv_eval(graph, outs, p->count + 1));
    assert_ok(vv_node_item(mean, &got));
    assert_near(got, loss, 0.0, 1e-4);
    for (int i = 0; i < p->count; i++) {
        const uint32_t h = hash_name("grad/", p->names[i]);
        const net_grad *want = grads;
        double square = 0.0, product = 0.0;

        while (want < grads + grad_count && strcmp(want->name, p->names[i]) != 0)
            want++;
        if (want == grads + grad_count)
            fail_msg("PyTorch's net has no %s", p->names[i]);
        assert_ok(vv_node_value(outs[i], &value));
        for (int64_t k = 0; k < value->count; k++) {
            const double g = vv_tensor_get(value, k);

            square += g * g;
            product += g * draw(h, k);
        }
        if (fabs(sqrt(square) - want->length) > room * want->length + 1e-7 ||
            fabs(product - want->product) > room * want->length + 1e-7)
            fail_msg("gradient of %s: length %g, product %g; PyTorch's %g, %g", p->names[i],
                     sqrt(square), product, want->length, want->product);
    }
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_tensor_free(y);
    vv_model_free(model);
    free(p);
}

#define COMPARE(net, height, width, label)                                                     \
    compare(net, height, width, label##_logits, sizeof label##_logits / sizeof(double),        \
            label##_loss, label##_error, label##_grads, sizeof label##_grads / sizeof(net_grad))

static void unet(void **state)
{
    (void)state;
    const vv_unet_opts opts = {4, 16, 4};
    vv_module *net = NULL;

    assert_ok(vv_unet_new(&net, 3, CLASSES, &opts));
    COMPARE(net, 20, 27, unet);
}

static void deeplab_plus(void **state)
{
    (void)state;
    const vv_deeplabv3_opts opts = {VV_RESNET_50, VV_DEEPLAB_PLUS, 4, 32, 8, 0.0};
    vv_module *net = NULL;

    assert_ok(vv_deeplabv3_new(&net, 3, CLASSES, &opts));
    COMPARE(net, 41, 36, plus);
}

static void deeplab_plain(void **state)
{
    (void)state;
    const vv_deeplabv3_opts opts = {VV_RESNET_18, VV_DEEPLAB_PLAIN, 8, 16, 8, 0.0};
    vv_module *net = NULL;

    assert_ok(vv_deeplabv3_new(&net, 3, CLASSES, &opts));
    COMPARE(net, 41, 36, plain);
}

static void deeplab_torchvision(void **state)
{
    (void)state;
    const vv_deeplabv3_opts opts = {VV_RESNET_50, VV_DEEPLAB_TORCHVISION, 64, 256, 8, 0.0};
    vv_module *net = NULL, *dropout;

    assert_ok(vv_deeplabv3_new(&net, 3, CLASSES, &opts));
    dropout = vv_module_find(net, "classifier.0.project.3");
    assert_non_null(dropout);
    *(double *)vv_module_self(dropout) = 0.0;
    COMPARE(net, 33, 40, torchvision);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unet),
        cmocka_unit_test(deeplab_plus),
        cmocka_unit_test(deeplab_plain),
        cmocka_unit_test(deeplab_torchvision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
