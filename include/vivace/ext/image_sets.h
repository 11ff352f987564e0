/* ext/image_sets.h - for those who write sets of photographs: one file's bytes to one sample, and
 * whole folders of classes. */
#ifndef VIVACE_EXT_IMAGE_SETS_H
#define VIVACE_EXT_IMAGE_SETS_H

#include <vivace/data.h>
#include <vivace/image_files.h>

VV_BEGIN_DECLS

/* How a photograph becomes a sample of size x size pixels. */
typedef struct vv_photo_opts {
    int64_t size;     /* side of a sample */
    int64_t resize;   /* evaluation: the shorter side before the central cut; 0 = size * 8 / 7 */
    int64_t channels; /* 1 or 3 */
    double scale[2], ratio[2]; /* training: see vv_image_random_resized_crop */
    vv_color_jitter jitter;    /* training */
    vv_image_filter filter;
    bool scaled; /* JPEG may be decoded at 1/2, 1/4, 1/8 where that still has `size` pixels */
    bool orient; /* as EXIF says */
} vv_photo_opts;
/* Where the time went: seconds of the thread's own time, added up. */
typedef struct vv_photo_times {
    double read, decode, resample, colour;
} vv_photo_times;
/* rng NULL = as evaluation sees it: the shorter side to `resize`, the centre cut out. Else a random
   resized crop, then the jitter; the mirror is the loader's. times may be NULL; `read` is not
   touched. */
VV_API VV_MUST_USE vv_status vv_photo_load(uint8_t *out, const char *name, const void *data,
                                           size_t bytes, const vv_photo_opts *opts, vv_rng *rng,
                                           vv_photo_times *times);
/* The same from pixels with `channels` of them. */
VV_API VV_MUST_USE vv_status vv_photo_cut(uint8_t *out, const vv_image_shape *in_shape,
                                          const uint8_t *in, const vv_photo_opts *opts,
                                          vv_rng *rng);

/* `resize`, as it works out. */
VV_API int64_t vv_photo_resize(const vv_photo_opts *opts);

typedef enum vv_photo_damaged { VV_DAMAGED_REFUSE, VV_DAMAGED_SKIP } vv_photo_damaged;
typedef enum vv_photo_check { VV_CHECK_NONE, VV_CHECK_ENDS, VV_CHECK_ALL } vv_photo_check;

/* Settings of sets made of folders of photographs. */
typedef struct vv_image_folder_opts {
    vv_dataset_common common;
    int64_t size, resize, channels;
    double scale, ratio, color_jitter, hue, eval_fraction;
    int interpolation; /* a vv_image_filter */
    int damaged;       /* a vv_photo_damaged */
    int check;         /* a vv_photo_check */
    bool scaled_decode, orient;
    const char *labels;
} vv_image_folder_opts;
/* The rows of a field table for them; default texts of `orient`, `check`. */
#define VV_IMAGE_FOLDER_FIELDS(O, orient_default, check_default)                                   \
    {"dir", "Folder with a folder per class; one that is not there is looked for in $VIVACE_DATA", \
     VV_FIELD_STRING, offsetof(O, common.dir), "", 0, 0, NULL},                                    \
    {"size", "Side of a sample in pixels", VV_FIELD_INT, offsetof(O, size), "224", 1, 4096, NULL}, \
    {"resize", "Evaluation: shorter side before the centre is cut out; 0 = 8/7 of size",           \
     VV_FIELD_INT, offsetof(O, resize), "0", 0, 8192, NULL},                                       \
    {"channels", "3 for colour, 1 for grey", VV_FIELD_INT, offsetof(O, channels), "3", 1, 3,       \
     NULL},                                                                                        \
    {"scale", "Training: least share of the image's area that is used", VV_FIELD_FLOAT,            \
     offsetof(O, scale), "0.08", 1e-4, 1, NULL},                                                   \
    {"ratio", "Training: width to height of the part is at least this, at most its inverse",       \
     VV_FIELD_FLOAT, offsetof(O, ratio), "0.75", 0.05, 1, NULL},                                   \
    {"color_jitter", "Training: brightness, contrast, saturation times 1 +- this", VV_FIELD_FLOAT, \
     offsetof(O, color_jitter), "0", 0, 1, NULL},                                                  \
    {"hue", "Training: hue turned by up to this part of the circle", VV_FIELD_FLOAT,               \
     offsetof(O, hue), "0", 0, 0.5, NULL},                                                         \
    {"interpolation", "Filter of the resizing", VV_FIELD_CHOICE, offsetof(O, interpolation),       \
     "bilinear", 0, 0, vv_photo_filter_names},                                                     \
    {"scaled_decode", "JPEGs may be decoded at 1/2, 1/4, 1/8 where that is large enough",          \
     VV_FIELD_BOOL, offsetof(O, scaled_decode), "true", 0, 0, NULL},                               \
    {"orient", "Turn photographs as their EXIF data say", VV_FIELD_BOOL, offsetof(O, orient),      \
     orient_default, 0, 0, NULL},                                                                  \
    {"eval_fraction", "Share of the files to evaluate on, where no folder says it",                \
     VV_FIELD_FLOAT, offsetof(O, eval_fraction), "0.2", 0.001, 0.999, NULL},                       \
    {"labels", "File with a line per evaluation image: name, class (folder or number)",            \
     VV_FIELD_STRING, offsetof(O, labels), "", 0, 0, NULL},                                        \
    {"damaged", "Damaged files: refuse the set, or skip them", VV_FIELD_CHOICE,                    \
     offsetof(O, damaged), "refuse", 0, 0, vv_photo_damaged_names},                                \
    {"check", "Looked at when opened: nothing, each file's ends, all of each file",                \
     VV_FIELD_CHOICE, offsetof(O, check), check_default, 0, 0, vv_photo_check_names}
VV_API extern const char *const vv_photo_filter_names[], *const vv_photo_damaged_names[],
    *const vv_photo_check_names[];
/* The set under a name; samples u8 [size,size,channels], targets the class. Classes are the folders
   in dir/train if that is there, else in dir; evaluation is dir/val, valid or test, else the files
   chosen by a hash of their names. */
VV_API VV_MUST_USE vv_status vv_dataset_open_image_folder(VV_OWNED vv_dataset **out,
                                                          const char *name,
                                                          const vv_image_folder_opts *opts,
                                                          const char *split);
/* What samples such a set has, with `classes` and `count` where there are no files. */
VV_API VV_MUST_USE vv_status vv_image_folder_shape(const char *name,
                                                   const vv_image_folder_opts *opts,
                                                   const char *split, vv_sample_spec *spec,
                                                   int64_t *count, int64_t classes,
                                                   int64_t usual_count);
/* Thread time spent so far in a set opened so; false for other sets. */
VV_API bool vv_image_folder_times(const vv_dataset *dataset, vv_photo_times *out);

VV_END_DECLS

#endif
