/* restore.c - reading a run's state back: everything, or the weights only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "record.h"
#include "trainer_impl.h"

typedef struct source {
    const vv_safetensors *file;
    const char *prefix;
} source;

static const vv_tensor *find_tensor(void *ctx, const char *name)
{
    const source *s = ctx;
    vv_str full = {0};
    vv_str_add(&full, s->prefix);
    vv_str_add(&full, name);
    const vv_tensor *found = vv_str_status(&full) == VV_OK
                                 ? vv_safetensors_find(s->file, vv_str_text(&full))
                                 : NULL;
    vv_str_fini(&full);
    return found;
}

/* ---- weights ---- */

typedef struct seen {
    const char *name;
    bool found;
} seen;

static bool same_name(void *ctx, const char *name, vv_tensor *tensor)
{
    (void)tensor;
    seen *s = ctx;
    s->found = strcmp(s->name, name) == 0;
    return !s->found;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* A weight in the file that the model does not have: the two do not belong together. (PyTorch
   counts batches in batch norms; nothing reads that.) */
static vv_status check_unexpected(vv_trainer *t, const vv_safetensors *file)
{
    for (int i = 0; i < vv_safetensors_count(file); i++) {
        const char *name = vv_safetensors_name(file, i);
        if (strncmp(name, "vivace/", 7) == 0 || ends_with(name, ".num_batches_tracked"))
            continue;
        seen s = {name, false};
        vv_module_each_state(t->state.model->net, same_name, &s);
        if (!s.found)
            return vv_fail(VV_EFORMAT,
                           "it holds the weight \"%s\", which this model does not have; use the "
                           "model (and the surgery methods) it was made with", name);
    }
    return VV_OK;
}

static vv_status load_weights(vv_trainer *t, const vv_safetensors *file)
{
    source weights = {file, ""};
    int loaded = 0;
    VV_TRY(check_unexpected(t, file));
    return vv_module_load(t->state.model->net, find_tensor, &weights, true, &loaded);
}

/* ---- numbers ---- */

static vv_status get_int(const json_t *object, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        return vv_fail(VV_EFORMAT, "its state lacks the whole number \"%s\"", key);
    *out = json_integer_value(value);
    return VV_OK;
}

/* null stands for NaN. */
static vv_status get_double(const json_t *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value) && !json_is_null(value))
        return vv_fail(VV_EFORMAT, "its state lacks the number \"%s\"", key);
    *out = json_is_null(value) ? (double)NAN : json_number_value(value);
    return VV_OK;
}

static vv_status load_clock(const json_t *state, const char *key, vv_timestamp *now)
{
    const json_t *time = json_object_get(state, key);
    const struct {
        const char *key;
        int64_t *out;
    } counts[] = {
        {"iteration", &now->iteration},
        {"epoch", &now->epoch},
        {"batch", &now->batch},
        {"sample", &now->sample},
        {"token", &now->token},
        {"epoch_in_iteration", &now->epoch_in_iteration},
        {"token_in_iteration", &now->token_in_iteration},
        {"batch_in_epoch", &now->batch_in_epoch},
        {"sample_in_epoch", &now->sample_in_epoch},
        {"token_in_epoch", &now->token_in_epoch},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        VV_TRY(get_int(time, counts[i].key, counts[i].out));
    /* Files from before iterations had a length: all of the run was one. */
    now->batch_in_iteration = now->batch;
    if (json_object_get(time, "batch_in_iteration"))
        VV_TRY(get_int(time, "batch_in_iteration", &now->batch_in_iteration));
    VV_TRY(get_double(time, "total_seconds", &now->total_seconds));
    VV_TRY(get_double(time, "iteration_seconds", &now->iteration_seconds));
    VV_TRY(get_double(time, "epoch_seconds", &now->epoch_seconds));
    return get_double(time, "batch_seconds", &now->batch_seconds);
}

static vv_status load_evaluators(vv_trainer *t, const json_t *state)
{
    size_t i;
    const json_t *saved;
    json_array_foreach(json_object_get(state, "evaluators"), i, saved) {
        const char *label = json_string_value(json_object_get(saved, "label"));
        for (int j = 0; label && j < t->evaluator_count; j++) {
            vvi_evaluator *e = &t->evaluators[j];
            if (strcmp(e->label, label) != 0)
                continue;
            VV_TRY(get_int(saved, "last_batch", &e->interval.last_batch));
            const json_t *metrics = json_object_get(saved, "metrics");
            for (int k = 0; k < e->metric_count; k++) {
                vvi_metric *m = &e->metrics[k];
                const json_t *value = json_object_get(metrics, m->name);
                if (!value)
                    continue;
                VV_TRY(get_double(value, "value", &m->value));
                VV_TRY(get_double(value, "best", &m->best));
                VV_TRY(get_int(value, "best_batch", &m->best_batch));
                m->valid = true;
            }
        }
    }
    return VV_OK;
}

static bool apply_frozen(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)owner;
    size_t i;
    const json_t *name;
    param->frozen = false;
    json_array_foreach((const json_t *)ctx, i, name)
        if (json_is_string(name) && strcmp(json_string_value(name), path) == 0)
            param->frozen = true;
    return true;
}

