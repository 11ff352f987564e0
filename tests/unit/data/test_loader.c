/* test_loader.c - a batch is a pure function of (seed, epoch, position): the same for any number of
 * workers, however it was reached; each epoch is a permutation and epochs differ; ranks share out
 * exactly the global batch; sizes at the end of an epoch are as asked for. */
#include "data_case.h"

static void same_batches_for_any_workers(void **state)
{
    (void)state;
    static const struct {
        int workers, prefetch;
    } cases[] = {{1, 1}, {1, 4}, {3, 2}, {3, 7}, {2, 0}};
    vv_dataset *set = case_set(53);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 8;
    opts.shuffle = true;
    opts.seed = 17;
    opts.transform = case_transform;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        opts.workers = 0;
        vv_loader *plain = case_loader(set, &opts);
        opts.workers = cases[c].workers;
        opts.prefetch = cases[c].prefetch;
        vv_loader *threads = case_loader(set, &opts);
        for (int i = 0; i < 3 * 8; i++) { /* 7 batches and the end, three epochs */
            vv_batch *a = case_next(plain), *b = case_next(threads);
            assert_int_equal(a == NULL, i % 8 == 7);
            assert_int_equal(b == NULL, i % 8 == 7);
            if (a) {
                assert_int_equal(a->epoch, i / 8);
                assert_int_equal(a->index, i % 8);
                assert_same_batch(a, b);
            }
            vv_batch_free(a);
            vv_batch_free(b);
        }
        vv_loader_free(plain);
        vv_loader_free(threads);
    }
    vv_dataset_free(set);
}

