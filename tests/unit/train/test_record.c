/* test_record.c - what methods and callbacks save comes back as it was.
 *
 * Every kind is read back from the record and from a file, doubles bit for bit (NaN and -0 too); a
 * record read from a file owns its tensors; records under other prefixes stay apart. A key set
 * again has its last value and kind. Absent keys and wrong kinds are refused by name. Each
 * allocation may fail. */
#include "vv_test.h"

#include <unistd.h>

#include "train/record.h"

static const uint64_t odd_bits[] = {
    UINT64_C(0x3fb999999999999a), /* 0.1 */
    UINT64_C(0x8000000000000000), /* -0 */
    UINT64_C(0x7ff8000000000123), /* a NaN with a payload */
    UINT64_C(0x7ff0000000000000), /* infinity */
    UINT64_C(0x0000000000000001), /* the smallest number */
};
#define ODD_COUNT 5

static vv_status fill(vv_record *record, vv_tensor *tensor)
{
    VV_TRY(vv_record_set_int(record, "steps", INT64_MIN));
    VV_TRY(vv_record_set_text(record, "note", "one \"two\"\n\xc3\xa9"));
    VV_TRY(vv_record_set_text(record, "empty", ""));
    VV_TRY(vv_record_set_tensor(record, "layer1.0.weight", tensor));
    for (int i = 0; i < ODD_COUNT; i++) {
        char key[] = {'d', (char)('0' + i), 0};
        double value;
        memcpy(&value, &odd_bits[i], sizeof value);
        VV_TRY(vv_record_set_double(record, key, value));
    }
    return VV_OK;
}

static void assert_filled(const vv_record *record, float first)
{
    int64_t steps = 0;
    const char *text = NULL;
    const vv_tensor *tensor = NULL;
    assert_ok(vv_record_get_int(record, "steps", &steps));
    assert_true(steps == INT64_MIN);
    assert_ok(vv_record_get_text(record, "note", &text));
    assert_string_equal(text, "one \"two\"\n\xc3\xa9");
    assert_ok(vv_record_get_text(record, "empty", &text));
    assert_string_equal(text, "");
    assert_ok(vv_record_get_tensor(record, "layer1.0.weight", &tensor));
    assert_int_equal(tensor->ndim, 2);
    assert_int_equal(tensor->shape[1], 3);
    assert_true(((const float *)tensor->data)[0] == first);
    for (int i = 0; i < ODD_COUNT; i++) {
        char key[] = {'d', (char)('0' + i), 0};
        double value = 0.0;
        assert_ok(vv_record_get_double(record, key, &value));
        assert_memory_equal(&value, &odd_bits[i], sizeof value);
    }
}

static vv_tensor *tensor_new(void)
{
    const float data[] = {1, 2, 3, 4, 5, 6};
    const int64_t shape[] = {2, 3};
    vv_tensor *tensor = NULL;
    assert_ok(vv_tensor_from(&tensor, VV_F32, 2, shape, data));
    return tensor;
}

static void path_new(char path[64])
{
    snprintf(path, 64, "/tmp/vv_test_record_%ld.safetensors", (long)getpid());
}

static void test_memory(void **state)
{
    (void)state;
    vv_record *record = NULL;
    vv_tensor *tensor = tensor_new();
    assert_ok(vv_record_new(&record));
    assert_ok(fill(record, tensor));
    vv_tensor_free(tensor); /* the record keeps it */
    assert_filled(record, 1.0f);

    assert_ok(vv_record_set_int(record, "steps", 7));
    assert_ok(vv_record_set_int(record, "note", 8));
    int64_t value = 0;
    const char *text = NULL;
    assert_ok(vv_record_get_int(record, "steps", &value));
    assert_int_equal(value, 7);
    assert_ok(vv_record_get_int(record, "note", &value));
    assert_int_equal(value, 8);
    assert_fails(vv_record_get_text(record, "note", &text), VV_ETYPE);
    assert_says("note");
    assert_says("integer");
    vv_record_free(record);
    vv_record_free(NULL);
}

static void test_refused(void **state)
{
    (void)state;
    vv_record *record = NULL;
    double number;
    const vv_tensor *tensor = NULL;
    assert_ok(vv_record_new(&record));
    assert_fails(vv_record_get_double(record, "decay", &number), VV_ENOTFOUND);
    assert_says("decay");
    assert_ok(vv_record_set_double(record, "decay", 0.5));
    assert_fails(vv_record_get_double(record, "deca", &number), VV_ENOTFOUND);
    assert_fails(vv_record_get_tensor(record, "decay", &tensor), VV_ETYPE);
    assert_null(tensor);
    vv_record_free(record);
}