/* An evaluation that the interruption put off, and the clock before its batch: it tells what is
   due. */
static vv_status load_put_off(vv_trainer *t, const json_t *state)
{
    static const vv_event events[] = {VV_EVENT_BATCH_END, VV_EVENT_EPOCH_END,
                                      VV_EVENT_ITERATION_END};
    const char *name = json_string_value(json_object_get(state, "put_off"));
    t->previous = t->state.time;
    t->put_off = VV_EVENT_COUNT;
    for (size_t i = 0; name && i < sizeof events / sizeof *events; i++)
        if (strcmp(vv_event_name(events[i]), name) == 0)
            t->put_off = events[i];
    return t->put_off == VV_EVENT_COUNT ? VV_OK : load_clock(state, "previous", &t->previous);
}

static vv_status load_numbers(vv_trainer *t, const json_t *state, bool resuming)
{
    vv_state *s = &t->state;
    VV_TRY(load_clock(state, "time", &s->time));
    VV_TRY(load_put_off(t, state));
    VV_TRY(get_int(state, "last_save", &t->save_every.last_batch));
    VV_TRY(get_double(state, "train_loss", &s->train_loss));
    VV_TRY(vvi_train_metrics_load(t, json_object_get(state, "train_metrics")));
    VV_TRY(get_double(state, "eval_seconds", &t->eval_seconds));
    VV_TRY(get_double(state, "wall_seconds", &t->wall_before));
    const char *seed = json_string_value(json_object_get(state, "seed"));
    if (!seed)
        return vv_fail(VV_EFORMAT, "its state lacks the seed");
    uint64_t saved_seed = strtoull(seed, NULL, 10);
    if (saved_seed != s->seed)
        vv_log_message(
            s, "the checkpoint's seed replaces the run's, so that the run goes on as it was");
    s->seed = saved_seed;

    /* A run that a callback stopped stays stopped, unless the user changed the duration. */
    char duration[64];
    const char *saved = json_string_value(json_object_get(state, "max_duration"));
    bool same =
        saved && strcmp(saved, vv_time_text(t->max_duration, duration, sizeof duration)) == 0;
    t->stopped = same && json_is_true(json_object_get(state, "stopped"));
    t->finished = json_is_true(json_object_get(state, "finished"));

    const char *precision = json_string_value(json_object_get(state, "precision"));
    if (precision && strcmp(precision, vvi_precision_name(s->precision)) != 0)
        vv_log_message(
            s, "the checkpoint was trained in another precision; the run goes on in this one");

    if (resuming) {
        VV_TRY(get_int(state, "log_bytes", &t->log_bytes));
        const char *pending = json_string_value(json_object_get(state, "log_pending"));
        vv_str_clear(&t->pending);
        vv_str_add(&t->pending, pending ? pending : "");
    }
    vv_module_each_param(s->model->net, apply_frozen, json_object_get(state, "frozen"));
    return load_evaluators(t, state);
}

/* ---- methods and callbacks ---- */

