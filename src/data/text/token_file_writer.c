/* token_file_writer.c - writing token files. */
#include <string.h>

#include <vivace/memory.h>
#include <vivace/token_file.h>

#include "base/crc32.h"
#include "base/file.h"
#include "data/text/token_file_format.h"

#define BUFFER_BYTES ((size_t)1 << 18)

struct vv_tokens_writer {
    vv_tokens_info info;
    vvi_file *file; /* NULL once finished */
    char *name;
    vvi_crc32 crc; /* of the tokens */
    unsigned char *buffer;
    size_t filled;
    int64_t *offsets; /* of the documents ended; the first is 0 */
    size_t offset_room;
};

static vv_status check(const char *path, int64_t vocab, int32_t end, const char *tokenizer)
{
    if (vocab < 1 || vocab > (int64_t)1 << 31)
        return vv_fail(VV_EINVAL, "%s: a vocabulary of %lld tokens is outside [1, 2147483648]",
                       path, (long long)vocab);
    if (end < -1 || end >= vocab)
        return vv_fail(VV_EINVAL, "%s: the end token %d is not in the vocabulary of %lld", path,
                       (int)end, (long long)vocab);
    if (tokenizer && strlen(tokenizer) > 64)
        return vv_fail(VV_EINVAL, "%s: a tokenizer's fingerprint has at most 64 characters", path);
    return VV_OK;
}

vv_status vv_tokens_writer_new(vv_tokens_writer **out, const char *path, int64_t vocab, int32_t end,
                               const char *tokenizer)
{
    static const unsigned char nothing[VVI_TOKENS_HEADER];
    vv_status status;
    vv_tokens_writer *writer;
    *out = NULL;
    VV_TRY(check(path, vocab, end, tokenizer));
    VV_TRY(vv_alloc(&writer, sizeof *writer));
    writer->info = (vv_tokens_info){.vocab = vocab, .end = end};
    writer->info.bytes_a_token = vocab <= 65536 ? 2 : 4;
    if (tokenizer)
        memcpy(writer->info.tokenizer, tokenizer, strlen(tokenizer));
    vvi_crc32_init(&writer->crc);
    VV_GO(vv_strdup(&writer->name, path));
    VV_GO(vv_alloc(&writer->buffer, BUFFER_BYTES));
    writer->offset_room = 16;
    VV_GO(vv_alloc_array(&writer->offsets, writer->offset_room, sizeof *writer->offsets));
    VV_GO(vvi_file_begin(&writer->file, path));
    VV_GO(vvi_file_put(writer->file, nothing, sizeof nothing));
    *out = writer;
    return VV_OK;
out:
    vv_tokens_writer_free(writer);
    return status;
}

void vv_tokens_writer_free(vv_tokens_writer *writer)
{
    if (!writer)
        return;
    vvi_file_abandon(writer->file);
    vv_dealloc(writer->name);
    vv_dealloc(writer->buffer);
    vv_dealloc(writer->offsets);
    vv_dealloc(writer);
}

static vv_status flush(vv_tokens_writer *writer)
{
    VV_TRY(vvi_file_put(writer->file, writer->buffer, writer->filled));
    vvi_crc32_add(&writer->crc, writer->buffer, writer->filled);
    writer->filled = 0;
    return VV_OK;
}

static vv_status check_open(const vv_tokens_writer *writer)
{
    return writer->file ? VV_OK
                        : vv_fail(VV_ESTATE, "%s: the token file is finished", writer->name);
}

vv_status vv_tokens_writer_add(vv_tokens_writer *writer, const int32_t *ids, int64_t count)
{
    VV_TRY(check_open(writer));
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= writer->info.vocab)
            return vv_fail(VV_EINVAL, "%s: token %d is beyond the vocabulary of %lld", writer->name,
                           (int)ids[i], (long long)writer->info.vocab);
        if (writer->filled == BUFFER_BYTES)
            VV_TRY(flush(writer));
        unsigned char *at = writer->buffer + writer->filled;
        const uint32_t id = (uint32_t)ids[i];
        at[0] = (unsigned char)id;
        at[1] = (unsigned char)(id >> 8);
        if (writer->info.bytes_a_token == 4) {
            at[2] = (unsigned char)(id >> 16);
            at[3] = (unsigned char)(id >> 24);
        }
        writer->filled += (size_t)writer->info.bytes_a_token;
        writer->info.count++;
    }
    return VV_OK;
}

vv_status vv_tokens_writer_end_document(vv_tokens_writer *writer)
{
    VV_TRY(check_open(writer));
    const size_t needed = (size_t)writer->info.documents + 2;
    if (needed > writer->offset_room) {
        const size_t room = writer->offset_room * 2;
        VV_TRY(vv_realloc_array(&writer->offsets, room, sizeof *writer->offsets));
        writer->offset_room = room;
    }
    if (writer->info.end >= 0)
        VV_TRY(vv_tokens_writer_add(writer, &writer->info.end, 1));
    writer->offsets[++writer->info.documents] = writer->info.count;
    return VV_OK;
}

/* The offsets behind the tokens (8 bytes each; this machine is little endian, see token_file.c),
   then the header in the room left for it. */
static vv_status put_rest(vv_tokens_writer *writer)
{
    static const unsigned char zeros[8];
    unsigned char header[VVI_TOKENS_HEADER];
    vvi_tokens_sums sums = {.tokens = 0};
    VV_TRY(flush(writer));
    sums.tokens = vvi_crc32_value(&writer->crc);
    const uint64_t end = VVI_TOKENS_HEADER + (uint64_t)writer->info.count *
                                                 (uint64_t)writer->info.bytes_a_token;
    VV_TRY(vvi_file_put(writer->file, zeros, vvi_tokens_offsets_at(&writer->info) - end));
    const size_t bytes = ((size_t)writer->info.documents + 1) * sizeof *writer->offsets;
    VV_TRY(vvi_file_put(writer->file, writer->offsets, bytes));
    vvi_crc32_reset(&writer->crc);
    vvi_crc32_add(&writer->crc, writer->offsets, bytes);
    sums.offsets = vvi_crc32_value(&writer->crc);
    vvi_tokens_header_write(header, &writer->info, sums);
    return vvi_file_put_at(writer->file, 0, header, sizeof header);
}

vv_status vv_tokens_writer_finish(vv_tokens_writer *writer, vv_tokens_info *info)
{
    VV_TRY(check_open(writer));
    if (writer->offsets[writer->info.documents] < writer->info.count)
        VV_TRY(vv_tokens_writer_end_document(writer));
    VV_TRY(put_rest(writer));
    vvi_file *file = writer->file;
    writer->file = NULL;
    VV_TRY(vvi_file_finish(file));
    if (info)
        *info = writer->info;
    return VV_OK;
}
