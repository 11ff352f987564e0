/* split.h - pre-tokenizers: a text is cut into pieces ("words"), and each piece becomes tokens by
 * itself. GPT-2's expression is a scanner of our own; others are left to PCRE2. */
#ifndef VVI_SPLIT_H
#define VVI_SPLIT_H

#include <vivace/status.h>

/* The expression of GPT-2's encoder and of Hugging Face's ByteLevel. */
#define VVI_GPT2_PATTERN \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Classes of characters, two bits each: LETTER \p{L}, NUMBER \p{N}, SPACE \s (White_Space). */
typedef enum vvi_char_class { VVI_OTHER, VVI_LETTER, VVI_NUMBER, VVI_SPACE } vvi_char_class;
typedef struct vvi_char_classes {
    unsigned char ascii[128];
    unsigned char packed[0x110000 / 4];
} vvi_char_classes;
void vvi_char_classes_init(vvi_char_classes *classes);
static inline vvi_char_class vvi_char_class_of(const vvi_char_classes *classes, uint32_t c)
{
    return (vvi_char_class)(classes->packed[c >> 2] >> (2 * (c & 3)) & 3);
}

/* End of the piece that starts at `at` (< end) of valid UTF-8. */
const unsigned char *vvi_split_gpt2(const vvi_char_classes *classes, const unsigned char *at,
                                    const unsigned char *end);
/* Whether a text may be cut before `at` (inside it) without changing GPT-2's pieces. */
bool vvi_split_gpt2_may_cut(const vvi_char_classes *classes, const unsigned char *start,
                            const unsigned char *at);

/* A text without the white space at its start (or end): where it then starts (or ends). */
const unsigned char *vvi_split_trim_start(const vvi_char_classes *classes, const unsigned char *at,
                                          const unsigned char *end);
const unsigned char *vvi_split_trim_end(const vvi_char_classes *classes, const unsigned char *start,
                                        const unsigned char *end);

/* A compiled expression: what it matches and what lies between are pieces. */
typedef struct vvi_regex vvi_regex;
bool vvi_regex_available(void);
VV_MUST_USE vv_status vvi_regex_new(VV_OWNED vvi_regex **out, const char *pattern);
void vvi_regex_free(VV_TAKES vvi_regex *regex);
/* What one thread needs for matching. */
typedef struct vvi_regex_match vvi_regex_match;
VV_MUST_USE vv_status vvi_regex_match_new(VV_OWNED vvi_regex_match **out, const vvi_regex *regex);
void vvi_regex_match_free(VV_TAKES vvi_regex_match *match);
/* First match at or behind offset `from` that is not empty; *first = *last = bytes if there is
   none. `text` is valid UTF-8. */
VV_MUST_USE vv_status vvi_regex_find(const vvi_regex *regex, vvi_regex_match *match,
                                     const unsigned char *text, size_t bytes, size_t from,
                                     size_t *first, size_t *last);

#endif
