/* digest.c - SHA-1 (FIPS 180-4) and XXH64 (the specification of the xxHash family, seed 0), beside
 * SHA-256. They tell a shard that arrived damaged; nobody's secrets depend on them. */
#include "data/digest.h"

#include <stdio.h>
#include <string.h>

static const char *const names[VVI_DIGEST_KINDS] = {"sha1", "sha256", "xxh64"};

vvi_digest_kind vvi_digest_called(const char *name)
{
    int kind = 0;
    while (kind < VVI_DIGEST_KINDS && strcmp(names[kind], name) != 0)
        kind++;
    return (vvi_digest_kind)kind;
}

const char *vvi_digest_name(vvi_digest_kind kind)
{
    return names[kind];
}

/* ---- SHA-1 ---- */

static uint32_t left32(uint32_t value, int by)
{
    return value << by | value >> (32 - by);
}

static void sha1_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = left32(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 80; i++) {
        const uint32_t f = i < 20   ? (b & c) | (~b & d)
                           : i < 40 ? b ^ c ^ d
                           : i < 60 ? (b & c) | (b & d) | (c & d)
                                    : b ^ c ^ d;
        const uint32_t k = i < 20   ? 0x5a827999
                           : i < 40 ? 0x6ed9eba1
                           : i < 60 ? 0x8f1bbcdc
                                    : 0xca62c1d6;
        const uint32_t next = left32(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = left32(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

/* ---- XXH64 ---- */

#define P1 0x9e3779b185ebca87u
#define P2 0xc2b2ae3d27d4eb4fu
#define P3 0x165667b19e3779f9u
#define P4 0x85ebca77c2b2ae63u
#define P5 0x27d4eb2f165667c5u

static uint64_t left64(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

static uint64_t little(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static uint64_t xxh_round(uint64_t lane, uint64_t input)
{
    return left64(lane + input * P2, 31) * P1;
}

static void xxh_block(uint64_t lanes[4], const unsigned char *block)
{
    for (int i = 0; i < 4; i++)
        lanes[i] = xxh_round(lanes[i], little(block + 8 * i, 8));
}

static uint64_t xxh_end(const vvi_digest *digest)
{
    const uint64_t *v = digest->lanes;
    const unsigned char *at = digest->block;
    size_t left = (size_t)(digest->bytes % 32);
    uint64_t sum = P5;
    if (digest->bytes >= 32) {
        sum = left64(v[0], 1) + left64(v[1], 7) + left64(v[2], 12) + left64(v[3], 18);
        for (int i = 0; i < 4; i++)
            sum = (sum ^ xxh_round(0, v[i])) * P1 + P4;
    }
    sum += digest->bytes;
    for (; left >= 8; left -= 8, at += 8)
        sum = left64(sum ^ xxh_round(0, little(at, 8)), 27) * P1 + P4;
    for (; left >= 4; left -= 4, at += 4)
        sum = left64(sum ^ little(at, 4) * P1, 23) * P2 + P3;
    for (; left > 0; left--, at++)
        sum = left64(sum ^ *at * P5, 11) * P1;
    sum = (sum ^ sum >> 33) * P2;
    sum = (sum ^ sum >> 29) * P3;
    return sum ^ sum >> 32;
}

/* ---- all ---- */

void vvi_digest_init(vvi_digest *digest, vvi_digest_kind kind)
{
    static const uint32_t sha1[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    *digest = (vvi_digest){.kind = kind, .lanes = {P1 + P2, P2, 0, 0 - P1}};
    memcpy(digest->sha1, sha1, sizeof sha1);
    vvi_sha256_init(&digest->sha256);
}

static void take_block(vvi_digest *digest, const unsigned char *block)
{
    if (digest->kind == VVI_SHA1)
        sha1_block(digest->sha1, block);
    else
        xxh_block(digest->lanes, block);
}

void vvi_digest_add(vvi_digest *digest, const void *data, size_t bytes)
{
    if (digest->kind == VVI_SHA256) {
        vvi_sha256_add(&digest->sha256, data, bytes);
        return;
    }
    const size_t size = digest->kind == VVI_SHA1 ? 64 : 32;
    const unsigned char *at = data;
    const size_t filled = (size_t)(digest->bytes % size);
    digest->bytes += bytes;
    if (filled > 0) {
        const size_t part = bytes < size - filled ? bytes : size - filled;
        memcpy(digest->block + filled, at, part);
        at += part;
        bytes -= part;
        if (filled + part < size)
            return;
        take_block(digest, digest->block);
    }
    for (; bytes >= size; at += size, bytes -= size)
        take_block(digest, at);
    if (bytes > 0)
        memcpy(digest->block, at, bytes);
}

void vvi_digest_hex(vvi_digest *digest, char hex[65])
{
    if (digest->kind == VVI_SHA256) {
        vvi_sha256_hex(&digest->sha256, hex);
        return;
    }
    if (digest->kind == VVI_XXH64) {
        snprintf(hex, 17, "%016llx", (unsigned long long)xxh_end(digest));
        return;
    }
    const uint64_t bits = digest->bytes * 8;
    const size_t filled = (size_t)(digest->bytes % 64);
    unsigned char tail[72] = {0x80};
    const size_t zeros = (filled < 56 ? 56 : 120) - filled; /* the 0x80 counts as one */
    for (int i = 0; i < 8; i++)
        tail[zeros + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
    vvi_digest_add(digest, tail, zeros + 8);
    for (int i = 0; i < 5; i++)
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)digest->sha1[i]);
}
