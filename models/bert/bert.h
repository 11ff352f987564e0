/* bert.h - BERT (Devlin et al., arXiv 1810.04805) with Hugging Face's parameter names: masked
 * tokens, classes or numbers. */
#ifndef VIVACE_MODELS_BERT_H
#define VIVACE_MODELS_BERT_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef enum vv_bert_size { /* layers x width */
    VV_BERT_TINY,  /* 2 x 128 */
    VV_BERT_SMALL, /* 4 x 512 */
    VV_BERT_BASE,  /* 12 x 768 */
    VV_BERT_LARGE, /* 24 x 1024 */
} vv_bert_size;
typedef enum vv_bert_head {
    VV_BERT_AUTO,       /* MASKED_LM if each token of the data has a target, else CLASSIFIER */
    VV_BERT_MASKED_LM,  /* logits of the vocabulary for every token */
    VV_BERT_CLASSIFIER, /* from the first token: logits of the classes, or one number */
} vv_bert_head;

typedef struct vv_bert_opts {
    int size;                       /* vv_bert_size */
    int head;                       /* vv_bert_head */
    int64_t d, layers, heads, d_ff; /* 0 = the size's; d_ff 0 = 4 d if d is given */
    int64_t context;                /* rows of the position table */
    int64_t segments;               /* rows of the segment table */
    int64_t vocabulary;             /* 0 = the data's, or 30522 if they do not say */
    int64_t pad_id;                 /* tokens that are never seen; -1 = none */
    double dropout;                 /* of embeddings, attention weights, branches, the classifier */
} vv_bert_opts;
#define VV_BERT_DEFAULTS {VV_BERT_BASE, VV_BERT_AUTO, 0, 0, 0, 0, 512, 2, 0, 0, 0.1}

/* Tokens i32 [N,T], or [N,2,T] with segments in the second row (-1 = padding). head MASKED_LM: ->
   [N,T,vocabulary]; CLASSIFIER: -> [N,outputs]. BERT's start from `seed`: N(0, .02), biases 0. opts
   NULL = defaults, with the masked-LM head. */
VV_API VV_MUST_USE vv_status vv_bert_new(VV_OWNED vv_module **out, int64_t outputs,
                                         const vv_bert_opts *opts, uint64_t seed);

/* One layer: children "attention", "intermediate", "output". */
extern VV_API const vv_module_class vv_bert_layer_class;

extern VV_API const vv_model_desc vv_model_bert;
/* The same under the names "bert-tiny", ... with that size as default. */
extern VV_API const vv_model_desc vv_model_bert_tiny, vv_model_bert_small, vv_model_bert_base,
    vv_model_bert_large;

VV_END_DECLS

#endif
