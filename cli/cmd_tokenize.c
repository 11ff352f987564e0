/* cmd_tokenize.c - `vivace data tokenize` and `data train-bpe`: text files into token files, or
 * into a vocabulary. */
#include "cli.h"

#include <string.h>

#include <vivace/corpus.h>
#include <vivace/graph.h>
#include <vivace/memory.h>

typedef struct settings {
    const char *out, *tokenizer, *files, *separator;
    double validation;
    int split;
    int64_t seed, threads, vocab, min_count;
    bool special;
    const char *end;
} settings;

static const char *const split_names[] = {"documents", "tail", NULL};

#define AT(member) offsetof(settings, member)
static const vv_field tokenize_fields[] = {
    {"out", "Folder for train.tokens, eval.tokens and a copy of the tokenizer", VV_FIELD_STRING, AT(out), NULL, 0, 0, NULL},
    {"tokenizer", "gpt2, bytes, a folder or a tokenizer.json", VV_FIELD_STRING, AT(tokenizer),
     "gpt2", 0, 0, NULL},
    {"validation", "Share of the text for evaluation; names like x.train.txt and x.valid.txt decide "
     "instead", VV_FIELD_FLOAT, AT(validation), "0.05", 0, 0.999999, NULL},
    {"split", "Evaluation gets documents drawn by the seed, or the tail of the text",
     VV_FIELD_CHOICE, AT(split), "documents", 0, 0, split_names},
    {"seed", "Of the documents drawn", VV_FIELD_INT, AT(seed), "0", 0, 9e15, NULL},
    {"files", "Names in folders that count", VV_FIELD_STRING, AT(files), "*.txt,*.md", 0, 0, NULL},
    {"separator", "What stands between documents in a file; empty = a file is a document",
     VV_FIELD_STRING, AT(separator), "", 0, 0, NULL},
    {"special", "Texts of special tokens, like <|endoftext|>, become those tokens", VV_FIELD_BOOL,
     AT(special), "false", 0, 0, NULL},
    {"threads", "Threads; 0 = one a processor", VV_FIELD_INT, AT(threads), "0", 0, 256, NULL},
    {.name = NULL},
};
static const vv_desc tokenize_desc = {
    .kind = "verb",
    .name = "data tokenize",
    .summary = "Text files into token files.",
    .cite = "",
    .domains = "nlp",
    .fields = tokenize_fields,
    .opts_size = sizeof(settings),
};

static const vv_field train_fields[] = {
    {"out", "File for the tokenizer, a tokenizer.json", VV_FIELD_STRING, AT(out), NULL, 0, 0, NULL},
    {"vocab", "Tokens: 256 bytes, merges, and the end token", VV_FIELD_INT, AT(vocab), "8192", 256,
     1 << 24, NULL},
    {"min_count", "A pair that is rarer than this does not merge", VV_FIELD_INT, AT(min_count), "2",
     1, 9e15, NULL},
    {"end", "Text of the token that ends documents; empty = none", VV_FIELD_STRING, AT(end),
     "<|endoftext|>", 0, 0, NULL},
    {"files", "Names in folders that count", VV_FIELD_STRING, AT(files), "*.txt,*.md", 0, 0, NULL},
    {"separator", "What stands between documents in a file", VV_FIELD_STRING, AT(separator), "", 0,
     0, NULL},
    {"threads", "Threads; 0 = one a processor", VV_FIELD_INT, AT(threads), "0", 0, 256, NULL},
    {.name = NULL},
};
static const vv_desc train_desc = {
    .kind = "verb",
    .name = "data train-bpe",
    .summary = "A vocabulary from text files.",
    .cite = "Sennrich et al.: Neural machine translation of rare words with subword units, 2016",
    .domains = "nlp",
    .fields = train_fields,
    .opts_size = sizeof(settings),
};

static void print_file(const char *kind, const char *path, const vv_tokens_info *info)
{
    printf("%s: %lld tokens in %lld document%s, %s\n", kind, (long long)info->count,
           (long long)info->documents, info->documents == 1 ? "" : "s", path);
}

