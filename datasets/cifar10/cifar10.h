/* cifar10.h - the data set CIFAR-10: 60,000 photographs of 32x32 colour pixels. */
#ifndef VIVACE_DATASETS_CIFAR10_H
#define VIVACE_DATASETS_CIFAR10_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef struct vv_cifar10_opts {
    vv_dataset_common common;
} vv_cifar10_opts;

VV_API extern const vv_dataset_desc vv_dataset_cifar10;

VV_END_DECLS

#endif
