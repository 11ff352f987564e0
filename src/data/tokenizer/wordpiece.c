/* wordpiece.c - BERT's tokenizer: small letters without accents, words and punctuation marks apart,
 * each word the longest pieces the vocabulary has from its start on (Devlin et al. 2019; Wu et al.
 * 2016). A piece within a word begins with "##". */
#include <string.h>

#include <jansson.h>

#include <vivace/memory.h>

#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode_fold.h"

#define MAX_WORD 100 /* characters; longer words are unknown */

/* ---- characters ---- */

static bool within(const uint32_t (*ranges)[2], size_t count, uint32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (ranges[middle][1] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low][0] <= c;
}
#define WITHIN(ranges, c) within(ranges, sizeof(ranges) / sizeof *(ranges), c)

/* The text is UTF-8. */
static size_t read_char(const unsigned char *at, uint32_t *c)
{
    if (at[0] < 0x80) {
        *c = at[0];
        return 1;
    }
    const size_t bytes = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    *c = at[0] & (0xffu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++)
        *c = *c << 6 | (at[i] & 0x3fu);
    return bytes;
}

static size_t write_char(uint32_t c, unsigned char *out)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    const size_t bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--, c >>= 6)
        out[i] = (unsigned char)(0x80 | (c & 0x3f));
    out[0] = (unsigned char)((0xf00u >> bytes & 0xff) | c);
    return bytes;
}

static bool is_space(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13 && c != 11 && c != 12) || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static bool is_punctuation(uint32_t c)
{
    if (c < 128)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    return WITHIN(punctuation, c);
}

/* Ideographs of Chinese, which are words of their own. */
static bool is_ideograph(uint32_t c)
{
    static const uint32_t blocks[][2] = {
        {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0x2f800, 0x2fa1f},
    };
    return c >= 0x3400 && WITHIN(blocks, c);
}

/* A character in small letters without marks: up to four characters; returns how many. */
static int fold(uint32_t c, uint32_t out[4])
{
    out[0] = c;
    if (c < 128) {
        out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        return 1;
    }
    if (c >= 0xac00 && c < 0xd7a4) { /* Hangul: leading consonant, vowel, trailing consonant */
        const uint32_t s = c - 0xac00;
        out[0] = 0x1100 + s / 588;
        out[1] = 0x1161 + s % 588 / 28;
        out[2] = 0x11a7 + s % 28;
        return s % 28 ? 3 : 2;
    }
    if (WITHIN(marks, c))
        return 0;
    for (size_t i = 0; i < sizeof long_folds / sizeof *long_folds; i++)
        if (long_folds[i][0] == c) {
            int count = 0;
            for (; count < 4 && long_folds[i][count + 1]; count++)
                out[count] = long_folds[i][count + 1];
            return count;
        }
    for (size_t i = 0; i < sizeof folds / sizeof *folds && folds[i].first <= c; i++)
        if (c <= folds[i].last && (c - folds[i].first) % folds[i].step == 0) {
            out[0] = (uint32_t)((int64_t)c + folds[i].delta);
            return 1;
        }
    return 1;
}

/* ---- words ---- */

typedef struct wording {
    const vv_tokenizer *tokenizer;
    int32_t **ids;
    size_t *count, *room;
    unsigned char word[2 + 4 * MAX_WORD]; /* two bytes are left for "##" */
    size_t bytes;
    int chars; /* MAX_WORD + 1 = too many */
} wording;

static vv_status put_id(wording *w, int32_t id)
{
    if (*w->count == *w->room) {
        const size_t room = *w->room ? 2 * *w->room : 256;
        VV_TRY(vv_realloc_array(w->ids, room, sizeof **w->ids));
        *w->room = room;
    }
    (*w->ids)[(*w->count)++] = id;
    return VV_OK;
}

/* The longest piece that begins at `from` of the word; *bytes = its length, -1 if there is none. */
static int32_t longest(wording *w, size_t from, size_t *bytes)
{
    unsigned char *at = w->word + 2 + from;
    size_t prefix = 0;
    if (from > 0) { /* what stood there is taken already */
        at[-2] = at[-1] = '#';
        prefix = 2;
    }
    for (*bytes = w->bytes - from; *bytes > 0; --*bytes) {
        if (*bytes < w->bytes - from && (at[*bytes] & 0xc0) == 0x80)
            continue; /* within a character */
        const int32_t id = vvi_tokenizer_lookup(w->tokenizer, at - prefix, *bytes + prefix);
        if (id >= 0)
            return id;
    }
    return -1;
}

