/* test_safetensors_zstd.c - files packed with zstd hold what plain ones hold; damage, a file cut
 * short and bytes behind its end are refused with a sentence. The texts alone can be read from both
 * kinds, whatever the size of the data. A file that the format's own library has read and written
 * again with its texts (tests/golden/make_resaved.py) still has our checksums; one with a changed
 * number is refused with what to do. */
#include "safetensors_case.h"

#include "tensor/safetensors_peek.h"
#include "vvi_config.h"

static void same_file(const char *a, const char *b)
{
    vv_safetensors *x, *y;
    assert_ok(vv_safetensors_open(&x, a));
    assert_ok(vv_safetensors_open(&y, b));
    assert_int_equal(vv_safetensors_count(x), vv_safetensors_count(y));
    for (int i = 0; i < vv_safetensors_count(x); i++) {
        const vv_tensor *s = vv_safetensors_tensor(x, i), *t = vv_safetensors_tensor(y, i);
        assert_string_equal(vv_safetensors_name(x, i), vv_safetensors_name(y, i));
        assert_true(s->dtype == t->dtype && vv_tensor_same_shape(s, t));
        assert_memory_equal(s->data, t->data, s->bytes);
    }
    assert_string_equal(vv_safetensors_text(y, "step"), "12");
    vv_safetensors_close(x);
    vv_safetensors_close(y);
}

static size_t read_bytes(const char *path, unsigned char *buffer, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(buffer, 1, room, file);
    fclose(file);
    return bytes;
}

static void packed(void **state)
{
    (void)state;
    if (vvi_zstd_check() != VV_OK)
        skip();
    char dir[256], plain[300], zst[300];
    unsigned char bytes[8192];
    vv_safetensors *file;
    temp_dir(dir);
    snprintf(plain, sizeof plain, "%s/a.safetensors", dir);
    snprintf(zst, sizeof zst, "%s/a.safetensors.zst", dir);
    assert_ok(write_case(plain));
    assert_ok(write_case(zst));
    size_t count = read_bytes(zst, bytes, sizeof bytes);
    assert_memory_equal(bytes, "\x28\xb5\x2f\xfd", 4);
    same_file(plain, zst);

    for (size_t cut = 0; cut < count; cut += 7) {
        write_file(dir, "b.zst", bytes, cut);
        snprintf(plain, sizeof plain, "%s/b.zst", dir);
        assert_fails(vv_safetensors_open(&file, plain), VV_EFORMAT);
    }
    bytes[count / 2] ^= 0x40;
    write_file(dir, "b.zst", bytes, count);
    assert_fails(vv_safetensors_open(&file, plain), VV_EFORMAT);
    bytes[count / 2] ^= 0x40;
    bytes[count] = 'x';
    write_file(dir, "b.zst", bytes, count + 1);
    assert_fails(vv_safetensors_open(&file, plain), VV_EFORMAT);
    assert_says("behind");
    remove_dir(dir);
}

/* 4 MB that zstd cannot shrink, and a long text before them. */
static vv_status write_large(const char *path)
{
    vv_status status = VV_OK;
    vv_safetensors_writer *writer = NULL;
    vv_tensor *tensor = NULL;
    char text[100001];
    uint32_t x = 1;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    VV_GO(vv_tensor_new(&tensor, VV_U8, 1, (int64_t[]){4000000}));
    for (int64_t i = 0; i < tensor->count; i++) {
        x = x * 1664525u + 1013904223u;
        ((uint8_t *)tensor->data)[i] = (uint8_t)(x >> 24);
    }
    VV_GO(vv_safetensors_writer_new(&writer));
    VV_GO(vv_safetensors_add_text(writer, "long", text));
    VV_GO(vv_safetensors_add_text(writer, "step", "12"));
    VV_GO(vv_safetensors_add(writer, "noise", tensor));
    VV_GO(vv_safetensors_write(writer, path));
out:
    vv_tensor_free(tensor);
    vv_safetensors_writer_free(writer);
    return status;
}

static void texts_alone(void **state)
{
    (void)state;
    char dir[256], path[300];
    vv_safetensors *file;
    const char *const names[] = {"a.safetensors", "a.safetensors.zst"};
    temp_dir(dir);
    for (int i = 0; i < 2 && (i == 0 || VVI_HAVE_ZSTD); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        assert_ok(write_large(path));
        /* Cut in the middle of the data: the texts are there all the same. */
        assert_int_equal(truncate(path, 3000000), 0);
        assert_fails(vv_safetensors_open(&file, path), VV_EFORMAT);
        assert_ok(vvi_safetensors_texts(&file, path));
        assert_string_equal(vv_safetensors_text(file, "step"), "12");
        assert_int_equal(strlen(vv_safetensors_text(file, "long")), 100000);
        assert_int_equal(vv_safetensors_count(file), 0);
        vv_safetensors_close(file);
        assert_int_equal(truncate(path, i ? 100 : 50000), 0);
        assert_fails(vvi_safetensors_texts(&file, path), VV_EFORMAT);
        assert_int_equal(truncate(path, 3), 0);
        assert_fails(vvi_safetensors_texts(&file, path), VV_EFORMAT);
    }
    remove_dir(dir);
}

static void resaved(void **state)
{
    (void)state;
    vv_safetensors *file;
    assert_ok(vv_safetensors_open(&file, GOLDEN_DIR "/resaved.safetensors"));
    assert_string_equal(vv_safetensors_text(file, "step"), "12");
    assert_int_equal(vv_safetensors_count(file), VV_DTYPE_COUNT + 2);
    assert_near(vv_tensor_get(vv_safetensors_find(file, "scalar"), 0), 2.5, 0.0, 0.0);
    vv_safetensors_close(file);
    assert_fails(vv_safetensors_open(&file, GOLDEN_DIR "/resaved_changed.safetensors"), VV_EFORMAT);
    assert_says("leave out the texts \"vivace.crc32\" and \"vivace.header_crc32\"");
}

/* `test_safetensors_zstd PATH` writes the file that make_resaved.py starts from. */
int main(int argc, char **argv)
{
    if (argc == 2)
        return write_case(argv[1]) != VV_OK;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed), cmocka_unit_test(texts_alone), cmocka_unit_test(resaved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
