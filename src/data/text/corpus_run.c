/* corpus_run.c - a corpus in pieces on several threads, with results in the corpus's order.
 *
 * Pieces carry tickets. A thread takes the next piece under the lock, works on it outside, and
 * delivers it when all before it are delivered; so no more pieces are under way than threads, and
 * nothing that comes out depends on them. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <vivace/graph.h>
#include <vivace/memory.h>

#include "base/utf8.h"
#include "data/text/corpus_impl.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define MAX_THREADS 256

typedef struct run {
    const vv_corpus *corpus;
    const vvi_piece_job *job;
    pthread_mutex_t lock;
    pthread_cond_t turn_came;
    size_t document; /* next piece: in this document, from there on */
    int64_t at;      /* -1 = from its start */
    int64_t issued, turn;
    int64_t done; /* bytes delivered */
    bool stop;
    vv_status status;    /* of the first failure in order */
    char sentence[1024]; /* sentences are per thread */
} run;

typedef struct worker {
    run *run;
    pthread_t thread;
    int number;
    vvi_mapping mapping;
    int32_t mapped; /* file number, -1 = none */
} worker;

int vvi_corpus_threads(int threads)
{
    const int count = threads > 0 ? threads : vv_threads();
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
}

/* Takes the next piece, with the lock held. False: there is none. */
static bool take(run *r, worker *self, vvi_piece *piece, vv_status *status)
{
    const vv_corpus *corpus = r->corpus;
    if (r->document >= corpus->document_count)
        return false;
    const vvi_document *document = &corpus->documents[r->document];
    const vvi_text_file *file = &corpus->files[document->file];
    const int64_t start = r->at < 0 ? document->start : r->at;
    *piece = (vvi_piece){r->issued++, document, file->path, NULL, 0, start, true};
    *status = VV_OK;
    if (self->mapped != document->file) {
        vvi_file_unmap(&self->mapping);
        self->mapped = -1;
        *status = vvi_corpus_map(corpus, document->file, &self->mapping);
        if (*status == VV_OK)
            self->mapped = document->file;
    }
    if (*status == VV_OK) {
        const size_t left = (size_t)(document->end - start);
        piece->text = (const char *)self->mapping.data + start;
        piece->bytes = left > PIECE_BYTES && r->job->cut
                           ? r->job->cut(r->job->ctx, piece->text, left, PIECE_BYTES)
                           : left;
        piece->last = piece->bytes == left;
    }
    r->at = piece->last ? -1 : start + (int64_t)piece->bytes;
    r->document += piece->last;
    return true;
}

static vv_status check_text(const vvi_piece *piece)
{
    const size_t good = vvi_utf8_prefix(piece->text, piece->bytes);
    if (good == piece->bytes)
        return VV_OK;
    return vv_fail(VV_EFORMAT, "%s: byte %lld is 0x%02x, which is not UTF-8 there; convert the "
                               "file or leave it out", piece->path,
                   (long long)(piece->start + (int64_t)good), (unsigned char)piece->text[good]);
}

/* Its turn has come: with the lock held. */
static void deliver(run *r, const worker *self, const vvi_piece *piece, vv_status status)
{
    if (status == VV_OK)
        status = r->job->deliver(r->job->ctx, self->number, piece);
    r->done += (int64_t)piece->bytes;
    if (status == VV_OK && r->job->progress &&
        !r->job->progress(r->job->progress_ctx, r->done, r->corpus->info.bytes))
        status = vv_fail(VV_EINTERRUPTED, "stopped after %lld of %lld bytes", (long long)r->done,
                         (long long)r->corpus->info.bytes);
    if (status != VV_OK) {
        r->status = status;
        snprintf(r->sentence, sizeof r->sentence, "%s", vv_error());
        r->stop = true;
    }
    r->turn++;
    pthread_cond_broadcast(&r->turn_came);
}

static void *work(void *arg)
{
    worker *self = arg;
    run *r = self->run;
    vvi_piece piece;
    vv_status status;
    pthread_mutex_lock(&r->lock);
    while (!r->stop && take(r, self, &piece, &status)) {
        pthread_mutex_unlock(&r->lock);
        if (status == VV_OK)
            status = check_text(&piece);
        if (status == VV_OK)
            status = r->job->work(r->job->ctx, self->number, &piece);
        pthread_mutex_lock(&r->lock);
        while (!r->stop && r->turn != piece.ticket)
            pthread_cond_wait(&r->turn_came, &r->lock);
        if (!r->stop)
            deliver(r, self, &piece, status);
    }
    pthread_mutex_unlock(&r->lock);
    vvi_file_unmap(&self->mapping);
    return NULL;
}

vv_status vvi_corpus_run(const vv_corpus *corpus, int threads, const vvi_piece_job *job)
{
    run r = {.corpus = corpus, .job = job, .at = -1};
    worker *workers;
    int started = 0;
    VV_TRY(vv_alloc_array(&workers, (size_t)threads, sizeof *workers));
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.turn_came, NULL);
    for (int i = 0; i < threads; i++) {
        workers[i].run = &r;
        workers[i].number = i;
        workers[i].mapped = -1;
    }
    /* The caller is one of the threads; signals are for it. If the system starts fewer than asked
       for, those do all. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started + 1 < threads && pthread_create(&workers[started + 1].thread, NULL, work,
                                                   &workers[started + 1]) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(&workers[0]);
    for (int i = 1; i <= started; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_cond_destroy(&r.turn_came);
    pthread_mutex_destroy(&r.lock);
    vv_dealloc(workers);
    return r.status == VV_OK ? VV_OK : vv_fail(r.status, "%s", r.sentence);
}
