/* tokenizer_open.c - a tokenizer by name, folder or file. */
#include <string.h>

#include <vivace/memory.h>

#include "base/file.h"
#include "data/data_file.h"
#include "data/tokenizer/tokenizer_impl.h"

#define MAX_FILE_BYTES ((size_t)1 << 30)

static vv_status open_bytes(vv_tokenizer **out)
{
    vv_tokenizer *tokenizer;
    *out = NULL;
    VV_TRY(vvi_tokenizer_new(&tokenizer, "bytes", 256));
    tokenizer->plain_bytes = true;
    vv_status status = VV_OK;
    for (int b = 0; b < 256 && status == VV_OK; b++) {
        const unsigned char byte = (unsigned char)b;
        status = vvi_tokenizer_set(tokenizer, b, &byte, 1);
    }
    if (status == VV_OK)
        status = vvi_tokenizer_index(tokenizer);
    if (status == VV_OK)
        status = vvi_tokenizer_finish(tokenizer);
    if (status == VV_OK)
        *out = tokenizer;
    else
        vv_tokenizer_free(tokenizer);
    return status;
}

static vv_status open_json(vv_tokenizer **out, const char *path)
{
    char *text;
    size_t bytes;
    VV_TRY(vvi_file_read_head(&text, &bytes, path, MAX_FILE_BYTES));
    const vv_status status = vvi_tokenizer_parse_json(out, path, text, bytes);
    vv_dealloc(text);
    return status;
}

static vv_status open_pair(vv_tokenizer **out, const char *merges_path, const char *ids_path)
{
    vv_status status;
    char *merges = NULL, *ids = NULL;
    size_t merges_bytes, ids_bytes;
    VV_GO(vvi_file_read_head(&merges, &merges_bytes, merges_path, MAX_FILE_BYTES));
    VV_GO(vvi_file_read_head(&ids, &ids_bytes, ids_path, MAX_FILE_BYTES));
    VV_GO(vvi_tokenizer_parse_gpt2(out, merges_path, merges, merges_bytes, ids, ids_bytes));
out:
    vv_dealloc(merges);
    vv_dealloc(ids);
    return status;
}

/* BERT's vocab.txt, with tokenizer_config.json if it is there. It comes first: a tokenizer.json
   beside it says the same in another way. */
static vv_status open_wordpiece(vv_tokenizer **out, const char *folder)
{
    vv_status status;
    char *path = NULL, *config_path = NULL, *text = NULL, *config = NULL;
    size_t bytes, config_bytes = 0;
    VV_GO(vvi_path_join(&path, folder, "vocab.txt"));
    VV_GO(vvi_path_join(&config_path, folder, "tokenizer_config.json"));
    VV_GO(vvi_file_read_head(&text, &bytes, path, MAX_FILE_BYTES));
    if (vvi_exists(config_path))
        VV_GO(vvi_file_read_head(&config, &config_bytes, config_path, MAX_FILE_BYTES));
    status = vvi_tokenizer_parse_wordpiece(out, path, text, bytes, config, config_bytes);
out:
    vv_dealloc(path);
    vv_dealloc(config_path);
    vv_dealloc(text);
    vv_dealloc(config);
    return status;
}

static vv_status open_folder(vv_tokenizer **out, const char *folder)
{
    static const char *const pairs[][2] = {{"vocab.bpe", "encoder.json"},
                                           {"merges.txt", "vocab.json"}};
    vv_status status;
    char *first = NULL, *second = NULL;
    VV_GO(vvi_path_join(&first, folder, "tokenizer.json"));
    VV_GO(vvi_path_join(&second, folder, "vocab.txt"));
    if (vvi_exists(second) || vvi_exists(first)) {
        status = vvi_exists(second) ? open_wordpiece(out, folder) : open_json(out, first);
        goto out;
    }
    for (size_t i = 0; i < 2; i++) {
        vv_dealloc(first);
        vv_dealloc(second);
        first = second = NULL;
        VV_GO(vvi_path_join(&first, folder, pairs[i][0]));
        VV_GO(vvi_path_join(&second, folder, pairs[i][1]));
        if (vvi_exists(first) && vvi_exists(second)) {
            status = open_pair(out, first, second);
            goto out;
        }
    }
    status = vv_fail(VV_ENOTFOUND, "%s: no tokenizer in it: neither tokenizer.json, nor vocab.bpe "
                                   "with encoder.json, nor merges.txt with vocab.json, nor "
                                   "vocab.txt", folder);
out:
    vv_dealloc(first);
    vv_dealloc(second);
    return status;
}

static vv_status open_gpt2(vv_tokenizer **out)
{
    static const char *const names[] = {"gpt2-bpe", "gpt2"};
    for (size_t i = 0; i < 2; i++) {
        char *folder;
        VV_TRY(vvi_dataset_home(&folder, names[i]));
        if (folder && vvi_is_folder(folder)) {
            const vv_status status = open_folder(out, folder);
            vv_dealloc(folder);
            return status;
        }
        vv_dealloc(folder);
    }
    return vv_fail(VV_ENOTFOUND, "tokenizer gpt2: no folder gpt2-bpe or gpt2 in VIVACE_DATA; put "
                                 "GPT-2's vocab.bpe and encoder.json there, or name their folder");
}

vv_status vv_tokenizer_open(vv_tokenizer **out, const char *name)
{
    *out = NULL;
    if (strcmp(name, "bytes") == 0)
        return open_bytes(out);
    vv_status status = vvi_is_folder(name) ? open_folder(out, name)
                       : vvi_exists(name)  ? open_json(out, name)
                       : strcmp(name, "gpt2") == 0
                           ? open_gpt2(out)
                           : vv_fail(VV_ENOTFOUND, "tokenizer '%s' does not exist; it is bytes, "
                                                   "gpt2, a folder or a tokenizer.json", name);
    if (status != VV_OK)
        return status;
    char *copy;
    status = vv_strdup(&copy, name);
    if (status != VV_OK) {
        vv_tokenizer_free(*out);
        *out = NULL;
        return status;
    }
    vv_dealloc((*out)->name);
    (*out)->name = copy;
    return VV_OK;
}
