/* byte_chars.c - GPT-2's way to write bytes as visible characters: printable Latin-1 bytes are
 * themselves, and the others, in order, the characters from U+0100 on. */
#include "data/tokenizer/tokenizer_impl.h"

static bool stands_for_itself(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* How many bytes below it do not stand for themselves: 0-32, 127-160, 173. */
static unsigned others_below(unsigned byte)
{
    return byte <= 33 ? byte : byte <= 127 ? 33 : byte <= 161 ? byte - 94 : byte <= 173 ? 67 : 68;
}

size_t vvi_byte_char(unsigned char byte, char out[2])
{
    const unsigned c = stands_for_itself(byte) ? byte : 0x100 + others_below(byte);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

bool vvi_byte_chars_read(const char *text, size_t bytes, unsigned char *out, size_t *count)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    *count = 0;
    while (at < end) {
        unsigned c = *at++;
        if (c >= 0x80) {
            if (c < 0xc2 || c > 0xc5 || at == end || (*at & 0xc0) != 0x80)
                return false;
            c = (c & 0x1f) << 6 | (*at++ & 0x3fu);
        }
        if (c < 0x100 && !stands_for_itself(c))
            return false;
        if (c >= 0x100) { /* number c - 0x100 of those that do not stand for themselves */
            const unsigned n = c - 0x100;
            c = n <= 32 ? n : n <= 66 ? n + 94 : n == 67 ? 173 : 256;
            if (c > 255)
                return false;
        }
        out[(*count)++] = (unsigned char)c;
    }
    return true;
}
