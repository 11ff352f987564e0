/* test_optim_rules.c - what an optimizer promises around the step.
 *
 * Weight decay means what its name says (fault case B27). Frozen parameters stay bit-equal and go
 * on where they were when thawed (B19). Groups split, and after surgery the set of parameters is
 * the model's, with the state of untouched ones (B22). State saved and loaded continues
 * bit-equally. Clipping by the norm of the whole gradient (B4). A failed allocation changes
 * nothing. */
#include "optim_test.h"

static void test_decay_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double full, half; /* from weight 1 after one step at all and at half of the initial rate */
    } cases[] = {
        {"sgd", 0.999, 0.9995},
        {"adamw", 0.999, 0.9995},
        {"decoupled_sgdw", 0.99, 0.995},
        {"decoupled_adamw", 0.99, 0.995},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        vv_module *box = box_new(1, 1);
        vv_optimizer *optimizer = optimizer_of(box, cases[c].name, "lr=0.1,weight_decay=0.01");
        assert_ok(vv_grads_ensure(box));
        box_value(box, 0)[0] = 1.0f;
        assert_ok(vv_optimizer_step(optimizer));
        assert_near((double)box_value(box, 0)[0], cases[c].full, 1e-6, 0);
        box_value(box, 0)[0] = 1.0f;
        vv_optimizer_set_lr_factor(optimizer, 0.5);
        assert_near(vv_optimizer_lr(optimizer, 0), 0.05, 1e-15, 0);
        assert_ok(vv_optimizer_step(optimizer));
        assert_near((double)box_value(box, 0)[0], cases[c].half, 1e-6, 0);
        vv_optimizer_free(optimizer);
        vv_module_free(box);
    }
}

static void test_decay_over_steps(void **state)
{
    (void)state;
    const struct {
        const char *name;
        double left;
    } cases[] = {{"sgd", 0.999}, {"decoupled_sgdw", 4.3e-5}};
    for (int c = 0; c < 2; c++) {
        vv_module *box = box_new(1, 1);
        vv_optimizer *optimizer = optimizer_of(box, cases[c].name, "lr=1e-4,weight_decay=0.01");
        assert_ok(vv_grads_ensure(box));
        box_value(box, 0)[0] = 1.0f;
        for (int t = 0; t < 1000; t++)
            assert_ok(vv_optimizer_step(optimizer));
        assert_near((double)box_value(box, 0)[0], cases[c].left, 1e-6, 1e-2);
        vv_optimizer_free(optimizer);
        vv_module_free(box);
    }
}

/* ---- B19 ---- */
static void test_frozen(void **state)
{
    (void)state;
    const char *settings[] = {"lr=0.1,momentum=0.9,weight_decay=0.1", "lr=0.1,weight_decay=0.1"};
    for (int i = 0; vv_optimizer_table()[i]; i++) {
        const char *name = vv_optimizer_table()[i]->desc.name;
        vv_module *box = box_new(2, 3);
        vv_optimizer *optimizer = optimizer_of(box, name, settings[strstr(name, "sgd") == NULL]);
        assert_ok(vv_grads_ensure(box));
        float *w = box_value(box, 0), *free_w = box_value(box, 1);
        for (int k = 0; k < 3; k++)
            box_grad(box, 0)[k] = box_grad(box, 1)[k] = 1.0f;
        assert_ok(vv_optimizer_step(optimizer)); /* the buffers are now in motion */
        for (int k = 0; k < 3; k++)
            w[k] = free_w[k] = 1.0f;
        box_param(box, 0)->frozen = true;
        for (int t = 0; t < 100; t++)
            assert_ok(vv_optimizer_step(optimizer));
        float one = 1.0f;
        assert_memory_equal(&w[0], &one, sizeof one);
        assert_memory_equal(&w[2], &one, sizeof one);
        assert_true(free_w[0] != 1.0f);
        /* thawed, it goes on as if the steps between had not been: like a twin that rested */
        vv_module *twin = box_new(2, 3);
        vv_optimizer *rested = optimizer_of(twin, name, settings[strstr(name, "sgd") == NULL]);
        assert_ok(vv_grads_ensure(twin));
        for (int k = 0; k < 3; k++)
            box_grad(twin, 0)[k] = 1.0f;
        assert_ok(vv_optimizer_step(rested));
        for (int k = 0; k < 3; k++)
            box_value(twin, 0)[k] = 1.0f;
        box_param(box, 0)->frozen = false;
        assert_ok(vv_optimizer_step(optimizer));
        assert_ok(vv_optimizer_step(rested));
        assert_true(w[0] != 1.0f);
        assert_memory_equal(w, box_value(twin, 0), 3 * sizeof *w);
        vv_optimizer_free(rested);
        vv_optimizer_free(optimizer);
        vv_module_free(twin);
        vv_module_free(box);
    }
}

