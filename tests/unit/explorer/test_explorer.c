/* test_explorer.c - the server as a client sees it: every address, what is refused and how; nothing
 * of the disk is given out; events come while rows are written; a crowd, slow clients and garbage
 * are survived. */
#include "vv_test.h"
#include "vv_test_files.h"

#include <time.h>

#include <vivace/explorer.h>
#include <vivace/run_store.h>

#include "explorer/serve.h"
#include "http_test.h"

#define JSON_TYPE "Content-Type: application/json\r\n"

static char folder[256], path[512];
static vv_run_store *store;
static vv_explorer *explorer;

static void put_run(const char *id, double seconds, double usd, const char *status)
{
    vv_run_row row;
    vv_run_row_init(&row);
    row.id = id;
    row.name = "night";
    row.status = status;
    row.dataset = "mnist";
    row.model = "mlp";
    row.recipe = "model: {name: mlp}\n";
    row.command = "vivace train night.yaml";
    row.host = "a-host";
    row.started = 1000.0;
    row.seen = (double)time(NULL);
    row.train_seconds = seconds;
    row.usd = usd;
    assert_ok(vv_run_store_put(store, &row));
}

static void put_accuracy(const char *id, double value)
{
    const vv_run_eval eval = {"eval", "accuracy", true, 1, 4, 64, 1.0, 1.5, value};
    assert_ok(vv_run_store_add_eval(store, id, &eval));
}

static void fill(void)
{
    const vv_run_method method = {"mixup", "{\"alpha\": 0.2}"};
    const vv_run_setting settings[] = {{"optimizer.lr", "0.1"}, {"methods.mixup.alpha", "0.2"}};
    const vv_run_setting others[] = {{"optimizer.lr", "0.4"}, {"name", "b"}, {"batch_size", "8"}};
    const vv_run_point point = {"loss/train", 1, 2, 0.5, 2.25};
    put_run("a-1", 10.0, 0.5, "done");
    put_accuracy("a-1", 0.5);
    put_run("b-2", 20.0, (double)NAN, "done");
    put_accuracy("b-2", 0.9);
    put_run("c/3", 30.0, 1.5, "done");
    put_accuracy("c/3", 0.7);
    put_run("d-4", 1.0, 0.1, "failed"); /* no quality at all */
    put_run("e-5", 1.0, 0.1, "failed");
    put_accuracy("e-5", 0.99);
    assert_ok(vv_run_store_set_methods(store, "a-1", &method, 1));
    assert_ok(vv_run_store_set_settings(store, "a-1", settings, 2));
    assert_ok(vv_run_store_set_settings(store, "d-4", others, 3));
    assert_ok(vv_run_store_add_point(store, "a-1", &point));
}

static void start_with(bool write, const char *token, const vvi_limits *limits)
{
    const vvi_limits usual = VVI_LIMITS_DEFAULTS;
    vv_explorer_opts opts = VV_EXPLORER_DEFAULTS;
    opts.db = path;
    opts.port = 0;
    opts.write = write;
    opts.token = token;
    assert_ok(vvi_explorer_start(&explorer, &opts, limits ? limits : &usual));
    http_port = vv_explorer_port(explorer);
    assert_in_range(http_port, 1, 65535);
}

