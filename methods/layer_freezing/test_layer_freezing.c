/* test_layer_freezing.c - what must hold: shares and depths follow the formula; what is frozen
 * keeps its bits, running statistics too, and the rest learns; a step's plan has no instruction for
 * the gradients of frozen layers; momentum and decay do nothing to a frozen weight, and thawing
 * brings training back; a run resumes bit-equal, with its depth. */
#include "method_world.h"

#include "layer_freezing.h"

/* n linear layers, one after the other. */
static vv_module *chain(int n)
{
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    for (int i = 0; i < n; i++) {
        const vv_status made = vv_linear_new(&layer, 2, 2, true);
        mw_push(net, made, layer);
    }
    return net;
}

static int frozen_layers(vv_module *net)
{
    int count = 0;
    for (int i = 0; i < vv_module_child_count(net); i++) {
        const vv_param *weight = vv_module_param(vv_module_child(net, i), "weight");
        count += weight && weight->frozen;
    }
    return count;
}

static void formula(void **unused)
{
    (void)unused;
    int depth;
    assert_near(vv_layer_freezing_share(0.75, 0.5, 1.0), 0.5, 1e-12, 0);
    assert_near(vv_layer_freezing_share(0.8, 0.05, 1.0), 0.789473684, 1e-9, 0);
    assert_true(vv_layer_freezing_share(0.5, 0.5, 1.0) == 0.0);
    assert_true(vv_layer_freezing_share(1.0, 1.0, 1.0) == 0.0);

    vv_module *ten = chain(10), *four = chain(4), *none;
    assert_near(vv_freeze_layers(ten, 0.4, 0.5, 1.0, &depth), 0, 0, 0);
    assert_int_equal(depth, 0);
    assert_int_equal(frozen_layers(ten), 0);
    vv_freeze_layers(ten, 0.75, 0.5, 1.0, &depth);
    assert_int_equal(depth, 4);
    assert_int_equal(frozen_layers(ten), 4);
    vv_freeze_layers(ten, 0.1, 0.5, 1.0, NULL); /* never thaws */
    assert_int_equal(frozen_layers(ten), 4);
    vv_freeze_layers(ten, 1.0, 0.5, 1.0, &depth); /* the last never freezes */
    assert_int_equal(depth, 9);
    assert_int_equal(frozen_layers(ten), 9);
    vv_freeze_layers(four, 0.8, 0.05, 1.0, &depth);
    assert_int_equal(depth, 2);
    assert_int_equal(frozen_layers(four), 2);
    assert_ok(vv_identity_new(&none));
    vv_freeze_layers(none, 1.0, 0.0, 1.0, &depth);
    assert_int_equal(depth, 0);
    vv_module_free(ten);
    vv_module_free(four);
    vv_module_free(none);
}

/* w = 1 with a velocity, momentum 0.9, decay 0.1, lr 0.1: frozen for 100 steps it stays 1. */
static void optimizer(void **unused)
{
    (void)unused;
    static const float start[] = {1};
    const vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1};
    vv_module *net = mw_bare(start, 1);
    vv_param *w = vv_module_param(net, "weight");
    vv_optimizer *opt;
    assert_ok(vv_optimizer_new(&opt, vv_optimizer_find("sgd"), &sgd, net));
    assert_ok(vv_grads_ensure(net));
    vv_tensor_fill(w->grad, 0.9);
    assert_ok(vv_optimizer_step(opt));
    vv_tensor_fill(w->value, 1);
    vv_module_set_frozen(net, true);
    for (int i = 0; i < 100; i++)
        assert_ok(vv_optimizer_step(opt));
    assert_memory_equal(w->value->data, start, sizeof start);
    vv_module_set_frozen(net, false);
    assert_ok(vv_optimizer_step(opt));
    assert_near(vv_tensor_get(w->value, 0), 1 - 0.1 * (0.9 * 1.0 + 1.0), 1e-6, 0);
    vv_optimizer_free(opt);
    vv_module_free(net);
}

/* ---- in a run ---- */

static int count(const char *text, const char *word)
{
    int found = 0;
    while ((text = strstr(text, word))) {
        found++;
        text += strlen(word);
    }
    return found;
}

typedef struct counts {
    int weight_gradients, data_gradients, norm_gradients, layers;
    int64_t flops;
    mw_weights weights;
} counts;
static counts seen[8];

static vv_status look(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    vv_str text = {0};
    vv_graph_stats stats;
    counts *c = &seen[state->time.batch];
    vv_graph_describe_plan(state->graph, &text);
    vv_graph_get_stats(state->graph, &stats);
    *c = (counts){count(vv_str_text(&text), "[conv2d_grad_weight "),
                  count(vv_str_text(&text), "[conv2d_grad_data "),
                  count(vv_str_text(&text), "[batch_norm_grad "),
                  frozen_layers(state->model->net), stats.flops, mw_of(state->model->net)};
    vv_str_fini(&text);
    return VV_OK;
}

