/* test_loader_hooks.c - what must hold: a change added to a loader is applied to every image, in
 * the order added, with draws that are a function of (seed, name, epoch, index): the same for any
 * number of workers and after a seek; adding it again replaces it; taking it out gives the old
 * batches; alternating flip shows both views in any two epochs. */
#include "data_case.h"

typedef struct knob {
    int add;
} knob;

/* Adds ctx->add and a draw to every byte. */
static vv_status shift(const void *ctx, vv_augment_call *call, uint8_t *image, uint8_t *scratch)
{
    const knob *k = ctx;
    const int64_t count = call->shape.height * call->shape.width * call->shape.channels;
    const int draw = (int)vv_rng_below(&call->rng, 50);
    memset(scratch, 0xee, (size_t)count); /* ours to write */
    for (int64_t i = 0; i < count; i++)
        image[i] = (uint8_t)(image[i] / 4 + k->add + draw);
    return VV_OK;
}

static vv_status invert(const void *ctx, vv_augment_call *call, uint8_t *image, uint8_t *scratch)
{
    (void)ctx;
    (void)scratch;
    for (int64_t i = 0; i < call->shape.height * call->shape.width * call->shape.channels; i++)
        image[i] = (uint8_t)(255 - image[i]);
    return VV_OK;
}

static vv_status refuse(const void *ctx, vv_augment_call *call, uint8_t *image, uint8_t *scratch)
{
    (void)ctx;
    (void)image;
    (void)scratch;
    return call->index == 4 ? vv_fail(VV_EUNSUPPORTED, "not this one") : VV_OK;
}

static vv_loader *new_loader(vv_dataset *set, int workers, bool transform)
{
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 8;
    opts.shuffle = true;
    opts.seed = 17;
    opts.workers = workers;
    if (transform)
        opts.transform = case_transform;
    return case_loader(set, &opts);
}

static void same_for_any_workers_and_after_a_seek(void **state)
{
    (void)state;
    static const knob k = {3};
    vv_dataset *set = case_set(29);
    vv_loader *plain = new_loader(set, 0, true), *threads = new_loader(set, 3, true);
    vv_loader *late = new_loader(set, 2, true);
    vv_batch_free(case_next(late)); /* prefetched without the change */
    assert_ok(vv_loader_set_augment(plain, "shift", shift, &k));
    assert_ok(vv_loader_set_augment(threads, "shift", shift, &k));
    assert_ok(vv_loader_set_augment(late, "shift", shift, &k));
    vv_batch_free(case_next(plain));
    vv_batch_free(case_next(threads));
    for (int i = 1; i < 10; i++) {
        vv_batch *a = case_next(plain), *b = case_next(threads), *c = case_next(late);
        assert_int_equal(a == NULL, i % 5 == 4);
        if (a) {
            assert_same_batch(a, b);
            assert_same_batch(a, c);
        }
        if (i == 7) {
            assert_ok(vv_loader_seek(threads, 1, 1));
            vv_batch_free(case_next(threads));
            assert_ok(vv_loader_seek(threads, 1, 2));
            vv_batch *again = case_next(threads);
            assert_same_batch(a, again);
            vv_batch_free(again);
        }
        vv_batch_free(a);
        vv_batch_free(b);
        vv_batch_free(c);
    }
    vv_loader_free(plain);
    vv_loader_free(threads);
    vv_loader_free(late);
    vv_dataset_free(set);
}

