/* test_system_metrics.c - the numbers are differences of the kernel's counters: idle and waiting
 * cores are not busy, partitions and loop devices are not counted beside their disk, the loopback
 * is no network; a folder without the files is told at the start; the real files are read too. */
#include "callbacks/callback_test.h"

#include <vivace/system_metrics.h>

static char proc[256];

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", proc, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void put_all(int step)
{
    char text[1024];
    /* each step: 30 busy, 70 idle or waiting; 20 of this process */
    snprintf(text, sizeof text, "cpu  %d 0 %d %d %d 0 0 0 0 0\ncpu0 1 2 3 4\n", 1000 + 20 * step,
             100 + 10 * step, 5000 + 50 * step, 20 * step);
    put("stat", text);
    snprintf(text, sizeof text, "12 (a (strange) name) R 1 1 1 0 -1 4 5 6 7 8 %d %d 0 0 20 0\n",
             15 * step, 5 * step);
    put("self/stat", text);
    put("meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    250 kB\n");
    snprintf(text, sizeof text,
             "   8 0 sda 1 2 %d 4 5 6 %d 8 9 10 11\n   8 1 sda1 1 2 %d 4 5 6 %d 8 9 10 11\n"
             "   7 0 loop0 1 2 99999 4 5 6 99999 8 9 10 11\n", 1000 * step, 500 * step,
             900 * step, 400 * step);
    put("diskstats", text);
    snprintf(
        text, sizeof text,
        "Inter-|   Receive\n face |bytes packets\n    lo: 777%d 1 0 0 0 0 0 0 777 1 0 0 0 0 0 0\n"
        "  eth0:%d 1 0 0 0 0 0 0 %d 1 0 0 0 0 0 0\n",
        step, 3000 * step, 1000 * step);
    put("net/dev", text);
}

static vv_status move(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    if (event == VV_EVENT_BATCH_START)
        put_all((int)state->time.batch + 1);
    return VV_OK;
}

static double value_of(const numbers *got, const char *name, int64_t batch)
{
    for (int i = 0; i < got->count; i++)
        if (got->batches[i] == batch && strcmp(got->names[i], name) == 0)
            return got->values[i];
    return (double)NAN;
}

static void test_counters(void **unused)
{
    (void)unused;
    char path[300];
    tt_folder(proc, sizeof proc);
    snprintf(path, sizeof path, "%s/self", proc);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/net", proc);
    assert_int_equal(mkdir(path, 0700), 0);
    put_all(0);
    vv_system_metrics_opts opts = {{VV_UNIT_BATCH, 2, 0.0}, proc};
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    assert_ok(vv_callback_new(&callback, &vv_callback_system_metrics, &opts));
    assert_ok(callback_run(callback, "2ep", move, NULL, &got, &end));
    for (int64_t b = 1; b <= 10; b++) {
        double cpu = value_of(&got, "system/cpu_percent", b);
        assert_int_equal(isnan(cpu), b % 2);
        if (b % 2)
            continue;
        assert_near(cpu, 30.0, 1e-9, 0.0);
        assert_near(value_of(&got, "system/process_cpu_percent", b), 20.0, 1e-9, 0.0);
        assert_near(value_of(&got, "system/memory_used", b), 750.0 * 1024.0, 0.0, 0.0);
        assert_near(value_of(&got, "system/memory_percent", b), 75.0, 1e-9, 0.0);
        double read = value_of(&got, "system/disk_read_per_sec", b);
        double written = value_of(&got, "system/disk_written_per_sec", b);
        double received = value_of(&got, "system/network_received_per_sec", b);
        assert_true(read > 0.0);
        assert_near(read / written, 2.0, 0.0, 1e-9);
        assert_near(received / read, 3000.0 / (512.0 * 1000.0), 0.0, 1e-9);
        assert_near(received / value_of(&got, "system/network_sent_per_sec", b), 3.0, 0.0, 1e-9);
    }
    tt_remove(proc);
}

static void test_real(void **unused)
{
    (void)unused;
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    vv_system_metrics_opts opts = {{VV_UNIT_BATCH, 1, 0.0}, "/nowhere"};
    assert_ok(vv_callback_new(&callback, &vv_callback_system_metrics, &opts));
    assert_int_equal(callback_run(callback, "1ep", NULL, NULL, &got, &end), VV_EUNSUPPORTED);
    assert_says("/nowhere does not tell");
    if (access("/proc/stat", R_OK) != 0)
        skip();
    assert_ok(vv_callback_new(&callback, &vv_callback_system_metrics, NULL));
    assert_ok(callback_run(callback, "2ep", NULL, NULL, &got, &end));
    double percent = value_of(&got, "system/memory_percent", 10);
    assert_true(percent > 0.0 && percent < 100.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
