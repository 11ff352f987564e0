/* ref_norm.c - reference kernels of batch, layer, RMS and group normalisation.
 *
 * Sums in double; variance from the centred data (two passes), so that a large mean does not eat
 * it. With n elements sharing statistics, z = (x - mean) rstd and g = gamma dy, the gradient is dx
 * = rstd (g - mean(g) - z mean(g z)) (Ioffe & Szegedy, arXiv 1502.03167, section 3). */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"

static bool accepts(const vv_call *call)
{
    (void)call;
    return true;
}

/* Scratch: two double vectors of the channels. */
static vv_status prepare_vectors(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const vv_buf *x = &call->out[0];
    *state = NULL;
    *scratch_bytes = 2 * (size_t)x->shape[x->ndim - 1] * sizeof(double);
    return VV_OK;
}

/* ---- batch norm ---- */

static vv_status run_batch_norm(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *gamma = &call->in[1], *beta = &call->in[2];
    const vv_buf *y = &call->out[0];
    const bool residual = call->attr->norm.residual && call->n_in > 3 && call->in[3].data;
    const int64_t channels = x->shape[x->ndim - 1], rows = x->count / channels;
    double *mean = call->scratch, *var = mean + channels;
    memset(mean, 0, 2 * (size_t)channels * sizeof *mean);
    for (int64_t i = 0; i < x->count; i++)
        mean[i % channels] += vvi_ref_get(x, i);
    for (int64_t c = 0; c < channels; c++)
        mean[c] /= (double)rows;
    for (int64_t i = 0; i < x->count; i++) {
        const double d = vvi_ref_get(x, i) - mean[i % channels];
        var[i % channels] += d * d;
    }
    for (int64_t c = 0; c < channels; c++) {
        var[c] /= (double)rows;
        vvi_ref_set(&call->out[1], c, mean[c]);
        vvi_ref_set(&call->out[2], c, var[c]);
    }
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t c = i % channels;
        double value = (vvi_ref_get(x, i) - mean[c]) / sqrt(var[c] + call->attr->norm.eps) *
                           vvi_ref_get(gamma, c) +
                       vvi_ref_get(beta, c);
        if (residual)
            value += vvi_ref_get(&call->in[3], i);
        if (call->attr->norm.relu && value < 0.0)
            value = 0.0;
        vvi_ref_set(y, i, value);
    }
    return VV_OK;
}

/* Gradient at element i before the fused relu. */
static double unmasked(const vv_call *call, int64_t i)
{
    if (call->attr->norm.relu && !(vvi_ref_get(&call->in[5], i) > 0.0))
        return 0.0;
    return vvi_ref_get(&call->in[0], i);
}

static vv_status run_batch_norm_grad(const vv_call *call)
{
    const vv_buf *x = &call->in[1], *gamma = &call->in[2], *mean = &call->in[3],
                 *var = &call->in[4];
    const int64_t channels = x->shape[x->ndim - 1], rows = x->count / channels;
    double *sum = call->scratch, *sum_z = sum + channels; /* of dy, and of dy z */
    memset(sum, 0, 2 * (size_t)channels * sizeof *sum);
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t c = i % channels;
        const double rstd = 1.0 / sqrt(vvi_ref_get(var, c) + call->attr->norm.eps);
        const double dy = unmasked(call, i);
        sum[c] += dy;
        sum_z[c] += dy * (vvi_ref_get(x, i) - vvi_ref_get(mean, c)) * rstd;
    }
    for (int64_t c = 0; c < channels; c++) {
        vvi_ref_set(&call->out[1], c, sum_z[c]);
        vvi_ref_set(&call->out[2], c, sum[c]);
    }
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t c = i % channels;
        const double rstd = 1.0 / sqrt(vvi_ref_get(var, c) + call->attr->norm.eps);
        const double z = (vvi_ref_get(x, i) - vvi_ref_get(mean, c)) * rstd;
        const double dy = unmasked(call, i);
        if (call->n_out > 3 && call->out[3].data)
            vvi_ref_set(&call->out[3], i, dy);
        vvi_ref_set(&call->out[0], i,
                    vvi_ref_get(gamma, c) * rstd *
                        (dy - sum[c] / (double)rows - z * sum_z[c] / (double)rows));
    }
    return VV_OK;
}

