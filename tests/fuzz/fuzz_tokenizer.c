/* fuzz_tokenizer.c - tokenizer.json, and GPT-2's two files (merges, a NUL, the vocabulary): any
 * bytes give a tokenizer that encodes and decodes texts, or a sentence. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/tokenizer/tokenizer_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What comes back is the text again, but for a blank before it and spaces that added tokens
   took. */
static void use(const vv_tokenizer *tokenizer)
{
    static const char text[] =
        "It's the caf\xc3\xa9  12345\n\n<|endoftext|> ab \xf0\x9f\x98\x80!";
    for (int special = 0; special < 2; special++) {
        int32_t *ids;
        int64_t count;
        vv_str back = {0};
        vv_error_clear();
        if (vv_tokenizer_encode(tokenizer, text, sizeof text - 1, special, &ids, &count) != VV_OK) {
            if (!vv_error()[0])
                abort();
            continue;
        }
        for (int64_t i = 0; i < count; i++)
            if (ids[i] < 0 || ids[i] >= vv_tokenizer_vocab(tokenizer))
                abort();
        if (vv_tokenizer_decode(tokenizer, ids, count, &back) != VV_OK)
            abort();
        if (!tokenizer->added_ordinary && !special && !tokenizer->prefix_space &&
            (back.length != sizeof text - 1 || memcmp(back.text, text, back.length) != 0))
            abort();
        vv_str_fini(&back);
        vv_dealloc(ids);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    vv_tokenizer *tokenizer = NULL;
    const char *text = (const char *)data;
    const char *nul = bytes > 0 ? memchr(text, '\0', bytes) : NULL;
    vv_status status;
    vv_error_clear();
    if (nul)
        status = vvi_tokenizer_parse_gpt2(&tokenizer, "fuzz", text, (size_t)(nul - text), nul + 1,
                                          bytes - (size_t)(nul - text) - 1);
    else
        status = vvi_tokenizer_parse_json(&tokenizer, "fuzz", text, bytes);
    if ((status == VV_OK) != (tokenizer != NULL) || (status != VV_OK && !vv_error()[0]))
        abort();
    if (tokenizer)
        use(tokenizer);
    vv_tokenizer_free(tokenizer);
    return 0;
}
