/* mlflow.c - the mlflow logger: gives numbers to a thread that sends them (mlflow_sender.c), and
 * tells once if the server is lost. */
#include "mlflow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <vivace/memory.h>
#include <vivace/train.h>

#include "mlflow_sender.h"

static const vv_field fields[] = {
    {"tracking_uri", "Server; \"\" = $MLFLOW_TRACKING_URI, else http://127.0.0.1:5000.",
     VV_FIELD_STRING, offsetof(vv_mlflow_opts, tracking_uri), "", 0, 0, NULL},
    {"experiment", "Experiment, made if it is not there; \"\" = $MLFLOW_EXPERIMENT_NAME, else Default.",
     VV_FIELD_STRING, offsetof(vv_mlflow_opts, experiment), "", 0, 0, NULL},
    {"run_name", "Name on the server; \"\" = the run's.", VV_FIELD_STRING,
     offsetof(vv_mlflow_opts, run_name), "", 0, 0, NULL},
    {"tags", "key=value,key=value.", VV_FIELD_STRING, offsetof(vv_mlflow_opts, tags), "", 0, 0, NULL},
    {"buffer_seconds", "Seconds between two requests.", VV_FIELD_FLOAT,
     offsetof(vv_mlflow_opts, buffer_seconds), "10", 0.01, 3600, NULL},
    {"leave_seconds", "Seconds that a run's end waits for what is left to send.", VV_FIELD_FLOAT,
     offsetof(vv_mlflow_opts, leave_seconds), "10", 0, 3600, NULL},
    {.name = NULL},
};

typedef struct early {
    char *name;
    double value;
} early;

typedef struct mlflow {
    vvi_mlflow *sender; /* NULL until the run's position is known */
    char *state_path;
    bool resumed, ended;
    early *first; /* logged before */
    int first_count;
} mlflow;

static int64_t now_ms(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

/* The setting, the environment's, or the default. */
static const char *choose(const char *setting, const char *variable, const char *fallback)
{
    if (setting && setting[0])
        return setting;
    const char *value = variable ? getenv(variable) : NULL;
    return value && value[0] ? value : fallback;
}

static vv_status mlflow_open(vv_logger *logger, const char *run_dir, bool resumed)
{
    const vv_mlflow_opts *opts = logger->opts;
    mlflow *m = logger->self;
    const char *uri = choose(opts->tracking_uri, "MLFLOW_TRACKING_URI", "http://127.0.0.1:5000");
    if (strncmp(uri, "http://", 7) != 0 && strncmp(uri, "https://", 8) != 0)
        return vv_fail(VV_EINVAL, "tracking_uri: %s; a server's address starts with http:// or "
                                  "https://", uri);
    m->resumed = resumed;
    if (!run_dir)
        return VV_OK;
    vv_str path = {0};
    vv_str_addf(&path, "%s/mlflow.json", run_dir);
    vv_status status = vv_str_status(&path);
    if (status == VV_OK)
        status = vv_strdup(&m->state_path, vv_str_text(&path));
    vv_str_fini(&path);
    return status;
}

static vv_status start(vv_logger *logger, const vv_state *s)
{
    const vv_mlflow_opts *opts = logger->opts;
    mlflow *m = logger->self;
    const char *name = vv_state_run_name(s);
    vv_str uri = {0};
    vv_str_add(&uri, choose(opts->tracking_uri, "MLFLOW_TRACKING_URI", "http://127.0.0.1:5000"));
    while (uri.length && uri.text[uri.length - 1] == '/')
        uri.text[--uri.length] = '\0';
    vvi_mlflow_opts sender = {
        .uri = vv_str_text(&uri),
        .experiment = choose(opts->experiment, "MLFLOW_EXPERIMENT_NAME", "Default"),
        .run_name = choose(opts->run_name, NULL, name && name[0] ? name : "vivace"),
        .tags = opts->tags,
        .recipe = vv_state_recipe(s),
        .state_path = m->state_path,
        .resumed = m->resumed,
        .interval = opts->buffer_seconds,
        .leave_seconds = opts->leave_seconds,
    };
    vv_status status = vv_str_status(&uri);
    if (status == VV_OK)
        status = vvi_mlflow_start(&m->sender, &sender);
    for (int i = 0; i < m->first_count && status == VV_OK; i++)
        status = vvi_mlflow_add(m->sender, m->first[i].name, m->first[i].value, 0, now_ms());
    vv_str_fini(&uri);
    return status;
}

static vv_status mlflow_metric(vv_logger *logger, const vv_state *s, const char *name, double value)
{
    mlflow *m = logger->self;
    if (m->sender)
        return vvi_mlflow_add(m->sender, name, value, s->time.batch, now_ms());
    VV_TRY(vv_realloc_array(&m->first, (size_t)m->first_count + 1, sizeof *m->first));
    VV_TRY(vv_strdup(&m->first[m->first_count].name, name));
    m->first[m->first_count++].value = value;
    return VV_OK;
}

/* What the thread has to tell the user. */
static void tell(mlflow *m, const vv_state *s)
{
    vv_str text = {0};
    if (s->trainer && vvi_mlflow_warning(m->sender, &text))
        vv_log_message(vv_trainer_state(s->trainer), vv_str_text(&text));
    vv_str_fini(&text);
}

static vv_status mlflow_event(vv_logger *logger, vv_event event, const vv_state *s)
{
    mlflow *m = logger->self;
    switch (event) {
    case VV_EVENT_AFTER_LOAD:
        return m->sender ? VV_OK : start(logger, s);
    case VV_EVENT_BATCH_CHECKPOINT:
        tell(m, s);
        return VV_OK;
    case VV_EVENT_FIT_START:
        m->ended = false;
        return VV_OK;
    case VV_EVENT_FIT_END:
        m->ended = true;
        vvi_mlflow_flush(m->sender);
        tell(m, s);
        return VV_OK;
    default:
        return VV_OK;
    }
}

static void mlflow_close(vv_logger *logger)
{
    mlflow *m = logger->self;
    bool killed = !m->ended && vv_error_code() == VV_EINTERRUPTED;
    vvi_mlflow_stop(m->sender, m->ended ? "FINISHED" : killed ? "KILLED" : "FAILED");
    for (int i = 0; i < m->first_count; i++)
        vv_dealloc(m->first[i].name);
    vv_dealloc(m->first);
    vv_dealloc(m->state_path);
}

const vv_logger_desc vv_logger_mlflow = {
    .desc = {"logger", "mlflow", "Logged numbers sent to an MLflow tracking server.", "", "any",
             fields, sizeof(vv_mlflow_opts)},
    .self_size = sizeof(mlflow),
    .open = mlflow_open,
    .metric = mlflow_metric,
    .event = mlflow_event,
    .close = mlflow_close,
};
