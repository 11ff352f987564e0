/* text.c - the data set text: any text files, tokenised when they are first used.
 *
 * The tokens are kept in a cache folder, under a name that depends on the texts, how they are
 * divided, and the tokenizer. So a changed text is tokenised again, and the same one once. */
#include "text.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/corpus.h>
#include <vivace/ext/data_files.h>
#include <vivace/ext/token_sets.h>
#include <vivace/memory.h>

static const char *const split_names[] = {"documents", "tail", NULL};

#define AT(member) offsetof(vv_text_set_opts, member)
static const vv_field fields[] = {
    {"dir", "File or folder with the text; empty = the folder corpus of $VIVACE_DATA",
     VV_FIELD_STRING, AT(common.dir), "", 0, 0, NULL},
    {"corpus", "Folder of $VIVACE_DATA, as tinyshakespeare or novels-en", VV_FIELD_STRING,
     AT(corpus), "tinyshakespeare", 0, 0, NULL},
    {"files", "Names in folders that count", VV_FIELD_STRING, AT(files), "*.txt,*.md", 0, 0, NULL},
    {"separator", "What stands between documents in a file; empty = a file is a document",
     VV_FIELD_STRING, AT(separator), "", 0, 0, NULL},
    {"tokenizer", "bytes, gpt2, a folder or a tokenizer.json", VV_FIELD_STRING, AT(tokenizer),
     "bytes", 0, 0, NULL},
    {"validation", "Share of the text for evaluation; names like x.train.txt and x.valid.txt decide "
     "instead", VV_FIELD_FLOAT, AT(validation), "0.1", 0, 0.999999, NULL},
    {"split", "Evaluation gets documents drawn by the seed, or the tail of the text",
     VV_FIELD_CHOICE, AT(split), "documents", 0, 0, split_names},
    {"seed", "Of the documents drawn", VV_FIELD_INT, AT(seed), "0", 0, 9e15, NULL},
    {"special", "Texts of special tokens, like <|endoftext|>, become those tokens", VV_FIELD_BOOL,
     AT(special), "false", 0, 0, NULL},
    {"cache", "Folder for the tokens; empty = vivace in $XDG_CACHE_HOME or ~/.cache",
     VV_FIELD_STRING, AT(cache), "", 0, 0, NULL},
    {"seq", "Tokens in a sample", VV_FIELD_INT, AT(seq), "256", 1, 1 << 24, NULL},
    {"stride", "Tokens from one sample's start to the next one's; 0 = seq", VV_FIELD_INT,
     AT(stride), "0", 0, 1 << 24, NULL},
    {"by_document", "No sample crosses the end of a document; short ones are padded",
     VV_FIELD_BOOL, AT(by_document), "false", 0, 0, NULL},
    {"vocabulary", "Tokens the model shall know; 0 = as many as the tokenizer has", VV_FIELD_INT,
     AT(vocabulary), "0", 0, INT32_MAX, NULL},
    {"mask", "Share of the tokens that are masked and to be guessed; 0 = the next token is",
     VV_FIELD_FLOAT, AT(mask), "0", 0, 1, NULL},
    {"mask_id", "Token that stands for a masked one; -1 = one more than there are", VV_FIELD_INT,
     AT(mask_id), "-1", -1, INT32_MAX, NULL},
    {"pad_id", "Token that fills short samples; it has no loss", VV_FIELD_INT, AT(pad_id), "0", 0,
     INT32_MAX, NULL},
    {.name = NULL},
};

/* What is made of the settings on the way to the tokens. */
typedef struct opening {
    char *input;
    vv_corpus *corpus;
    vv_tokenizer *tokenizer;
    vv_str train, eval; /* files in the cache */
} opening;

static void opening_fini(opening *o)
{
    vv_dealloc(o->input);
    vv_corpus_free(o->corpus);
    vv_tokenizer_free(o->tokenizer);
    vv_str_fini(&o->train);
    vv_str_fini(&o->eval);
}

static vv_status find_input(const vv_text_set_opts *o, char **out)
{
    if (o->common.dir && o->common.dir[0])
        return vv_strdup(out, o->common.dir);
    const vv_status status = vv_dataset_find_dir(out, NULL, o->corpus, NULL);
    if (status != VV_ENOTFOUND)
        return status;
    return vv_fail(VV_ENOTFOUND, "no folder %s in $VIVACE_DATA; put text files there, or name a "
                                 "file or folder with dir=", o->corpus);
}

static vv_status find_cache(const vv_text_set_opts *o, vv_str *out)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (o->cache && o->cache[0])
        vv_str_add(out, o->cache);
    else if (xdg && xdg[0] == '/')
        vv_str_addf(out, "%s/vivace", xdg);
    else if (home && home[0])
        vv_str_addf(out, "%s/.cache/vivace", home);
    else
        return vv_fail(VV_ENOTFOUND, "no place for the tokens: neither XDG_CACHE_HOME nor HOME is "
                                     "set; name a folder with cache=");
    return vv_str_status(out);
}

