/* test_method_detection.c - every method and a detector: it trains two steps with a loss that is a
 * number, alone and beside progressive_resizing, or is refused with a sentence before the first.
 * Methods that mix samples or labels, or move pixels without their boxes, are refused.
 * progressive_resizing leaves boxes alone and gives the net other default boxes; a microbatch of
 * two gives the losses of the whole batch; a run that was cut in two is the run that was not. */
#include "conformance.h"

#include <vivace/shapes.h>
#include <vivace/ssd.h>

/* Boxes and images cannot part. */
static const char *const refused[] = {"alternating_flip", "augmix", "colout",      "cutmix",
                                      "label_smoothing",  "mixup",  "no_op_model", "randaugment",
                                      "tta",              NULL};

static bool is_refused(const vv_method_desc *m)
{
    for (int i = 0; refused[i]; i++)
        if (strcmp(refused[i], m->desc.name) == 0)
            return true;
    return false;
}

static void shapes_init(data *d)
{
    vv_shapes_opts opts;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    const vv_desc *desc = &vv_dataset_shapes.desc;
    assert_ok(vv_opts_init(desc, &opts));
    assert_ok(vv_opts_set_all(desc, &opts, "size=48,train=16,eval=4,most=2"));
    assert_ok(vv_dataset_open(&d->set, &vv_dataset_shapes, &opts, "train"));
    vv_opts_fini(desc, &opts);
    loading.batch_size = 4;
    loading.shuffle = true;
    loading.seed = 3;
    loading.workers = 0;
    loading.transform.normalise = true;
    assert_ok(vv_loader_new(&d->loader, d->set, &loading));
    d->text = false;
}

static vv_model *detector_new(const data *d)
{
    vv_ssd_opts opts = VV_SSD_DEFAULTS;
    vv_model *model;
    opts.backbone = VV_SSD_RESNET18;
    opts.width = 4;
    opts.levels = 3;
    assert_ok(vv_model_build(&model, &vv_model_ssd, &opts, &d->set->spec, 11));
    return model;
}

static vv_trainer_opts detector_opts(const data *d, const char *duration)
{
    static const vv_sgd_opts sgd = {.lr = 0.005, .momentum = 0.9, .weight_decay = 1e-3};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = detector_new(d);
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = d->loader;
    opts.max_duration = duration;
    opts.seed = 17;
    opts.allow_no_effect = true; /* surgery for layers that SSD lacks */
    return opts;
}

/* Two batches with the methods; the status of making the trainer. */
static vv_status train(const data *d, vv_method **methods, int count)
{
    vv_trainer_opts opts = detector_opts(d, "2ba");
    vv_trainer *trainer;
    opts.methods = (vv_method_list){methods, count};
    vv_error_clear();
    const vv_status status = vv_trainer_new(&trainer, &opts);
    if (status != VV_OK)
        return status;
    if (vv_trainer_fit(trainer) != VV_OK)
        fail_msg("%s: %s", methods[0]->type->desc.name, vv_error());
    assert_true(isfinite(vv_trainer_state(trainer)->train_loss));
    vv_trainer_free(trainer);
    return VV_OK;
}

static void every_method(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    const int64_t live = vv_memory_live_count();
    data d;
    int trained = 0;
    shapes_init(&d);
    for (int i = 0; (m = method_at(i)); i++) {
        if (needs_text(m))
            continue;
        vv_method *one[1] = {method_new(m)};
        const vv_status status = train(&d, one, 1);
        if (is_refused(m) ? status != VV_EINVAL : status != VV_OK)
            fail_msg("%s with a detector: %s (%s)", m->desc.name, vv_status_name(status),
                     vv_error());
        if (is_refused(m))
            assert_says(m->desc.name);
        trained += !is_refused(m);
    }
    assert_true(trained > 10);
    data_fini(&d);
    assert_int_equal(vv_memory_live_count(), live);
}

/* Beside images that grow. */
static void with_progressive_resizing(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    data d;
    shapes_init(&d);
    for (int i = 0; (m = method_at(i)); i++) {
        if (needs_text(m) || is_refused(m) || strcmp(m->desc.name, "progressive_resizing") == 0)
            continue;
        vv_method *two[2] = {method_new(m), vv_progressive_resizing(NULL)};
        if (train(&d, two, 2) != VV_OK) {
            assert_says(m->desc.name);
            assert_says("cannot be used together: ");
        }
    }
    data_fini(&d);
}

