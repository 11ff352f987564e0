/* test_train_metrics.c - metrics of training: the value after a batch is the batch's, the value
 * after an epoch is the average over its items, whatever the batches and microbatches; a mixed
 * batch is measured against its mixture; a run that was stopped within an epoch and resumed has the
 * same averages, to the bit; nothing else about the training changes. */
#include "train_test.h"

/* What was logged under a name, in order. */
typedef struct logged {
    double loss[64], accuracy[64], nll[64], epoch_loss[8], epoch_accuracy[8], epoch_nll[8];
    int count[6];
    int64_t rows[64];
    int batches;
} logged;
static logged *now;

static vv_status take(vv_logger *logger, const vv_state *state, const char *name, double value)
{
    (void)logger, (void)state;
    static const char *const names[] = {"loss/train/total",
                                        "metrics/train/accuracy",
                                        "metrics/train/cross_entropy",
                                        "loss/train_epoch/total",
                                        "metrics/train_epoch/accuracy",
                                        "metrics/train_epoch/cross_entropy"};
    double *const lists[] = {now->loss,       now->accuracy,       now->nll,
                             now->epoch_loss, now->epoch_accuracy, now->epoch_nll};
    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], name) == 0)
            lists[i][now->count[i]++] = value;
    return VV_OK;
}

static const vv_logger_desc taker = {
    .desc = {"logger", "taker", "Keeps numbers.", "", "any", tt_no_fields, 0}, .metric = take};

static vv_status count_rows(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    if (event == VV_EVENT_BATCH_START)
        now->rows[now->batches++] = state->batch->count;
    return VV_OK;
}

/* 11 samples in batches of 4, 4, 3. */
static tt_weights train(logged *out, int64_t microbatch, const char *metrics, const char *run_dir,
                        int64_t stop_after)
{
    tt_data data;
    tt_data_init(&data, 11, 4, true);
    *out = (logged){0};
    now = out;
    vv_callback *callbacks[] = {tt_listen_with(count_rows, NULL), NULL};
    vv_logger *loggers[] = {NULL, NULL};
    assert_ok(vv_logger_new(&loggers[0], &taker, NULL));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = data.loader;
    opts.max_duration = "2ep";
    opts.microbatch = microbatch;
    opts.train_metrics = metrics;
    opts.callbacks = callbacks;
    opts.loggers = loggers;
    opts.run_dir = run_dir;
    opts.resume = true;
    opts.save_interval = run_dir ? "1ba" : NULL;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    if (stop_after) {
        opts.max_duration = NULL;
        vv_state *state = vv_trainer_state(trainer);
        while (state->time.batch < stop_after) {
            vv_trainer_interrupt(trainer); /* one batch, then it leaves */
            assert_fails(vv_trainer_fit(trainer), VV_EINTERRUPTED);
        }
    } else {
        assert_ok(vv_trainer_fit(trainer));
    }
    tt_weights weights = tt_weights_of(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&data);
    return weights;
}

static void averages(void **unused)
{
    (void)unused;
    logged first;
    const int64_t microbatches[] = {0, 1, 3};
    for (int i = 0; i < 3; i++) {
        logged got;
        tt_weights weights = train(&got, microbatches[i], "accuracy,cross_entropy", NULL, 0);
        free(weights.values);
        for (int k = 0; k < 6; k++)
            assert_int_equal(got.count[k], k < 3 ? 6 : 2);
        for (int epoch = 0; epoch < 2; epoch++) {
            double loss = 0.0, accuracy = 0.0, items = 0.0;
            for (int b = 3 * epoch; b < 3 * epoch + 3; b++) {
                const double rows = (double)got.rows[b], right = got.accuracy[b] * rows;
                assert_near(right, floor(right + 0.5), 1e-9, 0.0);
                assert_near(got.loss[b], got.nll[b], 1e-6, 1e-6);
                loss += got.loss[b] * rows;
                accuracy += right;
                items += rows;
            }
            assert_near(items, 11.0, 0.0, 0.0);
            assert_near(got.epoch_loss[epoch], loss / 11.0, 1e-12, 1e-12);
            assert_near(got.epoch_accuracy[epoch], accuracy / 11.0, 1e-12, 1e-12);
            assert_near(got.epoch_nll[epoch], got.epoch_loss[epoch], 1e-6, 1e-6);
        }
        if (i == 0)
            first = got;
        for (int b = 0; b < 6; b++)
            assert_near(got.loss[b], first.loss[b], 1e-5, 1e-5);
    }
}

