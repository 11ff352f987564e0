/* test_attention_layer.c - the attention layer: the op with its settings, positions, masks, keys
 * kept while decoding; RMS norm, squared ReLU and tables of positions. */
#include "nn_test.h"

static vv_tensor *numbers(int64_t n, int64_t t, int64_t width, double shift)
{
    const int64_t shape[] = {n, t, width};
    vv_tensor *x = NULL;

    assert_ok(vv_tensor_new(&x, VV_F32, 3, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, sin(1.7 * (double)i + shift));
    return x;
}

static vv_module *new_attention(const vv_attention_layer *settings)
{
    vv_module *module = NULL;

    assert_ok(vv_attention_new(&module, settings));
    return module;
}

/* Values of a node as a tensor of the caller's. */
static vv_tensor *value_of(vv_node *node, vv_graph *graph)
{
    vv_tensor *out = NULL;

    assert_ok(vv_graph_status(graph));
    assert_ok(vv_node_keep(node, &out));
    return out;
}

static vv_tensor *packed_output(vv_module *module, vv_tensor *x)
{
    vv_graph *graph = new_graph();
    vv_tensor *out = value_of(vv_module_forward(module, graph, vv_leaf(graph, x)), graph);

    vv_graph_free(graph);
    return out;
}

static void same(const vv_tensor *a, const vv_tensor *b, double tolerance)
{
    assert_true(vv_tensor_same_shape(a, b));
    for (int64_t i = 0; i < a->count; i++)
        assert_near(vv_tensor_get(a, i), vv_tensor_get(b, i), tolerance, 0.0);
}

/* One head of two, by the formula in doubles: causal softmax(q k' / sqrt(2)) v. */
static void is_attention(void **state)
{
    (void)state;
    const vv_attention_layer settings = {.heads = 2, .kv_heads = 1, .head_dim = 2, .causal = true};
    vv_module *module = new_attention(&settings);
    vv_tensor *x = numbers(1, 3, 8, 0.3), *y = packed_output(module, x);

    for (int64_t t = 0; t < 3; t++)
        for (int64_t h = 0; h < 2; h++) {
            double weight[3], total = 0.0, want[2] = {0.0, 0.0};

            for (int64_t s = 0; s <= t; s++) {
                double score = 0.0;
                for (int64_t i = 0; i < 2; i++)
                    score += vv_tensor_get(x, t * 8 + h * 2 + i) * vv_tensor_get(x, s * 8 + 4 + i);
                total += weight[s] = exp(score / sqrt(2.0));
            }
            for (int64_t s = 0; s <= t; s++)
                for (int64_t i = 0; i < 2; i++)
                    want[i] += weight[s] / total * vv_tensor_get(x, s * 8 + 6 + i);
            for (int64_t i = 0; i < 2; i++)
                assert_near(vv_tensor_get(y, t * 4 + h * 2 + i), want[i], 1e-6, 0.0);
        }
    vv_tensor_free(x);
    vv_tensor_free(y);
    vv_module_free(module);
}

/* Queries, keys and values apart give the same as packed, also through a layer of another class. */
static void apart_is_packed(void **state)
{
    (void)state;
    const vv_attention_layer settings = {.heads = 4, .kv_heads = 2, .head_dim = 4, .qk_norm = true,
                                         .rotary_base = 100.0, .alibi = true, .window = 3};
    vv_module *module = new_attention(&settings);
    vv_tensor *x = numbers(2, 5, 32, 0.1), *packed = packed_output(module, x);
    vv_graph *graph = new_graph();
    vv_node *all = vv_leaf(graph, x);
    vv_node *q = vv_slice(all, 2, 0, 16, 1), *k = vv_slice(all, 2, 16, 24, 1);
    vv_node *v = vv_slice(all, 2, 24, 32, 1);
    vv_tensor *apart = value_of(vv_attention_attend(module, graph, q, k, v), graph);
    vv_module *identity = new_identity();
    vv_tensor *joined = value_of(vv_attention_attend(identity, graph, q, k, v), graph);

    same(apart, packed, 0.0);
    same(joined, x, 0.0);
    vv_module_free(identity);
    vv_graph_free(graph);
    vv_tensor_free(joined);
    vv_tensor_free(apart);
    vv_tensor_free(packed);
    vv_tensor_free(x);
    vv_module_free(module);
}

/* Token by token, or in pieces, with keys kept: the rows of the whole sequence at once. More than
   two pieces of 64 tokens. */
static void decoding_is_the_whole(void **state)
{
    (void)state;
    const vv_attention_layer rows[] = {
        {.heads = 2, .kv_heads = 2, .head_dim = 4, .causal = true},
        {.heads = 4, .kv_heads = 2, .head_dim = 4, .causal = true, .rotary_base = 1000.0},
        {.heads = 2, .kv_heads = 1, .head_dim = 8, .causal = true, .rotary_base = 50.0,
         .rotary_share = 0.5, .qk_norm = true, .scale = 0.12},
        {.heads = 3, .kv_heads = 3, .head_dim = 4, .causal = true, .alibi = true},
        {.heads = 2, .kv_heads = 2, .head_dim = 4, .causal = true, .window = 70},
    };
    const int64_t pieces[] = {5, 1, 1, 57, 1, 1, 3, 62, 1, 1, 7}; /* 140 */

    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        vv_module *module = new_attention(&rows[r]);
        const int64_t width = (rows[r].heads + 2 * rows[r].kv_heads) * rows[r].head_dim;
        const int64_t out_width = rows[r].heads * rows[r].head_dim;
        vv_tensor *x = numbers(1, 140, width, 0.7);

        vv_module_set_training(module, false);

        vv_tensor *whole = packed_output(module, x);

        assert_ok(vv_decode_begin(module, 140));
        for (size_t p = 0, first = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
            const int64_t shape[] = {1, pieces[p], width};
            vv_tensor *piece = NULL;

            assert_int_equal(vv_module_past(module), (int64_t)first);
            assert_ok(vv_tensor_from(&piece, VV_F32, 3, shape, (float *)x->data + first * width));

            vv_tensor *y = packed_output(module, piece);

            for (int64_t i = 0; i < y->count; i++)
                assert_near(vv_tensor_get(y, i),
                            vv_tensor_get(whole, (int64_t)first * out_width + i), 2e-6, 0.0);
            vv_decode_advance(module, pieces[p]);
            first += (size_t)pieces[p];
            vv_tensor_free(y);
            vv_tensor_free(piece);
        }
        vv_decode_end(module);
        assert_false(vv_module_decoding(module));
        assert_int_equal(vv_module_past(module), 0);

        vv_tensor *again = packed_output(module, x);

        same(again, whole, 0.0);
        vv_tensor_free(again);
        vv_tensor_free(whole);
        vv_tensor_free(x);
        vv_module_free(module);
    }
}

