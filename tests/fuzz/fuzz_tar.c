/* fuzz_tar.c - ustar archives in any pieces: each begun file ends once, with the bytes its header
 * promised, or the archive is refused with a sentence. The first byte is the size of the pieces. */
#include <stdlib.h>

#include "data/data_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct seen {
    uint64_t promised, got;
    bool open;
} seen;

static vv_status begin(void *ctx, const char *name, uint64_t bytes, bool *wanted)
{
    seen *s = ctx;
    if (s->open || !name)
        abort();
    *wanted = (bytes & 1) == 0;
    s->open = *wanted;
    s->promised = bytes;
    s->got = 0;
    return VV_OK;
}

static vv_status put(void *ctx, const void *data, size_t bytes)
{
    seen *s = ctx;
    volatile unsigned char last = ((const unsigned char *)data)[bytes - 1];
    (void)last;
    s->got += bytes;
    return VV_OK;
}

static vv_status end(void *ctx)
{
    seen *s = ctx;
    if (!s->open || s->got != s->promised)
        abort();
    s->open = false;
    return VV_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    seen s = {0};
    vvi_tar tar = {.begin = begin, .data = put, .end = end, .ctx = &s, .archive = "fuzz"};
    const size_t piece = bytes > 0 ? (size_t)data[0] * 8 + 1 : 1;
    vv_status status = VV_OK;
    vv_error_clear();
    for (size_t at = 1; at < bytes && status == VV_OK; at += piece)
        status = vvi_tar_feed(&tar, data + at, bytes - at < piece ? bytes - at : piece);
    if (status == VV_OK)
        status = vvi_tar_finish(&tar);
    if (status != VV_OK && !vv_error()[0])
        abort();
    if (status == VV_OK && s.open)
        abort();
    return 0;
}
