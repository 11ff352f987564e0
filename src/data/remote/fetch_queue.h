/* fetch_queue.h - threads that fetch numbered items in the order they will be needed. */
#ifndef VVI_FETCH_QUEUE_H
#define VVI_FETCH_QUEUE_H

#include <stdatomic.h>

#include <vivace/status.h>

typedef struct vvi_fetch_queue vvi_fetch_queue;
/* Fetches one item; from several threads at once. `stop` asks it to give up. */
typedef vv_status (*vvi_fetch_fn)(void *ctx, int64_t item, const atomic_bool *stop);

VV_MUST_USE vv_status vvi_fetch_queue_new(VV_OWNED vvi_fetch_queue **out, int64_t items,
                                          int threads, vvi_fetch_fn fetch, void *ctx);
/* Stops and joins the threads. Nobody may be waiting. */
void vvi_fetch_queue_free(VV_TAKES vvi_fetch_queue *queue);
/* Says whether an item is there, without fetching it; one being fetched is left alone. */
void vvi_fetch_queue_mark(vvi_fetch_queue *queue, int64_t item, bool there);
/* Fetches it in the background, behind what is wanted already. If that fails it is not there. */
void vvi_fetch_queue_want(vvi_fetch_queue *queue, int64_t item);
/* Waits until it is there, before everything that is merely wanted; what failed meanwhile is told
   with its sentence, and tried again by the next call. */
VV_MUST_USE vv_status vvi_fetch_queue_need(vvi_fetch_queue *queue, int64_t item);

#endif
