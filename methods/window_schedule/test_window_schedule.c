/* test_window_schedule.c - what must hold: windows are shares of the sequence, rounded up; layers
 * are narrowed while training and have their own windows otherwise; a window of one token makes
 * each output depend on its own token alone; stages begin when they should; runs depend on neither
 * microbatches nor interruptions. */
#include "language_world.h"

#include "window_schedule.h"

static vv_attention_layer *core(vv_module *net, int block)
{
    return vv_module_self(vv_module_find(net, block ? "transformer.h.1.attn.core"
                                                    : "transformer.h.0.attn.core"));
}

static void windows(void **unused)
{
    (void)unused;
    assert_int_equal(vv_window_tokens(0.25, 1024, 1), 256);
    assert_int_equal(vv_window_tokens(0.3, 10, 1), 3);
    assert_int_equal(vv_window_tokens(0.3, 1000, 128), 384);
    assert_int_equal(vv_window_tokens(0.9, 1000, 512), 0);
    assert_int_equal(vv_window_tokens(1, 1000, 1), 0);
    vv_module *net = lw_net(0);
    core(net, 1)->window = 3;
    assert_int_equal(vv_narrow_windows(net, 5), 2);
    assert_int_equal(core(net, 0)->window, 5);
    assert_int_equal(core(net, 1)->window, 3);
    assert_int_equal(vv_narrow_windows(net, 0), 2);
    assert_int_equal(core(net, 0)->window, 5);
    /* One token: the last output does not see what came before. */
    float a[LW_TOKENS * LW_VOCABULARY], b[LW_TOKENS * LW_VOCABULARY];
    int32_t row[LW_TOKENS] = {0, 1, 4, 5, 0, 2, 7, 6, 3, 2, 7, 6, 1, 4, 5, 0};
    vv_narrow_windows(net, 1);
    assert_ok(lw_logits(net, row, 1, LW_TOKENS, a));
    row[3] = 1;
    assert_ok(lw_logits(net, row, 1, LW_TOKENS, b));
    assert_memory_equal(a + 4 * LW_VOCABULARY, b + 4 * LW_VOCABULARY,
                        12 * LW_VOCABULARY * sizeof(float));
    assert_memory_not_equal(a, b, sizeof a);
    vv_module_free(net);
}

static int64_t seen[2][16];
static int seen_count;

static vv_status look(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    if (state->dry)
        return VV_OK;
    assert_true(seen_count < 16);
    for (int i = 0; i < 2; i++)
        seen[i][seen_count] = core(state->model->net, i)->window;
    seen_count++;
    return VV_OK;
}

static vv_status look_outside(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    assert_int_equal(core(state->model->net, 0)->window, 0);
    assert_int_equal(core(state->model->net, 1)->window, 6);
    return VV_OK;
}

static void stages(void **unused)
{
    (void)unused;
    static const vv_callback_desc inside =
        MW_CALLBACK("inside", VV_EVENT_BIT(VV_EVENT_BEFORE_FORWARD), look);
    static const vv_callback_desc outside = MW_CALLBACK(
        "outside", VV_EVENT_BIT(VV_EVENT_BATCH_END) | VV_EVENT_BIT(VV_EVENT_EVAL_BEFORE_FORWARD) |
                       VV_EVENT_BIT(VV_EVENT_EVAL_AFTER_FORWARD),
        look_outside);
    mw_data d;
    vv_trainer *trainer;
    vv_str plan = {0};
    lw_open(&d, 12, 4);
    vv_trainer_opts opts = lw_opts(&d, "6ba");
    core(opts.model->net, 1)->window = 6;
    vv_method *m = mw_method("window_schedule", "scales=[0.25,0.5,1],at=[2ba,0.6667dur]");
    vv_callback *callbacks[] = {mw_callback(&inside), mw_callback(&outside), NULL};
    opts.methods = (vv_method_list){&m, 1};
    opts.callbacks = callbacks;
    opts.eval = d.eval;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_int_equal(core(vv_trainer_state(trainer)->model->net, 0)->window, 0);
    assert_ok(vv_trainer_plan(trainer, &plan));
    assert_non_null(strstr(vv_str_text(&plan), "attention sees 4 tokens, 8 tokens from 2ba on, all "
                                               "tokens from 0.6667dur on"));
    vv_str_fini(&plan);
    assert_ok(vv_trainer_fit(trainer));
    static const int64_t first[] = {4, 4, 8, 8, 8, 0}, second[] = {4, 4, 6, 6, 6, 6};
    assert_int_equal(seen_count, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(seen[0][i], first[i]);
        assert_int_equal(seen[1][i], second[i]);
    }
    vv_trainer_free(trainer);
    mw_close(&d);
}

static void training(void **unused)
{
    (void)unused;
    vv_method *method;
    lw_guarantees("6ba", "window_schedule", NULL);
    assert_ok(vv_method_make(&method, "window_schedule", NULL));
    vv_method_free(method);
    assert_fails(vv_method_make(&method, "window_schedule", "scales=[0.5,2],at=[1ba]"), VV_EINVAL);
    assert_fails(vv_method_make(&method, "window_schedule", "scales=0.5"), VV_EINVAL);
    assert_says("a time is needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(stages),
                                       cmocka_unit_test(training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
