/* test_progressive_resizing.c - what must hold: the scale waits, ramps and stays at 1; sides are
 * whole increments, rounded, at least one, the full side at scale 1; images are resized bilinearly
 * and masks by nearest neighbour; crops of images and masks agree and reach every offset; a model
 * that takes one size only is refused before training. */
#include "vv_test.h"

#include <vivace/mlp.h>
#include <vivace/registry.h>
#include <vivace/resnet9.h>
#include <vivace/train.h>

#include "progressive_resizing.h"

static void scales(void **unused)
{
    (void)unused;
    static const double at[] = {0, 0.25, 0.5, 0.65, 0.7, 0.8, 1};
    static const double scale[] = {0.5, 0.5, 0.5, 0.75, 0.5 + 0.5 * 2 / 3, 1, 1};
    static const int64_t side[] = {16, 16, 16, 24, 28, 32, 32};
    vv_progressive_resizing_opts opts = VV_PROGRESSIVE_RESIZING_DEFAULTS;
    double before = 0;
    for (int i = 0; i < 7; i++) {
        assert_near(vv_resizing_scale(NULL, at[i]), scale[i], 1e-12, 0);
        assert_int_equal(vv_resizing_side(32, vv_resizing_scale(&opts, at[i]), 4), side[i]);
    }
    for (int i = 0; i <= 1000; i++) {
        const double now = vv_resizing_scale(&opts, i / 1000.0);
        assert_true(now >= before);
        before = now;
    }
    /* No ramp at all: a step. */
    opts.delay_fraction = 0.8;
    assert_near(vv_resizing_scale(&opts, 0.79), 0.5, 0, 0);
    assert_near(vv_resizing_scale(&opts, 0.8), 1, 0, 0);
    opts.delay_fraction = opts.finetune_fraction = 0;
    assert_near(vv_resizing_scale(&opts, 0), 0.5, 0, 0);
    assert_near(vv_resizing_scale(&opts, 1), 1, 0, 0);
}

static void sides(void **unused)
{
    (void)unused;
    assert_int_equal(vv_resizing_side(96, 0.6, 32), 64);
    assert_int_equal(vv_resizing_side(224, 0.6, 32), 128);
    assert_int_equal(vv_resizing_side(96, 0.05, 32), 32);
    assert_int_equal(vv_resizing_side(224, 0.05, 32), 32);
    assert_int_equal(vv_resizing_side(28, 0.5, 32), 28); /* no increment fits */
    assert_int_equal(vv_resizing_side(29, 0.99, 4), 28);
    assert_int_equal(vv_resizing_side(29, 1, 4), 29); /* full is full */
    assert_int_equal(vv_resizing_side(30, 0.99, 4), 28);
    assert_int_equal(vv_resizing_side(10, 0.5, 2), 4); /* 2.5: half goes to the even multiple */
}

static vv_tensor *noise(int64_t n, int64_t height, int64_t width, int64_t channels)
{
    const int64_t shape[] = {n, height, width, channels};
    vv_tensor *t;
    vv_rng rng = vv_rng_at(6, "noise", 0);
    assert_ok(vv_tensor_new(&t, VV_F32, 4, shape));
    for (int64_t i = 0; i < t->count; i++)
        vv_tensor_set(t, i, vv_rng_normal(&rng));
    return t;
}

/* The same numbers as the graph's resize, down and to odd sizes. */
static void bilinear(void **unused)
{
    (void)unused;
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    static const double scale[] = {0.5, 0.75, 0.3};
    vv_graph *graph;
    vv_tensor *x = noise(2, 16, 20, 3), *out = NULL;
    assert_ok(vv_graph_new(&graph, &graph_opts));
    for (int i = 0; i < 3; i++) {
        const vv_tensor *expected;
        assert_ok(vv_resize_batch(&out, NULL, x, NULL, scale[i], 1, VV_RESIZING_RESIZE, NULL));
        vv_node *node =
            vv_resize(vv_leaf(graph, x), out->shape[1], out->shape[2], VV_RESIZE_BILINEAR);
        assert_ok(vv_node_value(node, &expected));
        assert_true(vv_tensor_same_shape(out, expected));
        for (int64_t k = 0; k < out->count; k++)
            assert_near(vv_tensor_get(out, k), vv_tensor_get(expected, k), 1e-5, 1e-5);
    }
    vv_graph_free(graph);
    /* Full size: the very same tensor. */
    assert_ok(vv_resize_batch(&out, NULL, x, NULL, 1, 4, VV_RESIZING_RESIZE, NULL));
    assert_ptr_equal(out, x);
    vv_tensor_free(out);
    vv_tensor_free(x);
}

