/* kernel_check.h - runs one kernel call on backend `cpu` and on `ref` and compares. */
#ifndef KERNEL_CHECK_H
#define KERNEL_CHECK_H

#include "vv_test.h"

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

enum { MAX_BUFS = 12 };

/* A call under test, with its operands. */
typedef struct check {
    vv_op op;
    vv_attr attr;
    vv_fused fused;
    int n_in, n_out;
    vv_buf in[MAX_BUFS], out[MAX_BUFS];
    uint64_t seed, step;
    int64_t first_item;
    double tolerance;      /* relative to the result's size; 0 = by dtype */
    double least;          /* size of the terms where the result may be small by cancellation */
    bool thread_dependent; /* the library underneath splits sums by threads */
} check;

static uint64_t random_state = 88172645463325252ull;

static inline double random_unit(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) * 0x1p-53;
}

static inline void buf_init(vv_buf *buf, vv_dtype dtype, int ndim, const int64_t *shape)
{
    memset(buf, 0, sizeof *buf);
    buf->dtype = dtype;
    buf->ndim = ndim;
    buf->count = 1;
    for (int d = 0; d < ndim; d++) {
        buf->shape[d] = shape[d];
        buf->count *= shape[d];
    }
    assert_ok(vv_alloc_aligned(&buf->data, (size_t)buf->count * vv_dtype_size(dtype) + 64));
}

#define SHAPE(...)                                                               \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                            \
        __VA_ARGS__                                                              \
    }

/* Next input, filled with numbers in [lo, hi). */
static inline vv_buf *add_in(check *c, vv_dtype dtype, int ndim, const int64_t *shape, double lo,
                             double hi)
{
    vv_buf *buf = &c->in[c->n_in++];
    buf_init(buf, dtype, ndim, shape);
    for (int64_t i = 0; i < buf->count; i++) {
        double value = lo + (hi - lo) * random_unit();
        if (!vv_dtype_is_float(dtype))
            value = floor(value);
        vvi_ref_set(buf, i, value);
    }
    return buf;
}

/* An optional operand that is absent. */
static inline void add_absent(check *c)
{
    memset(&c->in[c->n_in++], 0, sizeof c->in[0]);
}

static inline void add_out(check *c, vv_dtype dtype, int ndim, const int64_t *shape)
{
    buf_init(&c->out[c->n_out++], dtype, ndim, shape);
}

static inline void check_free(check *c)
{
    for (int i = 0; i < c->n_in; i++)
        vv_dealloc(c->in[i].data);
    for (int i = 0; i < c->n_out; i++)
        vv_dealloc(c->out[i].data);
}

static inline const vv_kernel *find_kernel(const vv_backend *backend, const vv_call *call)
{
    for (const vv_kernel *k = backend->kernels[call->op]; k && k->run; k++)
        if (k->accepts(call))
            return k;
    return NULL;
}

/* Runs `kernel` with the given operands; scratch is filled with NaN first. */
static inline void run_kernel(const vv_kernel *kernel, const check *c, const vv_buf *in,
                              const vv_buf *out)
{
    vv_call call = {.op = c->op,
                    .attr = &c->attr,
                    .n_in = c->n_in,
                    .n_out = c->n_out,
                    .in = in,
                    .out = out,
                    .fused = c->op == VV_OP_FUSED ? &c->fused : NULL,
                    .seed = c->seed,
                    .step = c->step,
                    .first_item = c->first_item};
    size_t bytes = 0;
    if (kernel->prepare)
        assert_ok(kernel->prepare(&call, &call.state, &bytes));
    assert_ok(vv_alloc_aligned(&call.scratch, bytes + 64));
    memset(call.scratch, 0xff, bytes + 64);
    assert_ok(kernel->run(&call));
    if (kernel->release)
        kernel->release(call.state);
    vv_dealloc(call.scratch);
}

static inline void outs_like(vv_buf *out, const check *c)
{
    for (int i = 0; i < c->n_out; i++) {
        buf_init(&out[i], c->out[i].dtype, c->out[i].ndim, c->out[i].shape);
        memset(out[i].data, 0x7b, (size_t)c->out[i].count * vv_dtype_size(c->out[i].dtype));
        if (c->op == VV_OP_ACCUMULATE)
            memcpy(out[i].data, c->out[i].data,
                   (size_t)c->out[i].count * vv_dtype_size(c->out[i].dtype));
    }
}

static inline void outs_free(vv_buf *out, const check *c)
{
    for (int i = 0; i < c->n_out; i++)
        vv_dealloc(out[i].data);
}

