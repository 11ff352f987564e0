/* run_db.c - the run_db logger: what a run is, when it starts; numbers as they come, thinned; how
 * it ended. */
#include "run_db.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <vivace/memory.h>
#include <vivace/train.h>

#include "run_db_writer.h"

static const vv_field fields[] = {
    {"db", "The run store; empty = runs.db beside the run's folder.", VV_FIELD_STRING,
     offsetof(vv_run_db_opts, db), "", 0, 0, NULL},
    {"every_seconds", "Seconds between two writings.", VV_FIELD_FLOAT,
     offsetof(vv_run_db_opts, every_seconds), "1", 0.01, 3600, NULL},
    {"facts", "What only the recipe knows, as JSON (filled in by it).", VV_FIELD_STRING,
     offsetof(vv_run_db_opts, facts), "", 0, 0, NULL},
    {.name = NULL},
};

enum { FULL_RATE_POINTS = 300, HEARTBEAT_SECONDS = 1 };

typedef struct series { /* one logged name */
    const char *name;   /* the writer's */
    int64_t count;
    double next; /* clock before which its numbers are left out */
} series;

typedef struct run_db {
    vvi_run_writer *writer; /* NULL until fit starts */
    char *run_dir, *db;
    bool resumed, ended, lost;
    double beat; /* clock of the next heartbeat */
    series *all;
    int count, next;
    vv_run_row row; /* texts are not to be used */
    char id[128];
} run_db;

/* ---- where ---- */

/* runs.db in the folder that the run's folder lies in. */
static vv_status beside(char **out, const char *run_dir)
{
    size_t end = strlen(run_dir);
    while (end > 1 && run_dir[end - 1] == '/')
        end--;
    while (end > 0 && run_dir[end - 1] != '/')
        end--;
    vv_str path = {0};
    vv_str_addn(&path, run_dir, end);
    vv_str_add(&path, "runs.db");
    vv_status status = vv_str_status(&path);
    if (status == VV_OK)
        status = vv_strdup(out, vv_str_text(&path));
    vv_str_fini(&path);
    return status;
}

static vv_status open_logger(vv_logger *logger, const char *run_dir, bool resumed)
{
    const vv_run_db_opts *opts = logger->opts;
    run_db *self = logger->self;
    self->resumed = resumed;
    if (!vv_run_store_available())
        return vv_fail(VV_EUNSUPPORTED, "this build has no run store; build it with SQLite "
                                        "(-Dsqlite=enabled), or leave run_db out");
    if (!opts->db[0] && !run_dir)
        return vv_fail(VV_EINVAL, "db must be given: the run has no folder to put runs.db beside");
    vv_status status = run_dir ? vv_strdup(&self->run_dir, run_dir) : VV_OK;
    if (status == VV_OK)
        status = opts->db[0] ? vv_strdup(&self->db, opts->db) : beside(&self->db, run_dir);
    if (status != VV_OK) { /* what is not open is not closed */
        vv_dealloc(self->run_dir);
        self->run_dir = NULL;
    }
    return status;
}

/* ---- the run's id: made once, then in the run's folder ---- */

static bool read_id(const run_db *self, char *id, size_t bytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/run_id", self->run_dir);
    FILE *file = fopen(path, "r");
    bool read = file && fgets(id, (int)bytes, file);
    if (file)
        fclose(file);
    id[strcspn(id, "\r\n")] = '\0';
    return read && id[0];
}

static void make_id(run_db *self, const vv_state *s)
{
    const char *name = vv_state_run_name(s);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    vv_rng rng =
        vv_rng_at((uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30, "run id", (uint64_t)getpid());
    snprintf(self->id, sizeof self->id, "%.60s-s%llu-%08x", name && name[0] ? name : "run",
             (unsigned long long)s->seed, (unsigned)(vv_rng_uniform(&rng) * 4294967296.0));
    for (char *c = self->id; *c; c++)
        if (*c == ' ' || *c == '/' || *c == '"' || *c == '\\' || *c == ',')
            *c = '-';
}

static void settle_id(run_db *self, const vv_state *s)
{
    char path[1024];
    if (self->run_dir && self->resumed && read_id(self, self->id, sizeof self->id))
        return;
    make_id(self, s);
    if (!self->run_dir)
        return;
    snprintf(path, sizeof path, "%s/run_id", self->run_dir);
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(file, "%s\n", self->id);
        fclose(file);
    }
}

