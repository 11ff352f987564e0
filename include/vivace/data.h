/* data.h - a sample is a pure function of (seed, epoch, index).
 *
 * A data set gives sample `index` on demand; a loader puts samples into batches in an order that is
 * a function of (seed, epoch) only, augments each as a function of (seed, epoch, index), and
 * prefetches on threads. Any position can be reached at once. */
#ifndef VIVACE_DATA_H
#define VIVACE_DATA_H

#include <vivace/describe.h>
#include <vivace/image.h>
#include <vivace/tensor.h>

VV_BEGIN_DECLS

typedef struct vv_dataset vv_dataset;
typedef struct vv_loader vv_loader;

/* What one sample is. Images: input VV_U8 [H,W,C]; class targets: VV_I32 []; masks: VV_I32 [H,W], a
   class per pixel, -1 = ignored; boxes: VV_F32 [M,6] of x1, y1, x2, y2 in parts of the image,
   class (from 1; 0 is the background; -1 = no box in this row), 1 for a crowd. */
typedef struct vv_sample_spec {
    vv_dtype input_dtype, target_dtype;
    int input_ndim, target_ndim;
    int64_t input_shape[VV_MAX_DIMS], target_shape[VV_MAX_DIMS];
    int64_t classes;       /* 0 = not a classification set */
    float mean[4], std[4]; /* per channel, of pixels / 255; std 0 = unknown */
    int64_t tokens;        /* in one sample of text; 0 = the set has no tokens */
    int64_t vocabulary;    /* token ids of a text are below it; 0 = no tokens, or not known */
} vv_sample_spec;
/* VV_ETYPE with a sentence unless the samples are 8-bit images [H,W,C]; with `grey_or_rgb` they
   must have 1 or 3 channels. */
VV_API VV_MUST_USE vv_status vv_sample_spec_check_image(const vv_sample_spec *spec,
                                                        bool grey_or_rgb);
/* True for masks and boxes: targets that tell where something is, so that what moves an image's
   pixels must move them too. */
VV_API bool vv_sample_spec_is_placed(const vv_sample_spec *spec);
/* VV_EINVAL with a sentence for those. */
VV_API VV_MUST_USE vv_status vv_sample_spec_check_movable(const vv_sample_spec *spec);

/* ---- ext: what a data set is ---- */
/* One change of one sample. */
typedef struct vv_augment_call {
    int64_t epoch, index; /* of the sample */
    vv_rng rng;           /* a function of (seed, name, epoch, index) only */
    vv_image_shape shape; /* all zero if the sample is no image */
} vv_augment_call;
typedef struct vv_dataset_class {
    /* Copies sample `index` out (input or target NULL = not wanted). May be called from several
       threads at once. */
    vv_status (*read)(vv_dataset *dataset, int64_t index, void *input, void *target);
    void (*fini)(vv_dataset *dataset);
    /* Changes a sample in place after it was read (target NULL = not wanted): masking, random
       choices. What it does may depend on `call` and the sample only; loaders call it, for images
       before their own changes, from several threads at once. Evaluation sees epoch 0's. May be
       NULL. */
    vv_status (*vary)(vv_dataset *dataset, vv_augment_call *call, void *input, void *target);
    /* Makes a sample as this epoch has it (target NULL = not wanted), for sets whose reading and
       variation are one: photographs that are decoded where they are cropped, an image with its
       mask or boxes. It may depend on `call` and the files only. Loaders call it in place of
       `read` and `vary`, from several threads at once. `read` gives the sample as evaluation has
       it. May be NULL. */
    vv_status (*draw)(vv_dataset *dataset, vv_augment_call *call, void *input, void *target);
    /* The order of an epoch for loaders that shuffle: out[count] = 0 .. count - 1 in an order that
       depends on (seed, epoch) and the files only. For sets that cannot reach every sample at the
       same cost; see vv_order_windows. NULL: any order, each as likely. */
    vv_status (*order)(vv_dataset *dataset, uint64_t seed, int64_t epoch, int64_t count,
                       int64_t *out);
    /* These samples will be asked for soon, in this order: time to fetch what they lie in. Loaders
       tell each sample once, `lookahead` samples ahead; never two at once for the same loader. It
       returns at once, and what it cannot do is told when the sample is read. May be NULL. */
    void (*soon)(vv_dataset *dataset, const int64_t *indices, int64_t count);
} vv_dataset_class;
/* How evaluation makes a sample of an image of any size: told by sets that read such images, and
   kept in checkpoints, so that other images are made alike. */