static inline const vv_kernel *cpu_kernel(const check *c)
{
    vv_buf in[MAX_BUFS], out[MAX_BUFS];
    memcpy(in, c->in, sizeof in);
    memcpy(out, c->out, sizeof out);
    for (int i = 0; i < MAX_BUFS; i++)
        in[i].data = out[i].data = NULL;
    vv_call call = {.op = c->op,
                    .attr = &c->attr,
                    .n_in = c->n_in,
                    .n_out = c->n_out,
                    .in = in,
                    .out = out,
                    .fused = c->op == VV_OP_FUSED ? &c->fused : NULL};
    return find_kernel(&vvi_backend_cpu, &call);
}

static inline void same_bits(const check *c, const vv_buf *a, const vv_buf *b, const char *what)
{
    for (int i = 0; i < c->n_out; i++)
        if (memcmp(a[i].data, b[i].data, (size_t)a[i].count * vv_dtype_size(a[i].dtype)) != 0)
            fail_msg("%s: result %d: other bits %s", vv_op_name(c->op), i, what);
}

static inline void near_values(const check *c, const vv_buf *got, const vv_buf *want)
{
    for (int i = 0; i < c->n_out; i++) {
        double size = c->least > 0 ? c->least : 1e-6;
        for (int64_t k = 0; k < want[i].count; k++) {
            const double w = fabs(vvi_ref_get(&want[i], k));
            if (isfinite(w) && w > size)
                size = w;
        }
        const double tolerance = c->tolerance > 0 ? c->tolerance : 2e-6;
        for (int64_t k = 0; k < want[i].count; k++) {
            const double g = vvi_ref_get(&got[i], k), w = vvi_ref_get(&want[i], k);
            if (isnan(g) && isnan(w))
                continue;
            const double rounding = want[i].dtype == VV_BF16 ? 0.0085 * fabs(w) : 0.0;
            if (g != w && !(fabs(g - w) <= tolerance * size + rounding))
                fail_msg("%s kind %lld result %d [%lld]: %.9g, expected %.9g (largest %.3g)",
                         vv_op_name(c->op), (long long)c->attr.raw[0], i, (long long)k, g, w, size);
        }
    }
}

/* The cpu kernel takes the call, agrees with `want`, and gives equal bits on 1 and 3 threads. */
static inline void check_against(check *c, const vv_buf *want)
{
    const vv_kernel *kernel = cpu_kernel(c);
    if (!kernel)
        fail_msg("%s: no cpu kernel takes this call", vv_op_name(c->op));
    vv_buf one[MAX_BUFS], many[MAX_BUFS];
    outs_like(one, c);
    outs_like(many, c);
    vv_set_threads(1);
    run_kernel(kernel, c, c->in, one);
    vv_set_threads(3);
    run_kernel(kernel, c, c->in, many);
    vv_set_threads(0);
    if (!c->thread_dependent)
        same_bits(c, one, many, "with 3 threads");
    near_values(c, one, want);
    near_values(c, many, want);
    outs_free(one, c);
    outs_free(many, c);
}

/* Compares with `ref` and frees the operands. */
static inline void check_with_ref(check *c)
{
    vv_buf want[MAX_BUFS];
    outs_like(want, c);
    const vv_call call = {.op = c->op,
                          .attr = &c->attr,
                          .n_in = c->n_in,
                          .n_out = c->n_out,
                          .in = c->in,
                          .out = want};
    const vv_kernel *ref = find_kernel(&vvi_backend_ref, &call);
    assert_non_null(ref);
    run_kernel(ref, c, c->in, want);
    check_against(c, want);
    outs_free(want, c);
    check_free(c);
}

/* Output 0 in the place of input `which` gives the same bits as apart; frees the operands. */
static inline void check_in_place(check *c, int which)
{
    const vv_kernel *kernel = cpu_kernel(c);
    assert_non_null(kernel);
    assert_true(kernel->in_place >> which & 1);
    vv_buf apart[MAX_BUFS], shared[MAX_BUFS];
    outs_like(apart, c);
    outs_like(shared, c);
    run_kernel(kernel, c, c->in, apart);
    vv_dealloc(shared[0].data);
    shared[0].data = c->in[which].data;
    run_kernel(kernel, c, c->in, shared);
    same_bits(c, apart, shared, "in place");
    c->in[which].data = NULL;
    outs_free(apart, c);
    outs_free(shared, c);
    check_free(c);
}

#endif