/* CORPUS-TOKENIZER[-special].train.tokens: enough of both fingerprints to tell them apart. */
static vv_status name_files(const vv_text_set_opts *o, opening *at)
{
    char corpus[65];
    vv_str cache = {0};
    vv_status status;
    VV_GO(find_cache(o, &cache));
    VV_GO(vv_corpus_fingerprint(at->corpus, corpus));
    vv_str_addf(&cache, "/%.24s-%.16s%s", corpus, vv_tokenizer_fingerprint(at->tokenizer),
                o->special ? "-special" : "");
    vv_str_addf(&at->train, "%s.train.tokens", vv_str_text(&cache));
    vv_str_addf(&at->eval, "%s.eval.tokens", vv_str_text(&cache));
    VV_GO(vv_str_status(&cache));
    VV_GO(vv_str_status(&at->train));
    VV_GO(vv_str_status(&at->eval));
out:
    vv_str_fini(&cache);
    return status;
}

static vv_status open_corpus(const vv_text_set_opts *o, opening *at)
{
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    VV_TRY(find_input(o, &at->input));
    const char *input = at->input;
    opts.inputs = &input;
    opts.input_count = 1;
    opts.files = o->files;
    opts.separator = o->separator;
    opts.validation = o->validation;
    opts.split = (vv_corpus_split)o->split;
    opts.seed = (uint64_t)o->seed;
    return vv_corpus_open(&at->corpus, &opts);
}

/* The file in the cache, if it is there, whole, and of this tokenizer; else *out = NULL. */
static vv_status open_cached(vv_tokens **out, const opening *at, const char *path)
{
    const vv_status status = vv_tokens_open(out, path);
    if (status == VV_ENOTFOUND || status == VV_EFORMAT)
        return VV_OK;
    VV_TRY(status);
    if (strcmp(vv_tokens_info_of(*out)->tokenizer, vv_tokenizer_fingerprint(at->tokenizer)) != 0) {
        vv_tokens_free(*out);
        *out = NULL;
    }
    return VV_OK;
}

static vv_status open_tokens(vv_tokens **out, const vv_text_set_opts *o, bool train)
{
    vv_status status;
    opening at = {0};
    const vv_tokenize_opts how = {0, o->special, NULL, NULL};
    *out = NULL;
    VV_GO(vv_tokenizer_open(&at.tokenizer, o->tokenizer));
    VV_GO(open_corpus(o, &at));
    if (!train && vv_corpus_info_of(at.corpus)->eval_documents == 0) {
        status = vv_fail(VV_EINVAL, "no text is for evaluation; raise validation, or take the "
                                    "evaluation out of the recipe");
        goto out;
    }
    VV_GO(name_files(o, &at));
    const char *path = vv_str_text(train ? &at.train : &at.eval);
    VV_GO(open_cached(out, &at, path));
    if (!*out) {
        VV_GO(vv_corpus_tokenize(at.corpus, at.tokenizer, &how, vv_str_text(&at.train),
                                 vv_str_text(&at.eval), NULL, NULL));
        VV_GO(vv_tokens_open(out, path));
    }
out:
    opening_fini(&at);
    return status;
}

/* Evaluation counts every token once. */
static vv_token_samples samples_of(const vv_text_set_opts *o, bool train)
{
    vv_token_samples how = VV_TOKEN_SAMPLES_DEFAULTS;
    how.seq = o->seq;
    how.stride = o->stride;
    how.by_document = o->by_document;
    how.each_once = !train;
    how.vocabulary = o->vocabulary;
    how.pad_id = (int32_t)o->pad_id;
    how.mask = o->mask > 0.0;
    how.mask_opts.share = o->mask;
    how.mask_opts.mask_id = (int32_t)o->mask_id;
    how.tokenizer = o->tokenizer;
    return how;
}

static vv_status text_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_text_set_opts *o = opts;
    bool train;
    vv_tokens *tokens;
    *out = NULL;
    VV_TRY(vv_dataset_split(&train, "text", split));
    VV_TRY(vv_fail_within(open_tokens(&tokens, o, train), "data set text"));
    const vv_token_samples how = samples_of(o, train);
    return vv_fail_within(vv_dataset_from_tokens(out, "text", tokens, &how), "%s split", split);
}

/* With the text: as it is. Without: a million samples of the tokenizer's vocabulary; gpt2's is
   known without its files. */
static vv_status text_shape(const void *opts, const char *split, vv_sample_spec *spec,
                            int64_t *count)
{
    const vv_text_set_opts *o = opts;
    vv_dataset *set;
    vv_tokenizer *tokenizer;
    bool train;
    int64_t vocabulary = 50257;
    vv_status status = text_open(&set, opts, split);
    if (status == VV_OK) {
        *spec = set->spec;
        *count = set->count;
        vv_dataset_free(set);
    }
    if (status != VV_ENOTFOUND)
        return status;
    VV_TRY(vv_dataset_split(&train, "text", split));
    status = vv_tokenizer_open(&tokenizer, o->tokenizer);
    if (status != VV_OK && !(status == VV_ENOTFOUND && strcmp(o->tokenizer, "gpt2") == 0))
        return status;
    if (status == VV_OK)
        vocabulary = vv_tokenizer_vocab(tokenizer);
    vv_tokenizer_free(tokenizer);
    const vv_token_samples how = samples_of(o, train);
    *count = train ? 1000000 : 1000;
    return vv_token_samples_spec(spec, "text", &how, vocabulary);
}

const vv_dataset_desc vv_dataset_text = {
    .desc =
        {
            .kind = "dataset",
            .name = "text",
            .summary = "Any text files, tokenised when they are first used; next-token or masked.",
            .cite = "",
            .domains = "nlp",
            .fields = fields,
            .opts_size = sizeof(vv_text_set_opts),
        },
    .open = text_open,
    .shape = text_shape,
};
