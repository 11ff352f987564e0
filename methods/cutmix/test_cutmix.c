/* test_cutmix.c - what must hold: inside the box every pixel is the partner's, outside its own; the
 * partner's share is the box's true area; length is the side's share; alpha 0 mixes nothing; odd
 * sizes lose no pixel; uniform sampling covers evenly; neither the microbatch size nor the form of
 * the loss changes the training. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "cutmix.h"

static void box_is(vv_cutmix_box box, int64_t top, int64_t left, int64_t bottom, int64_t right)
{
    assert_int_equal(box.top, top);
    assert_int_equal(box.left, left);
    assert_int_equal(box.bottom, bottom);
    assert_int_equal(box.right, right);
}

static void boxes(void **unused)
{
    (void)unused;
    box_is(vv_cutmix_box_at(8, 8, 4, 4, 4, 4), 2, 2, 6, 6);
    box_is(vv_cutmix_box_at(8, 8, 4, 4, 0, 0), 0, 0, 2, 2);
    box_is(vv_cutmix_box_at(32, 32, 16, 16, 16, 16), 8, 8, 24, 24);
    box_is(vv_cutmix_box_at(32, 32, 16, 16, 0, 0), 0, 0, 8, 8);
    box_is(vv_cutmix_box_at(9, 9, 3, 5, 4, 4), 3, 2, 6, 7); /* odd: 3 rows, 5 columns */
    box_is(vv_cutmix_box_at(8, 8, 8, 8, 7, 7), 3, 3, 8, 8);
    box_is(vv_cutmix_box_at(8, 8, 0, 0, 3, 5), 3, 5, 3, 5);
}

/* [2,8,8,2], box of 4x4 in the middle (share 0.25), cut off at a corner (share 0.0625). */
static void pixels(void **unused)
{
    (void)unused;
    const int64_t shape[] = {2, 8, 8, 2}, two = 2, partner[] = {1, 0}, outside[] = {1, 2};
    const int32_t y[] = {3, 4};
    vv_tensor *input, *target, *mixed = NULL, *mix_target = NULL;
    double weight;
    assert_ok(vv_tensor_new(&input, VV_F32, 4, shape));
    assert_ok(vv_tensor_from(&target, VV_I32, 1, &two, y));
    for (int64_t i = 0; i < input->count; i++)
        vv_tensor_set(input, i, (double)i);
    const vv_cutmix_box box = vv_cutmix_box_at(8, 8, 4, 4, 4, 4);
    assert_ok(vv_cutmix_batch(&mixed, &mix_target, &weight, input, target, partner, box));
    assert_near(weight, 0.25, 0, 0);
    for (int64_t i = 0; i < input->count; i++) {
        const int64_t pixel = i / 2 % 64, row = pixel / 8, column = pixel % 8;
        const bool in = row >= 2 && row <= 5 && column >= 2 && column <= 5;
        assert_int_equal(vv_tensor_get(mixed, i), in ? (i + 128) % 256 : i);
    }
    assert_int_equal(vv_tensor_get(mix_target, 0), 4);
    assert_int_equal(vv_tensor_get(mix_target, 1), 3);
    assert_ok(vv_cutmix_batch(&mixed, &mix_target, &weight, input, target, partner,
                              vv_cutmix_box_at(8, 8, 4, 4, 0, 0)));
    assert_near(weight, 1 - 0.9375, 0, 0);
    for (int64_t i = 0; i < input->count; i++)
        assert_int_equal(vv_tensor_get(input, i), i);

    assert_fails(vv_cutmix_batch(&mixed, &mix_target, &weight, input, target, outside, box),
                 VV_EINVAL);
    assert_fails(vv_cutmix_batch(&mixed, &mix_target, &weight, input, target, partner,
                                 (vv_cutmix_box){0, 0, 9, 8}), VV_EINVAL);
    assert_fails(vv_cutmix_batch(&mixed, &mix_target, &weight, target, target, partner, box),
                 VV_ESHAPE);
    assert_fails(vv_cutmix_batch(&mixed, &mix_target, &weight, mixed, target, partner, box),
                 VV_EINVAL);
    vv_tensor_free(input);
    vv_tensor_free(target);
    vv_tensor_free(mixed);
    vv_tensor_free(mix_target);
}

static vv_cutmix_box draw(const vv_cutmix_opts *opts, int64_t height, int64_t width,
                          uint64_t number)
{
    int64_t partner[4];
    vv_cutmix_box box;
    vv_rng rng = vv_rng_at(2, "test", number);
    vv_cutmix_draw(&rng, opts, 4, height, width, partner, &box);
    assert_int_equal(partner[0] + partner[1] + partner[2] + partner[3], 6);
    assert_true(box.top >= 0 && box.left >= 0 && box.top <= box.bottom && box.left <= box.right);
    assert_true(box.bottom <= height && box.right <= width);
    return box;
}

