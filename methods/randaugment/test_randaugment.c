/* test_randaugment.c - what must hold: depth 0 is the identity; the same draws give the same image;
 * the loader's images are what the function makes of the raw ones; a second fit does not insert it
 * again; labels and evaluation stay; after the run the loader is as it was. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "randaugment.h"

enum { SIDE = 12, PIXELS = SIDE * SIDE * 3, COUNT = 8 };

static void fill(uint8_t *out, size_t bytes)
{
    vv_rng rng = vv_rng_at(6, "pixels", 0);
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(vv_rng_below(&rng, 60) + (int64_t)(i % PIXELS) / 3);
}

static void function(void **unused)
{
    (void)unused;
    const vv_image_shape shape = {SIDE, SIDE, 3};
    uint8_t image[PIXELS], scratch[PIXELS], copy[PIXELS], again[PIXELS];
    vv_randaugment_opts opts = VV_RANDAUGMENT_DEFAULTS;
    fill(copy, PIXELS);
    opts.depth = 0;
    memcpy(image, copy, PIXELS);
    vv_rng rng = vv_rng_at(1, "test", 0);
    vv_randaugment_image(image, &shape, &opts, &rng, scratch);
    assert_memory_equal(image, copy, PIXELS);
    int changed = 0;
    for (uint64_t i = 0; i < 40; i++) {
        vv_rng a = vv_rng_at(1, "test", i), b = a;
        memcpy(image, copy, PIXELS);
        memcpy(again, copy, PIXELS);
        vv_randaugment_image(image, &shape, NULL, &a, scratch);
        vv_randaugment_image(again, &shape, NULL, &b, scratch);
        assert_memory_equal(image, again, PIXELS);
        changed += memcmp(image, copy, PIXELS) != 0;
    }
    assert_true(changed > 30);
    /* Grey images too. */
    const vv_image_shape grey = {SIDE, SIDE, 1};
    vv_randaugment_image(image, &grey, NULL, &rng, scratch);
}

static vv_module *mean_net(void)
{
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_adaptive_avg_pool_new(&layer, 2, 2);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 12, 2, true);
    assert_ok(vv_sequential_push(net, made, layer));
    return net;
}

static void training(void **unused)
{
    (void)unused;
    static uint8_t images[COUNT * PIXELS];
    static const int32_t classes[COUNT] = {0, 1, 0, 1, 0, 1, 0, 1};
    const vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {SIDE, SIDE, 3}, .classes = 2};
    const vv_image_shape shape = {SIDE, SIDE, 3};
    fill(images, sizeof images);
    vv_dataset *set;
    vv_loader *train, *eval;
    vv_trainer *trainer;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    float plain[PIXELS], seen[PIXELS], twice[PIXELS], other[PIXELS];
    loading.batch_size = 4;
    loading.seed = 21;
    assert_ok(vv_dataset_from_arrays(&set, &spec, COUNT, images, classes));
    assert_ok(vv_loader_new(&train, set, &loading));
    assert_ok(vv_loader_new(&eval, set, &loading));
    assert_ok(vv_loader_sample(train, 1, 3, plain));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_build(&opts.model, mean_net(), 2, 1));
    opts.train = train;
    opts.eval = eval;
    opts.methods = VV_LIST(vv_randaugment(NULL));
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    assert_int_equal(vv_trainer_state(trainer)->methods[0]->effect, 1);
    assert_ok(vv_loader_sample(train, 1, 3, seen));
    assert_ok(vv_loader_sample(eval, 1, 3, other));
    assert_memory_equal(plain, other, sizeof plain);
    const vv_state *state = vv_trainer_state(trainer);
    vv_method *m = state->methods[0]; /* a second fit */
    assert_ok(m->type->apply(m, VV_EVENT_FIT_START, vv_trainer_state(trainer)));
    assert_ok(vv_loader_sample(train, 1, 3, twice));
    assert_memory_equal(seen, twice, sizeof seen);
    uint8_t image[PIXELS], scratch[PIXELS];
    memcpy(image, images + 3 * PIXELS, PIXELS);
    vv_rng rng = vv_rng_at2(21, "randaugment", 1, 3);
    vv_randaugment_image(image, &shape, NULL, &rng, scratch);
    for (int i = 0; i < PIXELS; i++)
        assert_near((double)seen[i] * 255, image[i], 1e-3, 0);
    vv_trainer_free(trainer);
    assert_ok(vv_loader_sample(train, 1, 3, other));
    assert_memory_equal(plain, other, sizeof plain);
    vv_loader_free(train);
    vv_loader_free(eval);
    vv_dataset_free(set);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_randaugment_opts defaults = VV_RANDAUGMENT_DEFAULTS;
    vv_randaugment_opts bad = VV_RANDAUGMENT_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *m = vv_randaugment(NULL);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
    bad.severity = 11;
    assert_null(vv_randaugment(&bad));
    assert_says("severity");
    assert_fails(vv_method_make(&m, "randaugment", "augmentation_set=none"), VV_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(function), cmocka_unit_test(training),
                                       cmocka_unit_test(settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
