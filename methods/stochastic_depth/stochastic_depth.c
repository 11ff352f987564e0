/* stochastic_depth.c - Stochastic Depth (Huang et al., arXiv 1603.09382): blocks, surgery,
 * method. */
#include "stochastic_depth.h"

#include <math.h>

#include <vivace/memory.h>

/* ---- blocks ---- */

typedef struct depth_block {
    double rate; /* probability that the branch is left out */
} depth_block;

static vv_node *sum(const vv_residual *parts, vv_node *branch, vv_node *shortcut)
{
    vv_node *y = vv_add(branch, shortcut);
    return parts->relu ? vv_relu(y) : y;
}

/* x with the branch weighted by the share of steps in which it is there. A leaf's value, so that a
   growing rate does not change the plan. */
static vv_node *expected(vv_module *module, vv_graph *graph, vv_node *x, double rate)
{
    const vv_residual *parts = vv_module_residual(module);
    vv_node *y = vv_mul(parts->branch(module, graph, x), vv_scalar(graph, 1.0 - rate));
    return sum(parts, y, vv_residual_shortcut(module, graph, x));
}

static vv_node *block_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_residual *parts = vv_module_residual(module);
    const double rate = ((const depth_block *)vv_module_self(module))->rate;
    if (!x || !(rate > 0.0))
        return vv_residual_forward(module, graph, x);
    if (!vv_module_training(module))
        return expected(module, graph, x, rate);
    vv_rng rng = vv_graph_rng(graph);
    if (vv_rng_uniform(&rng) >= rate)
        return vv_residual_forward(module, graph, x);
    vv_node *y = vv_residual_shortcut(module, graph, x);
    return parts->relu && y != x ? vv_relu(y) : y;
}

static vv_node *sample_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_residual *parts = vv_module_residual(module);
    const double rate = ((const depth_block *)vv_module_self(module))->rate;
    if (!x || !(rate > 0.0))
        return vv_residual_forward(module, graph, x);
    if (!vv_module_training(module))
        return expected(module, graph, x, rate);
    const int ndim = vv_node_ndim(x);
    int64_t shape[VV_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        shape[i] = i == 0 ? vv_node_shape(x)[0] : 1;
    vv_node *branch = parts->branch(module, graph, x);
    vv_node *kept = vv_greater_equal(vv_random_uniform(graph, ndim, shape), vv_scalar(graph, rate));
    if (branch)
        branch = vv_mul(branch, vv_cast(kept, vv_node_dtype(branch)));
    return sum(parts, branch, vv_residual_shortcut(module, graph, x));
}

const vv_module_class vv_stochastic_block_class = {"StochasticBlock", block_forward, NULL};
const vv_module_class vv_stochastic_sample_class = {"StochasticSampleBlock", sample_forward, NULL};

static bool is_stochastic(const vv_module *module)
{
    const vv_module_class *type = vv_module_type(module);
    return type == &vv_stochastic_block_class || type == &vv_stochastic_sample_class;
}

/* A block of another class over the same children. */
static vv_status stochastic_new(vv_module **out, vv_module *block, vv_depth_method method)
{
    VV_TRY(vv_module_new(out, method == VV_DEPTH_BLOCK ? &vv_stochastic_block_class
                                                       : &vv_stochastic_sample_class,
                         sizeof(depth_block)));
    vv_module_set_residual(*out, vv_module_residual(block));
    for (int i = 0; i < vv_module_child_count(block); i++) {
        const vv_status status = vv_module_add_child(*out, vv_module_child_name(block, i),
                                                     vv_module_keep(vv_module_child(block, i)));
        if (status != VV_OK) {
            vv_module_free(*out);
            *out = NULL;
            return status;
        }
    }
    return VV_OK;
}

/* ---- rates ---- */

double vv_depth_rate_at(double drop_rate, vv_depth_distribution distribution, int index, int count)
{
    return distribution == VV_DEPTH_UNIFORM ? drop_rate
                                            : (double)(index + 1) / (double)count * drop_rate;
}

typedef struct rates {
    double drop_rate;
    vv_depth_distribution distribution;
    int count, index;
} rates;