static void replaced_ordered_and_taken_out(void **state)
{
    (void)state;
    static const knob small = {1}, large = {100};
    enum { BYTES = CASE_PIXELS };
    vv_dataset *set = case_set(9);
    vv_loader *loader = new_loader(set, 1, false);
    float plain[BYTES], once[BYTES], twice[BYTES], other[BYTES];
    assert_ok(vv_loader_sample(loader, 2, 5, plain));
    assert_ok(vv_loader_set_augment(loader, "a", shift, &small));
    assert_ok(vv_loader_sample(loader, 2, 5, once));
    assert_ok(vv_loader_set_augment(loader, "a", shift, &small)); /* not a second time */
    assert_ok(vv_loader_sample(loader, 2, 5, twice));
    assert_memory_equal(once, twice, sizeof once);
    assert_ok(vv_loader_set_augment(loader, "a", shift, &large));
    assert_ok(vv_loader_sample(loader, 2, 5, other));
    for (int i = 0; i < BYTES; i++)
        assert_near((double)(other[i] - once[i]) * 255, 99, 1e-3, 0);
    assert_ok(vv_loader_set_augment(loader, "b", invert, NULL)); /* after the first */
    assert_ok(vv_loader_sample(loader, 2, 5, twice));
    for (int i = 0; i < BYTES; i++)
        assert_near((double)twice[i], 1 - (double)other[i], 1e-6, 0);
    assert_ok(vv_loader_sample(loader, 3, 5, once)); /* another epoch, another draw */
    assert_ok(vv_loader_set_augment(loader, "a", NULL, NULL));
    assert_ok(vv_loader_sample(loader, 2, 5, other));
    for (int i = 0; i < BYTES; i++)
        assert_near((double)other[i], 1 - (double)plain[i], 1e-6, 0);
    assert_ok(vv_loader_set_augment(loader, "b", NULL, NULL));
    assert_ok(vv_loader_set_augment(loader, "never", NULL, NULL));
    assert_ok(vv_loader_sample(loader, 2, 5, other));
    assert_memory_equal(plain, other, sizeof plain);
    assert_fails(vv_loader_set_augment(loader, "", shift, &small), VV_EINVAL);
    /* A change that fails says of which sample. */
    assert_ok(vv_loader_set_augment(loader, "picky", refuse, NULL));
    vv_batch *batch;
    vv_status status = VV_OK;
    for (int i = 0; i < 2 && status == VV_OK; i++) {
        status = vv_loader_next(loader, &batch);
        if (status == VV_OK)
            vv_batch_free(batch);
    }
    assert_int_equal(status, VV_EUNSUPPORTED);
    assert_says("picky of sample 4: not this one");
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void alternating_flip(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    vv_dataset *set = case_set(COUNT);
    vv_loader *loader = new_loader(set, 1, false);
    float seen[4][CASE_PIXELS], plain[CASE_PIXELS];
    int mirrored = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        assert_ok(vv_loader_set_alternating_flip(loader, false));
        assert_ok(vv_loader_sample(loader, 0, i, plain));
        assert_ok(vv_loader_set_alternating_flip(loader, true));
        for (int64_t e = 0; e < 4; e++)
            assert_ok(vv_loader_sample(loader, e, i, seen[e]));
        assert_memory_equal(seen[0], seen[2], sizeof plain);
        assert_memory_equal(seen[1], seen[3], sizeof plain);
        const bool first = memcmp(plain, seen[0], sizeof plain) == 0;
        assert_memory_equal(plain, seen[first ? 0 : 1], sizeof plain);
        const float *other = seen[first ? 1 : 0];
        for (int64_t y = 0; y < CASE_HEIGHT; y++)
            for (int64_t x = 0; x < CASE_WIDTH; x++)
                assert_memory_equal(plain + (y * CASE_WIDTH + x) * CASE_CHANNELS,
                                    other + (y * CASE_WIDTH + CASE_WIDTH - 1 - x) * CASE_CHANNELS,
                                    CASE_CHANNELS * sizeof(float));
        mirrored += !first;
    }
    assert_near(mirrored, COUNT / 2.0, 5 * sqrt(COUNT / 4.0), 0);
    assert_true(vv_loader_transform(loader)->flip == false);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void only_images(void **state)
{
    (void)state;
    const vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                                 .input_shape = {2}, .classes = 2};
    static const float inputs[4] = {0};
    static const int32_t targets[2] = {0};
    const vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_dataset *set;
    vv_loader *loader;
    assert_ok(vv_dataset_from_arrays(&set, &spec, 2, inputs, targets));
    assert_ok(vv_loader_new(&loader, set, &opts));
    assert_fails(vv_loader_set_augment(loader, "b", invert, NULL), VV_ETYPE);
    assert_fails(vv_loader_set_alternating_flip(loader, true), VV_ETYPE);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_any_workers_and_after_a_seek),
        cmocka_unit_test(replaced_ordered_and_taken_out),
        cmocka_unit_test(alternating_flip),
        cmocka_unit_test(only_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
