/* test_generate.c - text from language models: greedy choices with kept keys are those of computing
 * everything again, past the end of the position table too; draws follow the distribution that
 * temperature, top_k and top_p ask for and repeat by seed; a model that knows a text goes on with
 * it; ends, wrong calls, failing allocations. */
#include "language_test.h"

#include <vivace/generate.h>
#include <vivace/models.h>

static vv_model *tiny(const vv_model_desc *desc, const char *settings, int64_t vocabulary)
{
    const vv_sample_spec spec = token_spec(2, vocabulary);
    vv_model *model = model_make(desc, settings, &spec);
    model_names *names = calloc(1, sizeof *names);

    /* Far from uniform, so that two ways of rounding do not decide. */
    assert_non_null(names);
    vv_module_each_param(model->net, model_take_param, names);
    for (int i = 0; i < names->count; i++)
        if (names->params[i]->value->ndim == 2)
            vv_param_fill_normal(names->params[i], 0.4, (uint64_t)i, "tiny");
    free(names);
    return model;
}

static const int32_t prompt[] = {3, 1, 4, 1, 5};

static void cache_changes_nothing(void **state)
{
    (void)state;
    const struct {
        const vv_model_desc *desc;
        const char *settings;
        int64_t context;
    } rows[] = {
        {&vv_model_gpt2, "d=32,layers=2,heads=2,context=200", 0},
        {&vv_model_gpt2, "d=32,layers=2,heads=2,context=16", 0}, /* the table ends on the way */
        {&vv_model_gpt, "d=32,layers=2,heads=2,vocab_multiple=32", 0},
        {&vv_model_gpt, "d=32,layers=4,heads=2,style=full,kv_heads=1", 0},
        {&vv_model_gpt, "d=32,layers=2,heads=2", 12},
        {&vv_model_gpt2, "d=32,layers=2,heads=2,context=3", 0}, /* less than the prompt */
        /* Documents end on the way, in the prompt (token 1) and after it. */
        {&vv_model_gpt, "d=32,layers=2,heads=2,document_end=1,bigram=1", 0},
    };

    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        vv_model *model = tiny(rows[r].desc, rows[r].settings, 30);
        vv_generate_opts opts = VV_GENERATE_DEFAULTS;
        int32_t *with = NULL, *without = NULL;
        int64_t count = 0, again = 0;

        opts.temperature = 0.0;
        opts.tokens = 90;
        opts.context = rows[r].context;
        assert_ok(vv_generate(model, prompt, 5, &opts, &with, &count));
        opts.no_cache = true;
        assert_ok(vv_generate(model, prompt, 5, &opts, &without, &again));
        assert_int_equal(count, 90);
        assert_int_equal(again, 90);
        for (int64_t i = 0; i < count; i++)
            if (with[i] != without[i])
                fail_msg("row %zu: token %lld is %d with kept keys and %d without", r,
                         (long long)i, (int)with[i], (int)without[i]);
        assert_true(vv_module_training(model->net)); /* as before */
        assert_false(vv_module_decoding(model->net));
        vv_dealloc(with);
        vv_dealloc(without);
        vv_model_free(model);
    }
}

/* Behind the end of a document the choice is that of the document alone. */
static void documents_begin_anew(void **state)
{
    (void)state;
    vv_model *model = tiny(&vv_model_gpt, "d=32,layers=2,heads=2,document_end=7", 30);
    const int32_t longer[] = {3, 4, 7, 9, 7, 5, 6}, alone[] = {5, 6}, ended[] = {5, 6, 7};
    vv_generate_opts opts = VV_GENERATE_DEFAULTS;
    int32_t *a = NULL, *b = NULL;
    int64_t count;

    opts.temperature = 0.0;
    opts.tokens = 20;
    assert_ok(vv_generate(model, longer, 7, &opts, &a, &count));
    assert_ok(vv_generate(model, alone, 2, &opts, &b, &count));
    assert_memory_equal(a, b, 20 * sizeof *a);
    vv_dealloc(a);
    vv_dealloc(b);
    /* The end itself still sees its document. */
    opts.tokens = 1;
    assert_ok(vv_generate(model, ended, 3, &opts, &a, &count));
    opts.no_cache = true;
    assert_ok(vv_generate(model, ended, 3, &opts, &b, &count));
    assert_int_equal(*a, *b);
    vv_dealloc(a);
    vv_dealloc(b);
    vv_model_free(model);
}

