/* test_train_profile.c - the cyclic schedule picks the batches it says, per epoch and after a
 * resume; traces are JSON in Chrome's format: spans sorted, properly nested, in microseconds,
 * with the parts of a step, its ops, methods' and callbacks' events, evaluation, checkpoint and
 * bytes of memory; values that are read in mid-step show as kept bytes; off, nothing is written;
 * profiled or not, the run is the same; a trace that cannot be written does not end it. */
#include "train_test.h"

#include <jansson.h>

#include "train/profile.h"

static char folder[256];

static void test_schedule(void **unused)
{
    (void)unused;
    /* s = skip, w = warmup, a = active, S = active and save */
    static const struct {
        vv_profile_opts opts;
        int64_t skip;
        const char *expected; /* one letter a batch of the epoch */
    } cases[] = {
        {VV_PROFILE_DEFAULTS, 0, "waaaSsssssss"},
        {{2, 1, 1, 2, 0}, 0, "ssswaSswaSsw"},
        {{0, 0, 0, 1, 0}, 0, "SSSS"},
        {{0, 0, 0, 3, 1}, 0, "aaSsss"},
        {{0, 0, 0, 9, 1}, 0, "aaaaS"}, /* the epoch's last batch ends a trace */
        {{1, 1, 1, 2, 2}, 0, "sswaSswaSsss"},
        {{1, 1, 1, 2, 0}, 0, "sswaSswaSswS"},
        {VV_PROFILE_DEFAULTS, 3, "ssswaaaSss"}, /* resumed after 3 batches */
        {{0, 0, 3, 1, 1}, 0, "www"},            /* an epoch that ends in a warm-up */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *expected = cases[i].expected;
        int64_t count = (int64_t)strlen(expected);
        for (int64_t b = 0; b < count; b++)
            if ("swaS"[vvi_profile_at(&cases[i].opts, cases[i].skip, b, count)] != expected[b])
                fail_msg("case %d, batch %d of \"%s\"", (int)i, (int)b, expected);
    }
}

/* ---- a run ---- */

typedef struct setup {
    const vv_profile_opts *profile;
    int64_t cut;      /* fails at BATCH_START with that many batches finished; 0 = never */
    bool read_output; /* in mid-step */
} setup;

static vv_status act(void *ctx, vv_event event, vv_state *state)
{
    const setup *s = ctx;
    const vv_tensor *value;
    if (event == VV_EVENT_AFTER_FORWARD && s->read_output)
        VV_TRY(vv_node_value(state->output, &value));
    if (event == VV_EVENT_BATCH_START && s->cut && state->time.batch == s->cut)
        return vv_fail(VV_ESTATE, "cut");
    return VV_OK;
}

/* 12 samples in batches of 3 (4 batches an epoch), microbatches of 2, three epochs, evaluated each
   epoch, saved every 2 batches. *loss = the last batch's; *table (may be NULL) = the summary. */
static vv_status run(const char *dir, setup s, double *loss, vv_str *table)
{
    tt_data train, eval;
    tt_data_init(&train, 12, 3, true);
    tt_data_init(&eval, 4, 2, false);
    vv_callback *callbacks[] = {tt_listen_with(act, &s), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.1);
    opts.train = train.loader;
    opts.eval = eval.loader;
    opts.max_duration = "3ep";
    opts.microbatch = 2;
    opts.callbacks = callbacks;
    opts.run_dir = dir;
    opts.run_name = "small \"run\"";
    opts.save_interval = "2ba";
    opts.resume = true;
    opts.profile = s.profile;
    vv_trainer *trainer;
    vv_status status = vv_trainer_new(&trainer, &opts);
    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    if (trainer)
        *loss = vv_trainer_state(trainer)->train_loss;
    if (trainer && table)
        assert_ok(vv_trainer_profile(trainer, table));
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
    return status;
}

static json_t *read_trace(const char *dir, const char *name)
{
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/traces/%s", dir, name);
    json_t *trace = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!trace)
        fail_msg("%s: %s (line %d)", path, error.text, error.line);
    return trace;
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static int64_t nanoseconds_of(const json_t *event, const char *key)
{
    return llround(1e3 * json_number_value(json_object_get(event, key)));
}

