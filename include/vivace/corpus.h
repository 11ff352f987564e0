/* corpus.h - documents in text files: divided into training and evaluation, turned into token
 * files, or into a vocabulary. */
#ifndef VIVACE_CORPUS_H
#define VIVACE_CORPUS_H

#include <vivace/token_file.h>
#include <vivace/tokenizer.h>

VV_BEGIN_DECLS

typedef enum vv_corpus_split {
    VV_SPLIT_DOCUMENTS, /* documents drawn by the seed; a single document as VV_SPLIT_TAIL */
    VV_SPLIT_TAIL,      /* the end of the text, in the order of the files */
} vv_corpus_split;

typedef struct vv_corpus_opts {
    const char *const *inputs; /* files and folders (with all below them, in order of names) */
    int input_count;
    /* Shell patterns, comma-separated, that names of files in folders must match. Names that
       start with a dot are left out. */
    const char *files;
    /* What stands between documents in a file, with \n and \t for line ends and tabs; "" = each
       file is a document. */
    const char *separator;
    /* Share of the text (by bytes) for evaluation, 0 <= share < 1. Where every file says itself
       what it is for (novels.train.txt, valid/a.txt; words: train; valid, validation, val, eval,
       dev; test), and there are some of both, that is followed instead, and test files are left
       out. */
    double validation;
    vv_corpus_split split;
    uint64_t seed;
} vv_corpus_opts;
#define VV_CORPUS_DEFAULTS                                        \
    {                                                             \
        NULL, 0, "*.txt,*.md", "", 0.05, VV_SPLIT_DOCUMENTS, 0    \
    }

typedef struct vv_corpus vv_corpus;
typedef struct vv_corpus_info {
    int64_t files, documents, eval_documents; /* documents: of both kinds */
    int64_t bytes, eval_bytes;
    bool by_name; /* the files' names divided them */
} vv_corpus_info;

/* Finds files and documents. A file that is given by name and empty, or no text at all, is
   VV_EFORMAT. */
VV_API VV_MUST_USE vv_status vv_corpus_open(VV_OWNED vv_corpus **out, const vv_corpus_opts *opts);
VV_API void vv_corpus_free(VV_TAKES vv_corpus *corpus);
VV_API VV_BORROWED const vv_corpus_info *vv_corpus_info_of(const vv_corpus *corpus);
/* 64 hexadecimal digits that are the same for the same texts divided in the same way, wherever the
   files lie. Reads all of them. */
VV_API VV_MUST_USE vv_status vv_corpus_fingerprint(const vv_corpus *corpus, char hex[65]);

/* Called now and then, by one thread at a time but not always the same; false = stop, and the call
   fails with VV_EINTERRUPTED. */
typedef bool (*vv_corpus_progress)(void *ctx, int64_t done_bytes, int64_t total_bytes);

typedef struct vv_tokenize_opts {
    int threads;  /* 0 = as many as kernels use */
    bool special; /* texts of special tokens become those tokens */
    vv_corpus_progress progress; /* may be NULL */
    void *ctx;
} vv_tokenize_opts;
/* Writes the documents as token files, each whole or not at all, in folders that are made if they
   are not there. eval_path is left as it was if
   no document is for evaluation (*eval is zero then); both infos may be NULL. Text that is not
   UTF-8 is VV_EFORMAT with the file and the byte. The files do not depend on the threads. */
VV_API VV_MUST_USE vv_status vv_corpus_tokenize(const vv_corpus *corpus,
                                                const vv_tokenizer *tokenizer,
                                                const vv_tokenize_opts *opts,
                                                const char *train_path, const char *eval_path,
                                                vv_tokens_info *train, vv_tokens_info *eval);

typedef struct vv_bpe_opts {
    int64_t vocab;     /* tokens: 256 bytes, merges, and the end token */
    int64_t min_count; /* a pair that is rarer than this does not merge */
    const char *end;   /* text of the token that ends documents; "" = none */
    int threads;       /* 0 = as many as kernels use */
    vv_corpus_progress progress; /* of the reading; may be NULL */
    void *ctx;
} vv_bpe_opts;
#define VV_BPE_DEFAULTS                          \
    {                                            \
        8192, 2, "<|endoftext|>", 0, NULL, NULL  \
    }
/* A byte-level BPE of the documents to train on, in GPT-2's pieces: again and again the most
   frequent pair of neighbours becomes a token; among equals the one with the lowest ids, left
   before right. So the result depends on the text alone, and equals that of Hugging Face's trainer.
   There may be fewer tokens than asked for if the text has no more. */
VV_API VV_MUST_USE vv_status vv_corpus_train_bpe(VV_OWNED vv_tokenizer **out,
                                                 const vv_corpus *corpus, const vv_bpe_opts *opts);

VV_END_DECLS

#endif
