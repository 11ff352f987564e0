/* segmentation_folder.c - pictures with masks, cut and resized together: the mask's pixels are the
 * nearest of exactly the part that the picture's are smoothed from.
 *
 * Training as in ADE20K's usual recipes: a random size, a random cut in which no class has nearly
 * all, mirrored by chance, colours changed; what the picture does not fill has its mean colour and
 * no class. */
#include "segmentation_folder.h"

#include <math.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/image_files.h>
#include <vivace/memory.h>

#include "mask_pairs.h"

#define MAX_IMAGE_BYTES ((size_t)256 << 20)
enum { CHANNELS = 3 };

static const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};

typedef struct seg_set {
    vvi_mask_pairs pairs;
    vvi_mask_classes classes;
    vvi_mask_shards *shards; /* NULL = pairs of files */
    vv_segmentation_folder_opts opts; /* its texts are not looked at any more */
} seg_set;

static void set_free(seg_set *set)
{
    if (!set)
        return;
    vvi_mask_pairs_fini(&set->pairs);
    vvi_mask_shards_close(set->shards);
    vvi_mask_classes_fini(&set->classes);
    vv_dealloc(set);
}

static void set_fini(vv_dataset *dataset)
{
    set_free(dataset->self);
}

/* ---- a picture and its mask ---- */

typedef struct loaded {
    void *file; /* the picture's, not decoded yet */
    size_t bytes;
    vv_image_info info;
    vv_image mask; /* numbers, one channel */
} loaded;

static void loaded_fini(loaded *l)
{
    vv_dealloc(l->file);
    vv_image_fini(&l->mask);
    *l = (loaded){0};
}

vv_status vvi_mask_read(const vvi_mask_classes *classes, const char *path, vv_image *out)
{
    vv_image_decode_opts how = {.palette_index = true};
    vv_image_info info;
    void *data = NULL;
    size_t bytes = 0;
    uint8_t *numbers = NULL;
    vv_status status;

    VV_GO(vv_data_file_read(&data, &bytes, path, MAX_IMAGE_BYTES));
    VV_GO(vv_image_probe(&info, path, data, bytes));
    if (info.format != VV_IMAGE_PNG)
        VV_GO(vv_fail(VV_EFORMAT, "%s: masks must be PNG, which keeps their numbers", path));
    if (info.bits > 8)
        VV_GO(vv_fail(VV_EFORMAT, "%s: the mask has %d bits a value, at most 8 are read", path,
                      info.bits));
    if (!info.palette && info.channels >= 3)
        how = (vv_image_decode_opts){.channels = 3};
    VV_GO(vv_image_decode(out, path, data, bytes, &how));

    const int64_t count = out->shape.height * out->shape.width;

    VV_GO(vv_alloc_array(&numbers, (size_t)count, 1));
    VV_GO(vvi_mask_numbers(classes, path, out->pixels, out->shape.channels, count, numbers));
    vv_dealloc(out->pixels);
    out->pixels = numbers;
    out->shape.channels = 1;
    numbers = NULL;
out:
    vv_dealloc(data);
    vv_dealloc(numbers);
    return status;
}

static vv_status load_packed(const seg_set *set, int64_t index, loaded *out)
{
    vv_status status;

    VV_GO(vvi_mask_shards_read(set->shards, index, &out->file, &out->bytes, &out->mask));
    VV_GO(vv_image_probe(&out->info, "its image", out->file, out->bytes));
    if (out->mask.shape.height != out->info.height || out->mask.shape.width != out->info.width)
        status = vv_fail(VV_EFORMAT, "the mask is not as large as its image");
out:
    if (status != VV_OK)
        loaded_fini(out);
    return vv_fail_within(status, "data set segmentation_folder: sample %lld", (long long)index);
}

static const char *name_of(const seg_set *set, int64_t index)
{
    return set->shards ? "a packed image" : set->pairs.items[index].image;
}

static vv_status load(const seg_set *set, int64_t index, loaded *out)
{
    vv_status status;

    *out = (loaded){0};
    if (set->shards)
        return load_packed(set, index, out);

    const vvi_mask_pair *pair = &set->pairs.items[index];

    VV_GO(vv_data_file_read(&out->file, &out->bytes, pair->image, MAX_IMAGE_BYTES));
    VV_GO(vv_image_probe(&out->info, pair->image, out->file, out->bytes));
    VV_GO(vvi_mask_read(&set->classes, pair->mask, &out->mask));
    if (out->mask.shape.height != out->info.height || out->mask.shape.width != out->info.width)
        status = vv_fail(VV_EFORMAT, "%s: the mask is %lldx%lld pixels, %s %lldx%lld", pair->mask,
                         (long long)out->mask.shape.width, (long long)out->mask.shape.height,
                         pair->image, (long long)out->info.width, (long long)out->info.height);
out:
    if (status != VV_OK)
        loaded_fini(out);
    return status;
}

