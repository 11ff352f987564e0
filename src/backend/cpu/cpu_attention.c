/* cpu_attention.c - attention with an online softmax: a block of queries against one tile of keys
 * after the other (Dao et al., arXiv 2205.14135). Tiles in which causal, window, masks or documents
 * leave nothing are skipped. */
#include "backend/cpu/cpu_attention.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <math.h>
#include <string.h>

/* BLOCK: queries that share one packing of the keys; their sums stay in the second-level cache.
   FEW: up to so many, as in generating text, turning the keys would cost more than it saves. */
enum { BLOCK = 256, FEW = 8 };

/* ---- operands and tiles ---- */

static bool is_vec(const vv_buf *buf)
{
    return vvi_is_vec_float(buf->dtype) && buf->count > 0;
}

bool vvi_attention_accepts(const vv_call *call)
{
    const bool forward = call->op == VV_OP_ATTENTION;
    for (int i = 0; i < (forward ? 3 : 6); i++)
        if (!is_vec(&call->in[i]))
            return false;
    for (int i = 0; i < call->n_out; i++)
        if (!vvi_is_vec_float(call->out[i].dtype))
            return false;
    const vv_buf *logsumexp = forward ? &call->out[1] : &call->in[5];
    return logsumexp->dtype == VV_F32 && call->attr->attention.p < 1.0;
}

static const vv_buf *optional(const vv_call *call, int i)
{
    return i < call->n_in && call->in[i].count > 0 ? &call->in[i] : NULL;
}

vvi_attention vvi_attention_of(const vv_call *call)
{
    const bool forward = call->op == VV_OP_ATTENTION;
    const vv_buf *q = &call->in[forward ? 0 : 1];
    const int first = forward ? 3 : 6;
    const vv_attr *attr = call->attr;
    vvi_attention a = {.call = call, .q = q, .k = q + 1, .v = q + 2};
    a.slopes = optional(call, first);
    a.mask = optional(call, first + 1);
    a.document = optional(call, first + 2);
    a.batch = q->shape[0];
    a.queries = q->shape[1];
    a.heads = q->shape[2];
    a.width = q->shape[3];
    a.keys = a.k->shape[1];
    a.kv_heads = a.k->shape[2];
    a.padded = (a.width + VVI_TILE_STEP - 1) / VVI_TILE_STEP * VVI_TILE_STEP;
    a.row = vvi_tile_row(a.width);
    a.ahead = a.keys - a.queries;
    a.scale = (float)attr->attention.scale;
    a.dropout = attr->attention.p > 0.0;
    a.keep_limit = vvi_draw_limit(attr->attention.p);
    a.keep_scale = (float)(1.0 / (1.0 - attr->attention.p));
    a.philox = vvi_philox_of(call->seed, call->step, (uint64_t)attr->attention.id);
    return a;
}

bool vvi_attention_keys(const vvi_attention *a, vvi_attention_tile *tile, int64_t key)
{
    tile->key = key;
    tile->keys = vvi_min64(VVI_TILE, a->keys - key);
    tile->columns = (tile->keys + VVI_TILE_STEP - 1) / VVI_TILE_STEP * VVI_TILE_STEP;
    const int64_t at = tile->n * a->keys + key;
    bool any = !a->mask;
    for (int64_t j = 0; j < VVI_TILE; j++) {
        int32_t seen = j < tile->keys;
        if (seen && a->mask)
            seen = a->mask->dtype == VV_I32 ? ((const int32_t *)a->mask->data)[at + j] != 0
                                            : ((const uint8_t *)a->mask->data)[at + j] != 0;
        tile->mask[j] = seen;
        any = any || seen;
        tile->key_document[j] =
            a->document && j < tile->keys ? ((const int32_t *)a->document->data)[at + j] : 0;
    }
    return any;
}

void vvi_attention_queries(const vvi_attention *a, vvi_attention_tile *tile, int64_t query,
                           int64_t rows)
{
    tile->query = query;
    tile->rows = rows;
    if (a->document)
        memcpy(tile->query_document,
               (const int32_t *)a->document->data + tile->n * a->keys + query,
               (size_t)rows * sizeof *tile->query_document);
    else
        memset(tile->query_document, 0, sizeof tile->query_document);
}

/* Texts that follow each other have numbers in ranges that do not overlap. */
static bool documents_meet(const vvi_attention *a, const vvi_attention_tile *tile, int64_t query,
                           int64_t rows)
{
    const int32_t *q = (const int32_t *)a->document->data + tile->n * a->keys + query;
    const int32_t *k = tile->key_document;
    int32_t low = q[0], high = q[0], key_low = k[0], key_high = k[0];
    for (int64_t i = 1; i < rows; i++) {
        low = q[i] < low ? q[i] : low;
        high = q[i] > high ? q[i] : high;
    }
    for (int64_t j = 1; j < tile->keys; j++) {
        key_low = k[j] < key_low ? k[j] : key_low;
        key_high = k[j] > key_high ? k[j] : key_high;
    }
    return low <= key_high && key_low <= high;
}

