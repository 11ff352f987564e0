/* tokenizer_json.c - Hugging Face's tokenizer.json, as far as it is a byte-level BPE: model BPE,
 * pre-tokenizers ByteLevel and Split, added tokens. What would change ids and is not known is
 * refused. Post-processors only add tokens around a text, and decoders only undo; both are left. */
#include <string.h>

#include "data/tokenizer/vocabulary_json.h"

#include <vivace/memory.h>

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static vv_status unsupported(const char *name, const char *what, const char *value)
{
    return vv_fail(VV_EUNSUPPORTED, "%s: %s '%s' is not known here; byte-level BPE with the "
                                    "pre-tokenizers ByteLevel and Split is", name, what, value);
}

static bool is_null(json_t *value)
{
    return !value || json_is_null(value);
}

/* ---- pre-tokenizers ---- */

static vv_status read_split(vv_tokenizer *t, json_t *part)
{
    json_t *pattern = json_object_get(part, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    if (strcmp(text_of(part, "behavior"), "Isolated") != 0)
        return unsupported(t->name, "Split with behavior", text_of(part, "behavior"));
    if (!regex)
        return unsupported(t->name, "Split with a pattern other than", "Regex");
    return vvi_tokenizer_split(t, regex);
}

static vv_status read_byte_level(vv_tokenizer *t, json_t *part)
{
    if (json_is_true(json_object_get(part, "add_prefix_space"))) {
        if (t->splitter_count > 0)
            return unsupported(t->name, "ByteLevel behind Split with", "add_prefix_space");
        t->prefix_space = true;
    }
    return json_is_false(json_object_get(part, "use_regex"))
               ? VV_OK
               : vvi_tokenizer_split(t, VVI_GPT2_PATTERN);
}

static vv_status read_pre_tokenizer(vv_tokenizer *t, json_t *part, bool *byte_level)
{
    const char *type = text_of(part, "type");
    if (strcmp(type, "Sequence") == 0) {
        json_t *parts = json_object_get(part, "pretokenizers");
        for (size_t i = 0; i < json_array_size(parts); i++) {
            json_t *inner = json_array_get(parts, i);
            if (strcmp(text_of(inner, "type"), "Sequence") == 0)
                return unsupported(t->name, "inside a Sequence, a", "Sequence");
            VV_TRY(read_pre_tokenizer(t, inner, byte_level));
        }
        return VV_OK;
    }
    if (*byte_level) /* it would cut a text that is bytes as characters already */
        return unsupported(t->name, "behind ByteLevel, the pre-tokenizer", type);
    if (strcmp(type, "Split") == 0)
        return read_split(t, part);
    if (strcmp(type, "ByteLevel") != 0)
        return unsupported(t->name, "the pre-tokenizer", type);
    *byte_level = true;
    return read_byte_level(t, part);
}

/* ---- the model ---- */

static vv_status check_model(const char *name, json_t *root, json_t *model)
{
    json_t *normalizer = json_object_get(root, "normalizer");
    const char *type = text_of(model, "type");
    if (!is_null(normalizer))
        return unsupported(name, "the normalizer", text_of(normalizer, "type"));
    if (strcmp(type, "BPE") != 0 && !(!type[0] && json_object_get(model, "merges")))
        return unsupported(name, "the model", type);
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++)
        if (text_of(model, affixes[i])[0])
            return unsupported(name, affixes[i], text_of(model, affixes[i]));
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return unsupported(name, "a model with", "byte_fallback");
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return unsupported(name, "a model with", "dropout");
    return VV_OK;
}

/* A merge is "left right", or ["left", "right"]. */
static vv_status read_merge(vv_tokenizer *t, json_t *merge, size_t expected)
{
    const char *left = json_string_value(merge), *right = NULL;
    size_t lefts = 0;
    if (left) {
        right = strchr(left, ' ');
        lefts = right ? (size_t)(right - left) : 0;
        right = right ? right + 1 : NULL;
    } else if (json_array_size(merge) == 2) {
        left = json_string_value(json_array_get(merge, 0));
        right = json_string_value(json_array_get(merge, 1));
        lefts = left ? strlen(left) : 0;
    }
    if (!left || !right || lefts == 0 || !right[0])
        return vv_fail(VV_EFORMAT, "%s: merge %zu: expected \"left right\" or [\"left\", "
                                   "\"right\"]", t->name, t->merges.count);
    return vvi_vocabulary_merge(t, left, lefts, right, strlen(right), expected);
}

