/* stream.c - files in, predictions out: one thread reads names, some decode, the caller's runs the
 * model and tells. Jobs lie in a ring in the order of their names; each thread takes the next one
 * that is in the state it waits for. */
#include "predict/predictor.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

typedef enum job_state { JOB_FREE, JOB_NAMED, JOB_TAKEN, JOB_READY } job_state;

typedef struct job {
    job_state state;
    vv_str path;
    float *input;        /* [H,W,C] */
    char *error;         /* NULL = decoded */
    int64_t height, width;
} job;

typedef struct stream {
    const vv_predictor *predictor;
    vv_predict_next_fn next;
    void *next_ctx;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    job *ring;
    int64_t size;                  /* of the ring */
    int64_t named, taken, told;    /* positions: names read, given to decoders, told */
    bool ended, stop;              /* no further names; everybody leaves */
    vv_status status;              /* of reading names, or a lack of memory */
    char sentence[512];
} stream;

static job *job_at(const stream *s, int64_t position)
{
    return &s->ring[position % s->size];
}

/* With the lock held. */
static void fail(stream *s, vv_status status)
{
    if (s->status == VV_OK) {
        s->status = status;
        snprintf(s->sentence, sizeof s->sentence, "%s", vv_error());
    }
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
}

/* ---- names ---- */

static void *read_names(void *arg)
{
    stream *s = arg;
    vv_str path = {0};
    pthread_mutex_lock(&s->lock);
    while (!s->stop && !s->ended) {
        if (s->named - s->told >= s->size) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        bool end = false;
        pthread_mutex_unlock(&s->lock);
        vv_str_clear(&path);
        vv_status status = s->next(s->next_ctx, &path, &end);
        if (status == VV_OK)
            status = vv_str_status(&path);
        pthread_mutex_lock(&s->lock);
        if (status != VV_OK) {
            fail(s, status);
        } else if (path.length) {
            job *j = job_at(s, s->named);
            const vv_str spare = j->path; /* its memory is used again */
            j->path = path;
            path = spare;
            j->state = JOB_NAMED;
            s->named++;
        }
        s->ended = s->ended || end;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    vv_str_fini(&path);
    return NULL;
}

/* ---- decoding ---- */

static vv_status decode(const stream *s, job *j)
{
    const vv_saved_input *in = &s->predictor->input;
    const int64_t *side = in->spec.input_shape;
    const vv_image_decode_opts opts = {.channels = (int)side[2], .orient = in->prepare.orient};
    vv_image image = {0};
    vv_status status = vv_image_read(&image, vv_str_text(&j->path), &opts);
    if (status == VV_OK) {
        j->height = image.shape.height;
        j->width = image.shape.width;
        status = vv_predictor_prepare(s->predictor, &image, j->input);
    }
    vv_image_fini(&image);
    return status;
}

static void *decode_files(void *arg)
{
    stream *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->taken == s->named) {
            if (s->ended)
                break;
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        job *j = job_at(s, s->taken++);
        j->state = JOB_TAKEN;
        pthread_mutex_unlock(&s->lock);
        vv_status status = decode(s, j);
        if (status != VV_OK && status != VV_ENOMEM)
            status = vv_strdup(&j->error, vv_error());
        pthread_mutex_lock(&s->lock);
        if (status != VV_OK)
            fail(s, status);
        j->state = JOB_READY;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the model ---- */

/* How many jobs from `told` on make the next batch: as many as are known, at most `batch`; waits
   until they are ready. 0 = there are none any more, or the stream has failed. */
static int64_t gather(stream *s, int64_t batch)
{
    int64_t count = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->stop && count < batch) {
        if (s->told + count < s->named) {
            if (job_at(s, s->told + count)->state == JOB_READY)
                count++;
            else
                pthread_cond_wait(&s->changed, &s->lock);
        } else if (count > 0 || s->ended) {
            break;
        } else {
            pthread_cond_wait(&s->changed, &s->lock);
        }
    }
    if (s->stop)
        count = 0;
    pthread_mutex_unlock(&s->lock);
    return count;
}

static vv_status run_model(stream *s, vv_predictor *p, int64_t count, vv_tensor **out)
{
    const int64_t *side = p->input.spec.input_shape;
    const int64_t row = side[0] * side[1] * side[2];
    int64_t shape[4] = {0, side[0], side[1], side[2]}, n = 0;
    vv_tensor *input;
    *out = NULL;
    for (int64_t i = 0; i < count; i++)
        shape[0] += job_at(s, s->told + i)->error == NULL;
    if (shape[0] == 0)
        return VV_OK;
    VV_TRY(vv_tensor_new(&input, VV_F32, 4, shape));
    for (int64_t i = 0; i < count; i++) {
        const job *j = job_at(s, s->told + i);
        if (!j->error)
            memcpy((float *)input->data + n++ * row, j->input, (size_t)row * sizeof(float));
    }
    const vv_status status = vv_predict_batch(p, input, out);
    vv_tensor_free(input);
    return status;
}

static vv_status tell(const stream *s, int64_t count, const vv_tensor *outputs,
                      vv_predict_told_fn told, void *ctx)
{
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) {
        const job *j = job_at(s, s->told + i);
        vv_prediction one = {.path = vv_str_text(&j->path), .error = j->error};
        if (!j->error) {
            one.ndim = outputs->ndim - 1;
            memcpy(one.shape, outputs->shape + 1, (size_t)one.ndim * sizeof *one.shape);
            one.count = outputs->count / outputs->shape[0];
            one.output = (const float *)outputs->data + n++ * one.count;
            one.height = j->height;
            one.width = j->width;
        }
        VV_TRY(told(ctx, &one));
    }
    return VV_OK;
}