static void test_every_address(void **unused)
{
    (void)unused;
    start_with(false, "", NULL);
    http_get(200, "/", "Content-Type: text/html");
    http_get(200, "/", "default-src 'self'");
    http_get(200, "/index.html?dataset=mnist", "<html");
    http_get(200, "/api/runs", "\"count\":5");
    http_get(200, "/api/runs", "Cache-Control: no-store");
    http_get(200, "/api/runs", "nosniff");
    http_get(200, "/api/runs", "\"metrics\":{\"eval/accuracy\":{\"final\":0.5,\"best\":0.5,");
    http_get(200, "/api/runs?status=failed", "\"count\":2");
    http_get(200, "/api/runs?dataset=mnist&model=vgg", "\"count\":0");
    http_get(200, "/api/runs/a-1", "\"recipe\":\"model: {name: mlp}\\n\"");
    http_get(200, "/api/runs/a-1",
             "\"settings\":{\"methods.mixup.alpha\":\"0.2\",\"optimizer.lr\":\"0.1\"}");
    http_get(200, "/api/runs/a-1",
             "\"method_settings\":[{\"name\":\"mixup\",\"settings\":{\"alpha\": 0.2}}]");
    http_get(200, "/api/runs/a-1", "\"points\":{\"loss/train\":[[2,1,0.5,2.25]]}");
    http_get(200, "/api/runs/a-1", "\"evals\":[{\"label\":\"eval\",\"metric\":\"accuracy\"");
    http_get(200, "/api/runs/c%2F3", "\"id\":\"c/3\"");
    http_get(200, "/api/runs/c/3", "\"id\":\"c/3\"");
    http_get(200, "/api/prices", "\"prices\":[{");
    http_get(200, "/api/export.csv", "\r\n\r\nid,name,");
    http_get(200, "/api/export.json", "\"format\":\"vivace-runs\"");
    http_get(200, "/api/openapi.yaml", "openapi: 3");
    /* neither what only one has, nor names and columns */
    http_get(200, "/api/settings",
             "{\"runs\":[\"a-1\",\"b-2\",\"c/3\",\"d-4\",\"e-5\"],\"settings\":[\n"
             "{\"key\":\"optimizer.lr\",\"values\":[\"0.1\",\"0.4\"],\"of\":[0,-1,-1,1,-1]}\n]}");
    http_wants(200, "HEAD", "/api/runs", NULL, NULL, "Content-Length: ");
    char *list = http_ask(200, "GET", "/api/runs", NULL, NULL);
    assert_null(strstr(list, "a-host")); /* nor where it ran, nor long texts */
    assert_null(strstr(list, "night.yaml"));
    free(list);
}

static void test_frontier_answers(void **unused)
{
    (void)unused;
    start_with(false, "", NULL);
    const char *time_of = "/api/frontier?dataset=mnist&model=mlp&metric=eval/accuracy&x=time";
    http_get(200, time_of,
             "\"points\":[{\"id\":\"a-1\",\"x\":10,\"quality\":0.5,\"frontier\":true},"
             "{\"id\":\"b-2\",\"x\":20,\"quality\":0.9,\"frontier\":true},"
             "{\"id\":\"c/3\",\"x\":30,\"quality\":0.7,\"frontier\":false}],\"fit\":{");
    http_get(200, "/api/frontier?metric=eval/accuracy&x=cost", /* b-2 has no cost */
             "\"points\":[{\"id\":\"a-1\",\"x\":0.5,\"quality\":0.5,\"frontier\":true},"
             "{\"id\":\"c/3\",\"x\":1.5,\"quality\":0.7,\"frontier\":true}]");
    http_get(200, "/api/frontier?dataset=mnist&metric=eval/perplexity",
             "\"points\":[],\"fit\":null");
    http_get(200, "/api/frontier?status=any", "\"id\":\"e-5\"");
    http_get(200, "/api/frontier?group=1", "\"count\":2,\"x_low\":"); /* b-2 and c/3 */
    http_get(400, "/api/frontier?x=memory", "x is time or cost");
    http_get(400, "/api/frontier?group=yes", "group is 0 or 1");
    http_get(400, "/api/frontier?value=worst", "value is final or best");
}

static void test_refusals(void **unused)
{
    (void)unused;
    start_with(false, "", NULL);
    http_get(404, "/api/runs/zzz", "{\"error\":\"there is no run \\\"zzz\\\"\"}");
    http_get(404, "/api/runs/", "\"error\"");
    http_get(404, "/api/nothing", "\"error\"");
    http_get(404, "/nothing.html", "\"error\"");
    http_get(400, "/api/runs?dataset=%zz", "\"error\"");
    http_get(400, "/%00", "\"error\"");
    http_get(405, "/api/runs/a-1/tags", "Allow: POST");
    http_wants(405, "POST", "/api/runs", NULL, "", "Allow: GET, HEAD");
    http_wants(405, "DELETE", "/api/runs/a-1", NULL, NULL, "\"error\"");
    http_wants(405, "PUT", "/", NULL, "x", "\"error\"");
    http_wants(403, "POST", "/api/runs/a-1/tags", JSON_TYPE, "{\"tag\":\"x\",\"on\":true}",
               "--write");
    http_wants(413, "POST", "/api/runs/a-1/note", "Content-Length: 70000\r\n", NULL, "65536");
}

