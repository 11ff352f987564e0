/* test_tokenizer.c - merges happen in rank order, left to right, inside the pieces of GPT-2's
 * expression; the same tokenizer comes from GPT-2's files and from tokenizer.json, and has the same
 * fingerprint; special tokens are found only when asked for; every text comes back byte for byte,
 * and what is not UTF-8 is refused with its place; a byte without a token, files that are no
 * byte-level BPE and damaged ones get a sentence; each allocation may fail. With VIVACE_DATA:
 * GPT-2's reference tokenizations and tinyshakespeare's ids, exactly. */
#include "text_case.h"

#include "vvi_config.h"

static void byte_characters_go_both_ways(void **state)
{
    (void)state;
    char text[600];
    unsigned char bytes[300];
    size_t at = 0, count;
    for (int b = 0; b < 256; b++)
        at += vvi_byte_char((unsigned char)b, text + at);
    assert_true(vvi_byte_chars_read(text, at, bytes, &count));
    assert_int_equal(count, 256);
    for (int b = 0; b < 256; b++)
        assert_int_equal(bytes[b], b);
    char blank[2];
    assert_int_equal(vvi_byte_char(' ', blank), 2);
    assert_memory_equal(blank, "\xc4\xa0", 2); /* U+0120 */
    assert_false(vvi_byte_chars_read(" ", 1, bytes, &count));
    assert_false(vvi_byte_chars_read("\xc5\x84", 2, bytes, &count)); /* U+0144, one too far */
    assert_false(vvi_byte_chars_read("\xc4", 1, bytes, &count));
    assert_false(vvi_byte_chars_read("\xe4\xb8\xad", 3, bytes, &count));
}

static void merges_in_rank_order(void **state)
{
    (void)state;
    vv_tokenizer *t = case_tokenizer();
    assert_int_equal(vv_tokenizer_vocab(t), CASE_END + 1);
    assert_int_equal(vv_tokenizer_end(t), CASE_END);
    assert_tokens(t, "the", false, 257);
    assert_tokens(t, "the the", false, 257, 258);
    assert_tokens(t, "he", false, 261);
    assert_tokens(t, "hhe", false, 'h', 261);
    assert_tokens(t, "thhe", false, 256, 261);
    assert_tokens(t, "aaaaaaa", false, 260, 259, 'a'); /* left to right */
    assert_tokens(t, " a  the", false, 263, ' ', 258);
    assert_tokens(t, "the's", false, 257, 264);
    assert_tokens(t, "caf\xc3\xa9", false, 'c', 'a', 'f', 262);
    assert_ids(t, "", 0, false, NULL, 0);
    assert_int_equal(vv_tokenizer_find(t, " the"), 258);
    assert_int_equal(vv_tokenizer_find(t, "then"), -1);
    const void *bytes;
    size_t count;
    assert_ok(vv_tokenizer_token(t, 258, &bytes, &count));
    assert_int_equal(count, 4);
    assert_memory_equal(bytes, " the", 4);
    assert_fails(vv_tokenizer_token(t, CASE_END + 1, &bytes, &count), VV_EINVAL);
    assert_says("beyond the vocabulary of 266");
    vv_tokenizer_free(t);
}

static void special_tokens_only_when_asked_for(void **state)
{
    (void)state;
    vv_tokenizer *t = case_tokenizer();
    assert_tokens(t, "a<|endoftext|>the", true, 'a', CASE_END, 257);
    assert_tokens(t, "<|endoftext|><|endoftext|>", true, CASE_END, CASE_END);
    assert_tokens(t, "<|endoftex", true, '<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x');
    int32_t *ids;
    int64_t count;
    assert_ok(vv_tokenizer_encode(t, "<|endoftext|>", 13, false, &ids, &count));
    assert_int_equal(count, 13);
    vv_dealloc(ids);
    vv_tokenizer_free(t);
}

static void parse_json(vv_tokenizer **out, const char *pre, bool pairs)
{
    vv_str text = {0};
    case_json(&text, pre, pairs);
    assert_ok(vvi_tokenizer_parse_json(out, "json", text.text, text.length));
    vv_str_fini(&text);
}

