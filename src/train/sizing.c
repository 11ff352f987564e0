/* sizing.c - precision, microbatch and memory: chosen and proven before step 0, so that what does
 * not fit fails here and not when images or sequences have grown. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "data/layout.h"
#include "trainer_impl.h"

/* Moments of the run that are planned: first and last batch, and what methods name. */
#define VVI_MOST_MOMENTS 16
/* Rows of the steps that choose the precision: enough for kernels to be at their rate. */
#define VVI_TIMED_ROWS 32
/* Timed runs of each candidate after one to warm up; one is enough if it takes this long. */
#define VVI_TIMED_RUNS 3
#define VVI_LONG_RUN_SECONDS 1.0
/* Part of the free memory that is left to others. */
#define VVI_MARGIN_DIVISOR 16

vv_status vv_microbatch_parse(int64_t *out, const char *text)
{
    static const char *const names[] = {"auto", "fastest", "fastest_any"};
    *out = 0;
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = VV_MICROBATCH_AUTO - i;
            return VV_OK;
        }
    char *end;
    double rows = strtod(text, &end);
    if (end == text || *end || !(rows >= 0.0) || rows > 1e9 || rows != floor(rows))
        return vv_fail(VV_EINVAL,
                       "microbatch: '%s'; give a number of rows (0 = the whole batch), auto, "
                       "fastest or fastest_any", text);
    *out = (int64_t)rows;
    return VV_OK;
}

vv_status vvi_graph_make(vv_trainer *t, vv_precision precision, vv_graph **out)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = t->backend;
    opts.precision = precision;
    opts.conv = t->conv;
    VV_TRY(vv_graph_new(out, &opts));
    if (!t->graph)
        return VV_OK;
    vv_str trials = {0}; /* what was timed once stays */
    vv_graph_conv_choices(t->graph, &trials);
    vv_status status = vv_str_status(&trials);
    if (status == VV_OK)
        status = vv_graph_set_conv_choices(*out, vv_str_text(&trials));
    vv_str_fini(&trials);
    if (status != VV_OK) {
        vv_graph_free(*out);
        *out = NULL;
    }
    return status;
}

/* ---- memory ---- */

static bool add_bytes(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    (void)owner;
    size_t *weights_and_learning = ctx;
    weights_and_learning[0] += param->value->bytes;
    weights_and_learning[1] += param->frozen ? 0 : param->value->bytes;
    return true;
}

static void set_available(vv_trainer *t)
{
    vvi_sizing *z = &t->sizing;
    const vv_state *s = &t->state;
    size_t bytes[2] = {0}; /* all weights, those that learn */
    vv_module_each_param(s->model->net, add_bytes, bytes);
    size_t copies = 1; /* gradients, and what the optimizer keeps */
    if (s->optimizer)
        copies += (size_t)vv_optimizer_type(s->optimizer)->state_count;
    z->fixed_bytes = bytes[0] + copies * bytes[1];
    z->batch_bytes = t->train ? vvi_batch_bytes(t) : 0;
    z->limit_given = t->memory_limit > 0;
    z->available_bytes = (size_t)t->memory_limit;
    if (z->limit_given)
        return;
    size_t left = vv_memory_available();
    z->available_bytes = left ? left - left / VVI_MARGIN_DIVISOR + bytes[0] : SIZE_MAX;
}

size_t vvi_sizing_needed(const vvi_sizing *z)
{
    return z->fixed_bytes + z->batch_bytes + z->cost.slab_bytes + z->cost.result_bytes;
}

static void set_graph_memory(vv_trainer *t, vv_graph *graph, vv_recompute mode)
{
    const vvi_sizing *z = &t->sizing;
    size_t taken = z->fixed_bytes + z->batch_bytes;
    size_t left = z->available_bytes > taken ? z->available_bytes - taken : 1;
    vv_graph_set_memory(graph, mode, left);
}

