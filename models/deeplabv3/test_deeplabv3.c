/* test_deeplabv3.c - what must hold of deeplabv3: torchvision's names and count, the backbone's
 * strides and dilations, weights of a classifier as its backbone, and it trains with every head;
 * numbers are compared in test_segmentation_golden. */
#include "segment_test.h"

#include <unistd.h>

#include <vivace/resnet.h>
#include <vivace/safetensors.h>

#include "deeplabv3.h"

#define SMALL "backbone=resnet18,width=4,head_width=8"

static const vv_conv2d_layer *conv_at(vv_module *net, const char *path)
{
    vv_module *module = vv_module_find(net, path);

    assert_non_null(module);
    return vv_module_self(module);
}

static void names_are_those_of_torchvision(void **state)
{
    (void)state;
    const vv_deeplabv3_opts opts = {VV_RESNET_50, VV_DEEPLAB_TORCHVISION, 64, 256, 8, 0.0};
    vv_module *net = NULL;

    assert_ok(vv_deeplabv3_new(&net, 3, 21, &opts));
    net_has_names(net, "backbone.conv1.weight backbone.layer4.2.bn3.bias "
                       "classifier.0.convs.0.0.weight classifier.0.convs.3.1.bias "
                       "classifier.0.convs.4.1.weight classifier.0.convs.4.2.bias "
                       "classifier.0.project.0.weight classifier.1.weight classifier.2.bias "
                       "classifier.4.weight classifier.4.bias");
    /* torchvision's deeplabv3_resnet50 without the auxiliary classifier. */
    assert_int_equal(vv_module_param_count(net), 39638869);
    vv_module_free(net);
}

static void strides_become_dilations(void **state)
{
    (void)state;
    const vv_deeplabv3_opts eight = {VV_RESNET_50, VV_DEEPLAB_PLAIN, 4, 8, 8, 0.0};
    const vv_deeplabv3_opts sixteen = {VV_RESNET_50, VV_DEEPLAB_PLAIN, 4, 8, 16, 0.0};
    vv_module *net = NULL;

    assert_ok(vv_deeplabv3_new(&net, 3, 5, &eight));
    assert_int_equal(conv_at(net, "backbone.layer2.0.conv2")->conv.stride[0], 2);
    assert_int_equal(conv_at(net, "backbone.layer3.0.conv2")->conv.stride[0], 1);
    assert_int_equal(conv_at(net, "backbone.layer3.0.conv2")->conv.dilation[0], 1);
    assert_int_equal(conv_at(net, "backbone.layer3.1.conv2")->conv.dilation[0], 2);
    assert_int_equal(conv_at(net, "backbone.layer4.0.conv2")->conv.dilation[0], 2);
    assert_int_equal(conv_at(net, "backbone.layer4.2.conv2")->conv.dilation[0], 4);
    assert_int_equal(conv_at(net, "classifier.0.convs.3.0")->conv.dilation[0], 36);
    vv_module_free(net);
    assert_ok(vv_deeplabv3_new(&net, 3, 5, &sixteen));
    assert_int_equal(conv_at(net, "backbone.layer3.0.conv2")->conv.stride[0], 2);
    assert_int_equal(conv_at(net, "backbone.layer4.0.conv2")->conv.stride[0], 1);
    assert_int_equal(conv_at(net, "backbone.layer4.2.conv2")->conv.dilation[0], 2);
    assert_int_equal(conv_at(net, "classifier.0.convs.3.0")->conv.dilation[0], 18);
    vv_module_free(net);
}

static bool add_state(void *ctx, const char *name, vv_tensor *tensor)
{
    assert_ok(vv_safetensors_add(ctx, name, tensor));
    return true;
}

/* A ResNet's file gives the backbone its weights; the head keeps its own. */
static void backbone_weights_load(void **state)
{
    (void)state;
    const vv_sample_spec image = image_spec(32, 32, 3, 10), mask = mask_spec(32, 32, 3, 4);
    char dir[] = "/tmp/vivace-test-XXXXXX", path[64];
    vv_model *resnet = model_make(&vv_model_resnet, NULL, &image);
    vv_model *model = model_make(&vv_model_deeplabv3, "backbone=resnet18,head_width=8", &mask);
    vv_safetensors_writer *writer = NULL;
    vv_safetensors *file = NULL;
    int loaded = 0;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/resnet18.safetensors", dir);
    assert_ok(vv_safetensors_writer_new(&writer));
    vv_module_each_state(resnet->net, add_state, writer);
    assert_ok(vv_safetensors_write(writer, path));
    vv_safetensors_writer_free(writer);
    assert_ok(vv_safetensors_open(&file, path));
    assert_fails(vv_model_load(model, file, true, NULL, NULL, &loaded), VV_ENOTFOUND);
    assert_ok(vv_model_load(model, file, true, "classifier.*", NULL, &loaded));
    assert_true(loaded >= 5 * 20); /* weight and norm of 20 convolutions */
    const vv_tensor *a = vv_module_param(vv_module_find(resnet->net, "layer4.1.conv2"),
                                         "weight")->value;
    const vv_tensor *b = vv_module_param(vv_module_find(model->net, "backbone.layer4.1.conv2"),
                                         "weight")->value;

    assert_memory_equal(a->data, b->data, (size_t)a->count * sizeof(float));
    vv_safetensors_close(file);
    vv_model_free(resnet);
    vv_model_free(model);
    unlink(path);
    rmdir(dir);
}

static void trains_with_every_head(void **state)
{
    (void)state;
    static const char *const settings[] = {
        SMALL, SMALL ",head=plain,output_stride=16", SMALL ",head=torchvision",
        "backbone=resnet50,width=4,head_width=8,output_stride=32"};
    const vv_sample_spec spec = mask_spec(33, 40, 3, 5);

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        vv_model *model = model_make(&vv_model_deeplabv3, settings[i], &spec);

        segmenter_trains(model, &spec, 2);
        vv_model_free(model);
    }
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = mask_spec(16, 16, 3, 4);
    const vv_deeplabv3_opts wrong[] = {{9, 0, 64, 512, 8, 0.1},  {2, 3, 64, 512, 8, 0.1},
                                       {2, 0, 0, 512, 8, 0.1},   {2, 0, 64, 0, 8, 0.1},
                                       {2, 0, 64, 512, 12, 0.1}, {2, 0, 64, 512, 8, 1.0}};
    vv_module *net = NULL;

    model_desc_is_sane(&vv_model_deeplabv3, &spec, 311);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(vv_deeplabv3_new(&net, 3, 10, &wrong[i]), VV_EINVAL);
    assert_null(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_torchvision),
        cmocka_unit_test(strides_become_dilations),
        cmocka_unit_test(backbone_weights_load),
        cmocka_unit_test(trains_with_every_head),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
