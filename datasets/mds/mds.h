/* mds.h - the data set mds: samples from MDS shards (MosaicML's streaming formats). */
#ifndef VIVACE_DATASETS_MDS_H
#define VIVACE_DATASETS_MDS_H

#include <vivace/ext/image_sets.h>

VV_BEGIN_DECLS

typedef struct vv_mds_set_opts {
    vv_dataset_common common;
    const char *train, *eval;  /* folders of the splits, below dir */
    const char *input, *target; /* columns; "" = by what there is */
    const char *dtype;         /* of columns that are bytes */
    int64_t classes;           /* of a target column; 0 = it holds numbers */
    int64_t seq;               /* tokens of a sample; 0 = as many as the first has */
    int64_t vocabulary;
    double mask; /* share of tokens to guess; 0 = guess the next one */
    int64_t mask_id;
    const char *special_ids;
    int64_t pad_id;
    /* Images; as those of image_folder, but size 0 = as they are. */
    int64_t size, resize, channels;
    double scale, ratio, color_jitter, hue;
    int interpolation; /* a vv_image_filter */
    bool scaled_decode, orient;
    /* The order of an epoch. */
    int order; /* a vv_mds_order */
    int64_t window; /* samples; 0 = those of eight shards */
    /* From an object store. */
    const char *remote, *endpoint, *region, *cache_limit;
    int64_t downloads, retries;
    double retry_wait, timeout;
} vv_mds_set_opts;
typedef enum vv_mds_order { VV_MDS_ORDER_AUTO, VV_MDS_ORDER_SAMPLES, VV_MDS_ORDER_SHARDS }
    vv_mds_order;

VV_API extern const vv_dataset_desc vv_dataset_mds;

VV_END_DECLS

#endif
