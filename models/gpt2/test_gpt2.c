/* test_gpt2.c - what must hold of gpt2: Hugging Face's names and parameter counts, GPT-2's start, a
 * causal net that trains; files, logits, gradients and 20 steps as transformers has them. */
#include "language_test.h"

#include "gpt2.h"

#define HERE VV_SOURCE_ROOT "/models/gpt2"

static const char small[] = "d=16,layers=2,heads=2,context=12,dropout=0";

/* Counts of transformers' GPT2LMHeadModel ("gpt2", "-medium": 124,439,808 and 354,823,168), and by
   the formula V d + P d + L (12 d^2 + 13 d) + 2 d. Models of one and two blocks and of one and two
   tokens tell what a block and a token cost; whole ones would fill hundreds of megabytes. */
static void sizes(void **state)
{
    (void)state;
    const struct {
        const vv_model_desc *desc;
        const char *name;
        int64_t layers, count;
    } rows[] = {
        {&vv_model_gpt2, "gpt2", 12, 124439808},
        {&vv_model_gpt2_10m, "gpt2-10m", 6, 10060960},
        {&vv_model_gpt2_30m, "gpt2-30m", 6, 30339456},
        {&vv_model_gpt2_350m, "gpt2-350m", 24, 354823168},
    };
    const vv_sample_spec one = token_spec(64, 1), two = token_spec(64, 2);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t base = model_size(rows[i].desc, "layers=1", &one);
        const int64_t block = model_size(rows[i].desc, "layers=2", &one) - base;
        const int64_t token = model_size(rows[i].desc, "layers=1", &two) - base;

        assert_string_equal(rows[i].desc->desc.name, rows[i].name);
        assert_int_equal(base + (rows[i].layers - 1) * block + 50256 * token, rows[i].count);
    }

    const vv_sample_spec gpt2 = token_spec(64, 50257);

    assert_int_equal(model_size(&vv_model_gpt2_10m, NULL, &gpt2), 10060960);
    /* Padding the table; a context that follows the data. */
    const vv_sample_spec bytes = token_spec(2000, 250);
    vv_model *model = model_make(&vv_model_gpt2_tiny, "vocab_multiple=64", &bytes);

    assert_int_equal(vv_module_param(vv_module_find(model->net, "lm_head"), "weight")
                         ->value->shape[0], 256);
    assert_int_equal(vv_module_param(vv_module_find(model->net, "transformer.wpe"), "weight")
                         ->value->shape[0], 2000);
    vv_model_free(model);
}

static void names(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(8, 30);
    vv_model *model = model_make(&vv_model_gpt2, small, &spec);
    const vv_language *parts = vv_module_language(model->net);
    vv_module *mlp = vv_module_find(model->net, "transformer.h.1.mlp");

    net_has_names(model->net,
                  "transformer.wte.weight transformer.wpe.weight transformer.h.0.ln_1.weight "
                  "transformer.h.0.ln_1.bias transformer.h.0.attn.c_attn.weight "
                  "transformer.h.0.attn.c_attn.bias transformer.h.0.attn.c_proj.weight "
                  "transformer.h.0.ln_2.weight transformer.h.1.mlp.c_fc.weight "
                  "transformer.h.1.mlp.c_fc.bias transformer.h.1.mlp.c_proj.weight "
                  "transformer.h.1.mlp.c_proj.bias transformer.ln_f.weight transformer.ln_f.bias");
    /* Tied. */
    assert_ptr_equal(vv_module_param(vv_module_find(model->net, parts->head), "weight"),
                     vv_module_param(vv_module_find(model->net, parts->tokens), "weight"));
    assert_int_equal(vv_module_child_count(vv_module_find(model->net, parts->blocks)), 2);
    assert_ptr_equal(vv_module_type(vv_module_find(mlp, vv_module_mlp(mlp)->activation)),
                     &vv_activation_class);
    assert_int_equal(vv_module_count(model->net, &vv_gpt2_block_class), 2);
    assert_int_equal(vv_module_count(model->net, &vv_attention_class), 2);
    vv_model_free(model);
}

static double spread(vv_module *net, const char *path)
{
    const vv_tensor *w = vv_module_param(vv_module_find(net, path), "weight")->value;
    double square = 0.0;

    for (int64_t i = 0; i < w->count; i++)
        square += vv_tensor_get(w, i) * vv_tensor_get(w, i);
    return sqrt(square / (double)w->count);
}

/* N(0, .02); .02 / sqrt(2 layers) where a branch ends; a function of the seed alone. */
static void start(void **state)
{
    (void)state;
    const vv_gpt2_opts opts = {VV_GPT2_TINY, 0, 8, 0, 0, 0, 0.1, 1};
    vv_module *net = NULL, *again = NULL;

    assert_ok(vv_gpt2_new(&net, 256, &opts, 4));
    assert_ok(vv_gpt2_new(&again, 256, &opts, 4));
    assert_near(spread(net, "transformer.wte"), 0.02, 0.0, 0.03);
    assert_near(spread(net, "transformer.wpe"), 0.02, 0.0, 0.03);
    assert_near(spread(net, "transformer.h.3.attn.c_attn"), 0.02, 0.0, 0.03);
    assert_near(spread(net, "transformer.h.3.attn.c_proj"), 0.005, 0.0, 0.03);
    assert_near(spread(net, "transformer.h.7.mlp.c_proj"), 0.005, 0.0, 0.03);
    assert_near(spread(net, "transformer.h.7.ln_1"), 1.0, 0.0, 0.0);
    assert_memory_equal(
        vv_module_param(vv_module_find(net, "transformer.h.2.mlp.c_fc"), "weight")->value->data,
        vv_module_param(vv_module_find(again, "transformer.h.2.mlp.c_fc"), "weight")->value->data,
        1000);
    vv_module_free(net);
    vv_module_free(again);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(12, 30);
    vv_model *model = model_make(&vv_model_gpt2, small, &spec);

    language_is_causal(model->net, 12, 30, 5);
    language_trains(model, &spec, 1e-2, 0.3, "");
    vv_model_free(model);
    /* With dropout a step in training mode differs from one in evaluation. */
    model = model_make(&vv_model_gpt2, "d=16,layers=2,heads=2,dropout=0.5", &spec);

    vv_tensor *tokens = random_tokens(2, 12, 30, 1);
    const double with = language_step(model, tokens, tokens);

    vv_module_set_training(model->net, false);
    assert_true(fabs(language_step(model, tokens, tokens) - with) > 1e-4);
    vv_tensor_free(tokens);
    vv_model_free(model);
}

