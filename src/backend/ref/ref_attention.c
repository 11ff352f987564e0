/* ref_attention.c - reference kernels of attention, in double, one row of weights at a time.
 *
 * With s = scale q.k - slope |distance|, p = softmax(s), r_j = 0 or 1 / (1 - dropout) and y = sum_j
 * p_j r_j v_j: dp_j = r_j (dy . v_j), ds_j = p_j (dp_j - dy . y), as sum_j p_j dp_j = dy . y (Dao
 * et al., arXiv 2205.14135, appendix B). */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"

/* Operands of both directions; one head at a time. */
typedef struct job {
    const vv_call *call;
    const vv_buf *q, *k, *v, *slopes, *mask, *document; /* the last three: NULL if absent */
    int64_t batch, queries, keys, heads, kv_heads, width;
    double scale, p;
    int64_t n, h; /* the head */
    double *weight; /* [keys]: a row of p, 0 where unseen or dropped ... */
    double *ratio;  /* [keys]: 1 / (1 - dropout), 0 where dropped */
} job;

static const vv_buf *optional(const vv_call *call, int i)
{
    return i < call->n_in && call->in[i].count > 0 ? &call->in[i] : NULL;
}

static job job_of(const vv_call *call)
{
    const bool forward = call->op == VV_OP_ATTENTION;
    const vv_buf *q = &call->in[forward ? 0 : 1];
    const int first = forward ? 3 : 6;
    job j = {.call = call, .q = q, .k = q + 1, .v = q + 2};
    j.slopes = optional(call, first);
    j.mask = optional(call, first + 1);
    j.document = optional(call, first + 2);
    j.batch = q->shape[0];
    j.queries = q->shape[1];
    j.heads = q->shape[2];
    j.width = q->shape[3];
    j.keys = j.k->shape[1];
    j.kv_heads = j.k->shape[2];
    j.scale = call->attr->attention.scale;
    j.p = call->attr->attention.p;
    j.weight = call->scratch;
    j.ratio = j.weight + j.keys;
    return j;
}

static bool accepts(const vv_call *call)
{
    return vv_dtype_is_float(call->out[0].dtype);
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const job j = job_of(call);
    const int64_t sums = call->op == VV_OP_ATTENTION ? j.width : 2 * j.keys * j.width;
    *state = NULL;
    *scratch_bytes = (size_t)(2 * j.keys + sums) * sizeof(double);
    return VV_OK;
}

/* Index of channel 0 of query i, and of key i. */
static int64_t at_query(const job *j, int64_t i)
{
    return ((j->n * j->queries + i) * j->heads + j->h) * j->width;
}

static int64_t at_key(const job *j, int64_t i)
{
    return ((j->n * j->keys + i) * j->kv_heads + j->h / (j->heads / j->kv_heads)) * j->width;
}

static double dot(const job *j, const vv_buf *a, int64_t at_a, const vv_buf *b, int64_t at_b)
{
    double sum = 0.0;
    for (int64_t c = 0; c < j->width; c++)
        sum += vvi_ref_get(a, at_a + c) * vvi_ref_get(b, at_b + c);
    return sum;
}

static bool sees(const job *j, int64_t query, int64_t key)
{
    const vv_attr *attr = j->call->attr;
    const int64_t position = query + j->keys - j->queries;
    const int64_t distance = position > key ? position - key : key - position;
    if (attr->attention.causal && key > position)
        return false;
    if (attr->attention.window > 0 && distance >= attr->attention.window)
        return false;
    if (j->mask && vvi_ref_get(j->mask, j->n * j->keys + key) == 0.0)
        return false;
    return !j->document || vvi_ref_get(j->document, j->n * j->keys + query) ==
                               vvi_ref_get(j->document, j->n * j->keys + key);
}

/* Scores of a row into `weight`; -infinity where nothing is seen. */
static void scores_of(const job *j, int64_t query)
{
    for (int64_t key = 0; key < j->keys; key++) {
        j->weight[key] = -INFINITY;
        if (!sees(j, query, key))
            continue;
        double score = j->scale * dot(j, j->q, at_query(j, query), j->k, at_key(j, key));
        if (j->slopes)
            score -= vvi_ref_get(j->slopes, j->h) *
                     fabs((double)(query + j->keys - j->queries - key));
        j->weight[key] = score;
    }
}

static void ratios_of(const job *j, int64_t query)
{
    const vv_call *call = j->call;
    const uint64_t columns = ((uint64_t)j->keys + 3) / 4 * 4;
    const uint64_t row = ((uint64_t)(j->n + call->first_item) * (uint64_t)j->heads +
                          (uint64_t)j->h) * (uint64_t)j->queries + (uint64_t)query;
    for (int64_t key = 0; key < j->keys; key++) {
        j->ratio[key] = 1.0;
        if (j->p <= 0.0)
            continue;
        const double draw =
            (double)vv_random_element(call->seed, call->step, (uint64_t)call->attr->attention.id,
                                      row * columns + (uint64_t)key);
        j->ratio[key] = draw >= j->p ? 1.0 / (1.0 - j->p) : 0.0;
    }
}

