/* test_resample.c - what must hold: resizing with each filter, with and without a box, is Pillow's
 * to the bit; so are hues and the central cut of a resized image; random parts lie inside and are
 * as large and as wide as asked; changes of colour depend on the draws alone. */
#include "vv_test.h"

#include "photo_case.h"

#define MOST (GOLDEN_WIDTH * GOLDEN_HEIGHT * 3)
#define COUNT(x) (sizeof(x) / sizeof *(x))

static void sizes_as_pillow(void **unused)
{
    (void)unused;
    static uint8_t in[MOST], out[128 * 128 * 3];
    for (size_t i = 0; i < COUNT(photo_sizes); i++) {
        const struct photo_size *c = &photo_sizes[i];
        const vv_image_shape from = photo_make(c->channels, in);
        const vv_image_shape to = {c->height, c->width, c->channels};
        const size_t bytes = (size_t)(c->height * c->width * c->channels);
        assert_ok(vv_image_resample(&to, out, &from, in, c->box, (vv_image_filter)c->filter));
        if (photo_sum(out, bytes) != c->checksum)
            fail_msg("%s to %dx%d of box %g,%g,%g,%g, %d channels: first %d, Pillow has %d",
                     vv_image_filter_name((vv_image_filter)c->filter), c->width, c->height,
                     c->box[0], c->box[1], c->box[2], c->box[3], c->channels, out[0], c->first[0]);
    }
}

static void hues_as_pillow(void **unused)
{
    (void)unused;
    static uint8_t in[MOST], out[MOST];
    const vv_image_shape shape = photo_make(3, in);
    for (size_t i = 0; i < COUNT(photo_hues); i++) {
        vv_image_hue(&shape, in, out, photo_hues[i].turn);
        if (photo_sum(out, MOST) != photo_hues[i].checksum)
            fail_msg("hue turned by %g differs from Pillow's", photo_hues[i].turn);
    }
}

static void central_cut_as_resize_then_crop(void **unused)
{
    (void)unused;
    static uint8_t in[MOST], out[MOST * 2];
    const vv_image_shape from = photo_make(3, in);
    for (size_t i = 0; i < COUNT(photo_cuts); i++) {
        const struct photo_cut *c = &photo_cuts[i];
        const vv_image_shape to = {c->height, c->width, 3};
        double box[4];
        vv_image_centre_crop(box, from.height, from.width, c->resize, c->height, c->width);
        assert_ok(vv_image_resample(&to, out, &from, in, box, VV_IMAGE_BILINEAR));
        if (photo_sum(out, (size_t)(c->height * c->width * 3)) != c->checksum)
            fail_msg("cut %dx%d of %d differs", c->height, c->width, c->resize);
    }
}

static void cut_larger_than_the_image(void **unused)
{
    (void)unused;
    double box[4];
    vv_image_centre_crop(box, 100, 10, 10, 20, 20); /* 100 x 10 has no 20 x 20 */
    assert_near(box[0], 0, 0, 1e-12);
    assert_near(box[2], 10, 0, 1e-12);
    assert_near(box[3] - box[1], 10, 0, 1e-12);
    assert_near(box[1], 45, 0, 1e-12);
}

static void refuses_what_cannot_be(void **unused)
{
    (void)unused;
    static uint8_t in[MOST], out[MOST];
    const vv_image_shape from = photo_make(3, in), none = {0, 5, 3}, grey = {5, 5, 1};
    const vv_image_shape to = {5, 5, 3};
    const double outside[4] = {0, 0, 62, 10}, empty[4] = {5, 5, 5, 9};
    assert_fails(vv_image_resample(&none, out, &from, in, NULL, VV_IMAGE_BOX), VV_ESHAPE);
    assert_fails(vv_image_resample(&grey, out, &from, in, NULL, VV_IMAGE_BOX), VV_ESHAPE);
    assert_says("the same before and after");
    assert_fails(vv_image_resample(&to, out, &from, in, outside, VV_IMAGE_BOX), VV_ESHAPE);
    assert_says("(0, 0, 62, 10)");
    assert_fails(vv_image_resample(&to, out, &from, in, empty, VV_IMAGE_BOX), VV_ESHAPE);
    assert_fails(vv_image_resample(&to, out, &from, in, NULL, (vv_image_filter)9), VV_EINVAL);
}

