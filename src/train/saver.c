/* saver.c - checkpoints in the run's folder: when, under which names, and which are kept. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "profile.h"
#include "tensor/safetensors_zstd.h"
#include "trainer_impl.h"

/* ---- settings, checked before step 0 ---- */

/* "accuracy" or "eval/accuracy" -> evaluator and metric; "" = the first of the first. */
static vv_status find_metric(vv_trainer *t, const char *text)
{
    vvi_saver *s = &t->saver;
    const char *slash = text ? strrchr(text, '/') : NULL;
    const char *metric = slash ? slash + 1 : text ? text : "";
    for (int i = 0; i < t->evaluator_count; i++) {
        const vvi_evaluator *e = &t->evaluators[i];
        if (slash && (strlen(e->label) != (size_t)(slash - text) ||
                      strncmp(e->label, text, (size_t)(slash - text)) != 0))
            continue;
        for (int j = 0; j < e->metric_count; j++)
            if (!metric[0] || strcmp(e->metrics[j].name, metric) == 0) {
                s->evaluator = i;
                s->metric = j;
                return VV_OK;
            }
    }
    vv_str known = {0};
    for (int i = 0; i < t->evaluator_count; i++)
        for (int j = 0; j < t->evaluators[i].metric_count; j++)
            vv_str_addf(&known, "%s%s/%s", known.length ? ", " : "", t->evaluators[i].label,
                        t->evaluators[i].metrics[j].name);
    vv_status status =
        known.length ? vv_fail(VV_ENOTFOUND, "save_best_metric: no evaluator computes \"%s\"; "
                                             "there are %s", text, vv_str_text(&known))
                     : vv_fail(VV_EINVAL, "save_keep_best: nothing is evaluated, so no checkpoint "
                                          "is better than another");
    vv_str_fini(&known);
    return status;
}

static vv_status copy_or(char **out, const char *text, const char *fallback)
{
    return vv_strdup(out, text && text[0] ? text : fallback);
}

vv_status vvi_saver_init(vv_trainer *t, const vv_trainer_opts *o)
{
    vvi_saver *s = &t->saver;
    const vv_save_opts *save = &o->save;
    VV_TRY(copy_or(&s->pattern, save->name, VVI_SAVE_NAME));
    VV_TRY(vvi_name_check(s->pattern, "save_name"));
    VV_TRY(copy_or(&s->latest, save->latest, "latest"));
    if (strchr(s->latest, '/') || s->latest[0] == '.' || vvi_checkpoint_stem(s->latest))
        return vv_fail(VV_EINVAL, "save_latest: \"%s\" cannot be the link's name; choose one "
                                  "without slash, dot in front or a checkpoint's ending",
                       s->latest);
    if (strcmp(s->latest, "none") == 0)
        s->latest[0] = '\0';
    if (o->save_keep < 0 || save->keep_best < 0)
        return vv_fail(VV_EINVAL, "%s: must not be negative; 0 = %s",
                       o->save_keep < 0 ? "save_keep" : "save_keep_best",
                       o->save_keep < 0 ? "keep all" : "by no metric");
    t->save_keep = o->save_keep;
    s->keep_best = save->keep_best;
    s->weights_only = save->weights_only;
    s->packed = save->zstd;
    s->overwrite = save->overwrite;
    if (s->packed)
        VV_TRY(vv_fail_within(vvi_zstd_check(), "save_compress"));
    bool named = save->best_metric && save->best_metric[0];
    if (s->keep_best || named)
        VV_TRY(find_metric(t, save->best_metric));
    if (s->keep_best || named) {
        const vv_metric_desc *type = t->evaluators[s->evaluator].metrics[s->metric].type;
        s->higher = save->best_mode == VV_BETTER_AUTO ? type->higher_is_better
                                                      : save->best_mode == VV_BETTER_MAX;
        s->by_metric = true;
    }
    return VV_OK;
}

void vvi_saver_fini(vvi_saver *s)
{
    vvi_checkpoint_list_fini(&s->list);
    vv_dealloc(s->pattern);
    vv_dealloc(s->latest);
}

