/* test_freeze.c - what must hold: patterns name parameters and whole modules, exceptions learn;
 * what is frozen keeps its bits, running statistics too, while the rest learns; it thaws when told,
 * or layer by layer from the last; a resumed run is bit-equal at each of these; a run in which
 * nothing would learn, and patterns that name nothing, are refused. */
#include "method_world.h"

#include "freeze.h"

static unsigned frozen_set(vv_module *net)
{
    static const int with_weight[] = {0, 1, 3, 6};
    unsigned set = 0;
    for (int i = 0; i < 4; i++) {
        const vv_module *layer = vv_module_child(net, with_weight[i]);
        const vv_param *weight = vv_module_param(layer, "weight");
        const vv_param *bias = vv_module_param(layer, "bias");
        set |= weight->frozen ? 1u << i : 0;
        set |= bias && bias->frozen ? 16u << i : 0;
    }
    return set; /* 1 2 4 8: weights of conv, norm, conv, linear; 16 ...: their biases */
}

static void patterns(void **unused)
{
    (void)unused;
    static const struct {
        const char *patterns, *except;
        int thawed, layers, frozen;
        unsigned set;
    } cases[] = {
        {"", "", 0, 3, 3, 1 + 2 + 4 + 32 + 64},
        {"", "", 1, 3, 2, 1 + 2 + 32},
        {"", "", 2, 3, 1, 1},
        {"", "", 9, 3, 0, 0},
        {"3", "", 0, 1, 1, 4 + 64},
        {"3.weight, 1", "", 0, 2, 2, 4 + 2 + 32},
        {"*.bias", "", 0, 3, 3, 32 + 64 + 128},
        {"*", "*.bias", 0, 4, 4, 1 + 2 + 4 + 8},
        {"none,,", "", 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vv_freeze_opts opts = VV_FREEZE_DEFAULTS;
        vv_module *net = mw_net(true);
        int layers, frozen;
        opts.patterns = cases[i].patterns;
        opts.except = cases[i].except;
        vv_freeze(net, &opts, cases[i].thawed, &layers, &frozen);
        assert_int_equal(layers, cases[i].layers);
        assert_int_equal(frozen, cases[i].frozen);
        assert_int_equal(frozen_set(net), cases[i].set);
        vv_freeze(net, &opts, layers, NULL, &frozen); /* and back */
        assert_int_equal(frozen, 0);
        assert_int_equal(frozen_set(net), 0);
        vv_module_free(net);
    }
}

/* State in the tree's order: conv 108; norm 4, 4, mean 4, var 4; conv 144, 4; linear 192, 3. */
static bool same(const mw_weights *a, const mw_weights *b, int from, int count)
{
    return memcmp(a->values + from, b->values + from, (size_t)count * sizeof(float)) == 0;
}

static void bits(void **unused)
{
    (void)unused;
    vv_module *net = mw_net(true);
    const mw_weights start = mw_of(net);
    const mw_weights low = mw_run(true, "4ba", 0, "freeze", "patterns=[01]");
    const mw_weights head = mw_run(true, "4ba", 0, "freeze", NULL);
    assert_true(same(&start, &low, 0, 108 + 16)); /* running statistics, too */
    assert_false(same(&start, &low, 124, 144));
    assert_true(same(&start, &head, 0, start.count - 195));
    assert_false(same(&start, &head, start.count - 195, 192));
    vv_module_free(net);
}

static unsigned seen[16];

static vv_status look(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    seen[state->time.batch] = frozen_set(state->model->net);
    return VV_OK;
}

static void watch(const char *settings)
{
    static const vv_callback_desc looker =
        MW_CALLBACK("looker", VV_EVENT_BIT(VV_EVENT_AFTER_BACKWARD), look);
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "8ba");
    vv_method *m = mw_method("freeze", settings);
    vv_callback *callbacks[2] = {mw_callback(&looker), NULL};
    opts.methods = (vv_method_list){&m, 1};
    opts.callbacks = callbacks;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    mw_close(&d);
}

static void in_time(void **unused)
{
    (void)unused;
    static const unsigned all = 1 + 2 + 4 + 32 + 64;
    watch("until=3ba");
    for (int b = 0; b < 8; b++)
        assert_int_equal(seen[b], b < 3 ? all : 0);
    watch("until=0.75dur,gradual=true"); /* 6 batches for 3 layers */
    static const unsigned want[8] = {all, all, 1 + 2 + 32, 1 + 2 + 32, 1, 1, 0, 0};
    for (int b = 0; b < 8; b++)
        assert_int_equal(seen[b], want[b]);
}

static void resuming(void **unused)
{
    (void)unused;
    static const char *const settings[] = {"patterns=0", "until=3ba", "until=6ba,gradual=true"};
    for (int i = 0; i < 3; i++) {
        const mw_weights whole = mw_run(true, "8ba", 0, "freeze", settings[i]);
        const mw_weights parts = mw_run_resumed(true, "8ba", "freeze", settings[i]);
        assert_true(mw_equal(&whole, &parts));
    }
}

static void refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *settings, *says;
    } bad[] = {{"patterns=layer9.*", "no parameter is named by 'layer9.*'"},
               {"patterns=*", "nothing is left to learn"}};
    for (int i = 0; i < 2; i++) {
        mw_data d;
        vv_trainer *trainer;
        mw_open(&d, 12, 6);
        vv_trainer_opts opts = mw_opts(&d, true, "1ba");
        vv_method *m = mw_method("freeze", bad[i].settings);
        opts.methods = (vv_method_list){&m, 1};
        assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
        assert_says(bad[i].says);
        mw_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns), cmocka_unit_test(bits),    cmocka_unit_test(in_time),
        cmocka_unit_test(resuming), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
