/* test_frontier.c - the frontier is what comparing every dot with every other gives, with ties and
 * dots that lack a number; the fit and the x at a quality are those computed by hand; intervals
 * have Student's widths. */
#include "vv_test.h"

#include <vivace/frontier.h>
#include <vivace/rng.h>

static bool usable(const vv_dot *d)
{
    return isfinite(d->x) && d->x >= 0.0 && isfinite(d->quality);
}

static bool beats(const vv_dot *a, const vv_dot *b, bool higher)
{
    const double qa = higher ? a->quality : -a->quality, qb = higher ? b->quality : -b->quality;
    return usable(a) && a->x <= b->x && qa >= qb && (a->x < b->x || qa > qb);
}

/* Few different values, so that ties of each kind are common; one in six lacks something. */
static vv_dot random_dot(vv_rng *rng, int values)
{
    vv_dot d = {(double)vv_rng_below(rng, values), (double)vv_rng_below(rng, values) / 8.0, true};
    switch (vv_rng_below(rng, 24)) {
    case 0:
        d.x = (double)NAN;
        break;
    case 1:
        d.quality = (double)NAN;
        break;
    case 2:
        d.x = (double)INFINITY;
        break;
    case 3:
        d.x = -1.0;
        break;
    default:
        break;
    }
    return d;
}

static void test_same_as_brute_force(void **unused)
{
    (void)unused;
    for (int round = 0; round < 400; round++) {
        vv_rng rng = vv_rng_at(7, "frontier", (uint64_t)round);
        vv_dot dots[120];
        const int count = (int)vv_rng_below(&rng, 120), values = round % 2 ? 6 : 1000;
        const bool higher = round % 4 < 2;
        for (int i = 0; i < count; i++)
            dots[i] = random_dot(&rng, values);
        assert_ok(vv_frontier_mark(dots, count, higher));
        for (int i = 0; i < count; i++) {
            bool survives = usable(&dots[i]);
            for (int j = 0; j < count && survives; j++)
                survives = !beats(&dots[j], &dots[i], higher);
            if (dots[i].frontier != survives)
                fail_msg("round %d: dot %d (%g, %g) is on the frontier: %d, expected %d", round, i,
                         dots[i].x, dots[i].quality, dots[i].frontier, survives);
        }
    }
}

static void test_what_is_missing_changes_nothing(void **unused)
{
    (void)unused;
    /* a failed run without quality is no dot at zero, one without cost none at the left edge */
    vv_dot dots[] = {{10, 0.5, false}, {20, 0.9, false}, {5, (double)NAN, true},
                     {(double)NAN, 0.99, true}, {20, 0.9, false}, {20, 0.8, false}};
    assert_ok(vv_frontier_mark(dots, 6, true));
    const bool expected[] = {true, true, false, false, true, false};
    for (int i = 0; i < 6; i++)
        assert_int_equal(dots[i].frontier, expected[i]);
    assert_ok(vv_frontier_mark(NULL, 0, true));
}

static void test_fit(void **unused)
{
    (void)unused;
    double a, b;
    vv_dot line[] = {{1, 2, true}, {exp(1.0), 5, true}, {exp(2.0), 8, true}, {3, -50, false}};
    assert_true(vv_frontier_fit(line, 4, &a, &b)); /* the last is not on the frontier */
    assert_near(a, 2.0, 1e-12, 0);
    assert_near(b, 3.0, 1e-12, 0);
    /* ln x = 0, 1, 2 and y = 0, 1, 1: b = cov / var = 1 / 2, a = 2/3 - 1/2 */
    vv_dot bent[] = {{1, 0, true}, {exp(1.0), 1, true}, {exp(2.0), 1, true}};
    assert_true(vv_frontier_fit(bent, 3, &a, &b));
    assert_near(b, 0.5, 1e-12, 0);
    assert_near(a, 1.0 / 6.0, 1e-12, 0);
    vv_dot same[] = {{4, 1, true}, {4, 1, true}, {0, 0.5, true}};
    assert_false(vv_frontier_fit(same, 3, &a, &b)); /* one x, and one without a logarithm */
    assert_true(isnan(a) && isnan(b));
    assert_false(vv_frontier_fit(same, 0, &a, &b));
}

