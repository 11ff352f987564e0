/* test_augmix.c - what must hold: the result is the formula's for the same draws, rounded; weights
 * are a distribution; severity 0 leaves the image nearly as it is; the same draws give the same
 * image; the loader's images are what the function makes of the raw ones, in training only. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "augmix.h"

enum { SIDE = 12, PIXELS = SIDE * SIDE * 3, COUNT = 8 };

static void fill(uint8_t *out, size_t bytes)
{
    vv_rng rng = vv_rng_at(6, "pixels", 0);
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(vv_rng_below(&rng, 60) + (int64_t)(i % PIXELS) / 3);
}

static const vv_image_shape shape = {SIDE, SIDE, 3};

static void formula(void **unused)
{
    (void)unused;
    uint8_t raw[PIXELS], image[PIXELS], again[PIXELS], chain[PIXELS], scratch[PIXELS];
    const vv_augmix_opts opts = {4, 2, 3, 0.7, VV_AUGMENT_SAFE};
    fill(raw, PIXELS);
    for (uint64_t i = 0; i < 20; i++) {
        vv_rng rng = vv_rng_at(1, "test", i), same = rng, by_hand = rng;
        double w[3], m, sum[PIXELS] = {0};
        memcpy(image, raw, PIXELS);
        memcpy(again, raw, PIXELS);
        assert_ok(vv_augmix_image(image, &shape, &opts, &rng));
        assert_ok(vv_augmix_image(again, &shape, &opts, &same));
        assert_memory_equal(image, again, PIXELS);
        vv_augmix_draw(&opts, &by_hand, w, &m);
        assert_near(w[0] + w[1] + w[2], 1, 1e-12, 0);
        assert_true(m >= 0 && m <= 1 && w[0] >= 0 && w[1] >= 0 && w[2] >= 0);
        for (int c = 0; c < 3; c++) {
            memcpy(chain, raw, PIXELS);
            for (int k = 0; k < 2; k++) {
                const vv_augment_op op = vv_augment_choose(VV_AUGMENT_SAFE, &by_hand);
                vv_augment_apply(op, 4, &by_hand, &shape, chain, scratch);
                memcpy(chain, scratch, PIXELS);
            }
            for (int k = 0; k < PIXELS; k++)
                sum[k] += w[c] * chain[k];
        }
        for (int k = 0; k < PIXELS; k++)
            assert_near(image[k], (1 - m) * raw[k] + m * sum[k], 0.501, 0);
    }
}

static void weak_and_random(void **unused)
{
    (void)unused;
    uint8_t raw[PIXELS], image[PIXELS];
    vv_augmix_opts opts = VV_AUGMIX_DEFAULTS;
    double near = 0, far = 0, mean = 0;
    fill(raw, PIXELS);
    for (uint64_t i = 0; i < 60; i++) {
        double w[3], m;
        vv_rng rng = vv_rng_at(3, "test", i);
        opts.severity = 0;
        opts.depth = 1;
        memcpy(image, raw, PIXELS);
        assert_ok(vv_augmix_image(image, &shape, &opts, &rng));
        for (int k = 0; k < PIXELS; k++)
            near += abs(image[k] - raw[k]);
        opts.severity = 10;
        opts.depth = -1;
        memcpy(image, raw, PIXELS);
        assert_ok(vv_augmix_image(image, &shape, &opts, &rng));
        for (int k = 0; k < PIXELS; k++)
            far += abs(image[k] - raw[k]);
        vv_augmix_draw(&opts, &rng, w, &m);
        mean += m / 60;
    }
    assert_true(near * 3 < far);
    assert_near(mean, 0.5, 5 * sqrt(1.0 / 12 / 60), 0); /* Beta(1, 1) is uniform */
    opts.alpha = 0;
    vv_rng rng = vv_rng_at(3, "test", 0);
    assert_fails(vv_augmix_image(image, &shape, &opts, &rng), VV_EINVAL);
    assert_null(vv_augmix(&opts));
    assert_says("alpha");
    opts.alpha = 1;
    opts.width = 17;
    assert_null(vv_augmix(&opts));
}

static void training(void **unused)
{
    (void)unused;
    static uint8_t images[COUNT * PIXELS];
    static const int32_t classes[COUNT] = {0, 1, 0, 1, 0, 1, 0, 1};
    const vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {SIDE, SIDE, 3}, .classes = 2};
    fill(images, sizeof images);
    vv_dataset *set;
    vv_loader *train, *eval;
    vv_module *net, *layer;
    vv_trainer *trainer;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    float plain[PIXELS], seen[PIXELS], twice[PIXELS], other[PIXELS];
    loading.batch_size = 4;
    loading.seed = 21;
    assert_ok(vv_dataset_from_arrays(&set, &spec, COUNT, images, classes));
    assert_ok(vv_loader_new(&train, set, &loading));
    assert_ok(vv_loader_new(&eval, set, &loading));
    assert_ok(vv_loader_sample(train, 1, 3, plain));
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, PIXELS, 2, true);
    assert_ok(vv_sequential_push(net, made, layer));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_build(&opts.model, net, 2, 1));
    opts.train = train;
    opts.eval = eval;
    opts.methods = VV_LIST(vv_augmix(NULL));
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_state *state = vv_trainer_state(trainer);
    vv_method *m = state->methods[0];
    assert_ok(vv_loader_sample(train, 1, 3, seen));
    assert_ok(vv_loader_sample(eval, 1, 3, other));
    assert_memory_equal(plain, other, sizeof plain);
    assert_ok(m->type->apply(m, VV_EVENT_FIT_START, state)); /* a second fit */
    assert_ok(vv_loader_sample(train, 1, 3, twice));
    assert_memory_equal(seen, twice, sizeof seen);
    uint8_t image[PIXELS];
    memcpy(image, images + 3 * PIXELS, PIXELS);
    vv_rng rng = vv_rng_at2(21, "augmix", 1, 3);
    assert_ok(vv_augmix_image(image, &shape, NULL, &rng));
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
    const vv_augmix_opts defaults = VV_AUGMIX_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *m = vv_augmix(NULL);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formula), cmocka_unit_test(weak_and_random),
                                       cmocka_unit_test(training), cmocka_unit_test(settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
