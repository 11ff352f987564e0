/* vocabulary_json.c - vocabularies as JSON objects {"token": id}, written in byte characters. */
#include "data/tokenizer/vocabulary_json.h"

#include <string.h>

#include <vivace/memory.h>

#define SPARE_IDS 65536 /* so many may be empty in any vocabulary */

vv_status vvi_json_object(json_t **out, const char *name, const char *text, size_t bytes)
{
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*out)
        return json_error_code(&error) == json_error_out_of_memory
                   ? vv_fail(VV_ENOMEM, "%s: out of memory while its JSON is read", name)
                   : vv_fail(VV_EFORMAT, "%s: line %d: this is no JSON: %s", name, error.line,
                             error.text);
    if (json_is_object(*out))
        return VV_OK;
    json_decref(*out);
    *out = NULL;
    return vv_fail(VV_EFORMAT, "%s: expected a JSON object", name);
}

vv_status vvi_vocabulary_size(int64_t *vocab, const char *name, json_t *ids)
{
    const char *text;
    json_t *id;
    int64_t most = *vocab - 1;
    if (!json_is_object(ids) || json_object_size(ids) == 0)
        return vv_fail(VV_EFORMAT, "%s: expected a vocabulary, an object {\"token\": id, ...}",
                       name);
    const int64_t limit = 2 * (int64_t)json_object_size(ids) + SPARE_IDS;
    json_object_foreach(ids, text, id)
    {
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= limit)
            return vv_fail(VV_EFORMAT, "%s: the id of token '%.100s' is no number from 0 to %lld",
                           name, text, (long long)limit - 1);
        most = json_integer_value(id) > most ? json_integer_value(id) : most;
    }
    *vocab = most + 1;
    return VV_OK;
}

vv_status vvi_vocabulary_set(vv_tokenizer *tokenizer, json_t *ids)
{
    vv_status status = VV_OK;
    const char *text;
    json_t *id;
    unsigned char *bytes = NULL;
    size_t room = 0;
    json_object_foreach(ids, text, id)
    {
        const size_t length = strlen(text);
        size_t count;
        if (length >= room) {
            room = 2 * length + 64;
            VV_GO(vv_realloc_array(&bytes, room, 1));
        }
        const bool chars = vvi_byte_chars_read(text, length, bytes, &count);
        const void *token = chars ? (const void *)bytes : text;
        VV_GO(vvi_tokenizer_set(tokenizer, json_integer_value(id), token, chars ? count : length));
    }
out:
    vv_dealloc(bytes);
    return status;
}

vv_status vvi_vocabulary_merge(vv_tokenizer *tokenizer, const char *left, size_t lefts,
                               const char *right, size_t rights, size_t expected)
{
    vv_status status;
    unsigned char *bytes = NULL;
    size_t l, r;
    VV_TRY(vv_alloc(&bytes, lefts + rights + 1));
    if (vvi_byte_chars_read(left, lefts, bytes, &l) &&
        vvi_byte_chars_read(right, rights, bytes + l, &r))
        status = vvi_tokenizer_merge(tokenizer, bytes, l, bytes + l, r, expected);
    else
        status = vv_fail(VV_EFORMAT, "%s: merge '%.*s %.*s' is not written in byte characters; "
                                     "this is no byte-level BPE", tokenizer->name, (int)lefts,
                         left, (int)rights, right);
    vv_dealloc(bytes);
    return status;
}