static void decoding_says_what_is_wrong(void **state)
{
    (void)state;
    const vv_attention_layer settings = {.heads = 1, .kv_heads = 1, .head_dim = 4, .causal = true};
    vv_module *module = new_attention(&settings);
    vv_tensor *x = numbers(1, 5, 12, 0.0), *two = numbers(2, 2, 12, 0.0);
    vv_graph *graph = new_graph();

    assert_fails(vv_decode_begin(module, 0), VV_EINVAL);
    assert_ok(vv_decode_begin(module, 4));
    assert_null(vv_module_forward(module, graph, vv_leaf(graph, x)));
    assert_fails(vv_graph_status(graph), VV_ESTATE);
    assert_says("evaluation mode");
    vv_module_set_training(module, false);
    vv_graph_reset(graph);
    assert_null(vv_module_forward(module, graph, vv_leaf(graph, x)));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    assert_says("5 tokens in a row, there is room for 4");
    vv_graph_reset(graph);
    assert_null(vv_module_forward(module, graph, vv_leaf(graph, two)));
    assert_says("one row");
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_tensor_free(two);
    vv_module_free(module); /* what is kept goes with it */
}

/* Press et al.: 8 heads 1/2 .. 1/256; 12 heads: those, then 2^-0.5, 2^-1.5, ... */
static void slopes(void **state)
{
    (void)state;
    float out[12];

    vv_alibi_slopes(8, out);
    for (int i = 0; i < 8; i++)
        assert_near((double)out[i], exp2(-(i + 1)), 0.0, 1e-6);
    vv_alibi_slopes(12, out);
    for (int i = 0; i < 12; i++)
        assert_near((double)out[i], exp2(i < 8 ? -(i + 1) : -(i - 8) - 0.5), 0.0, 1e-6);
}

