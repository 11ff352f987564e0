/* test_save_name.c - names of checkpoints: every placeholder is filled, zeros pad, what cannot be a
 * name or would repeat itself is refused with the nearest placeholder, and a name that a template
 * made tells its batch again. */
#include "vv_test.h"

#include "train/save_name.h"

static const vvi_name_facts facts = {
    .run_name = "a/b run",
    .time = {.iteration = 1, .epoch = 3, .batch = 1173, .sample = 150144, .token = 7,
             .epoch_in_iteration = 2, .token_in_iteration = 5, .batch_in_epoch = 9,
             .sample_in_epoch = 1152, .token_in_epoch = 6, .total_seconds = 61.9,
             .epoch_seconds = 5.5, .batch_seconds = 0.25, .iteration_seconds = 8.0},
    .rank = 0, .local_rank = 0, .world_size = 2, .local_world_size = 1, .node_rank = 0,
};

static void fills(void **state)
{
    (void)state;
    const char *const rows[][2] = {
        {"ep{epoch}-ba{batch}-rank{rank}", "ep3-ba1173-rank0"},
        {VVI_SAVE_NAME, "ep0003-ba00001173"},
        {"{run_name}_{sample}_{token}_{total_wct}", "a-b run_150144_7_61"},
        {"{iteration}.{epoch_in_iteration}.{token_in_iteration}", "1.2.5"},
        {"{epoch:3} {batch_in_epoch:02} {sample_in_epoch} {token_in_epoch}", "003 09 1152 6"},
        {"{batch} {world_size}{local_world_size}{local_rank}{node_rank}", "1173 2100"},
        {"{batch}-{epoch_wct}-{batch_wct}-{iteration_wct}", "1173-5-0-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vv_str out = {0};
        assert_ok(vvi_name_check(rows[i][0], "save_name"));
        assert_ok(vvi_name_fill(&out, rows[i][0], &facts));
        assert_string_equal(vv_str_text(&out), rows[i][1]);
        vv_str_fini(&out);
    }
}

static void refuses(void **state)
{
    (void)state;
    const char *const rows[][2] = {
        {"ep{epoh}", "did you mean {epoch}"},
        {"{xyzzy}{batch}", "{xyzzy}"},
        {"ba{batch", "not closed"},
        {"ba{batch:x}", "width"},
        {"ba{batch:0}", "width"},
        {"model", "same name at any time"},
        {"{run_name}-{rank}", "same name at any time"},
        {"ba{batch_in_epoch}", "add {epoch}"},
        {"a/{batch}", "slash"},
        {".{batch}", "dot"},
        {"", "no name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_fails(vvi_name_check(rows[i][0], "save_name"), VV_EINVAL);
        assert_says("save_name");
        assert_says(rows[i][1]);
    }
}

static void reads_back(void **state)
{
    (void)state;
    int64_t batch = 0;
    vvi_name_facts own = facts;
    own.run_name = "r1";
    assert_true(vvi_name_batch(VVI_SAVE_NAME, &own, "ep0012-ba00000345", &batch));
    assert_int_equal(batch, 345);
    assert_true(vvi_name_batch("{run_name}-ba{batch}", &own, "r1-ba77", &batch));
    assert_int_equal(batch, 77);
    /* Other padding, another run, more text, no batch, seconds: the header has to say it. */
    assert_false(vvi_name_batch(VVI_SAVE_NAME, &own, "ep12-ba345", &batch));
    assert_false(vvi_name_batch("{run_name}-ba{batch}", &own, "r2-ba77", &batch));
    assert_false(vvi_name_batch("ba{batch}", &own, "ba7x", &batch));
    assert_false(vvi_name_batch("ba{batch}", &own, "ba99999999999999999999", &batch));
    assert_false(vvi_name_batch("ep{epoch}", &own, "ep7", &batch));
    assert_false(vvi_name_batch("{batch}-{total_wct}", &own, "7-8", &batch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills), cmocka_unit_test(refuses), cmocka_unit_test(reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
