/* fit.c - the training loop: the clock goes round and events fire (spec: trainer.md 5). */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "profile.h"

bool vvi_run_over(const vv_trainer *t)
{
    return vvi_elapsed(&t->state.time, t->state.max_duration) >= 1.0;
}

bool vvi_interrupted(const vv_trainer *t)
{
    return t->fitting && atomic_load(&t->interrupted);
}

void vvi_set_progress(vv_trainer *t)
{
    vv_state *s = &t->state;
    double total = vv_axis_length(&s->axis);
    s->progress =
        total > 0.0 ? fmin(1.0, vv_timestamp_position(&s->time, &s->axis) / total) : 0.0;
}

vv_status vvi_lr_factor(const vv_trainer *t, double position, double *out)
{
    *out = 1.0;
    for (int i = 0; i < t->schedule_count; i++) {
        double factor = 1.0;
        VV_TRY(vv_schedule_factor(t->schedules[i], &t->state.axis, t->ssr, position, &factor));
        *out *= factor;
    }
    *out *= vvi_stages_lr_factor(t, position);
    return VV_OK;
}

/* A callback that stops makes now the duration: in batches where it was in epochs, so that the end
   of an epoch is only told if the epoch is complete. */
static void heed_stop(vv_trainer *t)
{
    vv_state *s = &t->state;
    if (!s->stop || t->stopped)
        return;
    t->stopped = true;
    vvi_profile_instant(t, "train", "stop");
    vv_unit unit = s->max_duration.unit == VV_UNIT_SAMPLE ? VV_UNIT_SAMPLE : VV_UNIT_BATCH;
    s->max_duration = vv_time_of(unit == VV_UNIT_SAMPLE ? s->time.sample : s->time.batch, unit);
}

/* What stands at the end of a batch, an epoch and an iteration, after its END event. */
static vv_status close_span(vv_trainer *t, vv_event end, vv_event checkpoint)
{
    VV_TRY(vvi_evaluate_due(t, end));
    heed_stop(t);
    VV_TRY(vvi_engine_fire(t, checkpoint));
    int64_t saved = t->save_every.last_batch;
    double start = vv_clock();
    VV_TRY(vvi_checkpoint_due(t, checkpoint));
    if (t->save_every.last_batch != saved)
        t->save_seconds = vv_clock() - start;
    return VV_OK;
}

/* The evaluation at which the run was interrupted, and what would have come after it. */
static vv_status catch_up(vv_trainer *t)
{
    vv_event event = t->put_off;
    t->put_off = VV_EVENT_COUNT;
    if (event == VV_EVENT_BATCH_END)
        return close_span(t, event, VV_EVENT_BATCH_CHECKPOINT);
    if (event == VV_EVENT_EPOCH_END)
        return close_span(t, event, VV_EVENT_EPOCH_CHECKPOINT);
    if (event == VV_EVENT_ITERATION_END)
        return close_span(t, event, VV_EVENT_ITERATION_CHECKPOINT);
    return VV_OK;
}

/* After SIGTERM the batch under way must end and a checkpoint be written before the machine
   goes. */
static void watch_deadline(vv_trainer *t)
{
    const vv_state *s = &t->state;
    double needed = s->time.batch_seconds + t->save_seconds;
    if (t->deadline_told || t->deadline_seconds <= 0.0 || needed <= t->deadline_seconds)
        return;
    t->deadline_told = true;
    vv_str text = {0};
    vv_str_addf(
        &text,
        "a batch and a checkpoint take %.3g s, but the deadline after SIGTERM is %.3g s: the "
        "run may end before it has saved, and goes on from its last checkpoint then; save "
        "more often or make batches smaller",
        needed, t->deadline_seconds);
    vv_log_message(&t->state, vv_str_text(&text));
    vv_str_fini(&text);
}

/* AFTER_DATALOADER to BATCH_CHECKPOINT for the batch in the state. Batch number b trains with the
   learning rate of time b. */
static vv_status train_batch(vv_trainer *t, double start)
{
    vv_state *s = &t->state;
    int64_t samples = s->batch->count; /* before methods choose among them */
    VV_TRY(vvi_engine_fire(t, VV_EVENT_AFTER_DATALOADER));
    s->loss_item_count = vv_model_loss_items(s->model, s->batch->target);
    double factor;
    VV_TRY(vvi_lr_factor(t, vv_timestamp_position(&s->time, &s->axis), &factor));
    vv_optimizer_set_lr_factor(s->optimizer, factor);
    VV_TRY(vvi_engine_fire(t, VV_EVENT_BATCH_START));
    VV_TRY(vvi_train_step(t));

    t->previous = s->time;
    vv_timestamp_next_batch(&s->time, samples, samples * s->input_spec.tokens, vv_clock() - start);
    vvi_set_progress(t);
    vvi_estimate_batch(t);
    VV_TRY(vvi_train_metrics_batch(t));
    VV_TRY(vvi_engine_fire(t, VV_EVENT_BATCH_END));
    vv_batch_free(s->batch);
    s->batch = NULL;
    VV_TRY(vvi_log_batch(t));
    vvi_profile_end(t, t->profiler ? start : -1.0, "train", "batch", NULL);
    watch_deadline(t);
    return close_span(t, VV_EVENT_BATCH_END, VV_EVENT_BATCH_CHECKPOINT);
}

