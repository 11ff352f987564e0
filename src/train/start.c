/* start.c - what a run starts from: nothing, its own newest checkpoint, or another file. */
#include <string.h>

#include "base/file.h"
#include "restore.h"

void vvi_tell_lines(vv_trainer *t, const vv_str *told)
{
    const char *line = vv_str_text(told);
    while (*line) {
        size_t length = strcspn(line, "\n");
        vv_str one = {0};
        vv_str_addn(&one, line, length);
        vv_log_message(&t->state, vv_str_text(&one));
        vv_str_fini(&one);
        line += length + (line[length] == '\n');
    }
}

/* ---- the run's own folder ---- */

static vv_status refuse_old_run(vv_trainer *t)
{
    vvi_saver *s = &t->saver;
    bool saves = !t->save_every.never || s->keep_best;
    for (int i = 0; i < s->list.count && saves && !s->overwrite; i++)
        if (!s->list.items[i].damaged)
            return vv_fail(VV_EEXIST, "%s holds checkpoints of an earlier run; resume it, choose "
                                      "another run folder, or set save_overwrite", t->run_dir);
    for (int i = 0; i < s->list.count && saves; i++)
        s->list.items[i].old = !s->list.items[i].damaged;
    return VV_OK;
}

/* Weights alone: a run cannot go on from them, and should not write over them unasked. */
static vv_status check_weights_only(vv_trainer *t)
{
    for (int i = 0; i < t->saver.list.count; i++)
        if (t->saver.list.items[i].weights_only)
            return refuse_old_run(t);
    return VV_OK;
}

static vv_status open_folder(vv_trainer *t, const vv_trainer_opts *o, vvi_start *start)
{
    VV_TRY(vv_strdup(&t->run_dir, o->run_dir));
    VV_TRY(vvi_path_join(&t->checkpoint_dir, t->run_dir, "checkpoints"));
    VV_TRY(vvi_folders_prepare(t->run_dir, t->checkpoint_dir));
    VV_TRY(vvi_saver_open(t));
    if (!o->resume)
        return refuse_old_run(t);
    VV_TRY(vvi_checkpoint_find(&t->saver.list, t->checkpoint_dir, false, &start->file,
                               &start->path, &start->told));
    if (!start->file)
        return check_weights_only(t);
    /* What is to be left out is said of another run's file. */
    vvi_patterns_fini(&t->loading.ignore);
    vvi_patterns_fini(&t->loading.exclude_methods);
    t->loading.new_head = false;
    return VV_OK;
}

/* ---- another file ---- */

/* {run_name} filled, and a run's folder replaced by its newest checkpoint. */
static vv_status load_path(const vv_trainer *t, const char *given, char **out)
{
    const vvi_name_facts facts = vvi_saver_facts(t);
    vv_str path = {0}, newest = {0};
    vv_status status = vvi_name_fill(&path, given, &facts);
    if (status == VV_OK && vvi_is_folder(vv_str_text(&path)))
        status = vv_checkpoint_latest(&newest, vv_str_text(&path));
    if (status == VV_OK)
        status = vv_strdup(out, newest.length ? vv_str_text(&newest) : vv_str_text(&path));
    vv_str_fini(&path);
    vv_str_fini(&newest);
    return vv_fail_within(status, "load_path");
}

static vv_status open_file(vv_trainer *t, const char *path, vvi_start *start)
{
    VV_TRY(load_path(t, path, &start->path));
    return vv_safetensors_open(&start->file, start->path);
}

vv_status vvi_start_open(vv_trainer *t, const vv_trainer_opts *o, vvi_start *out)
{
    int added = 0;
    if (o->run_dir && o->run_dir[0])
        VV_TRY(open_folder(t, o, out));
    t->resumed = out->file != NULL;
    if (!out->file && o->load_path && o->load_path[0]) {
        out->weights_only = o->load_weights_only;
        VV_TRY(open_file(t, o->load_path, out));
    }
    if (!out->file)
        return VV_OK;
    return vv_fail_within(vvi_restore_surgery(t, out->file, &added, &out->told), "checkpoint %s",
                          out->path);
}

