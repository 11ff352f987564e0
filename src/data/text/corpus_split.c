/* corpus_split.c - which documents are for evaluation. */
#include <string.h>

#include <vivace/memory.h>
#include <vivace/rng.h>

#include "data/text/corpus_impl.h"

static int64_t bytes_of(const vvi_document *document)
{
    return document->end - document->start;
}

/* Whether every file's name says what it is for, with some of both kinds. */
static bool named(const vv_corpus *corpus)
{
    size_t count[4] = {0};
    for (size_t i = 0; i < corpus->file_count; i++)
        count[corpus->files[i].use]++;
    return count[VVI_USE_TRAIN] > 0 && count[VVI_USE_EVAL] > 0 && count[VVI_USE_UNKNOWN] == 0;
}

static void by_name(vv_corpus *corpus)
{
    size_t kept = 0;
    for (size_t i = 0; i < corpus->document_count; i++) {
        const vvi_file_use use = corpus->files[corpus->documents[i].file].use;
        if (use == VVI_USE_TEST)
            continue;
        corpus->documents[kept] = corpus->documents[i];
        corpus->documents[kept++].eval = use == VVI_USE_EVAL;
    }
    corpus->document_count = kept;
}

/* In an order drawn by the seed, each as long as that brings the share nearer. At least one is
   taken, and one left. */
static vv_status by_documents(vv_corpus *corpus, double wanted, uint64_t seed)
{
    int64_t *order, taken = 0;
    const int64_t count = (int64_t)corpus->document_count;
    vv_rng rng = vv_rng_at(seed, "validation documents", 0);
    int64_t bytes = 0;
    VV_TRY(vv_alloc_array(&order, (size_t)count, sizeof *order));
    vv_rng_permutation(&rng, order, count);
    for (int64_t i = 0; i < count && taken + 1 < count; i++) {
        vvi_document *document = &corpus->documents[order[i]];
        if ((double)bytes + (double)bytes_of(document) / 2 > wanted)
            continue;
        document->eval = true;
        bytes += bytes_of(document);
        taken++;
    }
    if (taken == 0) { /* all are longer than twice the share: the shortest */
        vvi_document *least = &corpus->documents[0];
        for (int64_t i = 1; i < count; i++)
            if (bytes_of(&corpus->documents[i]) < bytes_of(least))
                least = &corpus->documents[i];
        least->eval = true;
    }
    vv_dealloc(order);
    return VV_OK;
}

/* First start of a character at or behind `at`. */
static vv_status to_character(const vv_corpus *corpus, const vvi_document *document, int64_t *at)
{
    vvi_mapping mapping;
    VV_TRY(vvi_corpus_map(corpus, document->file, &mapping));
    const unsigned char *text = mapping.data;
    while (*at < document->end && (text[*at] & 0xc0) == 0x80)
        ++*at;
    vvi_file_unmap(&mapping);
    return VV_OK;
}

/* The first (1 - share) of the bytes train; the document that the cut falls into becomes two. */
static vv_status by_tail(vv_corpus *corpus, double share)
{
    int64_t left = (int64_t)((double)corpus->info.bytes * (1 - share));
    size_t i = 0;
    for (; i < corpus->document_count && left >= bytes_of(&corpus->documents[i]); i++)
        left -= bytes_of(&corpus->documents[i]);
    if (i < corpus->document_count && left > 0) {
        const vvi_document whole = corpus->documents[i];
        int64_t cut = whole.start + left;
        VV_TRY(to_character(corpus, &whole, &cut));
        if (cut < whole.end) {
            VV_TRY(vvi_corpus_add_document(corpus, whole)); /* room for one more */
            memmove(&corpus->documents[i + 1], &corpus->documents[i],
                    (corpus->document_count - 1 - i) * sizeof *corpus->documents);
            corpus->documents[i].end = corpus->documents[i + 1].start = cut;
        }
        i++;
    }
    for (; i < corpus->document_count; i++)
        corpus->documents[i].eval = true;
    return VV_OK;
}

vv_status vvi_corpus_divide(vv_corpus *corpus, const vv_corpus_opts *opts)
{
    if (!(opts->validation >= 0) || opts->validation >= 1)
        return vv_fail(VV_EINVAL, "validation: the share %g is outside [0, 1)", opts->validation);
    if (named(corpus)) {
        corpus->info.by_name = true;
        by_name(corpus);
        return VV_OK;
    }
    if (opts->validation <= 0)
        return VV_OK;
    if (opts->split == VV_SPLIT_TAIL || corpus->document_count == 1)
        return by_tail(corpus, opts->validation);
    return by_documents(corpus, (double)corpus->info.bytes * opts->validation, opts->seed);
}
