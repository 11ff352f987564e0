/* safetensors_zstd.c - packs and unpacks files with zstd; the only user of its library here. */
#include "tensor/safetensors_zstd.h"

#include <string.h>

#include <vivace/memory.h>

#include "vvi_config.h"

#if VVI_HAVE_ZSTD
#include <zstd.h>
#endif

bool vvi_zstd_path(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".zst") == 0;
}

bool vvi_zstd_bytes(const void *data, size_t bytes)
{
    return bytes >= 4 && memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0;
}

#if VVI_HAVE_ZSTD

/* Weights hardly shrink, whatever the effort: the fastest of the usual levels. */
#define LEVEL 3

struct vvi_zstd_writer {
    ZSTD_CCtx *context;
    vvi_file *file;
    void *buffer;
    size_t room;
};

vv_status vvi_zstd_check(void)
{
    return VV_OK;
}

static vv_status failed(const char *doing, size_t code)
{
    return vv_fail(VV_EINTERNAL, "zstd: cannot %s: %s", doing, ZSTD_getErrorName(code));
}

static vv_status set_up(ZSTD_CCtx *context, uint64_t total_bytes)
{
    size_t code = ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
    if (!ZSTD_isError(code))
        code = ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    if (!ZSTD_isError(code))
        code = ZSTD_CCtx_setPledgedSrcSize(context, total_bytes);
    return ZSTD_isError(code) ? failed("begin", code) : VV_OK;
}

vv_status vvi_zstd_writer_new(vvi_zstd_writer **out, vvi_file *file, uint64_t total_bytes)
{
    vv_status status;
    vvi_zstd_writer *writer = NULL;
    *out = NULL;
    VV_GO(vv_alloc(&writer, sizeof *writer));
    writer->file = file;
    writer->room = ZSTD_CStreamOutSize();
    VV_GO(vv_alloc(&writer->buffer, writer->room));
    writer->context = ZSTD_createCCtx();
    if (!writer->context) {
        status = vv_fail(VV_ENOMEM, "out of memory: zstd has no room to work");
        goto out;
    }
    VV_GO(set_up(writer->context, total_bytes));
    *out = writer;
    writer = NULL;
out:
    vvi_zstd_writer_free(writer);
    return status;
}

void vvi_zstd_writer_free(vvi_zstd_writer *writer)
{
    if (!writer)
        return;
    ZSTD_freeCCtx(writer->context);
    vv_dealloc(writer->buffer);
    vv_dealloc(writer);
}

static vv_status pack(vvi_zstd_writer *writer, const void *data, size_t bytes,
                      ZSTD_EndDirective end)
{
    ZSTD_inBuffer in = {data, bytes, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {writer->buffer, writer->room, 0};
        left = ZSTD_compressStream2(writer->context, &out, &in, end);
        if (ZSTD_isError(left))
            return failed("pack", left);
        VV_TRY(vvi_file_put(writer->file, writer->buffer, out.pos));
    } while (in.pos < in.size || (end == ZSTD_e_end && left));
    return VV_OK;
}

vv_status vvi_zstd_put(vvi_zstd_writer *writer, const void *data, size_t bytes)
{
    return bytes ? pack(writer, data, bytes, ZSTD_e_continue) : VV_OK;
}

vv_status vvi_zstd_end(vvi_zstd_writer *writer)
{
    return pack(writer, "", 0, ZSTD_e_end);
}

/* Fills `out` from one frame; *done = the frame's end was reached. The buffer grows with what
   comes, not with what the frame claims. */
static vv_status unpack(ZSTD_DCtx *context, char **out, size_t *count, ZSTD_inBuffer *in,
                        size_t limit, const char *what, bool *done)
{
    size_t room = 0;
    *done = false;
    while (!*done && *count < limit) {
        if (*count == room) {
            size_t wanted = room ? room : in->size + 65536;
            wanted = wanted > limit / 2 ? limit : 2 * wanted;
            VV_TRY(vv_realloc_array(out, wanted, 1));
            room = wanted;
        }
        ZSTD_outBuffer to = {*out + *count, room - *count, 0};
        size_t code = ZSTD_decompressStream(context, &to, in);
        if (ZSTD_isError(code))
            return vv_fail(VV_EFORMAT, "%s is damaged: zstd says: %s", what,
                           ZSTD_getErrorName(code));
        *count += to.pos;
        *done = code == 0;
        if (!*done && in->pos == in->size && to.pos < to.size)
            return VV_OK; /* more would have come */
    }
    return VV_OK;
}

vv_status vvi_zstd_unpack(char **out, size_t *count, const void *data, size_t bytes, size_t limit,
                          const char *what)
{
    vv_status status = VV_OK;
    ZSTD_inBuffer in = {data, bytes, 0};
    bool done;
    *out = NULL;
    *count = 0;
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (!context)
        return vv_fail(VV_ENOMEM, "out of memory: zstd has no room to work");
    VV_GO(unpack(context, out, count, &in, limit, what, &done));
    if (!done && *count < limit)
        VV_GO(vv_fail(VV_EFORMAT, "%s is cut short: its zstd data should go on after %zu bytes",
                      what, bytes));
    if (done && in.pos < in.size)
        VV_GO(vv_fail(VV_EFORMAT, "%s has %zu bytes behind its zstd data; it is damaged", what,
                      in.size - in.pos));
out:
    ZSTD_freeDCtx(context);
    if (status != VV_OK) {
        vv_dealloc(*out);
        *out = NULL;
    }
    return status;
}

#else

vv_status vvi_zstd_check(void)
{
    return vv_fail(VV_EUNSUPPORTED,
                   "this build of vivace cannot pack or unpack zstd; build it with "
                   "-Dzstd=enabled, or use plain .safetensors files");
}

vv_status vvi_zstd_writer_new(vvi_zstd_writer **out, vvi_file *file, uint64_t total_bytes)
{
    (void)file;
    (void)total_bytes;
    *out = NULL;
    return vvi_zstd_check();
}

vv_status vvi_zstd_put(vvi_zstd_writer *writer, const void *data, size_t bytes)
{
    (void)writer;
    (void)data;
    (void)bytes;
    return vvi_zstd_check();
}

vv_status vvi_zstd_end(vvi_zstd_writer *writer)
{
    (void)writer;
    return vvi_zstd_check();
}

void vvi_zstd_writer_free(vvi_zstd_writer *writer)
{
    (void)writer;
}

vv_status vvi_zstd_unpack(char **out, size_t *count, const void *data, size_t bytes, size_t limit,
                          const char *what)
{
    (void)data;
    (void)bytes;
    (void)limit;
    *out = NULL;
    *count = 0;
    return vv_fail_within(vvi_zstd_check(), "%s", what);
}

#endif
