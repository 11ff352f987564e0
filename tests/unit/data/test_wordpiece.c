/* test_wordpiece.c - BERT's tokenizer gives the ids of Hugging Face's on texts that are easy to get
 * wrong, in small letters and as they are; special tokens only when asked for; words come back with
 * blanks between them; what is no vocabulary is told. */
#include <vivace/tokenizer.h>

#include "golden/wordpiece_golden.h"
#include "vv_test_files.h"

enum { CASE_COUNT = sizeof wp_cases / sizeof *wp_cases };

/* A folder as Hugging Face's models have it; config NULL = none. */
static void make_folder(char dir[256], const char *config)
{
    temp_dir(dir);
    write_file(dir, "vocab.txt", wp_vocabulary, sizeof wp_vocabulary - 1);
    write_file(dir, "tokenizer.json", "{}", 2); /* vocab.txt comes first */
    if (config)
        write_file(dir, "tokenizer_config.json", config, strlen(config));
}

static void ids_are_hugging_faces(void **state)
{
    (void)state;
    for (int cased = 0; cased < 2; cased++) {
        char dir[256];
        vv_tokenizer *tokenizer;
        make_folder(dir, cased ? "{\"do_lower_case\": false}" : NULL);
        assert_ok(vv_tokenizer_open(&tokenizer, dir));
        assert_int_equal(vv_tokenizer_find(tokenizer, "[MASK]"), 4);
        assert_int_equal(vv_tokenizer_end(tokenizer), -1);
        for (int c = 0; c < CASE_COUNT; c++) {
            const int32_t *want = cased ? wp_cases[c].cased : wp_cases[c].lower;
            int32_t *ids;
            int64_t count, wanted = 0;
            while (want[wanted] >= 0)
                wanted++;
            assert_ok(vv_tokenizer_encode(tokenizer, wp_cases[c].text, (size_t)wp_cases[c].bytes,
                                          true, &ids, &count));
            for (int64_t i = 0; i < count && i < wanted; i++)
                if (ids[i] != want[i])
                    fail_msg("%s text %d: id %d is %d, expected %d", cased ? "cased" : "lower", c,
                             (int)i, ids[i], want[i]);
            if (count != wanted)
                fail_msg("%s text %d: %d ids, expected %d", cased ? "cased" : "lower", c,
                         (int)count, (int)wanted);
            vv_dealloc(ids);
        }
        vv_tokenizer_free(tokenizer);
        remove_dir(dir);
    }
}

static void words_come_back(void **state)
{
    (void)state;
    static const char text[] = "The player, [MASK] UNAFFABLE";
    char dir[256];
    vv_tokenizer *tokenizer;
    int32_t *ids;
    int64_t count, plain;
    vv_str out = {0};
    make_folder(dir, NULL);
    assert_ok(vv_tokenizer_open(&tokenizer, dir));
    assert_ok(vv_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &count));
    assert_ok(vv_tokenizer_decode(tokenizer, ids, count, &out));
    assert_string_equal(vv_str_text(&out), "the player , [MASK] unaffable");
    vv_dealloc(ids);
    assert_ok(vv_tokenizer_encode(tokenizer, text, strlen(text), false, &ids, &plain));
    assert_int_equal(plain, count + 5); /* [, m, ##a, ##s, ##k, ] */
    vv_dealloc(ids);
    assert_fails(vv_tokenizer_encode(tokenizer, "a\xff", 2, false, &ids, &count), VV_EFORMAT);
    assert_says("UTF-8");
    assert_fails(vv_tokenizer_save(tokenizer, "x.json"), VV_EUNSUPPORTED);
    vv_str_fini(&out);
    vv_tokenizer_free(tokenizer);
    remove_dir(dir);
}

static void tells_what_is_no_vocabulary(void **state)
{
    (void)state;
    char dir[256];
    vv_tokenizer *tokenizer;
    temp_dir(dir);
    write_file(dir, "vocab.txt", "", 0);
    assert_fails(vv_tokenizer_open(&tokenizer, dir), VV_EFORMAT);
    assert_says("vocab.txt: expected a token a line");
    write_file(dir, "vocab.txt", "a\r\nb\r\n", 6);
    assert_fails(vv_tokenizer_open(&tokenizer, dir), VV_EFORMAT);
    assert_says("expected a token [UNK]");
    assert_null(tokenizer);
    write_file(dir, "vocab.txt", "a\r\n[UNK]\r\nb", 11);
    assert_ok(vv_tokenizer_open(&tokenizer, dir));
    assert_int_equal(vv_tokenizer_vocab(tokenizer), 3);
    assert_int_equal(vv_tokenizer_find(tokenizer, "[UNK]"), 1);
    vv_tokenizer_free(tokenizer);
    remove_dir(dir);
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    char dir[256];
    make_folder(dir, "{\"do_lower_case\": true}");
    const int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    for (uint64_t n = 1; status != VV_OK; n++) {
        vv_tokenizer *tokenizer = NULL;
        int32_t *ids = NULL;
        int64_t count;
        vv_memory_fail_at(n);
        status = vv_tokenizer_open(&tokenizer, dir);
        if (status == VV_OK)
            status = vv_tokenizer_encode(tokenizer, "players play", 12, true, &ids, &count);
        vv_memory_fail_at(0);
        vv_dealloc(ids);
        vv_tokenizer_free(tokenizer);
        assert_int_equal(vv_memory_live_count(), live);
        assert_in_range(n, 1, 1000);
    }
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_hugging_faces),
        cmocka_unit_test(words_come_back),
        cmocka_unit_test(tells_what_is_no_vocabulary),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
