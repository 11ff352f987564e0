/* test_mlflow.c - against a small server of its own: the experiment is looked up and made, the
 * run is created with name and tags, settings arrive as parameters, each number once at its step,
 * the status at the end; a resumed run goes on in the same one and repeats nothing; a server that
 * fails for a while gets all of it later, in order; one that is not there is one warning, and the
 * run goes on. */
#include "loggers/logger_test.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <vivace/mlflow.h>

#include "mlflow_sender.h"
#include "vvi_config.h"

#if VVI_HAVE_CURL

static char folder[256];

/* ---- the server ---- */

typedef struct heard_request {
    char path[256];
    json_t *body;
} heard_request;

typedef struct server {
    int fd, port, failures; /* answers that many requests with 500 first */
    bool know_experiment, deleted;
    pthread_t thread;
    pthread_mutex_t lock;
    heard_request heard[512];
    int count;
} server;

/* A whole request; false if the connection ended. */
static bool read_request(int fd, char *text, size_t room, char **body)
{
    size_t length = 0, want = 0;
    *body = NULL;
    while (length + 1 < room) {
        ssize_t got = recv(fd, text + length, room - 1 - length, 0);
        if (got <= 0)
            return false;
        length += (size_t)got;
        text[length] = '\0';
        char *end = strstr(text, "\r\n\r\n");
        if (end && !*body) {
            const char *size = strcasestr(text, "\r\ncontent-length:");
            want = size && size < end ? strtoul(size + 17, NULL, 10) : 0;
            *body = end + 4;
        }
        if (*body && length >= (size_t)(*body - text) + want)
            return true;
    }
    return false;
}

/* runs/get: the last step of each key that was logged, as MLflow tells it. */
static const char *answer_run(const server *s)
{
    static char text[8192];
    json_t *latest = json_object(), *metrics = json_array();
    for (int i = 0; i < s->count; i++) {
        const json_t *list = json_object_get(s->heard[i].body, "metrics");
        for (size_t k = 0; k < json_array_size(list); k++) {
            json_t *one = json_array_get(list, k);
            json_object_set(latest, json_string_value(json_object_get(one, "key")), one);
        }
    }
    const char *key;
    json_t *one;
    json_object_foreach(latest, key, one)
        json_array_append(metrics, one);
    json_t *run = json_pack("{s:{s:{s:s},s:{s:o,s:[{s:s,s:s}]}}}", "run", "info", "lifecycle_stage",
                            s->deleted ? "deleted" : "active", "data", "metrics", metrics, "params",
                            "key", "seed", "value", "17");
    text[json_dumpb(run, text, sizeof text - 1, JSON_COMPACT)] = '\0';
    json_decref(run);
    json_decref(latest);
    return text;
}

static const char *answer_to(server *s, const char *path, int *code)
{
    *code = 200;
    if (strstr(path, "runs/get"))
        return answer_run(s);
    if (strstr(path, "experiments/get-by-name")) {
        if (s->know_experiment)
            return "{\"experiment\":{\"experiment_id\":\"7\"}}";
        *code = 404;
        return "{\"error_code\":\"RESOURCE_DOES_NOT_EXIST\"}";
    }
    if (strstr(path, "experiments/create"))
        return "{\"experiment_id\":\"7\"}";
    if (strstr(path, "runs/create"))
        return "{\"run\":{\"info\":{\"run_id\":\"abc123\"}}}";
    return "{}";
}

