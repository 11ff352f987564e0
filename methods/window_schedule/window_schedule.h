/* window_schedule.h - attention looks at few tokens first and at more later. */
#ifndef VIVACE_METHODS_WINDOW_SCHEDULE_H
#define VIVACE_METHODS_WINDOW_SCHEDULE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

#define VV_WINDOW_STAGES 64 /* at most */

typedef struct vv_window_schedule_opts {
    const char *scales; /* of each stage, as shares of the sequence: "0.25,0.5,1" */
    vv_times at;        /* when each stage after the first begins */
    int64_t multiple;   /* windows are rounded up to it */
} vv_window_schedule_opts;

/* Reads the scales: numbers in (0, 1]; *count = how many, one more than times in `at`. */
VV_API VV_MUST_USE vv_status vv_window_scales(double scales[VV_WINDOW_STAGES], int *count,
                                              const vv_window_schedule_opts *opts);
/* Tokens of a window that is a share of `length`, up to a multiple; 0 (all) if that is all. */
VV_API int64_t vv_window_tokens(double scale, int64_t length, int64_t multiple);
/* Narrows the window of every attention layer of `net` (vv_attention_layer) to `window` tokens; 0
   and what is narrower already change nothing. Returns how many layers there are. */
VV_API int vv_narrow_windows(vv_module *net, int64_t window);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_window_schedule(const vv_window_schedule_opts *opts);
extern VV_API const vv_method_desc vv_method_window_schedule;

VV_END_DECLS

#endif
