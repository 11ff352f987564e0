/* test_loader_memory.c - in the steady state a loader allocates nothing; tensors somebody still
 * holds are never written; batches may outlive their loader; threads stop at once, whatever they
 * are doing; a failing sample or allocation is an error with the worker's sentence, leaks nothing,
 * and the same batch can be tried again. */
#include <pthread.h>
#include <unistd.h>

#include "data_case.h"

static void steady_state_allocates_nothing(void **state)
{
    (void)state;
    vv_dataset *set = case_set(50);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 8;
    opts.shuffle = true;
    opts.transform = case_transform;
    for (opts.workers = 0; opts.workers <= 3; opts.workers++) {
        vv_loader *loader = case_loader(set, &opts);
        uint64_t before = 0;
        for (int epoch = 0; epoch < 6; epoch++) {
            if (epoch == 2)
                before = vv_memory_alloc_count();
            for (vv_batch *batch; (batch = case_next(loader)) != NULL; vv_batch_free(batch))
                if (epoch < 2)
                    usleep(5000); /* lets the workers get as far ahead as they ever can */
        }
        assert_int_equal(vv_memory_alloc_count(), before);
        vv_loader_free(loader);
    }
    vv_dataset_free(set);
}

static void held_tensors_are_not_written(void **state)
{
    (void)state;
    vv_dataset *set = case_set(40);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 4;
    opts.transform = case_transform;
    vv_loader *loader = case_loader(set, &opts);
    enum { KEPT = 25 };
    vv_tensor *kept[KEPT], *copy[KEPT];
    for (int i = 0; i < KEPT; i++) {
        vv_batch *batch = case_next(loader);
        if (!batch)
            batch = case_next(loader);
        /* Every other one is held through a view of its rows only. */
        if (i % 2)
            assert_ok(vv_tensor_rows(&kept[i], batch->input, 1, 2));
        else
            kept[i] = vv_tensor_keep(batch->input);
        assert_ok(vv_tensor_clone(&copy[i], kept[i]));
        vv_batch_free(batch);
    }
    for (int i = 0; i < KEPT; i++) {
        assert_memory_equal(kept[i]->data, copy[i]->data, copy[i]->bytes);
        vv_tensor_free(kept[i]);
        vv_tensor_free(copy[i]);
    }
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void methods_may_replace_tensors(void **state)
{
    (void)state;
    const int64_t live = vv_memory_live_count();
    vv_dataset *set = case_set(16);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 4;
    vv_loader *loader = case_loader(set, &opts);
    for (int i = 0; i < 12; i++) {
        vv_batch *batch = case_next(loader);
        if (!batch)
            continue;
        assert_int_equal(batch->input->shape[0], 4);
        assert_null(batch->mix_target);
        vv_tensor *fewer;
        assert_ok(vv_tensor_rows(&fewer, batch->input, 0, 2));
        vv_tensor_free(batch->input);
        batch->input = fewer;
        batch->count = 2;
        batch->mix_target = vv_tensor_keep(batch->target);
        vv_batch_free(batch);
    }
    vv_loader_free(loader);
    vv_dataset_free(set);
    assert_int_equal(vv_memory_live_count(), live);
}

static void batches_outlive_their_loader(void **state)
{
    (void)state;
    const int64_t live = vv_memory_live_count();
    vv_dataset *set = case_set(16);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 4;
    opts.shuffle = true;
    vv_loader *loader = case_loader(set, &opts);
    vv_batch *batch = case_next(loader), *rows, *none;
    const int64_t sample = batch->sample[3];
    assert_ok(vv_batch_rows(&rows, batch, 2, 2));
    assert_int_equal(rows->sample[1], sample);
    assert_fails(vv_batch_rows(&none, batch, 2, 3), VV_EINVAL);
    assert_null(none);
    vv_loader_free(loader);
    vv_dataset_free(set);
    assert_int_equal(batch->sample[3], sample);
    vv_batch_free(batch);
    assert_int_equal(rows->sample[1], sample);
    vv_batch_free(rows);
    vv_batch_free(NULL);
    vv_loader_free(NULL);
    vv_dataset_free(NULL);
    assert_int_equal(vv_memory_live_count(), live);
}

/* A set whose samples are slow or fail on demand. */
typedef struct trouble {
    _Atomic int64_t bad; /* this sample fails; -1 = none; workers may read while it is set */
    useconds_t delay_us;
} trouble;

static vv_status trouble_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const trouble *t = dataset->self;
    if (t->delay_us)
        usleep(t->delay_us);
    if (index == t->bad)
        return vv_fail(VV_EIO, "sample %lld is on a broken disk", (long long)index);
    memset(input, (int)index, CASE_PIXELS);
    memset(target, 0, 4);
    return VV_OK;
}

static const vv_dataset_class trouble_class = {.read = trouble_read};

static vv_dataset trouble_set(trouble *t, int64_t count)
{
    return (vv_dataset){
        .type = &trouble_class, .name = "trouble", .spec = case_spec, .count = count, .self = t};
}