static void draws(void **unused)
{
    (void)unused;
    vv_cutmix_opts opts = VV_CUTMIX_DEFAULTS;
    int64_t tallest = 0, widest = 0, covered[2][7] = {{0}};
    opts.length = 0.5; /* the side's share: 10 of 20, never more */
    for (uint64_t i = 0; i < 300; i++) {
        const vv_cutmix_box box = draw(&opts, 20, 12, i);
        tallest = box.bottom - box.top > tallest ? box.bottom - box.top : tallest;
        widest = box.right - box.left > widest ? box.right - box.left : widest;
    }
    assert_int_equal(tallest, 10);
    assert_int_equal(widest, 6);
    /* 7 rows and columns, cuts of 3: 9 starts, each row and column in 3 of them. */
    opts.length = 0.45;
    opts.uniform_sampling = true;
    for (uint64_t i = 0; i < 9000; i++) {
        const vv_cutmix_box box = draw(&opts, 7, 7, i);
        assert_true(box.bottom > box.top && box.right > box.left);
        for (int64_t row = box.top; row < box.bottom; row++)
            covered[0][row]++;
        for (int64_t column = box.left; column < box.right; column++)
            covered[1][column]++;
    }
    for (int at = 0; at < 7; at++) { /* 5 deviations */
        assert_near((double)covered[0][at], 3000, 225, 0);
        assert_near((double)covered[1][at], 3000, 225, 0);
    }
    opts = (vv_cutmix_opts)VV_CUTMIX_DEFAULTS;
    opts.alpha = 0;
    for (uint64_t i = 0; i < 50; i++) {
        const vv_cutmix_box box = draw(&opts, 8, 8, i);
        assert_int_equal((box.bottom - box.top) * (box.right - box.left), 0);
    }
}

/* ---- through the Trainer ---- */

#define SIDE 4
#define SAMPLES 12
#define WEIGHTS (SIDE * SIDE * 3 + 3)

typedef struct run {
    float weights[WEIGHTS];
    double loss;
} run;

static bool take(void *ctx, const char *name, vv_tensor *tensor)
{
    float **to = ctx;
    (void)name;
    memcpy(*to, tensor->data, tensor->bytes);
    *to += tensor->count;
    return true;
}

static vv_module *flat_linear(void)
{
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, SIDE * SIDE, 3, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 5));
    return net;
}

/* Two epochs of a linear classifier on small images. */
static run train(const char *settings, int64_t microbatch)
{
    const vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {SIDE, SIDE, 1}, .classes = 3,
                                 .mean = {0.5f}, .std = {0.25f}};
    uint8_t inputs[SAMPLES * SIDE * SIDE];
    int32_t targets[SAMPLES];
    vv_rng rng = vv_rng_at(4, "data", 0);
    for (int i = 0; i < SAMPLES * SIDE * SIDE; i++)
        inputs[i] = (uint8_t)vv_rng_below(&rng, 256);
    for (int i = 0; i < SAMPLES; i++)
        targets[i] = i % 3;
    vv_dataset *set;
    vv_loader *loader;
    vv_trainer *trainer;
    vv_method *method = NULL;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    loading.batch_size = 6;
    loading.transform.normalise = true;
    assert_ok(vv_dataset_from_arrays(&set, &spec, SAMPLES, inputs, targets));
    assert_ok(vv_loader_new(&loader, set, &loading));
    if (settings)
        assert_ok(vv_method_make(&method, "cutmix", settings));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, flat_linear(), 3));
    opts.train = loader;
    opts.max_duration = "2ep";
    opts.microbatch = microbatch;
    opts.seed = 9;
    opts.methods = (vv_method_list){&method, method ? 1 : 0};
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    run result = {.loss = vv_trainer_state(trainer)->train_loss};
    float *to = result.weights;
    vv_module_each_state(vv_trainer_state(trainer)->model->net, take, &to);
    vv_trainer_free(trainer);
    vv_loader_free(loader);
    vv_dataset_free(set);
    return result;
}

static double difference(const run *a, const run *b)
{
    double most = fabs(a->loss - b->loss);
    for (int i = 0; i < WEIGHTS; i++)
        most = fmax(most, fabs((double)a->weights[i] - (double)b->weights[i]));
    return most;
}

static void training(void **unused)
{
    (void)unused;
    const run whole = train("length=0.6", 0), parts = train("length=0.6", 2);
    const run odd = train("length=0.6", 4);
    const run losses = train("length=0.6,interpolate_loss=true", 2);
    const run plain = train(NULL, 0), zero = train("alpha=0", 0);
    assert_near(difference(&whole, &parts), 0, 2e-6, 0);
    assert_near(difference(&whole, &odd), 0, 2e-6, 0);
    assert_near(difference(&whole, &losses), 0, 2e-6, 0);
    assert_true(difference(&whole, &plain) > 1e-3);
    assert_memory_equal(plain.weights, zero.weights, sizeof plain.weights);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_cutmix_opts defaults = VV_CUTMIX_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *method;
    assert_ok(vv_method_make(&method, "cutmix", NULL));
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
    vv_error_clear();
    assert_null(vv_cutmix(-1));
    assert_says("alpha");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes),    cmocka_unit_test(pixels),   cmocka_unit_test(draws),
        cmocka_unit_test(training), cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
