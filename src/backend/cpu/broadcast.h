/* broadcast.h - how an operand of smaller shape is read beside a larger one. */
#ifndef VVI_BROADCAST_H
#define VVI_BROADCAST_H

#include <vivace/ext/backend.h>

typedef enum vvi_spread {
    VVI_SPREAD_FULL,   /* element i of the operand is element i of the whole */
    VVI_SPREAD_SCALAR, /* one element */
    VVI_SPREAD_SUFFIX, /* element i % period */
    VVI_SPREAD_ANY,    /* by the sizes and strides below */
} vvi_spread;

/* The whole's dimensions with neighbours of one kind merged; stride 0 where the operand is
   spread. */
typedef struct vvi_broadcast {
    vvi_spread spread;
    int64_t period;
    int n;
    int64_t size[VV_MAX_DIMS], stride[VV_MAX_DIMS];
} vvi_broadcast;

/* False if the operand's shape does not broadcast to the whole's. */
bool vvi_broadcast_make(vvi_broadcast *out, const vv_buf *operand, const vv_buf *whole);
/* Elements begin .. begin + n of the operand spread over the whole, as f32. */
void vvi_broadcast_load(const vvi_broadcast *how, float *dst, const vv_buf *operand, int64_t begin,
                        int64_t n);

#endif
