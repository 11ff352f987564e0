/* test_bpe_train.c - training a BPE: the merges of the example in Sennrich et al. (2016) with the
 * lowest pair first among equals; the same merges as a trainer that counts everything anew each
 * round, on random words; one symbol for a text that two merges give. From a corpus: the same
 * tokenizer for any number of threads, training documents only, saved and read back with the same
 * fingerprint. */
#include "text_case.h"

#include <vivace/corpus.h>
#include <vivace/rng.h>

#include "data/text/bpe_train.h"

static void identity(int32_t symbol[256])
{
    for (int b = 0; b < 256; b++)
        symbol[b] = b;
}

static void add_word(vvi_word_counts *words, const char *word, int64_t count)
{
    assert_ok(vvi_word_counts_add(words, (const unsigned char *)word, strlen(word), count));
}

static void assert_merges(const vvi_bpe *bpe, const char *expected)
{
    vv_str text = {0};
    for (size_t i = 0; i < bpe->merge_count; i++) {
        vv_str_add(&text, i ? " " : "");
        for (int side = 0; side < 2; side++) {
            const vvi_bpe_symbol s = bpe->symbols[bpe->merges[i][side]];
            vv_str_add(&text, side ? "+" : "");
            vv_str_addn(&text, (const char *)bpe->text + s.at, s.bytes);
        }
    }
    assert_string_equal(vv_str_text(&text), expected);
    vv_str_fini(&text);
}

static void the_papers_example(void **state)
{
    (void)state;
    vvi_word_counts words = {0};
    vvi_bpe bpe;
    int32_t symbol[256];
    identity(symbol);
    add_word(&words, "low", 5);
    add_word(&words, "lower", 2);
    add_word(&words, "newest", 6);
    add_word(&words, "widest", 3);
    assert_ok(vvi_bpe_train(&bpe, &words, symbol, 256 + 10, 1));
    assert_merges(&bpe, "e+s es+t l+o lo+w e+w n+ew new+est d+est i+dest w+idest");
    vvi_bpe_fini(&bpe);
    assert_ok(vvi_bpe_train(&bpe, &words, symbol, 1000, 3));
    assert_merges(&bpe, "e+s es+t l+o lo+w e+w n+ew new+est d+est i+dest w+idest");
    assert_int_equal(bpe.symbol_count, 266);
    vvi_bpe_fini(&bpe);
    assert_ok(vvi_bpe_train(&bpe, &words, symbol, 258, 1));
    assert_merges(&bpe, "e+s es+t");
    vvi_bpe_fini(&bpe);
    vvi_word_counts_fini(&words);
}

/* ---- a trainer that is slow and plain ---- */

enum { WORDS = 60, LETTERS = 12, ROUNDS = 80 };
typedef struct slow_word {
    int32_t symbols[LETTERS];
    int length;
    int64_t count;
} slow_word;
static slow_word slow[WORDS];
static int64_t counts[256 + ROUNDS][256 + ROUNDS];
static char names[256 + ROUNDS][LETTERS + 1];

/* The best pair; false if none is left. */
static bool slow_best(int symbols, int32_t *left, int32_t *right)
{
    int64_t best = 0;
    memset(counts, 0, sizeof counts);
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i + 1 < slow[w].length; i++)
            counts[slow[w].symbols[i]][slow[w].symbols[i + 1]] += slow[w].count;
    for (int32_t l = 0; l < symbols; l++)
        for (int32_t r = 0; r < symbols; r++)
            if (counts[l][r] > best) {
                best = counts[l][r];
                *left = l;
                *right = r;
            }
    return best > 0;
}

