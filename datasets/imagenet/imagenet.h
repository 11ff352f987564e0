/* imagenet.h - the data set ImageNet-1k in its usual folders (Russakovsky et al., "ImageNet Large
 * Scale Visual Recognition Challenge", IJCV 2015). */
#ifndef VIVACE_DATASETS_IMAGENET_H
#define VIVACE_DATASETS_IMAGENET_H

#include <vivace/ext/image_sets.h>

VV_BEGIN_DECLS

VV_API extern const vv_dataset_desc vv_dataset_imagenet;

VV_END_DECLS

#endif
