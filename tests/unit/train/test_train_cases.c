/* test_train_cases.c - numbers of known faults (cases B1, B2, B4, B19, B23): losses and gradients
 * count each loss item once whatever the microbatch; clipping sees the whole gradient once; frozen
 * means bit-equal, also through a checkpoint; batch b trains with the learning rate of time b; a
 * mixed batch equals its soft targets; a second pass over a batch repeats the first. */
#include "train_test.h"

#include <vivace/ops.h>

/* ---- a method that puts a test's own loss in the place of the model's ---- */
typedef struct own_loss {
    vv_node *(*items)(vv_state *state, vv_node *w);
    int64_t item_count; /* of the batch; 0 = leave */
} own_loss;

static vv_status own_loss_apply(vv_method *method, vv_event event, vv_state *state)
{
    const own_loss *self = method->self;
    if (event == VV_EVENT_BATCH_START) {
        if (self->item_count)
            state->loss_item_count = self->item_count;
        return VV_OK;
    }
    vv_param *w = vv_module_param(state->model->net, "w");
    state->loss_items = self->items(state, vv_leaf(state->graph, w->value));
    return VV_OK;
}

static const vv_method_desc own_loss_desc = {
    .desc = {"method", "own_loss", "For a test.", "", "any", tt_no_fields, 0},
    .phase = VV_PHASE_TARGET,
    .events = VV_EVENT_BIT(VV_EVENT_BATCH_START) | VV_EVENT_BIT(VV_EVENT_AFTER_LOSS),
    .self_size = sizeof(own_loss),
    .apply = own_loss_apply,
};

/* What the run's last batch left behind. */
typedef struct seen {
    float grad[2]; /* before the step, clipped if asked */
    double norm, loss;
} seen;

static vv_status see(void *ctx, vv_event event, vv_state *state)
{
    seen *s = ctx;
    if (event != VV_EVENT_BATCH_END)
        return VV_OK;
    const vv_tensor *grad = vv_module_param(state->model->net, "w")->grad;
    for (int64_t i = 0; i < grad->count && i < 2; i++)
        s->grad[i] = (float)vv_tensor_get(grad, i);
    s->norm = state->grad_norm;
    s->loss = state->train_loss;
    return VV_OK;
}

/* A model with one extra parameter `w` of `size` zeros, trained for one batch on `rows` rows of
   `width` inputs. */
static seen run_own(vv_node *(*items)(vv_state *, vv_node *), int64_t item_count, int64_t size,
                    const float *inputs, int64_t rows, int64_t width, int64_t microbatch,
                    double clip)
{
    vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                           .input_shape = {width}, .classes = 2};
    int32_t targets[8] = {0};
    vv_dataset *set;
    vv_loader *loader;
    vv_loader_opts loader_opts = VV_LOADER_DEFAULTS;
    loader_opts.batch_size = rows;
    loader_opts.workers = 0;
    assert_ok(vv_dataset_from_arrays(&set, &spec, rows, inputs, targets));
    assert_ok(vv_loader_new(&loader, set, &loader_opts));

    vv_module *net, *layer;
    vv_model *model;
    vv_param *w;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_linear_new(&layer, width, 2, false);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_param_new(&w, 1, &size));
    assert_ok(vv_module_add_param(net, "w", w));
    assert_ok(vv_classifier_new(&model, net, 2));

    vv_method *method;
    assert_ok(vv_method_new(&method, &own_loss_desc, NULL));
    *(own_loss *)method->self = (own_loss){items, item_count};
    seen result = {0};
    vv_callback *callbacks[] = {tt_listen_with(see, &result), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = model;
    opts.train = loader;
    opts.max_duration = "1ba";
    opts.microbatch = microbatch;
    opts.grad_clip_norm = clip;
    opts.methods = VV_LIST(method);
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    vv_loader_free(loader);
    vv_dataset_free(set);
    return result;
}

/* Inputs: three values y and three flags "counted"; loss per token 0.5 (w - y)^2. */
static vv_node *token_items(vv_state *s, vv_node *w)
{
    vv_node *y = vv_slice(s->input, 1, 0, 3, 1), *counted = vv_slice(s->input, 1, 3, 6, 1);
    return vv_mul(vv_affine(vv_square(vv_sub(w, y)), 0.5, 0.0), counted);
}

