/* augment.c - random changes of images with a strength (Hendrycks et al., arXiv 1912.02781; Cubuk
 * et al., arXiv 1909.13719). */
#include <vivace/image.h>

static const char *const names[VV_AUGMENT_OP_COUNT] = {
    "autocontrast", "equalize", "posterize", "rotate", "solarize", "shear_x", "shear_y",
    "translate_x", "translate_y", "color", "contrast", "brightness", "sharpness", "color_original",
    "contrast_original", "brightness_original", "sharpness_original",
};

const char *vv_augment_op_name(vv_augment_op op)
{
    return op >= 0 && op < VV_AUGMENT_OP_COUNT ? names[op] : "(none)";
}

vv_augment_op vv_augment_choose(vv_augment_set set, vv_rng *rng)
{
    const int safe = VV_AUGMENT_TRANSLATE_Y + 1, all = VV_AUGMENT_SHARPNESS + 1;
    const int count = set == VV_AUGMENT_SAFE ? safe : all;
    const int op = (int)vv_rng_below(rng, count);
    return (vv_augment_op)(set == VV_AUGMENT_ORIGINAL && op >= safe ? op - safe + all : op);
}

/* The strength of this call: uniform between 0.1 and the severity. */
static double strength(double severity, vv_rng *rng)
{
    return vv_rng_uniform_in(rng, severity < 0.1 ? severity : 0.1, severity);
}

static double either_sign(double value, vv_rng *rng)
{
    return vv_rng_uniform(rng) > 0.5 ? -value : value;
}

/* A factor above or below 1, each with probability 1/2. */
static double symmetric(double severity, vv_rng *rng)
{
    if (vv_rng_uniform(rng) > 0.5)
        return vv_rng_uniform_in(rng, 1.0, severity > 1.0 ? severity : 1.0);
    return vv_rng_uniform_in(rng, 1.0 - 0.09 * severity, 1.0);
}

static void map(vv_augment_op op, double n, vv_rng *rng, const vv_image_shape *shape,
                const uint8_t *in, uint8_t *out)
{
    double a[6] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
    switch (op) {
    case VV_AUGMENT_SHEAR_X: a[1] = either_sign(n * 0.3 / 10.0, rng); break;
    case VV_AUGMENT_SHEAR_Y: a[3] = either_sign(n * 0.3 / 10.0, rng); break;
    case VV_AUGMENT_TRANSLATE_X:
        a[2] = either_sign((double)(int64_t)(n * ((double)shape->width / 3.0) / 10.0), rng);
        break;
    default:
        a[5] = either_sign((double)(int64_t)(n * ((double)shape->height / 3.0) / 10.0), rng);
        break;
    }
    vv_image_affine(shape, in, out, a);
}

static void enhance(vv_augment_op op, double factor, const vv_image_shape *shape, const uint8_t *in,
                    uint8_t *out)
{
    switch (op) {
    case VV_AUGMENT_COLOR:
    case VV_AUGMENT_COLOR_ORIGINAL: vv_image_color(shape, in, out, factor); break;
    case VV_AUGMENT_CONTRAST:
    case VV_AUGMENT_CONTRAST_ORIGINAL: vv_image_contrast(shape, in, out, factor); break;
    case VV_AUGMENT_BRIGHTNESS: /* half as far up, or many images are white */
        vv_image_brightness(shape, in, out, factor > 1.0 ? factor * 0.75 : factor);
        break;
    case VV_AUGMENT_BRIGHTNESS_ORIGINAL: vv_image_brightness(shape, in, out, factor); break;
    default: vv_image_sharpness(shape, in, out, factor); break;
    }
}

void vv_augment_apply(vv_augment_op op, double severity, vv_rng *rng, const vv_image_shape *shape,
                      const uint8_t *in, uint8_t *out)
{
    const double level = severity < 0.0 ? 0.0 : severity > 10.0 ? 10.0 : severity;
    if (op == VV_AUGMENT_AUTOCONTRAST) {
        vv_image_autocontrast(shape, in, out);
    } else if (op == VV_AUGMENT_EQUALIZE) {
        vv_image_equalize(shape, in, out);
    } else if (op >= VV_AUGMENT_COLOR_ORIGINAL) {
        enhance(op, strength(level, rng) * 1.8 / 10.0 + 0.1, shape, in, out);
    } else if (op >= VV_AUGMENT_COLOR) {
        enhance(op, symmetric(level, rng), shape, in, out);
    } else {
        const double n = strength(level, rng);
        if (op == VV_AUGMENT_POSTERIZE)
            vv_image_posterize(shape, in, out, 4 - (int)(n * 4.0 / 10.0));
        else if (op == VV_AUGMENT_ROTATE)
            vv_image_rotate(shape, in, out, either_sign((int)(n * 30.0 / 10.0), rng));
        else if (op == VV_AUGMENT_SOLARIZE)
            vv_image_solarize(shape, in, out, 256 - (int)(n * 256.0 / 10.0));
        else
            map(op, n, rng, shape, in, out);
    }
}
