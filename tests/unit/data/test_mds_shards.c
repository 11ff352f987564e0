/* test_mds_shards.c - sets of MDS shards that the original packages wrote (mds/make_mds.py) are
 * read exactly, plain, zstd and gzip alike, version 1 with sizes beyond 127 too; from several
 * threads at once; what is damaged, missing, or points outside the folder is told in a sentence. */
#include <pthread.h>

#include <vivace/ext/mds_shards.h>

#include "vv_test_files.h"
#include "vvi_config.h"

/* Whether this build can unpack the sample. */
static bool readable(const char *name)
{
    return strstr(name, "zst") ? VVI_HAVE_ZSTD : strstr(name, "gz") ? VVI_HAVE_ZLIB : true;
}

static int token(int64_t sample, int64_t place)
{
    return (int)((sample * 31 + place * 7) % 200);
}

static vv_mds *open_sample(const char *name)
{
    char path[1024];
    vv_mds *mds;
    snprintf(path, sizeof path, "%s/tests/unit/data/mds/%s", VV_SOURCE_ROOT, name);
    assert_ok(vv_mds_open(&mds, path));
    return mds;
}

static const void *read_column(vv_mds *mds, int64_t index, const char *name, size_t *bytes)
{
    int column;
    const void *data;
    assert_ok(vv_mds_find(&column, mds, name));
    assert_ok(vv_mds_read(mds, index, column, &data, bytes));
    return data;
}

/* The column's numbers. */
static vv_mds_values values_of(vv_mds *mds, int64_t index, const char *name, const char *dtype)
{
    int column;
    size_t bytes;
    vv_mds_values values;
    const void *data = read_column(mds, index, name, &bytes);
    assert_ok(vv_mds_find(&column, mds, name));
    assert_ok(vv_mds_values_of(&values, vv_mds_column_at(mds, column)->encoding, data, bytes,
                               dtype));
    return values;
}

static int32_t number_of(vv_mds *mds, int64_t index, const char *name)
{
    int32_t number;
    vv_mds_values values = values_of(mds, index, name, NULL);
    assert_int_equal(values.count, 1);
    assert_ok(vv_mds_values_i32(&values, 0, 1, INT32_MIN, INT32_MAX, &number));
    return number;
}

static void check_v2(vv_mds *mds, int64_t i)
{
    size_t bytes;
    int32_t whole[10];
    float single;
    vv_mds_values values = values_of(mds, i, "tokens", "int64");
    assert_int_equal(values.count, 8 + i % 3);
    assert_ok(vv_mds_values_i32(&values, 0, values.count, 0, 199, whole));
    for (int64_t p = 0; p < values.count; p++)
        assert_int_equal(whole[p], token(i, p));
    assert_int_equal(number_of(mds, i, "label"), i % 4 - 1);
    assert_int_equal(number_of(mds, i, "short"), 65000 + i);

    char want[64] = "", once[32];
    const char *text = read_column(mds, i, "text", &bytes);
    snprintf(once, sizeof once, "Größe %d", (int)i);
    for (int k = 0; k < 1 + i % 2; k++)
        strcat(want, once);
    assert_int_equal(bytes, strlen(want));
    assert_memory_equal(text, want, bytes);

    values = values_of(mds, i, "score", NULL);
    assert_ok(vv_mds_values_f32(&values, 0, 1, &single));
    assert_near(single, (double)i / 4, 0, 0);
    values = values_of(mds, i, "fixed", NULL);
    assert_int_equal(values.ndim, 2);
    assert_int_equal(values.shape[0], 2);
    assert_int_equal(values.shape[1], 3);
    assert_ok(vv_mds_values_i32(&values, 0, 6, -1000, 1000, whole));
    for (int k = 0; k < 6; k++)
        assert_int_equal(whole[k], k * 100 - i);
    values = values_of(mds, i, "free", NULL);
    assert_int_equal(values.ndim, 2);
    assert_int_equal(values.shape[0], 1);
    assert_int_equal(values.shape[1], 5);
    assert_string_equal(values.dtype, "uint32");
    assert_ok(vv_mds_values_i32(&values, 1, 4, 0, 199, whole));
    for (int k = 0; k < 4; k++)
        assert_int_equal(whole[k], token(i, k + 1));

    const uint8_t *pixels;
    int64_t shape[3];
    const void *image = read_column(mds, i, "image", &bytes);
    assert_ok(vv_mds_image(&pixels, shape, "pil", image, bytes));
    assert_int_equal(shape[0], 2);
    assert_int_equal(shape[1], 3);
    assert_int_equal(shape[2], 3);
    for (int k = 0; k < 18; k++)
        assert_int_equal(pixels[k], (k * 5 + i) % 256);
}

