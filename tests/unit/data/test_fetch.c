/* test_fetch.c - fetching from a server in this program: files arrive whole and checked or not at
 * all; a wrong sum, a missing file and a transfer that breaks off are told in a sentence and leave
 * what was there as it was; a file that is there and right is not fetched again. */
#include "vv_test_files.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include <vivace/data.h>

#include "vvi_config.h"

/* A server on 127.0.0.1: GET /<anything>/abc gives "abc"; cut promises more than it sends; all else
   is 404. */
typedef struct server {
    int socket;
    int port;
    pthread_t thread;
    atomic_int requests;
} server;

static void answer(int client, const char *request)
{
    char reply[512];
    const char *end = strchr(request + 4, ' ');
    if (end && strncmp(end - 4, "/abc", 4) == 0)
        snprintf(reply, sizeof reply,
                 "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"
                 "Connection: close\r\n\r\nabc");
    else if (end && strncmp(end - 4, "/cut", 4) == 0)
        snprintf(reply, sizeof reply,
                 "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n"
                 "Connection: close\r\n\r\nabc");
    else
        snprintf(reply, sizeof reply,
                 "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n"
                 "Connection: close\r\n\r\nno");
    if (send(client, reply, strlen(reply), MSG_NOSIGNAL) < 0)
        return;
}

static void *serve(void *arg)
{
    server *s = arg;
    for (;;) {
        const int client = accept(s->socket, NULL, NULL);
        if (client < 0)
            return NULL;
        char request[4096];
        size_t got = 0;
        while (got < sizeof request - 1) {
            const ssize_t part = recv(client, request + got, sizeof request - 1 - got, 0);
            if (part <= 0)
                break;
            got += (size_t)part;
            request[got] = '\0';
            if (strstr(request, "\r\n\r\n"))
                break;
        }
        atomic_fetch_add(&s->requests, 1);
        if (got > 4)
            answer(client, request);
        close(client);
    }
}

static void start(server *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->socket = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s->socket >= 0);
    assert_int_equal(bind(s->socket, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(s->socket, 8), 0);
    assert_int_equal(getsockname(s->socket, (struct sockaddr *)&address, &length), 0);
    s->port = ntohs(address.sin_port);
    atomic_init(&s->requests, 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(server *s)
{
    shutdown(s->socket, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->socket);
}

#define ABC_SHA "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

typedef struct toy_opts {
    vv_dataset_common common;
} toy_opts;

static vv_dataset_desc toy(const vv_fetch_file *files)
{
    return (vv_dataset_desc){
        .desc = {.kind = "dataset", .name = "toy", .opts_size = sizeof(toy_opts)}, .files = files};
}

static void check_file(const char *dir, const char *name, const char *text)
{
    char path[512], got[64] = "";
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got - 1, file), strlen(text));
    fclose(file);
    assert_string_equal(got, text);
}

static int64_t last_done;
static void on_progress(void *ctx, const char *file, int64_t done, int64_t total)
{
    (void)total;
    *(const char **)ctx = file;
    last_done = done;
}

static void fetches_and_checks(void **state)
{
    server *s = *state;
    char root[256], dir[300], base[64];
    const vv_fetch_file files[] = {{"http://example.invalid/a/abc", "first", ABC_SHA},
                                   {"http://example.invalid/b/abc", "second", ""},
                                   {NULL, NULL, NULL}};
    const vv_dataset_desc desc = toy(files);
    temp_dir(root);
    snprintf(dir, sizeof dir, "%s/deep/toy", root);
    snprintf(base, sizeof base, "http://127.0.0.1:%d/mirror", s->port);
    const char *seen = NULL;
    assert_ok(vv_dataset_fetch(&desc, dir, base, on_progress, &seen));
    check_file(dir, "first", "abc");
    check_file(dir, "second", "abc");
    assert_int_equal(count_files(dir), 2);
    assert_string_equal(seen, "second");
    assert_int_equal(last_done, 3);

    const int before = atomic_load(&s->requests);
    assert_int_equal(before, 2);
    assert_ok(vv_dataset_fetch(&desc, dir, base, NULL, NULL));
    assert_int_equal(atomic_load(&s->requests), before); /* both are there */
    write_file(dir, "first", "abd", 3);
    assert_ok(vv_dataset_fetch(&desc, dir, base, NULL, NULL));
    assert_int_equal(atomic_load(&s->requests), before + 1); /* the damaged one again */
    check_file(dir, "first", "abc");
    remove_dir(root);
}

