/* tokenizer.h - text to tokens and back.
 *
 * A tokenizer is byte-level BPE (Sennrich et al. 2016; Radford et al. 2019: GPT-2) or plain bytes.
 * Every text has tokens and comes back from them byte for byte. Texts for BPE are UTF-8. */
#ifndef VIVACE_TOKENIZER_H
#define VIVACE_TOKENIZER_H

#include <vivace/str.h>

VV_BEGIN_DECLS

/* Constant once it is open: any number of threads may use it. */
typedef struct vv_tokenizer vv_tokenizer;

/* `name` is one of
     "bytes"        256 tokens, one a byte;
     "gpt2"         the folder gpt2 or gpt2-bpe of $VIVACE_DATA;
     a folder       with tokenizer.json, or vocab.bpe and encoder.json (GPT-2's files; merges.txt
                    and vocab.json are the same under other names), or vocab.txt (BERT's WordPiece;
                    small letters unless its tokenizer_config.json says otherwise);
     a file         Hugging Face's tokenizer.json, of a byte-level BPE. */
VV_API VV_MUST_USE vv_status vv_tokenizer_open(VV_OWNED vv_tokenizer **out, const char *name);
VV_API void vv_tokenizer_free(VV_TAKES vv_tokenizer *tokenizer);
/* Ids are 0 .. vocab - 1. */
VV_API int64_t vv_tokenizer_vocab(const vv_tokenizer *tokenizer);
/* The token that ends a document ("<|endoftext|>", "<|end_of_text|>", "</s>" or "<eos>", the first
   that is there); -1 = none. */
VV_API int32_t vv_tokenizer_end(const vv_tokenizer *tokenizer);
/* Id of the token with exactly this text, special or not; -1 = none. */
VV_API int32_t vv_tokenizer_find(const vv_tokenizer *tokenizer, const char *text);
/* The bytes of one token. VV_EINVAL for an id that does not exist. */
VV_API VV_MUST_USE vv_status vv_tokenizer_token(const vv_tokenizer *tokenizer, int32_t id,
                                                VV_BORROWED const void **bytes, size_t *count);
/* What it was opened by, and 64 hexadecimal digits that are the same for tokenizers that give the
   same ids, whatever file they come from. */
VV_API VV_BORROWED const char *vv_tokenizer_name(const vv_tokenizer *tokenizer);
VV_API VV_BORROWED const char *vv_tokenizer_fingerprint(const vv_tokenizer *tokenizer);

/* Writes it as tokenizer.json, which this and Hugging Face's `tokenizers` read, whole or not at
   all. Plain bytes become a BPE without merges. */
VV_API VV_MUST_USE vv_status vv_tokenizer_save(const vv_tokenizer *tokenizer, const char *path);

/* *ids (vv_dealloc) = the tokens of a text. special: texts of special tokens such as
   "<|endoftext|>" become those tokens; otherwise they are text like any other. VV_EFORMAT with the
   byte's position if the text is not UTF-8 (plain bytes take anything). */
VV_API VV_MUST_USE vv_status vv_tokenizer_encode(const vv_tokenizer *tokenizer, const char *text,
                                                 size_t bytes, bool special, VV_OWNED int32_t **ids,
                                                 int64_t *count);
/* Appends the bytes of the tokens. What single tokens stand for need not be whole characters. */
VV_API VV_MUST_USE vv_status vv_tokenizer_decode(const vv_tokenizer *tokenizer, const int32_t *ids,
                                                 int64_t count, vv_str *out);

/* For much text: remembers the tokens of words it has seen. One thread at a time; the tokenizer
   must outlive it. */
typedef struct vv_encoder vv_encoder;
VV_API VV_MUST_USE vv_status vv_encoder_new(VV_OWNED vv_encoder **out,
                                            const vv_tokenizer *tokenizer);
VV_API void vv_encoder_free(VV_TAKES vv_encoder *encoder);
/* As vv_tokenizer_encode; *ids is valid until the next call. At most 1 GiB at once. */
VV_API VV_MUST_USE vv_status vv_encoder_encode(vv_encoder *encoder, const char *text, size_t bytes,
                                               bool special, VV_BORROWED const int32_t **ids,
                                               int64_t *count);

VV_END_DECLS

#endif
