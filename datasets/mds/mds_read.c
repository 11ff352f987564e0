/* mds_read.c - one sample of the data set mds: what the columns' bytes mean.
 *
 * The input column decides: raw pixels (pil, uint8 arrays with three axes) and JPEG or PNG files
 * are images, floating numbers stay numbers, whole numbers and bytes are tokens. */
#include "mds_sample.h"

#include <string.h>

#include <vivace/memory.h>

static vv_status values_of(const mds_set *set, const vv_mds_sample *sample, int column,
                           vv_mds_values *out)
{
    const void *data;
    size_t bytes;
    VV_TRY(vv_mds_column_of(set->mds, sample, column, &data, &bytes));
    return vv_mds_values_of(out, mds_encoding(set, column), data, bytes, set->dtype);
}

/* ---- tokens and numbers ---- */

static vv_status read_tokens(const mds_set *set, const vv_sample_spec *spec,
                             const vv_mds_sample *sample, int32_t *input, int32_t *target)
{
    vv_mds_values values;
    const int64_t seq = spec->tokens, most = spec->vocabulary - 1;
    VV_TRY(values_of(set, sample, set->input, &values));
    const int64_t given = values.count < seq ? values.count : seq;
    if (input)
        VV_TRY(vv_mds_values_i32(&values, 0, given, 0, most, input));
    for (int64_t t = given; input && t < seq; t++)
        input[t] = set->pad_id;
    if (!target || set->target >= 0)
        return VV_OK;
    const int64_t from = set->mask.share > 0.0 ? 0 : 1;
    const int64_t told = values.count - from < seq ? values.count - from : seq;
    if (told > 0)
        VV_TRY(vv_mds_values_i32(&values, from, told, 0, most, target));
    for (int64_t t = told > 0 ? told : 0; t < seq; t++)
        target[t] = NO_LOSS;
    return VV_OK;
}

vv_status mds_mask_sample(const mds_set *set, const vv_sample_spec *spec, vv_augment_call *call,
                          int32_t *input, int32_t *target)
{
    vv_mds_values values;
    vv_mds_sample sample;
    VV_TRY(vv_mds_hold(set->mds, call->index, &sample));
    const vv_status status = values_of(set, &sample, set->input, &values);
    vv_mds_release(set->mds, &sample);
    if (status == VV_OK)
        vv_mask_tokens(&set->mask, spec->vocabulary, &call->rng, input, target,
                       values.count < spec->tokens ? values.count : spec->tokens);
    return status;
}

static vv_status wrong_size(const vv_sample_spec *spec, int ndim, const int64_t *shape)
{
    char have[96], want[96];
    return vv_fail(VV_EFORMAT, "its shape is %s, the first sample's %s%s",
                   vv_shape_text(ndim, shape, have, sizeof have),
                   vv_shape_text(spec->input_ndim, spec->input_shape, want, sizeof want),
                   spec->input_dtype == VV_U8 ? "; give a size= to cut all to" : "");
}

static vv_status read_array(const mds_set *set, const vv_sample_spec *spec,
                            const vv_mds_sample *sample, void *input)
{
    vv_mds_values values;
    VV_TRY(values_of(set, sample, set->input, &values));
    if (values.ndim != spec->input_ndim ||
        memcmp(values.shape, spec->input_shape, (size_t)values.ndim * sizeof *values.shape) != 0)
        return wrong_size(spec, values.ndim, values.shape);
    if (set->kind == MDS_NUMBERS)
        return vv_mds_values_f32(&values, 0, values.count, input);
    memcpy(input, values.data, (size_t)values.count);
    return VV_OK;
}

/* ---- images ---- */

/* Raw pixels with `channels` of them: grey repeated, colour weighed as Pillow does (ITU-R 601),
   alpha dropped. */
static void convert(uint8_t *out, int64_t channels, const uint8_t *in, int64_t had, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++, in += had, out += channels) {
        if (channels == 3)
            for (int c = 0; c < 3; c++)
                out[c] = in[had == 1 ? 0 : c];
        else if (had == 1)
            out[0] = in[0];
        else
            out[0] = (uint8_t)((in[0] * 19595 + in[1] * 38470 + in[2] * 7471 + 32768) >> 16);
    }
}

static vv_status crop_raw(const mds_set *set, const uint8_t *pixels, const int64_t shape[3],
                          vv_rng *rng, uint8_t *input)
{
    const vv_image_shape from = {shape[0], shape[1], set->photo.channels};
    uint8_t *copy = NULL;
    if (shape[2] != set->photo.channels) {
        size_t bytes;
        VV_TRY(vv_size_mul(&bytes, (size_t)(shape[0] * shape[1]), (size_t)from.channels));
        VV_TRY(vv_alloc_aligned(&copy, bytes));
        convert(copy, from.channels, pixels, shape[2], shape[0] * shape[1]);
    }
    const vv_status status = vv_photo_cut(input, &from, copy ? copy : pixels, &set->photo, rng);
    vv_dealloc(copy);
    return status;
}

