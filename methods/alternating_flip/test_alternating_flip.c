/* test_alternating_flip.c - what must hold: in training two epochs show an image and its mirror
 * image, two epochs apart the same; a second fit changes nothing; the loader is as it was
 * afterwards; data that are no images are refused. (How images are mirrored:
 * tests/unit/data/test_loader_hooks.c.) */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "alternating_flip.h"

enum { SIDE = 4, PIXELS = SIDE * SIDE, COUNT = 16 };

static vv_model *flat_model(int64_t features)
{
    vv_module *net, *layer;
    vv_model *model;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, features, 2, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_classifier_build(&model, net, 2, 1));
    return model;
}

static void training(void **unused)
{
    (void)unused;
    static uint8_t images[COUNT * PIXELS];
    static const int32_t classes[COUNT] = {0, 1};
    const vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {SIDE, SIDE, 1}, .classes = 2};
    for (int i = 0; i < COUNT * PIXELS; i++)
        images[i] = (uint8_t)(i % 251);
    vv_dataset *set;
    vv_loader *loader;
    vv_trainer *trainer;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    loading.batch_size = 8;
    assert_ok(vv_dataset_from_arrays(&set, &spec, COUNT, images, classes));
    assert_ok(vv_loader_new(&loader, set, &loading));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = flat_model(PIXELS);
    opts.train = loader;
    opts.max_duration = "2ep";
    opts.methods = VV_LIST(vv_alternating_flip());
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_method *m = vv_trainer_state(trainer)->methods[0];
    int mirrored = 0;
    float seen[3][PIXELS];
    assert_ok(m->type->apply(m, VV_EVENT_FIT_START, vv_trainer_state(trainer)));
    for (int64_t i = 0; i < COUNT; i++) {
        for (int64_t e = 0; e < 3; e++)
            assert_ok(vv_loader_sample(loader, e, i, seen[e]));
        assert_memory_equal(seen[0], seen[2], sizeof seen[0]);
        for (int k = 0; k < PIXELS; k++)
            assert_true(seen[0][k] == seen[1][k / SIDE * SIDE + SIDE - 1 - k % SIDE]);
        mirrored += seen[0][0] > seen[0][1];
    }
    assert_true(mirrored > 0 && mirrored < COUNT);
    vv_trainer_free(trainer);
    for (int64_t i = 0; i < COUNT; i++) {
        assert_ok(vv_loader_sample(loader, 0, i, seen[0]));
        assert_ok(vv_loader_sample(loader, 1, i, seen[1]));
        assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
    }
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void refused(void **unused)
{
    (void)unused;
    const vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                                 .input_shape = {3}, .classes = 2};
    static const float inputs[12] = {0};
    static const int32_t targets[4] = {0};
    vv_dataset *set;
    vv_loader *loader;
    vv_trainer *trainer;
    const vv_loader_opts loading = VV_LOADER_DEFAULTS;
    assert_ok(vv_dataset_from_arrays(&set, &spec, 4, inputs, targets));
    assert_ok(vv_loader_new(&loader, set, &loading));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = flat_model(3);
    opts.train = loader;
    opts.methods = VV_LIST(vv_alternating_flip());
    assert_fails(vv_trainer_new(&trainer, &opts), VV_ETYPE);
    assert_says("alternating_flip");
    vv_loader_free(loader);
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(training), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
