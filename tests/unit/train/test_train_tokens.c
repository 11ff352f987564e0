/* test_train_tokens.c - texts end to end: samples of token ids [T] with a target for every token
 * train a table and a linear layer; every token with a loss counts alike, however many its sample
 * has and however batches are cut (case B1); metrics count those tokens only; durations may be
 * given in tokens, and rates are told in them; what a set varies (masking) is the same after a
 * resume, and the same in every evaluation; a token beyond the table is told. */
#include "train_test.h"

#define LENGTH 6
#define WORDS 7

typedef struct text {
    vv_dataset set;
    vv_dataset_class type;
    vv_loader *loader;
    int32_t (*tokens)[LENGTH + 1];
    int64_t target_reads;
} text;

/* Next-token targets, with a loss at the first (1 + index % LENGTH) tokens only; sample 2 has
   none at all. */
static vv_status text_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const text *self = dataset->self;
    if (input)
        memcpy(input, self->tokens[index], LENGTH * sizeof(int32_t));
    for (int t = 0; target && t < LENGTH; t++)
        ((int32_t *)target)[t] =
            t <= index % LENGTH && index != 2 ? self->tokens[index][t + 1] : -100;
    return VV_OK;
}

/* Instead: a token of a half of the places is hidden (word 0), and is its own target. */
static vv_status text_mask(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    (void)dataset;
    int32_t *token = input, *wanted = target;
    for (int t = 0; t < LENGTH; t++) {
        const bool hide = vv_rng_uniform(&call->rng) < 0.5;
        if (wanted)
            wanted[t] = hide ? token[t] : -100;
        token[t] = hide ? 0 : token[t];
    }
    return VV_OK;
}

/* Chains: word w is followed by 3w + 1 modulo WORDS (2, then 0, 1, 4, 6, 5, 2 ...). */
static void text_init(text *self, int64_t count, int64_t batch, bool shuffle, bool masked)
{
    *self = (text){.type = {.read = text_read, .vary = masked ? text_mask : NULL}};
    self->set = (vv_dataset){
        .type = &self->type,
        .name = "chains",
        .spec = {.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1, .target_ndim = 1,
                 .input_shape = {LENGTH}, .target_shape = {LENGTH}, .classes = WORDS,
                 .tokens = LENGTH, .vocabulary = WORDS},
        .count = count,
        .self = self,
    };
    self->tokens = test_calloc((size_t)count, sizeof *self->tokens);
    for (int64_t i = 0; i < count; i++)
        for (int t = 0; t <= LENGTH; t++)
            self->tokens[i][t] =
                t == 0 ? (int32_t)(i % WORDS) : (3 * self->tokens[i][t - 1] + 1) % WORDS;
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = batch;
    opts.shuffle = shuffle;
    opts.seed = 3;
    opts.workers = 1;
    assert_ok(vv_loader_new(&self->loader, &self->set, &opts));
}

static void text_fini(text *self)
{
    vv_loader_free(self->loader);
    test_free(self->tokens);
}

static vv_model *table_and_linear(void)
{
    vv_module *net, *layer;
    vv_model *model;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_embedding_new(&layer, WORDS, 12);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 12, WORDS, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 11));
    assert_ok(vv_classifier_new(&model, net, WORDS));
    return model;
}

static vv_trainer *trainer_of(text *train, text *eval, const char *duration, vv_trainer_opts opts)
{
    vv_adam_opts adam;
    const vv_optimizer_desc *desc = vv_optimizer_find("adamw");
    vv_trainer *trainer;
    assert_ok(vv_opts_init(&desc->desc, &adam));
    adam.lr = 0.05;
    opts.optimizer_desc = desc;
    opts.optimizer_opts = &adam;
    vv_eval_set sets[] = {{.loader = eval ? eval->loader : NULL,
                           .metrics = "cross_entropy,perplexity,masked_accuracy,accuracy"}};
    opts.model = table_and_linear();
    opts.train = train->loader;
    opts.eval_sets = eval ? sets : NULL;
    opts.eval_set_count = eval != NULL;
    opts.max_duration = duration;
    assert_ok(vv_trainer_new(&trainer, &opts));
    vv_opts_fini(&desc->desc, &adam);
    return trainer;
}

static double metric_of(vv_trainer *trainer, const char *name)
{
    double value;
    assert_ok(vv_state_metric(vv_trainer_state(trainer), "eval", name, &value));
    return value;
}

