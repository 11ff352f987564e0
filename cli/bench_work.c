/* bench_work.c - a model, a random batch and an optimizer, ready to be stepped. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#define AT(field) offsetof(bench_step_opts, field)
const char *const bench_precisions[] = {"fp32", "amp_bf16", "bf16", "auto", NULL};
static const char *const convs[] = {"rule", "auto", "direct", "winograd", NULL};
static const char *const backends[] = {"auto", "cpu", "ref", NULL};
static const vv_field fields[] = {
    {.name = "model", .help = "model to step", .type = VV_FIELD_STRING, .offset = AT(model), .fallback = "resnet9"},
    {.name = "model_settings", .help = "its settings, like [width=16]", .type = VV_FIELD_STRING, .offset = AT(model_settings), .fallback = ""},
    {.name = "data", .help = "real set whose shapes the random batch has", .type = VV_FIELD_STRING, .offset = AT(data), .fallback = "cifar10"},
    {.name = "size", .help = "image side in pixels; 0 = the set's", .type = VV_FIELD_INT, .offset = AT(size), .fallback = "0", .min = 0, .max = 4096},
    {.name = "seq", .help = "random texts of so many tokens in place of images; 0 = images", .type = VV_FIELD_INT, .offset = AT(seq), .fallback = "0", .min = 0, .max = 1 << 24},
    {.name = "vocabulary", .help = "tokens of random texts", .type = VV_FIELD_INT, .offset = AT(vocabulary), .fallback = "50257", .min = 2, .max = INT32_MAX},
    {.name = "masked", .help = "share of a text's tokens that have a target, as for BERT; 0 = all", .type = VV_FIELD_FLOAT, .offset = AT(masked), .fallback = "0", .min = 0, .max = 1},
    {.name = "optimizer", .help = "sgd or adamw; empty = sgd, with texts adamw", .type = VV_FIELD_STRING, .offset = AT(optimizer), .fallback = ""},
    {.name = "batch", .help = "samples per step", .type = VV_FIELD_INT, .offset = AT(batch), .fallback = "512", .min = 1, .max = 1e7},
    {.name = "microbatch", .help = "samples computed at once; 0 = the whole batch", .type = VV_FIELD_INT, .offset = AT(microbatch), .fallback = "0", .min = 0, .max = 1e7},
    {.name = "precision", .help = "arithmetic of convolutions and matmuls", .type = VV_FIELD_CHOICE, .offset = AT(precision), .fallback = "fp32", .choices = bench_precisions},
    {.name = "conv", .help = "kernels of convolutions: rule, auto = timed trials, direct, winograd", .type = VV_FIELD_CHOICE, .offset = AT(conv), .fallback = "rule", .choices = convs},
    {.name = "backend", .help = "kernels to use", .type = VV_FIELD_CHOICE, .offset = AT(backend), .fallback = "auto", .choices = backends},
    {.name = "methods", .help = "surgery methods applied before, comma-separated", .type = VV_FIELD_STRING, .offset = AT(methods), .fallback = ""},
    {.name = "steps", .help = "steps measured", .type = VV_FIELD_INT, .offset = AT(steps), .fallback = "10", .min = 1, .max = 1e6},
    {.name = "warmup", .help = "steps before", .type = VV_FIELD_INT, .offset = AT(warmup), .fallback = "2", .min = 1, .max = 1e6},
    {.name = "threads", .help = "threads; 0 = all cores", .type = VV_FIELD_INT, .offset = AT(threads), .fallback = "0", .min = 0, .max = 4096},
    {.name = "fuse", .help = "fusion passes on", .type = VV_FIELD_BOOL, .offset = AT(fuse), .fallback = "true"},
    {.name = NULL},
};
const vv_desc bench_step_desc = {.kind = "benchmark",
                                 .name = "bench step",
                                 .summary = "a training step",
                                 .cite = "",
                                 .domains = "any",
                                 .fields = fields,
                                 .opts_size = sizeof(bench_step_opts)};

static bool collect_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    bench_work *b = ctx;
    (void)path;
    (void)owner;
    if (b->param_count == b->capacity) {
        int capacity = b->capacity ? 2 * b->capacity : 128;
        b->status = vv_realloc_array(&b->params, (size_t)capacity, sizeof(vv_param *));
        if (b->status == VV_OK)
            b->status = vv_realloc_array(&b->nodes, (size_t)capacity * 2 + 1, sizeof(vv_node *));
        if (b->status != VV_OK)
            return false;
        b->capacity = capacity;
    }
    if (!param->frozen)
        b->params[b->param_count++] = param;
    return true;
}

static vv_status apply_methods(bench_work *b)
{
    char *list, *save = NULL;
    VV_TRY(vv_strdup(&list, b->opts.methods));
    vv_status status = VV_OK;
    for (char *name = strtok_r(list, ",", &save); name && status == VV_OK;
         name = strtok_r(NULL, ",", &save)) {
        vv_method *method = NULL;
        status = vv_method_make(&method, name, NULL);
        if (status == VV_OK) {
            vv_state state;
            memset(&state, 0, sizeof state);
            state.model = b->model;
            if (!method->surgery)
                status = vv_fail(VV_EINVAL,
                                 "bench step: %s changes no layers; only surgery methods can "
                                 "be benchmarked here",
                                 name);
            else
                status = method->type->apply(method, VV_EVENT_INIT, &state);
        }
        vv_method_free(method);
    }
    vv_dealloc(list);
    return status;
}

/* A batch of random images, as the loader would give them: floats of about one deviation. */
static vv_status make_images(bench_work *b, const vv_sample_spec *spec)
{
    int64_t shape[4] = {b->opts.batch, spec->input_shape[0], spec->input_shape[1],
                        spec->input_shape[2]};
    VV_TRY(vv_tensor_new(&b->input, VV_F32, 4, shape));
    VV_TRY(vv_tensor_new(&b->target, VV_I32, 1, shape));
    vv_rng rng = vv_rng_at(1, "bench", 0);
    for (int64_t i = 0; i < b->input->count; i++)
        ((float *)b->input->data)[i] = (float)vv_rng_uniform_in(&rng, -1.7, 1.7);
    for (int64_t i = 0; i < b->target->count; i++)
        ((int32_t *)b->target->data)[i] = (int32_t)vv_rng_below(&rng, spec->classes);
    return VV_OK;
}

