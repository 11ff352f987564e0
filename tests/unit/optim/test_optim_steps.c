/* test_optim_steps.c - what each step must do to the weights.
 *
 * 20 steps of every optimizer give what PyTorch gives (or, where PyTorch has no such optimizer,
 * what the formula gives), and what a plain re-implementation in double gives on arrays that span
 * several pieces. The bits do not depend on the number of threads. */
#include "optim_test.h"

#include "golden/optim_golden.h"

static void test_goldens(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof golden_cases / sizeof golden_cases[0]; c++) {
        const golden_case *golden = &golden_cases[c];
        vv_module *box = box_new(1, GOLDEN_COUNT);
        vv_optimizer *optimizer = optimizer_of(box, golden->optimizer, golden->settings);
        assert_ok(vv_grads_ensure(box));
        for (int i = 0; i < GOLDEN_COUNT; i++)
            box_value(box, 0)[i] = (float)golden_start[0][i];
        for (int t = 0; t < GOLDEN_STEPS; t++) {
            vv_optimizer_set_lr_factor(optimizer, 1.0 - t / 40.0);
            for (int i = 0; i < GOLDEN_COUNT; i++)
                box_grad(box, 0)[i] = (float)golden_grad[t][i];
            assert_ok(vv_optimizer_step(optimizer));
            for (int i = 0; i < GOLDEN_COUNT; i++) {
                double got = (double)box_value(box, 0)[i], want = golden->weight[t][i];
                if (fabs(got - want) > 1e-6 + 1e-5 * fabs(want))
                    fail_msg("%s %s: step %d, element %d is %.9g, expected %.9g", golden->optimizer,
                             golden->settings, t, i, got, want);
            }
        }
        vv_optimizer_free(optimizer);
        vv_module_free(box);
    }
}

/* ---- the formulas of trainer.md section 8 once more, in double and without hurry ---- */
typedef struct plain {
    double w, m, v, top;
    int step;
} plain;

static void plain_sgd(plain *p, double g, double lr, double lr0, const vv_sgd_opts *o,
                      bool decoupled)
{
    p->step++;
    if (!decoupled)
        g += o->weight_decay * p->w;
    double d = g;
    if (o->momentum != 0.0) {
        p->m = p->step == 1 ? g : o->momentum * p->m + (1.0 - o->dampening) * g;
        d = o->nesterov ? g + o->momentum * p->m : p->m;
    }
    if (decoupled)
        p->w *= 1.0 - lr / lr0 * o->weight_decay;
    p->w -= lr * d;
}

static void plain_adam(plain *p, double g, double lr, double lr0, const vv_adam_opts *o, int kind)
{
    p->step++;
    if (kind == 0)
        g += o->weight_decay * p->w;
    if (kind == 1)
        p->w *= 1.0 - lr * o->weight_decay;
    if (kind == 2)
        p->w *= 1.0 - lr / lr0 * o->weight_decay;
    p->m = o->beta1 * p->m + (1.0 - o->beta1) * g;
    p->v = o->beta2 * p->v + (1.0 - o->beta2) * g * g;
    p->top = fmax(p->top, p->v);
    double square = o->amsgrad ? p->top : p->v;
    double root = sqrt(square) / sqrt(1.0 - pow(o->beta2, p->step)) + o->eps;
    p->w -= lr / (1.0 - pow(o->beta1, p->step)) * p->m / root;
}

#define SIZE 40000 /* two whole pieces and a part */

/* kind: 0 decay in the gradient, 1 tied to lr, 2 decoupled. */
static void run_plain(const char *name, int kind, const vv_sgd_opts *sgd, const vv_adam_opts *adam)
{
    vv_module *box = box_new(1, SIZE);
    const void *opts = sgd ? (const void *)sgd : (const void *)adam;
    double lr0 = sgd ? sgd->lr : adam->lr;
    vv_optimizer *optimizer = NULL;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find(name), opts, box));
    assert_ok(vv_grads_ensure(box));
    plain *want = NULL;
    assert_ok(vv_alloc_array(&want, SIZE, sizeof *want));
    for (int i = 0; i < SIZE; i++)
        want[i].w = (double)(box_value(box, 0)[i] = noise((uint64_t)i));
    for (uint64_t t = 0; t < 20; t++) {
        double factor = 1.0 / (1.0 + 0.1 * (double)t);
        vv_optimizer_set_lr_factor(optimizer, factor);
        for (int i = 0; i < SIZE; i++) {
            float g = box_grad(box, 0)[i] = noise((t + 1) * SIZE + (uint64_t)i);
            if (sgd)
                plain_sgd(&want[i], (double)g, lr0 * factor, lr0, sgd, kind == 2);
            else
                plain_adam(&want[i], (double)g, lr0 * factor, lr0, adam, kind);
        }
        assert_ok(vv_optimizer_step(optimizer));
    }
    for (int i = 0; i < SIZE; i++)
        assert_near((double)box_value(box, 0)[i], want[i].w, 3e-6, 1e-5);
    vv_dealloc(want);
    vv_optimizer_free(optimizer);
    vv_module_free(box);
}

