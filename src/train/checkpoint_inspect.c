/* checkpoint_inspect.c - what checkpoint files hold, and whether they are whole. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "restore.h"

typedef struct report {
    const vv_safetensors *file;
    const char *path;
    json_t *state; /* NULL: of another program */
    long long file_bytes;
    int weights, others;
    int64_t elements;
    size_t weight_bytes, other_bytes;
} report;

static void count_tensors(report *r)
{
    for (int i = 0; i < vv_safetensors_count(r->file); i++) {
        const vv_tensor *tensor = vv_safetensors_tensor(r->file, i);
        if (strncmp(vv_safetensors_name(r->file, i), "vivace/", 7) == 0) {
            r->others++;
            r->other_bytes += tensor->bytes;
        } else {
            r->weights++;
            r->weight_bytes += tensor->bytes;
            r->elements += tensor->count;
        }
    }
}

static const char *kind(const report *r)
{
    if (!r->state)
        return "weights of another program";
    return json_is_false(json_object_get(r->state, "full")) ? "weights only" : "full";
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

/* ---- for people ---- */

static void add_position(const report *r, vv_str *out)
{
    const json_t *time = json_object_get(r->state, "time");
    vv_str_addf(out, "position    epoch %lld, batch %lld, %lld samples of %s%s\n",
                number_of(time, "epoch"), number_of(time, "batch"), number_of(time, "sample"),
                text_of(r->state, "max_duration"),
                json_is_true(json_object_get(r->state, "finished")) ? "; finished" : "");
    vv_str_addf(out, "run         %s, seed %s, precision %s\n",
                text_of(r->state, "run_name")[0] ? text_of(r->state, "run_name") : "(unnamed)",
                text_of(r->state, "seed"), text_of(r->state, "precision"));
    const json_t *machine = json_object_get(r->state, "machine");
    if (machine)
        vv_str_addf(out, "machine     backend %s%s%s, %lld threads, kernels by %s\n",
                    text_of(machine, "backend"), text_of(machine, "library")[0] ? ", " : "",
                    text_of(machine, "library"), number_of(machine, "threads"),
                    text_of(machine, "kernels"));
    const json_t *data = json_object_get(r->state, "data");
    if (data)
        vv_str_addf(out, "data        %lld samples, epochs of %lld batches of %lld, seed %s\n",
                    number_of(data, "samples"), number_of(data, "batches_per_epoch"),
                    number_of(data, "batch_size"), text_of(data, "seed"));
}

static void add_parts(const report *r, vv_str *out)
{
    size_t i;
    const json_t *item;
    const json_t *methods = json_object_get(r->state, "methods");
    const json_t *callbacks = json_object_get(r->state, "callbacks");
    vv_str_addf(out, "optimizer   %s\n", text_of(r->state, "optimizer"));
    vv_str_add(out, "methods    ");
    json_array_foreach(methods, i, item)
        vv_str_addf(out, "%s %s%s", i ? "," : "", text_of(item, "name"),
                    json_is_true(json_object_get(item, "required_on_load"))
                        ? " (done again on load)" : "");
    vv_str_add(out, json_array_size(methods) ? "\n" : " none\n");
    vv_str_add(out, "callbacks  ");
    json_array_foreach(callbacks, i, item)
        vv_str_addf(out, "%s %s", i ? "," : "", json_string_value(item));
    vv_str_add(out, json_array_size(callbacks) ? "\n" : " none\n");
}

static void add_metrics(const report *r, vv_str *out)
{
    size_t i;
    json_t *item, *metric;
    const char *name;
    json_array_foreach(json_object_get(r->state, "evaluators"), i, item)
        json_object_foreach(json_object_get(item, "metrics"), name, metric)
            vv_str_addf(out, "metric      %s/%s %.6g, best %.6g at batch %lld\n",
                        text_of(item, "label"), name,
                        json_number_value(json_object_get(metric, "value")),
                        json_number_value(json_object_get(metric, "best")),
                        number_of(metric, "best_batch"));
}

static void add_text(const report *r, vv_str *out)
{
    const double mib = 1048576.0;
    const char *version = vv_safetensors_text(r->file, "vivace.version");
    vv_str_addf(out, "file        %s, %.2f MiB, whole\n", r->path, (double)r->file_bytes / mib);
    vv_str_addf(out, "kind        %s%s%s\n", kind(r), version ? ", written by vivace " : "",
                version ? version : "");
    if (r->state) {
        add_position(r, out);
        add_parts(r, out);
        add_metrics(r, out);
    }
    vv_str_addf(out, "tensors     %d weights and buffers, %lld numbers, %.2f MiB; %d of the run's "
                     "state, %.2f MiB\n", r->weights, (long long)r->elements,
                (double)r->weight_bytes / mib, r->others, (double)r->other_bytes / mib);
    for (int i = 0; i < vv_safetensors_count(r->file); i++) {
        const vv_tensor *tensor = vv_safetensors_tensor(r->file, i);
        char shape[128];
        vv_str_addf(out, "  %-44s %-5s %s\n", vv_safetensors_name(r->file, i),
                    vv_dtype_name(tensor->dtype),
                    vv_shape_text(tensor->ndim, tensor->shape, shape, sizeof shape));
    }
}

/* ---- for programs ---- */

static void add_json(const report *r, vv_str *out)
{
    const char *version = vv_safetensors_text(r->file, "vivace.version");
    const char *state = vv_safetensors_text(r->file, "vivace.state");
    vv_str_add(out, "{\"path\":");
    vv_str_add_json(out, r->path);
    vv_str_addf(out, ",\"file_bytes\":%lld,\"kind\":\"%s\",\"version\":", r->file_bytes, kind(r));
    vv_str_add_json(out, version ? version : "");
    vv_str_addf(out,
                ",\"weights\":%d,\"parameters\":%lld,\"weight_bytes\":%zu,\"state_tensors\":%d,"
                "\"state_bytes\":%zu",
                r->weights, (long long)r->elements, r->weight_bytes, r->others, r->other_bytes);
    vv_str_addf(out, ",\"state\":%s,\"recipe\":", r->state ? state : "null");
    const char *recipe = vv_safetensors_text(r->file, "vivace.recipe");
    vv_str_add_json(out, recipe ? recipe : "");
    vv_str_add(out, ",\"tensors\":[");
    for (int i = 0; i < vv_safetensors_count(r->file); i++) {
        const vv_tensor *tensor = vv_safetensors_tensor(r->file, i);
        vv_str_add(out, i ? ",{\"name\":" : "{\"name\":");
        vv_str_add_json(out, vv_safetensors_name(r->file, i));
        vv_str_addf(out, ",\"dtype\":\"%s\",\"shape\":[", vv_dtype_name(tensor->dtype));
        for (int k = 0; k < tensor->ndim; k++)
            vv_str_addf(out, "%s%lld", k ? "," : "", (long long)tensor->shape[k]);
        vv_str_add(out, "]}");
    }
    vv_str_add(out, "]}\n");
}

vv_status vv_checkpoint_inspect(vv_str *out, const char *path, bool json)
{
    vv_str newest = {0};
    vv_safetensors *file = NULL;
    report r = {0};
    struct stat info;
    vv_status status = VV_OK;
    if (vvi_is_folder(path))
        VV_GO(vv_checkpoint_latest(&newest, path));
    r.path = newest.length ? vv_str_text(&newest) : path;
    VV_GO(vv_safetensors_open(&file, r.path));
    r.file = file;
    r.file_bytes = stat(r.path, &info) ? 0 : (long long)info.st_size;
    VV_GO(vv_fail_within(vvi_restore_state(&r.state, file), "checkpoint %s", r.path));
    count_tensors(&r);
    if (json)
        add_json(&r, out);
    else
        add_text(&r, out);
    status = vv_str_status(out);
out:
    json_decref(r.state);
    vv_safetensors_close(file);
    vv_str_fini(&newest);
    return status;
}

/* ---- whole or not ---- */

static vv_status verify_file(vv_str *out, int *wrong, const char *path)
{
    vv_safetensors *file = NULL;
    vv_status status = vv_safetensors_open(&file, path);
    if (status == VV_ENOMEM)
        return status;
    if (status == VV_OK)
        vv_str_addf(out, "whole    %s\n", path);
    else
        vv_str_addf(out, "DAMAGED  %s: %s\n", path, vv_error());
    *wrong += status != VV_OK;
    vv_safetensors_close(file);
    return vv_str_status(out);
}

/* The link must name a file that is there. */
static vv_status verify_latest(vv_str *out, int *wrong, const char *folder)
{
    char *path = NULL, target[512];
    VV_TRY(vvi_path_join(&path, folder, "latest"));
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length > 0 && !vvi_exists(path)) {
        target[length] = '\0';
        vv_str_addf(out, "DAMAGED  %s: it points at %s, which is not there\n", path, target);
        ++*wrong;
    }
    vv_dealloc(path);
    return vv_str_status(out);
}

