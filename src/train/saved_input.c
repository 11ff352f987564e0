/* saved_input.c - what a checkpoint says of its model's data: samples, normalisation, how an image
 * of any size becomes one, names of the classes. One JSON text, "vivace.input". */
#include <string.h>

#include "restore.h"

static const char key[] = "vivace.input";

/* ---- writing ---- */

static void add_shape(vv_str *out, const char *name, vv_dtype dtype, int ndim, const int64_t *shape)
{
    vv_str_addf(out, "\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, vv_dtype_name(dtype));
    for (int i = 0; i < ndim; i++)
        vv_str_addf(out, "%s%lld", i ? "," : "", (long long)shape[i]);
    vv_str_add(out, "]},");
}

static void add_numbers(vv_str *out, const char *name, const float *values, int count)
{
    vv_str_addf(out, "\"%s\":[", name);
    for (int i = 0; i < count; i++) {
        vv_str_add(out, i ? "," : "");
        vvi_json_number(out, (double)values[i]);
    }
    vv_str_add(out, "],");
}

static void add_input(vv_str *out, const vv_dataset *set, bool normalise)
{
    const vv_sample_spec *spec = &set->spec;
    const vv_image_prepare *p = &set->prepare;
    const vv_image_filter filter =
        p->filter ? (vv_image_filter)(p->filter - 1) : VV_IMAGE_BILINEAR;
    vv_str_add(out, "{");
    add_shape(out, "input", spec->input_dtype, spec->input_ndim, spec->input_shape);
    add_shape(out, "target", spec->target_dtype, spec->target_ndim, spec->target_shape);
    add_numbers(out, "mean", spec->mean, 4);
    add_numbers(out, "std", spec->std, 4);
    vv_str_addf(out,
                "\"classes\":%lld,\"tokens\":%lld,\"vocabulary\":%lld,\"samples\":%lld,"
                "\"normalise\":%s,\"resize\":%lld,\"filter\":\"%s\",\"whole\":%s,"
                "\"orient\":%s,\"data\":",
                (long long)spec->classes, (long long)spec->tokens, (long long)spec->vocabulary,
                (long long)set->count, normalise ? "true" : "false", (long long)p->resize,
                vv_image_filter_name(filter), p->whole ? "true" : "false",
                p->orient ? "true" : "false");
    vv_str_add_json(out, set->name ? set->name : "");
    vv_str_add(out, ",\"class_names\":[");
    for (int64_t i = 0; set->class_names && i < spec->classes; i++) {
        vv_str_add(out, i ? "," : "");
        vv_str_add_json(out, set->class_names[i]);
    }
    vv_str_add(out, "]}");
}

vv_status vvi_saved_input_write(const vv_trainer *t, vv_safetensors_writer *writer)
{
    vv_str json = {0};
    const vv_loader *data = t->train                ? t->train
                            : t->evaluator_count ? t->evaluators[0].loader
                                                 : NULL;
    if (!data)
        return VV_OK;
    add_input(&json, vv_loader_dataset(data), vv_loader_transform(data)->normalise);
    vv_status status = vv_str_status(&json);
    if (status == VV_OK)
        status = vv_safetensors_add_text(writer, key, vv_str_text(&json));
    vv_str_fini(&json);
    return status;
}

/* ---- reading: a file may say anything ---- */

static vv_status wrong(const char *what)
{
    return vv_fail(VV_EFORMAT, "what it says of its data is damaged: %s", what);
}

static vv_status read_shape(const json_t *root, const char *name, vv_dtype *dtype, int *ndim,
                            int64_t *shape)
{
    const json_t *part = json_object_get(root, name), *sides = json_object_get(part, "shape");
    const char *type = json_string_value(json_object_get(part, "dtype"));
    const size_t count = json_array_size(sides);
    int found = -1;
    for (int i = 0; type && i < VV_DTYPE_COUNT && found < 0; i++)
        if (strcmp(vv_dtype_name((vv_dtype)i), type) == 0)
            found = i;
    if (found < 0 || !json_is_array(sides) || count > VV_MAX_DIMS)
        return wrong(name);
    *dtype = (vv_dtype)found;
    *ndim = (int)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *side = json_array_get(sides, i);
        shape[i] = (int64_t)json_integer_value(side);
        if (!json_is_integer(side) || shape[i] < 1 || shape[i] > 100000000)
            return wrong(name);
    }
    return VV_OK;
}

