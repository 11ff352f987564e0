/* image_folder.c - the data set image_folder: photographs, a folder for each class. */
#include "image_folder.h"

static const vv_field fields[] = {
    VV_IMAGE_FOLDER_FIELDS(vv_image_folder_opts, "true", "ends"),
    {.name = NULL},
};

static vv_status image_folder_open(vv_dataset **out, const void *opts, const char *split)
{
    return vv_dataset_open_image_folder(out, "image_folder", opts, split);
}

/* Without the files: as many as Imagenette has. */
static vv_status image_folder_shape(const void *opts, const char *split, vv_sample_spec *spec,
                                    int64_t *count)
{
    const bool train = split[0] == 't';
    return vv_image_folder_shape("image_folder", opts, split, spec, count, 10,
                                 train ? 9469 : 3925);
}

const vv_dataset_desc vv_dataset_image_folder = {
    .desc =
        {
            .kind = "dataset",
            .name = "image_folder",
            .summary = "Photographs (JPEG, PNG) of any size, a folder for each class.",
            .cite = "",
            .domains = "cv",
            .fields = fields,
            .opts_size = sizeof(vv_image_folder_opts),
        },
    .open = image_folder_open,
    .train_transform = {.flip = true, .normalise = true},
    .eval_transform = {.normalise = true},
    .shape = image_folder_shape,
};
