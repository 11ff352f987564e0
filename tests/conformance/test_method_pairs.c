/* test_method_pairs.c - every two methods train three steps together, in either order of the list,
 * or are refused with a sentence that names both and says why; methods of different phases run in
 * one order whatever the list's, so that one training tells for both. Built several times: program
 * PART of PARTS has its share of the pairs. */
#include "conformance.h"

typedef struct outcome {
    vv_status status;
    const vv_method_desc *first; /* the one that runs first */
} outcome;

/* What is trained, for three batches: nothing if the two run in the order `known` already. */
static outcome train(const vv_method_desc *a, const vv_method_desc *b, const data *d,
                     const vv_method_desc *known)
{
    vv_trainer_opts opts = trainer_opts(NET_RICH, d, "3ba");
    vv_method *methods[2] = {method_new(a), method_new(b)};
    vv_trainer *trainer;
    outcome o = {.status = VV_OK};
    opts.methods = (vv_method_list){methods, 2};
    vv_error_clear();
    o.status = vv_trainer_new(&trainer, &opts);
    if (o.status != VV_OK)
        return o;
    vv_str plan = {0};
    assert_ok(vv_trainer_plan(trainer, &plan));
    assert_non_null(strstr(vv_str_text(&plan), a->desc.name));
    assert_non_null(strstr(vv_str_text(&plan), b->desc.name));
    vv_str_fini(&plan);
    o.first = vv_trainer_state(trainer)->methods[0]->type;
    if (o.first != known) {
        const vv_status status = vv_trainer_fit(trainer);
        if (status != VV_OK)
            fail_msg("%s with %s: %s", a->desc.name, b->desc.name, vv_error());
        assert_true(isfinite(vv_trainer_state(trainer)->train_loss));
    }
    vv_trainer_free(trainer);
    return o;
}

/* Methods of one phase may follow the order given; between phases it must not matter. */
static void check_pair(const vv_method_desc *a, const vv_method_desc *b, const data *d)
{
    const outcome first = train(a, b, d, NULL);
    if (first.status != VV_OK) {
        assert_says(a->desc.name);
        assert_says(b->desc.name);
        if (first.status != VV_EINVAL || !strstr(vv_error(), "cannot be used together: "))
            fail_msg("%s with %s is refused without a reason: %s", a->desc.name, b->desc.name,
                     vv_error());
    }
    const outcome second = train(b, a, d, first.first);
    assert_int_equal(first.status, second.status);
    if (a->phase != b->phase)
        assert_ptr_equal(first.first, second.first);
}

static void pairs(void **unused)
{
    (void)unused;
    const vv_method_desc *a, *b;
    const int64_t live = vv_memory_live_count();
    data world[2];
    data_init(&world[0], false);
    data_init(&world[1], true);
    for (int i = 0; (a = method_at(i)); i++)
        for (int j = i + 1; (b = method_at(j)); j++) {
            const bool text = needs_text(a) || needs_text(b);
            /* Images and text at once are no world. */
            if ((i + j) % PARTS == PART && !(text && (needs_images(a) || needs_images(b))))
                check_pair(a, b, &world[text]);
        }
    data_fini(&world[0]);
    data_fini(&world[1]);
    assert_int_equal(vv_memory_live_count(), live);
}

static void one_twice(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    for (int i = 0; (m = method_at(i)); i++) {
        data d;
        data_init(&d, needs_text(m));
        assert_int_equal(train(m, m, &d, NULL).status, VV_EINVAL);
        assert_says("twice");
        data_fini(&d);
    }
}

int main(void)
{
    vv_set_threads(1); /* the nets are tiny */
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(one_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