static void test_token_weighting(void **unused)
{
    (void)unused;
    const float inputs[] = {
        4, 9, 9, 1, 0, 0, /* one counted token, y = 4 */
        0, 0, 0, 1, 1, 1, /* three, y = 0 */
        7, 7, 7, 0, 0, 0, /* none */
    };
    for (int64_t rows = 2; rows <= 3; rows++)
        for (int64_t micro = 1; micro <= rows; micro++) {
            seen s = run_own(token_items, 4, 1, inputs, rows, 6, micro, 0.0);
            assert_near((double)s.grad[0], -1.0, 1e-7, 0.0);
            assert_near(s.loss, 2.0, 1e-7, 0.0);
        }
    /* Only uncounted tokens: no loss, no NaN. */
    seen s = run_own(token_items, 0, 1, inputs + 12, 1, 6, 1, 0.0);
    assert_near((double)s.grad[0], 0.0, 0.0, 0.0);
    assert_near(s.loss, 0.0, 0.0, 0.0);
}

static vv_node *square_items(vv_state *s, vv_node *w)
{
    const int64_t flat[] = {-1};
    return vv_affine(vv_square(vv_sub(w, vv_reshape(s->input, 1, flat))), 0.5, 0.0);
}

static void test_uneven_split(void **unused)
{
    (void)unused;
    const float y[] = {1, 2, 3, 4, 10};
    for (int64_t micro = 0; micro <= 5; micro++) {
        seen s = run_own(square_items, 0, 1, y, 5, 1, micro, 0.0);
        assert_near((double)s.grad[0], -4.0, 1e-6, 0.0);
        assert_near(s.loss, 13.0, 1e-5, 0.0); /* (1 + 4 + 9 + 16 + 100) / 2 / 5 */
    }
}

static vv_node *dot_items(vv_state *s, vv_node *w)
{
    const int axis = 1;
    return vv_sum(vv_mul(s->input, w), &axis, 1, false);
}

static void test_clipping(void **unused)
{
    (void)unused;
    const float gradients[] = {3, 0, 0, 4}, none[] = {0, 0, 0, 0};
    for (int64_t micro = 1; micro <= 2; micro++) {
        seen s = run_own(dot_items, 1, 2, gradients, 2, 2, micro, 1.0);
        assert_near((double)s.grad[0], 0.6, 1e-7, 0.0);
        assert_near((double)s.grad[1], 0.8, 1e-7, 0.0);
        assert_near(s.norm, 5.0, 1e-7, 0.0);
        s = run_own(dot_items, 1, 2, gradients, 2, 2, micro, 10.0); /* short enough: untouched */
        assert_near((double)s.grad[0], 3.0, 0.0, 0.0);
        s = run_own(dot_items, 1, 2, none, 2, 2, micro, 1.0);
        assert_near((double)s.grad[0], 0.0, 0.0, 0.0);
        assert_near(s.norm, 0.0, 0.0, 0.0);
        s = run_own(dot_items, 1, 2, gradients, 2, 2, micro, 0.0); /* nobody asked for the norm */
        assert_true(isnan(s.norm));
    }
}

/* ---- frozen ---- */

typedef struct freezer {
    int64_t freeze_at, thaw_at; /* batches */
} freezer;

static vv_status freeze(void *ctx, vv_event event, vv_state *state)
{
    const freezer *f = ctx;
    if (event == VV_EVENT_BATCH_START && state->time.batch == f->freeze_at)
        vv_module_set_frozen(state->model->net, true);
    if (event == VV_EVENT_BATCH_START && state->time.batch == f->thaw_at)
        vv_module_set_frozen(state->model->net, false);
    return VV_OK;
}

/* Linear 8-8, batch norm, linear 8-3. */
static vv_model *bn_model(void)
{
    vv_module *net, *layer;
    vv_model *model;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_linear_new(&layer, TT_FEATURES, 8, true);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_batch_norm_new(&layer, 8, 1e-5, 0.1);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 8, TT_CLASSES, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 5));
    assert_ok(vv_classifier_new(&model, net, TT_CLASSES));
    return model;
}

static vv_trainer *frozen_run(tt_data *train, freezer *f, const char *duration, const char *load,
                              vv_callback **callbacks)
{
    callbacks[0] = tt_listen_with(freeze, f);
    vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = bn_model();
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = train->loader;
    opts.max_duration = duration;
    opts.callbacks = callbacks;
    opts.load_path = load;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    return trainer;
}

