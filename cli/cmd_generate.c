/* cmd_generate.c - `vivace generate`: text from a trained language model, as it comes. */
#include "cli.h"

#include <string.h>

#include <vivace/generate.h>
#include <vivace/memory.h>

/* A described type, so that unknown keys get the nearest valid one. */
typedef struct settings {
    const char *prompt, *tokenizer;
    int64_t tokens, top_k, seed, context;
    double temperature, top_p;
    bool cache;
    int precision;
} settings;

#define AT(field) offsetof(settings, field)
static const char *const precisions[] = {"fp32", "amp_bf16", "bf16", "auto", NULL};
static const vv_field fields[] = {
    {.name = "prompt", .help = "text to go on from", .type = VV_FIELD_STRING, .offset = AT(prompt), .fallback = ""},
    {.name = "tokens", .help = "new tokens at most", .type = VV_FIELD_INT, .offset = AT(tokens), .fallback = "100", .min = 1, .max = 1e9},
    {.name = "temperature", .help = "0 = always the most likely token; below 1 = more of the same", .type = VV_FIELD_FLOAT, .offset = AT(temperature), .fallback = "0.8", .min = 0, .max = 100},
    {.name = "top_k", .help = "draw from the k most likely; 0 = all", .type = VV_FIELD_INT, .offset = AT(top_k), .fallback = "0", .min = 0, .max = 1e9},
    {.name = "top_p", .help = "draw from the fewest that have this share", .type = VV_FIELD_FLOAT, .offset = AT(top_p), .fallback = "1", .min = 1e-6, .max = 1},
    {.name = "seed", .help = "another one gives another text", .type = VV_FIELD_INT, .offset = AT(seed), .fallback = "0", .min = 0, .max = 9e15},
    {.name = "context", .help = "tokens the model sees at most; 0 = as many as it can", .type = VV_FIELD_INT, .offset = AT(context), .fallback = "0", .min = 0, .max = 1e9},
    {.name = "tokenizer", .help = "bytes, gpt2, a folder or a tokenizer.json; empty = the data's, or by the model's vocabulary", .type = VV_FIELD_STRING, .offset = AT(tokenizer), .fallback = ""},
    {.name = "cache", .help = "keep keys and values", .type = VV_FIELD_BOOL, .offset = AT(cache), .fallback = "true"},
    {.name = "precision", .help = "arithmetic of matmuls", .type = VV_FIELD_CHOICE, .offset = AT(precision), .fallback = "fp32", .choices = precisions},
    {.name = NULL},
};
static const vv_desc desc = {.kind = "verb",
                             .name = "generate",
                             .summary = "text from a model",
                             .cite = "",
                             .domains = "nlp",
                             .fields = fields,
                             .opts_size = sizeof(settings)};

typedef struct stream {
    const char *prompt; /* NULL once it has been printed */
    const vv_tokenizer *tokenizer;
    int32_t end;
    int64_t count;
    bool quiet;
} stream;

/* Not before the first token has come: what cannot work prints nothing. */
static void print_prompt(stream *s)
{
    if (s->prompt)
        fputs(s->prompt, stdout);
    s->prompt = NULL;
}

static bool print_token(void *ctx, int32_t token)
{
    stream *s = ctx;
    const void *bytes;
    size_t count;
    print_prompt(s);
    if (token == s->end)
        return true;
    s->count++;
    if (s->quiet || vv_tokenizer_token(s->tokenizer, token, &bytes, &count) != VV_OK)
        return true; /* a row of the table that is no token */
    fwrite(bytes, 1, count, stdout);
    fflush(stdout);
    return !ferror(stdout);
}