/* ---- a cut: `box` of the picture becomes the first height x width pixels of the sample ---- */

typedef struct cut {
    double box[4];         /* x0, y0, x1, y1 in the picture's pixels */
    int64_t height, width; /* of what the box becomes; at most the sample's */
} cut;

static cut whole(const seg_set *set, const loaded *l)
{
    const cut c = {{0.0, 0.0, (double)l->info.width, (double)l->info.height},
                   set->opts.height, set->opts.width};

    return c;
}

static int64_t scaled(int64_t side, double scale)
{
    const int64_t size = (int64_t)floor((double)side * scale + 0.5);

    return size > 0 ? size : 1;
}

/* Where a window of `window` pixels lies in `size` of them, as a part of `side` source pixels. */
static int64_t place(double *from, double *to, vv_rng *rng, int64_t size, int64_t window,
                     int64_t side)
{
    const int64_t taken = window < size ? window : size;
    const int64_t at = vv_rng_below(rng, size - taken + 1);

    *from = (double)at * (double)side / (double)size;
    *to = (double)(at + taken) * (double)side / (double)size;
    *to = *to < (double)side ? *to : (double)side;
    return taken;
}

static cut random_cut(const seg_set *set, const loaded *l, double scale, vv_rng *rng)
{
    const vv_segmentation_folder_opts *o = &set->opts;
    const int64_t height = scaled(o->base_height ? o->base_height : l->info.height, scale);
    const int64_t width = scaled(o->base_width ? o->base_width : l->info.width, scale);
    cut c;

    c.height = place(&c.box[1], &c.box[3], rng, height, o->height, l->info.height);
    c.width = place(&c.box[0], &c.box[2], rng, width, o->width, l->info.width);
    return c;
}

/* The cut's mask into out [height, width] of the sample; numbers[] has room for one. */
static vv_status cut_mask(const seg_set *set, const loaded *l, const cut *c, uint8_t *numbers,
                          int32_t *out)
{
    const vv_image_shape shape = {c->height, c->width, 1};
    const int64_t height = set->opts.height, width = set->opts.width;

    VV_TRY(vv_image_resample(&shape, numbers, &l->mask.shape, l->mask.pixels, c->box,
                             VV_IMAGE_NEAREST));
    for (int64_t y = 0; y < height; y++, out += width)
        for (int64_t x = 0; x < width; x++)
            out[x] = y < c->height && x < c->width
                         ? set->classes.of[numbers[y * c->width + x]]
                         : VVI_NO_CLASS;
    return VV_OK;
}

/* Two classes at least, none with more than its share; pixels without a class do not count. */
static bool is_mixed(const seg_set *set, const int32_t *mask)
{
    int64_t counts[256] = {0}, all = 0, most = 0;

    for (int64_t i = 0; i < set->opts.height * set->opts.width; i++)
        if (mask[i] >= 0) {
            counts[mask[i]]++;
            all++;
        }
    for (int i = 0; i < 256; i++)
        most = counts[i] > most ? counts[i] : most;
    return most < all && (double)most <= set->opts.max_share * (double)all;
}

/* The cut's pixels into out [height, width, 3] of the sample. */
static vv_status cut_image(const seg_set *set, const loaded *l, const char *name, const cut *c,
                           uint8_t *out)
{
    const vv_image_decode_opts how = {.channels = CHANNELS, .min_height = c->height,
                                      .min_width = c->width};
    const vv_image_shape shape = {c->height, c->width, CHANNELS};
    const int64_t width = set->opts.width, height = set->opts.height;
    const bool fills = c->width == width && c->height == height;
    double box[4] = {c->box[0], c->box[1], c->box[2], c->box[3]};
    vv_image decoded = {0};
    uint8_t *pixels = out;
    vv_status status;

    VV_GO(vv_image_decode_part(&decoded, box, name, l->file, l->bytes, &how));
    if (!fills)
        VV_GO(vv_alloc_array(&pixels, (size_t)(c->height * c->width), CHANNELS));
    VV_GO(vv_image_resample(&shape, pixels, &decoded.shape, decoded.pixels, box,
                            VV_IMAGE_BILINEAR));
    for (int64_t y = 0; y < height && !fills; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t k = 0; k < CHANNELS; k++)
                out[(y * width + x) * CHANNELS + k] =
                    y < c->height && x < c->width
                        ? pixels[(y * c->width + x) * CHANNELS + k]
                        : (uint8_t)(255.0f * mean[k] + 0.5f);
out:
    if (pixels != out)
        vv_dealloc(pixels);
    vv_image_fini(&decoded);
    return status;
}

