/* mds_values.c - the encodings of MDS columns that hold numbers.
 *
 * "int" is one int64; "int8" to "float64" one number; "ndarray[:dtype[:shape]]" begins with what
 * its name leaves open: a byte for the dtype (its bits, one more if signed, two if floating), a
 * byte that holds four times the number of axes and the width code of the sizes (1 << code bytes),
 * and the sizes. */
#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/mds/mds_index.h"

static const struct {
    const char *name;
    int code, bytes;
    char kind; /* 'u', 'i', 'f' */
} dtypes[] = {
    {"uint8", 8, 1, 'u'},    {"int8", 9, 1, 'i'},     {"uint16", 16, 2, 'u'},
    {"int16", 17, 2, 'i'},   {"float16", 18, 2, 'f'}, {"uint32", 32, 4, 'u'},
    {"int32", 33, 4, 'i'},   {"float32", 34, 4, 'f'}, {"uint64", 64, 8, 'u'},
    {"int64", 65, 8, 'i'},   {"float64", 66, 8, 'f'},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

static int dtype_called(const char *name, size_t length)
{
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (strlen(dtypes[d].name) == length && memcmp(dtypes[d].name, name, length) == 0)
            return d;
    return -1;
}

static int dtype_of(const vv_mds_values *values)
{
    return dtype_called(values->dtype, strlen(values->dtype));
}

static vv_status cut_short(const char *encoding, size_t bytes)
{
    return vv_fail(VV_EFORMAT, "expected a value of encoding %s, found %zu bytes that are none",
                   encoding, bytes);
}

/* The shape behind the second colon of an ndarray's name: "2,3". */
static vv_status named_shape(vv_mds_values *out, const char *encoding, const char *text)
{
    while (*text) {
        int64_t size = 0;
        int digits = 0;
        for (; *text >= '0' && *text <= '9' && digits < 12; text++, digits++)
            size = size * 10 + (*text - '0');
        if (digits == 0 || size < 1 || out->ndim == VV_MAX_DIMS || (*text && *text != ','))
            return vv_fail(VV_EFORMAT, "encoding %s: expected sizes like 2,3, at most %d", encoding,
                           VV_MAX_DIMS);
        out->shape[out->ndim++] = size;
        text += *text == ',';
    }
    return VV_OK;
}

/* The shape in front of an ndarray's numbers. */
static vv_status told_shape(vv_mds_values *out, const char *encoding, const unsigned char **at,
                            size_t *left)
{
    if (*left < 1)
        return cut_short(encoding, *left);
    const int ndim = **at >> 2, width = 1 << (**at & 3);
    if (ndim < 1 || ndim > VV_MAX_DIMS || *left - 1 < (size_t)(ndim * width))
        return cut_short(encoding, *left);
    ++*at;
    for (int i = 0; i < ndim; i++, *at += width)
        out->shape[i] = (int64_t)vvi_mds_number(*at, width);
    out->ndim = ndim;
    *left -= 1 + (size_t)(ndim * width);
    return VV_OK;
}

static vv_status ndarray(vv_mds_values *out, const char *encoding, const unsigned char *at,
                         size_t left)
{
    const char *dtype = encoding + strlen("ndarray");
    const char *shape = *dtype == ':' ? strchr(dtype + 1, ':') : NULL;
    const size_t length = *dtype != ':' ? 0
                          : shape       ? (size_t)(shape - dtype - 1)
                                        : strlen(dtype + 1);
    int d = -1;
    if (length) {
        d = dtype_called(dtype + 1, length);
    } else if (left > 0) {
        for (int i = 0; i < DTYPE_COUNT; i++)
            d = dtypes[i].code == *at ? i : d;
        at++;
        left--;
    }
    if (d < 0)
        return vv_fail(VV_EFORMAT, "encoding %s: its kind of number is not known", encoding);
    if (shape)
        VV_TRY(named_shape(out, encoding, shape + 1));
    else
        VV_TRY(told_shape(out, encoding, &at, &left));
    out->dtype = dtypes[d].name;
    out->data = at;
    size_t total = (size_t)dtypes[d].bytes;
    for (int i = 0; i < out->ndim; i++)
        VV_TRY(vv_size_mul(&total, total, (size_t)out->shape[i]));
    if (total != left)
        return cut_short(encoding, left);
    out->count = (int64_t)(total / (size_t)dtypes[d].bytes);
    return VV_OK;
}

static vv_status row_of(vv_mds_values *out, const void *data, size_t bytes, const char *dtype)
{
    const int d = dtype ? dtype_called(dtype, strlen(dtype)) : -1;
    if (d < 0)
        return vv_fail(VV_ETYPE, "bytes can be numbers of many kinds; say which (int64, uint16, "
                                 "...)");
    if (bytes % (size_t)dtypes[d].bytes != 0)
        return vv_fail(VV_EFORMAT, "%zu bytes are no row of %s", bytes, dtype);
    out->dtype = dtypes[d].name;
    out->data = data;
    out->ndim = 1;
    out->shape[0] = out->count = (int64_t)(bytes / (size_t)dtypes[d].bytes);
    return VV_OK;
}

vv_status vv_mds_values_of(vv_mds_values *out, const char *encoding, const void *data, size_t bytes,
                           const char *bytes_dtype)
{
    *out = (vv_mds_values){.dtype = "int64"};
    if (strcmp(encoding, "bytes") == 0)
        return row_of(out, data, bytes, bytes_dtype);
    if (strncmp(encoding, "ndarray", 7) == 0 && (!encoding[7] || encoding[7] == ':'))
        return ndarray(out, encoding, data, bytes);
    const char *name = strcmp(encoding, "int") == 0 ? "int64" : encoding;
    const int d = dtype_called(name, strlen(name));
    if (d < 0)
        return vv_fail(VV_ETYPE, "encoding %s holds no numbers; int, int8 to float64, ndarray and "
                                 "bytes do", encoding);
    if (bytes != (size_t)dtypes[d].bytes)
        return cut_short(encoding, bytes);
    out->dtype = dtypes[d].name;
    out->data = data;
    out->count = 1;
    return VV_OK;
}

int64_t vvi_mds_encoded_size(const char *encoding)
{
    vv_mds_values values = {0};
    const char *dtype = strncmp(encoding, "ndarray:", 8) == 0 ? encoding + 8 : NULL;
    const char *shape = dtype ? strchr(dtype, ':') : NULL;
    const char *name = strcmp(encoding, "int") == 0 ? "int64" : encoding;
    const int d = shape ? dtype_called(dtype, (size_t)(shape - dtype))
                        : dtype_called(name, strlen(name));
    if (d < 0)
        return 0;
    int64_t bytes = dtypes[d].bytes;
    if (shape && named_shape(&values, encoding, shape + 1) != VV_OK)
        return 0;
    for (int i = 0; i < values.ndim; i++)
        if (__builtin_mul_overflow(bytes, values.shape[i], &bytes) || bytes > INT32_MAX)
            return 0;
    return bytes;
}

/* ---- numbers ---- */

/* IEEE half: sign, 5 bits of exponent, 10 of fraction. */
static double from_half(uint64_t bits)
{
    const int exponent = (int)(bits >> 10 & 31);
    const double fraction = (double)(bits & 1023) / 1024;
    double value;
    if (exponent == 31)
        value = fraction > 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, -14);
    else
        value = ldexp(1 + fraction, exponent - 15);
    return bits & 0x8000 ? -value : value;
}

