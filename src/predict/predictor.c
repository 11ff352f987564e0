/* predictor.c - a checkpoint as something that can be asked about images. */
#include "predict/predictor.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/file.h"

/* ---- from a file ---- */

typedef struct source { /* where recipe and weights are */
    vv_str recipe, checkpoint;
} source;

static vv_status find(source *from, const char *path, const char *recipe)
{
    vv_str_addf(&from->recipe, "%s/recipe.yaml", path);
    VV_TRY(vv_str_status(&from->recipe));
    const bool folder = vvi_exists(vv_str_text(&from->recipe));
    if (!folder && !vvi_exists(path))
        return vv_fail(VV_ENOTFOUND, "%s: neither a run's folder (it has no recipe.yaml) nor a "
                                     "checkpoint that can be used", path);
    if (folder)
        VV_TRY(vv_checkpoint_latest(&from->checkpoint, path));
    else
        vv_str_add(&from->checkpoint, path);
    if (recipe || !folder)
        vv_str_clear(&from->recipe);
    if (recipe)
        vv_str_add(&from->recipe, recipe);
    VV_TRY(vv_str_status(&from->recipe));
    return vv_str_status(&from->checkpoint);
}

static vv_status read_recipe(vv_predictor *p, const source *from, const vv_safetensors *file,
                             const vv_predictor_opts *opts)
{
    const char *path = vv_str_text(&from->checkpoint);
    if (from->recipe.length)
        return vv_recipe_load(&p->recipe, vv_str_text(&from->recipe), opts->overrides,
                              opts->override_count);
    const char *text = vv_safetensors_text(file, "vivace.recipe");
    if (!text)
        return vv_fail(VV_ENOTFOUND, "%s does not say its recipe; name one", path);
    return vv_recipe_parse(&p->recipe, text, path, opts->overrides, opts->override_count);
}

/* For a file that does not tell: what the recipe's own data are. */
static vv_status input_of_data(vv_predictor *p)
{
    const vv_loader *loader = vv_run_eval_loader(p->run);
    const vv_dataset *set = vv_loader_dataset(loader);
    vv_saved_input *in = &p->input;
    in->spec = set->spec;
    in->samples = set->count;
    in->prepare = set->prepare;
    in->normalise = vv_loader_transform(loader)->normalise;
    if (!set->class_names)
        return VV_OK;
    VV_TRY(vv_alloc_array(&in->class_names, (size_t)set->spec.classes + 1,
                          sizeof *in->class_names));
    for (int64_t i = 0; i < set->spec.classes; i++)
        VV_TRY(vv_strdup(&in->class_names[i], set->class_names[i]));
    return VV_OK;
}

/* Pixel values as numbers, as the loader's transform computes them. */
static vv_status make_table(vv_predictor *p)
{
    const vv_sample_spec *spec = &p->input.spec;
    const int64_t channels = spec->input_shape[2];
    VV_TRY(vv_sample_spec_check_image(spec, true));
    for (int64_t c = 0; c < channels; c++) {
        const double mean = (double)spec->mean[c], std = (double)spec->std[c];
        if (p->input.normalise && !(std > 0.0))
            return vv_fail(VV_EFORMAT, "the deviation of channel %lld is not known", (long long)c);
        const float scale = (float)(1 / (255 * std)), bias = (float)(0 - mean / std);
        for (int v = 0; v < 256; v++) {
            const float scaled = (float)v * scale;
            p->table[c][v] = p->input.normalise ? scaled + bias : (float)v / 255.0f;
        }
    }
    return VV_OK;
}

static vv_status open(vv_predictor *p, const char *path, const vv_predictor_opts *opts)
{
    source from = {0};
    vv_safetensors *file = NULL;
    vv_run_opts run = VV_RUN_DEFAULTS;
    vv_status status;
    VV_GO(find(&from, path, opts->recipe));
    run.resume = false;
    run.load_path = vv_str_text(&from.checkpoint);
    VV_GO(vv_safetensors_open(&file, run.load_path));
    VV_GO(read_recipe(p, &from, file, opts));
    status = vv_saved_input_read(&p->input, file);
    const bool known = status == VV_OK;
    if (known)
        run.input = &p->input;
    else if (status != VV_ENOTFOUND)
        VV_GO(vv_fail_within(status, "checkpoint %s", run.load_path));
    VV_GO(vv_run_new(&p->run, p->recipe, &run));
    if (!known)
        VV_GO(input_of_data(p));
    VV_GO(vv_fail_within(make_table(p), "%s: predicting from images", path));
    p->trainer = vv_run_trainer(p->run);
out:
    vv_safetensors_close(file);
    vv_str_fini(&from.recipe);
    vv_str_fini(&from.checkpoint);
    return status;
}

