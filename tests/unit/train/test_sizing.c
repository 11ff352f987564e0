/* test_sizing.c - memory, microbatch and precision are settled before step 0:
 * the microbatch chosen is the largest that fits and the step takes what was planned; inputs that
 * grow are proven at their largest; what does not fit fails with the numbers and a remedy;
 * activations computed again change no bit of a run; a run that goes on keeps what was chosen;
 * planning changes nothing. */
#include "train_test.h"

#include "train/trainer_impl.h"

enum { SAMPLES = 256, BATCH = 128, FEATURES = 48, WIDTH = 48, DEPTH = 10, SIDE = 16, CHANNELS = 3,
       SHORT = 10 /* a limit lower by a tenth of the step */ };

/* ---- a deep network on vectors, and one with batch norms on images ---- */
static vv_model *deep_mlp(void)
{
    vv_module *net, *layer;
    vv_model *model;
    assert_ok(vv_sequential_new(&net));
    for (int i = 0; i < DEPTH; i++) {
        vv_status made = vv_linear_new(&layer, i ? WIDTH : FEATURES, WIDTH, true);
        assert_ok(vv_sequential_push(net, made, layer));
        made = vv_activation_new(&layer, VV_ACT_GELU, 0.0);
        assert_ok(vv_sequential_push(net, made, layer));
        made = vv_dropout_new(&layer, 0.1);
        assert_ok(vv_sequential_push(net, made, layer));
    }
    vv_status made = vv_linear_new(&layer, WIDTH, TT_CLASSES, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 5));
    assert_ok(vv_classifier_new(&model, net, TT_CLASSES));
    return model;
}

static vv_model *norm_net(void)
{
    vv_module *net, *layer;
    vv_model *model;
    assert_ok(vv_sequential_new(&net));
    for (int i = 0; i < 3; i++) {
        vv_conv_opts conv = VV_CONV_DEFAULTS;
        conv.pad[0] = conv.pad[1] = 1;
        vv_status made = vv_conv2d_new(&layer, i ? 8 : CHANNELS, 8, 3, &conv, false);
        assert_ok(vv_sequential_push(net, made, layer));
        made = vv_batch_norm_new(&layer, 8, 1e-5, 0.1);
        assert_ok(vv_sequential_push(net, made, layer));
        made = vv_activation_new(&layer, VV_ACT_RELU, 0.0);
        assert_ok(vv_sequential_push(net, made, layer));
    }
    vv_status made = vv_adaptive_avg_pool_new(&layer, 1, 1);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 8, TT_CLASSES, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 5));
    assert_ok(vv_classifier_new(&model, net, TT_CLASSES));
    return model;
}

static void make_data(tt_data *data, bool images)
{
    vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                           .input_shape = {FEATURES}, .classes = TT_CLASSES};
    if (images) {
        spec.input_ndim = 3;
        const int64_t shape[3] = {SIDE, SIDE, CHANNELS};
        memcpy(spec.input_shape, shape, sizeof shape);
    }
    size_t size = images ? SIDE * SIDE * CHANNELS : FEATURES;
    float *inputs = test_calloc((size_t)SAMPLES * size, sizeof *inputs);
    int32_t targets[SAMPLES];
    vv_rng rng = vv_rng_at(9, "sizing", 0);
    for (size_t i = 0; i < (size_t)SAMPLES * size; i++)
        inputs[i] = (float)vv_rng_normal(&rng);
    for (int i = 0; i < SAMPLES; i++)
        targets[i] = i % TT_CLASSES;
    assert_ok(vv_dataset_from_arrays(&data->set, &spec, SAMPLES, inputs, targets));
    test_free(inputs);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = BATCH;
    opts.workers = 0;
    assert_ok(vv_loader_new(&data->loader, data->set, &opts));
}

typedef struct world {
    tt_data data;
    vv_trainer_opts opts;
} world;

static void world_init(world *w, bool images)
{
    make_data(&w->data, images);
    w->opts = (vv_trainer_opts)VV_TRAINER_DEFAULTS;
    w->opts.model = images ? norm_net() : deep_mlp();
    w->opts.train = w->data.loader;
    w->opts.max_duration = "2ep";
    w->opts.seed = 3;
}