static vv_status verify_folder(vv_str *out, int *wrong, const char *run_dir)
{
    char *folder = NULL, *path = NULL;
    vvi_checkpoint_list list = {0};
    const vvi_name_facts facts = {0};
    vv_status status;
    VV_GO(vvi_path_join(&folder, run_dir, "checkpoints"));
    VV_GO(vvi_checkpoint_list_read(&list, vvi_is_folder(folder) ? folder : run_dir, VVI_SAVE_NAME,
                                   &facts, false));
    if (!list.count)
        VV_GO(vv_fail(VV_ENOTFOUND, "%s: there is no checkpoint", run_dir));
    for (int i = 0; i < list.count; i++) {
        VV_GO(vvi_path_join(&path, vvi_is_folder(folder) ? folder : run_dir, list.items[i].name));
        VV_GO(verify_file(out, wrong, path));
        vv_dealloc(path);
        path = NULL;
    }
    status = verify_latest(out, wrong, vvi_is_folder(folder) ? folder : run_dir);
out:
    vvi_checkpoint_list_fini(&list);
    vv_dealloc(folder);
    vv_dealloc(path);
    return status;
}

vv_status vv_checkpoint_verify(vv_str *out, int *wrong, const char *path)
{
    *wrong = 0;
    if (vvi_is_folder(path))
        return verify_folder(out, wrong, path);
    if (!vvi_exists(path))
        return vv_fail(VV_ENOTFOUND, "%s: there is no such file; check the path", path);
    return verify_file(out, wrong, path);
}
