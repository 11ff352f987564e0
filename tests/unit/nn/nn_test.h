/* nn_test.h - small helpers of the tests in this folder. */
#ifndef NN_TEST_H
#define NN_TEST_H

#include "vv_test.h"

#include <vivace/nn.h>

/* Runs `make` with each of its allocations failing once: VV_ENOMEM, a sentence, and nothing left
   behind. `make` frees what it made when it succeeds. */
static inline void survives_each_failure(vv_status (*make)(void *ctx), void *ctx)
{
    int64_t live = vv_memory_live_count();

    for (uint64_t nth = 1;; nth++) {
        vv_error_clear();
        vv_memory_fail_at(nth);
        vv_status status = make(ctx);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK) {
            assert_true(nth > 1);
            return;
        }
        assert_int_equal(status, VV_ENOMEM);
        assert_true(vv_error()[0] != '\0');
        assert_true(nth < 100000);
    }
}

static inline vv_module *new_linear(int64_t in, int64_t out)
{
    vv_module *module = NULL;

    assert_ok(vv_linear_new(&module, in, out, true));
    return module;
}

static inline vv_module *new_sequential(void)
{
    vv_module *module = NULL;

    assert_ok(vv_sequential_new(&module));
    return module;
}

static inline vv_module *new_identity(void)
{
    vv_module *module = NULL;

    assert_ok(vv_identity_new(&module));
    return module;
}

static inline vv_graph *new_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph = NULL;

    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

/* Names met by a traversal, joined by spaces. */
typedef struct name_list {
    char text[2048];
    int count;
} name_list;

static inline void name_add(name_list *list, const char *name)
{
    size_t used = strlen(list->text);

    snprintf(list->text + used, sizeof list->text - used, "%s%s", list->count ? " " : "", name);
    list->count++;
}

static inline bool take_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    assert_non_null(owner);
    assert_non_null(param);
    name_add(ctx, path);
    return true;
}

static inline bool take_buffer(void *ctx, const char *path, vv_module *owner, vv_tensor *buffer)
{
    assert_non_null(owner);
    assert_non_null(buffer);
    name_add(ctx, path);
    return true;
}

static inline bool take_state(void *ctx, const char *name, vv_tensor *tensor)
{
    assert_non_null(tensor);
    name_add(ctx, name);
    return true;
}

static inline bool take_module(void *ctx, const char *path, vv_module *module)
{
    assert_non_null(module);
    name_add(ctx, path[0] ? path : "<root>");
    return true;
}

#endif
