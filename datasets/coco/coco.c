/* coco.c - photographs with boxes from COCO's files, decoded where they are cut. */
#include "coco.h"

#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/image_files.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#include "coco_json.h"

#define MAX_JSON_BYTES ((size_t)4 << 30)
#define MAX_IMAGE_BYTES ((size_t)256 << 20)
enum { CHANNELS = 3, ROW = 6, CROWD = 5 };

typedef struct coco {
    vvi_coco_set set;
    char *folder;     /* of the images */
    int64_t *samples; /* which images are used */
    const char **names; /* of the classes, the background's first */
    vv_image_shape shape;
    int64_t max_boxes;
    vv_box_augment change;
    vv_str notice;
} coco;

static void coco_free(coco *c)
{
    if (!c)
        return;
    vvi_coco_fini(&c->set);
    vv_dealloc(c->folder);
    vv_dealloc(c->samples);
    vv_dealloc(c->names);
    vv_str_fini(&c->notice);
    vv_dealloc(c);
}

static void coco_fini(vv_dataset *dataset)
{
    coco_free(dataset->self);
}

/* ---- samples ---- */

/* The part `crop` (shares) of an image's file as pixels of the set's size. */
static vv_status read_pixels(const coco *c, const vvi_coco_image *image, const double crop[4],
                             uint8_t *out)
{
    const vv_image_decode_opts how = {.channels = CHANNELS, .min_height = c->shape.height,
                                      .min_width = c->shape.width};
    double part[4];
    vv_image_info info;
    vv_image decoded = {0};
    vv_str path = {0};
    void *data = NULL;
    size_t bytes = 0;
    vv_status status;
    vv_str_addf(&path, "%s/%s", c->folder, image->file);
    VV_GO(vv_str_status(&path));
    const char *name = vv_str_text(&path);
    VV_GO(vv_data_file_read(&data, &bytes, name, MAX_IMAGE_BYTES));
    VV_GO(vv_image_probe(&info, name, data, bytes));
    if (info.height != image->height || info.width != image->width) {
        status = vv_fail(VV_EFORMAT, "%s: is %lldx%lld pixels, the annotations say %lldx%lld", name,
                         (long long)info.width, (long long)info.height, (long long)image->width,
                         (long long)image->height);
        goto out;
    }
    for (int i = 0; i < 4; i++)
        part[i] = crop[i] * (double)(i % 2 ? image->height : image->width);
    VV_GO(vv_image_decode_part(&decoded, part, name, data, bytes, &how));
    VV_GO(vv_image_resample(&c->shape, out, &decoded.shape, decoded.pixels, part,
                            VV_IMAGE_BILINEAR));
out:
    vv_image_fini(&decoded);
    vv_dealloc(data);
    vv_str_fini(&path);
    return status;
}

/* The boxes of an image into rows[max_boxes]; returns how many. */
static int64_t copy_rows(const coco *c, const vvi_coco_image *image, vv_box_row *rows)
{
    if (image->count)
        memcpy(rows, c->set.rows + image->first, (size_t)image->count * sizeof *rows);
    return image->count;
}

static vv_status coco_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    static const double whole[4] = {0.0, 0.0, 1.0, 1.0};
    const coco *c = dataset->self;
    const vvi_coco_image *image = &c->set.images[c->samples[index]];
    if (target)
        vv_boxes_pad(target, copy_rows(c, image, target), c->max_boxes);
    return input ? read_pixels(c, image, whole, input) : VV_OK;
}

static vv_status coco_draw(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    const coco *c = dataset->self;
    const vvi_coco_image *image = &c->set.images[c->samples[call->index]];
    vv_box_row *rows = NULL;
    uint8_t *scratch = NULL;
    vv_status status;
    double crop[4];
    bool flip;
    VV_GO(vv_alloc_array(&rows, (size_t)c->max_boxes, sizeof *rows));
    VV_GO(vv_alloc(&scratch, (size_t)(c->shape.height * c->shape.width * CHANNELS)));
    const int64_t count = vv_boxes_augment(rows, copy_rows(c, image, rows), &c->change, &call->rng,
                                           crop, &flip);
    VV_GO(read_pixels(c, image, crop, input));
    vv_boxes_finish(&c->shape, input, scratch, &c->change, flip, &call->rng);
    vv_boxes_pad(rows, count, c->max_boxes);
    if (target)
        memcpy(target, rows, (size_t)c->max_boxes * sizeof *rows);
out:
    vv_dealloc(rows);
    vv_dealloc(scratch);
    return status;
}