/* Structure of a trace; returns the spans and instants called `cat`/`name` (NULL = any). */
static int count_events(const json_t *trace, const char *cat, const char *name)
{
    int count = 0;
    const json_t *events = json_object_get(trace, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        count += strcmp(text_of(e, "cat"), cat) == 0 &&
                 (!name || strcmp(text_of(e, "name"), name) == 0);
    }
    return count;
}

static void check_structure(const json_t *trace)
{
    const json_t *events = json_object_get(trace, "traceEvents");
    int64_t last = INT64_MIN, ends[64];
    int depth = 0, meta = 0;
    assert_true(json_array_size(events) > 10);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        const char *ph = text_of(e, "ph");
        assert_int_equal(strlen(ph), 1);
        assert_true(json_is_integer(json_object_get(e, "pid")));
        assert_true(json_is_integer(json_object_get(e, "tid")));
        assert_true(text_of(e, "name")[0]);
        assert_true(json_is_object(json_object_get(e, "args")));
        if (*ph == 'M') {
            meta++;
            continue;
        }
        assert_non_null(strchr("XiC", *ph));
        int64_t ts = nanoseconds_of(e, "ts");
        assert_true(ts >= last && ts >= 0);
        last = ts;
        if (*ph != 'X')
            continue;
        int64_t end = ts + nanoseconds_of(e, "dur");
        assert_true(end >= ts);
        while (depth > 0 && ends[depth - 1] <= ts)
            depth--;
        /* It lies within what is open: spans do not cross. */
        if (depth > 0 && end > ends[depth - 1])
            fail_msg("%s/%s crosses the end of another span", text_of(e, "cat"),
                     text_of(e, "name"));
        assert_in_range(depth, 0, 63);
        ends[depth++] = end;
    }
    assert_int_equal(meta, 2);
}

static void check_memory(const json_t *trace, bool kept)
{
    const json_t *events = json_object_get(trace, "traceEvents");
    int64_t most = 0, counters = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i), *args = json_object_get(e, "args");
        if (strcmp(text_of(e, "ph"), "C") != 0)
            continue;
        counters++;
        int64_t live = json_integer_value(json_object_get(args, "live_bytes"));
        int64_t slab = json_integer_value(json_object_get(args, "slab_bytes"));
        int64_t bytes = json_integer_value(json_object_get(args, "kept_bytes"));
        most = bytes > most ? bytes : most;
        /* Bytes, not thousands or bits of them: the world is small. */
        assert_in_range(slab, 64, 1 << 20);
        assert_in_range(live, slab, 1 << 28);
    }
    assert_true(counters > 0);
    /* Two rows of 16 floats after the first layer, at least. */
    assert_true(kept ? most >= 2 * 16 * 4 : most == 0);
}

