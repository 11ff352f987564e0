/* alibi.h - positions as a penalty on the distance of tokens instead of learned ones. */
#ifndef VIVACE_METHODS_ALIBI_H
#define VIVACE_METHODS_ALIBI_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_alibi_opts {
    int64_t max_sequence_length;           /* rows of the table left behind; 0 = as it has */
    double train_sequence_length_scaling;  /* 1 / a whole number; 1 = batches stay as they are */
} vv_alibi_opts;
#define VV_ALIBI_DEFAULTS {0, 0.25}

/* Every attention layer of `net` (vv_attention_layer) subtracts slope * distance from its scores
   (vv_alibi_slopes), rotary positions are switched off, and the table of learned positions
   (vv_language) becomes one of zeros that is frozen and left out. Applying twice is applying once.
   *count (may be NULL) = attention layers changed; optimizer (may be NULL) is kept in step. On
   failure nothing has changed. */
VV_API VV_MUST_USE vv_status vv_apply_alibi(vv_module *net, int64_t max_sequence_length,
                                            vv_optimizer *optimizer, int *count);
/* Rows of i32 tokens [N,T] or [N,K,T] as `pieces` times as many rows of T / pieces, in order;
   *inout is a buffer for vv_tensor_reuse, another tensor than `rows`. */
VV_API VV_MUST_USE vv_status vv_split_sequences(vv_tensor **inout, const vv_tensor *rows,
                                                int64_t pieces);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_alibi(const vv_alibi_opts *opts);
extern VV_API const vv_method_desc vv_method_alibi;

VV_END_DECLS

#endif
