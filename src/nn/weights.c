/* weights.c - a second set of a tree's weights: copied, averaged, exchanged. */
#include <vivace/weights.h>

#include <string.h>

#include <vivace/memory.h>

#include "vvi_config.h"

#define VVI_SERIAL_BELOW 32768 /* elements; waking the threads costs more */

typedef struct weight {
    char *name;
    vv_tensor *live, *copy;
} weight;

struct vv_weights {
    weight *items;
    int count, capacity;
    vv_status status; /* while the list is made or checked */
};

static void free_weight(weight *w)
{
    vv_dealloc(w->name);
    vv_tensor_free(w->live);
    vv_tensor_free(w->copy);
}

static vv_status add(vv_weights *weights, const char *name, vv_tensor *tensor)
{
    if (weights->count == weights->capacity) {
        const int capacity = weights->capacity ? 2 * weights->capacity : 32;
        VV_TRY(vv_realloc_array(&weights->items, (size_t)capacity, sizeof *weights->items));
        weights->capacity = capacity;
    }
    weight w = {NULL, NULL, NULL};
    vv_status status = vv_strdup(&w.name, name);
    if (status == VV_OK)
        status = vv_tensor_clone(&w.copy, tensor);
    if (status != VV_OK) {
        free_weight(&w);
        return status;
    }
    w.live = vv_tensor_keep(tensor);
    weights->items[weights->count++] = w;
    return VV_OK;
}

static bool add_tensor(void *ctx, const char *name, vv_tensor *tensor)
{
    vv_weights *weights = ctx;
    weights->status = add(weights, name, tensor);
    return weights->status == VV_OK;
}

vv_status vv_weights_new(vv_weights **out, vv_module *net)
{
    *out = NULL;
    vv_weights *weights;
    if (!net)
        return vv_fail(VV_EINVAL, "weights: no module given");
    VV_TRY(vv_alloc(&weights, sizeof *weights));
    vv_module_each_state(net, add_tensor, weights);
    if (weights->status != VV_OK) {
        const vv_status status = weights->status;
        vv_weights_free(weights);
        return status;
    }
    *out = weights;
    return VV_OK;
}

void vv_weights_free(vv_weights *weights)
{
    if (!weights)
        return;
    for (int i = 0; i < weights->count; i++)
        free_weight(&weights->items[i]);
    vv_dealloc(weights->items);
    vv_dealloc(weights);
}

typedef struct check_walk {
    const vv_weights *weights;
    int at;
    vv_status status;
} check_walk;

static bool check_tensor(void *ctx, const char *name, vv_tensor *tensor)
{
    check_walk *walk = ctx;
    if (walk->at >= walk->weights->count || walk->weights->items[walk->at].live != tensor)
        walk->status = vv_fail(VV_ESTATE,
                               "weights: \"%s\" has come into the model after its weights were "
                               "copied; copy them after changing the model", name);
    walk->at++;
    return walk->status == VV_OK;
}

vv_status vv_weights_check(const vv_weights *weights, vv_module *net)
{
    check_walk walk = {weights, 0, VV_OK};
    vv_module_each_state(net, check_tensor, &walk);
    VV_TRY(walk.status);
    if (walk.at < weights->count)
        return vv_fail(VV_ESTATE,
                       "weights: \"%s\" has left the model after its weights were copied; copy "
                       "them after changing the model", weights->items[walk.at].name);
    return VV_OK;
}

void vv_weights_copy(vv_weights *weights)
{
    for (int i = 0; i < weights->count; i++)
        memcpy(weights->items[i].copy->data, weights->items[i].live->data,
               weights->items[i].copy->bytes);
}

void vv_weights_restore(vv_weights *weights)
{
    for (int i = 0; i < weights->count; i++)
        memcpy(weights->items[i].live->data, weights->items[i].copy->data,
               weights->items[i].copy->bytes);
}

void vv_weights_swap(vv_weights *weights)
{
    char held[4096]; /* in pieces, so that no memory is needed */
    for (int i = 0; i < weights->count; i++) {
        char *a = weights->items[i].live->data, *b = weights->items[i].copy->data;
        const size_t bytes = weights->items[i].copy->bytes;
        for (size_t at = 0; at < bytes; at += sizeof held) {
            const size_t piece = bytes - at < sizeof held ? bytes - at : sizeof held;
            memcpy(held, a + at, piece);
            memcpy(a + at, b + at, piece);
            memcpy(b + at, held, piece);
        }
    }
}

static void move_f32(float *restrict copy, const float *restrict live, int64_t count, float part)
{
#if VVI_HAVE_OPENMP
#pragma omp parallel for simd schedule(static) \
    num_threads(vv_threads()) if (count >= VVI_SERIAL_BELOW)
#endif
    for (int64_t i = 0; i < count; i++)
        copy[i] += part * (live[i] - copy[i]);
}

static void move_any(vv_tensor *copy, const vv_tensor *live, double part)
{
    for (int64_t i = 0; i < copy->count; i++) {
        const double old = vv_tensor_get(copy, i);
        const double new_value = old + part * (vv_tensor_get(live, i) - old);
        vv_tensor_set(copy, i, vv_dtype_is_float(copy->dtype) ? new_value
                                                              : (double)(int64_t)new_value);
    }
}

void vv_weights_move(vv_weights *weights, double part)
{
    if (part == 0.0)
        return;
    if (part == 1.0) { /* c + (l - c) would round */
        vv_weights_copy(weights);
        return;
    }
    for (int i = 0; i < weights->count; i++) {
        const weight *w = &weights->items[i];
        if (w->copy->dtype == VV_F32)
            move_f32(w->copy->data, w->live->data, w->copy->count, (float)part);
        else
            move_any(w->copy, w->live, part);
    }
}

void vv_weights_each(const vv_weights *weights, vv_state_fn fn, void *ctx)
{
    for (int i = 0; i < weights->count; i++)
        if (!fn(ctx, weights->items[i].name, weights->items[i].copy))
            return;
}

vv_tensor *vv_weights_find(const vv_weights *weights, const char *name)
{
    for (int i = 0; i < weights->count; i++)
        if (strcmp(weights->items[i].name, name) == 0)
            return weights->items[i].copy;
    return NULL;
}
