/* serve.c - the Explorer's server: one thread on which requests come in and replies go out. The
 * only user of libmicrohttpd. */
#include "explorer/serve.h"

#include "vvi_config.h"

bool vv_explorer_available(void)
{
    return VVI_HAVE_MICROHTTPD && VVI_HAVE_SQLITE;
}

vv_status vv_explorer_start(vv_explorer **out, const vv_explorer_opts *opts)
{
    const vvi_limits limits = VVI_LIMITS_DEFAULTS;
    return vvi_explorer_start(out, opts, &limits);
}

#if VVI_HAVE_MICROHTTPD
#include <math.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <vivace/memory.h>

#include "explorer/api.h"
#include "explorer/listen.h"

enum { ADDRESSES = 64, WAIT_MS = 100 };

typedef struct peer { /* an open connection */
    struct peer *next, **link;
    int fd;
    double deadline; /* when it is cut off */
} peer;

typedef struct stream { /* of events */
    struct stream *next, **link;
    vv_explorer *explorer;
    struct MHD_Connection *connection;
    vv_str pending;
    size_t sent; /* of it */
    uint64_t since;
    double spoken;
    bool waiting;
} stream;

typedef struct allowance { /* of the addresses that share it */
    double left, when;
} allowance;

struct vv_explorer {
    vvi_api api;
    vvi_limits limits;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    atomic_bool stop;
    bool ending;
    int port, peer_count, stream_count;
    peer *peers;
    stream *streams;
    double ticked;
    allowance allowances[ADDRESSES];
};

typedef struct incoming { /* a request on its way in */
    char *target;
    vv_str body;
    bool begun, too_large;
} incoming;

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- connections ---- */

static void on_connection(void *ctx, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    vv_explorer *e = ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        peer *p;
        *context = NULL;
        if (!info || vv_alloc(&p, sizeof *p) != VV_OK)
            return; /* MHD's own timeout remains */
        *p = (peer){e->peers, &e->peers, info->connect_fd,
                    now_seconds() + e->limits.header_seconds};
        if (p->next)
            p->next->link = &p->next;
        e->peers = p;
        e->peer_count++;
        *context = p;
    } else if (*context) {
        peer *p = *context;
        *p->link = p->next;
        if (p->next)
            p->next->link = p->link;
        vv_dealloc(p);
        e->peer_count--;
        *context = NULL;
    }
}

static void set_deadline(struct MHD_Connection *connection, double seconds)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info && info->socket_context)
        ((peer *)info->socket_context)->deadline = now_seconds() + seconds;
}

/* False: this address has asked too much lately. */
static bool may_ask(vv_explorer *e, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    const unsigned char *bytes = NULL;
    size_t count = 0, hash = 5381;
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        bytes = (const unsigned char *)&v4->sin_addr;
        count = 4;
    } else if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        bytes = (const unsigned char *)&v6->sin6_addr;
        count = 8; /* one network */
    }
    for (size_t i = 0; i < count; i++)
        hash = hash * 33 + bytes[i];
    allowance *a = &e->allowances[hash % ADDRESSES];
    const double now = now_seconds();
    a->left = fmin(e->limits.burst, a->left + (now - a->when) * e->limits.per_second);
    a->when = now;
    if (a->left < 1.0)
        return false;
    a->left -= 1.0;
    return true;
}

/* ---- replies ---- */

static void free_body(void *body)
{
    vvi_body_drop(body);
}

/* The library's signature lacks a const: it only reads. */
static struct MHD_Response *response_of(const char *data, size_t bytes, vvi_body *body)
{
    void *text;
    memcpy(&text, &data, sizeof text);
    return MHD_create_response_from_buffer_with_free_callback_cls(bytes, text, free_body, body);
}

static void head(struct MHD_Response *response, const char *name, const char *value)
{
    if (value && value[0])
        (void)MHD_add_response_header(response, name, value);
}

static enum MHD_Result queue(struct MHD_Connection *connection, int status,
                             struct MHD_Response *response, const vvi_reply *reply)
{
    if (!response)
        return MHD_NO;
    head(response, "Content-Type", reply->type);
    head(response, "Allow", reply->allow);
    head(response, "Location", vv_str_text(&reply->location));
    head(response, "Set-Cookie", vv_str_text(&reply->cookie));
    head(response, "WWW-Authenticate", status == 401 ? "Bearer" : NULL);
    head(response, "Retry-After", status == 429 || status == 503 ? "1" : NULL);
    head(response, "Connection", status == 503 ? "close" : NULL);
    head(response, "Cache-Control", reply->api ? "no-store" : "no-cache");
    head(response, "Content-Security-Policy",
         "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'");
    head(response, "X-Content-Type-Options", "nosniff");
    head(response, "Referrer-Policy", "no-referrer");
    head(response, "Cross-Origin-Resource-Policy", "same-origin");
    const enum MHD_Result queued = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, int status, const char *text)
{
    vvi_reply reply = {.type = "application/json; charset=utf-8", .api = true};
    return queue(connection, status, response_of(text, strlen(text), NULL), &reply);
}

