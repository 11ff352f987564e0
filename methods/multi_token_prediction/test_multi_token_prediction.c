/* test_multi_token_prediction.c - what must hold: targets move by whole places within their row;
 * weights fall in a line, the farthest first; the loss is the sum of the weighted cross-entropies;
 * with the weights at 0 training is bit-equal to training without; runs depend on neither
 * microbatches nor interruptions. */
#include "language_world.h"

#include "multi_token_prediction.h"

static void targets(void **unused)
{
    (void)unused;
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {2, 4};
    static const int32_t y[] = {1, 2, 3, 4, 5, -100, 7, 8};
    static const int32_t one[] = {2, 3, 4, -100, -100, 7, 8, -100};
    static const int32_t three[] = {4, -100, -100, -100, 8, -100, -100, -100};
    const vv_tensor *value;
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &graph_opts));
    vv_node *target = vv_data(graph, VV_I32, 2, shape, y);
    assert_ok(vv_node_value(vv_targets_ahead(target, 1, -100), &value));
    assert_memory_equal(value->data, one, sizeof one);
    assert_ok(vv_node_value(vv_targets_ahead(target, 3, -100), &value));
    assert_memory_equal(value->data, three, sizeof three);
    assert_ok(vv_node_value(vv_targets_ahead(target, 9, -100), &value));
    for (int i = 0; i < 8; i++)
        assert_int_equal(((const int32_t *)value->data)[i], -100);
    assert_null(vv_targets_ahead(vv_scalar(graph, 1), 1, -100));
    assert_says("[N,T]");
    vv_graph_free(graph);
}

static void weights(void **unused)
{
    (void)unused;
    double w[VV_TOKENS_AHEAD];
    int count;
    assert_ok(vv_ahead_weights(w, &count, "[0.5, 0.25]"));
    assert_int_equal(count, 2);
    assert_near(w[1], 0.25, 0, 0);
    assert_fails(vv_ahead_weights(w, &count, ""), VV_EINVAL);
    assert_fails(vv_ahead_weights(w, &count, "0.5,x"), VV_EINVAL);
    assert_fails(vv_ahead_weights(w, &count, "-1"), VV_EINVAL);
    assert_near(vv_ahead_weight(0.5, 0, 2, 0.6, 0), 0.5, 0, 0);
    assert_near(vv_ahead_weight(0.5, 0, 2, 0.6, 0.3), 0.25, 1e-15, 0);
    assert_near(vv_ahead_weight(0.25, 1, 2, 0.6, 0.15), 0.125, 1e-15, 0);
    assert_near(vv_ahead_weight(0.25, 1, 2, 0.6, 0.3), 0, 0, 0);
    assert_near(vv_ahead_weight(0.5, 0, 2, 0.6, 0.7), 0, 0, 0);
    assert_near(vv_ahead_weight(0.5, 0, 2, 0, 0), 0, 0, 0);
}

/* The first batch's loss, beside the cross-entropies written out. */
static void objective(void **unused)
{
    (void)unused;
    enum { N = 4, T = LW_TOKENS, V = LW_VOCABULARY };
    mw_data d;
    lw_seen seen = {.count = 0}, plain = {.count = 0};
    vv_batch *batch;
    float logits[N * T * V];
    double sum[3] = {0};
    lw_run("1ba", 0, "multi_token_prediction", "weights=[0.5,0.25],end=1", &seen);
    lw_run("1ba", 0, NULL, NULL, &plain);
    lw_open(&d, 12, 4);
    assert_ok(vv_loader_next(d.train, &batch));
    vv_module *net = lw_net(0);
    assert_ok(lw_logits(net, batch->input->data, N, T, logits));
    const int32_t *y = batch->target->data;
    for (int n = 0; n < N; n++)
        for (int t = 0; t < T; t++) {
            const float *row = logits + (n * T + t) * V;
            double z = 0;
            for (int v = 0; v < V; v++)
                z += exp((double)row[v]);
            for (int k = 0; k < 3 && t + k < T; k++)
                sum[k] += log(z) - (double)row[y[n * T + t + k]];
        }
    assert_near(plain.loss[0], sum[0] / (N * T), 1e-5, 1e-5);
    assert_near(seen.loss[0], (sum[0] + 0.5 * sum[1] + 0.25 * sum[2]) / (N * T), 1e-5, 1e-5);
    vv_module_free(net);
    vv_batch_free(batch);
    mw_close(&d);
}

static void training(void **unused)
{
    (void)unused;
    const mw_weights off = lw_run("4ba", 0, "multi_token_prediction", "end=0", NULL);
    const mw_weights plain = lw_run("4ba", 0, NULL, NULL, NULL);
    vv_method *method;
    assert_true(mw_equal(&off, &plain));
    lw_guarantees("6ba", "multi_token_prediction", NULL);
    assert_fails(vv_method_make(&method, "multi_token_prediction", "weights=a"), VV_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(targets), cmocka_unit_test(weights),
                                       cmocka_unit_test(objective), cmocka_unit_test(training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
