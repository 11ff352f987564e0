/* sweep_run.c - the trainings as processes of their own, several at once, and what their folders
 * say. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <vivace/graph.h>
#include <vivace/memory.h>

#include "base/file.h"
#include "sweep/sweep_impl.h"

/* ---- what a folder says ---- */

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static void read_summary(vv_sweep *s, vvi_trial *t, const json_t *summary)
{
    const char *status = json_string_value(json_object_get(summary, "status"));
    const char *slash = strrchr(s->metric, '/');
    char label[128];
    snprintf(label, sizeof label, "%.*s", slash ? (int)(slash - s->metric) : 4,
             slash ? s->metric : "eval");
    const json_t *metrics = json_object_get(json_object_get(summary, "metrics"), label);
    t->quality = number_at(metrics, slash ? slash + 1 : s->metric);
    t->train_seconds = number_at(summary, "train_seconds");
    t->usd = number_at(summary, "usd");
    t->status = !status                         ? VV_TRIAL_WAITING
                : strcmp(status, "done") == 0   ? VV_TRIAL_DONE
                : strcmp(status, "failed") == 0 ? VV_TRIAL_FAILED
                                                : VV_TRIAL_WAITING;
}

vv_status vvi_trial_read(vv_sweep *s, int i, const char *dir)
{
    vvi_trial *t = &s->trials[i];
    vv_str path = {0};
    char *text = NULL;
    size_t length = 0;
    if (t->status == VV_TRIAL_RUNNING)
        return VV_OK;
    vv_str_addf(&path, "%s/%s/summary.json", dir, t->name);
    vv_status status = vv_str_status(&path);
    if (status == VV_OK)
        status = vvi_file_read_all(&text, &length, vv_str_text(&path));
    vv_str_fini(&path);
    t->status = VV_TRIAL_WAITING;
    if (status == VV_ENOTFOUND)
        return VV_OK;
    VV_TRY(status);
    json_error_t error;
    json_t *summary = json_loadb(text, length, 0, &error);
    if (summary) /* else a run that will be done again */
        read_summary(s, t, summary);
    json_decref(summary);
    vv_dealloc(text);
    return VV_OK;
}

/* ---- processes ---- */

enum { MOST_WAITS = 3000 }; /* of 20 ms: a training that was told to leave saves first */

/* A training that never came to write a summary has failed all the same. */
static void write_failure(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fputs("{\"status\": \"failed\"}\n", file);
    fclose(file);
}

static vv_status arguments(char ***out, const vv_sweep *s, const vvi_trial *t,
                           const vv_sweep_run_opts *opts, int jobs)
{
    char **args = NULL, text[1200];
    int count = 0;
    vv_status status = VV_OK;
    if (s->launcher && s->launcher[0]) { /* words with spaces between: srun -n1 -c2 */
        char *copy, *rest = NULL;
        VV_TRY(vv_strdup(&copy, s->launcher));
        for (char *word = strtok_r(copy, " ", &rest); word && status == VV_OK;
             word = strtok_r(NULL, " ", &rest))
            status = vvi_append_text(&args, &count, word);
        vv_dealloc(copy);
    }
    if (status == VV_OK)
        status = vvi_append_text(&args, &count, opts->program);
    if (status == VV_OK)
        status = vvi_append_text(&args, &count, "train");
    if (status == VV_OK)
        status = vvi_append_text(&args, &count, s->recipe);
    for (int i = 0; i < t->override_count && status == VV_OK; i++)
        status = vvi_append_text(&args, &count, t->overrides[i]);
    int threads = s->threads;
    if (!threads && jobs > 1)
        threads = vv_threads() / jobs > 0 ? vv_threads() / jobs : 1;
    snprintf(text, sizeof text, "threads=%d", threads);
    if (threads && status == VV_OK)
        status = vvi_append_text(&args, &count, text);
    snprintf(text, sizeof text, "name=%s", t->name);
    if (status == VV_OK)
        status = vvi_append_text(&args, &count, text);
    snprintf(text, sizeof text, "%s/%s", opts->dir, t->name);
    if (status == VV_OK)
        status = vvi_append_text(&args, &count, "--run-dir");
    if (status == VV_OK)
        status = vvi_append_text(&args, &count, text);
    *out = args;
    return status;
}

