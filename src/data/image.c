/* image.c - changes to 8-bit images with Pillow's arithmetic: tables, affine maps, blends. */
#include <vivace/image.h>

#include <math.h>
#include <string.h>

static int64_t pixel_count(const vv_image_shape *shape)
{
    return shape->height * shape->width;
}

/* ---- tables: one value for each value, per channel ---- */

typedef struct vvi_tables {
    uint8_t value[3][256];
} vvi_tables;

static void look_up(const vv_image_shape *shape, const uint8_t *restrict in, uint8_t *restrict out,
                    const vvi_tables *tables)
{
    const int64_t count = pixel_count(shape), channels = shape->channels;
    if (channels == 3)
        for (int64_t i = 0; i < count; i++, in += 3, out += 3) {
            out[0] = tables->value[0][in[0]];
            out[1] = tables->value[1][in[1]];
            out[2] = tables->value[2][in[2]];
        }
    else
        for (int64_t i = 0; i < count * channels; i++)
            out[i] = tables->value[i % channels][in[i]];
}

static uint8_t clip(int64_t value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

static void histogram(const vv_image_shape *shape, const uint8_t *in, int64_t out[3][256])
{
    const int64_t count = pixel_count(shape) * shape->channels;
    memset(out, 0, 3 * sizeof out[0]);
    for (int64_t i = 0; i < count; i += shape->channels)
        for (int64_t c = 0; c < shape->channels; c++)
            out[c][in[i + c]]++;
}

static void identity(uint8_t table[256])
{
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)i;
}

void vv_image_autocontrast(const vv_image_shape *shape, const uint8_t *in, uint8_t *out)
{
    int64_t counts[3][256];
    vvi_tables tables;
    histogram(shape, in, counts);
    for (int64_t c = 0; c < shape->channels; c++) {
        int lo = 0, hi = 255;
        while (lo < 255 && counts[c][lo] == 0)
            lo++;
        while (hi > 0 && counts[c][hi] == 0)
            hi--;
        identity(tables.value[c]);
        if (hi <= lo)
            continue;
        const double scale = 255.0 / (hi - lo), offset = -lo * scale;
        for (int i = 0; i < 256; i++)
            tables.value[c][i] = clip((int64_t)(i * scale + offset));
    }
    look_up(shape, in, out, &tables);
}

void vv_image_equalize(const vv_image_shape *shape, const uint8_t *in, uint8_t *out)
{
    int64_t counts[3][256];
    vvi_tables tables;
    histogram(shape, in, counts);
    for (int64_t c = 0; c < shape->channels; c++) {
        int last = 255, kinds = 0;
        while (last > 0 && counts[c][last] == 0)
            last--;
        for (int i = 0; i < 256; i++)
            kinds += counts[c][i] > 0;
        const int64_t step = (pixel_count(shape) - counts[c][last]) / 255;
        identity(tables.value[c]);
        if (kinds <= 1 || step == 0)
            continue;
        int64_t n = step / 2;
        for (int i = 0; i < 256; i++) {
            tables.value[c][i] = clip(n / step);
            n += counts[c][i];
        }
    }
    look_up(shape, in, out, &tables);
}

static void same_table(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                       const uint8_t table[256])
{
    vvi_tables tables;
    for (int c = 0; c < 3; c++)
        memcpy(tables.value[c], table, 256);
    look_up(shape, in, out, &tables);
}

void vv_image_posterize(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, int bits)
{
    uint8_t table[256];
    const int kept = bits < 1 ? 1 : bits > 8 ? 8 : bits;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i & ~((1 << (8 - kept)) - 1));
    same_table(shape, in, out, table);
}

void vv_image_solarize(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, int threshold)
{
    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i < threshold ? i : 255 - i);
    same_table(shape, in, out, table);
}

/* ---- affine maps ---- */

static int64_t within(int64_t i, int64_t size)
{
    return i < 0 ? 0 : i < size ? i : size - 1;
}

