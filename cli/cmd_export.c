/* cmd_export.c - `vivace export`: a trained model for other programs. */
#include "cli.h"

#include <string.h>

#include <vivace/export.h>

typedef vv_status export_fn(vv_model *model, const vv_sample_spec *input, const char *path);

static vv_status to_safetensors(vv_model *model, const vv_sample_spec *input, const char *path)
{
    (void)input;
    return vv_export_safetensors(model, path);
}

static const struct {
    const char *name, *file;
    export_fn *write;
} formats[] = {
    {"safetensors", "model.safetensors", to_safetensors},
    {"onnx", "model.onnx", vv_export_onnx},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static int find_format(const char *name)
{
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return i;
    return -1;
}

static int run(int argc, char **argv)
{
    const char *format = "safetensors", *out = NULL, *recipe = NULL;
    cli_args args;
    const cli_option options[] = {{"--format", NULL, &format}, {"--out", NULL, &out},
                                  {"--recipe", NULL, &recipe}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_export, argc, argv, options, 1, &args);
    cli_loaded l = {0};
    int which = find_format(format);
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_export, "no run was given");
    if (code == CLI_DONE && which < 0)
        code = cli_usage(&cli_export, "unknown format %s; there are safetensors and onnx", format);
    if (code == CLI_DONE) {
        const char *path = out ? out : formats[which].file;
        vv_status status = cli_load_run(&l, args.words[0], recipe, &args, true);
        const vv_state *state = l.run ? vv_trainer_state(vv_run_trainer(l.run)) : NULL;
        if (status != VV_OK ||
            formats[which].write(state->model, &state->input_spec, path) != VV_OK)
            code = cli_fail();
        else
            printf("%s\n", path);
    }
    cli_unload(&l);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_export = {
    "export", "RUN|CHECKPOINT [--format safetensors|onnx] [--out FILE] [--recipe FILE]",
    "Writes a trained model for other programs.", run};
