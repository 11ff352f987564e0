/* tokenizer.c - tokenizers: made piece by piece by the readers of files, looked up, decoded. */
#include "data/tokenizer/tokenizer_impl.h"

#include <string.h>

#include <vivace/memory.h>

#include "data/sha256.h"

#define EMPTY (-1)

/* A name may be anything; ids beyond what a file of this many tokens can need are refused. */
vv_status vvi_tokenizer_new(vv_tokenizer **out, const char *name, int64_t vocab)
{
    vv_status status;
    vv_tokenizer *tokenizer = NULL;
    *out = NULL;
    if (vocab < 1 || vocab > INT32_MAX / 2)
        return vv_fail(VV_EFORMAT, "%s: expected 1 to %d tokens, found %lld", name, INT32_MAX / 2,
                       (long long)vocab);
    VV_GO(vv_alloc(&tokenizer, sizeof *tokenizer));
    VV_GO(vv_strdup(&tokenizer->name, name));
    VV_GO(vv_alloc_array(&tokenizer->tokens, (size_t)vocab, sizeof *tokenizer->tokens));
    tokenizer->vocab = vocab;
    tokenizer->end = -1;
    for (int b = 0; b < 256; b++)
        tokenizer->byte_id[b] = -1;
    vvi_char_classes_init(&tokenizer->classes);
    *out = tokenizer;
    return VV_OK;
out:
    vv_tokenizer_free(tokenizer);
    return status;
}

void vv_tokenizer_free(vv_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    for (int i = 0; i < tokenizer->splitter_count; i++) {
        vv_dealloc(tokenizer->splitters[i].pattern);
        vvi_regex_free(tokenizer->splitters[i].regex);
    }
    vv_dealloc(tokenizer->added);
    vv_dealloc(tokenizer->merges.places);
    vv_dealloc(tokenizer->index);
    vv_dealloc(tokenizer->pool);
    vv_dealloc(tokenizer->tokens);
    vv_dealloc(tokenizer->name);
    vv_dealloc(tokenizer);
}

vv_status vvi_tokenizer_set(vv_tokenizer *t, int64_t id, const void *bytes, size_t count)
{
    if (id < 0 || id >= t->vocab)
        return vv_fail(VV_EFORMAT, "%s: the id %lld is outside 0 to %lld", t->name, (long long)id,
                       (long long)t->vocab - 1);
    vvi_token *token = &t->tokens[id];
    if (token->used)
        return vv_fail(VV_EFORMAT, "%s: the id %lld is given twice", t->name, (long long)id);
    if (count > UINT32_MAX / 2)
        return vv_fail(VV_EFORMAT, "%s: token %lld is too long", t->name, (long long)id);
    if (t->pool_room - t->pool_used < count) {
        size_t room = t->pool_room ? t->pool_room : 1024;
        while (room - t->pool_used < count)
            VV_TRY(vv_size_mul(&room, room, 2));
        VV_TRY(vv_realloc_array(&t->pool, room, 1));
        t->pool_room = room;
    }
    if (count > 0)
        memcpy(t->pool + t->pool_used, bytes, count);
    *token = (vvi_token){t->pool_used, (uint32_t)count, true};
    t->pool_used += count;
    return VV_OK;
}

/* ---- from bytes to ids ---- */

static size_t index_place(const vv_tokenizer *t, const unsigned char *bytes, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return (size_t)(hash ^ hash >> 32) & t->index_mask;
}

static bool token_is(const vv_tokenizer *t, int32_t id, const void *bytes, size_t count)
{
    const vvi_token *token = &t->tokens[id];
    return token->bytes == count && memcmp(t->pool + token->at, bytes, count) == 0;
}

int32_t vvi_tokenizer_lookup(const vv_tokenizer *t, const void *bytes, size_t count)
{
    if (!t->index || count == 0)
        return -1;
    for (size_t i = index_place(t, bytes, count); t->index[i] != EMPTY; i = (i + 1) & t->index_mask)
        if (token_is(t, t->index[i], bytes, count))
            return t->index[i];
    return -1;
}

