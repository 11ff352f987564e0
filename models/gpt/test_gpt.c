/* test_gpt.c - what must hold of gpt: parameter counts, names and start of both styles; a causal
 * net that trains with every part taking part; pairs of tokens, shared value tables, documents;
 * decoding piece by piece gives the whole's outputs. */
#include "language_test.h"

#include "gpt.h"

static const char small[] = "d=32,layers=4,heads=2,vocab_multiple=1";
static const char full[] = "style=full,d=32,layers=4,heads=2,vocab_multiple=1";

/* Record 5: 12 x 768 without biases or norms' weights, table of 50304: 50304 d + 12 * 12 d^2. The
   rest by hand for small ones. */
static void sizes(void **state)
{
    (void)state;
    const vv_sample_spec one = token_spec(8, 64), two = token_spec(8, 128);
    const int64_t base = model_size(&vv_model_gpt, "layers=1", &one);
    const int64_t block = model_size(&vv_model_gpt, "layers=2", &one) - base;
    const int64_t tokens = model_size(&vv_model_gpt, "layers=1", &two) - base; /* 64 of them */

    assert_int_equal(block, 12 * 768 * 768);
    assert_int_equal(base + 11 * block + (50304 / 64 - 1) * tokens, 123568128);

    const vv_sample_spec spec = token_spec(8, 30);
    const int64_t d = 32, v = 30, inner = 4 * 12 * d * d;

    assert_int_equal(model_size(&vv_model_gpt, small, &spec), v * d + inner);
    /* table, head, pairs, two value tables; lambdas: x0 2 a block, pairs 1 a block, skips 2, values
       2 in each of the four blocks. */
    assert_int_equal(model_size(&vv_model_gpt, full, &spec),
                     inner + (3 + 2) * v * d + 8 + 4 + 2 + 8);
    assert_int_equal(model_size(&vv_model_gpt, "d=32,layers=1,heads=4,kv_heads=2,d_ff=8", &spec),
                     64 * d + 2 * d * d + 2 * d * d / 2 + 2 * 8 * d);
}

static void names_and_start(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(8, 30);
    vv_model *model = model_make(&vv_model_gpt, full, &spec);
    vv_module *blocks = vv_module_find(model->net, "transformer.h");
    const vv_attention_layer *core = vv_module_self(vv_module_find(blocks, "0.attn.core"));

    net_has_names(model->net, "transformer.x0_lambdas transformer.bigram_lambdas "
                              "transformer.skip_weights transformer.wte.weight "
                              "transformer.h.0.attn.lambdas transformer.h.0.attn.c_q.weight "
                              "transformer.h.3.attn.c_proj.weight transformer.h.3.mlp.c_fc.weight "
                              "transformer.h.1.attn.value_embeds.weight transformer.bigram.weight "
                              "lm_head.weight");
    assert_ptr_equal(vv_module_find(blocks, "0.attn.value_embeds"),
                     vv_module_find(blocks, "2.attn.value_embeds"));
    assert_ptr_equal(vv_module_find(blocks, "1.attn.value_embeds"),
                     vv_module_find(blocks, "3.attn.value_embeds"));
    assert_true(core->qk_norm && core->causal);
    assert_near(core->scale, 0.12, 1e-12, 0.0);
    assert_near(core->rotary_base, 1024.0, 0.0, 0.0);
    assert_near(core->rotary_share, 0.5, 0.0, 0.0);

    const vv_tensor *q = vv_module_param(vv_module_find(blocks, "1.attn.c_q"), "weight")->value;
    const vv_tensor *proj = vv_module_param(vv_module_find(blocks, "1.mlp.c_proj"),
                                            "weight")->value;
    double square = 0.0;

    for (int64_t i = 0; i < q->count; i++)
        square += vv_tensor_get(q, i) * vv_tensor_get(q, i);
    assert_near(sqrt(square / (double)q->count), 0.5 / sqrt(32.0), 0.0, 0.1);
    for (int64_t i = 0; i < proj->count; i++)
        assert_near(vv_tensor_get(proj, i), 0.0, 0.0, 0.0);
    vv_model_free(model);

    model = model_make(&vv_model_gpt, small, &spec);
    assert_ptr_equal(vv_module_param(vv_module_find(model->net, "lm_head"), "weight"),
                     vv_module_param(vv_module_find(model->net, "transformer.wte"), "weight"));
    assert_non_null(vv_module_mlp(vv_module_find(model->net, "transformer.h.2.mlp")));
    assert_non_null(vv_module_residual(vv_module_find(model->net, "transformer.h.2")));
    assert_null(vv_module_language(model->net)->positions);
    vv_model_free(model);
}

