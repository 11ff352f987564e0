/* test_step_golden.c - one training step of whole models gives PyTorch's loss and gradients.
 *
 * Weights are loaded by PyTorch's names; then the loss, the gradient of every parameter and the
 * running statistics must be those in the file, on every backend, with and without fusion.
 * Tensors are compared as wholes: |ours - theirs| <= 1e-4 |theirs|.
 *
 * In amp_bf16 and bf16 the step is as exact as PyTorch's bf16 autocast: no tensor more than twice
 * as far from the exact one as PyTorch's, and all together no further than a quarter more. */
#include "vv_test.h"

#include <vivace/model.h>
#include <vivace/optim.h>
#include <vivace/safetensors.h>

#include "golden/autocast_golden.h"
#include "models/mlp/mlp.h"
#include "models/resnet9/resnet9.h"

#define TOLERANCE 1e-4

typedef struct golden {
    vv_safetensors *file;
    const char *group; /* "weight", "grad", "after" */
    int checked;
    const autocast_error *autocast; /* PyTorch's errors in bf16 */
    double log_ratio;               /* sum over tensors of log(ours / theirs) */
} golden;

static const vv_tensor *find(void *ctx, const char *name)
{
    const golden *g = ctx;
    char full[256];
    snprintf(full, sizeof full, "%s/%s", g->group, name);
    return vv_safetensors_find(g->file, full);
}

static void compare(golden *g, const char *name, const vv_tensor *got)
{
    const vv_tensor *want = find(g, name);
    if (!want)
        fail_msg("no %s/%s in the file", g->group, name);
    if (!vv_tensor_same_shape(got, want))
        fail_msg("%s/%s: shapes differ", g->group, name);
    double error = 0.0, size = 0.0;
    for (int64_t i = 0; i < want->count; i++) {
        double w = vv_tensor_get(want, i), d = vv_tensor_get(got, i) - w;
        error += d * d;
        size += w * w;
    }
    if (!(sqrt(error) <= TOLERANCE * sqrt(size)))
        fail_msg("%s/%s: error %.3g of a norm of %.3g", g->group, name, sqrt(error), sqrt(size));
    g->checked++;
}

static bool compare_grad(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)owner;
    compare(ctx, path, param->grad);
    return true;
}

/* A tensor whose error is as small as a single rounding (2^-9 of its norm) has no room to be
   compared. */
static bool compare_half(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    golden *g = ctx;
    (void)owner;
    const vv_tensor *want = find(g, path), *got = param->grad;
    assert_non_null(want);
    double error = 0.0, size = 0.0;
    for (int64_t i = 0; i < want->count; i++) {
        double w = vv_tensor_get(want, i), d = vv_tensor_get(got, i) - w;
        error += d * d;
        size += w * w;
    }
    error = sqrt(error / size);
    const autocast_error *theirs = g->autocast;
    while (theirs->name && strcmp(theirs->name, path) != 0)
        theirs++;
    assert_non_null(theirs->name);
    if (!(error <= 2.0 * theirs->error + 1.0 / 512.0))
        fail_msg("grad/%s: error %.3g, PyTorch's is %.3g", path, error, theirs->error);
    g->log_ratio += log(error / theirs->error);
    g->checked++;
    return true;
}

static bool compare_buffer(void *ctx, const char *path, vv_module *owner, vv_tensor *buffer)
{
    (void)owner;
    compare(ctx, path, buffer);
    return true;
}

#define MAX_PARAMS 64
typedef struct grads {
    vv_graph *graph;
    vv_param *params[MAX_PARAMS];
    vv_node *wrt[MAX_PARAMS], *out[MAX_PARAMS];
    int count;
} grads;

static bool collect(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    grads *g = ctx;
    (void)path, (void)owner;
    assert_true(g->count < MAX_PARAMS);
    g->params[g->count] = param;
    g->wrt[g->count++] = vv_leaf(g->graph, param->value);
    return true;
}

/* Loss and gradients of the file's batch, into the parameters' grad. */
static double step(vv_model *model, vv_graph *graph, const vv_safetensors *file)
{
    vv_tensor *input = NULL, *target = NULL;
    assert_ok(vv_tensor_clone(&input, vv_safetensors_find(file, "input")));
    assert_ok(vv_tensor_clone(&target, vv_safetensors_find(file, "target")));
    assert_ok(vv_grads_ensure(model->net));
    vv_graph_reset(graph);
    vv_node *output = vv_module_forward(model->net, graph, vv_leaf(graph, input));
    vv_node *loss = vv_mean_all(vv_model_loss(model, output, vv_leaf(graph, target)));
    grads g = {.graph = graph};
    vv_module_each_param(model->net, collect, &g);
    assert_ok(vv_graph_status(graph));
    assert_ok(vv_grad(graph, loss, g.wrt, g.count, g.out));
    for (int i = 0; i < g.count; i++)
        assert_ok(vv_bind_output(g.out[i], g.params[i]->grad, VV_BIND_WRITE));
    vv_node *all[MAX_PARAMS + 1] = {loss};
    memcpy(all + 1, g.out, (size_t)g.count * sizeof *all);
    assert_ok(vv_eval(graph, all, g.count + 1));
    double value = 0.0;
    assert_ok(vv_node_item(loss, &value));
    vv_graph_reset(graph);
    vv_tensor_free(input);
    vv_tensor_free(target);
    return value;
}

