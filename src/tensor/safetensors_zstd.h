/* safetensors_zstd.h - files packed with zstd: "name.safetensors.zst". */
#ifndef VVI_SAFETENSORS_ZSTD_H
#define VVI_SAFETENSORS_ZSTD_H

#include "base/file.h"

/* By the ending of a path to write, and by the first bytes of a file that was read. */
bool vvi_zstd_path(const char *path);
bool vvi_zstd_bytes(const void *data, size_t bytes);
/* VV_EUNSUPPORTED with a sentence if this build has no zstd. */
VV_MUST_USE vv_status vvi_zstd_check(void);

typedef struct vvi_zstd_writer vvi_zstd_writer;
/* Packs what is put into `file`; `total_bytes` will come, and a checksum closes it. */
VV_MUST_USE vv_status vvi_zstd_writer_new(vvi_zstd_writer **out, vvi_file *file,
                                          uint64_t total_bytes);
VV_MUST_USE vv_status vvi_zstd_put(vvi_zstd_writer *writer, const void *data, size_t bytes);
VV_MUST_USE vv_status vvi_zstd_end(vvi_zstd_writer *writer);
void vvi_zstd_writer_free(vvi_zstd_writer *writer);

/* *out = the first `limit` bytes of what `data` unpacks to, or all if there is less; *count says
   how many. One frame, complete if all of it is asked for. `what` names it in sentences. */
VV_MUST_USE vv_status vvi_zstd_unpack(char **out, size_t *count, const void *data, size_t bytes,
                                      size_t limit, const char *what);

#endif
