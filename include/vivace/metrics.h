/* metrics.h - how good a model is: what is gathered from items adds up, and is divided once at the
 * end. So the size of batches, microbatches and shares changes nothing, and a last, smaller batch
 * has its own weight. */
#ifndef VIVACE_METRICS_H
#define VIVACE_METRICS_H

#include <vivace/model.h>

VV_BEGIN_DECLS

/* What a metric has gathered. Tallies of two parts of the data add up to that of both. */
typedef struct vv_tally {
    double *sums;
    int64_t *counts;
    double *values; /* every item's, for metrics that need them all at once */
    int64_t sum_count, count_count, value_count, value_capacity;
} vv_tally;

#define VV_METRIC_NODES 2 /* of the step graph, read per microbatch */

typedef struct vv_metric vv_metric;
typedef struct vv_metric_desc {
    vv_desc desc; /* kind "metric" */
    bool higher_is_better;
    /* Refuses a model it cannot measure, with a sentence; says how many sums and counts it
       needs. */
    vv_status (*size)(const vv_metric *metric, int64_t *sums, int64_t *counts);
    /* Adds the nodes that `add` reads; the rest of nodes[VV_METRIC_NODES] is NULL. target: as the
       data have it (class index, soft, or numbers). */
    vv_status (*build)(const vv_metric *metric, vv_node *output, vv_node *target, vv_node **nodes);
    /* Adds the items of a microbatch to the tally, from the nodes' values. */
    vv_status (*add)(vv_metric *metric, const vv_tensor *const *values);
    /* The tally's value; NaN if no item counted. */
    vv_status (*value)(const vv_metric *metric, double *out);
} vv_metric_desc;

struct vv_metric {
    const vv_metric_desc *type;
    char *name;  /* as the user wrote it */
    void *opts;  /* struct of type->desc */
    const vv_model *model;
    vv_tally tally;
};

/* *out = metric for a model (which must outlive it), with a deep copy of opts (NULL = defaults). */
VV_API VV_MUST_USE vv_status vv_metric_new(VV_OWNED vv_metric **out, const vv_metric_desc *desc,
                                           const void *opts, const vv_model *model);
/* By name: one of the table, or "top3_accuracy" (short "top3") for topk_accuracy with k = 3.
   Unknown names: VV_ENOTFOUND with the nearest. */
VV_API VV_MUST_USE vv_status vv_metric_make(VV_OWNED vv_metric **out, const char *name,
                                            const vv_model *model);
VV_API void vv_metric_free(VV_TAKES vv_metric *metric);
VV_API void vv_metric_reset(vv_metric *metric);
/* Adds the metric's nodes to the graph; nodes[VV_METRIC_NODES], of which *count are set. */
VV_API VV_MUST_USE vv_status vv_metric_build(const vv_metric *metric, vv_node *output,
                                             vv_node *target, vv_node **nodes, int *count);
/* Adds what those nodes' values say to the tally (evaluating them if that has not happened). */
VV_API VV_MUST_USE vv_status vv_metric_add(vv_metric *metric, vv_node *const *nodes, int count);
/* Adds another part's tally; it must be of the same metric and model. */
VV_API VV_MUST_USE vv_status vv_metric_merge(vv_metric *metric, const vv_tally *part);
VV_API VV_MUST_USE vv_status vv_metric_value(const vv_metric *metric, double *out);

VV_API VV_BORROWED const vv_metric_desc *const *vv_metric_table(void); /* NULL-ended */
/* By name, as in vv_metric_make; NULL if there is none. */
VV_API VV_BORROWED const vv_metric_desc *vv_metric_find(const char *name);

VV_END_DECLS

#endif