static void test_frozen(void **unused)
{
    (void)unused;
    char folder[256], path[300];
    tt_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/frozen.safetensors", folder);
    tt_data train;
    tt_data_init(&train, 10, 5, true);
    vv_callback *callbacks[2] = {NULL, NULL};
    freezer at_ten = {10, -1}, never = {-1, -1}, thaw = {-1, 110};

    /* Ten batches give momentum and running statistics; then 100 frozen ones change nothing. */
    vv_trainer *trainer = frozen_run(&train, &never, "10ba", NULL, callbacks);
    assert_ok(vv_trainer_fit(trainer));
    tt_weights before = tt_weights_of(trainer);
    vv_trainer_free(trainer);
    trainer = frozen_run(&train, &at_ten, "110ba", NULL, callbacks);
    assert_ok(vv_trainer_fit(trainer));
    tt_weights after = tt_weights_of(trainer);
    assert_same_bits(&before, &after);
    assert_ok(vv_trainer_save(trainer, path));
    vv_trainer_free(trainer);

    /* Still frozen after a load, and trained again once thawed. */
    trainer = frozen_run(&train, &never, "120ba", path, callbacks);
    assert_ok(vv_trainer_fit(trainer));
    tt_weights loaded = tt_weights_of(trainer);
    assert_same_bits(&before, &loaded);
    vv_trainer_free(trainer);
    trainer = frozen_run(&train, &thaw, "120ba", path, callbacks);
    assert_ok(vv_trainer_fit(trainer));
    tt_weights thawed = tt_weights_of(trainer);
    assert_memory_not_equal(before.values, thawed.values, before.count * sizeof(float));
    vv_trainer_free(trainer);
    free(before.values);
    free(after.values);
    free(loaded.values);
    free(thawed.values);
    tt_data_fini(&train);
    tt_remove(folder);
}

/* ---- learning rate ---- */

static vv_status note_lr(void *ctx, vv_event event, vv_state *state)
{
    double *lr = ctx;
    if (event == VV_EVENT_AFTER_TRAIN_BATCH)
        lr[state->time.batch] = vv_optimizer_lr(state->optimizer, 0);
    return VV_OK;
}

