/* test_cutout.c - what must hold: exactly the holes are zero, in all channels; the hole is the same
 * for the batch or, if asked, each image's own; odd sides are whole; the input stays; draws cover
 * what they should. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "cutout.h"

enum { N = 3, H = 9, W = 7, C = 2 };

static vv_tensor *ones(vv_dtype dtype)
{
    const int64_t shape[] = {N, H, W, C};
    vv_tensor *x;
    assert_ok(vv_tensor_new(&x, dtype, 4, shape));
    vv_tensor_fill(x, 1);
    return x;
}

static bool inside(const vv_hole *hole, int64_t y, int64_t x)
{
    return y >= hole->top && y < hole->bottom && x >= hole->left && x < hole->right;
}

static void holes_are_zero(void **unused)
{
    (void)unused;
    static const vv_hole holes[] = {{2, 5, 0, 3}, {4, 9, 5, 7}, {0, 1, 0, 1},
                                    {8, 9, 0, 7}, {3, 3, 2, 5}, {1, 2, 6, 7}};
    const vv_dtype dtypes[] = {VV_F32, VV_U8};
    for (int k = 0; k < 4; k++) {
        const vv_cutout_opts opts = {2, 0.5, false, k / 2};
        vv_tensor *x = ones(dtypes[k % 2]), *out = NULL;
        assert_ok(vv_cutout_batch(&out, x, holes, &opts));
        assert_true(vv_tensor_same_shape(out, x) && out->dtype == x->dtype);
        for (int64_t i = 0; i < out->count; i++) {
            const int64_t n = i / (H * W * C), y = i / (W * C) % H, column = i / C % W;
            const vv_hole *own = holes + (opts.per_sample ? 2 * n : 0);
            const bool cut = inside(&own[0], y, column) || inside(&own[1], y, column);
            assert_near(vv_tensor_get(out, i), cut ? 0 : 1, 0, 0);
            assert_near(vv_tensor_get(x, i), 1, 0, 0);
        }
        const vv_tensor *before = out;
        assert_ok(vv_cutout_batch(&out, x, holes, &opts));
        assert_ptr_equal(out, before);
        vv_tensor_free(x);
        vv_tensor_free(out);
    }
}

static void draws(void **unused)
{
    (void)unused;
    for (int uniform = 0; uniform < 2; uniform++)
        for (int64_t side = 1; side < 7; side++) {
            const vv_cutout_opts opts = {1, (double)side / W + 1e-9, uniform, false};
            int64_t count[H][W] = {{0}}, most = 0, whole = 0;
            for (uint64_t i = 0; i < 4000; i++) {
                vv_rng rng = vv_rng_at(1, "test", i);
                const vv_hole hole = vv_cutout_draw(&rng, H, W, &opts);
                const int64_t height = hole.bottom - hole.top, width = hole.right - hole.left;
                assert_true(hole.top >= 0 && hole.bottom <= H && height >= 0 && height <= side);
                assert_true(hole.left >= 0 && hole.right <= W && width >= 0 && width <= side);
                whole += height == side && width == side;
                for (int64_t y = hole.top; y < hole.bottom; y++)
                    for (int64_t x = hole.left; x < hole.right; x++)
                        count[y][x]++;
            }
            assert_true(whole > 0); /* odd sides too */
            for (int64_t y = 0; y < H; y++)
                for (int64_t x = 0; x < W; x++) {
                    assert_true(count[y][x] > 0);
                    most = count[y][x] > most ? count[y][x] : most;
                }
            /* Uniform: a corner is cut as often as the middle, within 5 deviations; else less. */
            if (uniform && side % 2)
                assert_true((double)(count[H / 2][W / 2] - count[0][0]) <
                            5 * sqrt((double)most * 2));
            else if (!uniform && side > 3)
                assert_true(count[0][0] < count[H / 2][W / 2] * 3 / 4);
        }
    const vv_cutout_opts tiny = {1, 0.001, false, false};
    vv_rng rng = vv_rng_at(1, "test", 0);
    const vv_hole hole = vv_cutout_draw(&rng, H, W, &tiny);
    assert_int_equal(hole.bottom - hole.top, 1);
}

static void refusals(void **unused)
{
    (void)unused;
    static const vv_hole outside = {0, H + 1, 0, 1}, inverted = {3, 2, 0, 1};
    vv_tensor *x = ones(VV_F32), *out = NULL, *flat;
    const int64_t count = x->count;
    assert_fails(vv_cutout_batch(&out, x, &outside, NULL), VV_EINVAL);
    assert_fails(vv_cutout_batch(&out, x, &inverted, NULL), VV_EINVAL);
    assert_fails(vv_cutout_batch(&x, x, &inverted, NULL), VV_EINVAL);
    assert_ok(vv_tensor_reshaped(&flat, x, 1, &count));
    assert_fails(vv_cutout_batch(&out, flat, &inverted, NULL), VV_ESHAPE);
    vv_tensor_free(flat);
    vv_tensor_free(x);
    vv_cutout_opts bad = VV_CUTOUT_DEFAULTS;
    bad.length = 1.5;
    assert_null(vv_cutout(&bad));
    assert_says("length");
}

/* The method cuts what the function cuts for the same draws. */
static void method(void **unused)
{
    (void)unused;
    const vv_cutout_opts defaults = VV_CUTOUT_DEFAULTS;
    for (int per_sample = 0; per_sample < 2; per_sample++) {
        const vv_cutout_opts opts = {2, 0.4, false, per_sample};
        vv_method *m = vv_cutout(&opts);
        vv_batch batch = {.input = ones(VV_F32), .count = N};
        vv_state state = {.seed = 5, .batch = &batch, .time = {.batch = 3}};
        vv_hole holes[2 * N];
        vv_tensor *expected = NULL, *x = ones(VV_F32);
        vv_rng rng = vv_state_rng(&state, "cutout");
        for (int i = 0; i < 2 * (per_sample ? N : 1); i++)
            holes[i] = vv_cutout_draw(&rng, H, W, &opts);
        assert_ok(vv_cutout_batch(&expected, x, holes, &opts));
        assert_ok(m->type->apply(m, VV_EVENT_AFTER_DATALOADER, &state));
        assert_memory_equal(batch.input->data, expected->data, expected->bytes);
        vv_tensor_free(batch.input);
        vv_tensor_free(expected);
        vv_tensor_free(x);
        vv_method_free(m);
    }
    vv_str ours = {0}, table = {0};
    vv_method *m = vv_cutout(NULL);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(holes_are_zero), cmocka_unit_test(draws),
                                       cmocka_unit_test(refusals), cmocka_unit_test(method)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
