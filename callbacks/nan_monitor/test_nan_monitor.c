/* test_nan_monitor.c - a run whose loss becomes NaN (or infinite) ends with a sentence that names
 * the batch, and with the weights it had before that batch; without the callback it would go on. */
#include "callbacks/callback_test.h"
#include <vivace/nan_monitor.h>

typedef struct spoiler {
    double value;   /* put into the input of batch 2 */
    bool finite_after; /* the weights when the run ended */
} spoiler;

static vv_status spoil(void *ctx, vv_event event, vv_state *state)
{
    spoiler *s = ctx;
    if (event == VV_EVENT_BATCH_START && state->time.batch == 2)
        vv_tensor_fill(state->batch->input, s->value);
    if (event == VV_EVENT_BATCH_START || event == VV_EVENT_FIT_END ||
        event == VV_EVENT_AFTER_BACKWARD) {
        const vv_tensor *w =
            vv_module_param(vv_module_find(state->model->net, "0"), "weight")->value;
        s->finite_after = true;
        for (int64_t i = 0; i < w->count; i++)
            s->finite_after = s->finite_after && isfinite(vv_tensor_get(w, i));
    }
    return VV_OK;
}

static vv_status run(double value, bool watch, bool infinity, bool *finite)
{
    vv_nan_monitor_opts opts = {infinity};
    vv_callback *callback = NULL;
    vv_timestamp end;
    spoiler s = {.value = value};
    if (watch)
        assert_ok(vv_callback_new(&callback, &vv_callback_nan_monitor, &opts));
    else
        callback = tt_listen_with(NULL, NULL);
    vv_status status = callback_run(callback, "1ep", spoil, &s, NULL, &end);
    *finite = s.finite_after;
    return status;
}

static void test_nan(void **unused)
{
    (void)unused;
    bool finite;
    assert_ok(run((double)NAN, false, true, &finite));
    assert_false(finite);
    assert_int_equal(run((double)NAN, true, true, &finite), VV_ENUMERIC);
    assert_says("the loss of batch 2 (epoch 0) is");
    assert_true(finite);
    assert_int_equal(run((double)NAN, true, false, &finite), VV_ENUMERIC);
    assert_ok(run(0.5, true, true, &finite));
    assert_true(finite);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
