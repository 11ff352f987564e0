/* test_token_samples.c - samples of one length from a token file: inputs are the file's tokens in
 * order and targets the ones behind them; evaluation counts every token that has one before it
 * exactly once, whatever the stride; by document nothing crosses a border; masking follows the
 * 80/10/10 rule, leaves special tokens and padding alone, and is a function of (seed, epoch,
 * index). */
#include "data_case.h"

#include <vivace/ext/token_sets.h>

#include "vv_test_files.h"

#define VOCABULARY 1000
#define MOST 4096

/* A file of documents of these lengths (with their end token 7, if `end`); token number i of the
   file is 10 + i % 900, but for end tokens. Returns how many tokens there are. */
static int64_t write_tokens(const char *dir, const int *lengths, int documents, bool end,
                            int32_t *all)
{
    char path[512];
    vv_tokens_writer *writer;
    snprintf(path, sizeof path, "%s/a.tokens", dir);
    assert_ok(vv_tokens_writer_new(&writer, path, VOCABULARY, end ? 7 : -1, NULL));
    int64_t count = 0;
    for (int d = 0; d < documents; d++) {
        for (int i = 0; i < lengths[d] - end; i++, count++) {
            all[count] = (int32_t)(10 + count % 900);
            assert_ok(vv_tokens_writer_add(writer, &all[count], 1));
        }
        if (end)
            all[count++] = 7;
        assert_ok(vv_tokens_writer_end_document(writer));
    }
    vv_tokens_info info;
    assert_ok(vv_tokens_writer_finish(writer, &info));
    assert_int_equal(info.count, count);
    vv_tokens_writer_free(writer);
    return count;
}

static vv_dataset *open_set(const char *dir, const vv_token_samples *how)
{
    char path[512];
    vv_tokens *tokens;
    vv_dataset *set;
    snprintf(path, sizeof path, "%s/a.tokens", dir);
    assert_ok(vv_tokens_open(&tokens, path));
    assert_ok(vv_dataset_from_tokens(&set, "test", tokens, how));
    return set;
}

static void next_tokens_packed(void **state)
{
    (void)state;
    static const int lengths[] = {30, 1, 69};
    char dir[256];
    int32_t all[MOST], input[8], target[8];
    temp_dir(dir);
    assert_int_equal(write_tokens(dir, lengths, 3, false, all), 100);
    static const struct {
        int64_t seq, stride, count;
    } cases[] = {{8, 0, 12}, {8, 4, 23}, {8, 8, 12}, {8, 11, 9}, {3, 1, 97}, {99 - 91, 91, 2}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        vv_token_samples how = VV_TOKEN_SAMPLES_DEFAULTS;
        how.seq = cases[c].seq;
        how.stride = cases[c].stride;
        vv_dataset *set = open_set(dir, &how);
        const int64_t stride = cases[c].stride ? cases[c].stride : cases[c].seq;
        assert_int_equal(set->count, cases[c].count);
        assert_int_equal(set->spec.tokens, cases[c].seq);
        assert_int_equal(set->spec.classes, VOCABULARY);
        for (int64_t i = 0; i < set->count; i++) {
            assert_ok(vv_dataset_read(set, i, input, target));
            assert_memory_equal(input, all + i * stride, (size_t)how.seq * sizeof *input);
            assert_memory_equal(target, all + i * stride + 1, (size_t)how.seq * sizeof *input);
        }
        vv_dataset_free(set);
    }
    remove_dir(dir);
}

/* Every pair of neighbours (within a document, if asked) is counted as often as `how` says. */
static void count_pairs(const char *dir, const int *lengths, int documents, const int32_t *all,
                        int64_t count, const vv_token_samples *how)
{
    static int counted[MOST];
    static int32_t input[MOST], target[MOST];
    memset(counted, 0, sizeof counted);
    vv_dataset *set = open_set(dir, how);
    int64_t place[MOST] = {0}; /* by token: tokens here are all different */
    for (int64_t i = 0; i < count; i++)
        place[all[i]] = i;
    for (int64_t s = 0; s < set->count; s++) {
        assert_ok(vv_dataset_read(set, s, input, target));
        const int64_t first = place[input[0]];
        bool ended = false;
        for (int64_t t = 0; t < how->seq; t++) {
            ended = ended || input[t] == 3;
            if (ended) {
                assert_int_equal(input[t], 3); /* padding */
                assert_int_equal(target[t], -100);
                continue;
            }
            assert_int_equal(input[t], all[first + t]);
            if (target[t] == -100)
                continue;
            assert_int_equal(target[t], all[first + t + (how->mask ? 0 : 1)]);
            counted[first + t]++;
        }
    }
    int64_t at = 0;
    for (int d = 0; d < documents; d++)
        for (int i = 0; i < lengths[d]; i++, at++) {
            const bool last = how->by_document ? i == lengths[d] - 1 : at == count - 1;
            assert_int_equal(counted[at], how->mask || !last);
        }
    vv_dataset_free(set);
}

