/* weights.h - a second set of a model's weights: copied, averaged, exchanged. For weight averages
 * (EMA, SWA, Lookahead) and for steps that must be taken back (SAM). */
#ifndef VIVACE_WEIGHTS_H
#define VIVACE_WEIGHTS_H

#include <vivace/nn.h>

VV_BEGIN_DECLS

typedef struct vv_weights vv_weights;

/* *out = a copy of the tree's state: every parameter and buffer, each shared one once. It keeps the
   tree's tensors: a layer that is exchanged later is not in it (vv_weights_check). */
VV_API VV_MUST_USE vv_status vv_weights_new(VV_OWNED vv_weights **out, vv_module *net);
VV_API void vv_weights_free(VV_TAKES vv_weights *weights);
/* VV_ESTATE if the tree's tensors are no longer those of which this is a copy. */
VV_API VV_MUST_USE vv_status vv_weights_check(const vv_weights *weights, vv_module *net);

/* These need no memory and cannot fail. */
VV_API void vv_weights_copy(vv_weights *weights);    /* copy <- tree */
VV_API void vv_weights_restore(vv_weights *weights); /* tree <- copy */
VV_API void vv_weights_swap(vv_weights *weights);    /* exchanged, bit by bit */
/* copy += part * (tree - copy), in the tensor's type (integers are cut). Where both are equal, and
   for part 0, the copy stays to the bit; part 1 copies. The same bits for any number of threads. */
VV_API void vv_weights_move(vv_weights *weights, double part);

/* name -> copied tensor, in the tree's order; return false to stop. */
VV_API void vv_weights_each(const vv_weights *weights, vv_state_fn fn, void *ctx);
/* The copy of one tensor by its name ("layer1.0.conv1.weight"), NULL if there is none. */
VV_API VV_BORROWED vv_tensor *vv_weights_find(const vv_weights *weights, const char *name);

VV_END_DECLS

#endif
