/* test_g1_microbatch.c - guarantee G1: the microbatch size does not change the training beyond
 * rounding. A batch of 512 rows in pieces of 512, 128 and 100 (the last smaller), with dropout,
 * momentum and clipping, over several steps, with both losses of classifiers: the same losses,
 * gradient norms and weights; and the same bits when nothing but the run is repeated. (Statistics
 * of batch norms are those of each microbatch, by nature.) */
#include "unit/train/train_test.h"

#define STEPS 8

typedef struct history {
    double loss[STEPS], norm[STEPS];
} history;

static vv_status note(void *ctx, vv_event event, vv_state *state)
{
    history *h = ctx;
    if (event == VV_EVENT_BATCH_END) {
        h->loss[state->time.batch - 1] = state->train_loss;
        h->norm[state->time.batch - 1] = state->grad_norm;
    }
    return VV_OK;
}

static tt_weights train(int64_t microbatch, const char *loss, history *h)
{
    tt_data data;
    tt_data_init(&data, 1024, 512, true);
    vv_callback *callbacks[] = {tt_listen_with(note, h), NULL};
    vv_sgd_opts sgd = {.lr = 0.5, .momentum = 0.9};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.3);
    assert_ok(vv_model_set_loss(opts.model, loss));
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = data.loader;
    opts.max_duration = "8ba";
    opts.microbatch = microbatch;
    opts.grad_clip_norm = 0.05;
    opts.callbacks = callbacks;
    opts.seed = 42;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    tt_weights w = tt_weights_of(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&data);
    return w;
}

static void check_sizes(const char *loss)
{
    const int64_t sizes[] = {512, 128, 100, 1024};
    history whole, part;
    tt_weights expected = train(0, loss, &whole);
    assert_true(whole.loss[STEPS - 1] < whole.loss[0]);
    assert_true(whole.norm[0] > 0.05); /* clipping did act */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tt_weights got = train(sizes[i], loss, &part);
        for (int j = 0; j < STEPS; j++) {
            assert_near(part.loss[j], whole.loss[j], 1e-6, 1e-5);
            assert_near(part.norm[j], whole.norm[j], 1e-6, 1e-4);
        }
        assert_int_equal(got.count, expected.count);
        for (size_t k = 0; k < got.count; k++)
            assert_near((double)got.values[k], (double)expected.values[k], 1e-5, 1e-4);
        if (sizes[i] >= 512)
            assert_same_bits(&got, &expected);
        free(got.values);
    }
    free(expected.values);
}

static void test_sizes(void **unused)
{
    (void)unused;
    check_sizes("cross_entropy");
    check_sizes("binary_cross_entropy");
}

static void test_repeat(void **unused)
{
    (void)unused;
    history a, b;
    tt_weights first = train(100, "auto", &a), second = train(100, "auto", &b);
    assert_same_bits(&first, &second);
    assert_memory_equal(a.loss, b.loss, sizeof a.loss);
    free(first.values);
    free(second.values);
}

static void test_threads(void **unused)
{
    (void)unused;
    history a, b;
    vv_set_threads(1);
    tt_weights one = train(128, "auto", &a);
    vv_set_threads(2);
    tt_weights two = train(128, "auto", &b);
    vv_set_threads(0);
    for (size_t k = 0; k < one.count; k++)
        assert_near((double)two.values[k], (double)one.values[k], 1e-5, 1e-4);
    free(one.values);
    free(two.values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