static void evaluation_counts_each_token_once(void **state)
{
    (void)state;
    static const int lengths[] = {5, 1, 17, 0, 33, 2, 8, 9, 40};
    char dir[256];
    int32_t all[MOST];
    temp_dir(dir);
    const int64_t count = write_tokens(dir, lengths, 9, false, all);
    assert_int_equal(count, 115);
    for (int by_document = 0; by_document < 2; by_document++)
        for (int mask = 0; mask < 2; mask++)
            for (int64_t seq = 1; seq <= 130; seq += seq < 10 ? 1 : 17)
                for (int64_t stride = 0; stride <= seq + 1; stride += 1 + seq / 5) {
                    vv_token_samples how = VV_TOKEN_SAMPLES_DEFAULTS;
                    how.seq = seq;
                    how.stride = stride;
                    how.each_once = true;
                    how.by_document = by_document;
                    how.mask = mask;
                    how.pad_id = 3;
                    count_pairs(dir, lengths, 9, all, count, &how);
                }
    remove_dir(dir);
}

static void documents_are_padded_in_training(void **state)
{
    (void)state;
    static const int lengths[] = {5, 1, 17, 8, 2};
    char dir[256];
    int32_t all[MOST];
    temp_dir(dir);
    const int64_t count = write_tokens(dir, lengths, 5, false, all);
    vv_token_samples how = VV_TOKEN_SAMPLES_DEFAULTS;
    how.seq = 8;
    how.by_document = true;
    how.pad_id = 3;
    count_pairs(dir, lengths, 5, all, count, &how); /* no overlap: once each, too */
    vv_dataset *set = open_set(dir, &how);
    assert_int_equal(set->count, 1 + 0 + 2 + 1 + 1);
    vv_dataset_free(set);
    remove_dir(dir);
}

static void masking_follows_the_rule(void **state)
{
    (void)state;
    static const int lengths[] = {2001, 1999};
    static const int32_t special[] = {10, 11, 12};
    char dir[256];
    int32_t all[MOST];
    temp_dir(dir);
    write_tokens(dir, lengths, 2, true, all);
    for (int given = 0; given < 2; given++) {
        vv_token_samples how = VV_TOKEN_SAMPLES_DEFAULTS;
        how.seq = 500;
        how.mask = true;
        how.mask_opts = (vv_mask_opts)VV_MASK_DEFAULTS;
        how.mask_opts.share = 0.25;
        how.mask_opts.mask_id = given ? 5 : -1;
        how.mask_opts.special = special;
        how.mask_opts.special_count = 3;
        vv_dataset *set = open_set(dir, &how);
        const int32_t mask_id = given ? 5 : VOCABULARY;
        assert_int_equal(set->count, 8);
        assert_int_equal(set->spec.classes, VOCABULARY + !given);
        assert_int_equal(set->spec.vocabulary, set->spec.classes);
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        opts.batch_size = 8;
        vv_loader *loader = case_loader(set, &opts);
        int chosen = 0, masked = 0, random = 0, stayed = 0, specials = 0;
        for (int epoch = 0; epoch < 10; epoch++) {
            vv_batch *batch = case_next(loader);
            for (int64_t i = 0; i < 4000; i++) {
                const int32_t was = all[i], is = ((int32_t *)batch->input->data)[i];
                const int32_t target = ((int32_t *)batch->target->data)[i];
                if (was == 7 || (was >= 10 && was <= 12)) {
                    assert_int_equal(target, -100);
                    specials++;
                }
                if (target == -100) {
                    assert_int_equal(is, was);
                    continue;
                }
                assert_int_equal(target, was);
                chosen++;
                masked += is == mask_id;
                stayed += is == was;
                random += is != mask_id && is != was;
                assert_in_range(is, 0, VOCABULARY);
            }
            vv_batch_free(batch);
            assert_null(case_next(loader));
        }
        /* 40,000 places, less the special ones: 5 deviations each way. */
        const double n = 40000 - specials, share = chosen / n;
        assert_near(share, 0.25, 5 * sqrt(0.25 * 0.75 / n), 0);
        assert_near(masked / (double)chosen, 0.8, 0.02, 0);
        assert_near(random / (double)chosen, 0.1, 0.015, 0);
        assert_near(stayed / (double)chosen, 0.1, 0.015, 0);
        vv_loader_free(loader);
        vv_dataset_free(set);
    }
    remove_dir(dir);
}

