/* test_alibi.c - what must hold: the paper's slopes; a table of zeros that is frozen, left out and
 * as long as asked; attention's bias equals that on keys alone; any length works afterwards; the
 * optimizer lets go of the old table; twice is once; rows are split in order, with their targets;
 * runs depend on neither microbatches nor interruptions; what cannot be split is refused. */
#include "language_world.h"

#include "alibi.h"

static void slopes(void **unused)
{
    (void)unused;
    static const double exponents[][12] = {{8}, {4, 8}, {2, 4, 6, 8}, {2, 4, 6, 8, 1, 3},
                                           {1, 2, 3, 4, 5, 6, 7, 8},
                                           {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5}};
    static const int64_t heads[] = {1, 2, 4, 6, 8, 12};
    for (int i = 0; i < 6; i++) {
        float s[12];
        vv_alibi_slopes(heads[i], s);
        for (int h = 0; h < heads[i]; h++)
            assert_near((double)s[h], pow(2, -exponents[i][h]), 0, 1e-6);
    }
}

static const int32_t tokens[2 * LW_TOKENS] = {0, 1, 4, 5, 0, 2, 7, 6, 3, 2, 7, 6, 1, 4, 5, 0};

static void surgery(void **unused)
{
    (void)unused;
    vv_module *net = lw_net(0);
    vv_optimizer *optimizer;
    float before[LW_TOKENS * LW_VOCABULARY], after[2 * LW_TOKENS * LW_VOCABULARY];
    int count;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    const int held = vv_optimizer_param_count(optimizer);
    assert_fails(lw_logits(net, tokens, 1, 2 * LW_TOKENS, NULL), VV_ESHAPE); /* learned: no room */
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, before));
    assert_ok(vv_apply_alibi(net, 2 * LW_TOKENS, optimizer, &count));
    assert_int_equal(count, 2);
    vv_module *table = vv_module_find(net, "transformer.wpe");
    const vv_param *rows = vv_module_param(table, "weight");
    assert_int_equal(rows->value->shape[0], 2 * LW_TOKENS);
    assert_true(rows->frozen);
    for (int64_t i = 0; i < rows->value->count; i++)
        assert_true(vv_tensor_get(rows->value, i) == 0.0);
    assert_ok(vv_optimizer_check(optimizer, net));
    assert_int_equal(vv_optimizer_param_count(optimizer), held);
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, after));
    assert_memory_not_equal(before, after, sizeof before);
    assert_ok(lw_logits(net, tokens, 1, 2 * LW_TOKENS, after)); /* and any length */
    assert_ok(vv_apply_alibi(net, 2 * LW_TOKENS, optimizer, &count));
    assert_int_equal(count, 0);
    assert_ptr_equal(vv_module_find(net, "transformer.wpe"), table);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
    assert_fails(vv_apply_alibi(NULL, 0, NULL, NULL), VV_EINVAL);

    vv_module *plain = mw_net(true); /* no attention */
    assert_ok(vv_apply_alibi(plain, 0, NULL, &count));
    assert_int_equal(count, 0);
    vv_module_free(plain);

    vv_gpt_opts modern = VV_GPT_DEFAULTS; /* rotary positions go */
    modern.d = 8;
    modern.layers = modern.heads = 2;
    assert_ok(vv_gpt_new(&net, LW_VOCABULARY, &modern, 5));
    assert_ok(vv_apply_alibi(net, 0, NULL, &count));
    assert_int_equal(count, 2);
    const vv_attention_layer *layer =
        vv_module_self(vv_module_find(net, "transformer.h.0.attn.core"));
    assert_true(layer->alibi && layer->rotary_base == 0.0);
    vv_module_free(net);
}

