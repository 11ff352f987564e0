/* generate.h - text from a trained language model, token by token. */
#ifndef VIVACE_GENERATE_H
#define VIVACE_GENERATE_H

#include <vivace/model.h>
#include <vivace/tokenizer.h>

VV_BEGIN_DECLS

typedef struct vv_generate_opts {
    int64_t tokens;     /* new ones, at most */
    double temperature; /* of the distribution; 0 = always the most likely token */
    int64_t top_k;      /* draws from the k most likely; 0 = all (Fan et al., arXiv 1805.04833) */
    double top_p;       /* draws from the fewest that have this share; 1 = all (Holtzman et al.,
                           arXiv 1904.09751) */
    uint64_t seed;      /* draw number i is a function of (seed, i) */
    int32_t end;        /* the last token to come; -1 = none */
    int64_t context;    /* tokens that the model sees at most; 0 = as many as it can */
    bool no_cache;      /* computes all tokens again for each new one: slow, for comparison */
    vv_precision precision;
    const vv_backend *backend; /* NULL = best */
    /* Hears of each new token at once; false ends. May be NULL. */
    bool (*told)(void *ctx, int32_t token);
    void *ctx;
} vv_generate_opts;
#define VV_GENERATE_DEFAULTS \
    {100, 1.0, 0, 1.0, 0, -1, 0, false, VV_PRECISION_FP32, NULL, NULL, NULL}

/* *out (vv_dealloc) = new tokens that go on from the prompt's `count`. Where prompt and new tokens
   are more than the model can see, it goes on with the newer half of them. The model must be causal
   and give logits for each token (GPT); it comes back in the mode it was in. Reproducible: the same
   weights, prompt and options give the same tokens. */
VV_API VV_MUST_USE vv_status vv_generate(vv_model *model, const int32_t *prompt, int64_t count,
                                         const vv_generate_opts *opts, VV_OWNED int32_t **out,
                                         int64_t *out_count);
/* Appends the text that goes on from `prompt` (without it). An empty prompt stands for the
   beginning of a document where the tokenizer has a token that ends one. Ends at that token too,
   which has no text. */
VV_API VV_MUST_USE vv_status vv_generate_text(vv_model *model, const vv_tokenizer *tokenizer,
                                              const char *prompt, const vv_generate_opts *opts,
                                              vv_str *out);

/* *choice = one of count >= 1 logits, as temperature, top_k and top_p say and the uniform draw
   `uniform` in [0,1) decides; of equal logits the first counts as more likely. */
VV_API VV_MUST_USE vv_status vv_generate_choose(const float *logits, int64_t count,
                                                const vv_generate_opts *opts, double uniform,
                                                int32_t *choice);

/* Opens `name` as vv_tokenizer_open does; NULL or "" = the one that a model of this many tokens
   most likely has: 256 "bytes", 50257 "gpt2". A fingerprint of a tokenizer (vv_dataset.tokenizer)
   stands for whichever of these has it. VV_ENOTFOUND asks for a name where that is open; VV_EINVAL
   if it has more tokens than the model. */
VV_API VV_MUST_USE vv_status vv_generate_tokenizer(VV_OWNED vv_tokenizer **out, const char *name,
                                                   const vv_model *model);

VV_END_DECLS

#endif