/* A masked key is not seen, nor one of another document; the masks go when they are taken away. */
static void positions_and_masks(void **state)
{
    (void)state;
    const vv_attention_layer settings = {.heads = 1, .kv_heads = 1, .head_dim = 8, .causal = true,
                                         .rotary_base = 10.0, .rotary_share = 0.5};
    vv_module *net = new_sequential(), *module = new_attention(&settings);
    vv_tensor *x = numbers(1, 4, 24, 0.2);
    const int32_t mask[] = {0, 1, 1, 1}, ids[] = {0, 0, 1, 1};
    const int64_t mask_shape[] = {1, 4};
    vv_graph *graph = new_graph();

    assert_ok(vv_module_add_child(net, "core", module));
    vv_attention_mask(net, vv_data(graph, VV_I32, 2, mask_shape, mask),
                      vv_data(graph, VV_I32, 2, mask_shape, ids));

    vv_tensor *y = value_of(vv_module_forward(net, graph, vv_leaf(graph, x)), graph);

    vv_attention_mask(net, NULL, NULL);
    for (int64_t i = 0; i < 8; i++) {
        assert_near(vv_tensor_get(y, i), 0.0, 0.0, 0.0); /* the only key it could see is hidden */
        assert_near(vv_tensor_get(y, 8 + i), vv_tensor_get(x, 24 + 16 + i), 1e-6, 0.0);
        assert_near(vv_tensor_get(y, 16 + i), vv_tensor_get(x, 48 + 16 + i), 1e-6, 0.0);
    }
    assert_null(((vv_attention_layer *)vv_module_self(module))->key_mask);
    vv_tensor_free(y);
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_module_free(net);
}

static void settings_are_checked(void **state)
{
    (void)state;
    const vv_attention_layer wrong[] = {
        {.heads = 3, .kv_heads = 2, .head_dim = 4},
        {.heads = 0, .kv_heads = 1, .head_dim = 4},
        {.heads = 1, .kv_heads = 1, .head_dim = 4, .dropout = 1.0},
        {.heads = 1, .kv_heads = 1, .head_dim = 4, .window = -1},
        {.heads = 1, .kv_heads = 1, .head_dim = 3, .rotary_base = 100.0},
        {.heads = 1, .kv_heads = 1, .head_dim = 4, .rotary_share = 2.0},
    };
    const vv_attention_layer settings = {.heads = 1, .kv_heads = 1, .head_dim = 4};
    vv_module *module = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(vv_attention_new(&module, &wrong[i]), VV_EINVAL);
    assert_fails(vv_attention_new(&module, NULL), VV_EINVAL);
    module = new_attention(&settings);

    vv_tensor *x = numbers(1, 2, 10, 0.0);
    vv_graph *graph = new_graph();

    assert_null(vv_module_forward(module, graph, vv_leaf(graph, x)));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    assert_says("[N,T,12]");
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_module_free(module);
}