static int slow_made(int *symbols, int32_t left, int32_t right)
{
    char text[2 * LETTERS + 1];
    snprintf(text, sizeof text, "%s%s", names[left], names[right]);
    for (int i = 0; i < *symbols; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    memcpy(names[*symbols], text, strlen(text) + 1);
    return (*symbols)++;
}

static void slow_apply(int32_t left, int32_t right, int32_t made)
{
    for (int w = 0; w < WORDS; w++) {
        int to = 0;
        for (int i = 0; i < slow[w].length; to++) {
            const bool both = i + 1 < slow[w].length && slow[w].symbols[i] == left &&
                              slow[w].symbols[i + 1] == right;
            slow[w].symbols[to] = both ? made : slow[w].symbols[i];
            i += both ? 2 : 1;
        }
        slow[w].length = to;
    }
}

/* Few letters, so that runs and texts made in two ways occur. */
static void check_against_slow(uint64_t seed, int letters)
{
    vvi_word_counts words = {0};
    vvi_bpe bpe;
    int32_t symbol[256];
    int symbols = 256;
    vv_rng rng = vv_rng_at(seed, "words", 0);
    identity(symbol);
    memset(names, 0, sizeof names);
    for (int b = 1; b < 256; b++)
        names[b][0] = (char)b;
    for (int w = 0; w < WORDS; w++) {
        char word[LETTERS + 1] = {0};
        slow[w].length = (int)(1 + vv_rng_below(&rng, LETTERS));
        slow[w].count = 1 + vv_rng_below(&rng, 9);
        for (int i = 0; i < slow[w].length; i++) {
            word[i] = (char)('a' + vv_rng_below(&rng, letters));
            slow[w].symbols[i] = word[i];
        }
        add_word(&words, word, slow[w].count);
    }
    assert_ok(vvi_bpe_train(&bpe, &words, symbol, 256 + ROUNDS, 1));
    for (size_t i = 0; i < bpe.merge_count; i++) {
        int32_t left = 0, right = 0;
        assert_true(slow_best(symbols, &left, &right));
        if (bpe.merges[i][0] != left || bpe.merges[i][1] != right)
            fail_msg("seed %d, merge %d: %s+%s expected", (int)seed, (int)i, names[left],
                     names[right]);
        const int made = slow_made(&symbols, left, right);
        assert_int_equal(bpe.merges[i][2], made);
        slow_apply(left, right, made);
    }
    assert_int_equal(bpe.symbol_count, symbols);
    int32_t left, right;
    if (symbols < 256 + ROUNDS)
        assert_false(slow_best(symbols, &left, &right));
    vvi_bpe_fini(&bpe);
    vvi_word_counts_fini(&words);
}

static void as_a_plain_trainer(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++)
        check_against_slow(seed, 1 + (int)seed % 4);
}

/* ---- from a corpus ---- */

static vv_status train(vv_tokenizer **out, const char *dir, int threads, int64_t vocab)
{
    vv_corpus *corpus;
    vv_corpus_opts how = VV_CORPUS_DEFAULTS;
    vv_bpe_opts opts = VV_BPE_DEFAULTS;
    how.inputs = &dir;
    how.input_count = 1;
    opts.vocab = vocab;
    opts.threads = threads;
    *out = NULL;
    VV_TRY(vv_corpus_open(&corpus, &how));
    const vv_status status = vv_corpus_train_bpe(out, corpus, &opts);
    vv_corpus_free(corpus);
    return status;
}

static void make_corpus(char dir[256])
{
    static char text[4000];
    size_t at = 0;
    vv_rng rng = vv_rng_at(3, "words", 1);
    temp_dir(dir);
    while (at + 20 < sizeof text) {
        text[at++] = vv_rng_below(&rng, 8) ? ' ' : '\n';
        for (int64_t i = 1 + vv_rng_below(&rng, 6); i > 0; i--)
            text[at++] = (char)('a' + vv_rng_below(&rng, 5));
    }
    write_file(dir, "a.train.txt", text, at);
    write_file(dir, "b.train.txt", "\xc3\xa9t\xc3\xa9 \xc3\xa9t\xc3\xa9", 11);
    write_file(dir, "c.valid.txt", "zzzzzzzzzz zzzzzzzzzz", 21);
}