static void both_kinds_of_file_agree(void **state)
{
    (void)state;
    vv_tokenizer *a = case_tokenizer(), *b, *c;
    parse_json(&b, CASE_BYTE_LEVEL, false);
    parse_json(&c, "{\"type\": \"Sequence\", \"pretokenizers\": [" CASE_BYTE_LEVEL "]}", true);
    assert_string_equal(vv_tokenizer_fingerprint(a), vv_tokenizer_fingerprint(b));
    assert_string_equal(vv_tokenizer_fingerprint(a), vv_tokenizer_fingerprint(c));
    assert_int_equal(strlen(vv_tokenizer_fingerprint(a)), 64);
    assert_tokens(b, "aaaa the's<|endoftext|>", true, 260, 258, 264, CASE_END);
    assert_int_equal(vv_tokenizer_end(b), CASE_END);
    vv_tokenizer_free(a);
    vv_tokenizer_free(b);
    vv_tokenizer_free(c);
    parse_json(&a, "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}", false);
    assert_string_not_equal(vv_tokenizer_fingerprint(a), "");
    int32_t *ids;
    int64_t count;
    assert_ok(vv_tokenizer_encode(a, "the", 3, false, &ids, &count));
    assert_int_equal(count, 1);
    assert_int_equal(ids[0], 258);
    vv_dealloc(ids);
    vv_tokenizer_free(a);
}

