/* vec_winograd.h - the transforms of Winograd convolution F(4x4,3x3) (Lavin & Gray, arXiv
 * 1509.09308).
 *
 * Each works on n channels at once: src and dst name a run of channels for every place of a square
 * tile. */
#ifndef VVI_VEC_WINOGRAD_H
#define VVI_VEC_WINOGRAD_H

#include <stdint.h>

/* B' d B: 6x6 -> 6x6, and A' m A: 6x6 -> 4x4. */
void vvi_wino_input(float *const dst[36], const float *const src[36], int64_t n);
void vvi_wino_output(float *const dst[16], const float *const src[36], int64_t n);
/* G g G': 3x3 -> 6x6. */
void vvi_wino_weights(float *const dst[36], const float *const src[9], int64_t n);
/* Their adjoints: A y A': 4x4 -> 6x6, and G' u G: 6x6 -> 3x3. */
void vvi_wino_output_grad(float *const dst[36], const float *const src[16], int64_t n);
void vvi_wino_weights_grad(float *const dst[9], const float *const src[36], int64_t n);

#endif
