/* http_test.h - a client of a few lines: what goes over the socket is what the test says. */
#ifndef VV_HTTP_TEST_H
#define VV_HTTP_TEST_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "vv_test.h"

static int http_port; /* of the server that is spoken to */

static inline int http_connect(void)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)http_port)};
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&where, sizeof where), 0);
    return fd;
}

static inline void http_send(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t sent = send(fd, text, bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the server has closed: what it said is read next */
        text += sent;
        bytes -= (size_t)sent;
    }
}

/* Reads until the other side closes, `until` was read, or so many milliseconds are over. The text
   is NUL-ended; returns its length. Freed by the caller. */
static inline size_t http_read(int fd, char **out, const char *until, int patience_ms)
{
    size_t length = 0, capacity = 65536;
    char *text = malloc(capacity);
    assert_non_null(text);
    text[0] = '\0';
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double end = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6 + patience_ms;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        clock_gettime(CLOCK_MONOTONIC, &now);
        const double left = end - (double)now.tv_sec * 1e3 - (double)now.tv_nsec * 1e-6;
        if (left <= 0.0 || poll(&ready, 1, (int)left + 1) <= 0)
            break;
        if (length + 32768 > capacity) {
            capacity *= 2;
            text = realloc(text, capacity);
            assert_non_null(text);
        }
        const ssize_t got = recv(fd, text + length, capacity - length - 1, 0);
        if (got <= 0)
            break;
        length += (size_t)got;
        text[length] = '\0';
        if (until && strstr(text, until))
            break;
    }
    *out = text;
    return length;
}

/* One request, its whole answer; the status is checked. */
static inline char *http_ask(int status, const char *method, const char *target,
                             const char *headers, const char *body)
{
    char head[16384], *answer;
    const int fd = http_connect();
    const int length = snprintf(head, sizeof head,
                                "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n%s",
                                method, target, http_port, headers ? headers : "");
    assert_in_range(length, 1, sizeof head - 1);
    http_send(fd, head, (size_t)length);
    if (body) {
        const int more = snprintf(head, sizeof head, "Content-Length: %zu\r\n", strlen(body));
        http_send(fd, head, (size_t)more);
    }
    http_send(fd, "\r\n", 2);
    if (body)
        http_send(fd, body, strlen(body));
    http_read(fd, &answer, NULL, 5000);
    close(fd);
    const int got = strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
    if (got != status)
        fail_msg("%s %.200s: %d, expected %d: %.400s", method, target, got, status, answer);
    return answer;
}

static inline void http_wants(int status, const char *method, const char *target,
                              const char *headers, const char *body, const char *text)
{
    char *answer = http_ask(status, method, target, headers, body);
    if (text && !strstr(answer, text))
        fail_msg("%s %.200s: \"%s\" is not in: %.2000s", method, target, text, answer);
    free(answer);
}

static inline void http_get(int status, const char *target, const char *text)
{
    http_wants(status, "GET", target, NULL, NULL, text);
}

#endif
