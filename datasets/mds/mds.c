/* mds.c - the data set mds: samples from MDS shards.
 *
 * What the input column holds decides what a sample is: raw pixels (pil, or uint8 arrays with three
 * axes) are images, floating numbers stay numbers, whole numbers and bytes are tokens. */
#include "mds.h"

#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/ext/mds_shards.h>
#include <vivace/ext/token_sets.h>
#include <vivace/memory.h>
#include <vivace/rng.h>
#include <vivace/str.h>

#define NO_LOSS (-100)

#define AT(member) offsetof(vv_mds_set_opts, member)
static const vv_field fields[] = {
    {"dir", "Folder with the splits' folders; empty = $VIVACE_DATA/mds", VV_FIELD_STRING,
     AT(common.dir), "", 0, 0, NULL},
    {"train", "Folder of the training split, below dir", VV_FIELD_STRING, AT(train), "train", 0, 0,
     NULL},
    {"eval", "Folder of the evaluation split, below dir", VV_FIELD_STRING, AT(eval), "val", 0, 0,
     NULL},
    {"input", "Column that the model sees", VV_FIELD_STRING, AT(input), "tokens", 0, 0, NULL},
    {"target", "Column with the target; empty = the next token, or masked ones", VV_FIELD_STRING,
     AT(target), "", 0, 0, NULL},
    {"dtype", "What columns of bytes hold: int64, uint16, ...", VV_FIELD_STRING, AT(dtype), "int64",
     0, 0, NULL},
    {"classes", "Classes of the target column; 0 = it holds numbers", VV_FIELD_INT, AT(classes),
     "0", 0, INT32_MAX, NULL},
    {"seq", "Tokens of a sample; 0 = as many as the first one has", VV_FIELD_INT, AT(seq), "0", 0,
     1 << 24, NULL},
    {"vocabulary", "Token ids are below it", VV_FIELD_INT, AT(vocabulary), "50257", 1, INT32_MAX,
     NULL},
    {"mask", "Share of the tokens that are masked and to be guessed; 0 = the next token is",
     VV_FIELD_FLOAT, AT(mask), "0", 0, 1, NULL},
    {"mask_id", "Token that stands for a masked one", VV_FIELD_INT, AT(mask_id), "0", 0, INT32_MAX,
     NULL},
    {"special_ids", "Tokens that are never masked, like 101,102", VV_FIELD_STRING, AT(special_ids),
     "", 0, 0, NULL},
    {"pad_id", "Token that fills short samples; it has no loss", VV_FIELD_INT, AT(pad_id), "0", 0,
     INT32_MAX, NULL},
    {.name = NULL},
};

typedef enum kind { TOKENS, NUMBERS, PIXELS, IMAGE } kind;

typedef struct mds_set {
    vv_mds *mds;
    int input, target; /* columns; target -1 = from the input */
    kind kind;
    char *dtype;
    int32_t *special;
    int32_t pad_id;
    vv_mask_opts mask; /* share 0 = off */
} mds_set;

static const char *encoding_of(const mds_set *set, int column)
{
    return vv_mds_column_at(set->mds, column)->encoding;
}

static vv_status values_of(const mds_set *set, int64_t index, int column, vv_mds_values *out)
{
    const void *data;
    size_t bytes;
    VV_TRY(vv_mds_read(set->mds, index, column, &data, &bytes));
    return vv_mds_values_of(out, encoding_of(set, column), data, bytes, set->dtype);
}

/* ---- reading ---- */

static vv_status read_tokens(const mds_set *set, const vv_sample_spec *spec, int64_t index,
                             int32_t *input, int32_t *target)
{
    vv_mds_values values;
    const int64_t seq = spec->tokens, most = spec->vocabulary - 1;
    VV_TRY(values_of(set, index, set->input, &values));
    const int64_t given = values.count < seq ? values.count : seq;
    if (input)
        VV_TRY(vv_mds_values_i32(&values, 0, given, 0, most, input));
    for (int64_t t = given; input && t < seq; t++)
        input[t] = set->pad_id;
    if (!target || set->target >= 0)
        return VV_OK;
    const int64_t from = set->mask.share > 0.0 ? 0 : 1;
    const int64_t told = values.count - from < seq ? values.count - from : seq;
    if (told > 0)
        VV_TRY(vv_mds_values_i32(&values, from, told, 0, most, target));
    for (int64_t t = told > 0 ? told : 0; t < seq; t++)
        target[t] = NO_LOSS;
    return VV_OK;
}

