/* optim_kernels.h - what the vector loops of this folder share. Internal to src/optim.
 *
 * The loops are compiled with contraction off, so no multiply-add is fused: every clone does the
 * same IEEE operations per element, and results depend neither on the CPU chosen at run time nor on
 * where chunks begin. The loops wait for memory, so a fused multiply-add would gain nothing. */
#ifndef VVI_OPTIM_KERNELS_H
#define VVI_OPTIM_KERNELS_H

#include <vivace/optim.h>

/* Clones need ifunc resolvers (glibc), and those run before a sanitizer's runtime is ready. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VVI_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VVI_CLONES
#endif

/* A row of a table of fields; numbers go from 0 to max. */
#define VVI_OPTIM_ROW(type, member, kind, fallback, max, help)              \
    {                                                                       \
#member, help, kind, offsetof(type, member), fallback, 0, max, NULL \
    }
#define VVI_OPTIM_ROW_END                              \
    {                                                  \
        NULL, NULL, VV_FIELD_BOOL, 0, NULL, 0, 0, NULL \
    }

/* Sum of squares in double, in an order that depends on count alone. */
double vvi_grad_square_sum(const float *grad, int64_t count);
void vvi_grad_scale(float *grad, int64_t count, float factor);
/* Each element into [-limit, limit]; NaN stays. */
void vvi_grad_clamp(float *grad, int64_t count, float limit);
/* Sum of squares of a parameter's gradient (not NULL), the same bits for any number of threads. */
double vvi_grad_squares(const vv_param *param);

extern const vv_optimizer_desc vvi_sgd, vvi_decoupled_sgdw, vvi_adam, vvi_adamw,
    vvi_decoupled_adamw, vvi_muon, vvi_normuon, vvi_radam, vvi_rmsprop, vvi_schedule_free_adamw,
    vvi_schedule_free_sgd, vvi_soap;

#endif
