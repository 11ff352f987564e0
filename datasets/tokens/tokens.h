/* tokens.h - the data set tokens: samples of one length from token files. */
#ifndef VIVACE_DATASETS_TOKENS_H
#define VIVACE_DATASETS_TOKENS_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef struct vv_token_set_opts {
    vv_dataset_common common;
    const char *train, *eval; /* files, in the folder unless absolute */
    int64_t seq, stride;      /* stride 0 = seq */
    bool by_document;
    int64_t vocabulary; /* of the model; 0 = the file's */
    double mask;        /* share of tokens to guess; 0 = guess the next one */
    int64_t mask_id;    /* -1 = a token more than the vocabulary */
    const char *special_ids;
    int64_t pad_id;
} vv_token_set_opts;

VV_API extern const vv_dataset_desc vv_dataset_tokens;

VV_END_DECLS

#endif
