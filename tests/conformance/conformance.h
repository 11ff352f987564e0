/* conformance.h - the methods under test and the small world they train in. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include "vv_test.h"

#include <unistd.h>

#include <vivace/gpt2.h>
#include <vivace/methods.h>
#include <vivace/mlp.h>
#include <vivace/resnet9.h>
#include <vivace/synthetic.h>
#include <vivace/train.h>

#include "methods/_template/input_noise.h"

/* Method number i: those of the registry, then the template that new ones are copied from. */
static inline const vv_method_desc *method_at(int i)
{
    const vv_desc *desc = vv_registry_at("method", i);
    if (desc)
        return (const vv_method_desc *)(const void *)desc;
    return i == 0 || vv_registry_at("method", i - 1) ? &vv_method_input_noise : NULL;
}

static inline bool is_surgery(const vv_method_desc *desc)
{
    return desc->phase == VV_PHASE_SURGERY;
}

/* ---- settings ---- */

/* A value within the field's limits, for fields that have no default. */
static inline void some_value(const vv_field *field, char *text, size_t bytes)
{
    const bool limits = field->min != 0.0 || field->max != 0.0;
    switch (field->type) {
    case VV_FIELD_BOOL: snprintf(text, bytes, "true"); break;
    case VV_FIELD_INT: snprintf(text, bytes, "%.0f", limits ? ceil(field->min) : 1.0); break;
    case VV_FIELD_FLOAT:
        snprintf(text, bytes, "%.17g", limits ? (field->min + field->max) / 2 : 1.0);
        break;
    case VV_FIELD_CHOICE: snprintf(text, bytes, "%s", field->choices[0]); break;
    case VV_FIELD_TIME:
    case VV_FIELD_TIMES: snprintf(text, bytes, "1ba"); break;
    case VV_FIELD_STRING: snprintf(text, bytes, "x"); break;
    }
}

/* Defaults, and some value where there is none; least and inner widths ("min_...", "latent_...")
   are lowered to fit the small nets. Freed with opts_free. */
static inline void *opts_new(const vv_method_desc *desc)
{
    void *opts;
    assert_ok(vv_alloc(&opts, desc->desc.opts_size + 1));
    assert_ok(vv_opts_init(&desc->desc, opts));
    for (const vv_field *f = desc->desc.fields; f->name; f++)
        if (!f->fallback || (f->type == VV_FIELD_INT && strncmp(f->name, "min_", 4) == 0) ||
            (f->type == VV_FIELD_FLOAT && strncmp(f->name, "latent_", 7) == 0)) {
            char text[64] = "4";
            if (!f->fallback)
                some_value(f, text, sizeof text);
            assert_ok(vv_opts_set(&desc->desc, opts, f->name, text));
        }
    return opts;
}

static inline void opts_free(const vv_method_desc *desc, void *opts)
{
    vv_opts_fini(&desc->desc, opts);
    vv_dealloc(opts);
}

static inline vv_method *method_new(const vv_method_desc *desc)
{
    vv_method *method;
    void *opts = opts_new(desc);
    assert_ok(vv_method_new(&method, desc, opts));
    opts_free(desc, opts);
    return method;
}

/* ---- data and nets ---- */

#define SIDE 24
#define BATCH 8
#define TOKENS 16
#define CLASSES 4 /* of images, and tokens of the language */

typedef struct data {
    vv_dataset *set;
    vv_loader *loader;
    bool text;
} data;

/* Methods for text alone train a small language model, all others an image classifier. */
static inline bool needs_text(const vv_method_desc *m)
{
    return !strstr(m->desc.domains, "cv") && !strstr(m->desc.domains, "any");
}

static inline bool needs_images(const vv_method_desc *m)
{
    return !strstr(m->desc.domains, "nlp") && !strstr(m->desc.domains, "any");
}

/* 32 rows of a language in which each token follows from the one before, mostly. */
static inline void text_init(data *d)
{
    enum { COUNT = 32 };
    const vv_sample_spec spec = {.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1,
                                 .target_ndim = 1, .input_shape = {TOKENS},
                                 .target_shape = {TOKENS}, .classes = CLASSES, .tokens = TOKENS};
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    int32_t x[COUNT * TOKENS], y[COUNT * TOKENS], token = 0;
    vv_rng rng = vv_rng_at(2, "language", 0);
    for (int i = 0; i < COUNT * TOKENS; i++) {
        x[i] = token;
        token = vv_rng_uniform(&rng) < 0.8 ? (3 * token + 1) % CLASSES
                                           : (int32_t)vv_rng_below(&rng, CLASSES);
        y[i] = token;
    }
    assert_ok(vv_dataset_from_arrays(&d->set, &spec, COUNT, x, y));
    loading.batch_size = BATCH;
    loading.shuffle = true;
    loading.seed = 3;
    loading.workers = 0;
    assert_ok(vv_loader_new(&d->loader, d->set, &loading));
}

/* 32 coloured images of 4 classes. */
static inline void images_init(data *d)
{
    vv_synthetic_opts opts;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    const vv_desc *desc = &vv_dataset_synthetic.desc;
    assert_ok(vv_opts_init(desc, &opts));
    assert_ok(vv_opts_set_all(desc, &opts, "height=24,width=24,classes=4,count=32,kind=separable"));
    assert_ok(vv_dataset_open(&d->set, &vv_dataset_synthetic, &opts, "train"));
    vv_opts_fini(desc, &opts);
    loading.batch_size = BATCH;
    loading.shuffle = true;
    loading.seed = 3;
    loading.workers = 0;
    loading.transform.normalise = true;
    assert_ok(vv_loader_new(&d->loader, d->set, &loading));
}