/* ---- layer and group norm ---- */

/* x seen as [batch, pixels, groups, width]: the elements of one (batch, group) share statistics. */
typedef struct layout {
    int64_t batch, pixels, groups, width;
} layout;

static layout layout_of(const vv_call *call, const vv_buf *x)
{
    const int64_t channels = x->shape[x->ndim - 1];
    if (call->op == VV_OP_LAYER_NORM || call->op == VV_OP_LAYER_NORM_GRAD)
        return (layout){x->count / channels, 1, 1, channels};
    const int64_t batch = x->shape[0], groups = call->attr->norm.groups;
    const int64_t pixels = batch ? x->count / channels / batch : 0;
    return (layout){batch, pixels, groups, channels / groups};
}

/* Index of the first channel of a group at one pixel. */
static int64_t place(const layout *l, int64_t n, int64_t pixel, int64_t group)
{
    return ((n * l->pixels + pixel) * l->groups + group) * l->width;
}

static void group_norm_one(const vv_call *call, const layout *l, int64_t n, int64_t group)
{
    const vv_buf *x = &call->in[0];
    const double count = (double)(l->pixels * l->width);
    double mean = 0.0, var = 0.0;
    for (int64_t p = 0; p < l->pixels; p++)
        for (int64_t c = 0; c < l->width; c++)
            mean += vvi_ref_get(x, place(l, n, p, group) + c);
    mean /= count;
    for (int64_t p = 0; p < l->pixels; p++) {
        for (int64_t c = 0; c < l->width; c++) {
            const double d = vvi_ref_get(x, place(l, n, p, group) + c) - mean;
            var += d * d;
        }
    }
    const double rstd = 1.0 / sqrt(var / count + call->attr->norm.eps);
    vvi_ref_set(&call->out[1], n * l->groups + group, mean);
    vvi_ref_set(&call->out[2], n * l->groups + group, rstd);
    for (int64_t p = 0; p < l->pixels; p++) {
        for (int64_t c = 0; c < l->width; c++) {
            const int64_t at = place(l, n, p, group) + c, channel = group * l->width + c;
            vvi_ref_set(&call->out[0], at,
                        (vvi_ref_get(x, at) - mean) * rstd * vvi_ref_get(&call->in[1], channel) +
                            vvi_ref_get(&call->in[2], channel));
        }
    }
}

static vv_status run_group_norm(const vv_call *call)
{
    const layout l = layout_of(call, &call->in[0]);
    for (int64_t n = 0; n < l.batch; n++)
        for (int64_t group = 0; group < l.groups; group++)
            group_norm_one(call, &l, n, group);
    return VV_OK;
}

static void group_norm_grad_one(const vv_call *call, const layout *l, int64_t n, int64_t group,
                                double *dgamma, double *dbeta)
{
    const vv_buf *dy = &call->in[0], *x = &call->in[1], *gamma = &call->in[2];
    const double count = (double)(l->pixels * l->width);
    const double mean = vvi_ref_get(&call->in[3], n * l->groups + group);
    const double rstd = vvi_ref_get(&call->in[4], n * l->groups + group);
    double sum = 0.0, sum_z = 0.0; /* of g, and of g z */
    for (int64_t p = 0; p < l->pixels; p++) {
        for (int64_t c = 0; c < l->width; c++) {
            const int64_t at = place(l, n, p, group) + c, channel = group * l->width + c;
            const double z = (vvi_ref_get(x, at) - mean) * rstd, d = vvi_ref_get(dy, at);
            dgamma[channel] += d * z;
            dbeta[channel] += d;
            sum += d * vvi_ref_get(gamma, channel);
            sum_z += d * vvi_ref_get(gamma, channel) * z;
        }
    }
    for (int64_t p = 0; p < l->pixels; p++) {
        for (int64_t c = 0; c < l->width; c++) {
            const int64_t at = place(l, n, p, group) + c, channel = group * l->width + c;
            const double z = (vvi_ref_get(x, at) - mean) * rstd;
            const double g = vvi_ref_get(dy, at) * vvi_ref_get(gamma, channel);
            vvi_ref_set(&call->out[0], at, rstd * (g - sum / count - z * sum_z / count));
        }
    }
}

