/* record_weights.c - a second set of weights into a method's saved state and out again. */
#include <vivace/ext/train.h>

typedef struct walk {
    vv_record *record;
    const vv_record *from;
    const char *prefix;
    vv_status status;
} walk;

static vv_status put(vv_record *record, const char *key, vv_tensor *tensor)
{
    return vv_record_set_tensor(record, key, tensor);
}

static vv_status take(const vv_record *record, const char *key, vv_tensor *tensor)
{
    const vv_tensor *saved;
    VV_TRY(vv_record_get_tensor(record, key, &saved));
    if (saved->dtype != tensor->dtype || !vv_tensor_same_shape(saved, tensor))
        return vv_fail(VV_ESHAPE, "the saved \"%s\" does not fit the model", key);
    return vv_tensor_copy(tensor, saved);
}

static bool each(void *ctx, const char *name, vv_tensor *tensor)
{
    walk *w = ctx;
    vv_str key = {0};
    vv_str_addf(&key, "%s.%s", w->prefix, name);
    w->status = vv_str_status(&key);
    if (w->status == VV_OK)
        w->status = w->record ? put(w->record, vv_str_text(&key), tensor)
                              : take(w->from, vv_str_text(&key), tensor);
    vv_str_fini(&key);
    return w->status == VV_OK;
}

vv_status vv_record_set_weights(vv_record *record, const char *prefix, const vv_weights *weights)
{
    walk w = {record, NULL, prefix, VV_OK};
    vv_weights_each(weights, each, &w);
    return w.status;
}

vv_status vv_record_get_weights(const vv_record *record, const char *prefix, vv_weights *weights)
{
    walk w = {NULL, record, prefix, VV_OK};
    vv_weights_each(weights, each, &w);
    return w.status;
}
