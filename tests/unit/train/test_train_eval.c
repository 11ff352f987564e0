/* test_train_eval.c - evaluation counts each sample once, whatever batch and microbatch sizes;
 * several evaluators keep their values apart; the model's mode comes back; unknown names are told
 * with the nearest; prediction gives one row per sample in order; training time does not contain
 * evaluation. */
#include "train_test.h"

static vv_trainer *make(tt_data *train, tt_data *eval, const vv_eval_set *sets, int count,
                        int64_t eval_microbatch)
{
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.5);
    opts.train = train ? train->loader : NULL;
    opts.eval = eval ? eval->loader : NULL;
    opts.eval_sets = sets;
    opts.eval_set_count = count;
    opts.eval_microbatch = eval_microbatch;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    return trainer;
}

/* Accuracy and cross-entropy of logits, by hand. */
static void by_hand(const vv_tensor *logits, const vv_dataset *set, double *accuracy, double *loss)
{
    const float *x = logits->data;
    const int32_t *target = set->targets;
    *accuracy = *loss = 0.0;
    for (int64_t i = 0; i < set->count; i++, x += TT_CLASSES) {
        int best = 0;
        double sum = 0.0;
        for (int j = 0; j < TT_CLASSES; j++) {
            best = x[j] > x[best] ? j : best;
            sum += exp((double)x[j]);
        }
        *accuracy += best == target[i];
        *loss += log(sum) - (double)x[target[i]];
    }
    *accuracy /= (double)set->count;
    *loss /= (double)set->count;
}

static void test_each_sample_once(void **unused)
{
    (void)unused;
    const int64_t batches[] = {10, 4, 3, 7}, micros[] = {0, 0, 2, 5};
    for (int i = 0; i < 4; i++) {
        tt_data eval;
        tt_data_init(&eval, 10, batches[i], false);
        vv_trainer *trainer = make(NULL, &eval, NULL, 0, micros[i]);
        vv_tensor *logits;
        assert_ok(vv_trainer_predict(trainer, eval.loader, &logits));
        assert_int_equal(logits->ndim, 2);
        assert_int_equal(logits->shape[0], 10);
        assert_int_equal(logits->shape[1], TT_CLASSES);
        double accuracy, loss, value;
        by_hand(logits, eval.set, &accuracy, &loss);
        assert_ok(vv_trainer_eval(trainer));
        assert_ok(vv_state_metric(vv_trainer_state(trainer), "eval", "accuracy", &value));
        assert_near(value, accuracy, 1e-12, 0.0);
        assert_ok(vv_state_metric(vv_trainer_state(trainer), "eval", "cross_entropy", &value));
        assert_near(value, loss, 1e-6, 0.0);
        assert_true(vv_module_training(vv_trainer_state(trainer)->model->net));
        vv_tensor_free(logits);
        vv_trainer_free(trainer);
        tt_data_fini(&eval);
    }
}

static void test_several(void **unused)
{
    (void)unused;
    tt_data all, few;
    tt_data_init(&all, 30, 8, false);
    tt_data_init(&few, 5, 2, false);
    const vv_eval_set sets[] = {{.label = "few", .loader = few.loader, .metrics = "accuracy"}};
    vv_trainer *trainer = make(NULL, &all, sets, 1, 0);
    const vv_state *state = vv_trainer_state(trainer);
    double value, again;
    assert_fails(vv_state_metric(state, "eval", "accuracy", &value), VV_ESTATE);
    assert_says("nothing has been evaluated");
    assert_ok(vv_trainer_eval(trainer));
    assert_ok(vv_state_metric(state, "eval", "accuracy", &value));
    assert_ok(vv_state_metric(state, "few", "accuracy", &again));
    assert_near(again * 5.0, floor(again * 5.0 + 0.5), 1e-9, 0.0);
    assert_near(value * 30.0, floor(value * 30.0 + 0.5), 1e-9, 0.0);
    assert_fails(vv_state_metric(state, "few", "cross_entropy", &value), VV_ENOTFOUND);
    assert_fails(vv_state_metric(state, "none", "accuracy", &value), VV_ENOTFOUND);
    vv_trainer_free(trainer);
    tt_data_fini(&all);
    tt_data_fini(&few);
}

static void test_refusals(void **unused)
{
    (void)unused;
    tt_data eval;
    tt_data_init(&eval, 5, 2, false);
    const vv_eval_set wrong[] = {{.loader = eval.loader, .metrics = "acuracy"}};
    const vv_eval_set twice[] = {{.label = "a", .loader = eval.loader},
                                 {.label = "a", .loader = eval.loader}};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    vv_trainer *trainer;
    opts.model = tt_mlp(0.0);
    opts.eval_sets = wrong;
    opts.eval_set_count = 1;
    assert_fails(vv_trainer_new(&trainer, &opts), VV_ENOTFOUND);
    assert_says("did you mean \"accuracy\"");
    opts.model = tt_mlp(0.0);
    opts.eval_sets = twice;
    opts.eval_set_count = 2;
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("labelled \"a\"");
    trainer = make(NULL, &eval, NULL, 0, 0);
    assert_fails(vv_trainer_fit(trainer), VV_ESTATE);
    assert_says("no training data");
    vv_trainer_free(trainer);
    tt_data_fini(&eval);
}

static vv_status slow_eval(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    (void)state;
    if (event == VV_EVENT_EVAL_BATCH_START)
        usleep(30000);
    return VV_OK;
}

static void test_time_apart(void **unused)
{
    (void)unused;
    tt_data train, eval;
    tt_data_init(&train, 10, 5, true);
    tt_data_init(&eval, 4, 2, false);
    vv_callback *callbacks[] = {tt_listen_with(slow_eval, NULL), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.eval = eval.loader;
    opts.max_duration = "3ep";
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    double start = vv_clock();
    assert_ok(vv_trainer_fit(trainer));
    double wall = vv_clock() - start, train_seconds = vv_trainer_state(trainer)->time.total_seconds;
    assert_true(wall >= 0.18); /* 3 evaluations of 2 batches */
    assert_true(train_seconds > 0.0 && train_seconds <= wall - 0.18);
    vv_str summary = {0};
    assert_ok(vv_trainer_summary(trainer, &summary));
    assert_non_null(strstr(vv_str_text(&summary), "\"epochs\": 3"));
    assert_non_null(strstr(vv_str_text(&summary), "\"samples\": 30"));
    assert_non_null(strstr(vv_str_text(&summary), "\"status\": \"done\""));
    vv_str_fini(&summary);
    vv_str plan = {0};
    assert_ok(vv_trainer_plan(trainer, &plan));
    assert_non_null(strstr(vv_str_text(&plan), "3ep = 6 batches of 5"));
    assert_non_null(strstr(vv_str_text(&plan), "3 times, first after batch 2, last after 6"));
    vv_str_fini(&plan);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_once),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_time_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
