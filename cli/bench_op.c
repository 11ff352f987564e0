/* bench_op.c - `vivace bench op`: one operation, forward and backward, by every kernel that can do
 * it, side by side. */
#include "bench.h"
#include "bench_op.h"

#include <string.h>

#include <vivace/ext/backend.h>
#include <vivace/memory.h>

#define AT(field) offsetof(bench_op_opts, field)
#define SIZE(key, text)                                                                       \
    {                                                                                         \
        .name = #key, .help = text "; 0 = the operation's usual", .type = VV_FIELD_INT,       \
        .offset = AT(key), .fallback = "0", .min = 0, .max = 1e9                              \
    }
static const char *const precisions[] = {"fp32", "bf16", NULL};
static const vv_field op_fields[] = {
    SIZE(batch, "images or sequences"),
    SIZE(size, "side of the images in pixels"),
    SIZE(channels, "channels of the images"),
    SIZE(out, "channels of the result; of resize, its side"),
    SIZE(kernel, "side of the kernel or window"),
    SIZE(stride, "stride"),
    SIZE(groups, "groups of channels"),
    SIZE(rows, "rows of a matrix"),
    SIZE(inner, "the dimension that is summed over"),
    SIZE(columns, "columns of a matrix, features of a row"),
    SIZE(heads, "heads of attention"),
    SIZE(seq, "tokens of a sequence"),
    SIZE(head_dim, "features of a head"),
    SIZE(vocabulary, "rows of a table of tokens, classes"),
    {.name = "causal", .help = "attention sees no later tokens", .type = VV_FIELD_BOOL, .offset = AT(causal), .fallback = "true"},
    {.name = "precision", .help = "of what goes in and comes out", .type = VV_FIELD_CHOICE, .offset = AT(precision), .fallback = "fp32", .choices = precisions},
    {.name = "ref", .help = "the slow, obvious kernels too", .type = VV_FIELD_BOOL, .offset = AT(ref), .fallback = "true"},
    {.name = "repeats", .help = "runs; medians are taken over them", .type = VV_FIELD_INT, .offset = AT(repeats), .fallback = "7", .min = 1, .max = 1e6},
    {.name = "threads", .help = "threads; 0 = all cores", .type = VV_FIELD_INT, .offset = AT(threads), .fallback = "0", .min = 0, .max = 4096},
    {.name = NULL},
};
static const vv_desc op_desc = {.kind = "benchmark",
                                .name = "bench op",
                                .summary = "one operation",
                                .cite = "",
                                .domains = "any",
                                .fields = op_fields,
                                .opts_size = sizeof(bench_op_opts)};

/* ---- runs of one choice of kernels ---- */

enum { MOST_ROWS = 24, MOST_NAMES = 12 };

typedef struct row { /* what one kernel does of the operation */
    const char *op, *kernel;
    bool backward;
    double *seconds; /* [repeats] */
    int64_t flops;
} row;

typedef struct runs {
    row rows[MOST_ROWS];
    int count;
    int64_t repeat, repeats; /* repeat < 0: warming up */
    double *block;           /* all rows' seconds */
} runs;

static void note(void *ctx, const vv_graph_span *span)
{
    runs *r = ctx;
    int k = 0;
    while (k < r->count && (r->rows[k].op != span->op || r->rows[k].kernel != span->kernel ||
                            r->rows[k].backward != span->backward))
        k++;
    if (k == MOST_ROWS)
        return;
    if (k == r->count) {
        r->rows[r->count++] = (row){.op = span->op,
                                    .kernel = span->kernel,
                                    .backward = span->backward,
                                    .seconds = r->block + k * r->repeats};
    }
    if (r->repeat < 0)
        return;
    r->rows[k].seconds[r->repeat] += span->seconds;
    r->rows[k].flops += span->flops;
}

static vv_status run_once(vv_graph *g, const bench_kind *kind, const bench_case *c, vv_tensor *dy)
{
    vv_node *in[BENCH_OP_LEAVES] = {NULL}, *wrt[BENCH_OP_LEAVES], *out[BENCH_OP_LEAVES + 1];
    int n = 0;
    vv_graph_reset(g);
    for (int i = 0; i < c->count; i++) {
        in[i] = vv_leaf(g, c->leaves[i]);
        if (c->wanted[i])
            wrt[n++] = in[i];
    }
    out[0] = kind->build(c, in);
    VV_TRY(vv_graph_status(g));
    VV_TRY(vv_grad_from(g, out[0], vv_leaf(g, dy), wrt, n, out + 1));
    return vv_eval(g, out, n + 1);
}