static vv_status wrong_size(const vv_sample_spec *spec, int ndim, const int64_t *shape)
{
    char have[96], want[96];
    return vv_fail(VV_EFORMAT, "its shape is %s, the first sample's %s",
                   vv_shape_text(ndim, shape, have, sizeof have),
                   vv_shape_text(spec->input_ndim, spec->input_shape, want, sizeof want));
}

static vv_status read_image(const mds_set *set, const vv_sample_spec *spec, int64_t index,
                            uint8_t *input)
{
    const void *data;
    const uint8_t *pixels;
    size_t bytes;
    int64_t shape[3];
    VV_TRY(vv_mds_read(set->mds, index, set->input, &data, &bytes));
    VV_TRY(vv_mds_image(&pixels, shape, encoding_of(set, set->input), data, bytes));
    if (memcmp(shape, spec->input_shape, sizeof shape) != 0)
        return wrong_size(spec, 3, shape);
    memcpy(input, pixels, (size_t)(shape[0] * shape[1] * shape[2]));
    return VV_OK;
}

static vv_status read_array(const mds_set *set, const vv_sample_spec *spec, int64_t index,
                            void *input)
{
    vv_mds_values values;
    VV_TRY(values_of(set, index, set->input, &values));
    if (values.ndim != spec->input_ndim ||
        memcmp(values.shape, spec->input_shape, (size_t)values.ndim * sizeof *values.shape) != 0)
        return wrong_size(spec, values.ndim, values.shape);
    if (set->kind == NUMBERS)
        return vv_mds_values_f32(&values, 0, values.count, input);
    memcpy(input, values.data, (size_t)values.count);
    return VV_OK;
}

static vv_status read_target(const mds_set *set, const vv_sample_spec *spec, int64_t index,
                             void *target)
{
    vv_mds_values values;
    int32_t class;
    VV_TRY(values_of(set, index, set->target, &values));
    if (spec->target_dtype == VV_F32) {
        const int64_t count = spec->target_ndim ? spec->target_shape[0] : 1;
        if (values.count != count)
            return vv_fail(VV_EFORMAT, "%lld numbers, the first sample has %lld",
                           (long long)values.count, (long long)count);
        return vv_mds_values_f32(&values, 0, count, target);
    }
    if (values.count != 1)
        return vv_fail(VV_EFORMAT, "expected one class, found %lld numbers",
                       (long long)values.count);
    VV_TRY(vv_mds_values_i32(&values, 0, 1, NO_LOSS, spec->classes - 1, &class));
    if (class < 0 && class != NO_LOSS)
        return vv_fail(VV_EFORMAT, "class %d, expected 0 to %lld (or -100, ignored)", (int)class,
                       (long long)spec->classes - 1);
    memcpy(target, &class, sizeof class);
    return VV_OK;
}

static vv_status set_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const mds_set *set = dataset->self;
    const vv_sample_spec *spec = &dataset->spec;
    vv_status status = VV_OK;
    if (set->kind == TOKENS)
        status = read_tokens(set, spec, index, input, target);
    else if (input)
        status = set->kind == IMAGE ? read_image(set, spec, index, input)
                                    : read_array(set, spec, index, input);
    VV_TRY(vv_fail_within(status, "data set mds: sample %lld: %s", (long long)index,
                          vv_mds_column_at(set->mds, set->input)->name));
    if (target && set->target >= 0)
        return vv_fail_within(read_target(set, spec, index, target),
                              "data set mds: sample %lld: %s", (long long)index,
                              vv_mds_column_at(set->mds, set->target)->name);
    return VV_OK;
}

static vv_status set_vary(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    const mds_set *set = dataset->self;
    vv_mds_values values;
    VV_TRY(values_of(set, call->index, set->input, &values));
    const int64_t seq = dataset->spec.tokens;
    vv_mask_tokens(&set->mask, dataset->spec.vocabulary, &call->rng, input, target,
                   values.count < seq ? values.count : seq);
    return VV_OK;
}

