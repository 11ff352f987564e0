/* data_file.c - whole files into memory, unpacking gzip and zstd on the way. */
#include "data/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "vvi_config.h"

#if VVI_HAVE_ZLIB
#include <zlib.h>
#endif
#if VVI_HAVE_ZSTD
#include <zstd.h>
#endif

static bool is_gzip(const void *data, size_t bytes)
{
    return bytes >= 2 && memcmp(data, "\x1f\x8b", 2) == 0;
}

static bool is_zstd(const void *data, size_t bytes)
{
    return bytes >= 4 && memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0;
}

#if VVI_HAVE_ZLIB || VVI_HAVE_ZSTD
typedef struct growing {
    void *data;
    size_t used, capacity, max;
    const char *name;
} growing;

static vv_status too_much(const growing *buffer)
{
    return vv_fail(VV_EFORMAT, "%s: unpacks to more than %zu bytes, expected less", buffer->name,
                   buffer->max);
}

/* Makes room: four times the packed size first, then doubling up to one byte over the limit (so
   that the end of data that fit exactly is seen). */
static vv_status grow(growing *buffer, size_t packed)
{
    if (buffer->capacity > buffer->max)
        return too_much(buffer);
    size_t want = buffer->capacity ? buffer->capacity : packed * 2 + 2048;
    want = want > buffer->max / 2 ? buffer->max + 1 : want * 2;
    VV_TRY(vv_realloc_array(&buffer->data, want, 1));
    buffer->capacity = want;
    return VV_OK;
}
#endif

#if VVI_HAVE_ZLIB
static vv_status gunzip_into(growing *buffer, z_stream *stream, size_t bytes)
{
    for (;;) {
        if (buffer->used == buffer->capacity)
            VV_TRY(grow(buffer, bytes));
        size_t room = buffer->capacity - buffer->used;
        if (room > 1u << 30)
            room = 1u << 30;
        stream->next_out = (unsigned char *)buffer->data + buffer->used;
        stream->avail_out = (unsigned)room;
        const int result = inflate(stream, Z_NO_FLUSH);
        buffer->used += room - stream->avail_out;
        if (result == Z_STREAM_END) {
            if (stream->avail_in == 0)
                return VV_OK;
            if (inflateReset(stream) != Z_OK) /* another member follows */
                return vv_fail(VV_EINTERNAL, "%s: inflate cannot be reset", buffer->name);
        } else if (result == Z_MEM_ERROR) {
            return vv_fail(VV_ENOMEM, "%s: out of memory while unpacking", buffer->name);
        } else if (result == Z_BUF_ERROR || (result == Z_OK && stream->avail_out > 0)) {
            if (stream->avail_in == 0)
                return vv_fail(VV_EFORMAT,
                               "%s: expected more gzip data, found its end after %zu "
                               "unpacked bytes; the file is cut short",
                               buffer->name, buffer->used);
        } else if (result != Z_OK) {
            return vv_fail(VV_EFORMAT,
                           "%s: expected gzip data, found damage after %zu unpacked bytes "
                           "(%s)",
                           buffer->name, buffer->used,
                           stream->msg ? stream->msg : "zlib gives no reason");
        }
    }
}

static vv_status gunzip(growing *buffer, const void *data, size_t bytes)
{
    z_stream stream = {0};
    if (bytes > 1u << 31)
        return vv_fail(VV_EFORMAT, "%s: gzip files over 2 GiB are not read", buffer->name);
    union {
        const void *in;
        unsigned char *out; /* zlib's input pointer is not const in older versions */
    } input = {.in = data};
    stream.next_in = input.out;
    stream.avail_in = (unsigned)bytes;
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
        return vv_fail(VV_ENOMEM, "%s: out of memory while unpacking", buffer->name);
    vv_status status = gunzip_into(buffer, &stream, bytes);
    inflateEnd(&stream);
    return status;
}
#endif

