/* cmd_sweep.c - `vivace sweep`: many trainings from one file. */
#include "cli.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vivace/sweep.h>

static vv_sweep *watched; /* by the signal handler */

static void on_signal(int number)
{
    static volatile sig_atomic_t count;
    if (count++)
        _exit(128 + number);
    vv_sweep_interrupt(watched);
}

static void watch(vv_sweep *sweep)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = sweep ? on_signal : SIG_DFL;
    watched = sweep;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void report(void *ctx, const vv_sweep *sweep, const vv_trial *trial)
{
    int done = 0, failed = 0;
    (void)ctx;
    for (int i = 0; i < vv_sweep_known(sweep); i++) {
        const vv_trial_status status = vv_sweep_trial(sweep, i).status;
        done += status == VV_TRIAL_DONE;
        failed += status == VV_TRIAL_FAILED;
    }
    printf("[%d/%d] %s ", done + failed, vv_sweep_total(sweep), trial->name);
    if (trial->status == VV_TRIAL_RUNNING) {
        printf("starts:");
        for (int i = 0; i < trial->override_count; i++)
            printf(" %s", trial->overrides[i]);
    } else if (trial->status == VV_TRIAL_DONE) {
        printf("done: %.6g after %.1f s", trial->quality, trial->train_seconds);
        if (isfinite(trial->usd))
            printf(", %.5f USD", trial->usd);
    } else {
        printf(trial->status == VV_TRIAL_FAILED ? "failed: see output.txt in its folder"
                                                : "stopped and saved");
    }
    putchar('\n');
    fflush(stdout);
}

static int jobs_of(const char *text)
{
    char *end;
    const long jobs = strtol(text, &end, 10);
    return *text && !*end && jobs >= 1 && jobs <= 1024 ? (int)jobs : -1;
}

static vv_status run(vv_sweep *sweep, const char *dir, int jobs, bool retry, bool json)
{
    char program[4096] = "";
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return vv_fail(VV_EIO, "sweep: where this program lies is not known (/proc/self/exe)");
    const vv_sweep_run_opts opts = {.dir = dir,
                                    .program = program,
                                    .jobs = jobs,
                                    .retry = retry,
                                    .report = json ? NULL : report};
    watch(sweep);
    vv_status status = vv_sweep_run(sweep, &opts);
    watch(NULL);
    return status;
}

static int sweep_with(const char *path, const cli_args *args, const char *dir_option,
                      const char *jobs_option, bool plan_only, bool retry, bool json)
{
    vv_sweep *sweep = NULL;
    vv_str dir = {0}, text = {0};
    const int jobs = jobs_option ? jobs_of(jobs_option) : 0;
    int code = CLI_DONE;
    vv_status status = VV_OK;
    if (jobs < 0)
        return cli_usage(&cli_sweep, "--jobs: give a number from 1 to 1024");
    status = vv_sweep_load(&sweep, path, args->overrides, args->override_count);
    if (status == VV_OK) {
        if (dir_option)
            vv_str_add(&dir, dir_option);
        else
            vv_str_addf(&dir, "runs/%s", vv_sweep_name(sweep));
        status = vv_str_status(&dir);
    }
    if (status == VV_OK && (plan_only || !json)) {
        status = vv_sweep_plan(sweep, vv_str_text(&dir), json, &text);
        if (status == VV_OK) {
            fputs(vv_str_text(&text), stdout);
            fflush(stdout);
        }
    }
    if (status == VV_OK && !plan_only) {
        status = run(sweep, vv_str_text(&dir), jobs, retry, json);
        vv_str_clear(&text);
        if (status == VV_OK)
            status = vv_sweep_table(sweep, vv_str_text(&dir), json, &text);
        if (status == VV_OK && json)
            fputs(vv_str_text(&text), stdout);
        else if (status == VV_OK)
            printf("done: %s/table.csv\n", vv_str_text(&dir));
    }
    if (status == VV_EINTERRUPTED)
        fprintf(stderr, "vivace: %s\n", vv_error());
    if (status != VV_OK)
        code = status == VV_EINTERRUPTED ? CLI_FAILED : cli_fail();
    vv_str_fini(&dir);
    vv_str_fini(&text);
    vv_sweep_free(sweep);
    return code;
}

static int sweep(int argc, char **argv)
{
    const char *dir = NULL, *jobs = NULL;
    bool plan = false, retry = false, json = false;
    cli_args args;
    const cli_option options[] = {{"--dir", NULL, &dir},   {"--jobs", NULL, &jobs},
                                  {"--plan", &plan, NULL}, {"--retry", &retry, NULL},
                                  {"--json", &json, NULL}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_sweep, argc, argv, options, 1, &args);
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_sweep, "no sweep was given");
    else if (code == CLI_DONE)
        code = sweep_with(args.words[0], &args, dir, jobs, plan, retry, json);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_sweep = {"sweep",
                            "SWEEP.yaml [key=value ...] [--dir DIR] [--jobs N] [--plan] [--retry] "
                            "[--json]",
                            "Trains a recipe in many ways; the same command goes on.", sweep};
