/* logger_test.h - a small run with loggers under test, and files read back. */
#ifndef LOGGER_TEST_H
#define LOGGER_TEST_H

#include "unit/train/train_test.h"

/* How a run is cut: killed means that nothing is saved or closed in order after the event. */
typedef struct logger_cut {
    vv_event event;
    int64_t batch; /* finished batches at the cut; -1 = never */
} logger_cut;

static inline vv_status cut_here(void *ctx, vv_event event, vv_state *state)
{
    const logger_cut *cut = ctx;
    if (event == VV_EVENT_BATCH_END)
        vv_log_metric(state, "test/twice", 2.0 * (double)state->time.batch);
    if (event == cut->event && state->time.batch == cut->batch)
        return vv_fail(VV_ESTATE, "cut");
    return VV_OK;
}

/* 12 samples in batches of 3 (4 batches an epoch) for 3 epochs, evaluated on 4 each epoch, saved
   every 3 batches into `run_dir` (NULL = nowhere). Takes the loggers. Resumes if it can. */
static inline vv_status logger_run(vv_logger **loggers, const char *run_dir, const logger_cut *cut)
{
    static const logger_cut never = {VV_EVENT_INIT, -1};
    tt_data train, eval;
    tt_data_init(&train, 12, 3, true);
    tt_data_init(&eval, 4, 2, false);
    logger_cut copy = cut ? *cut : never;
    vv_callback *callbacks[] = {tt_listen_with(cut_here, &copy), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.1);
    opts.train = train.loader;
    opts.eval = eval.loader;
    opts.max_duration = "3ep";
    opts.callbacks = callbacks;
    opts.loggers = loggers;
    opts.run_dir = run_dir;
    opts.run_name = "small";
    opts.recipe_text = "name: \"small\"\nseed: 17\nmodel:\n  name: mlp\n  width: 16\n"
                       "methods:\n  - name: mixup\n    alpha: 0.2\n";
    opts.save_interval = run_dir ? "3ba" : NULL;
    opts.resume = true;
    vv_trainer *trainer;
    vv_status status = vv_trainer_new(&trainer, &opts);
    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
    return status;
}

/* A whole file as text; freed with test_free. */
static inline char *slurp_file(const char *dir, const char *name, size_t *bytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s is not there", path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = test_malloc((size_t)size + 1);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    text[size] = '\0';
    fclose(file);
    if (bytes)
        *bytes = (size_t)size;
    return text;
}

#endif