static void test_x_at_a_quality(void **unused)
{
    (void)unused;
    const vv_dot up[] = {{100, 0.9, true}, {10, 0.7, true}, {1000, 0.94, true}, {50, 0.6, false}};
    assert_near(vv_frontier_x_at(up, 4, true, 0.8), sqrt(10.0 * 100.0), 0,
                1e-12); /* half way in ln */
    assert_near(vv_frontier_x_at(up, 4, true, 0.91), 100.0 * pow(10.0, 0.25), 0, 1e-12);
    assert_true(vv_frontier_x_at(up, 4, true, 0.9) == 100.0);
    assert_true(vv_frontier_x_at(up, 4, true, 0.94) == 1000.0);
    assert_true(vv_frontier_x_at(up, 4, true, 0.1) == 10.0); /* nothing is known to the left */
    assert_true(isnan(vv_frontier_x_at(up, 4, true, 0.95))); /* not reached */
    assert_true(isnan(vv_frontier_x_at(up, 4, true, (double)NAN)));
    assert_true(isnan(vv_frontier_x_at(up, 0, true, 0.5)));
    const vv_dot down[] = {{2, 3.0, true}, {8, 2.0, true}};
    assert_near(vv_frontier_x_at(down, 2, false, 2.5), 4.0, 0, 1e-12);
    assert_true(isnan(vv_frontier_x_at(down, 2, false, 1.9)));
    const vv_dot free_one[] = {{0, 0.5, true}, {8, 1.0, true}};
    assert_near(vv_frontier_x_at(free_one, 2, true, 0.75), 4.0, 0, 1e-12);
}

static void test_best_within(void **unused)
{
    (void)unused;
    const vv_dot dots[] = {
        {100, 0.9, true}, {10, 0.7, true}, {1000, 0.94, true}, {50, 0.95, false}};
    assert_int_equal(vv_frontier_best_within(dots, 4, true, 100.0), 0);
    assert_int_equal(vv_frontier_best_within(dots, 4, true, 99.0), 1);
    assert_int_equal(vv_frontier_best_within(dots, 4, true, 9.0), -1);
    assert_int_equal(vv_frontier_best_within(dots, 4, true, (double)INFINITY), 2);
}

static void test_intervals(void **unused)
{
    (void)unused;
    /* t tables: 12.7062 for one degree of freedom, 4.30265 for two, 2.77645 for four, 2.04523 for
       29 */
    const double two[] = {1.0, 3.0}; /* deviation sqrt 2, error of the mean 1 */
    vv_interval i = vv_interval_of(two, 2);
    assert_near(i.mean, 2.0, 1e-12, 0);
    assert_near(i.high - i.mean, 12.7062, 1e-4, 0);
    const double three[] = {1.0, (double)NAN, 2.0, 3.0}; /* error sqrt(1/3) */
    i = vv_interval_of(three, 4);
    assert_int_equal(i.count, 3);
    assert_near(i.mean - i.low, 4.30265 * sqrt(1.0 / 3.0), 1e-4, 0);
    const double five[] = {1, 2, 3, 4, 5}; /* deviation sqrt 2.5 */
    i = vv_interval_of(five, 5);
    assert_near(i.high - i.mean, 2.77645 * sqrt(0.5), 1e-4, 0);
    double thirty[30];
    for (int k = 0; k < 30; k++)
        thirty[k] = k % 2 ? 1.0 : -1.0; /* variance 30/29, error of the mean sqrt(1/29) */
    i = vv_interval_of(thirty, 30);
    assert_near(i.high, 2.04523 * sqrt(1.0 / 29.0), 1e-4, 0);
    i = vv_interval_of(five, 1);
    assert_true(i.mean == 1.0 && isnan(i.low) && isnan(i.high));
    i = vv_interval_of(NULL, 0);
    assert_true(i.count == 0 && isnan(i.mean));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_brute_force),
        cmocka_unit_test(test_what_is_missing_changes_nothing),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_x_at_a_quality),
        cmocka_unit_test(test_best_within),
        cmocka_unit_test(test_intervals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
