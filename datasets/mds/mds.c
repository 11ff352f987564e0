/* mds.c - the data set mds: samples from MDS shards, in a folder or an object store. What a sample
 * is: mds_read.c. */
#include "mds.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/rng.h>
#include <vivace/str.h>

#include "mds_sample.h"

static const char *const order_names[] = {"auto", "samples", "shards", NULL};

#define AT(member) offsetof(vv_mds_set_opts, member)
static const vv_field fields[] = {
    {"dir", "Folder with the splits' folders; empty = $VIVACE_DATA/mds. With remote: the cache",
     VV_FIELD_STRING, AT(common.dir), "", 0, 0, NULL},
    {"train", "Folder of the training split, below dir", VV_FIELD_STRING, AT(train), "train", 0, 0,
     NULL},
    {"eval", "Folder of the evaluation split, below dir", VV_FIELD_STRING, AT(eval), "val", 0, 0,
     NULL},
    {"input", "Column that the model sees; empty = tokens, image, x or input", VV_FIELD_STRING,
     AT(input), "", 0, 0, NULL},
    {"target", "Column with the target; empty = label, y, class or target beside images, the next "
               "token or masked ones of texts", VV_FIELD_STRING, AT(target), "", 0, 0, NULL},
    {"dtype", "What columns of bytes hold: int64, uint16, ...", VV_FIELD_STRING, AT(dtype), "int64",
     0, 0, NULL},
    {"classes", "Classes of the target column; 0 = those of classes.json, else it holds numbers",
     VV_FIELD_INT, AT(classes), "0", 0, INT32_MAX, NULL},
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
    {"size", "Side of a sample in pixels: images are cut to it; 0 = all are of one size already",
     VV_FIELD_INT, AT(size), "0", 0, 4096, NULL},
    {"resize", "Evaluation: shorter side before the centre is cut out; 0 = 8/7 of size",
     VV_FIELD_INT, AT(resize), "0", 0, 8192, NULL},
    {"channels", "Images: 3 for colour, 1 for grey", VV_FIELD_INT, AT(channels), "3", 1, 3, NULL},
    {"scale", "Training: least share of the image's area that is used", VV_FIELD_FLOAT, AT(scale),
     "0.08", 1e-4, 1, NULL},
    {"ratio", "Training: width to height of the part is at least this, at most its inverse",
     VV_FIELD_FLOAT, AT(ratio), "0.75", 0.05, 1, NULL},
    {"color_jitter", "Training: brightness, contrast, saturation times 1 +- this", VV_FIELD_FLOAT,
     AT(color_jitter), "0", 0, 1, NULL},
    {"hue", "Training: hue turned by up to this part of the circle", VV_FIELD_FLOAT, AT(hue), "0",
     0, 0.5, NULL},
    {"interpolation", "Filter of the resizing", VV_FIELD_CHOICE, AT(interpolation), "bilinear", 0,
     0, vv_photo_filter_names},
    {"scaled_decode", "JPEGs may be decoded at 1/2, 1/4, 1/8 where that is large enough",
     VV_FIELD_BOOL, AT(scaled_decode), "true", 0, 0, NULL},
    {"orient", "Turn photographs as their EXIF data say", VV_FIELD_BOOL, AT(orient), "true", 0, 0,
     NULL},
    {"order", "Of shuffled epochs: any sample anywhere, or shards and samples in windows; auto = "
              "windows with remote", VV_FIELD_CHOICE, AT(order), "auto", 0, 0, order_names},
    {"window", "Samples that are shuffled together; 0 = those of eight shards", VV_FIELD_INT,
     AT(window), "0", 0, 1e12, NULL},
    {"remote", "Where the splits' folders are: http://, https:// or s3://bucket/folder; empty = in "
               "dir", VV_FIELD_STRING, AT(remote), "", 0, 0, NULL},
    {"endpoint", "Server of s3; empty = $AWS_ENDPOINT_URL, then Amazon's", VV_FIELD_STRING,
     AT(endpoint), "", 0, 0, NULL},
    {"region", "Of s3; empty = $AWS_REGION, then us-east-1", VV_FIELD_STRING, AT(region), "", 0, 0,
     NULL},
    {"cache_limit", "Shards kept in the cache, or unpacked in memory, like 20GB, for each split; "
                    "empty = all", VV_FIELD_STRING, AT(cache_limit), "", 0, 0, NULL},
    {"downloads", "Shards that are fetched at once", VV_FIELD_INT, AT(downloads), "2", 1, 64, NULL},
    {"retries", "Of a transfer that gets no further", VV_FIELD_INT, AT(retries), "5", 0, 1000,
     NULL},
    {"retry_wait", "Seconds before the first retry, doubled each time up to 30", VV_FIELD_FLOAT,
     AT(retry_wait), "0.5", 0, 30, NULL},
    {"timeout", "Seconds of a silent server that end a transfer", VV_FIELD_FLOAT, AT(timeout), "60",
     1, 86400, NULL},
    {.name = NULL},
};

