/* test_data_files.c - readers refuse every file that is cut short or foreign with one sentence that
 * names file, expected and found; headers that lie about sizes allocate nothing; gzip and zstd are
 * told by content; folders are looked for in the stated order; no allocation failure leaks. */
#include "vv_test_files.h"

#include <vivace/ext/data_files.h>

#include "data/data_file.h"
#include "data/sha256.h"
#include "vvi_config.h"

#if VVI_HAVE_ZLIB
#include <zlib.h>
#endif
#if VVI_HAVE_ZSTD
#include <zstd.h>
#endif

static void idx_of_any_length(void **state)
{
    (void)state;
    unsigned char file[64];
    const int dims[2] = {5, 3};
    vv_tensor *tensor;
    const size_t bytes = make_idx(file, 2, dims, 0, 256);
    assert_ok(vvi_idx_parse(&tensor, "some", file, bytes));
    assert_int_equal(tensor->ndim, 2);
    assert_int_equal(tensor->shape[0], 5);
    assert_int_equal(tensor->shape[1], 3);
    for (int i = 0; i < 15; i++)
        assert_int_equal(((uint8_t *)tensor->data)[i], i * 7);
    vv_tensor_free(tensor);
    for (size_t cut = 0; cut < bytes; cut++) {
        unsigned char *part = malloc(cut + 1); /* so that a checker sees reads past the end */
        memcpy(part, file, cut);
        part = realloc(part, cut ? cut : 1);
        assert_fails(vvi_idx_parse(&tensor, "some", part, cut), VV_EFORMAT);
        assert_says("some: expected");
        assert_null(tensor);
        free(part);
    }
    assert_fails(vvi_idx_parse(&tensor, "some", file, bytes + 1), VV_EFORMAT);
    assert_says("expected 27 bytes for [5,3], found 28");
}

static void idx_headers_that_lie(void **state)
{
    (void)state;
    static const struct {
        unsigned char head[36];
        const char *says;
    } cases[] = {
        {{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
         "that can exist"},
        {{0, 0, 8, 2, 255, 255, 255, 255, 0, 0, 0, 16}, "expected 68719476732 bytes"},
        {{0, 0, 8, 9}, "found 9"},
        {{0, 0, 8, 0}, "found 0"},
        {{0, 0, 0x0d, 1, 0, 0, 0, 1}, "00 00 0d"},
        {{0x89, 'P', 'N', 'G'}, "89 50 4e"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        vv_tensor *tensor;
        vv_memory_peak_reset();
        const size_t before = vv_memory_peak_bytes();
        assert_fails(vvi_idx_parse(&tensor, "liar", cases[c].head, sizeof cases[c].head),
                     VV_EFORMAT);
        assert_says(cases[c].says);
        assert_in_range(vv_memory_peak_bytes() - before, 0, 4096);
    }
}

static void cifar_counts_records(void **state)
{
    (void)state;
    static unsigned char file[3 * VVI_CIFAR_RECORD];
    int64_t count;
    assert_ok(vvi_cifar_check(&count, "c", file, sizeof file));
    assert_int_equal(count, 3);
    assert_fails(vvi_cifar_check(&count, "c", file, 0), VV_EFORMAT);
    assert_fails(vvi_cifar_check(&count, "c", file, sizeof file - 1), VV_EFORMAT);
    assert_says("c: expected a multiple of 3073 bytes");
    file[2 * VVI_CIFAR_RECORD] = 77;
    assert_fails(vvi_cifar_check(&count, "c", file, sizeof file), VV_EFORMAT);
    assert_says("found 77 in record 2");
}

static void reads_plain_files(void **state)
{
    (void)state;
    char dir[256], path[512];
    void *data;
    size_t bytes;
    temp_dir(dir);
    write_file(dir, "plain", "hello", 5);
    snprintf(path, sizeof path, "%s/plain", dir);
    assert_ok(vv_data_file_read(&data, &bytes, path, 5));
    assert_int_equal(bytes, 5);
    assert_memory_equal(data, "hello", 5);
    vv_dealloc(data);
    assert_fails(vv_data_file_read(&data, &bytes, path, 4), VV_EFORMAT);
    assert_says("expected at most 4 bytes, found 5");
    assert_fails(vv_data_file_read(&data, &bytes, dir, 100), VV_EIO);
    snprintf(path, sizeof path, "%s/none", dir);
    assert_fails(vv_data_file_read(&data, &bytes, path, 100), VV_ENOTFOUND);
    char *found;
    assert_ok(vv_data_file_find(&found, dir, "plain"));
    vv_dealloc(found);
    assert_fails(vv_data_file_find(&found, dir, "none"), VV_ENOTFOUND);
    assert_null(found);
    remove_dir(dir);
}

static void unpacks_gzip(void **state)
{
    (void)state;
#if VVI_HAVE_ZLIB
    static unsigned char plain[100000];
    char dir[256], path[512];
    void *data;
    size_t bytes;
    temp_dir(dir);
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (unsigned char)(i * i >> 7);
    snprintf(path, sizeof path, "%s/two.gz", dir);
    for (int member = 0; member < 2; member++) { /* two members are one file */
        gzFile file = gzopen(path, member ? "ab" : "wb");
        assert_int_equal(gzwrite(file, plain + member * 50000, 50000), 50000);
        assert_int_equal(gzclose(file), Z_OK);
    }
    assert_ok(vv_data_file_read(&data, &bytes, path, sizeof plain)); /* exactly the limit */
    assert_int_equal(bytes, sizeof plain);
    assert_memory_equal(data, plain, bytes);
    vv_dealloc(data);
    assert_fails(vv_data_file_read(&data, &bytes, path, sizeof plain - 1), VV_EFORMAT);
    assert_says("more than 99999 bytes");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 5), 0);
    assert_fails(vv_data_file_read(&data, &bytes, path, sizeof plain + 1), VV_EFORMAT);
    assert_says("cut short");
    write_file(dir, "two.gz", "\x1f\x8b rubbish that is not gzip", 27);
    assert_fails(vv_data_file_read(&data, &bytes, path, sizeof plain), VV_EFORMAT);
    assert_says("found damage");
    remove_dir(dir);
#else
    skip();
#endif
}

