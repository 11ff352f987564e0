/* mlflow_impl.h - what the sender's two files share. */
#ifndef VVI_MLFLOW_IMPL_H
#define VVI_MLFLOW_IMPL_H

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>

#include "mlflow_sender.h"

typedef struct vvi_mlflow_item {
    char *name;
    double value;
    int64_t step, time_ms;
} vvi_mlflow_item;

typedef struct vvi_mlflow_items {
    vvi_mlflow_item *list;
    size_t count, capacity;
} vvi_mlflow_items;

struct vvi_mlflow {
    char *uri, *experiment, *run_name, *tags, *recipe, *state_path;
    bool resumed;
    double interval, leave_seconds;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* under the lock: */
    vvi_mlflow_items queue;
    bool stop, hurry, warned, told;
    double deadline; /* of the requests after stop */
    char warning[400];
    char final_status[16];
    /* the thread's own: */
    CURL *curl;
    vvi_mlflow_items pending;
    json_t *last_step; /* {name: step} that the server has */
    char run_id[64];
    bool params_sent;
    int64_t dropped;
};

/* mlflow_rest.c, all on the sender's thread; what went wrong is appended to `why`. */
/* One request; `body` (taken) NULL = GET. *answer (may be NULL) = the object that came. The HTTP
   code, or 0. */
long vvi_mlflow_request(vvi_mlflow *m, const char *path, json_t *body, json_t **answer,
                        vv_str *why);
/* A list of `what` ("metrics", "params"), taken, to the run. */
bool vvi_mlflow_send(vvi_mlflow *m, const char *what, json_t *list, vv_str *why);
/* The run exists on the server: made once, or taken up again. */
bool vvi_mlflow_ensure_run(vvi_mlflow *m, vv_str *why);
bool vvi_mlflow_send_params(vvi_mlflow *m, vv_str *why);
/* The file beside the run: its id on the server. */
void vvi_mlflow_load_state(vvi_mlflow *m);
/* Only characters that MLflow takes in names. */
void vvi_mlflow_clean_name(char *name);
int64_t vvi_mlflow_now_ms(void);

#endif
