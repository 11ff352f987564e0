/* tensorboard.c - the tensorboard logger: event files, a new one for each start of a run. Where
 * older files lie, the new one begins with a session's start at the first step that comes again:
 * readers then drop what the older files have from there on (what other writers call purge_step).
 * Values of the checkpoint's own step are not written twice. */
#include "tensorboard.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <vivace/memory.h>

#include "tfevents.h"

#define PREFIX "events.out.tfevents."

static const vv_field fields[] = {
    {"dir", "The folder; relative to the run's.", VV_FIELD_STRING,
     offsetof(vv_tensorboard_opts, dir), "tensorboard", 0, 0, NULL},
    {.name = NULL},
};

typedef struct names {
    char **items;
    int count;
} names;

typedef struct tensorboard {
    FILE *out; /* NULL until the run's position is known */
    char *dir;
    bool resumed;
    vvi_crc32c crc;
    vv_str early; /* records from before */
    int64_t first_step;
    names known;  /* tags that older files have at first_step */
} tensorboard;

static vv_status failed(const char *what, const char *path)
{
    return vv_fail(VV_EIO, "logger tensorboard: cannot %s %s: %s", what, path, strerror(errno));
}

/* Event files carry the time of day; nothing is measured with it. */
static double wall_time(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
}

static vv_status tensorboard_open(vv_logger *logger, const char *run_dir, bool resumed)
{
    const vv_tensorboard_opts *opts = logger->opts;
    tensorboard *t = logger->self;
    const char *name = opts->dir && opts->dir[0] ? opts->dir : "tensorboard";
    t->resumed = resumed;
    vvi_crc32c_init(&t->crc);
    return vv_run_path(&t->dir, run_dir, name);
}

/* ---- the folder ---- */

static vv_status add_name(names *list, const char *text, size_t bytes)
{
    VV_TRY(vv_realloc_array(&list->items, (size_t)list->count + 1, sizeof *list->items));
    char *copy;
    VV_TRY(vv_alloc(&copy, bytes + 1));
    memcpy(copy, text, bytes);
    list->items[list->count++] = copy;
    return VV_OK;
}

static bool has_name(const names *list, const char *text)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

static void free_names(names *list)
{
    for (int i = 0; i < list->count; i++)
        vv_dealloc(list->items[i]);
    vv_dealloc(list->items);
    *list = (names){0};
}

/* Event files of the folder; *newest = the largest number after the prefix. */
static vv_status list_files(const char *folder, names *files, int64_t *newest)
{
    *newest = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return failed("read the folder", folder);
    vv_status status = VV_OK;
    const struct dirent *entry;
    while (status == VV_OK && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0)
            continue;
        int64_t number = strtoll(entry->d_name + sizeof PREFIX - 1, NULL, 10);
        *newest = number > *newest ? number : *newest;
        status = add_name(files, entry->d_name, strlen(entry->d_name));
    }
    closedir(dir);
    return status;
}

/* Tags that a file has at the first step. */
static vv_status read_known(tensorboard *t, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return failed("read", path);
    vv_str data = {0};
    vvi_event_view event;
    vv_status status = VV_OK;
    while (status == VV_OK && vvi_event_read(in, &t->crc, &data, &event))
        if (event.tag && event.step == t->first_step)
            status = add_name(&t->known, event.tag, event.tag_bytes);
    if (status == VV_OK)
        status = vv_str_status(&data);
    vv_str_fini(&data);
    fclose(in);
    return status;
}

static vv_status look_back(tensorboard *t, const names *files)
{
    vv_status status = VV_OK;
    vv_str path = {0};
    for (int i = 0; i < files->count && status == VV_OK; i++) {
        vv_str_clear(&path);
        vv_str_addf(&path, "%s/%s", t->dir, files->items[i]);
        status = vv_str_status(&path);
        if (status == VV_OK)
            status = read_known(t, vv_str_text(&path));
    }
    vv_str_fini(&path);
    return status;
}

/* ---- writing ---- */

/* Frees the event. */
static vv_status put_event(tensorboard *t, vv_str *event)
{
    vv_status status = vv_str_status(event);
    vv_str record = {0}, *to = t->out ? &record : &t->early;
    if (status == VV_OK) {
        vvi_event_record(to, &t->crc, event);
        status = vv_str_status(to);
    }
    if (status == VV_OK && t->out &&
        fwrite(vv_str_text(&record), 1, record.length, t->out) != record.length)
        status = failed("write to", t->dir);
    vv_str_fini(&record);
    vv_str_fini(event);
    return status;
}

