/* test_sam.c - what must hold: the step of a quadratic follows its closed form; weights come back
 * to the bit, also after failures; rho 0 is the plain optimizer; running statistics move once;
 * neither microbatches nor resuming change anything; an interval saves its passes; methods before
 * it act on both gradients; the plain function and the method give the same numbers. */
#include "method_world.h"

#include "sam.h"

static void set_grad(vv_param *param, double add, const float *data, double pull)
{
    /* gradient of 0.5 |w - y|^2 = w - y */
    float *g = param->grad->data;
    const float *w = param->value->data;
    for (int64_t i = 0; i < param->value->count; i++)
        g[i] = (float)(add + (double)w[i] - pull * (double)data[i]);
}

/* f = 0.5 |w|^2, w = (3,4), rho 0.5, lr 0.1. */
static void quadratic(void **unused)
{
    (void)unused;
    static const float start[] = {3, 4}, zero[] = {0, 0};
    const vv_sgd_opts sgd = {.lr = 0.1};
    vv_module *net = mw_bare(start, 2);
    vv_param *w = vv_module_param(net, "weight");
    vv_optimizer *optimizer;
    vv_sam_step *step;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), &sgd, net));
    assert_ok(vv_grads_ensure(net));
    set_grad(w, 0, zero, 0);
    assert_ok(vv_sam_perturb(&step, net, 0.5, 1e-12));
    assert_non_null(step);
    assert_near(vv_tensor_get(w->value, 0), 3.3, 1e-6, 0);
    assert_near(vv_tensor_get(w->value, 1), 4.4, 1e-6, 0);
    set_grad(w, 0, zero, 0);
    vv_sam_restore(step);
    assert_memory_equal(w->value->data, start, sizeof start);
    assert_ok(vv_optimizer_step(optimizer));
    assert_near(vv_tensor_get(w->value, 0), 2.67, 1e-6, 0);
    assert_near(vv_tensor_get(w->value, 1), 3.56, 1e-6, 0);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

/* Loss 0.5 |w - y|^2 summed over two samples, w = (4,5), y = (0,0), (2,4), mean gradient. */
static void two_samples(void **unused)
{
    (void)unused;
    static const float start[] = {4, 5}, mean[] = {1, 2};
    const vv_sgd_opts sgd = {.lr = 0.1};
    vv_module *net = mw_bare(start, 2);
    vv_param *w = vv_module_param(net, "weight");
    vv_optimizer *optimizer;
    vv_sam_step *step;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), &sgd, net));
    assert_ok(vv_grads_ensure(net));
    set_grad(w, 0, mean, 1);
    assert_ok(vv_sam_perturb(&step, net, 1.0, 1e-12));
    set_grad(w, 0, mean, 1);
    vv_sam_restore(step);
    assert_ok(vv_optimizer_step(optimizer));
    assert_near(vv_tensor_get(w->value, 0), 3.629289, 1e-6, 0);
    assert_near(vv_tensor_get(w->value, 1), 4.629289, 1e-6, 0);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

static void nothing_to_climb(void **unused)
{
    (void)unused;
    static const float start[] = {3, 4};
    static const double grads[][2] = {{0, 0}, {(double)INFINITY, 0}, {(double)NAN, 1}};
    vv_module *net = mw_bare(start, 2);
    vv_param *w = vv_module_param(net, "weight");
    vv_sam_step *step;
    assert_ok(vv_grads_ensure(net));
    for (size_t i = 0; i < sizeof grads / sizeof *grads; i++) {
        for (int k = 0; k < 2; k++)
            vv_tensor_set(w->grad, k, grads[i][k]);
        assert_ok(vv_sam_perturb(&step, net, 0.5, 0.0));
        assert_null(step);
        assert_memory_equal(w->value->data, start, sizeof start);
    }
    vv_tensor_fill(w->grad, 1);
    w->frozen = true; /* a frozen weight stays where it is */
    assert_ok(vv_sam_perturb(&step, net, 0.5, 1e-12));
    vv_sam_restore(step);
    assert_memory_equal(w->value->data, start, sizeof start);
    vv_module_free(net);
}

