/* fuzz_token_file.c - token files: any bytes give a file whose tokens and documents can be read, or
 * a sentence. Checksums are put right first, so that what lies behind them is tried too. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/crc32.h"
#include "data/text/token_file_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint32_t checksum(const uint8_t *data, size_t bytes)
{
    vvi_crc32 crc;
    vvi_crc32_init(&crc);
    vvi_crc32_add(&crc, data, bytes);
    return vvi_crc32_value(&crc);
}

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void mend(uint8_t *data, size_t bytes)
{
    uint64_t documents;
    if (bytes < VVI_TOKENS_HEADER)
        return;
    memcpy(&documents, data + 24, 8);
    if (documents < bytes / 8 && 8 * (documents + 1) <= bytes - VVI_TOKENS_HEADER)
        put32(data + 48, checksum(data + bytes - 8 * (documents + 1), 8 * (documents + 1)));
    put32(data + 252, checksum(data, 252));
}

static void use(const vv_tokens *tokens, size_t bytes)
{
    const vv_tokens_info *info = vv_tokens_info_of(tokens);
    const int64_t *offsets = vv_tokens_offsets(tokens);
    int32_t ids[16];
    if ((size_t)info->count > bytes || (size_t)info->documents > bytes)
        abort();
    for (int64_t at = 0; at < info->count; at += 16) {
        const int64_t count = info->count - at < 16 ? info->count - at : 16;
        const vv_status status = vv_tokens_read(tokens, at, count, ids);
        for (int64_t i = 0; status == VV_OK && i < count; i++)
            if (ids[i] < 0 || ids[i] >= info->vocab)
                abort();
    }
    for (int64_t d = 0; d < info->documents; d++)
        if (offsets[d] < 0 || offsets[d] > offsets[d + 1] || offsets[d + 1] > info->count)
            abort();
    if (info->count > 0 && info->documents > 0) {
        const int64_t d = vv_tokens_document(tokens, info->count - 1);
        if (d < 0 || d >= info->documents)
            abort();
    }
    if (vv_tokens_verify(tokens) != VV_OK && !vv_error()[0])
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    for (int mended = 0; mended < 2; mended++) {
        vv_tokens *tokens = NULL;
        uint8_t *copy = malloc(bytes + 1);
        if (!copy)
            return 0;
        memcpy(copy, data, bytes);
        if (mended)
            mend(copy, bytes);
        vv_error_clear();
        const vv_status status = vvi_tokens_parse(&tokens, "fuzz", copy, bytes);
        if ((status == VV_OK) != (tokens != NULL) || (status != VV_OK && !vv_error()[0]))
            abort();
        if (tokens)
            use(tokens, bytes);
        vv_tokens_free(tokens);
        free(copy);
    }
    return 0;
}