static void learns_what_comes_next(void **state)
{
    (void)state;
    text train, eval;
    text_init(&train, 64, 8, true, false);
    text_init(&eval, 21, 5, false, false);
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.eval_interval = "";
    opts.train_metrics = "perplexity,masked_accuracy";
    vv_trainer *trainer = trainer_of(&train, &eval, "15ep", opts);
    assert_ok(vv_trainer_eval(trainer));
    assert_near(metric_of(trainer, "cross_entropy"), log(WORDS), 0.6, 0);
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_trainer_eval(trainer));
    assert_true(metric_of(trainer, "cross_entropy") < 0.05);
    assert_near(metric_of(trainer, "perplexity"), exp(metric_of(trainer, "cross_entropy")), 1e-9,
                1e-9);
    assert_near(metric_of(trainer, "masked_accuracy"), 1.0, 0.0, 0.0);
    double loss, perplexity;
    const vv_state *s = vv_trainer_state(trainer);
    assert_ok(vv_state_metric(s, "train_epoch", "loss", &loss));
    assert_ok(vv_state_metric(s, "train_epoch", "perplexity", &perplexity));
    assert_near(perplexity, exp(loss), 1e-5, 1e-5);
    assert_int_equal(s->time.token, 15 * 64 * LENGTH);
    vv_str summary = {0};
    assert_ok(vv_trainer_summary(trainer, &summary));
    assert_non_null(strstr(vv_str_text(&summary), "\"tokens\": 5760"));
    assert_non_null(strstr(vv_str_text(&summary), "\"tokens_per_second\": "));
    vv_str_fini(&summary);
    vv_trainer_free(trainer);
    text_fini(&train);
    text_fini(&eval);
}

/* The logits of the untrained model by hand: -log softmax at every token with a loss, all tokens of
   all samples together. */
static void metrics_count_tokens_with_a_loss(void **state)
{
    (void)state;
    double first = 0.0;
    for (int64_t batch = 1; batch <= 11; batch += 5) {
        text train, eval;
        text_init(&train, 8, 4, false, false);
        text_init(&eval, 11, batch, false, false);
        vv_trainer *trainer = trainer_of(&train, &eval, "1ba",
                                         (vv_trainer_opts)VV_TRAINER_DEFAULTS);
        vv_tensor *logits;
        assert_ok(vv_trainer_predict(trainer, eval.loader, &logits));
        assert_int_equal(logits->count, 11 * LENGTH * WORDS);
        double sum = 0.0;
        int64_t items = 0, right = 0;
        for (int64_t i = 0; i < 11; i++) {
            int32_t target[LENGTH];
            assert_ok(text_read(&eval.set, i, NULL, target));
            for (int t = 0; t < LENGTH; t++) {
                const float *z = (float *)logits->data + (i * LENGTH + t) * WORDS;
                double total = 0.0;
                int best = 0;
                if (target[t] == -100)
                    continue;
                for (int w = 0; w < WORDS; w++) {
                    total += exp((double)z[w]);
                    best = z[w] > z[best] ? w : best;
                }
                sum += log(total) - (double)z[target[t]];
                right += best == target[t];
                items++;
            }
        }
        assert_int_equal(items, 1 + 2 + 0 + 4 + 5 + 6 + 1 + 2 + 3 + 4 + 5);
        assert_ok(vv_trainer_eval(trainer));
        const double nll = metric_of(trainer, "cross_entropy");
        const double share = metric_of(trainer, "masked_accuracy");
        assert_near(nll, sum / (double)items, 1e-6, 1e-6);
        assert_near(metric_of(trainer, "perplexity"), exp(sum / (double)items), 1e-5, 1e-5);
        assert_near(share, (double)right / (double)items, 1e-12, 0.0);
        assert_near(metric_of(trainer, "accuracy"), share, 0.0, 0.0);
        if (batch == 1)
            first = nll;
        assert_near(nll, first, 1e-6, 0.0);
        vv_tensor_free(logits);
        vv_trainer_free(trainer);
        text_fini(&train);
        text_fini(&eval);
    }
}

/* Case B1 with real logits: samples with 1, 2, 0, 4, ... counted tokens; the gradient of a batch
   is that of the mean over its tokens, so weights are the same for any microbatch. */
static void tokens_weigh_alike_in_any_microbatch(void **state)
{
    (void)state;
    tt_weights whole = {0};
    for (int64_t microbatch = 0; microbatch <= 3; microbatch++) {
        text train;
        text_init(&train, 9, 9, false, false);
        vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
        opts.microbatch = microbatch;
        vv_trainer *trainer = trainer_of(&train, NULL, "4ba", opts);
        assert_ok(vv_trainer_fit(trainer));
        tt_weights cut = tt_weights_of(trainer);
        if (microbatch == 0) {
            whole = cut;
        } else {
            for (size_t i = 0; i < whole.count; i++)
                assert_near(cut.values[i], whole.values[i], 2e-6, 2e-6);
            free(cut.values);
        }
        vv_trainer_free(trainer);
        text_fini(&train);
    }
    free(whole.values);
}

