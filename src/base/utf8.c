/* utf8.c - checks that a text is UTF-8 (RFC 3629: no overlong forms, no surrogates). */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

size_t vvi_utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 0;
    if (s[0] >= 0xf0 && s[0] <= 0xf4)
        n = 4;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

bool vvi_utf8_valid(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        size_t n = vvi_utf8_length(s);
        if (n == 0)
            return false;
        s += n;
    }
    return true;
}

size_t vvi_utf8_prefix(const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t at = 0;
    while (at < bytes) {
        uint64_t eight;
        while (bytes - at >= sizeof eight) { /* ASCII, eight at a time */
            memcpy(&eight, s + at, sizeof eight);
            if (eight & 0x8080808080808080u)
                break;
            at += sizeof eight;
        }
        if (at == bytes)
            break;
        unsigned char end[5] = {0}; /* the last bytes, with a NUL behind them */
        const size_t left = bytes - at;
        const size_t n =
            left >= 4 ? vvi_utf8_length(s + at) : vvi_utf8_length(memcpy(end, s + at, left));
        if (n == 0 || n > left)
            break;
        at += n;
    }
    return at;
}
