/* test_status.c - the sentence of the last failure.
 *
 * A failure sets code and sentence; context goes in front; a sentence that is too long is cut and
 * says so; threads do not see each other's sentences; the sentence itself may be an argument. */
#include "vv_test.h"

#include <pthread.h>

static void test_sentence_and_context(void **state)
{
    (void)state;
    vv_error_clear();
    assert_string_equal(vv_error(), "");
    assert_int_equal(vv_error_code(), VV_OK);
    assert_int_equal(vv_fail(VV_EINVAL, "alpha: %d is outside [0, 1]", -1), VV_EINVAL);
    assert_int_equal(vv_error_code(), VV_EINVAL);
    assert_int_equal(vv_fail_within(VV_EINVAL, "recipe %s", "a.yaml"), VV_EINVAL);
    assert_string_equal(vv_error(), "recipe a.yaml: alpha: -1 is outside [0, 1]");
    assert_int_equal(vv_fail_within(VV_OK, "not this"), VV_OK);
    assert_string_equal(vv_error(), "recipe a.yaml: alpha: -1 is outside [0, 1]");
    vv_fail(VV_EIO, "again: %s", vv_error());
    assert_string_equal(vv_error(), "again: recipe a.yaml: alpha: -1 is outside [0, 1]");
    vv_error_clear();
    vv_fail_within(VV_EIO, "reading");
    assert_string_equal(vv_error(), "reading: EIO");
}

static void test_long_sentence_is_cut(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    vv_fail(VV_EINVAL, "%s", text);
    size_t length = strlen(vv_error());
    assert_int_equal(length, 1023);
    assert_string_equal(vv_error() + length - 3, "...");
    vv_fail_within(VV_EINVAL, "front");
    assert_memory_equal(vv_error(), "front: xxx", 10);
    assert_string_equal(vv_error() + strlen(vv_error()) - 3, "...");
}

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i <= VV_EINTERNAL; i++)
        assert_true(vv_status_name((vv_status)i)[0] != '\0');
    assert_string_equal(vv_status_name(VV_EINTERNAL), "EINTERNAL");
    assert_string_equal(vv_status_name((vv_status)1000), "unknown status");
}

static void *fail_elsewhere(void *arg)
{
    *(bool *)arg = vv_error()[0] == '\0';
    vv_fail(VV_EIO, "elsewhere");
    return NULL;
}

static void test_threads_are_apart(void **state)
{
    (void)state;
    bool was_empty = false;
    pthread_t thread;
    vv_fail(VV_EINVAL, "here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &was_empty), 0);
    pthread_join(thread, NULL);
    assert_true(was_empty);
    assert_string_equal(vv_error(), "here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentence_and_context),
        cmocka_unit_test(test_long_sentence_is_cut),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_threads_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
