/* onednn_linear_loss.c - cross-entropy of a linear layer, chunk of rows by chunk: the chunk's
 * logits by oneDNN, their losses and gradients row by row in place, then the chunk's share of the
 * gradients by oneDNN again.
 *
 * Only rows with a class are taken: where some are ignored, the others are gathered. All chunks
 * have one size; what is missing in the last is zero. Chunks are cut without regard to the number
 * of threads and add to dweight in order. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_rows.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

enum {
    CHUNK_ELEMENTS = 1 << 24, /* of logits: 64 MiB */
    ROW_STEP = 16,
    COLUMNS = 512, /* of dbias at a time */
    LINE = 32      /* logits' rows begin at multiples of this */
};

/* What is made once per plan. Offsets are into scratch. */
typedef struct head {
    bool grad, half; /* half: products of bf16 */
    bool dx, dweight, dbias;
    int64_t rows, width, classes, line, chunk;
    int slots;
    vvi_onednn_node *logits, *to_x, *to_weight;
    size_t index_at, weight_at, x_at, logits_at, dx_at, dweight_at, dbias_at, rooms_at, library_at;
    size_t bytes;
} head;

/* One run. */
typedef struct job {
    const head *h;
    const vv_call *call;
    char *scratch;
    const vv_buf *x, *weight, *target, *bias; /* bias NULL: none */
    const void *weight_data; /* in the products' type */
    float *bias_data, *dbias;
    int64_t *index; /* rows with a class, in order */
    int64_t active, first, count; /* the chunk's part of them */
} job;

static const vv_buf *operand(const vv_call *call, int i)
{
    return call->n_in > i && call->in[i].count > 0 ? &call->in[i] : NULL;
}

static bool wanted(const vv_call *call, int i)
{
    return call->n_out > i && call->out[i].count > 0;
}

static bool accepts(const vv_call *call)
{
    const int first = call->op == VV_OP_LINEAR_CROSS_ENTROPY_GRAD;
    const vv_buf *target = &call->in[first + 2];
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].count > 0 && i != first + 2 && !vvi_is_vec_float(call->in[i].dtype))
            return false;
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i].count > 0 && !vvi_is_vec_float(call->out[i].dtype))
            return false;
    return (target->dtype == VV_I32 || target->dtype == VV_I64) && target->count > 0 &&
           call->in[first].count > 0;
}

/* ---- preparation ---- */

typedef struct side {
    vv_dtype dtype;
    int64_t rows, columns, row_stride, column_stride;
} side;

static vv_status add_side(vvi_onednn_node *node, int id, int buf, const side *s)
{
    const dnnl_dims_t dims = {s->rows, s->columns}, strides = {s->row_stride, s->column_stride};
    vv_buf operand_buf;
    memset(&operand_buf, 0, sizeof operand_buf);
    operand_buf.dtype = s->dtype;
    operand_buf.count = s->rows * s->columns;
    return vvi_onednn_add(node, id, buf, &operand_buf, 2, dims, strides, s->dtype);
}

/* y = a b, or y += a b; all in the given layout. */
static vv_status make_product(vvi_onednn_node **out, const side *a, const side *b, const side *y,
                              bool add)
{
    VV_TRY(vvi_onednn_new(out));
    vvi_onednn_node *node = *out;
    if (add)
        VV_TRY(vvi_onednn_accumulate(node));
    VV_TRY(add_side(node, DNNL_ARG_SRC, 0, a));
    VV_TRY(add_side(node, DNNL_ARG_WEIGHTS, 1, b));
    VV_TRY(add_side(node, DNNL_ARG_DST, 0, y));
    VVI_DNN(vvi_pd_matmul(&node->desc, node->engine, node->attr, node->args[0].plain,
                          node->args[1].plain, NULL, node->args[2].plain),
            "planning the products of a linear cross-entropy");
    return vvi_onednn_finish(node);
}

static vv_status make_products(head *h)
{
    const vv_dtype t = h->half ? VV_BF16 : VV_F32;
    const int64_t c = h->chunk, d = h->width, v = h->classes;
    const int64_t line = h->half ? 2 * h->line : h->line; /* of gradients, where logits were */
    VV_TRY(make_product(&h->logits, &(side){t, c, d, d, 1}, &(side){t, d, v, 1, d},
                        &(side){VV_F32, c, v, h->line, 1}, false));
    if (h->dx)
        VV_TRY(make_product(&h->to_x, &(side){t, c, v, line, 1}, &(side){t, v, d, d, 1},
                            &(side){VV_F32, c, d, d, 1}, false));
    if (h->dweight)
        VV_TRY(make_product(&h->to_weight, &(side){t, v, c, 1, line}, &(side){t, c, d, d, 1},
                            &(side){VV_F32, v, d, d, 1}, true));
    return VV_OK;
}

