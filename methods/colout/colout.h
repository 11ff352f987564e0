/* colout.h - ColOut: some rows and columns of the images are left out. */
#ifndef VIVACE_METHODS_COLOUT_H
#define VIVACE_METHODS_COLOUT_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_colout_target {
    VV_COLOUT_AUTO, /* targets with the images' height and width change alike */
    VV_COLOUT_TRUE,
    VV_COLOUT_FALSE,
} vv_colout_target;

typedef struct vv_colout_opts {
    double p_row, p_col; /* shares of rows and columns that are left out */
    bool batch;          /* the same ones for the whole batch; else each image's own */
    int resize_target;   /* vv_colout_target */
} vv_colout_opts;
#define VV_COLOUT_DEFAULTS {0.15, 0.15, true, VV_COLOUT_AUTO}

/* Rows that stay of `size`: (1 - p) * size, half rounded up, at least 1. */
VV_API int64_t vv_colout_kept(int64_t size, double p);
/* kept[0..vv_colout_kept(size, p)) = a random choice out of 0..size-1, rising. */
VV_API VV_MUST_USE vv_status vv_colout_draw(vv_rng *rng, int64_t size, double p, int64_t *kept);
/* *out = input [N,H,W,...] with those rows and columns only; image i takes the height kept rows
   from rows + i * height on (per_image) or those from `rows` on; columns likewise. *out: NULL or a
   result of an earlier call, which is used again if nobody else holds it. Any element type. */
VV_API VV_MUST_USE vv_status vv_colout_take(vv_tensor **out, const vv_tensor *input,
                                            const int64_t *rows, int64_t height,
                                            const int64_t *columns, int64_t width, bool per_image);
/* Draws and takes: *out from input, and, where opts says so, *out_target from target with the same
   rows and columns; else *out_target stays as it is. target may be NULL. opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_colout_batch(vv_tensor **out, vv_tensor **out_target,
                                             const vv_tensor *input, const vv_tensor *target,
                                             const vv_colout_opts *opts, vv_rng *rng,
                                             bool *target_resized);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_colout(const vv_colout_opts *opts);
extern VV_API const vv_method_desc vv_method_colout;

VV_END_DECLS

#endif
