/* test_soap.c - soap.
 *
 * What must hold: weights follow the formulas of the golden file, rotated on one side or both; the
 * first step moves no matrix; a large side starts from a basis that is orthogonal and near the
 * eigenvectors; the state goes into a file and out again with the same bits; a step that runs out
 * of memory has changed nothing. */
#include "optim_test.h"

#include <vivace/memory.h>

#include "golden/soap_golden.h"

#define PARAMS 5
static const struct {
    int ndim;
    int64_t shape[4];
} shapes[PARAMS] = {{2, {5, 5}}, {2, {3, 8}}, {2, {8, 3}}, {4, {2, 2, 2, 2}}, {1, {4}}};

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

static void goldens(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < sizeof soap_cases / sizeof *soap_cases; c++) {
        vv_module *box = tree();
        vv_optimizer *optimizer = optimizer_of(box, "soap", soap_cases[c].settings);
        for (int t = 0, shown = 0; shown < SOAP_SHOWN; t++) {
            step(optimizer, box, t);
            if (t + 1 != soap_steps[shown])
                continue;
            const double *want = soap_cases[c].weights[shown++];
            for (int j = 0; j < PARAMS; j++)
                for (int64_t i = 0; i < box_param(box, j)->value->count; i++, want++)
                    if (!(fabs((double)box_value(box, j)[i] - *want) <= 3e-4))
                        fail_msg("soap %s: after %d steps p%d[%d] is %.9g, expected %.9g",
                                 soap_cases[c].settings, t + 1, j, (int)i,
                                 (double)box_value(box, j)[i], *want);
        }
        vv_optimizer_free(optimizer);
        vv_module_free(box);
    }
}

static void first_step(void **unused)
{
    (void)unused;
    vv_module *box = tree(), *before = tree();
    vv_optimizer *optimizer = optimizer_of(box, "soap", "lr=1");
    step(optimizer, box, 0);
    for (int j = 0; j < PARAMS; j++) {
        const bool same = memcmp(box_value(box, j), box_value(before, j),
                                 box_param(box, j)->value->bytes) == 0;
        assert_true(same == (shapes[j].ndim >= 2));
    }
    step(optimizer, box, 1);
    for (int j = 0; j < PARAMS; j++)
        assert_memory_not_equal(box_value(box, j), box_value(before, j),
                                box_param(box, j)->value->bytes);
    vv_optimizer_free(optimizer);
    vv_module_free(box);
    vv_module_free(before);
}

typedef struct store {
    char names[64][64];
    vv_tensor *tensors[64];
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

static void store_free(store *s)
{
    for (int i = 0; i < s->count; i++)
        vv_tensor_free(s->tensors[i]);
}

/* 150 columns: more than are decomposed exactly. */
static void large_side(void **unused)
{
    (void)unused;
    enum { N = 150, M = 400 };
    const int64_t shape[2] = {N, M};
    vv_module *box;
    vv_param *param;
    store s = {.count = 0};
    assert_ok(vv_module_new(&box, &box_class, 0));
    assert_ok(vv_param_new(&param, 2, shape));
    assert_ok(vv_module_add_param(box, "p0", param));
    assert_ok(vv_grads_ensure(box));
    for (int i = 0; i < N * M; i++) /* singular values that fall off: row i times 0.9^i */
        box_grad(box, 0)[i] = noise((uint64_t)i) * (float)pow(0.9, (double)(i / M));
    vv_optimizer *optimizer = optimizer_of(box, "soap", "max_size=200");
    assert_ok(vv_optimizer_step(optimizer));
    assert_ok(vv_optimizer_each_state(optimizer, box, put, &s));
    const float *basis = get(&s, "p0.left_basis")->data, *left = get(&s, "p0.left")->data;
    assert_null(get(&s, "p0.right"));
    double turned[2][2] = {{0}};
    for (int a = 0; a < N; a += 7)
        for (int b = 0; b < N; b += 11) {
            double dot = 0.0;
            for (int r = 0; r < N; r++)
                dot += (double)basis[r * N + a] * (double)basis[r * N + b];
            assert_near(dot, a == b, 1e-5, 0);
        }
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++)
            for (int r = 0; r < N; r++)
                for (int c = 0; c < N; c++)
                    turned[a][b] += (double)basis[r * N + a] * (double)left[r * N + c] *
                                    (double)basis[c * N + b];
    assert_true(turned[0][0] > turned[1][1]);
    assert_true(fabs(turned[0][1]) < 0.1 * turned[0][0]);
    store_free(&s);
    vv_optimizer_free(optimizer);
    vv_module_free(box);
}