/* The vocabulary may have an added token too, in letters that are byte characters for BPE. */
static void added_tokens_are_not_byte_characters(void **state)
{
    (void)state;
    static const char json[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"<\": 1, \"<\xc3\xa9>\": 2}, "
        "\"merges\": []}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": "
        "[{\"id\": 2, \"content\": \"<\xc3\xa9>\", \"special\": true}]}";
    vv_tokenizer *t;
    assert_ok(vvi_tokenizer_parse_json(&t, "json", json, sizeof json - 1));
    assert_tokens(t, "a<\xc3\xa9>a", true, 0, 2, 0);
    assert_int_equal(vv_tokenizer_find(t, "<\xc3\xa9>"), 2);
    vv_tokenizer_free(t);
}

/* Digits in groups of at most three, then the rest. */
static void other_expressions_cut_by_pcre2(void **state)
{
    (void)state;
#if VVI_HAVE_PCRE2
    vv_tokenizer *t;
    parse_json(&t,
               "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
               "{\"Regex\": \"\\\\p{N}{1,3}| ?\\\\p{L}\"}, \"behavior\": \"Isolated\", \"invert\": "
               "false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": "
               "false}]}",
               false);
    assert_tokens(t, "aa aa", false, 'a', 'a', 263, 'a'); /* letters one by one do not merge */
    assert_tokens(t, "a's", false, 'a', '\'', 's');
    vv_tokenizer_free(t);
    vv_str text = {0};
    case_json(&text, "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": "
                     "\"Isolated\", \"invert\": false}", false);
    assert_fails(vvi_tokenizer_parse_json(&t, "json", text.text, text.length), VV_EFORMAT);
    assert_says("json: the expression '(' is wrong at character 1");
    vv_str_fini(&text);
#else
    skip();
#endif
}

static void check_json_refused(const char *from, const char *to, vv_status code, const char *says)
{
    vv_str text = {0}, changed = {0};
    vv_tokenizer *t;
    case_json(&text, CASE_BYTE_LEVEL, false);
    const char *at = strstr(text.text, from);
    assert_non_null(at);
    vv_str_addn(&changed, text.text, (size_t)(at - text.text));
    vv_str_add(&changed, to);
    vv_str_add(&changed, at + strlen(from));
    assert_fails(vvi_tokenizer_parse_json(&t, "f.json", changed.text, changed.length), code);
    assert_null(t);
    assert_says("f.json");
    assert_says(says);
    vv_str_fini(&text);
    vv_str_fini(&changed);
}

static void refuses_other_tokenizers(void **state)
{
    (void)state;
    check_json_refused("\"BPE\"", "\"WordPiece\"", VV_EUNSUPPORTED, "the model 'WordPiece'");
    check_json_refused("null", "{\"type\": \"NFKC\"}", VV_EUNSUPPORTED, "normalizer 'NFKC'");
    check_json_refused("\"ByteLevel\"", "\"Whitespace\"", VV_EUNSUPPORTED, "'Whitespace'");
    check_json_refused("\"BPE\"", "\"BPE\", \"dropout\": 0.1", VV_EUNSUPPORTED, "'dropout'");
    check_json_refused("\"BPE\"", "\"BPE\", \"end_of_word_suffix\": \"@\"", VV_EUNSUPPORTED,
                       "end_of_word_suffix '@'");
    check_json_refused("{", "[", VV_EFORMAT, "no JSON");
    check_json_refused("\"t h\"", "\"th\"", VV_EFORMAT, "merge 0: expected");
    check_json_refused("\"t h\"", "\"t q\"", VV_EFORMAT, "what they give is no token");
    check_json_refused("\"!\": 33", "\"!\": -3", VV_EFORMAT, "the id of token '!'");
    check_json_refused("\"!\": 33", "\"!\": 34", VV_EFORMAT, "the id 34 is given twice");
    check_json_refused("\"!\": 33", "\"!\": 2000000000", VV_EFORMAT, "the id of token '!'");
    check_json_refused("\"vocab\"", "\"words\"", VV_EFORMAT, "expected a vocabulary");
    check_json_refused("\"content\"", "\"text\"", VV_EFORMAT, "added token 0");
    vv_tokenizer *t;
    assert_fails(vvi_tokenizer_parse_gpt2(&t, "f", "a b c\n", 6, "{\"a\": 0}", 8), VV_EFORMAT);
    assert_says("line 1 of the merges");
    assert_fails(vv_tokenizer_open(&t, "/nowhere"), VV_ENOTFOUND);
    assert_null(t);
}

static void refuses_what_is_not_utf8(void **state)
{
    (void)state;
    vv_tokenizer *t = case_tokenizer();
    static const struct {
        const char *text;
        size_t bytes, at;
    } bad[] = {{"abc\xff", 4, 3},          {"\x80", 1, 0},
               {"0123456789\xc3", 11, 10}, {"\xed\xa0\x80", 3, 0},
               {"a\xf4\x90\x80\x80", 5, 1}, {"ok \xe2\x82", 5, 3}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int32_t *ids;
        int64_t count;
        char place[32];
        char *copy = malloc(bad[i].bytes); /* the end is watched */
        assert_non_null(copy);
        memcpy(copy, bad[i].text, bad[i].bytes);
        assert_fails(vv_tokenizer_encode(t, copy, bad[i].bytes, false, &ids, &count), VV_EFORMAT);
        snprintf(place, sizeof place, "byte %zu is", bad[i].at);
        assert_says(place);
        assert_null(ids);
        free(copy);
    }
    assert_tokens(t, "a\0the", false, 'a', 0, 257);
    vv_tokenizer_free(t);
    vv_tokenizer *bytes;
    assert_ok(vv_tokenizer_open(&bytes, "bytes"));
    assert_tokens(bytes, "a\xff\0", false, 'a', 255, 0);
    assert_int_equal(vv_tokenizer_vocab(bytes), 256);
    assert_int_equal(vv_tokenizer_end(bytes), -1);
    vv_tokenizer_free(bytes);
}

static void put(const char *dir, const char *name, const vv_str *text)
{
    write_file(dir, name, text->text, text->length);
}

/* GPT-2's files under both pairs of names, tokenizer.json before them, "gpt2" in VIVACE_DATA. */
static void opens_by_name(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"vocab.bpe", "encoder.json"},
                                           {"merges.txt", "vocab.json"}};
    vv_str ids = {0}, merges = {0}, json = {0};
    vv_tokenizer *t, *same = case_tokenizer();
    char dir[256], path[300];
    case_vocabulary(&ids, true);
    case_merge_lines(&merges);
    case_json(&json, CASE_BYTE_LEVEL, false);
    for (int i = 0; i < 2; i++) {
        temp_dir(dir);
        put(dir, names[i][0], &merges);
        assert_fails(vv_tokenizer_open(&t, dir), VV_ENOTFOUND);
        assert_says("no tokenizer in it");
        put(dir, names[i][1], &ids);
        assert_ok(vv_tokenizer_open(&t, dir));
        assert_string_equal(vv_tokenizer_name(t), dir);
        assert_string_equal(vv_tokenizer_fingerprint(t), vv_tokenizer_fingerprint(same));
        vv_tokenizer_free(t);
        remove_dir(dir);
    }
    temp_dir(dir);
    put(dir, "tokenizer.json", &json);
    put(dir, "vocab.bpe", &json); /* not looked at */
    assert_ok(vv_tokenizer_open(&t, dir));
    vv_tokenizer_free(t);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    assert_ok(vv_tokenizer_open(&t, path));
    assert_string_equal(vv_tokenizer_fingerprint(t), vv_tokenizer_fingerprint(same));
    vv_tokenizer_free(t);
    const char *data = getenv("VIVACE_DATA");
    char *before = data ? strdup(data) : NULL;
    assert_int_equal(setenv("VIVACE_DATA", dir, 1), 0);
    assert_fails(vv_tokenizer_open(&t, "gpt2"), VV_ENOTFOUND);
    assert_says("no folder gpt2-bpe or gpt2 in VIVACE_DATA");
    snprintf(path, sizeof path, "%s/gpt2", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    put(path, "vocab.bpe", &merges);
    put(path, "encoder.json", &ids);
    assert_ok(vv_tokenizer_open(&t, "gpt2"));
    assert_string_equal(vv_tokenizer_name(t), "gpt2");
    vv_tokenizer_free(t);
    if (before)
        setenv("VIVACE_DATA", before, 1);
    else
        unsetenv("VIVACE_DATA");
    free(before);
    remove_dir(dir);
    vv_tokenizer_free(same);
    vv_str_fini(&ids);
    vv_str_fini(&merges);
    vv_str_fini(&json);
}

