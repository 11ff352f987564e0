/* test_corpus.c - a corpus is the files of its inputs in order of names, each a document or cut at
 * the separator; evaluation gets the documents that names or the seed say, or the end of the text;
 * its token files hold what the tokenizer gives for each document, whatever the threads; text that
 * is not UTF-8 is refused with file and byte, an empty file and an empty folder with a sentence;
 * nothing is left after a failure; each allocation may fail. */
#include "text_case.h"

#include <vivace/corpus.h>

#include "data/text/corpus_impl.h"

static char dir[256], train_path[300], eval_path[300];

static int set_up(void **state)
{
    (void)state;
    temp_dir(dir);
    snprintf(train_path, sizeof train_path, "%s/train.tokens", dir);
    snprintf(eval_path, sizeof eval_path, "%s/eval.tokens", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_dir(dir);
    return 0;
}

static void put(const char *name, const char *text)
{
    write_file(dir, name, text, strlen(text));
}

static void make_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

static vv_status open_corpus(vv_corpus **out, vv_corpus_opts opts)
{
    const char *inputs[1] = {dir};
    if (opts.input_count == 0) {
        opts.inputs = inputs;
        opts.input_count = 1;
    }
    return vv_corpus_open(out, &opts);
}

/* "name:start-end" of each document, a * behind those for evaluation. */
static void assert_documents(const vv_corpus *corpus, const char *expected)
{
    vv_str text = {0};
    for (size_t i = 0; i < corpus->document_count; i++) {
        const vvi_document *d = &corpus->documents[i];
        vv_str_addf(&text, "%s%s:%d-%d%s", i ? " " : "",
                    corpus->files[d->file].path + strlen(dir) + 1, (int)d->start, (int)d->end,
                    d->eval ? "*" : "");
    }
    assert_string_equal(vv_str_text(&text), expected);
    vv_str_fini(&text);
}

static void files_in_order_of_names(void **state)
{
    (void)state;
    vv_corpus *corpus;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    opts.validation = 0;
    make_folder("b");
    make_folder("b/deep");
    put("c.txt", "3");
    put("b/z.txt", "22");
    put("b/deep/y.md", "1");
    put("a.txt", "0");
    put("a.bin", "no");
    put(".hidden.txt", "no");
    put("empty.txt", "");
    assert_ok(open_corpus(&corpus, opts));
    assert_documents(corpus, "a.txt:0-1 b/deep/y.md:0-1 b/z.txt:0-2 c.txt:0-1");
    assert_int_equal(vv_corpus_info_of(corpus)->files, 4);
    assert_int_equal(vv_corpus_info_of(corpus)->bytes, 5);
    vv_corpus_free(corpus);
    opts.files = "*.bin, *.md";
    assert_ok(open_corpus(&corpus, opts));
    assert_documents(corpus, "a.bin:0-2 b/deep/y.md:0-1");
    vv_corpus_free(corpus);
    opts.files = "*.tex";
    assert_fails(open_corpus(&corpus, opts), VV_ENOTFOUND);
    assert_says("no file with text in it matches *.tex");
    assert_null(corpus);
}

static void separators_cut_files(void **state)
{
    (void)state;
    vv_corpus *corpus;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    opts.validation = 0;
    opts.separator = "\\n--\\n";
    put("a.txt", "one\n--\ntwo\n--\n\n--\nthree\n--\n");
    put("b.txt", "four");
    assert_ok(open_corpus(&corpus, opts));
    assert_documents(corpus, "a.txt:0-3 a.txt:7-10 a.txt:18-23 b.txt:0-4");
    vv_corpus_free(corpus);
    put("b.txt", "\n--\n");
    put("a.txt", "\n--\n\n--\n");
    assert_fails(open_corpus(&corpus, opts), VV_EFORMAT);
    assert_says("no text in it but the separator");
}

static void evaluation_by_names(void **state)
{
    (void)state;
    vv_corpus *corpus;
    const vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    put("n.train.txt", "aaaa");
    put("n.valid.txt", "b");
    put("n.test.txt", "c");
    assert_ok(open_corpus(&corpus, opts));
    assert_documents(corpus, "n.train.txt:0-4 n.valid.txt:0-1*");
    assert_true(vv_corpus_info_of(corpus)->by_name);
    assert_int_equal(vv_corpus_info_of(corpus)->eval_bytes, 1);
    assert_int_equal(vv_corpus_info_of(corpus)->bytes, 5);
    vv_corpus_free(corpus);
    put("other.txt", "d"); /* one that does not say it: names are no rule here */
    assert_ok(open_corpus(&corpus, opts));
    assert_false(vv_corpus_info_of(corpus)->by_name);
    assert_int_equal(corpus->document_count, 4);
    vv_corpus_free(corpus);
}

static void evaluation_by_documents(void **state)
{
    (void)state;
    vv_corpus *corpus, *again;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    char first[65], second[65];
    int differ = 0;
    opts.validation = 0.2;
    for (int i = 0; i < 100; i++) {
        char name[16], text[64];
        snprintf(name, sizeof name, "%03d.txt", i);
        memset(text, 'a', sizeof text);
        write_file(dir, name, text, (size_t)(10 + i % 50));
    }
    assert_ok(open_corpus(&corpus, opts));
    const vv_corpus_info info = *vv_corpus_info_of(corpus);
    assert_near((double)info.eval_bytes, 0.2 * (double)info.bytes, 30, 0);
    assert_in_range(info.eval_documents, 10, 35);
    assert_ok(open_corpus(&again, opts));
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(corpus->documents[i].eval, again->documents[i].eval);
    assert_ok(vv_corpus_fingerprint(corpus, first));
    assert_ok(vv_corpus_fingerprint(again, second));
    assert_string_equal(first, second);
    vv_corpus_free(again);
    opts.seed = 1;
    assert_ok(open_corpus(&again, opts));
    for (size_t i = 0; i < 100; i++)
        differ += corpus->documents[i].eval != again->documents[i].eval;
    assert_true(differ > 10);
    assert_ok(vv_corpus_fingerprint(again, second));
    assert_string_not_equal(first, second);
    vv_corpus_free(again);
    vv_corpus_free(corpus);
    /* However small the share, one is taken. */
    opts.validation = 1e-9;
    assert_ok(open_corpus(&corpus, opts));
    assert_int_equal(vv_corpus_info_of(corpus)->eval_documents, 1);
    assert_int_equal(vv_corpus_info_of(corpus)->eval_bytes, 10);
    vv_corpus_free(corpus);
    opts.validation = 1;
    assert_fails(open_corpus(&corpus, opts), VV_EINVAL);
    assert_says("outside [0, 1)");
}

static void evaluation_by_the_tail(void **state)
{
    (void)state;
    vv_corpus *corpus;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    opts.validation = 0.1;
    put("a.txt", "0123456789012345678\xc3\xa9");
    assert_ok(open_corpus(&corpus, opts)); /* 18.9 of 21 bytes */
    assert_documents(corpus, "a.txt:0-18 a.txt:18-21*");
    vv_corpus_free(corpus);
    opts.validation = 0.05; /* 19.95: byte 19 */
    assert_ok(open_corpus(&corpus, opts));
    assert_documents(corpus, "a.txt:0-19 a.txt:19-21*");
    vv_corpus_free(corpus);
    opts.validation = 0.04; /* 20.16: inside the last character, so behind it */
    assert_ok(open_corpus(&corpus, opts));
    assert_documents(corpus, "a.txt:0-21");
    vv_corpus_free(corpus);
    put("a.txt", "aaaaaaaaaa");
    put("b.txt", "bbbbbbbbbb");
    put("c.txt", "cccccccccc");
    opts.split = VV_SPLIT_TAIL;
    opts.validation = 0.5;
    assert_ok(open_corpus(&corpus, opts));
    assert_documents(corpus, "a.txt:0-10 b.txt:0-5 b.txt:5-10* c.txt:0-10*");
    vv_corpus_free(corpus);
    opts.validation = 0.66;
    opts.separator = "zz";
    assert_ok(open_corpus(&corpus, opts));
    assert_documents(corpus, "a.txt:0-10 b.txt:0-10* c.txt:0-10*");
    vv_corpus_free(corpus);
}

/* ---- token files ---- */

/* Words, numbers and line ends from a fixed series; returns the bytes written. */
static size_t make_text(char *out, size_t bytes, unsigned seed)
{
    static const char *const words[] = {" the", "the", " a", "\n", "  ", " caf\xc3\xa9", " 12",
                                        "'s", "\n\n", "\xe3\x80\x80", "...", " aaaa"};
    size_t at = 0;
    for (uint32_t x = seed; at + 8 < bytes;) {
        x = x * 1664525u + 1013904223u;
        const char *word = words[(x >> 16) % (sizeof words / sizeof *words)];
        memcpy(out + at, word, strlen(word));
        at += strlen(word);
    }
    return at;
}

static bool count_progress(void *ctx, int64_t done, int64_t total)
{
    int64_t *last = ctx;
    assert_true(done > *last && done <= total);
    *last = done;
    return true;
}

static void check_file(const vv_tokenizer *t, const char *path, const char *text, size_t bytes)
{
    vv_tokens *tokens;
    int32_t *ids, *read;
    int64_t count;
    assert_ok(vv_tokens_open(&tokens, path));
    assert_ok(vv_tokens_verify(tokens));
    assert_ok(vv_tokenizer_encode(t, text, bytes, false, &ids, &count));
    assert_int_equal(vv_tokens_info_of(tokens)->count, count + 1);
    assert_int_equal(vv_tokens_info_of(tokens)->documents, 1);
    assert_string_equal(vv_tokens_info_of(tokens)->tokenizer, vv_tokenizer_fingerprint(t));
    assert_ok(vv_alloc_array(&read, (size_t)count + 1, sizeof *read));
    assert_ok(vv_tokens_read(tokens, 0, count + 1, read));
    assert_memory_equal(read, ids, (size_t)count * sizeof *ids);
    assert_int_equal(read[count], vv_tokenizer_end(t));
    vv_dealloc(read);
    vv_dealloc(ids);
    vv_tokens_free(tokens);
}

static void any_number_of_threads_gives_the_same(void **state)
{
    (void)state;
    enum { BYTES = 3000000 };
    vv_tokenizer *t = case_tokenizer();
    vv_corpus *corpus;
    const vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    char *text;
    assert_ok(vv_alloc(&text, BYTES));
    const size_t bytes = make_text(text, BYTES, 1);
    write_file(dir, "a.train.txt", text, bytes);
    write_file(dir, "a.valid.txt", text, bytes / 8 * 4); /* may end inside a character */
    size_t half = bytes / 8 * 4;
    while (((unsigned char)text[half] & 0xc0) == 0x80)
        half--;
    write_file(dir, "a.valid.txt", text, half);
    assert_ok(open_corpus(&corpus, opts));
    for (int threads = 1; threads <= 3; threads += 2) {
        vv_tokens_info train, eval;
        int64_t last = 0;
        const vv_tokenize_opts how = {threads, false, count_progress, &last};
        assert_ok(vv_corpus_tokenize(corpus, t, &how, train_path, eval_path, &train, &eval));
        assert_int_equal(last, vv_corpus_info_of(corpus)->bytes);
        check_file(t, train_path, text, bytes);
        check_file(t, eval_path, text, half);
        assert_int_equal(train.documents, 1);
        assert_true(eval.count > train.count / 3);
    }
    vv_corpus_free(corpus);
    vv_dealloc(text);
    vv_tokenizer_free(t);
}

static void documents_stand_in_order(void **state)
{
    (void)state;
    vv_tokenizer *t = case_tokenizer();
    vv_tokens *tokens;
    vv_corpus *corpus;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    opts.separator = "|";
    opts.validation = 0;
    const vv_tokenize_opts how = {2, false, NULL, NULL};
    int32_t ids[8];
    put("a.txt", "the|aa|the the");
    assert_ok(open_corpus(&corpus, opts));
    assert_ok(vv_corpus_tokenize(corpus, t, &how, train_path, NULL, NULL, NULL));
    assert_ok(vv_tokens_open(&tokens, train_path));
    const int32_t expected[] = {257, CASE_END, 259, CASE_END, 257, 258, CASE_END};
    const int64_t offsets[] = {0, 2, 4, 7};
    assert_int_equal(vv_tokens_info_of(tokens)->count, 7);
    assert_ok(vv_tokens_read(tokens, 0, 7, ids));
    assert_memory_equal(ids, expected, sizeof expected);
    assert_memory_equal(vv_tokens_offsets(tokens), offsets, sizeof offsets);
    vv_tokens_free(tokens);
    vv_corpus_free(corpus);
    vv_tokenizer_free(t);
}

static bool stop_at_once(void *ctx, int64_t done, int64_t total)
{
    (void)ctx, (void)done, (void)total;
    return false;
}

static void failures_leave_nothing(void **state)
{
    (void)state;
    vv_tokenizer *t, *gpt = case_tokenizer();
    vv_corpus *corpus;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    vv_tokenize_opts how = {2, false, NULL, NULL};
    char path[512];
    opts.validation = 0;
    assert_ok(vv_tokenizer_open(&t, "bytes"));
    put("a.txt", "fine");
    write_file(dir, "b.txt", "abcde\xff" "fg", 8);
    assert_ok(open_corpus(&corpus, opts));
    assert_fails(vv_corpus_tokenize(corpus, t, &how, train_path, NULL, NULL, NULL), VV_EFORMAT);
    assert_says("b.txt: byte 5 is 0xff, which is not UTF-8 there");
    assert_fails(vv_corpus_tokenize(corpus, gpt, &how, train_path, NULL, NULL, NULL), VV_EFORMAT);
    assert_says("b.txt: byte 5 is 0xff");
    how.progress = stop_at_once;
    assert_fails(vv_corpus_tokenize(corpus, t, &how, train_path, NULL, NULL, NULL),
                 VV_EINTERRUPTED);
    put("b.txt", "shorter");
    assert_fails(vv_corpus_tokenize(corpus, t, &(vv_tokenize_opts){1, false, NULL, NULL},
                                    train_path, NULL, NULL, NULL), VV_EIO);
    assert_says("it changed while it was read");
    assert_int_equal(count_files(dir), 2);
    vv_corpus_free(corpus);
    put("c.txt", "");
    snprintf(path, sizeof path, "%s/c.txt", dir);
    const char *input = path;
    opts.inputs = &input;
    opts.input_count = 1;
    assert_fails(vv_corpus_open(&corpus, &opts), VV_EFORMAT);
    assert_says("c.txt: the file is empty");
    input = "/nowhere/x";
    assert_fails(vv_corpus_open(&corpus, &opts), VV_ENOTFOUND);
    assert_null(corpus);
    vv_tokenizer_free(t);
    vv_tokenizer_free(gpt);
}

static vv_status all_of_it(const vv_tokenizer *t, const vv_corpus_opts *opts)
{
    vv_corpus *corpus;
    char hex[65];
    VV_TRY(vv_corpus_open(&corpus, opts));
    vv_status status = vv_corpus_fingerprint(corpus, hex);
    const vv_tokenize_opts how = {1, false, NULL, NULL};
    if (status == VV_OK)
        status = vv_corpus_tokenize(corpus, t, &how, train_path, eval_path, NULL, NULL);
    vv_corpus_free(corpus);
    return status;
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    vv_tokenizer *t = case_tokenizer();
    const char *inputs[1] = {dir};
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    opts.inputs = inputs;
    opts.input_count = 1;
    make_folder("sub");
    put("a.txt", "the the");
    put("sub/b.txt", "aaaa the|b");
    opts.separator = "|";
    opts.validation = 0.3;
    const int64_t live = vv_memory_live_count();
    for (uint64_t n = 1;; n++) {
        vv_memory_fail_at(n);
        const vv_status status = all_of_it(t, &opts);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK) {
            assert_true(n > 30);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
        assert_true(count_files(dir) <= 3); /* eval.tokens may be there already */
    }
    vv_tokenizer_free(t);
}

/* The counts that are published for the text cut at nine tenths. */
static void tinyshakespeare_as_published(void **state)
{
    (void)state;
    const char *root = getenv("VIVACE_DATA");
    char path[1024];
    vv_tokenizer *t;
    vv_corpus *corpus;
    vv_tokens_info train, eval;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    const char *input = path;
    snprintf(path, sizeof path, "%s/tinyshakespeare/input.txt", root ? root : "");
    if (!root || access(path, R_OK) != 0 || vv_tokenizer_open(&t, "gpt2") != VV_OK)
        skip();
    opts.inputs = &input;
    opts.input_count = 1;
    opts.validation = 0.1;
    const vv_tokenize_opts how = {2, false, NULL, NULL};
    assert_ok(vv_corpus_open(&corpus, &opts));
    assert_ok(vv_corpus_tokenize(corpus, t, &how, train_path, eval_path, &train, &eval));
    assert_int_equal(train.count, 301966 + 1); /* and the end of the document */
    assert_int_equal(eval.count, 36059 + 1);
    vv_corpus_free(corpus);
    vv_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_in_order_of_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(separators_cut_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(evaluation_by_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(evaluation_by_documents, set_up, tear_down),
        cmocka_unit_test_setup_teardown(evaluation_by_the_tail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_number_of_threads_gives_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(documents_stand_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_leave_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_each_allocation_failing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tinyshakespeare_as_published, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
