/* window_schedule.c - attention looks at few tokens first and at more later (modded-nanogpt,
 * records 13 and on): windows of training only, in stages. */
#include "window_schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

vv_status vv_window_scales(double scales[VV_WINDOW_STAGES], int *count,
                           const vv_window_schedule_opts *opts)
{
    const char *at = opts->scales ? opts->scales : "";
    *count = 0;
    at += strspn(at, " [");
    while (*at && *at != ']') {
        char *end;
        const double scale = strtod(at, &end);
        if (end == at || !(scale > 0.0 && scale <= 1.0) || *count == VV_WINDOW_STAGES)
            return vv_fail(VV_EINVAL, "scales: \"%s\"; give up to %d numbers in (0, 1], such as "
                                      "0.25,0.5,1",
                           opts->scales, VV_WINDOW_STAGES);
        scales[(*count)++] = scale;
        at = end + strspn(end, " ,");
    }
    if (*count == 0 || opts->at.count != *count - 1)
        return vv_fail(VV_EINVAL,
                       "scales has %d stages and at has %d times; a time is needed for each stage "
                       "after the first",
                       *count, opts->at.count);
    return VV_OK;
}

int64_t vv_window_tokens(double scale, int64_t length, int64_t multiple)
{
    int64_t tokens = (int64_t)ceil(scale * (double)length * (1.0 - 1e-12));
    tokens = (tokens + multiple - 1) / multiple * multiple;
    return scale >= 1.0 || tokens >= length ? 0 : tokens;
}

typedef struct narrowing {
    int64_t window;
    int count;
} narrowing;

static bool narrow(void *ctx, const char *path, vv_module *module)
{
    narrowing *n = ctx;
    (void)path;
    if (vv_module_type(module) != &vv_attention_class)
        return true;
    vv_attention_layer *layer = vv_module_self(module);
    if (n->window > 0 && (layer->window == 0 || layer->window > n->window))
        layer->window = n->window;
    n->count++;
    return true;
}

int vv_narrow_windows(vv_module *net, int64_t window)
{
    narrowing n = {window, 0};
    vv_module_each(net, narrow, &n);
    return n.count;
}

/* ---- the Trainer's method ---- */

/* Layers have their own windows except during a forward of training. */
typedef struct windows {
    int64_t *own; /* of each attention layer, in the tree's order */
    int count;
} windows;

typedef struct walk {
    windows *w;
    int at;
    bool restore;
} walk;

static bool copy_one(void *ctx, const char *path, vv_module *module)
{
    walk *k = ctx;
    (void)path;
    if (vv_module_type(module) != &vv_attention_class)
        return true;
    vv_attention_layer *layer = vv_module_self(module);
    if (k->restore)
        layer->window = k->w->own[k->at++];
    else
        k->w->own[k->at++] = layer->window;
    return k->at < k->w->count;
}

static void copy_windows(vv_module *net, windows *w, bool restore)
{
    walk k = {w, 0, restore};
    if (w->count > 0)
        vv_module_each(net, copy_one, &k);
}

/* Surgery may come behind: layers are counted when the window is set, not at INIT. */
static vv_status keep_windows(vv_module *net, windows *w)
{
    const int count = vv_module_count(net, &vv_attention_class);
    if (count > w->count)
        VV_TRY(vv_realloc_array(&w->own, (size_t)count, sizeof *w->own));
    w->count = count;
    copy_windows(net, w, false);
    return VV_OK;
}

static vv_status stage_of(const vv_window_schedule_opts *o, const vv_state *state, int *stage)
{
    const double now = vv_timestamp_position(&state->time, &state->axis);
    *stage = 0;
    for (int i = 0; i < o->at.count; i++) {
        double from;
        VV_TRY(vv_fail_within(vv_time_to_axis(&from, o->at.items[i], &state->axis), "at"));
        if (now >= from)
            *stage = i + 1;
    }
    return VV_OK;
}

static vv_status set(vv_method *method, vv_state *state)
{
    const vv_window_schedule_opts *o = method->opts;
    windows *self = method->self;
    double scales[VV_WINDOW_STAGES];
    int count, stage;
    const vv_sample_spec *data = &state->input_spec;
    VV_TRY(vv_window_scales(scales, &count, o));
    VV_TRY(stage_of(o, state, &stage));
    VV_TRY(keep_windows(state->model->net, self));
    const int64_t window =
        vv_window_tokens(scales[stage], data->input_shape[data->input_ndim - 1], o->multiple);
    vv_narrow_windows(state->model->net, window);
    if (state->micro_first == 0)
        vv_log_metric(state, "window_schedule/window", (double)window);
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    if (event == VV_EVENT_BEFORE_FORWARD)
        return set(method, state);
    if (event == VV_EVENT_AFTER_FORWARD)
        copy_windows(state->model->net, method->self, true);
    else
        method->effect += vv_module_count(state->model->net, &vv_attention_class);
    return VV_OK;
}

static vv_status check(const void *opts)
{
    double scales[VV_WINDOW_STAGES];
    int count;
    return vv_window_scales(scales, &count, opts);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_window_schedule_opts *o = method->opts;
    const vv_sample_spec *data = &state->input_spec;
    double scales[VV_WINDOW_STAGES];
    char text[48];
    int count;
    if (!state->train_loader) {
        vv_str_add(line, "nothing to train");
        return vv_str_status(line);
    }
    if (data->input_dtype != VV_I32 || data->input_ndim < 1)
        return vv_fail(VV_EINVAL, "needs rows of tokens; these samples are %s with %d axes",
                       vv_dtype_name(data->input_dtype), data->input_ndim);
    VV_TRY(vv_window_scales(scales, &count, o));
    vv_str_add(line, "attention sees");
    for (int i = 0; i < count; i++) {
        const int64_t window =
            vv_window_tokens(scales[i], data->input_shape[data->input_ndim - 1], o->multiple);
        if (window)
            vv_str_addf(line, "%s %lld tokens", i ? "," : "", (long long)window);
        else
            vv_str_addf(line, "%s all tokens", i ? "," : "");
        if (i)
            vv_str_addf(line, " from %s on", vv_time_text(o->at.items[i - 1], text, sizeof text));
    }
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    const windows *self = method->self;
    vv_dealloc(self->own);
}

#define AT(member) offsetof(vv_window_schedule_opts, member)
static const vv_field fields[] = {
    {"scales", "Window of each stage as a share of the sequence; 1 = all of it.", VV_FIELD_STRING,
     AT(scales), "0.25,0.5,1", 0, 0, NULL},
    {"at", "When each stage after the first begins.", VV_FIELD_TIMES, AT(at),
     "[0.3333dur, 0.6667dur]", 0, 0, NULL},
    {"multiple", "Windows are rounded up to a multiple of this many tokens.", VV_FIELD_INT,
     AT(multiple), "1", 1, 16777216, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_window_schedule = {
    .desc = {.kind = "method",
             .name = "window_schedule",
             .summary = "Attention looks at few tokens first and at more later.",
             .cite = "Jordan et al., modded-nanogpt (2024)",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_window_schedule_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_BEFORE_FORWARD) |
              VV_EVENT_BIT(VV_EVENT_AFTER_FORWARD),
    .self_size = sizeof(windows),
    .check = check,
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_window_schedule(const vv_window_schedule_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_window_schedule, opts) == VV_OK ? method : NULL;
}