static void release(void *state)
{
    head *h = state;
    if (h) {
        vvi_onednn_free(h->logits);
        vvi_onednn_free(h->to_x);
        vvi_onednn_free(h->to_weight);
    }
    vv_dealloc(h);
}

static size_t reserve(head *h, int64_t count, size_t size)
{
    const size_t at = h->bytes;
    h->bytes += vvi_align64((size_t)count * size);
    return at;
}

/* Chunks of nearly equal size. */
static int64_t chunk_rows(int64_t rows, int64_t classes)
{
    const int64_t most = vvi_max64(CHUNK_ELEMENTS / classes / ROW_STEP, 1) * ROW_STEP;
    const int64_t even = vvi_chunks(rows, vvi_chunks(rows, most));
    return vvi_chunks(even, ROW_STEP) * ROW_STEP;
}

static void lay_out(head *h, const vv_call *call, const vv_buf *weight)
{
    const size_t element = h->half ? sizeof(uint16_t) : sizeof(float);
    const bool convert = !h->half && weight->dtype != VV_F32;
    const bool half_weight = wanted(call, 1) && call->out[1].dtype != VV_F32;
    h->index_at = reserve(h, h->rows, sizeof(int64_t));
    h->weight_at = reserve(h, convert ? weight->count : 0, sizeof(float));
    h->x_at = reserve(h, h->chunk * h->width, element);
    h->logits_at = reserve(h, h->chunk * h->line, sizeof(float));
    h->dx_at = reserve(h, h->dx ? h->chunk * h->width : 0, sizeof(float));
    h->dweight_at = reserve(h, h->dweight && half_weight ? weight->count : 0, sizeof(float));
    h->dbias_at = reserve(h, 2 * h->classes, sizeof(float)); /* bias, dbias */
    h->rooms_at = reserve(h, h->slots * h->classes, sizeof(float));
    size_t most = 0;
    vvi_onednn_node *const nodes[] = {h->logits, h->to_x, h->to_weight};
    for (int i = 0; i < 3; i++)
        if (nodes[i] && nodes[i]->scratch_bytes > most)
            most = nodes[i]->scratch_bytes;
    h->library_at = reserve(h, (int64_t)most, 1);
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const bool grad = call->op == VV_OP_LINEAR_CROSS_ENTROPY_GRAD;
    const vv_buf *x = &call->in[grad], *weight = &call->in[grad + 1];
    vv_status status;
    head *h = NULL;
    VV_GO(vv_alloc(&h, sizeof *h));
    h->grad = grad;
    h->half = vv_cpu_has_bf16() && x->dtype == VV_BF16 && weight->dtype == VV_BF16;
    h->dx = grad && wanted(call, 0);
    h->dweight = grad && wanted(call, 1);
    h->dbias = grad && wanted(call, 2);
    h->classes = weight->shape[0];
    h->width = weight->shape[1];
    h->rows = call->in[grad + 2].count;
    h->line = vvi_chunks(h->classes, LINE) * LINE;
    h->chunk = chunk_rows(h->rows, h->classes);
    h->slots = vv_threads();
    VV_GO(make_products(h));
    lay_out(h, call, weight);
    *scratch_bytes = h->bytes;
    *state = h;
    return VV_OK;
out:
    release(h);
    return status;
}

/* ---- a run ---- */

static void *at_of(const job *j, size_t at)
{
    return j->scratch + at;
}

static int64_t class_at(const vv_buf *target, int64_t row)
{
    return target->dtype == VV_I64 ? ((const int64_t *)target->data)[row]
                                   : ((const int32_t *)target->data)[row];
}

/* Lists the rows that have a class; a wrong class is refused. */
static vv_status list_rows(job *j)
{
    const int64_t ignored = j->call->attr->cross_entropy.ignore_index;
    for (int64_t row = 0; row < j->h->rows; row++) {
        const int64_t k = class_at(j->target, row);
        if (k == ignored)
            continue;
        if (k < 0 || k >= j->h->classes)
            return vv_fail(
                VV_EINVAL,
                "linear_cross_entropy: the target of row %lld is %lld, classes are 0..%lld (and "
                "%lld is ignored); check the labels or the number of classes",
                (long long)row, (long long)k, (long long)(j->h->classes - 1), (long long)ignored);
        j->index[j->active++] = row;
    }
    return VV_OK;
}