vv_status vvi_tokenizer_index(vv_tokenizer *t)
{
    size_t places = 16;
    while (places / 2 < (size_t)t->vocab)
        places *= 2;
    VV_TRY(vv_alloc_array(&t->index, places, sizeof *t->index));
    t->index_mask = places - 1;
    for (size_t i = 0; i < places; i++)
        t->index[i] = EMPTY;
    for (int32_t id = 0; id < t->vocab; id++) {
        const vvi_token *token = &t->tokens[id];
        const unsigned char *bytes = t->pool + token->at;
        if (!token->used || token->bytes == 0 ||
            vvi_tokenizer_lookup(t, bytes, token->bytes) >= 0)
            continue;
        size_t i = index_place(t, bytes, token->bytes);
        while (t->index[i] != EMPTY)
            i = (i + 1) & t->index_mask;
        t->index[i] = id;
        if (token->bytes == 1)
            t->byte_id[bytes[0]] = id;
    }
    return VV_OK;
}

vv_status vvi_tokenizer_merge(vv_tokenizer *t, const void *left, size_t lefts, const void *right,
                              size_t rights, size_t expected)
{
    vv_status status = VV_OK;
    unsigned char *both = NULL;
    if (!t->merges.places)
        VV_TRY(vvi_merges_init(&t->merges, expected));
    VV_TRY(vv_alloc(&both, lefts + rights + 1));
    if (lefts > 0)
        memcpy(both, left, lefts);
    if (rights > 0)
        memcpy(both + lefts, right, rights);
    const int32_t l = vvi_tokenizer_lookup(t, left, lefts);
    const int32_t r = vvi_tokenizer_lookup(t, right, rights);
    const int32_t id = vvi_tokenizer_lookup(t, both, lefts + rights);
    if (l < 0 || r < 0 || id < 0)
        status = vv_fail(VV_EFORMAT, "%s: merge %zu joins '%.*s' and '%.*s', but %s is no token of "
                                     "the vocabulary", t->name, t->merges.count, (int)lefts,
                         (const char *)left, (int)rights, (const char *)right,
                         l < 0 ? "the first" : r < 0 ? "the second" : "what they give");
    else
        vvi_merges_put(&t->merges, l, r, (int32_t)t->merges.count, id);
    vv_dealloc(both);
    return status;
}

vv_status vvi_tokenizer_add(vv_tokenizer *t, vvi_added added)
{
    if (added.id < 0 || added.id >= t->vocab || !t->tokens[added.id].used ||
        t->tokens[added.id].bytes == 0)
        return vv_fail(VV_EFORMAT, "%s: the added token %d has no text", t->name, (int)added.id);
    VV_TRY(vv_realloc_array(&t->added, (size_t)t->added_count + 1, sizeof *t->added));
    t->added[t->added_count++] = added;
    t->added_ordinary = t->added_ordinary || !added.special;
    t->added_start[t->pool[t->tokens[added.id].at]] = true;
    return VV_OK;
}

vv_status vvi_tokenizer_split(vv_tokenizer *t, const char *pattern)
{
    if (t->splitter_count == VVI_MAX_SPLITTERS)
        return vv_fail(VV_EUNSUPPORTED, "%s: more than %d expressions cut the text", t->name,
                       VVI_MAX_SPLITTERS);
    vvi_splitter *splitter = &t->splitters[t->splitter_count++];
    *splitter = (vvi_splitter){.kind = VVI_SPLIT_GPT2};
    VV_TRY(vv_strdup(&splitter->pattern, pattern));
    if (strcmp(pattern, VVI_GPT2_PATTERN) == 0)
        return VV_OK;
    splitter->kind = VVI_SPLIT_REGEX;
    return vv_fail_within(vvi_regex_new(&splitter->regex, pattern), "%s", t->name);
}

/* ---- when all is there ---- */

static void sum_number(vvi_sha256 *sha, int64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
    vvi_sha256_add(sha, bytes, sizeof bytes);
}

/* Merges are summed without regard to their place in the table: each is a number, and numbers add
   up. */
static uint64_t merges_sum(const vvi_merges *merges)
{
    uint64_t sum = 0;
    for (size_t i = 0; merges->places && i <= merges->mask; i++) {
        const vvi_merge *m = &merges->places[i];
        if (m->rank < 0)
            continue;
        uint64_t mixed = m->pair * 0x9e3779b97f4a7c15u ^ (uint64_t)(uint32_t)m->rank << 32;
        mixed = (mixed ^ mixed >> 29 ^ (uint32_t)m->id) * 0xbf58476d1ce4e5b9u;
        sum += mixed ^ mixed >> 32;
    }
    return sum;
}