static void free_arguments(char **args)
{
    for (int i = 0; args && args[i]; i++)
        vv_dealloc(args[i]);
    vv_dealloc(args);
}

/* In the child, between fork and exec: only what signal handlers may do. Returns never. */
static void become(char **args, int output, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a sweep that is killed leaves no training behind */
    if (getppid() != parent)
        raise(SIGKILL);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execvp(args[0], args);
    raise(SIGKILL); /* the parent finds no result and says so */
}

vv_status vvi_job_claim(int *output, const vv_sweep *s, int trial, const vv_sweep_run_opts *opts)
{
    const struct timespec moment = {0, 20000000};
    char path[1200];
    *output = -1;
    snprintf(path, sizeof path, "%s/%s", opts->dir, s->trials[trial].name);
    VV_TRY(vvi_mkdirs(path));
    snprintf(path, sizeof path, "%s/%s/output.txt", opts->dir, s->trials[trial].name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return vv_fail(VV_EIO, "%s cannot be written: %s", path, strerror(errno));
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        const bool held = errno == EWOULDBLOCK || errno == EINTR;
        if (!held) /* a file system without locks */
            break;
        if (i == MOST_WAITS || atomic_load(&s->interrupted)) {
            close(fd);
            return vv_fail(
                VV_EIO, "%s is written by another process: is this sweep at work already?", path);
        }
        nanosleep(&moment, NULL);
    }
    *output = fd;
    return VV_OK;
}

vv_status vvi_job_start(vvi_job *job, const vv_sweep *s, int trial, const vv_sweep_run_opts *opts,
                        int jobs, int output)
{
    char **args = NULL;
    vv_status status = arguments(&args, s, &s->trials[trial], opts, jobs);
    if (status == VV_OK) {
        const pid_t parent = getpid(), child = fork();
        if (child == 0)
            become(args, output, parent);
        if (child < 0)
            status = vv_fail(VV_EIO, "sweep: a training cannot be started: %s", strerror(errno));
        *job = (vvi_job){(int)child, trial};
    }
    close(output);
    free_arguments(args);
    return status;
}

bool vvi_job_ended(const vvi_job *job)
{
    int how;
    return waitpid((pid_t)job->pid, &how, WNOHANG) != 0;
}

void vvi_job_signal(const vvi_job *job)
{
    kill((pid_t)job->pid, SIGTERM);
}

/* ---- the loop ---- */

typedef struct work {
    vv_sweep *s;
    const vv_sweep_run_opts *opts;
    vvi_job *jobs;
    int running, most;
    bool stopping;
    bool *tried; /* in this run, by trial */
    int tried_room;
} work;

static void tell(const work *w, int trial)
{
    if (!w->opts->report)
        return;
    const vv_trial told = vv_sweep_trial(w->s, trial);
    w->opts->report(w->opts->ctx, w->s, &told);
}

static vv_status collect(work *w)
{
    for (int i = 0; i < w->running;) {
        const vvi_job job = w->jobs[i];
        if (!vvi_job_ended(&job)) {
            i++;
            continue;
        }
        vvi_trial *t = &w->s->trials[job.trial];
        w->jobs[i] = w->jobs[--w->running];
        t->status = VV_TRIAL_WAITING;
        VV_TRY(vvi_trial_read(w->s, job.trial, w->opts->dir));
        if (t->status == VV_TRIAL_WAITING && !w->stopping) {
            char path[1200];
            snprintf(path, sizeof path, "%s/%s/summary.json", w->opts->dir, t->name);
            write_failure(path);
            t->status = VV_TRIAL_FAILED;
        }
        tell(w, job.trial);
    }
    return VV_OK;
}

static int next_waiting(const work *w)
{
    for (int n = 0;; n++) {
        const int i = vvi_sweep_in_order(w->s, n);
        if (i < 0 ||
            (w->s->trials[i].status == VV_TRIAL_WAITING && !(i < w->tried_room && w->tried[i])))
            return i;
    }
}

