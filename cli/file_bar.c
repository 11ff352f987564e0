/* file_bar.c - a bar on the terminal for work on files, which Ctrl-C ends. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <vivace/training_time.h>

#include "cli.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void cli_bar_start(cli_bar *bar, const char *unit, double scale, int digits)
{
    *bar = (cli_bar){.start = vv_clock(), .terminal = isatty(STDERR_FILENO), .unit = unit,
                     .scale = scale, .digits = digits};
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
}

bool cli_bar_show(void *ctx, int64_t done, int64_t total)
{
    cli_bar *b = ctx;
    const double now = vv_clock();
    if (b->terminal && (now - b->shown > 0.1 || done == total)) {
        const double rate = (double)done / (now - b->start + 1e-9);
        char filled[31] = "..............................";
        memset(filled, '#', total > 0 ? (size_t)(30 * (double)done / (double)total) : 30);
        fprintf(stderr, "\r[%s] %.*f of %.*f %s, %.*f a second, %.0f s left ", filled, b->digits,
                (double)done / b->scale, b->digits, (double)total / b->scale, b->unit, b->digits,
                rate / b->scale, rate > 0 ? (double)(total - done) / rate : 0.0);
        if (done == total)
            fputc('\n', stderr);
        b->shown = now;
    }
    return !interrupted;
}
