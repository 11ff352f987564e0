/* test_recommend.c - the three questions are answered by the means of configurations; runs that
 * failed or lack a number do not count; what a method does is what was computed by hand from
 * matched pairs; the baseline's kind is read at equal quality. */
#include "vv_test.h"
#include "vv_test_files.h"

#include <vivace/recommend.h>

static char folder[256];
static vv_run_store *store;
static vv_run_table *table;

/* One run; methods: "" or one or two names. */
static void put(const char *id, const char *duration, const char *method, const char *other,
                double seconds, double usd, double accuracy, const char *status)
{
    vv_run_row row;
    const vv_run_method methods[] = {{method, "{}"}, {other, "{}"}};
    const vv_run_eval eval = {"eval", "accuracy", true, 1, 4, 64, seconds, seconds, accuracy};
    vv_run_row_init(&row);
    row.id = id;
    row.status = status;
    row.dataset = "mnist";
    row.model = "mlp";
    row.max_duration = duration;
    row.train_seconds = seconds;
    row.usd = usd;
    assert_ok(vv_run_store_put(store, &row));
    assert_ok(vv_run_store_set_methods(store, id, methods, method[0] ? 1 + (other[0] != 0) : 0));
    if (isfinite(accuracy))
        assert_ok(vv_run_store_add_eval(store, id, &eval));
}

static void fill(void)
{
    const double nan = (double)NAN;
    /* without methods: 0.8 at 10 s, 0.9 at 40 s; each twice */
    put("p1", "1ep", "", "", 9, 1, 0.79, "done");
    put("p2", "1ep", "", "", 11, 3, 0.81, "done");
    put("q1", "4ep", "", "", 40, 8, 0.90, "done");
    put("q2", "4ep", "", "", 40, 8, 0.90, "done");
    /* with mixup: 0.85 at 12 s, 0.94 at 48 s, but of a dearer kind */
    put("m1", "1ep", "mixup", "", 12, 20, 0.85, "done");
    put("m4", "4ep", "mixup", "", 48, 80, 0.94, "done");
    /* both: no price */
    put("b4", "4ep", "ema", "mixup", 50, nan, 0.95, "done");
    /* none of these counts */
    put("bad1", "1ep", "", "", 0.1, 0.01, 0.99, "failed");
    put("bad2", "1ep", "", "", 0.1, 0.01, nan, "done");
    put("bad3", "1ep", "", "", nan, 0.01, 0.99, "done");
    assert_ok(vv_run_table_read(&table, store));
}

static void test_three_questions(void **unused)
{
    (void)unused;
    vv_recommend_opts opts = VV_RECOMMEND_DEFAULTS;
    vv_recommendation r;
    opts.dataset = "mnist";
    opts.quality = 0.7999; /* below the mean of p, whatever its last bit */
    assert_ok(vv_recommend(&r, table, &opts));
    assert_int_equal(r.run_count, 7);
    assert_int_equal(r.configuration_count, 5);
    assert_string_equal(r.cheapest.run->row.id, "p1");
    assert_int_equal(r.cheapest.quality.count, 2);
    assert_near(r.cheapest.quality.mean, 0.8, 1e-12, 0);
    assert_near(r.cheapest.usd.mean, 2.0, 1e-12, 0);
    assert_near(r.fastest.seconds.mean, 10.0, 1e-12, 0);
    assert_null(r.best.run); /* no budget, no answer */
    vv_recommendation_fini(&r);

    opts.quality = 0.9001;
    assert_ok(vv_recommend(&r, table, &opts));
    assert_string_equal(r.cheapest.run->row.id, "m4");
    assert_string_equal(r.fastest.run->row.id, "m4");
    vv_recommendation_fini(&r);

    opts.quality = 0.945; /* only b4, which nobody knows the price of */
    assert_ok(vv_recommend(&r, table, &opts));
    assert_null(r.cheapest.run);
    assert_string_equal(r.fastest.run->row.id, "b4");
    vv_recommendation_fini(&r);

    opts.quality = (double)NAN;
    opts.usd = 19.0;
    assert_ok(vv_recommend(&r, table, &opts));
    assert_null(r.cheapest.run);
    assert_string_equal(r.best.run->row.id, "q1");
    vv_recommendation_fini(&r);
    opts.usd = (double)NAN;
    opts.seconds = 48.0;
    assert_ok(vv_recommend(&r, table, &opts));
    assert_string_equal(r.best.run->row.id, "m4");
    vv_recommendation_fini(&r);
    opts.seconds = 5.0;
    opts.model = "vgg";
    assert_ok(vv_recommend(&r, table, &opts));
    assert_int_equal(r.run_count, 0);
    vv_recommendation_fini(&r);
}

