/* text_case.h - a small tokenizer for tests: 256 bytes, a few merges and "<|endoftext|>", as
 * GPT-2's two files and as tokenizer.json. */
#ifndef VV_TEXT_CASE_H
#define VV_TEXT_CASE_H

#include "vv_test_files.h"

#include <vivace/tokenizer.h>

#include "data/tokenizer/tokenizer_impl.h"

/* In rising rank; token 256 + i is what merge i gives. Written in byte characters, where U+0120
   stands for the blank. */
static const char *const case_merges[][2] = {
    {"t", "h"},               /* 256 th */
    {"th", "e"},              /* 257 the */
    {"\xc4\xa0", "the"},      /* 258 " the" */
    {"a", "a"},               /* 259 aa */
    {"aa", "aa"},             /* 260 aaaa */
    {"h", "e"},               /* 261 he, never before th */
    {"\xc3\x83", "\xc2\xa9"}, /* 262 the two bytes of U+00E9 */
    {"\xc4\xa0", "a"},        /* 263 " a" */
    {"'", "s"},               /* 264 's */
};
enum { CASE_MERGES = sizeof case_merges / sizeof *case_merges, CASE_END = 256 + CASE_MERGES };

/* {"token": id, ...} of the bytes and the merges, with the end token if `end`. */
static inline void case_vocabulary(vv_str *out, bool end)
{
    vv_str_add(out, "{");
    for (int b = 0; b < 256; b++) {
        char text[3] = {0};
        vvi_byte_char((unsigned char)b, text);
        vv_str_add_json(out, text);
        vv_str_addf(out, ": %d, ", b);
    }
    for (int i = 0; i < CASE_MERGES; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s%s", case_merges[i][0], case_merges[i][1]);
        vv_str_add_json(out, text);
        vv_str_addf(out, ": %d%s", 256 + i, i + 1 < CASE_MERGES || end ? ", " : "");
    }
    if (end)
        vv_str_addf(out, "\"<|endoftext|>\": %d", CASE_END);
    vv_str_add(out, "}");
    assert_ok(vv_str_status(out));
}

static inline void case_merge_lines(vv_str *out)
{
    vv_str_add(out, "#version: 0.2\n");
    for (int i = 0; i < CASE_MERGES; i++)
        vv_str_addf(out, "%s %s\n", case_merges[i][0], case_merges[i][1]);
    assert_ok(vv_str_status(out));
}

/* tokenizer.json; `pre` is the pre-tokenizer, `pairs` writes merges as arrays. */
static inline void case_json(vv_str *out, const char *pre, bool pairs)
{
    vv_str_addf(out, "{\"version\": \"1.0\", \"normalizer\": null, \"pre_tokenizer\": %s, "
                     "\"added_tokens\": [{\"id\": %d, \"content\": \"<|endoftext|>\", "
                     "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                     "\"normalized\": false, \"special\": true}], \"model\": {\"type\": \"BPE\", "
                     "\"vocab\": ", pre, CASE_END);
    case_vocabulary(out, false);
    vv_str_add(out, ", \"merges\": [");
    for (int i = 0; i < CASE_MERGES; i++)
        vv_str_addf(out, pairs ? "%s[\"%s\", \"%s\"]" : "%s\"%s %s\"", i ? ", " : "",
                    case_merges[i][0], case_merges[i][1]);
    vv_str_add(out, "]}}");
    assert_ok(vv_str_status(out));
}

#define CASE_BYTE_LEVEL \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, " \
    "\"use_regex\": true}"

static inline vv_tokenizer *case_tokenizer(void)
{
    vv_str ids = {0}, merges = {0};
    vv_tokenizer *tokenizer;
    case_vocabulary(&ids, true);
    case_merge_lines(&merges);
    assert_ok(vvi_tokenizer_parse_gpt2(&tokenizer, "case", merges.text, merges.length, ids.text,
                                       ids.length));
    vv_str_fini(&ids);
    vv_str_fini(&merges);
    return tokenizer;
}

/* The text's ids are these, and they give the text back. */
static inline void assert_ids(const vv_tokenizer *tokenizer, const char *text, size_t bytes,
                              bool special, const int32_t *expected, int64_t count)
{
    int32_t *ids;
    int64_t got;
    vv_str back = {0};
    assert_ok(vv_tokenizer_encode(tokenizer, text, bytes, special, &ids, &got));
    for (int64_t i = 0; i < got && i < count; i++)
        if (ids[i] != expected[i])
            fail_msg("'%.*s': token %d is %d, expected %d", (int)bytes, text, (int)i, (int)ids[i],
                     (int)expected[i]);
    if (got != count)
        fail_msg("'%.*s': %d tokens, expected %d", (int)bytes, text, (int)got, (int)count);
    assert_ok(vv_tokenizer_decode(tokenizer, ids, got, &back));
    assert_int_equal(back.length, bytes);
    assert_memory_equal(vv_str_text(&back), text, bytes);
    vv_str_fini(&back);
    vv_dealloc(ids);
}
#define assert_tokens(tokenizer, text, special, ...)                                               \
    do {                                                                                           \
        const int32_t list_[] = {__VA_ARGS__};                                                     \
        assert_ids(tokenizer, text, sizeof text - 1, special, list_,                               \
                   sizeof list_ / sizeof *list_);                                                  \
    } while (0)

#endif