static vv_status report(const settings *s, const vv_str *text, const stream *told, double seconds)
{
    vv_str out = {0};
    vv_str_add(&out, "{\"prompt\": ");
    vv_str_add_json(&out, s->prompt);
    vv_str_add(&out, ", \"text\": ");
    vv_str_add_json(&out, vv_str_text(text));
    vv_str_addf(&out, ", \"tokens\": %lld, \"seconds\": %.6g, \"tokens_per_second\": %.6g}\n",
                (long long)told->count, seconds,
                seconds > 0.0 ? (double)told->count / seconds : 0.0);
    vv_status status = vv_str_status(&out);
    if (status == VV_OK)
        fputs(vv_str_text(&out), stdout);
    vv_str_fini(&out);
    return status;
}

static vv_status generate(cli_loaded *l, const settings *s, bool json)
{
    const vv_state *state = vv_trainer_state(vv_run_trainer(l->run));
    const vv_dataset *set = state->train_loader ? vv_loader_dataset(state->train_loader) : NULL;
    vv_generate_opts opts = VV_GENERATE_DEFAULTS;
    vv_tokenizer *tokenizer;
    vv_str text = {0};
    VV_TRY(vv_generate_tokenizer(&tokenizer, s->tokenizer[0] ? s->tokenizer
                                             : set           ? set->tokenizer
                                                             : NULL, state->model));
    stream told = {json ? NULL : s->prompt, tokenizer, vv_tokenizer_end(tokenizer), 0, json};
    opts.tokens = s->tokens;
    opts.temperature = s->temperature;
    opts.top_k = s->top_k;
    opts.top_p = s->top_p;
    opts.seed = (uint64_t)s->seed;
    opts.context = s->context;
    opts.no_cache = !s->cache;
    opts.precision = (vv_precision)s->precision;
    opts.told = print_token;
    opts.ctx = &told;
    double start = vv_clock();
    vv_status status = vv_generate_text(state->model, tokenizer, s->prompt, &opts, &text);
    double seconds = vv_clock() - start;
    if (!json && !told.prompt)
        puts("");
    if (status == VV_OK && json)
        status = report(s, &text, &told, seconds);
    else if (status == VV_OK)
        fprintf(stderr, "%lld tokens in %.1f s, %.1f tokens/s\n", (long long)told.count, seconds,
                seconds > 0.0 ? (double)told.count / seconds : 0.0);
    vv_str_fini(&text);
    vv_tokenizer_free(tokenizer);
    return status;
}

/* Without the data too, if their shape is known all the same. */
static vv_status load(cli_loaded *l, const char *run, const char *recipe, const cli_args *args)
{
    vv_status status = cli_load_run(l, run, recipe, args, false);
    if (status != VV_ENOTFOUND)
        return status;
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", vv_error());
    cli_unload(l);
    *l = (cli_loaded){0};
    return cli_load_run(l, run, recipe, args, true) == VV_OK ? VV_OK
                                                             : vv_fail(status, "%s", sentence);
}

static int run(int argc, char **argv)
{
    bool json = false;
    const char *recipe = NULL;
    cli_args args;
    settings s;
    const cli_option options[] = {{"--json", &json, NULL}, {"--recipe", NULL, &recipe},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_generate, argc, argv, options, 1, &args);
    cli_loaded l = {0};
    bool ready = false;
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_generate, "no run was given");
    if (code == CLI_DONE) {
        vv_status status = vv_opts_init(&desc, &s);
        ready = status == VV_OK;
        if (status == VV_OK)
            status = cli_take_settings(&desc, &s, &args);
        if (status == VV_OK)
            status = load(&l, args.words[0], recipe, &args);
        if (status == VV_OK)
            status = generate(&l, &s, json);
        if (status != VV_OK)
            code = cli_fail();
    }
    if (ready)
        vv_opts_fini(&desc, &s);
    cli_unload(&l);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_generate = {
    "generate",
    "RUN|CHECKPOINT [prompt=TEXT] [tokens=100] [temperature=0.8] [top_k=0] [top_p=1] [seed=0] "
    "[tokenizer=NAME] [--recipe FILE] [--json]",
    "Goes on with a text, as a trained language model would.", run};
