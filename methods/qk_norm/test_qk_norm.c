/* test_qk_norm.c - what must hold: scores no longer depend on the size of queries and keys; all
 * layers are changed, once; the scale is set where asked; runs depend on neither microbatches nor
 * interruptions. */
#include "language_world.h"

#include "qk_norm.h"

static const int32_t tokens[LW_TOKENS] = {0, 1, 4, 5, 0, 2, 7, 6, 3, 2, 7, 6, 1, 4, 5, 0};

/* Queries and keys of all blocks times `by`: rows 0 .. 2d of c_attn. */
static void grow(vv_module *net, double by)
{
    static const char *const layers[] = {"transformer.h.0.attn.c_attn",
                                         "transformer.h.1.attn.c_attn"};
    for (int i = 0; i < 2; i++) {
        vv_tensor *w = vv_module_param(vv_module_find(net, layers[i]), "weight")->value;
        for (int64_t k = 0; k < w->count / 3 * 2; k++)
            vv_tensor_set(w, k, by * vv_tensor_get(w, k));
    }
}

static void surgery(void **unused)
{
    (void)unused;
    float a[LW_TOKENS * LW_VOCABULARY], b[LW_TOKENS * LW_VOCABULARY];
    vv_module *net = lw_net(0);
    grow(net, 1000); /* so that eps is nothing beside them */
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, a));
    assert_int_equal(vv_apply_qk_norm(net, 0), 2);
    assert_int_equal(vv_apply_qk_norm(net, 0.5), 0);
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, b));
    assert_memory_not_equal(a, b, sizeof a);
    grow(net, 8);
    assert_ok(lw_logits(net, tokens, 1, LW_TOKENS, a));
    for (int i = 0; i < LW_TOKENS * LW_VOCABULARY; i++)
        assert_near((double)a[i], (double)b[i], 1e-5, 1e-4);
    vv_module_free(net);
    net = lw_net(0);
    assert_int_equal(vv_apply_qk_norm(net, 0.12), 2);
    const vv_attention_layer *layer =
        vv_module_self(vv_module_find(net, "transformer.h.1.attn.core"));
    assert_true(layer->qk_norm && layer->scale == 0.12);
    vv_module_free(net);
}

static void training(void **unused)
{
    (void)unused;
    const vv_qk_norm_opts defaults = VV_QK_NORM_DEFAULTS;
    lw_same_defaults(&vv_method_qk_norm, &defaults);
    lw_guarantees("4ba", "qk_norm", "scale=1");
    vv_error_clear();
    assert_null(vv_qk_norm(-1));
    assert_says("scale");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(surgery), cmocka_unit_test(training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