static void test_effects(void **unused)
{
    (void)unused;
    vv_recommend_opts opts = VV_RECOMMEND_DEFAULTS;
    vv_recommendation r;
    assert_ok(vv_recommend(&r, table, &opts));
    assert_int_equal(r.effect_count, 2);
    assert_string_equal(r.effects[0].name, "ema");
    assert_int_equal(r.effects[0].pairs, 1); /* b4 and m4 */
    assert_near(r.effects[0].quality_difference, 0.01, 1e-12, 0);
    /* with ema there is one dot: nothing lies between; without it nothing reaches 0.95 */
    assert_int_equal(r.effects[0].timed, 0);
    assert_true(isnan(r.effects[0].time_ratio));
    assert_string_equal(r.effects[1].name, "mixup");
    assert_int_equal(r.effects[1].pairs, 2); /* m1 to p, m4 to q; b4 has no partner */
    assert_near(r.effects[1].quality_difference, (0.05 + 0.04) / 2.0, 1e-12, 0);
    /* frontier without: 9 s 0.79, 11 s 0.81, 40 s 0.90. At m1's 0.85 it needs 11 (40/11)^(4/9);
       m4's 0.94 it does not reach. The other way: 0.90 with mixup at 12 * 4^(5/9) against 40;
       0.79 and 0.81 lie below all that is known with it */
    const double there = log(12.0 / (11.0 * pow(40.0 / 11.0, 4.0 / 9.0)));
    const double back = log(12.0 * pow(4.0, 5.0 / 9.0) / 40.0);
    assert_int_equal(r.effects[1].timed, 3); /* m1; q1 and q2, which tie */
    assert_near(r.effects[1].time_ratio, exp((there + 2.0 * back) / 3.0), 1e-9, 0);
    vv_recommendation_fini(&r);
}

/* With a: +0.04, with b: +0.02, with both +0.03: together 0.03 less than the sum. Runs of another
   learning rate are no partners. */
static void test_pairs(void **unused)
{
    (void)unused;
    vv_recommend_opts opts = VV_RECOMMEND_DEFAULTS;
    vv_recommendation r;
    const vv_run_setting other[] = {{"optimizer.lr", "0.5"}, {"methods.a.x", "1"}};
    put("n", "2ep", "", "", 10, 1, 0.50, "done");
    put("na", "2ep", "a", "", 10, 1, 0.54, "done");
    put("nb1", "2ep", "b", "", 10, 1, 0.51, "done");
    put("nb2", "2ep", "b", "", 10, 1, 0.53, "done");
    put("nab", "2ep", "b", "a", 10, 1, 0.53, "done");
    put("far", "2ep", "a", "b", 10, 1, 0.99, "done"); /* alone at its learning rate */
    assert_ok(vv_run_store_set_settings(store, "far", other, 2));
    assert_ok(vv_run_table_refresh(table, true));
    assert_ok(vv_recommend(&r, table, &opts));
    assert_int_equal(r.pair_count, 1);
    assert_string_equal(r.pairs[0].a, "a");
    assert_string_equal(r.pairs[0].b, "b");
    assert_int_equal(r.pairs[0].places, 1);
    assert_near(r.pairs[0].interaction, -0.03, 1e-12, 0);
    vv_recommendation_fini(&r);
}

static void test_same_quality(void **unused)
{
    (void)unused;
    const vv_recommend_opts opts = VV_RECOMMEND_DEFAULTS;
    double seconds, usd;
    const vv_run_light *plain = vv_run_table_find(table, "q1");
    assert_ok(vv_recommend_same_quality(table, &opts, plain, 0.855, &seconds, &usd));
    assert_near(seconds, sqrt(11.0 * 40.0), 1e-9, 0);
    assert_near(usd, sqrt(3.0 * 8.0), 1e-9, 0);
    assert_ok(vv_recommend_same_quality(table, &opts, plain, 0.94, &seconds, &usd));
    assert_true(isnan(seconds) && isnan(usd)); /* not reached */
}

static int enter(void **unused)
{
    char path[512];
    (void)unused;
    temp_dir(folder);
    snprintf(path, sizeof path, "%s/runs.db", folder);
    assert_ok(vv_run_store_open(&store, path, true));
    fill();
    return 0;
}

static int leave(void **unused)
{
    (void)unused;
    vv_run_table_free(table);
    vv_run_store_close(store);
    remove_dir(folder);
    return vv_memory_live_count() != 0;
}

int main(void)
{
    if (!vv_run_store_available()) {
        printf("TAP version 13\n1..0 # SKIP this build has no SQLite\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_questions),
        cmocka_unit_test(test_effects),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_same_quality),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