static vv_status run_group_norm_grad(const vv_call *call)
{
    const layout l = layout_of(call, &call->in[1]);
    const int64_t channels = l.groups * l.width;
    double *dgamma = call->scratch, *dbeta = dgamma + channels;
    memset(dgamma, 0, 2 * (size_t)channels * sizeof *dgamma);
    for (int64_t n = 0; n < l.batch; n++)
        for (int64_t group = 0; group < l.groups; group++)
            group_norm_grad_one(call, &l, n, group, dgamma, dbeta);
    for (int64_t c = 0; c < channels; c++) {
        vvi_ref_set(&call->out[1], c, dgamma[c]);
        vvi_ref_set(&call->out[2], c, dbeta[c]);
    }
    return VV_OK;
}

/* ---- RMS norm ---- */

static vv_status run_rms_norm(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *gamma = &call->in[1];
    const int64_t width = x->shape[x->ndim - 1], rows = x->count / width;
    for (int64_t r = 0; r < rows; r++) {
        double square = 0.0;
        for (int64_t i = 0; i < width; i++) {
            const double v = vvi_ref_get(x, r * width + i);
            square += v * v;
        }
        const double rstd = 1.0 / sqrt(square / (double)width + call->attr->norm.eps);
        vvi_ref_set(&call->out[1], r, rstd);
        for (int64_t i = 0; i < width; i++)
            vvi_ref_set(&call->out[0], r * width + i,
                        vvi_ref_get(x, r * width + i) * rstd * vvi_ref_get(gamma, i));
    }
    return VV_OK;
}

/* As layer norm's, without the mean: dx = rstd (g - z mean(g z)). */
static vv_status run_rms_norm_grad(const vv_call *call)
{
    const vv_buf *dy = &call->in[0], *x = &call->in[1], *gamma = &call->in[2];
    const int64_t width = x->shape[x->ndim - 1], rows = x->count / width;
    double *dgamma = call->scratch;
    memset(dgamma, 0, (size_t)width * sizeof *dgamma);
    for (int64_t r = 0; r < rows; r++) {
        const double rstd = vvi_ref_get(&call->in[3], r);
        double sum_z = 0.0;
        for (int64_t i = 0; i < width; i++) {
            const double d = vvi_ref_get(dy, r * width + i);
            const double z = vvi_ref_get(x, r * width + i) * rstd;
            dgamma[i] += d * z;
            sum_z += d * vvi_ref_get(gamma, i) * z;
        }
        for (int64_t i = 0; i < width; i++) {
            const int64_t at = r * width + i;
            const double g = vvi_ref_get(dy, at) * vvi_ref_get(gamma, i);
            const double z = vvi_ref_get(x, at) * rstd;
            vvi_ref_set(&call->out[0], at, rstd * (g - z * sum_z / (double)width));
        }
    }
    for (int64_t i = 0; i < width; i++)
        vvi_ref_set(&call->out[1], i, dgamma[i]);
    return VV_OK;
}

const vv_kernel vvi_ref_batch_norm[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_vectors, .run = run_batch_norm},
    {.run = NULL}};
const vv_kernel vvi_ref_batch_norm_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_vectors, .run = run_batch_norm_grad},
    {.run = NULL}};
const vv_kernel vvi_ref_layer_norm[] = {{.name = "ref", .accepts = accepts, .run = run_group_norm},
                                        {.run = NULL}};
const vv_kernel vvi_ref_layer_norm_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_vectors, .run = run_group_norm_grad},
    {.run = NULL}};
const vv_kernel vvi_ref_group_norm[] = {{.name = "ref", .accepts = accepts, .run = run_group_norm},
                                        {.run = NULL}};
const vv_kernel vvi_ref_group_norm_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_vectors, .run = run_group_norm_grad},
    {.run = NULL}};
const vv_kernel vvi_ref_rms_norm[] = {{.name = "ref", .accepts = accepts, .run = run_rms_norm},
                                      {.run = NULL}};
const vv_kernel vvi_ref_rms_norm_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_vectors, .run = run_rms_norm_grad},
    {.run = NULL}};