static void masking_is_a_function_of_seed_epoch_and_index(void **state)
{
    (void)state;
    static const int lengths[] = {400};
    char dir[256];
    int32_t all[MOST], first[8][50], again[8][50];
    temp_dir(dir);
    write_tokens(dir, lengths, 1, false, all);
    vv_token_samples how = VV_TOKEN_SAMPLES_DEFAULTS;
    how.seq = 50;
    how.mask = true;
    vv_dataset *set = open_set(dir, &how);
    for (int workers = 0; workers < 3; workers++) {
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        opts.workers = workers;
        opts.shuffle = workers > 0;
        opts.batch_size = 3 + workers;
        vv_loader *loader = case_loader(set, &opts);
        for (vv_batch *batch; (batch = case_next(loader)) != NULL; vv_batch_free(batch))
            for (int64_t i = 0; i < batch->count; i++)
                memcpy(again[batch->sample[i]], (int32_t *)batch->input->data + i * 50,
                       sizeof again[0]);
        if (workers == 0)
            memcpy(first, again, sizeof first);
        assert_memory_equal(first, again, sizeof first);
        vv_batch *other = case_next(loader); /* of the next epoch */
        assert_memory_not_equal(first[other->sample[0]], other->input->data, sizeof first[0]);
        vv_batch_free(other);
        vv_loader_free(loader);
    }
    vv_dataset_free(set);
    remove_dir(dir);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    static const int lengths[] = {40, 10};
    static const struct {
        vv_token_samples how;
        const char *text;
    } cases[] = {
        {{.seq = 50}, "50 tokens in 2 documents give no sample of seq 50"},
        {{.seq = 0}, "seq must be 1 or more"},
        {{.seq = 8, .vocabulary = 999}, "vocabulary 999 is too small, its tokens need 1000"},
        {{.seq = 8, .pad_id = 1000}, "pad_id 1000 is outside the vocabulary"},
        {{.seq = 8, .mask = true, .mask_opts = {.share = 1.5}}, "share of masked tokens is 1.5"},
        {{.seq = 8, .mask = true, .mask_opts = {0.1, 0.8, 0.3, 0, NULL, 0}}, "0.8 are masked"},
        {{.seq = 8, .mask = true, .mask_opts = {0.1, 0.8, 0.1, 1000, NULL, 0}}, "mask_id 1000"},
        {{.seq = 8, .vocabulary = 1000, .mask = true, .mask_opts = {0.1, 0.8, 0.1, -1, NULL, 0}},
         "need 1001"},
    };
    char dir[256], path[512];
    int32_t all[MOST];
    temp_dir(dir);
    write_tokens(dir, lengths, 2, false, all);
    snprintf(path, sizeof path, "%s/a.tokens", dir);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        vv_tokens *tokens;
        vv_dataset *set;
        assert_ok(vv_tokens_open(&tokens, path));
        assert_fails(vv_dataset_from_tokens(&set, "test", tokens, &cases[c].how), VV_EINVAL);
        assert_says(cases[c].text);
        assert_null(set);
    }
    remove_dir(dir);
}

static void lists_of_ids(void **state)
{
    (void)state;
    int32_t *ids;
    int count;
    assert_ok(vv_token_ids_parse(&ids, &count, " 0, 101,102 ", 103));
    assert_int_equal(count, 3);
    assert_int_equal(ids[2], 102);
    vv_dealloc(ids);
    assert_ok(vv_token_ids_parse(&ids, &count, "[5, 6]", 103));
    assert_int_equal(count, 2);
    assert_int_equal(ids[1], 6);
    vv_dealloc(ids);
    assert_ok(vv_token_ids_parse(&ids, &count, "", 103));
    assert_int_equal(count, 0);
    vv_dealloc(ids);
    static const char *const bad[] = {"x", "1;2", "1,,2", "103", "-1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(vv_token_ids_parse(&ids, &count, bad[i], 103), VV_EINVAL);
        assert_null(ids);
    }
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    static const int lengths[] = {40, 10};
    static const int32_t special[] = {1};
    char dir[256], path[512];
    int32_t all[MOST];
    temp_dir(dir);
    write_tokens(dir, lengths, 2, false, all);
    snprintf(path, sizeof path, "%s/a.tokens", dir);
    vv_token_samples how = VV_TOKEN_SAMPLES_DEFAULTS;
    how.seq = 8;
    how.by_document = how.mask = true;
    how.mask_opts.special = special;
    how.mask_opts.special_count = 1;
    const int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    for (uint64_t n = 1; status == VV_ENOMEM; n++) {
        vv_tokens *tokens;
        vv_dataset *set;
        assert_ok(vv_tokens_open(&tokens, path));
        vv_memory_fail_at(n);
        status = vv_dataset_from_tokens(&set, "test", tokens, &how);
        vv_memory_fail_at(0);
        assert_int_equal(status == VV_OK, n == 5);
        vv_dataset_free(set);
        assert_int_equal(vv_memory_live_count(), live);
    }
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_tokens_packed),
        cmocka_unit_test(evaluation_counts_each_token_once),
        cmocka_unit_test(documents_are_padded_in_training),
        cmocka_unit_test(masking_follows_the_rule),
        cmocka_unit_test(masking_is_a_function_of_seed_epoch_and_index),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(lists_of_ids),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
