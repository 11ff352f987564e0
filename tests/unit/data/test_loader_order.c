/* test_loader_order.c - a set with an order of its own: windows over shuffled groups are
 * permutations, a function of (seed, epoch), whose windows touch few groups; a loader follows that
 * order for any number of workers and ranks, after a seek too; it tells the set what it will need,
 * in the order it will need it, each sample once, far enough ahead and across epochs; a failing
 * order fails the batch with its sentence. */
#include <vivace/ext/data_files.h>

#include "vv_test.h"

enum { COUNT = 103, GROUPS = 9, WINDOW = 20 };
static const int64_t first_of[GROUPS] = {0, 10, 11, 30, 45, 45, 60, 75, 99};

static int group_of(int64_t sample)
{
    int g = 0;
    while (g + 1 < GROUPS && first_of[g + 1] <= sample)
        g++;
    return g;
}

static void check_permutation(const int64_t *order, int64_t count)
{
    bool seen[COUNT] = {false};
    for (int64_t i = 0; i < count; i++) {
        assert_in_range(order[i], 0, count - 1);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
    }
}

static void windows_touch_few_groups(void **state)
{
    (void)state;
    int64_t order[COUNT], again[COUNT];
    for (int64_t epoch = 0; epoch < 20; epoch++) {
        assert_ok(vv_order_windows(order, COUNT, first_of, GROUPS, WINDOW, 7, epoch));
        check_permutation(order, COUNT);
        for (int64_t from = 0; from < COUNT; from += WINDOW) {
            bool touched[GROUPS] = {false};
            int64_t groups = 0, inside = 0;
            for (int64_t i = from; i < COUNT && i < from + WINDOW; i++) {
                groups += !touched[group_of(order[i])];
                touched[group_of(order[i])] = true;
            }
            for (int g = 0; g < GROUPS; g++) /* whole ones, and a part at either end */
                inside += touched[g] ? (g + 1 < GROUPS ? first_of[g + 1] : COUNT) - first_of[g] : 0;
            assert_true(inside <= WINDOW + 2 * 24);
            assert_true(groups <= 5);
        }
        assert_ok(vv_order_windows(again, COUNT, first_of, GROUPS, WINDOW, 7, epoch));
        assert_memory_equal(order, again, sizeof order);
        assert_ok(vv_order_windows(again, COUNT, first_of, GROUPS, WINDOW, 7, epoch + 1));
        assert_memory_not_equal(order, again, sizeof order);
        assert_ok(vv_order_windows(again, COUNT, first_of, GROUPS, WINDOW, 8, epoch));
        assert_memory_not_equal(order, again, sizeof order);
        assert_ok(vv_order_windows(again, 50, first_of, GROUPS, WINDOW, 7, epoch));
        check_permutation(again, 50);
    }
    assert_fails(vv_order_windows(order, COUNT, first_of, GROUPS, 0, 7, 0), VV_EINVAL);
}

/* A set of numbers that writes down what it is told. */
typedef struct grouped {
    bool failing;
    int64_t told[4 * COUNT];
    int told_count;
} grouped;

static vv_status read_number(vv_dataset *set, int64_t index, void *input, void *target)
{
    (void)set;
    if (input)
        *(float *)input = (float)index;
    if (target)
        *(int32_t *)target = 0;
    return VV_OK;
}

static vv_status order_of(vv_dataset *set, uint64_t seed, int64_t epoch, int64_t count,
                          int64_t *out)
{
    const grouped *self = set->self;
    if (self->failing)
        return vv_fail(VV_EIO, "no order today");
    return vv_order_windows(out, count, first_of, GROUPS, WINDOW, seed, epoch);
}

static void soon(vv_dataset *set, const int64_t *indices, int64_t count)
{
    grouped *self = set->self;
    for (int64_t i = 0; i < count && self->told_count < 4 * COUNT; i++)
        self->told[self->told_count++] = indices[i];
}

static const vv_dataset_class class = {.read = read_number, .order = order_of, .soon = soon};

static vv_dataset make_set(grouped *self)
{
    return (vv_dataset){.type = &class,
                        .name = "grouped",
                        .spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .classes = 1},
                        .count = COUNT,
                        .lookahead = 25,
                        .self = self};
}