/* A gradient of the result's shape. */
static vv_status make_dy(const bench_kind *kind, const bench_case *c, vv_tensor **dy)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *g = NULL;
    vv_node *in[BENCH_OP_LEAVES] = {NULL}, *y;
    vv_status status;
    VV_GO(vv_graph_new(&g, &opts));
    for (int i = 0; i < c->count; i++)
        in[i] = vv_leaf(g, c->leaves[i]);
    y = kind->build(c, in);
    VV_GO(vv_graph_status(g));
    VV_GO(vv_tensor_new(dy, vv_node_dtype(y), vv_node_ndim(y), vv_node_shape(y)));
    vv_tensor_fill(*dy, 0.5);
out:
    vv_graph_free(g);
    return status;
}

/* Fills `r`; where a run is slow (the reference kernels) one is enough. */
static vv_status run_with(const vv_backend *backend, const bench_kind *kind, const bench_case *c,
                          vv_tensor *dy, runs *r)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *g = NULL;
    vv_status status;
    opts.backend = backend;
    r->repeats = c->o.repeats;
    VV_GO(vv_alloc_array(&r->block, (size_t)(MOST_ROWS * r->repeats), sizeof(double)));
    VV_GO(vv_graph_new(&g, &opts));
    vv_graph_set_trace(g, note, r);
    r->repeat = -1;
    double start = vv_clock();
    VV_GO(run_once(g, kind, c, dy));
    if (vv_clock() - start > 1.0)
        r->repeats = 1;
    for (r->repeat = 0; r->repeat < r->repeats; r->repeat++)
        VV_GO(run_once(g, kind, c, dy));
out:
    vv_graph_free(g);
    return status;
}

/* ---- choices of kernels ---- */

/* A backend that prefers kernels of one name; operations without such a kernel are done as
   usual. */
typedef struct preference {
    vv_backend backend;
    vv_kernel kernels[VV_OP_COUNT][2];
} preference;

static const vv_kernel *find_kernel(vv_op op, const char *name)
{
    const vv_kernel *found = NULL; /* the last: it may do more than the rule would let it */
    for (const vv_backend *b = vv_backend_default(); b; b = b->next)
        for (const vv_kernel *k = b->kernels[op]; k && k->run; k++)
            if (!strcmp(k->name, name))
                found = k;
    return found;
}

static void prefer(preference *p, const char *name)
{
    memset(p, 0, sizeof *p);
    p->backend = *vv_backend_default();
    for (int op = 0; op < VV_OP_COUNT; op++) {
        const vv_kernel *kernel = find_kernel((vv_op)op, name);
        if (!kernel)
            continue;
        p->kernels[op][0] = *kernel;
        p->backend.kernels[op] = p->kernels[op];
    }
    p->backend.next = vv_backend_default();
}

/* Names of all kernels for the operations that ran, in the order of the tables. */
static int names_of(const runs *r, const char **names)
{
    int count = 0;
    for (const vv_backend *b = vv_backend_default(); b; b = b->next)
        for (int i = 0; i < r->count; i++) {
            int op = 0;
            while (op < VV_OP_COUNT && strcmp(vv_op_name((vv_op)op), r->rows[i].op) != 0)
                op++;
            for (const vv_kernel *k = op < VV_OP_COUNT ? b->kernels[op] : NULL; k && k->run; k++) {
                int n = 0;
                while (n < count && strcmp(names[n], k->name) != 0)
                    n++;
                if (n == count && count < MOST_NAMES)
                    names[count++] = k->name;
            }
        }
    return count;
}

/* ---- what is printed ---- */

typedef struct report {
    const bench_kind *kind;
    const bench_case *c;
    double peak, bandwidth; /* GFLOP/s, GB/s */
    double forward_bytes, backward_bytes; /* operands and results, each once */
    bool json, any;
    vv_str *out;
} report;

static void describe_sizes(const report *r, vv_str *out)
{
    char shape[96];
    for (int i = 0; i < r->c->count; i++)
        vv_str_addf(out, "%s%s%s", i ? " " : "", vv_dtype_name(r->c->leaves[i]->dtype),
                    vv_shape_text(r->c->leaves[i]->ndim, r->c->leaves[i]->shape, shape,
                                  sizeof shape));
}

