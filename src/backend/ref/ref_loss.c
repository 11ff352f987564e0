/* ref_loss.c - reference kernels of softmax and cross-entropy, along the last axis, in double. */
#include <math.h>

#include "backend/ref/ref.h"

static bool accepts(const vv_call *call)
{
    (void)call;
    return true;
}

/* log(sum(exp(x))) of `count` elements from `first`; the largest is taken out against overflow. */
static double log_sum_exp(const vv_buf *x, int64_t first, int64_t count)
{
    double largest = vvi_ref_get(x, first), sum = 0.0;
    for (int64_t k = 1; k < count; k++)
        largest = fmax(largest, vvi_ref_get(x, first + k));
    for (int64_t k = 0; k < count; k++)
        sum += exp(vvi_ref_get(x, first + k) - largest);
    return largest + log(sum);
}

/* ---- softmax ---- */

static vv_status run_softmax(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *y = &call->out[0];
    const int64_t classes = x->shape[x->ndim - 1];
    for (int64_t first = 0; first < x->count; first += classes) {
        const double total = log_sum_exp(x, first, classes);
        for (int64_t k = 0; k < classes; k++) {
            const double log_p = vvi_ref_get(x, first + k) - total;
            vvi_ref_set(y, first + k, call->attr->softmax.log ? log_p : exp(log_p));
        }
    }
    return VV_OK;
}

/* y (dy - sum(dy y)); for the logarithm dy - exp(y) sum(dy). */
static vv_status run_softmax_grad(const vv_call *call)
{
    const vv_buf *dy = &call->in[0], *y = &call->in[1], *dx = &call->out[0];
    const bool log = call->attr->softmax.log;
    const int64_t classes = y->shape[y->ndim - 1];
    for (int64_t first = 0; first < y->count; first += classes) {
        double sum = 0.0;
        for (int64_t i = first; i < first + classes; i++)
            sum += vvi_ref_get(dy, i) * (log ? 1.0 : vvi_ref_get(y, i));
        for (int64_t i = first; i < first + classes; i++) {
            const double d = vvi_ref_get(dy, i), value = vvi_ref_get(y, i);
            vvi_ref_set(dx, i, log ? d - exp(value) * sum : value * (d - sum));
        }
    }
    return VV_OK;
}

/* ---- cross-entropy ---- */

/* Operands of the loss and of its gradient. */
typedef struct entropy {
    const vv_buf *logits, *target, *weights; /* weights NULL: all 1 */
    int64_t rows, classes, ignore_index;
    double z_loss;
    bool soft;
} entropy;

static entropy entropy_of(const vv_call *call, int first)
{
    const vv_buf *in = call->in + first;
    const int64_t classes = in[0].shape[in[0].ndim - 1];
    return (entropy){
        .logits = &in[0],
        .target = &in[1],
        .weights = call->n_in > first + 2 && in[2].data ? &in[2] : NULL,
        .rows = in[0].count / classes,
        .classes = classes,
        .ignore_index = call->attr->cross_entropy.ignore_index,
        .z_loss = call->attr->cross_entropy.z_loss,
        .soft = vv_dtype_is_float(in[1].dtype),
    };
}

static double weight_of(const entropy *e, int64_t k)
{
    return e->weights ? vvi_ref_get(e->weights, k) : 1.0;
}

/* *k = class of a row, -1 if the row is ignored. */
static vv_status class_of(const entropy *e, int64_t row, int64_t *k)
{
    const int64_t value = e->target->dtype == VV_I64 ? ((const int64_t *)e->target->data)[row]
                                                     : ((const int32_t *)e->target->data)[row];
    *k = value == e->ignore_index ? -1 : value;
    if (value == e->ignore_index || (value >= 0 && value < e->classes))
        return VV_OK;
    return vv_fail(
        VV_EINVAL,
        "cross_entropy: the target of row %lld is %lld, classes are 0..%lld (and %lld is "
        "ignored); check the labels or the number of classes",
        (long long)row, (long long)value, (long long)(e->classes - 1), (long long)e->ignore_index);
}

static vv_status run_cross_entropy(const vv_call *call)
{
    const entropy e = entropy_of(call, 0);
    for (int64_t row = 0; row < e.rows; row++) {
        const int64_t first = row * e.classes;
        const double total = log_sum_exp(e.logits, first, e.classes);
        double loss = 0.0;
        bool counted = false;
        if (e.soft) {
            for (int64_t k = 0; k < e.classes; k++) {
                const double t = vvi_ref_get(e.target, first + k) * weight_of(&e, k);
                if (t != 0.0) /* so that 0 * log 0 is 0 */
                    loss += t * (total - vvi_ref_get(e.logits, first + k));
                counted = counted || t != 0.0;
            }
        } else {
            int64_t k = -1;
            VV_TRY(class_of(&e, row, &k));
            counted = k >= 0;
            if (counted)
                loss = weight_of(&e, k) * (total - vvi_ref_get(e.logits, first + k));
        }
        if (counted && e.z_loss > 0.0)
            loss += e.z_loss * total * total;
        vvi_ref_set(&call->out[0], row, loss);
    }
    return VV_OK;
}

/* dloss (p_k (sum(w t) + 2 z logsumexp) - w_k t_k), with t one-hot for a class. */
static vv_status run_cross_entropy_grad(const vv_call *call)
{
    const entropy e = entropy_of(call, 1);
    for (int64_t row = 0; row < e.rows; row++) {
        const int64_t first = row * e.classes;
        const double total = log_sum_exp(e.logits, first, e.classes);
        const double dloss = vvi_ref_get(&call->in[0], row);
        int64_t label = -1;
        double mass = 0.0;
        bool counted = false; /* an ignored row has gradient 0 even if its logits are NaN */
        if (e.soft) {
            for (int64_t k = 0; k < e.classes; k++) {
                const double t = vvi_ref_get(e.target, first + k) * weight_of(&e, k);
                counted = counted || t != 0.0;
                mass += t;
            }
        } else {
            VV_TRY(class_of(&e, row, &label));
            counted = label >= 0;
            mass = counted ? weight_of(&e, label) : 0.0;
        }
        const double pull = mass + (e.z_loss > 0.0 ? 2.0 * e.z_loss * total : 0.0);
        for (int64_t k = 0; k < e.classes; k++) {
            const double p = exp(vvi_ref_get(e.logits, first + k) - total);
            double t = k == label ? mass : 0.0;
            if (e.soft)
                t = vvi_ref_get(e.target, first + k) * weight_of(&e, k);
            vvi_ref_set(&call->out[0], first + k, counted ? dloss * (p * pull - t) : 0.0);
        }
    }
    return VV_OK;
}

/* Softmax and the gradients finish reading element i before writing it, row by row. */
const vv_kernel vvi_ref_softmax[] = {
    {.name = "ref", .accepts = accepts, .run = run_softmax, .in_place = 1}, {.run = NULL}};
const vv_kernel vvi_ref_softmax_grad[] = {
    {.name = "ref", .accepts = accepts, .run = run_softmax_grad, .in_place = 3}, {.run = NULL}};
const vv_kernel vvi_ref_cross_entropy[] = {
    {.name = "ref", .accepts = accepts, .run = run_cross_entropy}, {.run = NULL}};
const vv_kernel vvi_ref_cross_entropy_grad[] = {
    {.name = "ref", .accepts = accepts, .run = run_cross_entropy_grad, .in_place = 2},
    {.run = NULL}};
