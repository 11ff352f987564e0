/* tokenizer_save.c - a tokenizer as Hugging Face's tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/file.h"
#include "data/tokenizer/tokenizer_impl.h"

/* Bytes as byte characters. They need no escapes but for the quote and the backslash. */
static void add_chars(vv_str *out, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char c[2];
        const size_t length = vvi_byte_char(bytes[i], c);
        if (c[0] == '"' || c[0] == '\\')
            vv_str_add(out, "\\");
        vv_str_addn(out, c, length);
    }
}

static void add_token(vv_str *out, const vv_tokenizer *t, int32_t id)
{
    add_chars(out, t->pool + t->tokens[id].at, t->tokens[id].bytes);
}

/* A literal text that may have any bytes but NUL. */
static vv_status add_literal(vv_str *out, const unsigned char *bytes, size_t count)
{
    char *copy;
    VV_TRY(vv_alloc(&copy, count + 1));
    memcpy(copy, bytes, count);
    vv_str_add_json(out, copy);
    vv_dealloc(copy);
    return VV_OK;
}

static vv_status add_added(vv_str *out, const vv_tokenizer *t)
{
    for (int i = 0; i < t->added_count; i++) {
        const vvi_added *a = &t->added[i];
        vv_str_addf(out, "%s\n    {\"id\": %d, \"content\": ", i ? "," : "", (int)a->id);
        VV_TRY(add_literal(out, t->pool + t->tokens[a->id].at, t->tokens[a->id].bytes));
        vv_str_addf(out, ", \"single_word\": false, \"lstrip\": %s, \"rstrip\": %s, "
                         "\"normalized\": false, \"special\": %s}",
                    a->left ? "true" : "false", a->right ? "true" : "false",
                    a->special ? "true" : "false");
    }
    return VV_OK;
}

static void add_byte_level(vv_str *out, bool prefix_space, bool use_regex)
{
    vv_str_addf(out, "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": true, "
                     "\"use_regex\": %s}", prefix_space ? "true" : "false",
                use_regex ? "true" : "false");
}

static void add_pre_tokenizer(vv_str *out, const vv_tokenizer *t)
{
    if (t->splitter_count == 0 ||
        (t->splitter_count == 1 && t->splitters[0].kind == VVI_SPLIT_GPT2)) {
        add_byte_level(out, t->prefix_space, t->splitter_count == 1);
        return;
    }
    vv_str_add(out, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    for (int i = 0; i < t->splitter_count; i++) {
        vv_str_add(out, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
        vv_str_add_json(out, t->splitters[i].pattern);
        vv_str_add(out, "}, \"behavior\": \"Isolated\", \"invert\": false}, ");
    }
    add_byte_level(out, t->prefix_space, false);
    vv_str_add(out, "]}");
}

static bool is_added(const vv_tokenizer *t, int32_t id)
{
    for (int i = 0; i < t->added_count; i++)
        if (t->added[i].id == id)
            return true;
    return false;
}

static void add_vocabulary(vv_str *out, const vv_tokenizer *t)
{
    const char *comma = "";
    for (int32_t id = 0; id < t->vocab; id++) {
        if (!t->tokens[id].used || t->tokens[id].bytes == 0 || is_added(t, id))
            continue;
        vv_str_addf(out, "%s\n      \"", comma);
        add_token(out, t, id);
        vv_str_addf(out, "\": %d", (int)id);
        comma = ",";
    }
}

static int by_rank(const void *a, const void *b)
{
    const int32_t left = ((const vvi_merge *)a)->rank, right = ((const vvi_merge *)b)->rank;
    return left < right ? -1 : left > right;
}

static vv_status add_merges(vv_str *out, const vv_tokenizer *t)
{
    vvi_merge *merges;
    size_t count = 0;
    VV_TRY(vv_alloc_array(&merges, t->merges.count, sizeof *merges));
    for (size_t i = 0; t->merges.places && i <= t->merges.mask; i++)
        if (t->merges.places[i].rank >= 0)
            merges[count++] = t->merges.places[i];
    if (count > 1)
        qsort(merges, count, sizeof *merges, by_rank);
    for (size_t i = 0; i < count; i++) {
        vv_str_add(out, i ? ",\n      \"" : "\n      \"");
        add_token(out, t, (int32_t)(merges[i].pair >> 32));
        vv_str_add(out, " ");
        add_token(out, t, (int32_t)(merges[i].pair & 0xffffffffu));
        vv_str_add(out, "\"");
    }
    vv_dealloc(merges);
    return VV_OK;
}

vv_status vv_tokenizer_save(const vv_tokenizer *tokenizer, const char *path)
{
    vv_status status;
    vv_str out = {0};
    if (tokenizer->wordpiece)
        return vv_fail(VV_EUNSUPPORTED, "%s: a tokenizer of BERT's is not saved as tokenizer.json; "
                                        "keep its vocab.txt", tokenizer->name);
    vv_str_add(&out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                     "  \"added_tokens\": [");
    VV_GO(add_added(&out, tokenizer));
    vv_str_add(&out, "],\n  \"normalizer\": null,\n  \"pre_tokenizer\": ");
    add_pre_tokenizer(&out, tokenizer);
    vv_str_add(&out, ",\n  \"post_processor\": null,\n  \"decoder\": ");
    add_byte_level(&out, false, true);
    vv_str_addf(&out, ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                      "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                      "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                      "    \"byte_fallback\": false,\n    \"ignore_merges\": %s,\n"
                      "    \"vocab\": {", tokenizer->whole_words ? "true" : "false");
    add_vocabulary(&out, tokenizer);
    vv_str_add(&out, "\n    },\n    \"merges\": [");
    VV_GO(add_merges(&out, tokenizer));
    vv_str_add(&out, "\n    ]\n  }\n}\n");
    VV_GO(vv_str_status(&out));
    VV_GO(vvi_file_write_atomic(path, out.text, out.length));
out:
    vv_str_fini(&out);
    return status;
}
