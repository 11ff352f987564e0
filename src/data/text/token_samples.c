/* token_samples.c - samples of one length, cut from a token file.
 *
 * A span (the whole file, or one document) has `pairs` places with a loss: every token for a masked
 * model, every token but the last for one that guesses what comes next. Sample i of a span begins
 * at place i * stride. */
#include <string.h>

#include <vivace/ext/token_sets.h>
#include <vivace/memory.h>

#define NO_LOSS (-100)

typedef struct token_set {
    vv_tokens *tokens;
    vv_token_samples how;
    int32_t *special;
    int64_t *before; /* by_document: samples before document d; documents + 1 of them */
    char *tokenizer;
} token_set;

/* Where one sample lies. */
typedef struct cut {
    int64_t first; /* token */
    int64_t places; /* of seq that are not padding */
    int64_t fresh; /* places before have their loss in the sample before */
} cut;

static int64_t pairs_of(const vv_token_samples *how, int64_t tokens)
{
    return how->mask ? tokens : tokens > 0 ? tokens - 1 : 0;
}

static int64_t samples_of(const vv_token_samples *how, int64_t pairs)
{
    const bool pad = how->by_document || how->each_once;
    if (pairs <= how->seq)
        return pairs > 0 && (pad || pairs == how->seq);
    return (pairs - how->seq + (pad ? how->stride - 1 : 0)) / how->stride + 1;
}

static cut find(const token_set *set, int64_t index)
{
    const vv_tokens_info *info = vv_tokens_info_of(set->tokens);
    int64_t first = 0, last = info->count;
    if (set->before) {
        int64_t low = 0, high = info->documents; /* before[low] <= index < before[high] */
        while (high - low > 1) {
            const int64_t middle = low + (high - low) / 2;
            if (set->before[middle] <= index)
                low = middle;
            else
                high = middle;
        }
        index -= set->before[low];
        first = vv_tokens_offsets(set->tokens)[low];
        last = vv_tokens_offsets(set->tokens)[low + 1];
    }
    const int64_t at = index * set->how.stride, left = pairs_of(&set->how, last - first) - at;
    const int64_t overlap = set->how.seq - set->how.stride;
    cut c = {first + at, left < set->how.seq ? left : set->how.seq, 0};
    if (set->how.each_once && index > 0 && overlap > 0)
        c.fresh = overlap;
    return c;
}

static vv_status samples_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const token_set *set = dataset->self;
    const cut c = find(set, index);
    int32_t *token = input, *wanted = target;
    if (token) {
        VV_TRY(vv_tokens_read(set->tokens, c.first, c.places, token));
        for (int64_t t = c.places; t < set->how.seq; t++)
            token[t] = set->how.pad_id;
    }
    if (!wanted)
        return VV_OK;
    VV_TRY(vv_tokens_read(set->tokens, c.first + (set->how.mask ? 0 : 1), c.places, wanted));
    for (int64_t t = 0; t < c.fresh; t++)
        wanted[t] = NO_LOSS;
    for (int64_t t = c.places; t < set->how.seq; t++)
        wanted[t] = NO_LOSS;
    return VV_OK;
}

static vv_status samples_vary(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    const token_set *set = dataset->self;
    const cut c = find(set, call->index);
    const int64_t vocabulary = vv_tokens_info_of(set->tokens)->vocab;
    int32_t *token = input, *wanted = target;
    vv_mask_tokens(&set->how.mask_opts, vocabulary, &call->rng, token + c.fresh,
                   wanted ? wanted + c.fresh : NULL, c.places - c.fresh);
    return VV_OK;
}

static void set_free(token_set *set)
{
    if (!set)
        return;
    vv_tokens_free(set->tokens);
    vv_dealloc(set->special);
    vv_dealloc(set->before);
    vv_dealloc(set->tokenizer);
    vv_dealloc(set);
}

static void samples_fini(vv_dataset *dataset)
{
    set_free(dataset->self);
}

static const vv_dataset_class next_class = {.read = samples_read, .fini = samples_fini};
static const vv_dataset_class masked_class = {
    .read = samples_read, .fini = samples_fini, .vary = samples_vary};

/* ---- making one ---- */

static vv_status check_mask(const char *name, const vv_mask_opts *mask, int64_t vocabulary)
{
    if (!(mask->share > 0.0 && mask->share <= 1.0))
        return vv_fail(VV_EINVAL, "data set %s: the share of masked tokens is %g, outside (0, 1]",
                       name, mask->share);
    if (!(mask->masked >= 0.0 && mask->random >= 0.0 && mask->masked + mask->random <= 1.0))
        return vv_fail(VV_EINVAL,
                       "data set %s: of the chosen tokens, %g are masked and %g random; together "
                       "they must be in [0, 1]",
                       name, mask->masked, mask->random);
    if (mask->mask_id < -1 || mask->mask_id >= vocabulary)
        return vv_fail(VV_EINVAL, "data set %s: mask_id %d is outside the vocabulary, 0 to %lld",
                       name, (int)mask->mask_id, (long long)vocabulary - 1);
    return VV_OK;
}

