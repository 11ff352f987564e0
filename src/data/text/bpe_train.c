/* bpe_train.c - byte-pair encoding from counted words (Sennrich et al. 2016): the most frequent
 * pair becomes a symbol, in every word, until there are enough.
 *
 * Each pair knows the words it has been seen in, so a merge visits only those. A heap has pairs
 * with the count they had when they were put in. Counts only fall, but for pairs with the symbol
 * just made, which are put in again; so an entry that is out of date goes back with today's count.
 * Two merges may give the same text (aa a, a aa): that is one symbol. */
#include "data/text/bpe_train.h"

#include <string.h>

#include <vivace/memory.h>

#define NONE (-1)

typedef struct text_word {
    int32_t *symbols;
    uint32_t length;
    int64_t count;
    size_t seen; /* round that visited it last */
} text_word;

typedef struct pair_entry {
    uint64_t pair; /* left << 32 | right */
    int64_t count;
    uint32_t *words; /* that it has been seen in, some no longer */
    uint32_t word_count, word_room;
    bool used;
    size_t noted; /* round in which it was put among the fresh ones */
} pair_entry;

typedef struct queued {
    int64_t count;
    uint64_t pair;
} queued;

typedef struct trainer {
    text_word *words;
    size_t word_count;
    int32_t *symbols; /* of all words */
    pair_entry *pairs; /* an open hash table */
    size_t mask, used;
    queued *heap;
    size_t heap_count, heap_room;
    uint64_t *fresh; /* pairs of this round's symbol */
    size_t fresh_count, fresh_room;
    size_t round; /* 1 = the first count, then one a merge */
    vvi_word_counts names; /* texts of the symbols; "count" is the symbol's number + 1 */
} trainer;

static void trainer_fini(trainer *t)
{
    for (size_t i = 0; t->pairs && i <= t->mask; i++)
        vv_dealloc(t->pairs[i].words);
    vv_dealloc(t->pairs);
    vv_dealloc(t->heap);
    vv_dealloc(t->fresh);
    vv_dealloc(t->words);
    vv_dealloc(t->symbols);
    vvi_word_counts_fini(&t->names);
}

/* ---- the queue: highest count first, then the lowest pair ---- */

static bool before(queued a, queued b)
{
    return a.count != b.count ? a.count > b.count : a.pair < b.pair;
}

static vv_status push(trainer *t, queued item)
{
    if (t->heap_count == t->heap_room) {
        const size_t room = t->heap_room ? 2 * t->heap_room : 1024;
        VV_TRY(vv_realloc_array(&t->heap, room, sizeof *t->heap));
        t->heap_room = room;
    }
    size_t at = t->heap_count++;
    while (at > 0 && before(item, t->heap[(at - 1) / 2])) {
        t->heap[at] = t->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    t->heap[at] = item;
    return VV_OK;
}

static queued pop(trainer *t)
{
    const queued top = t->heap[0], item = t->heap[--t->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= t->heap_count)
            break;
        if (child + 1 < t->heap_count && before(t->heap[child + 1], t->heap[child]))
            child++;
        if (!before(t->heap[child], item))
            break;
        t->heap[at] = t->heap[child];
        at = child;
    }
    t->heap[at] = item;
    return top;
}

/* ---- pairs ---- */

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t place_of(uint64_t pair, size_t mask)
{
    const uint64_t mixed = pair * 0x9e3779b97f4a7c15u;
    return (size_t)(mixed ^ mixed >> 32) & mask;
}

static vv_status more_pairs(trainer *t)
{
    const size_t places = t->pairs ? 2 * (t->mask + 1) : 4096;
    pair_entry *grown;
    VV_TRY(vv_alloc_array(&grown, places, sizeof *grown));
    for (size_t i = 0; t->pairs && i <= t->mask; i++) {
        if (!t->pairs[i].used)
            continue;
        size_t at = place_of(t->pairs[i].pair, places - 1);
        while (grown[at].used)
            at = (at + 1) & (places - 1);
        grown[at] = t->pairs[i];
    }
    vv_dealloc(t->pairs);
    t->pairs = grown;
    t->mask = places - 1;
    return VV_OK;
}

/* The entry of a pair, made if it is new; valid until the next one is made. */
static vv_status pair_at(trainer *t, uint64_t pair, pair_entry **out)
{
    if (!t->pairs || t->used >= (t->mask + 1) / 2)
        VV_TRY(more_pairs(t));
    size_t at = place_of(pair, t->mask);
    while (t->pairs[at].used && t->pairs[at].pair != pair)
        at = (at + 1) & t->mask;
    if (!t->pairs[at].used) {
        t->pairs[at] = (pair_entry){.pair = pair, .used = true};
        t->used++;
    }
    *out = &t->pairs[at];
    return VV_OK;
}