static void test_nothing_of_the_disk(void **unused)
{
    (void)unused;
    static const char *const targets[] = {
        "/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd", "/web/../runs.db", "/runs.db", "/./index.html", "/api/../api/runs",
        "/api/runs/../../etc/passwd", "/api/runs/..%2f..%2fetc%2fpasswd", "/index.html%00.js",
        "/\\..\\..\\etc\\passwd", "/api/export.csv/../../../etc/passwd", "/openapi.yaml/",
    };
    start_with(false, "", NULL);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char request[512], *answer;
        const int fd = http_connect();
        const int length = snprintf(request, sizeof request,
                                    "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", targets[i]);
        http_send(fd, request, (size_t)length);
        http_read(fd, &answer, NULL, 5000);
        close(fd);
        const int status = atoi(strchr(answer, ' '));
        if ((status != 404 && status != 400) || strstr(answer, "root:"))
            fail_msg("%s: %.300s", targets[i], answer);
        free(answer);
    }
}

static void test_writing(void **unused)
{
    (void)unused;
    char big[11000];
    start_with(true, "", NULL);
    const char *tags = "/api/runs/a-1/tags", *note = "/api/runs/c%2F3/note";
    http_wants(200, "POST", tags, JSON_TYPE, "{\"tag\":\"good\",\"on\":true}",
               "\"tags\":[\"good\"]");
    http_get(200, "/api/runs", "\"tags\":[\"good\"]");
    http_wants(200, "POST", tags, JSON_TYPE, "{\"tag\":\"good\",\"on\":false}", "\"tags\":[]");
    http_wants(200, "POST", note, JSON_TYPE, "{\"note\":\"l\\u00e4uft\"}", "\"note\":\"läuft\"");
    http_wants(400, "POST", tags, JSON_TYPE, "{\"tag\":\"two words\",\"on\":true}", "one word");
    http_wants(400, "POST", tags, JSON_TYPE, "{\"tag\":1}", "a tag is set by");
    http_wants(400, "POST", tags, JSON_TYPE, "{\"tag\"", "no JSON");
    http_wants(400, "POST", note, JSON_TYPE, "[]", "a note is set by");
    http_wants(404, "POST", "/api/runs/zzz/tags", JSON_TYPE, "{\"tag\":\"x\",\"on\":true}",
               "no run");
    http_wants(404, "POST", "/api/runs/nigh/note", JSON_TYPE, "{\"note\":\"x\"}", "no run");
    http_wants(415, "POST", tags, "Content-Type: text/plain\r\n", "{\"tag\":\"x\",\"on\":true}",
               NULL);
    http_wants(403, "POST", tags, JSON_TYPE "Origin: http://evil.example\r\n",
               "{\"tag\":\"x\",\"on\":true}", "another site");
    memset(big, 'x', sizeof big - 1);
    memcpy(big, "{\"note\":\"", 9);
    memcpy(big + sizeof big - 3, "\"}", 3);
    http_wants(400, "POST", note, JSON_TYPE, big, "at most 10000 bytes");
}

static void test_token(void **unused)
{
    (void)unused;
    char header[128];
    start_with(false, "s3cret", NULL);
    http_get(401, "/api/runs", "a token is needed");
    http_get(401, "/", "a token is needed");
    http_get(401, "/api/runs?token=s3cre", NULL);
    http_get(401, "/api/runs?token=s3crets", NULL);
    http_wants(401, "GET", "/api/runs", "Authorization: Bearer s3creT\r\n", NULL, NULL);
    http_wants(200, "GET", "/api/runs", "Authorization: Bearer s3cret\r\n", NULL, "\"count\":5");
    http_get(303, "/?dataset=mnist&token=s3cret&x=1", "Location: /?dataset=mnist&x=1\r\n");
    http_get(200, "/api/runs?token=s3cret", "HttpOnly; SameSite=Strict");
    snprintf(header, sizeof header, "Cookie: a=b; vivace_token_%d=s3cret\r\n", http_port);
    http_wants(200, "GET", "/", header, NULL, "<html");
    snprintf(header, sizeof header, "Cookie: vivace_token_%d=s3cret4\r\n", http_port);
    http_wants(401, "GET", "/", header, NULL, NULL);
}