/* ---- what the run is ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void set_numbers(run_db *self, const vv_state *s, const char *status)
{
    vv_run_row *row = &self->row;
    row->status = status;
    row->seen = now_seconds();
    row->progress = s->progress;
    row->epochs = s->time.epoch;
    row->batches = s->time.batch;
    row->samples = s->time.sample;
    row->tokens = s->time.token;
    row->train_seconds = s->time.total_seconds;
    row->eval_seconds = vv_state_eval_seconds(s);
    row->wall_seconds = vv_state_wall_seconds(s);
    row->samples_per_second =
        row->train_seconds > 0.0 ? (double)row->samples / row->train_seconds : (double)NAN;
    row->loss = s->time.batch > 0 ? s->train_loss : (double)NAN;
    row->usd = s->usd_per_hour > 0.0 ? row->train_seconds / 3600.0 * s->usd_per_hour : (double)NAN;
}

static void describe(run_db *self, const vv_state *s, const json_t *summary, const json_t *facts,
                     char *duration, char *host, char *processor, size_t bytes)
{
    vv_run_row *row = &self->row;
    const json_t *price = json_object_get(facts, "price");
    const json_t *ssr = json_object_get(facts, "scale_schedule_ratio");
    vv_run_row_init(row);
    row->id = self->id;
    row->name = vv_state_run_name(s) ? vv_state_run_name(s) : "";
    row->source = "vivace";
    row->dataset = s->train_loader ? vv_loader_dataset(s->train_loader)->name : "";
    row->model = s->model->name ? s->model->name : "";
    row->optimizer = s->optimizer ? vv_optimizer_type(s->optimizer)->desc.name : "";
    row->recipe = vv_state_recipe(s) ? vv_state_recipe(s) : "";
    row->scale_schedule_ratio = json_is_number(ssr) ? json_number_value(ssr) : 1.0;
    row->seed = (int64_t)s->seed;
    row->batch_size = s->train_loader ? vv_loader_batch_size(s->train_loader) : -1;
    row->max_duration = vv_time_text(s->max_duration, duration, bytes);
    row->parameters = vv_module_param_count(s->model->net);
    row->precision = text_of(summary, "precision");
    row->threads = vv_threads();
    row->cores = (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    row->processor = vv_processor_name(processor, bytes);
    row->hardware = text_of(summary, "hardware");
    row->usd_per_hour = s->usd_per_hour > 0.0 ? s->usd_per_hour : (double)NAN;
    row->price_kind = text_of(price, "kind");
    row->price_region = text_of(price, "region");
    row->price_date = text_of(price, "date");
    row->price_source = price ? text_of(price, "source") : text_of(summary, "price_note");
    row->started = now_seconds();
    if (gethostname(host, bytes - 1) == 0)
        row->host = host;
    row->pid = getpid();
    row->run_dir = self->run_dir ? self->run_dir : "";
    row->version = text_of(summary, "version");
    row->git_commit = text_of(summary, "commit");
    row->command = text_of(summary, "command");
}

static vv_status read_facts(json_t **out, const char *text, const char *what)
{
    json_error_t error;
    *out = text[0] ? json_loads(text, 0, &error) : json_object();
    return *out ? VV_OK : vv_fail(VV_EINVAL, "%s: no JSON: %s", what, error.text);
}

static vv_status list_methods(vvi_run_start *start, vv_str *texts, const vv_state *s)
{
    for (int i = 0; i < s->method_count; i++) {
        const vv_method *method = s->methods[i];
        vv_opts_to_json(&method->type->desc, method->opts, &texts[i]);
        VV_TRY(vv_str_status(&texts[i]));
        start->methods[i] = (vv_run_method){method->type->desc.name, vv_str_text(&texts[i])};
    }
    start->method_count = s->method_count;
    return VV_OK;
}

/* A run that goes on keeps the time it began at. */
static bool same_start(void *ctx, const vv_run_row *row)
{
    *(double *)ctx = row->started;
    return true;
}

