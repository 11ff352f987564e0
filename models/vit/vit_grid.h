/* vit_grid.h - positions on a grid, resampled to another grid; for this folder only. */
#ifndef VIVACE_MODELS_VIT_GRID_H
#define VIVACE_MODELS_VIT_GRID_H

#include <vivace/ops.h>

/* Weights [out,in] of bicubic resampling of a line, wider where the line gets shorter: PyTorch's
   interpolate(mode="bicubic", antialias=True), as timm resamples positions. */
vv_status vvi_grid_weights(VV_OWNED float **weights, int64_t in, int64_t out);
/* rows [in[0] * in[1], dim] of a grid -> [out[0] * out[1], dim]. */
vv_status vvi_grid_resample(float *to, const int64_t out[2], const float *from, const int64_t in[2],
                            int64_t dim);
/* The same as nodes: table [1, in[0] * in[1], dim] -> [1, out[0] * out[1], dim]. */
vv_node *vvi_grid_resampled(vv_graph *graph, vv_node *table, const int64_t in[2],
                            const int64_t out[2]);

#endif