static vv_status mark_tried(work *w, int trial)
{
    if (trial >= w->tried_room) {
        const int room = 2 * trial + 64;
        VV_TRY(vv_realloc_array(&w->tried, (size_t)room, sizeof *w->tried));
        memset(w->tried + w->tried_room, 0, (size_t)(room - w->tried_room) * sizeof *w->tried);
        w->tried_room = room;
    }
    w->tried[trial] = true;
    return VV_OK;
}

/* *open = it is still to be run, as its folder says. */
static vv_status look(const work *w, int trial, bool *open)
{
    VV_TRY(vvi_trial_read(w->s, trial, w->opts->dir));
    const vv_trial_status status = w->s->trials[trial].status;
    *open = status == VV_TRIAL_WAITING || (status == VV_TRIAL_FAILED && w->opts->retry);
    return VV_OK;
}

static vv_status start_one(work *w, int trial)
{
    bool open;
    int output;
    VV_TRY(mark_tried(w, trial));
    VV_TRY(look(w, trial, &open)); /* one that was just thought of may be done from before */
    if (!open)
        return VV_OK;
    VV_TRY(vvi_job_claim(&output, w->s, trial, w->opts));
    vv_status status = look(w, trial, &open); /* who held the folder may have finished it */
    if (status != VV_OK || !open) {
        close(output);
        return status;
    }
    VV_TRY(vvi_job_start(&w->jobs[w->running], w->s, trial, w->opts, w->most, output));
    w->running++;
    w->s->trials[trial].status = VV_TRIAL_RUNNING;
    tell(w, trial);
    return VV_OK;
}

static vv_status start_more(work *w)
{
    while (w->running < w->most && !w->stopping) {
        VV_TRY(vvi_sweep_next(w->s, w->most));
        const int trial = next_waiting(w);
        if (trial < 0)
            return VV_OK;
        VV_TRY(start_one(w, trial));
    }
    return VV_OK;
}

static vv_status loop(work *w)
{
    const struct timespec moment = {0, 20000000};
    vv_status status = VV_OK;
    while (status == VV_OK) {
        if (atomic_load(&w->s->interrupted) && !w->stopping) {
            w->stopping = true;
            for (int i = 0; i < w->running; i++)
                vvi_job_signal(&w->jobs[i]);
        }
        status = collect(w);
        if (status == VV_OK)
            status = start_more(w);
        if (!w->running)
            break;
        nanosleep(&moment, NULL);
    }
    for (int i = 0; status != VV_OK && i < w->running; i++)
        vvi_job_signal(&w->jobs[i]);
    while (status != VV_OK && w->running) {
        if (vvi_job_ended(&w->jobs[w->running - 1]))
            w->running--;
        else
            nanosleep(&moment, NULL);
    }
    return status;
}

static vv_status write_table(vv_sweep *s, const char *dir)
{
    vv_str table = {0};
    char *path = NULL;
    vv_status status;
    VV_GO(vv_sweep_table(s, dir, false, &table));
    VV_GO(vvi_path_join(&path, dir, "table.csv"));
    VV_GO(vvi_file_write_atomic(path, vv_str_text(&table), table.length));
out:
    vv_dealloc(path);
    vv_str_fini(&table);
    return status;
}

vv_status vv_sweep_run(vv_sweep *s, const vv_sweep_run_opts *opts)
{
    work w = {.s = s, .opts = opts, .most = opts->jobs > 0 ? opts->jobs : s->jobs};
    vv_status status;
    VV_TRY(vvi_mkdirs(opts->dir));
    for (int i = 0; i < s->trial_count; i++) {
        VV_TRY(vvi_trial_read(s, i, opts->dir));
        if (opts->retry && s->trials[i].status == VV_TRIAL_FAILED)
            s->trials[i].status = VV_TRIAL_WAITING;
    }
    VV_GO(vv_alloc_array(&w.jobs, (size_t)w.most, sizeof *w.jobs));
    VV_GO(loop(&w));
    VV_GO(write_table(s, opts->dir));
    if (atomic_load(&s->interrupted))
        status = vv_fail(VV_EINTERRUPTED, "the sweep was stopped; the same command goes on");
out:
    vv_dealloc(w.jobs);
    vv_dealloc(w.tried);
    return status;
}