static void keep_start(run_db *self)
{
    vv_run_store *store;
    if (!self->resumed || vv_run_store_open(&store, self->db, false) != VV_OK)
        return;
    if (vv_run_store_get(store, self->id, same_start, &self->row.started) != VV_OK)
        self->row.started = now_seconds();
    vv_run_store_close(store);
}

static vv_status start(vv_logger *logger, const vv_state *s)
{
    const vv_run_db_opts *opts = logger->opts;
    run_db *self = logger->self;
    json_t *facts = NULL, *summary = NULL;
    char duration[256] = "", host[256] = "", processor[256] = "";
    vv_str text = {0}, *texts = NULL;
    vvi_run_start begin = {.db = self->db, .interval = opts->every_seconds, .batch = s->time.batch};
    vv_status status;
    VV_GO(vv_trainer_summary(s->trainer, &text));
    VV_GO(read_facts(&summary, vv_str_text(&text), "summary"));
    VV_GO(read_facts(&facts, opts->facts, "facts"));
    json_t *settings = json_object_get(facts, "settings"), *value;
    const char *key;
    VV_GO(vv_alloc_array(&begin.settings, json_object_size(settings) + 1, sizeof *begin.settings));
    json_object_foreach(settings, key, value) if (json_is_string(value))
        begin.settings[begin.setting_count++] = (vv_run_setting){key, json_string_value(value)};
    VV_GO(vv_alloc_array(&begin.methods, (size_t)s->method_count + 1, sizeof *begin.methods));
    VV_GO(vv_alloc_array(&texts, (size_t)s->method_count + 1, sizeof *texts));
    VV_GO(list_methods(&begin, texts, s));
    settle_id(self, s);
    describe(self, s, summary, facts, duration, host, processor, sizeof host);
    keep_start(self);
    set_numbers(self, s, "running");
    begin.row = self->row;
    VV_GO(vvi_run_writer_start(&self->writer, &begin));
out:
    for (int i = 0; texts && i < s->method_count; i++)
        vv_str_fini(&texts[i]);
    vv_dealloc(texts);
    vv_dealloc(begin.methods);
    vv_dealloc(begin.settings);
    vv_str_fini(&text);
    json_decref(facts);
    json_decref(summary);
    return status;
}

/* ---- numbers ---- */

static vv_status series_of(run_db *self, const char *name, series **out)
{
    for (int i = 0; i < self->count; i++) {
        int at = (self->next + i) % self->count; /* they come in the same order each time */
        if (strcmp(self->all[at].name, name) == 0) {
            self->next = at + 1;
            *out = &self->all[at];
            return VV_OK;
        }
    }
    VV_TRY(vv_realloc_array(&self->all, (size_t)self->count + 1, sizeof *self->all));
    series *made = &self->all[self->count];
    *made = (series){0};
    VV_TRY(vvi_run_writer_name(self->writer, name, &made->name));
    self->count++;
    *out = made;
    return VV_OK;
}

/* "metrics/<label>/<metric>" of an evaluation; those of training are series. */
static bool eval_of(const char *name, char *label, char *metric, size_t bytes)
{
    if (strncmp(name, "metrics/", 8) != 0 || strncmp(name + 8, "train/", 6) == 0 ||
        strncmp(name + 8, "train_epoch/", 12) == 0)
        return false;
    const char *slash = strchr(name + 8, '/');
    if (!slash || (size_t)(slash - name - 8) >= bytes || strlen(slash + 1) >= bytes)
        return false;
    snprintf(label, bytes, "%.*s", (int)(slash - name - 8), name + 8);
    snprintf(metric, bytes, "%s", slash + 1);
    return true;
}

