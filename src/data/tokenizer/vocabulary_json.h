/* vocabulary_json.h - what the readers of encoder.json and tokenizer.json share. */
#ifndef VVI_VOCABULARY_JSON_H
#define VVI_VOCABULARY_JSON_H

#include <jansson.h>

#include "data/tokenizer/tokenizer_impl.h"

/* *out = the JSON object in the text. */
VV_MUST_USE vv_status vvi_json_object(VV_OWNED json_t **out, const char *name, const char *text,
                                      size_t bytes);
/* Highest id + 1 of {"token": id} joined with *vocab; VV_EFORMAT for an id that is no number, is
   negative, or so high that most ids below it would be empty. */
VV_MUST_USE vv_status vvi_vocabulary_size(int64_t *vocab, const char *name, json_t *ids);
/* Sets all tokens; texts that are not byte characters stand for themselves. */
VV_MUST_USE vv_status vvi_vocabulary_set(vv_tokenizer *tokenizer, json_t *ids);
/* A merge of two texts of byte characters. */
VV_MUST_USE vv_status vvi_vocabulary_merge(vv_tokenizer *tokenizer, const char *left, size_t lefts,
                                           const char *right, size_t rights, size_t expected);

#endif
