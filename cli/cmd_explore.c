/* cmd_explore.c - `vivace explore`: serves the page that shows the runs of a store. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vivace/explorer.h>
#include <vivace/run_store.h>
#include <vivace/str.h>

/* In a process of its own that is nobody's child, so that Ctrl-C does not reach it. */
static void open_browser(const char *address)
{
    const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    if (!(x && x[0]) && !(wayland && wayland[0]))
        return; /* no screen */
    const pid_t child = fork();
    if (child == 0) {
        const int nothing = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++)
            if (nothing >= 0)
                (void)dup2(nothing, i);
        (void)setsid();
        if (fork() == 0) {
            sigset_t none;
            sigemptyset(&none);
            sigprocmask(SIG_SETMASK, &none, NULL);
            execlp("xdg-open", "xdg-open", address, (char *)NULL);
        }
        _exit(0);
    }
    if (child > 0)
        (void)waitpid(child, NULL, 0);
}

static bool read_port(const char *text, int *port)
{
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    *port = (int)value;
    return !errno && end != text && !*end && value >= 0 && value <= 65535;
}

static vv_status serve(const vv_explorer_opts *opts, bool browser)
{
    vv_explorer *explorer;
    vv_str address = {0};
    sigset_t leave;
    int which;
    sigemptyset(&leave);
    sigaddset(&leave, SIGINT);
    sigaddset(&leave, SIGTERM);
    sigprocmask(SIG_BLOCK, &leave, NULL);
    VV_TRY(vv_explorer_start(&explorer, opts));
    const bool v6 = strchr(opts->host, ':') != NULL;
    vv_str_addf(&address, "http://%s%s%s:%d/", v6 ? "[" : "", opts->host, v6 ? "]" : "",
                vv_explorer_port(explorer));
    if (opts->token[0])
        vv_str_addf(&address, "?token=%s", opts->token);
    vv_status status = vv_str_status(&address);
    if (status == VV_OK) {
        puts(vv_str_text(&address));
        fflush(stdout);
        if (browser)
            open_browser(vv_str_text(&address));
        sigwait(&leave, &which);
    }
    vv_explorer_stop(explorer);
    vv_str_fini(&address);
    return status;
}

/* ---- files of runs, shown without a store of one's own: it lies in a folder that goes with us
   ---- */

enum { MOST_FILES = 64 };

typedef struct passing {
    char folder[512], db[544];
} passing;

static void remove_passing(const passing *p)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[600];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", p->db, ends[i]);
        (void)remove(path);
    }
    (void)rmdir(p->folder);
}

static vv_status take(const passing *p, const cli_args *files)
{
    vv_run_store *store;
    int count;
    VV_TRY(vv_run_store_open(&store, p->db, true));
    vv_status status = VV_OK;
    for (int i = 0; i < files->word_count && status == VV_OK; i++)
        status = vv_run_store_import(store, files->words[i], &count);
    vv_run_store_close(store);
    return status;
}

static vv_status serve_files(vv_explorer_opts *opts, const cli_args *files, bool browser)
{
    const char *place = getenv("TMPDIR");
    passing p;
    snprintf(p.folder, sizeof p.folder, "%.480s/vivace-explore-XXXXXX",
             place && place[0] ? place : "/tmp");
    if (!mkdtemp(p.folder))
        return vv_fail(VV_EIO, "%s: no folder for what is shown: %s", p.folder, strerror(errno));
    snprintf(p.db, sizeof p.db, "%s/runs.db", p.folder);
    opts->db = p.db;
    vv_status status = take(&p, files);
    if (status == VV_OK)
        status = serve(opts, browser);
    remove_passing(&p);
    return status;
}

static int explore(int argc, char **argv)
{
    vv_explorer_opts opts = VV_EXPLORER_DEFAULTS;
    const char *port = "8765", *db = NULL, *stray = NULL;
    bool quiet = false;
    cli_args args;
    const cli_option options[] = {{"--db", NULL, &db},               {"--port", NULL, &port},
                                  {"--host", NULL, &opts.host},      {"--token", NULL, &opts.token},
                                  {"--write", &opts.write, NULL},    {"--no-browser", &quiet, NULL},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_explore, argc, argv, options, MOST_FILES, &args);
    if (code != CLI_DONE)
        goto out;
    if (db)
        opts.db = db;
    for (int i = 0; i < args.word_count && !stray; i++) /* no filter: those are the page's */
        if (strchr(args.words[i], '=') && access(args.words[i], F_OK) != 0)
            stray = args.words[i];
    if (args.override_count > 0)
        stray = args.overrides[0];
    if (stray)
        code = cli_usage(&cli_explore, "'%s' is not expected here", stray);
    else if (!read_port(port, &opts.port))
        code = cli_usage(&cli_explore, "--port takes a number from 0 to 65535, not '%s'", port);
    else if (args.word_count > 0 && db)
        code = cli_usage(&cli_explore, "give --db or files, not both");
    else if (args.word_count > 0)
        code = serve_files(&opts, &args, !quiet) == VV_OK ? CLI_DONE : cli_fail();
    else
        code = serve(&opts, !quiet) == VV_OK ? CLI_DONE : cli_fail();
out:
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_explore = {
    "explore",
    "[FILE ...] [--db FILE] [--port N] [--host ADDRESS --token TOKEN] [--write] [--no-browser]",
    "Shows the runs of a store, or of exported files, as a page in the browser, until Ctrl-C.",
    explore};
