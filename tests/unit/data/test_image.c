/* test_image.c - what must hold: every change of an image is Pillow's to the bit, in colour and
 * grey; random strengths stay within what they promise, at severity 0 too; sets hold their ops,
 * each as likely. */
#include "vv_test.h"

#include <vivace/image.h>

#include "../../golden/image_golden.h"

#define MOST (GOLDEN_WIDTH * GOLDEN_HEIGHT * 3)

static vv_image_shape make_image(int channels, uint8_t *out)
{
    uint8_t rgb[MOST];
    uint32_t state = GOLDEN_SEED;
    for (int i = 0; i < MOST; i++) {
        state = (state * 1103515245u + 12345u) % 2147483648u;
        const int y = i / (3 * GOLDEN_WIDTH), x = i / 3 % GOLDEN_WIDTH;
        const int value = 20 + 5 * y + (4 + i % 3) * x + (int)(state >> 16) % 60;
        rgb[i] = (uint8_t)(value < 255 ? value : 255);
    }
    const vv_image_shape shape = {GOLDEN_HEIGHT, GOLDEN_WIDTH, channels};
    for (int i = 0; i < MOST / 3; i++)
        if (channels == 3)
            memcpy(out + 3 * i, rgb + 3 * i, 3);
        else /* ITU-R 601 */
            out[i] = (uint8_t)((rgb[3 * i] * 19595 + rgb[3 * i + 1] * 38470 +
                                rgb[3 * i + 2] * 7471 + 0x8000) >> 16);
    return shape;
}

static void change(const char *op, double x, const vv_image_shape *s, const uint8_t *in,
                   uint8_t *out)
{
    const double shear_x[6] = {1, x, 0, 0, 1, 0}, shear_y[6] = {1, 0, 0, x, 1, 0};
    const double shift_x[6] = {1, 0, x, 0, 1, 0}, shift_y[6] = {1, 0, 0, 0, 1, x};
    if (!strcmp(op, "autocontrast"))
        vv_image_autocontrast(s, in, out);
    else if (!strcmp(op, "equalize"))
        vv_image_equalize(s, in, out);
    else if (!strcmp(op, "posterize"))
        vv_image_posterize(s, in, out, (int)x);
    else if (!strcmp(op, "solarize"))
        vv_image_solarize(s, in, out, (int)x);
    else if (!strcmp(op, "rotate"))
        vv_image_rotate(s, in, out, x);
    else if (!strcmp(op, "shear_x"))
        vv_image_affine(s, in, out, shear_x);
    else if (!strcmp(op, "shear_y"))
        vv_image_affine(s, in, out, shear_y);
    else if (!strcmp(op, "translate_x"))
        vv_image_affine(s, in, out, shift_x);
    else if (!strcmp(op, "translate_y"))
        vv_image_affine(s, in, out, shift_y);
    else if (!strcmp(op, "color"))
        vv_image_color(s, in, out, x);
    else if (!strcmp(op, "contrast"))
        vv_image_contrast(s, in, out, x);
    else if (!strcmp(op, "brightness"))
        vv_image_brightness(s, in, out, x);
    else if (!strcmp(op, "sharpness"))
        vv_image_sharpness(s, in, out, x);
    else
        fail_msg("no op %s", op);
}

static void as_pillow(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof image_golden / sizeof *image_golden; i++) {
        uint8_t in[MOST], out[MOST], before[MOST];
        const int channels = image_golden[i].channels, count = MOST / 3 * channels;
        const vv_image_shape shape = make_image(channels, in);
        memcpy(before, in, sizeof in);
        change(image_golden[i].op, image_golden[i].argument, &shape, in, out);
        assert_memory_equal(in, before, (size_t)count);
        uint64_t sum = UINT64_C(0xcbf29ce484222325);
        for (int k = 0; k < count; k++)
            sum = (sum ^ out[k]) * UINT64_C(0x100000001b3);
        if (sum != image_golden[i].checksum)
            fail_msg("%s %g, %d channels: bytes %d %d %d ... from the middle, Pillow has %d %d %d",
                     image_golden[i].op, image_golden[i].argument, channels, out[count / 2],
                     out[count / 2 + 1], out[count / 2 + 2], image_golden[i].first[0],
                     image_golden[i].first[1], image_golden[i].first[2]);
    }
}

