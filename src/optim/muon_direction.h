/* muon_direction.h - muon's orthogonalised momentum. Internal to src/optim. */
#ifndef VVI_MUON_DIRECTION_H
#define VVI_MUON_DIRECTION_H

#include <vivace/optim.h>

enum { VVI_MUON_OTHER, VVI_MUON_MATRIX, VVI_MUON_HEAD }; /* roles of a slot */

typedef struct vvi_muon_batch { /* matrices of one shape, orthogonalised together */
    const vv_muon_opts *opts;
    int64_t rows, columns, count; /* rows <= columns: tall ones lie transposed */
    vv_tensor *stack;             /* [count, rows, columns]: in, then out */
} vvi_muon_batch;

typedef struct vvi_muon_self {
    vv_graph *graph[2]; /* per precision */
    vvi_muon_batch *batches;
    vv_node **nodes;
    int *batch_of; /* per view; -1 = none */
    int capacity, batch_count;
} vvi_muon_self;

vv_status vvi_muon_direct(void *self, const vv_optimizer_view *views, int count);
void vvi_muon_fini(void *self);

#endif
