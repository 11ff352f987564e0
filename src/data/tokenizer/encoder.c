/* encoder.c - text to tokens: added tokens are found, the rest is cut into words, and words become
 * tokens, from memory where they have been seen before. */
#include <string.h>

#include <vivace/memory.h>

#include "base/utf8.h"
#include "data/tokenizer/tokenizer_impl.h"

#define MAX_TEXT ((size_t)1 << 30)
#define MAX_CACHED 128 /* bytes of a word that is remembered */
#define FIRST_PLACES ((size_t)1 << 10)
#define MAX_PLACES ((size_t)1 << 20) /* half of them words; then everything is forgotten */

typedef struct word {
    uint64_t hash;
    uint32_t bytes; /* 0 = an empty place */
    uint32_t text;  /* in `letters` */
    uint32_t ids;   /* in `known` */
    uint32_t count;
} word;

struct vv_encoder {
    const vv_tokenizer *tokenizer;
    word *words; /* an open hash table */
    size_t mask, used;
    unsigned char *letters;
    size_t letters_used, letters_room;
    int32_t *known;
    size_t known_used, known_room;
    int32_t *ids; /* what is returned */
    size_t count, room;
    vvi_merger merger;
    vvi_regex_match *match[VVI_MAX_SPLITTERS];
    char *prefixed; /* a text with a blank before it */
    const unsigned char *text; /* of this call: for positions in sentences */
};

vv_status vv_encoder_new(vv_encoder **out, const vv_tokenizer *tokenizer)
{
    vv_status status;
    vv_encoder *encoder = NULL;
    *out = NULL;
    VV_GO(vv_alloc(&encoder, sizeof *encoder));
    encoder->tokenizer = tokenizer;
    encoder->mask = FIRST_PLACES - 1;
    VV_GO(vv_alloc_array(&encoder->words, FIRST_PLACES, sizeof *encoder->words));
    for (int i = 0; i < tokenizer->splitter_count; i++)
        if (tokenizer->splitters[i].kind == VVI_SPLIT_REGEX)
            VV_GO(vvi_regex_match_new(&encoder->match[i], tokenizer->splitters[i].regex));
    *out = encoder;
    return VV_OK;
out:
    vv_encoder_free(encoder);
    return status;
}

void vv_encoder_free(vv_encoder *encoder)
{
    if (!encoder)
        return;
    for (int i = 0; i < VVI_MAX_SPLITTERS; i++)
        vvi_regex_match_free(encoder->match[i]);
    vvi_merger_fini(&encoder->merger);
    vv_dealloc(encoder->prefixed);
    vv_dealloc(encoder->words);
    vv_dealloc(encoder->letters);
    vv_dealloc(encoder->known);
    vv_dealloc(encoder->ids);
    vv_dealloc(encoder);
}

/* Room for `more` items behind `used`. */
static vv_status grow(void *block, size_t size, size_t used, size_t more, size_t *room)
{
    size_t wanted = *room ? *room : 256;
    if (*room - used >= more)
        return VV_OK;
    while (wanted - used < more)
        VV_TRY(vv_size_mul(&wanted, wanted, 2));
    VV_TRY(vv_realloc_array(block, wanted, size));
    *room = wanted;
    return VV_OK;
}

/* ---- words ---- */