vv_status vv_predictor_open(vv_predictor **out, const char *path, const vv_predictor_opts *opts)
{
    static const vv_predictor_opts none = {NULL, NULL, 0};
    vv_predictor *p;
    *out = NULL;
    VV_TRY(vv_alloc(&p, sizeof *p));
    const vv_status status = open(p, path, opts ? opts : &none);
    if (status == VV_OK)
        *out = p;
    else
        vv_predictor_free(p);
    return status;
}

void vv_predictor_free(vv_predictor *p)
{
    if (!p)
        return;
    vv_run_free(p->run);
    vv_recipe_free(p->recipe);
    vv_saved_input_fini(&p->input);
    vv_dealloc(p);
}

const vv_model *vv_predictor_model(const vv_predictor *p)
{
    return vv_trainer_state(p->trainer)->model;
}

const vv_saved_input *vv_predictor_input(const vv_predictor *p)
{
    return &p->input;
}

const char *vv_predictor_class_name(const vv_predictor *p, int64_t i)
{
    return p->input.class_names && i >= 0 && i < p->input.spec.classes ? p->input.class_names[i]
                                                                       : NULL;
}

/* ---- one image ---- */

static vv_image_shape sample_shape(const vv_predictor *p)
{
    const int64_t *side = p->input.spec.input_shape;
    return (vv_image_shape){side[0], side[1], side[2]};
}

void vv_predictor_region(const vv_predictor *p, int64_t height, int64_t width, double box[4])
{
    const vv_image_shape to = sample_shape(p);
    const vv_image_prepare *how = &p->input.prepare;
    box[0] = box[1] = 0.0;
    box[2] = (double)width;
    box[3] = (double)height;
    if (!how->whole)
        vv_image_centre_crop(box, height, width,
                             how->resize ? how->resize
                                         : (to.height < to.width ? to.height : to.width),
                             to.height, to.width);
}

/* Grey as Pillow's "L", or the same value three times. */
static vv_status recolour(uint8_t **out, const vv_image *image, int64_t channels)
{
    const int64_t count = image->shape.height * image->shape.width;
    const uint8_t *in = image->pixels;
    VV_TRY(vv_alloc_array(out, (size_t)count, (size_t)channels));
    for (int64_t i = 0; i < count; i++) {
        if (channels == 3)
            memset(*out + 3 * i, in[i], 3);
        else
            (*out)[i] = (uint8_t)((in[3 * i] * 19595 + in[3 * i + 1] * 38470 +
                                   in[3 * i + 2] * 7471 + 0x8000) >> 16);
    }
    return VV_OK;
}

vv_status vv_predictor_prepare(const vv_predictor *p, const vv_image *image, float *out)
{
    const vv_image_shape to = sample_shape(p);
    vv_image_shape from = image->shape;
    uint8_t *coloured = NULL, *sized = NULL;
    double box[4];
    const int filter = p->input.prepare.filter;
    vv_status status;
    if (from.height < 1 || from.width < 1 || (from.channels != 1 && from.channels != 3))
        return vv_fail(VV_ESHAPE, "an image of %lldx%lld with %lld channels cannot be predicted "
                       "from; grey and RGB can", (long long)from.height, (long long)from.width,
                       (long long)from.channels);
    if (from.channels != to.channels)
        VV_GO(recolour(&coloured, image, to.channels));
    from.channels = to.channels;
    VV_GO(vv_alloc_array(&sized, (size_t)(to.height * to.width), (size_t)to.channels));
    vv_predictor_region(p, from.height, from.width, box);
    VV_GO(vv_image_resample(&to, sized, &from, coloured ? coloured : image->pixels, box,
                            filter ? (vv_image_filter)(filter - 1) : VV_IMAGE_BILINEAR));
    for (int64_t i = 0; i < to.height * to.width; i++)
        for (int64_t c = 0; c < to.channels; c++)
            out[i * to.channels + c] = p->table[c][sized[i * to.channels + c]];
out:
    vv_dealloc(coloured);
    vv_dealloc(sized);
    return status;
}