bool vvi_attention_meets(const vvi_attention *a, const vvi_attention_tile *tile, int64_t query,
                         int64_t rows)
{
    const vv_attr *attr = a->call->attr;
    const int64_t first = query + a->ahead, last = first + rows - 1;
    const int64_t key_last = tile->key + tile->keys - 1, window = attr->attention.window;
    if (attr->attention.causal && tile->key > last)
        return false;
    if (window > 0 && (first - key_last >= window || tile->key - last >= window))
        return false;
    return !a->document || documents_meet(a, tile, query, rows);
}

float vvi_attention_scores(const vvi_attention *a, const vvi_attention_tile *tile, float *s)
{
    const vv_attr *attr = a->call->attr;
    const int64_t first = tile->query + a->ahead, last = first + tile->rows - 1;
    const int64_t key_last = tile->key + tile->keys - 1, window = attr->attention.window;
    const bool cut = (attr->attention.causal && key_last > first) ||
                     (window > 0 && (last - tile->key >= window || key_last - first >= window));
    if (!cut && tile->keys == tile->columns && !a->slopes && !a->mask && !a->document)
        return a->scale;
    const vvi_tile_view view = {
        .rows = tile->rows,
        .columns = tile->columns,
        .keys = tile->keys,
        .offset = first - tile->key,
        .causal = attr->attention.causal,
        .window = window,
        .scale = a->scale,
        .slope = a->slopes ? ((const float *)a->slopes->data)[tile->h] : 0.0f,
        .mask = tile->mask,
        .query_document = tile->query_document,
        .key_document = tile->key_document,
    };
    vvi_tile_scores(s, &view);
    return 1.0f;
}

void vvi_attention_draws(const vvi_attention *a, const vvi_attention_tile *tile, float *u)
{
    enum { PER_ROW = VVI_TILE / 4, TOGETHER = VVI_DRAWS / VVI_TILE };
    const uint64_t columns = ((uint64_t)a->keys + 3) / 4;
    const uint64_t first_item = (uint64_t)a->call->first_item;
    const uint64_t row = (((uint64_t)tile->n + first_item) * (uint64_t)a->heads +
                          (uint64_t)tile->h) * (uint64_t)a->queries + (uint64_t)tile->query;
    for (int64_t i = 0; i < tile->rows; i += TOGETHER)
        vvi_vec_draws(&a->philox, (row + (uint64_t)i) * columns + (uint64_t)tile->key / 4, PER_ROW,
                      columns, u + i * VVI_TILE);
}

void vvi_attention_load(float *dst, const vvi_attention *a, const vv_buf *x, int64_t n, int64_t h,
                        int64_t first, int64_t rows)
{
    const int64_t heads = x->shape[2], width = x->shape[3];
    const int64_t at = ((n * x->shape[1] + first) * heads + h) * width;
    for (int64_t i = 0; i < rows; i++) {
        vvi_vec_load(dst + i * a->row, x->dtype, x->data, at + i * heads * width, width);
        for (int64_t c = width; c < a->padded; c++)
            dst[i * a->row + c] = 0.0f;
    }
}

void vvi_attention_store(const vv_buf *x, const vvi_attention *a, int64_t n, int64_t h,
                         int64_t first, int64_t rows, const float *src)
{
    const int64_t heads = x->shape[2], width = x->shape[3];
    const int64_t at = ((n * x->shape[1] + first) * heads + h) * width;
    for (int64_t i = 0; i < rows; i++)
        vvi_vec_store(x->dtype, x->data, at + i * heads * width, src + i * a->row, width);
}

void vvi_attention_load_keys(float *dst, const vvi_attention *a, const vv_buf *x,
                             const vvi_attention_tile *tile)
{
    const int64_t h = tile->h / (a->heads / a->kv_heads);
    vvi_attention_load(dst, a, x, tile->n, h, tile->key, tile->keys);
    for (int64_t j = 0; a->mask && j < tile->keys; j++)
        if (!tile->mask[j])
            memset(dst + j * a->row, 0, (size_t)a->padded * sizeof *dst);
}

/* ---- forward ---- */

typedef struct job {
    vvi_attention a;
    int64_t blocks, room; /* of one slot, in floats */
    int slots;
    float *scratch;
} job;

/* A slot's scratch. */
typedef struct rooms {
    float *q, *y;          /* [BLOCK][row] */
    float *k, *v;          /* k: [width][VVI_TILE_ROW] transposed, or as v: [VVI_TILE][row] */
    float *s, *u;          /* a tile of scores, of draws */
    float *largest, *total, *shrink; /* [BLOCK], [BLOCK], [VVI_TILE] */
} rooms;

