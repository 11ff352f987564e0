/* sha256.h - SHA-256 (FIPS 180-4), to verify downloads. */
#ifndef VVI_SHA256_H
#define VVI_SHA256_H

#include <vivace/status.h>

typedef struct vvi_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} vvi_sha256;

void vvi_sha256_init(vvi_sha256 *sha);
void vvi_sha256_add(vvi_sha256 *sha, const void *data, size_t bytes);
/* 64 lower-case hexadecimal digits and a NUL. */
void vvi_sha256_hex(vvi_sha256 *sha, char hex[65]);
VV_MUST_USE vv_status vvi_sha256_file(char hex[65], const char *path);

#endif
