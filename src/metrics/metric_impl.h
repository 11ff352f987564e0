/* metric_impl.h - what the metrics of this folder share. */
#ifndef VVI_METRIC_IMPL_H
#define VVI_METRIC_IMPL_H

#include <vivace/metrics.h>

#define VVI_NO_CLASS INT64_MIN /* of an item that does not count */

typedef struct vvi_topk_opts {
    int64_t k;
} vvi_topk_opts;

/* Sentences for `size`: the model must give classes, or numbers. */
vv_status vvi_metric_need_classes(const vv_metric *metric, int64_t min, int64_t max);
vv_status vvi_metric_need_numbers(const vv_metric *metric);
/* Output [..., K] and target [...] (index) or [..., K] (soft) fit together. With class indices the
   output may be wider than the model's classes: tables of tokens are padded. */
vv_status vvi_metric_check_classes(const vv_metric *metric, const vv_node *output,
                                   const vv_node *target);
/* The output without what is beyond the classes; NULL in, NULL out. */
vv_node *vvi_metric_logits(const vv_metric *metric, vv_node *output);
/* Class of one item: the target itself, or a soft one's largest share (the first of equals). */
int64_t vvi_metric_class(const vv_metric *metric, const vv_tensor *target, int64_t item);
/* nodes[i] is there, or the graph says why not. */
vv_status vvi_metric_built(vv_node *output, vv_node **nodes, int count);
vv_status vvi_tally_push(vv_tally *tally, double value);

extern const vv_metric_desc vvi_metric_accuracy, vvi_metric_masked_accuracy, vvi_metric_topk,
    vvi_metric_miou, vvi_metric_dice, vvi_metric_f1, vvi_metric_matthews, vvi_metric_cross_entropy,
    vvi_metric_perplexity, vvi_metric_mse, vvi_metric_spearman,
    vvi_metric_map, vvi_metric_map50, vvi_metric_map75, vvi_metric_map_small, vvi_metric_map_medium,
    vvi_metric_map_large, vvi_metric_mar1, vvi_metric_mar10, vvi_metric_mar100;

#endif