static void take_fingerprint(vv_tokenizer *t)
{
    vvi_sha256 sha;
    vvi_sha256_init(&sha);
    sum_number(&sha, t->vocab);
    sum_number(&sha, t->plain_bytes | t->prefix_space << 1 | t->whole_words << 2 |
                         t->wordpiece << 3 | t->lower << 4);
    for (int64_t id = 0; id < t->vocab; id++) {
        sum_number(&sha, t->tokens[id].used ? (int64_t)t->tokens[id].bytes : -1);
        if (t->tokens[id].bytes > 0)
            vvi_sha256_add(&sha, t->pool + t->tokens[id].at, t->tokens[id].bytes);
    }
    sum_number(&sha, (int64_t)merges_sum(&t->merges));
    for (int i = 0; i < t->added_count; i++) {
        const vvi_added *a = &t->added[i];
        sum_number(&sha, (int64_t)a->id << 3 | a->special | a->left << 1 | a->right << 2);
    }
    for (int i = 0; i < t->splitter_count; i++)
        vvi_sha256_add(&sha, t->splitters[i].pattern, strlen(t->splitters[i].pattern) + 1);
    vvi_sha256_hex(&sha, t->fingerprint);
}

vv_status vvi_tokenizer_finish(vv_tokenizer *t)
{
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends && t->end < 0; i++) {
        const int32_t id = vvi_tokenizer_lookup(t, ends[i], strlen(ends[i]));
        for (int a = 0; a < t->added_count; a++)
            if (id >= 0 && t->added[a].id == id)
                t->end = id;
    }
    take_fingerprint(t);
    return VV_OK;
}

/* ---- what users ask ---- */

int64_t vv_tokenizer_vocab(const vv_tokenizer *tokenizer)
{
    return tokenizer->vocab;
}

int32_t vv_tokenizer_end(const vv_tokenizer *tokenizer)
{
    return tokenizer->end;
}

int32_t vv_tokenizer_find(const vv_tokenizer *tokenizer, const char *text)
{
    return vvi_tokenizer_lookup(tokenizer, text, strlen(text));
}

const char *vv_tokenizer_name(const vv_tokenizer *tokenizer)
{
    return tokenizer->name;
}

const char *vv_tokenizer_fingerprint(const vv_tokenizer *tokenizer)
{
    return tokenizer->fingerprint;
}

vv_status vv_tokenizer_token(const vv_tokenizer *t, int32_t id, const void **bytes, size_t *count)
{
    *bytes = NULL;
    *count = 0;
    if (id < 0 || id >= t->vocab)
        return vv_fail(VV_EINVAL, "tokenizer %s: token %d is beyond the vocabulary of %lld",
                       t->name, (int)id, (long long)t->vocab);
    if (!t->tokens[id].used)
        return vv_fail(VV_EINVAL, "tokenizer %s: no token has the id %d", t->name, (int)id);
    *bytes = t->pool + t->tokens[id].at;
    *count = t->tokens[id].bytes;
    return VV_OK;
}

vv_status vv_tokenizer_decode(const vv_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                              vv_str *out)
{
    for (int64_t i = 0; i < count; i++) {
        const void *bytes;
        size_t length;
        VV_TRY(vv_tokenizer_token(tokenizer, ids[i], &bytes, &length));
        if (tokenizer->wordpiece)
            vvi_wordpiece_decode(bytes, length, i == 0, out);
        else
            vv_str_addn(out, bytes, length);
    }
    return vv_str_status(out);
}

vv_status vv_tokenizer_encode(const vv_tokenizer *tokenizer, const char *text, size_t bytes,
                              bool special, int32_t **ids, int64_t *count)
{
    vv_status status;
    vv_encoder *encoder;
    const int32_t *found;
    *ids = NULL;
    *count = 0;
    VV_TRY(vv_encoder_new(&encoder, tokenizer));
    VV_GO(vv_encoder_encode(encoder, text, bytes, special, &found, count));
    VV_GO(vv_alloc_array(ids, (size_t)*count, sizeof **ids));
    if (*count > 0)
        memcpy(*ids, found, (size_t)*count * sizeof **ids);
out:
    vv_encoder_free(encoder);
    return status;
}