static vv_status end_epoch(vv_trainer *t)
{
    vv_state *s = &t->state;
    t->previous = s->time;
    vv_timestamp_next_epoch(&s->time, 0.0);
    VV_TRY(vvi_train_metrics_epoch(t));
    vvi_profile_instant(t, "train", "epoch_end");
    VV_TRY(vvi_engine_fire(t, VV_EVENT_EPOCH_END));
    VV_TRY(vvi_log_mark(t, "epoch"));
    return close_span(t, VV_EVENT_EPOCH_END, VV_EVENT_EPOCH_CHECKPOINT);
}

/* Called within an epoch, or once the epoch at whose end the iteration ends is over. */
static vv_status end_iteration(vv_trainer *t)
{
    vv_state *s = &t->state;
    t->previous = s->time;
    vvi_iteration_next(&s->time);
    VV_TRY(vvi_engine_fire(t, VV_EVENT_ITERATION_END));
    return close_span(t, VV_EVENT_ITERATION_END, VV_EVENT_ITERATION_CHECKPOINT);
}

/* Ctrl-C: what is done so far is saved, then the run leaves. An evaluation at the very end is made
   up for with the rest of the end, from the checkpoint before it. */
static vv_status leave_early(vv_trainer *t)
{
    const vv_state *s = &t->state;
    if (t->checkpoint_dir && t->put_off != VV_EVENT_FIT_END &&
        t->save_every.last_batch != s->time.batch)
        VV_TRY(vvi_checkpoint_save(t));
    return vv_fail(VV_EINTERRUPTED, "stopped by the user after batch %lld, %.1f%% of the run%s",
                   (long long)s->time.batch, 100.0 * s->progress,
                   t->checkpoint_dir ? "; the same command goes on from here" : "");
}

static bool leave_asked(vv_trainer *t)
{
    return vvi_interrupted(t) && !vvi_run_over(t);
}

static bool within_epoch(const vv_trainer *t)
{
    const vv_state *s = &t->state;
    return s->time.batch_in_epoch < vv_axis_epoch_batches(&s->axis, s->time.epoch);
}

/* What begins with the next batch. An iteration that had its length when the checkpoint was written
   ends first. */
static vv_status begin_epoch(vv_trainer *t)
{
    vv_state *s = &t->state;
    if (within_epoch(t) && vvi_iteration_ends(t->iteration_length, &s->time))
        VV_TRY(end_iteration(t));
    if (s->time.batch_in_iteration == 0)
        VV_TRY(vvi_engine_fire(t, VV_EVENT_ITERATION_START));
    if (s->time.batch_in_epoch == 0)
        VV_TRY(vvi_engine_fire(t, VV_EVENT_EPOCH_START));
    return vv_loader_seek(t->train, s->time.epoch, s->time.batch_in_epoch);
}

/* Ends the epoch if it is complete, then the iteration if it is. */
static vv_status end_spans(vv_trainer *t, bool no_more_batches)
{
    const vv_state *s = &t->state;
    if (no_more_batches || !within_epoch(t))
        VV_TRY(end_epoch(t));
    return vvi_iteration_ends(t->iteration_length, &s->time) ? end_iteration(t) : VV_OK;
}

/* A batch could not be had (a disk, a server): what was trained since the last checkpoint is saved,
   so that the same command goes on behind it. The sentence stays that of the failure. */
static vv_status leave_without_data(vv_trainer *t, vv_status status, bool trained)
{
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", vv_error());
    const bool save = trained && t->checkpoint_dir &&
                      t->save_every.last_batch != t->state.time.batch;
    const bool saved = save && vvi_checkpoint_save(t) == VV_OK;
    return vv_fail(status, "%s%s", sentence,
                   saved ? "; what was trained is saved, the same command goes on from here" : "");
}

static vv_status fit_epoch(vv_trainer *t)
{
    vv_state *s = &t->state;
    bool no_more = false, trained = false;
    VV_TRY(begin_epoch(t));
    for (;;) {
        vvi_profile_batch(t);
        double start = vv_clock();
        VV_TRY(vvi_engine_fire(t, VV_EVENT_BEFORE_DATALOADER));
        const double began = vvi_profile_begin(t);
        const vv_status status = vv_loader_next(t->train, &s->batch);
        if (status != VV_OK)
            return leave_without_data(t, status, trained);
        vvi_profile_end(t, began, "loader", "wait", NULL);
        no_more = !s->batch;
        if (no_more)
            break;
        VV_TRY(train_batch(t, start));
        trained = true;
        if (leave_asked(t))
            return leave_early(t);
        if (vvi_run_over(t))
            break;
        if (within_epoch(t) && vvi_iteration_ends(t->iteration_length, &s->time)) {
            VV_TRY(end_iteration(t));
            VV_TRY(vvi_engine_fire(t, VV_EVENT_ITERATION_START));
        }
    }
    VV_TRY(end_spans(t, no_more));
    return leave_asked(t) ? leave_early(t) : VV_OK;
}

