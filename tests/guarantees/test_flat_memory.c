/* test_flat_memory.c - 1,000 steps whose inputs keep changing their size and number, with
 * evaluation, logging and checkpoints: once every size has been seen, neither the library's heap
 * nor the process's resident memory grows; nor does it where nearly every step is of a new
 * structure. */
#include "unit/train/train_test.h"

enum { SAMPLES = 64, BATCH = 16, SIDE = 12, CHANNELS = 3, STEPS = 1000, WARM = 400 };

typedef struct sizes_opts {
    int64_t any; /* 1: any size and number of rows; 0: three sizes in turn */
} sizes_opts;
static const vv_field sizes_fields[] = {
    {"any", "Any size and number.", VV_FIELD_INT, offsetof(sizes_opts, any), "0", 0, 1, NULL},
    {.name = NULL},
};

static vv_status change_size(vv_method *method, vv_event event, vv_state *state)
{
    const sizes_opts *o = method->opts;
    vv_batch *batch = state->batch;
    vv_tensor *input = NULL, *target = NULL;
    int64_t b = state->time.batch;
    int64_t side = o->any ? 4 + b % 9 : 4 + 4 * (b % 3), rows = o->any ? 1 + b % 16 : BATCH;
    (void)event;
    rows = rows < batch->count ? rows : batch->count;
    const int64_t shape[4] = {rows, side, side, CHANNELS};
    VV_TRY(vv_tensor_new(&input, VV_F32, 4, shape));
    memcpy(input->data, batch->input->data, input->bytes);
    vv_status status = vv_tensor_new(&target, batch->target->dtype, 1, &rows);
    if (status != VV_OK) {
        vv_tensor_free(input);
        return status;
    }
    memcpy(target->data, batch->target->data, target->bytes);
    vv_tensor_free(batch->input);
    vv_tensor_free(batch->target);
    batch->input = input;
    batch->target = target;
    batch->count = rows;
    vv_log_metric(state, "sizes/side", (double)side);
    return VV_OK;
}

static const vv_method_desc sizes_desc = {
    .desc = {"method", "sizes", "For a test.", "", "any", sizes_fields, sizeof(sizes_opts)},
    .phase = VV_PHASE_SELECT,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .apply = change_size,
};

static vv_model *conv_net(void)
{
    vv_module *net, *layer;
    vv_model *model;
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    conv.pad[0] = conv.pad[1] = 1;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, CHANNELS, 8, 3, &conv, false);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_batch_norm_new(&layer, 8, 1e-5, 0.1);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_activation_new(&layer, VV_ACT_RELU, 0.0);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_adaptive_avg_pool_new(&layer, 1, 1);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 8, TT_CLASSES, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 5));
    assert_ok(vv_classifier_new(&model, net, TT_CLASSES));
    return model;
}

static void make_data(tt_data *data)
{
    vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 3,
                           .input_shape = {SIDE, SIDE, CHANNELS}, .classes = TT_CLASSES};
    enum { ELEMENTS = SAMPLES * SIDE * SIDE * CHANNELS };
    float *inputs = test_calloc(ELEMENTS, sizeof *inputs);
    int32_t targets[SAMPLES];
    vv_rng rng = vv_rng_at(9, "flat", 0);
    for (int i = 0; i < ELEMENTS; i++)
        inputs[i] = (float)vv_rng_normal(&rng);
    for (int i = 0; i < SAMPLES; i++)
        targets[i] = i % TT_CLASSES;
    assert_ok(vv_dataset_from_arrays(&data->set, &spec, SAMPLES, inputs, targets));
    test_free(inputs);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = BATCH;
    opts.shuffle = true;
    opts.workers = 0;
    assert_ok(vv_loader_new(&data->loader, data->set, &opts));
}

static int64_t resident_bytes(void)
{
    long long total, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld %lld", &total, &pages), 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

typedef struct watch {
    int64_t resident[2], heap[2], blocks[2]; /* when warm, and at the end: the most of a cycle */
} watch;

/* The cycle of sizes has 3 or 144 steps. */
static vv_status look(void *ctx, vv_event event, vv_state *state)
{
    watch *w = ctx;
    int64_t b = state->time.batch;
    int when = b > WARM - 144 && b <= WARM ? 0 : b > STEPS - 144 ? 1 : -1;
    if (event != VV_EVENT_BATCH_CHECKPOINT || when < 0)
        return VV_OK;
    const int64_t now[3] = {resident_bytes(), (int64_t)vv_memory_live_bytes(),
                            vv_memory_live_count()};
    int64_t *most[3] = {&w->resident[when], &w->heap[when], &w->blocks[when]};
    for (int i = 0; i < 3; i++)
        *most[i] = now[i] > *most[i] ? now[i] : *most[i];
    return VV_OK;
}

static void train(int64_t any)
{
    char folder[256];
    tt_data data, eval;
    watch w = {0};
    vv_method *method;
    const sizes_opts settings = {any};
    tt_folder(folder, sizeof folder);
    make_data(&data);
    make_data(&eval);
    assert_ok(vv_method_new(&method, &sizes_desc, &settings));
    vv_callback *callbacks[] = {tt_listen_with(look, &w), NULL};
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    o.model = conv_net();
    o.train = data.loader;
    o.eval = eval.loader;
    o.eval_interval = "100ba";
    o.max_duration = "1000ba";
    o.methods = VV_LIST(method);
    o.callbacks = callbacks;
    o.microbatch = 7;
    o.run_dir = folder;
    o.save_interval = "200ba";
    o.save_keep = 2;
    o.backend = any ? vv_backend_find("ref") : NULL;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &o));
    assert_ok(vv_trainer_fit(trainer));
    vv_graph_stats stats;
    vv_graph_get_stats(vv_trainer_graph(trainer), &stats);
    print_message("# %lld plans; resident %.2f MiB, then %.2f; heap %.1f KiB, then %.1f\n",
                  (long long)stats.plan_count, (double)w.resident[0] / 1048576.0,
                  (double)w.resident[1] / 1048576.0, (double)w.heap[0] / 1024.0,
                  (double)w.heap[1] / 1024.0);
    vv_trainer_free(trainer);
    tt_data_fini(&data);
    tt_data_fini(&eval);
    tt_remove(folder);
    assert_true(w.heap[0] > 0 && w.blocks[0] > 0);
    /* the heap by what plans of these sizes differ in; the process by its allocator's slack */
    assert_true(w.heap[1] <= w.heap[0] + 16384);
    assert_true(w.blocks[1] <= w.blocks[0] + 64);
#if !defined(__SANITIZE_ADDRESS__) /* its quarantine grows */
    assert_true(w.resident[1] <= w.resident[0] + (1 << 20));
#endif
}

static void test_sizes_in_turn(void **state)
{
    (void)state;
    train(0);
}

static void test_ever_new_sizes(void **state)
{
    (void)state;
    train(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_in_turn),
        cmocka_unit_test(test_ever_new_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