static vv_status note_word(pair_entry *entry, uint32_t word)
{
    if (entry->word_count > 0 && entry->words[entry->word_count - 1] == word)
        return VV_OK;
    if (entry->word_count == entry->word_room) {
        const uint32_t room = entry->word_room ? 2 * entry->word_room : 4;
        VV_TRY(vv_realloc_array(&entry->words, room, sizeof *entry->words));
        entry->word_room = room;
    }
    entry->words[entry->word_count++] = word;
    return VV_OK;
}

/* Counts a word's pairs, or takes them back (sign -1). Pairs with the symbol `fresh` are noted,
   NONE = all are. */
static vv_status count_word(trainer *t, uint32_t number, int sign, int32_t fresh)
{
    const text_word *word = &t->words[number];
    for (uint32_t i = 0; i + 1 < word->length; i++) {
        const int32_t left = word->symbols[i], right = word->symbols[i + 1];
        pair_entry *entry;
        VV_TRY(pair_at(t, pair_of(left, right), &entry));
        entry->count += sign * word->count;
        if (sign < 0 || (fresh != NONE && left != fresh && right != fresh))
            continue;
        VV_TRY(note_word(entry, number));
        if (entry->noted == t->round)
            continue;
        entry->noted = t->round;
        if (t->fresh_count == t->fresh_room) {
            const size_t room = t->fresh_room ? 2 * t->fresh_room : 1024;
            VV_TRY(vv_realloc_array(&t->fresh, room, sizeof *t->fresh));
            t->fresh_room = room;
        }
        t->fresh[t->fresh_count++] = entry->pair;
    }
    return VV_OK;
}

static vv_status queue_fresh(trainer *t, int64_t min_count)
{
    for (size_t i = 0; i < t->fresh_count; i++) {
        pair_entry *entry;
        VV_TRY(pair_at(t, t->fresh[i], &entry));
        if (entry->count >= min_count)
            VV_TRY(push(t, (queued){entry->count, entry->pair}));
    }
    t->fresh_count = 0;
    return VV_OK;
}

/* ---- words ---- */

static vv_status take_words(trainer *t, const vvi_word_counts *words, const int32_t symbol[256])
{
    size_t at = 0, number = 0;
    if (words->used > UINT32_MAX)
        return vv_fail(VV_EUNSUPPORTED, "BPE: more than %u different words", UINT32_MAX);
    VV_TRY(vv_alloc_array(&t->words, words->used, sizeof *t->words));
    VV_TRY(vv_alloc_array(&t->symbols, words->letters_used, sizeof *t->symbols));
    for (size_t i = 0; words->places && i <= words->mask; i++) {
        const vvi_word_count *place = &words->places[i];
        if (place->bytes == 0)
            continue;
        t->words[number++] = (text_word){t->symbols + at, place->bytes, place->count, 0};
        for (uint32_t k = 0; k < place->bytes; k++)
            t->symbols[at++] = symbol[words->letters[place->text + k]];
    }
    t->word_count = number;
    for (uint32_t i = 0; i < number; i++)
        VV_TRY(count_word(t, i, 1, NONE));
    return VV_OK;
}

static void merge_in_word(text_word *word, int32_t left, int32_t right, int32_t made)
{
    uint32_t to = 0;
    for (uint32_t i = 0; i < word->length; to++) {
        const bool both = i + 1 < word->length && word->symbols[i] == left &&
                          word->symbols[i + 1] == right;
        word->symbols[to] = both ? made : word->symbols[i];
        i += both ? 2 : 1;
    }
    word->length = to;
}

static bool has_pair(const text_word *word, int32_t left, int32_t right)
{
    for (uint32_t i = 0; i + 1 < word->length; i++)
        if (word->symbols[i] == left && word->symbols[i + 1] == right)
            return true;
    return false;
}

/* The pair becomes `made`, everywhere. */
static vv_status apply(trainer *t, uint64_t pair, int32_t made)
{
    const int32_t left = (int32_t)(pair >> 32), right = (int32_t)(pair & 0xffffffffu);
    vv_status status = VV_OK;
    pair_entry *entry;
    t->round++;
    VV_TRY(pair_at(t, pair, &entry));
    uint32_t *words = entry->words;
    const uint32_t count = entry->word_count;
    entry->words = NULL; /* none is left */
    entry->word_count = entry->word_room = 0;
    for (uint32_t i = 0; i < count; i++) {
        text_word *word = &t->words[words[i]];
        if (word->seen == t->round || !has_pair(word, left, right))
            continue;
        word->seen = t->round;
        VV_GO(count_word(t, words[i], -1, NONE));
        merge_in_word(word, left, right, made);
        VV_GO(count_word(t, words[i], 1, made));
    }
out:
    vv_dealloc(words);
    return status;
}