/* Layers of the net: conv, batch norm, conv, linear. Of 5 batches number b sees t = b / 5:
   nothing, 1 (0.2 * 5 = 1 of 3), then 2 and 3. */
static void instructions(void **unused)
{
    (void)unused;
    static const vv_callback_desc looker =
        MW_CALLBACK("looker", VV_EVENT_BIT(VV_EVENT_AFTER_BACKWARD), look);
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 30, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "5ba");
    vv_callback *callbacks[2] = {mw_callback(&looker), NULL};
    opts.methods = VV_LIST(vv_layer_freezing(0.0, 1.0));
    opts.callbacks = callbacks;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    const counts end = {.weights = mw_of_trainer(trainer)};
    static const int layers[] = {0, 0, 1, 1, 2};
    for (int b = 0; b < 5; b++)
        assert_int_equal(seen[b].layers, layers[b]);
    assert_int_equal(seen[0].weight_gradients, 2);
    assert_int_equal(seen[0].data_gradients, 1);
    assert_int_equal(seen[0].norm_gradients, 1);
    assert_int_equal(seen[2].weight_gradients, 1); /* the first convolution's is gone */
    assert_int_equal(seen[2].norm_gradients, 1);   /* its batch norm still learns */
    assert_int_equal(seen[4].weight_gradients, 1);
    assert_int_equal(seen[4].data_gradients, 0);   /* nothing flows below the second */
    assert_int_equal(seen[4].norm_gradients, 0);
    assert_true(seen[2].flops < seen[0].flops && seen[4].flops < seen[2].flops);
    /* The first convolution's 108 weights stay from batch 2 on, the batch norm's 4 * 4 numbers
       from batch 4 on; the last layer learns. */
    assert_memory_equal(seen[2].weights.values, end.weights.values, 108 * sizeof(float));
    assert_true(memcmp(seen[2].weights.values + 108, end.weights.values + 108,
                       16 * sizeof(float)) != 0);
    assert_memory_equal(seen[4].weights.values + 108, end.weights.values + 108,
                        16 * sizeof(float));
    assert_true(memcmp(seen[4].weights.values + end.weights.count - 3,
                       end.weights.values + end.weights.count - 3, 3 * sizeof(float)) != 0);
    vv_trainer_free(trainer);
    mw_close(&d);
}

static void runs(void **unused)
{
    (void)unused;
    const mw_weights plain = mw_run(true, "4ba", 0, NULL, NULL);
    const mw_weights never = mw_run(true, "4ba", 0, "layer_freezing", "freeze_level=0");
    const mw_weights whole = mw_run(true, "4ba", 0, "layer_freezing", "freeze_start=0.2");
    const mw_weights parts = mw_run_resumed(true, "4ba", "layer_freezing", "freeze_start=0.2");
    assert_true(mw_equal(&plain, &never));
    assert_true(mw_equal(&whole, &parts));
    assert_true(mw_difference(&plain, &whole) > 1e-4);
    /* Two epochs of two batches: at epochs t is 0 and 0.5; batches see 0.75 too. */
    const mw_weights coarse =
        mw_run(true, "4ba", 0, "layer_freezing", "freeze_start=0.6,by_epoch=true");
    const mw_weights fine = mw_run(true, "4ba", 0, "layer_freezing", "freeze_start=0.6");
    assert_true(mw_equal(&coarse, &plain));
    assert_false(mw_equal(&fine, &plain));
}

/* The depth, and what is frozen, come back from a file. */
static void saved_depth(void **unused)
{
    (void)unused;
    mw_data d;
    vv_trainer *trainer;
    char path[256];
    mw_path(path);
    mw_open(&d, 12, 6);
    for (int i = 0; i < 2; i++) {
        vv_trainer_opts opts = mw_opts(&d, true, i ? "8ba" : "4ba");
        opts.methods = VV_LIST(vv_layer_freezing(0.0, 1.0));
        opts.load_path = i ? path : NULL;
        assert_ok(vv_trainer_new(&trainer, &opts));
        const vv_state *state = vv_trainer_state(trainer);
        if (i == 0) {
            assert_ok(vv_trainer_fit(trainer));
            assert_ok(vv_trainer_save(trainer, path));
        }
        assert_true(vv_module_param(vv_module_child(state->model->net, 0), "weight")->frozen);
        assert_true(vv_module_param(vv_module_child(state->model->net, 1), "weight")->frozen);
        assert_false(vv_module_param(vv_module_child(state->model->net, 6), "weight")->frozen);
        assert_int_equal(*(const int64_t *)state->methods[0]->self, 2);
        vv_trainer_free(trainer);
    }
    unlink(path);
    mw_close(&d);
}

static void settings(void **unused)
{
    (void)unused;
    assert_null(vv_layer_freezing(-0.1, 1));
    assert_says("freeze_start");
    assert_null(vv_layer_freezing(0.5, 1.5));
    assert_says("freeze_level");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formula), cmocka_unit_test(optimizer),   cmocka_unit_test(instructions),
        cmocka_unit_test(runs),    cmocka_unit_test(saved_depth), cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