static vv_status make_texts(bench_work *b, vv_dataset *set)
{
    const int64_t seq = set->spec.tokens, shape[2] = {b->opts.batch, seq};
    VV_TRY(vv_tensor_new(&b->input, VV_I32, 2, shape));
    VV_TRY(vv_tensor_new(&b->target, VV_I32, 2, shape));
    for (int64_t i = 0; i < b->opts.batch; i++)
        VV_TRY(vv_dataset_read(set, i, (int32_t *)b->input->data + i * seq,
                               (int32_t *)b->target->data + i * seq));
    vv_rng rng = vv_rng_at(1, "bench masked", 0);
    for (int64_t i = 0; i < b->target->count && b->opts.masked > 0.0; i++)
        if (vv_rng_uniform(&rng) >= b->opts.masked)
            ((int32_t *)b->target->data)[i] = -100;
    return VV_OK;
}

static vv_status make_optimizer(bench_work *b)
{
    const vv_sgd_opts sgd = {.lr = 1e-4, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true};
    const vv_adam_opts adamw = {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                .weight_decay = 0.1};
    const char *name = b->opts.optimizer[0] ? b->opts.optimizer : b->opts.seq ? "adamw" : "sgd";
    const bool is_sgd = !strcmp(name, "sgd");
    if (!is_sgd && strcmp(name, "adamw") != 0)
        return vv_fail(VV_EINVAL, "bench step: optimizer '%s' cannot be measured; sgd or adamw",
                       name);
    return vv_optimizer_new(&b->optimizer, vv_optimizer_find(name),
                            is_sgd ? (const void *)&sgd : (const void *)&adamw, b->model->net);
}

