/* muon_direction.h - muon's orthogonalised momentum. Internal to src/optim. */
#ifndef VVI_MUON_DIRECTION_H
#define VVI_MUON_DIRECTION_H

#include <vivace/optim.h>

enum { VVI_MUON_OTHER, VVI_MUON_MATRIX, VVI_MUON_HEAD, VVI_MUON_TABLE }; /* roles */
enum { VVI_MUON_MOMENT, VVI_MUON_SQUARES, VVI_MUON_ROWS };               /* states */
enum { VVI_MUON_PARTS = 3 };

typedef struct vvi_muon_batch { /* matrices of one shape, orthogonalised together */
    const vv_muon_opts *opts;
    int64_t rows, columns, count; /* rows <= columns: tall ones lie transposed */
    vv_tensor *stack;             /* [count, rows, columns]: in, then out */
} vvi_muon_batch;

/* Rows of a parameter that are a matrix: all of them, or those of q, k or v. */
typedef struct vvi_muon_part {
    int view;
    int64_t first, rows, columns; /* first: row */
    int batch;
    int64_t place;   /* in the batch */
    int64_t row_at;  /* in the rows' squares */
} vvi_muon_part;

typedef struct vvi_muon_self {
    vv_graph *graph[2]; /* per precision */
    vvi_muon_batch *batches;
    vvi_muon_part *parts;
    vv_node **nodes;
    int capacity, part_count, batch_count;
    float *scratch, *joined; /* a transposed matrix; directions of parameters of several parts */
    size_t scratch_count, joined_count;
} vvi_muon_self;

vv_status vvi_muon_sort(const vv_optimizer_view *views, int count, int *roles);
vv_status vvi_muon_direct(void *self, const vv_optimizer_view *views, int count);
/* normuon's: also evens out the rows. */
vv_status vvi_normuon_direct(void *self, const vv_optimizer_view *views, int count);
void vvi_muon_fini(void *self);
/* How many numbers the rows' squares of a matrix are. */
int64_t vvi_muon_row_count(const vv_optimizer_view *view);

#endif
