/* tokens.c - the data set tokens: samples of one length from token files. */
#include "tokens.h"

#include <string.h>
#include <unistd.h>

#include <vivace/ext/data_files.h>
#include <vivace/ext/token_sets.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#define AT(member) offsetof(vv_token_set_opts, member)
static const vv_field fields[] = {
    {"dir", "Folder with the files; empty = $VIVACE_DATA/tokens", VV_FIELD_STRING, AT(common.dir),
     "", 0, 0, NULL},
    {"train", "Token file to train on", VV_FIELD_STRING, AT(train), "train.tokens", 0, 0, NULL},
    {"eval", "Token file to evaluate on", VV_FIELD_STRING, AT(eval), "eval.tokens", 0, 0, NULL},
    {"seq", "Tokens in a sample", VV_FIELD_INT, AT(seq), "1024", 1, 1 << 24, NULL},
    {"stride", "Tokens from one sample's start to the next one's; 0 = seq", VV_FIELD_INT,
     AT(stride), "0", 0, 1 << 24, NULL},
    {"by_document", "No sample crosses the end of a document; short ones are padded",
     VV_FIELD_BOOL, AT(by_document), "false", 0, 0, NULL},
    {"vocabulary", "Tokens the model shall know; 0 = as many as the file says", VV_FIELD_INT,
     AT(vocabulary), "0", 0, INT32_MAX, NULL},
    {"mask", "Share of the tokens that are masked and to be guessed; 0 = the next token is",
     VV_FIELD_FLOAT, AT(mask), "0", 0, 1, NULL},
    {"mask_id", "Token that stands for a masked one; -1 = one more than there are", VV_FIELD_INT,
     AT(mask_id), "-1", -1, INT32_MAX, NULL},
    {"special_ids", "Tokens that are never masked, like 101,102; the end of documents is one",
     VV_FIELD_STRING, AT(special_ids), "", 0, 0, NULL},
    {"pad_id", "Token that fills short samples; it has no loss", VV_FIELD_INT, AT(pad_id), "0", 0,
     INT32_MAX, NULL},
    {.name = NULL},
};

static vv_status find_file(const vv_token_set_opts *o, bool train, vv_str *path)
{
    const char *name = train ? o->train : o->eval;
    if (name[0] != '/') {
        char *dir;
        const vv_status status = vv_dataset_find_dir(&dir, o->common.dir, "tokens", NULL);
        if (status == VV_ENOTFOUND && !o->common.dir[0])
            return vv_fail(VV_ENOTFOUND,
                           "data set tokens: there is no folder $VIVACE_DATA/tokens; make token "
                           "files with `vivace data tokenize` and name their folder with dir=");
        VV_TRY(status);
        vv_str_addf(path, "%s/", dir);
        vv_dealloc(dir);
    }
    vv_str_add(path, name);
    return vv_str_status(path);
}

/* Evaluation counts every token once. `special`: what special_ids says, to be freed. */
static vv_status samples_of(const vv_token_set_opts *o, bool train, int64_t vocabulary,
                            vv_token_samples *how, int32_t **special)
{
    *special = NULL;
    *how = (vv_token_samples)VV_TOKEN_SAMPLES_DEFAULTS;
    how->seq = o->seq;
    how->stride = o->stride;
    how->by_document = o->by_document;
    how->each_once = !train;
    how->vocabulary = o->vocabulary;
    how->pad_id = (int32_t)o->pad_id;
    how->mask = o->mask > 0.0;
    how->mask_opts.share = o->mask;
    how->mask_opts.mask_id = (int32_t)o->mask_id;
    if (!how->mask)
        return VV_OK;
    VV_TRY(vv_fail_within(vv_token_ids_parse(special, &how->mask_opts.special_count,
                                             o->special_ids, vocabulary),
                          "data set tokens: special_ids"));
    how->mask_opts.special = *special;
    return VV_OK;
}

/* tokenizer.json beside a file, as `vivace data tokenize` leaves it; empty if there is none. */
static vv_status find_tokenizer(const char *file, vv_str *path)
{
    const char *slash = strrchr(file, '/');
    vv_str_addn(path, file, slash ? (size_t)(slash + 1 - file) : 0);
    vv_str_add(path, "tokenizer.json");
    VV_TRY(vv_str_status(path));
    if (access(vv_str_text(path), R_OK) != 0)
        vv_str_clear(path);
    return VV_OK;
}

static vv_status tokens_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_token_set_opts *o = opts;
    vv_status status;
    bool train;
    vv_str path = {0}, tokenizer = {0};
    vv_tokens *tokens = NULL;
    vv_token_samples how;
    int32_t *special = NULL;
    *out = NULL;
    VV_GO(vv_dataset_split(&train, "tokens", split));
    VV_GO(find_file(o, train, &path));
    VV_GO(vv_tokens_open(&tokens, vv_str_text(&path)));
    const int64_t vocabulary = vv_tokens_info_of(tokens)->vocab;
    VV_GO(samples_of(o, train, o->vocabulary ? o->vocabulary : vocabulary, &how, &special));
    VV_GO(find_tokenizer(vv_str_text(&path), &tokenizer));
    if (tokenizer.length > 0)
        how.tokenizer = vv_str_text(&tokenizer);
    vv_tokens *taken = tokens;
    tokens = NULL;
    VV_GO(vv_fail_within(vv_dataset_from_tokens(out, "tokens", taken, &how), "%s",
                         vv_str_text(&path)));
out:
    vv_dealloc(special);
    vv_tokens_free(tokens);
    vv_str_fini(&path);
    vv_str_fini(&tokenizer);
    return status;
}

/* With the files: as they are. Without: a million samples of GPT-2's vocabulary. */
static vv_status tokens_shape(const void *opts, const char *split, vv_sample_spec *spec,
                              int64_t *count)
{
    const vv_token_set_opts *o = opts;
    vv_dataset *set;
    bool train;
    const vv_status status = tokens_open(&set, opts, split);
    if (status == VV_OK) {
        *spec = set->spec;
        *count = set->count;
        vv_dataset_free(set);
    }
    if (status != VV_ENOTFOUND)
        return status;
    VV_TRY(vv_dataset_split(&train, "tokens", split));
    vv_token_samples how;
    int32_t *special;
    const int64_t vocabulary = o->vocabulary ? o->vocabulary - (o->mask > 0.0) : 50257;
    VV_TRY(samples_of(o, train, vocabulary + 1, &how, &special));
    vv_dealloc(special);
    *count = train ? 1000000 : 1000;
    return vv_token_samples_spec(spec, "tokens", &how, vocabulary);
}

const vv_dataset_desc vv_dataset_tokens = {
    .desc =
        {
            .kind = "dataset",
            .name = "tokens",
            .summary = "Token files, cut into samples of one length; next-token or masked.",
            .cite = "",
            .domains = "nlp",
            .fields = fields,
            .opts_size = sizeof(vv_token_set_opts),
        },
    .open = tokens_open,
    .shape = tokens_shape,
};