static vv_status take_number(vv_logger *logger, const vv_state *s, const char *name, double value)
{
    run_db *self = logger->self;
    char label[128], metric[128];
    if (!self->writer || self->lost)
        return VV_OK;
    if (eval_of(name, label, metric, sizeof label)) {
        const vv_metric_desc *desc = vv_metric_find(metric);
        vv_run_eval eval = {.higher_is_better = !desc || desc->higher_is_better,
                            .epoch = s->time.epoch,
                            .batch = s->time.batch,
                            .sample = s->time.sample,
                            .train_seconds = s->time.total_seconds,
                            .wall_seconds = vv_state_wall_seconds(s),
                            .value = value};
        VV_TRY(vvi_run_writer_name(self->writer, label, &eval.label));
        VV_TRY(vvi_run_writer_name(self->writer, metric, &eval.metric));
        return vvi_run_writer_eval(self->writer, &eval);
    }
    series *one;
    const double now = vv_clock();
    VV_TRY(series_of(self, name, &one));
    if (now < one->next)
        return VV_OK;
    /* At first ten a second, then ever fewer: a series grows with the logarithm of time. */
    one->next = now + 0.1 * exp2(floor((double)one->count++ / FULL_RATE_POINTS));
    const vv_run_point point = {one->name, s->time.epoch, s->time.batch, s->time.total_seconds,
                                value};
    return vvi_run_writer_point(self->writer, &point);
}

static void give_row(run_db *self, const vv_state *s, const char *status)
{
    set_numbers(self, s, status);
    vvi_run_writer_row(self->writer, &self->row);
}

/* A store that cannot be written is told once; no training ends for it. */
static void tell(run_db *self, const vv_state *s, const char *sentence)
{
    vv_str text = {0};
    if (sentence)
        vv_str_addf(&text, "run_db: %s; the run goes on without", sentence);
    if ((sentence || (self->writer && vvi_run_writer_trouble(self->writer, &text))) && s->trainer)
        vv_log_message(vv_trainer_state(s->trainer), vv_str_text(&text));
    self->lost = self->lost || text.length > 0;
    vv_str_fini(&text);
}

static vv_status hear(vv_logger *logger, vv_event event, const vv_state *s)
{
    run_db *self = logger->self;
    switch (event) {
    case VV_EVENT_FIT_START:
        self->ended = false;
        if (!self->writer && start(logger, s) != VV_OK)
            tell(self, s, vv_error());
        return VV_OK;
    case VV_EVENT_BATCH_END:
    case VV_EVENT_EVAL_BATCH_END: /* long evaluations are no silence */
        if (self->writer && vv_clock() >= self->beat) {
            self->beat = vv_clock() + HEARTBEAT_SECONDS;
            give_row(self, s, self->ended ? "done" : "running"); /* the last comes behind FIT_END */
            tell(self, s, NULL);
        }
        return VV_OK;
    case VV_EVENT_FIT_END:
        self->ended = true;
        if (self->writer) {
            self->row.ended = now_seconds();
            give_row(self, s, "done");
            tell(self, s, NULL);
        }
        return VV_OK;
    default:
        return VV_OK;
    }
}

static void close_logger(vv_logger *logger)
{
    run_db *self = logger->self;
    if (self->writer && !self->ended) {
        self->row.status = vv_error_code() == VV_EINTERRUPTED ? "interrupted" : "failed";
        self->row.seen = self->row.ended = now_seconds();
        vvi_run_writer_row(self->writer, &self->row);
    }
    vvi_run_writer_stop(self->writer);
    vv_dealloc(self->all);
    vv_dealloc(self->run_dir);
    vv_dealloc(self->db);
}

const vv_logger_desc vv_logger_run_db = {
    .desc = {"logger", "run_db", "The run's row in the run store.", "", "any", fields,
             sizeof(vv_run_db_opts)},
    .self_size = sizeof(run_db),
    .open = open_logger,
    .metric = take_number,
    .event = hear,
    .close = close_logger,
};