static const json_t *saved_method(const json_t *state, const char *name)
{
    size_t i;
    const json_t *method;
    json_array_foreach(json_object_get(state, "methods"), i, method) {
        const char *saved = json_string_value(json_object_get(method, "name"));
        if (saved && strcmp(saved, name) == 0)
            return method;
    }
    return NULL;
}

/* A method that changed the model must be there again, or the weights mean something else. */
static vv_status check_methods(vv_trainer *t, const json_t *state)
{
    size_t i;
    const json_t *method;
    json_array_foreach(json_object_get(state, "methods"), i, method) {
        const char *name = json_string_value(json_object_get(method, "name"));
        bool present = false;
        for (int j = 0; name && j < t->method_count; j++)
            present = present || strcmp(t->methods[j]->type->desc.name, name) == 0;
        if (!name || present)
            continue;
        if (json_is_true(json_object_get(method, "required_on_load")))
            return vv_fail(VV_EINVAL,
                           "it was made with the method %s, without which its weights do not fit; "
                           "add %s to the run's methods", name, name);
        vv_str text = {0};
        vv_str_addf(&text,
                    "the checkpoint was made with the method %s, which this run does not have",
                    name);
        vv_log_message(&t->state, vv_str_text(&text));
        vv_str_fini(&text);
    }
    return VV_OK;
}

static vv_status read_record(const vv_safetensors *file, const char *kind, const char *name,
                             vv_record **out)
{
    vv_str prefix = {0};
    vv_str_addf(&prefix, "vivace/%s/%s/", kind, name);
    vv_status status = vv_str_status(&prefix);
    if (status == VV_OK)
        status = vvi_record_read(out, file, vv_str_text(&prefix));
    vv_str_fini(&prefix);
    return status;
}

static vv_status load_methods(vv_trainer *t, const vv_safetensors *file, const json_t *state)
{
    for (int i = 0; i < t->method_count; i++) {
        vv_method *m = t->methods[i];
        const char *name = m->type->desc.name;
        if (!m->type->load || !saved_method(state, name))
            continue;
        vv_record *record = NULL;
        vv_status status = read_record(file, "method", name, &record);
        if (status == VV_OK)
            status = m->type->load(m, record);
        vv_record_free(record);
        VV_TRY(vv_fail_within(status, "method %s", name));
    }
    return VV_OK;
}

static vv_status load_callbacks(vv_trainer *t, const vv_safetensors *file, const json_t *state)
{
    const json_t *saved = json_object_get(state, "callbacks");
    for (int i = 0; i < t->callback_count; i++) {
        vv_callback *c = t->callbacks[i];
        const char *name = json_string_value(json_array_get(saved, (size_t)i));
        if (!c->type->load || !name || strcmp(name, c->type->desc.name) != 0)
            continue;
        char position[16];
        snprintf(position, sizeof position, "%d", i);
        vv_record *record = NULL;
        vv_status status = read_record(file, "callback", position, &record);
        if (status == VV_OK)
            status = c->type->load(c, record);
        vv_record_free(record);
        VV_TRY(vv_fail_within(status, "callback %s", name));
    }
    return VV_OK;
}

static vv_status load_optimizer(vv_trainer *t, const vv_safetensors *file, const json_t *state)
{
    vv_state *s = &t->state;
    if (!s->optimizer)
        return VV_OK;
    const char *name = json_string_value(json_object_get(state, "optimizer"));
    const char *ours = vv_optimizer_type(s->optimizer)->desc.name;
    if (!name || strcmp(name, ours) != 0)
        return vv_fail(VV_EINVAL,
                       "it holds the state of the optimizer %s, the run uses %s; load the weights "
                       "only, or use the same optimizer", name && name[0] ? name : "(none)", ours);
    source from = {file, "vivace/optimizer/"};
    return vv_optimizer_load(s->optimizer, s->model->net, find_tensor, &from);
}

static vv_status load_all(vv_trainer *t, const vv_safetensors *file, const json_t *state,
                          bool resuming)
{
    VV_TRY(check_methods(t, state));
    VV_TRY(load_weights(t, file));
    VV_TRY(load_optimizer(t, file, state));
    VV_TRY(load_numbers(t, state, resuming));
    VV_TRY(load_methods(t, file, state));
    VV_TRY(load_callbacks(t, file, state));
    t->averaged = true; /* as saved: the trained weights lie where the averages belong */
    vvi_weights_average(t, false);
    t->state.max_duration =
        t->stopped ? vv_time_of(t->state.time.batch, VV_UNIT_BATCH) : t->max_duration;
    vvi_set_progress(t);
    return VV_OK;
}