/* ---- the stream of events ---- */

static void free_stream(void *ctx)
{
    stream *s = ctx;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    s->explorer->stream_count--;
    vv_str_fini(&s->pending);
    vv_dealloc(s);
}

static ssize_t read_stream(void *ctx, uint64_t position, char *to, size_t most)
{
    stream *s = ctx;
    (void)position;
    if (s->explorer->ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (s->sent == s->pending.length) {
        vv_str_clear(&s->pending);
        s->sent = 0;
        if (vvi_api_event(&s->explorer->api, s->since, &s->pending) != VV_OK)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        s->since = vv_run_table_revision(s->explorer->api.table);
        if (!s->pending.length && now_seconds() - s->spoken >= s->explorer->limits.comment_seconds)
            vv_str_add(&s->pending, ":\n\n");
        if (!s->pending.length) {
            s->waiting = true;
            MHD_suspend_connection(s->connection);
            return 0;
        }
        s->spoken = now_seconds();
    }
    const size_t left = s->pending.length - s->sent, count = left < most ? left : most;
    memcpy(to, s->pending.text + s->sent, count);
    s->sent += count;
    return (ssize_t)count;
}

static enum MHD_Result open_stream(vv_explorer *e, struct MHD_Connection *connection,
                                   const vvi_reply *reply)
{
    stream *s;
    if (e->stream_count >= e->limits.streams)
        return refuse(connection, 503, "{\"error\":\"too many pages are watching\"}\n");
    if (vv_alloc(&s, sizeof *s) != VV_OK)
        return MHD_NO;
    *s = (stream){.next = e->streams, .link = &e->streams, .explorer = e,
                  .connection = connection, .since = reply->since, .spoken = now_seconds()};
    if (s->next)
        s->next->link = &s->next;
    e->streams = s;
    e->stream_count++;
    vv_str_add(&s->pending, ":\n\n"); /* the head goes out at once */
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, s, free_stream);
    if (!response) {
        free_stream(s);
        return MHD_NO;
    }
    set_deadline(connection, (double)INFINITY);
    return queue(connection, 200, response, reply);
}

/* ---- requests ---- */

static void *on_target(void *ctx, const char *target, struct MHD_Connection *connection)
{
    incoming *in;
    (void)ctx, (void)connection;
    if (vv_alloc(&in, sizeof *in) != VV_OK)
        return NULL;
    if (vv_strdup(&in->target, target) != VV_OK) {
        vv_dealloc(in);
        return NULL;
    }
    return in;
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode how)
{
    const vv_explorer *e = ctx;
    incoming *in = *request;
    (void)how;
    if (in) {
        vv_dealloc(in->target);
        vv_str_fini(&in->body);
        vv_dealloc(in);
    }
    *request = NULL;
    set_deadline(connection, e->limits.idle_seconds);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result answer(vv_explorer *e, struct MHD_Connection *connection,
                              const char *method, const incoming *in)
{
    const char *since = header(connection, "Last-Event-ID");
    const vvi_request request = {.method = method,
                                 .target = in->target,
                                 .body = vv_str_text(&in->body),
                                 .body_bytes = in->body.length,
                                 .host = header(connection, "Host"),
                                 .origin = header(connection, "Origin"),
                                 .content_type = header(connection, "Content-Type"),
                                 .authorization = header(connection, "Authorization"),
                                 .cookie = header(connection, "Cookie"),
                                 .since = since ? strtoull(since, NULL, 10) : 0};
    vvi_reply reply;
    enum MHD_Result result = MHD_NO;
    set_deadline(connection, e->limits.reply_seconds);
    vvi_api_answer(&e->api, &request, &reply);
    if (reply.events) {
        result = open_stream(e, connection, &reply);
    } else if (reply.status) {
        vvi_body *body = reply.body;
        reply.body = NULL;
        result = queue(connection, reply.status,
                       response_of(body ? body->data : "", body ? body->bytes : 0, body),
                       &reply);
    }
    vvi_reply_fini(&reply);
    return result;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *bytes, void **context)
{
    vv_explorer *e = ctx;
    incoming *in = *context;
    (void)url, (void)version;
    if (!in)
        return MHD_NO;
    if (!in->begun) {
        const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
        in->begun = true;
        set_deadline(connection, e->limits.header_seconds);
        if (e->peer_count > e->limits.connections)
            return refuse(connection, 503, "{\"error\":\"too many connections\"}\n");
        if (!may_ask(e, connection))
            return refuse(connection, 429, "{\"error\":\"too many requests\"}\n");
        if (strlen(in->target) > VVI_TARGET_LIMIT)
            return refuse(connection, 414, "{\"error\":\"the address is too long\"}\n");
        if (length && strtoull(length, NULL, 10) > VVI_BODY_LIMIT)
            return refuse(connection, 413,
                          "{\"error\":\"a request's body has at most 65536 bytes\"}\n");
        return MHD_YES;
    }
    if (*bytes > 0) {
        if (in->body.length + *bytes > VVI_BODY_LIMIT)
            return MHD_NO; /* of unknown length, and too long: cut off */
        vv_str_addn(&in->body, data, *bytes);
        *bytes = 0;
        return vv_str_status(&in->body) == VV_OK ? MHD_YES : MHD_NO;
    }
    return answer(e, connection, method, in);
}

/* ---- the thread ---- */

static void tick(vv_explorer *e)
{
    const double now = now_seconds();
    if (now - e->ticked < e->limits.poll_seconds)
        return;
    e->ticked = now;
    if (e->streams && vv_run_table_refresh(e->api.table, false) != VV_OK)
        vv_error_clear(); /* the store is held or gone: again in a second */
    const uint64_t revision = vv_run_table_revision(e->api.table);
    for (stream *s = e->streams; s; s = s->next)
        if (s->waiting &&
            (s->since != revision || now - s->spoken >= e->limits.comment_seconds)) {
            s->waiting = false;
            MHD_resume_connection(s->connection);
        }
    for (const peer *p = e->peers; p; p = p->next)
        if (now > p->deadline)
            (void)shutdown(p->fd, SHUT_RDWR); /* MHD sees the end, closes and tells */
}

static void *serve(void *ctx)
{
    vv_explorer *e = ctx;
    while (!atomic_load(&e->stop)) {
        (void)MHD_run_wait(e->daemon, WAIT_MS);
        tick(e);
    }
    e->ending = true;
    for (stream *s = e->streams; s; s = s->next)
        if (s->waiting) {
            s->waiting = false;
            MHD_resume_connection(s->connection);
        }
    (void)MHD_run_wait(e->daemon, 0);
    MHD_stop_daemon(e->daemon);
    return NULL;
}

/* ---- start and stop ---- */

static vv_status start_daemon(vv_explorer *e, int fd)
{
    e->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, e,
        MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)(2 * e->limits.connections),
        MHD_OPTION_CONNECTION_TIMEOUT, 30u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, e,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, e,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, e,
        MHD_OPTION_END);
    if (e->daemon)
        return VV_OK;
    close(fd);
    return vv_fail(VV_EIO, "the server cannot be started");
}

