/* seq_length_warmup.h - training starts on short sequences. */
#ifndef VIVACE_METHODS_SEQ_LENGTH_WARMUP_H
#define VIVACE_METHODS_SEQ_LENGTH_WARMUP_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_seq_length_warmup_opts {
    double duration; /* share of the run in which sequences grow */
    int64_t min_seq_length, max_seq_length, step_size;
    bool truncate;   /* else rows are cut into more, shorter ones */
    bool preserve_end_of_sequence;
} vv_seq_length_warmup_opts;
#define VV_SEQ_LENGTH_WARMUP_DEFAULTS {0.3, 8, 1024, 8, true, false}

/* min + step * floor(n * progress / duration), n = (max - min) / step, at most max; max once
   `duration` of the run is done. opts NULL = defaults. */
VV_API int64_t vv_warmup_length(const vv_seq_length_warmup_opts *opts, double progress);

/* Shortens rows of tokens, i32 [N,T] or [N,K,T] (K rows that belong together: ids, segments), to
   `length`, with targets [N,T] alike; `out` and `out_target` are buffers for vv_tensor_reuse, other
   tensors than the inputs. truncate: each row keeps its first `length` tokens; a target of another
   form stays and *out_target becomes it. Else all rows are joined and cut anew, the rest is
   dropped, so that there are more rows; a target per row is an error then. `end`: a truncated row's
   last token becomes the one at its last valid place (with K = 2: the last whose second number is
   not below 0; else T - 1), or stays if that is within. T <= length: the outputs become the
   inputs. target NULL = none. */
VV_API VV_MUST_USE vv_status vv_set_sequence_length(vv_tensor **out, vv_tensor **out_target,
                                                    vv_tensor *input, vv_tensor *target,
                                                    int64_t length, bool truncate, bool end);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_seq_length_warmup(const vv_seq_length_warmup_opts *opts);
extern VV_API const vv_method_desc vv_method_seq_length_warmup;

VV_END_DECLS

#endif