static vv_status tokenize(const settings *o, const cli_args *args)
{
    vv_status status;
    vv_tokenizer *tokenizer = NULL;
    vv_corpus *corpus = NULL;
    vv_str train_path = {0}, eval_path = {0}, copy_path = {0};
    vv_tokens_info train, eval;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    opts.inputs = args->words;
    opts.input_count = args->word_count;
    opts.files = o->files;
    opts.separator = o->separator;
    opts.validation = o->validation;
    opts.split = (vv_corpus_split)o->split;
    opts.seed = (uint64_t)o->seed;
    vv_str_addf(&train_path, "%s/train.tokens", o->out);
    vv_str_addf(&eval_path, "%s/eval.tokens", o->out);
    vv_str_addf(&copy_path, "%s/tokenizer.json", o->out);
    VV_GO(vv_str_status(&train_path));
    VV_GO(vv_str_status(&copy_path));
    VV_GO(vv_str_status(&eval_path));
    VV_GO(vv_tokenizer_open(&tokenizer, o->tokenizer));
    VV_GO(vv_corpus_open(&corpus, &opts));
    const vv_corpus_info *info = vv_corpus_info_of(corpus);
    cli_bar bar;
    cli_bar_start(&bar, "MB", 1e6, 1);
    const vv_tokenize_opts how = {(int)o->threads, o->special, cli_bar_show, &bar};
    VV_GO(vv_corpus_tokenize(corpus, tokenizer, &how, vv_str_text(&train_path),
                             vv_str_text(&eval_path), &train, &eval));
    const double seconds = vv_clock() - bar.start;
    status = vv_tokenizer_save(tokenizer, vv_str_text(&copy_path));
    if (status != VV_OK && status != VV_EUNSUPPORTED) /* BERT's has no such file */
        goto out;
    status = VV_OK;
    const int threads = o->threads ? (int)o->threads : vv_threads();
    print_file("train", vv_str_text(&train_path), &train);
    if (info->eval_documents > 0)
        print_file("eval", vv_str_text(&eval_path), &eval);
    printf("%.1f MB of text in %.1f s: %.1f MB/s on %d thread%s; vocabulary %lld\n",
           (double)info->bytes / 1e6, seconds, (double)info->bytes / 1e6 / (seconds + 1e-9),
           threads, threads == 1 ? "" : "s", (long long)vv_tokenizer_vocab(tokenizer));
out:
    vv_str_fini(&train_path);
    vv_str_fini(&eval_path);
    vv_str_fini(&copy_path);
    vv_corpus_free(corpus);
    vv_tokenizer_free(tokenizer);
    return status;
}

/* The evaluation share is 0: all documents count, but for those whose names say otherwise. */
static vv_status train_bpe(const settings *o, const cli_args *args)
{
    vv_status status;
    vv_tokenizer *tokenizer = NULL;
    vv_corpus *corpus = NULL;
    vv_corpus_opts opts = VV_CORPUS_DEFAULTS;
    vv_bpe_opts how = VV_BPE_DEFAULTS;
    cli_bar bar;
    opts.inputs = args->words;
    opts.input_count = args->word_count;
    opts.files = o->files;
    opts.separator = o->separator;
    opts.validation = 0;
    VV_GO(vv_corpus_open(&corpus, &opts));
    cli_bar_start(&bar, "MB", 1e6, 1);
    how.vocab = o->vocab;
    how.min_count = o->min_count;
    how.end = o->end;
    how.threads = (int)o->threads;
    how.progress = cli_bar_show;
    how.ctx = &bar;
    VV_GO(vv_corpus_train_bpe(&tokenizer, corpus, &how));
    VV_GO(vv_tokenizer_save(tokenizer, o->out));
    const int64_t vocab = vv_tokenizer_vocab(tokenizer);
    printf("%s: %lld tokens from %.1f MB of text in %.1f s\n", o->out, (long long)vocab,
           (double)(vv_corpus_info_of(corpus)->bytes - vv_corpus_info_of(corpus)->eval_bytes) / 1e6,
           vv_clock() - bar.start);
    if (vocab < o->vocab)
        printf("fewer than %lld: no further pair occurs %lld times\n", (long long)o->vocab,
               (long long)o->min_count);
out:
    vv_corpus_free(corpus);
    vv_tokenizer_free(tokenizer);
    return status;
}

static const cli_verb tokenize_verb = {
    "data tokenize", "INPUT... out=DIR [tokenizer=gpt2|bytes|PATH] [key=value ...]",
    "Turns text files, or folders of them, into token files to train on.", NULL};
static const cli_verb train_verb = {
    "data train-bpe", "INPUT... out=FILE [vocab=N] [key=value ...]",
    "Trains a byte-level BPE vocabulary on text files, or folders of them.", NULL};

static int run_verb(const cli_verb *verb, const vv_desc *desc, int argc, char **argv,
                    vv_status (*run)(const settings *o, const cli_args *args))
{
    cli_args args;
    settings opts;
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0))
        return cli_fields_help(verb, desc->fields);
    int code = cli_parse(verb, argc, argv, NULL, argc, &args);
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(verb, "no text was given");
    if (code != CLI_DONE)
        goto out;
    if (vv_opts_init(desc, &opts) != VV_OK) {
        code = cli_fail();
        goto out;
    }
    if (cli_read_settings(desc, &opts, &args) != VV_OK || run(&opts, &args) != VV_OK)
        code = cli_fail();
    vv_opts_fini(desc, &opts);
out:
    cli_args_fini(&args);
    return code;
}

int cli_data_tokenize(int argc, char **argv)
{
    return run_verb(&tokenize_verb, &tokenize_desc, argc, argv, tokenize);
}

int cli_data_train_bpe(int argc, char **argv)
{
    return run_verb(&train_verb, &train_desc, argc, argv, train_bpe);
}
