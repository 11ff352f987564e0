/* init.c - initialisers: PyTorch's defaults and the named ones of recipes.
 *
 * Each parameter's draws are the sequence (seed, "init/<path>"), so that a layer more or less
 * leaves the values of all others as they were. */
#include "nn/module.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "vvi_config.h"

typedef enum vvi_init {
    INIT_KAIMING_NORMAL,
    INIT_KAIMING_UNIFORM,
    INIT_XAVIER_UNIFORM,
    INIT_XAVIER_NORMAL,
    INIT_BN_UNIFORM,
    INIT_BN_ONES,
    INIT_LINEAR_LOG_CONSTANT_BIAS,
    INIT_KAIMING_NORMAL_FAN_OUT,
    INIT_COUNT,
    INIT_DEFAULT = INIT_COUNT,
} vvi_init;

static const char *const init_names[INIT_COUNT] = {
    "kaiming_normal", "kaiming_uniform", "xavier_uniform",           "xavier_normal",
    "bn_uniform",     "bn_ones",         "linear_log_constant_bias", "kaiming_normal_fan_out",
};

static vv_rng rng_of(uint64_t seed, const char *path, const char *name)
{
    char stream[VVI_PATH_BYTES + VVI_NAME_BYTES + 8];
    char full[VVI_PATH_BYTES + VVI_NAME_BYTES];

    snprintf(stream, sizeof stream, "init/%s", vvi_name_join(full, sizeof full, path, name));
    return vv_rng_at(seed, stream, 0);
}

/* Where a draw goes. */
typedef struct vvi_draw {
    uint64_t seed;
    const char *path;
    const vv_module *module;
} vvi_draw;

static void uniform(vv_tensor *tensor, double lo, double hi, vv_rng rng)
{
    for (int64_t i = 0; i < tensor->count; i++)
        ((float *)tensor->data)[i] = (float)(lo + (hi - lo) * 0x1p-32 * (double)vv_rng_u32(&rng));
}

/* Box and Muller 1958, both numbers of a pair: twice as fast as drawing them one by one. */
static void normal_pair(vv_rng *rng, double std, float out[2])
{
    double radius = std * sqrt(-2.0 * log(0x1p-32 * ((double)vv_rng_u32(rng) + 1.0)));
    double angle = 2.0 * 3.14159265358979323846 * 0x1p-32 * (double)vv_rng_u32(rng);

    out[0] = (float)(radius * cos(angle));
    out[1] = (float)(radius * sin(angle));
}

static void normal(vv_tensor *tensor, double std, vv_rng rng)
{
    for (int64_t i = 0; i < tensor->count; i += 2) {
        float pair[2];

        normal_pair(&rng, std, pair);
        ((float *)tensor->data)[i] = pair[0];
        if (i + 1 < tensor->count)
            ((float *)tensor->data)[i + 1] = pair[1];
    }
}

/* The standard normal deviate below which lies the share p (0 < p < 1), to 7 digits: Wichura,
   algorithm AS 241 (PPND7), Applied Statistics 37, 1988. */
