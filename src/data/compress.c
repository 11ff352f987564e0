/* compress.c - gzip and zstd, of data that are in memory. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/data_file.h"

#include "vvi_config.h"

#if VVI_HAVE_ZLIB
#include <zlib.h>
#endif
#if VVI_HAVE_ZSTD
#include <zstd.h>
#endif

vv_status vvi_compression_parse(const char *text, bool *zstd, int *level)
{
    const size_t length = strcspn(text, ":");
    char *end = NULL;
    *zstd = length == 4 && memcmp(text, "zstd", 4) == 0;
    const bool gz = length == 2 && memcmp(text, "gz", 2) == 0;
    *level = *zstd ? 3 : 6;
    if (text[length])
        *level = (int)strtol(text + length + 1, &end, 10);
    if ((!*zstd && !gz) || (end && (*end || end == text + length + 1)) || *level < 1 ||
        *level > (*zstd ? 22 : 9))
        return vv_fail(VV_EINVAL, "compression \"%s\": expected gz, gz:1 to gz:9, zstd or zstd:1 "
                                  "to zstd:22", text);
    if (*zstd ? !VVI_HAVE_ZSTD : !VVI_HAVE_ZLIB)
        return vv_fail(VV_EUNSUPPORTED, "compression \"%s\": this build has no %s", text,
                       *zstd ? "zstd" : "zlib");
    return VV_OK;
}

static vv_status no_memory(void)
{
    return vv_fail(VV_ENOMEM, "out of memory while compressing");
}

static vv_status with_gzip(void **out, size_t *out_bytes, int level, const void *data, size_t bytes)
{
#if VVI_HAVE_ZLIB
    z_stream stream = {0};
    union {
        const void *in;
        unsigned char *out; /* zlib's input pointer is not const in older versions */
    } input = {.in = data};
    if (bytes > (size_t)UINT32_MAX / 2)
        return vv_fail(VV_EINVAL, "gzip of %zu bytes; at most 2 GiB in one piece", bytes);
    if (deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return no_memory();
    const size_t room = deflateBound(&stream, (uLong)bytes);
    vv_status status = vv_alloc_array(out, room, 1);
    if (status == VV_OK) {
        stream.next_in = input.out;
        stream.avail_in = (unsigned)bytes;
        stream.next_out = *out;
        stream.avail_out = (unsigned)room;
        if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
            status = no_memory();
        *out_bytes = (size_t)stream.total_out;
    }
    deflateEnd(&stream);
    return status;
#else
    (void)out, (void)out_bytes, (void)level, (void)data, (void)bytes;
    return no_memory();
#endif
}

static vv_status with_zstd(void **out, size_t *out_bytes, int level, const void *data, size_t bytes)
{
#if VVI_HAVE_ZSTD
    const size_t room = ZSTD_compressBound(bytes);
    VV_TRY(vv_alloc_array(out, room, 1));
    *out_bytes = ZSTD_compress(*out, room, data, bytes, level);
    return ZSTD_isError(*out_bytes) ? no_memory() : VV_OK;
#else
    (void)out, (void)out_bytes, (void)level, (void)data, (void)bytes;
    return no_memory();
#endif
}

vv_status vvi_compress(void **out, size_t *out_bytes, bool zstd, int level, const void *data,
                       size_t bytes)
{
    *out = NULL;
    *out_bytes = 0;
    const vv_status status = zstd ? with_zstd(out, out_bytes, level, data, bytes)
                                  : with_gzip(out, out_bytes, level, data, bytes);
    if (status != VV_OK) {
        vv_dealloc(*out);
        *out = NULL;
    }
    return status;
}
