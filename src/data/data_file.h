/* data_file.h - files and buffers the readers work on. Parsers take (buffer, size), so that they
 * can be fuzzed; `name` is only for sentences. */
#ifndef VVI_DATA_FILE_H
#define VVI_DATA_FILE_H

#include <vivace/tensor.h>

/* *out = $VIVACE_DATA/name, NULL if the variable is not set. */
VV_MUST_USE vv_status vvi_dataset_home(VV_OWNED char **out, const char *name);

/* Unpacks gzip or zstd data (told by the first bytes), at most max_bytes; *out = NULL if `data` is
   neither. Memory grows with what really comes out, not with what a header promises. */
VV_MUST_USE vv_status vvi_unpack(VV_OWNED void **out, size_t *out_bytes, const char *name,
                                 const void *data, size_t bytes, size_t max_bytes);

/* "gz[:level]", "zstd[:level]"; VV_EINVAL for anything else, VV_EUNSUPPORTED if this build cannot.
 */
VV_MUST_USE vv_status vvi_compression_parse(const char *text, bool *zstd, int *level);
VV_MUST_USE vv_status vvi_compress(VV_OWNED void **out, size_t *out_bytes, bool zstd, int level,
                                   const void *data, size_t bytes);

/* IDX: two zero bytes, type (8 = u8), number of dimensions, dimensions (u32, big endian), data. */
VV_MUST_USE vv_status vvi_idx_parse(VV_OWNED vv_tensor **out, const char *name, const void *data,
                                    size_t bytes);

#define VVI_CIFAR_SIDE 32
#define VVI_CIFAR_PLANE ((size_t)VVI_CIFAR_SIDE * VVI_CIFAR_SIDE)
#define VVI_CIFAR_RECORD (1 + 3 * VVI_CIFAR_PLANE)
/* Number of records, checked: whole records, at least one, labels 0..9. */
VV_MUST_USE vv_status vvi_cifar_check(int64_t *count, const char *name, const void *data,
                                      size_t bytes);
/* Planes to pixels: images [count,32,32,3], labels [count]. */
void vvi_cifar_convert(const void *data, int64_t count, uint8_t *images, int32_t *labels);

/* Streaming reader of ustar archives: fed with any pieces, it calls back for each regular file. */
typedef struct vvi_tar {
    /* begin: *wanted = false skips the file. data: its bytes, in pieces. end: it is complete. */
    vv_status (*begin)(void *ctx, const char *name, uint64_t bytes, bool *wanted);
    vv_status (*data)(void *ctx, const void *data, size_t bytes);
    vv_status (*end)(void *ctx);
    void *ctx;
    const char *archive; /* for sentences */
    unsigned char header[512];
    size_t header_filled;
    uint64_t left, padding; /* of the current file */
    bool wanted, finished;
} vvi_tar;
VV_MUST_USE vv_status vvi_tar_feed(vvi_tar *tar, const void *data, size_t bytes);
/* The archive ended: fine only between files. */
VV_MUST_USE vv_status vvi_tar_finish(const vvi_tar *tar);

#endif
