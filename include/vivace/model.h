/* model.h - a model: a module tree with its task (loss, metrics, what its input must be). */
#ifndef VIVACE_MODEL_H
#define VIVACE_MODEL_H

#include <vivace/data.h>
#include <vivace/nn.h>
#include <vivace/safetensors.h>
#include <vivace/str.h>

VV_BEGIN_DECLS

typedef struct vv_model vv_model;

typedef enum vv_task {
    VV_TASK_CLASSIFY, /* logits [..., classes] (pixels too); targets class indices [...] or soft */
    VV_TASK_REGRESS,  /* numbers; targets numbers */
    VV_TASK_DETECT,   /* output as the model says; targets boxes [M,6] (data.h); needs a `loss` */
} vv_task;

/* A loss other than the task's own (cross-entropy of classes, squared error of numbers). It is a
   sum over items, so that the loss of a batch does not depend on how it is cut into
   microbatches. */
typedef struct vv_loss_class {
    const char *name;
    /* f32 loss of each item: [N], or of more dimensions beginning with N. */
    vv_node *(*items)(const vv_model *model, vv_node *output, vv_node *target);
    /* Items of a batch that have a loss. NULL = as the task counts. */
    int64_t (*count)(const vv_model *model, const vv_tensor *target);
    /* A sentence if a target cannot be right. NULL = as the task checks. */
    vv_status (*check)(const vv_model *model, const vv_tensor *target);
    bool indices_only; /* targets of classes cannot be soft: no mixing or smoothing of labels */
} vv_loss_class;

/* How other programs name and store a model's weights in their files, as NULL-ended lists (NULL =
   none). Files that Vivace wrote ("vivace.version" is among their texts) hold weights as the tree
   does. Patterns are the shell's; "*" matches anything. */
typedef struct vv_weight_map {
    const char *const *prefixes;   /* may stand before a file's names or not: "transformer." */
    const char *const *transposed; /* matrices stored [in, out]: "*.attn.c_attn.weight" */
    const char *const *ignored;    /* names in files that the model does not need */
    const char *const *endings;    /* pairs: how a name may end in files, and how in the tree:
                                      "LayerNorm.gamma", "LayerNorm.weight" */
    /* Pairs of whole names, in files and in the tree, tried one after the other on a name that the
       tree does not know; each "*" stands for the same text on both sides:
       "encoder.layers.encoder_layer_*.ln_1.*", "blocks.*.norm1.*". */
    const char *const *renamed;
    /* Makes a tensor of a file fit whose shape is not that of `own` (positions of another image
       size); *out stays NULL if it cannot. `told` gets a sentence. Ours too. May be NULL. */
    vv_status (*adapt)(VV_OWNED vv_tensor **out, const vv_model *model, const char *name,
                       const vv_tensor *given, const vv_tensor *own, vv_str *told);
    /* For files that timm's create_model reads, whose names are the tree's: appends the members of
       a JSON object that say which of its models this is: "architecture", "model_args". A sentence
       if it has none such. May be NULL. */
    vv_status (*timm)(const vv_model *model, const vv_sample_spec *input, vv_str *out);
} vv_weight_map;

struct vv_model {
    vv_module *net;
    vv_task task;
    int64_t classes;          /* 0 for numbers */
    int64_t ignore_index;     /* class index whose items have no loss; -100 */
    vv_tensor *class_weights; /* f32 [classes] or NULL */
    double z_loss;            /* classes: + z_loss * logsumexp(logits)^2 per item */
    const char *name;         /* static or the descriptor's */
    const vv_loss_class *loss; /* static; NULL = the task's own */
    const char *metrics;       /* of evaluations that name none; static; NULL = by task */
    void *loss_opts;           /* its settings, one block from vv_alloc, freed with the model */
    const vv_weight_map *weight_map; /* static; NULL = names are the tree's */
};

/* A classifier around any module that maps [N,...] to logits [N,classes]. Loss: cross-entropy over
   class indices or soft targets. */
VV_API VV_MUST_USE vv_status vv_classifier_new(VV_OWNED vv_model **out, VV_TAKES vv_module *net,
                                               int64_t classes);
/* Same after PyTorch's default initialisation from `seed`: how most descriptors' build ends. */
VV_API VV_MUST_USE vv_status vv_classifier_build(VV_OWNED vv_model **out, VV_TAKES vv_module *net,
                                                 int64_t classes, uint64_t seed);
/* A classifier of pixels: net maps [N,H,W,C] to logits [N,H,W,classes], targets are masks of class
   indices [N,H,W] with -1 where there is no loss; after PyTorch's default initialisation. Its
   evaluations measure miou and pixel accuracy unless told otherwise. */
