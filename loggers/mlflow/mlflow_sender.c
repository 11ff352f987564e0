/* mlflow_sender.c - a queue of numbers and the thread that brings them to the server. A request
 * that fails is tried again later with all that has come meanwhile; the training never notices. */
#include "mlflow_sender.h"

#include "vvi_config.h"

#if VVI_HAVE_CURL

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <vivace/memory.h>
#include <vivace/training_time.h>

#include "mlflow_impl.h"

enum {
    MOST_QUEUED = 500000, /* numbers kept while the server is away; then the oldest go */
    MOST_METRICS = 1000,  /* MLflow's limit of one request */
};
#define STATUS_SECONDS 3.0 /* for the run's status, when the time for numbers is over */

/* ---- lists ---- */

static vv_status push(vvi_mlflow_items *q, const vvi_mlflow_item *one)
{
    if (q->count == q->capacity) {
        size_t capacity = q->capacity ? 2 * q->capacity : 64;
        VV_TRY(vv_realloc_array(&q->list, capacity, sizeof *q->list));
        q->capacity = capacity;
    }
    q->list[q->count++] = *one;
    return VV_OK;
}

static void drop_first(vvi_mlflow_items *q, size_t count)
{
    for (size_t i = 0; i < count; i++)
        vv_dealloc(q->list[i].name);
    memmove(q->list, q->list + count, (q->count - count) * sizeof *q->list);
    q->count -= count;
}

static void free_items(vvi_mlflow_items *q)
{
    drop_first(q, q->count);
    vv_dealloc(q->list);
}

/* ---- numbers ---- */

static json_t *number(double value)
{
    if (isfinite(value))
        return json_real(value);
    return json_string(isnan(value) ? "NaN" : value > 0.0 ? "Infinity" : "-Infinity");
}

/* The oldest of what waits, as many as one request may have. */
static bool send_metrics(vvi_mlflow *m, vv_str *why)
{
    size_t count = m->pending.count < MOST_METRICS ? m->pending.count : MOST_METRICS;
    json_t *metrics = json_array();
    for (size_t i = 0; i < count; i++) {
        const vvi_mlflow_item *one = &m->pending.list[i];
        json_t *last = json_object_get(m->last_step, one->name);
        if (last && json_integer_value(last) >= one->step)
            continue; /* trained again after a resume: MLflow cannot replace it */
        json_array_append_new(metrics,
                              json_pack("{s:s, s:o, s:I, s:I}", "key", one->name, "value",
                                        number(one->value), "timestamp", (json_int_t)one->time_ms,
                                        "step", (json_int_t)one->step));
    }
    bool good = true;
    if (json_array_size(metrics))
        good = vvi_mlflow_send(m, "metrics", metrics, why);
    else
        json_decref(metrics);
    if (!good)
        return false;
    for (size_t i = 0; i < count; i++) {
        const vvi_mlflow_item *one = &m->pending.list[i];
        json_t *last = json_object_get(m->last_step, one->name);
        if (!last || json_integer_value(last) < one->step)
            json_object_set_new(m->last_step, one->name, json_integer((json_int_t)one->step));
    }
    drop_first(&m->pending, count);
    return true;
}

static bool send_all(vvi_mlflow *m, vv_str *why)
{
    if (!vvi_mlflow_ensure_run(m, why) || (!m->params_sent && !vvi_mlflow_send_params(m, why)))
        return false;
    while (m->pending.count)
        if (!send_metrics(m, why))
            return false;
    return true;
}

/* ---- the thread ---- */

/* Moves what came into what waits; out of memory or too much: the oldest go. */
static void take_queue(vvi_mlflow *m)
{
    for (size_t i = 0; i < m->queue.count; i++) {
        if (push(&m->pending, &m->queue.list[i]) != VV_OK) {
            vv_dealloc(m->queue.list[i].name);
            m->dropped++;
        }
    }
    m->queue.count = 0;
    if (m->pending.count > MOST_QUEUED) {
        m->dropped += (int64_t)(m->pending.count - MOST_QUEUED);
        drop_first(&m->pending, m->pending.count - MOST_QUEUED);
    }
}

static void wait_for_work(vvi_mlflow *m)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double whole = floor(m->interval);
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)((m->interval - whole) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!m->stop && !m->hurry &&
           pthread_cond_timedwait(&m->wake, &m->lock, &until) != ETIMEDOUT) {
    }
    m->hurry = false;
}

static bool send_status(vvi_mlflow *m, vv_str *why)
{
    pthread_mutex_lock(&m->lock);
    m->deadline = fmax(m->deadline, vv_clock() + STATUS_SECONDS);
    pthread_mutex_unlock(&m->lock);
    return vvi_mlflow_request(m, "runs/update",
                              json_pack("{s:s, s:s, s:I}", "run_id", m->run_id, "status",
                                        m->final_status, "end_time",
                                        (json_int_t)vvi_mlflow_now_ms()),
                              NULL, why) == 200;
}