static void set_free(mds_set *set)
{
    if (!set)
        return;
    vv_mds_free(set->mds);
    vv_dealloc(set->dtype);
    vv_dealloc(set->special);
    vv_dealloc(set);
}

static void set_fini(vv_dataset *dataset)
{
    set_free(dataset->self);
}

static const vv_dataset_class plain_class = {.read = set_read, .fini = set_fini};
static const vv_dataset_class masked_class = {
    .read = set_read, .fini = set_fini, .vary = set_vary};

/* ---- opening ---- */

static vv_status token_spec(const vv_mds_set_opts *o, int64_t count, vv_sample_spec *spec)
{
    spec->tokens = o->seq ? o->seq : count;
    spec->vocabulary = o->vocabulary;
    spec->input_dtype = VV_I32;
    spec->input_ndim = 1;
    spec->input_shape[0] = spec->tokens;
    if (o->pad_id >= o->vocabulary || (o->mask > 0.0 && o->mask_id >= o->vocabulary))
        return vv_fail(VV_EINVAL,
                       "pad_id %lld or mask_id %lld is outside the vocabulary, 0 to %lld",
                       (long long)o->pad_id, (long long)o->mask_id, (long long)o->vocabulary - 1);
    return VV_OK;
}

/* What samples are, from the first one. */
static vv_status input_spec(mds_set *set, const vv_mds_set_opts *o, vv_sample_spec *spec)
{
    const char *encoding = encoding_of(set, set->input);
    const void *data;
    const uint8_t *pixels;
    size_t bytes;
    VV_TRY(vv_mds_read(set->mds, 0, set->input, &data, &bytes));
    spec->input_dtype = VV_U8;
    spec->input_ndim = 3;
    set->kind = IMAGE;
    if (strcmp(encoding, "pil") == 0)
        return vv_mds_image(&pixels, spec->input_shape, encoding, data, bytes);
    vv_mds_values values;
    VV_TRY(vv_mds_values_of(&values, encoding, data, bytes, set->dtype));
    const bool floating = strncmp(values.dtype, "float", 5) == 0;
    if (!floating && values.ndim == 3 && strcmp(values.dtype, "uint8") == 0)
        set->kind = PIXELS;
    else if (floating)
        set->kind = NUMBERS;
    else
        set->kind = TOKENS;
    if (set->kind == TOKENS)
        return token_spec(o, values.count, spec);
    if (values.ndim >= VV_MAX_DIMS)
        return vv_fail(VV_ESHAPE, "a sample has %d axes, at most %d fit beside the batch's",
                       values.ndim, VV_MAX_DIMS - 1);
    spec->input_dtype = floating ? VV_F32 : VV_U8;
    spec->input_ndim = values.ndim;
    memcpy(spec->input_shape, values.shape, sizeof spec->input_shape);
    return VV_OK;
}

static vv_status target_spec(mds_set *set, const vv_mds_set_opts *o, vv_sample_spec *spec)
{
    spec->target_dtype = VV_I32;
    spec->classes = o->classes;
    if (set->target < 0) {
        spec->target_ndim = 1;
        spec->target_shape[0] = spec->tokens;
        spec->classes = o->vocabulary;
        if (set->kind != TOKENS)
            return vv_fail(VV_EINVAL, "column %s holds no tokens; name the column to learn as "
                                      "target", o->input);
        return VV_OK;
    }
    if (o->mask > 0.0)
        return vv_fail(VV_EINVAL, "tokens are masked, so the target cannot be column %s; leave one "
                                  "of them out", o->target);
    if (o->classes > 0)
        return VV_OK;
    vv_mds_values values;
    VV_TRY(vv_fail_within(values_of(set, 0, set->target, &values), "%s", o->target));
    spec->target_dtype = VV_F32;
    spec->target_ndim = values.ndim > 0;
    spec->target_shape[0] = values.ndim > 0 ? values.count : 0;
    return VV_OK;
}

static vv_status set_masking(mds_set *set, const vv_mds_set_opts *o)
{
    set->mask = (vv_mask_opts)VV_MASK_DEFAULTS;
    set->mask.share = o->mask;
    set->mask.mask_id = (int32_t)o->mask_id;
    VV_TRY(vv_fail_within(vv_token_ids_parse(&set->special, &set->mask.special_count,
                                             o->special_ids, o->vocabulary),
                          "special_ids"));
    set->mask.special = set->special;
    return VV_OK;
}

