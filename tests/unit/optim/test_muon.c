/* test_muon.c - muon, normuon and cautious decay.
 *
 * What must hold: weights follow the formulas of the golden file, in batches of equal shapes as one
 * by one; directions have singular values near 1; bf16 stays near fp32; the head is the last matrix
 * also when it is frozen, and what is frozen stays; tables of embeddings are no matrices, nor is a
 * head that shares one; q, k and v in one parameter step as three; the state goes into a file and
 * out again with the same bits; a step that runs out of memory has changed nothing. */
#include "optim_test.h"

#include <vivace/memory.h>

#include "golden/muon_golden.h"

#define PARAMS 6
static const struct {
    int ndim;
    int64_t shape[4];
} shapes[PARAMS] = {
    {4, {4, 3, 2, 2}}, {2, {12, 4}}, {1, {5}}, {2, {6, 6}}, {2, {3, 5}}, {1, {3}},
};

static vv_module *tree(void)
{
    vv_module *box;
    assert_ok(vv_module_new(&box, &box_class, 0));
    for (int j = 0; j < PARAMS; j++) {
        char name[] = {'p', (char)('0' + j), 0};
        vv_param *param;
        assert_ok(vv_param_new(&param, shapes[j].ndim, shapes[j].shape));
        for (int64_t i = 0; i < param->value->count; i++)
            ((float *)param->value->data)[i] = 0.5f * noise((uint64_t)(1000 * j + i));
        assert_ok(vv_module_add_param(box, name, param));
    }
    assert_ok(vv_grads_ensure(box));
    return box;
}

static void set_grads(vv_module *box, int t)
{
    for (int j = 0; j < PARAMS; j++)
        for (int64_t i = 0; i < box_param(box, j)->value->count; i++)
            box_grad(box, j)[i] = noise((uint64_t)(100000 * (t + 1) + 1000 * j + i));
}

static void step(vv_optimizer *optimizer, vv_module *box, int t)
{
    set_grads(box, t);
    vv_optimizer_set_lr_factor(optimizer, 1.0 - t / 40.0);
    assert_ok(vv_optimizer_step(optimizer));
}

static void compare(vv_module *box, const double *want, const char *name, const char *settings,
                    int steps)
{
    for (int j = 0; j < PARAMS; j++)
        for (int64_t i = 0; i < box_param(box, j)->value->count; i++, want++) {
            const double got = (double)box_value(box, j)[i];
            if (!(fabs(got - *want) <= 2e-4 + 2e-4 * fabs(*want)))
                fail_msg("%s %s: after %d steps p%d[%d] is %.9g, expected %.9g", name, settings,
                         steps, j, (int)i, got, *want);
        }
}

static void goldens(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < sizeof muon_cases / sizeof *muon_cases; c++) {
        vv_module *box = tree();
        vv_optimizer *optimizer = optimizer_of(box, muon_cases[c].name, muon_cases[c].settings);
        int shown = 0;
        for (int t = 0; shown < MUON_SHOWN; t++) {
            step(optimizer, box, t);
            if (t + 1 == muon_steps[shown]) {
                compare(box, muon_cases[c].weights[shown], muon_cases[c].name,
                        muon_cases[c].settings, t + 1);
                shown++;
            }
        }
        vv_optimizer_free(optimizer);
        vv_module_free(box);
    }
}

/* With lr 1 and no momentum, old - new weights is the direction D: D D' is near the identity. */
static void orthogonal(void **unused)
{
    (void)unused;
    static const char *const settings[] = {
        "lr=1,momentum=0,matrices=all,aspect_scale=false",
        "lr=1,momentum=0,matrices=all,aspect_scale=false,precision=bf16",
    };
    float first[PARAMS][64];
    for (int k = 0; k < 2; k++) {
        vv_module *box = tree(), *before = tree();
        vv_optimizer *optimizer = optimizer_of(box, "muon", settings[k]);
        step(optimizer, box, 0);
        for (int j = 0; j < PARAMS; j++) {
            const int64_t count = box_param(box, j)->value->count;
            const int64_t rows = shapes[j].shape[0], columns = count / rows;
            float d[64];
            double squares = 0;
            if (shapes[j].ndim < 2)
                continue;
            for (int64_t i = 0; i < count; i++) {
                d[i] = box_value(before, j)[i] - box_value(box, j)[i];
                squares += (double)d[i] * (double)d[i];
            }
            /* Sum of squared singular values, each within [0.6, 1.3]. */
            const double least = (double)(rows < columns ? rows : columns);
            assert_true(squares > 0.36 * least && squares < 1.69 * least);
            for (int64_t i = 0; i < count && k == 1; i++)
                assert_near((double)d[i], (double)first[j][i], 0.05, 0);
            memcpy(first[j], d, (size_t)count * sizeof(float));
        }
        vv_optimizer_free(optimizer);
        vv_module_free(box);
        vv_module_free(before);
    }
}

