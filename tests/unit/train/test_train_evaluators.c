/* test_train_evaluators.c - several evaluators, each with its own data, metrics, interval, subset
 * and microbatch: each runs when its own interval says so and exactly once at the end; a subset
 * counts its samples and no more; metrics are read by label and name; what cannot be meant is
 * refused with a sentence. Models of numbers evaluate and train as well. */
#include "train_test.h"

typedef struct heard {
    int evals[4], batches[4], samples[4]; /* by evaluator, in order of labels */
    int64_t last[4];
    int twice;
} heard;

static const char *const labels[] = {"often", "seldom", "end", "never"};

static vv_status hear(void *ctx, vv_event event, vv_state *state)
{
    heard *h = ctx;
    int at = 0;
    if (!state->eval_label)
        return VV_OK;
    while (at < 3 && strcmp(labels[at], state->eval_label) != 0)
        at++;
    if (event == VV_EVENT_EVAL_START) {
        h->twice += h->evals[at] > 0 && h->last[at] == state->time.batch;
        h->evals[at]++;
        h->last[at] = state->time.batch;
    } else if (event == VV_EVENT_EVAL_BATCH_START) {
        h->batches[at]++;
        h->samples[at] += (int)state->batch->count;
    }
    return VV_OK;
}

/* 5 batches an epoch. */
static heard run(const char *duration, const vv_eval_set *sets, int count)
{
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    heard h = {0};
    vv_callback *callbacks[] = {tt_listen_with(hear, &h), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.eval_sets = sets;
    opts.eval_set_count = count;
    opts.max_duration = duration;
    opts.eval_interval = "1ep";
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_trainer_fit(trainer)); /* finished: nothing more */
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    return h;
}

