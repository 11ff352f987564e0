/* test_run_table.c - runs in memory are those of the store: after each change, whoever wrote it,
 * with metrics, tags and methods; what did not change keeps its revision; runs that differ in seed,
 * name and machine are one group; no allocation that fails leaks or crashes. */
#include "vv_test.h"
#include "vv_test_files.h"

#include <time.h>

#include <vivace/frontier.h>

static char folder[256], path[512];

static vv_run_store *open_store(void)
{
    vv_run_store *store;
    assert_ok(vv_run_store_open(&store, path, true));
    return store;
}

static void put(vv_run_store *store, const char *id, const char *status, double seen)
{
    vv_run_row row;
    vv_run_row_init(&row);
    row.id = id;
    row.status = status;
    row.dataset = "mnist";
    row.recipe = "a: 1\n";
    row.started = seen - 10.0;
    row.seen = seen;
    row.train_seconds = 5.0;
    assert_ok(vv_run_store_put(store, &row));
}

static void put_eval(vv_run_store *store, const char *id, int batch, double accuracy, double loss)
{
    vv_run_eval eval = {"eval", "accuracy", true, 1, batch, 10, 1.0, 1.0, accuracy};
    assert_ok(vv_run_store_add_eval(store, id, &eval));
    eval.metric = "cross_entropy";
    eval.higher_is_better = false;
    eval.value = loss;
    assert_ok(vv_run_store_add_eval(store, id, &eval));
}

static void configure(vv_run_store *store, const char *id, const char *seed, const char *lr,
                      const char *alpha)
{
    const vv_run_setting settings[] = {{"seed", seed},       {"name", id},      {"threads", seed},
                                       {"save_name", id},    {"hardware", id},  {"dataset.dir", id},
                                       {"optimizer.lr", lr}, {"precision", "fp32"}};
    const vv_run_method method = {"mixup", alpha};
    assert_ok(vv_run_store_set_settings(store, id, settings, 8));
    assert_ok(vv_run_store_set_methods(store, id, &method, 1));
}

static void test_what_is_in_it(void **unused)
{
    (void)unused;
    vv_run_store *store = open_store();
    vv_run_table *table;
    put(store, "b", "done", 2000.0);
    put(store, "a", "done", 3000.0);
    put_eval(store, "b", 1, 0.9, 0.5);
    put_eval(store, "b", 2, 0.8, 0.7);
    put_eval(store, "b", 3, 0.85, (double)NAN); /* the loss went to infinity */
    configure(store, "b", "1", "0.1", "{}");
    assert_ok(vv_run_store_tag(store, "b", "good", true));
    assert_ok(vv_run_table_read(&table, store));
    assert_int_equal(vv_run_table_count(table), 2);
    const vv_run_light *run = vv_run_table_at(table, 0); /* in order of start */
    assert_string_equal(run->row.id, "b");
    assert_string_equal(run->row.dataset, "mnist");
    assert_string_equal(run->row.recipe, "");
    assert_int_equal(run->tag_count, 1);
    assert_string_equal(run->tags[0], "good");
    assert_int_equal(run->method_count, 1);
    assert_string_equal(run->methods[0], "mixup");
    const vv_run_metric *m = vv_run_light_metric(run, "eval/accuracy");
    assert_non_null(m);
    assert_true(m->final == 0.85 && m->best == 0.9 && m->higher_is_better);
    m = vv_run_light_metric(run, "eval/cross_entropy");
    assert_true(isnan(m->final) && m->best == 0.5 && !m->higher_is_better);
    assert_null(vv_run_light_metric(run, "eval/perplexity"));
    assert_null(vv_run_table_find(table, "c"));
    assert_ptr_equal(vv_run_table_find(table, "b"), run);
    vv_run_table_free(table);
    vv_run_store_close(store);
}

static void test_follows_another_writer(void **unused)
{
    (void)unused;
    vv_run_store *writer = open_store(), *reader;
    vv_run_table *table;
    uint64_t when;
    const double now = (double)time(NULL);
    put(writer, "old", "done", 1000.0);
    put(writer, "new", "running", now);
    assert_ok(vv_run_store_open(&reader, path, false));
    assert_ok(vv_run_table_read(&table, reader));
    const uint64_t first = vv_run_table_revision(table);
    assert_ok(vv_run_table_refresh(table, false));
    assert_int_equal(vv_run_table_revision(table), first); /* nothing happened */

    put(writer, "new", "running", now + 1.0);
    put_eval(writer, "new", 4, 0.5, 1.0);
    assert_ok(vv_run_table_refresh(table, false));
    const uint64_t second = vv_run_table_revision(table);
    assert_true(second > first);
    assert_true(vv_run_table_find(table, "new")->revision > first);
    assert_true(vv_run_table_find(table, "old")->revision <= first);
    assert_int_equal(vv_run_table_find(table, "new")->metric_count, 2);

    assert_ok(vv_run_store_tag(writer, "old", "kept", true)); /* changes no row */
    assert_ok(vv_run_table_refresh(table, false));
    assert_true(vv_run_table_find(table, "old")->revision > second);
    assert_string_equal(vv_run_table_find(table, "old")->tags[0], "kept");

    put(writer, "imported", "done", 50.0); /* not heard of lately, but there is one more */
    assert_ok(vv_run_table_refresh(table, false));
    assert_int_equal(vv_run_table_count(table), 3);
    assert_string_equal(vv_run_table_at(table, 0)->row.id, "imported");

    assert_ok(vv_run_store_delete(writer, "old"));
    assert_ok(vv_run_table_refresh(table, false));
    assert_int_equal(vv_run_table_count(table), 2);
    assert_null(vv_run_table_find(table, "old"));
    assert_string_equal(vv_run_table_gone(table, 0, &when), "old");
    assert_true(when == vv_run_table_revision(table));
    assert_null(vv_run_table_gone(table, 1, &when));

    assert_ok(vv_run_store_note(writer, "imported", "seen")); /* neither lately nor a tag */
    assert_ok(vv_run_table_refresh(table, true));
    assert_string_equal(vv_run_table_find(table, "imported")->row.note, "seen");
    vv_run_table_free(table);
    vv_run_store_close(reader);
    vv_run_store_close(writer);
}

