/* mds.h - the data set mds: samples from MDS shards (MosaicML's streaming formats). */
#ifndef VIVACE_DATASETS_MDS_H
#define VIVACE_DATASETS_MDS_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef struct vv_mds_set_opts {
    vv_dataset_common common;
    const char *train, *eval;  /* folders of the splits, below dir */
    const char *input, *target; /* columns; target "" = the next token, or masked ones */
    const char *dtype;         /* of columns that are bytes */
    int64_t classes;           /* of a target column; 0 = it holds numbers */
    int64_t seq;               /* tokens of a sample; 0 = as many as the first has */
    int64_t vocabulary;
    double mask; /* share of tokens to guess; 0 = guess the next one */
    int64_t mask_id;
    const char *special_ids;
    int64_t pad_id;
} vv_mds_set_opts;

VV_API extern const vv_dataset_desc vv_dataset_mds;

VV_END_DECLS

#endif
