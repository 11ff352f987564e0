/* model_test.h - what the tests of all model families check alike. */
#ifndef MODEL_TEST_H
#define MODEL_TEST_H

#include "vv_test.h"

#include <vivace/model.h>

#define MODEL_TEST_MAX_PARAMS 512

typedef struct model_names {
    char text[65536];
    vv_param *params[MODEL_TEST_MAX_PARAMS];
    int count;
} model_names;

static inline bool model_take_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    model_names *names = ctx;
    size_t used = strlen(names->text);

    (void)owner;
    assert_true(names->count < MODEL_TEST_MAX_PARAMS);
    snprintf(names->text + used, sizeof names->text - used, "%s ", path);
    names->params[names->count++] = param;
    return true;
}

/* Images of these sizes, u8, with class targets. */
static inline vv_sample_spec image_spec(int64_t height, int64_t width, int64_t channels,
                                        int64_t classes)
{
    vv_sample_spec spec = {
        .input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3, .classes = classes};

    spec.input_shape[0] = height;
    spec.input_shape[1] = width;
    spec.input_shape[2] = channels;
    return spec;
}

/* Model with `settings` ("depth=56"; NULL = defaults). */
static inline vv_model *model_make(const vv_model_desc *desc, const char *settings,
                                   const vv_sample_spec *spec)
{
    unsigned char opts[256] = {0};
    vv_model *model = NULL;

    assert_true(desc->desc.opts_size <= sizeof opts);
    assert_ok(vv_opts_init(&desc->desc, opts));
    if (settings)
        assert_ok(vv_opts_set_all(&desc->desc, opts, settings));
    assert_ok(vv_model_build(&model, desc, opts, spec, 17));
    vv_opts_fini(&desc->desc, opts);
    assert_string_equal(model->name, desc->desc.name);
    assert_int_equal(model->classes, spec->classes);
    return model;
}

static inline int64_t model_size(const vv_model_desc *desc, const char *settings,
                                 const vv_sample_spec *spec)
{
    vv_model *model = model_make(desc, settings, spec);
    int64_t size = vv_module_param_count(model->net);

    vv_model_free(model);
    return size;
}

/* Every name in `wanted` (spaces between) is a parameter; the first one comes first. */
static inline void net_has_names(vv_module *net, const char *wanted)
{
    model_names *names = calloc(1, sizeof *names);
    char word[128];

    assert_non_null(names);
    vv_module_each_param(net, model_take_param, names);
    for (const char *at = wanted; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        snprintf(word, sizeof word, "%.*s ", (int)strcspn(at, " "), at);
        const char *found = strstr(names->text, word);

        while (found && found != names->text && found[-1] != ' ')
            found = strstr(found + 1, word);
        if (!found)
            fail_msg("no parameter \"%s\" among: %s", word, names->text);
        if (at == wanted)
            assert_ptr_equal(found, names->text);
    }
    free(names);
}

/* Forward and backward on a batch of `batch` random images: logits [batch,classes], a loss near
   ln(classes) at the start, and a finite gradient for every parameter, not zero altogether. */
static inline void model_trains(vv_model *model, const vv_sample_spec *spec, int64_t batch)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    model_names *names = calloc(1, sizeof *names);
    const int64_t shape[] = {batch, spec->input_shape[0], spec->input_shape[1],
                             spec->input_shape[2]};
    vv_node *leaves[MODEL_TEST_MAX_PARAMS], *outs[MODEL_TEST_MAX_PARAMS + 2];
    vv_graph *graph = NULL;
    vv_tensor *input = NULL, *target = NULL;
    vv_rng rng = vv_rng_at(3, "model_test", 0);
    double loss;

    assert_non_null(names);
    vv_module_each_param(model->net, model_take_param, names);
    assert_ok(vv_tensor_new(&input, VV_F32, 4, shape));
    assert_ok(vv_tensor_new(&target, VV_I32, 1, shape));
    for (int64_t i = 0; i < input->count; i++)
        vv_tensor_set(input, i, vv_rng_normal(&rng));
    for (int64_t i = 0; i < batch; i++)
        vv_tensor_set(target, i, (double)(i % model->classes));
    assert_ok(vv_graph_new(&graph, &opts));

    vv_node *output = vv_module_forward(model->net, graph, vv_leaf(graph, input));
    vv_node *mean = vv_mean_all(vv_model_loss(model, output, vv_leaf(graph, target)));

    assert_ok(vv_graph_status(graph));
    assert_int_equal(vv_node_ndim(output), 2);
    assert_int_equal(vv_node_shape(output)[0], batch);
    assert_int_equal(vv_node_shape(output)[1], model->classes);
    for (int i = 0; i < names->count; i++)
        leaves[i] = vv_leaf(graph, names->params[i]->value);
    assert_ok(vv_grad(graph, mean, leaves, names->count, outs));
    outs[names->count] = mean;
    outs[names->count + 1] = output;
    assert_ok(vv_eval(graph, outs, names->count + 2));
    assert_ok(vv_node_item(mean, &loss));
    assert_true(isfinite(loss) && loss > 0.0 && loss < 3.0 * log((double)model->classes) + 3.0);
    for (int i = 0; i < names->count; i++) {
        const vv_tensor *grad = NULL;
        double size = 0.0;

        assert_ok(vv_node_value(outs[i], &grad));
        assert_true(vv_tensor_same_shape(grad, names->params[i]->value));
        for (int64_t k = 0; k < grad->count; k++)
            size += fabs(vv_tensor_get(grad, k));
        if (!(isfinite(size) && size > 0.0))
            fail_msg("gradient %d of %s: sum of magnitudes %g", i, model->name, size);
    }
    vv_graph_free(graph);
    vv_tensor_free(input);
    vv_tensor_free(target);
    free(names);
}

/* The descriptor is complete, data it cannot take are refused with its name, and building survives
   its allocations failing: each of them, or every stride-th for nets of many megabytes. */
static inline void model_desc_is_sane(const vv_model_desc *desc, const vv_sample_spec *spec,
                                      uint64_t stride)
{
    vv_sample_spec none = *spec;
    vv_model *model = NULL;
    int64_t live = vv_memory_live_count();

    assert_string_equal(desc->desc.kind, "model");
    assert_true(desc->desc.summary[0] != '\0');
    assert_non_null(desc->desc.fields);
    assert_true(desc->desc.domains[0] != '\0');
    none.classes = 0;
    assert_fails(vv_model_build(&model, desc, NULL, &none, 1), VV_EINVAL);
    assert_says(desc->desc.name);
    assert_null(model);
    for (uint64_t nth = 1; !model; nth += stride) {
        vv_memory_fail_at(nth);
        vv_status status = vv_model_build(&model, desc, NULL, spec, 1);
        vv_memory_fail_at(0);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
        assert_null(model);
        assert_int_equal(vv_memory_live_count(), live);
    }
    vv_model_free(model);
    assert_int_equal(vv_memory_live_count(), live);
}

#endif