/* The pixel at (x, y), which is inside: neighbours beyond the border count as the border's. */
static void sample(const vv_image_shape *shape, const uint8_t *in, double x, double y, uint8_t *out)
{
    const int64_t channels = shape->channels, row = shape->width * channels;
    x -= 0.5;
    y -= 0.5;
    const int64_t left = (int64_t)floor(x), top = (int64_t)floor(y);
    const double dx = x - (double)left, dy = y - (double)top;
    const int64_t x0 = within(left, shape->width) * channels;
    const int64_t x1 = within(left + 1, shape->width) * channels;
    const uint8_t *upper = in + within(top, shape->height) * row;
    const bool two = top + 1 >= 0 && top + 1 < shape->height;
    const uint8_t *lower = two ? in + (top + 1) * row : upper;
    for (int64_t c = 0; c < channels; c++) {
        const double a = upper[x0 + c] + (upper[x1 + c] - upper[x0 + c]) * dx;
        const double b = lower[x0 + c] + (lower[x1 + c] - lower[x0 + c]) * dx;
        out[c] = (uint8_t)(a + (b - a) * dy);
    }
}

void vv_image_affine(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                     const double a[6])
{
    const double width = (double)shape->width, height = (double)shape->height;
    for (int64_t y = 0; y < shape->height; y++)
        for (int64_t x = 0; x < shape->width; x++, out += shape->channels) {
            const double u = (double)x + 0.5, v = (double)y + 0.5;
            const double from_x = a[0] * u + a[1] * v + a[2];
            const double from_y = a[3] * u + a[4] * v + a[5];
            if (from_x >= 0.0 && from_x < width && from_y >= 0.0 && from_y < height)
                sample(shape, in, from_x, from_y, out);
            else
                memset(out, 0, (size_t)shape->channels);
        }
}

/* To 15 decimals. */
static double rounded(double x)
{
    return rint(x * 1e15) / 1e15;
}

void vv_image_rotate(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, double degrees)
{
    const double angle = -fmod(degrees, 360.0) * (3.14159265358979323846 / 180.0);
    const double cx = (double)shape->width / 2.0, cy = (double)shape->height / 2.0;
    double a[6] = {rounded(cos(angle)), rounded(sin(angle)), 0.0,
                   rounded(-sin(angle)), rounded(cos(angle)), 0.0};
    if (fmod(degrees, 360.0) == 0.0) {
        memcpy(out, in, (size_t)(pixel_count(shape) * shape->channels));
        return;
    }
    a[2] = a[0] * -cx + a[1] * -cy + cx;
    a[5] = a[3] * -cx + a[4] * -cy + cy;
    vv_image_affine(shape, in, out, a);
}

/* ---- blends ---- */

/* from + factor * (to - from) in single precision, cut off, not rounded. */
static uint8_t blend(int from, int to, float factor)
{
    const float value = (float)from + factor * (float)(to - from);
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
}

static uint8_t grey(const uint8_t *pixel, int64_t channels)
{
    if (channels < 3)
        return pixel[0];
    return (uint8_t)((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

void vv_image_color(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, double factor)
{
    const int64_t channels = shape->channels, count = pixel_count(shape) * channels;
    for (int64_t i = 0; i < count; i += channels) {
        const uint8_t from = grey(in + i, channels);
        for (int64_t c = 0; c < channels; c++)
            out[i + c] = blend(from, in[i + c], (float)factor);
    }
}

static void blend_constant(const vv_image_shape *shape, const uint8_t *restrict in,
                           uint8_t *restrict out, int from, float factor)
{
    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = blend(from, i, factor);
    for (int64_t i = 0; i < pixel_count(shape) * shape->channels; i++)
        out[i] = table[in[i]];
}

void vv_image_contrast(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, double factor)
{
    const int64_t channels = shape->channels, count = pixel_count(shape);
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += grey(in + i * channels, channels);
    const int mean = count ? (int)((double)sum / (double)count + 0.5) : 0;
    blend_constant(shape, in, out, mean, (float)factor);
}

void vv_image_brightness(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                         double factor)
{
    blend_constant(shape, in, out, 0, (float)factor);
}

void vv_image_sharpness(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, double factor)
{
    const int64_t channels = shape->channels, row = shape->width * channels;
    memcpy(out, in, (size_t)(shape->height * row));
    for (int64_t y = 1; y < shape->height - 1; y++)
        for (int64_t i = y * row + channels; i < (y + 1) * row - channels; i++) {
            int sum = 4 * in[i];
            for (int64_t k = -row; k <= row; k += row)
                sum += in[i + k - channels] + in[i + k] + in[i + k + channels];
            out[i] = blend((2 * sum + 13) / 26, in[i], (float)factor); /* sum / 13, rounded */
        }
}