static bool count_block(void *ctx, const char *path, vv_module *module)
{
    rates *r = ctx;
    (void)path;
    r->count += is_stochastic(module);
    return true;
}

static bool set_block(void *ctx, const char *path, vv_module *module)
{
    rates *r = ctx;
    (void)path;
    if (is_stochastic(module))
        ((depth_block *)vv_module_self(module))->rate =
            vv_depth_rate_at(r->drop_rate, r->distribution, r->index++, r->count);
    return true;
}

void vv_stochastic_depth_set_rate(vv_module *net, double drop_rate,
                                  vv_depth_distribution distribution)
{
    rates r = {drop_rate, distribution, 0, 0};
    vv_module_each(net, count_block, &r);
    vv_module_each(net, set_block, &r);
}

double vv_stochastic_depth_rate(vv_module *block)
{
    return is_stochastic(block) ? ((const depth_block *)vv_module_self(block))->rate : (double)NAN;
}

/* ---- surgery ---- */

/* One policy per class of residual blocks met. */
typedef struct surgeon {
    vv_depth_method method;
    vv_policy *policies;
    int kinds, blocks;
    vv_status status;
} surgeon;

static vv_status replace(void *ctx, vv_module *layer, int index, vv_module **out)
{
    const surgeon *s = ctx;
    (void)index;
    *out = NULL;
    return vv_module_residual(layer) ? stochastic_new(out, layer, s->method) : VV_OK;
}

static bool list_kind(void *ctx, const char *path, vv_module *module)
{
    surgeon *s = ctx;
    if (path[0] == '\0' || !vv_module_residual(module) || is_stochastic(module))
        return true;
    s->blocks++;
    for (int i = 0; i < s->kinds; i++)
        if (s->policies[i].type == vv_module_type(module))
            return true;
    s->status = vv_realloc_array(&s->policies, (size_t)s->kinds + 1, sizeof *s->policies);
    if (s->status != VV_OK)
        return false;
    s->policies[s->kinds++] = (vv_policy){vv_module_type(module), replace, s, NULL};
    return true;
}

static bool count_residual(void *ctx, const char *path, vv_module *module)
{
    *(int *)ctx += path[0] != '\0' && vv_module_residual(module) && !is_stochastic(module);
    return true;
}

int vv_stochastic_depth_matches(vv_module *net)
{
    int count = 0;
    vv_module_each(net, count_residual, &count);
    return count;
}

static bool warms_up(const vv_stochastic_depth_opts *o)
{
    const vv_time t = o->drop_warmup;
    return !vv_time_is_none(t) && (t.count > 0 || t.fraction > 0.0);
}

static vv_status check(const void *opts)
{
    const vv_stochastic_depth_opts *o = opts;
    if (!(o->drop_rate >= 0.0 && o->drop_rate <= 1.0))
        return vv_fail(VV_EINVAL, "drop_rate %g is outside [0, 1]", o->drop_rate);
    if (warms_up(o) && o->stochastic_method == VV_DEPTH_SAMPLE)
        return vv_fail(VV_EINVAL, "drop_warmup works with stochastic_method block only; set it to "
                                  "0dur");
    return VV_OK;
}

static const vv_stochastic_depth_opts defaults = VV_STOCHASTIC_DEPTH_DEFAULTS;

vv_status vv_apply_stochastic_depth(vv_module *net, const vv_stochastic_depth_opts *opts,
                                    vv_optimizer *optimizer, int *count)
{
    const vv_stochastic_depth_opts *o = opts ? opts : &defaults;
    surgeon s = {.method = (vv_depth_method)o->stochastic_method};
    if (count)
        *count = 0;
    if (!net)
        return vv_fail(VV_EINVAL, "stochastic_depth: no net");
    VV_TRY(vv_fail_within(check(o), "stochastic_depth"));
    vv_module_each(net, list_kind, &s);
    vv_status status = s.status;
    if (status == VV_OK && s.kinds > 0)
        status = vv_module_replace(net, s.policies, s.kinds, optimizer, count);
    if (status == VV_OK)
        vv_stochastic_depth_set_rate(net, o->drop_rate,
                                     (vv_depth_distribution)o->drop_distribution);
    vv_dealloc(s.policies);
    return status;
}

/* ---- the Trainer's method ---- */

