/* safetensors_format.h - what the reader and the writer of safetensors files share.
 *
 * A file is: 8 bytes header length n (little-endian), n bytes of JSON, the tensors' data. The JSON
 * object maps each name to {"dtype", "shape", "data_offsets": [begin, end)} counted from the end of
 * the header; "__metadata__" maps texts to texts. The ranges cover the data without gap or overlap.
 */
#ifndef VVI_SAFETENSORS_FORMAT_H
#define VVI_SAFETENSORS_FORMAT_H

#include <vivace/tensor.h>

#include "base/crc32.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the data of safetensors files is little-endian; this machine is not"
#endif

#define VVI_SAFETENSORS_LENGTH_BYTES 8
/* The limit of the format's own reader. */
#define VVI_SAFETENSORS_HEADER_MAX ((uint64_t)100000000)

#define VVI_METADATA_KEY "__metadata__"
/* Checksums, eight hex digits each: of all data, and of names, types, shapes and texts. */
#define VVI_DATA_CRC_KEY "vivace.crc32"
#define VVI_HEADER_CRC_KEY "vivace.header_crc32"

/* "F32", ...; NULL if the dtype has no name in files. */
const char *vvi_safetensors_dtype_name(vv_dtype dtype);
/* The dtype called so; VV_DTYPE_COUNT if we have none. */
vv_dtype vvi_safetensors_dtype(const char *name);

/* Checksum of one entry of the header. The header's checksum is the sum over all entries, so that
   it does not depend on the order in which a program writes them. */
uint32_t vvi_safetensors_tensor_crc(vvi_crc32 *crc, const char *name, const vv_tensor *tensor,
                                    uint64_t begin);
uint32_t vvi_safetensors_text_crc(vvi_crc32 *crc, const char *key, const char *value);

#endif
