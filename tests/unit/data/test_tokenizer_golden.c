/* test_tokenizer_golden.c - tokenizers that Hugging Face's `tokenizers` trained are read from its
 * files and give its tokens, added tokens included: GPT-2's pieces, with a blank before the text,
 * and Llama's expression with whole words; training here gives the same merges. */
#include "text_case.h"

#include <vivace/corpus.h>

#include "../../golden/tokenizers_golden.h"

static vv_tokenizer *read_golden(const golden_tokenizer *golden)
{
    vv_tokenizer *t;
    vv_str json = {0};
    for (const char *const *line = golden->json; *line; line++)
        vv_str_add(&json, *line);
    assert_ok(vvi_tokenizer_parse_json(&t, golden->name, json.text, json.length));
    assert_int_equal(vv_tokenizer_vocab(t), golden->vocab);
    vv_str_fini(&json);
    return t;
}

static void check_samples(const golden_tokenizer *golden)
{
    vv_tokenizer *t = read_golden(golden);
    for (size_t i = 0; i < sizeof golden->samples / sizeof *golden->samples; i++) {
        const golden_sample *s = &golden->samples[i];
        int32_t *ids;
        int64_t count;
        assert_ok(vv_tokenizer_encode(t, s->text, s->bytes, true, &ids, &count));
        for (int64_t k = 0; k < count && k < s->count; k++)
            if (ids[k] != s->ids[k])
                fail_msg("%s, sample %d: token %d is %d, expected %d", golden->name, (int)i, (int)k,
                         (int)ids[k], (int)s->ids[k]);
        assert_int_equal(count, s->count);
        vv_dealloc(ids);
    }
    vv_tokenizer_free(t);
}

static void gives_the_same_tokens(void **state)
{
    (void)state;
    check_samples(&golden_tokenizers[0]);
    check_samples(&golden_tokenizers[1]);
}

static void other_expressions_too(void **state)
{
    (void)state;
    if (!vvi_regex_available())
        skip();
    check_samples(&golden_tokenizers[2]);
}

static void trains_the_same_merges(void **state)
{
    (void)state;
    char dir[256];
    vv_corpus *corpus;
    vv_tokenizer *ours, *theirs = read_golden(&golden_tokenizers[0]);
    vv_corpus_opts how = VV_CORPUS_DEFAULTS;
    vv_bpe_opts opts = VV_BPE_DEFAULTS;
    vv_str text = {0};
    const char *input = dir;
    temp_dir(dir);
    for (int i = 0; i < 3; i++)
        vv_str_add(&text, golden_text);
    write_file(dir, "a.txt", text.text, text.length);
    how.inputs = &input;
    how.input_count = 1;
    how.validation = 0;
    opts.vocab = golden_tokenizers[0].vocab - 1; /* without "<mask>" */
    opts.min_count = 1;
    assert_ok(vv_corpus_open(&corpus, &how));
    assert_ok(vv_corpus_train_bpe(&ours, corpus, &opts));
    for (int32_t id = 0; id < vv_tokenizer_vocab(ours); id++) {
        const void *a, *b;
        size_t a_bytes, b_bytes;
        assert_ok(vv_tokenizer_token(ours, id, &a, &a_bytes));
        assert_ok(vv_tokenizer_token(theirs, id, &b, &b_bytes));
        assert_int_equal(a_bytes, b_bytes);
        assert_memory_equal(a, b, a_bytes);
    }
    assert_int_equal(vv_tokenizer_end(ours), vv_tokenizer_end(theirs));
    vv_tokenizer_free(ours);
    vv_tokenizer_free(theirs);
    vv_corpus_free(corpus);
    vv_str_fini(&text);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_same_tokens),
        cmocka_unit_test(other_expressions_too),
        cmocka_unit_test(trains_the_same_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