/* ---- added tokens ---- */

static vv_status added_size(int64_t *vocab, const char *name, json_t *added)
{
    int64_t limit = 2 * (*vocab + (int64_t)json_array_size(added)) + 65536;
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_t *id = json_object_get(json_array_get(added, i), "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= limit ||
            !text_of(json_array_get(added, i), "content")[0])
            return vv_fail(VV_EFORMAT, "%s: added token %zu: expected a content and an id from 0 "
                                       "to %lld", name, i, (long long)limit - 1);
        if (json_integer_value(id) >= *vocab)
            *vocab = json_integer_value(id) + 1;
    }
    return VV_OK;
}

/* Their texts. Where the vocabulary has given the id already, its text was read as byte characters,
   which an added token is not written in. */
static vv_status set_added(vv_tokenizer *t, json_t *added)
{
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_t *token = json_array_get(added, i);
        const int64_t id = json_integer_value(json_object_get(token, "id"));
        const char *content = text_of(token, "content");
        t->tokens[id].used = false;
        VV_TRY(vvi_tokenizer_set(t, id, content, strlen(content)));
    }
    return VV_OK;
}

static vv_status add_added(vv_tokenizer *t, json_t *added)
{
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_t *token = json_array_get(added, i);
        if (json_is_true(json_object_get(token, "single_word")))
            return unsupported(t->name, "an added token with", "single_word");
        VV_TRY(vvi_tokenizer_add(
            t, (vvi_added){
                   .id = (int32_t)json_integer_value(json_object_get(token, "id")),
                   .special = json_is_true(json_object_get(token, "special")),
                   .left = json_is_true(json_object_get(token, "lstrip")),
                   .right = json_is_true(json_object_get(token, "rstrip")),
               }));
    }
    return VV_OK;
}

static vv_status read_model(vv_tokenizer *t, json_t *model)
{
    json_t *merges = json_object_get(model, "merges");
    VV_TRY(vvi_tokenizer_index(t));
    t->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    for (size_t i = 0; i < json_array_size(merges); i++)
        VV_TRY(read_merge(t, json_array_get(merges, i), json_array_size(merges)));
    return VV_OK;
}

vv_status vvi_tokenizer_parse_json(vv_tokenizer **out, const char *name, const char *text,
                                   size_t bytes)
{
    vv_status status;
    vv_tokenizer *tokenizer = NULL;
    json_t *root = NULL;
    int64_t vocab = 0;
    bool byte_level = false;
    *out = NULL;
    VV_GO(vvi_json_object(&root, name, text, bytes));
    json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    json_t *ids = json_object_get(model, "vocab");
    VV_GO(check_model(name, root, model));
    VV_GO(vvi_vocabulary_size(&vocab, name, ids));
    VV_GO(added_size(&vocab, name, added));
    VV_GO(vvi_tokenizer_new(&tokenizer, name, vocab));
    VV_GO(vvi_vocabulary_set(tokenizer, ids));
    VV_GO(set_added(tokenizer, added));
    VV_GO(read_model(tokenizer, model));
    VV_GO(read_pre_tokenizer(tokenizer, json_object_get(root, "pre_tokenizer"), &byte_level));
    if (!byte_level) {
        status = unsupported(name, "a BPE without", "ByteLevel");
        goto out;
    }
    VV_GO(add_added(tokenizer, added));
    VV_GO(vvi_tokenizer_finish(tokenizer));
    *out = tokenizer;
    tokenizer = NULL;
out:
    vv_tokenizer_free(tokenizer);
    json_decref(root);
    return status;
}
