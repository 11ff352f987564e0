/* serve.h - what the server bears; tests make it smaller. */
#ifndef VVI_EXPLORER_SERVE_H
#define VVI_EXPLORER_SERVE_H

#include <vivace/explorer.h>

typedef struct vvi_limits {
    int connections; /* answered at once; beyond it 503, beyond twice as many they wait */
    int streams;     /* of events */
    double header_seconds, reply_seconds, idle_seconds;
    double comment_seconds;   /* between two signs of life in a stream */
    double poll_seconds;      /* between two looks at the store and the clock */
    double burst, per_second; /* requests of one address */
} vvi_limits;
#define VVI_LIMITS_DEFAULTS                                     \
    {                                                           \
        256, 32, 10.0, 120.0, 30.0, 15.0, 1.0, 2000.0, 500.0 \
    }
VV_MUST_USE vv_status vvi_explorer_start(VV_OWNED vv_explorer **out, const vv_explorer_opts *opts,
                                         const vvi_limits *limits);

#endif