/* After the first steps every parameter has a gradient. */
static void all_take_part(vv_model *model, const vv_sample_spec *spec)
{
    vv_tensor *tokens = random_tokens(4, spec->input_shape[0], spec->classes, 1);
    vv_tensor *targets = random_tokens(4, spec->input_shape[0], spec->classes, 2);
    model_names *names = calloc(1, sizeof *names);

    assert_non_null(names);
    vv_module_each_param(model->net, model_take_param, names);
    language_step(model, tokens, targets);
    for (int i = 0; i < names->count; i++) {
        double size = 0.0;

        for (int64_t k = 0; k < names->params[i]->grad->count; k++)
            size += fabs(vv_tensor_get(names->params[i]->grad, k));
        if (!(size > 0.0))
            fail_msg("parameter %d of: %s has no gradient", i, names->text);
    }
    free(names);
    vv_tensor_free(tokens);
    vv_tensor_free(targets);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(12, 30);
    vv_model *model = model_make(&vv_model_gpt, small, &spec);

    /* Behind projections of 0 nothing has a gradient in the first step. */
    language_trains(model, &spec, 1e-2, 0.5, "c_q.weight c_k.weight c_v.weight c_fc.weight");
    all_take_part(model, &spec);
    language_is_causal(model->net, 12, 30, 5);
    vv_model_free(model);
    /* Nor anything but the head behind a head of 0. */
    model = model_make(&vv_model_gpt, full, &spec);
    language_trains(model, &spec, 1e-2, 0.5,
                    "c_q.weight c_k.weight c_v.weight c_fc.weight c_proj.weight wte.weight "
                    "bigram.weight lambdas skip_weights value_embeds.weight");
    all_take_part(model, &spec);
    language_is_causal(model->net, 12, 30, 5);
    vv_model_free(model);
}

/* Fills what starts at 0, so that outputs depend on everything. */
static void stir(vv_module *net)
{
    model_names *names = calloc(1, sizeof *names);

    assert_non_null(names);
    vv_module_each_param(net, model_take_param, names);
    for (int i = 0; i < names->count; i++)
        if (names->params[i]->value->ndim == 2)
            vv_param_fill_normal(names->params[i], 0.3, (uint64_t)i, "stir");
    vv_module_set_training(net, false);
    free(names);
}

/* Token by token and in pieces: the outputs of the whole, pairs across pieces included. */
static void decodes_as_the_whole(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(20, 30);
    const char *const settings[] = {small, full};
    const int64_t pieces[] = {4, 1, 1, 3, 1, 10};

    for (size_t s = 0; s < 2; s++) {
        vv_model *model = model_make(&vv_model_gpt, settings[s], &spec);
        vv_tensor *tokens = random_tokens(1, 20, 30, 5);
        int64_t first = 0;

        stir(model->net);

        vv_tensor *whole = language_output(model->net, tokens);

        assert_ok(vv_decode_begin(model->net, 20));
        for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
            const int64_t shape[] = {1, pieces[p]};
            vv_tensor *piece = NULL;

            assert_ok(vv_tensor_from(&piece, VV_I32, 2, shape, (int32_t *)tokens->data + first));

            vv_tensor *y = language_output(model->net, piece);

            for (int64_t i = 0; i < y->count; i++)
                assert_near(vv_tensor_get(y, i), vv_tensor_get(whole, first * 30 + i), 1e-4, 1e-4);
            first += pieces[p];
            vv_decode_advance(model->net, pieces[p]);
            vv_tensor_free(y);
            vv_tensor_free(piece);
        }
        vv_decode_end(model->net);
        vv_tensor_free(whole);
        vv_tensor_free(tokens);
        vv_model_free(model);
    }
}

/* The pair (a, b) reads row (36313 b + 27191 a) mod rows; before the first token stands 0. */
static void pairs_of_tokens(void **state)
{
    (void)state;
    const int64_t vocabulary = 50000, rows = 75000;
    const vv_sample_spec spec = token_spec(6, vocabulary);
    vv_model *model = model_make(&vv_model_gpt, "d=4,layers=1,heads=1,bigram=1.5,vocab_multiple=1",
                                 &spec);
    const int32_t ids[] = {49999, 49999, 0, 3, 17, 49000};
    const int64_t shape[] = {1, 6};
    vv_tensor *tokens = NULL;
    vv_graph *graph = language_graph();
    vv_param *table = vv_module_param(vv_module_find(model->net, "transformer.bigram"), "weight");
    vv_node *leaf, *grad = NULL;
    const vv_tensor *value = NULL;

    assert_int_equal(table->value->shape[0], rows);
    stir(model->net);
    assert_ok(vv_tensor_from(&tokens, VV_I32, 2, shape, ids));

    vv_node *y = vv_module_forward(model->net, graph, vv_leaf(graph, tokens));

    leaf = vv_leaf(graph, table->value);
    assert_ok(vv_graph_status(graph));
    assert_ok(vv_grad(graph, vv_sum_all(vv_square(vv_slice(y, 2, 0, 5, 1))), &leaf, 1, &grad));
    assert_ok(vv_node_value(grad, &value));
    /* Exactly those rows have a gradient. */
    for (int64_t row = 0; row < rows; row++) {
        bool wanted = false;

        for (int i = 0; i < 6; i++)
            wanted = wanted || (36313 * (int64_t)ids[i] + 27191 * (int64_t)(i ? ids[i - 1] : 0)) %
                                       rows == row;
        if ((vv_tensor_get(value, row * 4) != 0.0) != wanted)
            fail_msg("row %lld: %g", (long long)row, vv_tensor_get(value, row * 4));
    }
    vv_graph_free(graph);
    vv_tensor_free(tokens);
    vv_model_free(model);
}

