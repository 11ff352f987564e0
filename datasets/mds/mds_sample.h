/* mds_sample.h - an open set of MDS shards as samples: what mds.c and mds_read.c share. */
#ifndef VIVACE_DATASETS_MDS_SAMPLE_H
#define VIVACE_DATASETS_MDS_SAMPLE_H

#include <vivace/ext/image_sets.h>
#include <vivace/ext/mds_shards.h>
#include <vivace/ext/token_sets.h>

#define NO_LOSS (-100)

typedef enum mds_kind {
    MDS_TOKENS,
    MDS_NUMBERS, /* floating arrays */
    MDS_PIXELS,  /* uint8 arrays */
    MDS_RAW,     /* pil: raw pixels */
    MDS_FILE,    /* JPEG or PNG */
} mds_kind;

typedef struct mds_set {
    vv_mds *mds;
    int input, target; /* columns; target -1 = from the input */
    mds_kind kind;
    char *dtype;
    int32_t *special;
    int32_t pad_id;
    vv_mask_opts mask;   /* share 0 = off */
    vv_photo_opts photo; /* size 0 = images as they are */
    int64_t window;      /* samples; 0 = any order */
    int64_t *first;      /* number of each shard's first sample */
} mds_set;

static inline const char *mds_encoding(const mds_set *set, int column)
{
    return vv_mds_column_at(set->mds, column)->encoding;
}

/* The kind and shape of samples, from the first one. */
vv_status mds_input_spec(mds_set *set, vv_sample_spec *spec, int64_t *values);
/* One sample. rng NULL = images as evaluation has them. */
vv_status mds_read_sample(const mds_set *set, const vv_sample_spec *spec, int64_t index,
                          vv_rng *rng, void *input, void *target);
/* Masks tokens; `count` of them are the sample's own. */
vv_status mds_mask_sample(const mds_set *set, const vv_sample_spec *spec, vv_augment_call *call,
                          int32_t *input, int32_t *target);

#endif