static vv_status raw_pixels(const mds_set *set, const vv_mds_sample *sample,
                            const uint8_t **pixels, int64_t shape[3])
{
    const void *data;
    size_t bytes;
    VV_TRY(vv_mds_column_of(set->mds, sample, set->input, &data, &bytes));
    if (set->kind == MDS_RAW)
        return vv_mds_image(pixels, shape, mds_encoding(set, set->input), data, bytes);
    vv_mds_values values;
    VV_TRY(values_of(set, sample, set->input, &values));
    if (values.ndim != 3 || strcmp(values.dtype, "uint8") != 0)
        return vv_fail(VV_EFORMAT, "expected an image, three axes of uint8");
    *pixels = values.data;
    memcpy(shape, values.shape, 3 * sizeof *shape);
    return shape[2] == 1 || shape[2] == 3 || shape[2] == 4
               ? VV_OK
               : vv_fail(VV_ETYPE, "an image of %lld channels", (long long)shape[2]);
}

static vv_status read_file(const mds_set *set, const vv_sample_spec *spec,
                           const vv_mds_sample *sample, vv_rng *rng, uint8_t *input)
{
    const void *data;
    size_t bytes;
    vv_image image = {0};
    VV_TRY(vv_mds_column_of(set->mds, sample, set->input, &data, &bytes));
    if (set->photo.size > 0)
        return vv_photo_load(input, "image", data, bytes, &set->photo, rng, NULL);
    const vv_image_decode_opts opts = {.channels = (int)set->photo.channels,
                                       .orient = set->photo.orient};
    VV_TRY(vv_image_decode(&image, "image", data, bytes, &opts));
    const int64_t shape[3] = {image.shape.height, image.shape.width, image.shape.channels};
    vv_status status = VV_OK;
    if (memcmp(shape, spec->input_shape, sizeof shape) != 0)
        status = wrong_size(spec, 3, shape);
    else
        memcpy(input, image.pixels, (size_t)(shape[0] * shape[1] * shape[2]));
    vv_image_fini(&image);
    return status;
}

static vv_status read_raw(const mds_set *set, const vv_sample_spec *spec,
                          const vv_mds_sample *sample, vv_rng *rng, uint8_t *input)
{
    const uint8_t *pixels;
    int64_t shape[3];
    VV_TRY(raw_pixels(set, sample, &pixels, shape));
    if (set->photo.size > 0)
        return crop_raw(set, pixels, shape, rng, input);
    if (memcmp(shape, spec->input_shape, sizeof shape) != 0)
        return wrong_size(spec, 3, shape);
    memcpy(input, pixels, (size_t)(shape[0] * shape[1] * shape[2]));
    return VV_OK;
}

/* ---- targets ---- */

static vv_status read_class(const mds_set *set, const vv_sample_spec *spec,
                            const vv_mds_sample *sample, int32_t *target)
{
    const void *data;
    size_t bytes;
    int32_t class;
    VV_TRY(vv_mds_column_of(set->mds, sample, set->target, &data, &bytes));
    VV_TRY(vv_mds_label(&class, set->mds, mds_encoding(set, set->target), data, bytes,
                        set->dtype));
    if ((class < 0 || class >= spec->classes) && class != NO_LOSS)
        return vv_fail(VV_EFORMAT, "class %d, expected 0 to %lld (or -100, ignored)", (int)class,
                       (long long)spec->classes - 1);
    memcpy(target, &class, sizeof class);
    return VV_OK;
}

static vv_status read_target(const mds_set *set, const vv_sample_spec *spec,
                             const vv_mds_sample *sample, void *target)
{
    vv_mds_values values;
    if (spec->target_dtype != VV_F32)
        return read_class(set, spec, sample, target);
    VV_TRY(values_of(set, sample, set->target, &values));
    const int64_t count = spec->target_ndim ? spec->target_shape[0] : 1;
    if (values.count != count)
        return vv_fail(VV_EFORMAT, "%lld numbers, the first sample has %lld",
                       (long long)values.count, (long long)count);
    return vv_mds_values_f32(&values, 0, count, target);
}

/* ---- both ---- */

