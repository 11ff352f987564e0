/* language_world.h - the small world in which methods for text are tested: rows of a language of
 * eight tokens, GPT-2 with two blocks, runs whose weights are compared. */
#ifndef LANGUAGE_WORLD_H
#define LANGUAGE_WORLD_H

#include "method_world.h"

#include <vivace/bert.h>
#include <vivace/gpt.h>
#include <vivace/gpt2.h>

#define LW_TOKENS 16
#define LW_VOCABULARY 8

static inline void lw_open(mw_data *d, int64_t count, int64_t batch)
{
    const vv_sample_spec spec = {.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1,
                                 .target_ndim = 1, .input_shape = {LW_TOKENS},
                                 .target_shape = {LW_TOKENS}, .classes = LW_VOCABULARY,
                                 .tokens = LW_TOKENS};
    const size_t all = (size_t)(count * LW_TOKENS);
    int32_t *x = test_calloc(all, sizeof *x), *y = test_calloc(all, sizeof *y), token = 0;
    vv_rng rng = vv_rng_at(2, "language", 0);
    for (size_t i = 0; i < all; i++) {
        x[i] = token;
        token = vv_rng_uniform(&rng) < 0.8 ? (3 * token + 1) % LW_VOCABULARY
                                           : (int32_t)vv_rng_below(&rng, LW_VOCABULARY);
        y[i] = token;
    }
    assert_ok(vv_dataset_from_arrays(&d->set, &spec, count, x, y));
    test_free(x);
    test_free(y);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = batch;
    opts.workers = 0;
    opts.seed = 3;
    assert_ok(vv_loader_new(&d->eval, d->set, &opts));
    opts.shuffle = true;
    assert_ok(vv_loader_new(&d->train, d->set, &opts));
}

static inline vv_module *lw_net(double dropout)
{
    vv_gpt2_opts opts = VV_GPT2_DEFAULTS;
    vv_module *net;
    opts.d = 8;
    opts.layers = opts.heads = 2;
    opts.context = LW_TOKENS;
    opts.dropout = dropout;
    assert_ok(vv_gpt2_new(&net, LW_VOCABULARY, &opts, 5));
    return net;
}

static inline vv_trainer_opts lw_opts(const mw_data *d, const char *duration)
{
    static const vv_sgd_opts sgd = {.lr = 0.05, .momentum = 0.9};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, lw_net(0), LW_VOCABULARY));
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = d->train;
    opts.max_duration = duration;
    opts.seed = 9;
    return opts;
}

/* ---- a net's outputs ---- */

/* Logits of a net in evaluation for tokens [n,t], into `out`; the graph's status. */
static inline vv_status lw_logits(vv_module *net, const int32_t *tokens, int64_t n, int64_t t,
                                  float *out)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {n, t};
    vv_graph *graph;
    const vv_tensor *value = NULL;
    assert_ok(vv_graph_new(&graph, &opts));
    vv_module_set_training(net, false);
    vv_node *y = vv_module_forward(net, graph, vv_data(graph, VV_I32, 2, shape, tokens));
    vv_status status = vv_graph_status(graph);
    if (status == VV_OK)
        status = vv_node_value(y, &value);
    if (status == VV_OK && out)
        memcpy(out, value->data, value->bytes);
    vv_graph_free(graph);
    return status;
}

/* ---- runs: what the batches of a training were ---- */

typedef struct lw_seen {
    int64_t rows[64], length[64], items[64];
    double loss[64];
    int count;
} lw_seen;
static lw_seen *lw_watched;

static inline vv_status lw_watch(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    if (!lw_watched)
        return VV_OK;
    assert_true(lw_watched->count < 64);
    const int i = lw_watched->count++;
    lw_watched->rows[i] = state->batch->count;
    lw_watched->length[i] = state->batch->input->shape[1];
    lw_watched->items[i] = state->loss_item_count;
    lw_watched->loss[i] = state->train_loss;
    assert_int_equal(state->batch->target->shape[0], state->batch->count);
    assert_int_equal(state->batch->target->shape[1], state->batch->input->shape[1]);
    return VV_OK;
}

