/* dataset.c - opening, reading and freeing data sets; sets that live in memory. */
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

vv_status vv_dataset_open(vv_dataset **out, const vv_dataset_desc *desc, const void *opts,
                          const char *split)
{
    vv_status status;
    void *defaults = NULL;
    *out = NULL;
    if (opts) {
        VV_TRY(vv_opts_check(&desc->desc, opts));
        return desc->open(out, opts, split);
    }
    VV_TRY(vv_alloc(&defaults, desc->desc.opts_size));
    VV_GO(vv_opts_init(&desc->desc, defaults));
    status = desc->open(out, defaults, split);
    vv_opts_fini(&desc->desc, defaults);
out:
    vv_dealloc(defaults);
    return status;
}

vv_status vv_dataset_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    if (index < 0 || index >= dataset->count)
        return vv_fail(VV_EINVAL, "data set %s: no sample %lld among %lld", dataset->name,
                       (long long)index, (long long)dataset->count);
    return dataset->type->read(dataset, index, input, target);
}

void vv_dataset_free(vv_dataset *dataset)
{
    if (!dataset)
        return;
    if (dataset->type->fini)
        dataset->type->fini(dataset);
    vv_dealloc(dataset);
}

vv_status vv_dataset_split(bool *train, const char *name, const char *split)
{
    *train = split && strcmp(split, "train") == 0;
    if (!*train && (!split || strcmp(split, "eval") != 0))
        return vv_fail(VV_EINVAL,
                       "data set %s: split \"%s\" does not exist; there are \"train\" and "
                       "\"eval\"",
                       name, split ? split : "");
    return VV_OK;
}

/* ---- sets in memory ---- */

typedef struct memory_set {
    vv_tensor *inputs, *targets;
    size_t input_bytes, target_bytes; /* of one sample */
} memory_set;

static vv_status memory_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const memory_set *set = dataset->self;
    if (input)
        memcpy(input, (const char *)set->inputs->data + (size_t)index * set->input_bytes,
               set->input_bytes);
    if (target)
        memcpy(target, (const char *)set->targets->data + (size_t)index * set->target_bytes,
               set->target_bytes);
    return VV_OK;
}

static void memory_fini(vv_dataset *dataset)
{
    memory_set *set = dataset->self;
    if (!set)
        return;
    vv_tensor_free(set->inputs);
    vv_tensor_free(set->targets);
    vv_dealloc(set);
}

static const vv_dataset_class memory_class = {.read = memory_read, .fini = memory_fini};

/* A class index outside the classes would be read beside the logits much later. */
static vv_status check_targets(const char *name, const vv_sample_spec *spec,
                               const vv_tensor *targets)
{
    if (spec->classes <= 0 || targets->dtype != VV_I32 || (targets->ndim != 1 && !spec->tokens))
        return VV_OK;
    const int32_t *target = targets->data;
    const int64_t each = targets->count / targets->shape[0];
    for (int64_t i = 0; i < targets->count; i++)
        if (target[i] != -100 && (target[i] < 0 || target[i] >= spec->classes))
            return vv_fail(VV_EFORMAT,
                           "data set %s: the target of sample %lld is %d, expected 0 to "
                           "%lld (or -100, ignored)",
                           name, (long long)(i / each), (int)target[i],
                           (long long)spec->classes - 1);
    return VV_OK;
}

static vv_status check_tokens(const char *name, const vv_sample_spec *spec, const vv_tensor *inputs)
{
    if (spec->vocabulary <= 0 || inputs->dtype != VV_I32 || inputs->ndim != 2)
        return VV_OK;
    const int32_t *token = inputs->data;
    for (int64_t i = 0; i < inputs->count; i++)
        if (token[i] < 0 || token[i] >= spec->vocabulary)
            return vv_fail(VV_EFORMAT,
                           "data set %s: token %lld of sample %lld is %d, the vocabulary has 0 to "
                           "%lld",
                           name, (long long)(i % inputs->shape[1]),
                           (long long)(i / inputs->shape[1]), (int)token[i],
                           (long long)spec->vocabulary - 1);
    return VV_OK;
}

static vv_status check_tensors(const char *name, const vv_tensor *inputs, const vv_tensor *targets)
{
    if (inputs->ndim < 1 || targets->ndim < 1 || inputs->shape[0] != targets->shape[0])
        return vv_fail(VV_ESHAPE, "data set %s: %lld inputs but %lld targets", name,
                       inputs->ndim ? (long long)inputs->shape[0] : 0,
                       targets->ndim ? (long long)targets->shape[0] : 0);
    if (inputs->shape[0] < 1)
        return vv_fail(VV_EINVAL, "data set %s has no samples", name);
    return VV_OK;
}

