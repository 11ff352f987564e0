/* test_loader_stages.c - batches that change in size: where each begins is a function of the
 * position alone, however it is reached, with any number of workers; an epoch still gives each
 * sample once; counts of epochs, batches and samples agree with what comes; ranks share each batch;
 * taking the stages off leaves a loader as it was. */
#include "data_case.h"

#include "data/layout.h"

#define COUNT 23

typedef struct layout_case {
    vv_loader_stage stages[3];
    int count;
    bool drop_last;
} layout_case;

/* Boundaries within epochs, at their ends, several in one, and one that a batch jumps over. */
static const layout_case layouts[] = {
    {{{0, 4}, {30, 7}}, 2, false},         {{{0, 4}, {30, 7}}, 2, true},
    {{{0, 2}, {46, 5}, {69, 9}}, 3, false}, {{{0, 2}, {10, 3}, {12, 8}}, 3, true},
    {{{0, 10}, {3, 2}, {8, 6}}, 3, false},  {{{0, 6}, {60, 1}}, 2, true},
    {{{0, 23}, {100, 5}}, 2, false},
};
#define LAYOUTS (int)(sizeof layouts / sizeof *layouts)

static vv_loader *loader_with(vv_dataset *set, const layout_case *c, int workers, int rank,
                              int ranks)
{
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 5;
    opts.shuffle = true;
    opts.drop_last = c->drop_last;
    opts.seed = 7;
    opts.workers = workers;
    opts.prefetch = 3;
    opts.rank = rank;
    opts.ranks = ranks;
    opts.transform = case_transform;
    vv_loader *loader = case_loader(set, &opts);
    assert_ok(vv_loader_set_stages(loader, c->stages, c->count));
    return loader;
}

/* The rule, step by step: a batch has the size of the stage it begins in. */
static int64_t size_at(const layout_case *c, int64_t position)
{
    int i = c->count - 1;
    while (c->stages[i].from > position)
        i--;
    return c->stages[i].size;
}

static void follows_the_rule(void **state)
{
    (void)state;
    vv_dataset *set = case_set(COUNT);
    for (int k = 0; k < LAYOUTS; k++) {
        const layout_case *c = &layouts[k];
        vv_loader *loader = loader_with(set, c, 0, 0, 1);
        const vvi_layout *layout = vvi_loader_layout(loader);
        int64_t number = 0, samples = 0;
        for (int64_t epoch = 0; epoch < 8; epoch++) {
            int seen[COUNT] = {0};
            int64_t first = 0, batch = 0, before, samples_before;
            vvi_layout_before(layout, epoch, &before, &samples_before);
            assert_int_equal(before, number);
            assert_int_equal(samples_before, samples);
            for (vv_batch *b; (b = case_next(loader)); vv_batch_free(b), batch++, number++) {
                int64_t rows = size_at(c, epoch * COUNT + first);
                rows = rows < COUNT - first ? rows : COUNT - first;
                assert_int_equal(b->count, rows);
                assert_int_equal(b->input->shape[0], rows);
                assert_int_equal(b->epoch, epoch);
                assert_int_equal(b->index, batch);
                for (int64_t i = 0; i < rows; i++)
                    seen[b->sample[i]]++;
                const vvi_place at = vvi_layout_find(layout, number);
                assert_int_equal(at.epoch, epoch);
                assert_int_equal(at.batch, batch);
                assert_int_equal(at.first, first);
                assert_int_equal(at.rows, rows);
                /* the fewest batches that have as many samples as up to here, and one more */
                assert_int_equal(vvi_layout_batches_for(layout, samples), number);
                assert_int_equal(vvi_layout_batches_for(layout, samples + 1), number + 1);
                assert_int_equal(vvi_layout_batches_to(layout, epoch * COUNT + first), number);
                first += rows;
                samples += rows;
            }
            assert_int_equal(vv_loader_epoch_batches(loader, epoch), batch);
            assert_int_equal(vv_loader_epoch_samples(loader, epoch), first);
            assert_true(c->drop_last ? COUNT - first < size_at(c, epoch * COUNT + first)
                                     : first == COUNT);
            for (int i = 0; i < COUNT; i++)
                assert_true(seen[i] == 1 || (c->drop_last && seen[i] == 0));
        }
        assert_int_equal(vv_loader_batch_size(loader), 5);
        vv_loader_free(loader);
    }
    vv_dataset_free(set);
}

