/* test_text_sampler.c - what must hold of text_sampler: samples of each prompt at each interval, as
 * messages and in files; training is as without it; what cannot work fails before the first
 * batch. */
#include "unit/train/train_test.h"

#include <vivace/callbacks.h>
#include <vivace/generate.h>
#include <vivace/models.h>

typedef struct heard {
    char text[8][512];
    int count;
} heard;
static heard *messages;

static vv_status hear(vv_logger *logger, const vv_state *state, const char *text)
{
    (void)logger;
    (void)state;
    if (messages && strncmp(text, "sample ", 7) == 0 && messages->count < 8)
        snprintf(messages->text[messages->count++], sizeof messages->text[0], "%s", text);
    return VV_OK;
}

static const vv_logger_desc hearing_desc = {
    .desc = {"logger", "hearing", "For a test.", "", "any", tt_no_fields, 0},
    .message = hear,
};

/* Eight rows of eight bytes, next byte as target. */
static void make_data(tt_data *data)
{
    static const char text[] = "to be or not to be that is the question whether tis nobler in the "
                               "mind to suffer";
    vv_sample_spec spec = {.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1,
                           .target_ndim = 1, .input_shape = {8}, .target_shape = {8},
                           .classes = 256, .tokens = 8, .vocabulary = 256};
    int32_t inputs[64], targets[64];

    for (int i = 0; i < 64; i++) {
        inputs[i] = text[i];
        targets[i] = text[i + 1];
    }
    assert_ok(vv_dataset_from_arrays(&data->set, &spec, 8, inputs, targets));

    vv_loader_opts opts = VV_LOADER_DEFAULTS;

    opts.batch_size = 2;
    opts.workers = 0;
    assert_ok(vv_loader_new(&data->loader, data->set, &opts));
}

static vv_model *make_model(const vv_model_desc *desc, const vv_sample_spec *spec)
{
    unsigned char opts[256];
    vv_model *model = NULL;

    assert_ok(vv_opts_init(&desc->desc, opts));
    assert_ok(vv_opts_set_all(&desc->desc, opts, "d=16,layers=1,heads=2,dropout=0.1"));
    assert_ok(vv_model_build(&model, desc, opts, spec, 3));
    vv_opts_fini(&desc->desc, opts);
    return model;
}

/* Trains 6 batches with the callback (taken; NULL = without); *model_out = the trained model's
   first table as a copy. */
static vv_status train(vv_callback *callback, const vv_model_desc *desc, const char *run_dir,
                       heard *out, vv_tensor **table)
{
    tt_data data;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    vv_logger *loggers[2] = {NULL, NULL};
    vv_callback *callbacks[2] = {callback, NULL};
    vv_trainer *trainer = NULL;

    make_data(&data);
    assert_ok(vv_logger_new(&loggers[0], &hearing_desc, NULL));
    messages = out;
    opts.model = make_model(desc, &data.set->spec);
    opts.train = data.loader;
    opts.max_duration = "6ba";
    opts.callbacks = callbacks;
    opts.loggers = loggers;
    opts.run_dir = run_dir;

    vv_status status = vv_trainer_new(&trainer, &opts);

    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    if (status == VV_OK && table) {
        vv_module *net = vv_trainer_state(trainer)->model->net;
        const vv_param *param = vv_module_param(vv_module_find(net, "transformer.wte"), "weight");

        assert_ok(vv_tensor_clone(table, param->value));
    }
    vv_trainer_free(trainer);
    tt_data_fini(&data);
    messages = NULL;
    return status;
}

static vv_callback *make_callback(const char *settings)
{
    vv_text_sampler_opts opts;
    vv_callback *callback = NULL;

    assert_ok(vv_opts_init(&vv_callback_text_sampler.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_callback_text_sampler.desc, &opts, settings));
    assert_ok(vv_callback_new(&callback, &vv_callback_text_sampler, &opts));
    vv_opts_fini(&vv_callback_text_sampler.desc, &opts);
    return callback;
}

static void samples_while_it_trains(void **state)
{
    (void)state;
    heard out = {.count = 0};
    char dir[256], path[400], file[512] = "";
    vv_tensor *with = NULL, *without = NULL;

    tt_folder(dir, sizeof dir);
    assert_ok(train(make_callback("interval=2ba,prompts=To be|Or,tokens=5"), &vv_model_gpt2, dir,
                    &out, &with));
    assert_ok(train(NULL, &vv_model_gpt2, NULL, NULL, &without));
    assert_memory_equal(with->data, without->data, with->bytes); /* bit-equal */
    assert_int_equal(out.count, 6); /* two prompts at batches 2, 4 and 6 */
    assert_ptr_equal(strstr(out.text[0], "sample 1 at 2ba: \"To be"), out.text[0]);
    assert_ptr_equal(strstr(out.text[1], "sample 2 at 2ba: \"Or"), out.text[1]);
    assert_ptr_equal(strstr(out.text[5], "sample 2 at 6ba: \"Or"), out.text[5]);
    snprintf(path, sizeof path, "%s/samples/ba00000004.txt", dir);

    FILE *in = fopen(path, "rb");

    assert_non_null(in);
    const size_t bytes = fread(file, 1, sizeof file - 1, in);

    fclose(in);
    assert_true(bytes >= 40 && strncmp(file, "---- 1 ----\nTo be", 17) == 0);
    vv_tensor_free(with);
    vv_tensor_free(without);
    tt_remove(dir);
}

static void refuses_before_the_first_batch(void **state)
{
    (void)state;
    assert_fails(train(make_callback("interval=2ba"), &vv_model_gpt2, NULL, NULL, NULL), VV_EINVAL);
    assert_says("give a prompt"); /* bytes have no end of a document */
    assert_fails(train(make_callback("prompts=a,tokenizer=/nowhere"), &vv_model_gpt2, NULL, NULL,
                       NULL), VV_ENOTFOUND);
    assert_fails(train(make_callback("prompts=a"), &vv_model_bert, NULL, NULL, NULL), VV_EINVAL);
    assert_says("take a GPT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_while_it_trains),
        cmocka_unit_test(refuses_before_the_first_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