static void masks(void **unused)
{
    (void)unused;
    const int64_t shape[] = {1, 8, 8};
    vv_tensor *x = noise(1, 8, 8, 2), *mask, *out = NULL, *out_mask = NULL;
    assert_ok(vv_tensor_new(&mask, VV_I32, 3, shape));
    for (int64_t i = 0; i < 64; i++)
        vv_tensor_set(mask, i, (double)i);
    assert_ok(vv_resize_batch(&out, &out_mask, x, mask, 0.5, 4, VV_RESIZING_RESIZE, NULL));
    assert_int_equal(out_mask->dtype, VV_I32);
    assert_int_equal(out_mask->shape[1], 4);
    for (int64_t i = 0; i < 16; i++)
        assert_int_equal(vv_tensor_get(out_mask, i), i / 4 * 2 * 8 + i % 4 * 2);
    vv_tensor_free(x);
    vv_tensor_free(mask);
    vv_tensor_free(out);
    vv_tensor_free(out_mask);
}

/* A crop of x and of x as its own mask agree; rows keep their order; every offset comes. */
static void crops(void **unused)
{
    (void)unused;
    const int64_t shape[] = {2, 6, 6, 1};
    vv_tensor *x, *out = NULL, *copy = NULL;
    bool tops[5] = {false}, lefts[5] = {false};
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, (double)i);
    for (uint64_t k = 0; k < 200; k++) {
        vv_rng rng = vv_rng_at(1, "crop", k);
        assert_ok(vv_resize_batch(&out, &copy, x, x, 0.4, 2, VV_RESIZING_CROP, &rng));
        assert_int_equal(out->shape[1], 2);
        assert_int_equal(out->count, 8);
        const int64_t first = (int64_t)vv_tensor_get(out, 0);
        tops[first / 6] = lefts[first % 6] = true;
        for (int64_t i = 0; i < 8; i++) {
            assert_int_equal(vv_tensor_get(out, i), first + i / 4 * 36 + i % 4 / 2 * 6 + i % 2);
            assert_int_equal(vv_tensor_get(copy, i), vv_tensor_get(out, i));
        }
    }
    for (int i = 0; i < 5; i++)
        assert_true(tops[i] && lefts[i]);
    assert_fails(vv_resize_batch(&out, NULL, x, NULL, 0.4, 2, VV_RESIZING_CROP, NULL), VV_EINVAL);
    vv_tensor_free(x);
    vv_tensor_free(out);
    vv_tensor_free(copy);
}

static void refusals(void **unused)
{
    (void)unused;
    const int64_t four = 4;
    vv_tensor *x = noise(1, 8, 8, 1), *labels, *out = NULL, *out_target = NULL;
    assert_ok(vv_tensor_new(&labels, VV_I32, 1, &four));
    assert_fails(vv_resize_batch(&out, NULL, labels, NULL, 0.5, 4, VV_RESIZING_RESIZE, NULL),
                 VV_ESHAPE);
    assert_fails(vv_resize_batch(&out, &out_target, x, labels, 0.5, 4, VV_RESIZING_RESIZE, NULL),
                 VV_ESHAPE);
    assert_fails(vv_resize_batch(&out, NULL, x, NULL, 0.5, 0, VV_RESIZING_RESIZE, NULL), VV_EINVAL);
    assert_ok(vv_resize_batch(&out, NULL, x, NULL, 0.5, 2, VV_RESIZING_RESIZE, NULL));
    assert_fails(vv_resize_batch(&out, NULL, out, NULL, 0.5, 2, VV_RESIZING_RESIZE, NULL),
                 VV_EINVAL);
    vv_tensor_free(x);
    vv_tensor_free(labels);
    vv_tensor_free(out);
}

/* ---- through the Trainer ---- */

typedef struct sizes {
    int64_t side[16];
    int count;
} sizes;

static vv_status note_size(vv_callback *callback, vv_event event, vv_state *state)
{
    sizes *s = *(sizes **)callback->self;
    (void)event;
    s->side[s->count++] = state->batch->input->shape[1];
    return VV_OK;
}

