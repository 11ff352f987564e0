/* test_fine_tuning.c - what must hold: weights of a net for other classes load when asked, but for
 * the head, which keeps its own start and is told; unasked the sentence says how; other shapes that
 * differ stay an error; a run that goes on from its own folder is not asked again. */
#include "method_world.h"
#include "vv_test_files.h"

#include <vivace/in_memory.h>
#include <vivace/safetensors.h>

static char folder[256], path[512];

/* mw_net with another head. */
static vv_model *model_for(int64_t classes)
{
    vv_model *model;
    vv_module *net = mw_net(true), *head;
    assert_ok(vv_linear_new(&head, MW_SIDE * MW_SIDE * 4, classes, true));
    assert_ok(vv_module_init_default(head, 77));
    assert_ok(vv_module_set_child(net, 6, head));
    assert_ok(vv_classifier_new(&model, net, classes));
    return model;
}

static vv_status start(vv_trainer **out, const mw_data *d, int64_t classes, bool new_head,
                       vv_logger **memory)
{
    vv_trainer_opts opts = mw_opts(d, true, "2ba");
    vv_model_free(opts.model);
    opts.model = model_for(classes);
    opts.load_path = path;
    opts.load_weights_only = true;
    opts.load.new_head = new_head;
    assert_ok(vv_logger_new(memory, &vv_logger_in_memory, NULL));
    vv_logger *loggers[2] = {*memory, NULL};
    opts.loggers = loggers;
    return vv_trainer_new(out, &opts);
}

static void save(const mw_data *d)
{
    vv_trainer *trainer;
    vv_trainer_opts opts = mw_opts(d, true, "3ba");
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_trainer_save(trainer, path));
    vv_trainer_free(trainer);
}

static void new_head(void **unused)
{
    (void)unused;
    mw_data d;
    vv_trainer *trainer;
    vv_logger *memory;
    vv_safetensors *file;
    mw_open(&d, 12, 6);
    save(&d);
    assert_fails(start(&trainer, &d, 5, false, &memory), VV_ESHAPE);
    assert_says("load_new_head");

    assert_ok(start(&trainer, &d, 5, true, &memory));
    vv_module *net = vv_trainer_state(trainer)->model->net;
    assert_ok(vv_safetensors_open(&file, path));
    const vv_tensor *saved = vv_safetensors_find(file, "0.weight");
    const vv_tensor *own = vv_module_param(vv_module_child(net, 0), "weight")->value;
    assert_memory_equal(saved->data, own->data, own->bytes);
    saved = vv_safetensors_find(file, "1.running_mean");
    own = vv_module_buffer(vv_module_child(net, 1), "running_mean");
    assert_memory_equal(saved->data, own->data, own->bytes);
    vv_model *fresh = model_for(5);
    const vv_param *head = vv_module_param(vv_module_child(net, 6), "weight");
    const vv_param *start_of = vv_module_param(vv_module_child(fresh->net, 6), "weight");
    assert_memory_equal(head->value->data, start_of->value->data, head->value->bytes);
    vv_model_free(fresh);
    vv_safetensors_close(file);
    int told = 0;
    for (int i = 0; i < vv_in_memory_message_count(memory); i++)
        told += strstr(vv_in_memory_message(memory, i),
                       "of the file is for 3 classes, the model has 5: it starts anew") != NULL;
    assert_int_equal(told, 2); /* weight and bias */
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);

    /* The same classes: nothing is left out. */
    assert_ok(start(&trainer, &d, 3, true, &memory));
    assert_ok(vv_safetensors_open(&file, path));
    net = vv_trainer_state(trainer)->model->net;
    saved = vv_safetensors_find(file, "6.weight");
    own = vv_module_param(vv_module_child(net, 6), "weight")->value;
    assert_memory_equal(saved->data, own->data, own->bytes);
    vv_safetensors_close(file);
    vv_trainer_free(trainer);
    mw_close(&d);
}

/* A body of another width is no head. */
static void other_shapes(void **unused)
{
    (void)unused;
    mw_data d;
    vv_trainer *trainer;
    vv_module *layer;
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    mw_open(&d, 12, 6);
    save(&d);
    vv_trainer_opts opts = mw_opts(&d, true, "2ba");
    conv.pad[0] = conv.pad[1] = 2;
    assert_ok(vv_conv2d_new(&layer, 4, 4, 5, &conv, true));
    assert_ok(vv_module_set_child(opts.model->net, 3, layer));
    opts.load_path = path;
    opts.load_weights_only = opts.load.new_head = true;
    assert_fails(vv_trainer_new(&trainer, &opts), VV_ESHAPE);
    assert_says("\"3.weight\"");
    mw_close(&d);
}

int main(void)
{
    temp_dir(folder);
    snprintf(path, sizeof path, "%s/saved.safetensors", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_head),
        cmocka_unit_test(other_shapes),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_dir(folder);
    return failed;
}
