/* test_transform.c - the integer warp equals padding, cropping, mirroring and normalising done one
 * after the other, bit for bit; draws are a pure function of (seed, epoch, index), spread evenly
 * over all shifts, and the flip does not depend on the shift's range. */
#include "data_case.h"

#include "data/transform.h"

/* The slow way: a padded image, a window of it, then mirrored, then normalised: in single precision
   as the transform does it, and checked against the formula in double. */
static void naive(const vv_sample_spec *spec, const uint8_t *in, vvi_warp warp, bool normalise,
                  float *out)
{
    const int64_t h = spec->input_shape[0], w = spec->input_shape[1], ch = spec->input_shape[2];
    const int64_t pad = h > w ? h : w, wide = w + 2 * pad;
    uint8_t *padded = calloc((size_t)((h + 2 * pad) * wide * ch), 1);
    for (int64_t y = 0; y < h; y++)
        memcpy(padded + ((y + pad) * wide + pad) * ch, in + y * w * ch, (size_t)(w * ch));
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            for (int64_t c = 0; c < ch; c++) {
                const int64_t column = warp.flip ? w - 1 - x : x;
                double pixel =
                    padded[((y + warp.dy + pad) * wide + column + warp.dx + pad) * ch + c] / 255.0;
                const float value = (float)lround(pixel * 255);
                float *result = &out[(y * w + x) * ch + c];
                *result = value / 255;
                if (normalise) {
                    pixel = (pixel - (double)spec->mean[c]) / (double)spec->std[c];
                    *result = value * (float)(1 / (255 * (double)spec->std[c]));
                    *result += (float)(-(double)spec->mean[c] / (double)spec->std[c]);
                }
                assert_near((double)*result, pixel, 5e-7, 0);
            }
    free(padded);
}

static void warp_equals_the_slow_way(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{6, 5, 3}, {5, 6, 1}, {4, 4, 2}, {1, 7, 4}, {8, 8, 3}};
    vv_rng rng = vv_rng_at(3, "pixels", 0);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int64_t h = shapes[s][0], w = shapes[s][1];
        const size_t count = (size_t)(h * w * shapes[s][2]);
        vv_sample_spec spec = {.input_dtype = VV_U8, .input_ndim = 3};
        memcpy(spec.input_shape, shapes[s], sizeof shapes[s]);
        for (int c = 0; c < 4; c++) {
            spec.mean[c] = 0.4f + 0.05f * (float)c;
            spec.std[c] = 0.2f + 0.03f * (float)c;
        }
        uint8_t *in = malloc(count);
        float *out = malloc(count * sizeof *out), *want = malloc(count * sizeof *want);
        for (size_t i = 0; i < count; i++)
            in[i] = (uint8_t)vv_rng_u32(&rng);
        for (int normalise = 0; normalise < 2; normalise++) {
            const vv_image_transform opts = {.normalise = normalise};
            vvi_transform transform;
            assert_ok(vvi_transform_init(&transform, &spec, &opts, 0));
            const int64_t most = h < w ? h : w;
            for (int64_t dy = -most; dy <= most; dy++)
                for (int64_t dx = -most; dx <= most; dx++)
                    for (int flip = 0; flip < 2; flip++) {
                        const vvi_warp warp = {dy, dx, flip};
                        memset(out, 0xff, count * sizeof *out);
                        vvi_transform_apply(&transform, warp, in, out);
                        naive(&spec, in, warp, normalise, want);
                        assert_memory_equal(out, want, count * sizeof *out);
                    }
            vvi_transform_fini(&transform);
        }
        free(in);
        free(out);
        free(want);
    }
}

static vvi_transform make(int64_t crop_pad, int64_t translate, bool flip, uint64_t seed)
{
    const vv_image_transform opts = {crop_pad, translate, flip, false};
    vvi_transform transform;
    assert_ok(vvi_transform_init(&transform, &case_spec, &opts, seed));
    return transform;
}