/* What the whole batch takes without computing anything again. */
static size_t whole_needed(bool images, size_t *slab)
{
    world w;
    vv_trainer *t;
    world_init(&w, images);
    w.opts.recompute = VV_RECOMPUTE_OFF;
    assert_ok(vv_trainer_new(&t, &w.opts));
    size_t needed = vvi_sizing_needed(&t->sizing);
    *slab = t->sizing.cost.slab_bytes;
    assert_int_equal(t->sizing.rows, BATCH);
    vv_trainer_free(t);
    tt_data_fini(&w.data);
    return needed;
}

/* Fits, and the run takes the slab that was planned, to the byte. */
static void run_planned(vv_trainer *t)
{
    assert_ok(vv_trainer_fit(t));
    vv_graph_stats stats;
    vv_graph_get_stats(t->graph, &stats);
    assert_int_equal(stats.planned_bytes, t->sizing.cost.slab_bytes);
    assert_int_equal(stats.peak_bytes, t->sizing.cost.slab_bytes);
    assert_true(vvi_sizing_needed(&t->sizing) <= t->sizing.available_bytes);
}

static void test_largest_that_fits(void **state)
{
    (void)state;
    size_t slab, needed = whole_needed(false, &slab);
    int64_t rows[2] = {0};
    for (int i = 0; i < 2; i++) { /* a limit, then just below what was chosen under it */
        world w;
        vv_trainer *t;
        world_init(&w, false);
        w.opts.recompute = VV_RECOMPUTE_OFF;
        w.opts.microbatch = VV_MICROBATCH_AUTO;
        w.opts.memory_limit = (int64_t)(needed - slab / 2);
        if (i)
            w.opts.memory_limit = (int64_t)needed - 1;
        assert_ok(vv_trainer_new(&t, &w.opts));
        rows[i] = t->microbatch;
        assert_in_range(rows[i], 1, BATCH - 1);
        assert_int_equal(vv_trainer_state(t)->microbatch, rows[i]);
        run_planned(t);
        vv_trainer_free(t);
        tt_data_fini(&w.data);
    }
    assert_int_equal(rows[1], BATCH / 2); /* two pieces are the next size */
    assert_true(rows[0] < rows[1]);

    world w; /* one piece less than chosen does not fit */
    vv_trainer *t;
    world_init(&w, false);
    w.opts.recompute = VV_RECOMPUTE_OFF;
    w.opts.memory_limit = (int64_t)(needed - slab / 2);
    w.opts.microbatch = rows[1];
    int64_t pieces = (BATCH + rows[0] - 1) / rows[0] - 1;
    w.opts.microbatch = (BATCH + pieces - 1) / pieces;
    assert_fails(vv_trainer_new(&t, &w.opts), VV_ENOMEM);
    tt_data_fini(&w.data);
}

/* The sentence names what is needed, what there is, and what to do. */
static void test_sentence(void **state)
{
    (void)state;
    world w;
    vv_trainer *t;
    world_init(&w, false);
    w.opts.memory_limit = 100000;
    w.opts.microbatch = BATCH;
    w.opts.recompute = VV_RECOMPUTE_OFF;
    assert_fails(vv_trainer_new(&t, &w.opts), VV_ENOMEM);
    assert_null(t);
    assert_says("a step of 128 rows with inputs [128,48] needs ");
    assert_says("memory_limit gives 100000 bytes");
    assert_says("set microbatch to fewer rows or auto");
    assert_says("set recompute to auto");
    assert_says("raise memory_limit");
    tt_data_fini(&w.data);
    /* not even one row, computing again */
    world_init(&w, false);
    w.opts.memory_limit = 100000;
    w.opts.microbatch = VV_MICROBATCH_AUTO;
    assert_fails(vv_trainer_new(&t, &w.opts), VV_ENOMEM);
    assert_says("a step of 1 rows");
    tt_data_fini(&w.data);
    world_init(&w, false);
    w.opts.memory_limit = -1;
    assert_fails(vv_trainer_new(&t, &w.opts), VV_EINVAL);
    tt_data_fini(&w.data);
}

static tt_weights train(bool images, vv_recompute mode, int64_t limit, int64_t *microbatch,
                        int64_t *again)
{
    world w;
    vv_trainer *t;
    world_init(&w, images);
    w.opts.recompute = mode;
    w.opts.memory_limit = limit;
    w.opts.microbatch = *microbatch;
    assert_ok(vv_trainer_new(&t, &w.opts));
    *microbatch = t->microbatch;
    *again = t->sizing.cost.recompute_flops;
    size_t slab = t->sizing.cost.slab_bytes, whole = t->sizing.cost.whole_bytes;
    assert_true(mode == VV_RECOMPUTE_OFF ? slab == whole : slab < whole);
    vv_str plan = {0};
    assert_ok(vv_trainer_plan(t, &plan));
    assert_true(!strstr(vv_str_text(&plan), "computed again") == (mode == VV_RECOMPUTE_OFF));
    vv_str_fini(&plan);
    run_planned(t);
    tt_weights weights = tt_weights_of(t); /* running statistics too */
    vv_trainer_free(t);
    tt_data_fini(&w.data);
    return weights;
}

