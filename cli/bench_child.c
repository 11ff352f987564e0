/* bench_child.c - another process that measures: its command, and the JSON it prints. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_child.h"

static vv_status read_all(int from, vv_str *out)
{
    char buffer[4096];
    for (;;) {
        ssize_t n = read(from, buffer, sizeof buffer);
        if (n > 0)
            vv_str_addn(out, buffer, (size_t)n);
        else if (n == 0)
            return vv_str_status(out);
        else if (errno != EINTR)
            return vv_fail(VV_EIO, "bench: cannot read what the measuring process prints: %s",
                           strerror(errno));
    }
}

/* Its complaints go the same way as its answer: what is no JSON is the reason of a failure. */
static void become(const char *program, char *const *argv, const int *ends)
{
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execv(program, argv);
    dprintf(STDERR_FILENO, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

static vv_status talk(const char *program, char *const *argv, vv_str *out, int *code)
{
    int ends[2], state = 0;
    if (pipe(ends) != 0)
        return vv_fail(VV_EIO, "bench: no pipe to a measuring process: %s", strerror(errno));
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        become(program, argv, ends);
    close(ends[1]);
    vv_status status = child < 0 ? vv_fail(VV_EIO, "bench: cannot start %s: %s", program,
                                           strerror(errno))
                                 : read_all(ends[0], out);
    close(ends[0]);
    if (child < 0)
        return status;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return status;
}

vv_status bench_child_run(const char *program, char *const *argv, json_t **out)
{
    vv_str said = {0};
    int code = 0;
    json_error_t where;
    *out = NULL;
    vv_status status = talk(program, argv, &said, &code);
    if (status == VV_OK) {
        const char *text = vv_str_text(&said), *brace = strchr(text, '{');
        *out = code == 0 && brace ? json_loads(brace, JSON_DISABLE_EOF_CHECK, &where) : NULL;
        if (!*out)
            status = vv_fail(VV_EIO, "%s bench step ended with code %d: %.*s", program, code,
                             (int)strcspn(text, "\n"), text[0] ? text : "(it said nothing)");
    }
    vv_str_fini(&said);
    return status;
}