/* Workers read ahead across stages and epochs; seeking anywhere gives what reading gives. */
static void any_way_to_a_position(void **state)
{
    (void)state;
    vv_dataset *set = case_set(COUNT);
    for (int k = 0; k < LAYOUTS; k++) {
        vv_loader *plain = loader_with(set, &layouts[k], 0, 0, 1);
        vv_loader *ahead = loader_with(set, &layouts[k], 2, 0, 1);
        vv_loader *seeker = loader_with(set, &layouts[k], 1, 0, 1);
        for (int64_t epoch = 0; epoch < 6; epoch++)
            for (int64_t batch = 0;; batch++) {
                vv_batch *a = case_next(plain), *b = case_next(ahead);
                assert_int_equal(!a, !b);
                if (!a)
                    break;
                assert_ok(vv_loader_seek(seeker, epoch, batch));
                vv_batch *c = case_next(seeker);
                assert_same_batch(a, b);
                assert_same_batch(a, c);
                vv_batch_free(a);
                vv_batch_free(b);
                vv_batch_free(c);
            }
        assert_ok(vv_loader_seek(seeker, 1000000007, 0)); /* far away at once */
        vv_batch *far = case_next(seeker);
        assert_int_equal(far->count, layouts[k].stages[layouts[k].count - 1].size);
        vv_batch_free(far);
        vv_loader_free(plain);
        vv_loader_free(ahead);
        vv_loader_free(seeker);
    }
    vv_dataset_free(set);
}

static void ranks_share_each_batch(void **state)
{
    (void)state;
    vv_dataset *set = case_set(COUNT);
    vv_loader *whole = loader_with(set, &layouts[0], 0, 0, 1);
    vv_loader *part[3];
    for (int r = 0; r < 3; r++)
        part[r] = loader_with(set, &layouts[0], 0, r, 3);
    for (int i = 0; i < 14; i++) {
        vv_batch *all = case_next(whole);
        int64_t at = 0;
        for (int r = 0; r < 3; r++) {
            vv_batch *share = case_next(part[r]);
            assert_int_equal(!all, !share);
            for (int64_t k = 0; share && k < share->count; k++)
                assert_int_equal(share->sample[k], all->sample[at++]);
            vv_batch_free(share);
        }
        assert_int_equal(at, all ? all->count : 0);
        vv_batch_free(all);
    }
    vv_loader_free(whole);
    for (int r = 0; r < 3; r++)
        vv_loader_free(part[r]);
    vv_dataset_free(set);
}

static void set_and_taken_off(void **state)
{
    (void)state;
    const vv_loader_stage late[] = {{1, 4}}, twice[] = {{0, 4}, {0, 5}}, none[] = {{0, 0}},
                          wide[] = {{0, 4}, {50, 24}};
    vv_dataset *set = case_set(COUNT);
    layout_case c = layouts[0];
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 5;
    opts.shuffle = true;
    opts.seed = 7;
    opts.workers = 2;
    opts.transform = case_transform;
    vv_loader *plain = case_loader(set, &opts), *changed = loader_with(set, &c, 2, 0, 1);
    vv_loader_stage stage;
    vv_batch_free(case_next(changed));
    assert_fails(vv_loader_set_stages(changed, late, 1), VV_EINVAL);
    assert_fails(vv_loader_set_stages(changed, twice, 2), VV_EINVAL);
    assert_fails(vv_loader_set_stages(changed, none, 1), VV_EINVAL);
    assert_true(vv_loader_stage_at(changed, 1, &stage));
    assert_int_equal(stage.from, 30);
    assert_int_equal(stage.size, 7);
    assert_false(vv_loader_stage_at(changed, 2, &stage));
    assert_ok(vv_loader_set_stages(changed, NULL, 0));
    assert_int_equal(vv_loader_batch_count(changed), 5);
    assert_false(vv_loader_stage_at(changed, 1, &stage));
    for (int i = 0; i < 13; i++) {
        vv_batch *a = case_next(plain), *b = case_next(changed);
        assert_int_equal(!a, !b);
        if (a)
            assert_same_batch(a, b);
        vv_batch_free(a);
        vv_batch_free(b);
    }
    vv_loader_free(changed);
    c.drop_last = true;
    changed = loader_with(set, &c, 0, 0, 1);
    assert_fails(vv_loader_set_stages(changed, wide, 2), VV_EINVAL);
    assert_says("drop_last");
    vv_loader_free(plain);
    vv_loader_free(changed);
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_rule),
        cmocka_unit_test(any_way_to_a_position),
        cmocka_unit_test(ranks_share_each_batch),
        cmocka_unit_test(set_and_taken_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
