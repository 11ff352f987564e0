/* test_selective_backprop.c - what must hold: when and how many are kept; the highest losses, or
 * draws without repeats of the told probabilities; choosing moves nothing in the model, sees the
 * whole batch whatever the microbatch, and the Trainer trains on the kept with their count while
 * the clock counts all; runs resume bit-equal, with a proxy too; what cannot work fails at the
 * start. */
#include "method_world.h"

#include "selective_backprop.h"

static void boundaries(void **unused)
{
    (void)unused;
    /* epoch 10 of 20, between 5 and 15 */
    assert_true(vv_should_selective_backprop(0.5, 0, 0.25, 0.75, 2));
    assert_false(vv_should_selective_backprop(0.5, 1, 0.25, 0.75, 2));
    assert_true(vv_should_selective_backprop(0.5, 1, 0.25, 0.75, 0));
    assert_true(vv_should_selective_backprop(0.25, 0, 0.25, 0.75, 2));
    assert_false(vv_should_selective_backprop(0.75, 0, 0.25, 0.75, 2)); /* the end is excluded */
    assert_false(vv_should_selective_backprop(1.0, 0, 0.25, 0.75, 2));
    assert_false(vv_should_selective_backprop(0.2, 0, 0.25, 0.75, 2));
    assert_true(vv_should_selective_backprop(0.5, 0, 0.25, 0.75, 3));
    assert_true(vv_should_selective_backprop(0.5, 1, 0.25, 0.75, 3));
    assert_false(vv_should_selective_backprop(0.5, 2, 0.25, 0.75, 3));

    assert_int_equal(vv_selective_count(8, 0.5), 4);
    assert_int_equal(vv_selective_count(5, 0.5), 2);
    assert_int_equal(vv_selective_count(1, 0.5), 1);
    assert_int_equal(vv_selective_count(3, 0.1), 1);
    assert_int_equal(vv_selective_count(7, 1.0), 7);
}