/* Takes `net`. parts: parameters and buffers that must be compared. */
static void run(const char *name, vv_module *net, int64_t classes, const char *backend, bool fuse,
                int parts)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, name);
    golden g = {.group = "weight"};
    vv_model *model = NULL;
    vv_graph *graph = NULL;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    int loaded = 0;
    opts.backend = vv_backend_find(backend);
    opts.fuse = opts.in_place = fuse;
    assert_ok(vv_classifier_new(&model, net, classes));
    assert_ok(vv_safetensors_open(&g.file, path));
    assert_ok(vv_module_load(model->net, find, &g, true, &loaded));
    assert_int_equal(loaded, parts);
    assert_ok(vv_graph_new(&graph, &opts));
    double loss = step(model, graph, g.file);
    assert_near(loss, vv_tensor_get(vv_safetensors_find(g.file, "loss"), 0), 0, 1e-5);
    g.group = "grad";
    vv_module_each_param(model->net, compare_grad, &g);
    g.group = "after";
    vv_module_each_buffer(model->net, compare_buffer, &g);
    assert_int_equal(g.checked, parts);
    vv_graph_free(graph);
    vv_model_free(model);
    vv_safetensors_close(g.file);
}

/* Takes `net`. */
static void run_half(const char *name, vv_module *net, int64_t classes, const char *backend,
                     vv_precision precision, const autocast_error *autocast, double loss_error)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, name);
    golden g = {.group = "weight", .autocast = autocast};
    vv_model *model = NULL;
    vv_graph *graph = NULL;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    int loaded = 0;
    opts.backend = vv_backend_find(backend);
    opts.precision = precision;
    assert_ok(vv_classifier_new(&model, net, classes));
    assert_ok(vv_safetensors_open(&g.file, path));
    assert_ok(vv_module_load(model->net, find, &g, true, &loaded));
    assert_ok(vv_graph_new(&graph, &opts));
    double exact = vv_tensor_get(vv_safetensors_find(g.file, "loss"), 0);
    assert_near(step(model, graph, g.file), exact, 2.0 * loss_error, 1.0 / 512.0);
    g.group = "grad";
    vv_module_each_param(model->net, compare_half, &g);
    double ratio = exp(g.log_ratio / g.checked);
    print_message("# %s, %s, %s: errors are %.2f of autocast's\n", name, backend,
                  precision == VV_PRECISION_BF16 ? "bf16" : "amp_bf16", ratio);
    assert_true(ratio <= 1.25);
    assert_true(ratio > 0.1); /* it is bf16 */
    vv_graph_free(graph);
    vv_model_free(model);
    vv_safetensors_close(g.file);
}

static const char *const backends[] = {"ref", "cpu"};

static void test_mlp(void **state)
{
    (void)state;
    const vv_mlp_opts opts = {.width = 16, .layers = 2};
    for (int i = 0; i < 4; i++) {
        vv_module *net = NULL;
        if (!vv_backend_find(backends[i / 2])) /* built without it */
            continue;
        assert_ok(vv_mlp_new(&net, 32, 5, &opts));
        run("step_mlp.safetensors", net, 5, backends[i / 2], i % 2, 6);
    }
}

static void test_resnet9(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        vv_module *net = NULL;
        if (!vv_backend_find(backends[i / 2]))
            continue;
        assert_ok(vv_resnet9_new(&net, 3, 10, 8, 1.0));
        run("step_resnet9.safetensors", net, 10, backends[i / 2], i % 2, 26 + 24);
    }
}

static void test_half(void **state)
{
    (void)state;
    const vv_mlp_opts mlp = {.width = 16, .layers = 2};
    for (int i = 0; i < 4; i++) {
        const vv_precision precision = i % 2 ? VV_PRECISION_BF16 : VV_PRECISION_AMP_BF16;
        vv_module *net = NULL;
        if (!vv_backend_find(backends[i / 2]))
            continue;
        assert_ok(vv_mlp_new(&net, 32, 5, &mlp));
        run_half("step_mlp.safetensors", net, 5, backends[i / 2], precision, autocast_mlp,
                 autocast_mlp_loss);
        assert_ok(vv_resnet9_new(&net, 3, 10, 8, 1.0));
        run_half("step_resnet9.safetensors", net, 10, backends[i / 2], precision,
                 autocast_resnet9, autocast_resnet9_loss);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_resnet9),
        cmocka_unit_test(test_half),
    };
    return cmocka_run_group_tests_name("step_golden", tests, NULL, NULL);
}