static void test_traces(void **unused)
{
    (void)unused;
    char dir[512], plain_dir[512];
    snprintf(dir, sizeof dir, "%s/traced", folder);
    snprintf(plain_dir, sizeof plain_dir, "%s/plain", folder);
    const vv_profile_opts opts = {0, 0, 1, 2, 1};
    double loss = 0.0, plain = 1.0;
    vv_str table = {0};
    assert_ok(run(dir, (setup){&opts, 0, false}, &loss, &table));
    static const char *const names[] = {"ep0000-ba00000003-rank0.json",
                                        "ep0001-ba00000007-rank0.json",
                                        "ep0002-ba00000011-rank0.json"};
    for (int i = 0; i < 3; i++) {
        json_t *trace = read_trace(dir, names[i]);
        check_structure(trace);
        check_memory(trace, false);
        assert_int_equal(count_events(trace, "train", "batch"), 2);
        assert_int_equal(count_events(trace, "loader", "wait"), 2);
        assert_int_equal(count_events(trace, "build", "build_forward"), 4); /* 2 microbatches */
        assert_int_equal(count_events(trace, "graph", "run"), 4);
        assert_int_equal(count_events(trace, "graph", "forward"), 4);
        assert_int_equal(count_events(trace, "graph", "backward"), 4);
        assert_int_equal(count_events(trace, "optimizer", NULL), 2);
        assert_int_equal(count_events(trace, "callback", "listener/batch_end"), 2);
        assert_int_equal(count_events(trace, "callback", "listener/before_forward"), 4);
        assert_true(count_events(trace, "op", NULL) >= 4 * 4); /* 2 matmuls, 2 of each backward */
        assert_int_equal(count_events(trace, "evaluation", NULL), 0);
        assert_int_equal(count_events(trace, "checkpoint", "save"), 1);
        json_decref(trace);
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/traces", dir);
    DIR *list = opendir(path);
    int files = 0;
    while (readdir(list))
        files++;
    closedir(list);
    assert_int_equal(files, 2 + 3 + 1); /* ., .., traces, summary.txt */
    assert_non_null(strstr(vv_str_text(&table), "profile: 6 batches, "));
    assert_non_null(strstr(vv_str_text(&table), "\n  waiting for the loader "));
    assert_non_null(strstr(vv_str_text(&table), " (backward) "));
    assert_null(strstr(vv_str_text(&table), "nan"));

    /* Without: the same numbers, no folder. */
    vv_str_clear(&table);
    assert_ok(run(plain_dir, (setup){NULL, 0, false}, &plain, &table));
    assert_true(loss == plain);
    assert_int_equal(table.length, 0);
    vv_str_fini(&table);
    snprintf(path, sizeof path, "%s/traces", plain_dir);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* A trace over the epoch's end has the evaluation and the checkpoint there. */
static void test_whole_epochs_and_kept(void **unused)
{
    (void)unused;
    char dir[512];
    double loss;
    snprintf(dir, sizeof dir, "%s/whole", folder);
    const vv_profile_opts opts = {0, 0, 0, 100, 1};
    assert_ok(run(dir, (setup){&opts, 0, true}, &loss, NULL));
    json_t *trace = read_trace(dir, "ep0001-ba00000004-rank0.json");
    check_structure(trace);
    check_memory(trace, true);
    assert_int_equal(count_events(trace, "train", "batch"), 4);
    assert_int_equal(count_events(trace, "evaluation", "eval"), 1);
    assert_int_equal(count_events(trace, "checkpoint", "save"), 2);
    assert_int_equal(count_events(trace, "train", "epoch_end"), 1);
    json_decref(trace);
}

static void test_resume(void **unused)
{
    (void)unused;
    char dir[512];
    double loss = 0.0, plain = 1.0;
    const vv_profile_opts opts = {0, 0, 0, 1, 1};
    snprintf(dir, sizeof dir, "%s/resumed", folder);
    assert_fails(run(dir, (setup){&opts, 7, false}, &plain, NULL), VV_ESTATE);
    json_decref(read_trace(dir, "ep0001-ba00000005-rank0.json"));
    assert_ok(run(dir, (setup){&opts, 0, false}, &loss, NULL)); /* from batch 6 */
    json_t *trace = read_trace(dir, "ep0001-ba00000007-rank0.json"); /* its first, in mid-epoch */
    assert_int_equal(count_events(trace, "train", "batch"), 1);
    json_decref(trace);
    json_decref(read_trace(dir, "ep0002-ba00000009-rank0.json"));
    snprintf(dir, sizeof dir, "%s/straight", folder);
    assert_ok(run(dir, (setup){NULL, 0, false}, &plain, NULL));
    assert_true(loss == plain);
}

static void test_refused_and_broken(void **unused)
{
    (void)unused;
    char dir[512], path[1024];
    double loss;
    vv_str table = {0};
    vv_profile_opts opts = {0, 0, 1, 0, 1};
    snprintf(dir, sizeof dir, "%s/broken", folder);
    assert_fails(run(dir, (setup){&opts, 0, false}, &loss, NULL), VV_EINVAL);
    assert_says("active must be at least 1");
    opts.active = 1;
    assert_fails(run(NULL, (setup){&opts, 0, false}, &loss, NULL), VV_EINVAL);
    assert_says("set run_dir");
    /* `traces` is a file: told once, and the run goes on to its end. */
    snprintf(path, sizeof path, "%s/traces", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_ok(run(dir, (setup){&opts, 0, false}, &loss, &table));
    vv_str_fini(&table);
    snprintf(path, sizeof path, "%s/log.jsonl", dir);
    file = fopen(path, "r");
    char line[4096];
    int told = 0, ended = 0;
    while (fgets(line, sizeof line, file)) {
        told += strstr(line, "the profiler stops: ") != NULL;
        ended += strstr(line, "\"event\":\"end\"") != NULL;
    }
    fclose(file);
    assert_int_equal(told, 1);
    assert_int_equal(ended, 1);
}

static int make_folder(void **unused)
{
    (void)unused;
    tt_folder(folder, sizeof folder);
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    tt_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_whole_epochs_and_kept),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_refused_and_broken),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