static uint64_t hash_of(const unsigned char *at, size_t bytes)
{
    uint64_t hash = bytes, piece = 0;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        memcpy(&piece, at, 8);
        hash = (hash ^ piece) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    piece = 0;
    for (size_t i = 0; i < bytes; i++)
        piece = piece << 8 | at[i];
    hash = (hash ^ piece) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static void forget(vv_encoder *e)
{
    memset(e->words, 0, (e->mask + 1) * sizeof *e->words);
    e->used = e->letters_used = e->known_used = 0;
}

/* Doubles the table. */
static vv_status more_places(vv_encoder *e)
{
    const size_t places = e->mask + 1;
    word *words;
    if (places >= MAX_PLACES) {
        forget(e);
        return VV_OK;
    }
    VV_TRY(vv_alloc_array(&words, 2 * places, sizeof *words));
    for (size_t i = 0; i < places; i++) {
        if (e->words[i].bytes == 0)
            continue;
        size_t at = (size_t)e->words[i].hash & (2 * places - 1);
        while (words[at].bytes)
            at = (at + 1) & (2 * places - 1);
        words[at] = e->words[i];
    }
    vv_dealloc(e->words);
    e->words = words;
    e->mask = 2 * places - 1;
    return VV_OK;
}

static vv_status remember(vv_encoder *e, uint64_t hash, const unsigned char *at, size_t bytes,
                          const int32_t *ids, size_t count)
{
    if (e->used >= (e->mask + 1) / 2)
        VV_TRY(more_places(e));
    VV_TRY(grow(&e->letters, 1, e->letters_used, bytes, &e->letters_room));
    VV_TRY(grow(&e->known, sizeof *e->known, e->known_used, count, &e->known_room));
    size_t place = (size_t)hash & e->mask;
    while (e->words[place].bytes)
        place = (place + 1) & e->mask;
    memcpy(e->letters + e->letters_used, at, bytes);
    memcpy(e->known + e->known_used, ids, count * sizeof *ids);
    e->words[place] = (word){hash, (uint32_t)bytes, (uint32_t)e->letters_used,
                             (uint32_t)e->known_used, (uint32_t)count};
    e->letters_used += bytes;
    e->known_used += count;
    e->used++;
    return VV_OK;
}

/* A word that is not known: from its bytes. The ids go behind those that are there. */
static vv_status merge_word(vv_encoder *e, const unsigned char *at, size_t bytes, size_t *count)
{
    const vv_tokenizer *t = e->tokenizer;
    int32_t *ids = e->ids + e->count;
    if (t->whole_words) {
        ids[0] = vvi_tokenizer_lookup(t, at, bytes);
        *count = 1;
        if (ids[0] >= 0)
            return VV_OK;
    }
    for (size_t i = 0; i < bytes; i++) {
        ids[i] = t->byte_id[at[i]];
        if (ids[i] < 0)
            return vv_fail(VV_EFORMAT, "byte %zu is 0x%02x, which has no token in %s",
                           (size_t)(at + i - e->text), at[i], t->name);
    }
    *count = bytes;
    return vvi_merger_run(&e->merger, &t->merges, ids, count);
}

static vv_status encode_word(vv_encoder *e, const unsigned char *at, size_t bytes)
{
    size_t count;
    VV_TRY(grow(&e->ids, sizeof *e->ids, e->count, bytes, &e->room));
    if (bytes > MAX_CACHED) {
        VV_TRY(merge_word(e, at, bytes, &count));
        e->count += count;
        return VV_OK;
    }
    const uint64_t hash = hash_of(at, bytes);
    for (size_t i = (size_t)hash & e->mask; e->words[i].bytes; i = (i + 1) & e->mask) {
        const word *w = &e->words[i];
        if (w->hash != hash || w->bytes != bytes || memcmp(e->letters + w->text, at, bytes) != 0)
            continue;
        for (uint32_t k = 0; k < w->count; k++)
            e->ids[e->count + k] = e->known[w->ids + k];
        e->count += w->count;
        return VV_OK;
    }
    VV_TRY(merge_word(e, at, bytes, &count));
    VV_TRY(remember(e, hash, at, bytes, e->ids + e->count, count));
    e->count += count;
    return VV_OK;
}

/* ---- cutting ---- */

static vv_status encode_piece(vv_encoder *e, int splitter, const unsigned char *at,
                              const unsigned char *end);

static vv_status encode_regex(vv_encoder *e, int splitter, const unsigned char *at,
                              const unsigned char *end)
{
    const size_t bytes = (size_t)(end - at);
    for (size_t from = 0, first, last; from < bytes; from = last) {
        VV_TRY(vvi_regex_find(e->tokenizer->splitters[splitter].regex, e->match[splitter], at,
                              bytes, from, &first, &last));
        if (first > from)
            VV_TRY(encode_piece(e, splitter + 1, at + from, at + first));
        if (last > first)
            VV_TRY(encode_piece(e, splitter + 1, at + first, at + last));
    }
    return VV_OK;
}

/* Cuts by splitter number `splitter` and those behind it. */
static vv_status encode_piece(vv_encoder *e, int splitter, const unsigned char *at,
                              const unsigned char *end)
{
    const vv_tokenizer *t = e->tokenizer;
    const bool last = splitter + 1 >= t->splitter_count;
    if (splitter >= t->splitter_count)
        return encode_word(e, at, (size_t)(end - at));
    if (t->splitters[splitter].kind == VVI_SPLIT_REGEX)
        return encode_regex(e, splitter, at, end);
    while (at < end) {
        const unsigned char *next = vvi_split_gpt2(&t->classes, at, end);
        VV_TRY(last ? encode_word(e, at, (size_t)(next - at))
                    : encode_piece(e, splitter + 1, at, next));
        at = next;
    }
    return VV_OK;
}

/* Text without added tokens. */
static vv_status encode_plain(vv_encoder *e, const unsigned char *at, const unsigned char *end)
{
    const vv_tokenizer *t = e->tokenizer;
    const size_t bytes = (size_t)(end - at);
    if (bytes == 0)
        return VV_OK;
    if (t->wordpiece)
        return vvi_wordpiece_encode(t, at, bytes, &e->ids, &e->count, &e->room);
    if (!t->prefix_space || *at == ' ')
        return encode_piece(e, 0, at, end);
    VV_TRY(vv_realloc_array(&e->prefixed, bytes + 1, 1));
    e->prefixed[0] = ' ';
    memcpy(e->prefixed + 1, at, bytes);
    const unsigned char *start = (const unsigned char *)e->prefixed, *text = e->text;
    e->text = start + 1;
    const vv_status status = encode_piece(e, 0, start, start + bytes + 1);
    e->text = text;
    return status;
}

/* The longest added token at `at`, NULL if there is none. */
static const vvi_added *added_at(const vv_tokenizer *t, const unsigned char *at, size_t left,
                                 bool special)
{
    const vvi_added *best = NULL;
    for (int i = 0; i < t->added_count; i++) {
        const vvi_added *a = &t->added[i];
        const vvi_token *token = &t->tokens[a->id];
        if ((special || !a->special) && token->bytes <= left &&
            memcmp(t->pool + token->at, at, token->bytes) == 0 &&
            (!best || token->bytes > t->tokens[best->id].bytes))
            best = a;
    }
    return best;
}

static vv_status encode_added(vv_encoder *e, const unsigned char *at, const unsigned char *end,
                              bool special)
{
    const vv_tokenizer *t = e->tokenizer;
    const unsigned char *plain = at; /* not encoded yet */
    while (at < end) {
        const vvi_added *added =
            t->added_start[*at] ? added_at(t, at, (size_t)(end - at), special) : NULL;
        if (!added) {
            at++;
            continue;
        }
        const unsigned char *stop = at, *behind = at + t->tokens[added->id].bytes;
        if (added->left)
            stop = vvi_split_trim_end(&t->classes, plain, at);
        if (added->right)
            behind = vvi_split_trim_start(&t->classes, behind, end);
        VV_TRY(encode_plain(e, plain, stop));
        VV_TRY(grow(&e->ids, sizeof *e->ids, e->count, 1, &e->room));
        e->ids[e->count++] = added->id;
        at = plain = behind;
    }
    return encode_plain(e, plain, end);
}

static vv_status encode_bytes(vv_encoder *e, const unsigned char *at, size_t bytes)
{
    VV_TRY(grow(&e->ids, sizeof *e->ids, 0, bytes, &e->room));
    for (size_t i = 0; i < bytes; i++)
        e->ids[i] = at[i];
    e->count = bytes;
    return VV_OK;
}

vv_status vv_encoder_encode(vv_encoder *encoder, const char *text, size_t bytes, bool special,
                            const int32_t **ids, int64_t *count)
{
    const unsigned char *at = (const unsigned char *)text;
    const vv_tokenizer *t = encoder->tokenizer;
    *ids = NULL;
    *count = 0;
    encoder->count = 0;
    encoder->text = at;
    if (bytes > MAX_TEXT)
        return vv_fail(VV_EINVAL, "a text of %zu bytes is encoded in pieces of at most %zu", bytes,
                       MAX_TEXT);
    if (t->plain_bytes) {
        VV_TRY(encode_bytes(encoder, at, bytes));
    } else {
        const size_t good = vvi_utf8_prefix(text, bytes);
        if (good < bytes)
            return vv_fail(VV_EFORMAT, "byte %zu is 0x%02x, which is not UTF-8 there", good,
                           at[good]);
        const bool look = special ? t->added_count > 0 : t->added_ordinary;
        VV_TRY(look ? encode_added(encoder, at, at + bytes, special)
                    : encode_plain(encoder, at, at + bytes));
    }
    VV_TRY(grow(&encoder->ids, sizeof *encoder->ids, encoder->count, 1, &encoder->room));
    *ids = encoder->ids;
    *count = (int64_t)encoder->count;
    return VV_OK;
}
