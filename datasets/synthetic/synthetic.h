/* synthetic.h - a data set of random images, for speed tests and for tests without data. */
#ifndef VIVACE_DATASETS_SYNTHETIC_H
#define VIVACE_DATASETS_SYNTHETIC_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef enum vv_synthetic_kind {
    VV_SYNTHETIC_GAUSSIAN,  /* every pixel N(0, 1), whatever the class */
    VV_SYNTHETIC_SEPARABLE, /* every pixel N(m, 1), m from -3 (first class) to 3 (last class) */
} vv_synthetic_kind;

typedef struct vv_synthetic_opts {
    vv_dataset_common common; /* dir is not used */
    int like;                 /* index into: cifar10, mnist, fashion_mnist, imagenet */
    int64_t height, width, channels, classes, count; /* 0 = as in `like` */
    int kind;                                        /* vv_synthetic_kind */
    int64_t pool;                                    /* unique samples, reused modulo */
    int64_t seed;
} vv_synthetic_opts;

VV_API extern const vv_dataset_desc vv_dataset_synthetic;

VV_END_DECLS

#endif
