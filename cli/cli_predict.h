/* cli_predict.h - parts of `vivace predict` on images: which files, and how results are
 * printed. */
#ifndef VIVACE_CLI_PREDICT_H
#define VIVACE_CLI_PREDICT_H

#include "cli.h"

#include <vivace/predict.h>

/* The images that words mean, one after the other. Zero it, set the words; cli_paths_fini. */
typedef struct cli_paths {
    const char **words;
    int word_count, word; /* the next one */
    char **pending;       /* names to look at first, the last one first */
    int pending_count, pending_room;
    bool listening, input_ended; /* to standard input */
    vv_str input;                /* what was read of it */
    size_t input_at;
} cli_paths;
/* A vv_predict_next_fn. */
vv_status cli_paths_next(void *ctx, vv_str *path, bool *end);
void cli_paths_fini(cli_paths *paths);

enum { CLI_TABLE, CLI_JSON, CLI_CSV };
typedef struct cli_printer {
    vv_predictor *predictor;
    int format;
    int top;
    double score;       /* of boxes: the least */
    const char *folder; /* where masks and boxes go; NULL = nowhere */
    int64_t done, passed_over;
    bool begun;         /* the head of a table of values has been printed */
} cli_printer;
/* A vv_predict_told_fn. */
vv_status cli_print_prediction(void *ctx, const vv_prediction *one);

/* `vivace predict` with images, settings and overrides in args (the first word is the run). */
int cli_predict_images(cli_args *args, const char *recipe, bool json);

#endif
