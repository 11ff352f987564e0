/* test_split.c - the scanner cuts as PCRE2 does by GPT-2's expression: on every code point between
 * neighbours of every kind, and on random texts; cutting a text where the scanner allows it changes
 * no piece. Character classes: letters and numbers by PCRE2's copy of Unicode, except those that
 * only a later version knows. */
#include "vv_test.h"

#include <vivace/rng.h>

#include "data/tokenizer/split.h"
#include "vvi_config.h"

#if VVI_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static vvi_char_classes classes;
static bool newer[0x110000]; /* letters and numbers of a later Unicode */

static size_t put_char(unsigned char *out, uint32_t c)
{
    if (c < 0x80)
        return out[0] = (unsigned char)c, 1;
    if (c < 0x800)
        return out[0] = (unsigned char)(0xc0 | c >> 6), out[1] = (unsigned char)(0x80 | (c & 0x3f)),
               2;
    const size_t bytes = c < 0x10000 ? 3 : 4;
    out[0] = (unsigned char)(bytes == 3 ? 0xe0 | c >> 12 : 0xf0 | c >> 18);
    for (size_t i = 1; i < bytes; i++)
        out[i] = (unsigned char)(0x80 | (c >> 6 * (bytes - 1 - i) & 0x3f));
    return bytes;
}

static bool is_char(uint32_t c)
{
    return c < 0xd800 || c > 0xdfff;
}

static void char_classes_are_unicodes(void **state)
{
    (void)state;
    static const char *const patterns[] = {NULL, "\\p{L}", "\\p{N}", "\\s"};
    int newer_count = 0;
    char version[64] = "";
    for (int what = VVI_LETTER; what <= VVI_SPACE; what++) {
        vvi_regex *regex;
        vvi_regex_match *match;
        assert_ok(vvi_regex_new(&regex, patterns[what]));
        assert_ok(vvi_regex_match_new(&match, regex));
        for (uint32_t c = 0; c < 0x110000; c++) {
            unsigned char text[4];
            size_t first, last;
            if (!is_char(c))
                continue;
            const size_t bytes = put_char(text, c);
            assert_ok(vvi_regex_find(regex, match, text, bytes, 0, &first, &last));
            const int ours = (int)vvi_char_class_of(&classes, c);
            if (last > first && ours == VVI_OTHER && what != VVI_SPACE)
                newer[c] = ++newer_count;
            else if ((last > first) != (ours == what))
                fail_msg("U+%04X: class %d, ours is %d", (unsigned)c, what, ours);
        }
        vvi_regex_match_free(match);
        vvi_regex_free(regex);
    }
    if (pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, NULL) < (int)sizeof version)
        pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
    if (strcmp(version, "14.0.0") == 0)
        assert_int_equal(newer_count, 0);
}

typedef struct oracle {
    vvi_regex *regex;
    vvi_regex_match *match;
} oracle;

static void open_oracle(oracle *o)
{
    assert_ok(vvi_regex_new(&o->regex, VVI_GPT2_PATTERN));
    assert_ok(vvi_regex_match_new(&o->match, o->regex));
}

static void close_oracle(oracle *o)
{
    vvi_regex_match_free(o->match);
    vvi_regex_free(o->regex);
}

static void check_text(const oracle *o, const unsigned char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t first, last;
        assert_ok(vvi_regex_find(o->regex, o->match, text, bytes, at, &first, &last));
        const size_t end = (size_t)(vvi_split_gpt2(&classes, text + at, text + bytes) - text);
        if (first != at || last != end)
            fail_msg("'%.*s' at %d: PCRE2 cuts at %d, the scanner at %d", (int)bytes, text, (int)at,
                     (int)last, (int)end);
        at = end;
    }
}

static void every_character_among_neighbours(void **state)
{
    (void)state;
    static const char *const before[] = {"", " ", "a", "1", "!", "\n", "'", "\xc2\xa0"};
    oracle o;
    open_oracle(&o);
    for (uint32_t c = 0; c < 0x30000; c++) {
        unsigned char text[16];
        size_t bytes;
        if (!is_char(c) || newer[c] || (vvi_char_class_of(&classes, c) == VVI_OTHER && c % 5))
            continue;
        const char *left = before[c % 8], *right = before[c / 8 % 8];
        memcpy(text, left, strlen(left));
        bytes = strlen(left);
        bytes += put_char(text + bytes, c);
        memcpy(text + bytes, right, strlen(right));
        check_text(&o, text, bytes + strlen(right));
    }
    close_oracle(&o);
}

static size_t random_text(unsigned char *text, vv_rng *rng)
{
    static const char *const parts[] = {
        " ",  " ",  "  ", "\n", "\t",  "\r\n", "'s", "'t", "'re", "'ve", "'m",       "'ll",
        "'d", "'S", "'",  "a",  "the", "X",    "7",  "42", "!",   "...", "\xc3\xa9", "\xe4\xb8\xad",
        "\xc2\xa0", "\xe3\x80\x80", "\xf0\x9f\x98\x80", "\xd9\xa3", "e\xcc\x81", "\xe1\xa0\x8e",
        "\x1c", "\xc2\x85", "\xe2\x85\xa7", "_",
    };
    const int64_t count = 1 + vv_rng_below(rng, 12);
    size_t bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *part = parts[vv_rng_below(rng, sizeof parts / sizeof *parts)];
        memcpy(text + bytes, part, strlen(part));
        bytes += strlen(part);
    }
    return bytes;
}

static void random_texts(void **state)
{
    (void)state;
    oracle o;
    open_oracle(&o);
    for (uint64_t i = 0; i < 20000; i++) {
        unsigned char text[64];
        vv_rng rng = vv_rng_at(0, "texts", i);
        check_text(&o, text, random_text(text, &rng));
    }
    close_oracle(&o);
}

static size_t pieces(const unsigned char *at, const unsigned char *end, uint64_t *hash)
{
    size_t count = 0;
    for (; at < end; count++) {
        const unsigned char *next = vvi_split_gpt2(&classes, at, end);
        *hash = (*hash ^ (uint64_t)(next - at)) * 0x100000001b3u;
        at = next;
    }
    return count;
}

static void cuts_change_nothing(void **state)
{
    (void)state;
    int cuts = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        unsigned char text[64];
        vv_rng rng = vv_rng_at(1, "texts", i);
        const size_t bytes = random_text(text, &rng);
        uint64_t whole = 0;
        const size_t count = pieces(text, text + bytes, &whole);
        for (size_t at = 1; at < bytes; at++) {
            uint64_t parts = 0;
            if (!vvi_split_gpt2_may_cut(&classes, text, text + at))
                continue;
            size_t sum = pieces(text, text + at, &parts);
            sum += pieces(text + at, text + bytes, &parts);
            assert_int_equal(sum, count);
            assert_true(parts == whole);
            cuts++;
        }
    }
    assert_true(cuts > 5000);
}

int main(void)
{
    vvi_char_classes_init(&classes);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(char_classes_are_unicodes),
        cmocka_unit_test(every_character_among_neighbours),
        cmocka_unit_test(random_texts),
        cmocka_unit_test(cuts_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void needs_pcre2(void **state)
{
    (void)state;
    vvi_regex *regex;
    assert_fails(vvi_regex_new(&regex, "a"), VV_EUNSUPPORTED);
    assert_says("this build has no PCRE2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(needs_pcre2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
