/* cifar10.c - the data set CIFAR-10 (Krizhevsky: Learning multiple layers of features from tiny
 * images, 2009). */
#include "cifar10.h"

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#define ARCHIVE "cifar-10-binary.tar.gz"

static const char *const class_names[] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
};

static const char *const train_files[] = {
    "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
    "data_batch_4.bin", "data_batch_5.bin", NULL,
};
static const char *const eval_files[] = {"test_batch.bin", NULL};
static const char *const all_files[] = {
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
    NULL,
};

static const vv_field fields[] = {
    {"dir", "Folder with the six binary files; empty = $VIVACE_DATA/cifar10", VV_FIELD_STRING,
     offsetof(vv_cifar10_opts, common.dir), "", 0, 0, NULL},
    {.name = NULL},
};

static const vv_sample_spec spec = {
    .classes = 10,
    .mean = {0.4914f, 0.4822f, 0.4465f},
    .std = {0.247f, 0.243f, 0.261f},
};

static vv_status cifar10_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_cifar10_opts *o = opts;
    vv_status status;
    bool train;
    char *dir = NULL;
    vv_tensor *images = NULL, *labels = NULL;
    *out = NULL;
    VV_GO(vv_dataset_split(&train, "cifar10", split));
    VV_GO(vv_dataset_find_dir(&dir, o->common.dir, "cifar10", NULL));
    VV_GO(vv_cifar_read(&images, &labels, dir, train ? train_files : eval_files));
    VV_GO(vv_dataset_from_tensors(out, "cifar10", &spec, images, labels));
    (*out)->class_names = class_names;
out:
    vv_dealloc(dir);
    return status;
}

static vv_status cifar10_prepare(const char *dir)
{
    return vv_tar_gz_unpack(dir, ARCHIVE, all_files);
}

static const vv_fetch_file files[] = {
    {"https://www.cs.toronto.edu/~kriz/" ARCHIVE, ARCHIVE,
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
    {NULL, NULL, NULL},
};

const vv_dataset_desc vv_dataset_cifar10 = {
    .desc =
        {
            .kind = "dataset",
            .name = "cifar10",
            .summary = "60,000 photographs, 32x32 colour, 10 classes.",
            .cite = "Krizhevsky: Learning multiple layers of features from tiny images, 2009",
            .domains = "cv",
            .fields = fields,
            .opts_size = sizeof(vv_cifar10_opts),
        },
    .open = cifar10_open,
    .train_transform = {.crop_pad = 4, .flip = true, .normalise = true},
    .eval_transform = {.normalise = true},
    .files = files,
    .prepare = cifar10_prepare,
};