static double log_sum_exp(const double *x, int64_t count)
{
    double largest = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        largest = x[i] > largest || isnan(x[i]) ? x[i] : largest;
    if (isinf(largest) && largest < 0.0)
        return largest;
    for (int64_t i = 0; i < count; i++)
        sum += exp(x[i] - largest);
    return largest + log(sum);
}

static void forward_row(const job *j, int64_t query)
{
    double *y = j->ratio + j->keys;
    scores_of(j, query);
    ratios_of(j, query);
    const double total = log_sum_exp(j->weight, j->keys);
    memset(y, 0, (size_t)j->width * sizeof *y);
    for (int64_t key = 0; key < j->keys; key++) {
        if (isinf(j->weight[key]) && j->weight[key] < 0.0)
            continue;
        const double weight = exp(j->weight[key] - total) * j->ratio[key];
        for (int64_t c = 0; c < j->width; c++)
            y[c] += weight * vvi_ref_get(j->v, at_key(j, key) + c);
    }
    for (int64_t c = 0; c < j->width; c++)
        vvi_ref_set(&j->call->out[0], at_query(j, query) + c, y[c]);
    vvi_ref_set(&j->call->out[1], (j->n * j->heads + j->h) * j->queries + query, total);
}

static vv_status run(const vv_call *call)
{
    job j = job_of(call);
    for (j.n = 0; j.n < j.batch; j.n++)
        for (j.h = 0; j.h < j.heads; j.h++)
            for (int64_t query = 0; query < j.queries; query++)
                forward_row(&j, query);
    return VV_OK;
}

static void grad_row(const job *j, int64_t query, double *dk, double *dv)
{
    const vv_buf *dy = &j->call->in[0], *y = &j->call->in[4], *logsumexp = &j->call->in[5];
    const int64_t at = at_query(j, query);
    const double total =
        vvi_ref_get(logsumexp, (j->n * j->heads + j->h) * j->queries + query);
    const double mean = dot(j, dy, at, y, at);
    scores_of(j, query);
    ratios_of(j, query);
    for (int64_t key = 0; key < j->keys; key++) { /* ratio: p r; weight: ds */
        const double score = j->weight[key];
        const bool unseen = isinf(score) && score < 0.0;
        const double p = unseen ? 0.0 : exp(score - total), r = j->ratio[key];
        j->ratio[key] = p * r;
        j->weight[key] =
            unseen ? 0.0 : p * (r * dot(j, dy, at, j->v, at_key(j, key)) - mean) * j->scale;
    }
    for (int64_t c = 0; c < j->width; c++) {
        const double qc = vvi_ref_get(j->q, at + c), dyc = vvi_ref_get(dy, at + c);
        double dq = 0.0;
        for (int64_t key = 0; key < j->keys; key++) {
            if (j->weight[key] != 0.0)
                dq += j->weight[key] * vvi_ref_get(j->k, at_key(j, key) + c);
            dk[key * j->width + c] += j->weight[key] * qc;
            dv[key * j->width + c] += j->ratio[key] * dyc;
        }
        vvi_ref_set(&j->call->out[0], at + c, dq);
    }
}

/* The query heads that share one head of k and v add up in scratch. */
static vv_status run_grad(const vv_call *call)
{
    job j = job_of(call);
    const int64_t group = j.heads / j.kv_heads, count = j.keys * j.width;
    double *dk = j.ratio + j.keys, *dv = dk + count;
    for (j.n = 0; j.n < j.batch; j.n++) {
        for (int64_t head = 0; head < j.kv_heads; head++) {
            if (count > 0)
                memset(dk, 0, 2 * (size_t)count * sizeof *dk);
            for (j.h = head * group; j.h < (head + 1) * group; j.h++)
                for (int64_t query = 0; query < j.queries; query++)
                    grad_row(&j, query, dk, dv);
            j.h = head * group;
            for (int64_t i = 0; i < count; i++) {
                const int64_t to = at_key(&j, i / j.width) + i % j.width;
                vvi_ref_set(&call->out[1], to, dk[i]);
                vvi_ref_set(&call->out[2], to, dv[i]);
            }
        }
    }
    return VV_OK;
}

const vv_kernel vvi_ref_attention[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare, .run = run}, {.run = NULL}};
const vv_kernel vvi_ref_attention_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare, .run = run_grad}, {.run = NULL}};