static void release(stream *s, int64_t count)
{
    pthread_mutex_lock(&s->lock);
    for (int64_t i = 0; i < count; i++) {
        job *j = job_at(s, s->told + i);
        vv_dealloc(j->error);
        j->error = NULL;
        j->state = JOB_FREE;
    }
    s->told += count;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static vv_status work(stream *s, vv_predictor *p, int64_t batch, vv_predict_told_fn told, void *ctx)
{
    for (int64_t count; (count = gather(s, batch)) > 0;) {
        vv_tensor *outputs;
        vv_status status = run_model(s, p, count, &outputs);
        if (status == VV_OK)
            status = tell(s, count, outputs, told, ctx);
        vv_tensor_free(outputs);
        VV_TRY(status);
        release(s, count);
    }
    return VV_OK;
}

/* ---- the whole ---- */

static vv_status make_ring(stream *s, int64_t size)
{
    const int64_t *side = s->predictor->input.spec.input_shape;
    VV_TRY(vv_alloc_array(&s->ring, (size_t)size, sizeof *s->ring));
    s->size = size;
    for (int64_t i = 0; i < size; i++)
        VV_TRY(vv_alloc_array(&s->ring[i].input, (size_t)(side[0] * side[1] * side[2]),
                              sizeof(float)));
    return VV_OK;
}

static void free_ring(stream *s)
{
    for (int64_t i = 0; i < s->size; i++) {
        vv_str_fini(&s->ring[i].path);
        vv_dealloc(s->ring[i].input);
        vv_dealloc(s->ring[i].error);
    }
    vv_dealloc(s->ring);
}

/* Signals are for the caller's thread. */
static int start(pthread_t *threads, int decoders, stream *s)
{
    sigset_t all, before;
    int started = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < decoders + 1 &&
           pthread_create(&threads[started], NULL, started ? decode_files : read_names, s) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

vv_status vv_predict_files(vv_predictor *p, const vv_predict_files_opts *opts,
                           vv_predict_next_fn next, void *next_ctx, vv_predict_told_fn told,
                           void *told_ctx)
{
    enum { MOST_THREADS = 64 };
    pthread_t threads[MOST_THREADS + 1];
    const int64_t batch = opts && opts->batch > 0 ? opts->batch : 32;
    int decoders = opts && opts->threads > 0 ? opts->threads : 2;
    stream s = {.predictor = p, .next = next, .next_ctx = next_ctx};
    decoders = decoders < MOST_THREADS ? decoders : MOST_THREADS;
    if (pthread_mutex_init(&s.lock, NULL) != 0)
        return vv_fail(VV_EIO, "predict: the system gave no mutex");
    if (pthread_cond_init(&s.changed, NULL) != 0) {
        pthread_mutex_destroy(&s.lock);
        return vv_fail(VV_EIO, "predict: the system gave no condition variable");
    }
    vv_status status = make_ring(&s, 2 * batch + decoders);
    if (status == VV_OK) {
        const int started = start(threads, decoders, &s);
        if (started < 2)
            status = vv_fail(VV_EIO, "predict: the system gave no thread");
        else
            status = work(&s, p, batch, told, told_ctx);
        pthread_mutex_lock(&s.lock);
        s.stop = true;
        pthread_cond_broadcast(&s.changed);
        pthread_mutex_unlock(&s.lock);
        for (int i = 0; i < started; i++)
            pthread_join(threads[i], NULL);
        if (status == VV_OK && s.status != VV_OK)
            status = vv_fail(s.status, "%s", s.sentence);
    }
    free_ring(&s);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.lock);
    return status;
}