/* A zero gradient moves nothing, and makes no NaN. */
static void zero_gradient(void **unused)
{
    (void)unused;
    vv_module *box = tree(), *before = tree();
    vv_optimizer *optimizer = optimizer_of(box, "muon", "");
    assert_ok(vv_optimizer_step(optimizer));
    for (int j = 0; j < PARAMS; j++)
        assert_memory_equal(box_value(box, j), box_value(before, j),
                            box_param(box, j)->value->bytes);
    vv_optimizer_free(optimizer);
    vv_module_free(box);
    vv_module_free(before);
}

/* p4 is the head, frozen or not: p3 never takes its place. */
static void frozen(void **unused)
{
    (void)unused;
    vv_module *box = tree(), *other = tree(), *before = tree();
    vv_optimizer *a = optimizer_of(box, "muon", ""), *b = optimizer_of(other, "muon", "");
    box_param(box, 4)->frozen = box_param(box, 0)->frozen = true;
    for (int t = 0; t < 3; t++) {
        step(a, box, t);
        step(b, other, t);
    }
    for (int j = 0; j < PARAMS; j++) {
        const size_t bytes = box_param(box, j)->value->bytes;
        if (j == 4 || j == 0) {
            assert_memory_equal(box_value(box, j), box_value(before, j), bytes);
            continue;
        }
        for (int64_t i = 0; i < box_param(box, j)->value->count; i++)
            assert_near((double)box_value(box, j)[i], (double)box_value(other, j)[i], 1e-5, 1e-5);
    }
    vv_optimizer_free(a);
    vv_optimizer_free(b);
    vv_module_free(box);
    vv_module_free(other);
    vv_module_free(before);
}

typedef struct store {
    char names[32][64];
    vv_tensor *tensors[32];
    int count;
} store;

static bool put(void *ctx, const char *name, vv_tensor *tensor)
{
    store *s = ctx;
    snprintf(s->names[s->count], sizeof s->names[0], "%s", name);
    assert_ok(vv_tensor_clone(&s->tensors[s->count++], tensor));
    return true;
}

static const vv_tensor *get(void *ctx, const char *name)
{
    const store *s = ctx;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0)
            return s->tensors[i];
    return NULL;
}

/* Of muon and of optimizers with numbers per parameter. */
static void saved_state(void **unused)
{
    (void)unused;
    static const char *const names[] = {"muon", "normuon", "schedule_free_sgd",
                                        "schedule_free_adamw"};
    for (int k = 0; k < 4; k++) {
        vv_module *box = tree(), *other = tree();
        vv_optimizer *a = optimizer_of(box, names[k], ""), *b = optimizer_of(other, names[k], "");
        store s = {.count = 0};
        for (int t = 0; t < 3; t++)
            step(a, box, t);
        assert_ok(vv_optimizer_each_state(a, box, put, &s));
        for (int j = 0; j < PARAMS; j++)
            memcpy(box_value(other, j), box_value(box, j), box_param(box, j)->value->bytes);
        assert_ok(vv_optimizer_load(b, other, get, &s));
        for (int t = 3; t < 6; t++) {
            step(a, box, t);
            step(b, other, t);
        }
        for (int j = 0; j < PARAMS; j++)
            assert_memory_equal(box_value(box, j), box_value(other, j),
                                box_param(box, j)->value->bytes);
        for (int i = 0; i < s.count; i++)
            vv_tensor_free(s.tensors[i]);
        vv_optimizer_free(a);
        vv_optimizer_free(b);
        vv_module_free(box);
        vv_module_free(other);
    }
}

