/* prefetch.c - threads that fill batches ahead of the caller.
 *
 * Batches carry tickets: their position on the axis of all epochs. A worker takes the next ticket,
 * notes its samples under the lock, fills it outside, and puts it into the ticket's place of a
 * ring; the caller takes tickets in order. So which thread made a batch cannot be seen in it. A
 * seek starts a new generation; what workers of an older one finish is dropped. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/loader_impl.h"

typedef struct place {
    vv_batch *batch; /* NULL = not there yet */
    vv_status status;
    char sentence[512]; /* of a failed batch: sentences are per thread */
} place;

typedef struct worker {
    vvi_prefetch *prefetch;
    pthread_t thread;
    void *scratch;
} worker;

struct vvi_prefetch {
    vv_loader *loader;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    bool stop, running; /* running: from the first seek or next on */
    int busy;           /* workers at work outside the lock */
    uint64_t generation;
    int64_t issued;   /* next ticket a worker takes */
    int64_t consumed; /* next ticket the caller takes */
    int ahead;        /* places in the ring */
    place *ring;
    int workers; /* threads started */
    worker *worker;
};

/* Puts a finished ticket into its place; with the lock held. */
static void deliver(vvi_prefetch *prefetch, int64_t ticket, vv_batch *batch, vv_status status)
{
    place *at = &prefetch->ring[ticket % prefetch->ahead];
    at->batch = batch;
    at->status = status;
    if (status != VV_OK)
        snprintf(at->sentence, sizeof at->sentence, "%s", vv_error());
    pthread_cond_signal(&prefetch->done);
}

static void *work(void *arg)
{
    worker *self = arg;
    vvi_prefetch *prefetch = self->prefetch;
    pthread_mutex_lock(&prefetch->lock);
    for (;;) {
        while (!prefetch->stop &&
               !(prefetch->running && prefetch->issued < prefetch->consumed + prefetch->ahead))
            pthread_cond_wait(&prefetch->work, &prefetch->lock);
        if (prefetch->stop)
            break;
        const int64_t ticket = prefetch->issued++;
        const uint64_t generation = prefetch->generation;
        vv_batch *batch = NULL;
        vv_status status = vvi_loader_begin(prefetch->loader, ticket, &batch);
        if (status == VV_OK) {
            prefetch->busy++;
            pthread_mutex_unlock(&prefetch->lock);
            status = vvi_loader_fill(prefetch->loader, batch, self->scratch);
            pthread_mutex_lock(&prefetch->lock);
            prefetch->busy--;
            pthread_cond_signal(&prefetch->done);
        }
        if (status != VV_OK || generation != prefetch->generation) {
            vv_batch_free(batch);
            batch = NULL;
        }
        if (generation == prefetch->generation)
            deliver(prefetch, ticket, batch, status);
    }
    pthread_mutex_unlock(&prefetch->lock);
    return NULL;
}

