/* selective_proxy.h - the small model that chooses samples in the trained one's place. Internal to
 * this folder. */
#ifndef SELECTIVE_PROXY_H
#define SELECTIVE_PROXY_H

#include "selective_backprop.h"

typedef struct selective_proxy {
    vv_model *model;
    vv_optimizer *optimizer;
    vv_graph *graph;
    vv_param **params;
    vv_node **nodes; /* loss, gradients, leaves */
    int param_count;
} selective_proxy;

/* On failure the caller calls fini all the same. */
vv_status vvi_selective_proxy_init(selective_proxy *proxy, const vv_selective_backprop_opts *opts,
                                   const vv_state *state);
void vvi_selective_proxy_fini(selective_proxy *proxy);
/* Losses of all rows, by the statistics of this batch; nothing moves. */
vv_status vvi_selective_proxy_losses(selective_proxy *proxy, float *losses, vv_tensor *input,
                                     vv_tensor *target);
/* One step of its own on a batch. */
vv_status vvi_selective_proxy_train(selective_proxy *proxy, const vv_state *state,
                                    vv_tensor *input, vv_tensor *target);
vv_status vvi_selective_proxy_save(const selective_proxy *proxy, vv_record *record);
vv_status vvi_selective_proxy_load(selective_proxy *proxy, const vv_record *record);

/* methods/selective_backprop/selective_backprop.c: losses of the rows as numbers. */
vv_status vvi_selective_read(float *losses, vv_graph *graph, vv_model *model, vv_node *input,
                             vv_tensor *target);

#endif
