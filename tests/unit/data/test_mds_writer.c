/* test_mds_writer.c - the writer of MDS shards makes, from the same samples, byte for byte what the
 * format's own package made (mds/make_mds.py), shards and index; packed with gzip and zstd it is
 * read back exactly; checksums are those of published test vectors; an unfinished set is none, a
 * finished one is not overwritten unasked; no failed allocation leaves anything behind. */
#include <vivace/ext/mds_shards.h>

#include "data/digest.h"
#include "vv_test_files.h"
#include "vvi_config.h"

#define GOLDEN VV_SOURCE_ROOT "/tests/unit/data/mds/"

/* All samples of a set into a writer, `times` times, columns in the caller's order. */
static vv_status copy_set(const char *from, const char *to, vv_mds_writer_opts opts,
                          const char *const *names, int count, int times)
{
    vv_status status;
    vv_mds *mds = NULL;
    vv_mds_writer *writer = NULL;
    vv_mds_column columns[8];
    vv_mds_bytes values[8];
    int at[8];
    VV_GO(vv_mds_open(&mds, from));
    for (int c = 0; c < count; c++) {
        VV_GO(vv_mds_find(&at[c], mds, names[c]));
        columns[c] = *vv_mds_column_at(mds, at[c]);
    }
    opts.columns = columns;
    opts.column_count = count;
    VV_GO(vv_mds_writer_new(&writer, to, &opts));
    for (int64_t i = 0; i < times * vv_mds_count(mds); i++) {
        for (int c = 0; c < count; c++)
            VV_GO(vv_mds_read(mds, i % vv_mds_count(mds), at[c], &values[c].data,
                              &values[c].bytes));
        VV_GO(vv_mds_writer_add(writer, values));
    }
    VV_GO(vv_mds_writer_finish(writer));
out:
    vv_mds_writer_free(writer);
    vv_mds_free(mds);
    return status;
}

static void check_same(const char *dir, const char *golden, const char *name)
{
    static char have[8192], want[8192];
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(have, 1, sizeof have, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/%s", golden, name);
    file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(want, 1, sizeof want, file), bytes);
    fclose(file);
    assert_memory_equal(have, want, bytes);
}

static const char *const all[] = {"tokens", "label", "text",  "short",
                                  "score",  "fixed", "free", "image"};

static void equals_the_package(void **state)
{
    (void)state;
    char dir[256];
    vv_mds_writer_opts opts = VV_MDS_WRITER_DEFAULTS;
    temp_dir(dir);
    opts.shard_bytes = 1600;
    opts.hashes = "";
    assert_ok(copy_set(GOLDEN "plain", dir, opts, all, 8, 1));
    check_same(dir, GOLDEN "plain", "shard.00000.mds");
    check_same(dir, GOLDEN "plain", "shard.00001.mds");
    check_same(dir, GOLDEN "plain", "index.json");
    assert_int_equal(count_files(dir), 3);
    remove_dir(dir);
}

static void packed_ones_are_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"label", "tokens"};
    static const char *const kinds[] = {"", "gz", "gz:9", "zstd", "zstd:19"};
    for (int k = 0; k < 5; k++) {
        char dir[256];
        vv_mds *mds, *was;
        vv_mds_writer_opts opts = VV_MDS_WRITER_DEFAULTS;
        if ((kinds[k][0] == 'g' && !VVI_HAVE_ZLIB) || (kinds[k][0] == 'z' && !VVI_HAVE_ZSTD))
            continue;
        temp_dir(dir);
        opts.shard_bytes = 1024;
        opts.compression = kinds[k];
        opts.hashes = "sha1,sha256,xxh64";
        assert_ok(copy_set(GOLDEN "plain", dir, opts, names, 2, 3));
        assert_ok(vv_mds_open(&mds, dir));
        assert_ok(vv_mds_open(&was, GOLDEN "plain"));
        assert_int_equal(vv_mds_count(mds), 36);
        assert_true(count_files(dir) > 3); /* several shards */
        for (int64_t i = 0; i < 36; i++)
            for (int c = 0; c < 2; c++) {
                int from, to;
                const void *have, *want;
                size_t bytes, want_bytes;
                assert_ok(vv_mds_find(&to, mds, names[c]));
                assert_ok(vv_mds_find(&from, was, names[c]));
                assert_ok(vv_mds_read(mds, i, to, &have, &bytes));
                assert_ok(vv_mds_read(was, i % 12, from, &want, &want_bytes));
                assert_int_equal(bytes, want_bytes);
                assert_memory_equal(have, want, bytes);
            }
        vv_mds_free(mds);
        vv_mds_free(was);
        remove_dir(dir);
    }
}

