/* factorized_layers.c - pairs of thin layers, and their weights from those of a wide one. */
#include "factorize.h"

#include <string.h>

#include <vivace/linalg.h>
#include <vivace/memory.h>

static vv_node *forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    x = vv_module_forward(vv_module_child(module, 0), graph, x);
    return vv_module_forward(vv_module_child(module, 1), graph, x);
}

const vv_module_class vv_factorized_conv2d_class = {"FactorizedConv2d", forward, NULL};
const vv_module_class vv_factorized_linear_class = {"FactorizedLinear", forward, NULL};

int64_t vv_factorize_break_even(int64_t fan_in, int64_t out)
{
    /* ceil(a / b - 1) = ceil(a / b) - 1 in whole numbers. */
    return (fan_in * out + fan_in + out - 1) / (fan_in + out) - 1;
}

static vv_status check_latent(const char *what, int64_t latent, int64_t fan_in, int64_t out)
{
    const int64_t most = vv_factorize_break_even(fan_in, out);
    if (latent < 1 || latent > most)
        return vv_fail(VV_EINVAL, "%s: a width of %lld is outside [1, %lld], where it saves work",
                       what, (long long)latent, (long long)most);
    return VV_OK;
}

static float *weight_of(const vv_module *module)
{
    return vv_module_param(module, "weight")->value->data;
}

/* The two parts' weights from one matrix [rows,cols]: module1 * module0 ~ matrix. */
static vv_status split(vv_module *pair, const float *matrix, int64_t rows, int64_t cols,
                       int64_t rank)
{
    return vv_low_rank(matrix, rows, cols, rank, weight_of(vv_module_child(pair, 1)),
                       weight_of(vv_module_child(pair, 0)));
}

static void copy_bias(const vv_module *from, const vv_module *to)
{
    const vv_param *a = vv_module_param(from, "bias"), *b = vv_module_param(to, "bias");
    if (a && b)
        memcpy(b->value->data, a->value->data, a->value->bytes);
}

static vv_status add(vv_module *pair, const char *name, vv_status made, vv_module *part)
{
    return made == VV_OK ? vv_module_add_child(pair, name, part) : made;
}

static vv_status conv_pair(vv_module **out, const vv_conv2d_layer *layer, int64_t in,
                           int64_t channels, int64_t latent)
{
    const vv_conv_opts plain = VV_CONV_DEFAULTS;
    vv_status status = VV_OK;
    vv_module *pair = NULL, *part = NULL;
    VV_GO(vv_module_new(&pair, &vv_factorized_conv2d_class, 0));
    status = vv_conv2d_new(&part, in, latent, layer->kernel[0], &layer->conv, false);
    VV_GO(add(pair, "module0", status, part));
    status = vv_conv2d_new(&part, latent, channels, 1, &plain, true);
    VV_GO(add(pair, "module1", status, part));
    *out = pair;
    pair = NULL;
out:
    vv_module_free(pair);
    return status;
}

static vv_status linear_pair(vv_module **out, int64_t in, int64_t features, int64_t latent,
                             bool bias)
{
    vv_status status = VV_OK;
    vv_module *pair = NULL, *part = NULL;
    VV_GO(vv_module_new(&pair, &vv_factorized_linear_class, 0));
    status = vv_linear_new(&part, in, latent, false);
    VV_GO(add(pair, "module0", status, part));
    status = vv_linear_new(&part, latent, features, bias);
    VV_GO(add(pair, "module1", status, part));
    *out = pair;
    pair = NULL;
out:
    vv_module_free(pair);
    return status;
}

static vv_status need(const char *what, vv_module *layer, const vv_module_class *type)
{
    if (layer && vv_module_type(layer) == type)
        return VV_OK;
    return vv_fail(VV_EINVAL, "%s: needs a %s, not a %s", what, type->name,
                   layer ? vv_module_type(layer)->name : "NULL");
}

/* Weights as `start` says; frees *out on failure. */
static vv_status begin(vv_module **out, vv_module *layer, int64_t rows, int64_t cols,
                       int64_t latent, vv_factorize_start start)
{
    if (start == VV_FACTORIZE_FRESH)
        return VV_OK;
    copy_bias(layer, vv_module_child(*out, 1));
    const vv_status status = split(*out, weight_of(layer), rows, cols, latent);
    if (status != VV_OK) {
        vv_module_free(*out);
        *out = NULL;
    }
    return status;
}

