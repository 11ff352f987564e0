/* test_cifar10.c - CIFAR-10 reads its binary files, plain or zstd, into pixels in the official
 * order; a file of broken records is refused; `prepare` unpacks the official archive without using
 * the paths in it. The real set, if it is there, has 5,000 images a class and the published mean.
 */
#include "vv_test_files.h"

#include <vivace/data.h>

#include "cifar10.h"
#include "vvi_config.h"

#if VVI_HAVE_ZLIB
#include <zlib.h>
#endif
#if VVI_HAVE_ZSTD
#include <zstd.h>
#endif

#define RECORD 3073

/* Record r of file f: label (f + r) % 10, and planes that tell channel, position and record. */
static void make_records(unsigned char *out, int f, int count)
{
    for (int r = 0; r < count; r++, out += RECORD) {
        out[0] = (unsigned char)((f + r) % 10);
        for (int c = 0; c < 3; c++)
            for (int p = 0; p < 1024; p++)
                out[1 + c * 1024 + p] = (unsigned char)(c * 80 + p * 3 + r + f);
    }
}

static void write_set(const char *dir)
{
    static unsigned char buffer[2 * RECORD];
    for (int f = 0; f < 6; f++) {
        char name[32];
        make_records(buffer, f, 2);
        snprintf(name, sizeof name, f < 5 ? "data_batch_%d.bin" : "test_batch.bin", f + 1);
        write_file(dir, name, buffer, sizeof buffer);
    }
}

static void check_sample(vv_dataset *set, int64_t index, int f, int r)
{
    uint8_t image[3072];
    int32_t label;
    assert_ok(vv_dataset_read(set, index, image, &label));
    assert_int_equal(label, (f + r) % 10);
    for (int p = 0; p < 1024; p++)
        for (int c = 0; c < 3; c++)
            assert_int_equal(image[p * 3 + c], (unsigned char)(c * 80 + p * 3 + r + f));
}

static void reads_planes_into_pixels(void **state)
{
    (void)state;
    char dir[256];
    temp_dir(dir);
    write_set(dir);
    const vv_cifar10_opts opts = {{dir}};
    vv_dataset *set;
    assert_ok(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "train"));
    assert_int_equal(set->count, 10);
    for (int i = 0; i < 10; i++)
        check_sample(set, i, i / 2, i % 2);
    vv_dataset_free(set);
    assert_ok(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "eval"));
    assert_int_equal(set->count, 2);
    check_sample(set, 1, 5, 1);
    assert_string_equal(set->class_names[3], "cat");
    vv_dataset_free(set);
    remove_dir(dir);
}

static void refuses_broken_records(void **state)
{
    (void)state;
    static unsigned char buffer[2 * RECORD];
    char dir[256];
    temp_dir(dir);
    write_set(dir);
    const vv_cifar10_opts opts = {{dir}};
    vv_dataset *set;
    make_records(buffer, 0, 2);
    write_file(dir, "data_batch_3.bin", buffer, 5000);
    assert_fails(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "train"), VV_EFORMAT);
    assert_says("data_batch_3.bin: expected a multiple of 3073 bytes");
    assert_says("found 5000");
    buffer[RECORD] = 10;
    write_file(dir, "data_batch_3.bin", buffer, sizeof buffer);
    assert_fails(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "train"), VV_EFORMAT);
    assert_says("found 10 in record 1");
    write_file(dir, "data_batch_3.bin", buffer, 0);
    assert_fails(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "train"), VV_EFORMAT);
    assert_null(set);
    remove_dir(dir);
}

/* Each allocation of an opening fails once: an error, and nothing is left. */
static void survives_each_allocation_failing(void **state)
{
    (void)state;
    char dir[256];
    temp_dir(dir);
    write_set(dir);
    const vv_cifar10_opts opts = {{dir}};
    vv_dataset *set;
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "train"));
    const uint64_t allocations = vv_memory_alloc_count() - before;
    vv_dataset_free(set);
    assert_true(allocations >= 4);
    for (uint64_t n = 1; n <= allocations; n++) {
        vv_memory_fail_at(n);
        assert_fails(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "train"), VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_null(set);
        assert_int_equal(vv_memory_live_count(), live);
    }
    remove_dir(dir);
}