static const vv_dataset_class plain_class = {.read = coco_read, .fini = coco_fini};
static const vv_dataset_class drawn_class = {
    .read = coco_read, .draw = coco_draw, .fini = coco_fini};

/* ---- opening ---- */

static vv_status read_annotations(coco *c, const char *dir, const char *file)
{
    char *path = NULL;
    void *data = NULL;
    size_t bytes;
    vv_status status;
    VV_GO(vv_data_file_find(&path, dir, file));
    VV_GO(vv_data_file_read(&data, &bytes, path, MAX_JSON_BYTES));
    VV_GO(vvi_coco_parse(&c->set, path, data, bytes));
out:
    vv_dealloc(path);
    vv_dealloc(data);
    return status;
}

/* Nothing is learnt from crowds: they go, and what is behind them moves up. */
static void drop_crowds(vvi_coco_set *set)
{
    for (int64_t i = 0; i < set->image_count; i++) {
        vvi_coco_image *image = &set->images[i];
        vv_box_row *rows = set->rows + image->first;
        int64_t kept = 0;
        for (int64_t k = 0; k < image->count; k++)
            if (rows[k][CROWD] == 0.0f)
                memmove(rows[kept++], rows[k], sizeof *rows);
        image->count = kept;
    }
}

/* Training uses images that show something, evaluation all. */
static vv_status choose_images(coco *c, bool train, const char *file, int64_t *count)
{
    VV_TRY(vv_alloc_array(&c->samples, (size_t)c->set.image_count + 1, sizeof *c->samples));
    *count = 0;
    if (train)
        drop_crowds(&c->set);
    for (int64_t i = 0; i < c->set.image_count; i++) {
        const vvi_coco_image *image = &c->set.images[i];
        if (image->count > c->max_boxes)
            return vv_fail(VV_EINVAL, "data set coco: %s has %lld boxes, max_boxes is %lld; set it "
                                      "to at least that", image->file, (long long)image->count,
                           (long long)c->max_boxes);
        if (image->count > 0 || !train)
            c->samples[(*count)++] = i;
    }
    if (*count == 0)
        return vv_fail(VV_EFORMAT, "data set coco: %s has no images%s", file,
                       train ? " with boxes" : "");
    return VV_OK;
}

/* What is left out is told. */
static vv_status note(coco *c, const char *file, int64_t used)
{
    const int64_t bare = c->set.image_count - used;
    if (bare || c->set.empty)
        vv_str_addf(&c->notice, "data set coco: %s: ", file);
    if (bare)
        vv_str_addf(&c->notice, "%lld images without boxes%s", (long long)bare,
                    c->set.empty ? " and " : " are left out");
    if (c->set.empty)
        vv_str_addf(&c->notice, "%lld boxes without an area are left out", (long long)c->set.empty);
    return vv_str_status(&c->notice);
}

static vv_status name_classes(coco *c)
{
    VV_TRY(vv_alloc_array(&c->names, (size_t)c->set.category_count + 1, sizeof *c->names));
    c->names[0] = "background";
    for (int64_t k = 0; k < c->set.category_count; k++)
        c->names[k + 1] = c->set.categories[k].name;
    return VV_OK;
}

static vv_sample_spec spec_of(const vv_coco_opts *o, int64_t categories)
{
    static const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
    vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_F32, .input_ndim = 3,
                           .target_ndim = 2, .classes = categories + 1};
    spec.input_shape[0] = spec.input_shape[1] = o->size;
    spec.input_shape[2] = CHANNELS;
    spec.target_shape[0] = o->max_boxes;
    spec.target_shape[1] = ROW;
    memcpy(spec.mean, mean, sizeof mean);
    memcpy(spec.std, std, sizeof std);
    return spec;
}