static vv_status start_threads(vvi_prefetch *prefetch, int count)
{
    /* Signals are for the caller's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (int i = 0; i < count && !error; i++) {
        error = pthread_create(&prefetch->worker[i].thread, NULL, work, &prefetch->worker[i]);
        if (!error)
            prefetch->workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return vv_fail(VV_EIO,
                       "loader: the system started %d of %d prefetch threads; ask for fewer "
                       "workers",
                       prefetch->workers, count);
    return VV_OK;
}

vv_status vvi_prefetch_new(vvi_prefetch **out, vv_loader *loader)
{
    const int count = loader->opts.workers;
    vv_status status;
    vvi_prefetch *prefetch = NULL;
    *out = NULL;
    VV_GO(vv_alloc(&prefetch, sizeof *prefetch));
    prefetch->loader = loader;
    prefetch->ahead = loader->opts.prefetch > 0 ? loader->opts.prefetch : 1;
    pthread_mutex_init(&prefetch->lock, NULL);
    pthread_cond_init(&prefetch->work, NULL);
    pthread_cond_init(&prefetch->done, NULL);
    VV_GO(vv_alloc_array(&prefetch->ring, (size_t)prefetch->ahead, sizeof *prefetch->ring));
    VV_GO(vv_alloc_array(&prefetch->worker, (size_t)count, sizeof *prefetch->worker));
    for (int i = 0; i < count; i++) {
        prefetch->worker[i].prefetch = prefetch;
        VV_GO(vv_alloc_array(&prefetch->worker[i].scratch, 2, loader->input_bytes));
    }
    VV_GO(start_threads(prefetch, count));
    *out = prefetch;
    return VV_OK;
out:
    vvi_prefetch_free(prefetch);
    return status;
}

/* Forgets everything in the ring; with the lock held. */
static void clear_ring(vvi_prefetch *prefetch)
{
    for (int i = 0; prefetch->ring && i < prefetch->ahead; i++) {
        vv_batch_free(prefetch->ring[i].batch);
        prefetch->ring[i].batch = NULL;
        prefetch->ring[i].status = VV_OK;
    }
}

void vvi_prefetch_free(vvi_prefetch *prefetch)
{
    if (!prefetch)
        return;
    pthread_mutex_lock(&prefetch->lock);
    prefetch->stop = true;
    pthread_cond_broadcast(&prefetch->work);
    pthread_mutex_unlock(&prefetch->lock);
    for (int i = 0; i < prefetch->workers; i++)
        pthread_join(prefetch->worker[i].thread, NULL);
    clear_ring(prefetch);
    for (int i = 0; prefetch->worker && i < prefetch->loader->opts.workers; i++)
        vv_dealloc(prefetch->worker[i].scratch);
    pthread_cond_destroy(&prefetch->work);
    pthread_cond_destroy(&prefetch->done);
    pthread_mutex_destroy(&prefetch->lock);
    vv_dealloc(prefetch->ring);
    vv_dealloc(prefetch->worker);
    vv_dealloc(prefetch);
}

/* With the lock held. */
static void restart(vvi_prefetch *prefetch, int64_t ticket)
{
    prefetch->generation++;
    clear_ring(prefetch);
    prefetch->issued = prefetch->consumed = ticket;
    prefetch->running = true;
    pthread_cond_broadcast(&prefetch->work);
}

void vvi_prefetch_pause(vvi_prefetch *prefetch)
{
    pthread_mutex_lock(&prefetch->lock);
    restart(prefetch, prefetch->consumed);
    prefetch->running = false;
    while (prefetch->busy > 0)
        pthread_cond_wait(&prefetch->done, &prefetch->lock);
    pthread_mutex_unlock(&prefetch->lock);
}

void vvi_prefetch_seek(vvi_prefetch *prefetch, int64_t ticket)
{
    pthread_mutex_lock(&prefetch->lock);
    /* Already there (the next epoch after the end of one): what is prefetched stays. */
    if (!prefetch->running || prefetch->consumed != ticket)
        restart(prefetch, ticket);
    pthread_mutex_unlock(&prefetch->lock);
}

vv_status vvi_prefetch_next(vvi_prefetch *prefetch, int64_t ticket, vv_batch **out)
{
    vv_status status = VV_OK;
    pthread_mutex_lock(&prefetch->lock);
    if (!prefetch->running || prefetch->consumed != ticket)
        restart(prefetch, ticket);
    place *at = &prefetch->ring[ticket % prefetch->ahead];
    while (!at->batch && at->status == VV_OK)
        pthread_cond_wait(&prefetch->done, &prefetch->lock);
    if (at->status != VV_OK) {
        status = vv_fail(at->status, "%s", at->sentence);
        restart(prefetch, ticket);
        prefetch->running = false; /* nothing is tried again until the caller asks */
    } else {
        *out = at->batch;
        at->batch = NULL;
        prefetch->consumed++;
        pthread_cond_signal(&prefetch->work);
    }
    pthread_mutex_unlock(&prefetch->lock);
    return status;
}
