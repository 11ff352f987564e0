/* token_masking.c - which tokens a masked language model has to guess. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/ext/token_sets.h>
#include <vivace/memory.h>
#include <vivace/rng.h>

static bool is_special(const vv_mask_opts *opts, int32_t token)
{
    for (int i = 0; i < opts->special_count; i++)
        if (opts->special[i] == token)
            return true;
    return false;
}

void vv_mask_tokens(const vv_mask_opts *opts, int64_t vocabulary, vv_rng *rng, int32_t *tokens,
                    int32_t *target, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const bool chosen = vv_rng_uniform(rng) < opts->share && !is_special(opts, tokens[i]);
        if (target)
            target[i] = chosen ? tokens[i] : -100;
        if (!chosen)
            continue;
        const double kind = vv_rng_uniform(rng);
        if (kind < opts->masked)
            tokens[i] = opts->mask_id;
        else if (kind < opts->masked + opts->random)
            tokens[i] = (int32_t)vv_rng_below(rng, vocabulary);
    }
}

static vv_status no_list(const char *list)
{
    return vv_fail(VV_EINVAL, "\"%s\" is no list of token ids; write them like 0,101,102", list);
}

static vv_status parse_id(int32_t *out, const char **at, int64_t vocabulary, const char *list)
{
    char *end;
    errno = 0;
    const long long id = strtoll(*at, &end, 10);
    if (end == *at)
        return no_list(list);
    if (errno || id < 0 || id >= vocabulary)
        return vv_fail(VV_EINVAL, "token id %.*s of \"%s\" is outside the vocabulary, 0 to %lld",
                       (int)(end - *at), *at, list, (long long)vocabulary - 1);
    *out = (int32_t)id;
    end += strspn(end, " ]");
    if (*end && *end != ',')
        return no_list(list);
    *at = *end ? end + 1 : end;
    return VV_OK;
}

vv_status vv_token_ids_parse(int32_t **out, int *count, const char *list, int64_t vocabulary)
{
    vv_status status;
    int32_t *ids = NULL;
    int room = 1;
    *out = NULL;
    *count = 0;
    for (const char *c = list; *c; c++)
        room += *c == ',';
    VV_GO(vv_alloc_array(&ids, (size_t)room, sizeof *ids));
    for (const char *at = list + strspn(list, " ["); *at && *at != ']';)
        VV_GO(parse_id(&ids[(*count)++], &at, vocabulary, list));
    *out = ids;
    return VV_OK;
out:
    vv_dealloc(ids);
    *count = 0;
    return status;
}