static void flip_mask(int32_t *mask, int64_t height, int64_t width)
{
    for (int64_t y = 0; y < height; y++, mask += width)
        for (int64_t x = 0; x < width / 2; x++) {
            const int32_t other = mask[width - 1 - x];

            mask[width - 1 - x] = mask[x];
            mask[x] = other;
        }
}

/* ---- samples ---- */

static vv_status set_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const seg_set *set = dataset->self;
    const size_t count = (size_t)(set->opts.height * set->opts.width);
    uint8_t *numbers = NULL;
    loaded l;
    vv_status status;

    VV_TRY(load(set, index, &l));
    const cut c = whole(set, &l);

    if (target) {
        VV_GO(vv_alloc_array(&numbers, count, 1));
        VV_GO(cut_mask(set, &l, &c, numbers, target));
    }
    if (input)
        VV_GO(cut_image(set, &l, name_of(set, index), &c, input));
    else
        status = VV_OK;
out:
    vv_dealloc(numbers);
    loaded_fini(&l);
    return status;
}

static vv_status set_draw(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    const seg_set *set = dataset->self;
    const vv_segmentation_folder_opts *o = &set->opts;
    const vv_image_shape shape = {o->height, o->width, CHANNELS};
    const size_t count = (size_t)(o->height * o->width);
    uint8_t *scratch = NULL;
    int32_t *mask = NULL;
    loaded l;
    cut c;
    vv_status status;

    VV_TRY(load(set, call->index, &l));
    VV_GO(vv_alloc_array(&scratch, count, CHANNELS));
    VV_GO(vv_alloc_array(&mask, count, sizeof *mask));

    const bool flip = vv_rng_uniform(&call->rng) < 0.5 && o->flip;
    const double scale = vv_rng_uniform_in(&call->rng, o->min_scale, o->max_scale);
    int64_t tries = o->max_share < 1.0 ? o->tries : 1;

    do {
        c = random_cut(set, &l, scale, &call->rng);
        VV_GO(cut_mask(set, &l, &c, scratch, mask));
    } while (--tries > 0 && !is_mixed(set, mask));
    if (flip)
        flip_mask(mask, o->height, o->width);
    if (target)
        memcpy(target, mask, count * sizeof *mask);
    if (!input)
        goto out;
    VV_GO(cut_image(set, &l, name_of(set, call->index), &c, input));
    if (flip)
        vv_image_flip(&shape, input);
    if (o->distort)
        vv_image_photometric_distortion(&shape, input, scratch, &call->rng);
out:
    vv_dealloc(scratch);
    vv_dealloc(mask);
    loaded_fini(&l);
    return status;
}

static const vv_dataset_class plain_class = {.read = set_read, .fini = set_fini};
static const vv_dataset_class drawn_class = {.read = set_read, .draw = set_draw, .fini = set_fini};

/* ---- opening ---- */

static vv_sample_spec spec_of(const vv_segmentation_folder_opts *o, int64_t classes)
{
    vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                           .target_ndim = 2, .classes = classes};

    spec.input_shape[0] = spec.target_shape[0] = o->height;
    spec.input_shape[1] = spec.target_shape[1] = o->width;
    spec.input_shape[2] = CHANNELS;
    memcpy(spec.mean, mean, sizeof mean);
    memcpy(spec.std, deviation, sizeof deviation);
    return spec;
}

static vv_status check_opts(const vv_segmentation_folder_opts *o)
{
    if (o->min_scale > o->max_scale)
        return vv_fail(VV_EINVAL, "data set segmentation_folder: min_scale %g is above max_scale "
                                  "%g", o->min_scale, o->max_scale);
    if (!o->base_height != !o->base_width)
        return vv_fail(VV_EINVAL, "data set segmentation_folder: base_height and base_width are "
                                  "set together, or both 0");
    return VV_OK;
}

static vv_status set_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_segmentation_folder_opts *o = opts;
    vv_dataset *dataset = NULL;
    seg_set *set = NULL;
    char *dir = NULL;
    int layout;
    bool train;
    vv_status status;

    *out = NULL;
    VV_TRY(vv_dataset_split(&train, "segmentation_folder", split));
    VV_TRY(check_opts(o));
    VV_GO(vv_dataset_find_dir(&dir, o->common.dir, o->set, NULL));
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    VV_GO(vv_alloc(&set, sizeof *set));
    set->opts = *o;
    VV_GO(vvi_mask_shards_open(&set->shards, &set->classes, o, dir, train));
    if (!set->shards) {
        VV_GO(vvi_mask_pairs_find(&set->pairs, &layout, o, dir, train));
        VV_GO(vvi_mask_classes_read(&set->classes, o, dir, layout));
    }
    dataset->type = train && o->augment ? &drawn_class : &plain_class;
    dataset->name = "segmentation_folder";
    dataset->count = set->shards ? vvi_mask_shards_count(set->shards) : set->pairs.count;
    dataset->spec = spec_of(o, set->classes.classes);
    if (set->classes.names[0])
        dataset->class_names = (const char *const *)set->classes.names;
    dataset->prepare.whole = true;
    dataset->self = set;
    *out = dataset;
    dataset = NULL;
    set = NULL;