static inline void data_init(data *d, bool text)
{
    if (text)
        text_init(d);
    else
        images_init(d);
    d->text = text;
}

static inline void data_fini(data *d)
{
    vv_loader_free(d->loader);
    vv_dataset_free(d->set);
}

static inline void push(vv_module *net, vv_status made, vv_module *layer)
{
    assert_ok(vv_sequential_push(net, made, layer));
}

/* Conv 3-8, ReLU, max pooling, conv 8-16, ReLU, global average, linear: takes any size, and has no
   batch norm, so that rows do not depend on each other. */
static inline vv_module *plain_net(void)
{
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    const vv_pool_opts pool = {.kernel = {2, 2}};
    vv_module *net, *layer;
    conv.pad[0] = conv.pad[1] = 1;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, 3, 8, 3, &conv, true);
    push(net, made, layer);
    made = vv_activation_new(&layer, VV_ACT_RELU, 0);
    push(net, made, layer);
    made = vv_max_pool_new(&layer, &pool);
    push(net, made, layer);
    made = vv_conv2d_new(&layer, 8, 16, 3, &conv, true);
    push(net, made, layer);
    made = vv_activation_new(&layer, VV_ACT_RELU, 0);
    push(net, made, layer);
    made = vv_adaptive_avg_pool_new(&layer, 1, 1);
    push(net, made, layer);
    made = vv_flatten_new(&layer);
    push(net, made, layer);
    made = vv_linear_new(&layer, 16, 4, true);
    push(net, made, layer);
    return net;
}

/* ResNet-9 with a 1x1 convolution before it, a group norm, a dropout and a linear layer behind it:
   each kind of surgery finds something. */
static inline vv_module *rich_net(int64_t width)
{
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, 3, 6, 1, NULL, true);
    push(net, made, layer);
    made = vv_resnet9_new(&layer, 6, 8, width, 1.0);
    push(net, made, layer);
    made = vv_group_norm_new(&layer, 2, 8, 1e-5);
    push(net, made, layer);
    made = vv_dropout_new(&layer, 0.2);
    push(net, made, layer);
    made = vv_linear_new(&layer, 8, 4, true);
    push(net, made, layer);
    return net;
}

typedef enum net_kind { NET_RICH, NET_WIDE, NET_PLAIN, NET_MLP } net_kind;

/* A table of tokens and a linear layer: no attention, no position, no norm, nothing gated. */
static inline vv_module *word_net(void)
{
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_embedding_new(&layer, CLASSES, 8);
    push(net, made, layer);
    made = vv_linear_new(&layer, 8, CLASSES, true);
    push(net, made, layer);
    return net;
}

/* GPT-2 with two blocks; plain: without dropout, in which a row's microbatch must not show. */
static inline vv_model *language_model_new(net_kind kind)
{
    vv_gpt2_opts opts = VV_GPT2_DEFAULTS;
    vv_module *net;
    vv_model *model;
    opts.d = kind == NET_WIDE ? 32 : 16;
    opts.layers = 2;
    opts.heads = 2;
    opts.context = TOKENS;
    opts.dropout = kind == NET_PLAIN ? 0.0 : 0.1;
    if (kind == NET_MLP) {
        assert_ok(vv_classifier_build(&model, word_net(), CLASSES, 11));
        return model;
    }
    assert_ok(vv_gpt2_new(&net, CLASSES, &opts, 11));
    assert_ok(vv_classifier_new(&model, net, CLASSES));
    return model;
}

static inline vv_model *model_new(net_kind kind)
{
    vv_module *net;
    vv_model *model;
    if (kind == NET_PLAIN)
        net = plain_net();
    else if (kind == NET_MLP)
        assert_ok(vv_mlp_new(&net, SIDE * SIDE * 3, 4, NULL));
    else
        net = rich_net(kind == NET_RICH ? 4 : 16);
    assert_ok(vv_classifier_build(&model, net, 4, 11));
    return model;
}

static inline vv_trainer_opts trainer_opts(net_kind kind, const data *d, const char *duration)
{
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    static const vv_sgd_opts sgd = {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
    opts.model = d->text ? language_model_new(kind) : model_new(kind);
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = d->loader;
    opts.max_duration = duration;
    opts.seed = 17;
    return opts;
}

/* ---- weights ---- */

typedef struct weights {
    float *values;
    size_t count;
} weights;

static inline bool add_weights(void *ctx, const char *name, vv_tensor *tensor)
{
    weights *w = ctx;
    (void)name;
    if (tensor->dtype != VV_F32)
        return true;
    const size_t count = (size_t)tensor->count;
    w->values = realloc(w->values, (w->count + count + 1) * sizeof *w->values);
    assert_non_null(w->values);
    memcpy(w->values + w->count, tensor->data, tensor->bytes);
    w->count += count;
    return true;
}

static inline weights weights_of(vv_trainer *trainer)
{
    weights w = {0};
    vv_module_each_state(vv_trainer_state(trainer)->model->net, add_weights, &w);
    return w;
}

#endif
