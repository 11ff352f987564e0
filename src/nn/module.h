/* module.h - what a module is inside. Internal to src/nn. */
#ifndef VVI_MODULE_H
#define VVI_MODULE_H

#include <vivace/nn.h>

/* Names are kept in place: a layer costs few allocations, and a scope never dangles. */
#define VVI_NAME_BYTES 64
#define VVI_PATH_BYTES 1024

typedef struct vvi_slot {
    char name[VVI_NAME_BYTES];
    union {
        vv_module *module;
        vv_param *param;
        vv_tensor *tensor;
        const void *thing;
    } u;
} vvi_slot;

typedef struct vvi_slots {
    vvi_slot *items;
    int count, capacity;
} vvi_slots;

struct vv_module {
    const vv_module_class *type;
    void *self;
    int refs;
    int links; /* slots of parents that hold it; above 1 = shared */
    bool training;
    const vv_residual *residual; /* NULL = not a residual block */
    const vv_mlp *mlp;           /* NULL = not a feed-forward block */
    const vv_language *language; /* NULL = not the root of a language model */
    const struct vv_detector *detector; /* NULL = not the root of a detector */
    bool decoding;
    int64_t past; /* tokens decoded before */
    vv_observe_fn observe; /* NULL: nobody watches */
    void *observe_ctx;
    char scope[VVI_NAME_BYTES]; /* name under which a parent took it last, "" for a root */
    vvi_slots children, params, buffers;
};

/* Puts `child` (one reference is taken over) into slot i and gives the old one back without freeing
   it. Cannot fail; the caller has looked for cycles. */
vv_module *vvi_module_put(vv_module *module, int i, vv_module *child);
/* Whether `part` is `module` or lies below it. */
bool vvi_module_contains(const vv_module *module, const vv_module *part);

/* Adds a parameter or buffer of the given shape, filled with `fill`. */
vv_status vvi_add_param(vv_module *module, const char *name, int ndim, const int64_t *shape,
                        double fill);
vv_status vvi_add_buffer(vv_module *module, const char *name, vv_dtype dtype, int ndim,
                         const int64_t *shape, double fill);

/* Room for the keys and values of `tokens` tokens in an attention layer, and without it again. */
vv_status vvi_attention_begin(vv_module *layer, int64_t tokens);
void vvi_attention_end(vv_module *layer);

/* "path.name" (or "name" if path is "") into buf; returns buf. */
const char *vvi_name_join(char *buf, size_t buf_bytes, const char *path, const char *name);

#endif