static void test_groups(void **unused)
{
    (void)unused;
    vv_run_store *store = open_store();
    vv_run_table *table;
    for (int i = 0; i < 4; i++) {
        const char *ids[] = {"a", "b", "lr", "alpha"};
        put(store, ids[i], "done", 1000.0);
        configure(store, ids[i], i ? "2" : "1", i == 2 ? "0.2" : "0.1",
                  i == 3 ? "{\"alpha\":1}" : "{}");
    }
    assert_ok(vv_run_table_read(&table, store));
    const uint64_t group = vv_run_table_find(table, "a")->group;
    assert_true(vv_run_table_find(table, "b")->group == group);
    assert_true(vv_run_table_find(table, "lr")->group != group);
    assert_true(vv_run_table_find(table, "alpha")->group != group);
    vv_run_table_free(table);
    vv_run_store_close(store);
}

/* One sweep over all tables and single questions give the same. */
static void test_many_and_few(void **unused)
{
    (void)unused;
    vv_run_store *store = open_store();
    vv_run_table *few, *many;
    vv_run_store *reader;
    assert_ok(vv_run_store_open(&reader, path, false));
    assert_ok(vv_run_table_read(&few, reader)); /* takes them in by twenties */
    for (int i = 0; i < 200; i++) {
        char id[16];
        snprintf(id, sizeof id, "run%d", i);
        put(store, id, "done", 1000.0 + i);
        configure(store, id, i % 2 ? "1" : "2", i % 3 ? "0.1" : "0.2", "{}");
        put_eval(store, id, i % 5, i / 200.0, 1.0);
        if (i % 7 == 0)
            assert_ok(vv_run_store_tag(store, id, "seventh", true));
        if (i % 20 == 19)
            assert_ok(vv_run_table_refresh(few, false));
    }
    assert_ok(vv_run_table_read(&many, store));
    assert_int_equal(vv_run_table_count(few), 200);
    for (int i = 0; i < 200; i++) {
        const vv_run_light *a = vv_run_table_at(few, i), *b = vv_run_table_at(many, i);
        assert_string_equal(a->row.id, b->row.id);
        assert_true(a->group == b->group);
        assert_int_equal(a->tag_count, b->tag_count);
        assert_int_equal(b->tag_count, atoi(b->row.id + 3) % 7 == 0);
        assert_int_equal(a->metric_count, b->metric_count);
        assert_true(a->metrics[0].final == b->metrics[0].final);
        assert_true(b->metrics[0].final == atoi(b->row.id + 3) / 200.0);
    }
    vv_run_table_free(few);
    vv_run_table_free(many);
    vv_run_store_close(store);
    vv_run_store_close(reader);
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    vv_run_store *store = open_store();
    vv_run_table *table = NULL;
    for (int i = 0; i < 3; i++) {
        char id[16];
        snprintf(id, sizeof id, "run%d", i);
        put(store, id, "done", 1000.0 + i);
        configure(store, id, "1", "0.1", "{}");
        put_eval(store, id, 1, 0.5, 1.0);
        assert_ok(vv_run_store_tag(store, id, "t", true));
    }
    const int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    for (uint64_t at = 1; status != VV_OK && at < 2000; at++) {
        vv_memory_fail_at(at);
        status = vv_run_table_read(&table, store);
        vv_memory_fail_at(0);
        if (status != VV_OK) {
            assert_int_equal(status, VV_ENOMEM);
            assert_null(table);
            assert_int_equal(vv_memory_live_count(), live);
        }
    }
    assert_int_equal(status, VV_OK);
    status = VV_ENOMEM;
    for (uint64_t at = 1; status != VV_OK && at < 2000; at++) { /* a table that is kept up */
        put(store, "run1", "done", 2000.0 + (double)at);
        assert_ok(vv_run_store_delete(store, "run2"));
        put(store, "run2", "done", 900.0);
        vv_memory_fail_at(at);
        status = vv_run_table_refresh(table, true);
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || status == VV_ENOMEM);
    }
    assert_int_equal(status, VV_OK);
    assert_int_equal(vv_run_table_count(table), 3);
    vv_run_table_free(table);
    assert_int_equal(vv_memory_live_count(), live);
    vv_run_store_close(store);
}

static int fresh(void **unused)
{
    (void)unused;
    temp_dir(folder);
    snprintf(path, sizeof path, "%s/runs.db", folder);
    return 0;
}

static int away(void **unused)
{
    (void)unused;
    remove_dir(folder);
    return 0;
}

int main(void)
{
    if (!vv_run_store_available()) {
        printf("TAP version 13\n1..0 # SKIP this build has no SQLite\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_in_it, fresh, away),
        cmocka_unit_test_setup_teardown(test_follows_another_writer, fresh, away),
        cmocka_unit_test_setup_teardown(test_groups, fresh, away),
        cmocka_unit_test_setup_teardown(test_many_and_few, fresh, away),
        cmocka_unit_test_setup_teardown(test_out_of_memory, fresh, away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
