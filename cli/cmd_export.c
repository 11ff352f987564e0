/* cmd_export.c - `vivace export`: a trained model for other programs. */
#include "cli.h"

#include <string.h>

#include <vivace/export.h>

typedef vv_status export_fn(const cli_loaded *l, const char *path, const vv_onnx_opts *opts);

static vv_status to_safetensors(const cli_loaded *l, const char *path, const vv_onnx_opts *opts)
{
    (void)opts;
    return vv_export_safetensors(vv_trainer_state(vv_run_trainer(l->run))->model, path);
}

static vv_status to_timm(const cli_loaded *l, const char *path, const vv_onnx_opts *opts)
{
    (void)opts;
    if (!l->input_known)
        return vv_fail(VV_ENOTFOUND, "the checkpoint does not tell what its data are; it is of an "
                                     "earlier version, or of a text");
    return vv_export_timm(vv_trainer_state(vv_run_trainer(l->run))->model, &l->input, path);
}

static vv_status to_onnx(const cli_loaded *l, const char *path, const vv_onnx_opts *opts)
{
    const vv_state *state = vv_trainer_state(vv_run_trainer(l->run));
    return vv_export_onnx_with(state->model, &state->input_spec, path, opts);
}

static const struct {
    const char *name, *file;
    export_fn *write;
} formats[] = {
    {"safetensors", "model.safetensors", to_safetensors},
    {"onnx", "model.onnx", to_onnx},
    {"timm", "timm_model", to_timm},
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
    const char *format = "safetensors", *out = NULL, *recipe = NULL, *layout = "nhwc";
    bool pixels = false, softmax = false;
    cli_args args;
    const cli_option options[] = {{"--format", NULL, &format},   {"--out", NULL, &out},
                                  {"--recipe", NULL, &recipe},   {"--layout", NULL, &layout},
                                  {"--pixels", &pixels, NULL}, {"--softmax", &softmax, NULL},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_export, argc, argv, options, 1, &args);
    cli_loaded l = {0};
    const int which = find_format(format);
    const bool nchw = strcmp(layout, "nchw") == 0;
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_export, "no run was given");
    if (code == CLI_DONE && which < 0)
        code = cli_usage(&cli_export, "unknown format %s; there are safetensors, onnx and timm",
                         format);
    if (code == CLI_DONE && !nchw && strcmp(layout, "nhwc") != 0)
        code = cli_usage(&cli_export, "unknown layout %s; there are nhwc and nchw", layout);
    if (code == CLI_DONE && which != 1 && (nchw || pixels || softmax))
        code = cli_usage(&cli_export, "--layout, --pixels and --softmax are for --format onnx");
    if (code == CLI_DONE) {
        const char *path = out ? out : formats[which].file;
        vv_status status = cli_load_run(&l, args.words[0], recipe, &args, true);
        vv_onnx_opts opts = {.nchw = nchw, .pixels = pixels, .softmax = softmax};
        if (status == VV_OK)
            opts.normalise = vv_loader_transform(vv_run_eval_loader(l.run))->normalise;
        if (status != VV_OK || formats[which].write(&l, path, &opts) != VV_OK)
            code = cli_fail();
        else
            printf("%s\n", path);
    }
    cli_unload(&l);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_export = {
    "export",
    "RUN|CHECKPOINT [--format safetensors|onnx|timm] [--layout nhwc|nchw] [--pixels] [--softmax] "
    "[--out FILE] [--recipe FILE]",
    "Writes a trained model for other programs.", run};
