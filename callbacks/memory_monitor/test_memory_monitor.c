/* test_memory_monitor.c - the bytes are those of graph, library and process, in their order; they
 * come at the interval only. */
#include "callbacks/callback_test.h"

#include <vivace/memory_monitor.h>

typedef struct facts {
    vv_graph_stats stats;
    double library;
} facts;

static vv_status watch(void *ctx, vv_event event, vv_state *state)
{
    facts *f = ctx;
    if (event == VV_EVENT_BATCH_END) {
        vv_graph_get_stats(vv_trainer_graph(state->trainer), &f->stats);
        f->library = (double)vv_memory_live_bytes();
    }
    return VV_OK;
}

static void test_bytes(void **unused)
{
    (void)unused;
    vv_memory_monitor_opts opts = {{VV_UNIT_BATCH, 5, 0.0}};
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    facts f;
    static const char *const names[] = {"memory/slab_peak", "memory/slab_planned", "memory/library",
                                        "memory/library_peak", "memory/resident",
                                        "memory/resident_peak"};
    double last[6] = {0};
    int count[6] = {0};
    assert_ok(vv_callback_new(&callback, &vv_callback_memory_monitor, &opts));
    assert_ok(callback_run(callback, "2ep", watch, &f, &got, &end));
    for (int i = 0; i < got.count; i++)
        for (int k = 0; k < 6; k++)
            if (strcmp(got.names[i], names[k]) == 0) {
                assert_int_equal(got.batches[i] % 5, 0);
                last[k] = got.values[i];
                count[k]++;
            }
    for (int k = 0; k < 4; k++)
        assert_int_equal(count[k], 2);
    assert_near(last[1], (double)f.stats.planned_bytes, 0.0, 0.0);
    assert_near(last[0], (double)f.stats.peak_bytes, 0.0, 0.0);
    assert_true(last[0] > 0.0 && last[0] <= last[1] && last[2] <= last[3]);
    assert_near(last[2], f.library, 65536.0, 0.0); /* loggers' texts come and go */
    if (access("/proc/self/status", R_OK) == 0) {
        assert_int_equal(count[4], 2);
        assert_true(last[4] > 1e6 && last[4] <= last[5]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