static void sums_of_test_vectors(void **state)
{
    (void)state;
    static const struct {
        vvi_digest_kind kind;
        const char *text, *hex;
    } cases[] = {
        {VVI_SHA1, "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {VVI_SHA1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {VVI_SHA1, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {VVI_SHA256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {VVI_XXH64, "", "ef46db3751d8e999"},
        {VVI_XXH64, "abc", "44bc2cf5ad770999"},
        {VVI_XXH64, "Nobody inspects the spammish repetition", "fbcea83c8a378bf1"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t piece = 1; piece <= 40; piece += 13) {
            vvi_digest digest;
            char hex[65];
            vvi_digest_init(&digest, cases[c].kind);
            for (size_t at = 0; at < strlen(cases[c].text); at += piece) {
                const size_t left = strlen(cases[c].text) - at;
                vvi_digest_add(&digest, cases[c].text + at, left < piece ? left : piece);
            }
            vvi_digest_hex(&digest, hex);
            assert_string_equal(hex, cases[c].hex);
        }
}

static void unfinished_is_no_set(void **state)
{
    (void)state;
    static const vv_mds_column column = {"x", "bytes", 0};
    char dir[256];
    vv_mds_writer *writer;
    vv_mds *mds;
    vv_mds_writer_opts opts = VV_MDS_WRITER_DEFAULTS;
    unsigned char data[700] = {1};
    const vv_mds_bytes value = {data, sizeof data};
    temp_dir(dir);
    opts.columns = &column;
    opts.column_count = 1;
    opts.shard_bytes = 1024;
    assert_ok(vv_mds_writer_new(&writer, dir, &opts));
    for (int i = 0; i < 5; i++)
        assert_ok(vv_mds_writer_add(writer, &value));
    assert_int_equal(vv_mds_writer_count(writer), 5);
    assert_int_equal(count_files(dir), 4);
    vv_mds_writer_free(writer);
    assert_fails(vv_mds_open(&mds, dir), VV_ENOTFOUND);

    assert_ok(vv_mds_writer_new(&writer, dir, &opts)); /* begins again */
    assert_int_equal(count_files(dir), 0);
    assert_ok(vv_mds_writer_add(writer, &value));
    assert_ok(vv_mds_writer_finish(writer));
    assert_fails(vv_mds_writer_add(writer, &value), VV_EINVAL);
    vv_mds_writer_free(writer);
    assert_ok(vv_mds_open(&mds, dir));
    assert_int_equal(vv_mds_count(mds), 1);
    vv_mds_free(mds);

    assert_fails(vv_mds_writer_new(&writer, dir, &opts), VV_EEXIST);
    assert_says("finished set");
    opts.overwrite = true;
    assert_ok(vv_mds_writer_new(&writer, dir, &opts));
    assert_int_equal(count_files(dir), 0);
    vv_mds_writer_free(writer);
    remove_dir(dir);
}

static void tells_what_is_wrong(void **state)
{
    (void)state;
    static const vv_mds_column columns[] = {{"x", "int", 0}, {"x", "str", 0}};
    static const struct {
        const char *compression, *hashes, *says;
        int columns;
        uint64_t shard;
    } cases[] = {
        {"lzma", "", "expected gz", 1, 4096},
        {"zstd:23", "", "zstd:22", 1, 4096},
        {"gz:", "", "expected gz", 1, 4096},
        {"", "md5", "\"md5\" is not known", 1, 4096},
        {"", "sha1,sha1234567890123456", "is not known", 1, 4096},
        {"", "", "is there twice", 2, 4096},
        {"", "", "0 columns", 0, 4096},
        {"", "", "shards of 12 bytes", 1, 12},
    };
    char dir[256];
    vv_mds_writer *writer;
    temp_dir(dir);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const vv_mds_writer_opts opts = {columns, cases[c].columns, cases[c].shard,
                                         cases[c].compression, cases[c].hashes, false};
        assert_fails(vv_mds_writer_new(&writer, dir, &opts), VV_EINVAL);
        assert_says(cases[c].says);
        assert_null(writer);
    }
    const vv_mds_writer_opts opts = {columns, 1, 4096, "", "", false};
    const vv_mds_bytes value = {"1234567", 7};
    assert_ok(vv_mds_writer_new(&writer, dir, &opts));
    assert_fails(vv_mds_writer_add(writer, &value), VV_EINVAL);
    assert_says("column 0 has 7 bytes, expected 8");
    vv_mds_writer_free(writer);
    remove_dir(dir);
}

static void memory_runs_out(void **state)
{
    (void)state;
    char dir[256];
    vv_mds_writer_opts opts = VV_MDS_WRITER_DEFAULTS;
    temp_dir(dir);
    opts.shard_bytes = 1600;
    opts.compression = VVI_HAVE_ZLIB ? "gz" : "";
    opts.overwrite = true;
    const int64_t before = vv_memory_live_count();
    bool done = false;
    for (uint64_t nth = 1; !done && nth < 2000; nth++) {
        vv_error_clear();
        vv_memory_fail_at(nth);
        const vv_status status = copy_set(GOLDEN "plain", dir, opts, all, 8, 1);
        vv_memory_fail_at(0);
        done = status == VV_OK;
        if (!done) {
            assert_int_equal(status, VV_ENOMEM);
            assert_true(vv_error()[0]);
        }
        assert_int_equal(vv_memory_live_count(), before);
    }
    assert_true(done);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_package),  cmocka_unit_test(packed_ones_are_read_back),
        cmocka_unit_test(sums_of_test_vectors), cmocka_unit_test(unfinished_is_no_set),
        cmocka_unit_test(tells_what_is_wrong), cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
