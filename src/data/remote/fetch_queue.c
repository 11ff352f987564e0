/* fetch_queue.c - an item is absent, waits, is at work, or there. Who needs one that is absent puts
 * it in front and waits; who wants one puts it behind. */
#include "data/remote/fetch_queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

typedef enum state { ABSENT, WAITING, AT_WORK, THERE } state;

typedef struct item {
    state state;
    uint64_t failures; /* counted, so that who waits sees a new one */
    vv_status status;  /* of the last failure */
    char *sentence;
} item;

struct vvi_fetch_queue {
    vvi_fetch_fn fetch;
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    atomic_bool stop;
    item *items;
    int64_t count;
    int64_t *line; /* items that wait, the first first */
    int64_t waiting;
    pthread_t *threads;
    int thread_count;
};

static void note_failure(item *it, vv_status status)
{
    it->state = ABSENT;
    it->status = status;
    it->failures++;
    vv_dealloc(it->sentence);
    it->sentence = NULL;
    char text[1024];
    snprintf(text, sizeof text, "%s", vv_error());
    if (vv_strdup(&it->sentence, text) != VV_OK)
        it->sentence = NULL;
}

static void *work(void *arg)
{
    vvi_fetch_queue *queue = arg;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!atomic_load(&queue->stop) && queue->waiting == 0)
            pthread_cond_wait(&queue->work, &queue->lock);
        if (atomic_load(&queue->stop))
            break;
        const int64_t number = queue->line[0];
        memmove(queue->line, queue->line + 1, (size_t)--queue->waiting * sizeof *queue->line);
        queue->items[number].state = AT_WORK;
        pthread_mutex_unlock(&queue->lock);
        vv_error_clear();
        const vv_status status = queue->fetch(queue->ctx, number, &queue->stop);
        pthread_mutex_lock(&queue->lock);
        if (status == VV_OK)
            queue->items[number].state = THERE;
        else
            note_failure(&queue->items[number], status);
        pthread_cond_broadcast(&queue->done);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static vv_status start_threads(vvi_fetch_queue *queue, int count)
{
    sigset_t every, before; /* signals are for the caller's threads */
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int error = 0;
    while (queue->thread_count < count && !error) {
        error = pthread_create(&queue->threads[queue->thread_count], NULL, work, queue);
        queue->thread_count += !error;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return queue->thread_count > 0 ? VV_OK
                                   : vv_fail(VV_EIO, "the system started no thread to fetch with");
}

vv_status vvi_fetch_queue_new(vvi_fetch_queue **out, int64_t items, int threads, vvi_fetch_fn fetch,
                              void *ctx)
{
    vv_status status;
    vvi_fetch_queue *queue = NULL;
    *out = NULL;
    VV_TRY(vv_alloc(&queue, sizeof *queue));
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->done, NULL);
    atomic_init(&queue->stop, false);
    queue->fetch = fetch;
    queue->ctx = ctx;
    queue->count = items;
    VV_GO(vv_alloc_array(&queue->items, (size_t)items, sizeof *queue->items));
    VV_GO(vv_alloc_array(&queue->line, (size_t)items, sizeof *queue->line));
    VV_GO(vv_alloc_array(&queue->threads, (size_t)threads, sizeof *queue->threads));
    VV_GO(start_threads(queue, threads));
    *out = queue;
    return VV_OK;
out:
    vvi_fetch_queue_free(queue);
    return status;
}

void vvi_fetch_queue_free(vvi_fetch_queue *queue)
{
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    atomic_store(&queue->stop, true);
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    for (int i = 0; i < queue->thread_count; i++)
        pthread_join(queue->threads[i], NULL);
    for (int64_t i = 0; queue->items && i < queue->count; i++)
        vv_dealloc(queue->items[i].sentence);
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->done);
    pthread_mutex_destroy(&queue->lock);
    vv_dealloc(queue->items);
    vv_dealloc(queue->line);
    vv_dealloc(queue->threads);
    vv_dealloc(queue);
}

void vvi_fetch_queue_mark(vvi_fetch_queue *queue, int64_t number, bool there)
{
    pthread_mutex_lock(&queue->lock);
    item *it = &queue->items[number];
    if (it->state == ABSENT || it->state == THERE)
        it->state = there ? THERE : ABSENT;
    pthread_mutex_unlock(&queue->lock);
}

/* With the lock held. */
static void to_front(vvi_fetch_queue *queue, int64_t number)
{
    int64_t at = 0;
    while (at < queue->waiting && queue->line[at] != number)
        at++;
    queue->waiting += at == queue->waiting;
    memmove(queue->line + 1, queue->line, (size_t)at * sizeof *queue->line);
    queue->line[0] = number;
    queue->items[number].state = WAITING;
    pthread_cond_signal(&queue->work);
}

void vvi_fetch_queue_want(vvi_fetch_queue *queue, int64_t number)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->items[number].state == ABSENT) {
        queue->line[queue->waiting++] = number;
        queue->items[number].state = WAITING;
        pthread_cond_signal(&queue->work);
    }
    pthread_mutex_unlock(&queue->lock);
}

vv_status vvi_fetch_queue_need(vvi_fetch_queue *queue, int64_t number)
{
    vv_status status = VV_OK;
    pthread_mutex_lock(&queue->lock);
    item *it = &queue->items[number];
    const uint64_t failures = it->failures;
    while (it->state != THERE && it->failures == failures) {
        if (it->state == ABSENT || it->state == WAITING)
            to_front(queue, number);
        pthread_cond_wait(&queue->done, &queue->lock);
    }
    if (it->state != THERE)
        status = vv_fail(it->status, "%s", it->sentence ? it->sentence : "it cannot be fetched");
    pthread_mutex_unlock(&queue->lock);
    return status;
}