static int list_moments(const vv_trainer *t, double *moments)
{
    int count = 0;
    moments[count++] = 0.0;
    if (t->state.axis.total_batches != 1)
        moments[count++] = 1.0;
    for (int i = 0; i < t->method_count; i++) {
        const vv_method *m = t->methods[i];
        if (m->type->points && count < VVI_MOST_MOMENTS)
            count += m->type->points(m, &t->state, moments + count, VVI_MOST_MOMENTS - count);
    }
    return count;
}

/* The largest step with microbatches of `rows`, into sizing. */
static vv_status plan_rows(vv_trainer *t, int64_t rows)
{
    vvi_sizing *z = &t->sizing;
    double moments[VVI_MOST_MOMENTS];
    int count = list_moments(t, moments);
    z->cost = (vv_plan_cost){0};
    z->rows = rows;
    for (int i = 0; i < count; i++)
        for (int how = 0; how < (rows < t->batch_size ? 2 : 1); how++) {
            vvi_dry_result r;
            VV_TRY(vvi_step_dry(t, moments[i], rows, how ? VV_BIND_ADD : VV_BIND_WRITE, false, &r));
            if (r.cost.slab_bytes < z->cost.slab_bytes)
                continue;
            z->cost = r.cost;
            z->largest_ndim = r.ndim;
            memcpy(z->largest, r.shape, sizeof z->largest);
        }
    return VV_OK;
}

static bool fits(const vv_trainer *t)
{
    return vvi_sizing_needed(&t->sizing) <= t->sizing.available_bytes;
}

/* Pieces of equal size: microbatch of a batch in `pieces`. */
static int64_t rows_of(const vv_trainer *t, int64_t pieces)
{
    return (t->batch_size + pieces - 1) / pieces;
}

/* The fewest equal pieces whose step fits; rows = 0 if not even single rows do. sizing is left at
   the last size tried. */
static vv_status fewest_pieces(vv_trainer *t, int64_t *rows)
{
    int64_t too_few = 0, enough = 1;
    *rows = 0;
    for (;; enough = 2 * enough < t->batch_size ? 2 * enough : t->batch_size) {
        VV_TRY(plan_rows(t, rows_of(t, enough)));
        if (fits(t))
            break;
        if (enough == t->batch_size)
            return VV_OK;
        too_few = enough;
    }
    while (enough - too_few > 1) {
        int64_t middle = too_few + (enough - too_few) / 2;
        VV_TRY(plan_rows(t, rows_of(t, middle)));
        if (fits(t))
            enough = middle;
        else
            too_few = middle;
    }
    *rows = rows_of(t, enough);
    return plan_rows(t, *rows);
}

/* Smaller microbatches cost nothing but change the statistics of batch norms; computing again costs
   time and changes nothing. So with such statistics the batch is kept whole as long as that helps;
   else single rows come before computing again. */
static vv_status choose_by_memory(vv_trainer *t)
{
    vvi_sizing *z = &t->sizing;
    int64_t rows = 0;
    set_graph_memory(t, t->graph, VV_RECOMPUTE_OFF);
    VV_TRY(plan_rows(t, t->batch_size));
    if (fits(t)) {
        t->microbatch = t->batch_size;
        snprintf(z->microbatch_note, sizeof z->microbatch_note, "the whole batch fits");
        return VV_OK;
    }
    bool statistics = z->cost.updates > 0;
    for (int pass = 0; pass < 2 && rows == 0; pass++) {
        bool again = (pass == 1) != statistics;
        if (again && t->recompute == VV_RECOMPUTE_OFF)
            continue;
        set_graph_memory(t, t->graph, again ? t->recompute : VV_RECOMPUTE_OFF);
        VV_TRY(fewest_pieces(t, &rows));
    }
    if (rows == 0) /* the sentence is fail_unless_fits's */
        rows = 1;
    t->microbatch = rows;
    snprintf(z->microbatch_note, sizeof z->microbatch_note, "the largest that fits%s",
             z->cost.recompute_flops ? ", with activations computed again" : "");
    return VV_OK;
}