/* Cuts the rooms out of `from` (which may be NULL); returns how many floats they take. */
static int64_t cut_rooms(const vvi_attention *a, float *from, rooms *r)
{
    const int64_t block = vvi_min64(BLOCK, a->queries) * a->row;
    const int64_t sizes[9] = {block,
                              block,
                              vvi_max64(a->width * VVI_TILE_ROW, VVI_TILE * a->row),
                              VVI_TILE * a->row,
                              VVI_TILE * VVI_TILE_ROW,
                              a->dropout ? VVI_TILE * VVI_TILE + VVI_DRAWS : 0,
                              BLOCK,
                              BLOCK,
                              VVI_TILE};
    float **const to[9] = {&r->q, &r->y, &r->k,       &r->v,     &r->s,
                           &r->u, &r->largest, &r->total, &r->shrink};
    int64_t at = 0;
    for (int i = 0; i < 9; i++) {
        *to[i] = from ? from + at : NULL;
        at += vvi_attention_room(sizes[i]);
    }
    return at;
}

static job job_of(const vv_call *call, int slots, void *scratch)
{
    job j = {.a = vvi_attention_of(call), .slots = slots, .scratch = scratch};
    rooms none;
    j.blocks = vvi_chunks(j.a.queries, BLOCK);
    j.room = cut_rooms(&j.a, NULL, &none);
    return j;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    const job j = job_of(call, slots, NULL);
    *state = (void *)(intptr_t)slots;
    *scratch_bytes = (size_t)(j.room * slots) * sizeof(float);
    return VV_OK;
}

/* The tile's queries, the first of which is row `at` of the block, against its keys. */
static void visit_tile(const vvi_attention *a, const vvi_attention_tile *tile, const rooms *r,
                       int64_t at)
{
    const vvi_tile_matrix q = {r->q + at * a->row, a->row, 1}, p = {r->s, VVI_TILE_ROW, 1};
    float *y = r->y + at * a->row;
    if (a->queries <= FEW)
        vvi_tile_dots(r->s, q.at, r->k, a->row, tile->rows, tile->keys, a->width);
    else
        vvi_tile_product(r->s, VVI_TILE_ROW, q, r->k, VVI_TILE_ROW, tile->rows, tile->columns,
                         a->width, false);
    const float scale = vvi_attention_scores(a, tile, r->s);
    if (vvi_tile_softmax(r->s, tile->rows, tile->columns, scale, r->largest + at, r->total + at,
                         r->shrink))
        vvi_tile_shrink(y, a->row, tile->rows, a->padded, r->shrink);
    if (a->dropout) {
        vvi_attention_draws(a, tile, r->u);
        vvi_tile_keep(r->s, r->u, a->keep_limit, a->keep_scale, tile->rows);
    }
    vvi_tile_product(y, a->row, p, r->v, a->row, tile->rows, a->padded, tile->keys, true);
}

static void store_block(const vvi_attention *a, const vvi_attention_tile *tile, const rooms *r,
                        int64_t first, int64_t count)
{
    float *logsumexp = (float *)a->call->out[1].data +
                       (tile->n * a->heads + tile->h) * a->queries + first;
    for (int64_t i = 0; i < count; i++) {
        logsumexp[i] = r->largest[i] + logf(r->total[i]);
        const float total = r->total[i];
        r->total[i] = total == 0.0f ? 0.0f : 1.0f / total;
    }
    vvi_tile_shrink(r->y, a->row, count, a->padded, r->total);
    vvi_attention_store(&a->call->out[0], a, tile->n, tile->h, first, count, r->y);
}

/* One head, one block of queries. */
static void forward_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vvi_attention *a = &j->a;
    rooms r;
    cut_rooms(a, j->scratch + slot * j->room, &r);
    const int64_t head = chunk / j->blocks, first = chunk % j->blocks * BLOCK;
    const int64_t count = vvi_min64(BLOCK, a->queries - first);
    vvi_attention_tile tile = {.n = head / a->heads, .h = head % a->heads};
    vvi_attention_load(r.q, a, a->q, tile.n, tile.h, first, count);
    memset(r.y, 0, (size_t)(count * a->row) * sizeof *r.y);
    for (int64_t i = 0; i < count; i++) {
        r.largest[i] = -INFINITY;
        r.total[i] = 0.0f;
    }
    for (int64_t key = 0; key < a->keys; key += VVI_TILE) {
        if (!vvi_attention_keys(a, &tile, key) || !vvi_attention_meets(a, &tile, first, count))
            continue;
        vvi_attention_load_keys(a->queries <= FEW ? r.k : r.v, a, a->k, &tile);
        if (a->queries > FEW)
            vvi_tile_transpose(r.k, r.v, a->row, tile.keys, a->width);
        vvi_attention_load_keys(r.v, a, a->v, &tile);
        for (int64_t at = 0; at < count; at += VVI_TILE) {
            const int64_t rows = vvi_min64(VVI_TILE, count - at);
            if (!vvi_attention_meets(a, &tile, first + at, rows))
                continue;
            vvi_attention_queries(a, &tile, first + at, rows);
            visit_tile(a, &tile, &r, at);
        }
    }
    store_block(a, &tile, &r, first, count);
}

static vv_status run(const vv_call *call)
{
    job j = job_of(call, (int)(intptr_t)call->state, call->scratch);
    vvi_cpu_for(j.a.batch * j.a.heads * j.blocks, j.slots, forward_chunk, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_attention[] = {{"tiles", vvi_attention_accepts, prepare, run, NULL, 0},
                                       {0}};
