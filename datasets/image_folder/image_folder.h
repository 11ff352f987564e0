/* image_folder.h - the data set image_folder: photographs, a folder for each class. */
#ifndef VIVACE_DATASETS_IMAGE_FOLDER_H
#define VIVACE_DATASETS_IMAGE_FOLDER_H

#include <vivace/ext/image_sets.h>

VV_BEGIN_DECLS

VV_API extern const vv_dataset_desc vv_dataset_image_folder;

VV_END_DECLS

#endif