static vv_status fail_unless_fits(vv_trainer *t)
{
    const vvi_sizing *z = &t->sizing;
    if (fits(t))
        return VV_OK;
    size_t needed = vvi_sizing_needed(z);
    char shape[128], a[24], b[24], c[24], d[24];
    return vv_fail(
        VV_ENOMEM,
        "a step of %lld rows with inputs %s needs %zu bytes (%s: step %s, weights, gradients and "
        "optimizer %s), but %s %zu bytes (%s); %s%smake the model or its inputs smaller, or %s",
        (long long)z->rows, vv_shape_text(z->largest_ndim, z->largest, shape, sizeof shape), needed,
        vv_bytes_text(needed, a, sizeof a),
        vv_bytes_text(z->cost.slab_bytes + z->cost.result_bytes, b, sizeof b),
        vv_bytes_text(z->fixed_bytes, c, sizeof c),
        z->limit_given ? "memory_limit gives" : "the machine has", z->available_bytes,
        vv_bytes_text(z->available_bytes, d, sizeof d),
        z->rows > 1 ? "set microbatch to fewer rows or auto, " : "",
        t->recompute == VV_RECOMPUTE_OFF ? "set recompute to auto, " : "",
        z->limit_given ? "raise memory_limit" : "free memory");
}

/* ---- time ---- */

vv_status vvi_time_step(vv_trainer *t, vv_graph *graph, int64_t rows, double *seconds)
{
    vv_graph *const own = t->graph;
    vv_status status = VV_OK;
    t->graph = t->state.graph = graph;
    *seconds = INFINITY;
    for (int i = 0; i <= VVI_TIMED_RUNS && status == VV_OK; i++) {
        vvi_dry_result r;
        status = vvi_step_dry(t, 1.0, rows, VV_BIND_WRITE, true, &r);
        if (status != VV_OK)
            break;
        if (i > 0 || r.seconds > VVI_LONG_RUN_SECONDS)
            *seconds = fmin(*seconds, r.seconds);
        if (r.seconds > VVI_LONG_RUN_SECONDS)
            break;
    }
    t->graph = t->state.graph = own;
    return status;
}

static int64_t timed_rows(const vv_trainer *t, int64_t microbatch)
{
    int64_t rows = microbatch > 0 && microbatch < t->batch_size ? microbatch : t->batch_size;
    return rows < VVI_TIMED_ROWS ? rows : VVI_TIMED_ROWS;
}

/* fp32 or amp_bf16, whichever is faster for this model here. */
vv_status vvi_measure_precision(vv_trainer *t, int64_t microbatch, vv_precision *out)
{
    static const vv_precision kinds[] = {VV_PRECISION_FP32, VV_PRECISION_AMP_BF16};
    double seconds[2];
    int64_t rows = timed_rows(t, microbatch);
    *out = VV_PRECISION_AMP_BF16;
    for (int i = 0; i < 2; i++) {
        vv_graph *graph;
        VV_TRY(vvi_graph_make(t, kinds[i], &graph));
        set_graph_memory(t, graph, t->recompute);
        vv_status status = vvi_time_step(t, graph, rows, &seconds[i]);
        vv_graph_free(graph);
        VV_TRY(status);
    }
    if (seconds[0] <= seconds[1])
        *out = VV_PRECISION_FP32;
    snprintf(t->sizing.precision_note, sizeof t->sizing.precision_note,
             "measured with %lld rows: fp32 %.2f ms, amp_bf16 %.2f ms", (long long)rows,
             1e3 * seconds[0], 1e3 * seconds[1]);
    return VV_OK;
}

