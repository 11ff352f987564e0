/* blank_set.c - zeros in the form of a checkpoint's data: a model can be used where they are
 * not. */
#include <string.h>

#include <vivace/memory.h>

#include "recipe/recipe_impl.h"

static size_t bytes_of(vv_dtype dtype, int ndim, const int64_t *shape)
{
    size_t bytes = vv_dtype_size(dtype);
    for (int i = 0; i < ndim; i++)
        bytes *= (size_t)shape[i];
    return bytes;
}

static vv_status read_blank(vv_dataset *set, int64_t index, void *input, void *target)
{
    const vv_sample_spec *s = &set->spec;
    (void)index;
    if (input)
        memset(input, 0, bytes_of(s->input_dtype, s->input_ndim, s->input_shape));
    if (target)
        memset(target, 0, bytes_of(s->target_dtype, s->target_ndim, s->target_shape));
    return VV_OK;
}

static void blank_fini(vv_dataset *set)
{
    vv_saved_input *own = set->self; /* owns the names */
    if (own)
        vv_saved_input_fini(own);
    vv_dealloc(own);
}

static const vv_dataset_class blank_class = {.read = read_blank, .fini = blank_fini};

vv_status vvi_blank_set(vv_dataset **out, const vv_saved_input *input)
{
    vv_dataset *set = NULL;
    vv_saved_input *own = NULL;
    vv_status status;
    *out = NULL;
    VV_GO(vv_alloc(&set, sizeof *set));
    VV_GO(vv_alloc(&own, sizeof *own));
    own->spec = input->spec;
    if (input->class_names) {
        VV_GO(vv_alloc_array(&own->class_names, (size_t)input->spec.classes + 1,
                             sizeof *own->class_names));
        for (int64_t i = 0; i < input->spec.classes; i++)
            VV_GO(vv_strdup(&own->class_names[i], input->class_names[i]));
    }
    *set = (vv_dataset){.type = &blank_class,
                        .name = "(none)",
                        .spec = input->spec,
                        .count = input->samples > 0 ? input->samples : 1,
                        .class_names = (const char *const *)own->class_names,
                        .prepare = input->prepare,
                        .self = own};
    own = NULL;
    *out = set;
    set = NULL;
out:
    if (own)
        vv_saved_input_fini(own);
    vv_dealloc(own);
    vv_dealloc(set);
    return status;
}