VV_API VV_MUST_USE vv_status vv_segmenter_build(VV_OWNED vv_model **out, VV_TAKES vv_module *net,
                                                int64_t classes, uint64_t seed);
/* A regressor around any module that maps [N,...] to numbers [N], [N,1] or of the targets' shape.
   Loss: squared error. */
VV_API VV_MUST_USE vv_status vv_regressor_new(VV_OWNED vv_model **out, VV_TAKES vv_module *net);
VV_API void vv_model_free(VV_TAKES vv_model *model);
/* Takes the weights (and buffers) from a file by name: the tree's names are PyTorch's. Also with
   "module." or "_orig_mod." in front, and as weight_map says. Left out without a word: names that
   begin with "vivace/", and "*.num_batches_tracked". `ignore`: comma-separated patterns of weights
   that are neither taken nor missed; NULL = none. strict: a weight of the model that the file
   lacks, or the other way round, is an error; else `told` (may be NULL) gets a sentence and the
   model keeps its own. Shapes must be equal. *loaded (may be NULL) = tensors taken. A failed load
   has changed nothing. */
VV_API VV_MUST_USE vv_status vv_model_load(vv_model *model, const vv_safetensors *file, bool strict,
                                           const char *ignore, vv_str *told, int *loaded);
/* Loss of each item, f32 [N] (or [N,...]): an item is a sample, a pixel [N,H,W] or a token.
   Classes: target as in vv_cross_entropy; numbers: as in vv_model_numbers. */
VV_API vv_node *vv_model_loss(const vv_model *model, vv_node *output, vv_node *target);
/* For classifiers: each class by itself, yes or no, summed over the classes; indices or soft
   targets. `vv_model_set_loss` takes "auto" (as it is), "cross_entropy" or "binary_cross_entropy";
   a model with a loss of its own is refused. The note tells of a head that starts far from
   1 / classes, as binary cross-entropy wants it; nothing is added if all is well. */
extern VV_API const vv_loss_class vv_binary_cross_entropy_class;
VV_API VV_MUST_USE vv_status vv_model_set_loss(vv_model *model, const char *name);
VV_API VV_MUST_USE vv_status vv_model_loss_note(const vv_model *model, vv_str *out);
/* The output as f32 in the shape of a target of numbers; [N] and [N,1] fit each other. NULL with
   the graph's sentence if they do not fit. */
VV_API vv_node *vv_model_numbers(vv_node *output, vv_node *target);
/* Classes only: the target as a distribution over the output's last axis (a soft one is given back
   as it is); rows that have no loss are all zero, so that they have none as a soft target either.
   An index that is no class becomes a row of zeros too: vv_model_check_target finds it. */
VV_API vv_node *vv_model_dense_target(const vv_model *model, vv_node *output, vv_node *target);
/* VV_EINVAL with the row if an index target is neither a class nor ignore_index, or a number is not
   finite. */
VV_API VV_MUST_USE vv_status vv_model_check_target(const vv_model *model, const vv_tensor *target);
/* How many items of a batch produce a loss (of soft targets: rows that are not all zero; of
   numbers: all). */
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
    /* Data it is usually shown, as vv_sample_spec_parse reads them ("image=32,classes=10"): what
       `vivace describe` takes. NULL = images of 224, 1000 classes. */
    const char *typical;
} vv_model_desc;
/* For `build` of image classifiers: a sentence unless the data are images [H,W,C] of at least
   min_side by min_side pixels, with classes. */
VV_API VV_MUST_USE vv_status vv_model_need_image(const char *name, const vv_sample_spec *input,
                                                 int64_t min_side);
/* For `build` of segmentation models: a sentence unless the data are images of at least min_side by
   min_side pixels with a mask of classes [H,W] each. */
VV_API VV_MUST_USE vv_status vv_model_need_mask(const char *name, const vv_sample_spec *input,
                                                int64_t min_side);
/* For `build` of language models: a sentence unless the data are rows of token ids [T] (or, with
   `segments`, [2,T]) with classes, T at most `context` (0 = any length). */
VV_API VV_MUST_USE vv_status vv_model_need_tokens(const char *name, const vv_sample_spec *input,
                                                  int64_t context, bool segments);
VV_API VV_MUST_USE vv_status vv_model_build(VV_OWNED vv_model **out, const vv_model_desc *desc,
                                            const void *opts, const vv_sample_spec *input,
                                            uint64_t seed);

VV_END_DECLS

#endif