/* What comes after the end of a document does not see it. */
static void documents(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(8, 30);
    vv_model *model = model_make(&vv_model_gpt,
                                 "d=32,layers=2,heads=2,vocab_multiple=1,document_end=29", &spec);
    const int32_t a[] = {1, 2, 3, 29, 4, 5, 6, 7}, b[] = {8, 9, 3, 29, 4, 5, 6, 7};
    const int64_t shape[] = {1, 8};
    vv_tensor *first = NULL, *second = NULL;

    stir(model->net);
    assert_ok(vv_tensor_from(&first, VV_I32, 2, shape, a));
    assert_ok(vv_tensor_from(&second, VV_I32, 2, shape, b));

    vv_tensor *x = language_output(model->net, first), *y = language_output(model->net, second);
    double moved = 0.0;

    for (int64_t i = 0; i < 8 * 30; i++)
        if (i >= 4 * 30)
            assert_near(vv_tensor_get(x, i), vv_tensor_get(y, i), 1e-5, 0.0);
        else if (i >= 3 * 30)
            moved += fabs(vv_tensor_get(x, i) - vv_tensor_get(y, i)); /* the end itself sees it */
    assert_true(moved > 1e-3);
    vv_tensor_free(x);
    vv_tensor_free(y);
    vv_tensor_free(first);
    vv_tensor_free(second);
    vv_model_free(model);
}

/* The cap holds, and without it logits are larger. */
static void cap(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(8, 30);
    vv_tensor *tokens = random_tokens(1, 8, 30, 1);
    double largest[2] = {0.0, 0.0};

    for (int i = 0; i < 2; i++) {
        vv_model *model = model_make(&vv_model_gpt,
                                     i ? "d=32,layers=1,heads=2,softcap=2,vocab_multiple=1"
                                       : "d=32,layers=1,heads=2,vocab_multiple=1", &spec);

        stir(model->net);
        vv_param_fill_normal(vv_module_param(vv_module_find(model->net, "lm_head"), "weight"), 3.0,
                             1, "x");

        vv_tensor *y = language_output(model->net, tokens);

        for (int64_t k = 0; k < y->count; k++)
            largest[i] = fmax(largest[i], fabs(vv_tensor_get(y, k)));
        vv_tensor_free(y);
        vv_model_free(model);
    }
    assert_true(largest[0] > 5.0 && largest[1] <= 2.0 && largest[1] > 1.5);
    vv_tensor_free(tokens);
}

static void bad_input(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(8, 30);
    const char *const wrong[] = {"d=30,heads=4", "heads=4,kv_heads=3,d=32",
                                 "layers=3,value_embeddings=2", "d=6,heads=2,rotary_base=0.5"};
    vv_gpt_opts opts;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        vv_model *model = NULL;

        assert_ok(vv_opts_init(&vv_model_gpt.desc, &opts));
        assert_ok(vv_opts_set_all(&vv_model_gpt.desc, &opts, wrong[i]));
        assert_fails(vv_model_build(&model, &vv_model_gpt, &opts, &spec, 1), VV_EINVAL);
    }

    const vv_sample_spec image = image_spec(8, 8, 3, 10);
    vv_model *model = NULL;

    assert_fails(vv_model_build(&model, &vv_model_gpt, NULL, &image, 1), VV_EINVAL);
    assert_says("token ids");
}

static vv_status make(void *ctx)
{
    const vv_sample_spec spec = token_spec(8, 16);
    vv_model *model = NULL;
    const vv_status status = vv_model_build(&model, &vv_model_gpt, ctx, &spec, 1);

    vv_model_free(model);
    return status;
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(8, 16);
    vv_gpt_opts opts;

    model_desc_is_sane(&vv_model_gpt, &spec, 61);
    /* The full style, each allocation. */
    assert_ok(vv_opts_init(&vv_model_gpt.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_model_gpt.desc, &opts, full));

    const int64_t live = vv_memory_live_count();

    for (uint64_t nth = 1;; nth++) {
        vv_memory_fail_at(nth);
        const vv_status status = make(&opts);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
    }
    vv_opts_fini(&vv_model_gpt.desc, &opts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(names_and_start),
        cmocka_unit_test(trains),
        cmocka_unit_test(decodes_as_the_whole),
        cmocka_unit_test(pairs_of_tokens),
        cmocka_unit_test(documents),
        cmocka_unit_test(cap),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
