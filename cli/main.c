/* main.c - the program `vivace`: finds the verb, and what verbs share. */
#include "cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vivace/memory.h>

#include "vvi_config.h"

static const cli_verb *const verbs[] = {&cli_train,   &cli_check, &cli_eval,
                                        &cli_predict, &cli_list,  &cli_describe,
                                        &cli_bench,   &cli_data,  &cli_compare,
                                        &cli_export,  &cli_checkpoint, &cli_runs, &cli_sweep,
                                        &cli_generate, &cli_explore, &cli_recommend};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

static const char *verb_at(const void *ctx, int i)
{
    (void)ctx;
    return verbs[i]->name;
}

const cli_verb *cli_verb_find(const char *name)
{
    for (int i = 0; i < VERBS; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

int cli_fail(void)
{
    fprintf(stderr, "vivace: %s\n", vv_error()[0] ? vv_error() : "failed without a reason");
    return CLI_FAILED;
}

int cli_usage(const cli_verb *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("vivace: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: vivace %s %s\n", verb->name, verb->usage);
    return CLI_USAGE;
}

static const char *option_at(const void *ctx, int i)
{
    return ((const cli_option *)ctx)[i].name;
}

static int take_option(const cli_verb *verb, const cli_option *options, int argc, char **argv,
                       int *i)
{
    int count = 0;
    for (; options && options[count].name; count++) {
        const cli_option *option = &options[count];
        size_t length = strlen(option->name);
        if (strcmp(argv[*i], option->name) == 0) {
            if (option->flag) {
                *option->flag = true;
                return CLI_DONE;
            }
            if (*i + 1 >= argc)
                return cli_usage(verb, "%s needs a value", option->name);
            *option->text = argv[++*i];
            return CLI_DONE;
        }
        if (option->text && strncmp(argv[*i], option->name, length) == 0 &&
            argv[*i][length] == '=') {
            *option->text = argv[*i] + length + 1;
            return CLI_DONE;
        }
    }
    int near = vv_nearest(argv[*i], option_at, options, count);
    return near >= 0 ? cli_usage(verb, "unknown option %s; did you mean %s?", argv[*i],
                                 options[near].name)
                     : cli_usage(verb, "unknown option %s", argv[*i]);
}

int cli_parse(const cli_verb *verb, int argc, char **argv, const cli_option *options, int max_words,
              cli_args *args)
{
    static const char *nothing[2];
    *args = (cli_args){.words = nothing};
    args->overrides = calloc(2 * (size_t)argc + 3, sizeof *args->overrides);
    if (!args->overrides) {
        fprintf(stderr, "vivace: out of memory\n");
        return CLI_FAILED;
    }
    args->words = args->overrides + argc + 1;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            printf("%s\nusage: vivace %s %s\n", verb->summary, verb->name, verb->usage);
            exit(CLI_DONE);
        }
        if (argv[i][0] == '-' && argv[i][1]) {
            int code = take_option(verb, options, argc, argv, &i);
            if (code != CLI_DONE)
                return code;
        } else if (strchr(argv[i], '=') && (max_words == 0 || args->word_count > 0)) {
            args->overrides[args->override_count++] = argv[i];
        } else if (args->word_count < max_words) {
            args->words[args->word_count++] = argv[i];
        } else {
            return cli_usage(verb, "'%s' is not expected here", argv[i]);
        }
    }
    return CLI_DONE;
}

void cli_args_fini(cli_args *args)
{
    free(args->overrides);
}

/* ---- Ctrl-C ---- */

static vv_trainer *volatile watched;
static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal_number)
{
    if (interrupts++ || !watched)
        _exit(128 + signal_number);
    vv_trainer_interrupt(watched);
}

void cli_watch_interrupt(vv_trainer *trainer)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = trainer ? on_interrupt : SIG_DFL;
    watched = trainer;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int help(FILE *to)
{
    fputs("Vivace trains deep networks faster by changing the algorithm.\n\nusage: vivace VERB "
          "...\n\n",
          to);
    for (int i = 0; i < VERBS; i++)
        fprintf(to, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\n`vivace VERB --help` tells how a verb is used.\n", to);
    return to == stdout ? CLI_DONE : CLI_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return help(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(stdout);
    if (strcmp(argv[1], "--version") == 0) {
        puts("vivace " VVI_VERSION);
        return CLI_DONE;
    }
    const cli_verb *verb = cli_verb_find(argv[1]);
    if (verb)
        return verb->run(argc - 2, argv + 2);
    int near = vv_nearest(argv[1], verb_at, NULL, VERBS);
    if (near >= 0)
        fprintf(stderr, "vivace: there is no verb '%s'; did you mean '%s'?\n", argv[1],
                verbs[near]->name);
    else
        fprintf(stderr, "vivace: there is no verb '%s'; see `vivace --help`\n", argv[1]);
    return CLI_USAGE;
}