/* The samples of three epochs from a batch on; rank r's rows come one after the other. */
static int gather(int64_t *out, int workers, int ranks, int64_t from)
{
    int total = 0;
    vv_loader *loaders[3];
    grouped self[3] = {0};
    vv_dataset sets[3];
    for (int r = 0; r < ranks; r++) {
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        opts.batch_size = 16;
        opts.shuffle = true;
        opts.seed = 5;
        opts.workers = workers;
        opts.rank = r;
        opts.ranks = ranks;
        sets[r] = make_set(&self[r]);
        assert_ok(vv_loader_new(&loaders[r], &sets[r], &opts));
        assert_ok(vv_loader_seek(loaders[r], 0, from));
    }
    for (int64_t b = from; b < 3 * 7 + 2; b++)
        for (int r = 0; r < ranks; r++) {
            vv_batch *batch;
            assert_ok(vv_loader_next(loaders[r], &batch));
            for (int64_t i = 0; batch && i < batch->count; i++) {
                assert_near((double)((float *)batch->input->data)[i], (double)batch->sample[i], 0,
                            0);
                out[total++] = batch->sample[i];
            }
            vv_batch_free(batch);
        }
    for (int r = 0; r < ranks; r++)
        vv_loader_free(loaders[r]);
    return total;
}

static void loaders_follow_it(void **state)
{
    (void)state;
    static int64_t want[3 * COUNT], have[3 * COUNT];
    for (int e = 0; e < 3; e++)
        assert_ok(vv_order_windows(want + e * COUNT, COUNT, first_of, GROUPS, WINDOW, 5, e));
    for (int workers = 0; workers < 4; workers++)
        for (int ranks = 1; ranks < 4; ranks++) {
            assert_int_equal(gather(have, workers, ranks, 0), 3 * COUNT);
            assert_memory_equal(have, want, sizeof want);
        }
    assert_int_equal(gather(have, 2, 1, 3), 3 * COUNT - 48);
    assert_memory_equal(have, want + 48, sizeof want - 48 * sizeof *want);
}

static void what_comes_is_told(void **state)
{
    (void)state;
    int64_t order[2 * COUNT];
    grouped self = {0};
    vv_dataset set = make_set(&self);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_loader *loader;
    vv_batch *batch;
    for (int e = 0; e < 2; e++)
        assert_ok(vv_order_windows(order + e * COUNT, COUNT, first_of, GROUPS, WINDOW, 0, e));
    opts.batch_size = 16;
    opts.shuffle = true;
    opts.workers = 0;
    assert_ok(vv_loader_new(&loader, &set, &opts));
    for (int b = 0; b < 7; b++) {
        assert_ok(vv_loader_next(loader, &batch));
        const int rows = b < 6 ? 16 * (b + 1) : COUNT;
        assert_int_equal(self.told_count, rows + 25);
        assert_memory_equal(self.told, order, (size_t)self.told_count * sizeof *order);
        vv_batch_free(batch);
    }
    self.told_count = 0;
    assert_ok(vv_loader_seek(loader, 0, 2));
    assert_ok(vv_loader_next(loader, &batch));
    vv_batch_free(batch);
    assert_int_equal(self.told_count, 16 + 25);
    assert_memory_equal(self.told, order + 32, 41 * sizeof *order);
    vv_loader_free(loader);
}

static void failing_order(void **state)
{
    (void)state;
    grouped self = {.failing = true};
    vv_dataset set = make_set(&self);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_loader *loader;
    vv_batch *batch;
    opts.shuffle = true;
    opts.batch_size = 16;
    for (int workers = 0; workers < 2; workers++) {
        opts.workers = workers;
        self.failing = true;
        assert_ok(vv_loader_new(&loader, &set, &opts));
        assert_fails(vv_loader_next(loader, &batch), VV_EIO);
        assert_says("no order today");
        self.failing = false;
        assert_ok(vv_loader_next(loader, &batch)); /* the same batch again */
        assert_int_equal(batch->index, 0);
        vv_batch_free(batch);
        vv_loader_free(loader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_touch_few_groups),
        cmocka_unit_test(loaders_follow_it),
        cmocka_unit_test(what_comes_is_told),
        cmocka_unit_test(failing_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