static bool same(vvi_warp a, vvi_warp b)
{
    return a.dy == b.dy && a.dx == b.dx && a.flip == b.flip;
}

static void draws_are_pure_and_spread(void **state)
{
    (void)state;
    vvi_transform t = make(2, 1, true, 5), other = make(2, 1, true, 6),
                  shifts = make(0, 2, false, 5);
    vvi_transform flips = make(0, 0, true, 5);
    int seen[5][5] = {{0}}, flipped = 0, epoch_differs = 0, seed_differs = 0;
    const int draws = 5000;
    for (int i = 0; i < draws; i++) {
        const vvi_warp warp = vvi_transform_draw(&t, 3, i);
        assert_true(same(warp, vvi_transform_draw(&t, 3, i)));
        assert_in_range(warp.dy + 2, 0, 4);
        assert_in_range(warp.dx + 2, 0, 4);
        seen[warp.dy + 2][warp.dx + 2]++;
        flipped += warp.flip;
        epoch_differs += !same(warp, vvi_transform_draw(&t, 4, i));
        seed_differs += !same(warp, vvi_transform_draw(&other, 3, i));
        const vvi_warp shifted = vvi_transform_draw(&shifts, 3, i);
        assert_true(shifted.dy == warp.dy && shifted.dx == warp.dx && !shifted.flip);
        const vvi_warp mirrored = vvi_transform_draw(&flips, 3, i);
        assert_true(mirrored.dy == 0 && mirrored.dx == 0 && mirrored.flip == warp.flip);
    }
    /* Expected 200 a cell with deviation 14, 2,500 flips with deviation 35, 1/50 alike. */
    for (int y = 0; y < 5; y++)
        for (int x = 0; x < 5; x++)
            assert_in_range(seen[y][x], 130, 270);
    assert_in_range(flipped, 2300, 2700);
    assert_in_range(epoch_differs, 4800, 4960);
    assert_in_range(seed_differs, 4800, 4960);
    vvi_transform_fini(&t);
    vvi_transform_fini(&other);
    vvi_transform_fini(&shifts);
    vvi_transform_fini(&flips);
}

static void without_normalising_white_is_one(void **state)
{
    (void)state;
    const vv_image_transform opts = {0};
    vvi_transform transform;
    uint8_t in[CASE_PIXELS];
    float out[CASE_PIXELS];
    const vvi_warp none = {0, 0, false};
    memset(in, 255, sizeof in);
    in[7] = 0;
    assert_ok(vvi_transform_init(&transform, &case_spec, &opts, 0));
    vvi_transform_apply(&transform, none, in, out);
    for (int i = 0; i < CASE_PIXELS; i++)
        assert_true(out[i] == (i == 7 ? 0 : 1));
    vvi_transform_fini(&transform);
}

static void padding_is_a_normalised_zero(void **state)
{
    (void)state;
    const vv_image_transform opts = {.normalise = true};
    vvi_transform transform;
    uint8_t in[CASE_PIXELS];
    float out[CASE_PIXELS];
    memset(in, 200, sizeof in);
    assert_ok(vvi_transform_init(&transform, &case_spec, &opts, 0));
    const vvi_warp down = {-1, 0, false};
    vvi_transform_apply(&transform, down, in, out);
    assert_near((double)out[0], -0.4 / 0.2, 1e-6, 0);
    assert_near((double)out[1], -0.5 / 0.25, 1e-6, 0);
    assert_near((double)out[2], -0.6 / 0.3, 1e-6, 0);
    assert_near((double)out[CASE_WIDTH * 3], (200 / 255.0 - 0.4) / 0.2, 1e-6, 0);
    vvi_transform_fini(&transform);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warp_equals_the_slow_way),
        cmocka_unit_test(draws_are_pure_and_spread),
        cmocka_unit_test(without_normalising_white_is_one),
        cmocka_unit_test(padding_is_a_normalised_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