static void top(void **unused)
{
    (void)unused;
    static const float rising[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float mixed[] = {3, 9, 1, 9, 2}, broken[] = {5, NAN, 7, 6};
    int64_t kept[8];
    assert_ok(vv_select_using_loss(kept, rising, 8, 0.5, NULL));
    for (int i = 0; i < 4; i++)
        assert_int_equal(kept[i], 4 + i);
    assert_ok(vv_select_using_loss(kept, mixed, 5, 0.4, NULL));
    assert_int_equal(kept[0], 1);
    assert_int_equal(kept[1], 3);
    assert_ok(vv_select_using_loss(kept, mixed, 5, 0.2, NULL)); /* of equals the first */
    assert_int_equal(kept[0], 1);
    assert_ok(vv_select_using_loss(kept, broken, 4, 0.5, NULL));
    assert_int_equal(kept[0], 1);
    assert_int_equal(kept[1], 2);
    assert_ok(vv_select_using_loss(kept, mixed, 5, 1.0, NULL));
    for (int i = 0; i < 5; i++)
        assert_int_equal(kept[i], i);
    assert_fails(vv_select_using_loss(kept, mixed, 0, 0.5, NULL), VV_EINVAL);
    assert_fails(vv_select_using_loss(kept, mixed, 5, 0.0, NULL), VV_EINVAL);
    assert_fails(vv_select_using_loss(kept, mixed, 5, 1.5, NULL), VV_EINVAL);
}

/* Two of four one after the other with probabilities 1:3:5:7 of 16 by rank. */
static void draws(void **unused)
{
    (void)unused;
    static const float losses[] = {30, 10, 40, 20};
    static const int rank[] = {2, 0, 3, 1};
    const double w[] = {0.0625, 0.1875, 0.3125, 0.4375};
    double want[4] = {0}, seen[4] = {0};
    const int tries = 20000;
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            if (a != b) {
                const double p = w[a] * w[b] / (1 - w[a]);
                want[a] += p;
                want[b] += p;
            }
    for (int i = 0; i < tries; i++) {
        int64_t kept[2], again[2];
        vv_rng rng = vv_rng_at(1, "test", (uint64_t)i), same = rng;
        assert_ok(vv_select_using_loss(kept, losses, 4, 0.5, &rng));
        assert_ok(vv_select_using_loss(again, losses, 4, 0.5, &same));
        assert_memory_equal(kept, again, sizeof kept);
        assert_true(kept[0] < kept[1]);
        seen[rank[kept[0]]]++;
        seen[rank[kept[1]]]++;
    }
    for (int i = 0; i < 4; i++) /* 5 deviations at most sqrt(p q / n) */
        assert_near(seen[i] / tries, want[i], 5 * 0.5 / sqrt(tries), 0);
    int64_t all[4];
    vv_rng rng = vv_rng_at(1, "test", 0);
    assert_ok(vv_select_using_loss(all, losses, 4, 1.0, &rng));
    for (int i = 0; i < 4; i++)
        assert_int_equal(all[i], i);
}

/* ---- through the Trainer ---- */

#define MAX_BATCHES 16
typedef struct seen {
    int64_t kept[MAX_BATCHES][16], whole[MAX_BATCHES][16], counts[MAX_BATCHES], all[MAX_BATCHES];
    int64_t items[MAX_BATCHES];
    float losses[MAX_BATCHES][16];
    mw_weights before;
    double train_loss[MAX_BATCHES];
    int64_t batches, samples;
} seen;
static seen *s;

/* Before the method: as the loader gave it, and the losses in evaluation. */
static vv_status spy_before(vv_method *method, vv_event event, vv_state *state)
{
    (void)method;
    (void)event;
    const vv_batch *b = state->batch;
    const int64_t at = state->time.batch;
    memcpy(s->whole[at], b->sample, (size_t)b->count * sizeof(int64_t));
    s->all[at] = b->count;
    s->before = mw_of(state->model->net);
    return vv_selective_losses(s->losses[at], state->graph, state->model, b->input, b->target, 1.0,
                               0);
}
static vv_status no_plan(vv_method *method, const vv_state *state, vv_str *line)
{
    (void)method;
    (void)state;
    return vv_str_status(line);
}
static const vv_method_desc spy = {
    .desc = {"method", "spy", "Looks.", "", "any", mw_no_fields, 0},
    .phase = VV_PHASE_SELECT,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .apply = spy_before,
    .plan = no_plan,
};

static vv_status spy_after(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    const vv_batch *b = state->batch;
    const int64_t at = state->time.batch;
    if (event == VV_EVENT_AFTER_DATALOADER) {
        const mw_weights now = mw_of(state->model->net); /* running statistics too */
        assert_true(mw_equal(&now, &s->before));
        assert_true(vv_module_training(state->model->net));
        s->counts[at] = b->count;
        memcpy(s->kept[at], b->sample, (size_t)b->count * sizeof(int64_t));
        assert_int_equal(b->input->shape[0], b->count);
        assert_int_equal(b->target->shape[0], b->count);
    } else if (event == VV_EVENT_BATCH_START) {
        s->items[at] = state->loss_item_count;
    } else {
        s->train_loss[at - 1] = state->train_loss;
        s->batches = at;
        s->samples = state->time.sample;
    }
    return VV_OK;
}
static const vv_callback_desc spy_callback =
    MW_CALLBACK("spy",
                VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER) | VV_EVENT_BIT(VV_EVENT_BATCH_START) |
                    VV_EVENT_BIT(VV_EVENT_BATCH_END),
                spy_after);

static mw_weights run(seen *to, bool norm, int64_t microbatch, const char *settings)
{
    mw_data d;
    vv_trainer *trainer;
    s = to;
    memset(s, 0, sizeof *s);
    mw_open(&d, 16, 8);
    vv_trainer_opts opts = mw_opts(&d, norm, "6ba");
    vv_method *methods[2] = {NULL, mw_method("selective_backprop", settings)};
    vv_callback *callbacks[2] = {mw_callback(&spy_callback), NULL};
    assert_ok(vv_method_new(&methods[0], &spy, NULL));
    opts.methods = (vv_method_list){methods, 2};
    opts.callbacks = callbacks;
    opts.microbatch = microbatch;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    const mw_weights w = mw_of_trainer(trainer);
    vv_trainer_free(trainer);
    mw_close(&d);
    return w;
}