/* Trains on 12 rows in batches of 4; save/load: paths, or NULL; stop: batches to stop after. */
static inline mw_weights lw_train(const char *duration, int64_t microbatch, const char *method,
                                  const char *settings, const char *path, int64_t stop,
                                  lw_seen *seen)
{
    static const vv_callback_desc watcher =
        MW_CALLBACK("watcher", VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH), lw_watch);
    static const vv_callback_desc stopper =
        MW_CALLBACK("stopper", VV_EVENT_BIT(VV_EVENT_BATCH_END), mw_interrupt);
    mw_data d;
    vv_trainer *trainer;
    mw_weights w = {.count = 0};
    lw_open(&d, 12, 4);
    vv_trainer_opts opts = lw_opts(&d, duration);
    vv_method *m = method ? mw_method(method, settings) : NULL;
    vv_callback *callbacks[3] = {mw_callback(&watcher), stop ? mw_callback(&stopper) : NULL, NULL};
    lw_watched = seen;
    opts.methods = (vv_method_list){&m, m ? 1 : 0};
    opts.callbacks = callbacks;
    opts.microbatch = microbatch;
    opts.load_path = path && path[0] && stop >= 0 && access(path, R_OK) == 0 ? path : NULL;
    assert_ok(vv_trainer_new(&trainer, &opts));
    const vv_status status = vv_trainer_fit(trainer);
    if (status == VV_OK) {
        /* of the last block and the head's table only: there is room for so many */
        vv_module *net = vv_trainer_state(trainer)->model->net;
        w = mw_of(vv_module_find(net, "transformer.h.1") ? vv_module_find(net, "transformer.h.1")
                                                         : net);
    } else {
        assert_int_equal(status, VV_EINTERRUPTED);
        assert_ok(vv_trainer_save(trainer, path));
    }
    vv_trainer_free(trainer);
    mw_close(&d);
    lw_watched = NULL;
    return w;
}

static inline mw_weights lw_run(const char *duration, int64_t microbatch, const char *method,
                                const char *settings, lw_seen *seen)
{
    return lw_train(duration, microbatch, method, settings, NULL, 0, seen);
}

/* In sittings of one batch each. */
static inline mw_weights lw_run_resumed(const char *duration, const char *method,
                                        const char *settings)
{
    char path[256];
    mw_weights w = {.count = 0};
    mw_path(path);
    unlink(path);
    for (int i = 0; w.count == 0; i++) {
        assert_true(i < 60);
        w = lw_train(duration, 0, method, settings, path, 1, NULL);
    }
    unlink(path);
    return w;
}

/* Neither microbatches nor interruptions change what a method does; without it the run differs. */
static inline void lw_guarantees(const char *duration, const char *method, const char *settings)
{
    const mw_weights whole = lw_run(duration, 0, method, settings, NULL);
    const mw_weights micro = lw_run(duration, 3, method, settings, NULL);
    const mw_weights parts = lw_run_resumed(duration, method, settings);
    const mw_weights plain = lw_run(duration, 0, NULL, NULL, NULL);
    assert_true(mw_difference(&whole, &micro) < 1e-5);
    assert_true(mw_equal(&whole, &parts));
    assert_false(mw_equal(&whole, &plain));
}

static inline void lw_same_defaults(const vv_method_desc *type, const void *defaults)
{
    vv_str ours = {0}, table = {0};
    vv_method *method;
    assert_ok(vv_method_new(&method, type, NULL));
    vv_opts_to_json(&type->desc, method->opts, &table);
    vv_opts_to_json(&type->desc, defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
}

/* What vv_trainer_new makes of a method on the usual net. */
static inline vv_status lw_try(const char *method, const char *settings, const char *duration)
{
    mw_data d;
    vv_trainer *trainer;
    lw_open(&d, 12, 4);
    vv_trainer_opts opts = lw_opts(&d, duration);
    vv_method *m = mw_method(method, settings);
    opts.methods = (vv_method_list){&m, 1};
    vv_error_clear();
    const vv_status status = vv_trainer_new(&trainer, &opts);
    vv_trainer_free(trainer);
    mw_close(&d);
    return status;
}

#endif