/* ---- symbols ---- */

static vv_status grow(void *block, size_t size, size_t used, size_t more, size_t *room)
{
    size_t wanted = *room ? *room : 1024;
    if (*room - used >= more)
        return VV_OK;
    while (wanted - used < more)
        VV_TRY(vv_size_mul(&wanted, wanted, 2));
    VV_TRY(vv_realloc_array(block, wanted, size));
    *room = wanted;
    return VV_OK;
}

/* *number = the symbol whose text is that of two symbols, made if there is none yet. */
static vv_status join(trainer *t, vvi_bpe *bpe, int32_t left, int32_t right, int32_t *number)
{
    const vvi_bpe_symbol l = bpe->symbols[left], r = bpe->symbols[right];
    const size_t bytes = l.bytes + r.bytes;
    VV_TRY(grow(&bpe->text, 1, bpe->text_used, bytes, &bpe->text_room));
    unsigned char *text = bpe->text + bpe->text_used;
    memcpy(text, bpe->text + l.at, l.bytes);
    memcpy(text + l.bytes, bpe->text + r.at, r.bytes);
    const vvi_word_count *known = vvi_word_counts_find(&t->names, text, bytes);
    if (known) {
        *number = (int32_t)(known->count - 1);
        return VV_OK;
    }
    VV_TRY(grow(&bpe->symbols, sizeof *bpe->symbols, bpe->symbol_count, 1, &bpe->symbol_room));
    *number = (int32_t)bpe->symbol_count;
    VV_TRY(vvi_word_counts_add(&t->names, text, bytes, *number + 1));
    bpe->symbols[bpe->symbol_count++] = (vvi_bpe_symbol){bpe->text_used, bytes};
    bpe->text_used += bytes;
    return VV_OK;
}

static vv_status first_symbols(trainer *t, vvi_bpe *bpe, const int32_t symbol[256])
{
    VV_TRY(grow(&bpe->text, 1, 0, 256, &bpe->text_room));
    VV_TRY(grow(&bpe->symbols, sizeof *bpe->symbols, 0, 256, &bpe->symbol_room));
    for (int b = 0; b < 256; b++) {
        bpe->text[b] = (unsigned char)b;
        bpe->symbols[symbol[b]] = (vvi_bpe_symbol){(size_t)b, 1};
        VV_TRY(vvi_word_counts_add(&t->names, bpe->text + b, 1, symbol[b] + 1));
    }
    bpe->text_used = bpe->symbol_count = 256;
    return VV_OK;
}

static vv_status merge_pair(trainer *t, vvi_bpe *bpe, uint64_t pair)
{
    const int32_t left = (int32_t)(pair >> 32), right = (int32_t)(pair & 0xffffffffu);
    int32_t made;
    VV_TRY(join(t, bpe, left, right, &made));
    VV_TRY(grow(&bpe->merges, sizeof *bpe->merges, bpe->merge_count, 1, &bpe->merge_room));
    int32_t *merge = bpe->merges[bpe->merge_count++];
    merge[0] = left;
    merge[1] = right;
    merge[2] = made;
    return apply(t, pair, made);
}

vv_status vvi_bpe_train(vvi_bpe *out, const vvi_word_counts *words, const int32_t symbol[256],
                        size_t most, int64_t min_count)
{
    vv_status status;
    trainer t = {.round = 1};
    const int64_t least = min_count < 1 ? 1 : min_count;
    *out = (vvi_bpe){0};
    VV_GO(first_symbols(&t, out, symbol));
    VV_GO(take_words(&t, words, symbol));
    VV_GO(queue_fresh(&t, least));
    while (out->symbol_count < most && t.heap_count > 0) {
        queued best = pop(&t);
        pair_entry *entry;
        VV_GO(pair_at(&t, best.pair, &entry));
        if (entry->count < least)
            continue;
        if (entry->count != best.count) {
            best.count = entry->count;
            VV_GO(push(&t, best));
            continue;
        }
        VV_GO(merge_pair(&t, out, best.pair));
        VV_GO(queue_fresh(&t, least));
    }
out:
    trainer_fini(&t);
    if (status != VV_OK)
        vvi_bpe_fini(out);
    return status;
}

void vvi_bpe_fini(vvi_bpe *bpe)
{
    vv_dealloc(bpe->symbols);
    vv_dealloc(bpe->text);
    vv_dealloc(bpe->merges);
    *bpe = (vvi_bpe){0};
}