/* Resizing with each allocation failing once: an error, and nothing is left. */
static void survives_without_memory(void **unused)
{
    (void)unused;
    static uint8_t in[MOST], out[MOST];
    const vv_image_shape from = photo_make(3, in), to = {20, 21, 3};
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(vv_image_resample(&to, out, &from, in, NULL, VV_IMAGE_BICUBIC));
    const uint64_t allocations = vv_memory_alloc_count() - before;
    for (uint64_t n = 1; n <= allocations; n++) {
        vv_memory_fail_at(n);
        assert_fails(vv_image_resample(&to, out, &from, in, NULL, VV_IMAGE_BICUBIC), VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

static void random_parts(void **unused)
{
    (void)unused;
    static const int64_t sizes[][2] = {{480, 640}, {10, 1000}, {1, 1}, {3, 2}, {300, 300}};
    const double scale[2] = {0.08, 1.0}, ratio[2] = {0.75, 4.0 / 3.0};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        const double h = (double)sizes[s][0], w = (double)sizes[s][1];
        double mean = 0.0;
        for (uint64_t i = 0; i < 4000; i++) {
            vv_rng rng = vv_rng_at(1, "test", i), again = vv_rng_at(1, "test", i);
            double box[4], same[4];
            vv_image_random_resized_crop(box, &rng, sizes[s][0], sizes[s][1], scale, ratio);
            vv_image_random_resized_crop(same, &again, sizes[s][0], sizes[s][1], scale, ratio);
            assert_memory_equal(box, same, sizeof box);
            const double bw = box[2] - box[0], bh = box[3] - box[1];
            assert_true(box[0] >= 0 && box[1] >= 0 && box[2] <= w && box[3] <= h);
            assert_true(bw >= 1 && bh >= 1);
            for (int k = 0; k < 4; k++)
                assert_true(box[k] == (double)(int64_t)box[k]);
            if (s == 0) {
                assert_true(bw * bh > 0.075 * h * w);
                assert_true(bw / bh > 0.74 && bw / bh < 1.35);
                mean += bw * bh / (h * w) / 4000;
            }
        }
        if (s == 0) /* 0.54 without the parts that do not fit, which are large ones */
            assert_true(mean > 0.42 && mean < 0.54);
    }
    vv_rng rng = vv_rng_at(1, "test", 0);
    double box[4];
    vv_image_random_resized_crop(box, &rng, 10, 1000, scale, ratio);
    assert_near(box[2] - box[0], 13, 0, 1e-9); /* 4 : 3 */
    assert_near(box[0], 493, 0, 1e-9);
}

static void colours_follow_the_draws(void **unused)
{
    (void)unused;
    static uint8_t in[MOST], a[MOST], b[MOST], scratch[MOST];
    const vv_image_shape shape = photo_make(3, in);
    const vv_color_jitter none = {0, 0, 0, 0}, strong = {0.4, 0.4, 0.4, 0.1};
    int differ = 0, untouched = 0;
    for (uint64_t i = 0; i < 50; i++) {
        vv_rng x = vv_rng_at(7, "test", i), y = x, z = x;
        memcpy(a, in, MOST);
        vv_image_color_jitter(&shape, a, scratch, &none, &x);
        assert_memory_equal(a, in, MOST);
        vv_image_color_jitter(&shape, a, scratch, &strong, &y);
        assert_int_equal(vv_rng_u32(&x), vv_rng_u32(&y)); /* strength changes no draw */
        memcpy(b, in, MOST);
        vv_image_color_jitter(&shape, b, scratch, &strong, &z);
        assert_memory_equal(a, b, MOST);
        differ += memcmp(a, in, MOST) != 0;
        vv_rng p = vv_rng_at(8, "test", i), q = p;
        memcpy(a, in, MOST);
        memcpy(b, in, MOST);
        vv_image_photometric_distortion(&shape, a, scratch, &p);
        vv_image_photometric_distortion(&shape, b, scratch, &q);
        assert_memory_equal(a, b, MOST);
        untouched += memcmp(a, in, MOST) == 0;
    }
    assert_true(differ > 45);
    assert_true(untouched < 15); /* 1 in 16 draws nothing */
}

static void mirrors(void **unused)
{
    (void)unused;
    uint8_t image[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const vv_image_shape two = {2, 2, 3}, grey = {2, 3, 1};
    vv_image_flip(&two, image);
    assert_memory_equal(image, ((uint8_t[]){4, 5, 6, 1, 2, 3, 10, 11, 12, 7, 8, 9}), 12);
    vv_image_flip(&grey, image);
    assert_memory_equal(image, ((uint8_t[]){6, 5, 4, 3, 2, 1}), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_as_pillow),
        cmocka_unit_test(hues_as_pillow),
        cmocka_unit_test(central_cut_as_resize_then_crop),
        cmocka_unit_test(cut_larger_than_the_image),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(survives_without_memory),
        cmocka_unit_test(random_parts),
        cmocka_unit_test(colours_follow_the_draws),
        cmocka_unit_test(mirrors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