/* Signals are the caller's: none is delivered to the thread. */
static vv_status start_thread(vv_explorer *e)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&e->thread, NULL, serve, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        return VV_OK;
    MHD_stop_daemon(e->daemon);
    return vv_fail(VV_EIO, "no thread for the server: %s", strerror(code));
}

vv_status vvi_explorer_start(vv_explorer **out, const vv_explorer_opts *opts,
                             const vvi_limits *limits)
{
    vv_explorer *e;
    vvi_place where;
    int fd;
    const char *token = opts->token ? opts->token : "";
    vv_status status;
    *out = NULL;
    VV_TRY(vvi_place_read(&where, opts->host, opts->port));
    if (!where.local && !token[0])
        return vv_fail(VV_EINVAL, "beyond this machine a token is needed: add --token, and give "
                                  "it to those who may see the runs");
    VV_TRY(vv_alloc(&e, sizeof *e));
    e->limits = *limits;
    for (int i = 0; i < ADDRESSES; i++)
        e->allowances[i] = (allowance){limits->burst, now_seconds()};
    VV_GO(vvi_api_open(&e->api, opts->db ? opts->db : "runs/runs.db", opts->write, token));
    e->api.local = !token[0];
    VV_GO(vvi_place_listen(&fd, &e->port, &where));
    /* browsers keep cookies by name of the machine, whatever the port */
    snprintf(e->api.cookie, sizeof e->api.cookie, "vivace_token_%d", e->port);
    VV_GO(start_daemon(e, fd));
    VV_GO(start_thread(e));
    *out = e;
    return VV_OK;
out:
    vvi_api_close(&e->api);
    vv_dealloc(e);
    return status;
}

void vv_explorer_stop(vv_explorer *explorer)
{
    if (!explorer)
        return;
    atomic_store(&explorer->stop, true);
    pthread_join(explorer->thread, NULL);
    vvi_api_close(&explorer->api);
    vv_dealloc(explorer);
}

int vv_explorer_port(const vv_explorer *explorer)
{
    return explorer->port;
}

#else

vv_status vvi_explorer_start(vv_explorer **out, const vv_explorer_opts *opts,
                             const vvi_limits *limits)
{
    (void)opts, (void)limits;
    *out = NULL;
    return vv_fail(VV_EUNSUPPORTED, "this build has no Explorer; build it with libmicrohttpd "
                                    "(-Dmicrohttpd=enabled)");
}

void vv_explorer_stop(vv_explorer *explorer)
{
    (void)explorer;
}

int vv_explorer_port(const vv_explorer *explorer)
{
    (void)explorer;
    return 0;
}
#endif
