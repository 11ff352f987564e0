/* ghost_batchnorm.c - Ghost Batch Normalization (Hoffer et al., arXiv 1705.08741): layer, surgery,
 * method. */
#include "ghost_batchnorm.h"

/* ---- the layer ---- */

int64_t vv_ghost_chunks(int64_t rows, int64_t ghost_batch_size, int64_t *size)
{
    if (rows < 1 || ghost_batch_size < 1) {
        *size = rows;
        return rows > 0;
    }
    const int64_t aim = (rows + ghost_batch_size - 1) / ghost_batch_size;
    *size = (rows + aim - 1) / aim;
    return (rows + *size - 1) / *size;
}

/* Part of the batch whose chunks have equal sizes: its result, and the chunks' mean and unbiased
   variance summed with the weight of their rows. */
typedef struct part {
    vv_node *y, *mean, *var;
} part;

/* One norm over [chunks, rows, C] with a group per channel: each chunk has its own statistics. */
static part normalise(vv_node *x, int64_t chunks, vv_node *gamma, vv_node *beta, double eps,
                      double share)
{
    part p = {NULL, NULL, NULL};
    if (!x)
        return p;
    const int ndim = vv_node_ndim(x), within[] = {1}, over[] = {0};
    const int64_t channels = vv_node_shape(x)[ndim - 1];
    const int64_t values = vv_node_count(x) / channels / chunks; /* of a chunk and channel */
    const int64_t shape[3] = {chunks, values, channels};
    vv_node *cut = vv_reshape(x, 3, shape);
    p.y = vv_reshape(vv_group_norm(cut, gamma, beta, channels, eps), ndim, vv_node_shape(x));
    cut = vv_stop_gradient(cut);
    vv_node *mean = vv_mean(cut, within, 1, true);
    vv_node *var = vv_mean(vv_square(vv_sub(cut, mean)), within, 1, true);
    const int64_t flat[2] = {chunks, channels};
    p.mean = vv_affine(vv_mean(vv_reshape(mean, 2, flat), over, 1, false), share, 0.0);
    p.var = vv_affine(vv_mean(vv_reshape(var, 2, flat), over, 1, false),
                      share * (double)values / (double)(values - 1), 0.0);
    return p;
}

static vv_status update_running(vv_graph *graph, vv_module *bn, const part *p)
{
    const vv_batch_norm_layer *layer = vv_module_self(bn);
    vv_tensor *running[2] = {vv_module_buffer(bn, "running_mean"),
                             vv_module_buffer(bn, "running_var")};
    vv_tensor *counter = vv_module_buffer(bn, "num_batches_tracked");
    vv_node *const now[2] = {p->mean, p->var};
    for (int i = 0; i < 2; i++) {
        vv_node *kept = vv_affine(vv_leaf(graph, running[i]), 1.0 - layer->momentum, 0.0);
        vv_node *moved = vv_affine(now[i], layer->momentum, 0.0);
        VV_TRY(vv_update(graph, running[i], vv_add(kept, moved)));
    }
    vv_node *count = vv_affine(vv_cast(vv_leaf(graph, counter), VV_F64), 1.0, 1.0);
    return vv_update(graph, counter, vv_cast(count, VV_I64));
}

static bool frozen(const vv_module *bn)
{
    const vv_param *weight = vv_module_param(bn, "weight"), *bias = vv_module_param(bn, "bias");
    return weight && bias && weight->frozen && bias->frozen;
}

static vv_node *forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const int64_t *ghost = vv_module_self(module);
    vv_module *bn = vv_module_child(module, 0);
    const bool batch_norm = vv_module_type(bn) == &vv_batch_norm_class;
    if (!x || !batch_norm || !vv_module_training(module) || frozen(bn))
        return vv_module_forward(bn, graph, x);
    const vv_batch_norm_layer *layer = vv_module_self(bn);
    const int ndim = vv_node_ndim(x);
    const int64_t rows = vv_node_shape(x)[0];
    int64_t size;
    int64_t chunks = vv_ghost_chunks(rows, *ghost, &size);
    const int64_t values = vv_node_count(x) / vv_node_shape(x)[ndim - 1] / rows; /* of a row */
    /* Statistics need two values; a last chunk with one joins the others. */
    if (chunks > 1 && (rows - (chunks - 1) * size) * values < 2) {
        chunks--;
        size = (rows + chunks - 1) / chunks;
    }
    const int64_t whole = rows / size, done = whole * size;
    if (chunks == 1 || size * values < 2)
        return vv_module_forward(bn, graph, x);
    vv_node *gamma = vv_module_param_node(bn, graph, "weight");
    vv_node *beta = vv_module_param_node(bn, graph, "bias");
    part p = normalise(done < rows ? vv_slice(x, 0, 0, done, 1) : x, whole, gamma, beta, layer->eps,
                       (double)done / (double)rows);
    if (done < rows) {
        const part rest = normalise(vv_slice(x, 0, done, rows, 1), 1, gamma, beta, layer->eps,
                                    (double)(rows - done) / (double)rows);
        vv_node *const both[2] = {p.y, rest.y};
        p.y = vv_concat(both, 2, 0);
        p.mean = vv_add(p.mean, rest.mean);
        p.var = vv_add(p.var, rest.var);
    }
    const vv_status status = update_running(graph, bn, &p);
    return status == VV_OK ? p.y : vv_graph_fail(graph, status);
}