vv_status bench_work_make(bench_work *b)
{
    vv_sample_spec spec;
    const vv_dataset_desc *set_desc;
    vv_dataset *set = NULL;
    char settings[160];
    void *opts = NULL;
    const vv_desc *opts_type = NULL; /* whose options `opts` holds */
    vv_status status;
    VV_GO(vv_dataset_find(&set_desc, "synthetic"));
    VV_GO(vv_alloc(&opts, set_desc->desc.opts_size + 1));
    VV_GO(vv_opts_init(&set_desc->desc, opts));
    opts_type = &set_desc->desc;
    if (b->opts.seq)
        snprintf(settings, sizeof settings,
                 "like=text,count=%lld,pool=%lld,seq=%lld,vocabulary=%lld",
                 (long long)b->opts.batch, (long long)b->opts.batch, (long long)b->opts.seq,
                 (long long)b->opts.vocabulary);
    else
        snprintf(settings, sizeof settings, "like=%.40s,count=%lld,height=%lld,width=%lld",
                 b->opts.data, (long long)b->opts.batch, (long long)b->opts.size,
                 (long long)b->opts.size);
    VV_GO(vv_opts_set_all(&set_desc->desc, opts, settings));
    VV_GO(vv_dataset_open(&set, set_desc, opts, "train"));
    spec = set->spec;
    VV_GO(b->opts.seq ? make_texts(b, set) : make_images(b, &spec));

    const vv_model_desc *model_desc;
    VV_GO(vv_model_find(&model_desc, b->opts.model));
    vv_opts_fini(opts_type, opts);
    vv_dealloc(opts);
    opts = NULL;
    opts_type = NULL;
    VV_GO(vv_alloc(&opts, model_desc->desc.opts_size + 1));
    VV_GO(vv_opts_init(&model_desc->desc, opts));
    opts_type = &model_desc->desc;
    if (b->opts.model_settings[0])
        VV_GO(vv_opts_set_all(&model_desc->desc, opts, b->opts.model_settings));
    VV_GO(vv_model_build(&b->model, model_desc, opts, &spec, 1));
    VV_GO(apply_methods(b));
    VV_GO(make_optimizer(b));
    vv_module_each_param(b->model->net, collect_param, b);
    VV_GO(b->status);
    VV_GO(vv_grads_ensure(b->model->net));
    vv_graph_opts graph = VV_GRAPH_DEFAULTS;
    graph.precision = (vv_precision)b->opts.precision;
    if (graph.precision == VV_PRECISION_AUTO)
        graph.precision = vv_cpu_has_bf16() ? VV_PRECISION_AMP_BF16 : VV_PRECISION_FP32;
    b->precision = graph.precision;
    graph.fuse = b->opts.fuse;
    graph.conv = (vv_conv_choice)b->opts.conv;
    if (b->opts.backend) {
        graph.backend = vv_backend_find(backends[b->opts.backend]);
        if (!graph.backend)
            VV_GO(vv_fail(VV_EUNSUPPORTED, "bench step: backend '%s' is not in this build",
                          backends[b->opts.backend]));
    }
    VV_GO(vv_graph_new(&b->graph, &graph));
out:
    vv_dataset_free(set);
    if (opts_type)
        vv_opts_fini(opts_type, opts);
    vv_dealloc(opts);
    return status;
}

void bench_work_free(bench_work *b)
{
    vv_graph_free(b->graph);
    vv_optimizer_free(b->optimizer);
    vv_model_free(b->model);
    vv_tensor_free(b->input);
    vv_tensor_free(b->target);
    vv_dealloc(b->params);
    vv_dealloc(b->nodes);
    vv_opts_fini(&bench_step_desc, &b->opts);
}

static vv_status micro_step(bench_work *b, int64_t first, int64_t count, int64_t *flops)
{
    vv_tensor *x = NULL, *y = NULL;
    vv_graph *g = b->graph;
    vv_status status;
    vv_graph_reset(g);
    VV_GO(vv_tensor_rows(&x, b->input, first, count));
    VV_GO(vv_tensor_rows(&y, b->target, first, count));
    vv_node *output = vv_module_forward(b->model->net, g, vv_leaf(g, x));
    vv_node *items = vv_model_loss(b->model, output, vv_leaf(g, y));
    vv_node *loss = vv_mul(vv_sum_all(items), vv_scalar(g, 1.0 / (double)b->opts.batch));
    int n = b->param_count;
    for (int i = 0; i < n; i++)
        b->nodes[n + 1 + i] = vv_leaf(g, b->params[i]->value);
    VV_GO(vv_graph_status(g));
    VV_GO(vv_grad(g, loss, b->nodes + n + 1, n, b->nodes + 1));
    for (int i = 0; i < n; i++)
        VV_GO(vv_bind_output(b->nodes[1 + i], b->params[i]->grad,
                             first ? VV_BIND_ADD : VV_BIND_WRITE));
    b->nodes[0] = loss;
    VV_GO(vv_eval(g, b->nodes, n + 1));
    vv_graph_stats stats;
    vv_graph_get_stats(g, &stats);
    *flops += stats.flops;
out:
    vv_tensor_free(x);
    vv_tensor_free(y);
    return status;
}

vv_status bench_work_step(bench_work *b, double *forward_backward, int64_t *flops)
{
    double start = vv_clock();
    int64_t micro = b->opts.microbatch ? b->opts.microbatch : b->opts.batch;
    *flops = 0;
    for (int64_t first = 0; first < b->opts.batch; first += micro)
        VV_TRY(micro_step(b, first, micro < b->opts.batch - first ? micro : b->opts.batch - first,
                          flops));
    *forward_backward = vv_clock() - start;
    return vv_optimizer_step(b->optimizer);
}