static vv_status join(char **out, const char *dir, const char *folder)
{
    vv_str path = {0};
    vv_str_addf(&path, "%s/%s", dir, folder);
    vv_status status = vv_str_status(&path);
    if (status == VV_OK)
        status = vv_strdup(out, vv_str_text(&path));
    vv_str_fini(&path);
    return status;
}

static vv_status coco_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_coco_opts *o = opts;
    const vv_box_augment change = VV_BOX_AUGMENT_DEFAULTS;
    vv_dataset *dataset = NULL;
    coco *c = NULL;
    char *dir = NULL;
    vv_status status;
    bool train;
    *out = NULL;
    VV_TRY(vv_dataset_split(&train, "coco", split));
    const char *file = train ? o->train_annotations : o->eval_annotations;
    VV_GO(vv_dataset_find_dir(&dir, o->common.dir, "coco", NULL));
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    VV_GO(vv_alloc(&c, sizeof *c));
    c->shape = (vv_image_shape){o->size, o->size, CHANNELS};
    c->max_boxes = o->max_boxes;
    c->change = change;
    c->change.min_side = 1.0 / (double)o->size;
    VV_GO(join(&c->folder, dir, train ? o->train_images : o->eval_images));
    VV_GO(read_annotations(c, dir, file));
    VV_GO(choose_images(c, train, file, &dataset->count));
    VV_GO(name_classes(c));
    VV_GO(note(c, file, dataset->count));
    dataset->type = train && o->augment ? &drawn_class : &plain_class;
    dataset->name = "coco";
    dataset->spec = spec_of(o, c->set.category_count);
    dataset->class_names = c->names;
    dataset->prepare.whole = true;
    dataset->notice = vv_str_text(&c->notice)[0] ? vv_str_text(&c->notice) : NULL;
    dataset->prepare.whole = true;
    dataset->self = c;
    *out = dataset;
    dataset = NULL;
    c = NULL;
out:
    coco_free(c);
    vv_dealloc(dataset);
    vv_dealloc(dir);
    return status;
}

/* COCO 2017: 80 classes, 117,266 training images with boxes, 5,000 to evaluate on. */
static vv_status coco_shape(const void *opts, const char *split, vv_sample_spec *spec,
                            int64_t *count)
{
    *spec = spec_of(opts, 80);
    *count = strcmp(split, "train") == 0 ? 117266 : 5000;
    return VV_OK;
}

#define AT(member) offsetof(vv_coco_opts, member)
static const vv_field fields[] = {
    {"dir", "Folder of the set; empty = $VIVACE_DATA/coco", VV_FIELD_STRING, AT(common.dir), "", 0,
     0, NULL},
    {"train_annotations", "JSON file of the training split, below dir", VV_FIELD_STRING,
     AT(train_annotations), "annotations/instances_train2017.json", 0, 0, NULL},
    {"eval_annotations", "JSON file of the other split", VV_FIELD_STRING, AT(eval_annotations),
     "annotations/instances_val2017.json", 0, 0, NULL},
    {"train_images", "Folder of the training images, below dir", VV_FIELD_STRING, AT(train_images),
     "train2017", 0, 0, NULL},
    {"eval_images", "Folder of the other images", VV_FIELD_STRING, AT(eval_images), "val2017", 0, 0,
     NULL},
    {"size", "Images are made size x size pixels", VV_FIELD_INT, AT(size), "300", 16, 4096, NULL},
    {"max_boxes", "Rows of a target; an image with more boxes is refused", VV_FIELD_INT,
     AT(max_boxes), "100", 1, 10000, NULL},
    {"augment", "Training images are cut, mirrored and coloured by chance", VV_FIELD_BOOL,
     AT(augment), "true", 0, 0, NULL},
    {.name = NULL},
};

const vv_dataset_desc vv_dataset_coco = {
    .desc = {.kind = "dataset",
             .name = "coco",
             .summary =
                 "Photographs with boxes from COCO's JSON files, of COCO itself or one's own.",
             .cite = "Lin et al., Microsoft COCO: Common objects in context, arXiv 1405.0312",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_coco_opts)},
    .open = coco_open,
    .train_transform = {.normalise = true},
    .eval_transform = {.normalise = true},
    .shape = coco_shape,
};
