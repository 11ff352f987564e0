/* test_training_time.c - texts, arithmetic and the timestamp of training time.
 *
 * Every form of the grammar is read and every wrong one refused with a sentence; arithmetic needs
 * equal units and truncates; the timestamp follows the sequence of the specification. */
#include "vv_test.h"

#include <locale.h>

#include <vivace/training_time.h>

static void assert_reads(const char *text, int64_t count, vv_unit unit)
{
    vv_time t;
    vv_error_clear();
    vv_status status = vv_time_parse(&t, text, VV_UNIT_NONE);
    if (status != VV_OK || t.unit != unit || t.count != count)
        fail_msg("'%s' gave %lld%s (%s)", text, (long long)t.count, vv_unit_name(t.unit),
                 vv_error());
}

static void assert_refused(const char *text, vv_status code)
{
    vv_time t;
    vv_error_clear();
    vv_status status = vv_time_parse(&t, text, VV_UNIT_NONE);
    if (status != code || !vv_error()[0] || !vv_time_is_none(t))
        fail_msg("'%s' gave %s (%s)", text, vv_status_name(status), vv_error());
}

static void test_good_texts(void **state)
{
    (void)state;
    vv_time t;
    assert_reads("1ep", 1, VV_UNIT_EPOCH);
    assert_reads("2ba", 2, VV_UNIT_BATCH);
    assert_reads("3e10sp", INT64_C(30000000000), VV_UNIT_SAMPLE);
    assert_reads("3e4ba", 30000, VV_UNIT_BATCH);
    assert_reads("4_000tok", 4000, VV_UNIT_TOKEN);
    assert_reads("6sec", 6, VV_UNIT_SECOND);
    assert_reads("2iter", 2, VV_UNIT_ITERATION);
    assert_reads("2.0ep", 2, VV_UNIT_EPOCH);
    assert_reads("3.000ba", 3, VV_UNIT_BATCH);
    assert_reads("030.0ep", 30, VV_UNIT_EPOCH);
    assert_reads("5EP", 5, VV_UNIT_EPOCH);
    assert_reads("2E2Ba", 200, VV_UNIT_BATCH);
    assert_reads("  7ba\n", 7, VV_UNIT_BATCH);
    assert_reads("-1ba", -1, VV_UNIT_BATCH);
    assert_reads("0ep", 0, VV_UNIT_EPOCH);
    assert_reads("9007199254740993tok", INT64_C(9007199254740993), VV_UNIT_TOKEN); /* 2^53 + 1 */
    assert_reads("9223372036854775807tok", INT64_MAX, VV_UNIT_TOKEN);
    assert_ok(vv_time_parse(&t, "0.5dur", VV_UNIT_NONE));
    assert_int_equal(t.unit, VV_UNIT_DURATION);
    assert_true(t.fraction == 0.5);
    assert_ok(vv_time_parse(&t, ".25dur", VV_UNIT_NONE));
    assert_true(t.fraction == 0.25);
    assert_ok(vv_time_parse(&t, "1dur", VV_UNIT_NONE));
    assert_true(t.fraction == 1.0);
}

static void test_clock_texts(void **state)
{
    (void)state;
    assert_reads("1h20m40s", 4840, VV_UNIT_SECOND);
    assert_reads("1H20M40S", 4840, VV_UNIT_SECOND);
    assert_reads("2h", 7200, VV_UNIT_SECOND);
    assert_reads("90m", 5400, VV_UNIT_SECOND);
    assert_reads("100h75m99s", 360000 + 4500 + 99, VV_UNIT_SECOND);
    assert_reads("1h5s", 3605, VV_UNIT_SECOND);
    assert_reads("0s", 0, VV_UNIT_SECOND);
    assert_refused("5s1h", VV_EINVAL);
    assert_refused("1h1h", VV_EINVAL);
    assert_refused("h", VV_EINVAL);
    assert_refused("1h20", VV_EINVAL);
    assert_refused("-1h", VV_EINVAL);
    assert_refused("1.5h", VV_EINVAL);
    assert_refused("99999999999999999999h", VV_EINVAL);
    assert_refused("9223372036854775807h", VV_EINVAL);
}

