/* synthetic.c - random images with the shape and size of a real set; texts are beside this file.
 *
 * A pool of unique samples is made at opening; sample i is number i modulo the pool. Pixels are
 * bytes: value v stands for the number z = (v / 255 - 1/2) * 12, so normalising gives z ~ N(m, 1)
 * back (rounded to 12/255, and cut at +-6). */
#include "synthetic_text.h"

#include <math.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/rng.h>

#define SCALE 12.0
#define MAX_POOL_BYTES ((size_t)4 << 30)

enum { LIKE_TEXT = 4 }; /* in like_names */
static const char *const like_names[] = {"cifar10",  "mnist", "fashion_mnist",
                                         "imagenet", "text",  NULL};
static const char *const kind_names[] = {"gaussian", "separable", NULL};
static const char *const target_names[] = {"next", "class", "number", NULL};

/* What `like` stands for. */
static const struct {
    int64_t height, width, channels, classes, train, eval;
} real_sets[] = {
    {32, 32, 3, 10, 50000, 10000},
    {28, 28, 1, 10, 60000, 10000},
    {28, 28, 1, 10, 60000, 10000},
    {224, 224, 3, 1000, 1281167, 50000},
};

#define AT(member) offsetof(vv_synthetic_opts, member)
static const vv_field fields[] = {
    {"dir", "Not used: nothing is read", VV_FIELD_STRING, AT(common.dir), "", 0, 0, NULL},
    {"like", "Real set whose shape, classes and size are taken; text: token ids", VV_FIELD_CHOICE,
     AT(like), "cifar10", 0, 0, like_names},
    {"height", "Height of an image in pixels; 0 = as in like", VV_FIELD_INT, AT(height), "0", 0,
     4096, NULL},
    {"width", "Width of an image in pixels; 0 = as in like", VV_FIELD_INT, AT(width), "0", 0, 4096,
     NULL},
    {"channels", "Channels of an image; 0 = as in like", VV_FIELD_INT, AT(channels), "0", 0, 4,
     NULL},
    {"classes", "Number of classes; 0 = as in like", VV_FIELD_INT, AT(classes), "0", 0, 1000000,
     NULL},
    {"count", "Samples in each split; 0 = as in like", VV_FIELD_INT, AT(count), "0", 0, 1e12, NULL},
    {"kind", "gaussian: nothing to learn; separable: pixels' mean, or tokens, tell the target",
     VV_FIELD_CHOICE, AT(kind), "gaussian", 0, 0, kind_names},
    {"pool", "Unique samples, reused modulo", VV_FIELD_INT, AT(pool), "100", 1, 1e6, NULL},
    {"seed", "Seed of the pool", VV_FIELD_INT, AT(seed), "0", 0, 9e15, NULL},
    {"seq", "Tokens in a text; 0 = 128", VV_FIELD_INT, AT(seq), "0", 0, 1 << 24, NULL},
    {"vocabulary", "Token ids are below it; 0 = 50257", VV_FIELD_INT, AT(vocabulary), "0", 0,
     INT32_MAX, NULL},
    {"target", "Of a text: the next token of each, a class, or a number", VV_FIELD_CHOICE,
     AT(target), "next", 0, 0, target_names},
    {"boxes", "Targets are boxes [boxes,6], as detectors have them; 0 = a class", VV_FIELD_INT,
     AT(boxes), "0", 0, 10000, NULL},
    {"masks", "Targets are masks, a class for each pixel, some ignored", VV_FIELD_BOOL, AT(masks),
     "false", 0, 0, NULL},
    {"segments", "Texts are two parts, told by a second row", VV_FIELD_BOOL, AT(segments), "false",
     0, 0, NULL},
    {.name = NULL},
};

typedef struct pool {
    int64_t count;
    size_t bytes; /* of one image */
    uint8_t *images;
    int32_t *labels;
    float *boxes; /* [count,boxes,6], NULL = targets are labels or masks */
    int32_t *masks; /* [count,H,W] or NULL */
    size_t box_bytes; /* of one image's */
    size_t pixels;
} pool;

