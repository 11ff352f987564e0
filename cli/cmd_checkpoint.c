/* cmd_checkpoint.c - `vivace checkpoint`: what a checkpoint holds, and whether it is whole. */
#include "cli.h"

#include <string.h>

static int inspect(const char *path, bool json)
{
    vv_str text = {0};
    int code = CLI_DONE;
    if (vv_checkpoint_inspect(&text, path, json) != VV_OK)
        code = cli_fail();
    else
        fputs(vv_str_text(&text), stdout);
    vv_str_fini(&text);
    return code;
}

static int verify(const char *path)
{
    vv_str text = {0};
    int wrong = 0, code = CLI_DONE;
    if (vv_checkpoint_verify(&text, &wrong, path) != VV_OK)
        code = cli_fail();
    else if (wrong) {
        fprintf(stderr, "vivace: %d of the files of %s %s damaged\n", wrong, path,
                wrong == 1 ? "is" : "are");
        code = CLI_FAILED;
    }
    fputs(vv_str_text(&text), stdout);
    vv_str_fini(&text);
    return code;
}

static int checkpoint(int argc, char **argv)
{
    bool json = false;
    cli_args args;
    const cli_option options[] = {{"--json", &json, NULL}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_checkpoint, argc, argv, options, 2, &args);
    const char *action = args.word_count ? args.words[0] : "";
    bool looks = strcmp(action, "inspect") == 0, checks = strcmp(action, "verify") == 0;
    if (code == CLI_DONE && !looks && !checks)
        code = cli_usage(&cli_checkpoint, "say `inspect` or `verify`");
    else if (code == CLI_DONE && args.word_count < 2)
        code = cli_usage(&cli_checkpoint, "no checkpoint was given");
    else if (code == CLI_DONE && checks && json)
        code = cli_usage(&cli_checkpoint, "--json is for `inspect`");
    else if (code == CLI_DONE)
        code = looks ? inspect(args.words[1], json) : verify(args.words[1]);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_checkpoint = {"checkpoint", "inspect|verify FILE|RUN_DIR [--json]",
                                 "Shows what a checkpoint holds, or checks that it is whole.",
                                 checkpoint};