/* softmax(q k - m |i - j|) = softmax(q k + m j) under a causal mask. */
static void equals_a_bias_on_keys(void **unused)
{
    (void)unused;
    enum { T = 6, H = 2, D = 4 };
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {1, T, H, D};
    float q[T * H * D], k[T * H * D], v[T * H * D], m[H];
    const int64_t heads = H;
    const vv_tensor *ours;
    vv_graph *graph;
    vv_rng rng = vv_rng_at(1, "qkv", 0);
    for (int i = 0; i < T * H * D; i++) {
        q[i] = (float)vv_rng_normal(&rng);
        k[i] = (float)vv_rng_normal(&rng);
        v[i] = (float)vv_rng_normal(&rng);
    }
    vv_alibi_slopes(H, m);
    assert_ok(vv_graph_new(&graph, &graph_opts));
    const vv_attention_opts opts = {.causal = true};
    vv_node *y =
        vv_attention(vv_data(graph, VV_F32, 4, shape, q), vv_data(graph, VV_F32, 4, shape, k),
                     vv_data(graph, VV_F32, 4, shape, v), vv_data(graph, VV_F32, 1, &heads, m),
                     NULL, NULL, &opts);
    assert_ok(vv_node_value(y, &ours));
    for (int i = 0; i < T; i++)
        for (int h = 0; h < H; h++) {
            double p[T], sum = 0, out[D] = {0};
            for (int j = 0; j <= i; j++) {
                double score = 0;
                for (int d = 0; d < D; d++)
                    score += (double)q[(i * H + h) * D + d] * (double)k[(j * H + h) * D + d];
                sum += p[j] = exp(score / 2 + (double)m[h] * j);
            }
            for (int j = 0; j <= i; j++)
                for (int d = 0; d < D; d++)
                    out[d] += p[j] / sum * (double)v[(j * H + h) * D + d];
            for (int d = 0; d < D; d++)
                assert_near(vv_tensor_get(ours, (i * H + h) * D + d), out[d], 1e-6, 1e-5);
        }
    vv_graph_free(graph);
}

static void splitting(void **unused)
{
    (void)unused;
    const int64_t shape[] = {2, 6}, grouped[] = {1, 2, 4};
    static const int32_t pairs[] = {0, 1, 4, 5, 2, 3, 6, 7};
    vv_tensor *x, *y = NULL;
    assert_ok(vv_tensor_new(&x, VV_I32, 2, shape));
    for (int i = 0; i < 12; i++)
        ((int32_t *)x->data)[i] = i;
    assert_ok(vv_split_sequences(&y, x, 3));
    assert_int_equal(y->shape[0], 6);
    assert_int_equal(y->shape[1], 2);
    assert_memory_equal(y->data, x->data, x->bytes); /* order and prefix stay */
    assert_fails(vv_split_sequences(&y, x, 4), VV_ESHAPE);
    assert_says("6 tokens cannot be cut into 4");
    assert_fails(vv_split_sequences(&x, x, 2), VV_EINVAL);
    vv_tensor_free(x);
    assert_ok(vv_tensor_new(&x, VV_I32, 3, grouped));
    for (int i = 0; i < 8; i++)
        ((int32_t *)x->data)[i] = i;
    assert_ok(vv_split_sequences(&y, x, 2));
    assert_int_equal(y->shape[0], 2);
    assert_memory_equal(y->data, pairs, sizeof pairs);
    vv_tensor_free(x);
    vv_tensor_free(y);
}

static void training(void **unused)
{
    (void)unused;
    lw_seen seen = {.count = 0};
    lw_run("3ba", 0, "alibi", NULL, &seen);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seen.rows[i], 16);
        assert_int_equal(seen.length[i], 4);
        assert_int_equal(seen.items[i], 64);
    }
    seen.count = 0;
    lw_run("2ba", 0, "alibi", "train_sequence_length_scaling=1", &seen);
    assert_int_equal(seen.rows[0], 4);
    lw_guarantees("4ba", "alibi", "train_sequence_length_scaling=0.5");
}

static void with_warmup(void **unused)
{
    (void)unused;
    mw_data d;
    vv_trainer *trainer;
    lw_open(&d, 12, 4);
    vv_trainer_opts opts = lw_opts(&d, "4ba");
    vv_method *methods[] = {mw_method("seq_length_warmup",
                                      "duration=0.75,min_seq_length=2,step_size=2,truncate=false"),
                            mw_method("alibi", "train_sequence_length_scaling=0.5")};
    opts.methods = (vv_method_list){methods, 2};
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_string_equal(vv_trainer_state(trainer)->methods[0]->type->desc.name, "alibi");
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    mw_close(&d);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_alibi_opts defaults = VV_ALIBI_DEFAULTS;
    vv_method *method;
    lw_same_defaults(&vv_method_alibi, &defaults);
    assert_ok(vv_method_make(&method, "alibi", "train_sequence_length_scaling=0.3333"));
    vv_method_free(method);
    assert_fails(vv_method_make(&method, "alibi", "train_sequence_length_scaling=0.4"), VV_EINVAL);
    assert_int_equal(lw_try("alibi", "train_sequence_length_scaling=0.3333", "1ba"), VV_EINVAL);
    assert_says("16 tokens cannot be cut into 3");
    assert_int_equal(lw_try("alibi", "max_sequence_length=8", "1ba"), VV_EINVAL);
    assert_says("exceed max_sequence_length 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes),
        cmocka_unit_test(surgery),
        cmocka_unit_test(equals_a_bias_on_keys),
        cmocka_unit_test(splitting),
        cmocka_unit_test(training),
        cmocka_unit_test(with_warmup),
        cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
