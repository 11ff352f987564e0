/* synthetic_text.c - random token ids with the shape of a set of texts.
 *
 * A pool of unique samples is made at opening; sample i is number i modulo the pool. Separable
 * texts can be learnt: each token follows from the one before, or tells the class by its remainder,
 * or the number by how large it is. */
#include "synthetic_text.h"

#include <string.h>

#include <vivace/memory.h>
#include <vivace/rng.h>

#define SEQ 128
#define VOCABULARY 50257
#define TRAIN_COUNT 100000
#define EVAL_COUNT 1000
#define MAX_POOL_BYTES ((size_t)4 << 30)

typedef struct texts {
    int64_t count;
    size_t input_bytes, target_bytes; /* of one sample */
    int32_t *inputs;
    void *targets;
} texts;

static vv_status text_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const texts *t = dataset->self;
    const size_t at = (size_t)(index % t->count);
    if (input)
        memcpy(input, (const char *)t->inputs + at * t->input_bytes, t->input_bytes);
    if (target)
        memcpy(target, (const char *)t->targets + at * t->target_bytes, t->target_bytes);
    return VV_OK;
}

static void texts_free(texts *t)
{
    if (!t)
        return;
    vv_dealloc(t->inputs);
    vv_dealloc(t->targets);
    vv_dealloc(t);
}

static void text_fini(vv_dataset *dataset)
{
    texts_free(dataset->self);
}

static const vv_dataset_class text_class = {.read = text_read, .fini = text_fini};

/* One more token: any, or (5 w + 1) modulo the vocabulary after w. */
static int32_t next_token(vv_rng *rng, int64_t before, int64_t vocabulary, bool separable)
{
    if (!separable || before < 0)
        return (int32_t)vv_rng_below(rng, vocabulary);
    return (int32_t)((5 * before + 1) % vocabulary);
}

/* A token of a class: the remainder of its id; of a number: at most that share of the
   vocabulary. */
static int32_t telling_token(vv_rng *rng, const vv_sample_spec *spec, int32_t class, double number)
{
    const int64_t token = vv_rng_below(rng, spec->vocabulary);
    if (spec->target_dtype == VV_F32)
        return (int32_t)((double)token * number);
    const int64_t told = token - token % spec->classes + class;
    return (int32_t)(told < spec->vocabulary ? told : class);
}

static void fill_one(const texts *t, const vv_sample_spec *spec, int64_t i, vv_rng *rng,
                     bool separable)
{
    const int64_t seq = spec->tokens;
    int32_t *input = (int32_t *)(void *)((char *)t->inputs + (size_t)i * t->input_bytes);
    char *target = (char *)t->targets + (size_t)i * t->target_bytes;
    int64_t token = -1;
    const int32_t class = (int32_t)(spec->classes > 0 ? i % spec->classes : 0);
    const double number = vv_rng_uniform(rng);
    for (int64_t s = 0; s < seq; s++) {
        if (spec->target_ndim == 0 && separable)
            token = telling_token(rng, spec, class, number);
        else
            token = next_token(rng, token, spec->vocabulary, separable);
        input[s] = (int32_t)token;
        if (spec->input_ndim == 2)
            input[seq + s] = s >= seq / 2;
        if (spec->target_ndim == 1 && s > 0)
            memcpy(target + (size_t)(s - 1) * sizeof(int32_t), &input[s], sizeof(int32_t));
    }
    const int32_t last = next_token(rng, token, spec->vocabulary, separable);
    const float told = (float)number;
    if (spec->target_ndim == 1)
        memcpy(target + (size_t)(seq - 1) * sizeof(int32_t), &last, sizeof last);
    else if (spec->target_dtype == VV_F32)
        memcpy(target, &told, sizeof told);
    else
        memcpy(target, &class, sizeof class);
}

static vv_status make_texts(texts **out, const vv_sample_spec *spec, const vv_synthetic_opts *o,
                            int64_t count, bool train)
{
    vv_status status;
    texts *t = NULL;
    size_t total;
    *out = NULL;
    VV_GO(vv_alloc(&t, sizeof *t));
    t->count = count;
    t->input_bytes = (size_t)spec->tokens * (spec->input_ndim == 2 ? 2 : 1) * sizeof(int32_t);
    t->target_bytes = (spec->target_ndim == 1 ? (size_t)spec->tokens : 1) * sizeof(int32_t);
    VV_GO(vv_size_mul(&total, t->input_bytes + t->target_bytes, (size_t)count));
    if (total > MAX_POOL_BYTES) {
        status = vv_fail(VV_EINVAL,
                         "data set synthetic: a pool of %lld texts takes %zu bytes, at most %zu "
                         "are allowed; set a smaller pool",
                         (long long)count, total, MAX_POOL_BYTES);
        goto out;
    }
    VV_GO(vv_alloc_array(&t->inputs, (size_t)count, t->input_bytes));
    VV_GO(vv_alloc_array(&t->targets, (size_t)count, t->target_bytes));
    for (int64_t i = 0; i < count; i++) {
        vv_rng rng =
            vv_rng_at((uint64_t)o->seed, train ? "synthetic train" : "synthetic eval", (uint64_t)i);
        fill_one(t, spec, i, &rng, o->kind == VV_SYNTHETIC_SEPARABLE);
    }
    *out = t;
    return VV_OK;
out:
    texts_free(t);
    return status;
}

static vv_sample_spec spec_of(const vv_synthetic_opts *o)
{
    vv_sample_spec spec = {.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1};
    const int64_t seq = o->seq > 0 ? o->seq : SEQ;
    spec.vocabulary = o->vocabulary > 0 ? o->vocabulary : VOCABULARY;
    spec.tokens = seq;
    spec.input_shape[0] = seq;
    if (o->segments) {
        spec.input_ndim = 2;
        spec.input_shape[0] = 2;
        spec.input_shape[1] = seq;
    }
    if (o->target == VV_SYNTHETIC_NEXT) {
        spec.target_ndim = 1;
        spec.target_shape[0] = seq;
        spec.classes = spec.vocabulary;
    } else if (o->target == VV_SYNTHETIC_CLASS) {
        spec.classes = o->classes > 0 ? o->classes : 2;
    } else {
        spec.target_dtype = VV_F32;
    }
    return spec;
}

vv_status vvi_synthetic_text(vv_dataset **out, const vv_synthetic_opts *o, bool train)
{
    vv_status status;
    texts *t;
    vv_dataset *dataset = NULL;
    *out = NULL;
    if (o->height || o->width || o->channels)
        return vv_fail(VV_EINVAL, "data set synthetic: a text has no height, width or channels; "
                                  "set seq");
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    dataset->type = &text_class;
    dataset->name = "synthetic";
    dataset->spec = spec_of(o);
    dataset->count = o->count > 0 ? o->count : train ? TRAIN_COUNT : EVAL_COUNT;
    if (o->target == VV_SYNTHETIC_CLASS && dataset->spec.classes > dataset->spec.vocabulary) {
        status =
            vv_fail(VV_EINVAL, "data set synthetic: %lld classes cannot be told by %lld tokens",
                    (long long)dataset->spec.classes, (long long)dataset->spec.vocabulary);
        goto out;
    }
    VV_GO(make_texts(&t, &dataset->spec, o, o->pool < dataset->count ? o->pool : dataset->count,
                     train));
    dataset->self = t;
    *out = dataset;
    return VV_OK;
out:
    vv_dealloc(dataset);
    return status;
}