static void a_failing_sample_is_told_and_can_be_retried(void **state)
{
    (void)state;
    trouble t = {9, 0};
    vv_dataset set = trouble_set(&t, 20);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 4;
    for (opts.workers = 0; opts.workers <= 2; opts.workers++) {
        t.bad = 9;
        vv_loader *loader = case_loader(&set, &opts);
        vv_batch *batch;
        vv_batch_free(case_next(loader));
        vv_batch_free(case_next(loader));
        for (int i = 0; i < 3; i++) {
            assert_fails(vv_loader_next(loader, &batch), VV_EIO);
            assert_says("sample 9 is on a broken disk");
            assert_null(batch);
        }
        t.bad = -1;
        batch = case_next(loader);
        assert_int_equal(batch->index, 2);
        assert_near((double)((float *)batch->input->data)[CASE_PIXELS], 9 / 255.0, 1e-7, 0);
        vv_batch_free(batch);
        vv_loader_free(loader);
    }
}

static void threads_stop_in_the_middle_of_work(void **state)
{
    (void)state;
    const int64_t live = vv_memory_live_count();
    trouble t = {-1, 2000};
    vv_dataset set = trouble_set(&t, 64);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 4;
    opts.workers = 3;
    opts.prefetch = 5;
    for (int i = 0; i < 10; i++) {
        vv_loader *loader = case_loader(&set, &opts);
        if (i % 2) {
            vv_batch_free(case_next(loader));
            assert_ok(vv_loader_seek(loader, i, i % 3));
        }
        if (i % 3 == 0)
            usleep(3000);
        vv_loader_free(loader);
    }
    assert_int_equal(vv_memory_live_count(), live);
}

static void waiting_is_measured(void **state)
{
    (void)state;
    trouble t = {-1, 5000};
    vv_dataset set = trouble_set(&t, 8);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 4;
    vv_loader *loader = case_loader(&set, &opts);
    assert_true(vv_loader_wait_seconds(loader) == 0);
    vv_batch_free(case_next(loader));
    const double first = vv_loader_wait_seconds(loader);
    assert_true(first > 0.01);
    usleep(60000); /* the second batch is ready by now */
    vv_batch_free(case_next(loader));
    assert_true(vv_loader_wait_seconds(loader) - first < first / 2);
    assert_ptr_equal(vv_loader_dataset(loader), &set);
    vv_loader_free(loader);
}

/* Opens, reads five batches and closes; the first failure ends it. */
static vv_status run_once(const vv_loader_opts *opts, const uint8_t *pixels, const int32_t *targets)
{
    vv_status status;
    vv_dataset *set = NULL;
    vv_loader *loader = NULL;
    vv_batch *batch = NULL, *rows = NULL;
    VV_GO(vv_dataset_from_arrays(&set, &case_spec, 10, pixels, targets));
    VV_GO(vv_loader_new(&loader, set, opts));
    for (int i = 0; i < 5; i++) {
        VV_GO(vv_loader_next(loader, &batch));
        if (batch)
            VV_GO(vv_batch_rows(&rows, batch, 0, 1));
        vv_batch_free(rows);
        vv_batch_free(batch);
        rows = batch = NULL;
    }
out:
    vv_batch_free(rows);
    vv_batch_free(batch);
    vv_loader_free(loader);
    vv_dataset_free(set);
    return status;
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    static uint8_t pixels[10 * CASE_PIXELS];
    static const int32_t targets[10];
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 4;
    opts.shuffle = true;
    opts.transform = case_transform;
    for (opts.workers = 0; opts.workers <= 2; opts.workers += 2) {
        const int64_t live = vv_memory_live_count();
        const uint64_t before = vv_memory_alloc_count();
        assert_ok(run_once(&opts, pixels, targets));
        const uint64_t allocations = vv_memory_alloc_count() - before;
        int failures = 0;
        for (uint64_t n = 1; n <= allocations; n++) {
            vv_error_clear();
            vv_memory_fail_at(n);
            const vv_status status = run_once(&opts, pixels, targets);
            vv_memory_fail_at(0);
            /* With threads the last allocations may be prefetched ones nobody asks for. */
            if (status != VV_OK) {
                failures++;
                assert_int_equal(status, VV_ENOMEM);
                assert_true(vv_error()[0] != '\0');
            }
            assert_int_equal(vv_memory_live_count(), live);
        }
        if (opts.workers == 0)
            assert_int_equal(failures, allocations);
        assert_true(failures > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(held_tensors_are_not_written),
        cmocka_unit_test(methods_may_replace_tensors),
        cmocka_unit_test(batches_outlive_their_loader),
        cmocka_unit_test(a_failing_sample_is_told_and_can_be_retried),
        cmocka_unit_test(threads_stop_in_the_middle_of_work),
        cmocka_unit_test(waiting_is_measured),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