/* How far the warm-up is, at least 1 from its end on: by the share of the run, whatever its unit,
   or by batches. */
static vv_status warmth(const vv_stochastic_depth_opts *o, const vv_state *state, double *out)
{
    double batches;
    *out = 1.0;
    if (!warms_up(o))
        return VV_OK;
    if (o->drop_warmup.unit == VV_UNIT_DURATION) {
        *out = state->progress / o->drop_warmup.fraction;
        return VV_OK;
    }
    VV_TRY(vv_fail_within(vv_time_to_batches(&batches, o->drop_warmup, &state->axis),
                          "drop_warmup"));
    *out = (double)state->time.batch / batches;
    return VV_OK;
}

/* The rate that the coming batch trains with, and that holds until it ends. */
static vv_status set_rate(const vv_stochastic_depth_opts *o, vv_state *state, bool log)
{
    double part;
    if (!state->train_loader) /* evaluation of what has been trained */
        return VV_OK;
    VV_TRY(warmth(o, state, &part));
    const double rate = part < 1.0 ? part * o->drop_rate : o->drop_rate;
    vv_stochastic_depth_set_rate(state->model->net, rate,
                                 (vv_depth_distribution)o->drop_distribution);
    if (log && warms_up(o))
        vv_log_metric(state, "stochastic_depth/drop_rate", rate);
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_stochastic_depth_opts *opts = method->opts;
    int count;
    if (event != VV_EVENT_INIT)
        return set_rate(opts, state, event == VV_EVENT_BATCH_START);
    VV_TRY(vv_apply_stochastic_depth(state->model->net, opts, state->optimizer, &count));
    method->effect += count;
    vv_log_metric(state, "stochastic_depth/num_stochastic_layers", count);
    return set_rate(opts, state, false);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_stochastic_depth_opts *opts = method->opts;
    const int count = vv_stochastic_depth_matches(state->model->net);
    char text[64];
    double part;
    if (state->train_loader)
        VV_TRY(warmth(opts, state, &part)); /* what cannot be resolved fails here */
    vv_str_addf(line, "leaves out the branches of %d residual block%s, %s, with probability ",
                count, count == 1 ? "" : "s",
                opts->stochastic_method == VV_DEPTH_BLOCK ? "for whole batches"
                                                          : "for single samples");
    if (opts->drop_distribution == VV_DEPTH_LINEAR && count > 0)
        vv_str_addf(line, "%g to ", vv_depth_rate_at(opts->drop_rate, VV_DEPTH_LINEAR, 0, count));
    vv_str_addf(line, "%g", opts->drop_rate);
    if (warms_up(opts))
        vv_str_addf(line, ", growing from 0 over %s",
                    vv_time_text(opts->drop_warmup, text, sizeof text));
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_stochastic_depth_opts, member)
static const char *const methods[] = {"block", "sample", NULL};
static const char *const distributions[] = {"linear", "uniform", NULL};
static const vv_field fields[] = {
    {"stochastic_method", "block: a branch is left out for the whole batch, and its work saved; "
                          "sample: for single samples.",
     VV_FIELD_CHOICE, AT(stochastic_method), "block", 0, 0, methods},
    {"drop_rate", "Probability that the last block's branch is left out.", VV_FIELD_FLOAT,
     AT(drop_rate), "0.2", 0, 1, NULL},
    {"drop_distribution", "linear: rates grow from block to block; uniform: they are equal.",
     VV_FIELD_CHOICE, AT(drop_distribution), "linear", 0, 0, distributions},
    {"drop_warmup", "Time over which the rates grow from 0; for stochastic_method block only.",
     VV_FIELD_TIME, AT(drop_warmup), "0dur", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_stochastic_depth = {
    .desc = {.kind = "method",
             .name = "stochastic_depth",
             .summary = "Leaves residual branches out at random during training.",
             .cite = "Huang et al., Deep Networks with Stochastic Depth (arXiv 1603.09382)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_stochastic_depth_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_LOAD) |
              VV_EVENT_BIT(VV_EVENT_BATCH_START),
    .required_on_load = true,
    .check = check,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_stochastic_depth(const vv_stochastic_depth_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_stochastic_depth, opts) == VV_OK ? method : NULL;
}