static const vv_field no_fields[] = {{.name = NULL}};
static const vv_callback_desc noter = {
    .desc = {"callback", "noter", "For a test.", "", "any", no_fields, 0},
    .events = VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .self_size = sizeof(sizes *),
    .apply = note_size,
};

static vv_status train(const vv_model_desc *model, const char *duration, const char *settings,
                       sizes *seen)
{
    const vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {16, 16, 1}, .classes = 2,
                                 .mean = {0.5f}, .std = {0.25f}};
    static uint8_t inputs[10 * 256];
    const int32_t targets[10] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    vv_dataset *set;
    vv_loader *loader;
    vv_trainer *trainer = NULL;
    vv_method *method;
    vv_callback *callbacks[2] = {NULL, NULL};
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    void *opts_of_model = NULL;
    for (size_t i = 0; i < sizeof inputs; i++)
        inputs[i] = (uint8_t)(i * 37 % 251);
    loading.batch_size = 2;
    assert_ok(vv_dataset_from_arrays(&set, &spec, 10, inputs, targets));
    assert_ok(vv_loader_new(&loader, set, &loading));
    assert_ok(vv_method_make(&method, "progressive_resizing", settings));
    assert_ok(vv_callback_new(&callbacks[0], &noter, NULL));
    *(sizes **)callbacks[0]->self = seen;
    seen->count = 0;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_alloc(&opts_of_model, model->desc.opts_size));
    assert_ok(vv_opts_init(&model->desc, opts_of_model));
    assert_ok(vv_opts_set(&model->desc, opts_of_model, "width", "4"));
    assert_ok(vv_model_build(&opts.model, model, opts_of_model, &spec, 1));
    vv_opts_fini(&model->desc, opts_of_model);
    vv_dealloc(opts_of_model);
    opts.train = loader;
    opts.max_duration = duration;
    opts.methods = VV_LIST(method);
    opts.callbacks = callbacks;
    vv_status status = vv_trainer_new(&trainer, &opts);
    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    vv_trainer_free(trainer);
    vv_loader_free(loader);
    vv_dataset_free(set);
    return status;
}

/* Ten batches: progress 0, 0.1 ... 0.9, whether the duration is given in epochs or batches. */
static void grows(void **unused)
{
    (void)unused;
    static const int64_t expected[10] = {8, 8, 8, 8, 8, 8, 12, 12, 16, 16};
    static const char *const durations[] = {"2ep", "10ba"};
    sizes seen;
    for (int i = 0; i < 2; i++) {
        assert_ok(train(&vv_model_resnet9, durations[i], NULL, &seen));
        assert_int_equal(seen.count, 10);
        for (int k = 0; k < 10; k++)
            if (seen.side[k] != expected[k])
                fail_msg("batch %d: side %lld, expected %lld", k, (long long)seen.side[k],
                         (long long)expected[k]);
    }
    assert_ok(train(&vv_model_resnet9, "2ep", "mode=crop", &seen));
    assert_int_equal(seen.side[0], 8);
}

static void one_size_only(void **unused)
{
    (void)unused;
    sizes seen;
    assert_fails(train(&vv_model_mlp, "2ep", NULL, &seen), VV_ESHAPE);
    assert_says("8x8");
    assert_int_equal(seen.count, 0);
    assert_fails(train(&vv_model_resnet9, "2ep", "resize_targets=true", &seen), VV_EINVAL);
    assert_says("resize_targets");
}

static void settings(void **unused)
{
    (void)unused;
    vv_progressive_resizing_opts opts = VV_PROGRESSIVE_RESIZING_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *method = vv_progressive_resizing(NULL);
    assert_non_null(method);
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &opts, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
    opts.delay_fraction = 0.9;
    vv_error_clear();
    assert_null(vv_progressive_resizing(&opts));
    assert_says("exceed 1");
    opts.delay_fraction = -0.1;
    assert_null(vv_progressive_resizing(&opts));
    assert_says("delay_fraction");
}

int main(void)
{
    vv_set_threads(1); /* the nets are tiny */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales),   cmocka_unit_test(sides),    cmocka_unit_test(bilinear),
        cmocka_unit_test(masks),    cmocka_unit_test(crops),    cmocka_unit_test(refusals),
        cmocka_unit_test(grows),    cmocka_unit_test(one_size_only),
        cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