static void add_row(report *r, const char *what, const char *kernel, bool backward, double ms,
                    double gflop, double bytes)
{
    double rate = gflop > 0 ? gflop / ms * 1e3 : bytes / ms / 1e6;
    double best = gflop > 0 ? r->peak : r->bandwidth;
    if (r->json) {
        vv_str_addf(r->out,
                    "%s{\"kind\": \"%s\", \"op\": \"%s\", \"kernel\": \"%s\", \"pass\": \"%s\", "
                    "\"ms\": %.5f",
                    r->any ? ", " : "", r->kind->name, what, kernel,
                    backward ? "backward" : "forward", ms);
        if (gflop > 0 || bytes > 0)
            vv_str_addf(r->out, ", \"%s\": %.3f, \"percent_of_peak\": %.2f",
                        gflop > 0 ? "gflops" : "gbytes_per_second", rate, 100.0 * rate / best);
        vv_str_add(r->out, "}");
        r->any = true;
        return;
    }
    vv_str_addf(r->out, "  %-25s %-14s %-9s %10.3f ms", what, kernel,
                backward ? "backward" : "forward", ms);
    if (gflop > 0 || bytes > 0)
        vv_str_addf(r->out, " %9.1f %s %6.1f%%", rate, gflop > 0 ? "GFLOP/s" : "GB/s   ",
                    100.0 * rate / best);
    vv_str_add(r->out, "\n");
}

/* Rows of kernels called `only` (NULL = all); a part that is the whole of its pass has its
   bytes. */
static void add_rows(report *r, runs *of, const char *only)
{
    for (int pass = 0; pass < 2; pass++) {
        int parts = 0;
        for (int i = 0; i < of->count; i++)
            parts += of->rows[i].backward == (pass == 1);
        for (int i = 0; i < of->count; i++) {
            row *k = &of->rows[i];
            if (k->backward != (pass == 1) || (only && strcmp(k->kernel, only) != 0))
                continue;
            const double bytes = pass ? r->backward_bytes : r->forward_bytes;
            add_row(r, k->op, k->kernel, k->backward,
                    1e3 * bench_median(k->seconds, (size_t)of->repeats),
                    (double)k->flops / (double)of->repeats / 1e9, parts == 1 ? bytes : 0.0);
        }
    }
}

static vv_status measure_kind(report *r, const bench_kind *kind, const bench_op_opts *given)
{
    bench_case c = {.o = *given};
    runs usual = {.count = 0};
    vv_tensor *dy = NULL;
    vv_str sizes = {0};
    const char *names[MOST_NAMES];
    vv_status status;
    const int64_t *fallback = &kind->usual.batch;
    for (int64_t *size = &c.o.batch; size <= &c.o.vocabulary; size++, fallback++)
        *size = *size ? *size : *fallback;
    r->kind = kind;
    r->c = &c;
    VV_GO(kind->fill(&c));
    VV_GO(make_dy(kind, &c, &dy));
    r->forward_bytes = r->backward_bytes = (double)dy->bytes;
    for (int i = 0; i < c.count; i++) {
        r->forward_bytes += (double)c.leaves[i]->bytes;
        r->backward_bytes += (double)c.leaves[i]->bytes * (c.wanted[i] ? 2.0 : 1.0);
    }
    VV_GO(run_with(NULL, kind, &c, dy, &usual));
    describe_sizes(r, &sizes);
    if (!r->json)
        vv_str_addf(r->out, "%s %s\n", kind->name, vv_str_text(&sizes));
    int count = names_of(&usual, names);
    for (int i = 0; i < count; i++) {
        preference p;
        runs one = {.count = 0};
        if (!strcmp(names[i], "ref") && !c.o.ref)
            continue;
        prefer(&p, names[i]);
        status = run_with(&p.backend, kind, &c, dy, &one);
        if (status == VV_OK)
            add_rows(r, &one, names[i]);
        vv_dealloc(one.block);
        VV_GO(status);
    }
out:
    vv_dealloc(usual.block);
    vv_str_fini(&sizes);
    vv_tensor_free(dy);
    for (int i = 0; i < BENCH_OP_LEAVES; i++)
        vv_tensor_free(c.leaves[i]);
    return status;
}

/* ---- optimizers: passes over parameters, not nodes of a graph ---- */

static vv_status time_optimizer(report *r, const vv_optimizer_desc *desc, vv_module *net,
                                const bench_op_opts *o, double elements)
{
    vv_optimizer *optimizer = NULL;
    double *seconds = NULL;
    vv_status status;
    VV_GO(vv_alloc_array(&seconds, (size_t)o->repeats, sizeof *seconds));
    VV_GO(vv_optimizer_new(&optimizer, desc, NULL, net));
    VV_GO(vv_optimizer_step(optimizer));
    for (int64_t i = 0; i < o->repeats; i++) {
        double start = vv_clock();
        VV_GO(vv_optimizer_step(optimizer));
        seconds[i] = vv_clock() - start;
    }
    /* value and states are read and written, the gradient read */
    add_row(r, desc->desc.name, "optimizer", true, 1e3 * bench_median(seconds, (size_t)o->repeats),
            0.0, 4.0 * elements * (3.0 + 2.0 * desc->state_count));
out:
    vv_optimizer_free(optimizer);
    vv_dealloc(seconds);
    return status;
}

