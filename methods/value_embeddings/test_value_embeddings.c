/* test_value_embeddings.c - what must hold: values become l0 v + l1 table[token], with l1 = 0 the
 * model is what it was; the first and last layers share a table; the head stays tied; the optimizer
 * is kept in step; twice is once; models of other kinds of attention take it; runs depend on
 * neither microbatches nor interruptions. */
#include "language_world.h"

#include "value_embeddings.h"

#define LOGITS (LW_TOKENS * LW_VOCABULARY)
static const int32_t tokens[LW_TOKENS] = {0, 1, 4, 5, 0, 2, 7, 6, 3, 2, 7, 6, 1, 4, 5, 0};
static const char *const layers[] = {"transformer.h.0.attn.core", "transformer.h.1.attn.core"};

static vv_param *lambdas(vv_module *net, int i)
{
    return vv_module_param(vv_module_find(net, layers[i]), "lambdas");
}

static void surgery(void **unused)
{
    (void)unused;
    float before[LOGITS], after[LOGITS];
    vv_module *net = lw_net(0);
    vv_optimizer *optimizer;
    int count;
    const vv_param *words = vv_module_param(vv_module_find(net, "transformer.wte"), "weight");
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    const int held = vv_optimizer_param_count(optimizer);
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, before));
    assert_ok(vv_apply_value_embeddings(net, NULL, 3, optimizer, &count));
    assert_int_equal(count, 2);
    assert_ok(vv_optimizer_check(optimizer, net));
    assert_int_equal(vv_optimizer_param_count(optimizer), held + 3); /* one table, two pairs */
    assert_ptr_equal(vv_module_param(vv_module_find(net, "transformer.wte"), "weight"), words);
    assert_ptr_equal(vv_module_param(vv_module_find(net, "lm_head"), "weight"), words);
    assert_ptr_equal(vv_module_child(vv_module_find(net, layers[0]), 1),
                     vv_module_child(vv_module_find(net, layers[1]), 1));
    assert_int_equal(vv_module_count(net, &vv_attention_class), 2);
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, after));
    assert_memory_not_equal(before, after, sizeof before);
    for (int i = 0; i < 2; i++) {
        assert_near(vv_tensor_get(lambdas(net, i)->value, 1), 0.5, 0, 0);
        vv_tensor_set(lambdas(net, i)->value, 0, 1);
        vv_tensor_set(lambdas(net, i)->value, 1, 0);
    }
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, after));
    for (int i = 0; i < LOGITS; i++)
        assert_near((double)before[i], (double)after[i], 1e-6, 1e-5);
    assert_ok(vv_apply_value_embeddings(net, NULL, 3, optimizer, &count));
    assert_int_equal(count, 0);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
    assert_fails(vv_apply_value_embeddings(NULL, NULL, 3, NULL, NULL), VV_EINVAL);
    net = mw_net(true); /* no language */
    assert_ok(vv_apply_value_embeddings(net, NULL, 3, NULL, &count));
    assert_int_equal(count, 0);
    vv_module_free(net);
}

/* A table all of whose rows are alike, taken whole: with l0 = 0 attention gives back that row,
   whatever it looks at. */
static void formula(void **unused)
{
    (void)unused;
    enum { D = 8 };
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {1, LW_TOKENS}, packed[] = {1, LW_TOKENS, 3 * D};
    vv_module *net = lw_net(0);
    vv_graph *graph;
    const vv_tensor *value;
    float x[LW_TOKENS * 3 * D];
    vv_rng rng = vv_rng_at(5, "packed", 0);
    assert_ok(vv_apply_value_embeddings(net, NULL, 3, NULL, NULL));
    vv_module *layer = vv_module_find(net, layers[0]);
    vv_tensor *table = vv_module_param(vv_module_child(layer, 1), "weight")->value;
    for (int64_t i = 0; i < table->count; i++)
        vv_tensor_set(table, i, (double)(i % D) - 2.5);
    vv_tensor_set(lambdas(net, 0)->value, 0, 0);
    vv_tensor_set(lambdas(net, 0)->value, 1, 2);
    for (int i = 0; i < LW_TOKENS * 3 * D; i++)
        x[i] = (float)vv_rng_normal(&rng);
    assert_ok(vv_graph_new(&graph, &graph_opts));
    vv_module_set_training(net, false);
    vv_module_forward(vv_module_find(net, "transformer.wte"), graph,
                      vv_data(graph, VV_I32, 2, shape, tokens));
    vv_node *y = vv_module_forward(layer, graph, vv_data(graph, VV_F32, 3, packed, x));
    assert_ok(vv_node_value(y, &value));
    assert_int_equal(value->count, LW_TOKENS * D);
    for (int64_t i = 0; i < value->count; i++)
        assert_near(vv_tensor_get(value, i), 2 * ((double)(i % D) - 2.5), 1e-5, 1e-5);
    vv_graph_free(graph);
    vv_module_free(net);
}

/* Queries, keys and values apart. */
static void bert(void **unused)
{
    (void)unused;
    vv_bert_opts opts = VV_BERT_DEFAULTS;
    vv_value_embeddings_opts many = VV_VALUE_EMBEDDINGS_DEFAULTS;
    vv_module *net;
    int count;
    opts.d = 8;
    opts.layers = 3;
    opts.heads = 2;
    opts.vocabulary = LW_VOCABULARY;
    many.tables = 9; /* more than there are pairs of layers */
    assert_ok(vv_bert_new(&net, LW_VOCABULARY, &opts, 4));
    assert_ok(vv_apply_value_embeddings(net, &many, 3, NULL, &count));
    assert_int_equal(count, 3);
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, NULL));
    vv_module_free(net);
}

static void training(void **unused)
{
    (void)unused;
    const vv_value_embeddings_opts defaults = VV_VALUE_EMBEDDINGS_DEFAULTS;
    lw_same_defaults(&vv_method_value_embeddings, &defaults);
    const mw_weights whole = lw_run("4ba", 0, "value_embeddings", NULL, NULL);
    const mw_weights micro = lw_run("4ba", 3, "value_embeddings", NULL, NULL);
    const mw_weights parts = lw_run_resumed("4ba", "value_embeddings", NULL);
    assert_true(mw_difference(&whole, &micro) < 1e-5);
    assert_true(mw_equal(&whole, &parts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(surgery), cmocka_unit_test(formula),
                                       cmocka_unit_test(bert), cmocka_unit_test(training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