typedef struct vv_image_prepare {
    int64_t resize; /* shorter side before the centre is cut out; 0 = the sample's shorter side */
    int filter;     /* 1 + a vv_image_filter; 0 = bilinear */
    bool whole;     /* all of the image is resized to the sample's size; nothing is cut */
    bool orient;    /* turned as EXIF says */
} vv_image_prepare;
struct vv_dataset {
    const vv_dataset_class *type;
    const char *name; /* static */
    vv_sample_spec spec;
    int64_t count;
    const char *const *class_names; /* spec.classes names, or NULL */
    const char *tokenizer; /* of its tokens: what vv_tokenizer_open takes, or a fingerprint; NULL =
                              not known */
    vv_image_prepare prepare;
    /* If the whole set is in memory: row-major inputs and targets; else NULL. */
    const void *inputs;
    const void *targets;
    int64_t lookahead; /* samples that `soon` wants to be told ahead */
    const char *notice; /* for the user, of what was found when it was opened; NULL = nothing */
    void *self;
};
/* Options every data set's struct starts with. */
typedef struct vv_dataset_common {
    const char *dir; /* folder; "" = $VIVACE_DATA/<name>, then the system's place */
} vv_dataset_common;
typedef struct vv_fetch_file {       /* one file of the official distribution */
    const char *url, *name, *sha256; /* name: under the data set's folder; sha256 "" = unchecked */
} vv_fetch_file;
/* Default augmentation of a set's training split (applied by the loader). */
typedef struct vv_image_transform {
    int64_t crop_pad;  /* random crop to the same size after padding each side by this many zeros */
    int64_t translate; /* random shift of up to this many pixels; with crop_pad: the larger */
    bool flip;         /* mirrored left-right with probability 1/2 */
    bool normalise;    /* (pixel / 255 - mean) / std; else pixel / 255 */
} vv_image_transform;
typedef struct vv_dataset_desc {
    vv_desc desc; /* options start with vv_dataset_common */
    /* split: "train" or "eval". */
    vv_status (*open)(VV_OWNED vv_dataset **out, const void *opts, const char *split);
    vv_image_transform train_transform, eval_transform;
    const vv_fetch_file *files; /* ended by url NULL; NULL = nothing to fetch */
    /* After a fetch into `dir`: unpacks or converts. May be NULL. */
    vv_status (*prepare)(const char *dir);
    /* What samples and how many `open` would give, as far as it can be told without the files
       (numbers close to the usual for the rest): for runs on random data of the same shape. May be
       NULL if the set "synthetic" knows this one by name. */
    vv_status (*shape)(const void *opts, const char *split, vv_sample_spec *spec, int64_t *count);
} vv_dataset_desc;

/* opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_dataset_open(VV_OWNED vv_dataset **out, const vv_dataset_desc *desc,
                                             const void *opts, const char *split);
VV_API VV_MUST_USE vv_status vv_dataset_read(vv_dataset *dataset, int64_t index, void *input,
                                             void *target);
VV_API void vv_dataset_free(VV_TAKES vv_dataset *dataset);
/* In-memory set over copies of the caller's arrays (own data in C programs): inputs
   [count, ...]. */
VV_API VV_MUST_USE vv_status vv_dataset_from_arrays(VV_OWNED vv_dataset **out,
                                                    const vv_sample_spec *spec, int64_t count,
                                                    const void *inputs, const void *targets);
/* Folder a data set's files are looked for in, in order; *out is the first that exists,
   VV_ENOTFOUND with a sentence that says how to get the data if none does. */
VV_API VV_MUST_USE vv_status vv_dataset_find_dir(VV_OWNED char **out, const char *dir_option,
                                                 const char *name, const char *system_dir);
/* Downloads the set's files into `dir` (NULL = $VIVACE_DATA/<name>), verifying each. base_url (NULL
   = official) replaces everything before the last '/' of each url. */
VV_API VV_MUST_USE vv_status vv_dataset_fetch(
    const vv_dataset_desc *desc, const char *dir, const char *base_url,
    void (*progress)(void *ctx, const char *file, int64_t done, int64_t total), void *ctx);

/* ---- batches ---- */
typedef struct vv_batch {
    vv_tensor *input;  /* images: f32 [N,H,W,C] after the transform */
    vv_tensor *target; /* [N] i32, or soft [N,K] f32 */
    /* Set by methods that mix samples: row i also belongs to target mix_target[i] (same form as
       target) with weight mix_weight[i] in [0,1]; NULL = unmixed. */
    vv_tensor *mix_target;
    vv_tensor *mix_weight;       /* f32 [N]: weight of mix_target; target has the rest */
    int64_t count;               /* N */
    int64_t epoch, index;        /* which batch of which epoch */
    int64_t *sample;             /* [N] index of each row in the data set */
    struct vvi_batch_pool *pool; /* where a loader's batch returns to; NULL = made by hand */
} vv_batch;
/* Frees tensors, `sample` and the batch (a batch made by hand: all from vv_alloc and
   vv_tensor_new). A loader's tensors go back to its pool; it writes to them again once nobody else
   holds them. */
VV_API void vv_batch_free(VV_TAKES vv_batch *batch);
/* For methods that change the number of rows: `sample` (from vv_alloc, [count]) takes the place of
   the batch's. */
VV_API void vv_batch_set_samples(vv_batch *batch, VV_TAKES int64_t *sample, int64_t count);
/* Rows [first, first + count) as a batch that shares the tensors. */
VV_API VV_MUST_USE vv_status vv_batch_rows(VV_OWNED vv_batch **out, vv_batch *batch, int64_t first,
                                           int64_t count);