static void test_no_grad(void **state)
{
    (void)state;
    vv_module *box = box_new(2, 3);
    vv_optimizer *optimizer = optimizer_of(box, "decoupled_sgdw", "lr=0.1,weight_decay=0.1");
    box_value(box, 0)[0] = 1.0f;
    assert_ok(vv_optimizer_step(optimizer)); /* no gradient anywhere */
    assert_true(box_value(box, 0)[0] == 1.0f);
    box_param(box, 0)->frozen = true;
    assert_ok(vv_grads_ensure(box));
    assert_null(box_param(box, 0)->grad);
    assert_non_null(box_param(box, 1)->grad);
    vv_optimizer_free(optimizer);
    vv_module_free(box);
}

/* ---- groups ---- */
static bool match_name(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)owner, (void)param;
    return strstr(path, ctx) != NULL;
}

static void test_groups(void **state)
{
    (void)state;
    vv_module *box = box_new(3, 2);
    vv_optimizer *optimizer = optimizer_of(box, "decoupled_sgdw", "lr=0.1,weight_decay=0.01");
    assert_int_equal(vv_optimizer_param_count(optimizer), 3);
    assert_int_equal(vv_optimizer_group_count(optimizer), 1);
    const vv_sgd_opts still = {.lr = 0.2};
    char p1[] = "p1", none[] = "bias";
    assert_ok(vv_optimizer_split(optimizer, box, match_name, p1, &still));
    assert_int_equal(vv_optimizer_group_count(optimizer), 2);
    assert_near(vv_optimizer_lr(optimizer, 1), 0.2, 0, 0);
    assert_true(isnan(vv_optimizer_lr(optimizer, 2)));
    assert_fails(vv_optimizer_split(optimizer, box, match_name, none, &still), VV_ENOTFOUND);
    assert_says("no parameter matches");
    assert_int_equal(vv_optimizer_group_count(optimizer), 2);
    assert_ok(vv_grads_ensure(box));
    for (int p = 0; p < 3; p++) {
        box_value(box, p)[0] = 1.0f;
        box_grad(box, p)[1] = 1.0f;
    }
    assert_ok(vv_optimizer_step(optimizer));
    const double decayed[] = {0.99, 1.0, 0.99}, moved[] = {-0.1, -0.2, -0.1};
    for (int p = 0; p < 3; p++) {
        assert_near((double)box_value(box, p)[0], decayed[p], 1e-6, 0);
        assert_near((double)box_value(box, p)[1], moved[p], 1e-6, 0);
    }
    vv_optimizer_free(optimizer);
    vv_module_free(box);
}

static void test_bad_options(void **state)
{
    (void)state;
    vv_module *box = box_new(1, 2), *empty = box_new(0, 0);
    vv_optimizer *optimizer = NULL;
    const vv_sgd_opts dampened = {.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .nesterov = true};
    const vv_sgd_opts negative = {.lr = -0.1};
    const vv_adam_opts full = {.lr = 0.1, .beta1 = 0.9, .beta2 = 1.0};
    assert_fails(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), &dampened, box), VV_EINVAL);
    assert_says("nesterov");
    assert_null(optimizer);
    assert_fails(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), &negative, box), VV_EINVAL);
    assert_says("lr");
    assert_fails(vv_optimizer_new(&optimizer, vv_optimizer_find("adam"), &full, box), VV_EINVAL);
    assert_says("beta2");
    assert_fails(vv_optimizer_new(&optimizer, vv_optimizer_find("adam"), NULL, empty), VV_EINVAL);
    assert_says("no parameters");
    assert_fails(vv_optimizer_new(&optimizer, NULL, NULL, box), VV_EINVAL);
    assert_null(vv_optimizer_find("adamm"));
    vv_optimizer_free(NULL);
    vv_module_free(empty);
    vv_module_free(box);
}

static void test_wrong_gradient(void **state)
{
    (void)state;
    vv_module *box = box_new(1, 4);
    vv_optimizer *optimizer = optimizer_of(box, "sgd", "lr=0.1");
    const int64_t other = 5;
    assert_ok(vv_tensor_new(&box_param(box, 0)->grad, VV_F32, 1, &other));
    assert_fails(vv_optimizer_step(optimizer), VV_ESHAPE);
    assert_says("[5]");
    vv_optimizer_free(optimizer);
    vv_module_free(box);
}

