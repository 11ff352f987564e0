/* fashion_mnist.c - the data set Fashion-MNIST (Xiao, Rasul, Vollgraf; arXiv:1708.07747). */
#include "fashion_mnist.h"

#include <vivace/ext/data_files.h>

/* Where Debian's package dataset-fashion-mnist puts the four files. */
#define SYSTEM_DIR "/usr/share/datasets/fashion-mnist"

static const char *const class_names[] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot",
};

static const vv_field fields[] = {
    {"dir", "Folder with the four IDX files; empty = $VIVACE_DATA/fashion_mnist, then " SYSTEM_DIR,
     VV_FIELD_STRING, offsetof(vv_fashion_mnist_opts, common.dir), "", 0, 0, NULL},
    {.name = NULL},
};

/* Mean and deviation of the training set's pixels / 255. */
static const vv_sample_spec spec = {
    .input_dtype = VV_U8,
    .target_dtype = VV_I32,
    .input_ndim = 3,
    .input_shape = {28, 28, 1},
    .classes = 10,
    .mean = {0.2860f},
    .std = {0.3530f},
};

static vv_status fashion_mnist_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_fashion_mnist_opts *o = opts;
    VV_TRY(vv_dataset_open_idx(out, "fashion_mnist", &o->common, SYSTEM_DIR, split, &spec));
    (*out)->class_names = class_names;
    return VV_OK;
}

#define OFFICIAL "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
static const vv_fetch_file files[] = {
    {OFFICIAL "train-images-idx3-ubyte.gz", "train-images-idx3-ubyte.gz",
     "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
    {OFFICIAL "train-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte.gz",
     "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
    {OFFICIAL "t10k-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz",
     "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
    {OFFICIAL "t10k-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
     "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"},
    {NULL, NULL, NULL},
};

const vv_dataset_desc vv_dataset_fashion_mnist = {
    .desc =
        {
            .kind = "dataset",
            .name = "fashion_mnist",
            .summary = "70,000 articles of clothing, 28x28 grey, 10 classes.",
            .cite = "Xiao, Rasul, Vollgraf: Fashion-MNIST, arXiv:1708.07747, 2017",
            .domains = "cv",
            .fields = fields,
            .opts_size = sizeof(vv_fashion_mnist_opts),
        },
    .open = fashion_mnist_open,
    .train_transform = {.crop_pad = 2, .flip = true, .normalise = true},
    .eval_transform = {.normalise = true},
    .files = files,
};