/* The last of three batches is sample 2 alone: its loss is 0, nothing is NaN. */
static void a_batch_without_a_counted_token_is_no_harm(void **state)
{
    (void)state;
    text train;
    text_init(&train, 4, 1, false, false);
    vv_trainer *trainer = trainer_of(&train, NULL, "3ba", (vv_trainer_opts)VV_TRAINER_DEFAULTS);
    assert_ok(vv_trainer_fit(trainer));
    assert_near(vv_trainer_state(trainer)->train_loss, 0.0, 0.0, 0.0);
    tt_weights got = tt_weights_of(trainer);
    for (size_t i = 0; i < got.count; i++)
        assert_true(isfinite(got.values[i]));
    free(got.values);
    vv_trainer_free(trainer);
    text_fini(&train);
}

static void durations_may_be_tokens(void **state)
{
    (void)state;
    text train;
    text_init(&train, 20, 4, true, false);
    vv_trainer *trainer = trainer_of(&train, NULL, "145tok",
                                     (vv_trainer_opts)VV_TRAINER_DEFAULTS);
    assert_ok(vv_trainer_fit(trainer));
    const vv_state *s = vv_trainer_state(trainer);
    assert_int_equal(s->time.batch, 7); /* 24 tokens a batch */
    assert_int_equal(s->time.token, 168);
    assert_int_equal(s->time.epoch, 1);
    assert_int_equal(s->axis.tokens_per_batch, 24);
    vv_trainer_free(trainer);
    text_fini(&train);
}

/* Masked: stopped in the middle of an epoch and gone on, bit-equal; evaluated twice, the same. */
static void masking_survives_a_resume(void **state)
{
    (void)state;
    tt_weights whole = {0};
    double metrics[2];
    for (int stopped = 0; stopped < 2; stopped++) {
        text train, eval;
        char folder[256];
        tt_folder(folder, sizeof folder);
        text_init(&train, 20, 4, true, true);
        text_init(&eval, 9, 4, false, true);
        vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
        opts.run_dir = folder;
        opts.resume = true;
        opts.save_interval = "1ba";
        opts.eval_interval = ""; /* one that is due would be put off again and again */
        vv_trainer *trainer = trainer_of(&train, &eval, "3ep", opts);
        while (stopped && vv_trainer_state(trainer)->time.batch < 8) {
            vv_trainer_interrupt(trainer); /* one batch, then it leaves */
            assert_fails(vv_trainer_fit(trainer), VV_EINTERRUPTED);
        }
        if (stopped) {
            vv_trainer_free(trainer);
            text_fini(&train);
            text_init(&train, 20, 4, true, true);
            trainer = trainer_of(&train, &eval, "3ep", opts);
            assert_int_equal(vv_trainer_state(trainer)->time.batch, 8);
        }
        assert_ok(vv_trainer_fit(trainer));
        assert_ok(vv_trainer_eval(trainer));
        metrics[stopped] = metric_of(trainer, "cross_entropy");
        assert_ok(vv_trainer_eval(trainer));
        assert_near(metric_of(trainer, "cross_entropy"), metrics[stopped], 0.0, 0.0);
        tt_weights got = tt_weights_of(trainer);
        if (stopped) {
            assert_same_bits(&got, &whole);
            assert_near(metrics[1], metrics[0], 0.0, 0.0);
            free(got.values);
        } else {
            whole = got;
        }
        vv_trainer_free(trainer);
        text_fini(&train);
        text_fini(&eval);
        tt_remove(folder);
    }
    free(whole.values);
}

static void a_token_beyond_the_table_is_told(void **state)
{
    (void)state;
    text train;
    text_init(&train, 4, 4, false, false);
    train.tokens[1][3] = WORDS;
    vv_trainer *trainer = trainer_of(&train, NULL, "1ba", (vv_trainer_opts)VV_TRAINER_DEFAULTS);
    vv_error_clear();
    assert_int_not_equal(vv_trainer_fit(trainer), VV_OK);
    assert_says("7");
    vv_trainer_free(trainer);
    text_fini(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_what_comes_next),
        cmocka_unit_test(metrics_count_tokens_with_a_loss),
        cmocka_unit_test(tokens_weigh_alike_in_any_microbatch),
        cmocka_unit_test(a_batch_without_a_counted_token_is_no_harm),
        cmocka_unit_test(durations_may_be_tokens),
        cmocka_unit_test(masking_survives_a_resume),
        cmocka_unit_test(a_token_beyond_the_table_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