/* ---- the class ---- */

static vv_status set_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    return mds_read_sample(dataset->self, &dataset->spec, index, NULL, input, target);
}

static vv_status set_draw(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    return mds_read_sample(dataset->self, &dataset->spec, call->index, &call->rng, input, target);
}

static vv_status set_vary(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    return mds_mask_sample(dataset->self, &dataset->spec, call, input, target);
}

/* Shards in random order and samples within a window: few shards are in use at once. */
static vv_status set_order(vv_dataset *dataset, uint64_t seed, int64_t epoch, int64_t count,
                           int64_t *out)
{
    const mds_set *set = dataset->self;
    if (set->window > 0)
        return vv_order_windows(out, count, set->first, vv_mds_shard_count(set->mds), set->window,
                                seed, epoch);
    vv_rng rng = vv_rng_at(seed, "shuffle", (uint64_t)epoch);
    vv_rng_permutation(&rng, out, count);
    return VV_OK;
}

static void set_soon(vv_dataset *dataset, const int64_t *indices, int64_t count)
{
    const mds_set *set = dataset->self;
    vv_mds_soon(set->mds, indices, count);
}

static void set_free(mds_set *set)
{
    if (!set)
        return;
    vv_mds_free(set->mds);
    vv_dealloc(set->dtype);
    vv_dealloc(set->special);
    vv_dealloc(set->first);
    vv_dealloc(set);
}

static void set_fini(vv_dataset *dataset)
{
    set_free(dataset->self);
}

static const vv_dataset_class plain_class = {
    .read = set_read, .fini = set_fini, .order = set_order, .soon = set_soon};
static const vv_dataset_class masked_class = {.read = set_read,
                                              .fini = set_fini,
                                              .vary = set_vary,
                                              .order = set_order,
                                              .soon = set_soon};
static const vv_dataset_class cropped_class = {.read = set_read,
                                               .fini = set_fini,
                                               .draw = set_draw,
                                               .order = set_order,
                                               .soon = set_soon};

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

/* ImageNet's means and deviations, which nets for photographs were trained with. */
static void set_colours(vv_sample_spec *spec)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    for (int c = 0; c < 4; c++) {
        spec->mean[c] = spec->input_shape[2] == 3 && c < 3 ? mean[c] : 0.449f;
        spec->std[c] = spec->input_shape[2] == 3 && c < 3 ? std[c] : 0.226f;
    }
}

static vv_status input_spec(mds_set *set, const vv_mds_set_opts *o, vv_sample_spec *spec)
{
    int64_t values;
    VV_TRY(mds_input_spec(set, spec, &values));
    if (set->kind == MDS_TOKENS)
        return token_spec(o, values, spec);
    if (spec->input_dtype == VV_U8 && spec->input_ndim == 3)
        set_colours(spec);
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
        if (set->kind != MDS_TOKENS)
            return vv_fail(VV_EINVAL, "column %s holds no tokens; name the column to learn as "
                                      "target", vv_mds_column_at(set->mds, set->input)->name);
        return VV_OK;
    }
    if (o->mask > 0.0)
        return vv_fail(VV_EINVAL, "tokens are masked, so the target cannot be column %s; leave one "
                                  "of them out", o->target);
    return VV_OK;
}