vv_status vv_factorized_conv2d_new(vv_module **out, vv_module *conv, int64_t latent,
                                   vv_factorize_start start)
{
    static const char what[] = "FactorizedConv2d";
    *out = NULL;
    VV_TRY(need(what, conv, &vv_conv2d_class));
    const vv_conv2d_layer *layer = vv_module_self(conv);
    const int64_t fan_in = layer->in_channels * layer->kernel[0] * layer->kernel[1];
    if (layer->conv.groups != 1 || layer->kernel[0] != layer->kernel[1])
        return vv_fail(VV_EUNSUPPORTED, "%s: grouped convolutions (%lld groups) and kernels that "
                                        "are not square cannot be factorized",
                       what, (long long)layer->conv.groups);
    VV_TRY(check_latent(what, latent, fan_in, layer->out_channels));
    VV_TRY(conv_pair(out, layer, layer->in_channels, layer->out_channels, latent));
    return begin(out, conv, layer->out_channels, fan_in, latent, start);
}

vv_status vv_factorized_linear_new(vv_module **out, vv_module *linear, int64_t latent,
                                   vv_factorize_start start)
{
    static const char what[] = "FactorizedLinear";
    *out = NULL;
    VV_TRY(need(what, linear, &vv_linear_class));
    const vv_linear_layer *layer = vv_module_self(linear);
    VV_TRY(check_latent(what, latent, layer->in_features, layer->out_features));
    VV_TRY(linear_pair(out, layer->in_features, layer->out_features, latent, layer->bias));
    return begin(out, linear, layer->out_features, layer->in_features, latent, start);
}

/* module1 [rows,latent] * module0 [latent,cols]. */
static vv_status product(float **out, vv_module *pair, int64_t rows, int64_t latent, int64_t cols)
{
    const float *left = weight_of(vv_module_child(pair, 1));
    const float *right = weight_of(vv_module_child(pair, 0));
    VV_TRY(vv_alloc_array(out, (size_t)rows * (size_t)cols, sizeof(float)));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t r = 0; r < latent; r++)
            for (int64_t k = 0; k < cols; k++)
                (*out)[i * cols + k] += left[i * latent + r] * right[r * cols + k];
    return VV_OK;
}

vv_status vv_factorized_set_rank(vv_module **out, vv_module *layer, int64_t latent)
{
    vv_status status = VV_OK;
    float *matrix = NULL;
    vv_module *pair = NULL;
    *out = NULL;
    const bool conv = layer && vv_module_type(layer) == &vv_factorized_conv2d_class;
    if (!conv && (!layer || vv_module_type(layer) != &vv_factorized_linear_class))
        return vv_fail(VV_EINVAL, "factorize: set_rank needs a factorized layer, not a %s",
                       layer ? vv_module_type(layer)->name : "NULL");
    const vv_tensor *first = vv_module_param(vv_module_child(layer, 0), "weight")->value;
    const vv_tensor *second = vv_module_param(vv_module_child(layer, 1), "weight")->value;
    const int64_t now = first->shape[0], cols = first->count / now, rows = second->shape[0];
    if (latent < 1 || latent > now)
        return vv_fail(VV_EINVAL, "factorize: a rank of %lld is outside [1, %lld], the layer's own",
                       (long long)latent, (long long)now);
    if (conv)
        VV_GO(conv_pair(&pair, vv_module_self(vv_module_child(layer, 0)), first->shape[1], rows,
                        latent));
    else
        VV_GO(linear_pair(&pair, cols, rows, latent,
                          vv_module_param(vv_module_child(layer, 1), "bias") != NULL));
    copy_bias(vv_module_child(layer, 1), vv_module_child(pair, 1));
    VV_GO(product(&matrix, layer, rows, now, cols));
    VV_GO(split(pair, matrix, rows, cols, latent));
    *out = pair;
    pair = NULL;
out:
    vv_module_free(pair);
    vv_dealloc(matrix);
    return status;
}
