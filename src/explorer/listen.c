/* listen.c - where the server listens. */
#include "explorer/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

vv_status vvi_place_read(vvi_place *out, const char *host, int port)
{
    memset(out, 0, sizeof *out);
    if (!host || !host[0] || strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (port < 0 || port > 65535)
        return vv_fail(VV_EINVAL, "port %d: a port is 0 (any free one) to 65535", port);
    struct sockaddr_in *v4 = &out->address.v4;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        out->bytes = sizeof *v4;
        out->local = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        return VV_OK;
    }
    memset(out, 0, sizeof *out);
    struct sockaddr_in6 *v6 = &out->address.v6;
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        out->bytes = sizeof *v6;
        out->local = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
        return VV_OK;
    }
    return vv_fail(VV_EINVAL,
                   "host %.100s: give an address of this machine, like 127.0.0.1 or 0.0.0.0", host);
}

static int port_of(const vvi_place *place)
{
    return ntohs(place->address.any.sa_family == AF_INET ? place->address.v4.sin_port
                                                         : place->address.v6.sin6_port);
}

vv_status vvi_place_listen(int *out, int *port, const vvi_place *place)
{
    const int one = 1;
    vvi_place bound = *place;
    const int fd =
        socket(place->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd >= 0 && bind(fd, &place->address.any, place->bytes) == 0 && listen(fd, 256) == 0 &&
        getsockname(fd, &bound.address.any, &bound.bytes) == 0) {
        *out = fd;
        *port = port_of(&bound);
        return VV_OK;
    }
    const int code = errno;
    if (fd >= 0)
        close(fd);
    *out = -1;
    if (code == EADDRINUSE)
        return vv_fail(VV_EIO,
                       "port %d is taken; choose another one with --port, 0 for any that is free",
                       port_of(place));
    return vv_fail(VV_EIO, "cannot listen at port %d: %s", port_of(place), strerror(code));
}
