/* color_jitter.c - random changes of brightness, contrast, saturation and hue. */
#include <vivace/image.h>

#include <math.h>
#include <string.h>

/* ---- hue, through Pillow's 8-bit HSV ---- */

static uint8_t clip(double value)
{
    return value <= 0.0 ? 0 : value >= 255.0 ? 255 : (uint8_t)value;
}

static void to_hsv(const uint8_t rgb[3], uint8_t hsv[3])
{
    const uint8_t r = rgb[0], g = rgb[1], b = rgb[2];
    const uint8_t most = r > (g > b ? g : b) ? r : g > b ? g : b;
    const uint8_t least = r < (g < b ? g : b) ? r : g < b ? g : b;
    hsv[0] = hsv[1] = 0;
    hsv[2] = most;
    if (most == least)
        return;
    const float span = (float)(most - least), s = span / (float)most;
    const float rc = (float)(most - r) / span, gc = (float)(most - g) / span;
    const float bc = (float)(most - b) / span;
    float h = r == most ? bc - gc : g == most ? (float)(2.0 + (double)rc - (double)bc)
                                              : (float)(4.0 + (double)gc - (double)rc);
    h = (float)fmod((double)h / 6.0 + 1.0, 1.0);
    hsv[0] = clip((double)h * 255.0);
    hsv[1] = clip((double)s * 255.0);
}

static void to_rgb(const uint8_t hsv[3], uint8_t rgb[3])
{
    const uint8_t v = hsv[2];
    if (hsv[1] == 0) {
        rgb[0] = rgb[1] = rgb[2] = v;
        return;
    }
    const float h = (float)((double)hsv[0] * 6.0 / 255.0), s = (float)((double)hsv[1] / 255.0);
    const int sector = (int)floor((double)h);
    const float f = (float)((double)h - (double)(float)sector), most = (float)v;
    const uint8_t p = clip(round((double)most * (1.0 - (double)s)));
    const uint8_t q = clip(round((double)most * (1.0 - (double)(s * f))));
    const uint8_t t = clip(round((double)most * (1.0 - (double)s * (1.0 - (double)f))));
    const uint8_t all[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    memcpy(rgb, all[sector % 6], 3);
}

void vv_image_hue(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, double turn)
{
    const int64_t count = shape->height * shape->width;
    const int shift = (int)(turn * 255.0);
    if (shape->channels != 3) {
        memcpy(out, in, (size_t)(count * shape->channels));
        return;
    }
    for (int64_t i = 0; i < count; i++, in += 3, out += 3) {
        uint8_t hsv[3];
        to_hsv(in, hsv);
        hsv[0] = (uint8_t)(hsv[0] + shift);
        to_rgb(hsv, out);
    }
}

/* ---- several changes in one place ---- */

typedef void change_fn(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, double factor);

static void change(const vv_image_shape *shape, uint8_t *image, uint8_t *scratch, change_fn *fn,
                   double factor)
{
    fn(shape, image, scratch, factor);
    memcpy(image, scratch, (size_t)(shape->height * shape->width * shape->channels));
}

void vv_image_color_jitter(const vv_image_shape *shape, uint8_t *image, uint8_t *scratch,
                           const vv_color_jitter *jitter, vv_rng *rng)
{
    static change_fn *const fn[4] = {vv_image_brightness, vv_image_contrast, vv_image_color,
                                     vv_image_hue};
    const double reach[4] = {jitter->brightness, jitter->contrast, jitter->saturation, jitter->hue};
    int64_t order[4];
    double value[4]; /* always the same number of draws, whatever is on */
    vv_rng_permutation(rng, order, 4);
    for (int i = 0; i < 4; i++)
        value[i] = i == 3 ? vv_rng_uniform_in(rng, -reach[i], reach[i])
                          : vv_rng_uniform_in(rng, fmax(0.0, 1.0 - reach[i]), 1.0 + reach[i]);
    for (int i = 0; i < 4; i++)
        if (reach[order[i]] > 0.0)
            change(shape, image, scratch, fn[order[i]], value[order[i]]);
}

void vv_image_photometric_distortion(const vv_image_shape *shape, uint8_t *image, uint8_t *scratch,
                                     vv_rng *rng)
{
    enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, FIRST };
    bool on[FIRST + 1];
    double value[FIRST];
    for (int i = 0; i <= FIRST; i++)
        on[i] = vv_rng_uniform(rng) < 0.5;
    value[BRIGHTNESS] = vv_rng_uniform_in(rng, 1.0 - 32.0 / 255.0, 1.0 + 32.0 / 255.0);
    value[CONTRAST] = vv_rng_uniform_in(rng, 0.5, 1.5);
    value[SATURATION] = vv_rng_uniform_in(rng, 0.5, 1.5);
    value[HUE] = vv_rng_uniform_in(rng, -18.0 / 255.0, 18.0 / 255.0);
    if (on[BRIGHTNESS])
        change(shape, image, scratch, vv_image_brightness, value[BRIGHTNESS]);
    if (on[CONTRAST] && on[FIRST])
        change(shape, image, scratch, vv_image_contrast, value[CONTRAST]);
    if (on[SATURATION])
        change(shape, image, scratch, vv_image_color, value[SATURATION]);
    if (on[HUE])
        change(shape, image, scratch, vv_image_hue, value[HUE]);
    if (on[CONTRAST] && !on[FIRST])
        change(shape, image, scratch, vv_image_contrast, value[CONTRAST]);
}
