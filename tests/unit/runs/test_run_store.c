/* test_run_store.c - what is written is read back; a row that is written again keeps its tags and
 * note; killed runs are told from running ones; exports come back as they were; tables and
 * DAWNBench entries are taken; damaged files are named and nothing of them stays; stores of other
 * versions and other files are refused. */
#include "vv_test.h"
#include "vv_test_files.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

#include <vivace/memory.h>
#include <vivace/run_store.h>

static char folder[256];

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put_file(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static vv_run_store *fresh(void)
{
    vv_run_store *store;
    remove(in_folder("runs.db"));
    assert_ok(vv_run_store_open(&store, in_folder("runs.db"), true));
    return store;
}

static vv_run_row row_of(const char *id, const char *status)
{
    vv_run_row row;
    vv_run_row_init(&row);
    row.id = id;
    row.name = "night";
    row.status = status;
    row.dataset = "cifar10";
    row.model = "resnet9";
    row.started = 1000.25;
    row.seen = (double)time(NULL);
    row.train_seconds = 12.5;
    row.usd_per_hour = 3.6;
    row.usd = 0.0125;
    row.price_date = "2022";
    return row;
}

typedef struct seen {
    int count;
    char id[64], status[32], dataset[32], note[64], price_date[16];
    double train_seconds, usd, loss;
    int64_t seed;
} seen;

static bool see(void *ctx, const vv_run_row *row)
{
    seen *s = ctx;
    s->count++;
    snprintf(s->id, sizeof s->id, "%s", row->id);
    snprintf(s->status, sizeof s->status, "%s", row->status);
    snprintf(s->dataset, sizeof s->dataset, "%s", row->dataset);
    snprintf(s->note, sizeof s->note, "%s", row->note);
    snprintf(s->price_date, sizeof s->price_date, "%s", row->price_date);
    s->train_seconds = row->train_seconds;
    s->usd = row->usd;
    s->loss = row->loss;
    s->seed = row->seed;
    return true;
}

static bool count_eval(void *ctx, const vv_run_eval *eval)
{
    (void)eval;
    ++*(int *)ctx;
    return true;
}

static bool count_tag(void *ctx, const char *tag)
{
    (void)tag;
    ++*(int *)ctx;
    return true;
}

static void test_rows(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    vv_run_row row = row_of("a-1", "done");
    seen s = {0};
    int count = 0;
    assert_ok(vv_run_store_put(store, &row));
    assert_ok(vv_run_store_tag(store, "a-1", "best", true));
    assert_ok(vv_run_store_tag(store, "night", "best", true)); /* by name; twice is once */
    assert_ok(vv_run_store_note(store, "a-1", "odd loss"));
    row.train_seconds = 25.0;
    assert_ok(vv_run_store_put(store, &row)); /* goes on */
    assert_ok(vv_run_store_each(store, see, &s));
    assert_int_equal(s.count, 1);
    assert_string_equal(s.note, "odd loss");
    assert_string_equal(s.price_date, "2022");
    assert_true(s.train_seconds == 25.0 && isnan(s.loss) && s.seed == -1);
    assert_ok(vv_run_store_tags(store, "a-1", count_tag, &count));
    assert_int_equal(count, 1);
    assert_fails(vv_run_store_tag(store, "a-1", "two words", true), VV_EINVAL);
    assert_fails(vv_run_store_tag(store, "nihgt", "x", true), VV_ENOTFOUND);
    assert_says("night");
    assert_ok(vv_run_store_delete(store, "a-1"));
    assert_fails(vv_run_store_get(store, "a-1", see, &s), VV_ENOTFOUND);
    count = 0;
    assert_ok(vv_run_store_tags(store, "a-1", count_tag, &count));
    assert_int_equal(count, 0); /* gone with it */
    row.id = "";
    assert_fails(vv_run_store_put(store, &row), VV_EINVAL);
    vv_run_store_close(store);
}

static void test_found_by_what_it_is_called(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    vv_run_row row = row_of("night-s1-aa", "done");
    vv_str id = {0};
    assert_ok(vv_run_store_put(store, &row));
    row.id = "night-s2-bb";
    row.started = 2000.0;
    assert_ok(vv_run_store_put(store, &row));
    assert_ok(vv_run_store_find(store, "night", &id)); /* the latest of that name */
    assert_string_equal(vv_str_text(&id), "night-s2-bb");
    vv_str_clear(&id);
    assert_ok(vv_run_store_find(store, "night-s1", &id));
    assert_string_equal(vv_str_text(&id), "night-s1-aa");
    vv_str_clear(&id);
    assert_fails(vv_run_store_find(store, "night-s", &id), VV_EINVAL);
    assert_int_equal(id.length, 0);
    vv_str_fini(&id);
    vv_run_store_close(store);
}

static void test_killed(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    char host[256] = "";
    seen s = {0};
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    vv_run_row row = row_of("r", "running");
    row.host = host;
    row.pid = getpid();
    assert_ok(vv_run_store_put(store, &row));
    assert_ok(vv_run_store_get(store, "r", see, &s));
    assert_string_equal(s.status, "running");
    row.pid = 4194303; /* above every pid there is */
    assert_ok(vv_run_store_put(store, &row));
    assert_ok(vv_run_store_get(store, "r", see, &s));
    assert_string_equal(s.status, "killed");
    row.host = "elsewhere";
    assert_ok(vv_run_store_put(store, &row));
    assert_ok(vv_run_store_get(store, "r", see, &s));
    assert_string_equal(s.status, "running");
    row.seen -= 3600.0;
    assert_ok(vv_run_store_put(store, &row));
    assert_ok(vv_run_store_get(store, "r", see, &s));
    assert_string_equal(s.status, "killed");
    vv_run_store_close(store);
}

/* A run with something of everything. */
static void put_full(vv_run_store *store, const char *id)
{
    vv_run_row row = row_of(id, "done");
    row.recipe = "model: \"resnet9\"\nname: '=x'\n";
    row.seed = 17;
    row.command = "=cmd, with \"quotes\"";
    assert_ok(vv_run_store_put(store, &row));
    const vv_run_method methods[] = {{"mixup", "{\"alpha\":0.2}"}, {"blurpool", "{}"}};
    const vv_run_setting settings[] = {{"optimizer.lr", "0.4"}, {"batch_size", "512"}};
    assert_ok(vv_run_store_set_methods(store, id, methods, 2));
    assert_ok(vv_run_store_set_settings(store, id, settings, 2));
    for (int i = 1; i <= 3; i++) {
        const double values[] = {0.5, 0.9, 0.8};
        const vv_run_eval eval = {"eval",  "accuracy", true,         i, 10 * i, 100 * i,
                                  4.0 * i, 5.0 * i,    values[i - 1]};
        const vv_run_point point = {"loss/train/total", i, 10 * i, 4.0 * i, 1.0 / i};
        assert_ok(vv_run_store_add_eval(store, id, &eval));
        assert_ok(vv_run_store_add_point(store, id, &point));
    }
    assert_ok(vv_run_store_tag(store, id, "kept", true));
}

static void test_rewind(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    int count = 0;
    put_full(store, "f");
    assert_ok(vv_run_store_rewind(store, "f", 20));
    assert_ok(vv_run_store_evals(store, "f", count_eval, &count));
    assert_int_equal(count, 2);
    vv_run_store_close(store);
}

static void test_export_comes_back(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    vv_str first = {0}, second = {0};
    int count;
    put_full(store, "f");
    vv_run_row row = row_of("g", "failed"); /* nothing but a row: never a zero */
    assert_ok(vv_run_store_put(store, &row));
    assert_ok(vv_run_store_export_json(store, true, &first));
    assert_non_null(strstr(vv_str_text(&first), "\"eval/accuracy\":{\"final\":0.8,\"best\":0.9"));
    assert_non_null(strstr(vv_str_text(&first), "\"loss\":null"));
    put_file("runs.json", vv_str_text(&first));
    vv_run_store_close(store);
    store = fresh();
    assert_ok(vv_run_store_import(store, in_folder("runs.json"), &count));
    assert_int_equal(count, 2);
    assert_ok(vv_run_store_import(store, in_folder("runs.json"), &count)); /* twice is once */
    assert_ok(vv_run_store_export_json(store, true, &second));
    assert_string_equal(vv_str_text(&first), vv_str_text(&second));
    vv_str_fini(&first);
    vv_str_fini(&second);
    vv_run_store_close(store);
}

static void test_table_comes_back(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    vv_str first = {0};
    int count;
    put_full(store, "f");
    assert_ok(vv_run_store_export_csv(store, &first));
    assert_non_null(strstr(vv_str_text(&first), "\"'=cmd, with \"\"quotes\"\"\""));
    assert_non_null(strstr(vv_str_text(&first), ",mixup blurpool,kept,0.8,0.9"));
    put_file("runs.csv", vv_str_text(&first));
    vv_run_store_close(store);
    store = fresh();
    assert_ok(vv_run_store_import(store, in_folder("runs.csv"), &count));
    assert_int_equal(count, 1);
    seen s = {0};
    assert_ok(vv_run_store_get(store, "f", see, &s));
    assert_true(s.train_seconds == 12.5 && s.usd == 0.0125 && s.seed == 17);
    vv_str_fini(&first);
    vv_run_store_close(store);
}

static void test_mlflow_table(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    int count, evals = 0;
    put_file("mlflow.csv",
             "run_id,status,start_time,metrics.metrics/eval/MulticlassAccuracy,metrics.val_loss,"
             "params.lr,tags.mlflow.runName,metrics.time/train\r\n"
             "abc,FINISHED,2024-05-01 10:00:00.5+00:00,0.91,0.4,0.1,\"first, best\",0.5\r\n"
             "def,RUNNING,2024-05-02 10:00:00+00:00,,,0.2,second,\r\n");
    assert_ok(vv_run_store_import(store, in_folder("mlflow.csv"), &count));
    assert_int_equal(count, 2);
    seen s = {0};
    assert_ok(vv_run_store_get(store, "abc", see, &s));
    assert_string_equal(s.status, "done");
    assert_true(s.train_seconds == 1800.0); /* Composer's names, so its hours */
    assert_ok(vv_run_store_evals(store, "abc", count_eval, &evals));
    assert_int_equal(evals, 2); /* the time is none */
    assert_ok(vv_run_store_get(store, "def", see, &s));
    assert_string_equal(s.status, "killed"); /* it does not run here */
    assert_true(isnan(s.train_seconds));
    vv_run_store_close(store);
}

typedef struct last_eval {
    int count;
    char metric[32];
    double value, seconds;
    int64_t epoch, batch;
    bool higher;
} last_eval;

static bool keep_last(void *ctx, const vv_run_eval *eval)
{
    last_eval *l = ctx;
    snprintf(l->metric, sizeof l->metric, "%s/%s", eval->label, eval->metric);
    l->count++;
    l->value = eval->value;
    l->seconds = eval->train_seconds;
    l->epoch = eval->epoch;
    l->batch = eval->batch;
    l->higher = eval->higher_is_better;
    return true;
}

static bool count_point(void *ctx, const vv_run_point *point)
{
    *(int *)ctx += strcmp(point->name, "loss/train/total") == 0;
    return true;
}

/* What Composer's loggers say of one run, a row a moment; cells are empty where a number was not
   said. And the table of W&B's page. */
static void test_composer_log(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    int count, points = 0;
    seen s = {0};
    last_eval last = {0};
    put_file("mild-36.csv",
             "epoch,batch,loss/train/total,time/train,metrics/train/MulticlassAccuracy,"
             "metrics/eval/MulticlassAccuracy\n"
             "0,1,2.5,0.001,0.1,\n0,2,2.25,0.002,0.2,\n1,2,,,,0.625\n1,3,2.0,0.0035,0.3,\n"
             "2,4,1.5,0.005,0.4,\n2,4,,,,0.75\n");
    assert_ok(vv_run_store_import(store, in_folder("mild-36.csv"), &count));
    assert_int_equal(count, 1);
    assert_ok(vv_run_store_get(store, "mild-36", see, &s));
    assert_string_equal(s.status, "done");
    assert_near(s.train_seconds, 18.0, 1e-9, 0.0);
    assert_true(s.loss == 1.5);
    assert_ok(vv_run_store_evals(store, "mild-36", keep_last, &last));
    assert_int_equal(last.count, 2);
    assert_string_equal(last.metric, "eval/accuracy");
    assert_true(last.value == 0.75 && last.higher && last.epoch == 2 && last.batch == 4);
    assert_near(last.seconds, 18.0, 1e-9, 0.0); /* as of the last row that told the time */
    assert_ok(vv_run_store_points(store, "mild-36", count_point, &points));
    assert_int_equal(points, 4);
    put_file("wall.csv", "batch,wall_clock/train,metrics/eval/CrossEntropy\n9,61.5,0.5\n");
    assert_ok(vv_run_store_import(store, in_folder("wall.csv"), &count));
    assert_ok(vv_run_store_evals(store, "wall", keep_last, &last));
    assert_string_equal(last.metric, "eval/cross_entropy");
    assert_true(last.seconds == 61.5 && !last.higher);
    put_file("wandb.csv", "Name,State,Runtime,metrics/eval/MulticlassAccuracy\n"
                          "warm,finished,120,0.5\ncold,crashed,3,\n");
    assert_ok(vv_run_store_import(store, in_folder("wandb.csv"), &count));
    assert_int_equal(count, 2);
    assert_ok(vv_run_store_get(store, "warm-line2", see, &s));
    assert_string_equal(s.status, "done");
    assert_true(s.train_seconds == 120.0);
    vv_run_store_close(store);
}

static void test_dawnbench(void **unused)
{
    (void)unused;
    vv_run_store *store = fresh();
    int count, evals = 0;
    char path[512];
    snprintf(path, sizeof path, "%s/CIFAR10", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/CIFAR10/train", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    put_file("CIFAR10/train/net_1v100.json",
             "{\"version\":\"v1.0\",\"author\":\"A\",\"model\":\"ResNet 9\",\"hardware\":\"V100\","
             "\"costPerHour\":3.06,\"timestamp\":\"2019-12-11\",\"misc\":{}}");
    put_file("CIFAR10/train/net_1v100.tsv",
             "epoch\thours\ttop1Accuracy\n1\t0.01\t90.5\n2\t0.02\t94.2\n");
    assert_ok(vv_run_store_import(store, folder, &count));
    assert_int_equal(count, 1);
    seen s = {0};
    assert_ok(vv_run_store_get(store, "dawnbench-cifar10-net_1v100", see, &s));
    assert_string_equal(s.dataset, "cifar10");
    assert_string_equal(s.price_date, "2019-12-11");
    assert_near(s.train_seconds, 72.0, 1e-12, 0.0);
    assert_near(s.usd, 0.0612, 1e-12, 0.0);
    assert_ok(vv_run_store_evals(store, s.id, count_eval, &evals));
    assert_int_equal(evals, 2);
    vv_run_store_close(store);
}

static void refused(const char *name, const char *text, vv_status code, const char *says)
{
    vv_run_store *store = fresh();
    int count = 7;
    seen s = {0};
    put_file(name, text);
    assert_fails(vv_run_store_import(store, in_folder(name), &count), code);
    assert_says(says);
    assert_int_equal(count, 0);
    assert_ok(vv_run_store_each(store, see, &s));
    assert_int_equal(s.count, 0); /* nothing of it stays */
    vv_run_store_close(store);
}

/* Whichever allocation fails while a file is taken, that is told, nothing of it stays, nothing
   leaks; then it is taken. */
static void take_without_memory(const char *name)
{
    vv_run_store *store = fresh();
    const int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    int count = 0;
    for (uint64_t nth = 1; status != VV_OK; nth++) {
        seen s = {0};
        vv_memory_fail_at(nth);
        status = vv_run_store_import(store, in_folder(name), &count);
        vv_memory_fail_at(0);
        if (status != VV_OK)
            assert_int_equal(status, VV_ENOMEM);
        assert_int_equal(vv_memory_live_count(), live);
        if (status != VV_OK) {
            assert_ok(vv_run_store_each(store, see, &s));
            assert_int_equal(s.count, 0);
        }
        assert_true(nth < 10000);
    }
    assert_int_equal(count, 1);
    vv_run_store_close(store);
}

static void test_import_without_memory(void **unused)
{
    (void)unused;
    put_file("m.json",
             "{\"format\":\"vivace-runs\",\"version\":1,\"runs\":[{\"id\":\"a\",\"methods\":"
             "[{\"name\":\"mixup\",\"settings\":{\"alpha\":0.2}}],\"settings\":{\"k\":\"v\"},"
             "\"evals\":[{\"label\":\"eval\",\"metric\":\"accuracy\",\"batch\":1,\"value\":0.5}],"
             "\"points\":{\"loss\":[[1,0,0.1,2.5]]},\"tags\":[\"t\"]}]}");
    take_without_memory("m.json");
    put_file("m.csv", "id,methods,metrics.accuracy,params.lr\na,mixup ema,0.5,0.1\n");
    take_without_memory("m.csv");
    put_file("l.csv", "batch,loss/train/total,metrics/eval/Accuracy\n1,2.5,\n2,,0.5\n");
    take_without_memory("l.csv");
    put_file("e.json", "{\"model\":\"m\",\"costPerHour\":1}");
    put_file("e.tsv", "epoch\thours\ttop1Accuracy\n1\t0.1\t50\n");
    take_without_memory("e.json");
    remove(in_folder("e.json"));
    remove(in_folder("e.tsv"));
}

static void test_damaged_files(void **unused)
{
    (void)unused;
    refused("x.json", "{\"format\":\"vivace-runs\",\"version\":1,\"runs\":[{\"id\":\"a\"},{}]}",
            VV_EFORMAT, "runs[1] has no id");
    refused("x.json",
            "{\"format\":\"vivace-runs\",\"version\":1,\"runs\":[{\"id\":\"a\",\"seed\":"
            "\"x\"}]}",
            VV_EFORMAT, "runs[0].seed");
    refused("x.json", "{\"format\":\"vivace-runs\",\"version\":2,\"runs\":[]}", VV_EUNSUPPORTED,
            "version 2");
    refused("x.json", "{\"format\":", VV_EFORMAT, "line 1");
    refused("x.json", "{}", VV_EFORMAT, "neither");
    refused("x.csv", "id,seed\na,1\nb\n", VV_EFORMAT, "line 3 has 1 columns");
    refused("x.csv", "id,seed\na,many\n", VV_EFORMAT, "seed: \"many\"");
    refused("x.csv", "id,name\na,\"b\n", VV_EFORMAT, "a quote is not closed");
    refused("x.csv", "id,seed\na,1e30\n", VV_EFORMAT, "seed: 1e30 is too large");
    refused("x.csv", "x,y\n1,2\n", VV_EFORMAT, "no table of runs");
    refused("x.csv", "", VV_EFORMAT, "no table of runs");
    put_file("d.tsv", "epoch\thours\ttop1Accuracy\n1\tx\t3\n");
    refused("d.json", "{}", VV_EFORMAT, "line 2: \"x\" is no number");
}

static void test_other_files(void **unused)
{
    (void)unused;
    vv_run_store *store;
    assert_fails(vv_run_store_open(&store, in_folder("none.db"), false), VV_ENOTFOUND);
    assert_null(store);
    put_file("text.db",
             "this is a text that is long enough to be taken for a database header, is it"
             " not? It goes on and on, so that SQLite reads a page of it.\n");
    assert_fails(vv_run_store_open(&store, in_folder("text.db"), true), VV_EFORMAT);
    assert_fails(vv_run_store_open(&store, in_folder("no/folder/runs.db"), true), VV_EIO);
}

static int enter(void **unused)
{
    (void)unused;
    temp_dir(folder);
    return 0;
}

static int leave(void **unused)
{
    (void)unused;
    remove_dir(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_found_by_what_it_is_called),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_export_comes_back),
        cmocka_unit_test(test_table_comes_back),
        cmocka_unit_test(test_mlflow_table),
        cmocka_unit_test(test_composer_log),
        cmocka_unit_test(test_import_without_memory),
        cmocka_unit_test(test_dawnbench),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_other_files),
    };
    if (!vv_run_store_available()) {
        vv_run_store *store;
        if (vv_run_store_open(&store, "x.db", true) != VV_EUNSUPPORTED)
            return 1;
        printf("TAP version 13\n1..0 # SKIP this build has no SQLite\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, enter, leave);
}
