/* language_test.h - what the tests of language models check alike: training, causality, and the
 * numbers of another implementation in a file. */
#ifndef LANGUAGE_TEST_H
#define LANGUAGE_TEST_H

#include "model_test.h"

#include <unistd.h>

#include <vivace/export.h>
#include <vivace/optim.h>
#include <vivace/safetensors.h>

/* Rows of `length` tokens with a target for each. */
static inline vv_sample_spec token_spec(int64_t length, int64_t vocabulary)
{
    vv_sample_spec spec = {.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1,
                           .target_ndim = 1, .classes = vocabulary, .tokens = length};

    spec.input_shape[0] = spec.target_shape[0] = length;
    return spec;
}

static inline vv_tensor *random_tokens(int64_t rows, int64_t length, int64_t vocabulary,
                                       uint64_t seed)
{
    const int64_t shape[] = {rows, length};
    vv_tensor *tokens = NULL;
    vv_rng rng = vv_rng_at(seed, "language_test", 0);

    assert_ok(vv_tensor_new(&tokens, VV_I32, 2, shape));
    for (int64_t i = 0; i < tokens->count; i++)
        vv_tensor_set(tokens, i, (double)vv_rng_below(&rng, vocabulary));
    return tokens;
}

static inline vv_graph *language_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph = NULL;

    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

/* Output for `tokens`, in the net's mode; a tensor of the caller's. */
static inline vv_tensor *language_output(vv_module *net, vv_tensor *tokens)
{
    vv_graph *graph = language_graph();
    vv_tensor *out = NULL;
    vv_node *y = vv_module_forward(net, graph, vv_leaf(graph, tokens));

    assert_ok(vv_graph_status(graph));
    assert_ok(vv_node_keep(y, &out));
    vv_graph_free(graph);
    return out;
}

/* The mean loss over the targets that count, with every gradient in param->grad. */
static inline double language_step(vv_model *model, vv_tensor *tokens, vv_tensor *targets)
{
    vv_graph *graph = language_graph();
    model_names *names = calloc(1, sizeof *names);
    vv_node *leaves[MODEL_TEST_MAX_PARAMS], *outs[MODEL_TEST_MAX_PARAMS + 1];
    double loss;

    assert_non_null(names);
    vv_module_each_param(model->net, model_take_param, names);
    assert_ok(vv_grads_ensure(model->net));

    vv_node *output = vv_module_forward(model->net, graph, vv_leaf(graph, tokens));
    vv_node *sum = vv_sum_all(vv_model_loss(model, output, vv_leaf(graph, targets)));
    vv_node *mean = vv_affine(sum, 1.0 / (double)vv_model_loss_items(model, targets), 0.0);

    assert_ok(vv_graph_status(graph));
    for (int i = 0; i < names->count; i++)
        leaves[i] = vv_leaf(graph, names->params[i]->value);
    assert_ok(vv_grad(graph, mean, leaves, names->count, outs));
    for (int i = 0; i < names->count; i++)
        assert_ok(vv_bind_output(outs[i], names->params[i]->grad, VV_BIND_WRITE));
    outs[names->count] = mean;
    assert_ok(vv_eval(graph, outs, names->count + 1));
    assert_ok(vv_node_item(mean, &loss));
    vv_graph_free(graph);
    free(names);
    return loss;
}

/* 30 steps of AdamW on a few rows bring the loss from about ln(vocabulary) to below `end` of it;
   after the first, every gradient is finite and none zero altogether but those of the parameters
   whose names end with one of `still` (spaces between). */