vv_status vvi_start_load(vv_trainer *t, const vvi_start *start)
{
    VV_TRY(vvi_engine_fire(t, VV_EVENT_BEFORE_LOAD));
    if (start->file)
        VV_TRY(vvi_restore(t, start->file, start->path, start->weights_only));
    return vvi_engine_fire(t, VV_EVENT_AFTER_LOAD);
}

void vvi_start_fini(vvi_start *start)
{
    vv_safetensors_close(start->file);
    vv_dealloc(start->path);
    vv_str_fini(&start->told);
}

/* ---- by hand ---- */

/* Surgery on a model that exists: the new methods' INIT, with the optimizer kept in step. */
static vv_status late_surgery(vv_trainer *t, vvi_start *start)
{
    vv_method **before = NULL;
    int added = 0, count = t->method_count;
    vv_status status;
    VV_GO(vv_alloc_array(&before, (size_t)count, sizeof *before));
    if (count)
        memcpy(before, t->methods, (size_t)count * sizeof *before);
    VV_GO(vvi_restore_surgery(t, start->file, &added, &start->told));
    for (int i = 0; i < t->method_count && added; i++) {
        vv_method *m = t->methods[i];
        bool old = false;
        for (int j = 0; j < count; j++)
            old = old || before[j] == m;
        if (!old && m->type->apply && (m->type->events & VV_EVENT_BIT(VV_EVENT_INIT)))
            VV_GO(vv_fail_within(m->type->apply(m, VV_EVENT_INIT, &t->state), "method %s",
                                 m->type->desc.name));
    }
    if (added && t->state.optimizer)
        status = vv_optimizer_sync(t->state.optimizer, t->state.model->net);
out:
    vv_dealloc(before);
    return status;
}

vv_status vv_trainer_load(vv_trainer *t, const char *path, bool weights_only)
{
    if (!path || t->fitting)
        return vv_fail(path ? VV_ESTATE : VV_EINVAL, "vv_trainer_load: %s",
                       path ? "not while fit runs" : "no path");
    vvi_start start = {.weights_only = weights_only};
    vv_status status;
    VV_GO(open_file(t, path, &start));
    VV_GO(vv_fail_within(late_surgery(t, &start), "checkpoint %s", start.path));
    vvi_tell_lines(t, &start.told);
    status = vvi_start_load(t, &start);
out:
    vvi_start_fini(&start);
    return status;
}

/* ---- back to it in the middle of a run ---- */

/* The run's own file: nothing of it is left out. */
static vv_status roll_back_to(vv_trainer *t, const vv_safetensors *file, int64_t *batch)
{
    const vvi_patterns ignore = t->loading.ignore;
    t->loading.ignore = (vvi_patterns){0};
    vv_status status = vvi_restore_learned(t, file, batch);
    t->loading.ignore = ignore;
    return status;
}

vv_status vv_state_roll_back(vv_state *state, int64_t *batch)
{
    vv_trainer *t = state->trainer;
    vvi_start start = {0};
    int64_t at = 0;
    vv_status status;
    if (!t->in_step)
        return vv_fail(VV_ESTATE, "vv_state_roll_back: only at AFTER_TRAIN_BATCH");
    if (!t->checkpoint_dir)
        return vv_fail(VV_ENOTFOUND, "there is no checkpoint to go back to: the run has no folder");
    VV_GO(vvi_checkpoint_find(&t->saver.list, t->checkpoint_dir, false, &start.file,
                              &start.path, &start.told));
    if (!start.file)
        VV_GO(vv_fail(VV_ENOTFOUND, "there is no checkpoint to go back to in %s",
                      t->checkpoint_dir));
    VV_GO(vv_fail_within(roll_back_to(t, start.file, &at), "checkpoint %s", start.path));
    state->skip_step = true;
out:
    if (batch)
        *batch = at;
    vvi_start_fini(&start);
    return status;
}
