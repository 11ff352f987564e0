/* vit_grid.c - positions on a grid, resampled to another grid. */
#include "vit_grid.h"

#include <math.h>

#include <vivace/memory.h>

/* Keys' cubic kernel with a = -1/2. */
static double cubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a : 0.0;
}

vv_status vvi_grid_weights(float **weights, int64_t in, int64_t out)
{
    const double scale = (double)in / (double)out, wide = scale > 1.0 ? scale : 1.0;

    *weights = NULL;
    VV_TRY(vv_alloc_array(weights, (size_t)(in * out), sizeof **weights));
    for (int64_t i = 0; i < out; i++) {
        const double centre = scale * ((double)i + 0.5);
        int64_t first = (int64_t)(centre - 2.0 * wide + 0.5);
        int64_t last = (int64_t)(centre + 2.0 * wide + 0.5); /* one behind */
        double sum = 0.0;

        first = first < 0 ? 0 : first;
        last = last > in ? in : last;
        for (int64_t j = first; j < last; j++)
            sum += cubic(((double)j + 0.5 - centre) / wide);
        for (int64_t j = first; j < last; j++)
            (*weights)[i * in + j] = (float)(cubic(((double)j + 0.5 - centre) / wide) / sum);
    }
    return VV_OK;
}

/* to[o,:] = sum_i weights[o,i] from[i,:] */
static void mix(float *to, const float *weights, const float *from, int64_t out, int64_t in,
                int64_t dim)
{
    for (int64_t o = 0; o < out; o++)
        for (int64_t d = 0; d < dim; d++) {
            double sum = 0.0;

            for (int64_t i = 0; i < in; i++)
                sum += (double)weights[o * in + i] * (double)from[i * dim + d];
            to[o * dim + d] = (float)sum;
        }
}

vv_status vvi_grid_resample(float *to, const int64_t out[2], const float *from, const int64_t in[2],
                            int64_t dim)
{
    float *rows = NULL, *columns = NULL, *half = NULL;
    vv_status status = VV_OK;

    VV_GO(vvi_grid_weights(&rows, in[0], out[0]));
    VV_GO(vvi_grid_weights(&columns, in[1], out[1]));
    VV_GO(vv_alloc_array(&half, (size_t)(out[0] * in[1] * dim), sizeof *half));
    mix(half, rows, from, out[0], in[0], in[1] * dim);
    for (int64_t y = 0; y < out[0]; y++)
        mix(to + y * out[1] * dim, columns, half + y * in[1] * dim, out[1], in[1], dim);
out:
    vv_dealloc(rows);
    vv_dealloc(columns);
    vv_dealloc(half);
    return status;
}

static vv_node *weights_node(vv_graph *graph, int64_t in, int64_t out)
{
    const int64_t shape[2] = {out, in};
    float *weights = NULL;
    vv_status status = vvi_grid_weights(&weights, in, out);

    if (status != VV_OK)
        return vv_graph_fail(graph, status);

    vv_node *node = vv_data(graph, VV_F32, 2, shape, weights);

    vv_dealloc(weights);
    return node;
}

vv_node *vvi_grid_resampled(vv_graph *graph, vv_node *table, const int64_t in[2],
                            const int64_t out[2])
{
    if (!table)
        return NULL;

    const int64_t dim = vv_node_shape(table)[2];
    const int64_t flat[2] = {in[0], in[1] * dim}, lines[3] = {out[0], in[1], dim};
    const int64_t whole[3] = {1, out[0] * out[1], dim};
    vv_node *half = vv_matmul(weights_node(graph, in[0], out[0]), vv_reshape(table, 2, flat), false,
                              false);

    half = vv_matmul(weights_node(graph, in[1], out[1]), vv_reshape(half, 3, lines), false, false);
    return vv_reshape(half, 3, whole);
}
