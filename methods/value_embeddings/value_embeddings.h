/* value_embeddings.h - attention's values get a table of tokens of their own. */
#ifndef VIVACE_METHODS_VALUE_EMBEDDINGS_H
#define VIVACE_METHODS_VALUE_EMBEDDINGS_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_value_embeddings_opts {
    int64_t tables; /* the first serves the first and the last attention layer, ... */
    double std;     /* they start as N(0, std^2) */
} vv_value_embeddings_opts;
#define VV_VALUE_EMBEDDINGS_DEFAULTS {1, 0.02}

/* For each of the first and last `tables` attention layers of a language model (vv_language):
   values become l0 v + l1 table[token], l0 = l1 = 1/2 at the start. The layer becomes a
   ValueEmbedding with children "core" (the layer) and "table", which two layers share; the model's
   own table of tokens a TokenTable with the same weight. Applying twice is applying once. *count
   (may be NULL) = attention layers changed, 0 for a model that does not tell where its tokens are;
   optimizer (may be NULL) is kept in step. On failure nothing has changed. opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_apply_value_embeddings(vv_module *net,
                                                       const vv_value_embeddings_opts *opts,
                                                       uint64_t seed, vv_optimizer *optimizer,
                                                       int *count);

extern VV_API const vv_module_class vv_value_embedding_class, vv_token_table_class;

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_value_embeddings(const vv_value_embeddings_opts *opts);
extern VV_API const vv_method_desc vv_method_value_embeddings;

VV_END_DECLS

#endif