static void test_learning_rate(void **unused)
{
    (void)unused;
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    double lr[110] = {0};
    const vv_schedule_desc *desc = vv_schedule_find("cosine_decay_with_warmup");
    assert_non_null(desc);
    vv_schedule_settings settings;
    assert_ok(vv_opts_init(&desc->desc, &settings));
    assert_ok(vv_opts_set_all(&desc->desc, &settings, "t_warmup=10ba,t_max=110ba"));
    vv_schedule *schedules[2] = {NULL, NULL};
    assert_ok(vv_schedule_new(&schedules[0], desc, &settings));
    vv_opts_fini(&desc->desc, &settings);
    vv_sgd_opts sgd = {.lr = 1.0};
    vv_callback *callbacks[] = {tt_listen_with(note_lr, lr), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.schedules = schedules;
    opts.train = train.loader;
    opts.max_duration = "110ba";
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    assert_near(lr[0], 0.0, 0.0, 0.0);
    assert_near(lr[1], 0.1, 1e-9, 0.0); /* not 0 once more */
    assert_near(lr[5], 0.5, 1e-9, 0.0);
    assert_near(lr[10], 1.0, 1e-9, 0.0);
    assert_near(lr[35], 0.853553, 1e-6, 0.0);
    assert_near(lr[60], 0.5, 1e-6, 0.0);
    assert_near(lr[85], 0.146447, 1e-6, 0.0);
    tt_data_fini(&train);
}

/* ---- mixed batches ---- */

typedef struct mixer {
    bool dense; /* the same mixture as soft targets */
} mixer;

static vv_status mix(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    const mixer *self = method->self;
    vv_batch *b = state->batch;
    int64_t n = b->count, shape[2] = {n, TT_CLASSES};
    vv_tensor *other, *weight, *soft;
    assert_ok(vv_tensor_new(&other, VV_I32, 1, shape));
    assert_ok(vv_tensor_new(&weight, VV_F32, 1, shape));
    assert_ok(vv_tensor_new(&soft, VV_F32, 2, shape));
    for (int64_t i = 0; i < n; i++) {
        double w = 0.1 * (double)(i + 1);
        int64_t mine = (int64_t)vv_tensor_get(b->target, i);
        int64_t theirs = (int64_t)vv_tensor_get(b->target, n - 1 - i);
        vv_tensor_set(other, i, (double)theirs);
        vv_tensor_set(weight, i, w);
        vv_tensor_set(soft, i * TT_CLASSES + mine, 1.0 - w);
        double there = vv_tensor_get(soft, i * TT_CLASSES + theirs);
        vv_tensor_set(soft, i * TT_CLASSES + theirs, there + w);
    }
    if (self->dense) {
        vv_tensor_free(b->target);
        b->target = soft;
        vv_tensor_free(other);
        vv_tensor_free(weight);
    } else {
        b->mix_target = other;
        b->mix_weight = weight;
        vv_tensor_free(soft);
    }
    return VV_OK;
}

static const vv_method_desc mix_desc = {
    .desc = {"method", "mixer", "For a test.", "", "any", tt_no_fields, 0},
    .phase = VV_PHASE_MIX,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .self_size = sizeof(mixer),
    .apply = mix,
};

static tt_weights mixed_run(bool dense, int64_t microbatch, double *loss)
{
    tt_data train;
    tt_data_init(&train, 10, 5, true);
    vv_method *method;
    assert_ok(vv_method_new(&method, &mix_desc, NULL));
    ((mixer *)method->self)->dense = dense;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.2);
    opts.train = train.loader;
    opts.microbatch = microbatch;
    opts.methods = VV_LIST(method);
    opts.max_duration = "3ep";
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    *loss = vv_trainer_state(trainer)->train_loss;
    tt_weights w = tt_weights_of(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    return w;
}

static void test_mixed(void **unused)
{
    (void)unused;
    double dense_loss;
    tt_weights dense = mixed_run(true, 0, &dense_loss);
    for (int64_t micro = 0; micro <= 2; micro += 2) {
        double loss;
        tt_weights mixed = mixed_run(false, micro, &loss);
        assert_near(loss, dense_loss, 1e-6, 1e-5);
        assert_int_equal(mixed.count, dense.count);
        for (size_t i = 0; i < mixed.count; i++)
            assert_near((double)mixed.values[i], (double)dense.values[i], 1e-6, 1e-5);
        free(mixed.values);
    }
    free(dense.values);
}

/* ---- a second pass (SAM) ---- */

static vv_status again(void *ctx, vv_event event, vv_state *state)
{
    int *passes = ctx;
    double loss = -1.0;
    if (event == VV_EVENT_BATCH_END) { /* not the moment */
        assert_fails(vv_state_gradients(state, &loss), VV_ESTATE);
        return VV_OK;
    }
    if (event != VV_EVENT_AFTER_TRAIN_BATCH)
        return VV_OK;
    vv_param *w = vv_module_param(vv_module_find(state->model->net, "0"), "weight");
    vv_tensor *first, *weights;
    assert_ok(vv_tensor_clone(&first, w->grad));
    assert_ok(vv_tensor_clone(&weights, w->value));
    vv_tensor_fill(w->value, 0.25); /* elsewhere the gradient is another one */
    assert_ok(vv_state_gradients(state, NULL));
    assert_memory_not_equal(first->data, w->grad->data, first->bytes);
    assert_ok(vv_tensor_copy(w->value, weights));
    assert_ok(vv_state_gradients(state, &loss)); /* and back here the same bits, dropout and all */
    assert_memory_equal(first->data, w->grad->data, first->bytes);
    assert_true(loss == state->train_loss);
    vv_tensor_free(first);
    vv_tensor_free(weights);
    ++*passes;
    return VV_OK;
}

static tt_weights run_again(vv_model *model, bool twice, int *passes)
{
    tt_data train;
    tt_data_init(&train, 10, 5, true);
    vv_callback *callbacks[] = {tt_listen_with(twice ? again : NULL, passes), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = model;
    opts.train = train.loader;
    opts.microbatch = 3; /* 3 and 2 */
    opts.max_duration = "2ep";
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    tt_weights w = tt_weights_of(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    return w;
}

/* Passes that are taken back leave no trace: running statistics move once per batch. */
static void test_second_pass(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < 2; kind++) {
        int passes = 0;
        tt_weights once = run_again(kind ? bn_model() : tt_mlp(0.3), false, &passes);
        tt_weights twice = run_again(kind ? bn_model() : tt_mlp(0.3), true, &passes);
        assert_int_equal(passes, 4);
        assert_same_bits(&once, &twice);
        free(once.values);
        free(twice.values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_weighting), cmocka_unit_test(test_uneven_split),
        cmocka_unit_test(test_clipping),        cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_learning_rate),   cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_second_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