/* ---- surgery ---- */
static vv_module *tree_new(void) /* children a and b with two vectors each */
{
    vv_module *root = NULL;
    assert_ok(vv_module_new(&root, &box_class, 0));
    assert_ok(vv_module_add_child(root, "a", box_new(2, 3)));
    assert_ok(vv_module_add_child(root, "b", box_new(2, 3)));
    return root;
}

static void fill_grads(vv_module *box, float value)
{
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < 3; i++)
            box_grad(box, p)[i] = value;
}

static void test_sync(void **state)
{
    (void)state;
    vv_module *root = tree_new();
    vv_optimizer *optimizer = optimizer_of(root, "sgd", "lr=0.1,momentum=0.9");
    assert_ok(vv_grads_ensure(root));
    fill_grads(vv_module_find(root, "a"), 1.0f);
    fill_grads(vv_module_find(root, "b"), 1.0f);
    assert_ok(vv_optimizer_step(optimizer));
    assert_ok(vv_optimizer_check(optimizer, root));

    assert_ok(vv_module_set_child(root, 1, box_new(2, 3)));
    assert_fails(vv_optimizer_check(optimizer, root), VV_EINTERNAL);
    assert_says("b.p0");
    assert_ok(vv_optimizer_sync(optimizer, root));
    assert_ok(vv_optimizer_check(optimizer, root));
    assert_int_equal(vv_optimizer_param_count(optimizer), 4);

    /* untouched: velocity 1 goes on to 1.9; new: starts at 1 */
    vv_module *a = vv_module_find(root, "a"), *b = vv_module_find(root, "b");
    assert_ok(vv_grads_ensure(root));
    fill_grads(a, 1.0f);
    fill_grads(b, 1.0f);
    assert_ok(vv_optimizer_step(optimizer));
    assert_near((double)box_value(a, 0)[0], -0.1 - 0.19, 1e-6, 0);
    assert_near((double)box_value(b, 0)[0], -0.1, 1e-6, 0);

    /* a parameter that is gone and not replaced */
    assert_ok(vv_module_set_child(root, 1, box_new(0, 0)));
    assert_fails(vv_optimizer_check(optimizer, root), VV_EINTERNAL);
    assert_says("2 parameters");
    assert_ok(vv_optimizer_sync(optimizer, root));
    assert_int_equal(vv_optimizer_param_count(optimizer), 2);
    vv_optimizer_free(optimizer);
    vv_module_free(root);
}

static void test_sync_groups(void **state)
{
    (void)state;
    vv_module *root = tree_new();
    vv_optimizer *optimizer = optimizer_of(root, "sgd", "lr=0.1");
    const vv_sgd_opts fast = {.lr = 1.0};
    char in_b[] = "b.", first[] = "b.p0";
    assert_ok(vv_optimizer_split(optimizer, root, match_name, in_b, &fast));

    /* removed from one group: the new ones join it */
    assert_ok(vv_module_set_child(root, 1, box_new(2, 3)));
    assert_ok(vv_optimizer_sync(optimizer, root));
    vv_module *b = vv_module_find(root, "b");
    assert_ok(vv_grads_ensure(root));
    fill_grads(b, 1.0f);
    assert_ok(vv_optimizer_step(optimizer));
    assert_near((double)box_value(b, 1)[2], -1.0, 1e-6, 0);

    /* nothing removed */
    assert_ok(vv_module_add_child(root, "c", box_new(1, 3)));
    assert_fails(vv_optimizer_sync(optimizer, root), VV_ESTATE);
    assert_says("none removed");
    assert_int_equal(vv_optimizer_param_count(optimizer), 4);
    assert_ok(vv_module_set_child(root, 2, box_new(0, 0)));
    assert_ok(vv_optimizer_check(optimizer, root));

    /* removed from two groups */
    assert_ok(vv_optimizer_split(optimizer, root, match_name, first, NULL));
    assert_ok(vv_module_set_child(root, 1, box_new(2, 3)));
    assert_fails(vv_optimizer_sync(optimizer, root), VV_ESTATE);
    assert_says("groups 2 and 1");
    assert_int_equal(vv_optimizer_param_count(optimizer), 4);
    vv_optimizer_free(optimizer);
    vv_module_free(root);
}

/* ---- state ---- */
#define MAX_SAVED 32
typedef struct store {
    char names[MAX_SAVED][48];
    vv_tensor *tensors[MAX_SAVED];
    int count;
} store;

static bool save(void *ctx, const char *name, vv_tensor *tensor)
{
    store *s = ctx;
    assert_true(s->count < MAX_SAVED);
    snprintf(s->names[s->count], sizeof s->names[0], "%s", name);
    assert_ok(vv_tensor_clone(&s->tensors[s->count++], tensor));
    return true;
}

