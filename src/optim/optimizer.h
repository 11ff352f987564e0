/* optimizer.h - what an optimizer holds. Internal to src/optim. */
#ifndef VVI_OPTIMIZER_H
#define VVI_OPTIMIZER_H

#include <vivace/optim.h>

#define VVI_OPTIM_MAX_STATE 4
/* Elements per work item: 64 KiB per array, so that Adam's four arrays stay in a core's L2. */
#define VVI_OPTIM_CHUNK 16384

typedef struct vvi_optim_group {
    void *opts;
    double initial_lr;
} vvi_optim_group;

typedef struct vvi_optim_entry {
    vv_param *param; /* kept: outlives its module until the next sync */
    int group;
    int64_t step;                          /* steps done */
    vv_tensor *state[VVI_OPTIM_MAX_STATE]; /* NULL before the first step */
    double scalars[VV_OPTIMIZER_MAX_SCALARS];
    vv_optimizer_slot slot;                /* of the step in progress */
} vvi_optim_entry;

typedef struct vvi_optim_item { /* a piece of one parameter */
    int entry;
    int64_t first, last;
} vvi_optim_item;

struct vv_optimizer {
    const vv_optimizer_desc *type;
    size_t lr_offset; /* of "lr" in the group options */
    double lr_factor;
    vvi_optim_group *groups;
    int group_count;
    vvi_optim_entry *entries;
    int entry_count;
    vvi_optim_item *items;
    size_t item_capacity;
    void *self;               /* type->self_size bytes */
    vv_optimizer_view *views; /* for type->direct */
    int view_capacity;
};

/* The tree's parameters in order; paths are not kept. */
typedef struct vvi_param_list {
    vv_param **items; /* borrowed from the tree */
    int count, capacity;
    vv_status status;
} vvi_param_list;
vv_status vvi_param_list_of(vvi_param_list *list, vv_module *module);
void vvi_param_list_fini(vvi_param_list *list);

/* Index of the parameter's entry, -1 if it has none. `hint` is tried first. */
int vvi_optim_find(const vv_optimizer *optimizer, const vv_param *param, int hint);
bool vvi_optim_uses(const vv_optimizer *optimizer, const vvi_optim_entry *entry, int state);
void vvi_optim_drop_state(vvi_optim_entry *entry);

#endif
