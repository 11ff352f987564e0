/* gpt.h - a modern decoder: rotary positions, RMS norms, ReLU^2, and what the NanoGPT speed records
 * found to help, each as a setting. */
#ifndef VIVACE_MODELS_GPT_H
#define VIVACE_MODELS_GPT_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef enum vv_gpt_style { /* what the settings that are left open mean */
    VV_GPT_SIMPLE, /* record 5, October 2024: a simple, strong start */
    VV_GPT_FULL,   /* with what later records added */
} vv_gpt_style;
typedef enum vv_gpt_switch { VV_GPT_AUTO, VV_GPT_OFF, VV_GPT_ON } vv_gpt_switch;

typedef struct vv_gpt_opts {
    int style;                /* vv_gpt_style */
    int64_t d, layers, heads; /* 768, 12, 6 */
    int64_t kv_heads;         /* of keys and values; 0 = heads */
    int64_t d_ff;             /* 0 = 4 d */
    int64_t vocab_multiple;   /* tables are padded to a multiple of this */
    int64_t window;           /* of attention, in tokens; 0 = all */
    int64_t document_end;     /* token after which nothing before is seen; -1 = none */
    double dropout;
    /* Below: -1 or VV_GPT_AUTO = the style's (SIMPLE, FULL). */
    double rotary_base;       /* 10000, 1024 */
    double rotary_share;      /* of the pairs that turn: 1, 0.5 */
    int qk_norm;              /* vv_gpt_switch: on, on */
    double scale;             /* of attention scores: 0 (1 / sqrt(D)), 0.12 */
    double softcap;           /* of the logits; 0 = none: 0, 15 */
    int tied;                 /* head and token table are one: on, off */
    int embed_norm;           /* RMS norm behind the token table: off, on */
    int x0;                   /* each block starts from l0 x + l1 embedding: off, on */
    int unet;                 /* blocks of the second half see those of the first: off, on */
    int64_t value_embeddings; /* token tables added to values of the first and last layers: 0, 3 */
    double bigram;            /* rows of the table of token pairs, in vocabularies: 0, 1 */
} vv_gpt_opts;
#define VV_GPT_DEFAULTS                                                                            \
    {VV_GPT_SIMPLE, 768, 12, 6, 0, 0, 64, 0, -1, 0.0, -1.0, -1.0, VV_GPT_AUTO, -1.0, -1.0,         \
     VV_GPT_AUTO, VV_GPT_AUTO, VV_GPT_AUTO, VV_GPT_AUTO, -1, -1.0}

/* Tokens i32 [N,T] of any length -> logits [N,T,vocabulary]. From `seed`: matrices uniform with
   deviation .5 / sqrt(d), the projections that end a branch 0; the token table N(0, .02) if tied,
   else N(0, 1) and the head 0. opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_gpt_new(VV_OWNED vv_module **out, int64_t vocabulary,
                                        const vv_gpt_opts *opts, uint64_t seed);

/* A block: children "ln_1", "attn", "ln_2", "mlp". */
extern VV_API const vv_module_class vv_gpt_block_class;

extern VV_API const vv_model_desc vv_model_gpt;

VV_END_DECLS

#endif