/* ---- through the Trainer ---- */

static void equal_runs(void **unused)
{
    (void)unused;
    const mw_weights plain = mw_run(true, "4ba", 0, NULL, NULL);
    const mw_weights off = mw_run(true, "4ba", 0, "sam", "rho=0");
    const mw_weights on = mw_run(true, "4ba", 0, "sam", "rho=0.5");
    const mw_weights never = mw_run(true, "4ba", 0, "sam", "rho=0.5,interval=5");
    const mw_weights late = mw_run(true, "4ba", 0, "sam", "rho=0.5,interval=4");
    assert_true(mw_equal(&plain, &off));
    assert_true(mw_equal(&plain, &never));
    assert_true(mw_difference(&plain, &on) > 1e-4);
    assert_true(mw_difference(&plain, &late) > 1e-5);

    const mw_weights whole = mw_run(false, "4ba", 0, "sam", "rho=0.5");
    const mw_weights ones = mw_run(false, "4ba", 1, "sam", "rho=0.5");
    const mw_weights fours = mw_run(false, "4ba", 4, "sam", "rho=0.5");
    assert_near(mw_difference(&whole, &ones), 0, 1e-5, 0);
    assert_near(mw_difference(&whole, &fours), 0, 1e-5, 0);

    for (int interval = 1; interval <= 2; interval++) {
        const char *settings = interval == 1 ? "rho=0.5" : "rho=0.5,interval=2";
        const mw_weights run = mw_run(true, "4ba", 0, "sam", settings);
        const mw_weights parts = mw_run_resumed(true, "4ba", "sam", settings);
        assert_true(mw_equal(&run, &parts));
    }
}

/* A batch's statistics enter the running ones once: after one step they are those of a plain
   step. */
static void running_statistics(void **unused)
{
    (void)unused;
    mw_data d;
    vv_trainer *trainer[2];
    mw_open(&d, 12, 6);
    for (int i = 0; i < 2; i++) {
        vv_trainer_opts opts = mw_opts(&d, true, "1ba");
        vv_method *method = mw_method("sam", "rho=0.5");
        opts.methods = (vv_method_list){&method, i};
        if (i == 0)
            vv_method_free(method);
        assert_ok(vv_trainer_new(&trainer[i], &opts));
        assert_ok(vv_trainer_fit(trainer[i]));
    }
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "running_var" : "running_mean";
        const vv_tensor *a = vv_module_buffer(
            vv_module_child(vv_trainer_state(trainer[0])->model->net, 1), name);
        const vv_tensor *b = vv_module_buffer(
            vv_module_child(vv_trainer_state(trainer[1])->model->net, 1), name);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    assert_true(vv_trainer_state(trainer[0])->train_loss ==
                vv_trainer_state(trainer[1])->train_loss);
    vv_trainer_free(trainer[0]);
    vv_trainer_free(trainer[1]);
    mw_close(&d);
}

static int64_t passes(const char *settings)
{
    mw_data d;
    vv_trainer *trainer;
    vv_graph_stats stats;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "4ba");
    vv_method *method = settings ? mw_method("sam", settings) : NULL;
    opts.methods = (vv_method_list){&method, settings ? 1 : 0};
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_graph_get_stats(vv_trainer_graph(trainer), &stats);
    vv_trainer_free(trainer);
    mw_close(&d);
    return stats.run_count;
}

static void cost(void **unused)
{
    (void)unused;
    assert_int_equal(passes(NULL), 4);
    assert_int_equal(passes("interval=1"), 8);
    assert_int_equal(passes("interval=2"), 6);
    assert_int_equal(passes("rho=0"), 4);
}