typedef struct vv_loader_opts {
    int64_t batch_size;
    bool shuffle, drop_last;
    uint64_t seed;
    int workers;   /* prefetch threads; 0 = in the caller's thread */
    int prefetch;  /* batches ahead */
    int64_t limit; /* use only this many samples of the set; 0 = all */
    vv_image_transform transform;
    int rank, ranks; /* this process's share of each batch; 0, 1 */
} vv_loader_opts;
/* batch_size 128, no shuffle, keep the last, seed 0, 1 worker, prefetch 2, all, no transform, rank
 * 0 of 1. */
#define VV_LOADER_DEFAULTS                                        \
    {                                                             \
        128, false, false, 0, 1, 2, 0, {0, 0, false, false}, 0, 1 \
    }
/* The data set must outlive the loader. A loader is used from one thread at a time. */
VV_API VV_MUST_USE vv_status vv_loader_new(VV_OWNED vv_loader **out, vv_dataset *dataset,
                                           const vv_loader_opts *opts);
VV_API void vv_loader_free(VV_TAKES vv_loader *loader);
/* Batches per epoch. */
VV_API int64_t vv_loader_batch_count(const vv_loader *loader);
/* Rows of a full batch, and samples one epoch gives (what drop_last drops is not counted). */
VV_API int64_t vv_loader_batch_size(const vv_loader *loader);
VV_API int64_t vv_loader_sample_count(const vv_loader *loader);
VV_API bool vv_loader_drops_last(const vv_loader *loader); /* an incomplete last batch */

/* Batches whose size changes in the course of a run: those that begin at position `from` or later,
   in samples since the start of epoch 0 (an epoch counts with all samples in use, also those that
   drop_last drops), have `size` rows. Where a batch begins and ends depends on the position alone,
   and each epoch still gives each sample once. */
typedef struct vv_loader_stage {
    int64_t from, size;
} vv_loader_stage;
/* The first from 0, in order; count 0 = the loader's batch_size throughout, as before the first
   call. The position is forgotten: seek next. With stages, batch_count and sample_count are those
   of epoch 0; batch_size stays the option. */
VV_API VV_MUST_USE vv_status vv_loader_set_stages(vv_loader *loader, const vv_loader_stage *stages,
                                                  int count);
/* Stage number i; false past the end. Without stages there is one. */
VV_API bool vv_loader_stage_at(const vv_loader *loader, int i, vv_loader_stage *out);
VV_API int64_t vv_loader_epoch_batches(const vv_loader *loader, int64_t epoch);
VV_API int64_t vv_loader_epoch_samples(const vv_loader *loader, int64_t epoch);

/* Positions at a batch (0..batch_count; batch_count = the end) of an epoch, at a cost that does not
   depend on the position. */
VV_API VV_MUST_USE vv_status vv_loader_seek(vv_loader *loader, int64_t epoch, int64_t batch);
/* *out = next batch, NULL at the end of the epoch; the call after that gives the next epoch's
   first. After a failure the position is unchanged: the same batch may be tried again. */
VV_API VV_MUST_USE vv_status vv_loader_next(vv_loader *loader, VV_OWNED vv_batch **out);
/* Order and augmentation are functions of the seed. Setting another forgets the position: seek
   next. */
VV_API uint64_t vv_loader_seed(const vv_loader *loader);
VV_API VV_MUST_USE vv_status vv_loader_set_seed(vv_loader *loader, uint64_t seed);
/* Seconds the caller has waited in vv_loader_next so far. */
VV_API double vv_loader_wait_seconds(const vv_loader *loader);
VV_API VV_BORROWED vv_dataset *vv_loader_dataset(const vv_loader *loader);
VV_API VV_BORROWED const vv_image_transform *vv_loader_transform(const vv_loader *loader);

/* ---- ext: changes of single images inside a loader ---- */
/* Changes one u8 image [H,W,C] in place, before the loader's own transform. Several threads call it
   at once with the same ctx. scratch has room for one image and is the caller's alone. */
typedef vv_status (*vv_augment_fn)(const void *ctx, vv_augment_call *call, uint8_t *image,
                                   uint8_t *scratch);
/* Adds a change under a name, behind those that are there; a change of that name is replaced; fn
   NULL takes it out. From the next batch on. When the call returns nobody uses the old ctx any
   more; the new one must live as long. VV_ETYPE if the set holds no u8 images. */
VV_API VV_MUST_USE vv_status vv_loader_set_augment(vv_loader *loader, const char *name,
                                                   vv_augment_fn fn, const void *ctx);
/* On: each image is mirrored or not by chance in epoch 0, and the other way round in every odd
   epoch, instead of by chance each time. Off (default): as the transform's `flip` says. */
VV_API VV_MUST_USE vv_status vv_loader_set_alternating_flip(vv_loader *loader, bool on);

/* One sample through the transform, as training would see it in that epoch: f32 [H,W,C] into out.
 */
VV_API VV_MUST_USE vv_status vv_loader_sample(vv_loader *loader, int64_t epoch, int64_t index,
                                              float *out);

VV_END_DECLS

#endif