static void own_intervals(void **unused)
{
    (void)unused;
    tt_data eval;
    tt_data_init(&eval, 6, 4, false);
    const vv_eval_set sets[] = {
        {.label = "often", .loader = eval.loader, .interval = "2ba"},
        {.label = "seldom", .loader = eval.loader, .interval = "2ep"},
        {.label = "end", .loader = eval.loader, .interval = "0ep"},
        {.label = "never", .loader = eval.loader, .interval = ""},
    };
    static const struct {
        const char *duration;
        int evals[4];
    } cases[] = {
        {"4ep", {10, 2, 1, 0}}, /* 20 batches: the last of each is the final one */
        {"3ep", {8, 2, 1, 0}},  /* 15: 7 and the end; after 2 epochs and at the end */
        {"7ba", {4, 1, 1, 0}},  /* 2, 4, 6 and the end */
        {"14sp", {4, 1, 1, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        heard h = run(cases[i].duration, sets, 4);
        assert_memory_equal(h.evals, cases[i].evals, sizeof h.evals);
        assert_int_equal(h.twice, 0);
        assert_true(h.last[0] == h.last[1] && h.last[1] == h.last[2]);
    }
    tt_data_fini(&eval);
}

static void subsets(void **unused)
{
    (void)unused;
    tt_data eval;
    tt_data_init(&eval, 10, 4, false); /* 4, 4, 2 */
    static const struct {
        const char *subset;
        int batches, samples;
    } cases[] = {{NULL, 3, 10}, {"1ba", 1, 4}, {"2ba", 2, 8}, {"3ba", 3, 10},
                 {"5sp", 2, 5}, {"4sp", 1, 4}, {"99sp", 3, 10}, {"7ba", 3, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const vv_eval_set set = {.label = "often", .loader = eval.loader, .interval = "0ep",
                                 .subset = cases[i].subset, .microbatch = 3};
        heard h = run("1ba", &set, 1);
        assert_int_equal(h.batches[0], cases[i].batches);
        assert_int_equal(h.samples[0], cases[i].samples);
    }

    /* Its metric is that of those samples. */
    const vv_eval_set sets[] = {{.label = "part", .loader = eval.loader, .subset = "5sp"},
                                {.label = "all", .loader = eval.loader, .metrics = "top2,accuracy"}};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.eval_sets = sets;
    opts.eval_set_count = 2;
    vv_trainer *trainer;
    vv_tensor *logits;
    assert_ok(vv_trainer_new(&trainer, &opts));
    const vv_state *state = vv_trainer_state(trainer);
    const char *label, *name;
    double value, right = 0.0;
    assert_true(vv_state_metric_at(state, 3, &label, &name, &value));
    assert_true(isnan(value) && strcmp(label, "all") == 0 && strcmp(name, "accuracy") == 0);
    assert_false(vv_state_metric_at(state, 4, &label, &name, &value));
    assert_ok(vv_trainer_eval(trainer));
    assert_ok(vv_trainer_predict(trainer, eval.loader, &logits));
    for (int i = 0; i < 5; i++) {
        const float *x = (const float *)logits->data + (ptrdiff_t)i * TT_CLASSES;
        int best = 0;
        for (int k = 1; k < TT_CLASSES; k++)
            best = x[k] > x[best] ? k : best;
        right += best == ((const int32_t *)eval.set->targets)[i];
    }
    assert_ok(vv_state_metric(state, "part", "accuracy", &value));
    assert_near(value, right / 5.0, 1e-12, 0.0);
    assert_true(vv_state_metric_at(state, 2, &label, &name, &value));
    assert_true(value > 0.0 && strcmp(name, "top2") == 0);
    vv_str plan = {0};
    assert_ok(vv_trainer_plan(trainer, &plan));
    assert_non_null(strstr(vv_str_text(&plan), "\"part\", 5 of 10 samples"));
    vv_str_fini(&plan);
    vv_tensor_free(logits);
    vv_trainer_free(trainer);
    tt_data_fini(&eval);
}

/* A metric of one's own: the share of items that count at all. */
static vv_status size_own(const vv_metric *metric, int64_t *sums, int64_t *counts)
{
    (void)metric;
    *sums = 0;
    *counts = 1;
    return VV_OK;
}

static vv_status build_own(const vv_metric *metric, vv_node *output, vv_node *target,
                           vv_node **nodes)
{
    (void)metric, (void)output;
    nodes[0] = target;
    return VV_OK;
}

static vv_status add_own(vv_metric *metric, const vv_tensor *const *values)
{
    metric->tally.counts[0] += values[0]->count;
    return VV_OK;
}

static vv_status value_own(const vv_metric *metric, double *out)
{
    *out = (double)metric->tally.counts[0];
    return VV_OK;
}

static const vv_metric_desc own_metric = {
    {"metric", "items", "Counts items.", "", "any", tt_no_fields, 0},
    true, size_own, build_own, add_own, value_own};

static void own_metrics(void **unused)
{
    (void)unused;
    tt_data eval;
    tt_data_init(&eval, 10, 4, false);
    const vv_metric_desc *const own[] = {&own_metric, NULL};
    const vv_eval_set sets[] = {{.loader = eval.loader, .metrics = "accuracy", .own_metrics = own},
                                {.label = "b", .loader = eval.loader, .own_metrics = own}};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.eval_sets = sets;
    opts.eval_set_count = 2;
    vv_trainer *trainer;
    double value;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_eval(trainer));
    assert_ok(vv_state_metric(vv_trainer_state(trainer), "eval", "items", &value));
    assert_near(value, 10.0, 0.0, 0.0);
    assert_ok(vv_state_metric(vv_trainer_state(trainer), "b", "items", &value));
    assert_fails(vv_state_metric(vv_trainer_state(trainer), "b", "accuracy", &value), VV_ENOTFOUND);
    vv_trainer_free(trainer);
    tt_data_fini(&eval);
}

static void refused(const vv_eval_set *set, vv_status code, const char *says)
{
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    vv_trainer *trainer;
    opts.model = tt_mlp(0.0);
    opts.eval_sets = set;
    opts.eval_set_count = 1;
    assert_fails(vv_trainer_new(&trainer, &opts), code);
    assert_says(says);
    assert_null(trainer);
}

static void refusals(void **unused)
{
    (void)unused;
    tt_data eval;
    tt_data_init(&eval, 10, 4, false);
    vv_loader *dropping;
    vv_loader_opts drop = VV_LOADER_DEFAULTS;
    drop.batch_size = 4;
    drop.drop_last = true;
    assert_ok(vv_loader_new(&dropping, eval.set, &drop));
    refused(&(vv_eval_set){.loader = dropping}, VV_EINVAL, "drop_last");
    refused(&(vv_eval_set){.label = "x"}, VV_EINVAL, "evaluator x: no loader");
    refused(&(vv_eval_set){.loader = eval.loader, .subset = "3ep"}, VV_EINVAL, "subset");
    refused(&(vv_eval_set){.loader = eval.loader, .subset = "0ba"}, VV_EINVAL, "subset");
    refused(&(vv_eval_set){.loader = eval.loader, .interval = "3xy"}, VV_EINVAL, "interval");
    refused(&(vv_eval_set){.loader = eval.loader, .microbatch = -1}, VV_EINVAL, "microbatch");
    refused(&(vv_eval_set){.loader = eval.loader, .metrics = "accuracy, accuracy"}, VV_EINVAL,
            "twice");
    refused(&(vv_eval_set){.loader = eval.loader, .metrics = "accuracy,mse"}, VV_EINVAL, "mse");
    refused(&(vv_eval_set){.loader = eval.loader, .metrics = "f1"}, VV_EINVAL, "2 classes");
    refused(&(vv_eval_set){.loader = eval.loader, .metrics = ","}, VV_EINVAL, "no metric");
    refused(&(vv_eval_set){.label = "train", .loader = eval.loader}, VV_EINVAL, "train");
    vv_loader_free(dropping);
    tt_data_fini(&eval);
}

/* A linear model learns a line; mse is the metric that is meant. */
static void learns_numbers(void **unused)
{
    (void)unused;
    vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_F32, .input_ndim = 1,
                           .input_shape = {2}};
    float inputs[40], targets[20];
    for (int i = 0; i < 20; i++) {
        inputs[2 * i] = (float)(i % 5) - 2.0f;
        inputs[2 * i + 1] = (float)(i % 3) - 1.0f;
        targets[i] = 2.0f * inputs[2 * i] - inputs[2 * i + 1] + 0.5f;
    }
    vv_dataset *set;
    vv_loader *loaders[2];
    vv_loader_opts rows = VV_LOADER_DEFAULTS;
    rows.batch_size = 6; /* the last has 2 */
    assert_ok(vv_dataset_from_arrays(&set, &spec, 20, inputs, targets));
    for (int i = 0; i < 2; i++)
        assert_ok(vv_loader_new(&loaders[i], set, &rows));
    vv_module *net;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_linear_new(&net, 2, 1, true));
    assert_ok(vv_module_init_default(net, 3));
    assert_ok(vv_regressor_new(&opts.model, net));
    opts.train = loaders[0];
    opts.eval = loaders[1];
    opts.max_duration = "60ep";
    opts.eval_interval = "0ep";
    opts.train_metrics = "mse,spearman";
    const vv_sgd_opts sgd = {.lr = 0.1};
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    vv_trainer *trainer;
    double value;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_state_metric(vv_trainer_state(trainer), "eval", "mse", &value));
    assert_true(value < 1e-6);
    assert_ok(vv_state_metric(vv_trainer_state(trainer), "train_epoch", "spearman", &value));
    assert_true(value > 0.99);
    vv_trainer_free(trainer);
    for (int i = 0; i < 2; i++)
        vv_loader_free(loaders[i]);
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_intervals), cmocka_unit_test(subsets),
        cmocka_unit_test(own_metrics),   cmocka_unit_test(refusals),
        cmocka_unit_test(learns_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