/* What the method does in a loop of one's own. */
static void plain_function(void **unused)
{
    (void)unused;
    mw_data d;
    mw_open(&d, 12, 6);
    const mw_weights theirs = mw_run(false, "1ba", 0, "sam", "rho=0.5");
    vv_model *model;
    vv_graph *graph;
    vv_optimizer *optimizer;
    vv_batch *batch;
    vv_sam_step *step = NULL;
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const vv_sgd_opts sgd = {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
    vv_param *params[16];
    vv_node *nodes[33];
    int count = 0;
    assert_ok(vv_classifier_new(&model, mw_net(false), MW_CLASSES));
    assert_ok(vv_graph_new(&graph, &graph_opts));
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), &sgd, model->net));
    assert_ok(vv_grads_ensure(model->net));
    assert_ok(vv_loader_seek(d.train, 0, 0));
    assert_ok(vv_loader_next(d.train, &batch));
    for (int layer = 0; layer < vv_module_child_count(model->net); layer++)
        for (int k = 0; k < 2; k++) {
            const vv_module *child = vv_module_child(model->net, layer);
            vv_param *p = vv_module_param(child, k ? "bias" : "weight");
            if (p)
                params[count++] = p;
        }
    for (int pass = 0; pass < 2; pass++) {
        vv_graph_reset(graph);
        vv_node *items = vv_model_loss(
            model, vv_module_forward(model->net, graph, vv_leaf(graph, batch->input)),
            vv_leaf(graph, batch->target));
        nodes[0] = vv_div(vv_sum_all(items), vv_scalar(graph, (double)batch->count));
        for (int i = 0; i < count; i++)
            nodes[1 + count + i] = vv_leaf(graph, params[i]->value);
        assert_ok(vv_grad(graph, nodes[0], nodes + 1 + count, count, nodes + 1));
        for (int i = 0; i < count; i++)
            assert_ok(vv_bind_output(nodes[1 + i], params[i]->grad, VV_BIND_WRITE));
        assert_ok(vv_eval(graph, nodes, 1 + count));
        if (pass == 0)
            assert_ok(vv_sam_perturb(&step, model->net, 0.5, 1e-12));
    }
    vv_sam_restore(step);
    assert_ok(vv_optimizer_step(optimizer));
    const mw_weights ours = mw_of(model->net);
    assert_near(mw_difference(&ours, &theirs), 0, 1e-7, 0);
    vv_graph_free(graph);
    vv_batch_free(batch);
    vv_optimizer_free(optimizer);
    vv_model_free(model);
    mw_close(&d);
}

/* ---- what may go wrong in the second pass ---- */

static int forwards;
static vv_status fail_second(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    (void)state;
    return ++forwards == 2 ? vv_fail(VV_EIO, "the test's second pass breaks") : VV_OK;
}
static vv_status spoil_second(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    if (++forwards == 2)
        vv_tensor_fill(vv_module_param(vv_module_child(state->model->net, 0), "weight")->grad,
                       (double)INFINITY);
    return VV_OK;
}

static void failures(void **unused)
{
    (void)unused;
    static const vv_callback_desc descs[] = {
        MW_CALLBACK("failer", VV_EVENT_BIT(VV_EVENT_BEFORE_FORWARD), fail_second),
        MW_CALLBACK("spoiler", VV_EVENT_BIT(VV_EVENT_AFTER_BACKWARD), spoil_second),
    };
    for (int i = 0; i < 2; i++) {
        mw_data d;
        vv_trainer *trainer;
        mw_open(&d, 12, 6);
        vv_trainer_opts opts = mw_opts(&d, false, "1ba");
        vv_callback *callbacks[2] = {mw_callback(&descs[i]), NULL};
        opts.methods = VV_LIST(vv_sam(0.5, 1));
        opts.callbacks = callbacks;
        opts.no_default_callbacks = true; /* one case is not finite on purpose */
        forwards = 0;
        assert_ok(vv_trainer_new(&trainer, &opts));
        const mw_weights before = mw_of_trainer(trainer);
        if (i == 0)
            assert_fails(vv_trainer_fit(trainer), VV_EIO);
        else
            assert_ok(vv_trainer_fit(trainer)); /* the step is left out */
        assert_int_equal(forwards, 2);
        const mw_weights after = mw_of_trainer(trainer);
        assert_true(mw_equal(&before, &after));
        vv_trainer_free(trainer);
        mw_close(&d);
    }
}

