/* api.h - what the Explorer answers, apart from how it comes over the network: one request in, one
 * reply out, on one thread. */
#ifndef VVI_EXPLORER_API_H
#define VVI_EXPLORER_API_H

#include <vivace/frontier.h>
#include <vivace/prices.h>

enum { VVI_BODY_LIMIT = 65536, VVI_TARGET_LIMIT = 8192, VVI_NOTE_LIMIT = 10000 };

/* Bytes that several replies may share. */
typedef struct vvi_body {
    int users;
    bool owned; /* else data is the program's */
    const char *data;
    size_t bytes;
} vvi_body;
void vvi_body_drop(vvi_body *body); /* NULL is allowed */

typedef struct vvi_request {
    const char *method, *target; /* "GET", "/api/runs?dataset=mnist" as it came */
    const char *body;
    size_t body_bytes;
    /* headers, NULL if not sent */
    const char *host, *origin, *content_type, *authorization, *cookie;
    uint64_t since; /* Last-Event-ID; 0 = not sent */
} vvi_request;

typedef struct vvi_reply {
    int status;       /* of HTTP */
    const char *type; /* of the content */
    vvi_body *body;   /* NULL = none, or events follow */
    const char *allow;
    vv_str location, cookie; /* "" = none */
    bool api;                /* not to be stored */
    bool events;             /* the stream of events, from `since` on */
    uint64_t since;
} vvi_reply;
void vvi_reply_fini(vvi_reply *reply);

/* Answers that are long in the making: as good as the table is at that revision. */
typedef enum vvi_kept_name {
    VVI_KEPT_RUNS,
    VVI_KEPT_CSV,
    VVI_KEPT_JSON,
    VVI_KEPT_SETTINGS,
    VVI_KEPT
} vvi_kept_name;
typedef struct vvi_kept {
    vvi_body *body;
    uint64_t revision;
} vvi_kept;

typedef struct vvi_api {
    vv_run_store *store;
    vv_run_table *table;
    vv_price_list prices;
    bool write;
    char *token;     /* "" = none */
    char cookie[32]; /* its name */
    bool local;      /* only names of this machine are answered to */
    vvi_kept kept[VVI_KEPT];
} vvi_api;
VV_MUST_USE vv_status vvi_api_open(vvi_api *api, const char *db, bool write, const char *token);
void vvi_api_close(vvi_api *api);
/* Answers anything; a failure becomes a reply with a sentence. Only out of memory leaves none:
   status 0. */
void vvi_api_answer(vvi_api *api, const vvi_request *request, vvi_reply *reply);
/* One event with the runs that changed after `since`; nothing is added if none did. */
VV_MUST_USE vv_status vvi_api_event(vvi_api *api, uint64_t since, vv_str *out);

/* ---- between its files ---- */

/* The reply {"error": sentence}. */
VV_MUST_USE vv_status vvi_refuse(vvi_reply *reply, int status, const char *sentence);
bool vvi_token_is_plain(const char *token);

/* A request's target taken apart: the path and the query's values, decoded. */
enum { VVI_MAX_ARGS = 32 };
typedef struct vvi_target {
    char *text; /* what the pointers point into */
    const char *path;
    const char *keys[VVI_MAX_ARGS], *values[VVI_MAX_ARGS];
    int count;
} vvi_target;
/* VV_EINVAL for what no target looks like. */
VV_MUST_USE vv_status vvi_target_read(vvi_target *out, const char *text);
void vvi_target_fini(vvi_target *target);
const char *vvi_target_get(const vvi_target *target, const char *key); /* NULL = not given */

/* *go = whether the request is to be answered, or may write; else the reply is made. */
VV_MUST_USE vv_status vvi_check_caller(vvi_api *api, const vvi_request *request,
                                       const vvi_target *target, vvi_reply *reply, bool *go);
VV_MUST_USE vv_status vvi_check_writer(const vvi_api *api, const vvi_request *request,
                                       vvi_reply *reply, bool *go);
/* Run i of the table, as lists have it. */
void vvi_add_run(vvi_api *api, int i, vv_str *out);
VV_MUST_USE vv_status vvi_run_detail(vvi_api *api, const vv_run_light *run, vv_str *out);
/* The settings in which runs differ. */
VV_MUST_USE vv_status vvi_settings_answer(vvi_api *api, vv_str *out);
VV_MUST_USE vv_status vvi_frontier_answer(vvi_api *api, const vvi_target *target, vv_str *out);

#endif
