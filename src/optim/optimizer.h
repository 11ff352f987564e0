/* optimizer.h - what an optimizer holds. Internal to src/optim. */
#ifndef VVI_OPTIMIZER_H
#define VVI_OPTIMIZER_H

#include <vivace/optim.h>

#define VVI_OPTIM_MAX_STATE VV_OPTIMIZER_MAX_STATES
/* Elements per work item: 64 KiB per array, so that Adam's four arrays stay in a core's L2. */
#define VVI_OPTIM_CHUNK 16384

typedef struct vvi_optim_group {
    void *opts;
    double initial_lr;
} vvi_optim_group;

typedef struct vvi_optim_entry {
    vv_param *param; /* kept: outlives its module until the next sync */
    char *path;
    vv_param_kind kind;
    int group, role;
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
    vv_optimizer_view *views; /* for type->sort and type->direct */
    int *roles;
    int view_capacity;
    bool sorted; /* roles are those of the present parameters and groups */
};

/* The tree's parameters in order. */
typedef struct vvi_tree_param {
    vv_param *param; /* borrowed from the tree */
    char *path;      /* freed with the list unless an entry has taken it */
    vv_param_kind kind;
} vvi_tree_param;
typedef struct vvi_param_list {
    vvi_tree_param *items;
    int count, capacity;
    vv_status status;
} vvi_param_list;
vv_status vvi_param_list_of(vvi_param_list *list, vv_module *module);
void vvi_param_list_fini(vvi_param_list *list);

/* Index of the parameter's entry, -1 if it has none. `hint` is tried first. */
int vvi_optim_find(const vv_optimizer *optimizer, const vv_param *param, int hint);
/* An entry for the parameter, which takes the list's path. */
void vvi_optim_take(vvi_optim_entry *entry, vvi_tree_param *from, int group);
/* Lets go of an entry's state, parameter and path. */
void vvi_optim_release(vvi_optim_entry *entry);

/* optimizer_roles.c */
/* Brings roles and views up to date; views have no slots. */
vv_status vvi_optim_sort(vv_optimizer *optimizer);
/* Whether the entry needs state tensor i, and its shape. */
bool vvi_optim_state_shape(const vv_optimizer *optimizer, const vvi_optim_entry *entry, int i,
                           int *ndim, int64_t *shape);
void vvi_optim_drop_state(vvi_optim_entry *entry);

#endif
