/* tar_file.c - unpacking chosen files of a .tar.gz (POSIX ustar). Paths inside the archive are
 * never used: a file is chosen by its last component, out of a list. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "base/file.h"
#include "data/data_file.h"

#include "vvi_config.h"

#if VVI_HAVE_ZLIB
#include <zlib.h>
#endif

#define BLOCK 512

/* An octal field, ended by NUL or space; false if it is anything else. */
static bool octal(const unsigned char *field, size_t bytes, uint64_t *out)
{
    size_t i = 0;
    while (i < bytes && field[i] == ' ')
        i++;
    uint64_t value = 0;
    const size_t first = i;
    for (; i < bytes && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    *out = value;
    return i > first && (i == bytes || field[i] == 0 || field[i] == ' ');
}

/* The header's sum counts its own field as blanks. */
static bool sum_matches(const unsigned char *header)
{
    uint64_t want, sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : header[i];
    return octal(header + 148, 8, &want) && want == sum;
}

static vv_status start_file(vvi_tar *tar)
{
    const unsigned char *header = tar->header;
    bool zero = true;
    for (int i = 0; i < BLOCK && zero; i++)
        zero = header[i] == 0;
    if (zero) {
        tar->finished = true;
        return VV_OK;
    }
    uint64_t bytes;
    if (!sum_matches(header) || !octal(header + 124, 12, &bytes))
        return vv_fail(VV_EFORMAT,
                       "%s: expected a tar header, found something else; the file is "
                       "damaged or foreign",
                       tar->archive);
    char name[101];
    memcpy(name, header, 100);
    name[100] = '\0';
    const char *slash = strrchr(name, '/');
    const bool regular = header[156] == '0' || header[156] == 0;
    tar->left = bytes;
    tar->padding = (BLOCK - bytes % BLOCK) % BLOCK;
    tar->wanted = false;
    if (regular)
        VV_TRY(tar->begin(tar->ctx, slash ? slash + 1 : name, bytes, &tar->wanted));
    return tar->wanted && bytes == 0 ? tar->end(tar->ctx) : VV_OK;
}

static size_t smaller(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

vv_status vvi_tar_feed(vvi_tar *tar, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    while (bytes > 0 && !tar->finished) {
        size_t step;
        if (tar->left > 0) {
            step = smaller(tar->left, bytes);
            if (tar->wanted)
                VV_TRY(tar->data(tar->ctx, at, step));
            tar->left -= step;
            if (tar->left == 0 && tar->wanted)
                VV_TRY(tar->end(tar->ctx));
        } else if (tar->padding > 0) {
            step = smaller(tar->padding, bytes);
            tar->padding -= step;
        } else {
            step = smaller(BLOCK - tar->header_filled, bytes);
            memcpy(tar->header + tar->header_filled, at, step);
            tar->header_filled += step;
            if (tar->header_filled == BLOCK) {
                tar->header_filled = 0;
                VV_TRY(start_file(tar));
            }
        }
        at += step;
        bytes -= step;
    }
    return VV_OK;
}

vv_status vvi_tar_finish(const vvi_tar *tar)
{
    if (tar->left > 0 || tar->header_filled > 0)
        return vv_fail(VV_EFORMAT,
                       "%s: expected more tar data, found its end; the file is cut short",
                       tar->archive);
    return VV_OK;
}

#if VVI_HAVE_ZLIB

#define MAX_NAMES 64

/* Files being unpacked: each is written beside its place and renamed when it is complete. */
typedef struct unpacking {
    const char *dir;
    const char *const *names;
    int count;
    bool seen[MAX_NAMES];
    FILE *file;
    char *path, *part;
} unpacking;

static vv_status begin(void *ctx, const char *name, uint64_t bytes, bool *wanted)
{
    unpacking *un = ctx;
    (void)bytes;
    int i = 0;
    while (i < un->count && strcmp(un->names[i], name) != 0)
        i++;
    *wanted = i < un->count && !un->seen[i];
    if (!*wanted)
        return VV_OK;
    un->seen[i] = true;
    vv_str part = {0};
    vv_status status;
    VV_GO(vvi_path_join(&un->path, un->dir, name));
    vv_str_addf(&part, "%s.part", un->path);
    VV_GO(vv_str_status(&part));
    VV_GO(vv_strdup(&un->part, vv_str_text(&part)));
    un->file = fopen(un->part, "wbe");
    if (!un->file)
        status = vv_fail(VV_EIO, "%s: cannot be written: %s", un->part, strerror(errno));
out:
    vv_str_fini(&part);
    return status;
}

static vv_status put(void *ctx, const void *data, size_t bytes)
{
    unpacking *un = ctx;
    if (fwrite(data, 1, bytes, un->file) != bytes)
        return vv_fail(VV_EIO, "%s: cannot be written: %s", un->part, strerror(errno));
    return VV_OK;
}

static vv_status end(void *ctx)
{
    unpacking *un = ctx;
    const bool closed = fclose(un->file) == 0;
    un->file = NULL;
    if (!closed || rename(un->part, un->path) != 0)
        return vv_fail(VV_EIO, "%s: cannot be written: %s", un->path, strerror(errno));
    vv_dealloc(un->part);
    vv_dealloc(un->path);
    un->part = un->path = NULL;
    return VV_OK;
}

static vv_status feed_all(vvi_tar *tar, gzFile file)
{
    unsigned char piece[16384];
    for (;;) {
        const int got = gzread(file, piece, sizeof piece);
        if (got < 0) {
            int code;
            return vv_fail(VV_EFORMAT, "%s: expected gzip data, found damage (%s)", tar->archive,
                           gzerror(file, &code));
        }
        if (got == 0)
            return vvi_tar_finish(tar);
        VV_TRY(vvi_tar_feed(tar, piece, (size_t)got));
    }
}

vv_status vv_tar_gz_unpack(const char *dir, const char *archive, const char *const *names)
{
    vv_status status;
    char *path = NULL;
    gzFile file = NULL;
    unpacking un = {.dir = dir, .names = names};
    while (names[un.count] && un.count < MAX_NAMES)
        un.count++;
    VV_GO(vvi_path_join(&path, dir, archive));
    if (!vvi_exists(path)) {
        status = vv_fail(VV_ENOTFOUND, "%s: no such file", path);
        goto out;
    }
    file = gzopen(path, "rbe");
    if (!file) {
        status = vv_fail(VV_EIO, "%s: cannot be opened", path);
        goto out;
    }
    vvi_tar tar = {.begin = begin, .data = put, .end = end, .ctx = &un, .archive = path};
    VV_GO(feed_all(&tar, file));
    for (int i = 0; i < un.count && status == VV_OK; i++)
        if (!un.seen[i])
            status =
                vv_fail(VV_EFORMAT, "%s: expected a file %s in it, found none", path, names[i]);
out:
    if (un.file)
        fclose(un.file);
    if (un.part)
        remove(un.part);
    vv_dealloc(un.part);
    vv_dealloc(un.path);
    vv_dealloc(path);
    if (file)
        gzclose(file);
    return status;
}

#else

vv_status vv_tar_gz_unpack(const char *dir, const char *archive, const char *const *names)
{
    (void)names;
    return vv_fail(VV_EUNSUPPORTED, "%s/%s: this build has no zlib; unpack it with tar -xzf", dir,
                   archive);
}

#endif
