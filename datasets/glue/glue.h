/* glue.h - the data set glue: sentences, or pairs of them, with a label, from tables of text. */
#ifndef VIVACE_DATASETS_GLUE_H
#define VIVACE_DATASETS_GLUE_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef struct vv_glue_opts {
    vv_dataset_common common;
    const char *train, *eval; /* files in the folder */
    bool header;              /* the first line names the columns */
    const char *text, *pair, *label; /* columns, by name or number from 1; pair "" = none */
    const char *labels;       /* names of the classes, comma-separated; "" = 0, 1, 2, ... */
    int64_t classes;          /* 0 = the label is a number */
    const char *tokenizer;    /* as vv_tokenizer_open takes it */
    int64_t seq;
    const char *cls, *sep, *pad; /* tokens by text or id; "" = none (pad: 0) */
    bool segments;            /* [2,seq]: ids, and 0 or 1 (-1 = padding) */
    int64_t vocabulary;       /* of the model; 0 = what is needed */
} vv_glue_opts;

VV_API extern const vv_dataset_desc vv_dataset_glue;

VV_END_DECLS

#endif