static vv_status read_numbers(const json_t *root, const char *name, float *values, size_t count)
{
    const json_t *list = json_object_get(root, name);
    if (json_array_size(list) != count)
        return wrong(name);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)json_number_value(json_array_get(list, i));
    return VV_OK;
}

static vv_status read_names(const json_t *root, vv_saved_input *out)
{
    const json_t *list = json_object_get(root, "class_names");
    const size_t count = json_array_size(list);
    if (count == 0)
        return VV_OK;
    if (count != (size_t)out->spec.classes)
        return wrong("class_names");
    VV_TRY(vv_alloc_array(&out->class_names, count + 1, sizeof *out->class_names));
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name)
            return wrong("class_names");
        VV_TRY(vv_strdup(&out->class_names[i], name));
    }
    return VV_OK;
}

static vv_status read_filter(const json_t *root, int *out)
{
    const char *name = json_string_value(json_object_get(root, "filter"));
    for (int i = 0; name && i < VV_IMAGE_FILTER_COUNT; i++)
        if (strcmp(vv_image_filter_name((vv_image_filter)i), name) == 0) {
            *out = 1 + i;
            return VV_OK;
        }
    return wrong("filter");
}

static vv_status read_root(const json_t *root, vv_saved_input *out)
{
    vv_sample_spec *spec = &out->spec;
    VV_TRY(read_shape(root, "input", &spec->input_dtype, &spec->input_ndim, spec->input_shape));
    VV_TRY(read_shape(root, "target", &spec->target_dtype, &spec->target_ndim,
                      spec->target_shape));
    VV_TRY(read_numbers(root, "mean", spec->mean, 4));
    VV_TRY(read_numbers(root, "std", spec->std, 4));
    VV_TRY(vvi_get_int(root, "classes", &spec->classes));
    VV_TRY(vvi_get_int(root, "tokens", &spec->tokens));
    VV_TRY(vvi_get_int(root, "vocabulary", &spec->vocabulary));
    VV_TRY(vvi_get_int(root, "samples", &out->samples));
    VV_TRY(vvi_get_int(root, "resize", &out->prepare.resize));
    VV_TRY(read_filter(root, &out->prepare.filter));
    if (spec->classes < 0 || spec->classes > 100000000 || out->samples < 0 ||
        out->prepare.resize < 0 || out->prepare.resize > 1000000)
        return wrong("a number is out of range");
    out->normalise = json_is_true(json_object_get(root, "normalise"));
    out->prepare.whole = json_is_true(json_object_get(root, "whole"));
    out->prepare.orient = json_is_true(json_object_get(root, "orient"));
    return read_names(root, out);
}

vv_status vv_saved_input_read(vv_saved_input *out, const vv_safetensors *file)
{
    const char *text = vv_safetensors_text(file, key);
    json_error_t error;
    if (!text)
        return vv_fail(VV_ENOTFOUND, "it does not tell what its data are");
    json_t *root = json_loads(text, 0, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return vv_fail(VV_ENOMEM, "out of memory while reading what the data are");
    const vv_status status = root ? read_root(root, out) : wrong(error.text);
    json_decref(root);
    return status;
}

void vv_saved_input_fini(vv_saved_input *input)
{
    for (int64_t i = 0; input->class_names && i < input->spec.classes; i++)
        vv_dealloc(input->class_names[i]);
    vv_dealloc(input->class_names);
    *input = (vv_saved_input){0};
}