static void repeats_by_seed(void **state)
{
    (void)state;
    vv_model *model = tiny(&vv_model_gpt2, "d=32,layers=1,heads=2", 30);
    vv_generate_opts opts = VV_GENERATE_DEFAULTS;
    int32_t *out[3];
    int64_t count[3];

    vv_module_set_training(model->net, false);
    opts.tokens = 60;
    for (int i = 0; i < 3; i++) {
        opts.seed = i < 2 ? 5 : 6;
        assert_ok(vv_generate(model, prompt, 5, &opts, &out[i], &count[i]));
        assert_int_equal(count[i], 60);
    }
    assert_memory_equal(out[0], out[1], 60 * sizeof(int32_t));
    assert_memory_not_equal(out[0], out[2], 60 * sizeof(int32_t));
    assert_false(vv_module_training(model->net));
    for (int i = 0; i < 3; i++)
        vv_dealloc(out[i]);
    vv_model_free(model);
}

/* Frequencies of 20,000 draws at even steps of [0,1) are the probabilities. */
static void choices(void **state)
{
    (void)state;
    enum { N = 20000 };
    const float logits[] = {1.0f, 3.0f, 2.0f, 3.0f, -1.0f};
    const struct {
        double temperature, top_p;
        int64_t top_k;
        double kept[5]; /* 1 = may be drawn */
    } rows[] = {
        {1.0, 1.0, 0, {1, 1, 1, 1, 1}},
        {0.5, 1.0, 0, {1, 1, 1, 1, 1}},
        {2.0, 1.0, 3, {0, 1, 1, 1, 0}},
        {1.0, 1.0, 9, {1, 1, 1, 1, 1}},
        {1.0, 0.7, 0, {0, 1, 0, 1, 0}}, /* .40 and .40 are .8 */
        {1.0, 0.3, 0, {0, 1, 0, 0, 0}}, /* the first of the two */
        {1.0, 0.9, 4, {0, 1, 1, 1, 0}},
        {1.0, 1.0, 1, {0, 1, 0, 0, 0}},
        {0.0, 1.0, 0, {0, 1, 0, 0, 0}},
    };

    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        vv_generate_opts opts = VV_GENERATE_DEFAULTS;
        double total = 0.0;
        int64_t seen[5] = {0};
        int32_t token;

        opts.temperature = rows[r].temperature;
        opts.top_p = rows[r].top_p;
        opts.top_k = rows[r].top_k;
        for (int i = 0; i < N; i++) {
            assert_ok(vv_generate_choose(logits, 5, &opts, (i + 0.5) / N, &token));
            seen[token]++;
        }
        const double heat = rows[r].temperature > 0.0 ? rows[r].temperature : 1.0;

        for (int i = 0; i < 5; i++)
            total += rows[r].kept[i] * exp((double)logits[i] / heat);
        for (int i = 0; i < 5; i++)
            assert_near((double)seen[i] / N,
                        rows[r].kept[i] * exp((double)logits[i] / heat) / total, 2.0 / N, 0.0);
    }

    const float broken[] = {0.0f, NAN};
    int32_t token;
    vv_generate_opts opts = VV_GENERATE_DEFAULTS;

    assert_fails(vv_generate_choose(broken, 2, &opts, 0.5, &token), VV_ENUMERIC);
}

