/* test_colout.c - what must hold: sizes are (1 - p) of the old ones, rounded, at least 1; rows and
 * columns come from the input in their order; p = 0 is the identity; masks stay aligned with
 * images; other targets are the same object; own draws for each image if asked. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "colout.h"

enum { N = 3, H = 10, W = 6, C = 2 };

/* Pixel (n, y, x) holds 1000 n + 20 y + x, its channels c / 10 more. */
static vv_tensor *coded(bool mask)
{
    const int64_t shape[] = {N, H, W, C};
    vv_tensor *x;
    assert_ok(vv_tensor_new(&x, mask ? VV_I32 : VV_F32, mask ? 3 : 4, shape));
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t pixel = mask ? i : i / C;
        vv_tensor_set(x, i, (double)(pixel / (H * W) * 1000 + pixel / W % H * 20 + pixel % W) +
                                (mask ? 0 : 0.25 * (double)(i % C)));
    }
    return x;
}

static void sizes(void **unused)
{
    (void)unused;
    assert_int_equal(vv_colout_kept(10, 0.9), 1);
    assert_int_equal(vv_colout_kept(10, 1), 1);
    assert_int_equal(vv_colout_kept(10, 0), 10);
    assert_int_equal(vv_colout_kept(32, 0.15), 27);
    assert_int_equal(vv_colout_kept(10, 0.25), 8); /* 7.5 rounds up */
}

static void draws(void **unused)
{
    (void)unused;
    int64_t kept[H], count[H] = {0};
    for (uint64_t i = 0; i < 2000; i++) {
        vv_rng rng = vv_rng_at(1, "test", i);
        assert_ok(vv_colout_draw(&rng, H, 0.3, kept));
        for (int k = 0; k < 7; k++) {
            assert_true(kept[k] >= 0 && kept[k] < H && (k == 0 || kept[k] > kept[k - 1]));
            count[kept[k]]++;
        }
    }
    for (int k = 0; k < H; k++) /* each with probability 0.7; 5 deviations */
        assert_near((double)count[k] / 2000, 0.7, 5 * sqrt(0.7 * 0.3 / 2000), 0);
    vv_rng rng = vv_rng_at(1, "test", 0);
    assert_fails(vv_colout_draw(&rng, 0, 0.3, kept), VV_EINVAL);
    assert_fails(vv_colout_draw(&rng, H, 1.3, kept), VV_EINVAL);
}

/* Every output pixel stands for a row and a column, rising, and the mask for the same ones. */
static void check_batch(const vv_tensor *out, const vv_tensor *mask, bool own, bool *differ)
{
    int64_t first[H + W];
    *differ = false;
    for (int64_t n = 0; n < N; n++)
        for (int64_t y = 0; y < 7; y++)
            for (int64_t x = 0; x < 5; x++) {
                const int64_t at = (n * 7 + y) * 5 + x;
                const int64_t code = (int64_t)vv_tensor_get(out, at * C) - 1000 * n;
                const int64_t row = code / 20, column = code % 20;
                assert_near(vv_tensor_get(mask, at), (double)(1000 * n + code), 0, 0);
                for (int64_t c = 0; c < C; c++)
                    assert_near(vv_tensor_get(out, at * C + c),
                                (double)(1000 * n + code) + 0.25 * (double)c, 0, 0);
                if (n == 0 && x == 0)
                    first[y] = row;
                if (n == 0 && y == 0)
                    first[H + x] = column;
                if (y > 0)
                    assert_true(row >
                                (int64_t)(vv_tensor_get(out, (at - 5) * C) - 1000.0 * (double)n) /
                                    20);
                if (x > 0)
                    assert_true(vv_tensor_get(out, (at - 1) * C) < vv_tensor_get(out, at * C));
                *differ = *differ || first[y] != row || first[H + x] != column;
                assert_true(own || !*differ);
            }
}

static void batches(void **unused)
{
    (void)unused;
    vv_tensor *x = coded(false), *mask = coded(true), *out = NULL, *out_mask = NULL;
    for (int own = 0; own < 2; own++) {
        const vv_colout_opts opts = {0.3, 0.2, !own, VV_COLOUT_AUTO};
        bool resized, differ;
        vv_rng rng = vv_rng_at(2, "test", 7), again = vv_rng_at(2, "test", 7);
        assert_ok(vv_colout_batch(&out, &out_mask, x, mask, &opts, &rng, &resized));
        assert_true(resized);
        assert_int_equal(out->shape[1], 7);
        assert_int_equal(out->shape[2], 5);
        assert_int_equal(out_mask->dtype, VV_I32);
        check_batch(out, out_mask, own, &differ);
        assert_int_equal(differ, own);
        vv_tensor *same = NULL;
        assert_ok(vv_colout_batch(&same, NULL, x, NULL, &opts, &again, NULL));
        assert_memory_equal(same->data, out->data, out->bytes);
        vv_tensor_free(same);
    }
    const vv_colout_opts none = {0, 0, true, VV_COLOUT_FALSE},
                         must = {0.3, 0.3, true, VV_COLOUT_TRUE};
    bool resized;
    vv_rng rng = vv_rng_at(2, "test", 8);
    assert_ok(vv_colout_batch(&out, &out_mask, x, mask, &none, &rng, &resized));
    assert_false(resized);
    assert_memory_equal(out->data, x->data, x->bytes);
    vv_tensor *labels;
    const int64_t n = N;
    assert_ok(vv_tensor_new(&labels, VV_I32, 1, &n));
    assert_fails(vv_colout_batch(&out, &out_mask, x, labels, &must, &rng, &resized), VV_ESHAPE);
    assert_fails(vv_colout_batch(&out, &out_mask, labels, NULL, &none, &rng, NULL), VV_ESHAPE);
    assert_fails(vv_colout_take(&x, x, (int64_t[]){0}, 1, (int64_t[]){0}, 1, false), VV_EINVAL);
    assert_fails(vv_colout_take(&out, x, (int64_t[]){H}, 1, (int64_t[]){0}, 1, false), VV_EINVAL);
    vv_tensor_free(labels);
    vv_tensor_free(x);
    vv_tensor_free(mask);
    vv_tensor_free(out);
    vv_tensor_free(out_mask);
}

static void method(void **unused)
{
    (void)unused;
    const vv_colout_opts defaults = VV_COLOUT_DEFAULTS;
    vv_method *m = vv_colout(NULL);
    const int64_t n = N;
    vv_tensor *labels, *expected = NULL;
    assert_ok(vv_tensor_new(&labels, VV_I32, 1, &n));
    vv_batch batch = {.input = coded(false), .target = labels, .count = N};
    vv_state state = {.seed = 5, .batch = &batch, .time = {.batch = 3}};
    vv_rng rng = vv_state_rng(&state, "colout");
    assert_ok(vv_colout_batch(&expected, NULL, batch.input, NULL, NULL, &rng, NULL));
    assert_ok(m->type->apply(m, VV_EVENT_AFTER_DATALOADER, &state));
    assert_memory_equal(batch.input->data, expected->data, expected->bytes);
    assert_ptr_equal(batch.target, labels);
    assert_int_equal(batch.input->shape[1], 9); /* 8.5 rounds up */
    vv_tensor_free(batch.input);
    vv_tensor_free(labels);
    vv_tensor_free(expected);
    vv_str ours = {0}, table = {0};
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
    vv_colout_opts bad = VV_COLOUT_DEFAULTS;
    bad.p_row = -0.1;
    assert_null(vv_colout(&bad));
    assert_says("p_row");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(draws),
                                       cmocka_unit_test(batches), cmocka_unit_test(method)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
