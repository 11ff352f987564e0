/* metric_set.c - lists of metrics by name. */
#include <string.h>

#include "trainer_impl.h"

static vv_status add(vvi_metric *metrics, int *count, vv_metric *made)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(metrics[i].name, made->name) == 0) {
            vv_status status = vv_fail(VV_EINVAL, "metrics: %s is named twice", made->name);
            vv_metric_free(made);
            return status;
        }
    metrics[(*count)++] = (vvi_metric){made, made->type, made->name, 0.0, 0.0, -1, false};
    return VV_OK;
}

static vv_status add_named(vvi_metric *metrics, int *count, const char *start, size_t length,
                           const vv_model *model)
{
    char name[64];
    vv_metric *made;
    while (length && *start == ' ')
        start++, length--;
    while (length && start[length - 1] == ' ')
        length--;
    if (length == 0)
        return VV_OK;
    if (length >= sizeof name)
        return vv_fail(VV_EINVAL, "metrics: a name of %zu letters is too long", length);
    memcpy(name, start, length);
    name[length] = '\0';
    if (*count == VVI_MAX_METRICS)
        return vv_fail(VV_EINVAL, "metrics: more than %d", VVI_MAX_METRICS);
    VV_TRY(vv_metric_make(&made, name, model));
    return add(metrics, count, made);
}

vv_status vvi_metrics_make(vvi_metric **out, int *count, const char *names,
                           const vv_metric_desc *const *own, const vv_model *model)
{
    *count = 0;
    VV_TRY(vv_alloc_array(out, VVI_MAX_METRICS, sizeof **out));
    if (!names || (!names[0] && !own))
        names = own                              ? ""
                : model->metrics                 ? model->metrics
                : model->task == VV_TASK_REGRESS ? "mse"
                                                 : "accuracy,cross_entropy";
    while (*names) {
        size_t length = strcspn(names, ",");
        VV_TRY(add_named(*out, count, names, length, model));
        names += length + (names[length] == ',');
    }
    for (int i = 0; own && own[i]; i++) {
        vv_metric *made;
        if (*count == VVI_MAX_METRICS)
            return vv_fail(VV_EINVAL, "metrics: more than %d", VVI_MAX_METRICS);
        VV_TRY(vv_metric_new(&made, own[i], NULL, model));
        VV_TRY(add(*out, count, made));
    }
    return *count ? VV_OK : vv_fail(VV_EINVAL, "metrics: no metric is named");
}

void vvi_metrics_free(vvi_metric *metrics, int count)
{
    for (int i = 0; i < count; i++)
        vv_metric_free(metrics[i].metric);
    vv_dealloc(metrics);
}
