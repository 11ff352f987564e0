/* imagenet.c - the data set ImageNet-1k: image_folder with other defaults. */
#include "imagenet.h"

static const vv_field fields[] = {
    VV_IMAGE_FOLDER_FIELDS(vv_image_folder_opts, "false", "none"),
    {.name = NULL},
};

static vv_status imagenet_open(vv_dataset **out, const void *opts, const char *split)
{
    return vv_dataset_open_image_folder(out, "imagenet", opts, split);
}

static vv_status imagenet_shape(const void *opts, const char *split, vv_sample_spec *spec,
                                int64_t *count)
{
    const bool train = split[0] == 't';
    return vv_image_folder_shape("imagenet", opts, split, spec, count, 1000,
                                 train ? 1281167 : 50000);
}

const vv_dataset_desc vv_dataset_imagenet = {
    .desc =
        {
            .kind = "dataset",
            .name = "imagenet",
            .summary = "ImageNet-1k: 1,281,167 + 50,000 photographs, 1,000 classes.",
            .cite = "Russakovsky et al.: ImageNet Large Scale Visual Recognition Challenge, 2015",
            .domains = "cv",
            .fields = fields,
            .opts_size = sizeof(vv_image_folder_opts),
        },
    .open = imagenet_open,
    .train_transform = {.flip = true, .normalise = true},
    .eval_transform = {.normalise = true},
    .shape = imagenet_shape,
};
