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

static int explore(int argc, char **argv)
{
    vv_explorer_opts opts = VV_EXPLORER_DEFAULTS;
    const char *port = "8765";
    bool quiet = false;
    cli_args args;
    const cli_option options[] = {{"--db", NULL, &opts.db},          {"--port", NULL, &port},
                                  {"--host", NULL, &opts.host},      {"--token", NULL, &opts.token},
                                  {"--write", &opts.write, NULL},    {"--no-browser", &quiet, NULL},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_explore, argc, argv, options, 0, &args);
    if (code != CLI_DONE)
        goto out;
    if (args.override_count > 0)
        code = cli_usage(&cli_explore, "'%s' is not expected here", args.overrides[0]);
    else if (!read_port(port, &opts.port))
        code = cli_usage(&cli_explore, "--port takes a number from 0 to 65535, not '%s'", port);
    else
        code = serve(&opts, !quiet) == VV_OK ? CLI_DONE : cli_fail();
out:
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_explore = {
    "explore",
    "[--db FILE] [--port N] [--host ADDRESS --token TOKEN] [--write] [--no-browser]",
    "Shows the runs of a store as a page in the browser, until Ctrl-C.", explore};