/* The block as methods see it, with one branch, is the block. */
static void residual_is_the_block(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(6, 20);
    vv_model *model = model_make(&vv_model_gpt2, small, &spec);
    vv_module *block = vv_module_find(model->net, "transformer.h.0");
    const int64_t shape[] = {2, 6, 16};
    vv_graph *graph = language_graph();
    vv_tensor *x = NULL;
    const vv_tensor *plain = NULL, *told = NULL;

    assert_ok(vv_tensor_new(&x, VV_F32, 3, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, sin((double)i));

    vv_node *nodes[2] = {vv_module_forward(block, graph, vv_leaf(graph, x)),
                         vv_residual_forward(block, graph, vv_leaf(graph, x))};

    assert_ok(vv_eval(graph, nodes, 2));
    assert_ok(vv_node_value(nodes[0], &plain));
    assert_ok(vv_node_value(nodes[1], &told));
    assert_same_numbers("block", told, plain, false, 1e-6);
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_model_free(model);
}

static vv_status forward_status(vv_module *net, vv_tensor *tokens)
{
    vv_graph *graph = language_graph();
    vv_node *y = vv_module_forward(net, graph, vv_leaf(graph, tokens));
    vv_status status = vv_graph_status(graph);

    if (status == VV_OK)
        status = vv_eval(graph, &y, 1);
    vv_graph_free(graph);
    return status;
}

static void bad_input(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(12, 30), long_spec = token_spec(13, 30);
    const vv_sample_spec image = image_spec(8, 8, 3, 10);
    const vv_gpt2_opts wrong[] = {
        {VV_GPT2_TINY, 15, 0, 2, 0, 0, 0, 1}, {99, 0, 0, 0, 0, 0, 0, 1},
        {VV_GPT2_TINY, 0, 0, 0, 0, 0, 1.0, 1}, {VV_GPT2_TINY, 0, 0, 0, 0, 0, 0, 0}};
    vv_model *model = NULL;
    vv_module *net = NULL;
    vv_gpt2_opts opts = VV_GPT2_DEFAULTS;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(vv_gpt2_new(&net, 30, &wrong[i], 1), VV_EINVAL);
    assert_fails(vv_model_build(&model, &vv_model_gpt2, NULL, &image, 1), VV_EINVAL);
    assert_says("token ids");
    opts.context = 12;
    assert_fails(vv_model_build(&model, &vv_model_gpt2, &opts, &long_spec, 1), VV_EINVAL);
    assert_says("13 tokens, the table of positions has 12 rows");

    model = model_make(&vv_model_gpt2, small, &spec);

    vv_tensor *tokens = random_tokens(1, 13, 30, 1);

    assert_fails(forward_status(model->net, tokens), VV_ESHAPE);
    assert_says("13 tokens in a row, but the table of positions has 12 rows");
    /* A table that is off (ALiBi) sets no limit. */
    ((vv_embedding_layer *)vv_module_self(vv_module_find(model->net, "transformer.wpe")))->off =
        true;
    assert_ok(forward_status(model->net, tokens));
    vv_tensor_set(tokens, 3, 30.0);
    assert_true(forward_status(model->net, tokens) != VV_OK);
    assert_says("30");
    vv_tensor_free(tokens);
    vv_model_free(model);
}

static const char *const turned[] = {"c_attn.weight", "c_proj.weight", "c_fc.weight", NULL};

static void hugging_face(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(10, 37);
    vv_model *model = model_make(&vv_model_gpt2, small, &spec);

    language_export_is(model, HERE "/gpt2_hf.safetensors");
    language_golden(model, HERE "/gpt2_hf.safetensors", HERE "/gpt2_golden.safetensors",
                    turned);
    vv_model_free(model);
}

/* As the files of the first GPT-2s are: no "transformer.", masks, the head once more. */
static void older_files(void **state)
{
    (void)state;
    const char *const endings[] = {NULL};
    const char *const more[] = {"h.0.attn.bias", "h.1.attn.masked_bias", "lm_head.weight", NULL};
    const vv_sample_spec spec = token_spec(10, 37);
    vv_model *model = model_make(&vv_model_gpt2, small, &spec);
    vv_tensor *tokens = random_tokens(1, 10, 37, 1);

    language_other_names(model, HERE "/gpt2_hf.safetensors", "transformer.", endings, more, tokens);
    vv_tensor_free(tokens);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(8, 16);

    model_desc_is_sane(&vv_model_gpt2_tiny, &spec, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(names),
        cmocka_unit_test(start),
        cmocka_unit_test(trains),
        cmocka_unit_test(residual_is_the_block),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(hugging_face),
        cmocka_unit_test(older_files),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
