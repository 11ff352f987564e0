/* bpe_train.h - byte-pair encoding from counted words. */
#ifndef VVI_BPE_TRAIN_H
#define VVI_BPE_TRAIN_H

#include "data/text/word_counts.h"

/* Symbols are numbered: 0 .. 255 are single bytes, the others what merges gave, in order. */
typedef struct vvi_bpe_symbol {
    size_t at; /* in `text` */
    size_t bytes;
} vvi_bpe_symbol;
typedef struct vvi_bpe {
    vvi_bpe_symbol *symbols;
    size_t symbol_count, symbol_room;
    unsigned char *text;
    size_t text_used, text_room;
    int32_t (*merges)[3]; /* left, right, what they become; in rank order */
    size_t merge_count, merge_room;
} vvi_bpe;
/* Until there are `most` symbols, or no pair occurs min_count times. symbol: the number of each
   byte. */
VV_MUST_USE vv_status vvi_bpe_train(vvi_bpe *out, const vvi_word_counts *words,
                                    const int32_t symbol[256], size_t most, int64_t min_count);
void vvi_bpe_fini(vvi_bpe *bpe);

#endif
