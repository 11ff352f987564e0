/* text.h - the data set text: any text files, tokenised when they are first used. */
#ifndef VIVACE_DATASETS_TEXT_H
#define VIVACE_DATASETS_TEXT_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef struct vv_text_set_opts {
    vv_dataset_common common; /* dir: a file or a folder */
    const char *corpus;       /* folder of $VIVACE_DATA, if dir is empty */
    const char *files, *separator, *tokenizer, *cache;
    double validation;
    int split; /* vv_corpus_split */
    int64_t seed;
    bool special;
    int64_t seq, stride; /* stride 0 = seq */
    bool by_document;
    int64_t vocabulary; /* of the model; 0 = the tokenizer's */
    double mask;        /* share of tokens to guess; 0 = guess the next one */
    int64_t mask_id;    /* -1 = a token more than the vocabulary */
    int64_t pad_id;
} vv_text_set_opts;

VV_API extern const vv_dataset_desc vv_dataset_text;

VV_END_DECLS

#endif