static void a_small_bomb_allocates_little(void **state)
{
    (void)state;
#if VVI_HAVE_ZSTD
    /* 64 MB of zeros in a few kB: refused at the limit, without first making room for all of it. */
    static unsigned char packed[16384];
    const size_t bytes = 64 << 20;
    void *zeros = calloc(bytes, 1), *data;
    size_t got;
    const size_t size = ZSTD_compress(packed, sizeof packed, zeros, bytes, 1);
    assert_false(ZSTD_isError(size));
    free(zeros);
    vv_memory_peak_reset();
    const size_t before = vv_memory_peak_bytes();
    assert_fails(vvi_unpack(&data, &got, "bomb.zst", packed, size, 1 << 20), VV_EFORMAT);
    assert_says("bomb.zst: unpacks to more than 1048576 bytes");
    assert_in_range(vv_memory_peak_bytes() - before, 0, 4 << 20);
    assert_ok(vvi_unpack(&data, &got, "neither", "plain text", 10, 100));
    assert_null(data);
#else
    skip();
#endif
}

static void folders_in_order(void **state)
{
    (void)state;
    char root[256], sub[300], *found, *before = getenv("VIVACE_DATA");
    before = before ? strdup(before) : NULL;
    temp_dir(root);
    snprintf(sub, sizeof sub, "%s/some_set", root);
    assert_int_equal(mkdir(sub, 0700), 0);
    setenv("VIVACE_DATA", root, 1);
    assert_ok(vv_dataset_find_dir(&found, "", "some_set", "/usr"));
    assert_string_equal(found, sub);
    vv_dealloc(found);
    assert_ok(vv_dataset_find_dir(&found, root, "some_set", "/usr"));
    assert_string_equal(found, root);
    vv_dealloc(found);
    assert_ok(vv_dataset_find_dir(&found, NULL, "other_set", "/usr"));
    assert_string_equal(found, "/usr");
    vv_dealloc(found);
    assert_fails(vv_dataset_find_dir(&found, "/none/here", "some_set", "/usr"), VV_ENOTFOUND);
    assert_says("/none/here");
    assert_fails(vv_dataset_find_dir(&found, NULL, "other_set", NULL), VV_ENOTFOUND);
    assert_says("vivace data fetch other_set");
    assert_null(found);
    unsetenv("VIVACE_DATA");
    assert_fails(vv_dataset_find_dir(&found, NULL, "some_set", "/none"), VV_ENOTFOUND);
    assert_says("VIVACE_DATA");
    if (before)
        setenv("VIVACE_DATA", before, 1);
    free(before);
    remove_dir(root);
}

static void sha256_of_known_texts(void **state)
{
    (void)state;
    /* FIPS 180-4's examples, and a million times "a". */
    static const struct {
        const char *text;
        int times;
        const char *hex;
    } cases[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        vvi_sha256 sha;
        char hex[65];
        vvi_sha256_init(&sha);
        for (int i = 0; i < cases[c].times; i++)
            vvi_sha256_add(&sha, cases[c].text, strlen(cases[c].text));
        vvi_sha256_hex(&sha, hex);
        assert_string_equal(hex, cases[c].hex);
    }
}

/* Opens the MNIST files of `dir` as the data sets do. */
static vv_status open_once(const char *dir)
{
    const vv_dataset_common common = {dir};
    const vv_sample_spec spec = {.input_shape = {28, 28, 1}, .classes = 10};
    vv_dataset *set;
    const vv_status status = vv_dataset_open_idx(&set, "mnist", &common, NULL, "train", &spec);
    vv_dataset_free(set);
    return status;
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    char dir[256];
    temp_dir(dir);
    write_mnist(dir);
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(open_once(dir));
    const uint64_t allocations = vv_memory_alloc_count() - before;
    assert_true(allocations > 10);
    for (uint64_t n = 1; n <= allocations; n++) {
        vv_memory_fail_at(n);
        assert_fails(open_once(dir), VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
    }
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_of_any_length),
        cmocka_unit_test(idx_headers_that_lie),
        cmocka_unit_test(cifar_counts_records),
        cmocka_unit_test(reads_plain_files),
        cmocka_unit_test(unpacks_gzip),
        cmocka_unit_test(a_small_bomb_allocates_little),
        cmocka_unit_test(folders_in_order),
        cmocka_unit_test(sha256_of_known_texts),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
