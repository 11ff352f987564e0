/* freeze.c - parts of a model that do not learn, for good or for a while (Yosinski et al., arXiv
 * 1411.1792; gradual unfreezing: Howard & Ruder, arXiv 1801.06146). */
#include "freeze.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static const vv_freeze_opts defaults = VV_FREEZE_DEFAULTS;

/* ---- which parameters ---- */

/* One of the comma-separated patterns names the path or something it lies in. */
static bool listed(const char *patterns, const char *path)
{
    char pattern[1024], above[1028];
    for (const char *at = patterns; *at;) {
        at += strspn(at, ", ");
        const size_t length = strcspn(at, ",");
        size_t kept = length;
        while (kept > 0 && at[kept - 1] == ' ')
            kept--;
        if (kept > 0 && kept < sizeof pattern) {
            snprintf(pattern, sizeof pattern, "%.*s", (int)kept, at);
            snprintf(above, sizeof above, "%s.*", pattern);
            if (fnmatch(pattern, path, 0) == 0 || fnmatch(above, path, 0) == 0)
                return true;
        }
        at += length;
    }
    return false;
}

typedef struct walk {
    const vv_freeze_opts *opts;
    const vv_module *last;  /* with patterns "": the layer that always learns */
    const vv_module *owner; /* of the parameter before, if it was named */
    int layers, hold;       /* named so far; how many of them are to be frozen */
    int frozen;
    bool change;
} walk;

static bool find_last(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    (void)param;
    *(const vv_module **)ctx = owner;
    return true;
}

static bool is_named(const walk *w, const char *path, const vv_module *owner)
{
    const bool chosen = w->opts->patterns[0] ? listed(w->opts->patterns, path) : owner != w->last;
    return chosen && !listed(w->opts->except, path);
}

static bool visit(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    walk *w = ctx;
    if (!is_named(w, path, owner))
        return true;
    if (w->layers == 0 || owner != w->owner) {
        w->owner = owner;
        w->layers++;
        w->frozen += w->layers <= w->hold;
    }
    if (w->change)
        param->frozen = w->layers <= w->hold;
    return true;
}

static walk go(vv_module *net, const vv_freeze_opts *opts, int hold, bool change)
{
    walk w = {.opts = opts, .hold = hold, .change = change};
    vv_module_each_param(net, find_last, &w.last);
    vv_module_each_param(net, visit, &w);
    return w;
}

void vv_freeze(vv_module *net, const vv_freeze_opts *opts, int thawed, int *layers, int *frozen)
{
    const vv_freeze_opts *o = opts ? opts : &defaults;
    const int all = go(net, o, 0, false).layers;
    const walk w = go(net, o, thawed < all ? all - thawed : 0, true);
    if (layers)
        *layers = all;
    if (frozen)
        *frozen = w.frozen;
}

/* ---- the Trainer's method ---- */

typedef struct freezer {
    int thawed; /* -1 = nothing has been done yet */
} freezer;

/* How many layers learn again by now: a function of the position alone, so a resumed run has the
   same. */
static vv_status thawed_now(const vv_freeze_opts *o, const vv_state *state, int layers, int *out)
{
    double until, now;
    *out = 0;
    if (vv_time_is_none(o->until))
        return VV_OK;
    VV_TRY(vv_fail_within(vv_time_to_axis(&until, o->until, &state->axis), "until"));
    now = vv_timestamp_position(&state->time, &state->axis);
    if (now >= until)
        *out = layers;
    else if (o->gradual)
        *out = (int)((double)layers * now / until);
    return VV_OK;
}

static bool count_learning(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    (void)owner;
    *(int *)ctx += !param->frozen;
    return true;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_freeze_opts *o = method->opts;
    freezer *self = method->self;
    vv_module *net = state->model->net;
    int layers = go(net, o, 0, false).layers, thawed, frozen, learning = 0;
    VV_TRY(thawed_now(o, state, layers, &thawed));
    if (event == VV_EVENT_BATCH_START && thawed == self->thawed)
        return VV_OK;
    vv_freeze(net, o, thawed, &layers, &frozen);
    method->effect = frozen;
    vv_module_each_param(net, count_learning, &learning);
    if (learning == 0 && vv_module_param_count(net) > 0)
        return vv_fail(VV_EINVAL, "nothing is left to learn; name fewer parts, or what learns all "
                                  "the same by `except`");
    if (event == VV_EVENT_BATCH_START)
        vv_log_metric(state, "freeze/frozen_layers", frozen);
    self->thawed = event == VV_EVENT_BATCH_START || self->thawed >= 0 ? thawed : -1;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_freeze_opts *o = method->opts;
    const int layers = go(state->model->net, o, 0, false).layers;
    char until[64];
    double position;
    ((freezer *)method->self)->thawed = -1;
    if (layers == 0 && o->patterns[0])
        return vv_fail(VV_EINVAL,
                       "no parameter is named by '%s'; `vivace checkpoint inspect` shows the names",
                       o->patterns);
    if (!vv_time_is_none(o->until))
        VV_TRY(vv_fail_within(vv_time_to_axis(&position, o->until, &state->axis), "until"));
    vv_str_addf(line, "%d layers do not learn", layers);
    if (!vv_time_is_none(o->until))
        vv_str_addf(line, " before %s%s", vv_time_text(o->until, until, sizeof until),
                    o->gradual ? "; up to there they begin to, the last one first" : "");
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_freeze_opts, member)
static const vv_field fields[] = {
    {"patterns", "What does not learn, comma-separated: layer1.*,conv1; empty = all but the last "
     "layer.", VV_FIELD_STRING, AT(patterns), "", 0, 0, NULL},
    {"except", "What learns all the same.", VV_FIELD_STRING, AT(except), "", 0, 0, NULL},
    {"until", "From here on everything learns: 2ep, 0.3dur; none = never.", VV_FIELD_TIME,
     AT(until), "none", 0, 0, NULL},
    {"gradual", "Up to `until` the frozen layers begin to learn one after the other, the last one "
     "first.", VV_FIELD_BOOL, AT(gradual), "false", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_freeze = {
    .desc = {.kind = "method",
             .name = "freeze",
             .summary = "Parts of the model, named by patterns, stay as they are.",
             .cite = "Yosinski et al. (arXiv 1411.1792); Howard & Ruder (arXiv 1801.06146)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_freeze_opts)},
    .phase = VV_PHASE_WEIGHTS,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_LOAD) |
              VV_EVENT_BIT(VV_EVENT_BATCH_START),
    .self_size = sizeof(freezer),
    .apply = apply,
    .plan = plan,
};

vv_method *vv_freeze_method(const char *patterns)
{
    vv_freeze_opts opts = VV_FREEZE_DEFAULTS;
    vv_method *method = NULL;
    opts.patterns = patterns;
    return vv_method_new(&method, &vv_method_freeze, &opts) == VV_OK ? method : NULL;
}