static void reads_version_2(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "zstd", "gz"};
    for (int n = 0; n < 3; n++) {
        if (!readable(names[n]))
            continue;
        vv_mds *mds = open_sample(names[n]);
        assert_int_equal(vv_mds_count(mds), 12);
        assert_int_equal(vv_mds_column_count(mds), 8);
        assert_string_equal(vv_mds_column_at(mds, 0)->encoding, "ndarray:int16:2,3");
        for (int64_t i = 11; i >= 0; i--)
            check_v2(mds, i);
        vv_mds_free(mds);
    }
    vv_mds *mds = open_sample("numbers");
    for (int64_t i = 0; i < 5; i++) {
        float x[4], y;
        vv_mds_values values = values_of(mds, i, "x", NULL);
        assert_int_equal(values.ndim, 1);
        assert_ok(vv_mds_values_f32(&values, 0, 4, x));
        for (int k = 0; k < 4; k++)
            assert_near(x[k], k / 2.0 + (double)i, 0, 0);
        values = values_of(mds, i, "y", NULL);
        assert_ok(vv_mds_values_f32(&values, 0, 1, &y));
        assert_near(y, (double)i * 1.5, 0, 0);
    }
    vv_mds_free(mds);
}

static void reads_version_1(void **state)
{
    (void)state;
    static const char *const names[] = {"v1", "v1_gz", "v1_wide"};
    for (int n = 0; n < 3; n++) {
        if (!readable(names[n]))
            continue;
        vv_mds *mds = open_sample(names[n]);
        assert_int_equal(vv_mds_count(mds), 10);
        for (int64_t i = 0; i < 10; i++) {
            size_t bytes;
            int32_t whole[22];
            char want[16];
            vv_mds_values values = values_of(mds, i, "tokens", "int64");
            assert_int_equal(values.count, 20 + i % 3);
            assert_ok(vv_mds_values_i32(&values, 0, values.count, 0, 199, whole));
            for (int64_t p = 0; p < values.count; p++)
                assert_int_equal(whole[p], token(i, p));
            const char *uid = read_column(mds, i, "uid", &bytes);
            snprintf(want, sizeof want, "%06d", (int)i);
            assert_int_equal(bytes, n == 2 && i % 2 ? 306 : 6);
            assert_memory_equal(uid, want, 6);
        }
        vv_mds_free(mds);
    }
    vv_mds *mds = open_sample("v1_same");
    assert_int_equal(vv_mds_count(mds), 4);
    for (int64_t i = 0; i < 4; i++) {
        size_t bytes;
        const unsigned char *x = read_column(mds, i, "x", &bytes);
        assert_int_equal(bytes, 3);
        assert_int_equal(x[2], i + 2);
    }
    vv_mds_free(mds);
}

static void *read_all(void *arg)
{
    vv_mds *mds = arg;
    for (int64_t i = 0; i < vv_mds_count(mds); i++) {
        const void *data;
        size_t bytes;
        if (vv_mds_read(mds, i, 3, &data, &bytes) != VV_OK || bytes != 8 ||
            *(const signed char *)data != i % 4 - 1)
            return NULL;
    }
    return arg;
}

static void reads_from_several_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    vv_mds *mds = open_sample(readable("zstd") ? "zstd" : "plain");
    for (int t = 0; t < 4; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, read_all, mds), 0);
    for (int t = 0; t < 4; t++) {
        void *result;
        pthread_join(threads[t], &result);
        assert_ptr_equal(result, mds);
    }
    vv_mds_free(mds);
}