static void out_of_memory(void **unused)
{
    (void)unused;
    const int64_t live = vv_memory_live_count();
    vv_module *box = tree(), *before = tree();
    uint64_t nth = 1;
    for (;; nth++) {
        vv_optimizer *optimizer = optimizer_of(box, "normuon", "split=p1");
        set_grads(box, 0);
        vv_memory_fail_at(nth);
        const vv_status status = vv_optimizer_step(optimizer);
        vv_memory_fail_at(0);
        if (status == VV_OK) {
            vv_optimizer_free(optimizer);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
        for (int j = 0; j < PARAMS; j++)
            assert_memory_equal(box_value(box, j), box_value(before, j),
                                box_param(box, j)->value->bytes);
        assert_ok(vv_optimizer_step(optimizer)); /* works once there is memory again */
        for (int j = 0; j < PARAMS; j++)
            memcpy(box_value(box, j), box_value(before, j), box_param(box, j)->value->bytes);
        vv_optimizer_free(optimizer);
    }
    assert_true(nth > 5);
    vv_module_free(box);
    vv_module_free(before);
    assert_int_equal(vv_memory_live_count(), live);
}

/* ---- a language model's tree ---- */

static vv_module *push(vv_module *net, const char *name, vv_status made, vv_module *layer)
{
    assert_ok(made);
    assert_ok(vv_module_add_child(net, name, layer));
    return layer;
}

/* Token and position tables, a packed q, k, v, a matrix, a norm, and a head that is its own, the
   token table's, or not told of. */
static vv_module *language_tree(bool tied, bool told)
{
    static const vv_language language = {.tokens = "wte", .positions = "wpe", .head = "lm_head"};
    vv_module *net, *layer, *table;
    assert_ok(vv_module_new(&net, &box_class, 0));
    vv_status made = vv_embedding_new(&layer, 11, 4);
    table = push(net, "wte", made, layer);
    made = vv_embedding_new(&layer, 5, 4);
    push(net, "wpe", made, layer);
    made = vv_linear_new(&layer, 4, 12, false);
    push(net, "c_attn", made, layer);
    made = vv_linear_new(&layer, 4, 6, false);
    push(net, "c_fc", made, layer);
    made = vv_layer_norm_new(&layer, 4, 1e-5);
    push(net, "ln", made, layer);
    if (tied) {
        assert_ok(vv_module_new(&layer, &box_class, 0));
        assert_ok(vv_module_add_param(layer, "weight",
                                      vv_param_keep(vv_module_param(table, "weight"))));
    } else {
        made = vv_linear_new(&layer, 4, 11, false);
        assert_ok(made);
    }
    push(net, "lm_head", VV_OK, layer);
    if (told)
        vv_module_set_language(net, &language);
    assert_ok(vv_grads_ensure(net));
    return net;
}

static bool ones(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)ctx, (void)owner;
    vv_rng rng = vv_rng_at(9, path, 0);
    for (int64_t i = 0; i < param->grad->count; i++)
        ((float *)param->grad->data)[i] = (float)vv_rng_normal(&rng);
    return true;
}

/* Which states a parameter has after a step: matrices no squares, the others no rows. */
static bool has_state(vv_optimizer *optimizer, vv_module *net, const char *name)
{
    store s = {.count = 0};
    assert_ok(vv_optimizer_each_state(optimizer, net, put, &s));
    const bool there = get(&s, name) != NULL;
    for (int i = 0; i < s.count; i++)
        vv_tensor_free(s.tensors[i]);
    return there;
}

/* Tables are never matrices, whatever `matrices` says, nor is a head that shares one; a head of its
   own is none for `hidden`; with a tied head the last matrix of the blocks stays a matrix. */