static float deviate(double p)
{
    const double q = p - 0.5;
    double r, x;

    if (fabs(q) <= 0.425) {
        r = 0.180625 - q * q;
        return (float)(q *
                       (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
                       (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0));
    }
    r = sqrt(-log(q < 0.0 ? p : 1.0 - p));
    if (r <= 5.0) {
        r -= 1.6;
        x = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
            ((0.12021132975 * r + 0.73700164250) * r + 1.0);
    } else {
        r -= 5.0;
        x = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
            ((0.012258202635 * r + 0.24197894225) * r + 1.0);
    }
    return (float)(q < 0.0 ? -x : x);
}

/* One number of the stream each, so that a table of millions fills in a moment on any number of
   threads. */
void vv_param_fill_normal(vv_param *param, double std, uint64_t seed, const char *path)
{
    const vv_rng rng = rng_of(seed, "", path);
    const int64_t count = param->value->count, blocks = (count + 3) / 4;
    const float scale = (float)std;
    float *out = param->value->data;

#if VVI_HAVE_OPENMP
#pragma omp parallel for schedule(static) num_threads(vv_threads()) if (count >= 32768)
#endif
    for (int64_t b = 0; b < blocks; b++) {
        const uint32_t counter[4] = {rng.counter[0] + (uint32_t)b, rng.counter[1], rng.counter[2],
                                     rng.counter[3]};
        uint32_t draws[4];

        vv_philox4x32(rng.key, counter, draws);
        for (int64_t i = 4 * b; i < count && i < 4 * b + 4; i++)
            out[i] = scale * deviate(0x1p-32 * ((double)draws[i - 4 * b] + 0.5));
    }
}

void vv_param_fill_uniform(vv_param *param, double lo, double hi, uint64_t seed, const char *path)
{
    uniform(param->value, lo, hi, rng_of(seed, "", path));
}

static void fill_uniform(const vvi_draw *draw, const char *name, double lo, double hi)
{
    const vv_param *param = vv_module_param(draw->module, name);

    if (param)
        uniform(param->value, lo, hi, rng_of(draw->seed, draw->path, name));
}

static void fill_normal(const vvi_draw *draw, const char *name, double std)
{
    const vv_param *param = vv_module_param(draw->module, name);

    if (param)
        normal(param->value, std, rng_of(draw->seed, draw->path, name));
}

static void fill_constant(const vvi_draw *draw, const char *name, double value)
{
    const vv_param *param = vv_module_param(draw->module, name);

    if (param)
        vv_tensor_fill(param->value, value);
}

static bool is_conv(const vv_module *module)
{
    return module->type == &vv_conv2d_class || module->type == &vv_conv_transpose2d_class;
}

static bool is_linear(const vv_module *module)
{
    return module->type == &vv_linear_class;
}

static bool is_batch_norm(const vv_module *module)
{
    return module->type == &vv_batch_norm_class;
}

/* As PyTorch counts: the weight's second dimension (first for fan out) times its kernel. */
static double fan(const vv_module *module, int dim)
{
    const vv_param *weight = vv_module_param(module, "weight");
    double count = 1.0;

    for (int i = 0; weight && i < weight->value->ndim; i++)
        if (i != 1 - dim)
            count *= (double)weight->value->shape[i];
    return count;
}

static void init_weight(const vvi_draw *draw, vvi_init what)
{
    double fan_in = fan(draw->module, 1), fan_out = fan(draw->module, 0);
    double bound;

    switch (what) {
    case INIT_KAIMING_NORMAL: /* He et al., arXiv 1502.01852, for ReLU */
        fill_normal(draw, "weight", sqrt(2.0 / fan_in));
        break;
    case INIT_KAIMING_NORMAL_FAN_OUT:
        fill_normal(draw, "weight", sqrt(2.0 / fan_out));
        break;
    case INIT_KAIMING_UNIFORM:
        bound = sqrt(6.0 / fan_in);
        fill_uniform(draw, "weight", -bound, bound);
        break;
    case INIT_XAVIER_UNIFORM: /* Glorot & Bengio, AISTATS 2010 */
        bound = sqrt(6.0 / (fan_in + fan_out));
        fill_uniform(draw, "weight", -bound, bound);
        break;
    case INIT_XAVIER_NORMAL:
        fill_normal(draw, "weight", sqrt(2.0 / (fan_in + fan_out)));
        break;
    case INIT_DEFAULT: /* kaiming uniform with a = sqrt(5) */
        bound = 1.0 / sqrt(fan_in);
        fill_uniform(draw, "weight", -bound, bound);
        fill_uniform(draw, "bias", -bound, bound);
        break;
    default:
        break;
    }
}

static void init_default(const vvi_draw *draw)
{
    const vv_module_class *type = draw->module->type;

    if (is_conv(draw->module) || is_linear(draw->module)) {
        init_weight(draw, INIT_DEFAULT);
    } else if (type == &vv_embedding_class) {
        fill_normal(draw, "weight", 1.0);
    } else if (is_batch_norm(draw->module) || type == &vv_layer_norm_class ||
               type == &vv_rms_norm_class || type == &vv_group_norm_class) {
        fill_constant(draw, "weight", 1.0);
        fill_constant(draw, "bias", 0.0);
    }
}

/* One initialiser on one layer; layers it is not meant for stay as they are. */
static void init_layer(const vvi_draw *draw, vvi_init what)
{
    const vv_module *module = draw->module;
    const vv_param *bias = vv_module_param(module, "bias");

    switch (what) {
    case INIT_BN_UNIFORM:
        if (is_batch_norm(module)) {
            fill_uniform(draw, "weight", 0.0, 1.0);
            fill_constant(draw, "bias", 0.0);
        }
        break;
    case INIT_BN_ONES:
        if (is_batch_norm(module)) {
            fill_constant(draw, "weight", 1.0);
            fill_constant(draw, "bias", 0.0);
        }
        break;
    case INIT_LINEAR_LOG_CONSTANT_BIAS: /* sigmoid's first probability is about 1 / classes */
        if (is_linear(module) && bias)
            fill_constant(draw, "bias", -log((double)bias->value->count));
        break;
    case INIT_DEFAULT:
        init_default(draw);
        break;
    case INIT_KAIMING_NORMAL_FAN_OUT:
        if (module->type == &vv_conv2d_class)
            init_weight(draw, what);
        break;
    default:
        if (module->type == &vv_conv2d_class || is_linear(module))
            init_weight(draw, what);
        break;
    }
}

typedef struct vvi_init_list {
    uint64_t seed;
    vvi_init items[2 * INIT_COUNT];
    int count;
} vvi_init_list;

static bool init_visit(void *ctx, const char *path, vv_module *module)
{
    const vvi_init_list *list = ctx;
    const vvi_draw draw = {list->seed, path, module};

    for (int i = 0; i < list->count; i++)
        init_layer(&draw, list->items[i]);
    return true;
}

static const char *name_at(const void *ctx, int i)
{
    (void)ctx;
    return init_names[i];
}

static vv_status list_add(vvi_init_list *list, const char *name, size_t length)
{
    char word[VVI_NAME_BYTES];
    int near;

    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (int i = 0; i < INIT_COUNT; i++) {
        if (strcmp(word, init_names[i]))
            continue;
        if (list->count == 2 * INIT_COUNT)
            return vv_fail(VV_EINVAL, "initializers: more than %d names; each is needed once",
                           2 * INIT_COUNT);
        list->items[list->count++] = (vvi_init)i;
        return VV_OK;
    }
    near = vv_nearest(word, name_at, NULL, INIT_COUNT);
    return vv_fail(VV_EINVAL, "initializers: there is no \"%s\"%s%s%s", word,
                   near >= 0 ? "; did you mean \"" : "", near >= 0 ? init_names[near] : "",
                   near >= 0 ? "\"?" : "; see vv_module_init in nn.h");
}

vv_status vv_module_init(vv_module *module, const char *names, uint64_t seed)
{
    static const char blank[] = " \t";
    vvi_init_list list = {.seed = seed};

    while (names && *names) {
        size_t length = strcspn(names, ",");
        size_t lead = strspn(names, blank);
        size_t end = length;

        while (end > lead && strchr(blank, names[end - 1]))
            end--;
        if (lead < end)
            VV_TRY(list_add(&list, names + lead, end - lead));
        names += length + (names[length] == ',');
    }
    vv_module_each(module, init_visit, &list);
    return VV_OK;
}

vv_status vv_module_init_default(vv_module *module, uint64_t seed)
{
    vvi_init_list list = {.seed = seed, .items = {INIT_DEFAULT}, .count = 1};

    vv_module_each(module, init_visit, &list);
    return VV_OK;
}