static void test_plain_sgd(void **state)
{
    (void)state;
    const vv_sgd_opts bare = {.lr = 0.1, .weight_decay = 0.02};
    const vv_sgd_opts heavy = {.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.02};
    const vv_sgd_opts ahead = {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.02, .nesterov = true};
    const vv_sgd_opts *all[] = {&bare, &heavy, &ahead};
    for (int i = 0; i < 3; i++) {
        run_plain("sgd", 0, all[i], NULL);
        run_plain("decoupled_sgdw", 2, all[i], NULL);
    }
}

static void test_plain_adam(void **state)
{
    (void)state;
    const char *names[] = {"adam", "adamw", "decoupled_adamw"};
    for (int kind = 0; kind < 3; kind++)
        for (int amsgrad = 0; amsgrad < 2; amsgrad++) {
            const vv_adam_opts opts = {.lr = 0.01,
                                       .beta1 = 0.9,
                                       .beta2 = 0.95,
                                       .eps = 1e-6,
                                       .weight_decay = 0.02,
                                       .amsgrad = amsgrad};
            run_plain(names[kind], kind, NULL, &opts);
        }
}

/* ---- threads ---- */
static void run_threads(const char *name, const char *settings, int threads, float *out)
{
    vv_set_threads(threads);
    vv_module *box = box_new(3, SIZE);
    vv_optimizer *optimizer = optimizer_of(box, name, settings);
    assert_ok(vv_grads_ensure(box));
    for (uint64_t t = 0; t < 3; t++) {
        for (int p = 0; p < 3; p++)
            for (uint64_t i = 0; i < SIZE; i++)
                box_grad(box, p)[i] = noise(t * 1000003 + (uint64_t)p * SIZE + i);
        double norm = 0.0;
        assert_ok(vv_grads_norm(box, &norm));
        vv_grads_scale(box, 1.0 / norm);
        assert_ok(vv_optimizer_step(optimizer));
    }
    for (int p = 0; p < 3; p++)
        memcpy(out + p * SIZE, box_value(box, p), SIZE * sizeof *out);
    vv_optimizer_free(optimizer);
    vv_module_free(box);
    vv_set_threads(0);
}

static void test_threads(void **state)
{
    (void)state;
    const char *settings = "lr=0.1,weight_decay=0.01";
    float *one = NULL, *two = NULL;
    assert_ok(vv_alloc_array(&one, 3 * SIZE, sizeof *one));
    assert_ok(vv_alloc_array(&two, 3 * SIZE, sizeof *two));
    for (int i = 0; vv_optimizer_table()[i]; i++) {
        const char *name = vv_optimizer_table()[i]->desc.name;
        run_threads(name, settings, 1, one);
        run_threads(name, settings, 2, two);
        assert_true(one[0] != 0.0f);
        assert_memory_equal(one, two, 3 * SIZE * sizeof *one);
        run_threads(name, settings, 5, two);
        assert_memory_equal(one, two, 3 * SIZE * sizeof *one);
    }
    vv_dealloc(one);
    vv_dealloc(two);
}

/* After the first step nothing is allocated. */
static void test_no_allocation(void **state)
{
    (void)state;
    for (int i = 0; vv_optimizer_table()[i]; i++) {
        vv_module *box = box_new(3, 20000);
        vv_optimizer *optimizer =
            optimizer_of(box, vv_optimizer_table()[i]->desc.name, "lr=0.1,weight_decay=0.01");
        assert_ok(vv_grads_ensure(box));
        assert_ok(vv_optimizer_step(optimizer));
        uint64_t before = vv_memory_alloc_count();
        for (int t = 0; t < 3; t++)
            assert_ok(vv_optimizer_step(optimizer));
        assert_int_equal(vv_memory_alloc_count(), before);
        vv_optimizer_free(optimizer);
        vv_module_free(box);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),       cmocka_unit_test(test_plain_sgd),
        cmocka_unit_test(test_plain_adam),    cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests_name("optim_steps", tests, NULL, NULL);
}