/* One colour has nothing to stretch; one row or column has no inside to smooth. */
static void small_images(void **unused)
{
    (void)unused;
    uint8_t one[12], out[12];
    memset(one, 77, sizeof one);
    const vv_image_shape flat = {2, 2, 3}, line = {1, 4, 3}, dot = {1, 1, 1};
    vv_image_autocontrast(&flat, one, out);
    assert_memory_equal(one, out, 12);
    vv_image_equalize(&flat, one, out);
    assert_memory_equal(one, out, 12);
    vv_image_sharpness(&line, one, out, 3);
    assert_memory_equal(one, out, 12);
    vv_image_rotate(&dot, one, out, 45);
    assert_int_equal(out[0], 77);
    vv_image_posterize(&dot, one, out, 0); /* one bit is the least */
    assert_int_equal(out[0], 0);
    vv_image_posterize(&dot, (const uint8_t[]){200}, out, 0);
    assert_int_equal(out[0], 128);
}

static double distance(const uint8_t *a, const uint8_t *b)
{
    double sum = 0;
    for (int i = 0; i < MOST; i++)
        sum += abs(a[i] - b[i]);
    return sum / MOST;
}

static void strengths(void **unused)
{
    (void)unused;
    uint8_t in[MOST], out[MOST], again[MOST];
    const vv_image_shape shape = make_image(3, in);
    for (int op = 0; op < VV_AUGMENT_OP_COUNT; op++) {
        double weak = 0, strong = 0;
        assert_true(strlen(vv_augment_op_name((vv_augment_op)op)) > 4);
        for (uint64_t i = 0; i < 60; i++) {
            vv_rng rng = vv_rng_at2(1, "strength", i, (uint32_t)op), same = rng;
            vv_augment_apply((vv_augment_op)op, 0, &rng, &shape, in, out);
            weak += distance(in, out);
            rng = same;
            vv_augment_apply((vv_augment_op)op, 10, &rng, &shape, in, out);
            vv_augment_apply((vv_augment_op)op, 10, &same, &shape, in, again);
            strong += distance(in, out);
            assert_memory_equal(out, again, MOST);
        }
        /* No strength: the image itself, but for ops without one and those that begin at a tenth,
           at four bits, or at a half pixel's truncation. */
        const bool has_strength = (op >= VV_AUGMENT_ROTATE && op <= VV_AUGMENT_SHARPNESS);
        if (has_strength)
            assert_near(weak, 0, 1e-9, 0);
        assert_true(strong > weak || op <= VV_AUGMENT_EQUALIZE ||
                    op >= VV_AUGMENT_COLOR_ORIGINAL);
        assert_true(strong > 0);
    }
    assert_string_equal(vv_augment_op_name(VV_AUGMENT_SHEAR_Y), "shear_y");
}

static void sets(void **unused)
{
    (void)unused;
    static const int count[] = {13, 9, 13};
    for (int set = 0; set < 3; set++) {
        int hits[VV_AUGMENT_OP_COUNT] = {0};
        vv_rng rng = vv_rng_at(2, "set", (uint64_t)set);
        for (int i = 0; i < 6500; i++)
            hits[vv_augment_choose((vv_augment_set)set, &rng)]++;
        for (int op = 0; op < VV_AUGMENT_OP_COUNT; op++) {
            const bool in = op <= VV_AUGMENT_TRANSLATE_Y ||
                            (set == 0 && op <= VV_AUGMENT_SHARPNESS) ||
                            (set == 2 && op > VV_AUGMENT_SHARPNESS);
            const double expected = in ? 6500.0 / count[set] : 0;
            assert_near(hits[op], expected, 5 * sqrt(expected), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_pillow), cmocka_unit_test(small_images),
                                       cmocka_unit_test(strengths), cmocka_unit_test(sets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