/* A vocabulary of two letters. */
static void tells_bytes_without_a_token(void **state)
{
    (void)state;
    static const char ids[] = "{\"a\": 0, \"b\": 1, \"ab\": 3}";
    vv_tokenizer *t;
    int32_t *out;
    int64_t count;
    assert_ok(vvi_tokenizer_parse_gpt2(&t, "f", "a b", 3, ids, sizeof ids - 1));
    assert_tokens(t, "abb", false, 3, 1);
    assert_fails(vv_tokenizer_encode(t, "abcab", 5, false, &out, &count), VV_EFORMAT);
    assert_says("byte 2 is 0x63, which has no token in f");
    const int32_t hole = 2;
    vv_str text = {0};
    assert_fails(vv_tokenizer_decode(t, &hole, 1, &text), VV_EINVAL);
    assert_says("no token has the id 2");
    vv_tokenizer_free(t);
}

/* Long words, more words than are remembered at first, and the same answer again. */
static void any_length_and_any_number_of_words(void **state)
{
    (void)state;
    enum { LETTERS = 100001, WORDS = 5000 };
    vv_tokenizer *t = case_tokenizer();
    vv_encoder *encoder;
    const int32_t *ids;
    int64_t count;
    char *text;
    assert_ok(vv_alloc(&text, LETTERS));
    memset(text, 'a', LETTERS);
    assert_ok(vv_encoder_new(&encoder, t));
    assert_ok(vv_encoder_encode(encoder, text, LETTERS, false, &ids, &count));
    assert_int_equal(count, LETTERS / 4 + 1);
    assert_int_equal(ids[0], 260);
    assert_int_equal(ids[count - 1], 'a');
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < WORDS; i++) {
            char word[16];
            const int length = snprintf(word, sizeof word, " the%d", i);
            assert_ok(vv_encoder_encode(encoder, word, (size_t)length, false, &ids, &count));
            assert_int_equal(count, length - 3);
            assert_int_equal(ids[0], 258);
            assert_int_equal(ids[count - 1], '0' + i % 10);
        }
    vv_encoder_free(encoder);
    vv_dealloc(text);
    vv_tokenizer_free(t);
}

static vv_status use_all(const vv_str *ids, const vv_str *merges, const vv_str *json)
{
    static const char text[] = "aaaa the's <|endoftext|> caf\xc3\xa9";
    vv_status status;
    vv_tokenizer *a = NULL, *b = NULL, *c = NULL;
    int32_t *out = NULL;
    int64_t count;
    vv_str back = {0};
    VV_GO(vvi_tokenizer_parse_gpt2(&a, "a", merges->text, merges->length, ids->text, ids->length));
    VV_GO(vvi_tokenizer_parse_json(&b, "b", json->text, json->length));
    VV_GO(vv_tokenizer_open(&c, "bytes"));
    VV_GO(vv_tokenizer_encode(a, text, sizeof text - 1, true, &out, &count));
    VV_GO(vv_tokenizer_decode(b, out, count, &back));
    if (strcmp(back.text, text) != 0)
        status = vv_fail(VV_EINTERNAL, "not the text");
out:
    vv_str_fini(&back);
    vv_dealloc(out);
    vv_tokenizer_free(a);
    vv_tokenizer_free(b);
    vv_tokenizer_free(c);
    return status;
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    vv_str ids = {0}, merges = {0}, json = {0};
    case_vocabulary(&ids, true);
    case_merge_lines(&merges);
    case_json(&json, CASE_BYTE_LEVEL, false);
    const int64_t live = vv_memory_live_count();
    for (uint64_t n = 1;; n++) {
        vv_memory_fail_at(n);
        const vv_status status = use_all(&ids, &merges, &json);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK) {
            assert_true(n > 30);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
    }
    vv_str_fini(&ids);
    vv_str_fini(&merges);
    vv_str_fini(&json);
}

/* ---- with GPT-2's own vocabulary ---- */

static FILE *open_data(const char *name)
{
    const char *root = getenv("VIVACE_DATA");
    char path[1024];
    if (!root || !root[0])
        return NULL;
    snprintf(path, sizeof path, "%s/%s", root, name);
    return fopen(path, "rb");
}