static void tells_what_is_asked_wrongly(void **state)
{
    (void)state;
    int column;
    const void *data;
    size_t bytes;
    int32_t number;
    const uint8_t *pixels;
    int64_t shape[3];
    vv_mds_values values;
    vv_mds *mds = open_sample("plain");
    assert_fails(vv_mds_find(&column, mds, "word"), VV_ENOTFOUND);
    assert_says("no column \"word\"; there are: fixed, free, image, label");
    assert_fails(vv_mds_read(mds, 12, 0, &data, &bytes), VV_EINVAL);
    assert_fails(vv_mds_read(mds, 0, 8, &data, &bytes), VV_EINVAL);
    values = values_of(mds, 3, "label", NULL);
    assert_fails(vv_mds_values_i32(&values, 0, 1, 0, 1, &number), VV_EFORMAT);
    assert_says("number 0 is 2, expected a whole one from 0 to 1");
    assert_fails(vv_mds_values_i32(&values, 0, 2, 0, 9, &number), VV_EINVAL);
    data = read_column(mds, 0, "text", &bytes);
    assert_fails(vv_mds_values_of(&values, "str", data, bytes, NULL), VV_ETYPE);
    assert_fails(vv_mds_values_of(&values, "bytes", data, bytes, NULL), VV_ETYPE);
    assert_says("say which");
    assert_fails(vv_mds_values_of(&values, "bytes", data, 7, "int64"), VV_EFORMAT);
    assert_fails(vv_mds_image(&pixels, shape, "jpeg", data, bytes), VV_ETYPE);
    assert_says("JPEG");
    vv_mds_free(mds);
}

/* Encodings whose bytes are cut short or say what cannot be. */
static void values_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *encoding, *bytes;
        size_t count;
    } cases[] = {
        {"int", "1234567", 7},
        {"float32", "12345", 5},
        {"ndarray", "", 0},
        {"ndarray", "\x09", 1},
        {"ndarray", "\x07\x04\x01z", 4},           /* no such kind */
        {"ndarray", "\x08\x04\x02z", 4},           /* two numbers, one is there */
        {"ndarray", "\x08\x08\x02", 3},            /* two axes, one size */
        {"ndarray", "\x08\xfc\x02zzzzzzzzzzz", 13}, /* 63 axes */
        {"ndarray:uint8", "\x07\xff\xff\xff\xff\xff\xff\xff\x7fz", 10},
        {"ndarray:uint8:2,3", "12345", 5},
        {"ndarray:uint8:2,x", "123456", 6},
        {"ndarray:uint8:0", "", 0},
        {"ndarray:half", "12", 2},
    };
    vv_mds_values values;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        assert_fails(vv_mds_values_of(&values, cases[c].encoding, cases[c].bytes, cases[c].count,
                                      NULL),
                     VV_EFORMAT);
    float half[4];
    assert_ok(vv_mds_values_of(&values, "ndarray:float16:4", "\x00\x3c\x01\x00\x00\xc1\x00\x7c", 8,
                               NULL));
    assert_ok(vv_mds_values_f32(&values, 0, 4, half));
    assert_near(half[0], 1, 0, 0);
    assert_near(half[1], 5.9604644775390625e-8, 0, 0);
    assert_near(half[2], -2.5, 0, 0);
    assert_true(isinf(half[3]));
    static const struct {
        const char *bytes;
        size_t count;
    } images[] = {{"\1\0\0\0\1\0\0\0\3\0\0\0RGBxy", 17},
                  {"\1\0\0\0\1\0\0\0\3\0\0\0RG", 14},
                  {"\0\0\0\0\1\0\0\0\1\0\0\0L", 13},
                  {"\xff\xff\xff\xff\xff\xff\xff\xff\1\0\0\0Lx", 14}};
    const uint8_t *pixels;
    int64_t shape[3];
    for (int c = 0; c < 4; c++)
        assert_fails(vv_mds_image(&pixels, shape, "pil", images[c].bytes, images[c].count),
                     VV_EFORMAT);
    assert_fails(vv_mds_image(&pixels, shape, "pil", "\1\0\0\0\1\0\0\0\4\0\0\0CMYKwxyz", 20),
                 VV_ETYPE);
    assert_says("CMYK");
}

static void fails_with(const char *dir, const char *text)
{
    vv_mds *mds;
    vv_status status = vv_mds_open(&mds, dir);
    const void *data;
    size_t bytes;
    for (int64_t i = 0; status == VV_OK && i < vv_mds_count(mds); i++)
        status = vv_mds_read(mds, i, vv_mds_column_count(mds) - 1, &data, &bytes);
    assert_int_not_equal(status, VV_OK);
    assert_says(text);
    vv_mds_free(mds);
}

#define SHARD_(more)                                                                    \
    "{\"shards\":[{\"column_encodings\":[\"str\"],\"column_names\":[\"a\"],"               \
    "\"column_sizes\":[null],\"format\":\"mds\",\"version\":2,\"samples\":1," more         \
    "}],\"version\":2}"