static bool three_only(void *ctx, int32_t token)
{
    int *left = ctx;

    (void)token;
    return --*left > 0;
}

static void ends(void **state)
{
    (void)state;
    vv_model *model = tiny(&vv_model_gpt, "d=32,layers=1,heads=2", 30);
    vv_generate_opts opts = VV_GENERATE_DEFAULTS;
    int32_t *all = NULL, *some = NULL;
    int64_t count = 0;
    int left = 3;

    opts.tokens = 40;
    opts.seed = 2;
    assert_ok(vv_generate(model, prompt, 5, &opts, &all, &count));

    int64_t at = 7;

    for (int64_t i = 0; i < at; i++) /* the first place of its token */
        if (all[i] == all[at])
            at = i;
    opts.end = all[at];
    assert_ok(vv_generate(model, prompt, 5, &opts, &some, &count));
    assert_int_equal(count, at + 1);
    assert_int_equal(some[at], opts.end);
    vv_dealloc(some);
    opts.end = -1;
    opts.told = three_only;
    opts.ctx = &left;
    assert_ok(vv_generate(model, prompt, 5, &opts, &some, &count));
    assert_int_equal(count, 3);
    assert_memory_equal(some, all, 3 * sizeof(int32_t));
    vv_dealloc(some);
    vv_dealloc(all);
    vv_model_free(model);
}

/* Trained on one sentence, it says it. */
static void goes_on_with_what_it_knows(void **state)
{
    (void)state;
    const char *text = "the quick brown fox jumps over the lazy dog";
    const int64_t length = (int64_t)strlen(text) - 1, shape[] = {1, length};
    const vv_sample_spec spec = token_spec(length, 256);
    vv_model *model = model_make(&vv_model_gpt, "d=32,layers=2,heads=2", &spec);
    const vv_optimizer_desc *desc = vv_optimizer_find("adamw");
    vv_adam_opts adam;
    vv_optimizer *optimizer = NULL;
    vv_tensor *tokens = NULL, *targets = NULL;
    vv_tokenizer *bytes = NULL;
    vv_generate_opts opts = VV_GENERATE_DEFAULTS;
    vv_str out = {0};

    assert_ok(vv_tensor_new(&tokens, VV_I32, 2, shape));
    assert_ok(vv_tensor_new(&targets, VV_I32, 2, shape));
    for (int64_t i = 0; i < length; i++) {
        vv_tensor_set(tokens, i, (unsigned char)text[i]);
        vv_tensor_set(targets, i, (unsigned char)text[i + 1]);
    }
    assert_ok(vv_opts_init(&desc->desc, &adam));
    adam.lr = 1e-2;
    assert_ok(vv_optimizer_new(&optimizer, desc, &adam, model->net));
    for (int step = 0; step < 60; step++) {
        language_step(model, tokens, targets);
        assert_ok(vv_optimizer_step(optimizer));
    }
    assert_ok(vv_generate_tokenizer(&bytes, NULL, model));
    opts.temperature = 0.0;
    opts.tokens = length + 1 - 10;
    assert_ok(vv_generate_text(model, bytes, "the quick ", &opts, &out));
    assert_string_equal(vv_str_text(&out), text + 10);
    vv_str_fini(&out);
    assert_fails(vv_generate_text(model, bytes, "", &opts, &out), VV_EINVAL);
    assert_says("give a prompt");
    vv_tokenizer_free(bytes);
    vv_optimizer_free(optimizer);
    vv_tensor_free(tokens);
    vv_tensor_free(targets);
    vv_model_free(model);
}

