/* restore_parts.c - methods and callbacks from a checkpoint: surgery that must be done again before
 * the weights fit, and the saved state of each (spec: methods.md 0.1). */
#include <string.h>

#include "base/number.h"
#include "record.h"
#include "restore.h"

static const char *name_of(const json_t *method)
{
    return json_string_value(json_object_get(method, "name"));
}

static const json_t *saved_method(const json_t *state, const char *name)
{
    size_t i;
    const json_t *method;
    json_array_foreach(json_object_get(state, "methods"), i, method)
        if (name_of(method) && strcmp(name_of(method), name) == 0)
            return method;
    return NULL;
}

static vv_method *own_method(const vv_trainer *t, const char *name)
{
    for (int i = 0; i < t->method_count; i++)
        if (strcmp(t->methods[i]->type->desc.name, name) == 0)
            return t->methods[i];
    return NULL;
}

/* ---- surgery ---- */

/* A saved setting as text for vv_opts_set. */
static void setting_text(vv_str *out, const json_t *value)
{
    char number[40];
    size_t i;
    const json_t *item;
    if (json_is_string(value)) {
        vv_str_add(out, json_string_value(value));
    } else if (json_is_integer(value)) {
        vv_str_addf(out, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        vv_str_add(out, vvi_number_text(json_real_value(value), number, sizeof number));
    } else if (json_is_boolean(value)) {
        vv_str_add(out, json_is_true(value) ? "true" : "false");
    } else if (json_is_array(value)) {
        vv_str_add(out, "[");
        json_array_foreach(value, i, item)
        {
            vv_str_add(out, i ? ", " : "");
            setting_text(out, item);
        }
        vv_str_add(out, "]");
    }
}

/* "min_channels=16, blur_first=true" */
static vv_status settings_text(vv_str *out, json_t *settings)
{
    const char *key;
    json_t *value;
    size_t start = out->length;
    json_object_foreach(settings, key, value)
    {
        vv_str_addf(out, "%s%s=", out->length > start ? ", " : "", key);
        setting_text(out, value);
    }
    return vv_str_status(out);
}

static vv_status make_method(vv_method **out, const vv_method_desc *desc, json_t *settings)
{
    vv_status status = VV_OK;
    void *opts = NULL;
    const char *key;
    json_t *value;
    bool ready = false;
    *out = NULL;
    VV_GO(vv_alloc(&opts, desc->desc.opts_size));
    VV_GO(vv_opts_init(&desc->desc, opts));
    ready = true;
    json_object_foreach(settings, key, value)
    {
        vv_str text = {0};
        if (json_is_null(value))
            continue;
        setting_text(&text, value);
        status = vv_str_status(&text);
        if (status == VV_OK)
            status = vv_opts_set(&desc->desc, opts, key, vv_str_text(&text));
        vv_str_fini(&text);
        if (status != VV_OK)
            goto out;
    }
    status = vv_method_new(out, desc, opts);
out:
    if (ready)
        vv_opts_fini(&desc->desc, opts);
    vv_dealloc(opts);
    return status;
}

static vv_status append_method(vv_trainer *t, vv_method *method)
{
    size_t count = (size_t)t->method_count + 1;
    vv_status status = vv_realloc_array(&t->methods, count, sizeof *t->methods);
    if (status == VV_OK)
        status = vv_realloc_array(&t->method_lines, count, sizeof *t->method_lines);
    if (status != VV_OK) {
        vv_method_free(method);
        return status;
    }
    t->methods[t->method_count] = method;
    t->method_lines[t->method_count++] = NULL;
    t->state.methods = t->methods;
    t->state.method_count = t->method_count;
    return VV_OK;
}

/* Same name, other settings: the weights tell whether they fit. */
static vv_status compare_settings(const vv_method *own, const json_t *saved, vv_str *told)
{
    vv_str ours = {0};
    vv_opts_to_json(&own->type->desc, own->opts, &ours);
    vv_status status = vv_str_status(&ours);
    json_t *now = status == VV_OK ? json_loads(vv_str_text(&ours), 0, NULL) : NULL;
    json_t *then = json_object_get(saved, "settings");
    if (now && then && !json_equal(now, then)) {
        vv_str_addf(told, "the checkpoint was made with %s(", own->type->desc.name);
        status = settings_text(told, then);
        vv_str_add(told, "), this run has (");
        if (status == VV_OK)
            status = settings_text(told, now);
        vv_str_add(told, ")\n");
    }
    json_decref(now);
    vv_str_fini(&ours);
    return status;
}

static vv_status add_surgery(vv_trainer *t, const json_t *saved, vv_str *told)
{
    const char *name = name_of(saved);
    const vv_method_desc *desc = NULL;
    vv_method *method = NULL;
    if (vvi_patterns_match(&t->loading.exclude_methods, name)) {
        vv_str_addf(told, "the checkpoint was made with the method %s, which load_exclude_methods "
                          "leaves out\n", name);
        return vv_str_status(told);
    }
    if (!t->loading.find_method)
        return vv_fail(VV_EINVAL,
                       "it was made with the method %s, without which its weights do not fit; add "
                       "%s to the run's methods", name, name);
    VV_TRY(vv_fail_within(t->loading.find_method(&desc, name), "it was made with the method %s",
                          name));
    VV_TRY(vv_fail_within(make_method(&method, desc, json_object_get(saved, "settings")),
                          "it was made with the method %s", name));
    VV_TRY(append_method(t, method));
    vv_str_addf(told,
                "the checkpoint was made with the method %s, which the run lacks; it is used, "
                "with (",
                name);
    VV_TRY(settings_text(told, json_object_get(saved, "settings")));
    vv_str_add(told, ")\n");
    return vv_str_status(told);
}

vv_status vvi_restore_surgery(vv_trainer *t, const vv_safetensors *file, int *added, vv_str *told)
{
    json_t *state;
    size_t i;
    const json_t *saved;
    *added = 0;
    VV_TRY(vvi_restore_state(&state, file));
    vv_status status = VV_OK;
    int before = t->method_count;
    json_array_foreach(json_object_get(state, "methods"), i, saved)
    {
        const char *name = name_of(saved);
        const vv_method *own = name ? own_method(t, name) : NULL;
        if (!name || status != VV_OK)
            continue;
        if (own)
            status = compare_settings(own, saved, told);
        else if (json_is_true(json_object_get(saved, "required_on_load")))
            status = add_surgery(t, saved, told);
    }
    json_decref(state);
    VV_TRY(status);
    *added = t->method_count - before;
    return *added ? vvi_engine_order(t->methods, t->method_count) : VV_OK;
}

/* ---- saved state ---- */

static vv_status read_record(const vv_safetensors *file, const char *kind, const char *name,
                             vv_record **out)
{
    vv_str prefix = {0};
    vv_str_addf(&prefix, "vivace/%s/%s/", kind, name);
    vv_status status = vv_str_status(&prefix);
    if (status == VV_OK)
        status = vvi_record_read(out, file, vv_str_text(&prefix));
    vv_str_fini(&prefix);
    return status;
}

/* Whether the user leaves "<kind>/<name>" as it is. */
static bool left_out(vv_trainer *t, const char *kind, const char *name)
{
    vv_str path = {0};
    vv_str_addf(&path, "%s/%s", kind, name);
    bool found = vvi_patterns_match(&t->loading.ignore, vv_str_text(&path));
    vv_str_fini(&path);
    return found;
}

vv_status vvi_restore_methods(vv_trainer *t, const vv_safetensors *file, const json_t *state,
                              vv_str *told)
{
    size_t k;
    const json_t *saved;
    for (int i = 0; i < t->method_count; i++) {
        vv_method *m = t->methods[i];
        const char *name = m->type->desc.name;
        if (!m->type->load || left_out(t, "methods", name))
            continue;
        if (!saved_method(state, name)) {
            vv_str_addf(told, "the checkpoint knows no method %s; it starts anew here\n", name);
            continue;
        }
        vv_record *record = NULL;
        vv_status status = read_record(file, "method", name, &record);
        if (status == VV_OK)
            status = m->type->load(m, record);
        vv_record_free(record);
        VV_TRY(vv_fail_within(status, "method %s", name));
    }
    json_array_foreach(json_object_get(state, "methods"), k, saved)
        if (name_of(saved) && !own_method(t, name_of(saved)))
            vv_str_addf(told, "the checkpoint was made with the method %s, which this run does not "
                              "have\n", name_of(saved));
    return vv_str_status(told);
}

/* Position among the saved callbacks of the nth (from 0) called so; -1 = none. */
static int saved_callback(const json_t *saved, const char *name, int nth)
{
    size_t i;
    const json_t *item;
    json_array_foreach(saved, i, item)
    {
        const char *text = json_string_value(item);
        if (text && strcmp(text, name) == 0 && nth-- == 0)
            return (int)i;
    }
    return -1;
}

vv_status vvi_restore_callbacks(vv_trainer *t, const vv_safetensors *file, const json_t *state,
                                vv_str *told)
{
    const json_t *saved = json_object_get(state, "callbacks");
    for (int i = 0; i < t->callback_count; i++) {
        vv_callback *c = t->callbacks[i];
        const char *name = c->type->desc.name;
        int nth = 0;
        for (int j = 0; j < i; j++)
            nth += strcmp(t->callbacks[j]->type->desc.name, name) == 0;
        if (!c->type->load || left_out(t, "callbacks", name))
            continue;
        int at = saved_callback(saved, name, nth);
        if (at < 0) {
            vv_str_addf(told, "the checkpoint knows no callback %s; it starts anew here\n", name);
            continue;
        }
        char position[16];
        snprintf(position, sizeof position, "%d", at);
        vv_record *record = NULL;
        vv_status status = read_record(file, "callback", position, &record);
        if (status == VV_OK)
            status = c->type->load(c, record);
        vv_record_free(record);
        VV_TRY(vv_fail_within(status, "callback %s", name));
    }
    return vv_str_status(told);
}