/* ---- order among methods on gradients ---- */

typedef struct gradient_opts {
    char unused;
} gradient_opts;
static int told[2];
static vv_status clip_values(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    (void)state;
    told[strcmp(method->type->desc.name, "later") == 0]++;
    return VV_OK;
}
static vv_status no_plan(vv_method *method, const vv_state *state, vv_str *line)
{
    (void)method;
    (void)state;
    return vv_str_status(line);
}
#define GRADIENT_METHOD(name_, phase_)                                                             \
    {                                                                                              \
        .desc = {"method", name_, "Counts.", "", "any", mw_no_fields, sizeof(gradient_opts)},      \
        .phase = phase_, .events = VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH), .apply = clip_values, \
        .plan = no_plan,                                                                           \
    }

static void both_gradients(void **unused)
{
    (void)unused;
    static const vv_method_desc clipping = GRADIENT_METHOD("gradient_clipping", VV_PHASE_GRADIENT);
    static const vv_method_desc later = GRADIENT_METHOD("later", VV_PHASE_WEIGHTS);
    mw_data d;
    vv_trainer *trainer;
    vv_method *methods[3] = {vv_sam(0.5, 2), NULL, NULL};
    mw_open(&d, 12, 6);
    assert_ok(vv_method_new(&methods[1], &clipping, NULL));
    assert_ok(vv_method_new(&methods[2], &later, NULL));
    vv_trainer_opts opts = mw_opts(&d, false, "4ba");
    opts.methods = (vv_method_list){methods, 3};
    told[0] = told[1] = 0;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    assert_int_equal(told[0], 4 + 2);
    assert_int_equal(told[1], 4);
    vv_trainer_free(trainer);
    mw_close(&d);
}

static vv_status stop_at_two(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    state->stop = state->time.batch == 2;
    return VV_OK;
}

/* From a learning rate of 0 weights move by step 2. */
static void warmup(void **unused)
{
    (void)unused;
    static const vv_callback_desc stopper =
        MW_CALLBACK("stopper", VV_EVENT_BIT(VV_EVENT_BATCH_END), stop_at_two);
    mw_data d;
    vv_trainer *trainer;
    vv_callback *callbacks[2] = {mw_callback(&stopper), NULL};
    vv_schedule *schedules[2] = {NULL, NULL};
    vv_schedule_settings settings;
    const vv_schedule_desc *desc = vv_schedule_find("constant_with_warmup");
    mw_open(&d, 12, 6);
    assert_ok(vv_opts_init(&desc->desc, &settings));
    assert_ok(vv_opts_set(&desc->desc, &settings, "t_warmup", "3ba"));
    assert_ok(vv_schedule_new(&schedules[0], desc, &settings));
    vv_opts_fini(&desc->desc, &settings);
    vv_trainer_opts opts = mw_opts(&d, false, "8ba");
    opts.methods = VV_LIST(vv_sam(0.05, 1));
    opts.schedules = schedules;
    opts.callbacks = callbacks;
    assert_ok(vv_trainer_new(&trainer, &opts));
    const mw_weights before = mw_of_trainer(trainer);
    assert_ok(vv_trainer_fit(trainer));
    const mw_weights after = mw_of_trainer(trainer);
    assert_true(mw_difference(&before, &after) > 1e-5);
    vv_trainer_free(trainer);
    mw_close(&d);
}

static void settings(void **unused)
{
    (void)unused;
    assert_null(vv_sam(-0.1, 1));
    assert_says("rho");
    assert_null(vv_sam(0.1, 0));
    assert_says("interval");
    vv_method *method = vv_sam(0.1, 10);
    assert_non_null(method);
    vv_method_free(method);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quadratic),      cmocka_unit_test(two_samples),
        cmocka_unit_test(nothing_to_climb), cmocka_unit_test(equal_runs),
        cmocka_unit_test(running_statistics), cmocka_unit_test(cost),
        cmocka_unit_test(plain_function), cmocka_unit_test(failures),
        cmocka_unit_test(both_gradients), cmocka_unit_test(warmup),
        cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