static void kept_are_trained(void **unused)
{
    (void)unused;
    static seen r;
    (void)run(&r, false, 0, "start=0.3,end=0.9,interrupt=0,variant=top");
    assert_int_equal(r.batches, 6);
    assert_int_equal(r.samples, 6 * 8); /* the clock counts all */
    for (int b = 0; b < 6; b++) {
        const bool selects = b >= 2; /* 2/6 is the first share of the run above 0.3 */
        assert_int_equal(r.all[b], 8);
        assert_int_equal(r.counts[b], selects ? 4 : 8);
        assert_int_equal(r.items[b], r.counts[b]);
        double sum = 0;
        for (int64_t i = 0; i < r.counts[b]; i++) {
            int64_t row = 0;
            while (r.whole[b][row] != r.kept[b][i])
                row++;
            assert_true(row < 8);
            int higher = 0;
            for (int k = 0; k < 8; k++)
                higher += r.losses[b][k] > r.losses[b][row];
            assert_true(!selects || higher < 4);
            sum += (double)r.losses[b][row];
        }
        /* Without a batch norm the training loss of a row is that of evaluation. */
        assert_near(r.train_loss[b], sum / (double)r.counts[b], 1e-5, 1e-5);
    }
}

static void draws_in_runs(void **unused)
{
    (void)unused;
    static seen a, b, c;
    const char *settings = "start=0,end=1,interrupt=3,keep=0.4";
    const mw_weights first = run(&a, false, 0, settings);
    const mw_weights again = run(&b, false, 0, settings);
    const mw_weights parts = run(&c, false, 3, settings);
    assert_true(mw_equal(&first, &again));
    assert_near(mw_difference(&first, &parts), 0, 1e-5, 0);
    for (int i = 0; i < 6; i++) {
        /* Two batches an epoch: the third would be left whole, but there is none. */
        assert_int_equal(a.counts[i], 3);
        assert_memory_equal(a.kept[i], b.kept[i], sizeof a.kept[i]);
        assert_memory_equal(a.kept[i], c.kept[i], sizeof a.kept[i]);
        for (int64_t k = 0; k < 3; k++)
            for (int64_t j = 0; j < k; j++)
                assert_true(a.kept[i][j] != a.kept[i][k]);
    }
    run(&a, true, 0, "start=0,end=1,interrupt=2");
    for (int i = 0; i < 6; i++)
        assert_int_equal(a.counts[i], i % 2 ? 8 : 4);
    run(&a, true, 0, "start=0,end=1,keep=1");
    for (int i = 0; i < 6; i++)
        assert_int_equal(a.counts[i], 8);
}

static void variants(void **unused)
{
    (void)unused;
    static seen r;
    (void)run(&r, true, 0, "start=0,end=1,interrupt=0,precision=bf16,variant=top");
    for (int i = 0; i < 6; i++)
        assert_int_equal(r.counts[i], 4);
    (void)run(&r, true, 0, "start=0,end=1,interrupt=0,precision=fp32");
    assert_int_equal(r.counts[5], 4);
}

/* ---- the proxy ---- */

#define PROXY "start=0,end=1,interrupt=0,variant=top,proxy=mlp,proxy_width=8,proxy_interval=2"

