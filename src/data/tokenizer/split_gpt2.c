/* split_gpt2.c - GPT-2's expression for pieces, as a scanner:
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * In words: an English contraction; else a run of letters, of numbers or of anything else but white
 * space, with one blank before it if there is one; else white space, whose last character is left
 * for what follows it. \s is the property White_Space. */
#include <string.h>

#include "data/tokenizer/split.h"
#include "data/tokenizer/unicode_ranges.h"

/* White_Space (Unicode PropList). */
static const uint32_t spaces[][2] = {
    {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};

static void mark(vvi_char_classes *classes, const uint32_t (*ranges)[2], size_t count,
                 vvi_char_class what)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t c = ranges[i][0]; c <= ranges[i][1]; c++)
            classes->packed[c >> 2] |= (unsigned char)(what << (2 * (c & 3)));
}

void vvi_char_classes_init(vvi_char_classes *classes)
{
    memset(classes, 0, sizeof *classes);
    mark(classes, letters, sizeof letters / sizeof *letters, VVI_LETTER);
    mark(classes, numbers, sizeof numbers / sizeof *numbers, VVI_NUMBER);
    mark(classes, spaces, sizeof spaces / sizeof *spaces, VVI_SPACE);
    for (uint32_t c = 0; c < 128; c++)
        classes->ascii[c] = (unsigned char)vvi_char_class_of(classes, c);
}

/* Class of the character at `at`; *next = the one behind it. */
static inline vvi_char_class class_at(const vvi_char_classes *classes, const unsigned char *at,
                                      const unsigned char **next)
{
    if (at[0] < 0x80) {
        *next = at + 1;
        return (vvi_char_class)classes->ascii[at[0]];
    }
    uint32_t c;
    if (at[0] < 0xe0) {
        c = (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
        *next = at + 2;
    } else if (at[0] < 0xf0) {
        c = (at[0] & 0xfu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
        *next = at + 3;
    } else {
        c = (at[0] & 7u) << 18 | (at[1] & 0x3fu) << 12 | (at[2] & 0x3fu) << 6 | (at[3] & 0x3fu);
        *next = at + 4;
        if (c > 0x10ffff) /* not in valid text */
            return VVI_OTHER;
    }
    return vvi_char_class_of(classes, c);
}

/* Bytes of a contraction that starts at the apostrophe `at`, 0 if there is none. */
static size_t contraction(const unsigned char *at, const unsigned char *end)
{
    const size_t left = (size_t)(end - at);
    if (left < 2)
        return 0;
    if (at[1] == 's' || at[1] == 't' || at[1] == 'm' || at[1] == 'd')
        return 2;
    if (left > 2 && ((at[1] == 'r' && at[2] == 'e') || (at[1] == 'v' && at[2] == 'e') ||
                     (at[1] == 'l' && at[2] == 'l')))
        return 3;
    return 0;
}

static const unsigned char *run_end(const vvi_char_classes *classes, vvi_char_class what,
                                    const unsigned char *at, const unsigned char *end)
{
    while (at < end) {
        const unsigned char *next;
        if (class_at(classes, at, &next) != what)
            break;
        at = next;
    }
    return at;
}

/* A run of white space: all of it at the end of the text, else without its last character, unless
   that is all there is. */
static const unsigned char *space_end(const vvi_char_classes *classes, const unsigned char *at,
                                      const unsigned char *end)
{
    const unsigned char *last = at, *next = at;
    while (next < end) {
        const unsigned char *here = next;
        if (class_at(classes, here, &next) != VVI_SPACE)
            return last == at ? here : last;
        last = here;
    }
    return end;
}

const unsigned char *vvi_split_gpt2(const vvi_char_classes *classes, const unsigned char *at,
                                    const unsigned char *end)
{
    if (at[0] == '\'') {
        const size_t bytes = contraction(at, end);
        if (bytes > 0)
            return at + bytes;
    }
    const unsigned char *first = at[0] == ' ' && at + 1 < end ? at + 1 : at, *next;
    const vvi_char_class what = class_at(classes, first, &next);
    return what == VVI_SPACE ? space_end(classes, at, end) : run_end(classes, what, next, end);
}

static bool is_space(const vvi_char_classes *classes, const unsigned char *at)
{
    const unsigned char *next;
    return class_at(classes, at, &next) == VVI_SPACE;
}

/* Start of the character that ends before `at` (> start). */
static const unsigned char *char_before(const unsigned char *start, const unsigned char *at)
{
    at--;
    while (at > start && (*at & 0xc0) == 0x80)
        at--;
    return at;
}

/* No piece has white space behind anything else, and what a piece is depends on the text behind it
   only if it is white space. */
bool vvi_split_gpt2_may_cut(const vvi_char_classes *classes, const unsigned char *start,
                            const unsigned char *at)
{
    return (*at & 0xc0) != 0x80 && is_space(classes, at) &&
           !is_space(classes, char_before(start, at));
}

const unsigned char *vvi_split_trim_start(const vvi_char_classes *classes, const unsigned char *at,
                                          const unsigned char *end)
{
    return run_end(classes, VVI_SPACE, at, end);
}

const unsigned char *vvi_split_trim_end(const vvi_char_classes *classes, const unsigned char *start,
                                        const unsigned char *end)
{
    while (end > start && is_space(classes, char_before(start, end)))
        end = char_before(start, end);
    return end;
}
