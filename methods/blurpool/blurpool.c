/* blurpool.c - BlurPool (Zhang, arXiv 1904.11486): layers, surgery, method. */
#include "blurpool.h"

/* ---- the blur ---- */

vv_node *vv_blur2d(vv_node *x, const int64_t stride[2])
{
    static const float filter[9] = {0.0625f, 0.125f, 0.0625f, 0.125f, 0.25f,
                                    0.125f,  0.0625f, 0.125f, 0.0625f};
    static const int64_t one[4] = {1, 1, 3, 3};
    if (!x)
        return NULL;
    const int ndim = vv_node_ndim(x);
    const int64_t channels = ndim > 0 ? vv_node_shape(x)[ndim - 1] : 1;
    const int64_t all[4] = {channels, 1, 3, 3};
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    conv.pad[0] = conv.pad[1] = 1;
    conv.groups = channels;
    if (stride) {
        conv.stride[0] = stride[0];
        conv.stride[1] = stride[1];
    }
    vv_node *weight = vv_data(vv_node_graph(x), VV_F32, 4, one, filter);
    weight = vv_cast(vv_broadcast_to(weight, 4, all), vv_node_dtype(x));
    return vv_conv2d(x, weight, NULL, &conv);
}

/* ---- layers ---- */

typedef struct blur_pool {
    int64_t stride[2];
} blur_pool;

static vv_node *blur_pool_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const blur_pool *self = vv_module_self(module);
    (void)graph;
    return vv_blur2d(x, self->stride);
}

const vv_module_class vv_blur_pool_class = {"BlurPool2d", blur_pool_forward, NULL};

vv_status vv_blur_pool_new(vv_module **out, int64_t stride)
{
    *out = NULL;
    if (stride < 1)
        return vv_fail(VV_EINVAL, "BlurPool2d: stride %lld must be at least 1", (long long)stride);
    VV_TRY(vv_module_new(out, &vv_blur_pool_class, sizeof(blur_pool)));
    *(blur_pool *)vv_module_self(*out) = (blur_pool){{stride, stride}};
    return VV_OK;
}

typedef struct blur_conv {
    int64_t stride[2]; /* of the blur: 1 where it comes first */
    bool blur_first;
} blur_conv;

static vv_node *blur_conv_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const blur_conv *self = vv_module_self(module);
    vv_module *conv = vv_module_child(module, 0);
    if (self->blur_first)
        return vv_module_forward(conv, graph, vv_blur2d(x, NULL));
    return vv_blur2d(vv_module_forward(conv, graph, x), self->stride);
}

const vv_module_class vv_blur_conv2d_class = {"BlurConv2d", blur_conv_forward, NULL};

/* A Conv2d over the same parameters. */
static vv_status share_conv(vv_module **out, vv_module *conv)
{
    static const char *const names[] = {"weight", "bias"};
    VV_TRY(vv_module_new(out, &vv_conv2d_class, sizeof(vv_conv2d_layer)));
    *(vv_conv2d_layer *)vv_module_self(*out) = *(const vv_conv2d_layer *)vv_module_self(conv);
    for (int i = 0; i < 2; i++) {
        vv_param *param = vv_module_param(conv, names[i]);
        vv_status status =
            param ? vv_module_add_param(*out, names[i], vv_param_keep(param)) : VV_OK;
        if (status != VV_OK) {
            vv_module_free(*out);
            *out = NULL;
            return status;
        }
    }
    return VV_OK;
}

vv_status vv_blur_conv2d_new(vv_module **out, vv_module *conv, bool blur_first)
{
    vv_status status = VV_OK;
    vv_module *module = NULL, *inner = NULL;
    *out = NULL;
    if (!conv || vv_module_type(conv) != &vv_conv2d_class)
        return vv_fail(VV_EINVAL, "BlurConv2d: needs a Conv2d, not a %s",
                       conv ? vv_module_type(conv)->name : "NULL");
    VV_GO(vv_module_new(&module, &vv_blur_conv2d_class, sizeof(blur_conv)));
    VV_GO(share_conv(&inner, conv));
    blur_conv *self = vv_module_self(module);
    vv_conv2d_layer *layer = vv_module_self(inner);
    self->blur_first = blur_first;
    for (int i = 0; i < 2; i++) {
        self->stride[i] = blur_first ? 1 : layer->conv.stride[i];
        if (!blur_first)
            layer->conv.stride[i] = 1;
    }
    VV_GO(vv_module_add_child(module, "conv", inner));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}

static vv_node *blur_max_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_pool_opts *self = vv_module_self(module);
    vv_pool_opts pool = *self;
    (void)graph;
    pool.stride[0] = pool.stride[1] = 1;
    return vv_blur2d(vv_max_pool2d(x, &pool), self->stride);
}

const vv_module_class vv_blur_max_pool_class = {"BlurMaxPool2d", blur_max_forward, NULL};

vv_status vv_blur_max_pool_new(vv_module **out, const vv_pool_opts *opts)
{
    *out = NULL;
    for (int i = 0; i < 2; i++)
        if (opts->kernel[i] < 1 || opts->stride[i] < 0 || opts->pad[i] < 0)
            return vv_fail(VV_EINVAL,
                           "BlurMaxPool2d: kernel %lld must be at least 1, stride %lld and "
                           "pad %lld at least 0",
                           (long long)opts->kernel[i], (long long)opts->stride[i],
                           (long long)opts->pad[i]);
    VV_TRY(vv_module_new(out, &vv_blur_max_pool_class, sizeof(vv_pool_opts)));
    vv_pool_opts *self = vv_module_self(*out);
    *self = *opts;
    for (int i = 0; i < 2; i++)
        if (self->stride[i] == 0)
            self->stride[i] = self->kernel[i];
    return VV_OK;
}

