/* restore.c - reading a run's state back: everything, or the weights only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "nn/model_weights.h"
#include "restore.h"
#include "trainer_impl.h"

typedef struct source {
    const vv_safetensors *file;
    const char *prefix; /* "vivace/optimizer/" */
    vv_trainer *trainer;
} source;

static const vv_tensor *find_tensor(void *ctx, const char *name)
{
    const source *s = ctx;
    vv_str full = {0};
    vv_str_add(&full, s->prefix);
    vv_str_add(&full, name);
    const char *text = vv_str_text(&full);
    const vv_tensor *found = NULL;
    if (vv_str_status(&full) == VV_OK && !vvi_patterns_match(&s->trainer->loading.ignore, text + 7))
        found = vv_safetensors_find(s->file, text);
    vv_str_fini(&full);
    return found;
}

/* ---- numbers ---- */

vv_status vvi_get_int(const json_t *object, const char *key, int64_t *out)
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
        VV_TRY(vvi_get_int(time, counts[i].key, counts[i].out));
    /* Files from before iterations had a length: all of the run was one. */
    now->batch_in_iteration = now->batch;
    if (json_object_get(time, "batch_in_iteration"))
        VV_TRY(vvi_get_int(time, "batch_in_iteration", &now->batch_in_iteration));
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
            VV_TRY(vvi_get_int(saved, "last_batch", &e->interval.last_batch));
            const json_t *metrics = json_object_get(saved, "metrics");
            for (int k = 0; k < e->metric_count; k++) {
                vvi_metric *m = &e->metrics[k];
                const json_t *value = json_object_get(metrics, m->name);
                if (!value)
                    continue;
                VV_TRY(get_double(value, "value", &m->value));
                VV_TRY(get_double(value, "best", &m->best));
                VV_TRY(vvi_get_int(value, "best_batch", &m->best_batch));
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

/* The sampler goes on where it was: with its seed, and batches as large as they were. */
static vv_status load_sampler(vv_trainer *t, const json_t *state, const vv_timestamp *now,
                              vv_str *told)
{
    const json_t *data = json_object_get(state, "data");
    const char *seed = json_string_value(json_object_get(data, "seed"));
    int64_t size = 0, batches = 0;
    if (!t->train || !data)
        return VV_OK;
    VV_TRY(vvi_get_int(data, "batch_size", &size));
    VV_TRY(vvi_get_int(data, "batches_per_epoch", &batches));
    bool same = size == vv_loader_batch_size(t->train) &&
                batches == vv_loader_batch_count(t->train);
    const bool stages = vvi_stages_same(t, json_object_get(data, "stages"));
    if (!stages && now->batch_in_epoch > 0)
        return vv_fail(
            VV_EINVAL,
            "it stands in the middle of an epoch, and the run's batches change in size at "
            "other points or to other sizes than the checkpoint's; use the same batch "
            "sizes, or take the weights only (load_weights_only)");
    if (!stages)
        vv_str_add(told, "batches have other sizes than until the checkpoint\n");
    if (!same && now->batch_in_epoch > 0)
        return vv_fail(
            VV_EINVAL,
            "it stands in the middle of an epoch of %lld batches of %lld samples, the "
            "run has %lld of %lld; use the same data and batch_size, or take the weights "
            "only (load_weights_only)",
            (long long)batches, (long long)size, (long long)vv_loader_batch_count(t->train),
            (long long)vv_loader_batch_size(t->train));
    if (!same && stages)
        vv_str_addf(told, "epochs had %lld batches of %lld samples until the checkpoint, and have "
                          "%lld of %lld from here on\n", (long long)batches, (long long)size,
                    (long long)vv_loader_batch_count(t->train),
                    (long long)vv_loader_batch_size(t->train));
    return seed ? vv_loader_set_seed(t->train, strtoull(seed, NULL, 10)) : VV_OK;
}

static vv_status load_seed(vv_trainer *t, const json_t *state, vv_str *told)
{
    const char *seed = json_string_value(json_object_get(state, "seed"));
    if (!seed)
        return vv_fail(VV_EFORMAT, "its state lacks the seed");
    uint64_t saved_seed = strtoull(seed, NULL, 10);
    if (saved_seed != t->state.seed)
        vv_str_add(told, "the checkpoint's seed replaces the run's, so that the run goes on as it "
                         "was\n");
    t->state.seed = saved_seed;
    return VV_OK;
}

/* Other libraries, threads or precision: the run goes on, but not bit by bit as it would have. */
static vv_status compare_machine(const vv_trainer *t, const json_t *state, vv_str *told)
{
    vv_str text = {0};
    const char *key;
    json_t *now;
    const json_t *then = json_object_get(state, "machine");
    if (!then)
        return VV_OK;
    vv_str_add(&text, "{");
    vvi_machine_json(t, &text);
    vv_str_add(&text, "}");
    json_t *ours = json_loads(vv_str_text(&text), 0, NULL);
    vv_str_fini(&text);
    if (!ours)
        return vv_fail(VV_ENOMEM, "out of memory while reading the checkpoint's state");
    json_object_foreach(ours, key, now)
    {
        const json_t *was = json_object_get(then, key);
        if (!was || json_equal(was, now))
            continue;
        if (json_is_integer(now))
            vv_str_addf(told, "%s: %lld until the checkpoint, %lld from here on", key,
                        (long long)json_integer_value(was), (long long)json_integer_value(now));
        else
            vv_str_addf(told, "%s: %s until the checkpoint, %s from here on", key,
                        json_is_string(was) ? json_string_value(was) : "?",
                        json_string_value(now));
        vv_str_add(told, "; numbers may differ in their last bits from an uninterrupted run's\n");
    }
    json_decref(ours);
    return vv_str_status(told);
}

static bool ignored(vv_trainer *t, const char *path)
{
    return vvi_patterns_match(&t->loading.ignore, path);
}

static vv_status load_time(vv_trainer *t, const json_t *state, bool resuming, vv_str *told)
{
    vv_state *s = &t->state;
    vv_timestamp now = {0};
    VV_TRY(load_clock(state, "time", &now));
    VV_TRY(load_sampler(t, state, &now, told));
    s->time = now;
    VV_TRY(load_put_off(t, state));
    VV_TRY(vvi_get_int(state, "last_save", &t->save_every.last_batch));
    if (resuming && json_object_get(state, "saves"))
        VV_TRY(vvi_get_int(state, "saves", &t->saver.saves));
    VV_TRY(get_double(state, "train_loss", &s->train_loss));
    VV_TRY(vvi_train_metrics_load(t, json_object_get(state, "train_metrics")));
    VV_TRY(get_double(state, "eval_seconds", &t->eval_seconds));
    VV_TRY(get_double(state, "wall_seconds", &t->wall_before));
    /* A run that a callback stopped stays stopped, unless the user changed the duration. */
    char duration[64];
    const char *saved = json_string_value(json_object_get(state, "max_duration"));
    bool same =
        saved && strcmp(saved, vv_time_text(t->max_duration, duration, sizeof duration)) == 0;
    t->stopped = same && json_is_true(json_object_get(state, "stopped"));
    t->finished = json_is_true(json_object_get(state, "finished"));

    if (resuming) {
        VV_TRY(vvi_get_int(state, "log_bytes", &t->log_bytes));
        const char *pending = json_string_value(json_object_get(state, "log_pending"));
        vv_str_clear(&t->pending);
        vv_str_add(&t->pending, pending ? pending : "");
    }
    return VV_OK;
}

static vv_status load_optimizer(vv_trainer *t, const vv_safetensors *file, const json_t *state)
{
    vv_state *s = &t->state;
    source from = {file, "vivace/optimizer/", t};
    if (!s->optimizer)
        return VV_OK;
    if (ignored(t, "optimizer")) {
        if (vv_optimizer_averages(s->optimizer))
            vv_optimizer_swap(s->optimizer); /* taken back when the averages are put away */
        return VV_OK;
    }
    const char *name = json_string_value(json_object_get(state, "optimizer"));
    const char *ours = vv_optimizer_type(s->optimizer)->desc.name;
    if (!name || strcmp(name, ours) != 0)
        return vv_fail(VV_EINVAL,
                       "it holds the state of the optimizer %s, the run uses %s; load the weights "
                       "only, ignore the optimizer (load_ignore: optimizer), or use the same one",
                       name && name[0] ? name : "(none)", ours);
    if (t->loading.partial || t->loading.ignore.count)
        return vv_optimizer_load_partial(s->optimizer, s->model->net, find_tensor, &from);
    return vv_optimizer_load(s->optimizer, s->model->net, find_tensor, &from);
}

static vv_status load_weights(vv_trainer *t, const vv_safetensors *file, vv_str *told)
{
    return vvi_model_load(t->state.model, file, !t->loading.partial, t->loading.new_head,
                          &t->loading.ignore, told, NULL);
}

/* As saved, the trained weights lie where the averages belong. */
static void put_averages_away(vv_trainer *t)
{
    t->averaged = true;
    vvi_weights_average(t, false);
}

static vv_status load_all(vv_trainer *t, const vv_safetensors *file, const json_t *state,
                          bool resuming, vv_str *told)
{
    VV_TRY(load_weights(t, file, told));
    VV_TRY(load_optimizer(t, file, state));
    if (!ignored(t, "seed"))
        VV_TRY(load_seed(t, state, told));
    if (!ignored(t, "time"))
        VV_TRY(load_time(t, state, resuming, told));
    if (!ignored(t, "frozen"))
        vv_module_each_param(t->state.model->net, apply_frozen, json_object_get(state, "frozen"));
    if (!ignored(t, "metrics"))
        VV_TRY(load_evaluators(t, state));
    VV_TRY(compare_machine(t, state, told));
    VV_TRY(vvi_restore_methods(t, file, state, told));
    VV_TRY(vvi_restore_callbacks(t, file, state, told));
    put_averages_away(t);
    t->state.max_duration =
        t->stopped ? vv_time_of(t->state.time.batch, VV_UNIT_BATCH) : t->max_duration;
    vvi_set_progress(t);
    return VV_OK;
}

vv_status vvi_restore_state(json_t **out, const vv_safetensors *file)
{
    const char *text = vv_safetensors_text(file, "vivace.state");
    json_error_t error;
    int64_t format = 0;
    *out = NULL;
    if (!text)
        return VV_OK;
    *out = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!*out)
        return vv_fail(json_error_code(&error) == json_error_out_of_memory ? VV_ENOMEM : VV_EFORMAT,
                       "its state is not JSON: %s", error.text);
    vv_status status = vvi_get_int(*out, "format", &format);
    if (status == VV_OK && format != 1)
        status = vv_fail(VV_EUNSUPPORTED,
                         "its state has format %lld; this version reads format 1",
                         (long long)format);
    if (status != VV_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

vv_status vvi_restore(vv_trainer *t, const vv_safetensors *file, const char *path,
                      bool weights_only)
{
    vv_status status;
    json_t *state = NULL;
    vv_str told = {0};
    for (int i = 0; i < t->loading.ignore.count; i++)
        t->loading.ignore.items[i].used = false;
    if (weights_only) {
        VV_GO(load_weights(t, file, &told));
    } else {
        VV_GO(vvi_restore_state(&state, file));
        if (!state || json_is_false(json_object_get(state, "full")))
            VV_GO(vv_fail(VV_EFORMAT, "it holds weights but no training state; load the weights "
                                      "only (load_weights_only)"));
        VV_GO(load_all(t, file, state, t->resumed, &told));
    }
    for (int i = 0; i < t->loading.ignore.count; i++)
        if (!t->loading.ignore.items[i].used)
            vv_str_addf(&told, "load_ignore: \"%s\" matches nothing in the checkpoint\n",
                        t->loading.ignore.items[i].text);
    VV_GO(vv_str_status(&told));
    vvi_tell_lines(t, &told);
out:
    json_decref(state);
    vv_str_fini(&told);
    return vv_fail_within(status, "checkpoint %s", path);
}

vv_status vvi_restore_learned(vv_trainer *t, const vv_safetensors *file, int64_t *batch)
{
    json_t *state;
    vv_str told = {0};
    VV_TRY(vvi_restore_state(&state, file));
    vv_status status = state ? VV_OK : vv_fail(VV_EFORMAT, "it holds no training state");
    if (status != VV_OK)
        goto out;
    VV_GO(vvi_get_int(json_object_get(state, "time"), "batch", batch));
    VV_GO(load_weights(t, file, &told));
    VV_GO(load_optimizer(t, file, state));
    vv_module_each_param(t->state.model->net, apply_frozen, json_object_get(state, "frozen"));
    VV_GO(vvi_restore_methods(t, file, state, &told));
    put_averages_away(t);
out:
    vv_str_fini(&told);
    json_decref(state);
    return status;
}

/* ---- settings ---- */

vv_status vvi_loading_init(vvi_loading *loading, const vv_load_opts *o)
{
    loading->partial = o->partial;
    loading->new_head = o->new_head;
    loading->find_method = o->find_method;
    VV_TRY(vvi_patterns_parse(&loading->exclude_methods, o->exclude_methods));
    VV_TRY(vvi_patterns_parse(&loading->ignore, o->ignore));
    for (int i = 0; i < loading->ignore.count; i++) {
        char *text = loading->ignore.items[i].text;
        if (strncmp(text, "state/", 6) == 0)
            memmove(text, text + 6, strlen(text + 6) + 1);
    }
    return VV_OK;
}

void vvi_loading_fini(vvi_loading *loading)
{
    vvi_patterns_fini(&loading->ignore);
    vvi_patterns_fini(&loading->exclude_methods);
}
