/* tokenizer_impl.h - what a tokenizer is made of, for those who make and use one. */
#ifndef VVI_TOKENIZER_IMPL_H
#define VVI_TOKENIZER_IMPL_H

#include <vivace/tokenizer.h>

#include "data/tokenizer/split.h"

/* Pairs of tokens that merge, and into what; an open hash table. */
typedef struct vvi_merge {
    uint64_t pair; /* left << 32 | right */
    int32_t rank;  /* lower merges first; -1 = an empty place */
    int32_t id;    /* what the two become */
} vvi_merge;
typedef struct vvi_merges {
    vvi_merge *places;
    size_t mask; /* places - 1; a power of two */
    size_t count;
} vvi_merges;

typedef struct vvi_token {
    size_t at; /* in the pool */
    uint32_t bytes;
    bool used;
} vvi_token;

/* A token that is looked for in the text before it is cut into words. */
typedef struct vvi_added {
    int32_t id;
    bool special; /* else it is found even if special tokens are not asked for */
    bool left, right; /* takes white space on that side with it */
} vvi_added;

typedef enum vvi_splitter_kind { VVI_SPLIT_GPT2, VVI_SPLIT_REGEX } vvi_splitter_kind;
typedef struct vvi_splitter {
    vvi_splitter_kind kind;
    char *pattern;
    vvi_regex *regex;
} vvi_splitter;

#define VVI_MAX_SPLITTERS 8

struct vv_tokenizer {
    char *name;
    char fingerprint[65];
    bool plain_bytes;
    bool wordpiece;     /* BERT's; then nothing merges and nothing splits */
    bool lower;         /* with it: small letters without accents */
    int32_t unknown;    /* with it: what stands for words that have no pieces */
    bool prefix_space;  /* a blank goes before a text that does not start with one */
    bool whole_words;   /* a word that is a token is not merged from its bytes */
    int64_t vocab;
    int32_t end;
    vvi_token *tokens; /* by id */
    unsigned char *pool;
    size_t pool_used, pool_room;
    int32_t *index; /* bytes to id: an open hash table of ids, -1 = empty */
    size_t index_mask;
    int32_t byte_id[256]; /* -1 = that byte has no token */
    vvi_merges merges;
    vvi_added *added;
    int added_count;
    bool added_ordinary;   /* some are not special */
    bool added_start[256]; /* bytes that some added token starts with */
    vvi_splitter splitters[VVI_MAX_SPLITTERS];
    int splitter_count; /* 0 = the text is one word */
    vvi_char_classes classes;
};

/* ---- making one (tokenizer.c) ---- */
/* Room for ids 0 .. vocab - 1, none used yet. */
VV_MUST_USE vv_status vvi_tokenizer_new(VV_OWNED vv_tokenizer **out, const char *name,
                                        int64_t vocab);
VV_MUST_USE vv_status vvi_tokenizer_set(vv_tokenizer *tokenizer, int64_t id, const void *bytes,
                                        size_t count);
/* After all tokens are set, before merges: makes byte_id and the index. */
VV_MUST_USE vv_status vvi_tokenizer_index(vv_tokenizer *tokenizer);
/* Id of the token with these bytes, -1 = none. */
int32_t vvi_tokenizer_lookup(const vv_tokenizer *tokenizer, const void *bytes, size_t count);
/* Merges in rising rank; the first of a pair counts. */
VV_MUST_USE vv_status vvi_tokenizer_merge(vv_tokenizer *tokenizer, const void *left, size_t lefts,
                                          const void *right, size_t rights, size_t expected);
VV_MUST_USE vv_status vvi_tokenizer_add(vv_tokenizer *tokenizer, vvi_added added);
VV_MUST_USE vv_status vvi_tokenizer_split(vv_tokenizer *tokenizer, const char *pattern);
/* When all is there: end token, fingerprint. */
VV_MUST_USE vv_status vvi_tokenizer_finish(vv_tokenizer *tokenizer);

/* ---- files ---- */
VV_MUST_USE vv_status vvi_tokenizer_parse_gpt2(VV_OWNED vv_tokenizer **out, const char *name,
                                               const char *merges, size_t merges_bytes,
                                               const char *vocabulary, size_t vocabulary_bytes);
VV_MUST_USE vv_status vvi_tokenizer_parse_json(VV_OWNED vv_tokenizer **out, const char *name,
                                               const char *text, size_t bytes);
/* A vocabulary of BERT's, a token a line; config: tokenizer_config.json or NULL. */
VV_MUST_USE vv_status vvi_tokenizer_parse_wordpiece(VV_OWNED vv_tokenizer **out, const char *name,
                                                    const char *text, size_t bytes,
                                                    const char *config, size_t config_bytes);

/* ---- wordpiece.c ---- */
/* Puts the tokens of UTF-8 text behind *count ids; the array grows. */
VV_MUST_USE vv_status vvi_wordpiece_encode(const vv_tokenizer *tokenizer, const unsigned char *at,
                                           size_t bytes, int32_t **ids, size_t *count,
                                           size_t *room);
/* A token as text: with a blank before it unless it goes on with a word or is the first. */
void vvi_wordpiece_decode(const unsigned char *token, size_t bytes, bool first, vv_str *out);

/* ---- byte characters: GPT-2's vocabulary writes each byte as one visible character ---- */
/* The character of a byte: one or two bytes of UTF-8 into `out`; returns their number. */
size_t vvi_byte_char(unsigned char byte, char out[2]);
/* Text of such characters back to bytes (out has room for `bytes`); false if it has others. */
bool vvi_byte_chars_read(const char *text, size_t bytes, unsigned char *out, size_t *count);

/* ---- merges.c ---- */
VV_MUST_USE vv_status vvi_merges_init(vvi_merges *merges, size_t expected);
/* false if the pair is there already. The table must have room: at most `expected` pairs. */
bool vvi_merges_put(vvi_merges *merges, int32_t left, int32_t right, int32_t rank, int32_t id);
/* NULL if the pair does not merge. */
const vvi_merge *vvi_merges_find(const vvi_merges *merges, int32_t left, int32_t right);

/* Room to merge one word in; grows. */
typedef struct vvi_merger {
    int32_t *id, *next, *before; /* of each symbol */
    struct vvi_candidate *heap;
    size_t room, heap_room;
} vvi_merger;
void vvi_merger_fini(vvi_merger *merger);
/* Merges ids[0 .. count) as far as it goes, in place; *count = how many are left. */
VV_MUST_USE vv_status vvi_merger_run(vvi_merger *merger, const vvi_merges *merges, int32_t *ids,
                                     size_t *count);

#endif
