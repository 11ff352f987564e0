/* choose.c - one token from its logits: temperature, the k most likely, the share p. */
#include <vivace/generate.h>

#include <math.h>
#include <stdlib.h>

#include <vivace/memory.h>

typedef struct vvi_candidate {
    float logit;
    int32_t token;
} vvi_candidate;

/* Falling logits; of equal ones the first. */
static int more_likely(const void *a, const void *b)
{
    const vvi_candidate *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static int32_t most_likely(const float *logits, int64_t count)
{
    int64_t best = 0;

    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* How many of the sorted candidates have the share p of all of them. */
static int64_t nucleus(const vvi_candidate *sorted, int64_t count, double temperature, double p)
{
    double total = 0.0, sum = 0.0;

    for (int64_t i = 0; i < count; i++)
        total += exp(((double)sorted[i].logit - (double)sorted[0].logit) / temperature);
    for (int64_t i = 0; i < count; i++) {
        sum += exp(((double)sorted[i].logit - (double)sorted[0].logit) / temperature);
        if (sum >= p * total)
            return i + 1;
    }
    return count;
}

static int32_t draw(const vvi_candidate *list, int64_t count, float largest, double temperature,
                    double uniform)
{
    double total = 0.0, sum = 0.0;

    for (int64_t i = 0; i < count; i++)
        total += exp(((double)list[i].logit - (double)largest) / temperature);
    for (int64_t i = 0; i < count; i++) {
        sum += exp(((double)list[i].logit - (double)largest) / temperature);
        if (uniform * total < sum)
            return list[i].token;
    }
    return list[count - 1].token; /* rounding */
}

vv_status vv_generate_choose(const float *logits, int64_t count, const vv_generate_opts *opts,
                             double uniform, int32_t *choice)
{
    const int32_t best = most_likely(logits, count);
    vvi_candidate *list = NULL;
    int64_t kept = count;

    for (int64_t i = 0; i < count; i++)
        if (isnan(logits[i]))
            return vv_fail(VV_ENUMERIC, "generate: the model gives NaN for token %lld; its weights "
                                        "are broken", (long long)i);
    *choice = best;
    if (opts->temperature == 0.0 || opts->top_k == 1)
        return VV_OK;
    VV_TRY(vv_alloc_array(&list, (size_t)count, sizeof *list));
    for (int64_t i = 0; i < count; i++)
        list[i] = (vvi_candidate){logits[i], (int32_t)i};
    if ((opts->top_k > 0 && opts->top_k < count) || opts->top_p < 1.0)
        qsort(list, (size_t)count, sizeof *list, more_likely);
    if (opts->top_k > 0 && opts->top_k < kept)
        kept = opts->top_k;
    if (opts->top_p < 1.0)
        kept = nucleus(list, kept, opts->temperature, opts->top_p);
    *choice = draw(list, kept, logits[best], opts->temperature, uniform);
    vv_dealloc(list);
    return VV_OK;
}