/* Dropout, batch norms with running statistics: the same bits, in less memory. */
static void test_recompute_changes_no_bit(void **state)
{
    (void)state;
    for (int images = 0; images < 2; images++) {
        size_t slab, needed = whole_needed(images, &slab);
        int64_t micro[3] = {0}, again[3];
        tt_weights off = train(images, VV_RECOMPUTE_OFF, 0, &micro[0], &again[0]);
        tt_weights full = train(images, VV_RECOMPUTE_FULL, 0, &micro[1], &again[1]);
        tt_weights some = train(images, VV_RECOMPUTE_AUTO, (int64_t)(needed - slab / SHORT),
                                &micro[2], &again[2]);
        assert_same_bits(&off, &full);
        assert_same_bits(&off, &some);
        assert_int_equal(again[0], 0);
        assert_true(again[1] > 0);
        free(off.values);
        free(full.values);
        free(some.values);
    }
}

/* With batch statistics the batch is kept whole by computing again; without, it is cut. */
static void test_auto_minds_batch_statistics(void **state)
{
    (void)state;
    for (int images = 0; images < 2; images++) {
        size_t slab, needed = whole_needed(images, &slab);
        world w;
        vv_trainer *t;
        world_init(&w, images);
        w.opts.microbatch = VV_MICROBATCH_AUTO;
        w.opts.memory_limit = (int64_t)(needed - slab / SHORT);
        assert_ok(vv_trainer_new(&t, &w.opts));
        assert_true((t->microbatch == BATCH) == images);
        assert_true((t->sizing.cost.slab_bytes < t->sizing.cost.whole_bytes) == images);
        vv_trainer_free(t);
        tt_data_fini(&w.data);
    }
}

/* ---- inputs that change their size ---- */

typedef struct crop_opts {
    int64_t rising; /* 1: larger and larger; 0: largest in the middle */
} crop_opts;
static const vv_field crop_fields[] = {
    {"rising", "Grows to the end.", VV_FIELD_INT, offsetof(crop_opts, rising), "1", 0, 1, NULL},
    {.name = NULL},
};

static vv_status crop(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    const crop_opts *o = method->opts;
    double p = state->progress;
    bool small = o->rising ? p < 0.5 : p < 0.4 || p > 0.6;
    method->effect++;
    vv_log_metric(state, "crop/small", small);
    if (!small)
        return VV_OK;
    const vv_tensor *in = state->batch->input;
    vv_tensor *out;
    const int64_t side = SIDE / 2, shape[4] = {in->shape[0], side, side, CHANNELS};
    VV_TRY(vv_tensor_new(&out, VV_F32, 4, shape));
    for (int64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] = ((const float *)in->data)[i];
    vv_tensor_free(state->batch->input);
    state->batch->input = out;
    return VV_OK;
}

static int middle(const vv_method *method, const vv_state *state, double *points, int most)
{
    (void)state;
    const crop_opts *o = method->opts;
    if (o->rising || most < 1)
        return 0;
    points[0] = 0.5;
    return 1;
}

static const vv_method_desc crop_desc = {
    .desc = {"method", "crop", "For a test.", "", "any", crop_fields, sizeof(crop_opts)},
    .phase = VV_PHASE_RESIZE,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .apply = crop,
    .points = middle,
};

static void test_largest_shape_is_proven(void **state)
{
    (void)state;
    for (int rising = 0; rising < 2; rising++) {
        const crop_opts settings = {rising};
        size_t slab, needed = whole_needed(true, &slab);
        for (int enough = 0; enough < 2; enough++) {
            world w;
            vv_trainer *t;
            vv_method *method;
            world_init(&w, true);
            assert_ok(vv_method_new(&method, &crop_desc, &settings));
            w.opts.methods = VV_LIST(method);
            w.opts.max_duration = "20ba";
            w.opts.recompute = VV_RECOMPUTE_OFF;
            w.opts.memory_limit = (int64_t)needed - (enough ? 0 : 1);
            if (!enough) { /* the first batches would fit; the largest would not */
                assert_fails(vv_trainer_new(&t, &w.opts), VV_ENOMEM);
                assert_says("[128,16,16,3]");
            } else {
                assert_ok(vv_trainer_new(&t, &w.opts));
                assert_int_equal(t->sizing.cost.slab_bytes, slab);
                assert_int_equal(t->methods[0]->effect, 0);
                run_planned(t);
                vv_trainer_free(t);
            }
            tt_data_fini(&w.data);
        }
    }
}

