/* test_safetensors.c - writing and reading safetensors files.
 *
 * What was written is read back with types, shapes, values and texts; the layout is the format's
 * (header length, padding, packed ranges); a failed write leaves the old file; every allocation may
 * fail without a leak; wrong names are refused. */
#include "safetensors_case.h"

#include <signal.h>
#include <sys/resource.h>

static char dir[256], path[300];

static int make(void **state)
{
    (void)state;
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    remove_dir(dir);
    return 0;
}

static void test_round_trip(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    vv_safetensors *file;
    char name[32];
    assert_ok(write_case(path));
    assert_ok(vv_safetensors_open(&file, path));
    assert_int_equal(vv_safetensors_count(file), VV_DTYPE_COUNT + 2);
    for (int d = 0; d < VV_DTYPE_COUNT; d++) {
        snprintf(name, sizeof name, "layer.%s", vv_dtype_name((vv_dtype)d));
        const vv_tensor *t = vv_safetensors_find(file, name);
        assert_non_null(t);
        assert_int_equal(t->dtype, d);
        assert_true(t->ndim == 2 && t->shape[0] == 2 && t->shape[1] == 3);
        assert_int_equal((uintptr_t)t->data % vv_dtype_size(t->dtype), 0);
        for (int i = 0; i < 6; i++)
            assert_true(vv_tensor_get(t, i) == (d == VV_BOOL ? i % 2 : i * 2 + d));
    }
    const vv_tensor *scalar = vv_safetensors_find(file, "scalar");
    assert_true(scalar && scalar->ndim == 0 && vv_tensor_get(scalar, 0) == 2.5);
    const vv_tensor *empty = vv_safetensors_find(file, "empty");
    assert_true(empty && empty->ndim == 2 && empty->shape[1] == 4 && empty->count == 0);
    assert_null(vv_safetensors_find(file, "layer"));
    assert_null(vv_safetensors_tensor(file, -1));
    assert_null(vv_safetensors_tensor(file, 9));
    assert_null(vv_safetensors_name(file, 9));
    for (int i = 0; i < 9; i++)
        assert_ptr_equal(vv_safetensors_find(file, vv_safetensors_name(file, i)),
                         vv_safetensors_tensor(file, i));
    assert_int_equal(vv_safetensors_text_count(file), 2);
    assert_string_equal(vv_safetensors_text(file, "step"), "12");
    assert_string_equal(vv_safetensors_text_key(file, 1), "na\xc3\xafve \"quoted\"\n");
    assert_string_equal(vv_safetensors_text(file, vv_safetensors_text_key(file, 1)), "line\nbreak");
    assert_null(vv_safetensors_text_key(file, 2));
    assert_null(vv_safetensors_text(file, "vivace.crc32"));
    vv_safetensors_close(file);
    vv_safetensors_close(NULL);
    assert_int_equal(vv_memory_live_count(), blocks);
    assert_int_equal(count_files(dir), 1);
}

static void test_layout(void **state)
{
    (void)state;
    static unsigned char bytes[8192];
    assert_ok(write_case(path));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t count = fread(bytes, 1, sizeof bytes - 1, f);
    fclose(f);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    assert_int_equal(length % 8, 0);
    assert_int_equal(bytes[8], '{');
    assert_int_equal(count, 8 + length + 6 * (4 + 2 + 8 + 4 + 8 + 1 + 1) + 4);
    bytes[8 + length] = '\0';
    assert_non_null(strstr((char *)bytes + 8, "\"dtype\":\"BF16\",\"shape\":[2,3]"));
    assert_non_null(strstr((char *)bytes + 8, "\"vivace.crc32\":\""));
}