static void sample_shape(const vv_tensor *tensor, int *ndim, int64_t *shape)
{
    *ndim = tensor->ndim - 1;
    for (int i = 0; i < VV_MAX_DIMS; i++)
        shape[i] = i < *ndim ? tensor->shape[i + 1] : 0;
}

vv_status vv_dataset_from_tensors(vv_dataset **out, const char *name, const vv_sample_spec *spec,
                                  vv_tensor *inputs, vv_tensor *targets)
{
    vv_status status;
    vv_dataset *dataset = NULL;
    memory_set *set = NULL;
    *out = NULL;
    VV_GO(check_tensors(name, inputs, targets));
    VV_GO(check_targets(name, spec, targets));
    VV_GO(check_tokens(name, spec, inputs));
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    VV_GO(vv_alloc(&set, sizeof *set));
    dataset->type = &memory_class;
    dataset->name = name;
    dataset->spec = *spec;
    dataset->spec.input_dtype = inputs->dtype;
    dataset->spec.target_dtype = targets->dtype;
    sample_shape(inputs, &dataset->spec.input_ndim, dataset->spec.input_shape);
    sample_shape(targets, &dataset->spec.target_ndim, dataset->spec.target_shape);
    dataset->count = inputs->shape[0];
    dataset->inputs = inputs->data;
    dataset->targets = targets->data;
    dataset->self = set;
    set->inputs = inputs;
    set->targets = targets;
    set->input_bytes = inputs->bytes / (size_t)dataset->count;
    set->target_bytes = targets->bytes / (size_t)dataset->count;
    *out = dataset;
    return VV_OK;
out:
    vv_dealloc(dataset);
    vv_tensor_free(inputs);
    vv_tensor_free(targets);
    return status;
}

static vv_status tensor_of(vv_tensor **out, vv_dtype dtype, int64_t count, int ndim,
                           const int64_t *sample, const void *data)
{
    int64_t shape[VV_MAX_DIMS] = {count};
    if (ndim < 0 || ndim >= VV_MAX_DIMS)
        return vv_fail(VV_ESHAPE, "data set: a sample has %d dimensions, expected 0 to %d", ndim,
                       VV_MAX_DIMS - 1);
    for (int i = 0; i < ndim; i++)
        shape[i + 1] = sample[i];
    return vv_tensor_from(out, dtype, ndim + 1, shape, data);
}

vv_status vv_dataset_from_arrays(vv_dataset **out, const vv_sample_spec *spec, int64_t count,
                                 const void *inputs, const void *targets)
{
    vv_status status;
    vv_tensor *input = NULL, *target = NULL;
    *out = NULL;
    if (count < 1)
        return vv_fail(VV_EINVAL, "data set: %lld samples, expected at least one",
                       (long long)count);
    VV_GO(tensor_of(&input, spec->input_dtype, count, spec->input_ndim, spec->input_shape, inputs));
    VV_GO(tensor_of(&target, spec->target_dtype, count, spec->target_ndim, spec->target_shape,
                    targets));
    return vv_dataset_from_tensors(out, "arrays", spec, input, target);
out:
    vv_tensor_free(input);
    vv_tensor_free(target);
    return status;
}

bool vv_sample_spec_is_placed(const vv_sample_spec *spec)
{
    return spec->input_ndim == 3 && spec->target_ndim == 2;
}

vv_status vv_sample_spec_check_movable(const vv_sample_spec *spec)
{
    if (!vv_sample_spec_is_placed(spec))
        return VV_OK;
    return vv_fail(VV_EINVAL, "moves the pixels of images, and their %s would stay where they are; "
                              "the data set's own settings move both",
                   vv_dtype_is_float(spec->target_dtype) ? "boxes" : "masks");
}

vv_status vv_sample_spec_check_image(const vv_sample_spec *spec, bool grey_or_rgb)
{
    const bool image = spec->input_ndim == 3 && spec->input_dtype == VV_U8;
    const int64_t channels = image ? spec->input_shape[2] : 0;
    if (image && (!grey_or_rgb || channels == 1 || channels == 3))
        return VV_OK;
    if (image)
        return vv_fail(VV_ETYPE, "needs 8-bit images with 1 or 3 channels; these have %lld",
                       (long long)channels);
    return vv_fail(VV_ETYPE, "needs 8-bit images [H,W,C]; these samples are %s with %d axes",
                   vv_dtype_name(spec->input_dtype), spec->input_ndim);
}