out:
    set_free(set);
    vv_dealloc(dataset);
    vv_dealloc(dir);
    return status;
}

/* ADE20K's numbers where the options do not tell: 150 classes, 20,210 and 2,000 images. */
static vv_status set_shape(const void *opts, const char *split, vv_sample_spec *spec,
                           int64_t *count)
{
    const vv_segmentation_folder_opts *o = opts;

    *spec = spec_of(o, o->classes ? o->classes : o->layout == VV_MASK_LAYOUT_PETS ? 3 : 150);
    *count = strcmp(split, "train") == 0 ? 20210 : 2000;
    return VV_OK;
}

static const char *const layouts[] = {"auto", "list", "ade20k", "pets", "plain", NULL};
#define AT(member) offsetof(vv_segmentation_folder_opts, member)
static const vv_field fields[] = {
    {"dir", "Folder of the set; empty = $VIVACE_DATA and the name `set`", VV_FIELD_STRING,
     AT(common.dir), "", 0, 0, NULL},
    {"set", "Name of the set's folder in $VIVACE_DATA", VV_FIELD_STRING, AT(set),
     "segmentation_folder", 0, 0, NULL},
    {"layout", "How the folder is laid out: list (SPLIT.txt), ade20k, pets, plain; auto looks",
     VV_FIELD_CHOICE, AT(layout), "auto", 0, 0, layouts},
    {"train", "Name of the training split; empty = the layout's", VV_FIELD_STRING, AT(train), "", 0,
     0, NULL},
    {"eval", "Name of the split to evaluate on; empty = the layout's", VV_FIELD_STRING, AT(eval),
     "", 0, 0, NULL},
    {"classes", "Classes; 0 = as classes.txt or the layout says", VV_FIELD_INT, AT(classes), "0", 0,
     256, NULL},
    {"ignore", "Number in masks that is no class; -1 = none (255 never is one)", VV_FIELD_INT,
     AT(ignore), "-1", -1, 255, NULL},
    {"first", "Number in masks of class 0, smaller ones are no class; -1 = the layout's",
     VV_FIELD_INT, AT(first), "-1", -1, 255, NULL},
    {"colours", "Table of the colours of masks in RGB (number, tab, name, tab, red green blue); "
                "empty = classes.txt", VV_FIELD_STRING, AT(colours), "", 0, 0, NULL},
    {"height", "Height of samples", VV_FIELD_INT, AT(height), "512", 8, 8192, NULL},
    {"width", "Width of samples", VV_FIELD_INT, AT(width), "512", 8, 8192, NULL},
    {"base_height", "Height of pictures before the random scale; 0 = their own", VV_FIELD_INT,
     AT(base_height), "0", 0, 8192, NULL},
    {"base_width", "The same for the width", VV_FIELD_INT, AT(base_width), "0", 0, 8192, NULL},
    {"min_scale", "Training pictures are resized by U(min_scale, max_scale)", VV_FIELD_FLOAT,
     AT(min_scale), "0.5", 0.05, 20, NULL},
    {"max_scale", "The other end", VV_FIELD_FLOAT, AT(max_scale), "2", 0.05, 20, NULL},
    {"max_share", "A cut in which one class has more than this share is drawn again",
     VV_FIELD_FLOAT, AT(max_share), "0.75", 0.01, 1, NULL},
    {"tries", "Cuts that are drawn at most", VV_FIELD_INT, AT(tries), "10", 1, 100, NULL},
    {"flip", "Mirrored left-right half of the time", VV_FIELD_BOOL, AT(flip), "true", 0, 0, NULL},
    {"distort", "Photometric distortion of colours", VV_FIELD_BOOL, AT(distort), "true", 0, 0,
     NULL},
    {"augment", "Training samples vary; off = as in evaluation", VV_FIELD_BOOL, AT(augment), "true",
     0, 0, NULL},
    {.name = NULL},
};

const vv_dataset_desc vv_dataset_segmentation_folder = {
    .desc = {.kind = "dataset",
             .name = "segmentation_folder",
             .summary = "Pictures with a mask of classes each, from folders: CamVid, ADE20K, "
                        "Oxford pets, or one's own.",
             .cite = "Zhou et al., Semantic understanding of scenes through the ADE20K dataset, "
                     "arXiv 1608.05442",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_segmentation_folder_opts)},
    .open = set_open,
    .train_transform = {.normalise = true},
    .eval_transform = {.normalise = true},
    .shape = set_shape,
};