/* ---- surgery ---- */

typedef struct surgeon {
    const vv_blurpool_opts *opts;
    int convs, maxpools;
} surgeon;

static bool takes_conv(const vv_blurpool_opts *opts, vv_module *module)
{
    if (vv_module_type(module) != &vv_conv2d_class) /* other surgery may have been there */
        return false;
    const vv_conv2d_layer *layer = vv_module_self(module);
    return opts->replace_convs && (layer->conv.stride[0] > 1 || layer->conv.stride[1] > 1) &&
           layer->in_channels >= opts->min_channels;
}

static vv_status replace_conv(void *ctx, vv_module *layer, int index, vv_module **out)
{
    const surgeon *s = ctx;
    (void)index;
    *out = NULL;
    return takes_conv(s->opts, layer) ? vv_blur_conv2d_new(out, layer, s->opts->blur_first) : VV_OK;
}

static vv_status replace_maxpool(void *ctx, vv_module *layer, int index, vv_module **out)
{
    const surgeon *s = ctx;
    (void)index;
    *out = NULL;
    return s->opts->replace_maxpools ? vv_blur_max_pool_new(out, vv_module_self(layer)) : VV_OK;
}

static vv_status check(const void *opts)
{
    const vv_blurpool_opts *o = opts;
    if (!o->replace_convs && !o->replace_maxpools)
        return vv_fail(VV_EINVAL, "replace_convs and replace_maxpools are both false, so there is "
                                  "nothing to do; set one of them");
    return VV_OK;
}

static const vv_blurpool_opts defaults = VV_BLURPOOL_DEFAULTS;

vv_status vv_apply_blurpool(vv_module *net, const vv_blurpool_opts *opts, vv_optimizer *optimizer,
                            int *count)
{
    surgeon s = {.opts = opts ? opts : &defaults};
    const vv_policy policies[] = {
        {&vv_conv2d_class, replace_conv, &s, &vv_blur_conv2d_class},
        {&vv_max_pool_class, replace_maxpool, &s, NULL},
    };
    if (count)
        *count = 0;
    if (!net)
        return vv_fail(VV_EINVAL, "blurpool: no net");
    VV_TRY(vv_fail_within(check(s.opts), "blurpool"));
    return vv_module_replace(net, policies, 2, optimizer, count);
}

static bool count_match(void *ctx, const char *path, vv_module *module)
{
    surgeon *s = ctx;
    if (path[0] == '\0')
        return true;
    if (vv_module_type(module) == &vv_conv2d_class)
        s->convs += takes_conv(s->opts, module);
    else if (vv_module_type(module) == &vv_max_pool_class)
        s->maxpools += s->opts->replace_maxpools;
    else if (vv_module_type(module) == &vv_blur_conv2d_class)
        s->convs -= takes_conv(s->opts, vv_module_child(module, 0));
    return true;
}

void vv_blurpool_matches(vv_module *net, const vv_blurpool_opts *opts, int *convs, int *maxpools)
{
    surgeon s = {.opts = opts ? opts : &defaults};
    vv_module_each(net, count_match, &s);
    if (convs)
        *convs = s.convs;
    if (maxpools)
        *maxpools = s.maxpools;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    vv_module *net = state->model->net;
    int count;
    (void)event;
    VV_TRY(vv_apply_blurpool(net, method->opts, state->optimizer, &count));
    method->effect += count;
    vv_log_metric(state, "blurpool/num_blurpool_layers",
                  vv_module_count(net, &vv_blur_max_pool_class));
    vv_log_metric(state, "blurpool/num_blurconv_layers",
                  vv_module_count(net, &vv_blur_conv2d_class));
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_blurpool_opts *opts = method->opts;
    int convs, maxpools;
    vv_blurpool_matches(state->model->net, opts, &convs, &maxpools);
    vv_str_addf(line, "blurs %s %d strided convolution%s and in %d max pooling%s",
                opts->blur_first ? "before" : "after", convs, convs == 1 ? "" : "s", maxpools,
                maxpools == 1 ? "" : "s");
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_blurpool_opts, member)
static const vv_field fields[] = {
    {"replace_convs", "Blur at convolutions with a stride above 1.", VV_FIELD_BOOL, AT(replace_convs),
     "true", 0, 0, NULL},
    {"replace_maxpools", "Blur in max poolings.", VV_FIELD_BOOL, AT(replace_maxpools), "true", 0, 0,
     NULL},
    {"blur_first", "Blur before the strided convolution; else after a convolution of stride 1, which "
                   "multiplies its cost by the stride's square.",
     VV_FIELD_BOOL, AT(blur_first), "true", 0, 0, NULL},
    {"min_channels", "Convolutions with fewer input channels stay as they are.", VV_FIELD_INT,
     AT(min_channels), "16", 0, 1e9, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_blurpool = {
    .desc = {.kind = "method",
             .name = "blurpool",
             .summary = "Blurs before each subsampling, so that shifts of the image matter less.",
             .cite =
                 "Zhang, Making Convolutional Networks Shift-Invariant Again (arXiv 1904.11486)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_blurpool_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .check = check,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_blurpool(const vv_blurpool_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_blurpool, opts) == VV_OK ? method : NULL;
}
