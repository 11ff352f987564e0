/* multi_token_prediction.h - each place also predicts tokens further ahead. */
#ifndef VIVACE_METHODS_MULTI_TOKEN_PREDICTION_H
#define VIVACE_METHODS_MULTI_TOKEN_PREDICTION_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

#define VV_TOKENS_AHEAD 16 /* at most */

typedef struct vv_multi_token_prediction_opts {
    const char
        *weights; /* of the losses of the 2nd, 3rd, ... next token at the start: "0.5,0.25" */
    double end;          /* share of the run after which only the next token counts */
} vv_multi_token_prediction_opts;

/* Reads the weights, numbers from 0 on; *count = how many. */
VV_API VV_MUST_USE vv_status vv_ahead_weights(double weights[VV_TOKENS_AHEAD], int *count,
                                              const char *text);
/* Weight number i (from 0) of `count` at `progress`: in a line from `weight` at the start to 0 at
   end * (count - i) / count, so that the farthest goes first. */
VV_API double vv_ahead_weight(double weight, int i, int count, double end, double progress);
/* Targets [N,T] (class indices) `ahead` places further on; the last `ahead` of each row have none:
   `ignore`. */
VV_API VV_BORROWED vv_node *vv_targets_ahead(vv_node *target, int64_t ahead, int64_t ignore);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *
vv_multi_token_prediction(const vv_multi_token_prediction_opts *opts);
extern VV_API const vv_method_desc vv_method_multi_token_prediction;

VV_END_DECLS

#endif
