/* word_counts.h - how often each word occurs. */
#ifndef VVI_WORD_COUNTS_H
#define VVI_WORD_COUNTS_H

#include <vivace/status.h>

typedef struct vvi_word_count {
    uint64_t hash;
    size_t text; /* in `letters` */
    uint32_t bytes; /* 0 = an empty place */
    int64_t count;
} vvi_word_count;
/* An open hash table; zeroed = empty. */
typedef struct vvi_word_counts {
    vvi_word_count *places;
    size_t mask, used;
    unsigned char *letters;
    size_t letters_used, letters_room;
} vvi_word_counts;

VV_MUST_USE vv_status vvi_word_counts_add(vvi_word_counts *counts, const unsigned char *word,
                                          size_t bytes, int64_t count);
/* NULL if the word is not there. */
vvi_word_count *vvi_word_counts_find(const vvi_word_counts *counts, const unsigned char *word,
                                     size_t bytes);
void vvi_word_counts_fini(vvi_word_counts *counts);

#endif
