/* vec_attention.h - work on tiles of attention scores; nothing here knows heads or threads. */
#ifndef VVI_VEC_ATTENTION_H
#define VVI_VEC_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Rows and columns of a tile of scores: 16 KiB, half of a usual first-level cache. Columns are
   computed 16 at a time. Rows begin 80 numbers apart: with 64 a column of lines would fall into a
   quarter of the cache's sets. */
enum { VVI_TILE = 64, VVI_TILE_STEP = 16, VVI_TILE_ROW = 80 };

/* Distance of rows of `width` numbers: an odd number of steps, for the same reason. */
static inline int64_t vvi_tile_row(int64_t width)
{
    const int64_t steps = (width + VVI_TILE_STEP - 1) / VVI_TILE_STEP;
    return (steps + (steps % 2 == 0)) * VVI_TILE_STEP;
}

/* c [m,n] = a b, or c += a b; a[i, p] = a[i * a_row + p * a_column], b [k,n]. n is a multiple of
   16. */
typedef struct vvi_tile_matrix {
    const float *at;
    int64_t row, column;
} vvi_tile_matrix;
void vvi_tile_product(float *c, int64_t c_row, vvi_tile_matrix a, const float *b, int64_t b_row,
                      int64_t m, int64_t n, int64_t k, bool add);

/* s [m][VVI_TILE_ROW] = the products of each row of a [m,k] with each row of b [n,k]; columns from
   n to a multiple of 16 become 0. For a few rows: b need not be turned. */
void vvi_tile_dots(float *s, const float *a, const float *b, int64_t row, int64_t m, int64_t n,
                   int64_t k);
/* dst [columns][VVI_TILE_ROW] = src [rows][src_row] transposed, rows up to VVI_TILE as zeros. */
void vvi_tile_transpose(float *dst, const float *src, int64_t src_row, int64_t rows,
                        int64_t columns);

/* Which scores of a tile count, and what is added to them. */
typedef struct vvi_tile_view {
    int64_t rows, columns; /* columns: a multiple of 16 */
    int64_t keys;          /* columns that are keys */
    int64_t offset;        /* position of row 0 minus position of column 0 */
    bool causal;
    int64_t window;        /* 0 = none */
    float scale, slope;
    const int32_t *mask;   /* [columns]: 0 = never seen */
    const int32_t *query_document, *key_document; /* [rows], [columns]: must be equal */
} vvi_tile_view;
/* s = scale s - slope |distance|, -infinity where nothing is to be seen. */
void vvi_tile_scores(float *s, const vvi_tile_view *view);

/* One step of the online softmax (Milakov & Gimelshein, arXiv 1805.02867): s = e^(scale s -
   largest) with the new largest of each row, total updated; shrink = what older sums are to be
   multiplied by. True if any shrink is not 1. */
bool vvi_tile_softmax(float *s, int64_t rows, int64_t columns, float scale, float *largest,
                      float *total, float *shrink);
/* s = e^(scale s - logsumexp). */
void vvi_tile_weights(float *s, int64_t rows, int64_t columns, float scale,
                      const float *logsumexp);
/* ds = p (dp - delta) scale; ds may be dp. */
void vvi_tile_softmax_grad(float *ds, const float *p, const float *dp, int64_t rows,
                           int64_t columns, float scale, const float *delta);
/* x[i] = u[i] >= limit ? x[i] * scale : 0 over a whole tile. */
void vvi_tile_keep(float *x, const float *u, float limit, float scale, int64_t rows);
/* Each row times its number. */
void vvi_tile_shrink(float *x, int64_t row, int64_t rows, int64_t columns, const float *by);

#endif
