/* crc32.h - the CRC-32 of zip, gzip and PNG (polynomial 0xedb88320, reflected). */
#ifndef VVI_CRC32_H
#define VVI_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* A checksum in the making. The tables live here, so that nothing global needs to be set up. */
typedef struct vvi_crc32 {
    uint32_t table[8][256];
    uint32_t state;
} vvi_crc32;

void vvi_crc32_init(vvi_crc32 *crc);
void vvi_crc32_reset(vvi_crc32 *crc); /* starts again; the tables stay */
void vvi_crc32_add(vvi_crc32 *crc, const void *data, size_t bytes);
uint32_t vvi_crc32_value(const vvi_crc32 *crc);

#endif