static void rows_are_the_samples(void **state)
{
    (void)state;
    vv_dataset *set = case_set(20);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 6;
    opts.shuffle = true;
    opts.transform = case_transform;
    vv_loader *loader = case_loader(set, &opts);
    float one[CASE_PIXELS];
    int64_t rows = 0;
    for (vv_batch *batch; (batch = case_next(loader)) != NULL; vv_batch_free(batch)) {
        const float *input = batch->input->data;
        const int32_t *target = batch->target->data;
        assert_int_equal(batch->input->ndim, 4);
        assert_int_equal(batch->input->shape[0], batch->count);
        assert_int_equal(batch->input->shape[3], CASE_CHANNELS);
        for (int64_t i = 0; i < batch->count; i++, rows++) {
            assert_ok(vv_loader_sample(loader, 0, batch->sample[i], one));
            assert_memory_equal(input + i * CASE_PIXELS, one, sizeof one);
            assert_int_equal(target[i], batch->sample[i] % 7);
        }
    }
    assert_int_equal(rows, 20);
    assert_fails(vv_loader_sample(loader, 0, 20, one), VV_EINVAL);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

/* Reads one epoch's order into `order`; returns the number of samples. */
static int64_t read_order(vv_loader *loader, int64_t *order)
{
    int64_t count = 0;
    for (vv_batch *batch; (batch = case_next(loader)) != NULL; vv_batch_free(batch))
        for (int64_t i = 0; i < batch->count; i++)
            order[count++] = batch->sample[i];
    return count;
}

static void each_epoch_is_another_permutation(void **state)
{
    (void)state;
    int64_t order[3][101];
    vv_dataset *set = case_set(101);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 10;
    opts.shuffle = true;
    vv_loader *loader = case_loader(set, &opts);
    for (int e = 0; e < 2; e++) {
        int seen[101] = {0};
        assert_int_equal(read_order(loader, order[e]), 101);
        for (int i = 0; i < 101; i++)
            seen[order[e][i]]++;
        for (int i = 0; i < 101; i++)
            assert_int_equal(seen[i], 1);
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    vv_loader_free(loader);
    opts.seed = 1;
    loader = case_loader(set, &opts);
    assert_int_equal(read_order(loader, order[2]), 101);
    assert_memory_not_equal(order[0], order[2], sizeof order[0]);
    vv_loader_free(loader);
    opts.shuffle = false;
    loader = case_loader(set, &opts);
    assert_int_equal(read_order(loader, order[2]), 101);
    for (int i = 0; i < 101; i++)
        assert_int_equal(order[2][i], i);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void counts_at_the_end_of_an_epoch(void **state)
{
    (void)state;
    static const struct {
        int64_t count, batch, limit;
        bool drop;
        int64_t batches, last;
    } cases[] = {
        {10, 4, 0, false, 3, 2}, {10, 4, 0, true, 2, 4},    {8, 4, 0, false, 2, 4},
        {8, 4, 0, true, 2, 4},   {10, 16, 0, false, 1, 10}, {10, 16, 0, true, 0, 0},
        {10, 4, 5, false, 2, 1}, {10, 4, 5, true, 1, 4},    {10, 4, 99, false, 3, 2},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        vv_dataset *set = case_set(cases[c].count);
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        opts.batch_size = cases[c].batch;
        opts.drop_last = cases[c].drop;
        opts.limit = cases[c].limit;
        opts.shuffle = true;
        vv_loader *loader = case_loader(set, &opts);
        assert_int_equal(vv_loader_batch_count(loader), cases[c].batches);
        assert_int_equal(vv_loader_batch_size(loader), cases[c].batch);
        int64_t rows = 0;
        for (int epoch = 0; epoch < 2; epoch++) {
            int64_t batches = 0, last = 0;
            for (vv_batch *batch; (batch = case_next(loader)) != NULL; vv_batch_free(batch)) {
                batches++;
                rows += epoch == 0 ? batch->count : 0;
                last = batch->count;
                assert_int_equal(batch->input->shape[0], last);
                for (int64_t i = 0; i < last && cases[c].limit; i++)
                    assert_in_range(batch->sample[i], 0, cases[c].limit - 1);
            }
            assert_int_equal(batches, cases[c].batches);
            assert_int_equal(last, cases[c].last);
            assert_int_equal(rows, vv_loader_sample_count(loader));
        }
        vv_loader_free(loader);
        vv_dataset_free(set);
    }
}

static void seek_equals_having_read_up_to_there(void **state)
{
    (void)state;
    vv_dataset *set = case_set(10);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 2;
    opts.shuffle = true;
    opts.transform = case_transform;
    for (opts.workers = 0; opts.workers <= 2; opts.workers++) {
        /* Stopped after batch 3, 7 and at an epoch's end, and three times in a row. */
        static const int stops[] = {3, 7, 10, 0, 5, 4, 14, 13, 12};
        for (size_t s = 0; s < sizeof stops / sizeof *stops; s++) {
            vv_loader *whole = case_loader(set, &opts), *resumed = case_loader(set, &opts);
            vv_batch *skipped = case_next(resumed); /* what was prefetched is dropped */
            vv_batch_free(skipped);
            assert_ok(vv_loader_seek(resumed, stops[s] / 5, stops[s] % 5));
            for (int i = 0; i < 20; i++) {
                vv_batch *a = case_next(whole);
                if (!a)
                    a = case_next(whole);
                if (i >= stops[s]) {
                    vv_batch *b = case_next(resumed);
                    if (!b)
                        b = case_next(resumed);
                    assert_same_batch(a, b);
                    vv_batch_free(b);
                }
                vv_batch_free(a);
            }
            vv_loader_free(whole);
            vv_loader_free(resumed);
        }
    }
    opts.workers = 1;
    vv_loader *loader = case_loader(set, &opts);
    assert_ok(vv_loader_seek(loader, 4, 5)); /* the end of epoch 4 */
    assert_null(case_next(loader));
    vv_batch *first = case_next(loader);
    assert_int_equal(first->epoch, 5);
    assert_int_equal(first->index, 0);
    vv_batch_free(first);
    assert_ok(vv_loader_seek(loader, (int64_t)1 << 40, 2)); /* a far position costs nothing more */
    first = case_next(loader);
    assert_int_equal(first->epoch, (int64_t)1 << 40);
    vv_batch_free(first);
    assert_fails(vv_loader_seek(loader, 0, 6), VV_EINVAL);
    assert_fails(vv_loader_seek(loader, -1, 0), VV_EINVAL);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void ranks_share_the_global_batch(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++) {
        vv_dataset *set = case_set(43);
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        opts.batch_size = 10;
        opts.shuffle = true;
        opts.transform = case_transform;
        vv_loader *whole = case_loader(set, &opts), *part[5];
        opts.ranks = ranks;
        for (opts.rank = 0; opts.rank < ranks; opts.rank++) {
            part[opts.rank] = case_loader(set, &opts);
            assert_int_equal(vv_loader_batch_count(part[opts.rank]), 5);
        }
        for (int b = 0; b < 5; b++) {
            vv_batch *all = case_next(whole);
            int64_t at = 0;
            for (int r = 0; r < ranks; r++) {
                vv_batch *share = case_next(part[r]), *rows;
                assert_in_range(share->count, all->count / ranks, all->count / ranks + 1);
                assert_ok(vv_batch_rows(&rows, all, at, share->count));
                assert_same_batch(rows, share);
                at += share->count;
                vv_batch_free(rows);
                vv_batch_free(share);
            }
            assert_int_equal(at, all->count);
            vv_batch_free(all);
        }
        for (int r = 0; r < ranks; r++)
            vv_loader_free(part[r]);
        vv_loader_free(whole);
        vv_dataset_free(set);
    }
}

static void copies_what_is_not_an_image(void **state)
{
    (void)state;
    const vv_sample_spec spec = {.input_dtype = VV_F32,
                                 .target_dtype = VV_F32,
                                 .input_ndim = 1,
                                 .target_ndim = 2,
                                 .input_shape = {2},
                                 .target_shape = {1, 3}};
    const float inputs[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    const float targets[4][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {.5f, .5f, 0}};
    vv_dataset *set;
    assert_ok(vv_dataset_from_arrays(&set, &spec, 4, inputs, targets));
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 3;
    vv_loader *loader = case_loader(set, &opts);
    vv_batch *batch = case_next(loader);
    assert_int_equal(batch->input->ndim, 2);
    assert_int_equal(batch->target->ndim, 3);
    assert_memory_equal(batch->input->data, inputs, 6 * sizeof(float));
    assert_memory_equal(batch->target->data, targets, 9 * sizeof(float));
    vv_batch_free(batch);
    vv_loader_free(loader);
    opts.transform.flip = true;
    assert_fails(vv_loader_new(&loader, set, &opts), VV_ETYPE);
    assert_says("u8 images");
    vv_dataset_free(set);
}

static void refuses_wrong_options(void **state)
{
    (void)state;
    vv_dataset *set = case_set(4);
    vv_loader *loader;
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 0;
    assert_fails(vv_loader_new(&loader, set, &opts), VV_EINVAL);
    assert_null(loader);
    opts = (vv_loader_opts)VV_LOADER_DEFAULTS;
    opts.workers = -1;
    assert_fails(vv_loader_new(&loader, set, &opts), VV_EINVAL);
    opts = (vv_loader_opts)VV_LOADER_DEFAULTS;
    opts.prefetch = 5000;
    assert_fails(vv_loader_new(&loader, set, &opts), VV_EINVAL);
    opts = (vv_loader_opts)VV_LOADER_DEFAULTS;
    opts.rank = opts.ranks = 3;
    assert_fails(vv_loader_new(&loader, set, &opts), VV_EINVAL);
    assert_says("rank 3 of 3");
    opts = (vv_loader_opts)VV_LOADER_DEFAULTS;
    opts.transform.crop_pad = 6;
    assert_fails(vv_loader_new(&loader, set, &opts), VV_EINVAL);
    assert_says("crop_pad 6");
    opts.transform.crop_pad = 0;
    opts.transform.normalise = true;
    set->spec.std[1] = 0;
    assert_fails(vv_loader_new(&loader, set, &opts), VV_EINVAL);
    assert_says("std of channel 1");
    vv_dataset_free(set);
}

static void refuses_wrong_arrays(void **state)
{
    (void)state;
    vv_dataset *set;
    const uint8_t inputs[2] = {1, 2};
    const int32_t targets[2] = {0, 7};
    vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .classes = 7};
    assert_fails(vv_dataset_from_arrays(&set, &spec, 2, inputs, targets), VV_EFORMAT);
    assert_says("sample 1 is 7");
    assert_null(set);
    assert_fails(vv_dataset_from_arrays(&set, &spec, 0, inputs, targets), VV_EINVAL);
    spec.input_ndim = VV_MAX_DIMS;
    assert_fails(vv_dataset_from_arrays(&set, &spec, 1, inputs, targets), VV_ESHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_batches_for_any_workers),
        cmocka_unit_test(rows_are_the_samples),
        cmocka_unit_test(each_epoch_is_another_permutation),
        cmocka_unit_test(counts_at_the_end_of_an_epoch),
        cmocka_unit_test(seek_equals_having_read_up_to_there),
        cmocka_unit_test(ranks_share_the_global_batch),
        cmocka_unit_test(copies_what_is_not_an_image),
        cmocka_unit_test(refuses_wrong_options),
        cmocka_unit_test(refuses_wrong_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
