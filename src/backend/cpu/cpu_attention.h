/* cpu_attention.h - what the two directions of attention share: operands, tiles, masks. */
#ifndef VVI_CPU_ATTENTION_H
#define VVI_CPU_ATTENTION_H

#include "backend/cpu/vec_attention.h"
#include "backend/cpu/vec_random.h"

typedef struct vvi_attention {
    const vv_call *call;
    const vv_buf *q, *k, *v, *slopes, *mask, *document; /* the last three: NULL if absent */
    int64_t batch, queries, keys, heads, kv_heads, width;
    int64_t padded; /* width rounded up to 16 */
    int64_t row;    /* distance of packed rows */
    int64_t ahead;  /* position of query 0 among the keys */
    float scale, keep_limit, keep_scale;
    bool dropout;
    vvi_philox philox;
} vvi_attention;

/* A tile of scores of one head. */
typedef struct vvi_attention_tile {
    int64_t n, h;
    int64_t query, rows;
    int64_t key, keys, columns; /* columns: keys rounded up to 16 */
    int32_t mask[VVI_TILE], query_document[VVI_TILE], key_document[VVI_TILE];
} vvi_attention_tile;

bool vvi_attention_accepts(const vv_call *call);
vvi_attention vvi_attention_of(const vv_call *call);

/* Keys key .. of the tile's batch row: fills mask and key_document. False if all are masked. */
bool vvi_attention_keys(const vvi_attention *a, vvi_attention_tile *tile, int64_t key);
/* Queries query .. query + rows: fills query_document. */
void vvi_attention_queries(const vvi_attention *a, vvi_attention_tile *tile, int64_t query,
                           int64_t rows);
/* Whether any of queries query .. query + rows can see any of the tile's keys. */
bool vvi_attention_meets(const vvi_attention *a, const vvi_attention_tile *tile, int64_t query,
                         int64_t rows);
/* Masks, slopes and scale on the products s; returns the scale that is still to be applied. */
float vvi_attention_scores(const vvi_attention *a, const vvi_attention_tile *tile, float *s);
/* The tile's draws, [rows][VVI_TILE]. */
void vvi_attention_draws(const vvi_attention *a, const vvi_attention_tile *tile, float *u);

/* dst [rows][a->row] = rows first .. of head h of [batch, time, heads, width] as f32, up to
   a->padded with zeros; and back. */
void vvi_attention_load(float *dst, const vvi_attention *a, const vv_buf *x, int64_t n, int64_t h,
                        int64_t first, int64_t rows);
void vvi_attention_store(const vv_buf *x, const vvi_attention *a, int64_t n, int64_t h,
                         int64_t first, int64_t rows, const float *src);
/* The tile's rows of k or v. Masked keys are 0: they may hold anything,
   and 0 * NaN is not 0. */
void vvi_attention_load_keys(float *dst, const vvi_attention *a, const vv_buf *x,
                             const vvi_attention_tile *tile);

/* Room of `floats` numbers, in whole cache lines. */
static inline int64_t vvi_attention_room(int64_t floats)
{
    return (floats + 15) / 16 * 16;
}

#endif