static vv_status measure_optimizers(report *r, const bench_op_opts *o)
{
    static const bench_kind kind = {.name = "optimizer"};
    const int64_t rows = o->rows ? o->rows : 1024, columns = o->columns ? o->columns : 1024;
    vv_module *net = NULL;
    vv_status status;
    r->kind = &kind;
    VV_GO(vv_linear_new(&net, columns, rows, false));
    VV_GO(vv_grads_ensure(net));
    vv_param *weight = vv_module_param(net, "weight");
    vv_tensor_fill(weight->value, 0.01);
    vv_tensor_fill(weight->grad, 0.001);
    if (!r->json)
        vv_str_addf(r->out, "optimizer f32[%lld,%lld]; bytes: values, states, gradient\n",
                    (long long)rows, (long long)columns);
    for (const vv_optimizer_desc *const *desc = vv_optimizer_table(); *desc; desc++)
        VV_GO(time_optimizer(r, *desc, net, o, (double)(rows * columns)));
out:
    vv_module_free(net);
    return status;
}

/* ---- the whole ---- */

/* GB/s of adding two arrays that no cache holds. */
static vv_status measure_bandwidth(double *out)
{
    const int64_t count = 1 << 24;
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *g = NULL;
    vv_tensor *a = NULL, *b = NULL;
    vv_status status;
    *out = 0.0;
    VV_GO(vv_tensor_new(&a, VV_F32, 1, &count));
    VV_GO(vv_tensor_new(&b, VV_F32, 1, &count));
    vv_tensor_fill(a, 1.0);
    vv_tensor_fill(b, 2.0);
    VV_GO(vv_graph_new(&g, &opts));
    for (int i = 0; i < 6; i++) {
        vv_graph_reset(g);
        vv_node *sum = vv_add(vv_leaf(g, a), vv_leaf(g, b));
        double start = vv_clock();
        VV_GO(vv_eval(g, &sum, 1));
        double rate = 3.0 * (double)a->bytes / (vv_clock() - start) / 1e9;
        *out = i && rate > *out ? rate : *out; /* the first touches fresh pages */
    }
out:
    vv_graph_free(g);
    vv_tensor_free(a);
    vv_tensor_free(b);
    return status;
}

static vv_status check_kind(const char *name)
{
    vv_str known = {0};
    for (const bench_kind *kind = bench_kinds; kind->name; kind++) {
        vv_str_addf(&known, "%s, ", kind->name);
        if (!strcmp(kind->name, name)) {
            vv_str_fini(&known);
            return VV_OK;
        }
    }
    vv_status status = vv_fail(VV_EINVAL, "bench op: '%s' is none of %soptimizer", name,
                               vv_str_text(&known));
    vv_str_fini(&known);
    return status;
}

static vv_status measure_all(report *r, const char *name, const bench_op_opts *o)
{
    if (name && strcmp(name, "optimizer") != 0)
        VV_TRY(check_kind(name));
    vv_set_threads((int)o->threads);
    r->peak = vv_measure_peak_gflops(o->precision ? VV_PRECISION_BF16 : VV_PRECISION_FP32);
    VV_TRY(measure_bandwidth(&r->bandwidth));
    if (r->json)
        vv_str_addf(r->out,
                    "{\"threads\": %d, \"peak_gflops\": %.3f, \"bandwidth\": %.3f, "
                    "\"rows\": [",
                    vv_threads(), r->peak, r->bandwidth);
    else
        vv_str_addf(r->out,
                    "%d threads, measured peak %.1f GFLOP/s; adding large arrays: %.1f GB/s\n",
                    vv_threads(), r->peak, r->bandwidth);
    for (const bench_kind *kind = bench_kinds; kind->name; kind++)
        if (!name || !strcmp(name, kind->name))
            VV_TRY(measure_kind(r, kind, o));
    if (!name || !strcmp(name, "optimizer"))
        VV_TRY(measure_optimizers(r, o));
    if (r->json)
        vv_str_add(r->out, "]}\n");
    return vv_str_status(r->out);
}

int bench_op(const cli_args *args, bool json)
{
    bench_op_opts opts;
    vv_str out = {0};
    report r = {.json = json, .out = &out};
    int code = CLI_DONE;
    memset(&opts, 0, sizeof opts);
    vv_status status = bench_read_settings(&op_desc, &opts, args);
    if (status == VV_OK)
        status = measure_all(&r, args->word_count > 1 ? args->words[1] : NULL, &opts);
    if (status == VV_OK)
        fputs(vv_str_text(&out), stdout);
    else
        code = cli_fail();
    vv_str_fini(&out);
    vv_opts_fini(&op_desc, &opts);
    return code;
}