/* The chunk's rows lie together in x, and are a whole chunk. */
static bool is_whole(const job *j)
{
    return j->count == j->h->chunk &&
           j->index[j->first + j->count - 1] - j->index[j->first] == j->count - 1;
}

/* The chunk's rows of x in the products' type: where they are, or gathered with zeros behind. */
static void *chunk_of_x(const job *j)
{
    const head *h = j->h;
    const vv_dtype dtype = h->half ? VV_BF16 : VV_F32;
    const size_t row_bytes = (size_t)h->width * vv_dtype_size(dtype);
    const char *data = j->x->data;
    if (j->x->dtype == dtype && is_whole(j))
        return (void *)(uintptr_t)(data + (size_t)j->index[j->first] * row_bytes);
    char *to = at_of(j, h->x_at);
    for (int64_t r = 0; r < j->count; r++) {
        const int64_t row = j->index[j->first + r];
        void *place = to + (size_t)r * row_bytes;
        if (j->x->dtype == dtype)
            memcpy(place, data + (size_t)row * row_bytes, row_bytes);
        else /* bf16 on a machine that computes in f32 */
            vvi_vec_load(place, j->x->dtype, data, row * h->width, h->width);
    }
    memset(to + (size_t)j->count * row_bytes, 0, (size_t)(h->chunk - j->count) * row_bytes);
    return to;
}

static vv_status product(const job *j, vvi_onednn_node *node, const void *a, const void *b, void *y)
{
    void *const data[3] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, y};
    return vvi_onednn_execute_on(node, data, at_of(j, j->h->library_at));
}

static float *logits_of(const job *j, int64_t r)
{
    return (float *)at_of(j, j->h->logits_at) + r * j->h->line;
}

/* The row's logits become their gradient, in the products' type, at the row's beginning. */
static void row_gradient(const job *j, int64_t k, float *x, float *room, float shift, double total,
                         float dloss)
{
    const head *h = j->h;
    const double z = j->call->attr->cross_entropy.z_loss;
    const double cap = j->call->attr->cross_entropy.softcap;
    const double lse = (double)shift + log(total);
    const float scale = (float)((double)dloss * (1.0 + 2.0 * z * lse) / total);
    const double bend = cap > 0.0 ? (double)x[k] / cap : 0.0;
    const float hit = (float)((double)dloss * (1.0 - bend * bend));
    if (cap > 0.0)
        vvi_row_capped(room, room, x, scale, (float)cap, h->classes);
    else
        vvi_vec_scale(room, room, scale, h->classes);
    room[k] -= hit;
    vvi_vec_store(h->half ? VV_BF16 : VV_F32, x, 0, room, h->classes);
}

static void store(const vv_call *call, int out, int64_t at, double value)
{
    const float single = (float)value;
    if (wanted(call, out))
        vvi_vec_store(call->out[out].dtype, call->out[out].data, at, &single, 1);
}

static void row_chunk(void *ctx, int64_t r, int slot)
{
    const job *j = ctx;
    const head *h = j->h;
    float *x = logits_of(j, r), *room = (float *)at_of(j, h->rooms_at) + slot * h->classes;
    if (r >= j->count) { /* gradients of rows that are not there */
        memset(x, 0, (size_t)h->classes * sizeof *x);
        return;
    }
    const double z = j->call->attr->cross_entropy.z_loss;
    const double cap = j->call->attr->cross_entropy.softcap;
    const int64_t row = j->index[j->first + r], k = class_at(j->target, row);
    if (j->bias)
        vvi_vec_add(x, j->bias_data, h->classes);
    if (cap > 0.0)
        vvi_row_softcap(x, x, (float)cap, h->classes);
    const float largest = vvi_row_max(x, h->classes);
    const double total = h->grad ? vvi_row_exp(room, x, largest, h->classes)
                                 : vvi_row_exp_sum(x, largest, h->classes);
    const double lse = (double)largest + log(total);
    store(j->call, h->grad ? 3 : 0, row, lse - (double)x[k] + z * lse * lse);
    if (!h->grad) {
        store(j->call, 1, row, lse);
        return;
    }
    float dloss;
    vvi_vec_load(&dloss, j->call->in[0].dtype, j->call->in[0].data, row, 1);
    row_gradient(j, k, x, room, largest, total, dloss);
}

