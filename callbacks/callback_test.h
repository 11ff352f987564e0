/* callback_test.h - one small run with a callback under test and a listener. */
#ifndef CALLBACK_TEST_H
#define CALLBACK_TEST_H

#include "unit/train/train_test.h"

typedef struct numbers { /* what a logger heard */
    char names[256][64];
    double values[256];
    int64_t batches[256];
    int count;
} numbers;

static numbers *heard;

static inline vv_status hear(vv_logger *logger, const vv_state *state, const char *name,
                             double value)
{
    (void)logger;
    if (heard && heard->count < 256) {
        snprintf(heard->names[heard->count], sizeof heard->names[0], "%s", name);
        heard->batches[heard->count] = state->time.batch;
        heard->values[heard->count++] = value;
    }
    return VV_OK;
}

static const vv_logger_desc hearing_desc = {
    .desc = {"logger", "hearing", "For a test.", "", "any", tt_no_fields, 0},
    .metric = hear,
};

/* Ten samples in batches of 2 for `duration`, evaluated on 4 each epoch. Takes the callback. */
static inline vv_status callback_run(vv_callback *callback, const char *duration, tt_listen *listen,
                                     void *ctx, numbers *out, vv_timestamp *end)
{
    tt_data train, eval;
    tt_data_init(&train, 10, 2, true);
    tt_data_init(&eval, 4, 2, false);
    vv_logger *loggers[2] = {NULL, NULL};
    assert_ok(vv_logger_new(&loggers[0], &hearing_desc, NULL));
    vv_callback *callbacks[] = {callback, listen ? tt_listen_with(listen, ctx) : NULL, NULL};
    heard = out;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.eval = eval.loader;
    opts.max_duration = duration;
    opts.callbacks = callbacks;
    opts.loggers = loggers;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    vv_status status = vv_trainer_fit(trainer);
    *end = vv_trainer_state(trainer)->time;
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
    return status;
}

#endif
