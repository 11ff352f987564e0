/* export_timm.c - a folder that timm makes the model from: weights and config.json. */
#include <vivace/export.h>

#include <string.h>

#include "base/file.h"

static void add_numbers(vv_str *out, const char *key, const float *values, int64_t count)
{
    vv_str_addf(out, "\"%s\": [", key);
    for (int64_t i = 0; i < count; i++)
        vv_str_addf(out, "%s%.6g", i ? ", " : "", (double)values[i]);
    vv_str_add(out, "]");
}

/* How timm's own transforms make an image like evaluation here. */
static void add_preparation(const vv_saved_input *in, vv_str *out)
{
    static const float zeros[4] = {0, 0, 0, 0}, ones[4] = {1, 1, 1, 1};
    const int64_t *side = in->spec.input_shape;
    const int64_t smaller = side[0] < side[1] ? side[0] : side[1];
    const int64_t resize = in->prepare.resize ? in->prepare.resize : smaller;
    const int filter = in->prepare.filter;
    vv_str_addf(out, "\"input_size\": [%lld, %lld, %lld], \"crop_pct\": %.6g, \"crop_mode\": "
                     "\"%s\", \"interpolation\": \"%s\", ",
                (long long)side[2], (long long)side[0], (long long)side[1],
                in->prepare.whole ? 1.0 : (double)smaller / (double)resize,
                in->prepare.whole ? "squash" : "center",
                filter == 1 + VV_IMAGE_BICUBIC   ? "bicubic"
                : filter == 1 + VV_IMAGE_NEAREST ? "nearest"
                : filter == 1 + VV_IMAGE_BOX     ? "box"
                                                 : "bilinear");
    add_numbers(out, "mean", in->normalise ? in->spec.mean : zeros, side[2]);
    vv_str_add(out, ", ");
    add_numbers(out, "std", in->normalise ? in->spec.std : ones, side[2]);
}

static vv_status write_config(const vv_model *model, const vv_saved_input *in, const char *path)
{
    vv_str out = {0};
    vv_status status;
    vv_str_addf(&out, "{\n  \"num_classes\": %lld,\n  ", (long long)model->classes);
    VV_GO(model->weight_map->timm(model, &in->spec, &out));
    if (in->class_names) {
        vv_str_add(&out, ",\n  \"label_names\": [");
        for (int64_t i = 0; i < in->spec.classes; i++) {
            vv_str_add(&out, i ? ", " : "");
            vv_str_add_json(&out, in->class_names[i]);
        }
        vv_str_add(&out, "]");
    }
    vv_str_addf(&out, ",\n  \"pretrained_cfg\": {\"num_classes\": %lld, ",
                (long long)model->classes);
    add_preparation(in, &out);
    vv_str_add(&out, "}\n}\n");
    VV_GO(vv_str_status(&out));
    status = vvi_file_write_atomic(path, vv_str_text(&out), out.length);
out:
    vv_str_fini(&out);
    return status;
}

vv_status vv_export_timm(vv_model *model, const vv_saved_input *input, const char *folder)
{
    vv_str weights = {0}, config = {0};
    vv_status status;
    if (!model->weight_map || !model->weight_map->timm)
        return vv_fail(VV_EUNSUPPORTED, "%s: timm has no model like %s; there are resnet and vit",
                       folder, model->name ? model->name : "this one");
    vv_str_addf(&weights, "%s/model.safetensors", folder);
    vv_str_addf(&config, "%s/config.json", folder);
    VV_GO(vv_str_status(&weights));
    VV_GO(vv_str_status(&config));
    VV_GO(vv_make_folder(folder));
    VV_GO(write_config(model, input, vv_str_text(&config)));
    status = vv_export_safetensors(model, vv_str_text(&weights));
out:
    vv_str_fini(&weights);
    vv_str_fini(&config);
    return vv_fail_within(status, "%s", folder);
}