static void test_bad_texts(void **state)
{
    (void)state;
    assert_refused("1.5ep", VV_ETYPE);
    assert_refused("2.1ba", VV_ETYPE);
    assert_refused("0.1sec", VV_ETYPE);
    assert_refused("", VV_EINVAL);
    assert_refused("ep", VV_EINVAL);
    assert_refused("10", VV_EINVAL);
    assert_says("10ep");
    assert_refused("10 ep", VV_EINVAL);
    assert_refused("10epochs", VV_EINVAL);
    assert_refused("ten ep", VV_EINVAL);
    assert_refused("1__0ba", VV_EINVAL);
    assert_refused("_1ba", VV_EINVAL);
    assert_refused("1_ba", VV_EINVAL);
    assert_refused("--1ba", VV_EINVAL);
    assert_refused("1e400ba", VV_EINVAL);
    assert_refused("1e30ba", VV_EINVAL);
    assert_refused("9223372036854775808tok", VV_EINVAL);
    assert_refused("nanep", VV_EINVAL);
    assert_refused("infdur", VV_EINVAL);
    assert_refused("0x10ba", VV_EINVAL);
    assert_refused("1ep2ba", VV_EINVAL);
    char huge[2000];
    memset(huge, '9', sizeof huge);
    memcpy(huge + sizeof huge - 3, "ba", 3);
    assert_refused(huge, VV_EINVAL);
    assert_refused(huge + 1550, VV_EINVAL);
}

static void test_bare_numbers(void **state)
{
    (void)state;
    vv_time t;
    assert_ok(vv_time_parse(&t, "90", VV_UNIT_EPOCH));
    assert_int_equal(t.unit, VV_UNIT_EPOCH);
    assert_int_equal(t.count, 90);
    assert_ok(vv_time_parse(&t, "0.5", VV_UNIT_DURATION));
    assert_true(t.fraction == 0.5);
    assert_ok(vv_time_parse(&t, "7ba", VV_UNIT_EPOCH));
    assert_int_equal(t.unit, VV_UNIT_BATCH);
    assert_fails(vv_time_parse(&t, "0.5", VV_UNIT_EPOCH), VV_ETYPE);
}

static void assert_text(vv_time t, const char *text)
{
    char buf[64];
    vv_time back;
    assert_string_equal(vv_time_text(t, buf, sizeof buf), text);
    assert_ok(vv_time_parse(&back, buf, VV_UNIT_NONE));
    assert_int_equal(back.unit, t.unit);
    assert_true(back.count == t.count && back.fraction == t.fraction);
}

static void test_texts_read_back(void **state)
{
    (void)state;
    char small[4];
    assert_text(vv_time_of(10, VV_UNIT_EPOCH), "10ep");
    assert_text(vv_time_of(-3, VV_UNIT_ITERATION), "-3iter");
    assert_text(vv_time_of(INT64_MAX, VV_UNIT_TOKEN), "9223372036854775807tok");
    assert_text(vv_time_fraction(0.5), "0.5dur");
    assert_text(vv_time_fraction(0.1 + 0.2), "0.30000000000000004dur");
    assert_text(vv_time_fraction(1e-9), "1e-09dur");
    assert_text(vv_time_fraction(1e300), "1e+300dur");
    assert_string_equal(vv_time_text(vv_time_none(), small, sizeof small), "non");
    /* A host program with a comma for its decimal point does not change what is read and
       written. */
    if (setlocale(LC_ALL, "de_DE.UTF-8"))
        assert_text(vv_time_fraction(0.25), "0.25dur");
    setlocale(LC_ALL, "C");
}