static void tokenizers_from_a_corpus(void **state)
{
    (void)state;
    char dir[256], path[300];
    vv_tokenizer *one, *three, *read;
    make_corpus(dir);
    assert_ok(train(&one, dir, 1, 300));
    assert_ok(train(&three, dir, 3, 300));
    assert_int_equal(vv_tokenizer_vocab(one), 300);
    assert_int_equal(vv_tokenizer_end(one), 299);
    assert_string_equal(vv_tokenizer_fingerprint(one), vv_tokenizer_fingerprint(three));
    assert_int_equal(vv_tokenizer_find(one, "zz"), -1); /* evaluation is not looked at */
    assert_int_equal(vv_tokenizer_find(one, "!"), 0);   /* as GPT-2 numbers bytes */
    assert_int_equal(vv_tokenizer_find(one, "~"), 93);
    assert_true(vv_tokenizer_find(one, "\xc3\xa9t\xc3\xa9") < 0); /* rare; its parts are there */
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    assert_ok(vv_tokenizer_save(one, path));
    assert_ok(vv_tokenizer_open(&read, path));
    assert_string_equal(vv_tokenizer_fingerprint(read), vv_tokenizer_fingerprint(one));
    assert_int_equal(vv_tokenizer_end(read), 299);
    vv_tokenizer_free(read);
    assert_ok(vv_tokenizer_open(&read, dir));
    vv_tokenizer_free(read);
    vv_tokenizer_free(three);
    /* As many as the text gives. */
    assert_ok(train(&three, dir, 2, 100000));
    assert_in_range(vv_tokenizer_vocab(three), 301, 5000);
    vv_tokenizer_free(three);
    assert_fails(train(&three, dir, 1, 256), VV_EINVAL);
    assert_says("vocab: 256 is outside 257");
    vv_tokenizer_free(one);
    remove_dir(dir);
}

static void other_tokenizers_are_saved_too(void **state)
{
    (void)state;
    char dir[256], path[300];
    vv_tokenizer *t, *read;
    vv_str text = {0};
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/x.json", dir);
    t = case_tokenizer();
    assert_ok(vv_tokenizer_save(t, path));
    assert_ok(vv_tokenizer_open(&read, path));
    assert_string_equal(vv_tokenizer_fingerprint(read), vv_tokenizer_fingerprint(t));
    vv_tokenizer_free(read);
    vv_tokenizer_free(t);
    assert_ok(vv_tokenizer_open(&t, "bytes"));
    assert_ok(vv_tokenizer_save(t, path));
    assert_ok(vv_tokenizer_open(&read, path));
    assert_tokens(read, "a\xc3\xa9 ", false, 'a', 0xc3, 0xa9, ' ');
    vv_tokenizer_free(read);
    vv_tokenizer_free(t);
    if (vvi_regex_available()) {
        case_json(&text, "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", "
                         "\"pattern\": {\"Regex\": \"\\\\s+\"}, \"behavior\": \"Isolated\", "
                         "\"invert\": false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": "
                         "false, \"use_regex\": false}]}", true);
        assert_ok(vvi_tokenizer_parse_json(&t, "x", text.text, text.length));
        assert_ok(vv_tokenizer_save(t, path));
        assert_ok(vv_tokenizer_open(&read, path));
        assert_string_equal(vv_tokenizer_fingerprint(read), vv_tokenizer_fingerprint(t));
        vv_tokenizer_free(read);
        vv_tokenizer_free(t);
        vv_str_fini(&text);
    }
    remove_dir(dir);
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    char dir[256], path[300];
    make_corpus(dir);
    snprintf(path, sizeof path, "%s/x.json", dir);
    const int64_t live = vv_memory_live_count();
    for (uint64_t n = 1;; n += n < 100 ? 1 : 7) {
        vv_tokenizer *t;
        vv_memory_fail_at(n);
        vv_status status = train(&t, dir, 1, 290);
        if (status == VV_OK)
            status = vv_tokenizer_save(t, path);
        vv_memory_fail_at(0);
        vv_tokenizer_free(t);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK) {
            assert_true(n > 50);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
    }
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_papers_example),
        cmocka_unit_test(as_a_plain_trainer),
        cmocka_unit_test(tokenizers_from_a_corpus),
        cmocka_unit_test(other_tokenizers_are_saved_too),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
