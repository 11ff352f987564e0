/* choose_kernel.c - which kernel does an instruction: the first of the table that can; for
 * convolutions also as asked, or by a timed trial whose result is kept per shapes and pass. */
#include <string.h>

#include <vivace/memory.h>
#include <vivace/training_time.h>

#include "graph/graph_impl.h"

enum { MOST_CANDIDATES = 8, MOST_OPERANDS = 8, TIMED_RUNS = 5 };
static const double long_trial_seconds = 0.3; /* then the runs so far are enough */
static const char winograd[] = "winograd", reference[] = "ref";

static bool is_conv(vv_op op)
{
    return op == VV_OP_CONV2D || op == VV_OP_CONV2D_GRAD_DATA || op == VV_OP_CONV2D_GRAD_WEIGHT;
}

/* The first kernel that can and is called `want` and not `avoid` (NULL = any, none). */
static vv_status choose(const vv_graph *g, const vv_call *call, const char *want,
                        const char *avoid, vvi_chosen *out)
{
    memset(out, 0, sizeof *out);
    for (const vv_backend *backend = g->backend; backend; backend = backend->next) {
        const vv_kernel *kernel = backend->kernels[call->op];
        for (; kernel && kernel->run; kernel++) {
            if ((want && strcmp(kernel->name, want) != 0) ||
                (avoid && !strcmp(kernel->name, avoid)) || !kernel->accepts(call))
                continue;
            vvi_chosen chosen = {.kernel = kernel};
            vv_status status = kernel->prepare ? kernel->prepare(call, &chosen.state,
                                                                 &chosen.scratch_bytes)
                                               : VV_OK;
            if (status == VV_EUNSUPPORTED)
                continue; /* found out late: the next kernel may do */
            if (status == VV_OK)
                *out = chosen;
            return status;
        }
    }
    return VV_OK;
}

static void drop(vvi_chosen *chosen)
{
    if (chosen->kernel && chosen->kernel->release && chosen->state)
        chosen->kernel->release(chosen->state);
    memset(chosen, 0, sizeof *chosen);
}

/* ---- trials kept ---- */

void vvi_trials_free(vv_graph *g)
{
    for (int i = 0; i < g->trial_count; i++) {
        vv_dealloc(g->trials[i].shapes);
        vv_dealloc(g->trials[i].kernel);
    }
    vv_dealloc(g->trials);
    g->trials = NULL;
    g->trial_count = g->trial_capacity = 0;
}

static const char *find_trial(const vv_graph *g, const char *shapes)
{
    for (int i = 0; i < g->trial_count; i++)
        if (!strcmp(g->trials[i].shapes, shapes))
            return g->trials[i].kernel;
    return NULL;
}

static vv_status keep_trial(vv_graph *g, const char *shapes, size_t shapes_length,
                            const char *kernel, size_t kernel_length)
{
    if (g->trial_count == g->trial_capacity) {
        int capacity = g->trial_capacity ? 2 * g->trial_capacity : 32;
        VV_TRY(vv_realloc_array(&g->trials, (size_t)capacity, sizeof *g->trials));
        g->trial_capacity = capacity;
    }
    vvi_conv_trial trial = {NULL, NULL};
    vv_status status;
    VV_GO(vv_alloc(&trial.shapes, shapes_length + 1));
    VV_GO(vv_alloc(&trial.kernel, kernel_length + 1));
    memcpy(trial.shapes, shapes, shapes_length);
    memcpy(trial.kernel, kernel, kernel_length);
    g->trials[g->trial_count++] = trial;
    return VV_OK;
out:
    vv_dealloc(trial.shapes);
    vv_dealloc(trial.kernel);
    return status;
}

void vv_graph_conv_choices(const vv_graph *g, vv_str *out)
{
    for (int i = 0; i < g->trial_count; i++)
        vv_str_addf(out, "%s = %s\n", g->trials[i].shapes, g->trials[i].kernel);
}

vv_status vv_graph_set_conv_choices(vv_graph *g, const char *lines)
{
    vvi_trials_free(g);
    for (int i = 0; i < g->plan_count; i++)
        vvi_plan_free(g->plans[i]);
    g->plan_count = 0;
    g->last_plan = NULL;
    while (*lines) {
        const size_t length = strcspn(lines, "\n");
        const char *equals = strstr(lines, " = ");
        if (!equals || equals >= lines + length)
            return vv_fail(VV_EFORMAT, "convolutions: '%.*s' is no line like SHAPES = KERNEL",
                           (int)length, lines);
        VV_TRY(keep_trial(g, lines, (size_t)(equals - lines), equals + 3,
                          (size_t)(lines + length - equals - 3)));
        lines += length + (lines[length] == '\n');
    }
    return VV_OK;
}

/* ---- a trial ---- */

/* "conv2d f32[8,16,16,64] f32[64,64,3,3] -> f32[8,16,16,64] stride 1,1 pad 1,1 dilation 1,1". With
   groups the weights tell them. */
static void describe(const vv_call *call, vv_str *out)
{
    char shape[96];
    vv_str_add(out, vv_op_name(call->op));
    for (int i = 0; i < call->n_in + call->n_out; i++) {
        const vv_buf *buf = i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
        vv_str_add(out, i == call->n_in ? " -> " : " ");
        vv_str_addf(out, "%s%s", vv_dtype_name(buf->dtype),
                    vv_shape_text(buf->ndim, buf->shape, shape, sizeof shape));
    }
    vv_str_addf(out, " stride %lld,%lld pad %lld,%lld dilation %lld,%lld",
                (long long)call->attr->conv.stride[0], (long long)call->attr->conv.stride[1],
                (long long)call->attr->conv.pad[0], (long long)call->attr->conv.pad[1],
                (long long)call->attr->conv.dilation[0], (long long)call->attr->conv.dilation[1]);
}