static void test_arithmetic(void **state)
{
    (void)state;
    vv_time t, two = vv_time_of(2, VV_UNIT_EPOCH), five = vv_time_of(5, VV_UNIT_EPOCH);
    vv_time batches = vv_time_of(3, VV_UNIT_BATCH), half = vv_time_fraction(0.5);
    int order;
    double ratio;
    assert_ok(vv_time_add(&t, two, five));
    assert_int_equal(t.count, 7);
    assert_int_equal(t.unit, VV_UNIT_EPOCH);
    assert_ok(vv_time_sub(&t, two, five));
    assert_int_equal(t.count, -3);
    assert_ok(vv_time_add(&t, half, half));
    assert_true(t.fraction == 1.0);
    assert_fails(vv_time_add(&t, two, batches), VV_ETYPE);
    assert_says("2ep");
    assert_fails(vv_time_sub(&t, two, half), VV_ETYPE);
    assert_fails(vv_time_add(&t, vv_time_none(), vv_time_none()), VV_ETYPE);
    assert_fails(
        vv_time_add(&t, vv_time_of(INT64_MAX, VV_UNIT_TOKEN), vv_time_of(1, VV_UNIT_TOKEN)),
        VV_EINVAL);
    assert_fails(vv_time_sub(&t, two, vv_time_of(INT64_MIN, VV_UNIT_EPOCH)), VV_EINVAL);
    assert_ok(vv_time_compare(&order, two, five));
    assert_int_equal(order, -1);
    assert_ok(vv_time_compare(&order, five, two));
    assert_int_equal(order, 1);
    assert_ok(vv_time_compare(&order, half, half));
    assert_int_equal(order, 0);
    assert_fails(vv_time_compare(&order, two, vv_time_of(2, VV_UNIT_BATCH)), VV_ETYPE);
    assert_ok(vv_time_ratio(&ratio, two, five));
    assert_true(ratio == 0.4);
    assert_fails(vv_time_ratio(&ratio, two, batches), VV_ETYPE);
    assert_fails(vv_time_ratio(&ratio, two, vv_time_of(0, VV_UNIT_EPOCH)), VV_EINVAL);
}

static void test_scaling(void **state)
{
    (void)state;
    vv_time t, five = vv_time_of(5, VV_UNIT_EPOCH);
    assert_int_equal(vv_time_scale(five, 0.5).count, 2);
    assert_int_equal(vv_time_scale(five, -0.5).count, -2);
    assert_int_equal(vv_time_scale(five, 1e300).count, INT64_MAX);
    assert_int_equal(vv_time_scale(five, -1e300).count, INT64_MIN);
    assert_int_equal(vv_time_scale(five, (double)NAN).count, 0);
    assert_true(vv_time_scale(vv_time_fraction(0.5), 0.5).fraction == 0.25);
    assert_true(vv_time_is_none(vv_time_scale(vv_time_none(), 2.0)));
    assert_ok(vv_time_of_duration(&t, vv_time_fraction(0.5), five));
    assert_int_equal(t.count, 2);
    assert_int_equal(t.unit, VV_UNIT_EPOCH);
    assert_fails(vv_time_of_duration(&t, five, five), VV_ETYPE);
    assert_fails(vv_time_of_duration(&t, vv_time_fraction(0.5), vv_time_none()), VV_ETYPE);
}

static void assert_batches(vv_time t, const vv_axis *axis, double want)
{
    double batches;
    assert_ok(vv_time_to_batches(&batches, t, axis));
    assert_near(batches, want, 1e-12, 1e-12);
}