static void changes_nothing(void **unused)
{
    (void)unused;
    logged with, without;
    tt_weights a = train(&with, 2, "accuracy,top2,cross_entropy", NULL, 0);
    tt_weights b = train(&without, 2, NULL, NULL, 0);
    assert_same_bits(&a, &b);
    assert_int_equal(without.count[0], 6); /* the loss is always there */
    assert_int_equal(without.count[1], 0);
    assert_int_equal(without.count[3], 2);
    assert_memory_equal(with.epoch_loss, without.epoch_loss, 2 * sizeof(double));
    free(a.values);
    free(b.values);
}

static void resumes(void **unused)
{
    (void)unused;
    logged whole, rest, part;
    tt_weights a = train(&whole, 0, "accuracy,cross_entropy", NULL, 0);
    for (int64_t stop = 1; stop < 6; stop++) {
        char folder[256];
        tt_folder(folder, sizeof folder);
        free(train(&part, 0, "accuracy,cross_entropy", folder, stop).values);
        tt_weights b = train(&rest, 0, "accuracy,cross_entropy", folder, 0);
        assert_same_bits(&a, &b);
        const int epochs = part.count[3];
        assert_int_equal(epochs + rest.count[3], 2);
        for (int i = epochs; i < 2; i++) {
            assert_true(rest.epoch_loss[i - epochs] == whole.epoch_loss[i]);
            assert_true(rest.epoch_accuracy[i - epochs] == whole.epoch_accuracy[i]);
            assert_true(rest.epoch_nll[i - epochs] == whole.epoch_nll[i]);
        }
        free(b.values);
        tt_remove(folder);
    }
    free(a.values);
}

/* Every row is mixed, 3 : 1, with the next one's target. */
static vv_status mix(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    if (event != VV_EVENT_AFTER_DATALOADER)
        return count_rows(ctx, event, state);
    vv_batch *batch = state->batch;
    assert_ok(vv_tensor_clone(&batch->mix_target, batch->target));
    assert_ok(vv_tensor_new(&batch->mix_weight, VV_F32, 1, &batch->count));
    for (int64_t i = 0; i < batch->count; i++) {
        vv_tensor_set(batch->mix_target, i, vv_tensor_get(batch->target, (i + 1) % batch->count));
        vv_tensor_set(batch->mix_weight, i, i % 2 ? 0.75 : 0.25);
    }
    return VV_OK;
}

static void mixed_targets(void **unused)
{
    (void)unused;
    tt_data data;
    logged got = {0};
    now = &got;
    tt_data_init(&data, 12, 4, true);
    vv_callback *callbacks[] = {tt_listen_with(mix, NULL), NULL};
    vv_logger *loggers[] = {NULL, NULL};
    assert_ok(vv_logger_new(&loggers[0], &taker, NULL));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = data.loader;
    opts.max_duration = "1ep";
    opts.microbatch = 3;
    opts.train_metrics = "accuracy,cross_entropy";
    opts.callbacks = callbacks;
    opts.loggers = loggers;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    for (int b = 0; b < 3; b++)
        assert_near(got.nll[b], got.loss[b], 1e-6, 1e-6); /* the loss is of the mixture */
    vv_trainer_free(trainer);
    tt_data_fini(&data);
}

static void reading(void **unused)
{
    (void)unused;
    tt_data data;
    tt_data_init(&data, 8, 4, true);
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    vv_trainer *trainer;
    double value;
    opts.model = tt_mlp(0.0);
    opts.train_metrics = "acuracy";
    assert_fails(vv_trainer_new(&trainer, &opts), VV_ENOTFOUND);
    assert_says("train_metrics");
    assert_says("\"accuracy\"");
    opts.model = tt_mlp(0.0);
    opts.train = data.loader;
    opts.train_metrics = "accuracy";
    assert_ok(vv_trainer_new(&trainer, &opts));
    const vv_state *state = vv_trainer_state(trainer);
    assert_fails(vv_state_metric(state, "train", "loss", &value), VV_ESTATE);
    assert_fails(vv_state_metric(state, "train_epoch", "accuracy", &value), VV_ESTATE);
    assert_fails(vv_state_metric(state, "train", "top2", &value), VV_ENOTFOUND);
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_state_metric(state, "train", "loss", &value));
    assert_true(value == state->train_loss);
    assert_ok(vv_state_metric(state, "train_epoch", "loss", &value));
    assert_ok(vv_state_metric(state, "train", "accuracy", &value));
    assert_ok(vv_state_metric(state, "train_epoch", "accuracy", &value));
    vv_trainer_free(trainer);
    tt_data_fini(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages), cmocka_unit_test(changes_nothing), cmocka_unit_test(resumes),
        cmocka_unit_test(mixed_targets), cmocka_unit_test(reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
