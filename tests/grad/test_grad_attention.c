/* test_grad_attention.c - gradients of attention.
 *
 * What must hold: with every option alone and with several together, for grouped heads and other
 * numbers of queries than keys, vv_grad of q, k and v agrees with finite differences in f64; also
 * where some queries see nothing, and where the gradient of only one operand is wanted. */
#include "grad_check.h"

#include "op_build_attention.h"

static void test_options(void **state)
{
    (void)state;
    /* clang-format off */
    static const attention_row rows[] = {
        {"plain", 2, 4, 4, 2, 2, 3, VV_ATTENTION_DEFAULTS},
        {"causal", 1, 5, 5, 2, 2, 3, {.causal = true}},
        {"window", 1, 6, 6, 1, 1, 2, {.window = 2}},
        {"causal window", 1, 6, 6, 1, 1, 2, {.causal = true, .window = 3}},
        {"scale", 1, 4, 4, 1, 1, 2, {.scale = -1.7}},
        {"dropout", 2, 5, 5, 2, 2, 2, {.dropout = 0.4}},
        {"all dropped", 1, 3, 3, 1, 1, 2, {.dropout = 1.0}},
        {"slopes", 1, 5, 5, 3, 3, 2, VV_ATTENTION_DEFAULTS, .slopes = true},
        {"mask", 2, 5, 5, 1, 1, 2, VV_ATTENTION_DEFAULTS, .bool_mask = true},
        {"mask of i32", 2, 5, 5, 1, 1, 2, {.causal = true}, .int_mask = true},
        {"document", 2, 6, 6, 2, 2, 2, {.causal = true}, .document = true},
        {"grouped heads", 2, 4, 4, 6, 2, 2, VV_ATTENTION_DEFAULTS},
        {"one head of k", 1, 4, 4, 3, 1, 2, {.causal = true}},
        {"more keys", 1, 3, 7, 2, 1, 2, {.causal = true, .window = 4}, .slopes = true},
        {"more queries: some see nothing", 1, 6, 3, 2, 2, 2, {.causal = true}},
        {"everything", 2, 6, 6, 4, 2, 3, {true, 4, 0.9, 0.3}, true, true, false, true},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const attention_case c = attention_of(&rows[i]);
        grad_check(&c.base);
    }
}

static void test_one_wanted(void **state)
{
    (void)state;
    static const attention_row row = {"one wanted", 1, 4, 5, 4, 2, 3, {.causal = true}};
    for (int wanted = 0; wanted < 3; wanted++) {
        attention_case c = attention_of(&row);
        for (int i = 0; i < 3; i++)
            c.base.in[i].kind = i == wanted ? OP_FLOAT : OP_FIXED;
        for (int i = 0; i < 3; i++)
            if (i != wanted)
                c.base.in[i].lo = -1.0, c.base.in[i].hi = 1.0;
        grad_check(&c.base);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_one_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
