/* text_sampler.c - the text_sampler callback: samples at intervals, told to the loggers and written
 * to a file each time. Training goes on to the bit as without it. */
#include "text_sampler.h"

#include <stdio.h>
#include <string.h>

#include <vivace/generate.h>
#include <vivace/memory.h>
#include <vivace/train.h>

#define AT(field) offsetof(vv_text_sampler_opts, field)
static const vv_field fields[] = {
    {"interval", "Time between samples (ba, ep, sp, tok, dur).", VV_FIELD_TIME, AT(interval), "500ba", 0, 0, NULL},
    {"prompts", "Texts to go on from, with | between them; an empty one = the beginning of a document.", VV_FIELD_STRING, AT(prompts), "", 0, 0, NULL},
    {"tokenizer", "bytes, gpt2, a folder or a tokenizer.json; empty = the data's, or by the model's vocabulary.", VV_FIELD_STRING, AT(tokenizer), "", 0, 0, NULL},
    {"tokens", "New tokens of each sample.", VV_FIELD_INT, AT(tokens), "100", 1, 1e6, NULL},
    {"temperature", "0 = always the most likely token; below 1 = more of the same.", VV_FIELD_FLOAT, AT(temperature), "0.8", 0, 100, NULL},
    {"top_p", "Draws from the fewest tokens that have this share.", VV_FIELD_FLOAT, AT(top_p), "1", 1e-6, 1, NULL},
    {"top_k", "Draws from the k most likely tokens; 0 = all.", VV_FIELD_INT, AT(top_k), "0", 0, 1e9, NULL},
    {"seed", "Another one gives other samples.", VV_FIELD_INT, AT(seed), "0", 0, 9e15, NULL},
    {"dir", "Folder of the files; empty = samples in the run's folder, if it has one.", VV_FIELD_STRING, AT(dir), "", 0, 0, NULL},
    {.name = NULL},
};

typedef struct text_sampler {
    vv_tokenizer *tokenizer;
} text_sampler;

/* Prompt number i, to be freed with vv_dealloc; NULL behind the last. */
static vv_status prompt_at(char **out, const char *prompts, int i)
{
    *out = NULL;
    for (; i > 0; i--) {
        prompts = strchr(prompts, '|');
        if (!prompts)
            return VV_OK;
        prompts++;
    }
    VV_TRY(vv_strdup(out, prompts));
    (*out)[strcspn(*out, "|")] = '\0';
    return VV_OK;
}

static vv_status go_on(const vv_callback *callback, vv_state *state, const char *prompt,
                       int64_t tokens, vv_str *text)
{
    const vv_text_sampler_opts *o = callback->opts;
    const text_sampler *self = callback->self;
    vv_generate_opts opts = VV_GENERATE_DEFAULTS;

    opts.tokens = tokens;
    opts.temperature = o->temperature;
    opts.top_k = o->top_k;
    opts.top_p = o->top_p;
    opts.seed = (uint64_t)o->seed;
    return vv_generate_text(state->model, self->tokenizer, prompt, &opts, text);
}

/* What cannot be done is told before the first batch. */
static vv_status check(vv_callback *callback, vv_state *state)
{
    const vv_text_sampler_opts *o = callback->opts;
    text_sampler *self = callback->self;
    const vv_dataset *set = state->train_loader ? vv_loader_dataset(state->train_loader) : NULL;
    vv_str text = {0};
    vv_status status = VV_OK;
    bool due;

    VV_TRY(vv_fail_within(vv_state_due(&due, state, o->interval, 0), "interval"));
    if (!self->tokenizer)
        VV_TRY(vv_generate_tokenizer(&self->tokenizer, o->tokenizer[0] ? o->tokenizer
                                                       : set           ? set->tokenizer
                                                                       : NULL, state->model));
    for (int i = 0; status == VV_OK; i++) {
        char *prompt;

        status = prompt_at(&prompt, o->prompts, i);
        if (!prompt)
            break;
        status = go_on(callback, state, prompt, 1, &text);
        vv_dealloc(prompt);
    }
    vv_str_fini(&text);
    return status;
}

static vv_status write_file(const vv_text_sampler_opts *o, const vv_state *state,
                            const vv_str *samples)
{
    const char *run = vv_trainer_run_dir(state->trainer);
    vv_str path = {0};
    vv_status status = VV_OK;
    FILE *file = NULL;

    if (!o->dir[0] && !run)
        return VV_OK;
    vv_str_addf(&path, "%s%s", o->dir[0] ? o->dir : run, o->dir[0] ? "" : "/samples");
    VV_GO(vv_str_status(&path));
    VV_GO(vv_make_folder(vv_str_text(&path)));
    vv_str_addf(&path, "/ba%08lld.txt", (long long)state->time.batch);
    VV_GO(vv_str_status(&path));
    file = fopen(vv_str_text(&path), "wb");
    if (!file || fwrite(vv_str_text(samples), 1, samples->length, file) != samples->length)
        status = vv_fail(VV_EIO, "%s cannot be written", vv_str_text(&path));
out:
    if (file && fclose(file) != 0 && status == VV_OK)
        status = vv_fail(VV_EIO, "%s cannot be written", vv_str_text(&path));
    vv_str_fini(&path);
    return status;
}

/* One sentence for the loggers: "sample 1 at 500ba: "text"". */
static vv_status tell(vv_state *state, int number, const vv_str *text)
{
    vv_str message = {0};

    vv_str_addf(&message, "sample %d at %lldba: ", number, (long long)state->time.batch);
    vv_str_add_json(&message, vv_str_text(text));

    const vv_status status = vv_str_status(&message);

    if (status == VV_OK)
        vv_log_message(state, vv_str_text(&message));
    vv_str_fini(&message);
    return status;
}

static vv_status sample(vv_callback *callback, vv_state *state)
{
    const vv_text_sampler_opts *o = callback->opts;
    vv_str all = {0}, text = {0};
    char *prompt = NULL;
    vv_status status = VV_OK;

    for (int i = 0;; i++) {
        VV_GO(prompt_at(&prompt, o->prompts, i));
        if (!prompt)
            break;
        vv_str_clear(&text);
        vv_str_add(&text, prompt);
        VV_GO(go_on(callback, state, prompt, o->tokens, &text));
        VV_GO(tell(state, i + 1, &text));
        vv_str_addf(&all, "---- %d ----\n", i + 1);
        vv_str_addn(&all, vv_str_text(&text), text.length);
        vv_str_add(&all, "\n");
        VV_GO(vv_str_status(&all));
        vv_dealloc(prompt);
        prompt = NULL;
    }
    status = write_file(o, state, &all);
out:
    vv_dealloc(prompt);
    vv_str_fini(&text);
    vv_str_fini(&all);
    return status;
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_text_sampler_opts *o = callback->opts;
    bool due;

    if (event == VV_EVENT_FIT_START)
        return check(callback, state);
    VV_TRY(vv_state_due(&due, state, o->interval, state->time.batch));
    return due ? sample(callback, state) : VV_OK;
}

static void fini(vv_callback *callback)
{
    vv_tokenizer_free(((text_sampler *)callback->self)->tokenizer);
}

const vv_callback_desc vv_callback_text_sampler = {
    .desc = {"callback", "text_sampler", "Lets a language model go on with texts while it trains.",
             "", "nlp", fields, sizeof(vv_text_sampler_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .self_size = sizeof(text_sampler),
    .apply = apply,
    .fini = fini,
};