static void reads_zstd(void **state)
{
    (void)state;
#if VVI_HAVE_ZSTD
    static unsigned char buffer[2 * RECORD], packed[4 * RECORD];
    char dir[256], path[512];
    temp_dir(dir);
    write_set(dir);
    make_records(buffer, 5, 2);
    const size_t bytes = ZSTD_compress(packed, sizeof packed, buffer, sizeof buffer, 3);
    assert_false(ZSTD_isError(bytes));
    snprintf(path, sizeof path, "%s/test_batch.bin", dir);
    assert_int_equal(unlink(path), 0);
    write_file(dir, "test_batch.bin.zst", packed, bytes);
    const vv_cifar10_opts opts = {{dir}};
    vv_dataset *set;
    assert_ok(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "eval"));
    check_sample(set, 0, 5, 0);
    check_sample(set, 1, 5, 1);
    vv_dataset_free(set);
    write_file(dir, "test_batch.bin.zst", packed, bytes / 2);
    assert_fails(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "eval"), VV_EFORMAT);
    assert_says("cut short");
    remove_dir(dir);
#else
    skip();
#endif
}

#if VVI_HAVE_ZLIB
static void put_tar(gzFile file, const char *name, const unsigned char *data, size_t bytes)
{
    char header[512] = {0};
    unsigned sum = 0;
    snprintf(header, 100, "%s", name);
    snprintf(header + 100, 8, "%07o", 0644);
    snprintf(header + 124, 12, "%011o", (unsigned)bytes);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar", 6);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    static const char zeros[512];
    assert_int_equal(gzwrite(file, header, 512), 512);
    if (bytes > 0)
        assert_int_equal(gzwrite(file, data, (unsigned)bytes), (int)bytes);
    if (bytes % 512 != 0)
        gzwrite(file, zeros, (unsigned)(512 - bytes % 512));
}

static void write_archive(const char *path, int files)
{
    static unsigned char buffer[2 * RECORD];
    static const char zeros[1024];
    gzFile file = gzopen(path, "wb1");
    assert_non_null(file);
    put_tar(file, "cifar-10-batches-bin/readme.html", buffer, 100);
    for (int f = 0; f < files; f++) {
        char name[64];
        make_records(buffer, f, 2);
        snprintf(name, sizeof name, f < 5 ? "../../up/data_batch_%d.bin" : "/abs/test_batch.bin",
                 f + 1);
        put_tar(file, name, buffer, sizeof buffer);
    }
    gzwrite(file, zeros, sizeof zeros);
    assert_int_equal(gzclose(file), Z_OK);
}
#endif

static void prepare_unpacks_the_archive(void **state)
{
    (void)state;
#if VVI_HAVE_ZLIB
    char dir[256], path[512];
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/cifar-10-binary.tar.gz", dir);
    write_archive(path, 6);
    assert_ok(vv_dataset_cifar10.prepare(dir));
    assert_int_equal(count_files(dir), 7);
    const vv_cifar10_opts opts = {{dir}};
    vv_dataset *set;
    assert_ok(vv_dataset_open(&set, &vv_dataset_cifar10, &opts, "train"));
    check_sample(set, 9, 4, 1);
    vv_dataset_free(set);

    write_archive(path, 4);
    assert_fails(vv_dataset_cifar10.prepare(dir), VV_EFORMAT);
    assert_says("data_batch_5.bin");
    assert_int_equal(truncate(path, 300), 0);
    assert_fails(vv_dataset_cifar10.prepare(dir), VV_EFORMAT);
    assert_int_equal(count_files(dir), 7);
    assert_int_equal(unlink(path), 0);
    assert_fails(vv_dataset_cifar10.prepare(dir), VV_ENOTFOUND);
    remove_dir(dir);
#else
    skip();
#endif
}

static void real_set_has_the_published_numbers(void **state)
{
    (void)state;
    const char *root = getenv("VIVACE_DATA");
    char dir[1024];
    snprintf(dir, sizeof dir, "%s/cifar10", root ? root : "");
    if (!root || access(dir, F_OK) != 0)
        skip();
    vv_dataset *set;
    assert_ok(vv_dataset_open(&set, &vv_dataset_cifar10, NULL, "train"));
    assert_int_equal(set->count, 50000);
    const uint8_t *pixels = set->inputs;
    const int32_t *labels = set->targets;
    static const double mean[3] = {0.49139968, 0.48215841, 0.44653091};
    uint64_t sum[3] = {0};
    int count[10] = {0};
    for (int64_t i = 0; i < set->count * 1024; i++)
        for (int c = 0; c < 3; c++)
            sum[c] += pixels[3 * i + c];
    for (int64_t i = 0; i < set->count; i++)
        count[labels[i]]++;
    for (int c = 0; c < 3; c++)
        assert_near((double)sum[c] / (255.0 * 1024 * 50000), mean[c], 1e-7, 0);
    for (int c = 0; c < 10; c++)
        assert_int_equal(count[c], 5000);
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_planes_into_pixels),
        cmocka_unit_test(refuses_broken_records),
        cmocka_unit_test(reads_zstd),
        cmocka_unit_test(prepare_unpacks_the_archive),
        cmocka_unit_test(real_set_has_the_published_numbers),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