static void roles(void **unused)
{
    (void)unused;
    static const char *const names[] = {"wte", "wpe", "c_attn", "c_fc", "lm_head"};
    static const struct {
        bool tied, told;
        const char *settings;
        unsigned matrices; /* bits of names */
    } cases[] = {
        {false, true, "", 0xc},          {true, true, "", 0xc},
        {false, false, "", 0xc},         {true, true, "matrices=all", 0xc},
        {false, true, "matrices=all", 0x1c}, {false, true, "others=c_fc.*", 0x4},
        {false, true, "matrices=filters", 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        vv_module *net = language_tree(cases[c].tied, cases[c].told);
        vv_optimizer *optimizer = optimizer_of(net, "normuon", cases[c].settings);
        vv_module_each_param(net, ones, NULL);
        assert_ok(vv_optimizer_step(optimizer));
        for (int i = 0; i < (cases[c].tied ? 4 : 5); i++) {
            char rows[64], squares[64];
            snprintf(rows, sizeof rows, "%s.weight.row_avg_sq", names[i]);
            snprintf(squares, sizeof squares, "%s.weight.exp_avg_sq", names[i]);
            const bool matrix = cases[c].matrices >> i & 1;
            if (has_state(optimizer, net, rows) != matrix ||
                has_state(optimizer, net, squares) == matrix)
                fail_msg("case %d: %s is %sa matrix", (int)c, names[i], matrix ? "not " : "");
        }
        assert_true(has_state(optimizer, net, "ln.weight.exp_avg_sq"));
        vv_optimizer_free(optimizer);
        vv_module_free(net);
    }
}

/* q, k and v in one parameter step as three parameters do, also where k and v are smaller. */
static void split_parameters(void **unused)
{
    (void)unused;
    static const int64_t rows[][3] = {{4, 4, 4}, {4, 2, 2}, {4, 1, 1}};
    static const char *const optimizers[] = {"muon", "normuon"};
    for (size_t c = 0; c < 6; c++) {
        const int64_t *part = rows[c / 2], width = 4;
        vv_module *one, *three;
        assert_ok(vv_module_new(&one, &box_class, 0));
        assert_ok(vv_module_new(&three, &box_class, 0));
        for (int i = 0; i < 4; i++) {
            const char name[] = {'p', (char)('0' + i), 0};
            const int64_t all = part[0] + part[1] + part[2];
            const int64_t shape[2] = {i == 0 ? all : i == 3 ? 3 : width, width};
            const int64_t own[2] = {i < 3 ? part[i] : 3, width};
            vv_param *a, *b; /* the last ones are heads */
            assert_ok(vv_param_new(&b, 2, own));
            assert_ok(vv_module_add_param(three, name, b));
            if (i == 1 || i == 2)
                continue;
            assert_ok(vv_param_new(&a, 2, shape));
            assert_ok(vv_module_add_param(one, name, a));
        }
        vv_optimizer *a = optimizer_of(one, optimizers[c % 2], "split=p0,lr=0.1"),
                     *b = optimizer_of(three, optimizers[c % 2], "split=,lr=0.1");
        assert_ok(vv_grads_ensure(one));
        assert_ok(vv_grads_ensure(three));
        for (int t = 0; t < 3; t++) {
            int64_t at = 0;
            for (int64_t i = 0; i < box_param(one, 0)->value->count; i++)
                box_grad(one, 0)[i] = noise((uint64_t)(1000 * t + i));
            for (int i = 0; i < 3; i++)
                for (int64_t k = 0; k < part[i] * width; k++)
                    box_grad(three, i)[k] = noise((uint64_t)(1000 * t + at++));
            assert_ok(vv_optimizer_step(a));
            assert_ok(vv_optimizer_step(b));
        }
        int64_t at = 0;
        for (int i = 0; i < 3; i++)
            for (int64_t k = 0; k < part[i] * width; k++)
                assert_near((double)box_value(one, 0)[at++], (double)box_value(three, i)[k], 1e-5,
                            1e-5);
        vv_optimizer_free(a);
        vv_optimizer_free(b);
        vv_module_free(one);
        vv_module_free(three);
    }
}

/* Decay goes on only where the step goes towards 0 too: weights 1 and -1, gradients 1. */
static void cautious_decay(void **unused)
{
    (void)unused;
    static const char *const names[] = {"adamw", "decoupled_adamw"};
    for (int k = 0; k < 4; k++) {
        vv_module *box = box_new(1, 2);
        vv_optimizer *optimizer =
            optimizer_of(box, names[k / 2], k % 2 ? "lr=0.1,weight_decay=0.5,cautious=true"
                                                  : "lr=0.1,weight_decay=0.5");
        assert_ok(vv_grads_ensure(box));
        box_value(box, 0)[0] = box_grad(box, 0)[0] = box_grad(box, 0)[1] = 1.0f;
        box_value(box, 0)[1] = -1.0f;
        const double decay = k / 2 ? 0.5 : 0.05;
        assert_ok(vv_optimizer_step(optimizer));
        assert_near((double)box_value(box, 0)[0], 1.0 - decay - 0.1, 1e-6, 0);
        assert_near((double)box_value(box, 0)[1], k % 2 ? -1.1 : -1.0 + decay - 0.1, 1e-6, 0);
        vv_optimizer_free(optimizer);
        vv_module_free(box);
    }
}

static void refusals(void **unused)
{
    (void)unused;
    const vv_optimizer_desc *desc = vv_optimizer_find("muon");
    vv_muon_opts opts;
    vv_optimizer *optimizer;
    vv_module *box = tree();
    assert_ok(vv_opts_init(&desc->desc, &opts));
    opts.beta2 = 1.0;
    assert_fails(vv_optimizer_new(&optimizer, desc, &opts, box), VV_EINVAL);
    assert_says("beta2");
    opts.beta2 = 0.9;
    opts.row_beta = 1.0;
    assert_fails(vv_optimizer_new(&optimizer, desc, &opts, box), VV_EINVAL);
    opts.row_beta = 0.9;
    opts.ns_steps = 0;
    assert_fails(vv_optimizer_new(&optimizer, desc, &opts, box), VV_EINVAL);
    assert_says("ns_steps");
    vv_optimizer_desc broken = *desc;
    broken.scalar_count = 5;
    assert_fails(vv_optimizer_new(&optimizer, &broken, NULL, box), VV_EINVAL);
    vv_opts_fini(&desc->desc, &opts);
    vv_module_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens),     cmocka_unit_test(orthogonal),
        cmocka_unit_test(zero_gradient), cmocka_unit_test(frozen),
        cmocka_unit_test(saved_state), cmocka_unit_test(out_of_memory),
        cmocka_unit_test(refusals),        cmocka_unit_test(roles),
        cmocka_unit_test(split_parameters), cmocka_unit_test(cautious_decay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