/* Adds the chunk's rows to some columns of dbias, in order. */
static void bias_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const int64_t begin = chunk * COLUMNS, n = vvi_min64(COLUMNS, j->h->classes - begin);
    double total[COLUMNS] = {0.0};
    float room[COLUMNS];
    for (int64_t r = 0; r < j->count; r++) {
        const float *row = logits_of(j, r), *part = row + begin;
        if (j->h->half) {
            vvi_vec_load(room, VV_BF16, row, begin, n);
            part = room;
        }
        for (int64_t i = 0; i < n; i++)
            total[i] += (double)part[i];
    }
    for (int64_t i = 0; i < n; i++)
        j->dbias[begin + i] += (float)total[i];
}

/* dx of the chunk: straight to its place, or spread to the rows. */
static vv_status chunk_dx(const job *j)
{
    const head *h = j->h;
    const vv_buf *out = &j->call->out[0];
    const bool direct = out->dtype == VV_F32 && is_whole(j);
    float *dx = direct ? (float *)out->data + j->index[j->first] * h->width : at_of(j, h->dx_at);
    VV_TRY(product(j, h->to_x, logits_of(j, 0), j->weight_data, dx));
    for (int64_t r = 0; r < j->count && !direct; r++)
        vvi_vec_store(out->dtype, out->data, j->index[j->first + r] * h->width, dx + r * h->width,
                      h->width);
    return VV_OK;
}

static vv_status run_chunk(job *j, float *dweight)
{
    const head *h = j->h;
    const void *x = chunk_of_x(j);
    VV_TRY(product(j, h->logits, x, j->weight_data, logits_of(j, 0)));
    vvi_cpu_for(h->grad ? h->chunk : j->count, h->slots, row_chunk, j);
    if (h->dbias)
        vvi_cpu_for(vvi_chunks(h->classes, COLUMNS), h->slots, bias_chunk, j);
    if (h->dx)
        VV_TRY(chunk_dx(j));
    return h->dweight ? product(j, h->to_weight, logits_of(j, 0), x, dweight) : VV_OK;
}

static void clear(const vv_call *call, int out)
{
    if (wanted(call, out))
        memset(call->out[out].data, 0,
               (size_t)call->out[out].count * vv_dtype_size(call->out[out].dtype));
}

static job job_of(const vv_call *call)
{
    const head *h = call->state;
    const int first = h->grad;
    job j = {.h = h, .call = call, .scratch = call->scratch, .x = &call->in[first],
             .weight = &call->in[first + 1], .target = &call->in[first + 2],
             .bias = operand(call, first + 3)};
    j.index = at_of(&j, h->index_at);
    j.bias_data = at_of(&j, h->dbias_at);
    j.dbias = j.bias_data + h->classes;
    j.weight_data = j.weight->data;
    return j;
}

static vv_status run(const vv_call *call)
{
    job j = job_of(call);
    const head *h = j.h;
    VV_TRY(list_rows(&j));
    for (int i = 0; i < call->n_out; i++)
        if (i != 0 || j.active < h->rows || !h->grad)
            clear(call, i);
    if (j.bias)
        vvi_vec_load(j.bias_data, j.bias->dtype, j.bias->data, 0, h->classes);
    memset(j.dbias, 0, (size_t)h->classes * sizeof *j.dbias);
    if (!h->half && j.weight->dtype != VV_F32) {
        vvi_vec_load_all(at_of(&j, h->weight_at), j.weight->dtype, j.weight->data, j.weight->count);
        j.weight_data = at_of(&j, h->weight_at);
    }
    const bool aside = h->dweight && call->out[1].dtype != VV_F32;
    float *dweight = aside ? at_of(&j, h->dweight_at) : h->dweight ? call->out[1].data : NULL;
    if (aside)
        memset(dweight, 0, (size_t)j.weight->count * sizeof *dweight);
    for (j.first = 0; j.first < j.active; j.first += h->chunk) {
        j.count = vvi_min64(h->chunk, j.active - j.first);
        VV_TRY(run_chunk(&j, dweight));
    }
    if (aside)
        vvi_vec_store_all(call->out[1].dtype, call->out[1].data, dweight, j.weight->count);
    if (h->dbias)
        vvi_vec_store_all(call->out[2].dtype, call->out[2].data, j.dbias, h->classes);
    return VV_OK;
}

const vv_kernel vvi_onednn_linear_cross_entropy[] = {
    {"onednn chunks", accepts, prepare, run, release, 0},
    {0},
};
const vv_kernel vvi_onednn_linear_cross_entropy_grad[] = {
    {"onednn chunks", accepts, prepare, run, release, 0},
    {0},
};