static inline void language_trains(vv_model *model, const vv_sample_spec *spec, double lr,
                                   double end, const char *still)
{
    vv_tensor *tokens = random_tokens(4, spec->input_shape[0], spec->classes, 1);
    vv_tensor *targets = random_tokens(4, spec->input_shape[0], spec->classes, 2);
    vv_adam_opts opts;
    vv_optimizer *optimizer = NULL;
    const vv_optimizer_desc *desc = vv_optimizer_find("adamw");
    model_names *names = calloc(1, sizeof *names);
    double first = 0.0, loss = 0.0;

    assert_non_null(names);
    vv_module_each_param(model->net, model_take_param, names);
    assert_ok(vv_opts_init(&desc->desc, &opts));
    opts.lr = lr;
    opts.weight_decay = 0.0;
    assert_ok(vv_optimizer_new(&optimizer, desc, &opts, model->net));
    for (int step = 0; step < 30; step++) {
        loss = language_step(model, tokens, targets);
        if (step == 0) {
            const char *at = names->text;

            first = loss;
            for (int i = 0; i < names->count; i++) {
                const size_t length = strcspn(at, " ");
                double size = 0.0;
                bool quiet = false;

                for (const char *s = still; *s; s += strcspn(s, " "), s += strspn(s, " ")) {
                    const size_t n = strcspn(s, " ");
                    quiet = quiet || (length >= n && !memcmp(at + length - n, s, n));
                }
                for (int64_t k = 0; k < names->params[i]->grad->count; k++)
                    size += fabs(vv_tensor_get(names->params[i]->grad, k));
                if (!isfinite(size) || (size == 0.0) != quiet)
                    fail_msg("gradient of %.*s: sum of magnitudes %g", (int)length, at, size);
                at += length + 1;
            }
        }
        assert_ok(vv_optimizer_step(optimizer));
    }
    assert_near(first, log((double)spec->classes), 0.3, 0.0);
    if (!(loss < end * first))
        fail_msg("the loss went from %g to %g only", first, loss);
    vv_optimizer_free(optimizer);
    vv_tensor_free(tokens);
    vv_tensor_free(targets);
    free(names);
}

/* Changing tokens from `change` on leaves the outputs before them as they were (to rounding), and
   changes that of token `change`. */
static inline void language_is_causal(vv_module *net, int64_t length, int64_t vocabulary,
                                      int64_t change)
{
    vv_tensor *tokens = random_tokens(2, length, vocabulary, 7);

    vv_module_set_training(net, false);

    vv_tensor *before = language_output(net, tokens);
    const int64_t width = before->shape[2];
    double moved = 0.0;

    for (int64_t row = 0; row < 2; row++)
        for (int64_t t = change; t < length; t++) {
            const int64_t i = row * length + t;
            vv_tensor_set(tokens, i,
                          (double)(((int64_t)vv_tensor_get(tokens, i) + 1) % vocabulary));
        }

    vv_tensor *after = language_output(net, tokens);

    for (int64_t row = 0; row < 2; row++)
        for (int64_t i = 0; i < (change + 1) * width; i++) {
            const int64_t at = row * length * width + i;
            const double step = vv_tensor_get(after, at) - vv_tensor_get(before, at);

            if (i < change * width)
                assert_near(step, 0.0, 1e-5, 0.0);
            else
                moved += fabs(step);
        }
    assert_true(moved > 1e-4);
    vv_module_set_training(net, true);
    vv_tensor_free(before);
    vv_tensor_free(after);
    vv_tensor_free(tokens);
}

/* ---- the numbers of another implementation ---- */

/* |got - want| <= tolerance |want| as wholes; `want` may be a matrix stored [in,out]. */
static inline void assert_same_numbers(const char *name, const vv_tensor *got,
                                       const vv_tensor *want, bool transposed, double tolerance)
{
    double error = 0.0, size = 0.0;

    if (!want)
        fail_msg("no %s in the file", name);
    assert_int_equal(got->count, want->count);
    for (int64_t i = 0; i < got->count; i++) {
        const int64_t columns = transposed ? got->shape[1] : 1;
        const int64_t at = transposed ? i % columns * got->shape[0] + i / columns : i;
        const double w = vv_tensor_get(want, at), d = vv_tensor_get(got, i) - w;

        error += d * d;
        size += w * w;
    }
    if (!(sqrt(error) <= tolerance * sqrt(size) + 1e-7))
        fail_msg("%s: error %.3g of a norm of %.3g", name, sqrt(error), sqrt(size));
}

