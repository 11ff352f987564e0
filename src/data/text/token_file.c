/* token_file.c - reading token files. Their numbers are little endian, and so is the machine (the
 * build says so): they are used where they lie. */
#include <string.h>

#include <vivace/memory.h>
#include <vivace/token_file.h>

#include "base/crc32.h"
#include "base/file.h"
#include "data/text/token_file_format.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "token files are read in place, which needs a little-endian machine"
#endif

struct vv_tokens {
    vv_tokens_info info;
    vvi_tokens_sums sums;
    vvi_mapping mapping; /* zero if the bytes belong to somebody else */
    char *name;
    const unsigned char *data; /* the tokens */
    const int64_t *offsets;
    int64_t *copy; /* of the offsets, if they do not lie at a multiple of 8 */
};

static uint32_t checksum(const void *data, size_t bytes)
{
    vvi_crc32 crc;
    vvi_crc32_init(&crc);
    vvi_crc32_add(&crc, data, bytes);
    return vvi_crc32_value(&crc);
}

static vv_status check_offsets(const vv_tokens *tokens)
{
    const int64_t *at = tokens->offsets;
    const int64_t documents = tokens->info.documents;
    if (checksum(at, 8 * ((size_t)documents + 1)) != tokens->sums.offsets)
        return vv_fail(VV_EFORMAT, "%s: the checksum of the documents' offsets is wrong; the file "
                                   "is damaged", tokens->name);
    bool fits = at[0] == 0 && at[documents] == tokens->info.count;
    for (int64_t d = 0; d < documents; d++)
        fits = fits && at[d] <= at[d + 1];
    return fits ? VV_OK
                : vv_fail(VV_EFORMAT, "%s: expected offsets of documents that rise from 0 to %lld, "
                                      "found others", tokens->name, (long long)tokens->info.count);
}

vv_status vvi_tokens_parse(vv_tokens **out, const char *name, const void *data, size_t bytes)
{
    vv_status status;
    vv_tokens *tokens;
    *out = NULL;
    VV_TRY(vv_alloc(&tokens, sizeof *tokens));
    VV_GO(vv_strdup(&tokens->name, name));
    VV_GO(vvi_tokens_header_read(&tokens->info, &tokens->sums, name, data, bytes));
    tokens->data = (const unsigned char *)data + VVI_TOKENS_HEADER;
    const void *offsets = (const unsigned char *)data + vvi_tokens_offsets_at(&tokens->info);
    tokens->offsets = offsets;
    if ((uintptr_t)offsets % sizeof(int64_t) != 0) {
        const size_t count = (size_t)tokens->info.documents + 1;
        VV_GO(vv_alloc_array(&tokens->copy, count, sizeof *tokens->copy));
        memcpy(tokens->copy, offsets, count * sizeof *tokens->copy);
        tokens->offsets = tokens->copy;
    }
    VV_GO(check_offsets(tokens));
    *out = tokens;
    return VV_OK;
out:
    vv_tokens_free(tokens);
    return status;
}

vv_status vv_tokens_open(vv_tokens **out, const char *path)
{
    vvi_mapping mapping;
    *out = NULL;
    VV_TRY(vvi_file_map(&mapping, path));
    const vv_status status = vvi_tokens_parse(out, path, mapping.data, mapping.bytes);
    if (status != VV_OK)
        vvi_file_unmap(&mapping);
    else
        (*out)->mapping = mapping;
    return status;
}

void vv_tokens_free(vv_tokens *tokens)
{
    if (!tokens)
        return;
    vvi_file_unmap(&tokens->mapping);
    vv_dealloc(tokens->copy);
    vv_dealloc(tokens->name);
    vv_dealloc(tokens);
}

const vv_tokens_info *vv_tokens_info_of(const vv_tokens *tokens)
{
    return &tokens->info;
}

const int64_t *vv_tokens_offsets(const vv_tokens *tokens)
{
    return tokens->offsets;
}

int64_t vv_tokens_document(const vv_tokens *tokens, int64_t at)
{
    int64_t low = 0, high = tokens->info.documents; /* offsets[low] <= at < offsets[high] */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (tokens->offsets[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first id outside the vocabulary. */
static vv_status fail_foreign(const vv_tokens *tokens, int64_t first, int64_t count,
                              const int32_t *ids)
{
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= tokens->info.vocab)
            return vv_fail(VV_EFORMAT, "%s: token %lld is %u, beyond the vocabulary of %lld; the "
                                       "file is damaged", tokens->name, (long long)(first + i),
                           (unsigned)ids[i], (long long)tokens->info.vocab);
    return VV_OK;
}

vv_status vv_tokens_read(const vv_tokens *tokens, int64_t first, int64_t count, int32_t *out)
{
    if (first < 0 || count < 0 || first > tokens->info.count - count)
        return vv_fail(VV_EINVAL, "%s: tokens %lld to %lld do not exist; there are %lld",
                       tokens->name, (long long)first, (long long)(first + count - 1),
                       (long long)tokens->info.count);
    uint32_t most = 0;
    if (tokens->info.bytes_a_token == 2) {
        const unsigned char *from = tokens->data + 2 * (size_t)first;
        for (int64_t i = 0; i < count; i++) {
            uint16_t id;
            memcpy(&id, from + 2 * i, sizeof id);
            most = id > most ? id : most;
            out[i] = id;
        }
    } else if (count > 0) {
        memcpy(out, tokens->data + 4 * (size_t)first, 4 * (size_t)count);
        for (int64_t i = 0; i < count; i++)
            most = (uint32_t)out[i] > most ? (uint32_t)out[i] : most;
    }
    return count > 0 && most >= (uint64_t)tokens->info.vocab
               ? fail_foreign(tokens, first, count, out)
               : VV_OK;
}

vv_status vv_tokens_verify(const vv_tokens *tokens)
{
    const size_t bytes = (size_t)tokens->info.count * (size_t)tokens->info.bytes_a_token;
    if (checksum(tokens->data, bytes) != tokens->sums.tokens)
        return vv_fail(VV_EFORMAT, "%s: the checksum of the tokens is wrong; the file is damaged",
                       tokens->name);
    return VV_OK;
}
