/* ext/token_sets.h - for those who write data sets of texts: samples of one length cut from a token
 * file, and the masking of masked language models. */
#ifndef VIVACE_EXT_TOKEN_SETS_H
#define VIVACE_EXT_TOKEN_SETS_H

#include <vivace/data.h>
#include <vivace/token_file.h>

VV_BEGIN_DECLS

/* Which tokens a masked language model has to guess (Devlin et al. 2019, 3.1): each with
   probability `share`; of those, `masked` become mask_id, `random` any token, the rest stays. */
typedef struct vv_mask_opts {
    double share, masked, random;
    int32_t mask_id;
    const int32_t *special; /* never chosen; may be NULL */
    int special_count;
} vv_mask_opts;
/* share 0.15, of those 0.8 masked and 0.1 random. */
#define VV_MASK_DEFAULTS {0.15, 0.8, 0.1, 0, NULL, 0}
/* Masks `count` tokens in place. target (may be NULL): what stood at the chosen places, -100
   elsewhere. `vocabulary`: random tokens are below it. */
VV_API void vv_mask_tokens(const vv_mask_opts *opts, int64_t vocabulary, vv_rng *rng,
                           int32_t *tokens, int32_t *target, int64_t count);
/* *out = the ids of a list like "0, 101,102" or "[0, 101]", each in 0 .. vocabulary - 1; *count of
   them. */
VV_API VV_MUST_USE vv_status vv_token_ids_parse(VV_OWNED int32_t **out, int *count,
                                                const char *list, int64_t vocabulary);

/* How samples are cut. Input i32 [seq]; target i32 [seq]: the token behind each, or with masking
   the masked ones. -100 = no loss. */
typedef struct vv_token_samples {
    int64_t seq;
    int64_t stride;     /* from one sample's first token to the next one's; 0 = seq */
    bool by_document;   /* no sample crosses the end of a document; its last one is padded */
    bool each_once;     /* for evaluation: the last sample is padded in place of being left out, and
                           where samples overlap only the first has a loss */
    int64_t vocabulary; /* classes of the model; 0 = the file's */
    int32_t pad_id;
    bool mask;          /* masked language model, by mask_opts (special ids are copied; the file's
                           end token is one) */
    vv_mask_opts mask_opts; /* mask_id -1 = a token more than the vocabulary */
    const char *tokenizer;  /* what vv_tokenizer_open takes to read them (copied); NULL = unknown */
} vv_token_samples;
/* seq 1024, next-token targets. */
#define VV_TOKEN_SAMPLES_DEFAULTS {1024, 0, false, false, 0, 0, false, VV_MASK_DEFAULTS, NULL}
/* `tokens` is taken, also on failure. name: static, for sentences. */
VV_API VV_MUST_USE vv_status vv_dataset_from_tokens(VV_OWNED vv_dataset **out, const char *name,
                                                    VV_TAKES vv_tokens *tokens,
                                                    const vv_token_samples *samples);
/* The samples' spec with a file of this vocabulary, without the file. */
VV_API VV_MUST_USE vv_status vv_token_samples_spec(vv_sample_spec *out, const char *name,
                                                   const vv_token_samples *samples,
                                                   int64_t file_vocabulary);

VV_END_DECLS

#endif