static double number_at(const vv_mds_values *values, int d, int64_t i)
{
    const int bytes = dtypes[d].bytes;
    const unsigned char *at = (const unsigned char *)values->data + (size_t)i * (size_t)bytes;
    const uint64_t bits = vvi_mds_number(at, bytes);
    if (dtypes[d].kind == 'u')
        return (double)bits;
    if (dtypes[d].kind == 'i') {
        const int shift = 64 - 8 * bytes;
        return (double)((int64_t)(bits << shift) >> shift);
    }
    float single;
    double full;
    const uint32_t low = (uint32_t)bits;
    memcpy(&single, &low, sizeof single);
    memcpy(&full, &bits, sizeof full);
    return bytes == 2 ? from_half(bits) : bytes == 4 ? (double)single : full;
}

static vv_status check_range(const vv_mds_values *values, int64_t first, int64_t count)
{
    if (first >= 0 && count >= 0 && first <= values->count - count)
        return VV_OK;
    return vv_fail(VV_EINVAL, "numbers %lld to %lld do not exist; there are %lld", (long long)first,
                   (long long)(first + count - 1), (long long)values->count);
}

vv_status vv_mds_values_i32(const vv_mds_values *values, int64_t first, int64_t count,
                            int64_t least, int64_t most, int32_t *out)
{
    const int d = dtype_of(values);
    VV_TRY(check_range(values, first, count));
    for (int64_t i = 0; i < count; i++) {
        const double value = number_at(values, d, first + i);
        if (!(value >= (double)least && value <= (double)most) || value != floor(value))
            return vv_fail(VV_EFORMAT, "number %lld is %.17g, expected a whole one from %lld to "
                                       "%lld", (long long)(first + i), value, (long long)least,
                           (long long)most);
        out[i] = (int32_t)value;
    }
    return VV_OK;
}

vv_status vv_mds_values_f32(const vv_mds_values *values, int64_t first, int64_t count, float *out)
{
    const int d = dtype_of(values);
    VV_TRY(check_range(values, first, count));
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)number_at(values, d, first + i);
    return VV_OK;
}

vv_status vv_mds_image(const uint8_t **pixels, int64_t shape[3], const char *encoding,
                       const void *data, size_t bytes)
{
    static const struct {
        const char *mode;
        int64_t channels;
    } modes[] = {{"L", 1}, {"RGB", 3}, {"RGBA", 4}};
    const unsigned char *at = data;
    *pixels = NULL;
    if (strcmp(encoding, "pil") != 0)
        return vv_fail(VV_ETYPE, "encoding %s holds no raw pixels; pil does (JPEG and PNG are not "
                                 "decoded)", encoding);
    const uint64_t length = bytes >= 12 ? vvi_mds_number(at + 8, 4) : 0;
    if (bytes < 12 || length > bytes - 12)
        return cut_short(encoding, bytes);
    const uint64_t width = vvi_mds_number(at, 4), height = vvi_mds_number(at + 4, 4);
    int64_t channels = 0;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        if (strlen(modes[m].mode) == length && memcmp(modes[m].mode, at + 12, length) == 0)
            channels = modes[m].channels;
    if (channels == 0)
        return vv_fail(VV_ETYPE, "an image of mode \"%.*s\"; L, RGB and RGBA are read",
                       (int)(length < 16 ? length : 16), (const char *)at + 12);
    const uint64_t left = bytes - 12 - length;
    if (width == 0 || height == 0 || height > left / width ||
        width * height * (uint64_t)channels != left)
        return cut_short(encoding, bytes);
    *pixels = at + 12 + length;
    shape[0] = (int64_t)height;
    shape[1] = (int64_t)width;
    shape[2] = channels;
    return VV_OK;
}