/* Names that another site made point here. */
static void test_other_names(void **unused)
{
    (void)unused;
    static const char *const hosts[] = {"evil.example", "127.0.0.1.evil.example", "localhost.evil",
                                        "10.0.0.1:80"};
    start_with(false, "", NULL);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        char request[256], *answer;
        const int fd = http_connect();
        const int length = snprintf(request, sizeof request,
                                    "GET /api/runs HTTP/1.0\r\nHost: %s\r\n\r\n", hosts[i]);
        http_send(fd, request, (size_t)length);
        http_read(fd, &answer, NULL, 5000);
        close(fd);
        assert_int_equal(atoi(strchr(answer, ' ')), 403);
        free(answer);
    }
}

static void test_events(void **unused)
{
    (void)unused;
    char *text;
    const vvi_limits limits = {256, 2, 10, 120, 30, 0.5, 0.1, 2000, 500};
    start_with(false, "", &limits);
    const int fd = http_connect();
    const char *request = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    http_send(fd, request, strlen(request));
    http_read(fd, &text, "text/event-stream", 5000);
    assert_non_null(strstr(text, " 200 "));
    assert_null(strstr(text, "event: runs"));
    free(text);
    put_run("f-6", 1.0, 0.1, "running"); /* another process would write so */
    http_read(fd, &text, "\"gone\":", 5000);
    assert_non_null(strstr(text, "\"id\":\"f-6\""));
    assert_null(strstr(text, "\"id\":\"a-1\"")); /* only what changed */
    free(text);
    http_read(fd, &text, "\n:\n\n", 5000); /* a sign of life */
    assert_non_null(strstr(text, ":\n\n"));
    free(text);
    put_run("f-6", 2.0, 0.2, "running");
    put_accuracy("f-6", 0.25);
    http_read(fd, &text, "\"gone\":", 5000);
    assert_non_null(strstr(text, "event: runs\nid: "));
    assert_non_null(strstr(text, "data: {\"runs\":[{\"id\":\"f-6\""));
    free(text);
    assert_ok(vv_run_store_delete(store, "f-6"));
    http_read(fd, &text, "\"gone\":[\"f-6\"]", 5000);
    assert_non_null(strstr(text, "\"gone\":[\"f-6\"]"));
    free(text);
    close(fd);
}

static void test_a_crowd(void **unused)
{
    (void)unused;
    enum { CROWD = 200 };
    static int fds[CROWD];
    const vvi_limits limits = {40, 2, 10, 120, 30, 15, 1, 2000, 500};
    const char *request = "GET /api/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    int served = 0, refused = 0;
    start_with(false, "", &limits);
    for (int i = 0; i < CROWD; i++)
        fds[i] = http_connect();
    for (int i = 0; i < CROWD; i++)
        http_send(fds[i], request, strlen(request));
    for (int i = 0; i < CROWD; i++) {
        char *answer;
        http_read(fds[i], &answer, NULL, 5000);
        served += strstr(answer, " 200 ") != NULL;
        refused += strstr(answer, " 503 ") != NULL;
        free(answer);
        close(fds[i]);
    }
    assert_int_equal(served + refused, CROWD);
    assert_true(served > 0);
    http_get(200, "/api/runs", "\"count\":5");

    /* streams beyond their number are refused, the others stay */
    const char *events = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char *answer;
    for (int i = 0; i < 3; i++) {
        fds[i] = http_connect();
        http_send(fds[i], events, strlen(events));
        http_read(fds[i], &answer, "\r\n\r\n", 5000);
        assert_non_null(strstr(answer, i < 2 ? " 200 " : " 503 "));
        free(answer);
    }
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void test_asking_too_often(void **unused)
{
    (void)unused;
    const vvi_limits limits = {256, 2, 10, 120, 30, 15, 1, 5, 0.001};
    start_with(false, "", &limits);
    for (int i = 0; i < 5; i++)
        http_get(200, "/api/prices", NULL);
    http_get(429, "/api/prices", "Retry-After: 1");
}

static void test_slow_clients(void **unused)
{
    (void)unused;
    const vvi_limits limits = {256, 2, 0.5, 120, 30, 15, 0.1, 2000, 500};
    char *answer;
    start_with(false, "", &limits);
    const int head = http_connect(), body = http_connect();
    const char *begun = "GET /api/runs HTTP/1.1\r\nHos",
               *half = "POST /api/runs/a-1/note HTTP/1.1\r\n"
                       "Host: localhost\r\nContent-Length: 50\r\n\r\n{\"no";
    http_send(head, begun, strlen(begun));
    http_send(body, half, strlen(half));
    http_get(200, "/api/runs", "\"count\":5"); /* others do not wait for them */
    for (int i = 0; i < 6; i++) { /* a byte now and then is not enough to stay */
        http_send(head, "x", 1);
        http_send(body, "x", 1);
        usleep(100000);
    }
    http_read(head, &answer, NULL, 4000);
    assert_null(strstr(answer, " 200 "));
    free(answer);
    http_read(body, &answer, NULL, 4000);
    assert_null(strstr(answer, " 200 "));
    free(answer);
    struct pollfd ends[2] = {{.fd = head, .events = POLLIN}, {.fd = body, .events = POLLIN}};
    char byte;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(poll(&ends[i], 1, 4000), 1); /* both were cut off */
        assert_true(recv(ends[i].fd, &byte, 1, 0) <= 0);
        close(ends[i].fd);
    }
}