static void *serve(void *ctx)
{
    server *s = ctx;
    static char text[1 << 20];
    for (;;) {
        int fd = accept(s->fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        char *body, path[256] = "", reply[9000];
        if (read_request(fd, text, sizeof text, &body) && sscanf(text, "%*s %255s", path) == 1) {
            pthread_mutex_lock(&s->lock);
            int code = 500;
            const char *answer = "{}";
            if (s->failures > 0) {
                s->failures--;
            } else {
                answer = answer_to(s, path, &code);
                if (s->count < 512) {
                    snprintf(s->heard[s->count].path, sizeof path, "%s", path);
                    s->heard[s->count++].body = json_loads(body, 0, NULL);
                }
            }
            pthread_mutex_unlock(&s->lock);
            int length = snprintf(reply, sizeof reply,
                                  "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"
                                  "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                                  code, strlen(answer), answer);
            (void)!send(fd, reply, (size_t)length, MSG_NOSIGNAL);
        }
        close(fd);
    }
}

static int listen_somewhere(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void server_start(server *s)
{
    memset(s, 0, sizeof *s);
    s->fd = listen_somewhere(&s->port);
    assert_int_equal(listen(s->fd, 8), 0);
    pthread_mutex_init(&s->lock, NULL);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(server *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
    pthread_mutex_destroy(&s->lock);
}

static void server_forget(server *s)
{
    for (int i = 0; i < s->count; i++)
        json_decref(s->heard[i].body);
    s->count = 0;
}

/* ---- what was heard ---- */

static int count_path(const server *s, const char *part)
{
    int count = 0;
    for (int i = 0; i < s->count; i++)
        count += strstr(s->heard[i].path, part) != NULL;
    return count;
}

static const json_t *first_body(const server *s, const char *part)
{
    for (int i = 0; i < s->count; i++)
        if (strstr(s->heard[i].path, part))
            return s->heard[i].body;
    fail_msg("no request of %s", part);
    return NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The value of a key in any list called `what`; step -1 = whichever. */
static const json_t *find(const server *s, const char *what, const char *key, int64_t step,
                          int *count)
{
    const json_t *found = NULL;
    *count = 0;
    for (int i = 0; i < s->count; i++) {
        const json_t *list = json_object_get(s->heard[i].body, what);
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *one = json_array_get(list, k);
            if (strcmp(text_of(one, "key"), key) != 0 ||
                (step >= 0 && json_integer_value(json_object_get(one, "step")) != step))
                continue;
            found = json_object_get(one, "value");
            ++*count;
        }
    }
    return found;
}

static void has_param(const server *s, const char *key, const char *value)
{
    int count;
    const char *got = json_string_value(find(s, "params", key, -1, &count));
    if (count != 1 || strcmp(got, value) != 0)
        fail_msg("parameter %s: %d times, \"%s\"", key, count, got ? got : "");
}

/* ---- tests ---- */

static vv_status run(const server *s, const char *dir, const logger_cut *cut)
{
    char uri[64];
    snprintf(uri, sizeof uri, "http://127.0.0.1:%d/", s->port);
    vv_mlflow_opts opts = {uri, "my experiment", "", "team=red,level=3", 0.05, 60.0};
    vv_logger *loggers[2] = {NULL, NULL};
    assert_ok(vv_logger_new(&loggers[0], &vv_logger_mlflow, &opts));
    return logger_run(loggers, dir, cut);
}

static void check_numbers(const server *s)
{
    int count;
    for (int b = 1; b <= 12; b++) {
        const json_t *value = find(s, "metrics", "test/twice", b, &count);
        if (count != 1)
            fail_msg("test/twice at step %d: %d times", b, count);
        assert_true(json_number_value(value) == 2.0 * b);
        find(s, "metrics", "loss/train/total", b, &count);
        assert_int_equal(count, 1);
        find(s, "metrics", "metrics/eval/accuracy", b, &count);
        assert_int_equal(count, b % 4 == 0);
    }
}

static void test_requests(void **unused)
{
    (void)unused;
    static server s;
    server_start(&s);
    char dir[600];
    snprintf(dir, sizeof dir, "%s/whole", folder);
    assert_ok(run(&s, dir, NULL));
    server_stop(&s);
    assert_string_equal(s.heard[0].path, "/api/2.0/mlflow/experiments/get-by-name"
                                         "?experiment_name=my%20experiment");
    assert_string_equal(text_of(first_body(&s, "experiments/create"), "name"), "my experiment");
    const json_t *create = first_body(&s, "runs/create");
    assert_string_equal(text_of(create, "experiment_id"), "7");
    assert_string_equal(text_of(create, "run_name"), "small");
    int count;
    assert_string_equal(json_string_value(find(&s, "tags", "team", -1, &count)), "red");
    assert_string_equal(json_string_value(find(&s, "tags", "level", -1, &count)), "3");
    has_param(&s, "name", "small");
    has_param(&s, "seed", "17");
    has_param(&s, "model.name", "mlp");
    has_param(&s, "model.width", "16");
    has_param(&s, "methods.mixup", "on");
    has_param(&s, "methods.mixup.alpha", "0.2");
    check_numbers(&s);
    assert_int_equal(count_path(&s, "runs/update"), 1);
    assert_string_equal(text_of(first_body(&s, "runs/update"), "status"), "FINISHED");
    assert_string_equal(text_of(first_body(&s, "runs/log-batch"), "run_id"), "abc123");
    assert_true(strstr(s.heard[s.count - 1].path, "runs/update") != NULL);
    server_forget(&s);
}

static void test_resume(void **unused)
{
    (void)unused;
    static const logger_cut cut = {VV_EVENT_BATCH_START, 8};
    static server s;
    server_start(&s);
    s.know_experiment = true;
    char dir[600];
    snprintf(dir, sizeof dir, "%s/cut", folder);
    assert_int_equal(run(&s, dir, &cut), VV_ESTATE);
    assert_string_equal(text_of(first_body(&s, "runs/update"), "status"), "FAILED");
    int before = s.count;
    assert_ok(run(&s, dir, NULL));
    server_stop(&s);
    assert_int_equal(count_path(&s, "experiments/create"), 0);
    assert_int_equal(count_path(&s, "runs/create"), 1);
    assert_string_equal(s.heard[before].path, "/api/2.0/mlflow/runs/get?run_id=abc123");
    assert_string_equal(text_of(s.heard[before + 1].body, "status"), "RUNNING");
    assert_string_equal(text_of(s.heard[before + 1].body, "run_id"), "abc123");
    assert_string_equal(text_of(s.heard[s.count - 1].body, "status"), "FINISHED");
    check_numbers(&s); /* steps 7 and 8 were trained twice, and sent once */
    has_param(&s, "seed", "17");
    server_forget(&s);

    /* Deleted meanwhile: a new one. */
    server_start(&s);
    s.know_experiment = s.deleted = true;
    snprintf(dir, sizeof dir, "%s/deleted", folder);
    assert_int_equal(run(&s, dir, &cut), VV_ESTATE);
    assert_ok(run(&s, dir, NULL));
    server_stop(&s);
    assert_int_equal(count_path(&s, "runs/create"), 2);
    int count;
    find(&s, "metrics", "test/twice", 12, &count);
    assert_int_equal(count, 1);
    server_forget(&s);
}

/* Waits for something that another thread does; fails after seconds, which is no measurement. */
static bool eventually(bool (*done)(void *ctx), void *ctx)
{
    for (int i = 0; i < 2000; i++) {
        if (done(ctx))
            return true;
        usleep(5000);
    }
    return false;
}

static bool warned(void *ctx)
{
    vv_str text = {0};
    bool is = vvi_mlflow_warning(ctx, &text);
    if (is && !strstr(vv_str_text(&text), "training goes on"))
        fail_msg("%s", vv_str_text(&text));
    vv_str_fini(&text);
    return is;
}

static bool heard_metrics(void *ctx)
{
    server *s = ctx;
    int count;
    pthread_mutex_lock(&s->lock);
    find(s, "metrics", "x", -1, &count);
    pthread_mutex_unlock(&s->lock);
    return count == 1500;
}

static void test_server_that_fails_for_a_while(void **unused)
{
    (void)unused;
    static server s;
    server_start(&s);
    s.failures = 4;
    char uri[64];
    snprintf(uri, sizeof uri, "http://127.0.0.1:%d", s.port);
    vvi_mlflow_opts opts = {.uri = uri, .experiment = "Default", .run_name = "r", .interval = 0.02,
                            .leave_seconds = 5.0};
    vvi_mlflow *m;
    assert_ok(vvi_mlflow_start(&m, &opts));
    for (int i = 0; i < 1500; i++)
        assert_ok(vvi_mlflow_add(m, "x", i == 3 ? (double)NAN : i == 4 ? -(double)INFINITY : i, i,
                                 1000 + i));
    assert_ok(vvi_mlflow_add(m, "odd (name)", 1.0, 0, 1));
    assert_true(eventually(warned, m));
    assert_true(eventually(heard_metrics, &s));
    assert_false(warned(m)); /* once */
    vvi_mlflow_stop(m, "FINISHED");
    server_stop(&s);
    int count;
    find(&s, "metrics", "odd _name_", 0, &count);
    assert_int_equal(count, 1);
    assert_string_equal(json_string_value(find(&s, "metrics", "x", 3, &count)), "NaN");
    assert_string_equal(json_string_value(find(&s, "metrics", "x", 4, &count)), "-Infinity");
    int64_t next = 0;
    for (int i = 0; i < s.count; i++) {
        const json_t *list = json_object_get(s.heard[i].body, "metrics");
        assert_in_range(json_array_size(list), 0, 1000);
        for (size_t k = 0; k < json_array_size(list); k++)
            if (strcmp(text_of(json_array_get(list, k), "key"), "x") == 0)
                assert_int_equal(
                    json_integer_value(json_object_get(json_array_get(list, k), "step")), next++);
    }
    assert_int_equal(next, 1500);
    server_forget(&s);
}

static void test_no_server(void **unused)
{
    (void)unused;
    server s = {0};
    close(listen_somewhere(&s.port)); /* nobody listens there */
    char dir[600], uri[64];
    snprintf(dir, sizeof dir, "%s/lost", folder);
    assert_ok(run(&s, dir, NULL));
    char *log = slurp_file(dir, "log.jsonl", NULL);
    const char *first = strstr(log, "\"mlflow: http");
    assert_true(!first || !strstr(first + 1, "\"mlflow: http"));
    test_free(log);
    snprintf(uri, sizeof uri, "http://127.0.0.1:%d", s.port);
    vvi_mlflow_opts opts = {.uri = uri, .experiment = "Default", .run_name = "r", .interval = 0.02,
                            .leave_seconds = 5.0};
    vvi_mlflow *m;
    assert_ok(vvi_mlflow_start(&m, &opts));
    assert_true(eventually(warned, m));
    assert_ok(vvi_mlflow_add(m, "x", 1.0, 1, 1));
    vvi_mlflow_flush(m);
    assert_false(warned(m));
    vvi_mlflow_stop(m, "FAILED");
    vvi_mlflow_stop(NULL, "FAILED");
}

static void test_refused(void **unused)
{
    (void)unused;
    vv_logger *logger;
    vv_mlflow_opts opts = VV_MLFLOW_DEFAULTS;
    opts.tracking_uri = "file:/tmp/mlruns";
    assert_ok(vv_logger_new(&logger, &vv_logger_mlflow, &opts));
    assert_fails(vv_logger_mlflow.open(logger, NULL, false), VV_EINVAL);
    assert_says("starts with http:// or https://");
    vv_logger_free(logger);
}

static int make_folder(void **unused)
{
    (void)unused;
    setenv("no_proxy", "127.0.0.1", 1);
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
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_server_that_fails_for_a_while),
        cmocka_unit_test(test_no_server),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

#else

/* Without libcurl it says so when a run starts. */
static void test_unsupported(void **unused)
{
    (void)unused;
    vvi_mlflow *m;
    const vvi_mlflow_opts opts = {.uri = "http://127.0.0.1"};
    assert_fails(vvi_mlflow_start(&m, &opts), VV_EUNSUPPORTED);
    assert_null(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unsupported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