static const vv_tensor *find(void *ctx, const char *name)
{
    const store *s = ctx;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0)
            return s->tensors[i];
    return NULL;
}

static void store_fini(store *s)
{
    for (int i = 0; i < s->count; i++)
        vv_tensor_free(s->tensors[i]);
}

static void train(vv_optimizer *optimizer, vv_module *box, int from, int to)
{
    assert_ok(vv_grads_ensure(box));
    for (int t = from; t < to; t++) {
        vv_optimizer_set_lr_factor(optimizer, 1.0 - t / 20.0);
        for (int p = 0; p < 2; p++)
            for (int i = 0; i < 3; i++)
                box_grad(box, p)[i] = noise((uint64_t)(t * 6 + p * 3 + i));
        assert_ok(vv_optimizer_step(optimizer));
    }
}

/* Save after 5 steps, load into a fresh optimizer, 5 more: the bits of 10 in a row. */
static void test_state(void **state)
{
    (void)state;
    const char *settings[] = {"lr=0.1,momentum=0.9,weight_decay=0.01",
                              "lr=0.1,amsgrad=true,weight_decay=0.01",
                              "lr=0.1,weight_decay=0.01"};
    for (int i = 0; vv_optimizer_table()[i]; i++) {
        const vv_desc *desc = &vv_optimizer_table()[i]->desc;
        const char *name = desc->name;
        const bool adam = vv_desc_field(desc, "amsgrad"), sgd = strstr(name, "sgd") == name;
        const bool sgdw = strcmp(name, "decoupled_sgdw") == 0;
        const char *with = settings[adam ? 1 : vv_desc_field(desc, "momentum") ? 0 : 2];
        vv_module *box = box_new(2, 3), *copy = box_new(2, 3);
        vv_optimizer *straight = optimizer_of(box, name, with);
        vv_optimizer *resumed = optimizer_of(copy, name, with);
        store saved = {0};
        train(straight, box, 0, 5);
        assert_ok(vv_optimizer_each_state(straight, box, save, &saved));
        if (adam || sgd || sgdw) {
            assert_int_equal(saved.count, adam ? 8 : 4);
            assert_non_null(find(&saved, adam ? "p1.max_exp_avg_sq" : "p1.momentum_buffer"));
        }
        assert_near(vv_tensor_get(find(&saved, "p0.step"), 0), 5, 0, 0);
        for (int p = 0; p < 2; p++)
            memcpy(box_value(copy, p), box_value(box, p), 3 * sizeof(float));
        assert_ok(vv_optimizer_load(resumed, copy, find, &saved));
        train(straight, box, 5, 10);
        train(resumed, copy, 5, 10);
        for (int p = 0; p < 2; p++)
            assert_memory_equal(box_value(copy, p), box_value(box, p), 3 * sizeof(float));
        store_fini(&saved);
        vv_optimizer_free(resumed);
        vv_optimizer_free(straight);
        vv_module_free(copy);
        vv_module_free(box);
    }
}

/* What does not fit is refused with its name, and nothing has changed. */
static void test_bad_state(void **state)
{
    (void)state;
    vv_module *box = box_new(2, 3);
    vv_optimizer *optimizer = optimizer_of(box, "adam", "lr=0.1");
    store saved = {0};
    train(optimizer, box, 0, 2);
    assert_ok(vv_optimizer_each_state(optimizer, box, save, &saved));
    train(optimizer, box, 2, 3);

    snprintf(saved.names[1], sizeof saved.names[1], "elsewhere");
    assert_fails(vv_optimizer_load(optimizer, box, find, &saved), VV_ENOTFOUND);
    assert_says("p0.exp_avg_sq");
    snprintf(saved.names[1], sizeof saved.names[1], "p0.exp_avg_sq");
    const int64_t other = 4;
    vv_tensor *kept = saved.tensors[3];
    assert_ok(vv_tensor_new(&saved.tensors[3], VV_F32, 1, &other));
    assert_fails(vv_optimizer_load(optimizer, box, find, &saved), VV_ESHAPE);
    assert_says("[4]");
    vv_tensor_free(saved.tensors[3]);
    saved.tensors[3] = kept;
    vv_tensor_set(saved.tensors[5], 0, -1);
    assert_fails(vv_optimizer_load(optimizer, box, find, &saved), VV_EFORMAT);
    assert_says("p1.step");

    store now = {0};
    assert_ok(vv_optimizer_each_state(optimizer, box, save, &now));
    assert_near(vv_tensor_get(find(&now, "p0.step"), 0), 3, 0, 0);
    store_fini(&now);
    store_fini(&saved);
    vv_optimizer_free(optimizer);
    vv_module_free(box);
}