static void tells_what_is_damaged(void **state)
{
    (void)state;
    static const struct {
        const char *index, *text;
    } cases[] = {
        {"{\"shards\":", "index.json:1: no JSON"},
        {"{\"shards\":{},\"version\":2}", "expected {\"shards\": [...], \"version\": 2}"},
        {"{\"shards\":[],\"version\":2}", "no shards"},
        {"{\"shards\":[{\"format\":\"json\"}],\"version\":2}", "shard 0: format: expected mds"},
        {SHARD_("\"raw_data\":null"), "raw_data: expected a file"},
        {SHARD_("\"raw_data\":{\"basename\":\"../x\",\"bytes\":9}"), "within the folder"},
        {SHARD_("\"raw_data\":{\"basename\":\"/etc/passwd\",\"bytes\":9}"), "within the folder"},
        {SHARD_("\"raw_data\":{\"basename\":\"x\",\"bytes\":-1}"), "a number of bytes"},
        {SHARD_("\"raw_data\":{\"basename\":\"x\",\"bytes\":9}"), "the shard x, which is not there"},
        {SHARD_("\"raw_data\":{\"basename\":\"cut\",\"bytes\":9}"), "expected 9 bytes, found 13"},
        {SHARD_("\"raw_data\":{\"basename\":\"cut\",\"bytes\":13}"), "the shard is damaged"},
        {SHARD_("\"raw_data\":{\"basename\":\"long\",\"bytes\":17}"), "ends behind the sample's"},
        {SHARD_("\"raw_data\":{\"basename\":\"y\",\"bytes\":9},\"zip_data\":{\"basename\":\"cut\"}"),
         "expected at most 10 bytes, found 13"},
    };
    char dir[256];
    temp_dir(dir);
    write_file(dir, "cut", "\1\0\0\0\xff\0\0\0\xff\xff\0\0z", 13);
    write_file(dir, "long", "\1\0\0\0\xc\0\0\0\x11\0\0\0\2\0\0\0z", 17); /* two bytes, one there */
    fails_with(dir, "no index.json (or index.mds)");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        write_file(dir, "index.json", cases[c].index, strlen(cases[c].index));
        fails_with(dir, cases[c].text);
    }
    remove_dir(dir);
}

static void tells_what_is_damaged_in_version_1(void **state)
{
    (void)state;
    char dir[256], path[1024];
    unsigned char index[127];
    snprintf(path, sizeof path, "%s/tests/unit/data/mds/v1/index.mds", VV_SOURCE_ROOT);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(index, 1, sizeof index, file), sizeof index);
    fclose(file);
    temp_dir(dir);
    for (size_t bytes = 0; bytes < sizeof index; bytes++) { /* cut anywhere */
        write_file(dir, "index.mds", index, bytes);
        fails_with(dir, "index.mds");
    }
    static const struct {
        int at;
        unsigned char to;
        const char *text;
    } cases[] = {{0, 0, "expected an index of MDS shards"}, {4, 2, "expected version 1"},
                 {19, 9, "expected"},                       {12, 11, "expected 11 samples in all"},
                 {12, 9, "more than the 9 in all"},         {92, 3, "0, 1, 2, 4 or 8 bytes"},
                 {96, 255, "ends behind the shard's"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        unsigned char changed[sizeof index];
        memcpy(changed, index, sizeof index);
        changed[cases[c].at] = cases[c].to;
        if (cases[c].at == 96) /* the second shard is as long as one sample */
            memset(changed + 60, 0, 8), changed[60] = 100;
        write_file(dir, "index.mds", changed, sizeof index);
        fails_with(dir, cases[c].text);
    }
    remove_dir(dir);
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    static const char *const names[] = {"gz", "v1"};
    char path[1024];
    for (int n = 0; n < 2; n++) {
        if (!readable(names[n]))
            continue;
        const int64_t live = vv_memory_live_count();
        snprintf(path, sizeof path, "%s/tests/unit/data/mds/%s", VV_SOURCE_ROOT, names[n]);
        vv_status status = VV_ENOMEM;
        for (uint64_t at = 1; status != VV_OK; at++) {
            vv_mds *mds;
            const void *data;
            size_t bytes;
            vv_memory_fail_at(at);
            status = vv_mds_open(&mds, path);
            if (status == VV_OK)
                status = vv_mds_read(mds, 0, 0, &data, &bytes);
            vv_memory_fail_at(0);
            vv_mds_free(mds);
            assert_int_equal(vv_memory_live_count(), live);
            assert_in_range(at, 1, 400);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_version_2),
        cmocka_unit_test(reads_version_1),
        cmocka_unit_test(reads_from_several_threads),
        cmocka_unit_test(tells_what_is_asked_wrongly),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(tells_what_is_damaged),
        cmocka_unit_test(tells_what_is_damaged_in_version_1),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
