/* safetensors.h - reading and writing the safetensors format (8-byte header length, JSON header,
 * raw little-endian data), whole or absent: written to a temporary file, fsynced, renamed. */
#ifndef VIVACE_SAFETENSORS_H
#define VIVACE_SAFETENSORS_H

#include <vivace/tensor.h>

VV_BEGIN_DECLS

typedef struct vv_safetensors_writer vv_safetensors_writer;
typedef struct vv_safetensors vv_safetensors;

VV_API VV_MUST_USE vv_status vv_safetensors_writer_new(VV_OWNED vv_safetensors_writer **out);
/* Adds a tensor (kept until written; the data is read at write time) under a unique name. */
VV_API VV_MUST_USE vv_status vv_safetensors_add(vv_safetensors_writer *writer, const char *name,
                                                vv_tensor *tensor);
/* Adds a text to "__metadata__". */
VV_API VV_MUST_USE vv_status vv_safetensors_add_text(vv_safetensors_writer *writer, const char *key,
                                                     const char *value);
/* Writes PATH atomically; packed with zstd if it ends with ".zst". Checksums go into __metadata__:
   CRC-32 of all data as "vivace.crc32", of names, types, shapes and texts as "vivace.header_crc32".
   Tensors lie in the order of the format's own library: wide elements first, so that each is
   aligned to its element, then by name. */
VV_API VV_MUST_USE vv_status vv_safetensors_write(vv_safetensors_writer *writer, const char *path);
VV_API void vv_safetensors_writer_free(VV_TAKES vv_safetensors_writer *writer);

/* Opens and validates (header, offsets, sizes; the checksums if there are any). Files packed with
   zstd are unpacked. */
VV_API VV_MUST_USE vv_status vv_safetensors_open(VV_OWNED vv_safetensors **out, const char *path);
/* Same from memory (used by the fuzz target); the bytes must outlive the object. */
VV_API VV_MUST_USE vv_status vv_safetensors_open_memory(VV_OWNED vv_safetensors **out,
                                                        const void *data, size_t bytes);
VV_API int vv_safetensors_count(const vv_safetensors *file);
VV_API VV_BORROWED const char *vv_safetensors_name(const vv_safetensors *file, int i);
/* Borrowed view of tensor i, aligned to its element only; NULL if i is out of range. F32, BF16,
   F64, I32, I64, U8, BOOL. */
VV_API VV_BORROWED const vv_tensor *vv_safetensors_tensor(const vv_safetensors *file, int i);
/* By name; NULL if absent. */
VV_API VV_BORROWED const vv_tensor *vv_safetensors_find(const vv_safetensors *file,
                                                        const char *name);
/* A text of "__metadata__"; NULL if absent. The checksums are not among the texts. */
VV_API VV_BORROWED const char *vv_safetensors_text(const vv_safetensors *file, const char *key);
VV_API int vv_safetensors_text_count(const vv_safetensors *file);
VV_API VV_BORROWED const char *vv_safetensors_text_key(const vv_safetensors *file, int i);
VV_API void vv_safetensors_close(VV_TAKES vv_safetensors *file);

VV_END_DECLS

#endif
