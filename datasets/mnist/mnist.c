/* mnist.c - the data set MNIST (LeCun, Cortes, Burges). */
#include "mnist.h"

#include <vivace/ext/data_files.h>

static const char *const class_names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

static const vv_field fields[] = {
    {"dir", "Folder with the four IDX files; empty = $VIVACE_DATA/mnist", VV_FIELD_STRING,
     offsetof(vv_mnist_opts, common.dir), "", 0, 0, NULL},
    {.name = NULL},
};

/* Mean and deviation of the training set's pixels / 255. */
static const vv_sample_spec spec = {
    .input_dtype = VV_U8,
    .target_dtype = VV_I32,
    .input_ndim = 3,
    .input_shape = {28, 28, 1},
    .classes = 10,
    .mean = {0.1307f},
    .std = {0.3081f},
};

static vv_status mnist_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_mnist_opts *o = opts;
    VV_TRY(vv_dataset_open_idx(out, "mnist", &o->common, NULL, split, &spec));
    (*out)->class_names = class_names;
    return VV_OK;
}

/* The sums are those of the files as first published. */
#define MIRROR "https://ossci-datasets.s3.amazonaws.com/mnist/"
static const vv_fetch_file files[] = {
    {MIRROR "train-images-idx3-ubyte.gz", "train-images-idx3-ubyte.gz",
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
    {MIRROR "train-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte.gz",
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
    {MIRROR "t10k-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz",
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
    {MIRROR "t10k-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
    {NULL, NULL, NULL},
};

const vv_dataset_desc vv_dataset_mnist = {
    .desc =
        {
            .kind = "dataset",
            .name = "mnist",
            .summary = "70,000 handwritten digits, 28x28 grey, 10 classes.",
            .cite = "LeCun, Cortes, Burges: The MNIST database of handwritten digits, 1998",
            .domains = "cv",
            .fields = fields,
            .opts_size = sizeof(vv_mnist_opts),
        },
    .open = mnist_open,
    .files = files,
};