/* A tensor of an opened file as one that a graph can read. */
static inline vv_tensor *golden_tensor(const vv_safetensors *file, const char *name)
{
    vv_tensor *copy = NULL;
    const vv_tensor *found = vv_safetensors_find(file, name);

    if (!found)
        fail_msg("no %s in the file", name);
    assert_ok(vv_tensor_clone(&copy, found));
    return copy;
}

/* Weights from weights_path, strictly. With the tokens and targets of golden_path: its logits, its
   loss, the gradient of every parameter, and its losses of 20 steps of AdamW (lr 3e-3, betas .9 and
   .95, decay .1), each to 1e-4. transposed: ends of the names of matrices stored [in,out], ended by
   NULL. */
static inline void language_golden(vv_model *model, const char *weights_path,
                                   const char *golden_path, const char *const *transposed)
{
    vv_safetensors *weights = NULL, *golden = NULL;
    const vv_optimizer_desc *desc = vv_optimizer_find("adamw");
    vv_adam_opts opts;
    vv_optimizer *optimizer = NULL;
    model_names *names = calloc(1, sizeof *names);
    int loaded;

    assert_non_null(names);
    vv_module_each_param(model->net, model_take_param, names);
    assert_ok(vv_safetensors_open(&weights, weights_path));
    assert_ok(vv_safetensors_open(&golden, golden_path));
    assert_ok(vv_model_load(model, weights, true, NULL, NULL, &loaded));
    assert_int_equal(loaded, names->count);

    vv_tensor *tokens = golden_tensor(golden, "tokens");
    vv_tensor *targets = golden_tensor(golden, "targets");
    const vv_tensor *losses = vv_safetensors_find(golden, "losses");
    vv_tensor *logits = language_output(model->net, tokens);

    assert_same_numbers("logits", logits, vv_safetensors_find(golden, "logits"), false, 1e-4);
    vv_tensor_free(logits);
    assert_ok(vv_opts_init(&desc->desc, &opts));
    opts.lr = 3e-3;
    opts.beta1 = 0.9;
    opts.beta2 = 0.95;
    opts.weight_decay = 0.1;
    assert_ok(vv_optimizer_new(&optimizer, desc, &opts, model->net));
    assert_non_null(losses);
    for (int64_t step = 0; step < losses->count; step++) {
        assert_near(language_step(model, tokens, targets), vv_tensor_get(losses, step), 0.0, 1e-4);

        const char *at = names->text;

        for (int i = 0; step == 0 && i < names->count; i++) {
            const size_t length = strcspn(at, " ");
            char name[256];
            bool turn = false;

            snprintf(name, sizeof name, "grad/%.*s", (int)length, at);
            for (int k = 0; transposed && transposed[k]; k++) {
                const size_t n = strlen(name), m = strlen(transposed[k]);
                turn = turn || (n > m && !strcmp(name + n - m, transposed[k]));
            }
            assert_same_numbers(name, names->params[i]->grad, vv_safetensors_find(golden, name),
                                turn, 1e-4);
            at += length + 1;
        }
        assert_ok(vv_optimizer_step(optimizer));
    }
    vv_optimizer_free(optimizer);
    vv_tensor_free(tokens);
    vv_tensor_free(targets);
    vv_safetensors_close(weights);
    vv_safetensors_close(golden);
    free(names);
}

/* The weights of `path` load strictly too from a file where names lack `cut` in front, end with
   endings[2k + 1] for endings[2k], and with tensors that the model does not have (`more`,
   NULL-ended); the output for `tokens` is the same. */