/* ---- a batch ---- */

/* Over the last axis, in place. */
static void to_probabilities(vv_tensor *t)
{
    float *x = t->data;
    const int64_t classes = t->shape[t->ndim - 1];
    for (int64_t i = 0; i < t->count; i += classes) {
        float largest = x[i];
        double sum = 0.0;
        for (int64_t k = 1; k < classes; k++)
            largest = x[i + k] > largest ? x[i + k] : largest;
        for (int64_t k = 0; k < classes; k++)
            sum += exp((double)(x[i + k] - largest));
        for (int64_t k = 0; k < classes; k++)
            x[i + k] = (float)(exp((double)(x[i + k] - largest)) / sum);
    }
}

static vv_status check_input(const vv_predictor *p, const vv_tensor *input)
{
    const vv_image_shape to = sample_shape(p);
    char have[96];
    if (input->dtype == VV_F32 && input->ndim == 4 && input->shape[0] > 0 &&
        input->shape[1] == to.height && input->shape[2] == to.width &&
        input->shape[3] == to.channels)
        return VV_OK;
    return vv_fail(VV_ESHAPE, "vv_predict_batch: the input is %s %s; f32 [N,%lld,%lld,%lld] is "
                   "needed", vv_dtype_name(input->dtype),
                   vv_shape_text(input->ndim, input->shape, have, sizeof have),
                   (long long)to.height, (long long)to.width, (long long)to.channels);
}

vv_status vv_predict_batch(vv_predictor *p, vv_tensor *input, vv_tensor **out)
{
    const vv_sample_spec *spec = &p->input.spec;
    vv_batch batch = {.input = input, .count = input->ndim ? input->shape[0] : 0};
    int64_t shape[VV_MAX_DIMS] = {batch.count};
    vv_status status;
    *out = NULL;
    VV_TRY(check_input(p, input));
    if (spec->target_ndim + 1 > VV_MAX_DIMS)
        return vv_fail(VV_ESHAPE, "vv_predict_batch: targets have too many axes");
    memcpy(shape + 1, spec->target_shape, (size_t)spec->target_ndim * sizeof *shape);
    VV_GO(vv_tensor_new(&batch.target, spec->target_dtype, spec->target_ndim + 1, shape));
    VV_GO(vv_alloc_array(&batch.sample, (size_t)batch.count, sizeof *batch.sample));
    for (int64_t i = 0; i < batch.count; i++)
        batch.sample[i] = i;
    VV_GO(vv_trainer_predict_batch(p->trainer, &batch, out));
    if (vv_predictor_model(p)->task == VV_TASK_CLASSIFY && (*out)->ndim > 1)
        to_probabilities(*out);
out:
    vv_tensor_free(batch.target);
    vv_dealloc(batch.sample);
    return status;
}

vv_status vv_predict_images(vv_predictor *p, const vv_image *images, int64_t count,
                            vv_tensor **out)
{
    const vv_image_shape to = sample_shape(p);
    const int64_t shape[4] = {count, to.height, to.width, to.channels};
    const int64_t row = to.height * to.width * to.channels;
    vv_tensor *input;
    vv_status status = VV_OK;
    *out = NULL;
    if (count < 1)
        return vv_fail(VV_EINVAL, "vv_predict_images: no images");
    VV_TRY(vv_tensor_new(&input, VV_F32, 4, shape));
    for (int64_t i = 0; i < count && status == VV_OK; i++)
        status = vv_fail_within(vv_predictor_prepare(p, &images[i], (float *)input->data + i * row),
                                "image %lld", (long long)i);
    if (status == VV_OK)
        status = vv_predict_batch(p, input, out);
    vv_tensor_free(input);
    return status;
}

int vv_predict_top(const float *values, int64_t count, int k, int64_t *out)
{
    int n = 0;
    for (int64_t i = 0; i < count; i++) {
        int at = n;
        while (at > 0 && values[i] > values[out[at - 1]])
            at--;
        if (at >= k)
            continue;
        n = n < k ? n + 1 : k;
        memmove(out + at + 1, out + at, (size_t)(n - at - 1) * sizeof *out);
        out[at] = i;
    }
    return n;
}