static vv_status pool_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const pool *p = dataset->self;
    const size_t at = (size_t)(index % p->count);
    if (input)
        memcpy(input, p->images + at * p->bytes, p->bytes);
    if (target && p->boxes)
        memcpy(target, (const char *)p->boxes + at * p->box_bytes, p->box_bytes);
    else if (target && p->masks)
        memcpy(target, p->masks + at * p->pixels, p->pixels * sizeof *p->masks);
    else if (target)
        memcpy(target, &p->labels[at], sizeof *p->labels);
    return VV_OK;
}

static void pool_free(pool *p)
{
    if (!p)
        return;
    vv_dealloc(p->images);
    vv_dealloc(p->labels);
    vv_dealloc(p->boxes);
    vv_dealloc(p->masks);
    vv_dealloc(p);
}

static void pool_fini(vv_dataset *dataset)
{
    pool_free(dataset->self);
}

static const vv_dataset_class pool_class = {.read = pool_read, .fini = pool_fini};

static uint8_t pixel(double z)
{
    const double value = (z / SCALE + 0.5) * 255;
    return (uint8_t)(value <= 0 ? 0 : value >= 255 ? 255 : lround(value));
}

static void fill(const pool *p, const vv_synthetic_opts *o, int64_t classes, bool train)
{
    for (int64_t i = 0; i < p->count; i++) {
        const int32_t label = (int32_t)(i % classes);
        double mean = 0;
        if (o->kind == VV_SYNTHETIC_SEPARABLE && classes > 1)
            mean = -3 + 6.0 * label / (double)(classes - 1);
        vv_rng rng =
            vv_rng_at((uint64_t)o->seed, train ? "synthetic train" : "synthetic eval", (uint64_t)i);
        uint8_t *image = p->images + (size_t)i * p->bytes;
        for (size_t b = 0; b < p->bytes; b++)
            image[b] = pixel(mean + vv_rng_normal(&rng));
        p->labels[i] = label;
    }
}

/* Up to three boxes an image, anywhere, of any class but 0; the rest is no box. */
static void fill_boxes(const pool *p, const vv_synthetic_opts *o, int64_t classes, bool train)
{
    for (int64_t i = 0; i < p->count; i++) {
        vv_rng rng = vv_rng_at((uint64_t)o->seed,
                               train ? "synthetic boxes" : "synthetic eval boxes", (uint64_t)i);
        float *row = p->boxes + i * o->boxes * 6;
        const int64_t there = vv_rng_below(&rng, 4);
        for (int64_t b = 0; b < o->boxes; b++, row += 6) {
            row[4] = -1.0f;
            if (b >= there)
                continue;
            for (int k = 0; k < 2; k++) {
                row[k] = (float)vv_rng_uniform_in(&rng, 0.0, 0.6);
                row[k + 2] = row[k] + (float)vv_rng_uniform_in(&rng, 0.1, 0.4);
            }
            row[4] = (float)(1 + vv_rng_below(&rng, classes - 1));
        }
    }
}

/* A board of 4 x 4 fields of classes, the first without; separable: pixels tell their class. */
static void fill_masks(const pool *p, const vv_synthetic_opts *o, const vv_sample_spec *spec,
                       bool train)
{
    const int64_t height = spec->input_shape[0], width = spec->input_shape[1];
    const int64_t channels = spec->input_shape[2], classes = spec->classes;
    for (int64_t i = 0; i < p->count; i++) {
        const char *stream = train ? "synthetic masks" : "synthetic eval masks";
        vv_rng rng = vv_rng_at2((uint64_t)o->seed, stream, 0, (uint32_t)i);
        int32_t *mask = p->masks + (size_t)i * p->pixels;
        uint8_t *image = p->images + (size_t)i * p->bytes;
        for (int64_t at = 0; at < height * width; at++) {
            const int64_t field = 4 * (at / width * 4 / height) + at % width * 4 / width;
            const int64_t class = field ? (i + field * 7 / 3) % classes : -1;
            const double told = -3 + 6.0 * (double)class / (double)(classes > 1 ? classes - 1 : 1);
            mask[at] = (int32_t)class;
            for (int64_t k = 0; k < channels && o->kind == VV_SYNTHETIC_SEPARABLE; k++)
                image[at * channels + k] = pixel(told + vv_rng_normal(&rng));
        }
    }
}

static int64_t either(int64_t given, int64_t real)
{
    return given > 0 ? given : real;
}

