/* resample.h - the weights and the two passes of resampling. */
#ifndef VVI_RESAMPLE_H
#define VVI_RESAMPLE_H

#include <vivace/image.h>

enum { VVI_RESAMPLE_BITS = 22 }; /* of a weight, behind the point */

/* Which input pixels make output pixel i, and how much of each. */
typedef struct vvi_taps {
    int64_t size, most;     /* output pixels; weights of one */
    int32_t *first, *count; /* [size] */
    int32_t *weight;        /* [size, most] */
} vvi_taps;

/* `from` to `to` of in_size pixels become out_size. */
VV_MUST_USE vv_status vvi_taps_make(vvi_taps *taps, int64_t in_size, double from, double to,
                                    int64_t out_size, vv_image_filter filter);
void vvi_taps_fini(vvi_taps *taps);
/* `rows` rows of input, `stride` bytes apart, that begin at input column `from`, to out [rows,
   taps->size, channels]. */
void vvi_resample_rows(uint8_t *out, const uint8_t *in, int64_t stride, int64_t rows,
                       int64_t channels, int64_t from, const vvi_taps *taps);
/* Input rows from row `from` on, `stride` bytes apart, of which `row` bytes are used; out:
   taps->size rows of them. */
void vvi_resample_columns(uint8_t *out, const uint8_t *in, int64_t stride, int64_t row,
                          int64_t from, const vvi_taps *taps);

#endif
