/* tokenizer_gpt2.c - GPT-2's two files: vocab.bpe (a version line, then the merges in rising rank,
 * two tokens a line) and encoder.json (the ids). */
#include <string.h>

#include "data/tokenizer/vocabulary_json.h"

static const char *line_end(const char *at, const char *end)
{
    const char *found = memchr(at, '\n', (size_t)(end - at));
    return found ? found : end;
}

static size_t count_lines(const char *at, const char *end)
{
    size_t lines = 0;
    for (; at < end; at = line_end(at, end) + 1)
        lines++;
    return lines;
}

static vv_status read_merges(vv_tokenizer *tokenizer, const char *at, const char *end)
{
    const size_t expected = count_lines(at, end);
    const char *name = tokenizer->name;
    for (size_t line = 1; at < end; line++) {
        const char *stop = line_end(at, end), *next = stop < end ? stop + 1 : end;
        if (stop > at && stop[-1] == '\r')
            stop--;
        const bool version = line == 1 && stop - at >= 9 && memcmp(at, "#version:", 9) == 0;
        if (!version && stop > at) {
            const char *space = memchr(at, ' ', (size_t)(stop - at));
            if (!space || space == at || space + 1 == stop ||
                memchr(space + 1, ' ', (size_t)(stop - space - 1)))
                return vv_fail(VV_EFORMAT, "%s: line %zu of the merges: expected two tokens with a "
                                           "blank between, found '%.*s'", name, line,
                               stop - at < 80 ? (int)(stop - at) : 80, at);
            VV_TRY(vvi_vocabulary_merge(tokenizer, at, (size_t)(space - at), space + 1,
                                        (size_t)(stop - space - 1), expected));
        }
        at = next;
    }
    return VV_OK;
}

vv_status vvi_tokenizer_parse_gpt2(vv_tokenizer **out, const char *name, const char *merges,
                                   size_t merges_bytes, const char *vocabulary,
                                   size_t vocabulary_bytes)
{
    static const char end_of_text[] = "<|endoftext|>";
    vv_status status;
    vv_tokenizer *tokenizer = NULL;
    json_t *ids = NULL;
    int64_t vocab = 0;
    *out = NULL;
    VV_GO(vvi_json_object(&ids, name, vocabulary, vocabulary_bytes));
    VV_GO(vvi_vocabulary_size(&vocab, name, ids));
    VV_GO(vvi_tokenizer_new(&tokenizer, name, vocab));
    VV_GO(vvi_vocabulary_set(tokenizer, ids));
    VV_GO(vvi_tokenizer_index(tokenizer));
    VV_GO(read_merges(tokenizer, merges, merges + merges_bytes));
    VV_GO(vvi_tokenizer_split(tokenizer, VVI_GPT2_PATTERN));
    const int32_t end = vvi_tokenizer_lookup(tokenizer, end_of_text, sizeof end_of_text - 1);
    if (end >= 0)
        VV_GO(vvi_tokenizer_add(tokenizer, (vvi_added){.id = end, .special = true}));
    VV_GO(vvi_tokenizer_finish(tokenizer));
    *out = tokenizer;
    tokenizer = NULL;
out:
    vv_tokenizer_free(tokenizer);
    json_decref(ids);
    return status;
}
