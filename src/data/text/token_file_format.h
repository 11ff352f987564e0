/* token_file_format.h - the header of token files, as bytes. All numbers are little endian:
 *
 *     0  "vvtokens"        8  u32 version 1      12  u32 bytes a token (2 or 4)
 *    16  i64 tokens       24  i64 documents      32  i64 vocabulary size
 *    40  i32 end token, -1 = none                44  u32 CRC-32 of the tokens
 *    48  u32 CRC-32 of the offsets               52  u32 length of the fingerprint
 *    56  fingerprint of the tokenizer (64 bytes, zeros behind it)
 *   120  zeros                                  252  u32 CRC-32 of bytes 0 .. 251
 */
#ifndef VVI_TOKEN_FILE_FORMAT_H
#define VVI_TOKEN_FILE_FORMAT_H

#include <vivace/token_file.h>

#define VVI_TOKENS_HEADER 256
#define VVI_TOKENS_VERSION 1

typedef struct vvi_tokens_sums {
    uint32_t tokens, offsets;
} vvi_tokens_sums;

void vvi_tokens_header_write(unsigned char out[VVI_TOKENS_HEADER], const vv_tokens_info *info,
                             vvi_tokens_sums sums);
/* Checks the header and the size of the file it stands in; `name` is for sentences. */
VV_MUST_USE vv_status vvi_tokens_header_read(vv_tokens_info *info, vvi_tokens_sums *sums,
                                             const char *name, const void *data, size_t bytes);
/* Bytes before the offsets; the counts fit (they were checked, or written). */
uint64_t vvi_tokens_offsets_at(const vv_tokens_info *info);

/* Same as vv_tokens_open, over bytes in memory that outlive it. */
VV_MUST_USE vv_status vvi_tokens_parse(VV_OWNED vv_tokens **out, const char *name, const void *data,
                                       size_t bytes);

#endif