#if VVI_HAVE_ZSTD
static vv_status unzstd(growing *buffer, const void *data, size_t bytes)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (!stream)
        return vv_fail(VV_ENOMEM, "%s: out of memory while unpacking", buffer->name);
    ZSTD_inBuffer in = {data, bytes, 0};
    vv_status status = VV_OK;
    size_t result = 1;
    while (in.pos < in.size || result != 0) {
        if (buffer->used == buffer->capacity && (status = grow(buffer, bytes)) != VV_OK)
            break;
        ZSTD_outBuffer out = {(char *)buffer->data + buffer->used, buffer->capacity - buffer->used,
                              0};
        result = ZSTD_decompressStream(stream, &out, &in);
        if (ZSTD_isError(result)) {
            status = vv_fail(VV_EFORMAT,
                             "%s: expected zstd data, found damage after %zu unpacked "
                             "bytes (%s)",
                             buffer->name, buffer->used, ZSTD_getErrorName(result));
            break;
        }
        buffer->used += out.pos;
        if (in.pos == in.size && result != 0 && out.pos < out.size) {
            status = vv_fail(VV_EFORMAT,
                             "%s: expected more zstd data, found its end after %zu "
                             "unpacked bytes; the file is cut short",
                             buffer->name, buffer->used);
            break;
        }
    }
    ZSTD_freeDStream(stream);
    return status;
}
#endif

vv_status vvi_unpack(void **out, size_t *out_bytes, const char *name, const void *data,
                     size_t bytes, size_t max_bytes)
{
    *out = NULL;
    *out_bytes = 0;
    const bool gzip = is_gzip(data, bytes);
    if (!gzip && !is_zstd(data, bytes))
        return VV_OK;
#if VVI_HAVE_ZLIB || VVI_HAVE_ZSTD
    growing buffer = {.max = max_bytes, .name = name};
    vv_status status;
#endif
    if (gzip) {
#if VVI_HAVE_ZLIB
        status = gunzip(&buffer, data, bytes);
#else
        (void)max_bytes;
        return vv_fail(VV_EUNSUPPORTED, "%s: this build has no zlib; unpack it with gzip -d", name);
#endif
    } else {
#if VVI_HAVE_ZSTD
        status = unzstd(&buffer, data, bytes);
#else
        (void)max_bytes;
        return vv_fail(VV_EUNSUPPORTED, "%s: this build has no zstd; unpack it with zstd -d", name);
#endif
    }
#if VVI_HAVE_ZLIB || VVI_HAVE_ZSTD
    if (status == VV_OK && buffer.used > max_bytes)
        status = too_much(&buffer);
    if (status != VV_OK) {
        vv_dealloc(buffer.data);
        return status;
    }
    *out = buffer.data;
    *out_bytes = buffer.used;
    return VV_OK;
#endif
}

/* All bytes of an open file whose size is known. */
static vv_status read_all(int file, const char *path, unsigned char *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = read(file, data + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return vv_fail(VV_EIO, "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0)
            return vv_fail(VV_EIO, "%s: expected %zu bytes, found %zu; it shrank while it was read",
                           path, bytes, done);
        done += (size_t)got;
    }
    return VV_OK;
}

vv_status vv_data_file_read(void **out, size_t *bytes, const char *path, size_t max_bytes)
{
    vv_status status = VV_OK;
    void *data = NULL;
    struct stat info;
    *out = NULL;
    *bytes = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return vv_fail(errno == ENOENT ? VV_ENOTFOUND : VV_EIO, "%s: cannot be opened: %s", path,
                       strerror(errno));
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = vv_fail(VV_EIO, "%s: expected a regular file", path);
        goto out;
    }
    if ((uint64_t)info.st_size > max_bytes) {
        status = vv_fail(VV_EFORMAT, "%s: expected at most %zu bytes, found %lld", path, max_bytes,
                         (long long)info.st_size);
        goto out;
    }
    VV_GO(vv_alloc_aligned(&data, (size_t)info.st_size));
    VV_GO(read_all(file, path, data, (size_t)info.st_size));
    VV_GO(vvi_unpack(out, bytes, path, data, (size_t)info.st_size, max_bytes));
    if (!*out) {
        *out = data;
        *bytes = (size_t)info.st_size;
        data = NULL;
    }
out:
    vv_dealloc(data);
    close(file);
    return status;
}
