/* test_token_file.c - what is written to a token file is read back, as u16 up to a vocabulary of
 * 65,536 and u32 above, with documents and their ends; the bytes are those the header promises; a
 * file that is foreign, cut short, damaged or changed is refused with a sentence; without a finish
 * no file appears; each allocation may fail. */
#include "vv_test_files.h"

#include <vivace/token_file.h>

#include "data/text/token_file_format.h"

static char dir[256], path[300];

static int set_up(void **state)
{
    (void)state;
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/a.tokens", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_dir(dir);
    return 0;
}

/* Documents of 3, 0, and 5 tokens; vocab and end as given. */
static vv_status write_three(int64_t vocab, int32_t end, vv_tokens_info *info)
{
    const int32_t top = (int32_t)(vocab - 1);
    const int32_t first[3] = {0, 1, top}, last[5] = {5, 4, 3, 2, top};
    vv_tokens_writer *writer;
    vv_status status;
    VV_TRY(vv_tokens_writer_new(&writer, path, vocab, end, "abc"));
    VV_GO(vv_tokens_writer_add(writer, first, 2));
    VV_GO(vv_tokens_writer_add(writer, first + 2, 1));
    VV_GO(vv_tokens_writer_end_document(writer));
    VV_GO(vv_tokens_writer_end_document(writer));
    VV_GO(vv_tokens_writer_add(writer, last, 5));
    VV_GO(vv_tokens_writer_finish(writer, info));
out:
    vv_tokens_writer_free(writer);
    return status;
}

static void check_read(int64_t vocab, int bytes_a_token)
{
    vv_tokens *tokens;
    vv_tokens_info info;
    int32_t ids[16];
    const int32_t top = (int32_t)(vocab - 1);
    const int32_t expected[11] = {0, 1, top, 7, 7, 5, 4, 3, 2, top, 7};
    assert_ok(write_three(vocab, 7, &info));
    assert_int_equal(info.count, 11);
    assert_ok(vv_tokens_open(&tokens, path));
    const vv_tokens_info *read = vv_tokens_info_of(tokens);
    assert_int_equal(read->count, 11);
    assert_int_equal(read->documents, 3);
    assert_int_equal(read->vocab, vocab);
    assert_int_equal(read->end, 7);
    assert_int_equal(read->bytes_a_token, bytes_a_token);
    assert_string_equal(read->tokenizer, "abc");
    assert_ok(vv_tokens_read(tokens, 0, 11, ids));
    assert_memory_equal(ids, expected, sizeof expected);
    assert_ok(vv_tokens_read(tokens, 4, 3, ids));
    assert_memory_equal(ids, expected + 4, 12);
    const int64_t *offsets = vv_tokens_offsets(tokens);
    const int64_t ends[4] = {0, 4, 5, 11};
    assert_memory_equal(offsets, ends, sizeof ends);
    for (int64_t i = 0; i < 11; i++)
        assert_int_equal(vv_tokens_document(tokens, i), i < 4 ? 0 : i < 5 ? 1 : 2);
    assert_ok(vv_tokens_verify(tokens));
    assert_ok(vv_tokens_read(tokens, 11, 0, ids));
    assert_fails(vv_tokens_read(tokens, 9, 3, ids), VV_EINVAL);
    assert_says("tokens 9 to 11 do not exist; there are 11");
    assert_fails(vv_tokens_read(tokens, -1, 1, ids), VV_EINVAL);
    vv_tokens_free(tokens);
}

static void reads_what_was_written(void **state)
{
    (void)state;
    check_read(100, 2);
    check_read(65536, 2);
    check_read(65537, 4);
    check_read((int64_t)1 << 31, 4);
}

/* More than the writer's buffer, no end token. */
static void holds_many(void **state)
{
    (void)state;
    enum { COUNT = 300000 };
    vv_tokens_writer *writer;
    vv_tokens *tokens;
    int32_t *ids;
    assert_ok(vv_alloc_array(&ids, COUNT, sizeof *ids));
    for (int i = 0; i < COUNT; i++)
        ids[i] = (int32_t)((unsigned)i * 2654435761u % 1000);
    assert_ok(vv_tokens_writer_new(&writer, path, 1000, -1, NULL));
    for (int i = 0; i < COUNT; i += 100) {
        assert_ok(vv_tokens_writer_add(writer, ids + i, 100));
        assert_ok(vv_tokens_writer_end_document(writer));
    }
    assert_ok(vv_tokens_writer_finish(writer, NULL));
    assert_fails(vv_tokens_writer_add(writer, ids, 1), VV_ESTATE);
    vv_tokens_writer_free(writer);
    assert_ok(vv_tokens_open(&tokens, path));
    assert_int_equal(vv_tokens_info_of(tokens)->documents, COUNT / 100);
    assert_ok(vv_tokens_verify(tokens));
    int32_t piece[1000];
    for (int i = 0; i < COUNT; i += 1000) {
        assert_ok(vv_tokens_read(tokens, i, 1000, piece));
        assert_memory_equal(piece, ids + i, sizeof piece);
        assert_int_equal(vv_tokens_document(tokens, i), i / 100);
    }
    vv_tokens_free(tokens);
    vv_dealloc(ids);
}