static void test_axis(void **state)
{
    (void)state;
    double b;
    const vv_axis axis = {.batches_per_epoch = 5,
                          .samples_per_batch = 4,
                          .tokens_per_batch = 32,
                          .total_batches = 50,
                          .batches_per_iteration = 7};
    const vv_axis unknown = VV_AXIS_UNKNOWN;
    assert_batches(vv_time_of(3, VV_UNIT_BATCH), &axis, 3);
    assert_batches(vv_time_of(3, VV_UNIT_EPOCH), &axis, 15);
    assert_batches(vv_time_of(10, VV_UNIT_SAMPLE), &axis, 2.5);
    assert_batches(vv_time_of(64, VV_UNIT_TOKEN), &axis, 2);
    assert_batches(vv_time_fraction(0.25), &axis, 12.5);
    assert_batches(vv_time_of(3, VV_UNIT_BATCH), &unknown, 3);
    assert_fails(vv_time_to_batches(&b, vv_time_of(3, VV_UNIT_EPOCH), &unknown), VV_EINVAL);
    assert_fails(vv_time_to_batches(&b, vv_time_of(3, VV_UNIT_SAMPLE), &unknown), VV_EINVAL);
    assert_fails(vv_time_to_batches(&b, vv_time_of(3, VV_UNIT_TOKEN), &unknown), VV_EINVAL);
    assert_fails(vv_time_to_batches(&b, vv_time_fraction(0.5), &unknown), VV_EINVAL);
    assert_fails(vv_time_to_batches(&b, vv_time_of(3, VV_UNIT_SECOND), &axis), VV_ETYPE);
    assert_batches(vv_time_of(3, VV_UNIT_ITERATION), &axis, 21);
    assert_fails(vv_time_to_batches(&b, vv_time_of(3, VV_UNIT_ITERATION), &unknown), VV_EINVAL);
    assert_fails(vv_time_to_batches(&b, vv_time_of(3, VV_UNIT_USD), &axis), VV_ETYPE);
    assert_fails(vv_time_to_batches(&b, vv_time_none(), &axis), VV_ETYPE);
}

static void assert_position(vv_time t, const vv_axis *axis, double want)
{
    double position;
    assert_ok(vv_time_to_axis(&position, t, axis));
    assert_near(position, want, 1e-12, 1e-12);
}

/* An axis of seconds holds seconds and shares; batches and what is made of them have no place on
   it. An axis of batches holds the others. */
static void test_positions(void **state)
{
    (void)state;
    double p;
    const vv_axis batches = {5, 4, 32, 50, 7, 0.0, NULL, 0};
    vv_axis seconds = VV_AXIS_UNKNOWN;
    vv_timestamp now = {.batch = 12, .total_seconds = 99.5};
    seconds.batches_per_epoch = 5;
    seconds.budget_seconds = 900.0;
    assert_position(vv_time_of(90, VV_UNIT_SECOND), &seconds, 90);
    assert_position(vv_time_fraction(0.25), &seconds, 225);
    assert_fails(vv_time_to_axis(&p, vv_time_of(3, VV_UNIT_EPOCH), &seconds), VV_ETYPE);
    assert_says("give the time in sec or dur");
    assert_fails(vv_time_to_axis(&p, vv_time_of(3, VV_UNIT_BATCH), &seconds), VV_ETYPE);
    assert_fails(vv_time_to_axis(&p, vv_time_none(), &seconds), VV_ETYPE);
    assert_position(vv_time_of(3, VV_UNIT_EPOCH), &batches, 15);
    assert_fails(vv_time_to_axis(&p, vv_time_of(3, VV_UNIT_SECOND), &batches), VV_ETYPE);
    assert_near(vv_axis_length(&seconds), 900, 0, 0);
    assert_near(vv_axis_length(&batches), 50, 0, 0);
    assert_near(vv_timestamp_position(&now, &seconds), 99.5, 0, 0);
    assert_near(vv_timestamp_position(&now, &batches), 12, 0, 0);
}

/* Money is a real number, like a share; it is no count of the clock. */
static void test_money(void **state)
{
    (void)state;
    char text[48];
    vv_time a, b, sum;
    int order;
    int64_t count;
    const vv_timestamp now = {0};
    assert_ok(vv_time_parse(&a, "2.5USD", VV_UNIT_NONE));
    assert_int_equal(a.unit, VV_UNIT_USD);
    assert_string_equal(vv_time_text(a, text, sizeof text), "2.5usd");
    b = vv_time_of(2, VV_UNIT_USD);
    assert_ok(vv_time_add(&sum, a, b));
    assert_string_equal(vv_time_text(sum, text, sizeof text), "4.5usd");
    assert_ok(vv_time_sub(&sum, a, b));
    assert_near(sum.fraction, 0.5, 0, 0);
    assert_int_equal(sum.unit, VV_UNIT_USD);
    assert_ok(vv_time_compare(&order, a, b));
    assert_int_equal(order, 1);
    assert_string_equal(vv_time_text(vv_time_scale(a, 0.5), text, sizeof text), "1.25usd");
    assert_fails(vv_time_add(&sum, a, vv_time_fraction(0.5)), VV_ETYPE);
    assert_fails(vv_timestamp_get(&count, &now, VV_UNIT_USD), VV_ETYPE);
}

