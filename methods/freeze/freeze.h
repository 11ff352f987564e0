/* freeze.h - parts of a model, named by patterns, stay as they are. */
#ifndef VIVACE_METHODS_FREEZE_H
#define VIVACE_METHODS_FREEZE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_freeze_opts {
    const char *patterns; /* of parameters or modules, comma-separated: "layer1.*,conv1"; "" = all
                             but the last layer */
    const char *except;   /* patterns of what learns all the same */
    vv_time until;        /* from here on everything learns; none = for good */
    bool gradual;         /* up to there the frozen layers begin to learn one after the other, the
                             last one first */
} vv_freeze_opts;
#define VV_FREEZE_DEFAULTS {"", "", {VV_UNIT_NONE, 0, 0}, false}

/* Freezes what the options name, all but the last `thawed` layers of it (modules that hold such
   parameters, in the order of the tree), and thaws those. A frozen parameter keeps its bits, a
   batch norm with both of its parameters frozen its running statistics. *layers and *frozen (may be
   NULL) = layers named; those of them that are frozen now. opts NULL = defaults. */
VV_API void vv_freeze(vv_module *net, const vv_freeze_opts *opts, int thawed, int *layers,
                      int *frozen);

/* The Trainer's method, for good; NULL with a sentence in vv_error() on failure. */
VV_API VV_OWNED vv_method *vv_freeze_method(const char *patterns);
extern VV_API const vv_method_desc vv_method_freeze;

VV_END_DECLS

#endif