static void *run_sender(void *ctx)
{
    vvi_mlflow *m = ctx;
    vvi_mlflow_load_state(m);
    for (bool last = false; !last;) {
        pthread_mutex_lock(&m->lock);
        if (!m->stop && !m->hurry)
            wait_for_work(m);
        m->hurry = false;
        last = m->stop;
        take_queue(m);
        pthread_mutex_unlock(&m->lock);
        vv_str why = {0};
        bool good = send_all(m, &why);
        if (last && m->run_id[0])
            good = send_status(m, &why) && good;
        pthread_mutex_lock(&m->lock);
        if (!good && !m->warned) {
            m->warned = true;
            snprintf(
                m->warning, sizeof m->warning,
                "mlflow: %s: %.250s; training goes on, and what is logged is sent later if the "
                "server comes back",
                m->uri, vv_str_text(&why));
        }
        pthread_mutex_unlock(&m->lock);
        vv_str_fini(&why);
    }
    return NULL;
}

/* ---- the trainer's side ---- */

static void free_sender(vvi_mlflow *m)
{
    char *const texts[] = {m->uri, m->experiment, m->run_name, m->tags, m->recipe, m->state_path};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        vv_dealloc(texts[i]);
    free_items(&m->queue);
    free_items(&m->pending);
    json_decref(m->last_step);
    if (m->curl)
        curl_easy_cleanup(m->curl);
    vv_dealloc(m);
}

static vv_status copy(char **out, const char *text)
{
    return vv_strdup(out, text ? text : "");
}

static vv_status start_thread(vvi_mlflow *m)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&m->thread, NULL, run_sender, m) == 0)
        return VV_OK;
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    return vv_fail(VV_EIO, "logger mlflow: cannot start a thread");
}

vv_status vvi_mlflow_start(vvi_mlflow **out, const vvi_mlflow_opts *opts)
{
    *out = NULL;
    vv_status status = VV_OK;
    vvi_mlflow *m = NULL;
    VV_GO(vv_alloc(&m, sizeof *m));
    m->resumed = opts->resumed;
    m->hurry = true; /* a server that is not there is told at once */
    m->interval = opts->interval;
    m->leave_seconds = opts->leave_seconds;
    VV_GO(copy(&m->uri, opts->uri));
    VV_GO(copy(&m->experiment, opts->experiment));
    VV_GO(copy(&m->run_name, opts->run_name));
    VV_GO(copy(&m->tags, opts->tags));
    VV_GO(copy(&m->recipe, opts->recipe));
    if (opts->state_path)
        VV_GO(copy(&m->state_path, opts->state_path));
    m->curl = curl_easy_init();
    status = m->curl ? VV_OK : vv_fail(VV_EIO, "logger mlflow: libcurl does not start");
    if (status == VV_OK)
        status = start_thread(m);
out:
    if (status != VV_OK && m) {
        free_sender(m);
        m = NULL;
    }
    *out = m;
    return status;
}

vv_status vvi_mlflow_add(vvi_mlflow *m, const char *name, double value, int64_t step,
                         int64_t time_ms)
{
    vvi_mlflow_item one = {NULL, value, step, time_ms};
    VV_TRY(vv_strdup(&one.name, name));
    vvi_mlflow_clean_name(one.name);
    pthread_mutex_lock(&m->lock);
    vv_status status = push(&m->queue, &one);
    pthread_mutex_unlock(&m->lock);
    if (status != VV_OK)
        vv_dealloc(one.name);
    return status;
}

void vvi_mlflow_flush(vvi_mlflow *m)
{
    pthread_mutex_lock(&m->lock);
    m->hurry = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
}

bool vvi_mlflow_warning(vvi_mlflow *m, vv_str *out)
{
    pthread_mutex_lock(&m->lock);
    bool tell = m->warned && !m->told;
    if (tell)
        vv_str_add(out, m->warning);
    m->told = m->warned;
    pthread_mutex_unlock(&m->lock);
    return tell;
}

void vvi_mlflow_stop(vvi_mlflow *m, const char *status)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    m->deadline = vv_clock() + m->leave_seconds;
    snprintf(m->final_status, sizeof m->final_status, "%s", status);
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    free_sender(m);
}

#else

vv_status vvi_mlflow_start(vvi_mlflow **out, const vvi_mlflow_opts *opts)
{
    (void)opts;
    *out = NULL;
    return vv_fail(VV_EUNSUPPORTED, "logger mlflow: this build is without libcurl");
}

vv_status vvi_mlflow_add(vvi_mlflow *m, const char *name, double value, int64_t step,
                         int64_t time_ms)
{
    (void)m;
    (void)value;
    (void)step;
    (void)time_ms;
    return vv_fail(VV_EUNSUPPORTED, "logger mlflow: %s: this build is without libcurl", name);
}

void vvi_mlflow_flush(vvi_mlflow *m)
{
    (void)m;
}

bool vvi_mlflow_warning(vvi_mlflow *m, vv_str *out)
{
    (void)m;
    (void)out;
    return false;
}

void vvi_mlflow_stop(vvi_mlflow *m, const char *status)
{
    (void)m;
    (void)status;
}

#endif