/* As many slow clients as there are places: others are told to come again, and do as soon as the
   slow ones are cut off. Nobody needs to leave by himself. */
static void test_all_places_held(void **unused)
{
    (void)unused;
    enum { PLACES = 8 };
    const vvi_limits limits = {PLACES, 2, 0.4, 120, 30, 15, 0.1, 2000, 500};
    const char *begun = "GET /api/runs HTTP/1.1\r\nX-Slow: ", *whole =
        "GET /api/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    int slow[2 * PLACES];
    bool served = false;
    start_with(false, "", &limits);
    for (int i = 0; i < 2 * PLACES; i++) {
        slow[i] = http_connect();
        http_send(slow[i], begun, strlen(begun));
    }
    for (int i = 0; i < 100 && !served; i++) {
        char *answer;
        const int fd = http_connect();
        http_send(fd, whole, strlen(whole));
        http_read(fd, &answer, NULL, 5000);
        served = strstr(answer, "\"count\":5") != NULL;
        if (!served)
            assert_true(!answer[0] || strstr(answer, " 503 ") != NULL);
        free(answer);
        close(fd);
        for (int j = 0; j < 2 * PLACES; j++) /* a byte of the head now and then */
            http_send(slow[j], "x", 1);
        usleep(50000);
    }
    assert_true(served);
    for (int i = 0; i < 2 * PLACES; i++)
        close(slow[i]);
}

/* 200 who ask at once with the limits that users get: each has the whole answer. */
static void test_200_at_once(void **unused)
{
    (void)unused;
    enum { CROWD = 200 };
    static int fds[CROWD];
    const char *request = "GET /api/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    start_with(false, "", NULL);
    for (int i = 0; i < CROWD; i++)
        fds[i] = http_connect();
    for (int i = 0; i < CROWD; i++)
        http_send(fds[i], request, strlen(request));
    for (int i = 0; i < CROWD; i++) {
        char *answer;
        http_read(fds[i], &answer, NULL, 20000);
        if (!strstr(answer, " 200 ") || !strstr(answer, "\"count\":5"))
            fail_msg("client %d: %.200s", i, answer);
        free(answer);
        close(fds[i]);
    }
}

/* A body that grows beyond what it may be, in pieces whose sum nobody said: cut off, not kept. */
static void test_endless_body(void **unused)
{
    (void)unused;
    static char piece[8200];
    const char *head = "POST /api/runs/a-1/note HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                       "Transfer-Encoding: chunked\r\n\r\n";
    char *answer;
    start_with(true, "", NULL);
    const int fd = http_connect();
    memset(piece, 'x', sizeof piece);
    memcpy(piece, "1fff\r\n", 6);
    memcpy(piece + 6 + 0x1fff, "\r\n", 2);
    http_send(fd, head, strlen(head));
    for (int i = 0; i < 64; i++)
        http_send(fd, piece, 6 + 0x1fff + 2);
    http_read(fd, &answer, NULL, 5000);
    assert_null(strstr(answer, " 200 "));
    free(answer);
    close(fd);
    http_get(200, "/api/runs/a-1", "\"note\":\"\"");
}

/* Beyond this machine: under any name, with the token alone, and it may not be guessed at
   leisure. */
