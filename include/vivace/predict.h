/* predict.h - a trained model of images at work: a checkpoint in, what it says about images out.
 * The checkpoint knows its model, the size and normalisation of its images and the classes' names;
 * the data it was trained on are not needed. */
#ifndef VIVACE_PREDICT_H
#define VIVACE_PREDICT_H

#include <vivace/image_files.h>
#include <vivace/recipe.h>

VV_BEGIN_DECLS

typedef struct vv_predictor vv_predictor;

typedef struct vv_predictor_opts {
    const char *recipe;           /* in place of the checkpoint's own; NULL */
    const char *const *overrides; /* key=value, for the recipe */
    int override_count;
} vv_predictor_opts;

/* `path`: a run's folder (its newest checkpoint) or a checkpoint; opts NULL = none. Checkpoints
   that do not tell their data need the recipe's data set. VV_ETYPE unless the model takes 8-bit
   images. */
VV_API VV_MUST_USE vv_status vv_predictor_open(VV_OWNED vv_predictor **out, const char *path,
                                               const vv_predictor_opts *opts);
VV_API void vv_predictor_free(VV_TAKES vv_predictor *predictor);
VV_API VV_BORROWED const vv_model *vv_predictor_model(const vv_predictor *predictor);
/* Size, normalisation, classes, how images are made as large as the model's. */
VV_API VV_BORROWED const vv_saved_input *vv_predictor_input(const vv_predictor *predictor);
/* "cat"; NULL if the checkpoint has no names, or not so many. */
VV_API VV_BORROWED const char *vv_predictor_class_name(const vv_predictor *predictor, int64_t i);

/* ---- images in memory ---- */
/* One image of any size as the model takes it: out f32 [H,W,C]. Grey and RGB become what the model
   needs. Several threads may do so at once. */
VV_API VV_MUST_USE vv_status vv_predictor_prepare(const vv_predictor *predictor,
                                                  const vv_image *image, float *out);
/* What the model says about prepared images [N,H,W,C], f32 [N,...]: of classes probabilities (over
   the last axis), else its output. One thread at a time. */
VV_API VV_MUST_USE vv_status vv_predict_batch(vv_predictor *predictor, vv_tensor *input,
                                              VV_OWNED vv_tensor **out);
/* Both: count >= 1 decoded images, in one batch. */
VV_API VV_MUST_USE vv_status vv_predict_images(vv_predictor *predictor, const vv_image *images,
                                               int64_t count, VV_OWNED vv_tensor **out);
/* The k largest of `count` numbers, in falling order, the first of equals first; returns how many
   there are. */
VV_API int vv_predict_top(const float *values, int64_t count, int k, int64_t *out);

/* The region of the image that the sample shows (x0, y0, x1, y1 in pixels), for masks and boxes
   that must go back to it. */
VV_API void vv_predictor_region(const vv_predictor *predictor, int64_t height, int64_t width,
                                double box[4]);

/* ---- streams of files ---- */
typedef struct vv_prediction {
    const char *path;
    const char *error;   /* the file could not be read: why; NULL = it could */
    const float *output; /* of this image: `count` numbers, a row of vv_predict_batch's */
    int64_t count;
    int ndim;
    int64_t shape[VV_MAX_DIMS];
    int64_t height, width; /* of the image as it was predicted from: its file, decoded */
} vv_prediction;
typedef struct vv_predict_files_opts {
    int64_t batch; /* images at once; 0 = 32 */
    int threads;   /* that decode; 0 = 2 */
} vv_predict_files_opts;
/* The next path into `path` (empty at the call). *end = there is none any more. A call may give
   nothing, if it waits for others (a pipe): it must come back within about a second then. Called
   from a thread of its own. */
typedef vv_status (*vv_predict_next_fn)(void *ctx, vv_str *path, bool *end);
/* Hears of each path, in their order; called in the caller's thread. */
typedef vv_status (*vv_predict_told_fn)(void *ctx, const vv_prediction *prediction);
/* Files are read and decoded on threads beside the model. A batch is run as soon as it is full, or
   no further path is known yet. A file that is no image is told and passed over. */
VV_API VV_MUST_USE vv_status vv_predict_files(vv_predictor *predictor,
                                              const vv_predict_files_opts *opts,
                                              vv_predict_next_fn next, void *next_ctx,
                                              vv_predict_told_fn told, void *told_ctx);

VV_END_DECLS

#endif