/* Saved between two renewals of the bases. */
static void saved_state(void **unused)
{
    (void)unused;
    vv_module *box = tree(), *other = tree();
    vv_optimizer *a = optimizer_of(box, "soap", "frequency=2"),
                 *b = optimizer_of(other, "soap", "frequency=2");
    store s = {.count = 0};
    for (int t = 0; t < 4; t++)
        step(a, box, t);
    assert_ok(vv_optimizer_each_state(a, box, put, &s));
    for (int j = 0; j < PARAMS; j++)
        memcpy(box_value(other, j), box_value(box, j), box_param(box, j)->value->bytes);
    assert_ok(vv_optimizer_load(b, other, get, &s));
    for (int t = 4; t < 8; t++) {
        step(a, box, t);
        step(b, other, t);
    }
    for (int j = 0; j < PARAMS; j++)
        assert_memory_equal(box_value(box, j), box_value(other, j),
                            box_param(box, j)->value->bytes);
    store_free(&s);
    vv_optimizer_free(a);
    vv_optimizer_free(b);
    vv_module_free(box);
    vv_module_free(other);
}

/* At each of the first steps, with new bases in the last. */
static void out_of_memory(void **unused)
{
    (void)unused;
    const int64_t live = vv_memory_live_count();
    vv_module *box = tree(), *before = tree();
    for (int at = 0; at < 3; at++)
        for (uint64_t nth = 1;; nth++) {
            vv_optimizer *optimizer = optimizer_of(box, "soap", "frequency=1");
            for (int j = 0; j < PARAMS; j++)
                memcpy(box_value(box, j), box_value(before, j), box_param(box, j)->value->bytes);
            for (int t = 0; t < at; t++)
                step(optimizer, box, t);
            set_grads(box, at);
            vv_module *kept = tree();
            for (int j = 0; j < PARAMS; j++)
                memcpy(box_value(kept, j), box_value(box, j), box_param(box, j)->value->bytes);
            store a = {.count = 0}, b = {.count = 0};
            assert_ok(vv_optimizer_each_state(optimizer, box, put, &a));
            vv_memory_fail_at(nth);
            const vv_status status = vv_optimizer_step(optimizer);
            vv_memory_fail_at(0);
            if (status != VV_OK) {
                assert_int_equal(status, VV_ENOMEM);
                assert_ok(vv_optimizer_each_state(optimizer, box, put, &b));
                for (int i = 0; i < a.count; i++)
                    assert_memory_equal(a.tensors[i]->data, get(&b, a.names[i])->data,
                                        a.tensors[i]->bytes);
                for (int j = 0; j < PARAMS; j++)
                    assert_memory_equal(box_value(box, j), box_value(kept, j),
                                        box_param(box, j)->value->bytes);
                assert_ok(vv_optimizer_step(optimizer));
            }
            store_free(&a);
            store_free(&b);
            vv_module_free(kept);
            vv_optimizer_free(optimizer);
            if (status == VV_OK)
                break;
        }
    vv_module_free(box);
    vv_module_free(before);
    assert_int_equal(vv_memory_live_count(), live);
}

static void refusals(void **unused)
{
    (void)unused;
    const vv_optimizer_desc *desc = vv_optimizer_find("soap");
    vv_soap_opts opts;
    vv_optimizer *optimizer;
    vv_module *box = tree();
    assert_ok(vv_opts_init(&desc->desc, &opts));
    opts.beta1 = 1.0;
    assert_fails(vv_optimizer_new(&optimizer, desc, &opts, box), VV_EINVAL);
    opts.beta1 = 0.9;
    opts.frequency = 0;
    assert_fails(vv_optimizer_new(&optimizer, desc, &opts, box), VV_EINVAL);
    assert_says("frequency");
    opts.frequency = 1;
    assert_ok(vv_optimizer_new(&optimizer, desc, &opts, box));
    box_grad(box, 0)[0] = NAN; /* named, not spread */
    assert_fails(vv_optimizer_step(optimizer), VV_ENUMERIC);
    vv_optimizer_free(optimizer);
    vv_module_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens),     cmocka_unit_test(first_step),
        cmocka_unit_test(large_side),  cmocka_unit_test(saved_state),
        cmocka_unit_test(out_of_memory), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
