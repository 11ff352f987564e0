/* listen.h - an address of this machine, and a socket that listens there. */
#ifndef VVI_EXPLORER_LISTEN_H
#define VVI_EXPLORER_LISTEN_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <vivace/status.h>

typedef struct vvi_place {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t bytes;
    bool local; /* only this machine gets there */
} vvi_place;
/* host NULL or "" = 127.0.0.1; port 0 = any free one. */
VV_MUST_USE vv_status vvi_place_read(vvi_place *out, const char *host, int port);
/* *port = the one it got. */
VV_MUST_USE vv_status vvi_place_listen(int *fd, int *port, const vvi_place *place);

#endif
