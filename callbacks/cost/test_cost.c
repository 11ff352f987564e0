/* test_cost.c - dollars are seconds by price, so far and with what is still to come; the price is
 * the callback's or the run's; one of them must be known. */
#include "callbacks/callback_test.h"

#include <vivace/cost.h>

typedef struct clock_marks {
    double wall[32], left[32];
} clock_marks;

static vv_status watch(void *ctx, vv_event event, vv_state *state)
{
    clock_marks *m = ctx;
    if (event == VV_EVENT_BATCH_END) {
        m->wall[state->time.batch] = vv_state_wall_seconds(state);
        m->left[state->time.batch] = vv_state_remaining_seconds(state);
    }
    return VV_OK;
}

/* The run's price, known before the callback looks. */
static vv_status set_price(void *ctx, vv_event event, vv_state *state)
{
    if (event == VV_EVENT_INIT)
        state->usd_per_hour = 7200.0;
    return watch(ctx, event, state);
}

static void dollars_are_right(double price, tt_listen *listen)
{
    vv_cost_opts opts = {price};
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    clock_marks m = {.wall = {0}};
    assert_ok(vv_callback_new(&callback, &vv_callback_cost, &opts));
    assert_ok(callback_run(callback, "2ep", listen, &m, &got, &end));
    int now = 0, all = 0;
    double before = 0.0;
    for (int i = 0; i < got.count; i++) {
        int64_t b = got.batches[i];
        if (strcmp(got.names[i], "cost/usd") == 0) {
            now++; /* the listener read the clock right after the callback */
            assert_true(got.values[i] > before && got.values[i] <= 2.0 * m.wall[b]);
            assert_true(b == 1 || got.values[i] >= 2.0 * m.wall[b - 1]);
            before = got.values[i];
        }
        if (strcmp(got.names[i], "cost/usd_predicted") == 0) {
            all++;
            assert_near(got.values[i], before + 2.0 * m.left[b], 1e-9, 1e-9);
        }
    }
    assert_int_equal(now, 10);
    assert_int_equal(all, 9); /* nothing is known after the first batch */
}

static void test_dollars(void **unused)
{
    (void)unused;
    dollars_are_right(7200.0, watch); /* two dollars a second */
    dollars_are_right(0.0, set_price);
}

static void test_no_price(void **unused)
{
    (void)unused;
    vv_callback *callback;
    vv_timestamp end;
    vv_cost_opts opts = VV_COST_DEFAULTS;
    assert_ok(vv_callback_new(&callback, &vv_callback_cost, &opts));
    assert_int_equal(callback_run(callback, "1ep", NULL, NULL, NULL, &end), VV_EINVAL);
    assert_says("the price is not known");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dollars),
        cmocka_unit_test(test_no_price),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