static void test_beyond_this_machine(void **unused)
{
    (void)unused;
    const vvi_limits limits = {256, 2, 10, 120, 30, 15, 1, 12, 0.001};
    vv_explorer_opts opts = VV_EXPLORER_DEFAULTS;
    opts.db = path;
    opts.host = "0.0.0.0";
    opts.port = 0;
    opts.token = "s3cret";
    assert_ok(vvi_explorer_start(&explorer, &opts, &limits));
    http_port = vv_explorer_port(explorer);
    http_get(401, "/api/runs", "a token is needed");
    http_wants(200, "GET", "/api/runs", "Authorization: Bearer s3cret\r\n", NULL, "\"count\":5");
    for (int i = 0; i < 10; i++)
        http_wants(401, "GET", "/api/runs", "Authorization: Bearer guess\r\n", NULL, NULL);
    http_wants(429, "GET", "/api/runs", "Authorization: Bearer guess\r\n", NULL, "too many");
}

static void test_garbage(void **unused)
{
    (void)unused;
    static char long_head[70000], long_target[20000];
    memset(long_head, 'a', sizeof long_head - 1);
    memcpy(long_head, "GET / HTTP/1.1\r\nX: ", 19);
    memset(long_target, 'b', sizeof long_target - 1);
    memcpy(long_target, "GET /", 5);
    memcpy(long_target + sizeof long_target - 32, " HTTP/1.1\r\nHost: localhost\r\n\r\n", 31);
    const char *const texts[] = {
        "",
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02",
        "GET / HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET http://evil/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        "99999999999999999999\r\n\r\n",
        "GET / HTTP/1.1\nHost: localhost\n\n",
        long_head,
        long_target,
    };
    const vvi_limits limits = {256, 2, 0.2, 120, 0.2, 15, 0.1, 2000, 500};
    start_with(false, "", &limits);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *answer;
        const int fd = http_connect();
        http_send(fd, texts[i], strlen(texts[i]));
        shutdown(fd, SHUT_WR);
        http_read(fd, &answer, NULL, 2000);
        assert_null(strstr(answer, "\"count\""));
        free(answer);
        close(fd);
    }
    http_get(200, "/api/runs", "\"count\":5");
}

static void test_start_refusals(void **unused)
{
    (void)unused;
    vv_explorer *none;
    vv_explorer_opts opts = VV_EXPLORER_DEFAULTS;
    start_with(false, "", NULL);
    opts.db = path;
    opts.port = http_port;
    assert_fails(vv_explorer_start(&none, &opts), VV_EIO);
    assert_says("is taken");
    assert_null(none);
    opts.port = 70000;
    assert_fails(vv_explorer_start(&none, &opts), VV_EINVAL);
    opts.port = 0;
    opts.host = "0.0.0.0";
    assert_fails(vv_explorer_start(&none, &opts), VV_EINVAL);
    assert_says("a token is needed");
    opts.token = "with blank";
    assert_fails(vv_explorer_start(&none, &opts), VV_EINVAL);
    opts.host = "example.org";
    assert_fails(vv_explorer_start(&none, &opts), VV_EINVAL);
    opts = (vv_explorer_opts)VV_EXPLORER_DEFAULTS;
    opts.port = 0;
    opts.db = "/nowhere/runs.db";
    opts.write = true;
    assert_fails(vv_explorer_start(&none, &opts), VV_ENOTFOUND);
}

static int enter(void **unused)
{
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
    vv_explorer_stop(explorer);
    explorer = NULL;
    vv_run_store_close(store);
    remove_dir(folder);
    return vv_memory_live_count() != 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    if (!vv_explorer_available()) {
        vv_explorer *none;
        const vv_explorer_opts opts = VV_EXPLORER_DEFAULTS;
        if (vv_explorer_start(&none, &opts) == VV_OK || none)
            return 1;
        printf("TAP version 13\n1..0 # SKIP this build has no Explorer\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        TEST(test_every_address), TEST(test_frontier_answers), TEST(test_refusals),
        TEST(test_nothing_of_the_disk), TEST(test_writing), TEST(test_token),
        TEST(test_other_names), TEST(test_events), TEST(test_a_crowd),
        TEST(test_200_at_once), TEST(test_asking_too_often),
        TEST(test_all_places_held), TEST(test_endless_body), TEST(test_beyond_this_machine),
        TEST(test_slow_clients), TEST(test_garbage),
        TEST(test_start_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
