/* test_explorer_memory.c - whichever allocation fails, opening and each answer end with a sentence
 * or without a reply, nothing leaks, and the next request is answered as if nothing had been. */
#include "vv_test.h"
#include "vv_test_files.h"

#include "explorer/api.h"

static char folder[256], path[512];

static void fill(void)
{
    vv_run_store *store;
    vv_run_row row;
    const vv_run_method method = {"mixup", "{}"};
    const vv_run_eval eval = {"eval", "accuracy", true, 1, 4, 64, 1.0, 1.5, 0.5};
    assert_ok(vv_run_store_open(&store, path, true));
    vv_run_row_init(&row);
    row.status = "done";
    row.dataset = "mnist";
    row.train_seconds = 3.0;
    for (int i = 0; i < 2; i++) {
        row.id = i ? "b" : "a";
        assert_ok(vv_run_store_put(store, &row));
        assert_ok(vv_run_store_set_methods(store, row.id, &method, 1));
        assert_ok(vv_run_store_add_eval(store, row.id, &eval));
    }
    vv_run_store_close(store);
}

static void test_open(void **unused)
{
    (void)unused;
    vvi_api api;
    vv_status status = VV_ENOMEM;
    const int64_t live = vv_memory_live_count();
    for (uint64_t at = 1; status != VV_OK && at < 5000; at++) {
        vv_memory_fail_at(at);
        status = vvi_api_open(&api, path, false, "token");
        vv_memory_fail_at(0);
        if (status != VV_OK) {
            assert_int_equal(status, VV_ENOMEM);
            assert_true(vv_error()[0] != '\0');
        }
        vvi_api_close(&api);
        assert_int_equal(vv_memory_live_count(), live);
    }
    assert_int_equal(status, VV_OK);
}

static void check_answers(vvi_api *api, const vvi_request *request, int wanted)
{
    bool done = false;
    for (uint64_t at = 1; !done && at < 5000; at++) {
        vvi_reply reply;
        vv_memory_fail_at(at);
        vvi_api_answer(api, request, &reply);
        vv_memory_fail_at(0);
        done = reply.status == wanted;
        if (!done && reply.status != 0 && reply.status != 503)
            fail_msg("%s %s: %d", request->method, request->target, reply.status);
        vvi_reply_fini(&reply);
    }
    assert_true(done);
}

static void test_answers(void **unused)
{
    (void)unused;
    static const struct {
        const char *method, *target, *body;
        int status;
    } cases[] = {
        {"GET", "/", "", 200},
        {"GET", "/?token=token&a=b", "", 303},
        {"GET", "/api/runs?dataset=mnist", "", 200},
        {"GET", "/api/runs", "", 200},
        {"GET", "/api/runs/a", "", 200},
        {"GET", "/api/runs/zz", "", 404},
        {"GET", "/api/frontier?group=1", "", 200},
        {"GET", "/api/prices", "", 200},
        {"GET", "/api/settings", "", 200},
        {"GET", "/api/export.csv", "", 200},
        {"GET", "/api/export.json", "", 200},
        {"GET", "/api/events", "", 200},
        {"POST", "/api/runs/b/tags", "{\"tag\":\"x\",\"on\":true}", 200},
        {"POST", "/api/runs/b/note", "{\"note\":\"y\"}", 200},
    };
    vvi_api api;
    const int64_t live = vv_memory_live_count();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vvi_request request = {.method = cases[i].method,
                               .target = cases[i].target,
                               .body = cases[i].body,
                               .body_bytes = strlen(cases[i].body),
                               .content_type = "application/json"};
        if (cases[i].status != 303)
            request.authorization = "Bearer token";
        assert_ok(vvi_api_open(&api, path, true, "token"));
        check_answers(&api, &request, cases[i].status);
        assert_int_equal(vv_run_table_count(api.table), 2);
        vvi_api_close(&api);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

static int enter(void **unused)
{
    (void)unused;
    temp_dir(folder);
    snprintf(path, sizeof path, "%s/runs.db", folder);
    fill();
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
    if (!vv_run_store_available()) {
        printf("TAP version 13\n1..0 # SKIP this build has no SQLite\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