static vv_status fit_end(vv_trainer *t)
{
    VV_TRY(vvi_engine_fire(t, VV_EVENT_FIT_END));
    VV_TRY(vvi_evaluate_due(t, VV_EVENT_FIT_END));
    t->finished = true;
    VV_TRY(vvi_log_mark(t, "end"));
    /* Once more: now it says that the run is finished, and holds what FIT_END did to the
       weights. */
    if (t->checkpoint_dir && !t->save_every.never)
        VV_TRY(vvi_checkpoint_save(t));
    return VV_OK;
}

static vv_status fit_run(vv_trainer *t)
{
    const vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_FIT_START));
    VV_TRY(catch_up(t));
    /* A run that was killed between its last checkpoint and its end. */
    bool tail = vvi_run_over(t) || t->stopped;
    if (tail && s->time.batch > 0)
        VV_TRY(end_spans(t, false));
    while (!tail && !vvi_run_over(t))
        VV_TRY(fit_epoch(t));
    return fit_end(t);
}

static vv_status write_text(const vv_trainer *t, const char *name, const vv_str *text)
{
    char *path = NULL;
    vv_status status = vvi_path_join(&path, t->run_dir, name);
    if (status == VV_OK)
        status = vvi_file_write_atomic(path, vv_str_text(text), text->length);
    vv_dealloc(path);
    return status;
}

/* recipe.yaml and plan.txt: what was asked for, and what will be done. */
static vv_status write_head(vv_trainer *t)
{
    if (!t->run_dir)
        return VV_OK;
    vv_str text = {0};
    vv_status status = vv_trainer_plan(t, &text);
    if (status == VV_OK)
        status = write_text(t, "plan.txt", &text);
    vv_str_clear(&text);
    vv_str_add(&text, t->recipe_text ? t->recipe_text : "");
    if (status == VV_OK)
        status = vv_str_status(&text);
    if (status == VV_OK && t->recipe_text)
        status = write_text(t, "recipe.yaml", &text);
    vv_str_fini(&text);
    return status;
}

static vv_status check_ready(const vv_trainer *t)
{
    if (!t->train)
        return vv_fail(VV_ESTATE, "vv_trainer_fit: the trainer has no training data; set `train`");
    if (!t->state.optimizer)
        return vv_fail(VV_ESTATE, "vv_trainer_fit: the model has no parameters to train");
    return t->fitting ? vv_fail(VV_ESTATE, "vv_trainer_fit: it runs already") : VV_OK;
}

bool vv_trainer_finished(const vv_trainer *t)
{
    return t->finished && (t->stopped || vvi_run_over(t));
}

vv_status vv_trainer_fit(vv_trainer *t)
{
    VV_TRY(check_ready(t));
    vv_state *s = &t->state;
    if (vv_trainer_finished(t)) {
        t->run_status = VVI_RUN_DONE;
        return VV_OK;
    }
    t->finished = false;
    s->stop = false;
    VV_TRY(write_head(t));
    VV_TRY(vvi_log_open(t));
    t->fitting = true;
    t->wall_start = vv_clock();
    vv_module_set_training(s->model->net, true);
    vv_status status = vvi_summary_write(t, VVI_RUN_RUNNING);
    if (status == VV_OK)
        status = fit_run(t);
    if (status == VV_EINTERRUPTED && t->put_off != VV_EVENT_COUNT)
        status = leave_early(t);
    vv_batch_free(s->batch); /* of a batch that failed */
    s->batch = NULL;
    vv_graph_reset(t->graph);
    vvi_run_status ended = status == VV_OK               ? VVI_RUN_DONE
                           : status == VV_EINTERRUPTED ? VVI_RUN_INTERRUPTED
                                                         : VVI_RUN_FAILED;
    if (status == VV_OK) {
        vvi_profile_finish(t);
        status = vvi_summary_write(t, ended);
    } else { /* the first failure's sentence is the one to keep */
        vv_str sentence = {0};
        vv_str_add(&sentence, vv_error());
        vvi_profile_finish(t);
        if (vvi_summary_write(t, ended) != VV_OK)
            t->run_status = ended;
        status = vv_fail(status, "%s", vv_str_text(&sentence));
        vv_str_fini(&sentence);
    }
    t->wall_before = vvi_wall_seconds(t);
    t->fitting = false;
    atomic_store(&t->interrupted, 0);
    return status;
}

void vv_trainer_interrupt(vv_trainer *t)
{
    atomic_store(&t->interrupted, 1);
}
