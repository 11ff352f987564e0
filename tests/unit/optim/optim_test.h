/* optim_test.h - small trees of parameters for the tests of this folder. */
#ifndef OPTIM_TEST_H
#define OPTIM_TEST_H

#include "vv_test.h"

#include <vivace/graph.h>
#include <vivace/optim.h>

static inline vv_node *box_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module, (void)graph;
    return x;
}

static const vv_module_class box_class = {"Box", box_forward, NULL};

/* A module with `count` vectors of `size` elements named p0, p1, ... */
static inline vv_module *box_new(int count, int64_t size)
{
    vv_module *box = NULL;
    assert_ok(vv_module_new(&box, &box_class, 0));
    for (int i = 0; i < count; i++) {
        char name[] = {'p', (char)('0' + i), 0};
        vv_param *param = NULL;
        assert_ok(vv_param_new(&param, 1, &size));
        assert_ok(vv_module_add_param(box, name, param));
    }
    return box;
}

static inline vv_param *box_param(vv_module *box, int i)
{
    char name[] = {'p', (char)('0' + i), 0};
    vv_param *param = vv_module_param(box, name);
    assert_non_null(param);
    return param;
}

static inline float *box_value(vv_module *box, int i)
{
    return box_param(box, i)->value->data;
}

static inline float *box_grad(vv_module *box, int i)
{
    return box_param(box, i)->grad->data;
}

/* An optimizer by name with settings as text, over a tree. */
static inline vv_optimizer *optimizer_of(vv_module *module, const char *name, const char *settings)
{
    const vv_optimizer_desc *desc = vv_optimizer_find(name);
    assert_non_null(desc);
    union {
        vv_sgd_opts sgd;
        vv_adam_opts adam;
        vv_rmsprop_opts rmsprop;
        vv_schedule_free_opts schedule_free;
        vv_muon_opts muon;
        vv_soap_opts soap;
    } opts;
    assert_true(desc->desc.opts_size <= sizeof opts);
    assert_ok(vv_opts_init(&desc->desc, &opts));
    assert_ok(vv_opts_set_all(&desc->desc, &opts, settings));
    vv_optimizer *optimizer = NULL;
    assert_ok(vv_optimizer_new(&optimizer, desc, &opts, module));
    vv_opts_fini(&desc->desc, &opts);
    return optimizer;
}

/* Numbers in [-1, 1) from a counter. */
static inline float noise(uint64_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return (float)(x >> 40) / 8388608.0f - 1.0f;
}

#endif