static vv_status read_input(const mds_set *set, const vv_sample_spec *spec,
                            const vv_mds_sample *sample, vv_rng *rng, void *input)
{
    switch (set->kind) {
    case MDS_FILE:
        return read_file(set, spec, sample, rng, input);
    case MDS_RAW:
    case MDS_PIXELS:
        return set->kind == MDS_PIXELS && set->photo.size == 0
                   ? read_array(set, spec, sample, input)
                   : read_raw(set, spec, sample, rng, input);
    default:
        return read_array(set, spec, sample, input);
    }
}

vv_status mds_read_sample(const mds_set *set, const vv_sample_spec *spec, int64_t index,
                          vv_rng *rng, void *input, void *target)
{
    vv_mds_sample sample;
    vv_status status = vv_mds_hold(set->mds, index, &sample);
    VV_TRY(vv_fail_within(status, "data set mds: sample %lld", (long long)index));
    if (set->kind == MDS_TOKENS)
        status = read_tokens(set, spec, &sample, input, target);
    else if (input)
        status = read_input(set, spec, &sample, rng, input);
    int column = set->input;
    if (status == VV_OK && target && set->target >= 0) {
        column = set->target;
        status = read_target(set, spec, &sample, target);
    }
    vv_mds_release(set->mds, &sample);
    return vv_fail_within(status, "data set mds: sample %lld: %s", (long long)index,
                          vv_mds_column_at(set->mds, column)->name);
}

/* ---- what samples are ---- */

static vv_status image_spec(mds_set *set, const vv_mds_sample *sample, vv_sample_spec *spec)
{
    const uint8_t *pixels;
    const void *data;
    size_t bytes;
    vv_image image = {0};
    spec->input_dtype = VV_U8;
    spec->input_ndim = 3;
    const int64_t side = set->photo.size;
    if (side > 0) {
        const int64_t shape[3] = {side, side, set->photo.channels};
        memcpy(spec->input_shape, shape, sizeof shape);
        return VV_OK;
    }
    if (set->kind != MDS_FILE)
        return raw_pixels(set, sample, &pixels, spec->input_shape);
    VV_TRY(vv_mds_column_of(set->mds, sample, set->input, &data, &bytes));
    const vv_image_decode_opts opts = {.channels = (int)set->photo.channels,
                                       .orient = set->photo.orient};
    VV_TRY(vv_image_decode(&image, "image", data, bytes, &opts));
    spec->input_shape[0] = image.shape.height;
    spec->input_shape[1] = image.shape.width;
    spec->input_shape[2] = image.shape.channels;
    vv_image_fini(&image);
    return VV_OK;
}

static vv_status spec_of(mds_set *set, const vv_mds_sample *sample, vv_sample_spec *spec,
                         int64_t *count)
{
    const char *encoding = mds_encoding(set, set->input);
    const void *data;
    size_t bytes;
    vv_mds_values values;
    *count = 0;
    VV_TRY(vv_mds_column_of(set->mds, sample, set->input, &data, &bytes));
    const bool file = vv_image_format_of(data, bytes) != VV_IMAGE_UNKNOWN;
    set->kind = MDS_FILE;
    if (strcmp(encoding, "jpeg") == 0 || strcmp(encoding, "png") == 0 ||
        (strcmp(encoding, "bytes") == 0 && file))
        return image_spec(set, sample, spec);
    set->kind = MDS_RAW;
    if (strcmp(encoding, "pil") == 0)
        return image_spec(set, sample, spec);
    VV_TRY(vv_mds_values_of(&values, encoding, data, bytes, set->dtype));
    const bool floating = strncmp(values.dtype, "float", 5) == 0;
    set->kind = MDS_PIXELS;
    if (!floating && values.ndim == 3 && strcmp(values.dtype, "uint8") == 0 &&
        set->photo.size > 0)
        return image_spec(set, sample, spec);
    if (floating)
        set->kind = MDS_NUMBERS;
    else if (values.ndim != 3 || strcmp(values.dtype, "uint8") != 0)
        set->kind = MDS_TOKENS;
    *count = values.count;
    if (set->kind == MDS_TOKENS)
        return VV_OK;
    if (values.ndim >= VV_MAX_DIMS)
        return vv_fail(VV_ESHAPE, "a sample has %d axes, at most %d fit beside the batch's",
                       values.ndim, VV_MAX_DIMS - 1);
    spec->input_dtype = floating ? VV_F32 : VV_U8;
    spec->input_ndim = values.ndim;
    memcpy(spec->input_shape, values.shape, sizeof spec->input_shape);
    return VV_OK;
}

vv_status mds_input_spec(mds_set *set, vv_sample_spec *spec, int64_t *values)
{
    vv_mds_sample sample;
    VV_TRY(vv_mds_hold(set->mds, 0, &sample));
    const vv_status status = spec_of(set, &sample, spec, values);
    vv_mds_release(set->mds, &sample);
    return status;
}
