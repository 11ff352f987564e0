/* export_model.c - the export_model callback: whether it can be done is looked at before the first
 * batch; the file is written when everything that changes weights at the end has done so. */
#include "export_model.h"

#include <vivace/export.h>
#include <vivace/train.h>

static const char *const formats[] = {"safetensors", "onnx", NULL};
static const vv_field fields[] = {
    {"format", "safetensors: the weights; onnx: weights and graph.", VV_FIELD_CHOICE,
     offsetof(vv_export_model_opts, format), "safetensors", 0, 0, formats},
    {"path", "The file; empty = model.safetensors or model.onnx in the run's folder.",
     VV_FIELD_STRING, offsetof(vv_export_model_opts, path), "", 0, 0, NULL},
    {.name = NULL},
};

static vv_status find_path(const vv_export_model_opts *opts, const vv_state *state, vv_str *path)
{
    const char *run = vv_trainer_run_dir(state->trainer);
    if (!opts->path[0] && !run)
        return vv_fail(VV_EINVAL, "path must be given: the run has no folder for the model");
    if (opts->path[0])
        vv_str_add(path, opts->path);
    else
        vv_str_addf(path, "%s/model.%s", run, formats[opts->format]);
    return vv_str_status(path);
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_export_model_opts *opts = callback->opts;
    vv_str path = {0};
    vv_status status;
    VV_GO(find_path(opts, state, &path));
    if (event == VV_EVENT_FIT_START)
        status = opts->format == 1 ? vv_export_onnx(state->model, &state->input_spec, NULL) : VV_OK;
    else if (opts->format == 1)
        status = vv_export_onnx(state->model, &state->input_spec, vv_str_text(&path));
    else
        status = vv_export_safetensors(state->model, vv_str_text(&path));
out:
    vv_str_fini(&path);
    return status;
}

const vv_callback_desc vv_callback_export_model = {
    .desc = {"callback", "export_model", "Writes the trained model for other programs.", "", "any",
             fields, sizeof(vv_export_model_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_FIT_END),
    .apply = apply,
};