/* Memory need not be aligned: tensors that are not get a copy. */
static void test_open_memory_at_any_alignment(void **state)
{
    (void)state;
    static _Alignas(64) unsigned char bytes[8192 + 16];
    assert_ok(write_case(path));
    for (size_t shift = 0; shift < 9; shift++) {
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        size_t count = fread(bytes + shift, 1, 8192, f);
        fclose(f);
        vv_safetensors *file;
        assert_ok(vv_safetensors_open_memory(&file, bytes + shift, count));
        const vv_tensor *t = vv_safetensors_find(file, "layer.f64");
        assert_true(t && vv_tensor_get(t, 5) == 12.0);
        assert_int_equal((uintptr_t)t->data % 8, 0);
        vv_safetensors_close(file);
    }
}

static void test_empty_file(void **state)
{
    (void)state;
    vv_safetensors_writer *writer;
    vv_safetensors *file;
    assert_ok(vv_safetensors_writer_new(&writer));
    assert_ok(vv_safetensors_write(writer, path));
    vv_safetensors_writer_free(writer);
    vv_safetensors_writer_free(NULL);
    assert_ok(vv_safetensors_open(&file, path));
    assert_int_equal(vv_safetensors_count(file), 0);
    assert_null(vv_safetensors_find(file, "x"));
    vv_safetensors_close(file);
}

static void test_names(void **state)
{
    (void)state;
    vv_safetensors_writer *writer;
    vv_tensor *t;
    assert_ok(vv_safetensors_writer_new(&writer));
    assert_ok(vv_tensor_new(&t, VV_F32, 0, NULL));
    assert_ok(vv_safetensors_add(writer, "a", t));
    assert_fails(vv_safetensors_add(writer, "a", t), VV_EEXIST);
    assert_fails(vv_safetensors_add(writer, "", t), VV_EINVAL);
    assert_fails(vv_safetensors_add(writer, "__metadata__", t), VV_EINVAL);
    assert_fails(vv_safetensors_add(writer, "\xff", t), VV_EINVAL);
    assert_ok(vv_safetensors_add_text(writer, "k", "v"));
    assert_fails(vv_safetensors_add_text(writer, "k", "w"), VV_EEXIST);
    assert_fails(vv_safetensors_add_text(writer, "vivace.crc32", "0"), VV_EINVAL);
    assert_fails(vv_safetensors_add_text(writer, "x", "\x80"), VV_EINVAL);
    vv_safetensors_writer_free(writer);
    assert_int_equal(t->refs, 1);
    vv_tensor_free(t);
}

static void assert_old_file_is_whole(void)
{
    vv_safetensors *file;
    assert_ok(vv_safetensors_open(&file, path));
    assert_string_equal(vv_safetensors_text(file, "step"), "12");
    vv_safetensors_close(file);
    assert_int_equal(count_files(dir), 1);
}

static void test_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    vv_safetensors_writer *writer;
    vv_tensor *t;
    struct rlimit before, small;
    assert_ok(write_case(path));
    assert_ok(vv_safetensors_writer_new(&writer));
    assert_ok(vv_tensor_new(&t, VV_F32, 1, (int64_t[]){100000}));
    assert_ok(vv_safetensors_add(writer, "large", t));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    vv_error_clear();
    vv_status status = vv_safetensors_write(writer, path);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, VV_EIO);
    assert_says("model.safetensors");
    assert_old_file_is_whole();
    vv_safetensors_writer_free(writer);
    vv_tensor_free(t);
}

static void test_each_allocation_failing(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    assert_ok(write_case(path));
    for (uint64_t n = 1;; n++) {
        vv_safetensors *file = NULL;
        vv_error_clear();
        vv_memory_fail_at(n);
        vv_status status = write_case(path);
        if (status == VV_OK)
            status = vv_safetensors_open(&file, path);
        vv_memory_fail_at(0);
        vv_safetensors_close(file);
        assert_int_equal(vv_memory_live_count(), blocks);
        assert_old_file_is_whole();
        if (status == VV_OK) {
            assert_true(n > 40);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
        assert_true(vv_error()[0] == '\0' || vv_error_code() == VV_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_open_memory_at_any_alignment),
        cmocka_unit_test(test_empty_file),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_full_disk_keeps_the_old_file),
        cmocka_unit_test(test_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
