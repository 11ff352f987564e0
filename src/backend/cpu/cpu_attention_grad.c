/* cpu_attention_grad.c - gradient of attention: the weights of a tile are made again from the
 * logsumexp, then four products follow (Dao et al., arXiv 2205.14135, algorithm 4).
 *
 * With p = weights, r = 0 or 1 / (1 - dropout), delta = dy . y: dv = (p r)^T dy, dp = r (dy v^T),
 * ds = scale p (dp - delta), dq = ds k, dk = ds^T q. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_attention.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_rows.h"

#include <math.h>
#include <string.h>

typedef struct job {
    vvi_attention a;
    int64_t room; /* of one slot, in floats */
    int slots;
    float *scratch;
    float *dk, *dv; /* [batch][keys][heads][width] where heads share k and v, else NULL */
} job;

/* A slot's scratch. */
typedef struct rooms {
    float *q, *dy, *dq;           /* [queries][row] */
    float *delta, *logsumexp;     /* [queries] */
    float *k_columns, *v_columns; /* [width][VVI_TILE_ROW]: transposed */
    float *k, *dk, *dv;           /* [VVI_TILE][row] */
    float *p, *ds, *u;            /* tiles */
} rooms;

static int64_t cut_rooms(const vvi_attention *a, float *from, rooms *r)
{
    const int64_t all = a->queries * a->row, tile = VVI_TILE * a->row;
    const int64_t columns = a->width * VVI_TILE_ROW, square = VVI_TILE * VVI_TILE_ROW;
    const int64_t draws = a->dropout ? VVI_TILE * VVI_TILE + VVI_DRAWS : 0;
    const int64_t sizes[13] = {all,  all,  all,  a->queries, a->queries, columns, columns,
                               tile, tile, tile, square,     square,     draws};
    float **const to[13] = {&r->q, &r->dy, &r->dq, &r->delta, &r->logsumexp, &r->k_columns,
                            &r->v_columns, &r->k, &r->dk, &r->dv, &r->p, &r->ds, &r->u};
    int64_t at = 0;
    for (int i = 0; i < 13; i++) {
        *to[i] = from ? from + at : NULL;
        at += vvi_attention_room(sizes[i]);
    }
    return at;
}

static bool is_shared(const vvi_attention *a)
{
    return a->heads != a->kv_heads;
}

/* Floats of one tensor of partial gradients, one part per head of q. */
static int64_t partial_count(const vvi_attention *a)
{
    return is_shared(a) ? vvi_attention_room(a->batch * a->keys * a->heads * a->width) : 0;
}

static job job_of(const vv_call *call, int slots, void *scratch)
{
    job j = {.a = vvi_attention_of(call), .slots = slots, .scratch = scratch};
    rooms none;
    j.room = cut_rooms(&j.a, NULL, &none);
    if (is_shared(&j.a) && scratch) {
        j.dk = j.scratch + j.room * slots;
        j.dv = j.dk + partial_count(&j.a);
    }
    return j;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    const job j = job_of(call, slots, NULL);
    *state = (void *)(intptr_t)slots;
    *scratch_bytes = (size_t)(j.room * slots + 2 * partial_count(&j.a)) * sizeof(float);
    return VV_OK;
}

/* q, dy, delta, the logsumexp (where nothing is seen +infinity, so that all weights become 0), dq
   = 0. */
static void start_head(const vvi_attention *a, const vvi_attention_tile *tile, const rooms *r)
{
    const vv_buf *dy = &a->call->in[0], *y = &a->call->in[4];
    const float *logsumexp = (const float *)a->call->in[5].data +
                             (tile->n * a->heads + tile->h) * a->queries;
    vvi_attention_load(r->q, a, y, tile->n, tile->h, 0, a->queries);
    vvi_attention_load(r->dy, a, dy, tile->n, tile->h, 0, a->queries);
    for (int64_t i = 0; i < a->queries; i++) {
        r->delta[i] = (float)vvi_row_dot(r->dy + i * a->row, r->q + i * a->row, a->width);
        r->logsumexp[i] = logsumexp[i] == -INFINITY ? INFINITY : logsumexp[i];
    }
    vvi_attention_load(r->q, a, a->q, tile->n, tile->h, 0, a->queries);
    memset(r->dq, 0, (size_t)(a->queries * a->row) * sizeof *r->dq);
}

static void start_keys(const vvi_attention *a, const vvi_attention_tile *tile, const rooms *r)
{
    const size_t bytes = (size_t)(VVI_TILE * a->row) * sizeof(float);
    vvi_attention_load_keys(r->k, a, a->v, tile);
    vvi_tile_transpose(r->v_columns, r->k, a->row, tile->keys, a->width);
    vvi_attention_load_keys(r->k, a, a->k, tile);
    vvi_tile_transpose(r->k_columns, r->k, a->row, tile->keys, a->width);
    memset(r->dk, 0, bytes);
    memset(r->dv, 0, bytes);
}

