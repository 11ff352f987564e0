/* onednn_winograd.h - the Winograd kernels, for the tables of convolution. */
#ifndef VVI_ONEDNN_WINOGRAD_H
#define VVI_ONEDNN_WINOGRAD_H

#include <vivace/ext/backend.h>

/* Whether it can do the call at all; `accepts`: whether by the fixed rule it should. */
bool vvi_winograd_can(const vv_call *call);
bool vvi_winograd_accepts(const vv_call *call);
vv_status vvi_winograd_prepare(const vv_call *call, void **state, size_t *scratch_bytes);
vv_status vvi_winograd_run(const vv_call *call); /* CONV2D, CONV2D_GRAD_DATA */
vv_status vvi_winograd_run_grad_weight(const vv_call *call);
void vvi_winograd_release(void *state);

#endif