typedef struct trial {
    vv_call call;
    vv_buf bufs[MOST_OPERANDS];
    size_t bytes[MOST_OPERANDS];
    int count;
} trial;

static void close_trial(trial *t)
{
    for (int i = 0; i < t->count; i++)
        vv_slab_free(t->bufs[i].data, t->bytes[i]);
}

/* Operands of small numbers; what they are does not change the time. */
static vv_status open_trial(trial *t, const vv_call *call)
{
    memset(t, 0, sizeof *t);
    t->call = *call;
    for (int i = 0; i < call->n_in + call->n_out; i++) {
        t->bufs[i] = i < call->n_in ? call->in[i] : call->out[i - call->n_in];
        t->bytes[i] = (size_t)t->bufs[i].count * vv_dtype_size(t->bufs[i].dtype);
        t->bufs[i].data = NULL;
        t->count = i + 1;
        if (t->bytes[i] == 0)
            continue;
        VV_TRY(vv_slab_alloc(&t->bufs[i].data, t->bytes[i]));
        memset(t->bufs[i].data, 0x3c, t->bytes[i]);
    }
    t->call.in = t->bufs;
    t->call.out = t->bufs + call->n_in;
    return VV_OK;
}

/* The least of a few runs after one to warm up. */
static vv_status time_kernel(trial *t, const vvi_chosen *chosen, double *seconds)
{
    void *scratch = NULL;
    vv_status status = VV_OK;
    if (chosen->scratch_bytes)
        VV_GO(vv_slab_alloc(&scratch, chosen->scratch_bytes));
    t->call.state = chosen->state;
    t->call.scratch = scratch;
    double spent = 0.0;
    for (int run = 0; run <= TIMED_RUNS && (run < 2 || spent < long_trial_seconds); run++) {
        double start = vv_clock();
        VV_GO(chosen->kernel->run(&t->call));
        double took = vv_clock() - start;
        spent += took;
        if (run && (run == 1 || took < *seconds))
            *seconds = took;
    }
out:
    vv_slab_free(scratch, chosen->scratch_bytes);
    return status;
}

/* Names of the kernels that can, except the reference's; the rule's choice is the first. */
static int candidates(const vv_graph *g, const vv_call *call, const char **names)
{
    int count = 0;
    for (const vv_backend *backend = g->backend; backend; backend = backend->next) {
        const vv_kernel *kernel = backend->kernels[call->op];
        for (; kernel && kernel->run && count < MOST_CANDIDATES; kernel++) {
            int i = 0;
            while (i < count && strcmp(names[i], kernel->name) != 0)
                i++;
            if (i == count && strcmp(kernel->name, reference) != 0 && kernel->accepts(call))
                names[count++] = kernel->name;
        }
    }
    return count;
}

static vv_status run_trial(const vv_graph *g, const vv_call *call, const char *const *names,
                           int count, const char **best)
{
    trial t;
    double least = 0.0, seconds = 0.0;
    vv_status status = open_trial(&t, call);
    for (int i = 0; i < count && status == VV_OK; i++) {
        vvi_chosen chosen;
        status = choose(g, call, names[i], NULL, &chosen);
        if (status == VV_OK && chosen.kernel)
            status = time_kernel(&t, &chosen, &seconds);
        if (status == VV_OK && chosen.kernel && (!*best || seconds < least)) {
            least = seconds;
            *best = names[i];
        }
        drop(&chosen);
    }
    close_trial(&t);
    return status;
}

static vv_status choose_by_trial(vv_graph *g, const vv_call *call, vvi_chosen *out)
{
    const char *names[MOST_CANDIDATES], *best = NULL;
    vv_str shapes = {0};
    vv_status status;
    memset(out, 0, sizeof *out);
    const int count = candidates(g, call, names);
    if (count < 2 || call->n_in + call->n_out > MOST_OPERANDS)
        return choose(g, call, NULL, NULL, out);
    describe(call, &shapes);
    VV_GO(vv_str_status(&shapes));
    best = find_trial(g, vv_str_text(&shapes));
    if (best) {
        VV_GO(choose(g, call, best, NULL, out));
        if (!out->kernel) /* one that this build lacks */
            status = choose(g, call, NULL, NULL, out);
        goto out;
    }
    VV_GO(run_trial(g, call, names, count, &best));
    if (best)
        VV_GO(keep_trial(g, vv_str_text(&shapes), shapes.length, best, strlen(best)));
    status = choose(g, call, best, NULL, out);
out:
    vv_str_fini(&shapes);
    return status;
}

vv_status vvi_choose_kernel(vv_graph *g, const vv_call *call, vvi_chosen *out)
{
    if (!is_conv(call->op) || g->opts.conv == VV_CONV_RULE)
        return choose(g, call, NULL, NULL, out);
    if (g->opts.conv == VV_CONV_AUTO)
        return choose_by_trial(g, call, out);
    if (g->opts.conv == VV_CONV_DIRECT)
        return choose(g, call, NULL, winograd, out);
    VV_TRY(choose(g, call, winograd, NULL, out));
    return out->kernel ? VV_OK : choose(g, call, NULL, NULL, out);
}
