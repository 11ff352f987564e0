/* image_folder_set.c - a data set over a folder of photographs; files are read where a sample is
 * asked for, by the loader's threads. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "base/file.h"
#include "data/photos/photo_list.h"

const char *const vv_photo_filter_names[] = {"nearest", "bilinear", "bicubic", "box", NULL};
const char *const vv_photo_damaged_names[] = {"refuse", "skip", NULL};
const char *const vv_photo_check_names[] = {"none", "ends", "all", NULL};

typedef struct folder_set {
    vvi_photo_list list;
    vv_photo_opts opts;
    vv_photo_damaged damaged;
    vv_str notice;
    pthread_mutex_t lock;
    vv_photo_times times;
} folder_set;

/* ---- samples ---- */

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static vv_status load_file(folder_set *set, int64_t index, vv_rng *rng, uint8_t *out)
{
    char *data = NULL;
    size_t bytes = 0;
    vv_str path = {0};
    vv_photo_times times = {0};
    vv_status status;
    const double start = thread_seconds();
    VV_GO(vvi_photo_path(&set->list, index, &path));
    VV_GO(vvi_file_read_all(&data, &bytes, vv_str_text(&path)));
    times.read = thread_seconds() - start;
    VV_GO(vv_photo_load(out, vv_str_text(&path), data, bytes, &set->opts, rng, &times));
    pthread_mutex_lock(&set->lock);
    set->times.read += times.read;
    set->times.decode += times.decode;
    set->times.resample += times.resample;
    set->times.colour += times.colour;
    pthread_mutex_unlock(&set->lock);
out:
    vv_str_fini(&path);
    vv_dealloc(data);
    return status;
}

static bool is_damage(vv_status status)
{
    return status == VV_EFORMAT || status == VV_ENOTFOUND || status == VV_EIO;
}

/* A sample of the set; where damage shows only now and is to be skipped, the next sound file stands
   in for it, the same each time. */
static vv_status load(folder_set *set, int64_t index, vv_rng *rng, void *input, void *target)
{
    enum { MOST_TRIES = 64 };
    vv_status status = VV_OK;
    if (input) {
        const vv_rng start = rng ? *rng : (vv_rng){{0}, {0}, {0}, 0};
        status = load_file(set, index, rng, input);
        for (int i = 1; set->damaged == VV_DAMAGED_SKIP && is_damage(status) && i < MOST_TRIES;
             i++) {
            index = (index + 1) % set->list.count;
            if (rng)
                *rng = start;
            status = load_file(set, index, rng, input);
        }
    }
    if (target)
        memcpy(target, &set->list.photos[index].label, sizeof(int32_t));
    return status;
}

static vv_status folder_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    return load(dataset->self, index, NULL, input, target);
}

static vv_status folder_draw(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    return load(dataset->self, call->index, &call->rng, input, target);
}

static void set_free(folder_set *set)
{
    if (!set)
        return;
    vvi_photo_list_fini(&set->list);
    vv_str_fini(&set->notice);
    pthread_mutex_destroy(&set->lock);
    vv_dealloc(set);
}

static void folder_fini(vv_dataset *dataset)
{
    set_free(dataset->self);
}

static const vv_dataset_class train_class = {
    .read = folder_read, .fini = folder_fini, .draw = folder_draw};
static const vv_dataset_class eval_class = {.read = folder_read, .fini = folder_fini};

bool vv_image_folder_times(const vv_dataset *dataset, vv_photo_times *out)
{
    if (dataset->type != &train_class && dataset->type != &eval_class)
        return false;
    folder_set *set = dataset->self;
    pthread_mutex_lock(&set->lock);
    *out = set->times;
    pthread_mutex_unlock(&set->lock);
    return true;
}

/* ---- opening ---- */

static vv_photo_opts photo_opts(const vv_image_folder_opts *o)
{
    return (vv_photo_opts){
        .size = o->size,
        .resize = o->resize,
        .channels = o->channels,
        .scale = {o->scale, 1.0},
        .ratio = {o->ratio, 1.0 / o->ratio},
        .jitter = {o->color_jitter, o->color_jitter, o->color_jitter, o->hue},
        .filter = (vv_image_filter)o->interpolation,
        .scaled = o->scaled_decode,
        .orient = o->orient,
    };
}