static void proxy(void **unused)
{
    (void)unused;
    static seen plain, with;
    (void)run(&plain, false, 0, "start=0,end=1,interrupt=0,variant=top");
    const mw_weights first = run(&with, false, 0, PROXY);
    const mw_weights parts = run(&with, false, 3, PROXY);
    assert_near(mw_difference(&first, &parts), 0, 1e-5, 0);
    int same = 0;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(with.counts[i], 4);
        same += memcmp(plain.kept[i], with.kept[i], 4 * sizeof(int64_t)) == 0;
    }
    assert_true(same < 6); /* another judge */
    /* It learns: with a learning rate of 0 it would choose otherwise. */
    const mw_weights still = run(&with, false, 0, PROXY ",proxy_lr=0");
    assert_false(mw_equal(&first, &still));
}

static void resuming(void **unused)
{
    (void)unused;
    static const char *const settings[] = {
        "start=0.2,end=1,interrupt=0",
        PROXY,
        "start=0.5,end=1,interrupt=0,variant=sample,proxy=mlp,proxy_width=8",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const mw_weights whole = mw_run(true, "5ba", 0, "selective_backprop", settings[i]);
        const mw_weights parts = mw_run_resumed(true, "5ba", "selective_backprop", settings[i]);
        assert_true(mw_equal(&whole, &parts));
    }
}

/* ---- refusals ---- */

static void refuses_at_start(const char *settings, vv_status code, const char *says)
{
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, false, "4ba");
    vv_method *method = mw_method("selective_backprop", settings);
    opts.methods = (vv_method_list){&method, 1};
    assert_fails(vv_trainer_new(&trainer, &opts), code);
    assert_says(says);
    mw_close(&d);
}

static void settings(void **unused)
{
    (void)unused;
    vv_method *method;
    static const char *const bad[] = {
        "start=0.9,end=0.5", "keep=0", "keep=1.1", "scale_factor=1.5", "proxy_interval=0",
        "proxy=mlp,scale_factor=0.5", "proxy=mlp,precision=bf16",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(vv_method_make(&method, "selective_backprop", bad[i]), VV_EINVAL);
    assert_null(vv_selective_backprop(0));
    method = vv_selective_backprop(0.25);
    assert_non_null(method);
    vv_method_free(method);

    /* The net takes images of one size only: told before the first step, though the method starts
       at half of the run. */
    refuses_at_start("scale_factor=0.5", VV_ESHAPE, "chooses samples");
    refuses_at_start("proxy=mlpp", VV_ENOTFOUND, "mlp");
}

/* A mixed batch has no rows of its own. */
static void mixed(void **unused)
{
    (void)unused;
    const int64_t shape[] = {3, 2}, rows = 3, kept[] = {0, 2}, falling[] = {2, 0};
    vv_batch *batch;
    assert_ok(vv_alloc(&batch, sizeof *batch));
    batch->count = 3;
    assert_ok(vv_tensor_new(&batch->input, VV_F32, 2, shape));
    assert_ok(vv_tensor_new(&batch->target, VV_I32, 1, &rows));
    assert_ok(vv_alloc_array(&batch->sample, 3, sizeof(int64_t)));
    for (int i = 0; i < 3; i++) {
        batch->sample[i] = 10 + i;
        ((int32_t *)batch->target->data)[i] = i;
        ((float *)batch->input->data)[2 * i] = (float)i;
    }
    assert_fails(vv_batch_select(batch, falling, 2), VV_EINVAL);
    assert_ok(vv_batch_select(batch, kept, 2));
    assert_int_equal(batch->count, 2);
    assert_int_equal(batch->sample[1], 12);
    assert_int_equal(((int32_t *)batch->target->data)[1], 2);
    assert_true(((float *)batch->input->data)[2] == 2.0f);
    batch->mix_target = vv_tensor_keep(batch->target);
    assert_fails(vv_batch_select(batch, kept, 1), VV_ESTATE);
    vv_batch_free(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundaries),       cmocka_unit_test(top),
        cmocka_unit_test(draws),            cmocka_unit_test(kept_are_trained),
        cmocka_unit_test(draws_in_runs),    cmocka_unit_test(variants),
        cmocka_unit_test(proxy),            cmocka_unit_test(resuming),
        cmocka_unit_test(settings),         cmocka_unit_test(mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