static void visit_tile(const vvi_attention *a, const vvi_attention_tile *tile, const rooms *r)
{
    const int64_t rows = tile->rows, columns = tile->columns, row = a->row;
    const int64_t first = tile->query * row;
    const vvi_tile_matrix q = {r->q + first, row, 1}, dy = {r->dy + first, row, 1};
    const vvi_tile_matrix p_turned = {r->p, 1, VVI_TILE_ROW}, ds_turned = {r->ds, 1, VVI_TILE_ROW};
    const vvi_tile_matrix ds = {r->ds, VVI_TILE_ROW, 1};
    vvi_tile_product(r->p, VVI_TILE_ROW, q, r->k_columns, VVI_TILE_ROW, rows, columns, a->width,
                     false);
    const float scale = vvi_attention_scores(a, tile, r->p);
    vvi_tile_weights(r->p, rows, columns, scale, r->logsumexp + tile->query);
    vvi_tile_product(r->ds, VVI_TILE_ROW, dy, r->v_columns, VVI_TILE_ROW, rows, columns, a->width,
                     false);
    if (a->dropout) {
        vvi_attention_draws(a, tile, r->u);
        vvi_tile_keep(r->ds, r->u, a->keep_limit, a->keep_scale, rows);
    }
    vvi_tile_softmax_grad(r->ds, r->p, r->ds, rows, columns, a->scale, r->delta + tile->query);
    if (a->dropout)
        vvi_tile_keep(r->p, r->u, a->keep_limit, a->keep_scale, rows);
    vvi_tile_product(r->dv, row, p_turned, dy.at, row, tile->keys, a->padded, rows, true);
    vvi_tile_product(r->dk, row, ds_turned, q.at, row, tile->keys, a->padded, rows, true);
    vvi_tile_product(r->dq + first, row, ds, r->k, row, rows, a->padded, tile->keys, true);
}

/* A tile's dk or dv: into the result, or into the partial sums of its head. */
static void store_keys(const job *j, const vvi_attention_tile *tile, int which, const float *grad)
{
    const vvi_attention *a = &j->a;
    vv_buf to = a->call->out[1 + which];
    if (is_shared(a)) {
        to.dtype = VV_F32;
        to.shape[2] = a->heads;
        to.data = which ? j->dv : j->dk;
    }
    vvi_attention_store(&to, a, tile->n, tile->h, tile->key, tile->keys, grad);
}

/* One head. */
static void grad_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vvi_attention *a = &j->a;
    rooms r;
    cut_rooms(a, j->scratch + slot * j->room, &r);
    vvi_attention_tile tile = {.n = chunk / a->heads, .h = chunk % a->heads};
    start_head(a, &tile, &r);
    for (int64_t key = 0; key < a->keys; key += VVI_TILE) {
        const bool any = vvi_attention_keys(a, &tile, key);
        start_keys(a, &tile, &r);
        for (int64_t query = 0; any && query < a->queries; query += VVI_TILE) {
            const int64_t rows = vvi_min64(VVI_TILE, a->queries - query);
            if (!vvi_attention_meets(a, &tile, query, rows))
                continue;
            vvi_attention_queries(a, &tile, query, rows);
            visit_tile(a, &tile, &r);
        }
        store_keys(j, &tile, 0, r.dk);
        store_keys(j, &tile, 1, r.dv);
    }
    vvi_attention_store(&a->call->out[0], a, tile.n, tile.h, 0, a->queries, r.dq);
}

/* Heads of k and v of all positions are one list; `group` partial sums belong to each of it. */
static int64_t merge_grain(const vvi_attention *a)
{
    return vvi_row_grain(a->heads / a->kv_heads * a->width);
}

/* Sums the heads that share a head of k and v, in order. */
static void merge_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vvi_attention *a = &j->a;
    const int64_t group = a->heads / a->kv_heads, width = a->width, grain = merge_grain(a);
    const int64_t end = vvi_min64((chunk + 1) * grain, a->batch * a->keys * a->kv_heads);
    float *sum = j->scratch + slot * j->room;
    for (int which = 0; which < 2; which++) {
        const vv_buf *out = &a->call->out[1 + which];
        for (int64_t at = chunk * grain; at < end; at++) {
            const float *from = (which ? j->dv : j->dk) + at * group * width;
            memcpy(sum, from, (size_t)width * sizeof *sum);
            for (int64_t i = 1; i < group; i++)
                vvi_vec_add(sum, from + i * width, width);
            vvi_vec_store(out->dtype, out->data, at * width, sum, width);
        }
    }
}

static vv_status run(const vv_call *call)
{
    job j = job_of(call, (int)(intptr_t)call->state, call->scratch);
    vvi_cpu_for(j.a.batch * j.a.heads, j.slots, grad_chunk, &j);
    if (is_shared(&j.a))
        vvi_cpu_for(vvi_chunks(j.a.batch * j.a.keys * j.a.kv_heads, merge_grain(&j.a)), j.slots,
                    merge_chunk, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_attention_grad[] = {
    {"tiles", vvi_attention_accepts, prepare, run, NULL, 0}, {0}};
