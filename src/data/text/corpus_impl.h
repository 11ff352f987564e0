/* corpus_impl.h - the documents of a corpus, and pieces of them for threads. */
#ifndef VVI_CORPUS_IMPL_H
#define VVI_CORPUS_IMPL_H

#include <vivace/corpus.h>

#include "base/file.h"

typedef enum vvi_file_use {
    VVI_USE_UNKNOWN,
    VVI_USE_TRAIN,
    VVI_USE_EVAL,
    VVI_USE_TEST,
} vvi_file_use;

typedef struct vvi_text_file {
    char *path;
    int64_t bytes;
    vvi_file_use use; /* by its name */
} vvi_text_file;

typedef struct vvi_document {
    int64_t start, end; /* in the file */
    int32_t file;
    bool eval;
} vvi_document;

struct vv_corpus {
    vv_corpus_info info;
    vvi_text_file *files;
    size_t file_count, file_room;
    vvi_document *documents;
    size_t document_count, document_room;
    char *separator;
    size_t separator_bytes;
};

/* ---- corpus_files.c ---- */
/* Appends a file, or those of a folder; names in folders must match `patterns`. */
VV_MUST_USE vv_status vvi_corpus_find(vv_corpus *corpus, const char *path, const char *patterns);
/* ---- corpus_split.c ---- */
/* Decides which documents are for evaluation; VV_SPLIT_TAIL may cut one in two. */
VV_MUST_USE vv_status vvi_corpus_divide(vv_corpus *corpus, const vv_corpus_opts *opts);
VV_MUST_USE vv_status vvi_corpus_add_document(vv_corpus *corpus, vvi_document document);
/* The file, mapped; VV_EIO if its size has changed. */
VV_MUST_USE vv_status vvi_corpus_map(const vv_corpus *corpus, int32_t file, vvi_mapping *out);

/* A part of a document that is read as if it were alone. */
typedef struct vvi_piece {
    int64_t ticket; /* 0, 1, ... in the corpus's order */
    const vvi_document *document;
    const char *path;
    const char *text;
    size_t bytes;
    int64_t start; /* in the file */
    bool last;     /* of its document */
} vvi_piece;
/* What is done with a piece: `work` on any thread, outside the lock; `deliver` in order, one at a
   time. `thread` is the number of the thread. */
typedef struct vvi_piece_job {
    /* Where a text may be cut that is longer than a piece should be: at `wanted` bytes or behind
       them; `bytes` = nowhere. NULL = never. */
    size_t (*cut)(void *ctx, const char *text, size_t bytes, size_t wanted);
    vv_status (*work)(void *ctx, int thread, const vvi_piece *piece);
    vv_status (*deliver)(void *ctx, int thread, const vvi_piece *piece);
    void *ctx;
    vv_corpus_progress progress;
    void *progress_ctx;
} vvi_piece_job;
/* All pieces, each checked to be UTF-8; the sentence of the first failure in order is kept. */
VV_MUST_USE vv_status vvi_corpus_run(const vv_corpus *corpus, int threads,
                                     const vvi_piece_job *job);
/* What `threads` 0 stands for. */
int vvi_corpus_threads(int threads);

#endif
