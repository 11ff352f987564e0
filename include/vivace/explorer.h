/* explorer.h - the Explorer: a page that shows the runs of a store, served by this process. */
#ifndef VIVACE_EXPLORER_H
#define VIVACE_EXPLORER_H

#include <vivace/status.h>

VV_BEGIN_DECLS

typedef struct vv_explorer vv_explorer;

typedef struct vv_explorer_opts {
    const char *db;    /* the run store; it must exist */
    const char *host;  /* address to listen on: "127.0.0.1", "::1", "0.0.0.0" */
    int port;          /* 0 = any free one */
    const char *token; /* letters, digits, ".", "_", "~", "-"; "" = none. Who shows it may read.
                          Without one only this machine is listened to */
    bool write;        /* tags and notes may be changed from the page */
} vv_explorer_opts;
#define VV_EXPLORER_DEFAULTS                     \
    {                                            \
        "runs/runs.db", "127.0.0.1", 8765, "", 0 \
    }

/* Serves on a thread of its own until it is stopped. VV_EUNSUPPORTED if this build has no
   libmicrohttpd or no SQLite. */
VV_API VV_MUST_USE vv_status vv_explorer_start(VV_OWNED vv_explorer **out,
                                               const vv_explorer_opts *opts);
VV_API void vv_explorer_stop(VV_TAKES vv_explorer *explorer);
VV_API int vv_explorer_port(const vv_explorer *explorer);
VV_API bool vv_explorer_available(void);

VV_END_DECLS

#endif
