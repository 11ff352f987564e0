/* ext/mds_shards.h - sets of samples in MDS shards, version 1 and 2 (MosaicML's streaming formats).
 *
 * A folder holds an index (index.json of version 2, index.mds of version 1) and shards, plain or
 * packed with gzip or zstd. Plain shards are mapped into memory; packed ones are unpacked when one
 * of their samples is first asked for. The folder may be one of an object store: then shards come
 * into a cache, in the background when it is known that they will be needed. A sample has the same
 * columns in every shard. */
#ifndef VIVACE_EXT_MDS_SHARDS_H
#define VIVACE_EXT_MDS_SHARDS_H

#include <vivace/tensor.h>

VV_BEGIN_DECLS

typedef struct vv_mds vv_mds;
typedef struct vv_mds_column {
    const char *name;
    const char *encoding; /* "int", "str", "bytes", "ndarray:int16:2,3", ...; version 1: "bytes" */
    int64_t size;         /* bytes in every sample; 0 = each its own */
} vv_mds_column;

typedef struct vv_mds_opts {
    const char *dir;    /* folder of the set; with `remote`: of its cache, made if need be */
    const char *remote; /* http://, https:// or s3://bucket/folder; "" = all is in dir */
    /* Of s3; "" = $AWS_ENDPOINT_URL, $AWS_REGION, then Amazon's and us-east-1. Keys come from
       $AWS_ACCESS_KEY_ID, $AWS_SECRET_ACCESS_KEY and $AWS_SESSION_TOKEN. */
    const char *endpoint, *region;
    uint64_t cache_bytes; /* of shards that are kept, in the cache or unpacked in memory; those used
                             longest ago leave first, those in use stay; 0 = no limit */
    int downloads;        /* at once */
    int retries;          /* of a transfer that failed, without getting any further */
    double retry_wait, timeout; /* seconds: before the first retry, doubled each time; of silence */
} vv_mds_opts;
#define VV_MDS_DEFAULTS                        \
    {                                          \
        NULL, "", "", "", 0, 2, 5, 0.5, 60.0   \
    }
VV_API VV_MUST_USE vv_status vv_mds_open(VV_OWNED vv_mds **out, const char *dir);
VV_API VV_MUST_USE vv_status vv_mds_open_with(VV_OWNED vv_mds **out, const vv_mds_opts *opts);
VV_API void vv_mds_free(VV_TAKES vv_mds *mds);
VV_API int64_t vv_mds_count(const vv_mds *mds); /* samples */
VV_API int vv_mds_column_count(const vv_mds *mds);
VV_API VV_BORROWED const vv_mds_column *vv_mds_column_at(const vv_mds *mds, int column);
/* *column by name; VV_ENOTFOUND with the names there are. */
VV_API VV_MUST_USE vv_status vv_mds_find(int *column, const vv_mds *mds, const char *name);
VV_API int64_t vv_mds_shard_count(const vv_mds *mds);
/* Number of a shard's first sample; of the end, if shard = their number. */
VV_API int64_t vv_mds_shard_first(const vv_mds *mds, int64_t shard);

/* A sample in the hand: its shard stays where it is until the release. Any number of threads at
   once. Without the shard in the cache, it waits for it. */
typedef struct vv_mds_sample {
    int64_t shard;
    const unsigned char *data;
    size_t bytes;
} vv_mds_sample;
VV_API VV_MUST_USE vv_status vv_mds_hold(vv_mds *mds, int64_t index, vv_mds_sample *out);
/* *data = what a column of it holds. */
VV_API VV_MUST_USE vv_status vv_mds_column_of(const vv_mds *mds, const vv_mds_sample *sample,
                                              int column, VV_BORROWED const void **data,
                                              size_t *bytes);
VV_API void vv_mds_release(vv_mds *mds, const vv_mds_sample *sample);
/* These samples will be held soon, in this order: shards that are not in the cache are fetched. */
VV_API void vv_mds_soon(vv_mds *mds, const int64_t *indices, int64_t count);
/* *data = what a column of a sample holds, as bytes that stay valid as long as the set: its shard
   is never given up. Any number of threads at once. */
VV_API VV_MUST_USE vv_status vv_mds_read(vv_mds *mds, int64_t index, int column,
                                         VV_BORROWED const void **data, size_t *bytes);