static void test_file(void **state)
{
    (void)state;
    char path[64];
    path_new(path);
    vv_record *record = NULL, *other = NULL, *back = NULL;
    vv_safetensors_writer *writer = NULL;
    vv_safetensors *file = NULL;
    vv_tensor *tensor = tensor_new();
    assert_ok(vv_record_new(&record));
    assert_ok(vv_record_new(&other));
    assert_ok(fill(record, tensor));
    assert_ok(vv_record_set_int(other, "steps", 3));
    assert_ok(vv_safetensors_writer_new(&writer));
    assert_ok(vvi_record_write(record, writer, "vivace/method/ema/"));
    assert_ok(vvi_record_write(other, writer, "vivace/method/ema2/"));
    vv_record_free(record);        /* the writer keeps what it needs */
    vv_tensor_set(tensor, 0, 9.0); /* read at write time */
    assert_ok(vv_safetensors_write(writer, path));
    vv_safetensors_writer_free(writer);
    vv_tensor_free(tensor);

    assert_ok(vv_safetensors_open(&file, path));
    assert_ok(vvi_record_read(&back, file, "vivace/method/ema/"));
    vv_record_free(other);
    assert_ok(vvi_record_read(&other, file, "vivace/method/none/"));
    vv_safetensors_close(file);
    unlink(path);
    assert_filled(back, 9.0f);
    int64_t steps;
    assert_fails(vv_record_get_int(other, "steps", &steps), VV_ENOTFOUND);
    vv_record_free(other);
    vv_record_free(back);
}

/* Texts in a file that are no saved values. */
static void test_bad_file(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "3", "i:", "i:3x", "i:one", "d:", "d:xyz", "x:1"};
    char path[64];
    path_new(path);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        vv_safetensors_writer *writer = NULL;
        vv_safetensors *file = NULL;
        vv_record *record = NULL;
        assert_ok(vv_safetensors_writer_new(&writer));
        assert_ok(vv_safetensors_add_text(writer, "m/a", texts[i]));
        assert_ok(vv_safetensors_write(writer, path));
        vv_safetensors_writer_free(writer);
        assert_ok(vv_safetensors_open(&file, path));
        assert_fails(vvi_record_read(&record, file, "m/"), VV_EFORMAT);
        assert_says("'a'");
        assert_null(record);
        vv_safetensors_close(file);
        unlink(path);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    char path[64];
    path_new(path);
    vv_tensor *tensor = tensor_new();
    vv_record *whole = NULL;
    vv_safetensors_writer *writer = NULL;
    vv_safetensors *file = NULL;
    assert_ok(vv_record_new(&whole));
    assert_ok(fill(whole, tensor));
    assert_ok(vv_safetensors_writer_new(&writer));
    assert_ok(vvi_record_write(whole, writer, "m/"));
    assert_ok(vv_safetensors_write(writer, path));
    vv_safetensors_writer_free(writer);
    assert_ok(vv_safetensors_open(&file, path));

    bool survived = false;
    for (uint64_t nth = 1; !survived; nth++) {
        vv_record *record = NULL, *back = NULL;
        vv_safetensors_writer *again = NULL;
        int64_t live = vv_memory_live_count();
        assert_true(nth < 1000);
        vv_memory_fail_at(nth);
        vv_status status = vv_record_new(&record);
        if (status == VV_OK)
            status = fill(record, tensor);
        if (status == VV_OK)
            status = vv_safetensors_writer_new(&again);
        if (status == VV_OK)
            status = vvi_record_write(record, again, "m/");
        if (status == VV_OK)
            status = vvi_record_read(&back, file, "m/");
        vv_memory_fail_at(0);
        survived = status == VV_OK;
        if (!survived)
            assert_int_equal(status, VV_ENOMEM);
        vv_record_free(back);
        vv_safetensors_writer_free(again);
        vv_record_free(record);
        assert_int_equal(vv_memory_live_count(), live);
    }
    vv_safetensors_close(file);
    unlink(path);
    vv_record_free(whole);
    vv_tensor_free(tensor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_file),          cmocka_unit_test(test_bad_file),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
