/* method.c - method, callback and logger objects: a type, its options, its private data. */
#include <vivace/describe.h>

#include "trainer_impl.h"

/* *out = options of `desc`, checked: a copy of `opts`, or the defaults. */
static vv_status make_opts(void **out, const vv_desc *desc, const void *opts)
{
    *out = NULL;
    void *copy = NULL;
    vv_status status = vv_alloc(&copy, desc->opts_size);
    if (status != VV_OK)
        return status;
    status = opts ? vv_opts_copy(desc, copy, opts) : vv_opts_init(desc, copy);
    if (status != VV_OK) {
        vv_dealloc(copy);
        return status;
    }
    status = vv_opts_check(desc, copy);
    if (status != VV_OK) {
        vv_opts_fini(desc, copy);
        vv_dealloc(copy);
        return vv_fail_within(status, "%s %s", desc->kind, desc->name);
    }
    *out = copy;
    return VV_OK;
}

static void free_opts(const vv_desc *desc, void *opts)
{
    if (!opts)
        return;
    vv_opts_fini(desc, opts);
    vv_dealloc(opts);
}

vv_status vv_method_new(vv_method **out, const vv_method_desc *desc, const void *opts)
{
    *out = NULL;
    if (!desc)
        return vv_fail(VV_EINVAL, "vv_method_new: no descriptor");
    vv_status status = VV_OK;
    vv_method *method = NULL;
    VV_GO(vv_alloc(&method, sizeof *method));
    method->type = desc;
    method->surgery = desc->phase == VV_PHASE_SURGERY;
    VV_GO(make_opts(&method->opts, &desc->desc, opts));
    if (desc->check) {
        status = desc->check(method->opts);
        if (status != VV_OK) {
            vv_fail_within(status, "method %s", desc->desc.name);
            goto out;
        }
    }
    VV_GO(vv_alloc(&method->self, desc->self_size));
out:
    if (status != VV_OK) {
        vv_method_free(method);
        method = NULL;
    }
    *out = method;
    return status;
}

void vv_method_free(vv_method *method)
{
    if (!method)
        return;
    if (method->self && method->type->fini)
        method->type->fini(method);
    free_opts(&method->type->desc, method->opts);
    vv_dealloc(method->self);
    vv_dealloc(method);
}

vv_status vv_callback_new(vv_callback **out, const vv_callback_desc *desc, const void *opts)
{
    *out = NULL;
    if (!desc)
        return vv_fail(VV_EINVAL, "vv_callback_new: no descriptor");
    vv_status status = VV_OK;
    vv_callback *callback = NULL;
    VV_GO(vv_alloc(&callback, sizeof *callback));
    callback->type = desc;
    VV_GO(make_opts(&callback->opts, &desc->desc, opts));
    VV_GO(vv_alloc(&callback->self, desc->self_size));
out:
    if (status != VV_OK) {
        vv_callback_free(callback);
        callback = NULL;
    }
    *out = callback;
    return status;
}

void vv_callback_free(vv_callback *callback)
{
    if (!callback)
        return;
    if (callback->self && callback->type->fini)
        callback->type->fini(callback);
    free_opts(&callback->type->desc, callback->opts);
    vv_dealloc(callback->self);
    vv_dealloc(callback);
}

vv_status vv_logger_new(vv_logger **out, const vv_logger_desc *desc, const void *opts)
{
    *out = NULL;
    if (!desc)
        return vv_fail(VV_EINVAL, "vv_logger_new: no descriptor");
    vv_status status = VV_OK;
    vv_logger *logger = NULL;
    VV_GO(vv_alloc(&logger, sizeof *logger));
    logger->type = desc;
    VV_GO(make_opts(&logger->opts, &desc->desc, opts));
    VV_GO(vv_alloc(&logger->self, desc->self_size));
out:
    if (status != VV_OK) {
        vv_logger_free(logger);
        logger = NULL;
    }
    *out = logger;
    return status;
}

/* The Trainer closes the loggers it opened before it frees them. */
void vv_logger_free(vv_logger *logger)
{
    if (!logger)
        return;
    free_opts(&logger->type->desc, logger->opts);
    vv_dealloc(logger->self);
    vv_dealloc(logger);
}