static vv_status open_folder(mds_set *set, const vv_mds_set_opts *o, bool train)
{
    char *dir = NULL;
    vv_str path = {0};
    vv_status status = vv_dataset_find_dir(&dir, o->common.dir, "mds", NULL);
    if (status == VV_ENOTFOUND && !o->common.dir[0])
        status = vv_fail(VV_ENOTFOUND, "there is no folder $VIVACE_DATA/mds; name the folder of "
                                       "the shards with dir=");
    if (status == VV_OK) {
        const char *split = train ? o->train : o->eval;
        vv_str_addf(&path, "%s%s%s", dir, split[0] ? "/" : "", split);
        status = vv_str_status(&path);
    }
    if (status == VV_OK)
        status = vv_mds_open(&set->mds, vv_str_text(&path));
    if (status == VV_OK && vv_mds_count(set->mds) < 1)
        status = vv_fail(VV_EINVAL, "%s has no samples", vv_str_text(&path));
    vv_dealloc(dir);
    vv_str_fini(&path);
    return status;
}

static vv_status fill(vv_dataset *dataset, mds_set *set, const vv_mds_set_opts *o, bool train)
{
    VV_TRY(open_folder(set, o, train));
    VV_TRY(vv_strdup(&set->dtype, o->dtype));
    set->pad_id = (int32_t)o->pad_id;
    set->target = -1;
    VV_TRY(vv_mds_find(&set->input, set->mds, o->input));
    if (o->target[0])
        VV_TRY(vv_mds_find(&set->target, set->mds, o->target));
    VV_TRY(vv_fail_within(input_spec(set, o, &dataset->spec), "%s", o->input));
    VV_TRY(target_spec(set, o, &dataset->spec));
    VV_TRY(set_masking(set, o));
    dataset->type = o->mask > 0.0 ? &masked_class : &plain_class;
    dataset->name = "mds";
    dataset->count = vv_mds_count(set->mds);
    return VV_OK;
}

static vv_status mds_open(vv_dataset **out, const void *opts, const char *split)
{
    vv_status status;
    bool train;
    vv_dataset *dataset = NULL;
    mds_set *set = NULL;
    *out = NULL;
    VV_GO(vv_dataset_split(&train, "mds", split));
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    VV_GO(vv_alloc(&set, sizeof *set));
    VV_GO(vv_fail_within(fill(dataset, set, opts, train), "data set mds"));
    dataset->self = set;
    *out = dataset;
    return VV_OK;
out:
    set_free(set);
    vv_dealloc(dataset);
    return status;
}

/* With the shards: as they are. Without: texts of seq tokens (1024). */
static vv_status mds_shape(const void *opts, const char *split, vv_sample_spec *spec,
                           int64_t *count)
{
    const vv_mds_set_opts *o = opts;
    vv_dataset *set;
    mds_set none = {.target = o->target[0] ? 0 : -1, .kind = TOKENS};
    vv_status status = mds_open(&set, opts, split);
    if (status == VV_OK) {
        *spec = set->spec;
        *count = set->count;
        vv_dataset_free(set);
        if (spec->tokens == 0)
            return vv_fail(VV_EUNSUPPORTED, "data set mds: random data stand in for texts only");
    }
    if (status != VV_ENOTFOUND)
        return status;
    *spec = (vv_sample_spec){0};
    *count = strcmp(split, "train") == 0 ? 1000000 : 1000;
    VV_TRY(token_spec(o, 1024, spec));
    if (none.target < 0 || o->classes > 0)
        return target_spec(&none, o, spec);
    spec->target_dtype = VV_F32;
    return VV_OK;
}

const vv_dataset_desc vv_dataset_mds = {
    .desc =
        {
            .kind = "dataset",
            .name = "mds",
            .summary = "Samples from MDS shards, the format of MosaicML's streaming packages.",
            .cite = "",
            .domains = "any",
            .fields = fields,
            .opts_size = sizeof(vv_mds_set_opts),
        },
    .open = mds_open,
    .shape = mds_shape,
};