static void wrong_calls(void **state)
{
    (void)state;
    vv_model *model = tiny(&vv_model_gpt2, "d=16,layers=1,heads=2,context=9", 30);
    vv_model *bert = tiny(&vv_model_bert, "d=16,layers=1,heads=2", 30);
    const vv_sample_spec image = image_spec(8, 8, 3, 10);
    vv_model *mlp = model_make(&vv_model_mlp, NULL, &image);
    const int32_t unknown[] = {1, 30}, negative[] = {-1};
    vv_generate_opts opts[5];
    vv_tokenizer *tokenizer = NULL;
    int32_t *out = NULL;
    int64_t count;

    assert_fails(vv_generate(mlp, prompt, 5, NULL, &out, &count), VV_EINVAL);
    assert_says("no language model");
    assert_fails(vv_generate(bert, prompt, 5, NULL, &out, &count), VV_EINVAL);
    assert_says("take a GPT");
    assert_fails(vv_generate(model, prompt, 0, NULL, &out, &count), VV_EINVAL);
    assert_fails(vv_generate(model, unknown, 2, NULL, &out, &count), VV_EINVAL);
    assert_says("token 1 of the prompt is 30, the model knows 0..29");
    assert_fails(vv_generate(model, negative, 1, NULL, &out, &count), VV_EINVAL);
    for (int i = 0; i < 5; i++)
        opts[i] = (vv_generate_opts)VV_GENERATE_DEFAULTS;
    opts[0].tokens = 0;
    opts[1].temperature = -1.0;
    opts[2].top_p = 0.0;
    opts[3].top_k = -1;
    opts[4].context = -2;
    for (int i = 0; i < 5; i++)
        assert_fails(vv_generate(model, prompt, 5, &opts[i], &out, &count), VV_EINVAL);
    assert_null(out);
    assert_fails(vv_generate_tokenizer(&tokenizer, NULL, model), VV_ENOTFOUND);
    assert_says("tokenizer=");
    assert_fails(vv_generate_tokenizer(&tokenizer, "bytes", model), VV_EINVAL);
    assert_says("256 tokens, the model 30");
    assert_null(tokenizer);

    /* By fingerprint, as token files tell it. */
    char fingerprint[65];
    vv_tokenizer *bytes = NULL;

    model->classes = 256;
    assert_ok(vv_tokenizer_open(&bytes, "bytes"));
    snprintf(fingerprint, sizeof fingerprint, "%s", vv_tokenizer_fingerprint(bytes));
    assert_ok(vv_generate_tokenizer(&tokenizer, fingerprint, model));
    assert_string_equal(vv_tokenizer_name(tokenizer), "bytes");
    vv_tokenizer_free(tokenizer);
    vv_tokenizer_free(bytes);
    fingerprint[0] = fingerprint[0] == '0' ? '1' : '0';
    assert_fails(vv_generate_tokenizer(&tokenizer, fingerprint, model), VV_ENOTFOUND);
    assert_says("tokenizer=");
    assert_null(tokenizer);
    vv_model_free(model);
    vv_model_free(bert);
    vv_model_free(mlp);
}

static void each_allocation(void **state)
{
    (void)state;
    vv_model *model = tiny(&vv_model_gpt2, "d=16,layers=1,heads=2,context=6", 30);
    vv_generate_opts opts = VV_GENERATE_DEFAULTS;
    const int64_t live = vv_memory_live_count();

    opts.tokens = 3;
    for (uint64_t nth = 1;; nth++) {
        int32_t *out = NULL;
        int64_t count = 0;

        vv_memory_fail_at(nth);
        const vv_status status = vv_generate(model, prompt, 5, &opts, &out, &count);
        vv_memory_fail_at(0);
        vv_dealloc(out);
        assert_int_equal(vv_memory_live_count(), live);
        assert_false(vv_module_decoding(model->net));
        assert_true(vv_module_training(model->net));
        if (status == VV_OK) {
            assert_true(nth > 20);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
    }
    vv_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_changes_nothing),
        cmocka_unit_test(documents_begin_anew),
        cmocka_unit_test(repeats_by_seed),
        cmocka_unit_test(choices),
        cmocka_unit_test(ends),
        cmocka_unit_test(goes_on_with_what_it_knows),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