static void test_timestamp(void **state)
{
    (void)state;
    vv_timestamp now = {0};
    int64_t n;
    vv_timestamp_next_batch(&now, 10, 20, 5.0);
    assert_int_equal(now.batch, 1);
    assert_int_equal(now.batch_in_epoch, 1);
    assert_int_equal(now.sample_in_epoch, 10);
    assert_int_equal(now.token_in_epoch, 20);
    assert_true(now.batch_seconds == 5.0 && now.epoch_seconds == 5.0);
    vv_timestamp_next_epoch(&now, 5.0);
    assert_true(now.total_seconds == 10.0 && now.iteration_seconds == 10.0);
    assert_true(now.epoch_seconds == 0.0 && now.batch_seconds == 0.0);
    assert_int_equal(now.token_in_iteration, 20);
    assert_int_equal(now.epoch, 1);
    assert_int_equal(now.epoch_in_iteration, 1);
    assert_int_equal(now.batch_in_epoch + now.sample_in_epoch + now.token_in_epoch, 0);
    vv_timestamp_next_batch(&now, 5, 0, 10.0);
    vv_timestamp_next_batch(&now, 5, 1, 10.0);
    assert_int_equal(now.batch, 3);
    assert_int_equal(now.sample, 20);
    assert_int_equal(now.token, 21);
    assert_int_equal(now.batch_in_epoch, 2);
    vv_timestamp_next_epoch(&now, 0.0);
    vv_timestamp_next_batch(&now, 5, 1, 10.0);
    vv_timestamp_next_iteration(&now, 0.0);
    assert_int_equal(now.iteration, 1);
    assert_int_equal(now.epoch, 2);
    assert_int_equal(now.batch, 4);
    assert_int_equal(now.sample, 25);
    assert_int_equal(now.token, 22);
    assert_int_equal(now.epoch_in_iteration + now.token_in_iteration, 0);
    assert_int_equal(now.batch_in_epoch + now.sample_in_epoch + now.token_in_epoch, 0);
    assert_true(now.iteration_seconds == 0.0 && now.epoch_seconds == 0.0 &&
                now.batch_seconds == 0.0);
    assert_true(now.total_seconds == 40.0);
    static const struct {
        vv_unit unit;
        int64_t count;
    } counts[] = {{VV_UNIT_ITERATION, 1}, {VV_UNIT_EPOCH, 2},  {VV_UNIT_BATCH, 4},
                  {VV_UNIT_SAMPLE, 25},   {VV_UNIT_TOKEN, 22}, {VV_UNIT_SECOND, 40}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        assert_ok(vv_timestamp_get(&n, &now, counts[i].unit));
        assert_int_equal(n, counts[i].count);
    }
    assert_fails(vv_timestamp_get(&n, &now, VV_UNIT_DURATION), VV_ETYPE);
    assert_fails(vv_timestamp_get(&n, &now, VV_UNIT_NONE), VV_ETYPE);
}

static void test_clock(void **state)
{
    (void)state;
    double a = vv_clock(), b = vv_clock();
    assert_true(a > 0.0 && b >= a && b - a < 60.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_texts),      cmocka_unit_test(test_clock_texts),
        cmocka_unit_test(test_bad_texts),       cmocka_unit_test(test_bare_numbers),
        cmocka_unit_test(test_texts_read_back), cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_scaling),         cmocka_unit_test(test_axis),
        cmocka_unit_test(test_positions), cmocka_unit_test(test_money),
        cmocka_unit_test(test_timestamp),       cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