/* Whole, half, quarter, ...: until two in a row are slower than the best. */
static vv_status choose_by_speed(vv_trainer *t, bool any)
{
    vvi_sizing *z = &t->sizing;
    set_graph_memory(t, t->graph, t->recompute);
    double best = INFINITY, whole = INFINITY;
    int worse = 0;
    for (int64_t pieces = 1; pieces <= t->batch_size && worse < 2; pieces *= 2) {
        int64_t rows = rows_of(t, pieces);
        VV_TRY(plan_rows(t, rows));
        if (z->cost.updates > 0 && !any)
            return vv_fail(VV_EINVAL,
                           "microbatch: fastest is not for models with batch statistics (batch "
                           "norm), whose training depends on the microbatch; give a size, or "
                           "fastest_any to choose by speed all the same");
        if (!fits(t))
            continue;
        double seconds;
        VV_TRY(vvi_time_step(t, t->graph, rows, &seconds));
        double per_row = seconds / (double)rows;
        whole = pieces == 1 ? per_row : whole;
        worse = per_row < best ? 0 : worse + 1;
        if (per_row < best) {
            best = per_row;
            t->microbatch = rows;
        }
    }
    if (t->microbatch < 1)
        return choose_by_memory(t);
    if (isfinite(whole))
        snprintf(z->microbatch_note, sizeof z->microbatch_note,
                 "the fastest: %.4g ms a row, the whole batch %.4g", 1e3 * best, 1e3 * whole);
    else
        snprintf(z->microbatch_note, sizeof z->microbatch_note,
                 "the fastest of those that fit: %.4g ms a row", 1e3 * best);
    return plan_rows(t, t->microbatch);
}

/* ---- what a checkpoint says ---- */

typedef struct stored {
    vv_precision precision; /* AUTO = not known */
    int64_t microbatch;     /* -1 = not known */
} stored;

/* Trials' results go straight into the graph. */
static vv_status read_stored(vv_trainer *t, const vv_safetensors *file, stored *out)
{
    *out = (stored){VV_PRECISION_AUTO, -1};
    const char *text = file ? vv_safetensors_text(file, "vivace.state") : NULL;
    json_t *state = text ? json_loads(text, 0, NULL) : NULL;
    const char *precision = json_string_value(json_object_get(state, "precision"));
    for (int i = VV_PRECISION_FP32; precision && i < VV_PRECISION_AUTO; i++)
        if (strcmp(precision, vvi_precision_name((vv_precision)i)) == 0)
            out->precision = (vv_precision)i;
    const json_t *microbatch = json_object_get(state, "microbatch");
    if (json_is_integer(microbatch) && json_integer_value(microbatch) >= 0)
        out->microbatch = json_integer_value(microbatch);
    const char *trials = json_string_value(json_object_get(state, "conv_choices"));
    vv_status status = VV_OK;
    if (trials && t->conv == VV_CONV_AUTO)
        status = vv_graph_set_conv_choices(t->graph, trials);
    json_decref(state);
    return status;
}

/* ---- all of it ---- */

static vv_status resolve_precision(vv_trainer *t, const vv_trainer_opts *o, stored from)
{
    char *note = t->sizing.precision_note;
    const size_t room = sizeof t->sizing.precision_note;
    vv_precision precision = o->precision;
    const char *eager = getenv("VV_EAGER");
    if (precision != VV_PRECISION_AUTO)
        return VV_OK;
    if (from.precision != VV_PRECISION_AUTO) {
        precision = from.precision;
        snprintf(note, room, "as in the checkpoint");
    } else if (!vv_cpu_has_bf16()) {
        precision = VV_PRECISION_FP32;
        snprintf(note, room, "this processor has no bf16 instructions");
    } else if (!t->train || !t->state.optimizer || (eager && eager[0] && strcmp(eager, "0") != 0)) {
        precision = t->train ? VV_PRECISION_FP32 : VV_PRECISION_AMP_BF16;
        snprintf(note, room, "not measured: %s", t->train ? "each node runs alone" :
                                                            "nothing to train");
    } else {
        VV_TRY(vvi_measure_precision(t, o->microbatch, &precision));
    }
    if (precision == t->state.precision)
        return VV_OK;
    vv_graph *graph;
    VV_TRY(vvi_graph_make(t, precision, &graph));
    vv_graph_free(t->graph);
    t->graph = t->state.graph = graph;
    t->state.precision = precision;
    return VV_OK;
}