vv_status vvi_restore(vv_trainer *t, const vv_safetensors *file, const char *path,
                      bool weights_only)
{
    vv_status status = VV_OK;
    json_t *state = NULL;
    if (weights_only) {
        VV_GO(load_weights(t, file));
        goto out;
    }
    const char *text = vv_safetensors_text(file, "vivace.state");
    if (!text) {
        status =
            vv_fail(VV_EFORMAT, "it holds weights but no training state; load the weights only");
        goto out;
    }
    json_error_t error;
    state = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    int64_t format = 0;
    if (!state) {
        status = vv_fail(VV_EFORMAT, "its state is not JSON: %s", error.text);
        goto out;
    }
    VV_GO(get_int(state, "format", &format));
    if (format != 1) {
        status = vv_fail(VV_EUNSUPPORTED, "its state has format %lld; this version reads format 1",
                         (long long)format);
        goto out;
    }
    VV_GO(load_all(t, file, state, t->resumed));
out:
    json_decref(state);
    return vv_fail_within(status, "checkpoint %s", path);
}

/* ---- going back in the middle of a run ---- */

/* What learns, without the clock. */
static vv_status roll_back_to(vv_trainer *t, const vv_safetensors *file, int64_t *batch)
{
    const char *text = vv_safetensors_text(file, "vivace.state");
    json_error_t error;
    json_t *state = text ? json_loads(text, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!state)
        return vv_fail(VV_EFORMAT, "it holds no training state");
    vv_status status;
    VV_GO(get_int(json_object_get(state, "time"), "batch", batch));
    VV_GO(load_weights(t, file));
    VV_GO(load_optimizer(t, file, state));
    vv_module_each_param(t->state.model->net, apply_frozen, json_object_get(state, "frozen"));
    VV_GO(load_methods(t, file, state));
    t->averaged = true; /* as saved */
    vvi_weights_average(t, false);
out:
    json_decref(state);
    return status;
}

vv_status vv_state_roll_back(vv_state *state, int64_t *batch)
{
    vv_trainer *t = state->trainer;
    int64_t at = 0;
    if (!t->in_step)
        return vv_fail(VV_ESTATE, "vv_state_roll_back: only at AFTER_TRAIN_BATCH");
    if (!t->checkpoint_dir)
        return vv_fail(VV_ENOTFOUND, "there is no checkpoint to go back to: the run has no folder");
    vv_safetensors *file = NULL;
    char *path = NULL;
    vv_str told = {0};
    vv_status status = vvi_checkpoint_find(t->checkpoint_dir, &file, &path, &told);
    if (status == VV_OK && !file)
        status = vv_fail(VV_ENOTFOUND, "there is no checkpoint to go back to in %s",
                         t->checkpoint_dir);
    else if (status == VV_OK)
        status = vv_fail_within(roll_back_to(t, file, &at), "checkpoint %s", path);
    if (status == VV_OK)
        state->skip_step = true;
    if (batch)
        *batch = at;
    vv_str_fini(&told);
    vv_dealloc(path);
    vv_safetensors_close(file);
    return status;
}

vv_status vv_trainer_load(vv_trainer *t, const char *path, bool weights_only)
{
    if (!path || t->fitting)
        return vv_fail(path ? VV_ESTATE : VV_EINVAL, "vv_trainer_load: %s",
                       path ? "not while fit runs" : "no path");
    vv_safetensors *file = NULL;
    vv_status status = vvi_engine_fire(t, VV_EVENT_BEFORE_LOAD);
    if (status == VV_OK)
        status = vv_safetensors_open(&file, path);
    if (status == VV_OK)
        status = vvi_restore(t, file, path, weights_only);
    vv_safetensors_close(file);
    return status == VV_OK ? vvi_engine_fire(t, VV_EVENT_AFTER_LOAD) : status;
}