static void rms_norm_layer(void **state)
{
    (void)state;
    vv_module *plain = NULL, *scaled = NULL;
    vv_tensor *x = numbers(1, 2, 4, 0.4);

    assert_fails(vv_rms_norm_new(&plain, 0, 1e-6, false), VV_EINVAL);
    assert_ok(vv_rms_norm_new(&plain, 4, 1e-6, false));
    assert_ok(vv_rms_norm_new(&scaled, 4, 1e-6, true));
    assert_int_equal(vv_module_param_count(plain), 0);
    assert_int_equal(vv_module_param_count(scaled), 4);
    vv_tensor_fill(vv_module_param(scaled, "weight")->value, 3.0);

    vv_tensor *y = packed_output(plain, x), *z = packed_output(scaled, x);

    for (int64_t t = 0; t < 2; t++) {
        double square = 0.0;
        for (int64_t i = 0; i < 4; i++)
            square += vv_tensor_get(x, t * 4 + i) * vv_tensor_get(x, t * 4 + i) / 4.0;
        for (int64_t i = 0; i < 4; i++) {
            const double want = vv_tensor_get(x, t * 4 + i) / sqrt(square + 1e-6);
            assert_near(vv_tensor_get(y, t * 4 + i), want, 1e-6, 0.0);
            assert_near(vv_tensor_get(z, t * 4 + i), 3.0 * want, 3e-6, 0.0);
        }
    }
    assert_ok(vv_module_init_default(scaled, 1));
    assert_near(vv_tensor_get(vv_module_param(scaled, "weight")->value, 2), 1.0, 0.0, 0.0);
    vv_tensor_free(x);
    vv_tensor_free(y);
    vv_tensor_free(z);
    vv_module_free(plain);
    vv_module_free(scaled);
}

static void squared_relu(void **state)
{
    (void)state;
    vv_module *act = NULL;
    vv_tensor *x = numbers(1, 1, 6, 0.0);

    assert_ok(vv_activation_new(&act, VV_ACT_RELU2, 0.0));

    vv_tensor *y = packed_output(act, x);

    for (int64_t i = 0; i < 6; i++) {
        const double v = fmax(0.0, vv_tensor_get(x, i));
        assert_near(vv_tensor_get(y, i), v * v, 1e-6, 0.0);
    }
    vv_tensor_free(x);
    vv_tensor_free(y);
    vv_module_free(act);
}

static void positions_table(void **state)
{
    (void)state;
    vv_module *table = NULL;
    vv_tensor *x = numbers(2, 3, 4, 0.0), *y;
    vv_graph *graph = new_graph();

    assert_ok(vv_embedding_new(&table, 5, 4));
    assert_ok(vv_module_init_default(table, 3));
    vv_module_set_training(table, false);

    const vv_tensor *rows = vv_module_param(table, "weight")->value;

    assert_ok(vv_decode_begin(table, 5));
    vv_decode_advance(table, 2);
    y = value_of(vv_positions_add(table, graph, vv_leaf(graph, x)), graph);
    for (int64_t i = 0; i < 24; i++)
        assert_near(vv_tensor_get(y, i),
                    vv_tensor_get(x, i) + vv_tensor_get(rows, 8 + i % 12), 1e-6, 0.0);
    vv_tensor_free(y);
    vv_decode_advance(table, 1);
    assert_null(vv_positions_add(table, graph, vv_leaf(graph, x)));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    assert_says("6 tokens in a row, but the table of positions has 5 rows");
    vv_graph_reset(graph);
    ((vv_embedding_layer *)vv_module_self(table))->off = true;

    vv_node *leaf = vv_leaf(graph, x);

    assert_ptr_equal(vv_positions_add(table, graph, leaf), leaf);
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_module_free(table);
}

static vv_status make_and_begin(void *ctx)
{
    const vv_attention_layer settings = {.heads = 1, .kv_heads = 1, .head_dim = 4, .causal = true};
    vv_module *module = NULL;

    (void)ctx;
    VV_TRY(vv_attention_new(&module, &settings));

    const vv_status status = vv_decode_begin(module, 10);

    assert_int_equal(vv_module_decoding(module), status == VV_OK);
    vv_module_free(module);
    return status;
}

static void survives_failures(void **state)
{
    (void)state;
    survives_each_failure(make_and_begin, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_attention),
        cmocka_unit_test(apart_is_packed),
        cmocka_unit_test(decoding_is_the_whole),
        cmocka_unit_test(decoding_says_what_is_wrong),
        cmocka_unit_test(slopes),
        cmocka_unit_test(positions_and_masks),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(rms_norm_layer),
        cmocka_unit_test(squared_relu),
        cmocka_unit_test(positions_table),
        cmocka_unit_test(survives_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
