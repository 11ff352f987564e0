/* file_server.h - an HTTP server over a folder, in the test's own process, that can fail in the
 * ways networks do. Each connection has a thread. */
#ifndef VV_FILE_SERVER_H
#define VV_FILE_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/socket.h>

#include "vv_test_files.h"

typedef struct file_server {
    const char *dir;
    int socket, port;
    pthread_t thread;
    atomic_int open; /* connections being answered */
    /* What goes wrong, of files whose name contains `only` (NULL = all): the next so many
       answers. */
    const char *only;
    atomic_int refuse;       /* are 500 */
    atomic_int refuse_code;  /* or this */
    atomic_int cut;          /* end after half of what they promise */
    atomic_int spoil;        /* have a wrong byte */
    atomic_bool no_range;    /* always: the whole file, 200 */
    atomic_int slow_us;      /* always: before each piece of 512 bytes */
    atomic_int requests;     /* so far */
    atomic_int ranges;       /* of them for a rest */
    atomic_llong rest_bytes; /* where the last of those began */
} file_server;

static inline bool takes_one(atomic_int *left)
{
    int now = atomic_load(left);
    while (now > 0)
        if (atomic_compare_exchange_weak(left, &now, now - 1))
            return true;
    return false;
}

static inline void send_all(int client, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t n = send(client, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        at += n;
        bytes -= (size_t)n;
    }
}

static inline void answer_file(file_server *s, int client, const char *name, long long from)
{
    static const char *const types[] = {"500 Internal Server Error", "403 Forbidden",
                                        "404 Not Found", "307 Temporary Redirect"};
    char path[1024], head[512];
    const bool wicked = !s->only || strstr(name, s->only);
    atomic_fetch_add(&s->requests, 1);
    if (from > 0) {
        atomic_fetch_add(&s->ranges, 1);
        atomic_store(&s->rest_bytes, from);
    }
    snprintf(path, sizeof path, "%s/%s", s->dir, name);
    FILE *file = fopen(path, "rb");
    const bool refused = wicked && takes_one(&s->refuse);
    if (refused || !file) {
        const int code = refused ? atomic_load(&s->refuse_code) : 404;
        const char *type = types[code == 403 ? 1 : code == 404 ? 2 : code == 307 ? 3 : 0];
        snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nno", type);
        send_all(client, head, strlen(head));
        if (file)
            fclose(file);
        return;
    }
    static const size_t room = 1 << 22;
    char *data = malloc(room);
    const size_t bytes = data ? fread(data, 1, room, file) : 0;
    fclose(file);
    if (atomic_load(&s->no_range) || from >= (long long)bytes)
        from = 0;
    if (wicked && bytes > 0 && takes_one(&s->spoil))
        data[bytes - 1] ^= 1;
    const size_t left = bytes - (size_t)from;
    snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nETag: \"%zu\"\r\n",
             from > 0 ? "206 Partial Content" : "200 OK", left, bytes);
    send_all(client, head, strlen(head));
    if (from > 0) {
        snprintf(head, sizeof head, "Content-Range: bytes %lld-%zu/%zu\r\n", from, bytes - 1,
                 bytes);
        send_all(client, head, strlen(head));
    }
    send_all(client, "\r\n", 2);
    const bool cut = wicked && takes_one(&s->cut);
    const size_t end = cut ? left / 2 : left;
    for (size_t at = 0; at < end; at += 512) {
        if (atomic_load(&s->slow_us))
            usleep((unsigned)atomic_load(&s->slow_us));
        send_all(client, data + from + at, end - at < 512 ? end - at : 512);
    }
    if (cut)
        shutdown(client, SHUT_RDWR);
    free(data);
}

typedef struct file_client {
    file_server *server;
    int socket;
} file_client;

static inline void *serve_client(void *arg)
{
    file_client *c = arg;
    file_server *s = c->server;
    char request[8192];
    for (;;) {
        size_t got = 0;
        request[0] = '\0';
        while (got < sizeof request - 1 && !strstr(request, "\r\n\r\n")) {
            const ssize_t part = recv(c->socket, request + got, sizeof request - 1 - got, 0);
            if (part <= 0)
                goto done;
            got += (size_t)part;
            request[got] = '\0';
        }
        char name[512] = "";
        long long from = 0;
        sscanf(request, "GET /%500s HTTP", name);
        const char *range = strcasestr(request, "\r\nRange: bytes=");
        if (range)
            sscanf(range + 15, "%lld-", &from);
        answer_file(s, c->socket, name, from);
    }
done:
    close(c->socket);
    free(c);
    atomic_fetch_sub(&s->open, 1);
    return NULL;
}

static inline void *serve_all(void *arg)
{
    file_server *s = arg;
    for (;;) {
        const int socket = accept(s->socket, NULL, NULL);
        if (socket < 0)
            return NULL;
        pthread_t thread;
        const int yes = 1; /* small pieces at once */
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        file_client *c = malloc(sizeof *c);
        if (!c) {
            close(socket);
            continue;
        }
        *c = (file_client){s, socket};
        atomic_fetch_add(&s->open, 1);
        if (pthread_create(&thread, NULL, serve_client, c) == 0) {
            pthread_detach(thread);
        } else {
            close(socket);
            free(c);
            atomic_fetch_sub(&s->open, 1);
        }
    }
}

/* Port 0 = any; another one: where an earlier server was. */
static inline void file_server_start(file_server *s, const char *dir, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof address;
    const int yes = 1;
    memset(s, 0, sizeof *s);
    s->dir = dir;
    atomic_store(&s->refuse_code, 500);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->socket = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s->socket >= 0);
    setsockopt(s->socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    assert_int_equal(bind(s->socket, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(s->socket, 32), 0);
    assert_int_equal(getsockname(s->socket, (struct sockaddr *)&address, &length), 0);
    s->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, serve_all, s), 0);
}

/* Waits for the connections: their other ends must be closed. */
static inline void file_server_stop(file_server *s)
{
    shutdown(s->socket, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->socket);
    while (atomic_load(&s->open) > 0)
        usleep(1000);
}

#endif