static void refuses_tokens_beyond_the_vocabulary(void **state)
{
    (void)state;
    vv_tokens_writer *writer;
    const int32_t ids[2] = {9, 10}, negative = -1;
    assert_ok(vv_tokens_writer_new(&writer, path, 10, -1, NULL));
    assert_fails(vv_tokens_writer_add(writer, ids, 2), VV_EINVAL);
    assert_says("token 10 is beyond the vocabulary of 10");
    assert_fails(vv_tokens_writer_add(writer, &negative, 1), VV_EINVAL);
    vv_tokens_writer_free(writer);
    assert_int_equal(count_files(dir), 0);
    assert_fails(vv_tokens_writer_new(&writer, path, 10, 10, NULL), VV_EINVAL);
    assert_null(writer);
    assert_fails(vv_tokens_writer_new(&writer, path, 0, -1, NULL), VV_EINVAL);
}

static unsigned char bytes[1000];

static size_t read_file(void)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return count;
}

static void check_refused(size_t count, const char *says)
{
    vv_tokens *tokens;
    write_file(dir, "b.tokens", bytes, count);
    char other[300];
    snprintf(other, sizeof other, "%s/b.tokens", dir);
    assert_fails(vv_tokens_open(&tokens, other), VV_EFORMAT);
    assert_null(tokens);
    assert_says("b.tokens");
    assert_says(says);
}

static void refuses_foreign_and_damaged_files(void **state)
{
    (void)state;
    vv_tokens *tokens;
    assert_ok(write_three(100, 7, NULL));
    const size_t count = read_file();
    assert_int_equal(count, 256 + 24 + 32); /* 11 tokens of 2 bytes, filled up to 24; 4 offsets */
    check_refused(0, "expected a token file");
    check_refused(100, "cut short");
    check_refused(count - 1, "expected 312 bytes for 11 tokens in 3 documents, found 311");
    bytes[0] = 'V';
    check_refused(count, "expected a token file");
    bytes[0] = 'v';
    bytes[8] = 2;
    check_refused(count, "version 1 of token files, found 2");
    bytes[8] = 1;
    bytes[16]++;
    check_refused(count, "header's checksum");
    bytes[16]--;
    bytes[count - 8]--;
    check_refused(count, "checksum of the documents");
    bytes[count - 8]++;
    /* A token beyond the vocabulary is seen when it is read, and by the checksum. */
    char other[300];
    int32_t ids[11];
    bytes[256 + 4] = 200;
    write_file(dir, "b.tokens", bytes, count);
    snprintf(other, sizeof other, "%s/b.tokens", dir);
    assert_ok(vv_tokens_open(&tokens, other));
    assert_ok(vv_tokens_read(tokens, 0, 2, ids));
    assert_fails(vv_tokens_read(tokens, 1, 3, ids), VV_EFORMAT);
    assert_says("token 2 is 200, beyond the vocabulary of 100");
    assert_fails(vv_tokens_verify(tokens), VV_EFORMAT);
    vv_tokens_free(tokens);
    assert_fails(vv_tokens_open(&tokens, "/nowhere/a.tokens"), VV_ENOTFOUND);
    assert_fails(vv_tokens_open(&tokens, dir), VV_EIO);
}

/* A header with right checksums but numbers that cannot be. */
static void refuses_impossible_headers(void **state)
{
    (void)state;
    const vv_tokens_info wrong[] = {
        {.count = 0, .documents = 0, .vocab = 0, .end = -1, .bytes_a_token = 2},
        {.count = 0, .documents = 0, .vocab = 65537, .end = -1, .bytes_a_token = 2},
        {.count = 0, .documents = 0, .vocab = 10, .end = 10, .bytes_a_token = 2},
        {.count = 0, .documents = 0, .vocab = 10, .end = -1, .bytes_a_token = 3},
        {.count = -1, .documents = 0, .vocab = 10, .end = -1, .bytes_a_token = 2},
        {.count = INT64_MAX, .documents = 1, .vocab = 10, .end = -1, .bytes_a_token = 4},
        {.count = 0, .documents = INT64_MAX, .vocab = 10, .end = -1, .bytes_a_token = 4},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vv_tokens *tokens;
        memset(bytes, 0, sizeof bytes);
        vvi_tokens_header_write(bytes, &wrong[i], (vvi_tokens_sums){0, 0});
        assert_fails(vvi_tokens_parse(&tokens, "x", bytes, VVI_TOKENS_HEADER + 8), VV_EFORMAT);
        assert_null(tokens);
    }
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    const int64_t live = vv_memory_live_count();
    for (uint64_t n = 1;; n++) {
        vv_tokens *tokens = NULL;
        vv_memory_fail_at(n);
        vv_status status = write_three(100, 7, NULL);
        if (status == VV_OK)
            status = vv_tokens_open(&tokens, path);
        vv_memory_fail_at(0);
        vv_tokens_free(tokens);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK) {
            assert_true(n > 6);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
        assert_true(count_files(dir) <= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_what_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(holds_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_tokens_beyond_the_vocabulary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_foreign_and_damaged_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_impossible_headers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_each_allocation_failing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