/* A target column without `classes`: as many as classes.json names, else numbers. */
static vv_status target_from_files(vv_dataset *dataset, mds_set *set)
{
    vv_sample_spec *spec = &dataset->spec;
    const char *const *names;
    int64_t count;
    VV_TRY(vv_mds_class_names(&names, &count, set->mds));
    if (spec->classes == 0)
        spec->classes = count;
    if (count > 0 && spec->classes == count)
        dataset->class_names = names;
    if (spec->classes > 0)
        return VV_OK;
    vv_mds_values values;
    vv_mds_sample sample;
    const void *data;
    size_t bytes;
    VV_TRY(vv_mds_hold(set->mds, 0, &sample));
    vv_status status = vv_mds_column_of(set->mds, &sample, set->target, &data, &bytes);
    if (status == VV_OK)
        status = vv_mds_values_of(&values, mds_encoding(set, set->target), data, bytes,
                                  set->dtype);
    vv_mds_release(set->mds, &sample);
    VV_TRY(vv_fail_within(status, "%s", vv_mds_column_at(set->mds, set->target)->name));
    if (spec->input_dtype == VV_U8 && strncmp(values.dtype, "float", 5) != 0 && values.count == 1)
        return vv_fail(VV_EINVAL, "say with classes= how many classes column %s has; there is no "
                                  "classes.json beside the index",
                       vv_mds_column_at(set->mds, set->target)->name);
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

/* ---- where the shards are ---- */

/* The cache of a remote set that names no folder: vivace/mds-<its address> in the user's cache. */
static vv_status usual_cache(vv_str *out, const char *remote)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    uint32_t sum = 2166136261u; /* FNV-1a: names that look alike stay apart */
    for (const char *at = remote; *at; at++)
        sum = (sum ^ (unsigned char)*at) * 16777619u;
    if (xdg && xdg[0] == '/')
        vv_str_addf(out, "%s/vivace/mds-", xdg);
    else if (home && home[0])
        vv_str_addf(out, "%s/.cache/vivace/mds-", home);
    else
        return vv_fail(VV_ENOTFOUND, "no place for a cache: neither XDG_CACHE_HOME nor HOME is "
                                     "set; name a folder with dir=");
    const char *name = strstr(remote, "://");
    for (const char *at = name ? name + 3 : remote; *at && *at != '?'; at++)
        vv_str_addn(out, (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
                                 (*at >= 'A' && *at <= 'Z') || *at == '.'
                             ? at
                             : "_", 1);
    vv_str_addf(out, "-%08x", (unsigned)sum);
    return vv_str_status(out);
}

/* "<address>/<split>", in front of a query. */
static void add_split(vv_str *out, const char *address, const char *split)
{
    size_t length = strcspn(address, "?");
    if (strncmp(address, "s3://", 5) == 0)
        length = strlen(address);
    const char *query = address + length;
    while (length > 0 && address[length - 1] == '/')
        length--;
    vv_str_addn(out, address, length);
    vv_str_addf(out, "%s%s%s", split[0] ? "/" : "", split, query);
}

static vv_status open_shards(mds_set *set, const vv_mds_set_opts *o, const char *split)
{
    vv_status status;
    char *dir = NULL;
    int64_t limit = 0;
    vv_str path = {0}, remote = {0};
    vv_mds_opts opts = VV_MDS_DEFAULTS;
    const bool far = o->remote[0] != '\0';
    if (o->cache_limit[0])
        VV_GO(vv_fail_within(vv_bytes_parse(&limit, o->cache_limit), "cache_limit"));
    if (far && !o->common.dir[0]) {
        VV_GO(usual_cache(&path, o->remote));
    } else if (far) {
        vv_str_add(&path, o->common.dir);
    } else {
        status = vv_dataset_find_dir(&dir, o->common.dir, "mds", NULL);
        if (status == VV_ENOTFOUND && !o->common.dir[0])
            status = vv_fail(VV_ENOTFOUND, "there is no folder $VIVACE_DATA/mds; name the folder "
                                           "of the shards with dir=");
        VV_GO(status);
        vv_str_add(&path, dir);
    }
    vv_str_addf(&path, "%s%s", split[0] ? "/" : "", split);
    if (far)
        add_split(&remote, o->remote, split);
    VV_GO(vv_str_status(&path));
    VV_GO(vv_str_status(&remote));
    opts.dir = vv_str_text(&path);
    opts.remote = vv_str_text(&remote);
    opts.endpoint = o->endpoint;
    opts.region = o->region;
    opts.cache_bytes = (uint64_t)limit;
    opts.downloads = (int)o->downloads;
    opts.retries = (int)o->retries;
    opts.retry_wait = o->retry_wait;
    opts.timeout = o->timeout;
    VV_GO(vv_mds_open_with(&set->mds, &opts));
    if (vv_mds_count(set->mds) < 1)
        status = vv_fail(VV_EINVAL, "%s has no samples", vv_str_text(&path));
out:
    vv_dealloc(dir);
    vv_str_fini(&path);
    vv_str_fini(&remote);
    return status;
}

/* The column of that name, or the first there is of the usual ones; -1 = none of them. */
static vv_status choose_column(const mds_set *set, int *out, const char *name,
                               const char *const *usual)
{
    *out = -1;
    if (name[0])
        return vv_mds_find(out, set->mds, name);
    for (; *usual; usual++)
        for (int c = 0; c < vv_mds_column_count(set->mds); c++)
            if (*out < 0 && strcmp(vv_mds_column_at(set->mds, c)->name, *usual) == 0)
                *out = c;
    return VV_OK;
}

static vv_status choose_columns(mds_set *set, const vv_mds_set_opts *o, vv_sample_spec *spec)
{
    static const char *const inputs[] = {"tokens", "image", "x", "input", NULL};
    static const char *const targets[] = {"label", "y", "class", "target", NULL};
    VV_TRY(choose_column(set, &set->input, o->input, inputs));
    if (set->input < 0) /* says which there are */
        VV_TRY(vv_fail_within(vv_mds_find(&set->input, set->mds, "tokens"),
                              "name the input column with input="));
    VV_TRY(vv_fail_within(input_spec(set, o, spec), "%s",
                          vv_mds_column_at(set->mds, set->input)->name));
    static const char *const none[] = {NULL};
    return choose_column(set, &set->target, o->target,
                         set->kind == MDS_TOKENS || set->kind == MDS_NUMBERS ? none : targets);
}

/* ---- opening ---- */

static vv_photo_opts photo_opts(const vv_mds_set_opts *o)
{
    return (vv_photo_opts){
        .size = o->size,
        .resize = o->resize,
        .channels = o->channels,
        .scale = {o->scale, 1.0},
        .ratio = {o->ratio, 1.0 / o->ratio},
        .jitter = {o->color_jitter, o->color_jitter, o->color_jitter, o->hue},
        .filter = (vv_image_filter)o->interpolation,
        .scaled = o->scaled_decode,
        .orient = o->orient,
    };
}

static vv_status set_order_of(vv_dataset *dataset, mds_set *set, const vv_mds_set_opts *o)
{
    const int64_t shards = vv_mds_shard_count(set->mds), count = vv_mds_count(set->mds);
    VV_TRY(vv_alloc_array(&set->first, (size_t)shards, sizeof *set->first));
    for (int64_t s = 0; s < shards; s++)
        set->first[s] = vv_mds_shard_first(set->mds, s);
    if (o->order == VV_MDS_ORDER_SHARDS || (o->order == VV_MDS_ORDER_AUTO && o->remote[0]))
        set->window = o->window > 0 ? o->window : (count - 1) / shards * 8 + 8;
    /* The shards of the next window come while one is read. */
    if (o->remote[0])
        dataset->lookahead = set->window > 0 ? set->window : count;
    return VV_OK;
}

static vv_status fill(vv_dataset *dataset, mds_set *set, const vv_mds_set_opts *o, bool train)
{
    if (o->channels == 2 || (o->size > 0 && o->resize > 0 && o->resize < o->size))
        return vv_fail(VV_EINVAL, "channels is 1 or 3, and resize at least size");
    set->photo = photo_opts(o);
    VV_TRY(open_shards(set, o, train ? o->train : o->eval));
    VV_TRY(vv_strdup(&set->dtype, o->dtype));
    set->pad_id = (int32_t)o->pad_id;
    VV_TRY(choose_columns(set, o, &dataset->spec));
    VV_TRY(target_spec(set, o, &dataset->spec));
    if (set->target >= 0)
        VV_TRY(target_from_files(dataset, set));
    VV_TRY(set_masking(set, o));
    VV_TRY(set_order_of(dataset, set, o));
    dataset->type = o->mask > 0.0 ? &masked_class : &plain_class;
    if (train && o->size > 0 && dataset->spec.input_dtype == VV_U8)
        dataset->type = &cropped_class;
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

/* With the shards: as they are. Without: images of the size, or texts of seq tokens (1024). */
static vv_status mds_shape(const void *opts, const char *split, vv_sample_spec *spec,
                           int64_t *count)
{
    const vv_mds_set_opts *o = opts;
    vv_dataset *set;
    mds_set none = {.target = o->target[0] ? 0 : -1, .kind = MDS_TOKENS};
    vv_status status = mds_open(&set, opts, split);
    if (status == VV_OK) {
        *spec = set->spec;
        *count = set->count;
        vv_dataset_free(set);
        if (spec->input_dtype == VV_F32)
            return vv_fail(VV_EUNSUPPORTED, "data set mds: random data stand in for texts and "
                                            "images only");
    }
    if (status != VV_ENOTFOUND)
        return status;
    *spec = (vv_sample_spec){0};
    *count = strcmp(split, "train") == 0 ? 1000000 : 1000;
    if (o->size > 0) {
        const int64_t shape[3] = {o->size, o->size, o->channels};
        spec->input_dtype = VV_U8;
        spec->input_ndim = 3;
        memcpy(spec->input_shape, shape, sizeof shape);
        set_colours(spec);
        spec->target_dtype = VV_I32;
        spec->classes = o->classes ? o->classes : 1000;
        return VV_OK;
    }
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
    .train_transform = {.flip = true, .normalise = true}, /* of images */
    .eval_transform = {.normalise = true},
    .shape = mds_shape,
};
