/* test_safetensors_bad.c - safetensors files that are not what they should be.
 *
 * Each wrong header is refused with a sentence that says what was expected; a cut file and a
 * flipped bit anywhere never crash, never leak, and are found. */
#include "safetensors_case.h"

#include <vivace/str.h>

static char dir[256], path[300];
static unsigned char bytes[8192];
static size_t byte_count;

static int make(void **state)
{
    (void)state;
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (write_case(path) != VV_OK)
        return -1;
    FILE *f = fopen(path, "rb");
    byte_count = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f)
        fclose(f);
    return byte_count > 0 && byte_count < sizeof bytes ? 0 : -1;
}

static int clean(void **state)
{
    (void)state;
    remove_dir(dir);
    return 0;
}

/* A file of this header and so many zero bytes of data, in a block of its exact size so that a
   sanitizer sees any read beyond it. */
static vv_status open_made(vv_safetensors **file, char **block, const char *json, size_t data_bytes)
{
    size_t length = strlen(json);
    assert_ok(vv_alloc(block, 8 + length + data_bytes));
    for (int i = 0; i < 8; i++)
        (*block)[i] = (char)(length >> (8 * i));
    memcpy(*block + 8, json, length);
    return vv_safetensors_open_memory(file, *block, 8 + length + data_bytes);
}

static void assert_refused(const char *json, size_t data_bytes, vv_status code,
                           const char *sentence)
{
    int64_t blocks = vv_memory_live_count();
    vv_safetensors *file;
    char *block;
    vv_error_clear();
    vv_status status = open_made(&file, &block, json, data_bytes);
    if (status != code || !strstr(vv_error(), sentence))
        fail_msg("%s: %s: \"%s\" lacks \"%s\"", json, vv_status_name(status), vv_error(), sentence);
    assert_null(file);
    vv_dealloc(block);
    assert_int_equal(vv_memory_live_count(), blocks);
}

static void test_files_of_others(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}",
        "{ }   ",
        "{\"__metadata__\":{}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"b\":{\"data_offsets\":[4,8],\"shape\":[],\"dtype\":\"F32\"},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}   ",
        "{\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]},"
        "\"a\":{\"dtype\":\"I64\",\"shape\":[1,1],\"data_offsets\":[0,8]}}",
        "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"f\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[1,3]}}",
    };
    static const size_t data[] = {0, 0, 0, 8, 8, 8, 3};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        vv_safetensors *file;
        char *block;
        assert_ok(open_made(&file, &block, good[i], data[i]));
        vv_safetensors_close(file);
        vv_dealloc(block);
    }
}

#define TENSOR(dtype, shape, range) \
    "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" range "}}"

static void test_wrong_headers(void **state)
{
    (void)state;
    assert_refused("", 0, VV_EFORMAT, "begin with '{'");
    assert_refused("[]", 0, VV_EFORMAT, "begin with '{'");
    assert_refused(" {}", 0, VV_EFORMAT, "begin with '{'");
    assert_refused("{", 0, VV_EFORMAT, "no JSON");
    assert_refused("{}x", 0, VV_EFORMAT, "no JSON");
    assert_refused("{\"a\":1}", 0, VV_EFORMAT, "should be an object");
    assert_refused("{\"a\":{}}", 0, VV_EFORMAT, "\"dtype\"");
    assert_refused(TENSOR("\"F32\"", "[2]", "[0,8]"), 9, VV_EFORMAT,
                   "take 8 bytes, but there are 9");
    assert_refused(TENSOR("\"F32\"", "[2]", "[0,8]"), 7, VV_EFORMAT, "within the 7 bytes");
    assert_refused(TENSOR("\"F32\"", "[3]", "[0,8]"), 8, VV_EFORMAT, "takes 12 bytes");
    assert_refused(TENSOR("\"F32\"", "[2]", "[1,9]"), 9, VV_EFORMAT, "begins at byte 1");
    assert_refused(TENSOR("\"F32\"", "[2]", "[8,0]"), 8, VV_EFORMAT, "not within");
    assert_refused(TENSOR("\"F32\"", "[2]", "[-8,0]"), 8, VV_EFORMAT, "not within");
    assert_refused(TENSOR("\"F32\"", "[2]", "[0]"), 8, VV_EFORMAT, "two whole numbers");
    assert_refused(TENSOR("\"F32\"", "[2]", "[0,8.0]"), 8, VV_EFORMAT, "two whole numbers");
    assert_refused(TENSOR("\"F32\"", "[2]", "null"), 8, VV_EFORMAT, "two whole numbers");
    assert_refused(TENSOR("\"F32\"", "[2]", "[0,99999999999999999999]"), 8, VV_EFORMAT, "no JSON");
    assert_refused(TENSOR("\"F32\"", "2", "[0,8]"), 8, VV_EFORMAT, "list of whole numbers");
    assert_refused(TENSOR("\"F32\"", "[-2]", "[0,8]"), 8, VV_EFORMAT, "dimension 0");
    assert_refused(TENSOR("\"F32\"", "[2,true]", "[0,8]"), 8, VV_EFORMAT, "dimension 1");
    assert_refused(TENSOR("\"F32\"", "[4294967296,4294967296,4294967296]", "[0,8]"), 8, VV_EFORMAT,
                   "too large");
    assert_refused(TENSOR("\"F32\"", "[4611686018427387904]", "[0,0]"), 0, VV_EFORMAT, "too large");
    assert_refused(TENSOR("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, VV_EUNSUPPORTED,
                   "9 dimensions");
    assert_refused(TENSOR("\"F16\"", "[4]", "[0,8]"), 8, VV_EUNSUPPORTED, "dtype 'F16'");
    assert_refused(TENSOR("\"f32\"", "[2]", "[0,8]"), 8, VV_EUNSUPPORTED, "dtype 'f32'");
    assert_refused(TENSOR("7", "[2]", "[0,8]"), 8, VV_EFORMAT, "\"dtype\"");
}

static void test_wrong_wholes(void **state)
{
    (void)state;
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
                   6, VV_EFORMAT, "'b' begins at byte 2, but the one before it ends at 4");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                   3, VV_EFORMAT, "'b' begins at byte 2");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                   2, VV_EFORMAT, "duplicate");
    assert_refused("{\"__metadata__\":[]}", 0, VV_EFORMAT, "should be an object");
    assert_refused("{\"__metadata__\":{\"a\":1}}", 0, VV_EFORMAT, "'a' should be a text");
    assert_refused("{\"__metadata__\":{\"vivace.crc32\":\"12345678\"}}", 0, VV_EFORMAT,
                   "is damaged: the checksum of its data is 00000000, but 12345678");
    assert_refused("{\"__metadata__\":{\"vivace.header_crc32\":\"zz\"}}", 0, VV_EFORMAT,
                   "checksum of its header");
    vv_safetensors *file;
    assert_fails(vv_safetensors_open_memory(&file, "1234567", 7), VV_EFORMAT);
    assert_fails(vv_safetensors_open_memory(&file, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10),
                 VV_EFORMAT);
    assert_says("at most 100000000 bytes");
    assert_fails(vv_safetensors_open_memory(&file, "\x09\0\0\0\0\0\0\0{}", 10), VV_EFORMAT);
    assert_says("may be cut short");
    assert_fails(vv_safetensors_open(&file, "/nowhere/x.safetensors"), VV_ENOTFOUND);
    assert_says("/nowhere/x.safetensors");
    vv_str deep = {0};
    vv_str_add(&deep, "{\"a\":");
    for (int i = 0; i < 100000; i++)
        vv_str_add(&deep, "[");
    assert_refused(vv_str_text(&deep), 0, VV_EFORMAT, "no JSON");
    vv_str_fini(&deep);
}

