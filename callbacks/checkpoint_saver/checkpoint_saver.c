/* checkpoint_saver.c - the checkpoint_saver callback: writes, remembers the names, removes the
 * oldest. */
#include "checkpoint_saver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/train.h>

static const vv_field fields[] = {
    {"dir", "Folder; empty = saved in the run's folder.", VV_FIELD_STRING,
     offsetof(vv_checkpoint_saver_opts, dir), "", 0, 0, NULL},
    {"filename", "Name of a file without its ending, with the placeholders of save_name.",
     VV_FIELD_STRING, offsetof(vv_checkpoint_saver_opts, filename), "ep{epoch:04}-ba{batch:08}", 0,
     0, NULL},
    {"interval", "Time between two checkpoints (ba, ep, sp, tok, dur).", VV_FIELD_TIME,
     offsetof(vv_checkpoint_saver_opts, interval), "1ep", 0, 0, NULL},
    {"keep", "How many of the newest are kept; 0 = all.", VV_FIELD_INT,
     offsetof(vv_checkpoint_saver_opts, keep), "0", 0, 1000000, NULL},
    {"weights_only", "Without what a run needs to continue.", VV_FIELD_BOOL,
     offsetof(vv_checkpoint_saver_opts, weights_only), "false", 0, 0, NULL},
    {"zstd", "Packed: .safetensors.zst.", VV_FIELD_BOOL, offsetof(vv_checkpoint_saver_opts, zstd),
     "false", 0, 0, NULL},
    {.name = NULL},
};

typedef struct checkpoint_saver {
    char **names; /* the series so far, oldest first; only if old ones are removed */
    int64_t count, room;
    int64_t last_batch; /* of the newest; -1 = none yet */
} checkpoint_saver;

/* "dir/name" of `name` in the folder of the series. */
static vv_status add_path(vv_str *out, const vv_checkpoint_saver_opts *opts, const vv_state *state,
                          const char *name)
{
    const char *run = vv_trainer_run_dir(state->trainer);
    char *dir;
    if (!opts->dir[0] && !run)
        return vv_fail(VV_EINVAL, "dir must be given: the run has no folder for checkpoints");
    VV_TRY(vv_run_path(&dir, run, opts->dir[0] ? opts->dir : "saved"));
    vv_str_add(out, dir);
    if (name)
        vv_str_addf(out, "/%s", name);
    vv_dealloc(dir);
    return vv_str_status(out);
}

/* What cannot work is told before the first batch. */
static vv_status check(const vv_checkpoint_saver_opts *opts, const vv_state *state)
{
    bool due;
    vv_str text = {0};
    vv_status status = vv_fail_within(vv_state_due(&due, state, opts->interval, 0), "interval");
    if (status == VV_OK)
        status = vv_trainer_file_name(state->trainer, &text, opts->filename);
    vv_str_fini(&text);
    if (status == VV_OK)
        status = add_path(&text, opts, state, NULL);
    if (status == VV_OK)
        status = vv_make_folder(vv_str_text(&text));
    vv_str_fini(&text);
    return status;
}

/* The series ends with `name`; one that is in it already (after a resume) moves to the end. */
static vv_status remember(checkpoint_saver *self, const char *name)
{
    char *copy;
    int64_t kept = 0;
    if (self->count == self->room) {
        VV_TRY(vv_realloc_array(&self->names, (size_t)(2 * self->room + 8), sizeof *self->names));
        self->room = 2 * self->room + 8;
    }
    VV_TRY(vv_strdup(&copy, name));
    for (int64_t i = 0; i < self->count; i++)
        if (strcmp(self->names[i], name) == 0)
            vv_dealloc(self->names[i]);
        else
            self->names[kept++] = self->names[i];
    self->names[kept++] = copy;
    self->count = kept;
    return VV_OK;
}

static vv_status remove_oldest(const vv_checkpoint_saver_opts *opts, checkpoint_saver *self,
                               const vv_state *state)
{
    vv_str path = {0};
    vv_status status = add_path(&path, opts, state, self->names[0]);
    if (status == VV_OK && remove(vv_str_text(&path)) != 0 && errno != ENOENT)
        status = vv_fail(VV_EIO, "cannot remove %s: %s", vv_str_text(&path), strerror(errno));
    vv_str_fini(&path);
    if (status != VV_OK)
        return status;
    vv_dealloc(self->names[0]);
    self->count--;
    memmove(self->names, self->names + 1, (size_t)self->count * sizeof *self->names);
    return VV_OK;
}