/* Means and deviations of ImageNet's training photographs, usual for all photographs. */
static void make_spec(vv_sample_spec *spec, const vv_image_folder_opts *o, int64_t classes)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    *spec = (vv_sample_spec){.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3};
    spec->input_shape[0] = spec->input_shape[1] = o->size;
    spec->input_shape[2] = o->channels;
    spec->classes = classes;
    for (int64_t c = 0; c < 3; c++) {
        spec->mean[c] = o->channels == 3 ? mean[c] : 0.449f;
        spec->std[c] = o->channels == 3 ? std[c] : 0.226f;
    }
}

/* The setting `dir` as it is, or below $VIVACE_DATA, or the usual place of the set. */
static vv_status find_dir(char **out, const char *name, const char *dir)
{
    vv_status status = vv_dataset_find_dir(out, dir, name, NULL);
    if (status == VV_ENOTFOUND && dir && dir[0] && dir[0] != '/' &&
        vv_dataset_find_dir(out, "", dir, NULL) == VV_OK)
        return VV_OK;
    if (status == VV_ENOTFOUND && dir && dir[0])
        status = vv_fail(VV_ENOTFOUND, "data set %s: folder %s does not exist, nor is it in "
                                       "$VIVACE_DATA; correct its setting dir", name, dir);
    else if (status == VV_ENOTFOUND)
        status = vv_fail(VV_ENOTFOUND, "data set %s: say with dir= in which folder the photographs "
                                       "are, one folder for each class", name);
    return status;
}

static vv_status check_opts(const char *name, const vv_image_folder_opts *o)
{
    if (o->channels != 1 && o->channels != 3)
        return vv_fail(VV_EINVAL, "data set %s: channels is 1 or 3, not %lld", name,
                       (long long)o->channels);
    if (o->resize != 0 && o->resize < o->size)
        return vv_fail(VV_EINVAL, "data set %s: resize %lld is less than size %lld; make it larger "
                                  "or 0", name, (long long)o->resize, (long long)o->size);
    return VV_OK;
}

static vv_status fill(folder_set *set, const char *name, const vv_image_folder_opts *o, bool train)
{
    char *dir = NULL;
    vv_status status;
    VV_GO(find_dir(&dir, name, o->common.dir));
    VV_GO(vvi_photo_list_fill(&set->list, name, dir, train, o->eval_fraction, o->labels));
    VV_GO(vvi_photo_list_check(&set->list, name, (vv_photo_check)o->check,
                               (vv_photo_damaged)o->damaged, &set->notice));
    if (set->list.count == 0)
        status = vv_fail(VV_EFORMAT, "data set %s: no JPEG or PNG images to %s in '%s'", name,
                         train ? "train on" : "evaluate on", set->list.root);
out:
    vv_dealloc(dir);
    return status;
}

vv_status vv_dataset_open_image_folder(vv_dataset **out, const char *name,
                                       const vv_image_folder_opts *opts, const char *split)
{
    vv_status status;
    bool train;
    folder_set *set = NULL;
    vv_dataset *dataset = NULL;
    *out = NULL;
    VV_TRY(vv_dataset_split(&train, name, split));
    VV_TRY(check_opts(name, opts));
    VV_TRY(vv_alloc(&set, sizeof *set));
    pthread_mutex_init(&set->lock, NULL);
    set->opts = photo_opts(opts);
    set->damaged = (vv_photo_damaged)opts->damaged;
    VV_GO(fill(set, name, opts, train));
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    dataset->type = train ? &train_class : &eval_class;
    dataset->name = name;
    dataset->count = set->list.count;
    dataset->class_names = set->list.shown;
    dataset->notice = vv_str_text(&set->notice)[0] ? vv_str_text(&set->notice) : NULL;
    dataset->prepare = (vv_image_prepare){.resize = vv_photo_resize(&set->opts),
                                          .filter = 1 + opts->interpolation,
                                          .orient = opts->orient};
    make_spec(&dataset->spec, opts, set->list.class_count);
    dataset->self = set;
    *out = dataset;
    return VV_OK;
out:
    set_free(set);
    return status;
}

vv_status vv_image_folder_shape(const char *name, const vv_image_folder_opts *opts,
                                const char *split, vv_sample_spec *spec, int64_t *count,
                                int64_t classes, int64_t usual_count)
{
    vv_dataset *dataset;
    vv_image_folder_opts quick = *opts;
    quick.check = VV_CHECK_NONE;
    const vv_status status = vv_dataset_open_image_folder(&dataset, name, &quick, split);
    if (status == VV_OK) {
        *spec = dataset->spec;
        *count = dataset->count;
        vv_dataset_free(dataset);
    } else if (status == VV_ENOTFOUND) {
        make_spec(spec, opts, classes);
        *count = usual_count;
    }
    return status == VV_ENOTFOUND ? VV_OK : status;
}
