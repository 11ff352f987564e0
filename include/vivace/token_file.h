/* token_file.h - token files: text as numbers, ready to train on.
 *
 * A file holds the tokens of documents one behind the other, as u16 (vocabulary up to 65,536) or
 * u32, and where each document begins. It is mapped into memory when read, so opening costs
 * nothing and many processes share it. Layout, all little endian: a header of 256 bytes, the
 * tokens, zeros up to a multiple of 8 bytes, and `documents` + 1 offsets (i64, in tokens).
 * Tokenizers: vivace/tokenizer.h. */
#ifndef VIVACE_TOKEN_FILE_H
#define VIVACE_TOKEN_FILE_H

#include <vivace/tensor.h>

VV_BEGIN_DECLS

typedef struct vv_tokens vv_tokens;
typedef struct vv_tokens_writer vv_tokens_writer;

/* What the header says. */
typedef struct vv_tokens_info {
    int64_t count;      /* tokens in the file */
    int64_t documents;
    int64_t vocab;      /* ids are 0 .. vocab - 1 */
    int32_t end;        /* id that ends each document (its last token), -1 = none */
    int bytes_a_token;  /* 2 or 4 */
    char tokenizer[65]; /* fingerprint of the tokenizer that made it, "" = unknown */
} vv_tokens_info;

/* VV_EFORMAT with file, expected and found if it is no token file, damaged or cut short. */
VV_API VV_MUST_USE vv_status vv_tokens_open(VV_OWNED vv_tokens **out, const char *path);
VV_API void vv_tokens_free(VV_TAKES vv_tokens *tokens);
VV_API VV_BORROWED const vv_tokens_info *vv_tokens_info_of(const vv_tokens *tokens);
/* info.documents + 1 offsets, rising, the first 0 and the last info.count: document d is tokens
   [offsets[d], offsets[d + 1]), its end token included. */
VV_API VV_BORROWED const int64_t *vv_tokens_offsets(const vv_tokens *tokens);
/* Number of the document that token `at` (0 .. count - 1) belongs to. */
VV_API int64_t vv_tokens_document(const vv_tokens *tokens, int64_t at);
/* Copies tokens [first, first + count) out. VV_EINVAL outside the file; VV_EFORMAT for an id that
   is not in the vocabulary. Any number of threads at once. */
VV_API VV_MUST_USE vv_status vv_tokens_read(const vv_tokens *tokens, int64_t first, int64_t count,
                                            int32_t *out);
/* Reads every token and compares the checksum. */
VV_API VV_MUST_USE vv_status vv_tokens_verify(const vv_tokens *tokens);

/* Begins a file that appears at `path` when it is finished, whole or not at all. end -1 = documents
   have no end token; tokenizer NULL = unknown. */
VV_API VV_MUST_USE vv_status vv_tokens_writer_new(VV_OWNED vv_tokens_writer **out, const char *path,
                                                  int64_t vocab, int32_t end,
                                                  const char *tokenizer);
/* Further tokens of the current document. */
VV_API VV_MUST_USE vv_status vv_tokens_writer_add(vv_tokens_writer *writer, const int32_t *ids,
                                                  int64_t count);
/* Ends the current document, with the end token if there is one. */
VV_API VV_MUST_USE vv_status vv_tokens_writer_end_document(vv_tokens_writer *writer);
/* Writes the rest and puts the file in its place; *info (may be NULL) = what it holds. A document
   begun is ended first. The writer still has to be freed. */
VV_API VV_MUST_USE vv_status vv_tokens_writer_finish(vv_tokens_writer *writer,
                                                     vv_tokens_info *info);
/* Without a finish nothing is left of the file. */
VV_API void vv_tokens_writer_free(VV_TAKES vv_tokens_writer *writer);

VV_END_DECLS

#endif
