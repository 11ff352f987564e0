/* tokenize.c - a corpus into token files. */
#include <string.h>

#include <vivace/memory.h>

#include "data/text/corpus_impl.h"
#include "data/tokenizer/tokenizer_impl.h"

typedef struct part {
    vv_encoder *encoder;
    const int32_t *ids; /* of the piece at work */
    int64_t count;
} part;

typedef struct tokenizing {
    const vv_tokenizer *tokenizer;
    bool special;
    part *parts; /* one a thread */
    vv_tokens_writer *train, *eval;
} tokenizing;

/* Bytes go apart anywhere between characters; GPT-2's pieces before white space. */
static size_t cut_text(void *ctx, const char *text, size_t bytes, size_t wanted)
{
    const vv_tokenizer *t = ((const tokenizing *)ctx)->tokenizer;
    const unsigned char *start = (const unsigned char *)text;
    /* A cut looks at the characters around it: whole ones, even if this is no UTF-8. */
    for (size_t at = wanted; at + 8 < bytes; at++)
        if (t->plain_bytes ? (start[at] & 0xc0) != 0x80
                           : vvi_split_gpt2_may_cut(&t->classes, start, start + at))
            return at;
    return bytes;
}

/* A text may be cut if nothing but GPT-2's expression sees more than one word. */
static bool may_cut(const tokenizing *job)
{
    const vv_tokenizer *t = job->tokenizer;
    if (t->plain_bytes)
        return true;
    const bool added = job->special ? t->added_count > 0 : t->added_ordinary;
    return !added && !t->prefix_space && t->splitter_count == 1 &&
           t->splitters[0].kind == VVI_SPLIT_GPT2;
}

static vv_status encode_piece(void *ctx, int thread, const vvi_piece *piece)
{
    const tokenizing *job = ctx;
    part *own = &job->parts[thread];
    if (!own->encoder)
        VV_TRY(vv_encoder_new(&own->encoder, job->tokenizer));
    return vv_fail_within(vv_encoder_encode(own->encoder, piece->text, piece->bytes, job->special,
                                            &own->ids, &own->count),
                          "%s, from byte %lld on", piece->path, (long long)piece->start);
}

static vv_status write_piece(void *ctx, int thread, const vvi_piece *piece)
{
    const tokenizing *job = ctx;
    const part *own = &job->parts[thread];
    vv_tokens_writer *writer = piece->document->eval ? job->eval : job->train;
    VV_TRY(vv_tokens_writer_add(writer, own->ids, own->count));
    return piece->last ? vv_tokens_writer_end_document(writer) : VV_OK;
}

static vv_status new_writer(vv_tokens_writer **out, const vv_tokenizer *t, const char *path)
{
    return vv_tokens_writer_new(out, path, t->vocab, t->end, t->fingerprint);
}

static vv_status make_folder_of(const char *path)
{
    char *folder;
    VV_TRY(vv_strdup(&folder, path));
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    const vv_status status = slash ? vvi_mkdirs(folder) : VV_OK;
    vv_dealloc(folder);
    return status;
}

vv_status vv_corpus_tokenize(const vv_corpus *corpus, const vv_tokenizer *tokenizer,
                             const vv_tokenize_opts *opts, const char *train_path,
                             const char *eval_path, vv_tokens_info *train, vv_tokens_info *eval)
{
    vv_status status;
    const int threads = vvi_corpus_threads(opts->threads);
    tokenizing job = {.tokenizer = tokenizer, .special = opts->special};
    vvi_piece_job run = {.work = encode_piece, .deliver = write_piece, .ctx = &job};
    if (train)
        *train = (vv_tokens_info){0};
    if (eval)
        *eval = (vv_tokens_info){0};
    run.cut = may_cut(&job) ? cut_text : NULL;
    run.progress = opts->progress;
    run.progress_ctx = opts->ctx;
    VV_TRY(make_folder_of(train_path));
    if (corpus->info.eval_documents > 0)
        VV_TRY(make_folder_of(eval_path));
    VV_TRY(vv_alloc_array(&job.parts, (size_t)threads, sizeof *job.parts));
    VV_GO(new_writer(&job.train, tokenizer, train_path));
    if (corpus->info.eval_documents > 0)
        VV_GO(new_writer(&job.eval, tokenizer, eval_path));
    VV_GO(vvi_corpus_run(corpus, threads, &run));
    /* Evaluation first: who sees the file to train on has both. */
    if (job.eval)
        VV_GO(vv_tokens_writer_finish(job.eval, eval));
    VV_GO(vv_tokens_writer_finish(job.train, train));
out:
    for (int i = 0; i < threads; i++)
        vv_encoder_free(job.parts[i].encoder);
    vv_dealloc(job.parts);
    vv_tokens_writer_free(job.train);
    vv_tokens_writer_free(job.eval);
    return status;
}