vvi_name_facts vvi_saver_facts(const vv_trainer *t)
{
    vvi_name_facts facts = {.run_name = t->run_name, .time = t->state.time, .world_size = 1,
                            .local_world_size = 1};
    /* One name per position, on both sides of an epoch's end. */
    const int64_t per_epoch = vv_axis_epoch_batches(&t->state.axis, facts.time.epoch);
    if (per_epoch > 0 && facts.time.batch_in_epoch == per_epoch)
        vv_timestamp_next_epoch(&facts.time, 0.0);
    return facts;
}

vv_status vvi_saver_open(vv_trainer *t)
{
    vvi_saver *s = &t->saver;
    const vvi_name_facts facts = vvi_saver_facts(t);
    return vvi_checkpoint_list_read(&s->list, t->checkpoint_dir, s->pattern, &facts, s->by_metric);
}

static bool add_bytes(void *ctx, const char *name, vv_tensor *tensor)
{
    (void)name;
    *(uint64_t *)ctx += tensor->bytes;
    return true;
}

/* One checkpoint must fit: weights, and as much again for each state of the optimizer. */
vv_status vvi_saver_room(vv_trainer *t)
{
    uint64_t weights = 0;
    if (!t->checkpoint_dir || t->save_every.never || t->saver.packed)
        return VV_OK;
    vv_module_each_state(t->state.model->net, add_bytes, &weights);
    int states = t->state.optimizer && !t->saver.weights_only
                     ? vv_optimizer_type(t->state.optimizer)->state_count
                     : 0;
    return vv_fail_within(vvi_room_for(t->checkpoint_dir, weights * (uint64_t)(1 + states)),
                          "there is no room for a checkpoint");
}

/* ---- the best ---- */

bool vvi_saver_value(const vv_trainer *t, double *out)
{
    const vvi_saver *s = &t->saver;
    if (!s->by_metric)
        return false;
    const vvi_evaluator *e = &t->evaluators[s->evaluator];
    *out = e->metrics[s->metric].value;
    return e->metrics[s->metric].valid && e->interval.last_batch == t->state.time.batch &&
           isfinite(*out);
}

/* How many of the list are better than the value, or equal and older. */
static int better_count(const vvi_saver *s, double value, const vvi_checkpoint *than)
{
    int count = 0;
    bool older = false;
    for (int i = 0; i < s->list.count; i++) {
        const vvi_checkpoint *c = &s->list.items[i];
        older = older || c == than;
        if (!c->valued || c == than)
            continue;
        bool better = s->higher ? c->value > value : c->value < value;
        count += better || (c->value == value && (older || !than));
    }
    return count;
}

/* The evaluation just made is among the best, and is not saved yet. */
static bool best_due(const vv_trainer *t)
{
    const vvi_saver *s = &t->saver;
    double value;
    if (!s->keep_best || !vvi_saver_value(t, &value))
        return false;
    for (int i = 0; i < s->list.count; i++)
        if (s->list.items[i].valued && s->list.items[i].batch == t->state.time.batch)
            return false;
    return better_count(s, value, NULL) < s->keep_best;
}

/* ---- saving ---- */

static bool kept(const vv_trainer *t, int i, int newest)
{
    const vvi_saver *s = &t->saver;
    const vvi_checkpoint *c = &s->list.items[i];
    if (c->damaged)
        return true; /* nobody knows what it is */
    if (c->old)
        return false;
    return t->save_keep <= 0 || newest < t->save_keep ||
           (c->valued && better_count(s, c->value, c) < s->keep_best);
}

