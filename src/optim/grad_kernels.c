/* grad_kernels.c - vector loops over one piece of a gradient. */
#include "optim/optim_kernels.h"

#define LANES 8 /* partial sums; part of the result's definition, so do not tune it per CPU */

VVI_CLONES
double vvi_grad_square_sum(const float *grad, int64_t count)
{
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (double)grad[i + k] * (double)grad[i + k];
    double sum = 0.0;
    for (; i < count; i++)
        sum += (double)grad[i] * (double)grad[i];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

VVI_CLONES
void vvi_grad_scale(float *grad, int64_t count, float factor)
{
    for (int64_t i = 0; i < count; i++)
        grad[i] *= factor;
}

VVI_CLONES
void vvi_grad_clamp(float *grad, int64_t count, float limit)
{
    for (int64_t i = 0; i < count; i++) {
        float value = grad[i] > limit ? limit : grad[i];
        grad[i] = value < -limit ? -limit : value;
    }
}
