/* engine.c - who hears an event, in which order. */
#include <string.h>

#include "profile.h"

static bool list_has(const char *const *names, const char *name)
{
    for (int i = 0; names && names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static const vv_conflict *conflict_of(const vv_method *a, const char *name)
{
    const vv_conflict *conflict = a->type->conflicts;
    while (conflict && conflict->name && strcmp(conflict->name, name) != 0)
        conflict++;
    return conflict && conflict->name ? conflict : NULL;
}

static vv_status check_pair(const vv_method *a, const vv_method *b)
{
    const char *name_a = a->type->desc.name, *name_b = b->type->desc.name;
    if (strcmp(name_a, name_b) == 0)
        return vv_fail(VV_EINVAL, "methods: %s is given twice; name it once", name_a);
    const vv_conflict *conflict = conflict_of(a, name_b);
    if (!conflict || !conflict->reason)
        conflict = conflict_of(b, name_a) ? conflict_of(b, name_a) : conflict;
    if (conflict)
        return vv_fail(VV_EINVAL,
                       "methods: %s and %s cannot be used together%s%s; remove one of them", name_a,
                       name_b, conflict->reason ? ": " : "",
                       conflict->reason ? conflict->reason : "");
    /* `after` works within a phase; against the phases it could never hold. */
    if ((list_has(a->type->after, name_b) && b->type->phase > a->type->phase) ||
        (list_has(b->type->after, name_a) && a->type->phase > b->type->phase))
        return vv_fail(VV_EINVAL, "methods: %s and %s ask for an order that their phases forbid",
                       name_a, name_b);
    return VV_OK;
}

/* Whether method i must wait for one that has not been placed yet. */
static bool must_wait(vv_method *const *methods, int count, const bool *placed, int i)
{
    for (int j = 0; j < count; j++) {
        if (j == i || placed[j])
            continue;
        if (methods[j]->type->phase < methods[i]->type->phase ||
            list_has(methods[i]->type->after, methods[j]->type->desc.name))
            return true;
    }
    return false;
}

vv_status vvi_engine_order(vv_method **methods, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            VV_TRY(check_pair(methods[i], methods[j]));
    vv_status status = VV_OK;
    vv_method **order = NULL;
    bool *placed = NULL;
    VV_GO(vv_alloc_array(&order, (size_t)count, sizeof *order));
    VV_GO(vv_alloc_array(&placed, (size_t)count, sizeof *placed));
    for (int done = 0; done < count; done++) {
        int next = 0;
        while (next < count && (placed[next] || must_wait(methods, count, placed, next)))
            next++;
        if (next == count) {
            vv_str names = {0};
            for (int i = 0; i < count; i++)
                if (!placed[i])
                    vv_str_addf(&names, " %s", methods[i]->type->desc.name);
            status =
                vv_fail(VV_EINVAL, "methods: these wait for each other:%s; check their `after`",
                        vv_str_text(&names));
            vv_str_fini(&names);
            goto out;
        }
        placed[next] = true;
        order[done] = methods[next];
    }
    for (int i = 0; i < count; i++)
        methods[i] = order[i];
out:
    vv_dealloc(order);
    vv_dealloc(placed);
    return status;
}

vv_status vvi_engine_fire_before(vv_trainer *t, vv_event event, int count)
{
    const bool reversed = vvi_event_reversed(event);
    const int outer = t->firing; /* a method may cause events */
    vv_status status = VV_OK;
    for (int i = 0; i < count && status == VV_OK; i++) {
        t->firing = reversed ? count - 1 - i : i;
        vv_method *method = t->methods[t->firing];
        if (!(method->type->events & VV_EVENT_BIT(event)) || !method->type->apply)
            continue;
        const double began = vvi_profile_begin(t);
        status = vv_fail_within(method->type->apply(method, event, &t->state), "method %s at %s",
                                method->type->desc.name, vv_event_name(event));
        vvi_profile_end(t, began, "method", method->type->desc.name, vv_event_name(event));
    }
    t->firing = outer;
    return status;
}

static vv_status fire_methods(vv_trainer *t, vv_event event)
{
    return vvi_engine_fire_before(t, event, t->method_count);
}

static vv_status fire_callbacks(vv_trainer *t, vv_event event)
{
    for (int i = 0; i < t->callback_count; i++) {
        vv_callback *callback = t->callbacks[i];
        if (!(callback->type->events & VV_EVENT_BIT(event)) || !callback->type->apply)
            continue;
        const double began = vvi_profile_begin(t);
        vv_status status = callback->type->apply(callback, event, &t->state);
        vvi_profile_end(t, began, "callback", callback->type->desc.name, vv_event_name(event));
        if (status != VV_OK)
            return vv_fail_within(status, "callback %s at %s", callback->type->desc.name,
                                  vv_event_name(event));
    }
    return VV_OK;
}

static vv_status fire_loggers(vv_trainer *t, vv_event event)
{
    for (int i = 0; i < t->loggers_open; i++) {
        vv_logger *logger = t->loggers[i];
        if (!logger->type->event)
            continue;
        const double began = vvi_profile_begin(t);
        vv_status status = logger->type->event(logger, event, &t->state);
        vvi_profile_end(t, began, "logger", logger->type->desc.name, vv_event_name(event));
        if (status != VV_OK)
            return vv_fail_within(status, "logger %s at %s", logger->type->desc.name,
                                  vv_event_name(event));
    }
    return VV_OK;
}

vv_status vvi_engine_fire(vv_trainer *t, vv_event event)
{
    if (t->state.dry) /* nothing happens that callbacks or loggers should hear of */
        return fire_methods(t, event);
    if (event == VV_EVENT_INIT) { /* so that what methods say at INIT is heard */
        VV_TRY(fire_loggers(t, event));
        VV_TRY(fire_callbacks(t, event));
        return fire_methods(t, event);
    }
    VV_TRY(fire_methods(t, event));
    VV_TRY(fire_callbacks(t, event));
    return fire_loggers(t, event);
}