/* Removes the oldest beyond `save_keep` that are not among the best, never the newest. */
static vv_status rotate(vv_trainer *t)
{
    vvi_checkpoint_list *list = &t->saver.list;
    vv_status status = VV_OK;
    char *path = NULL;
    int newest = 0;
    for (int i = 0; i < list->count;) {
        bool counts = !list->items[i].damaged && !list->items[i].old;
        if (kept(t, i, newest)) {
            newest += counts;
            i++;
            continue;
        }
        newest += counts;
        VV_GO(vvi_path_join(&path, t->checkpoint_dir, list->items[i].name));
        VV_GO(vvi_file_remove(path));
        vv_dealloc(path);
        path = NULL;
        vvi_checkpoint_list_drop(list, i);
    }
out:
    vv_dealloc(path);
    return status;
}

/* The pointer moves only once the file is whole and on disk. */
static vv_status move_latest(const vv_trainer *t, const char *name)
{
    char *link = NULL;
    if (!t->saver.latest[0])
        return VV_OK;
    VV_TRY(vvi_path_join(&link, t->checkpoint_dir, t->saver.latest));
    vv_status status = vvi_link_replace(link, name);
    vv_dealloc(link);
    return status;
}

static vv_status name_now(const vv_trainer *t, vv_str *out)
{
    const vvi_name_facts facts = vvi_saver_facts(t);
    VV_TRY(vvi_name_fill(out, t->saver.pattern, &facts));
    vv_str_add(out, t->saver.packed ? ".safetensors.zst" : ".safetensors");
    return vv_str_status(out);
}

vv_status vvi_checkpoint_save(vv_trainer *t)
{
    vvi_saver *s = &t->saver;
    vv_status status = VV_OK;
    char *path = NULL;
    vv_str name = {0};
    t->save_every.last_batch = t->state.time.batch;
    /* Whoever interrupts a run wants to go on: then everything is saved. */
    bool weights_only = s->weights_only && !atomic_load(&t->interrupted);
    vvi_checkpoint made = {.batch = t->state.time.batch, .order = ++s->saves, .peeked = true,
                           .weights_only = weights_only};
    made.valued = vvi_saver_value(t, &made.value);
    VV_GO(name_now(t, &name));
    VV_GO(vvi_path_join(&path, t->checkpoint_dir, vv_str_text(&name)));
    VV_GO(vvi_checkpoint_write(t, path, weights_only));
    VV_GO(vv_strdup(&made.name, vv_str_text(&name)));
    VV_GO(vvi_checkpoint_list_put(&s->list, made));
    VV_GO(move_latest(t, vv_str_text(&name)));
    status = rotate(t);
out:
    vv_dealloc(path);
    vv_str_fini(&name);
    return status;
}

vv_status vvi_checkpoint_due(vv_trainer *t, vv_event event)
{
    if (!t->checkpoint_dir ||
        (!vvi_interval_due(&t->save_every, event, &t->previous, &t->state.time,
                           t->state.max_duration, &t->state.axis) &&
         !best_due(t)))
        return VV_OK;
    const double began = vvi_profile_begin(t);
    VV_TRY(vvi_checkpoint_save(t));
    vvi_profile_end(t, began, "checkpoint", "save", NULL);
    return vvi_summary_write(t, VVI_RUN_RUNNING);
}

/* ---- by hand ---- */

static vv_status save_as(vv_trainer *t, const char *path, bool weights_only)
{
    vv_str full = {0};
    vvi_name_facts facts = vvi_saver_facts(t);
    if (!path || !path[0])
        return vv_fail(VV_EINVAL, "vv_trainer_save: no path");
    vv_status status = vvi_name_fill(&full, path, &facts);
    if (status == VV_OK)
        status = vvi_checkpoint_write(t, vv_str_text(&full), weights_only);
    vv_str_fini(&full);
    return status;
}

vv_status vv_trainer_file_name(const vv_trainer *t, vv_str *out, const char *pattern)
{
    const vvi_name_facts facts = vvi_saver_facts(t);
    VV_TRY(vvi_name_check(pattern, "name"));
    return vvi_name_fill(out, pattern, &facts);
}

vv_status vv_trainer_save(vv_trainer *t, const char *path)
{
    return save_as(t, path, false);
}

vv_status vv_trainer_save_weights(vv_trainer *t, const char *path)
{
    return save_as(t, path, true);
}