/* ---- nothing else happens ---- */

static vv_status hear(void *ctx, vv_event event, vv_state *state)
{
    (void)state;
    ((int *)ctx)[event]++;
    return VV_OK;
}

static void test_planning_changes_nothing(void **state)
{
    (void)state;
    world w;
    vv_trainer *t;
    vv_method *method;
    int heard[VV_EVENT_COUNT] = {0};
    world_init(&w, true);
    vv_callback *callbacks[] = {tt_listen_with(hear, heard), NULL};
    assert_ok(vv_method_new(&method, &crop_desc, NULL));
    w.opts.methods = VV_LIST(method);
    w.opts.callbacks = callbacks;
    assert_ok(vv_trainer_new(&t, &w.opts));
    tt_weights before = tt_weights_of(t);
    vvi_dry_result r;
    for (int run = 0; run < 2; run++) /* gradients may be computed; weights and statistics stay */
        assert_ok(vvi_step_dry(t, 1.0, 8, VV_BIND_WRITE, run, &r));
    assert_int_equal(r.shape[0], 8);
    assert_true(r.seconds > 0.0);
    tt_weights after = tt_weights_of(t);
    assert_same_bits(&before, &after);
    const vv_state *s = vv_trainer_state(t);
    assert_null(s->batch);
    assert_false(s->dry);
    assert_int_equal(s->time.batch, 0);
    assert_int_equal(method->effect, 0);
    assert_int_equal(heard[VV_EVENT_AFTER_DATALOADER] + heard[VV_EVENT_BEFORE_FORWARD], 0);
    assert_int_equal(heard[VV_EVENT_INIT], 1);
    vv_trainer_free(t);
    tt_data_fini(&w.data);
    free(before.values);
    free(after.values);
}

/* ---- choices are kept ---- */

static void test_a_run_keeps_its_choices(void **state)
{
    (void)state;
    size_t slab, needed = whole_needed(false, &slab);
    char folder[256];
    tt_folder(folder, sizeof folder);
    int64_t rows[2];
    for (int i = 0; i < 2; i++) {
        world w;
        vv_trainer *t;
        world_init(&w, false);
        w.opts.microbatch = VV_MICROBATCH_AUTO;
        w.opts.precision = i ? VV_PRECISION_AUTO : VV_PRECISION_AMP_BF16;
        w.opts.recompute = VV_RECOMPUTE_OFF;
        w.opts.memory_limit = i ? 0 : (int64_t)(needed - slab / 4); /* bf16 takes less */
        w.opts.run_dir = folder;
        w.opts.save_interval = "1ba";
        w.opts.resume = true;
        w.opts.max_duration = i ? "2ep" : "1ep";
        assert_ok(vv_trainer_new(&t, &w.opts));
        rows[i] = t->microbatch;
        assert_int_equal(vv_trainer_state(t)->precision, VV_PRECISION_AMP_BF16);
        vv_str plan = {0};
        assert_ok(vv_trainer_plan(t, &plan));
        if (i)
            assert_non_null(strstr(vv_str_text(&plan), "(as in the checkpoint)"));
        vv_str_fini(&plan);
        assert_ok(vv_trainer_fit(t));
        vv_trainer_free(t);
        tt_data_fini(&w.data);
    }
    assert_int_equal(rows[0], rows[1]);
    tt_remove(folder);
}

/* ---- by speed ---- */

