/* use_library.c - a user's program, read as C99 and as C++: the defaults have the values that the
 * headers promise, and calls reach the shared library. */
#include <stdio.h>
#include <string.h>

#include <vivace/vivace.h>

static int wrong;

static void expect(bool fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "wrong: %s\n", what);
    wrong++;
}

static void check_defaults(void)
{
    vv_graph_opts graph = VV_GRAPH_DEFAULTS;
    expect(!graph.backend && graph.precision == VV_PRECISION_FP32 && !graph.eager && graph.fuse &&
               graph.in_place && !graph.profile, "VV_GRAPH_DEFAULTS");
    vv_loader_opts loader = VV_LOADER_DEFAULTS;
    expect(loader.batch_size == 128 && !loader.shuffle && !loader.drop_last &&
               loader.workers == 1 && loader.prefetch == 2 && loader.rank == 0 && loader.ranks == 1,
           "VV_LOADER_DEFAULTS");
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    expect(conv.stride[0] == 1 && conv.pad[1] == 0 && conv.dilation[0] == 1 && conv.groups == 1,
           "VV_CONV_DEFAULTS");
    vv_trainer_opts trainer = VV_TRAINER_DEFAULTS;
    expect(strcmp(trainer.max_duration, "1ep") == 0 && trainer.scale_schedule_ratio == 1.0 &&
               !trainer.run_dir && !trainer.resume && trainer.methods.count == 0,
           "VV_TRAINER_DEFAULTS");
    vv_run_opts run = VV_RUN_DEFAULTS;
    expect(run.resume && !run.run_dir && !run.synthetic, "VV_RUN_DEFAULTS");
}

static void check_calls(void)
{
    const int64_t shape[2] = {3, 5};
    vv_tensor *tensor;
    expect(vv_tensor_new(&tensor, VV_F32, 2, shape) == VV_OK && tensor->count == 15,
           "vv_tensor_new");
    vv_tensor_free(tensor);
    const vv_model_desc *model;
    expect(vv_model_find(&model, "resnt9") == VV_ENOTFOUND && strstr(vv_error(), "resnet9"),
           "an unknown model names the nearest");
    expect(vv_model_find(&model, "mlp") == VV_OK && strcmp(model->desc.kind, "model") == 0,
           "vv_model_find");
    expect(vv_conv2d_class.name && strcmp(vv_conv2d_class.name, "Conv2d") == 0,
           "an exported table");
}

int main(void)
{
    check_defaults();
    check_calls();
    return wrong != 0;
}