/* ---- B4: clipping by the norm of the whole gradient ---- */
static void test_clip(void **state)
{
    (void)state;
    vv_module *box = box_new(3, 1);
    double norm = -1.0;
    assert_ok(vv_grads_ensure(box));
    assert_ok(vv_grads_norm(box, &norm));
    assert_near(norm, 0.0, 0, 0);
    box_grad(box, 0)[0] = 3.0f;
    box_grad(box, 1)[0] = 4.0f;
    box_grad(box, 2)[0] = 12.0f;
    box_param(box, 2)->frozen = true; /* takes no part */
    assert_ok(vv_grads_norm(box, &norm));
    assert_near(norm, 5.0, 1e-12, 0);
    vv_grads_scale(box, 1.0 / norm);
    assert_near((double)box_grad(box, 0)[0], 0.6, 1e-6, 0);
    assert_near((double)box_grad(box, 1)[0], 0.8, 1e-6, 0);
    assert_near((double)box_grad(box, 2)[0], 12.0, 0, 0);
    vv_module_free(box);

    /* many pieces, and squares that f32 could not add up */
    const int64_t size = 9000000;
    box = box_new(1, size);
    assert_ok(vv_grads_ensure(box));
    for (int64_t i = 0; i < size; i++)
        box_grad(box, 0)[i] = i == 0 ? 1e4f : 1e-2f;
    assert_ok(vv_grads_norm(box, &norm));
    double small = (double)1e-2f;
    assert_near(norm, sqrt(1e8 + (double)(size - 1) * small * small), 0, 1e-12);
    vv_module_free(box);
}

/* ---- out of memory ---- */
static vv_status life(vv_module *box, store *saved)
{
    vv_optimizer *optimizer = NULL;
    vv_status status = VV_OK;
    const vv_adam_opts opts = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-8, .amsgrad = true};
    char p1[] = "p1";
    VV_GO(vv_optimizer_new(&optimizer, vv_optimizer_find("adam"), &opts, box));
    VV_GO(vv_optimizer_split(optimizer, box, match_name, p1, NULL));
    VV_GO(vv_grads_ensure(box));
    VV_GO(vv_optimizer_step(optimizer));
    VV_GO(vv_optimizer_load(optimizer, box, find, saved));
    VV_GO(vv_optimizer_sync(optimizer, box));
    VV_GO(vv_optimizer_check(optimizer, box));
out:
    vv_optimizer_free(optimizer);
    return status;
}

static bool count_only(void *ctx, const char *name, vv_tensor *tensor)
{
    (void)name, (void)tensor;
    ++*(int *)ctx;
    return true;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    vv_module *source = box_new(2, 3);
    vv_optimizer *optimizer = optimizer_of(source, "adam", "lr=0.1,amsgrad=true");
    store saved = {0};
    train(optimizer, source, 0, 2);
    assert_ok(vv_optimizer_each_state(optimizer, source, save, &saved));

    bool survived = false;
    for (uint64_t nth = 1; !survived; nth++) {
        assert_true(nth < 1000);
        vv_module *box = box_new(2, 3);
        int64_t live = vv_memory_live_count();
        vv_error_clear();
        vv_memory_fail_at(nth);
        vv_status status = life(box, &saved);
        vv_memory_fail_at(0);
        survived = status == VV_OK;
        if (!survived) {
            assert_int_equal(status, VV_ENOMEM);
            assert_true(vv_error()[0] != 0);
        }
        for (int p = 0; p < 2; p++) {
            vv_tensor_free(box_param(box, p)->grad);
            box_param(box, p)->grad = NULL;
        }
        assert_int_equal(vv_memory_live_count(), live);
        vv_module_free(box);
    }
    for (uint64_t nth = 1;; nth++) { /* each_state on its own */
        int count = 0;
        int64_t live = vv_memory_live_count();
        vv_memory_fail_at(nth);
        vv_status status = vv_optimizer_each_state(optimizer, source, count_only, &count);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
    }
    store_fini(&saved);
    vv_optimizer_free(optimizer);
    vv_module_free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decay_meaning),  cmocka_unit_test(test_decay_over_steps),
        cmocka_unit_test(test_frozen),         cmocka_unit_test(test_no_grad),
        cmocka_unit_test(test_groups),         cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_wrong_gradient), cmocka_unit_test(test_sync),
        cmocka_unit_test(test_sync_groups),    cmocka_unit_test(test_state),
        cmocka_unit_test(test_bad_state),      cmocka_unit_test(test_clip),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("optim_rules", tests, NULL, NULL);
}