static vv_status pool_new(pool **out, const vv_sample_spec *spec, int64_t count, int64_t boxes,
                          bool masks)
{
    vv_status status;
    pool *p = NULL;
    size_t total;
    *out = NULL;
    VV_GO(vv_alloc(&p, sizeof *p));
    p->count = count;
    p->bytes = (size_t)(spec->input_shape[0] * spec->input_shape[1] * spec->input_shape[2]);
    VV_GO(vv_size_mul(&total, p->bytes, (size_t)count));
    if (total > MAX_POOL_BYTES) {
        status = vv_fail(VV_EINVAL,
                         "data set synthetic: a pool of %lld images takes %zu bytes, at most "
                         "%zu are allowed; set a smaller pool",
                         (long long)count, total, MAX_POOL_BYTES);
        goto out;
    }
    VV_GO(vv_alloc_aligned(&p->images, total));
    VV_GO(vv_alloc_array(&p->labels, (size_t)count, sizeof *p->labels));
    p->box_bytes = (size_t)boxes * 6 * sizeof *p->boxes;
    p->pixels = (size_t)(spec->input_shape[0] * spec->input_shape[1]);
    if (masks)
        VV_GO(vv_alloc_array(&p->masks, (size_t)count, p->pixels * sizeof *p->masks));
    if (boxes)
        VV_GO(vv_alloc_array(&p->boxes, (size_t)count, p->box_bytes));
    *out = p;
    return VV_OK;
out:
    pool_free(p);
    return status;
}

static vv_status synthetic_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_synthetic_opts *o = opts;
    vv_status status;
    bool train;
    vv_dataset *dataset = NULL;
    pool *p;
    *out = NULL;
    VV_GO(vv_dataset_split(&train, "synthetic", split));
    if (o->like == LIKE_TEXT)
        return vvi_synthetic_text(out, o, train);
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    dataset->type = &pool_class;
    dataset->name = "synthetic";
    dataset->count = either(o->count, train ? real_sets[o->like].train : real_sets[o->like].eval);
    vv_sample_spec *spec = &dataset->spec;
    spec->input_dtype = VV_U8;
    spec->target_dtype = VV_I32;
    spec->input_ndim = 3;
    spec->input_shape[0] = either(o->height, real_sets[o->like].height);
    spec->input_shape[1] = either(o->width, real_sets[o->like].width);
    spec->input_shape[2] = either(o->channels, real_sets[o->like].channels);
    spec->classes = either(o->classes, real_sets[o->like].classes);
    for (int c = 0; c < 4; c++) {
        spec->mean[c] = 0.5f;
        spec->std[c] = (float)(1 / SCALE);
    }
    if (o->boxes) {
        if (o->masks)
            VV_GO(vv_fail(VV_EINVAL, "data set synthetic: targets are boxes or masks, not both"));
        if (spec->classes < 2) {
            status = vv_fail(VV_EINVAL,
                             "data set synthetic: boxes need two classes, the background "
                             "and one more; classes is %lld",
                             (long long)spec->classes);
            goto out;
        }
        spec->target_dtype = VV_F32;
        spec->target_ndim = 2;
        spec->target_shape[0] = o->boxes;
        spec->target_shape[1] = 6;
    }
    if (o->masks) {
        spec->target_ndim = 2;
        spec->target_shape[0] = spec->input_shape[0];
        spec->target_shape[1] = spec->input_shape[1];
    }
    VV_GO(pool_new(&p, spec, o->pool < dataset->count ? o->pool : dataset->count, o->boxes,
                   o->masks));
    fill(p, o, spec->classes, train);
    if (o->masks)
        fill_masks(p, o, spec, train);
    if (o->boxes)
        fill_boxes(p, o, spec->classes, train);
    dataset->self = p;
    *out = dataset;
    return VV_OK;
out:
    vv_dealloc(dataset);
    return status;
}

const vv_dataset_desc vv_dataset_synthetic = {
    .desc =
        {
            .kind = "dataset",
            .name = "synthetic",
            .summary =
                "Random images or texts with the shape of a real set, for speed tests.",
            .cite = "",
            .domains = "any",
            .fields = fields,
            .opts_size = sizeof(vv_synthetic_opts),
        },
    .open = synthetic_open,
    .train_transform = {.normalise = true},
    .eval_transform = {.normalise = true},
};
