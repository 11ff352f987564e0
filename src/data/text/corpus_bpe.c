/* corpus_bpe.c - a byte-level BPE trained on a corpus: words are counted on several threads, then
 * merged by bpe_train.c, and made into a tokenizer. */
#include <string.h>

#include <vivace/memory.h>

#include "data/text/bpe_train.h"
#include "data/text/corpus_impl.h"
#include "data/tokenizer/tokenizer_impl.h"

typedef struct counting {
    vvi_char_classes classes;
    vvi_word_counts *counts; /* one a thread */
} counting;

static size_t cut_text(void *ctx, const char *text, size_t bytes, size_t wanted)
{
    const counting *job = ctx;
    const unsigned char *start = (const unsigned char *)text;
    for (size_t at = wanted; at + 8 < bytes; at++)
        if (vvi_split_gpt2_may_cut(&job->classes, start, start + at))
            return at;
    return bytes;
}

static vv_status count_piece(void *ctx, int thread, const vvi_piece *piece)
{
    const counting *job = ctx;
    if (piece->document->eval)
        return VV_OK;
    const unsigned char *at = (const unsigned char *)piece->text, *end = at + piece->bytes;
    while (at < end) {
        const unsigned char *next = vvi_split_gpt2(&job->classes, at, end);
        VV_TRY(vvi_word_counts_add(&job->counts[thread], at, (size_t)(next - at), 1));
        at = next;
    }
    return VV_OK;
}

static vv_status nothing(void *ctx, int thread, const vvi_piece *piece)
{
    (void)ctx, (void)thread, (void)piece;
    return VV_OK;
}

/* All into the first. */
static vv_status join_counts(vvi_word_counts *counts, int threads)
{
    for (int i = 1; i < threads; i++) {
        for (size_t k = 0; counts[i].places && k <= counts[i].mask; k++) {
            const vvi_word_count *place = &counts[i].places[k];
            if (place->bytes > 0)
                VV_TRY(vvi_word_counts_add(&counts[0], counts[i].letters + place->text,
                                           place->bytes, place->count));
        }
        vvi_word_counts_fini(&counts[i]);
    }
    return VV_OK;
}

/* The number of each byte: in the order of its byte character, as in GPT-2's vocabulary. */
static void number_bytes(int32_t symbol[256])
{
    int32_t next = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < 256; b++) {
            char c[2];
            const size_t bytes = vvi_byte_char((unsigned char)b, c);
            /* Those that stand for themselves are below U+0100: one byte, or two from 0xc2 on. */
            const bool itself = bytes == 1 || (unsigned char)c[0] < 0xc4;
            if (itself == (pass == 0))
                symbol[b] = next++;
        }
}

static vv_status make_tokenizer(vv_tokenizer **out, const vvi_bpe *bpe, const char *end)
{
    vv_status status;
    vv_tokenizer *t = NULL;
    const int64_t symbols = (int64_t)bpe->symbol_count;
    *out = NULL;
    VV_GO(vvi_tokenizer_new(&t, "trained", symbols + (end[0] != '\0')));
    for (int64_t i = 0; i < symbols; i++)
        VV_GO(vvi_tokenizer_set(t, i, bpe->text + bpe->symbols[i].at, bpe->symbols[i].bytes));
    if (end[0])
        VV_GO(vvi_tokenizer_set(t, symbols, end, strlen(end)));
    VV_GO(vvi_tokenizer_index(t));
    VV_GO(vvi_merges_init(&t->merges, bpe->merge_count));
    for (size_t i = 0; i < bpe->merge_count; i++)
        vvi_merges_put(&t->merges, bpe->merges[i][0], bpe->merges[i][1], (int32_t)i,
                       bpe->merges[i][2]);
    VV_GO(vvi_tokenizer_split(t, VVI_GPT2_PATTERN));
    if (end[0]) {
        VV_GO(vvi_tokenizer_add(t, (vvi_added){.id = (int32_t)symbols, .special = true}));
        t->end = (int32_t)symbols;
    }
    VV_GO(vvi_tokenizer_finish(t));
    *out = t;
    return VV_OK;
out:
    vv_tokenizer_free(t);
    return status;
}

vv_status vv_corpus_train_bpe(vv_tokenizer **out, const vv_corpus *corpus, const vv_bpe_opts *opts)
{
    vv_status status;
    counting *job = NULL;
    vvi_bpe bpe = {0};
    int32_t symbol[256];
    const int threads = vvi_corpus_threads(opts->threads);
    const char *end = opts->end ? opts->end : "";
    const int64_t symbols = opts->vocab - (end[0] != '\0');
    *out = NULL;
    if (symbols < 256 || opts->vocab > 1 << 24)
        return vv_fail(VV_EINVAL, "vocab: %lld is outside %d to %d: 256 bytes%s come first",
                       (long long)opts->vocab, 256 + (end[0] != '\0'), 1 << 24,
                       end[0] ? " and the end token" : "");
    VV_GO(vv_alloc(&job, sizeof *job));
    VV_GO(vv_alloc_array(&job->counts, (size_t)threads, sizeof *job->counts));
    vvi_char_classes_init(&job->classes);
    const vvi_piece_job run = {cut_text, count_piece, nothing, job, opts->progress, opts->ctx};
    VV_GO(vvi_corpus_run(corpus, threads, &run));
    VV_GO(join_counts(job->counts, threads));
    number_bytes(symbol);
    VV_GO(vvi_bpe_train(&bpe, &job->counts[0], symbol, (size_t)symbols, opts->min_count));
    VV_GO(make_tokenizer(out, &bpe, end));
out:
    for (int i = 0; job && job->counts && i < threads; i++)
        vvi_word_counts_fini(&job->counts[i]);
    if (job)
        vv_dealloc(job->counts);
    vv_dealloc(job);
    vvi_bpe_fini(&bpe);
    return status;
}