vv_status vv_token_samples_spec(vv_sample_spec *out, const char *name,
                                const vv_token_samples *how, int64_t file_vocabulary)
{
    const int64_t needed = file_vocabulary + (how->mask && how->mask_opts.mask_id == -1);
    const int64_t vocabulary = how->vocabulary ? how->vocabulary : needed;
    *out = (vv_sample_spec){.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1,
                            .target_ndim = 1};
    if (how->seq < 1 || how->stride < 0 || how->seq > INT32_MAX)
        return vv_fail(VV_EINVAL, "data set %s: seq %lld with stride %lld; seq must be 1 or more, "
                                  "stride 0 or more",
                       name, (long long)how->seq, (long long)how->stride);
    if (vocabulary < needed)
        return vv_fail(VV_EINVAL, "data set %s: vocabulary %lld is too small, its tokens need %lld",
                       name, (long long)vocabulary, (long long)needed);
    if (how->pad_id < 0 || how->pad_id >= vocabulary)
        return vv_fail(VV_EINVAL, "data set %s: pad_id %d is outside the vocabulary, 0 to %lld",
                       name, (int)how->pad_id, (long long)vocabulary - 1);
    if (how->mask)
        VV_TRY(check_mask(name, &how->mask_opts, vocabulary));
    out->input_shape[0] = out->target_shape[0] = out->tokens = how->seq;
    out->classes = out->vocabulary = vocabulary;
    return VV_OK;
}

/* The token that ends documents is special too. */
static vv_status copy_special(token_set *set)
{
    vv_mask_opts *mask = &set->how.mask_opts;
    const int32_t end = vv_tokens_info_of(set->tokens)->end;
    const size_t count = mask->special_count > 0 ? (size_t)mask->special_count : 0;
    VV_TRY(vv_alloc_array(&set->special, count + 1, sizeof *set->special));
    for (size_t i = 0; i < count; i++)
        set->special[i] = mask->special[i];
    if (end >= 0)
        set->special[count] = end;
    mask->special = set->special;
    mask->special_count = (int)(count + (end >= 0));
    return VV_OK;
}

static vv_status count_samples(token_set *set, const char *name, int64_t *out)
{
    const vv_tokens_info *info = vv_tokens_info_of(set->tokens);
    const int64_t *offsets = vv_tokens_offsets(set->tokens);
    if (set->how.by_document) {
        VV_TRY(vv_alloc_array(&set->before, (size_t)info->documents + 1, sizeof *set->before));
        for (int64_t d = 0; d < info->documents; d++)
            set->before[d + 1] =
                set->before[d] +
                samples_of(&set->how, pairs_of(&set->how, offsets[d + 1] - offsets[d]));
        *out = set->before[info->documents];
    } else {
        *out = samples_of(&set->how, pairs_of(&set->how, info->count));
    }
    if (*out > 0)
        return VV_OK;
    return vv_fail(VV_EINVAL,
                   "data set %s: %lld tokens in %lld documents give no sample of seq %lld; lower "
                   "seq or use a longer text",
                   name, (long long)info->count, (long long)info->documents,
                   (long long)set->how.seq);
}

vv_status vv_dataset_from_tokens(vv_dataset **out, const char *name, vv_tokens *tokens,
                                 const vv_token_samples *samples)
{
    vv_status status;
    vv_dataset *dataset = NULL;
    token_set *set = NULL;
    *out = NULL;
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    VV_GO(vv_alloc(&set, sizeof *set));
    set->tokens = tokens;
    tokens = NULL;
    set->how = *samples;
    const int64_t vocabulary = vv_tokens_info_of(set->tokens)->vocab;
    VV_GO(vv_token_samples_spec(&dataset->spec, name, samples, vocabulary));
    if (!set->how.stride || (set->how.each_once && set->how.stride > set->how.seq))
        set->how.stride = set->how.seq;
    if (set->how.mask_opts.mask_id == -1)
        set->how.mask_opts.mask_id = (int32_t)vocabulary;
    VV_GO(copy_special(set));
    VV_GO(count_samples(set, name, &dataset->count));
    if (samples->tokenizer)
        VV_GO(vv_strdup(&set->tokenizer, samples->tokenizer));
    set->how.tokenizer = dataset->tokenizer = set->tokenizer;
    dataset->type = samples->mask ? &masked_class : &next_class;
    dataset->name = name;
    if (!dataset->tokenizer && vv_tokens_info_of(set->tokens)->tokenizer[0])
        dataset->tokenizer = vv_tokens_info_of(set->tokens)->tokenizer;
    dataset->self = set;
    *out = dataset;
    return VV_OK;
out:
    vv_tokens_free(tokens);
    set_free(set);
    vv_dealloc(dataset);
    return status;
}
