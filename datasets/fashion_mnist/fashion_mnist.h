/* fashion_mnist.h - the data set Fashion-MNIST: 70,000 articles of clothing of 28x28 grey pixels.
 */
#ifndef VIVACE_DATASETS_FASHION_MNIST_H
#define VIVACE_DATASETS_FASHION_MNIST_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef struct vv_fashion_mnist_opts {
    vv_dataset_common common;
} vv_fashion_mnist_opts;

VV_API extern const vv_dataset_desc vv_dataset_fashion_mnist;

VV_END_DECLS

#endif
