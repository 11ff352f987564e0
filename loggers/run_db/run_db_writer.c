/* run_db_writer.c - one lock, two piles: the trainer adds to one while the thread writes the
 * other. */
#include "run_db_writer.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <vivace/memory.h>

typedef struct pile {
    vv_run_eval *evals;
    vv_run_point *points;
    int eval_count, eval_room, point_count, point_room;
} pile;

struct vvi_run_writer {
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    double interval;
    vv_run_store *store;
    /* under `lock` */
    bool stop, dirty, told;
    vv_run_row row;
    pile added;
    vv_str trouble;
    /* the thread's own */
    vv_run_row writing;
    pile taken;
    /* texts: the row's, and names */
    char **texts;
    int text_count;
};

/* ---- texts ---- */

static vv_status keep(vvi_run_writer *w, const char *text, const char **out)
{
    VV_TRY(vv_realloc_array(&w->texts, (size_t)w->text_count + 1, sizeof *w->texts));
    VV_TRY(vv_strdup(&w->texts[w->text_count], text ? text : ""));
    *out = w->texts[w->text_count++];
    return VV_OK;
}

vv_status vvi_run_writer_name(vvi_run_writer *w, const char *text, const char **out)
{
    for (int i = 0; i < w->text_count; i++)
        if (strcmp(w->texts[i], text) == 0) {
            *out = w->texts[i];
            return VV_OK;
        }
    return keep(w, text, out);
}

static vv_status copy_row(vvi_run_writer *w, const vv_run_row *row)
{
    w->row = *row;
#define COPY_t(name) VV_TRY(keep(w, row->name, &w->row.name));
#define COPY_i(name)
#define COPY_r(name)
#define COPY_b(name)
#define COPY(name, kind) COPY_##kind(name)
    VV_RUN_COLUMNS(COPY)
    return VV_OK;
}

/* ---- the thread ---- */

static vv_status write_pile(vvi_run_writer *w)
{
    VV_TRY(vv_run_store_begin(w->store));
    vv_status status = vv_run_store_put(w->store, &w->writing);
    for (int i = 0; i < w->taken.eval_count && status == VV_OK; i++)
        status = vv_run_store_add_eval(w->store, w->writing.id, &w->taken.evals[i]);
    for (int i = 0; i < w->taken.point_count && status == VV_OK; i++)
        status = vv_run_store_add_point(w->store, w->writing.id, &w->taken.points[i]);
    if (status == VV_OK)
        return vv_run_store_commit(w->store);
    vv_run_store_rollback(w->store);
    return status;
}

static void take(vvi_run_writer *w)
{
    pile empty = w->taken;
    w->taken = w->added;
    empty.eval_count = empty.point_count = 0;
    w->added = empty;
    w->writing = w->row;
    w->dirty = false;
}

static void *work(void *ctx)
{
    vvi_run_writer *w = ctx;
    bool stop = false;
    while (!stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)w->interval;
        until.tv_nsec += (long)((w->interval - (double)(time_t)w->interval) * 1e9);
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_mutex_lock(&w->lock);
        while (!w->stop && pthread_cond_timedwait(&w->wake, &w->lock, &until) == 0) {
        }
        stop = w->stop;
        bool dirty = w->dirty && w->trouble.length == 0;
        if (dirty)
            take(w);
        pthread_mutex_unlock(&w->lock);
        if (dirty && write_pile(w) != VV_OK) {
            pthread_mutex_lock(&w->lock);
            vv_str_addf(&w->trouble, "run_db: %s; the run goes on without", vv_error());
            pthread_mutex_unlock(&w->lock);
        }
    }
    return NULL;
}

/* ---- start and stop ---- */

static vv_status write_start(vvi_run_writer *w, const vvi_run_start *start)
{
    const char *id = w->row.id;
    VV_TRY(vv_run_store_begin(w->store));
    vv_status status = vv_run_store_put(w->store, &w->row);
    if (status == VV_OK)
        status = vv_run_store_rewind(w->store, id, start->batch);
    if (status == VV_OK)
        status = vv_run_store_set_methods(w->store, id, start->methods, start->method_count);
    if (status == VV_OK)
        status = vv_run_store_set_settings(w->store, id, start->settings, start->setting_count);
    if (status == VV_OK)
        return vv_run_store_commit(w->store);
    vv_run_store_rollback(w->store);
    return status;
}