static void gpt2_agrees_with_the_references(void **state)
{
    (void)state;
    static char line[1 << 20], text[1 << 18];
    static int32_t expected[1 << 18];
    FILE *file = open_data("gpt2-bpe/reference.tsv");
    vv_tokenizer *t;
    int cases = 0;
    if (!file)
        skip();
    assert_ok(vv_tokenizer_open(&t, "gpt2"));
    assert_int_equal(vv_tokenizer_vocab(t), 50257);
    assert_int_equal(vv_tokenizer_end(t), 50256);
    for (; fgets(line, sizeof line, file); cases++) {
        size_t bytes = 0;
        int64_t count = 0;
        char *at = line;
        for (; *at != '\t'; at += 2) {
            const char hex[3] = {at[0], at[1], 0};
            text[bytes++] = (char)strtol(hex, NULL, 16);
        }
        for (at++; *at && *at != '\n'; at += strspn(at, " "))
            expected[count++] = (int32_t)strtol(at, &at, 10);
        assert_ids(t, text, bytes, false, expected, count);
    }
    assert_int_equal(cases, 327);
    fclose(file);
    vv_tokenizer_free(t);
}

static void gpt2_agrees_on_a_whole_book(void **state)
{
    (void)state;
    enum { ROOM = 2000000 };
    FILE *file = open_data("tinyshakespeare/input.txt");
    FILE *ids_file = open_data("tinyshakespeare/input.gpt2-tokens.u16le");
    char *text;
    int32_t *expected;
    vv_tokenizer *t;
    if (!file || !ids_file)
        skip();
    assert_ok(vv_alloc(&text, ROOM));
    assert_ok(vv_alloc_array(&expected, ROOM, sizeof *expected));
    const size_t bytes = fread(text, 1, ROOM, file);
    int64_t count = 0;
    for (int low; (low = fgetc(ids_file)) != EOF;)
        expected[count++] = low | fgetc(ids_file) << 8;
    assert_int_equal(count, 338025);
    assert_ok(vv_tokenizer_open(&t, "gpt2"));
    assert_ids(t, text, bytes, false, expected, count);
    fclose(file);
    fclose(ids_file);
    vv_dealloc(text);
    vv_dealloc(expected);
    vv_tokenizer_free(t);
}

/* Every book of the two smaller files comes back, from as many tokens as are published. */
static void gpt2_gives_novels_back(void **state)
{
    (void)state;
    enum { ROOM = 2000000 };
    static const struct {
        const char *name;
        int64_t tokens;
    } files[] = {{"novels-en/novels.valid.txt", 302477}, {"novels-en/novels.test.txt", 335158}};
    vv_tokenizer *t;
    char *text;
    assert_ok(vv_alloc(&text, ROOM));
    for (size_t i = 0; i < 2; i++) {
        FILE *file = open_data(files[i].name);
        int32_t *ids;
        int64_t count;
        vv_str back = {0};
        if (!file || vv_tokenizer_open(&t, "gpt2") != VV_OK)
            break;
        const size_t bytes = fread(text, 1, ROOM, file);
        assert_ok(vv_tokenizer_encode(t, text, bytes, false, &ids, &count));
        assert_int_equal(count, files[i].tokens);
        assert_ok(vv_tokenizer_decode(t, ids, count, &back));
        assert_int_equal(back.length, bytes);
        assert_memory_equal(back.text, text, bytes);
        vv_str_fini(&back);
        vv_dealloc(ids);
        vv_tokenizer_free(t);
        fclose(file);
    }
    vv_dealloc(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_characters_go_both_ways),
        cmocka_unit_test(merges_in_rank_order),
        cmocka_unit_test(special_tokens_only_when_asked_for),
        cmocka_unit_test(both_kinds_of_file_agree),
        cmocka_unit_test(added_tokens_are_not_byte_characters),
        cmocka_unit_test(other_expressions_cut_by_pcre2),
        cmocka_unit_test(refuses_other_tokenizers),
        cmocka_unit_test(refuses_what_is_not_utf8),
        cmocka_unit_test(opens_by_name),
        cmocka_unit_test(tells_bytes_without_a_token),
        cmocka_unit_test(any_length_and_any_number_of_words),
        cmocka_unit_test(survives_each_allocation_failing),
        cmocka_unit_test(gpt2_agrees_with_the_references),
        cmocka_unit_test(gpt2_agrees_on_a_whole_book),
        cmocka_unit_test(gpt2_gives_novels_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