/* A column's bytes as numbers. */
typedef struct vv_mds_values {
    const void *data;  /* not aligned */
    const char *dtype; /* static: int8 ... int64, uint8 ... uint64, float16 ... float64 */
    int ndim;          /* 0: one number */
    int64_t shape[VV_MAX_DIMS];
    int64_t count;
} vv_mds_values;
/* Encodings int, int8 ... float64 and ndarray tell what they hold; bytes are a row of `bytes_dtype`
   (NULL = refused). VV_ETYPE for other encodings, VV_EFORMAT if the bytes do not fit. */
VV_API VV_MUST_USE vv_status vv_mds_values_of(vv_mds_values *out, const char *encoding,
                                              const void *data, size_t bytes,
                                              const char *bytes_dtype);
/* Numbers [first, first + count) as i32, each in [least, most] (else VV_EFORMAT), or as f32. */
VV_API VV_MUST_USE vv_status vv_mds_values_i32(const vv_mds_values *values, int64_t first,
                                               int64_t count, int64_t least, int64_t most,
                                               int32_t *out);
VV_API VV_MUST_USE vv_status vv_mds_values_f32(const vv_mds_values *values, int64_t first,
                                               int64_t count, float *out);
/* An image of encoding "pil" (raw pixels, not JPEG or PNG): u8 [height,width,channels], modes L,
   RGB and RGBA. */
VV_API VV_MUST_USE vv_status vv_mds_image(const uint8_t **pixels, int64_t shape[3],
                                          const char *encoding, const void *data, size_t bytes);

/* ---- classes ---- */
/* Names of the classes, from classes.json beside the index, a list of texts; *count 0 = there is no
   such file. They live as long as the set. Not from several threads at once. */
VV_API VV_MUST_USE vv_status vv_mds_class_names(VV_BORROWED const char *const **out, int64_t *count,
                                                vv_mds *mds);
/* The class that a column's bytes name: a whole number, a name (str, or json), or a number as json.
   Names are looked up among those that vv_mds_class_names gave; VV_EFORMAT for others. Any number
   of threads at once. */
VV_API VV_MUST_USE vv_status vv_mds_label(int32_t *out, const vv_mds *mds, const char *encoding,
                                          const void *data, size_t bytes, const char *bytes_dtype);

/* ---- writing (version 2) ---- */
/* Shards shard.00000.mds, shard.00001.mds, ... and last of all index.json, each whole or not at
   all: a folder with an index is a finished set. */
typedef struct vv_mds_writer vv_mds_writer;
typedef struct vv_mds_bytes {
    const void *data;
    size_t bytes;
} vv_mds_bytes;
typedef struct vv_mds_writer_opts {
    const vv_mds_column *columns; /* names and encodings; `size` is not looked at */
    int column_count;
    uint64_t shard_bytes;    /* a shard is at most so large, unless one sample is larger */
    const char *compression; /* "" = none, "gz[:level]", "zstd[:level]" */
    const char *hashes;      /* of each file, into the index: of "sha1,sha256,xxh64", sorted */
    bool overwrite;          /* a finished set in the folder is removed first; else VV_EEXIST */
} vv_mds_writer_opts;
/* 64 MiB, not compressed, SHA-256. */
#define VV_MDS_WRITER_DEFAULTS                        \
    {                                                 \
        NULL, 0, (uint64_t)1 << 26, "", "sha256", false \
    }
/* Makes the folder. Shards that an unfinished writer left there are removed. */
VV_API VV_MUST_USE vv_status vv_mds_writer_new(VV_OWNED vv_mds_writer **out, const char *dir,
                                               const vv_mds_writer_opts *opts);
/* One sample: its columns' bytes, encoded already, in the order of the options. */
VV_API VV_MUST_USE vv_status vv_mds_writer_add(vv_mds_writer *writer, const vv_mds_bytes *values);
VV_API int64_t vv_mds_writer_count(const vv_mds_writer *writer);  /* samples so far */
VV_API uint64_t vv_mds_writer_bytes(const vv_mds_writer *writer); /* of the files so far */
/* classes.json for vv_mds_class_names; before finish. */
VV_API VV_MUST_USE vv_status vv_mds_writer_classes(vv_mds_writer *writer, const char *const *names,
                                                   int64_t count);
/* The last shard and the index; then the set can be opened. */
VV_API VV_MUST_USE vv_status vv_mds_writer_finish(vv_mds_writer *writer);
/* Without finish: the folder has no index, and the next writer begins again. */
VV_API void vv_mds_writer_free(VV_TAKES vv_mds_writer *writer);

VV_END_DECLS

#endif
