/* gpt2.h - GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019) with
 * Hugging Face's parameter names. */
#ifndef VIVACE_MODELS_GPT2_H
#define VIVACE_MODELS_GPT2_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef enum vv_gpt2_size { /* named by parameters with the vocabulary of 50257 */
    VV_GPT2_TINY,
    VV_GPT2_10M,
    VV_GPT2_30M,
    VV_GPT2_52M,
    VV_GPT2_83M,
    VV_GPT2_124M,
    VV_GPT2_350M,
    VV_GPT2_760M,
    VV_GPT2_1300M,
} vv_gpt2_size;

typedef struct vv_gpt2_opts {
    int size;                        /* vv_gpt2_size */
    int64_t d, layers, heads, d_ff;  /* 0 = the size's; d_ff 0 = 4 d if d is given */
    int64_t context;                 /* rows of the position table; 0 = 1024, or as the data need */
    double dropout;                  /* of embeddings, attention weights and residual branches */
    int64_t vocab_multiple;          /* the token table is padded to a multiple of this */
} vv_gpt2_opts;
#define VV_GPT2_DEFAULTS {VV_GPT2_124M, 0, 0, 0, 0, 0, 0.1, 1}

/* Tokens i32 [N,T] -> logits [N,T,vocabulary], with GPT-2's start from `seed`: N(0, .02), the
   projections that end a residual branch N(0, .02 / sqrt(2 layers)), biases 0. opts NULL =
   defaults. */
VV_API VV_MUST_USE vv_status vv_gpt2_new(VV_OWNED vv_module **out, int64_t vocabulary,
                                         const vv_gpt2_opts *opts, uint64_t seed);

/* A block: children "ln_1", "attn", "ln_2", "mlp"; "attn" has "c_attn", "core" (an Attention),
   "c_proj", "resid_dropout", and "mlp" has "c_fc", "act", "c_proj", "dropout". */
extern VV_API const vv_module_class vv_gpt2_block_class;

extern VV_API const vv_model_desc vv_model_gpt2;
/* The same under the names "gpt2-10m", "gpt2-30m", "gpt2-124m", ..., with that size as default. */
extern VV_API const vv_model_desc vv_model_gpt2_tiny, vv_model_gpt2_10m, vv_model_gpt2_30m,
    vv_model_gpt2_52m, vv_model_gpt2_83m, vv_model_gpt2_124m, vv_model_gpt2_350m,
    vv_model_gpt2_760m, vv_model_gpt2_1300m;

VV_END_DECLS

#endif