static vv_status end_word(wording *w)
{
    const size_t before = *w->count;
    bool known = w->chars <= MAX_WORD;
    for (size_t at = 0, bytes; known && at < w->bytes; at += bytes) {
        const int32_t id = longest(w, at, &bytes);
        known = id >= 0;
        if (known)
            VV_TRY(put_id(w, id));
    }
    if (!known) {
        *w->count = before;
        VV_TRY(put_id(w, w->tokenizer->unknown));
    }
    w->bytes = 0;
    w->chars = 0;
    return VV_OK;
}

static void put_char(wording *w, uint32_t c)
{
    if (w->chars < MAX_WORD)
        w->bytes += write_char(c, w->word + 2 + w->bytes);
    if (w->chars <= MAX_WORD)
        w->chars++;
}

static vv_status next_char(wording *w, uint32_t c)
{
    const bool alone = is_punctuation(c) || is_ideograph(c);
    if ((alone || is_space(c)) && w->chars > 0)
        VV_TRY(end_word(w));
    if (is_space(c))
        return VV_OK;
    put_char(w, c);
    return alone ? end_word(w) : VV_OK;
}

vv_status vvi_wordpiece_encode(const vv_tokenizer *t, const unsigned char *at, size_t bytes,
                               int32_t **ids, size_t *count, size_t *room)
{
    wording w = {.tokenizer = t, .ids = ids, .count = count, .room = room};
    const unsigned char *end = at + bytes;
    while (at < end) {
        uint32_t c, folded[4];
        at += read_char(at, &c);
        if (c == 0 || c == 0xfffd || (!is_space(c) && WITHIN(unseen, c)))
            continue;
        const int parts = t->lower ? fold(c, folded) : 1;
        if (!t->lower)
            folded[0] = c;
        for (int i = 0; i < parts; i++)
            VV_TRY(next_char(&w, folded[i]));
    }
    return w.chars > 0 ? end_word(&w) : VV_OK;
}

void vvi_wordpiece_decode(const unsigned char *token, size_t bytes, bool first, vv_str *out)
{
    const bool within_word = bytes > 2 && token[0] == '#' && token[1] == '#';
    if (!first && !within_word)
        vv_str_add(out, " ");
    vv_str_addn(out, (const char *)token + (within_word ? 2 : 0), bytes - (within_word ? 2 : 0));
}

/* ---- the file: a token a line ---- */

static vv_status add_specials(vv_tokenizer *t)
{
    static const char *const names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    t->unknown = vvi_tokenizer_lookup(t, "[UNK]", 5);
    if (t->unknown < 0)
        return vv_fail(VV_EFORMAT, "%s: expected a token [UNK], found none; is this a vocabulary "
                                   "of BERT's?", t->name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int32_t id = vvi_tokenizer_lookup(t, names[i], strlen(names[i]));
        if (id >= 0)
            VV_TRY(vvi_tokenizer_add(t, (vvi_added){.id = id, .special = true}));
    }
    return VV_OK;
}

/* do_lower_case of tokenizer_config.json; `text` NULL = there is none. */
static bool wants_lower(const char *text, size_t bytes)
{
    json_t *root = text ? json_loadb(text, bytes, 0, NULL) : NULL;
    const json_t *value = json_object_get(root, "do_lower_case");
    const bool lower = !value || !json_is_false(value);
    json_decref(root);
    return lower;
}

vv_status vvi_tokenizer_parse_wordpiece(vv_tokenizer **out, const char *name, const char *text,
                                        size_t bytes, const char *config, size_t config_bytes)
{
    vv_status status;
    vv_tokenizer *t = NULL;
    int64_t lines = bytes > 0 && text[bytes - 1] != '\n';
    *out = NULL;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    if (lines < 1 || lines > INT32_MAX)
        return vv_fail(VV_EFORMAT, "%s: expected a token a line, found %lld lines", name,
                       (long long)lines);
    VV_GO(vvi_tokenizer_new(&t, name, lines));
    t->wordpiece = true;
    t->lower = wants_lower(config, config_bytes);
    for (int64_t id = 0; id < lines; id++) {
        const char *stop = memchr(text, '\n', bytes);
        const size_t whole = stop ? (size_t)(stop - text) : bytes;
        const size_t length = whole > 0 && text[whole - 1] == '\r' ? whole - 1 : whole;
        VV_GO(vvi_tokenizer_set(t, id, text, length));
        text += whole + (stop != NULL);
        bytes -= whole + (stop != NULL);
    }
    VV_GO(vvi_tokenizer_index(t));
    VV_GO(add_specials(t));
    VV_GO(vvi_tokenizer_finish(t));
    *out = t;
    return VV_OK;
out:
    vv_tokenizer_free(t);
    return status;
}