static vv_status make_lock(vvi_run_writer *w)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    bool made = pthread_cond_init(&w->wake, &clock) == 0;
    pthread_condattr_destroy(&clock);
    if (made && pthread_mutex_init(&w->lock, NULL) == 0)
        return VV_OK;
    return vv_fail(VV_EIO, "run_db: the system gave no lock");
}

vv_status vvi_run_writer_start(vvi_run_writer **out, const vvi_run_start *start)
{
    vvi_run_writer *w;
    *out = NULL;
    VV_TRY(vv_alloc(&w, sizeof *w));
    vv_status status = make_lock(w);
    if (status != VV_OK) {
        vv_dealloc(w);
        return status;
    }
    w->interval = start->interval;
    status = copy_row(w, &start->row);
    if (status == VV_OK)
        status = vv_run_store_open(&w->store, start->db, true);
    if (status == VV_OK)
        status = write_start(w, start);
    if (status == VV_OK && pthread_create(&w->thread, NULL, work, w) != 0)
        status = vv_fail(VV_EIO, "run_db: the system gave no thread");
    if (status != VV_OK) {
        vvi_run_writer_stop(w);
        return status;
    }
    w->threaded = true;
    *out = w;
    return VV_OK;
}

void vvi_run_writer_stop(vvi_run_writer *w)
{
    if (!w)
        return;
    if (w->threaded) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_cond_signal(&w->wake);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    vv_run_store_close(w->store);
    for (int i = 0; i < w->text_count; i++)
        vv_dealloc(w->texts[i]);
    vv_dealloc(w->texts);
    vv_dealloc(w->added.evals);
    vv_dealloc(w->added.points);
    vv_dealloc(w->taken.evals);
    vv_dealloc(w->taken.points);
    vv_str_fini(&w->trouble);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    vv_dealloc(w);
}

/* ---- handing over ---- */

void vvi_run_writer_row(vvi_run_writer *w, const vv_run_row *row)
{
    pthread_mutex_lock(&w->lock);
    const vv_run_row old = w->row;
    w->row = *row;
#define STAY_t(name) w->row.name = old.name;
#define STAY_i(name)
#define STAY_r(name)
#define STAY_b(name)
#define STAY(name, kind) STAY_##kind(name)
    VV_RUN_COLUMNS(STAY)
    w->row.status = row->status; /* static */
    w->dirty = true;
    pthread_mutex_unlock(&w->lock);
}

vv_status vvi_run_writer_eval(vvi_run_writer *w, const vv_run_eval *eval)
{
    vv_status status = VV_OK;
    pthread_mutex_lock(&w->lock);
    if (w->added.eval_count == w->added.eval_room) {
        const int room = 2 * w->added.eval_room + 16;
        status = vv_realloc_array(&w->added.evals, (size_t)room, sizeof *w->added.evals);
        w->added.eval_room = status == VV_OK ? room : w->added.eval_room;
    }
    if (status == VV_OK)
        w->added.evals[w->added.eval_count++] = *eval;
    w->dirty = true;
    pthread_mutex_unlock(&w->lock);
    return status;
}

vv_status vvi_run_writer_point(vvi_run_writer *w, const vv_run_point *point)
{
    vv_status status = VV_OK;
    pthread_mutex_lock(&w->lock);
    if (w->added.point_count == w->added.point_room) {
        const int room = 2 * w->added.point_room + 64;
        status = vv_realloc_array(&w->added.points, (size_t)room, sizeof *w->added.points);
        w->added.point_room = status == VV_OK ? room : w->added.point_room;
    }
    if (status == VV_OK)
        w->added.points[w->added.point_count++] = *point;
    w->dirty = true;
    pthread_mutex_unlock(&w->lock);
    return status;
}

bool vvi_run_writer_trouble(vvi_run_writer *w, vv_str *out)
{
    pthread_mutex_lock(&w->lock);
    bool tell = w->trouble.length > 0 && !w->told;
    if (tell)
        vv_str_add(out, vv_str_text(&w->trouble));
    w->told = w->told || tell;
    pthread_mutex_unlock(&w->lock);
    return tell;
}