static inline void language_other_names(vv_model *model, const char *path, const char *cut,
                                        const char *const *endings, const char *const *more,
                                        vv_tensor *tokens)
{
    char dir[] = "/tmp/vivace-test-XXXXXX", other_path[64], name[256];
    const int64_t shape[] = {2, 3};
    vv_safetensors *file = NULL, *other = NULL;
    vv_safetensors_writer *writer = NULL;
    vv_tensor *tensor = NULL;
    int loaded, again;

    assert_non_null(mkdtemp(dir));
    snprintf(other_path, sizeof other_path, "%s/other.safetensors", dir);
    assert_ok(vv_safetensors_open(&file, path));
    assert_ok(vv_safetensors_writer_new(&writer));
    for (int i = 0; i < vv_safetensors_count(file); i++) {
        const char *old = vv_safetensors_name(file, i);

        snprintf(name, sizeof name, "%s",
                 strncmp(old, cut, strlen(cut)) ? old : old + strlen(cut));
        for (int k = 0; endings[k]; k += 2) {
            const size_t n = strlen(name), m = strlen(endings[k]);
            if (n > m && !strcmp(name + n - m, endings[k]))
                snprintf(name + n - m, sizeof name - (n - m), "%s", endings[k + 1]);
        }
        assert_ok(vv_tensor_clone(&tensor, vv_safetensors_tensor(file, i)));
        assert_ok(vv_safetensors_add(writer, name, tensor));
        vv_tensor_free(tensor);
    }
    for (int i = 0; more[i]; i++) {
        assert_ok(vv_tensor_new(&tensor, VV_F32, 2, shape));
        assert_ok(vv_safetensors_add(writer, more[i], tensor));
        vv_tensor_free(tensor);
    }
    assert_ok(vv_safetensors_write(writer, other_path));
    vv_safetensors_writer_free(writer);
    assert_ok(vv_model_load(model, file, true, NULL, NULL, &loaded));

    vv_tensor *want = language_output(model->net, tokens);

    vv_param_fill_normal(vv_module_param(vv_module_find(model->net,
                                                        vv_module_language(model->net)->tokens),
                                         "weight"), 1.0, 1, "other");
    assert_ok(vv_safetensors_open(&other, other_path));
    assert_ok(vv_model_load(model, other, true, NULL, NULL, &again));
    assert_int_equal(again, loaded);

    vv_tensor *got = language_output(model->net, tokens);

    assert_memory_equal(got->data, want->data, want->bytes);
    vv_tensor_free(got);
    vv_tensor_free(want);
    vv_safetensors_close(file);
    vv_safetensors_close(other);
    unlink(other_path);
    rmdir(dir);
}

/* What vv_export_safetensors writes of the weights in `path` is what the other program saved. */
static inline void language_export_is(vv_model *model, const char *path)
{
    char dir[] = "/tmp/vivace-test-XXXXXX", ours_path[64];
    vv_safetensors *theirs = NULL, *ours = NULL;

    assert_non_null(mkdtemp(dir));
    snprintf(ours_path, sizeof ours_path, "%s/ours.safetensors", dir);
    assert_ok(vv_safetensors_open(&theirs, path));
    assert_ok(vv_model_load(model, theirs, true, NULL, NULL, NULL));
    assert_ok(vv_export_safetensors(model, ours_path));
    assert_ok(vv_safetensors_open(&ours, ours_path));
    assert_int_equal(vv_safetensors_count(ours), vv_safetensors_count(theirs));
    for (int i = 0; i < vv_safetensors_count(theirs); i++) {
        const char *name = vv_safetensors_name(theirs, i);
        const vv_tensor *want = vv_safetensors_tensor(theirs, i);
        const vv_tensor *got = vv_safetensors_find(ours, name);

        if (!got || !vv_tensor_same_shape(got, want))
            fail_msg("%s: not in the file, or with another shape", name);
        assert_memory_equal(got->data, want->data, want->bytes);
    }
    vv_safetensors_close(ours);
    vv_safetensors_close(theirs);
    unlink(ours_path);
    rmdir(dir);
}

#endif
