/* layer_freezing.c - early layers stop learning, one after the other (Raghu et al., arXiv
 * 1706.05806): a frozen parameter's gradient is asked for by nobody, so the graph computes none. */
#include "layer_freezing.h"

double vv_layer_freezing_share(double progress, double freeze_start, double freeze_level)
{
    if (progress <= freeze_start)
        return 0.0;
    return freeze_level * (progress - freeze_start) / (1.0 - freeze_start);
}

static bool has_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    (void)owner;
    (void)param;
    *(bool *)ctx = true;
    return false;
}

typedef struct walk {
    int layers, freeze; /* met so far; to freeze */
} walk;

static bool visit(void *ctx, const char *path, vv_module *module)
{
    walk *w = ctx;
    bool found = false;
    (void)path;
    if (vv_module_child_count(module) > 0)
        return true;
    vv_module_each_param(module, has_param, &found);
    if (found && w->layers++ < w->freeze)
        vv_module_set_frozen(module, true);
    return true;
}

static int layer_count(vv_module *net)
{
    walk w = {0, 0};
    vv_module_each(net, visit, &w);
    return w.layers;
}

static int depth_at(int layers, double share)
{
    return layers > 0 ? (int)(share * (layers - 1)) : 0;
}

static void freeze(vv_module *net, int depth)
{
    walk w = {0, depth};
    vv_module_each(net, visit, &w);
}

double vv_freeze_layers(vv_module *net, double progress, double freeze_start, double freeze_level,
                        int *depth)
{
    const double share = vv_layer_freezing_share(progress, freeze_start, freeze_level);
    const int count = depth_at(layer_count(net), share);
    freeze(net, count);
    if (depth)
        *depth = count;
    return share;
}

/* ---- the Trainer's method ---- */

typedef struct freezer {
    int64_t depth;
} freezer;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_layer_freezing_opts *opts = method->opts;
    freezer *self = method->self;
    int depth;
    (void)event;
    if (opts->by_epoch && state->time.batch_in_epoch != 0)
        return VV_OK;
    const double share = vv_freeze_layers(state->model->net, state->progress, opts->freeze_start,
                                          opts->freeze_level, &depth);
    if (depth <= self->depth)
        return VV_OK;
    self->depth = method->effect = depth;
    vv_log_metric(state, "layer_freezing/layers_frozen", depth);
    vv_log_metric(state, "layer_freezing/percentage_frozen", share);
    return VV_OK;
}

static vv_status save(vv_method *method, vv_record *record)
{
    const freezer *self = method->self;
    return vv_record_set_int(record, "depth", self->depth);
}

/* Which parameters are frozen is in every checkpoint; the depth says it for the log. */
static vv_status load(vv_method *method, const vv_record *record)
{
    freezer *self = method->self;
    return vv_record_get_int(record, "depth", &self->depth);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_layer_freezing_opts *opts = method->opts;
    const int layers = layer_count(state->model->net);
    vv_str_addf(line,
                "freezes up to %d of %d layers, the first ones first, from %g of the run on%s",
                depth_at(layers, opts->freeze_level), layers, opts->freeze_start,
                opts->by_epoch ? ", at epochs" : "");
    return vv_str_status(line);
}

static const vv_field fields[] = {
    {"freeze_start", "Share of the run after which layers begin to freeze.", VV_FIELD_FLOAT,
     offsetof(vv_layer_freezing_opts, freeze_start), "0.5", 0, 1, NULL},
    {"freeze_level", "Share of the layers that are frozen at the end; the last one never is.",
     VV_FIELD_FLOAT, offsetof(vv_layer_freezing_opts, freeze_level), "1", 0, 1, NULL},
    {"by_epoch", "Freeze at the start of epochs only, as Composer does, instead of at any batch.",
     VV_FIELD_BOOL, offsetof(vv_layer_freezing_opts, by_epoch), "false", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_layer_freezing = {
    .desc = {.kind = "method",
             .name = "layer_freezing",
             .summary = "Stops training early layers one after the other.",
             .cite = "Raghu et al., SVCCA (arXiv 1706.05806)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_layer_freezing_opts)},
    .phase = VV_PHASE_WEIGHTS,
    .events = VV_EVENT_BIT(VV_EVENT_BATCH_START),
    .self_size = sizeof(freezer),
    .apply = apply,
    .plan = plan,
    .save = save,
    .load = load,
};

vv_method *vv_layer_freezing(double freeze_start, double freeze_level)
{
    vv_layer_freezing_opts opts = VV_LAYER_FREEZING_DEFAULTS;
    vv_method *method = NULL;
    opts.freeze_start = freeze_start;
    opts.freeze_level = freeze_level;
    return vv_method_new(&method, &vv_method_layer_freezing, &opts) == VV_OK ? method : NULL;
}