static vv_status save_now(vv_callback *callback, vv_state *state)
{
    const vv_checkpoint_saver_opts *opts = callback->opts;
    checkpoint_saver *self = callback->self;
    vv_status status;
    vv_str name = {0}, path = {0};
    self->last_batch = state->time.batch; /* before: it is in the file that is written */
    VV_GO(vv_trainer_file_name(state->trainer, &name, opts->filename));
    vv_str_add(&name, opts->zstd ? ".safetensors.zst" : ".safetensors");
    VV_GO(vv_str_status(&name));
    if (opts->keep > 0)
        VV_GO(remember(self, vv_str_text(&name)));
    VV_GO(add_path(&path, opts, state, vv_str_text(&name)));
    VV_GO(opts->weights_only ? vv_trainer_save_weights(state->trainer, vv_str_text(&path))
                             : vv_trainer_save(state->trainer, vv_str_text(&path)));
    while (opts->keep > 0 && self->count > opts->keep)
        VV_GO(remove_oldest(opts, self, state));
out:
    vv_str_fini(&name);
    vv_str_fini(&path);
    return status;
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_checkpoint_saver_opts *opts = callback->opts;
    checkpoint_saver *self = callback->self;
    const int64_t in_epoch = state->axis.batches_per_epoch;
    bool due = event == VV_EVENT_FIT_END;
    if (event == VV_EVENT_FIT_START) {
        if (state->time.batch == 0)
            self->last_batch = -1;
        return check(opts, state);
    }
    /* An epoch's last batch is saved when the epoch has ended. */
    if (event == VV_EVENT_BATCH_CHECKPOINT && in_epoch > 0 &&
        state->time.batch_in_epoch == in_epoch)
        return VV_OK;
    if (!due)
        VV_TRY(vv_state_due(&due, state, opts->interval, state->time.batch));
    return due && self->last_batch != state->time.batch ? save_now(callback, state) : VV_OK;
}

/* ---- memory ---- */

static vv_status save(vv_callback *callback, vv_record *record)
{
    const checkpoint_saver *self = callback->self;
    char key[32];
    VV_TRY(vv_record_set_int(record, "last_batch", self->last_batch));
    VV_TRY(vv_record_set_int(record, "count", self->count));
    for (int64_t i = 0; i < self->count; i++) {
        snprintf(key, sizeof key, "name%lld", (long long)i);
        VV_TRY(vv_record_set_text(record, key, self->names[i]));
    }
    return VV_OK;
}

static void forget(checkpoint_saver *self)
{
    for (int64_t i = 0; i < self->count; i++)
        vv_dealloc(self->names[i]);
    self->count = 0;
}

static vv_status load(vv_callback *callback, const vv_record *record)
{
    checkpoint_saver *self = callback->self;
    int64_t count;
    char key[32];
    const char *name;
    VV_TRY(vv_record_get_int(record, "last_batch", &self->last_batch));
    VV_TRY(vv_record_get_int(record, "count", &count));
    forget(self);
    for (int64_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "name%lld", (long long)i);
        VV_TRY(vv_record_get_text(record, key, &name));
        if (strchr(name, '/'))
            return vv_fail(VV_EFORMAT, "checkpoint_saver: \"%s\" is no file of its folder", name);
        VV_TRY(remember(self, name));
    }
    return VV_OK;
}

static void fini(vv_callback *callback)
{
    checkpoint_saver *self = callback->self;
    forget(self);
    vv_dealloc(self->names);
}

const vv_callback_desc vv_callback_checkpoint_saver = {
    .desc = {"callback", "checkpoint_saver", "Writes a further series of checkpoints.", "", "any",
             fields, sizeof(vv_checkpoint_saver_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_CHECKPOINT) |
              VV_EVENT_BIT(VV_EVENT_EPOCH_CHECKPOINT) | VV_EVENT_BIT(VV_EVENT_FIT_END),
    .self_size = sizeof(checkpoint_saver),
    .apply = apply,
    .save = save,
    .load = load,
    .fini = fini,
};
