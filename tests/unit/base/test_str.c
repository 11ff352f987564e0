/* test_str.c - growing texts, JSON quoting and near names.
 *
 * Appending keeps what was there and the NUL; the first failure sticks; JSON strings are valid for
 * any bytes; the near name is the one a person would mean, and none if nothing is near. */
#include "vv_test.h"

#include <vivace/str.h>

static void test_append(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    vv_str s = {0};
    assert_string_equal(vv_str_text(&s), "");
    for (int i = 0; i < 500; i++)
        vv_str_addf(&s, "%d,", i);
    assert_ok(vv_str_status(&s));
    assert_int_equal(s.length, 10 * 2 + 90 * 3 + 400 * 4);
    assert_int_equal(strlen(s.text), s.length);
    assert_memory_equal(s.text, "0,1,2,", 6);
    assert_string_equal(s.text + s.length - 8, "498,499,");
    vv_str_clear(&s);
    assert_string_equal(vv_str_text(&s), "");
    char word[700];
    memset(word, 'w', sizeof word);
    word[699] = '\0';
    vv_str_addf(&s, "<%s>", word);
    assert_int_equal(s.length, 701);
    assert_int_equal(s.text[700], '>');
    vv_str_addn(&s, "abc", 2);
    vv_str_add(&s, NULL);
    assert_string_equal(s.text + 700, ">ab");
    vv_str_fini(&s);
    assert_int_equal(vv_memory_live_count(), blocks);
}

static void test_first_failure_sticks(void **state)
{
    (void)state;
    vv_str s = {0};
    vv_str_add(&s, "kept");
    vv_memory_fail_at(1);
    for (int i = 0; i < 50; i++)
        vv_str_add(&s, "0123456789");
    vv_memory_fail_at(0);
    assert_int_equal(vv_str_status(&s), VV_ENOMEM);
    assert_int_equal(s.length, 54); /* what fitted before the failure */
    vv_str_addf(&s, "%s", "more");
    assert_int_equal(s.length, 54);
    vv_str_clear(&s);
    vv_str_add(&s, "usable again");
    assert_ok(vv_str_status(&s));
    vv_str_fini(&s);
}

static void assert_json(const char *text, const char *expected)
{
    vv_str s = {0};
    vv_str_add_json(&s, text);
    assert_ok(vv_str_status(&s));
    assert_string_equal(vv_str_text(&s), expected);
    vv_str_fini(&s);
}

static void test_json(void **state)
{
    (void)state;
    assert_json("", "\"\"");
    assert_json(NULL, "\"\"");
    assert_json("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    assert_json("\n\r\t\b\f\x01\x1f\x7f", "\"\\n\\r\\t\\b\\f\\u0001\\u001f\\u007f\"");
    assert_json("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80",
                "\"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80\"");
    /* stray and cut sequences, overlong forms, surrogates, beyond U+10FFFF */
    assert_json("\x80", "\"\\ufffd\"");
    assert_json("\xe2\x82", "\"\\ufffd\\ufffd\"");
    assert_json("\xc0\xaf", "\"\\ufffd\\ufffd\"");
    assert_json("\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    assert_json("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    assert_json("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    assert_json("\xff", "\"\\ufffd\"");
}

static const char *const names[] = {"alpha", "interpolate_loss", "learning_rate", "lr", "warmup"};

static const char *name_at(const void *ctx, int i)
{
    return ((const char *const *)ctx)[i];
}

static int nearest(const char *word)
{
    return vv_nearest(word, name_at, names, 5);
}

static void test_nearest(void **state)
{
    (void)state;
    assert_int_equal(nearest("alfa"), 0);
    assert_int_equal(nearest("ALPHA"), 0);
    assert_int_equal(nearest("aplha"), 0);
    assert_int_equal(nearest("interpolat_los"), 1);
    assert_int_equal(nearest("learning-rate"), 2);
    assert_int_equal(nearest("learnrate"), -1); /* 4 edits, 3 allowed */
    assert_int_equal(nearest("warm_up"), 4);
    assert_int_equal(nearest("rl"), -1);
    assert_int_equal(nearest("zz"), -1);
    assert_int_equal(nearest(""), -1);
    assert_int_equal(nearest("momentum"), -1);
    char huge[500];
    memset(huge, 'a', sizeof huge);
    huge[499] = '\0';
    assert_int_equal(nearest(huge), -1);
    assert_int_equal(vv_nearest("x", name_at, names, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_first_failure_sticks),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