static vv_status resolve_microbatch(vv_trainer *t, const vv_trainer_opts *o, stored from)
{
    t->microbatch = o->microbatch;
    if (o->microbatch < 0 && from.microbatch >= 0) {
        t->microbatch = from.microbatch;
        snprintf(t->sizing.microbatch_note, sizeof t->sizing.microbatch_note,
                 "as in the checkpoint");
    }
    if (t->microbatch == VV_MICROBATCH_AUTO)
        VV_TRY(choose_by_memory(t));
    else if (t->microbatch < 0)
        VV_TRY(choose_by_speed(t, t->microbatch == VV_MICROBATCH_FASTEST_ANY));
    return VV_OK;
}

static vv_status check_rest(vv_trainer *t, int64_t rest, int64_t micro)
{
    vvi_dry_result r;
    if (rest == 0 || rest == micro)
        return VV_OK;
    return vv_fail_within(vvi_step_dry(t, 1.0, rest, VV_BIND_WRITE, false, &r),
                          "microbatch of %lld rows", (long long)rest);
}

/* The last, smaller microbatches: a model that cannot take them says so now. */
static vv_status check_rests(vv_trainer *t, int64_t micro)
{
    int64_t last_batch = t->samples_per_epoch -
                         (t->state.axis.batches_per_epoch - 1) * t->batch_size;
    if (t->stage_count == 0) {
        VV_TRY(check_rest(t, t->batch_size % micro, micro));
        return check_rest(t, last_batch % micro, micro);
    }
    for (int i = 0; i < t->stage_count; i++)
        VV_TRY(check_rest(t, t->stages[i].size % micro, micro));
    for (int64_t epoch = 0, batch = 0; batch < t->state.axis.total_batches && epoch < 64; epoch++) {
        const int64_t here = vv_loader_epoch_batches(t->train, epoch);
        const vvi_place last = vvi_layout_at(vvi_loader_layout(t->train), epoch, here - 1);
        VV_TRY(check_rest(t, last.rows % micro, micro));
        batch += here;
    }
    return VV_OK;
}

static vv_status size_up(vv_trainer *t, const vv_trainer_opts *o, stored from)
{
    set_available(t);
    VV_TRY(resolve_precision(t, o, from));
    if (!t->train) {
        t->microbatch = o->microbatch > 0 ? o->microbatch : 0;
        return VV_OK;
    }
    VV_TRY(resolve_microbatch(t, o, from));
    int64_t micro =
        t->microbatch > 0 && t->microbatch < t->batch_size ? t->microbatch : t->batch_size;
    set_graph_memory(t, t->graph, t->recompute);
    VV_TRY(vv_fail_within(plan_rows(t, micro), "microbatch of %lld rows", (long long)micro));
    VV_TRY(fail_unless_fits(t));
    t->sizing.known = true;
    return check_rests(t, micro);
}

/* Planning happens on a graph of its own, so that no plan of a size that was only tried stays. */
vv_status vvi_size_up(vv_trainer *t, const vv_trainer_opts *o, const vv_safetensors *file)
{
    vv_safetensors *start = NULL;
    if (!file && o->load_path && o->load_path[0] && !o->load_weights_only &&
        vv_safetensors_open(&start, o->load_path) != VV_OK)
        vv_error_clear(); /* loading it will tell */
    stored from;
    vv_status status = read_stored(t, file ? file : start, &from);
    vv_safetensors_close(start);
    if (status == VV_OK)
        status = size_up(t, o, from);
    t->state.microbatch = t->microbatch;
    if (status != VV_OK)
        return status;
    vv_graph *graph;
    VV_TRY(vvi_graph_make(t, t->state.precision, &graph));
    set_graph_memory(t, graph, t->recompute);
    vv_graph_free(t->graph);
    t->graph = t->state.graph = graph;
    return VV_OK;
}
