/* token_file_format.c - the header of token files. */
#include "data/text/token_file_format.h"

#include <string.h>

#include "base/crc32.h"

static const char magic[8] = {'v', 'v', 't', 'o', 'k', 'e', 'n', 's'};

static void put_number(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get_number(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static uint32_t checksum(const unsigned char *data, size_t bytes)
{
    vvi_crc32 crc;
    vvi_crc32_init(&crc);
    vvi_crc32_add(&crc, data, bytes);
    return vvi_crc32_value(&crc);
}

void vvi_tokens_header_write(unsigned char out[VVI_TOKENS_HEADER], const vv_tokens_info *info,
                             vvi_tokens_sums sums)
{
    const size_t length = strlen(info->tokenizer);
    memset(out, 0, VVI_TOKENS_HEADER);
    memcpy(out, magic, sizeof magic);
    put_number(out + 8, VVI_TOKENS_VERSION, 4);
    put_number(out + 12, (uint64_t)info->bytes_a_token, 4);
    put_number(out + 16, (uint64_t)info->count, 8);
    put_number(out + 24, (uint64_t)info->documents, 8);
    put_number(out + 32, (uint64_t)info->vocab, 8);
    put_number(out + 40, (uint32_t)info->end, 4);
    put_number(out + 44, sums.tokens, 4);
    put_number(out + 48, sums.offsets, 4);
    put_number(out + 52, length, 4);
    memcpy(out + 56, info->tokenizer, length);
    put_number(out + 252, checksum(out, 252), 4);
}

uint64_t vvi_tokens_offsets_at(const vv_tokens_info *info)
{
    const uint64_t tokens = (uint64_t)info->count * (uint64_t)info->bytes_a_token;
    return VVI_TOKENS_HEADER + (tokens + 7) / 8 * 8;
}

/* Numbers that a right checksum does not promise. */
static vv_status check_info(const vv_tokens_info *info, const char *name)
{
    if (info->bytes_a_token != 2 && info->bytes_a_token != 4)
        return vv_fail(VV_EFORMAT, "%s: expected tokens of 2 or 4 bytes, found %d", name,
                       info->bytes_a_token);
    const int64_t most = info->bytes_a_token == 2 ? 65536 : (int64_t)1 << 31;
    if (info->vocab < 1 || info->vocab > most)
        return vv_fail(VV_EFORMAT, "%s: expected a vocabulary of 1 to %lld tokens, found %lld",
                       name, (long long)most, (long long)info->vocab);
    if (info->end < -1 || info->end >= info->vocab)
        return vv_fail(VV_EFORMAT, "%s: the end token %d is not in the vocabulary of %lld", name,
                       (int)info->end, (long long)info->vocab);
    const int64_t limit = (int64_t)1 << 56;
    if (info->count < 0 || info->count > limit || info->documents < 0 || info->documents > limit)
        return vv_fail(VV_EFORMAT, "%s: expected sizes that can exist, found %lld tokens in %lld "
                                   "documents", name, (long long)info->count,
                       (long long)info->documents);
    return VV_OK;
}

vv_status vvi_tokens_header_read(vv_tokens_info *info, vvi_tokens_sums *sums, const char *name,
                                 const void *data, size_t bytes)
{
    const unsigned char *at = data;
    if (bytes < sizeof magic || memcmp(at, magic, sizeof magic) != 0)
        return vv_fail(VV_EFORMAT, "%s: expected a token file (it starts with \"vvtokens\"), found "
                                   "something else; make one with `vivace data tokenize`", name);
    if (bytes < VVI_TOKENS_HEADER)
        return vv_fail(VV_EFORMAT, "%s: expected a header of %d bytes, found %zu; the file is cut "
                                   "short", name, VVI_TOKENS_HEADER, bytes);
    if (get_number(at + 8, 4) != VVI_TOKENS_VERSION)
        return vv_fail(VV_EFORMAT, "%s: expected version %d of token files, found %llu; make it "
                                   "again with this program", name, VVI_TOKENS_VERSION,
                       (unsigned long long)get_number(at + 8, 4));
    if (get_number(at + 252, 4) != checksum(at, 252))
        return vv_fail(VV_EFORMAT, "%s: the header's checksum is wrong; the file is damaged", name);
    const uint64_t length = get_number(at + 52, 4);
    *info = (vv_tokens_info){
        .count = (int64_t)get_number(at + 16, 8),
        .documents = (int64_t)get_number(at + 24, 8),
        .vocab = (int64_t)get_number(at + 32, 8),
        .end = (int32_t)get_number(at + 40, 4),
        .bytes_a_token = (int)get_number(at + 12, 4),
    };
    memcpy(info->tokenizer, at + 56, length < 64 ? length : 64);
    *sums = (vvi_tokens_sums){(uint32_t)get_number(at + 44, 4), (uint32_t)get_number(at + 48, 4)};
    VV_TRY(check_info(info, name));
    const uint64_t expected =
        vvi_tokens_offsets_at(info) + 8 * ((uint64_t)info->documents + 1);
    if (expected != bytes)
        return vv_fail(VV_EFORMAT, "%s: expected %llu bytes for %lld tokens in %lld documents, "
                                   "found %zu%s", name, (unsigned long long)expected,
                       (long long)info->count, (long long)info->documents, bytes,
                       bytes < expected ? "; the file is cut short" : "");
    return VV_OK;
}