static void test_fastest(void **state)
{
    (void)state;
    world w;
    vv_trainer *t;
    world_init(&w, false);
    w.opts.microbatch = VV_MICROBATCH_FASTEST;
    assert_ok(vv_trainer_new(&t, &w.opts));
    assert_in_range(t->microbatch, 1, BATCH);
    assert_int_equal(t->sizing.rows, t->microbatch);
    assert_non_null(strstr(t->sizing.microbatch_note, "ms a row"));
    assert_ok(vv_trainer_fit(t));
    vv_trainer_free(t);
    tt_data_fini(&w.data);

    world_init(&w, true);
    w.opts.microbatch = VV_MICROBATCH_FASTEST;
    assert_fails(vv_trainer_new(&t, &w.opts), VV_EINVAL);
    assert_says("fastest_any");
    tt_data_fini(&w.data);
    world_init(&w, true);
    w.opts.microbatch = VV_MICROBATCH_FASTEST_ANY;
    assert_ok(vv_trainer_new(&t, &w.opts));
    assert_in_range(t->microbatch, 1, BATCH);
    vv_trainer_free(t);
    tt_data_fini(&w.data);
}

/* fp32 with the reason where there are no instructions, else what was faster, with both times; and
   the two can be timed on any machine. */
static void test_auto_precision(void **state)
{
    (void)state;
    world w;
    vv_trainer *t;
    world_init(&w, false);
    w.opts.precision = VV_PRECISION_AUTO;
    assert_ok(vv_trainer_new(&t, &w.opts));
    vv_precision chosen = vv_trainer_state(t)->precision;
    const char *note = t->sizing.precision_note;
    if (vv_cpu_has_bf16()) {
        assert_true(chosen == VV_PRECISION_FP32 || chosen == VV_PRECISION_AMP_BF16);
        assert_non_null(strstr(note, "measured with 32 rows: fp32 "));
        assert_non_null(strstr(note, " ms, amp_bf16 "));
    } else {
        assert_int_equal(chosen, VV_PRECISION_FP32);
        assert_string_equal(note, "this processor has no bf16 instructions");
    }
    vv_precision measured = VV_PRECISION_AUTO;
    tt_weights before = tt_weights_of(t);
    assert_ok(vvi_measure_precision(t, 0, &measured));
    double single = 0.0, half = 0.0;
    const char *times = strstr(note, "fp32 ");
    assert_non_null(times);
    assert_int_equal(sscanf(times, "fp32 %lf ms, amp_bf16 %lf ms", &single, &half), 2);
    assert_true(single > 0.0 && half > 0.0);
    if (fabs(single - half) > 0.02)
        assert_int_equal(measured, single < half ? VV_PRECISION_FP32 : VV_PRECISION_AMP_BF16);
    tt_weights after = tt_weights_of(t);
    assert_same_bits(&before, &after);
    assert_ok(vv_trainer_fit(t));
    vv_trainer_free(t);
    tt_data_fini(&w.data);
    free(before.values);
    free(after.values);
}

static void test_words(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t rows;
    } good[] = {{"0", 0}, {"8", 8}, {"auto", -1}, {"fastest", -2}, {"fastest_any", -3}};
    int64_t rows, bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(vv_microbatch_parse(&rows, good[i].text));
        assert_int_equal(rows, good[i].rows);
    }
    const char *const bad[] = {"", "-1", "1.5", "8 rows", "AUTO", "nan"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(vv_microbatch_parse(&rows, bad[i]), VV_EINVAL);
    const struct {
        const char *text;
        int64_t bytes;
    } amounts[] = {{"0", 0}, {"1000", 1000}, {"4GiB", INT64_C(4) << 30}, {"1.5 kib", 1536},
                   {"2GB", 2000000000}, {"512MiB", 536870912}, {"7b", 7}};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        assert_ok(vv_bytes_parse(&bytes, amounts[i].text));
        assert_int_equal(bytes, amounts[i].bytes);
    }
    const char *const no_amounts[] = {"", "GiB", "4Gi", "-1", "4GiBs", "1e30", "nan"};
    for (size_t i = 0; i < sizeof no_amounts / sizeof *no_amounts; i++)
        assert_fails(vv_bytes_parse(&bytes, no_amounts[i]), VV_EINVAL);
    char buf[24];
    assert_string_equal(vv_bytes_text(1000, buf, sizeof buf), "1000 bytes");
    assert_string_equal(vv_bytes_text(3435973836, buf, sizeof buf), "3.2 GiB");
    assert_true(vv_memory_available() == 0 || vv_memory_available() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_largest_that_fits),
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_recompute_changes_no_bit),
        cmocka_unit_test(test_auto_minds_batch_statistics),
        cmocka_unit_test(test_largest_shape_is_proven),
        cmocka_unit_test(test_planning_changes_nothing),
        cmocka_unit_test(test_a_run_keeps_its_choices),
        cmocka_unit_test(test_fastest),
        cmocka_unit_test(test_auto_precision),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