static void test_bools(void **state)
{
    (void)state;
    vv_safetensors *file;
    char data[100];
    const char *json = TENSOR("\"BOOL\"", "[2]", "[0,2]");
    memset(data, 0, sizeof data);
    data[0] = (char)strlen(json);
    memcpy(data + 8, json, strlen(json));
    data[8 + strlen(json) + 1] = 2;
    assert_fails(vv_safetensors_open_memory(&file, data, 10 + strlen(json)), VV_EFORMAT);
    assert_says("element 1 is 2");
}

static void test_every_cut(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    for (size_t length = 0; length < byte_count; length++) {
        vv_safetensors *file;
        char *copy; /* of this very length, so that a sanitizer sees any read beyond */
        assert_ok(vv_alloc(&copy, length));
        memcpy(copy, bytes, length);
        assert_fails(vv_safetensors_open_memory(&file, copy, length), VV_EFORMAT);
        vv_dealloc(copy);
    }
    assert_int_equal(vv_memory_live_count(), blocks);
}

/* Same tensors and texts as the untouched file? */
static bool same_content(const vv_safetensors *a, const vv_safetensors *b)
{
    if (vv_safetensors_count(a) != vv_safetensors_count(b) ||
        vv_safetensors_text_count(a) != vv_safetensors_text_count(b))
        return false;
    for (int i = 0; i < vv_safetensors_count(a); i++) {
        const vv_tensor *x = vv_safetensors_tensor(a, i);
        const vv_tensor *y = vv_safetensors_find(b, vv_safetensors_name(a, i));
        if (!y || x->dtype != y->dtype || !vv_tensor_same_shape(x, y) ||
            memcmp(x->data, y->data, x->bytes) != 0)
            return false;
    }
    for (int i = 0; i < vv_safetensors_text_count(a); i++) {
        const char *key = vv_safetensors_text_key(a, i), *value = vv_safetensors_text(b, key);
        if (!value || strcmp(value, vv_safetensors_text(a, key)) != 0)
            return false;
    }
    return true;
}

static void test_every_flipped_bit(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    vv_safetensors *whole, *file;
    size_t header = bytes[0] | (size_t)bytes[1] << 8;
    int accepted = 0;
    assert_ok(vv_safetensors_open_memory(&whole, bytes, byte_count));
    for (size_t bit = 0; bit < 8 * byte_count; bit++) {
        static unsigned char copy[sizeof bytes];
        memcpy(copy, bytes, byte_count);
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        vv_error_clear();
        vv_status status = vv_safetensors_open_memory(&file, copy, byte_count);
        if (status == VV_OK) {
            /* Only blanks, or the name of a checksum itself (which then goes unchecked). */
            bool same = same_content(whole, file);
            bool unnamed = vv_safetensors_text_count(file) == vv_safetensors_text_count(whole) + 1;
            if (bit / 8 >= 8 + header || (!same && !unnamed))
                fail_msg("bit %zu flipped and not noticed", bit);
            accepted++;
            vv_safetensors_close(file);
        } else if (!vv_error()[0] || (bit / 8 >= 8 + header && !strstr(vv_error(), "checksum") &&
                                      !strstr(vv_error(), "BOOL"))) {
            fail_msg("bit %zu: %s", bit, vv_error());
        }
    }
    vv_safetensors_close(whole);
    assert_true(accepted < (int)byte_count);
    assert_int_equal(vv_memory_live_count(), blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_of_others), cmocka_unit_test(test_wrong_headers),
        cmocka_unit_test(test_wrong_wholes),    cmocka_unit_test(test_bools),
        cmocka_unit_test(test_every_cut),       cmocka_unit_test(test_every_flipped_bit),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