static vv_status put_text(tensorboard *t, int64_t step, const char *tag, const char *text)
{
    vv_str event = {0};
    vvi_event_text(&event, wall_time(), step, tag, text);
    return put_event(t, &event);
}

/* The recipe as an indented block: markdown for text as it stands. */
static vv_status put_recipe(tensorboard *t, const vv_state *s)
{
    const char *recipe = vv_state_recipe(s);
    vv_str text = {0};
    for (const char *p = recipe; p && *p;) {
        size_t length = strcspn(p, "\n");
        vv_str_add(&text, "    ");
        vv_str_addn(&text, p, length);
        vv_str_add(&text, "\n");
        p += length + (p[length] == '\n');
    }
    vv_status status = vv_str_status(&text);
    if (status == VV_OK && recipe)
        status = put_text(t, s->time.batch, "recipe", vv_str_text(&text));
    vv_str_fini(&text);
    return status;
}

static vv_status start(tensorboard *t, const vv_state *s)
{
    names files = {0};
    vv_str path = {0}, event = {0};
    vv_status status;
    int64_t newest, now = (int64_t)wall_time();
    t->first_step = s->time.batch;
    VV_GO(vv_make_folder(t->dir));
    VV_GO(list_files(t->dir, &files, &newest));
    if (t->resumed)
        VV_GO(look_back(t, &files));
    /* Readers take files in the order of their names. */
    vv_str_addf(&path, "%s/" PREFIX "%010lld.vivace", t->dir,
                (long long)(now > newest ? now : newest + 1));
    VV_GO(vv_str_status(&path));
    t->out = fopen(vv_str_text(&path), "wbx");
    if (!t->out) {
        status = failed("write", vv_str_text(&path));
        goto out;
    }
    vvi_event_version(&event, wall_time());
    VV_GO(put_event(t, &event));
    if (files.count) { /* a run that is not resumed replaces all that was there */
        vvi_event_start(&event, wall_time(), t->resumed ? s->time.batch + 1 : 0);
        VV_GO(put_event(t, &event));
    }
    if (!t->resumed || !files.count) { /* else the older files have it */
        VV_GO(put_recipe(t, s));
        if (t->early.length && fwrite(t->early.text, 1, t->early.length, t->out) != t->early.length)
            status = failed("write", vv_str_text(&path));
    }
    vv_str_fini(&t->early);
out:
    free_names(&files);
    vv_str_fini(&path);
    vv_str_fini(&event);
    return status;
}

static vv_status flush(tensorboard *t)
{
    return t->out && fflush(t->out) ? failed("write to", t->dir) : VV_OK;
}

static vv_status tensorboard_metric(vv_logger *logger, const vv_state *s, const char *name,
                                    double value)
{
    tensorboard *t = logger->self;
    if (t->known.count && s->time.batch != t->first_step)
        free_names(&t->known);
    if (has_name(&t->known, name))
        return VV_OK;
    vv_str event = {0};
    vvi_event_scalar(&event, wall_time(), s->time.batch, name, value);
    return put_event(t, &event);
}

static vv_status tensorboard_event(vv_logger *logger, vv_event event, const vv_state *s)
{
    tensorboard *t = logger->self;
    switch (event) {
    case VV_EVENT_AFTER_LOAD:
        return t->out ? VV_OK : start(t, s);
    case VV_EVENT_BATCH_CHECKPOINT: /* before a checkpoint may be written */
    case VV_EVENT_EPOCH_CHECKPOINT:
    case VV_EVENT_EVAL_END:
    case VV_EVENT_FIT_END:
        return flush(t);
    default:
        return VV_OK;
    }
}

static vv_status tensorboard_message(vv_logger *logger, const vv_state *s, const char *text)
{
    tensorboard *t = logger->self;
    return t->out ? put_text(t, s->time.batch, "messages", text) : VV_OK;
}

static void tensorboard_close(vv_logger *logger)
{
    tensorboard *t = logger->self;
    if (t->out)
        fclose(t->out);
    free_names(&t->known);
    vv_str_fini(&t->early);
    vv_dealloc(t->dir);
}

const vv_logger_desc vv_logger_tensorboard = {
    .desc = {"logger", "tensorboard", "Logged numbers as TensorBoard event files.", "", "any",
             fields, sizeof(vv_tensorboard_opts)},
    .self_size = sizeof(tensorboard),
    .open = tensorboard_open,
    .metric = tensorboard_metric,
    .event = tensorboard_event,
    .message = tensorboard_message,
    .close = tensorboard_close,
};
