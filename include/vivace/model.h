/* model.h - a model: a module tree with its task (loss, metrics, what its input must be). */
#ifndef VIVACE_MODEL_H
#define VIVACE_MODEL_H

#include <vivace/data.h>
#include <vivace/nn.h>

VV_BEGIN_DECLS

typedef struct vv_model vv_model;

typedef enum vv_task { VV_TASK_CLASSIFY } vv_task;

struct vv_model {
    vv_module *net;
    vv_task task;
    int64_t classes;
    int64_t ignore_index;     /* class index whose items have no loss; -100 */
    vv_tensor *class_weights; /* f32 [classes] or NULL */
    const char *name;         /* static or the descriptor's */
};

/* A classifier around any module that maps [N,...] to logits [N,classes]. Loss: cross-entropy over
   class indices or soft targets. */
VV_API VV_MUST_USE vv_status vv_classifier_new(VV_OWNED vv_model **out, VV_TAKES vv_module *net,
                                               int64_t classes);
/* Same after PyTorch's default initialisation from `seed`: how most descriptors' build ends. */
VV_API VV_MUST_USE vv_status vv_classifier_build(VV_OWNED vv_model **out, VV_TAKES vv_module *net,
                                                 int64_t classes, uint64_t seed);
VV_API void vv_model_free(VV_TAKES vv_model *model);
/* Loss of each item, f32 [N] (or [N,...]); target as in vv_cross_entropy. */
VV_API vv_node *vv_model_loss(const vv_model *model, vv_node *output, vv_node *target);
/* The target as a distribution over the output's last axis (a soft one is given back as it is);
   rows that have no loss are all zero, so that they have none as a soft target either. An index
   that is no class becomes a row of zeros too: vv_model_check_target finds it. */
VV_API vv_node *vv_model_dense_target(const vv_model *model, vv_node *output, vv_node *target);
/* VV_EINVAL with the row if an index target is neither a class nor ignore_index. */
VV_API VV_MUST_USE vv_status vv_model_check_target(const vv_model *model, const vv_tensor *target);
/* How many items of a batch produce a loss (sum over a soft target's rows that are not all
   zero). */
VV_API int64_t vv_model_loss_items(const vv_model *model, const vv_tensor *target);

/* ---- ext: what a model family is ---- */
typedef struct vv_model_desc {
    vv_desc desc;
    /* input: what the data gives (shape, classes); the model adapts to it (channels, classes). The
       net is left with PyTorch's default initialisation from `seed`; the recipe's initialisers come
       after unless own_init is true. */
    vv_status (*build)(VV_OWNED vv_model **out, const void *opts, const vv_sample_spec *input,
                       uint64_t seed);
    bool own_init; /* a recipe's `initializers` are refused with a sentence */
} vv_model_desc;
/* For `build` of image classifiers: a sentence unless the data are images [H,W,C] of at least
   min_side by min_side pixels, with classes. */
VV_API VV_MUST_USE vv_status vv_model_need_image(const char *name, const vv_sample_spec *input,
                                                 int64_t min_side);
VV_API VV_MUST_USE vv_status vv_model_build(VV_OWNED vv_model **out, const vv_model_desc *desc,
                                            const void *opts, const vv_sample_spec *input,
                                            uint64_t seed);

/* ---- metrics: sums in double, counts in int64, divided once at the end ---- */
typedef struct vv_metric_desc {
    const char *name; /* "accuracy", "top5_accuracy", "cross_entropy" */
    const char *summary;
    bool higher_is_better;
    /* Adds nodes for the sum over the items of a batch and their number, both [] f32. `target` as
       given by the data (class index or soft). */
    vv_status (*build)(const vv_model *model, vv_node *output, vv_node *target, vv_node **sum,
                       vv_node **count);
} vv_metric_desc;
VV_API VV_BORROWED const vv_metric_desc *const *vv_metric_table(void); /* NULL-ended */
VV_API VV_BORROWED const vv_metric_desc *vv_metric_find(const char *name);

VV_END_DECLS

#endif