static void failures_leave_nothing_behind(void **state)
{
    server *s = *state;
    char dir[256], url[3][64];
    static const char *const names[3] = {"abc", "missing", "cut"};
    static const char *const says[3] = {"expected SHA-256 0000", "answered 404", "ended early"};
    static const vv_status codes[3] = {VV_EFORMAT, VV_ENOTFOUND, VV_EIO};
    temp_dir(dir);
    for (int i = 0; i < 3; i++) {
        snprintf(url[i], sizeof url[i], "http://127.0.0.1:%d/%s", s->port, names[i]);
        const vv_fetch_file files[] = {
            {url[i], "file", "0000000000000000000000000000000000000000000000000000000000000000"},
            {NULL, NULL, NULL}};
        const vv_dataset_desc desc = toy(files);
        write_file(dir, "file", "old", 3);
        assert_fails(vv_dataset_fetch(&desc, dir, NULL, NULL, NULL), codes[i]);
        assert_says(says[i]);
        assert_says(url[i]);
        assert_says("fetch toy: ");
        check_file(dir, "file", "old");
        assert_int_equal(count_files(dir), 1);
    }
    remove_dir(dir);
}

static void nobody_listens(void **state)
{
    (void)state;
    char dir[256];
    temp_dir(dir);
    const vv_fetch_file files[] = {{"http://127.0.0.1:1/abc", "file", ""}, {NULL, NULL, NULL}};
    const vv_dataset_desc desc = toy(files);
    assert_fails(vv_dataset_fetch(&desc, dir, NULL, NULL, NULL), VV_EIO);
    assert_says("cannot be downloaded");
    const vv_dataset_desc nothing = toy(NULL);
    assert_fails(vv_dataset_fetch(&nothing, dir, NULL, NULL, NULL), VV_EUNSUPPORTED);
    assert_int_equal(count_files(dir), 0);
    remove_dir(dir);
}

static vv_status prepare_marks(const char *dir)
{
    write_file(dir, "prepared", "", 0);
    return VV_OK;
}

static void files_from_a_folder_then_prepare(void **state)
{
    (void)state;
    char from[256], root[256], dir[300], base[300], *before = getenv("VIVACE_DATA");
    before = before ? strdup(before) : NULL;
    temp_dir(from);
    temp_dir(root);
    write_file(from, "abc", "abc", 3);
    snprintf(base, sizeof base, "file://%s/", from);
    const vv_fetch_file files[] = {{"http://example.invalid/abc", "file", ABC_SHA},
                                   {NULL, NULL, NULL}};
    vv_dataset_desc desc = toy(files);
    desc.prepare = prepare_marks;
    setenv("VIVACE_DATA", root, 1);
    assert_ok(vv_dataset_fetch(&desc, NULL, base, NULL, NULL));
    snprintf(dir, sizeof dir, "%s/toy", root);
    check_file(dir, "file", "abc");
    check_file(dir, "prepared", "");
    unsetenv("VIVACE_DATA");
    assert_fails(vv_dataset_fetch(&desc, NULL, base, NULL, NULL), VV_EINVAL);
    assert_says("VIVACE_DATA");
    if (before)
        setenv("VIVACE_DATA", before, 1);
    free(before);
    remove_dir(from);
    remove_dir(root);
}

static void survives_each_allocation_failing(void **state)
{
    server *s = *state;
    char dir[256], url[64], path[512];
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/abc", s->port);
    const vv_fetch_file files[] = {{url, "file", ABC_SHA}, {NULL, NULL, NULL}};
    const vv_dataset_desc desc = toy(files);
    const int64_t live = vv_memory_live_count();
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        unlink(path);
        vv_error_clear();
        vv_memory_fail_at(n);
        const vv_status status = vv_dataset_fetch(&desc, dir, NULL, NULL, NULL);
        vv_memory_fail_at(0);
        done = status == VV_OK;
        if (!done) {
            assert_int_equal(status, VV_ENOMEM);
            assert_int_equal(count_files(dir), 0);
        }
        assert_int_equal(vv_memory_live_count(), live);
        assert_true(n < 100);
        assert_true(!done || n > 3);
    }
    remove_dir(dir);
}

int main(void)
{
    static server s;
    if (!VVI_HAVE_CURL) {
        puts("1..0 # SKIP this build has no libcurl");
        return 0;
    }
    setenv("no_proxy", "127.0.0.1", 1);
    start(&s);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(fetches_and_checks, &s),
        cmocka_unit_test_prestate(failures_leave_nothing_behind, &s),
        cmocka_unit_test_prestate(nobody_listens, &s),
        cmocka_unit_test_prestate(files_from_a_folder_then_prepare, &s),
        cmocka_unit_test_prestate(survives_each_allocation_failing, &s),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stop(&s);
    return failed;
}