const vv_module_class vv_ghost_batchnorm_class = {"GhostBatchNorm", forward, NULL};

vv_status vv_ghost_batchnorm_new(vv_module **out, vv_module *bn, int64_t ghost_batch_size)
{
    vv_module *module = NULL;
    *out = NULL;
    if (!bn || vv_module_type(bn) != &vv_batch_norm_class)
        return vv_fail(VV_EINVAL, "GhostBatchNorm: needs a BatchNorm2d, not a %s",
                       bn ? vv_module_type(bn)->name : "NULL");
    if (ghost_batch_size < 1)
        return vv_fail(VV_EINVAL, "GhostBatchNorm: ghost_batch_size %lld must be at least 1",
                       (long long)ghost_batch_size);
    VV_TRY(vv_module_new(&module, &vv_ghost_batchnorm_class, sizeof(int64_t)));
    *(int64_t *)vv_module_self(module) = ghost_batch_size;
    const vv_status status = vv_module_add_child(module, "bn", vv_module_keep(bn));
    if (status != VV_OK) {
        vv_module_free(module);
        return status;
    }
    *out = module;
    return VV_OK;
}

/* ---- surgery ---- */

static vv_status replace(void *ctx, vv_module *layer, int index, vv_module **out)
{
    const vv_ghost_batchnorm_opts *opts = ctx;
    (void)index;
    return vv_ghost_batchnorm_new(out, layer, opts->ghost_batch_size);
}

vv_status vv_apply_ghost_batchnorm(vv_module *net, const vv_ghost_batchnorm_opts *opts,
                                   vv_optimizer *optimizer, int *count)
{
    vv_ghost_batchnorm_opts own = VV_GHOST_BATCHNORM_DEFAULTS;
    const vv_policy policy = {&vv_batch_norm_class, replace, &own, &vv_ghost_batchnorm_class};
    if (opts)
        own = *opts;
    if (count)
        *count = 0;
    if (!net)
        return vv_fail(VV_EINVAL, "ghost_batchnorm: no net");
    return vv_module_replace(net, &policy, 1, optimizer, count);
}

static bool count_match(void *ctx, const char *path, vv_module *module)
{
    int *count = ctx;
    if (path[0] != '\0' && vv_module_type(module) == &vv_batch_norm_class)
        ++*count;
    else if (vv_module_type(module) == &vv_ghost_batchnorm_class &&
             vv_module_type(vv_module_child(module, 0)) == &vv_batch_norm_class)
        --*count;
    return true;
}

int vv_ghost_batchnorm_matches(vv_module *net)
{
    int count = 0;
    vv_module_each(net, count_match, &count);
    return count;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    int count;
    (void)event;
    VV_TRY(vv_apply_ghost_batchnorm(state->model->net, method->opts, state->optimizer, &count));
    method->effect += count;
    vv_log_metric(state, "GhostBatchNorm/num_new_modules", count);
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_ghost_batchnorm_opts *opts = method->opts;
    const int count = vv_ghost_batchnorm_matches(state->model->net);
    vv_str_addf(line, "%d batch norm%s of parts of at most %lld rows of each microbatch", count,
                count == 1 ? " takes statistics" : "s take statistics",
                (long long)opts->ghost_batch_size);
    return vv_str_status(line);
}

static const vv_field fields[] = {
    {"ghost_batch_size", "Rows of a microbatch that are normalised together, at most.",
     VV_FIELD_INT, offsetof(vv_ghost_batchnorm_opts, ghost_batch_size), "32", 1, 1e9, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_ghost_batchnorm = {
    .desc = {.kind = "method",
             .name = "ghost_batchnorm",
             .summary = "Batch norm over parts of the batch, as if it were smaller.",
             .cite = "Hoffer et al., Train longer, generalize better (arXiv 1705.08741)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_ghost_batchnorm_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_ghost_batchnorm(const vv_ghost_batchnorm_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_ghost_batchnorm, opts) == VV_OK ? method : NULL;
}
