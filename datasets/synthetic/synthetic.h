/* synthetic.h - random images or texts, for speed tests and for tests without data. */
#ifndef VIVACE_DATASETS_SYNTHETIC_H
#define VIVACE_DATASETS_SYNTHETIC_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef enum vv_synthetic_kind {
    VV_SYNTHETIC_GAUSSIAN,  /* every pixel N(0, 1), whatever the class; every token any */
    VV_SYNTHETIC_SEPARABLE, /* every pixel N(m, 1), m from -3 (first class) to 3 (last class);
                               tokens follow from the one before, or from the class */
} vv_synthetic_kind;

/* What a random text's target is. */
typedef enum vv_synthetic_target {
    VV_SYNTHETIC_NEXT,   /* i32 [seq]: the token after each */
    VV_SYNTHETIC_CLASS,  /* i32 [] */
    VV_SYNTHETIC_NUMBER, /* f32 [] */
} vv_synthetic_target;

typedef struct vv_synthetic_opts {
    vv_dataset_common common; /* dir is not used */
    int like;                 /* index into: cifar10, mnist, fashion_mnist, imagenet, text */
    int64_t height, width, channels, classes, count; /* 0 = as in `like` */
    int kind;                                        /* vv_synthetic_kind */
    int64_t pool;                                    /* unique samples, reused modulo */
    int64_t seed;
    int64_t seq, vocabulary; /* of a text; 0 = as in `like` */
    int target;              /* vv_synthetic_target, of a text */
    int64_t boxes;           /* targets are boxes f32 [boxes,6]; 0 = a class */
    bool masks;              /* targets are masks [H,W]: images only */
    bool segments;           /* texts are [2,seq]: ids, and segments 0 and 1 */
} vv_synthetic_opts;

VV_API extern const vv_dataset_desc vv_dataset_synthetic;

VV_END_DECLS

#endif
