/* digest.h - the checksums that indexes of shards name. */
#ifndef VVI_DIGEST_H
#define VVI_DIGEST_H

#include "data/sha256.h"

typedef enum vvi_digest_kind { VVI_SHA1, VVI_SHA256, VVI_XXH64, VVI_DIGEST_KINDS } vvi_digest_kind;

typedef struct vvi_digest {
    vvi_digest_kind kind;
    vvi_sha256 sha256;
    uint64_t bytes;
    uint32_t sha1[5];
    uint64_t lanes[4]; /* of XXH64 */
    unsigned char block[64];
} vvi_digest;

/* "sha1", "sha256", "xxh64"; VVI_DIGEST_KINDS = not known. */
vvi_digest_kind vvi_digest_called(const char *name);
const char *vvi_digest_name(vvi_digest_kind kind);

void vvi_digest_init(vvi_digest *digest, vvi_digest_kind kind);
void vvi_digest_add(vvi_digest *digest, const void *data, size_t bytes);
/* Lower-case hexadecimal digits (40, 64 or 16 of them) and a NUL. */
void vvi_digest_hex(vvi_digest *digest, char hex[65]);

#endif