static void resizing_needs_no_boxes_moved(void **unused)
{
    (void)unused;
    vv_progressive_resizing_opts opts = VV_PROGRESSIVE_RESIZING_DEFAULTS;
    data d;
    shapes_init(&d);
    for (int i = 0; i < 2; i++) {
        opts.resize_targets = i;
        opts.mode = i ? VV_RESIZING_RESIZE : VV_RESIZING_CROP;
        vv_method *one[1] = {vv_progressive_resizing(&opts)};
        assert_int_equal(train(&d, one, 1), VV_EINVAL);
        assert_says("the targets are boxes in shares of the image");
    }
    /* Half the size at first: a quarter of the default boxes, about; the full number at the end. */
    opts = (vv_progressive_resizing_opts)VV_PROGRESSIVE_RESIZING_DEFAULTS;
    vv_trainer_opts run = detector_opts(&d, "3ep");
    vv_method *one[1] = {vv_progressive_resizing(&opts)};
    vv_trainer *trainer;
    run.methods = (vv_method_list){one, 1};
    assert_ok(vv_trainer_new(&trainer, &run));
    assert_ok(vv_trainer_fit(trainer));
    vv_module *net = vv_trainer_state(trainer)->model->net;
    const vv_detector *detector = vv_module_detector(net);
    int64_t size[2];
    assert_non_null(detector->priors(net, 6 * 6 * 4 + 3 * 3 * 4 + 2 * 2 * 4, size));
    assert_int_equal(size[0], 48);
    assert_non_null(detector->priors(net, 3 * 3 * 4 + 2 * 2 * 4 + 1 * 4, size));
    assert_int_equal(size[0], 24);
    vv_trainer_free(trainer);
    data_fini(&d);
}

static void loaders_do_not_move_pixels(void **unused)
{
    (void)unused;
    data d;
    vv_loader *loader;
    shapes_init(&d);
    for (int i = 0; i < 3; i++) {
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        opts.transform.flip = i == 0;
        opts.transform.crop_pad = 4 * (i == 1);
        opts.transform.translate = 2 * (i == 2);
        assert_fails(vv_loader_new(&loader, d.set, &opts), VV_EINVAL);
        assert_says("their boxes would stay where they are");
    }
    assert_fails(vv_loader_set_alternating_flip(d.loader, true), VV_EINVAL);
    data_fini(&d);
}

/* Loss and gradients' sum of one batch, in microbatches of `size`, with statistics fixed. */
static double first_loss(const data *d, int64_t microbatch, weights *after)
{
    vv_trainer_opts opts = detector_opts(d, "1ba");
    vv_trainer *trainer;
    opts.microbatch = microbatch;
    assert_ok(vv_trainer_new(&trainer, &opts));
    vv_module *net = vv_trainer_state(trainer)->model->net;
    static const char *const stages[] = {"bn1", "layer1", "layer2", "layer3"};
    for (int i = 0; i < 4; i++) /* frozen norms use their running statistics */
        vv_module_set_frozen(vv_module_find(net, stages[i]), true);
    assert_ok(vv_trainer_fit(trainer));
    const double loss = vv_trainer_state(trainer)->train_loss;
    *after = weights_of(trainer);
    vv_trainer_free(trainer);
    return loss;
}

static void microbatches_cannot_be_seen(void **unused)
{
    (void)unused;
    data d;
    weights whole, cut;
    shapes_init(&d);
    const double a = first_loss(&d, 0, &whole), b = first_loss(&d, 1, &cut);
    assert_near(b, a, 0, 1e-5);
    assert_int_equal(whole.count, cut.count);
    for (size_t i = 0; i < whole.count; i++)
        assert_near((double)cut.values[i], (double)whole.values[i], 1e-5, 1e-4);
    free(whole.values);
    free(cut.values);
    data_fini(&d);
}

static void resuming_cannot_be_seen(void **unused)
{
    (void)unused;
    char path[] = "/tmp/vivace-test-XXXXXX";
    vv_trainer *trainer;
    weights parts[2];
    data d;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    shapes_init(&d);
    for (int i = 0; i < 3; i++) { /* all of it; the first half; the second */
        vv_trainer_opts opts = detector_opts(&d, i == 1 ? "3ba" : "6ba");
        opts.load_path = i == 2 ? path : NULL;
        assert_ok(vv_trainer_new(&trainer, &opts));
        assert_ok(vv_trainer_fit(trainer));
        if (i == 1)
            assert_ok(vv_trainer_save(trainer, path));
        else
            parts[i / 2] = weights_of(trainer);
        vv_trainer_free(trainer);
    }
    assert_int_equal(parts[0].count, parts[1].count);
    assert_memory_equal(parts[0].values, parts[1].values, parts[0].count * sizeof(float));
    free(parts[0].values);
    free(parts[1].values);
    data_fini(&d);
    unlink(path);
}

int main(void)
{
    vv_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method),
        cmocka_unit_test(with_progressive_resizing),
        cmocka_unit_test(resizing_needs_no_boxes_moved),
        cmocka_unit_test(loaders_do_not_move_pixels),
        cmocka_unit_test(microbatches_cannot_be_seen),
        cmocka_unit_test(resuming_cannot_be_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
