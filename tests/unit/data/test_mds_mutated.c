/* test_mds_mutated.c - twice five hundred damaged sets of MDS shards: index, shard, class names and
 * the index of version 1, each with cut, flipped, overwritten or repeated bytes. Opening the data
 * set and reading every sample gives samples or one sentence, never a crash, a leak, or a file
 * outside the folder. */
#include <vivace/datasets.h>
#include <vivace/ext/mds_shards.h>
#include <vivace/image_files.h>
#include <vivace/rng.h>

#include "vv_test_files.h"

enum { MUTATIONS = 500, ROOM = 1 << 16 };

static void make_set(const char *dir)
{
    static const vv_mds_column columns[] = {{"image", "jpeg", 0}, {"label", "str", 0}};
    static const char *const names[] = {"ant", "bee"};
    vv_mds_writer *writer;
    vv_mds_writer_opts opts = VV_MDS_WRITER_DEFAULTS;
    opts.columns = columns;
    opts.column_count = 2;
    opts.shard_bytes = 2000;
    opts.hashes = "sha1,xxh64";
    assert_ok(vv_mds_writer_new(&writer, dir, &opts));
    for (int i = 0; i < 6; i++) {
        uint8_t pixels[16 * 12 * 3];
        const vv_image_shape shape = {16, 12, 3};
        void *file;
        size_t bytes;
        for (int k = 0; k < 16 * 12 * 3; k++)
            pixels[k] = (uint8_t)(k * (i + 1));
        assert_ok(vv_jpeg_encode(&file, &bytes, &shape, pixels, 60));
        const vv_mds_bytes values[] = {{file, bytes}, {names[i % 2], 3}};
        assert_ok(vv_mds_writer_add(writer, values));
        vv_dealloc(file);
    }
    assert_ok(vv_mds_writer_classes(writer, names, 2));
    assert_ok(vv_mds_writer_finish(writer));
    vv_mds_writer_free(writer);
}

static size_t read_file(const char *dir, const char *name, unsigned char *out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(out, 1, ROOM / 2, file);
    fclose(file);
    return bytes;
}

static size_t mutate(unsigned char *data, size_t bytes, vv_rng *rng)
{
    static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff, '9', '"', '-'};
    const int64_t changes = 1 + vv_rng_below(rng, 3);
    for (int64_t i = 0; i < changes && bytes > 0; i++) {
        const size_t at = (size_t)vv_rng_below(rng, (int64_t)bytes);
        const int64_t kind = vv_rng_below(rng, 8);
        if (kind == 0) {
            bytes = at;
        } else if (kind < 3) {
            data[at] ^= (unsigned char)(1u << vv_rng_below(rng, 8));
        } else if (kind < 7) {
            data[at] = edges[vv_rng_below(rng, sizeof edges)];
        } else if (2 * bytes - at <= ROOM) {
            memmove(data + bytes, data + at, bytes - at);
            bytes += bytes - at;
        }
    }
    return bytes;
}

/* How many samples could be read. */
static int read_set(const char *dir, const char *settings)
{
    vv_mds_set_opts opts;
    vv_dataset *set;
    int good = 0;
    static union {
        uint8_t pixels[64 * 64 * 3];
        int32_t tokens[4096];
    } input;
    static int32_t target[4096];
    assert_ok(vv_opts_init(&vv_dataset_mds.desc, &opts));
    assert_ok(vv_opts_set(&vv_dataset_mds.desc, &opts, "dir", dir));
    assert_ok(vv_opts_set_all(&vv_dataset_mds.desc, &opts, settings));
    vv_error_clear();
    const vv_status status = vv_dataset_open(&set, &vv_dataset_mds, &opts, "train");
    if (status != VV_OK)
        assert_true(vv_error()[0] && !strchr(vv_error(), '\n'));
    for (int64_t i = 0; status == VV_OK && i < set->count && i < 40; i++) {
        vv_error_clear();
        if (vv_dataset_read(set, i, &input, target) == VV_OK)
            good++;
        else
            assert_true(vv_error()[0] && strstr(vv_error(), "data set mds"));
    }
    if (status == VV_OK)
        vv_dataset_free(set);
    vv_opts_fini(&vv_dataset_mds.desc, &opts);
    return good;
}

static void many(const char *dir, const char *const *names, int count, const char *settings)
{
    static unsigned char whole[ROOM], data[ROOM];
    const int64_t before = vv_memory_live_count();
    int good = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        const char *name = names[i % count];
        vv_rng rng = vv_rng_at(1, "mutated set", (uint64_t)i);
        const size_t bytes = read_file(dir, name, whole);
        memcpy(data, whole, bytes);
        write_file(dir, name, data, mutate(data, bytes, &rng));
        good += read_set(dir, settings) > 0;
        write_file(dir, name, whole, bytes);
        assert_int_equal(vv_memory_live_count(), before);
    }
    assert_in_range(good, 1, MUTATIONS - 1); /* some are sound still, some are not */
}

static void version_2(void **state)
{
    (void)state;
    static const char *const names[] = {"index.json", "shard.00000.mds", "classes.json"};
    char dir[256];
    if (!vv_image_format_available(VV_IMAGE_JPEG))
        skip();
    temp_dir(dir);
    make_set(dir);
    assert_int_equal(read_set(dir, "train=,size=16"), 6);
    many(dir, names, 3, "train=,size=16");
    remove_dir(dir);
}

static void version_1(void **state)
{
    (void)state;
    static const char *const names[] = {"index.mds", "000000.mds"};
    static unsigned char data[ROOM];
    char dir[256];
    const char *golden = VV_SOURCE_ROOT "/tests/unit/data/mds/v1";
    temp_dir(dir);
    for (int i = 0; i < 5; i++) {
        char name[32] = "index.mds";
        if (i < 4)
            snprintf(name, sizeof name, "%06d.mds", i);
        const size_t bytes = read_file(golden, name, data);
        write_file(dir, name, data, bytes);
    }
    assert_int_equal(read_set(dir, "train=,vocabulary=200"), 10);
    many(dir, names, 2, "train=,vocabulary=200,seq=30");
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(version_2), cmocka_unit_test(version_1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
