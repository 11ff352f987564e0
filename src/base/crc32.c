/* crc32.c - CRC-32, eight bytes at a time (Kounavis and Berry 2005, "slicing by 8"). */
#include "base/crc32.h"

void vvi_crc32_reset(vvi_crc32 *crc)
{
    crc->state = 0xffffffffu;
}

void vvi_crc32_init(vvi_crc32 *crc)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = (c >> 1) ^ (0xedb88320u & (0u - (c & 1u)));
        crc->table[0][i] = c;
    }
    /* table[k][i]: byte i followed by k zero bytes. */
    for (int k = 1; k < 8; k++) {
        for (int i = 0; i < 256; i++) {
            uint32_t c = crc->table[k - 1][i];
            crc->table[k][i] = (c >> 8) ^ crc->table[0][c & 0xffu];
        }
    }
    vvi_crc32_reset(crc);
}

static uint32_t load32(const unsigned char *s)
{
    return s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
}

void vvi_crc32_add(vvi_crc32 *crc, const void *data, size_t bytes)
{
    const unsigned char *s = data;
    uint32_t c = crc->state;
    for (; bytes >= 8; bytes -= 8, s += 8) {
        uint32_t lo = load32(s) ^ c, hi = load32(s + 4);
        c = crc->table[7][lo & 0xffu] ^ crc->table[6][(lo >> 8) & 0xffu] ^
            crc->table[5][(lo >> 16) & 0xffu] ^ crc->table[4][lo >> 24] ^
            crc->table[3][hi & 0xffu] ^ crc->table[2][(hi >> 8) & 0xffu] ^
            crc->table[1][(hi >> 16) & 0xffu] ^ crc->table[0][hi >> 24];
    }
    for (; bytes; bytes--)
        c = (c >> 8) ^ crc->table[0][(c ^ *s++) & 0xffu];
    crc->state = c;
}

uint32_t vvi_crc32_value(const vvi_crc32 *crc)
{
    return ~crc->state;
}
