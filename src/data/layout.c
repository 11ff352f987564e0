/* layout.c - where epochs are cut into batches. Sizes change at given positions of the run, so few
 * epochs are special: the rest comes in stretches of epochs that are cut alike, and every question
 * is answered stretch by stretch. */
#include "data/layout.h"

#include <string.h>

#include <vivace/memory.h>

vv_status vvi_layout_init(vvi_layout *layout, int64_t count, int64_t size, bool drop_last)
{
    *layout = (vvi_layout){.count = count, .drop_last = drop_last};
    VV_TRY(vv_alloc(&layout->stages, sizeof *layout->stages));
    layout->stages[0] = (vv_loader_stage){0, size};
    layout->stage_count = 1;
    return VV_OK;
}

void vvi_layout_fini(vvi_layout *layout)
{
    vv_dealloc(layout->stages);
    layout->stages = NULL;
}

static vv_status check_stage(const vvi_layout *layout, const vv_loader_stage *stages, int i)
{
    const int64_t from = stages[i].from, size = stages[i].size;
    if (i == 0 ? from != 0 : from <= stages[i - 1].from)
        return vv_fail(VV_EINVAL,
                       "loader: stage %d begins at sample %lld; the first begins at 0 and each "
                       "later than the one before",
                       i + 1, (long long)from);
    if (size < 1 || size > (int64_t)1 << 31)
        return vv_fail(VV_EINVAL, "loader: stage %d has batches of %lld; at least 1 are needed",
                       i + 1, (long long)size);
    if (layout->drop_last && size > layout->count)
        return vv_fail(VV_EINVAL,
                       "loader: stage %d has batches of %lld, the set has %lld samples, and "
                       "drop_last leaves nothing; make them smaller or keep the last",
                       i + 1, (long long)size, (long long)layout->count);
    return VV_OK;
}

vv_status vvi_layout_set(vvi_layout *layout, const vv_loader_stage *stages, int count)
{
    vv_loader_stage *copy = NULL;
    for (int i = 0; i < count; i++)
        VV_TRY(check_stage(layout, stages, i));
    VV_TRY(vv_alloc_array(&copy, (size_t)count, sizeof *copy));
    memcpy(copy, stages, (size_t)count * sizeof *copy);
    vv_dealloc(layout->stages);
    layout->stages = copy;
    layout->stage_count = count;
    return VV_OK;
}

/* ---- within an epoch ---- */

static int stage_of(const vvi_layout *layout, int64_t position)
{
    int i = layout->stage_count - 1;
    while (i > 0 && layout->stages[i].from > position)
        i--;
    return i;
}

typedef struct piece { /* batches of one size in a row; the last may be short */
    int64_t size, batches, samples;
} piece;

/* The piece that begins at sample `first` of the epoch; no batches = the epoch is over. */
static piece piece_at(const vvi_layout *layout, int64_t epoch, int64_t first)
{
    piece p = {1, 0, 0};
    if (first >= layout->count)
        return p;
    const bool one = layout->stage_count == 1; /* any epoch, also one too late to multiply */
    const int64_t base = one ? 0 : epoch * layout->count;
    const int i = one ? 0 : stage_of(layout, base + first);
    int64_t end = layout->count;
    if (i + 1 < layout->stage_count && layout->stages[i + 1].from - base < end)
        end = layout->stages[i + 1].from - base;
    p.size = layout->stages[i].size;
    p.batches = (end - first) / p.size + ((end - first) % p.size != 0);
    p.samples = p.batches * p.size;
    if (first + p.samples <= layout->count)
        return p;
    if (layout->drop_last)
        p.samples = --p.batches * p.size;
    else
        p.samples = layout->count - first;
    return p;
}

static piece epoch_total(const vvi_layout *layout, int64_t epoch)
{
    piece sum = {0};
    for (;;) {
        const piece p = piece_at(layout, epoch, sum.samples);
        if (p.batches == 0)
            return sum;
        sum.batches += p.batches;
        sum.samples += p.samples;
    }
}

int64_t vvi_layout_epoch_batches(const vvi_layout *layout, int64_t epoch)
{
    return epoch_total(layout, epoch).batches;
}

int64_t vvi_layout_epoch_samples(const vvi_layout *layout, int64_t epoch)
{
    return epoch_total(layout, epoch).samples;
}

vvi_place vvi_layout_at(const vvi_layout *layout, int64_t epoch, int64_t batch)
{
    vvi_place at = {epoch, batch, 0, 0};
    for (int64_t left = batch;;) {
        const piece p = piece_at(layout, epoch, at.first);
        if (p.batches == 0)
            return at;
        if (left < p.batches) {
            const int64_t skipped = left * p.size;
            at.first += skipped;
            at.rows = p.samples - skipped < p.size ? p.samples - skipped : p.size;
            return at;
        }
        left -= p.batches;
        at.first += p.samples;
    }
}

/* ---- over epochs ---- */

int64_t vvi_layout_alike(const vvi_layout *layout, int64_t epoch)
{
    if (layout->stage_count == 1)
        return INT64_MAX;
    const int i = stage_of(layout, epoch * layout->count);
    if (i + 1 == layout->stage_count)
        return INT64_MAX;
    const int64_t whole = layout->stages[i + 1].from / layout->count - epoch;
    return whole > 0 ? whole : 1;
}

void vvi_layout_before(const vvi_layout *layout, int64_t epoch, int64_t *batches,
                       int64_t *samples)
{
    piece sum = {0};
    for (int64_t e = 0; e < epoch;) {
        const piece one = epoch_total(layout, e);
        int64_t many = vvi_layout_alike(layout, e);
        many = many < epoch - e ? many : epoch - e;
        sum.batches += many * one.batches;
        sum.samples += many * one.samples;
        e += many;
    }
    if (batches)
        *batches = sum.batches;
    if (samples)
        *samples = sum.samples;
}

vvi_place vvi_layout_find(const vvi_layout *layout, int64_t number)
{
    for (int64_t epoch = 0;;) {
        const int64_t one = epoch_total(layout, epoch).batches;
        const int64_t many = vvi_layout_alike(layout, epoch);
        if (number / one < many)
            return vvi_layout_at(layout, epoch + number / one, number % one);
        number -= many * one;
        epoch += many;
    }
}

int64_t vvi_layout_batches_for(const vvi_layout *layout, int64_t samples)
{
    int64_t batches = 0, epoch = 0, first = 0;
    for (;;) { /* whole epochs */
        const piece one = epoch_total(layout, epoch);
        const int64_t many = vvi_layout_alike(layout, epoch);
        const int64_t whole = samples / one.samples < many ? samples / one.samples : many;
        batches += whole * one.batches;
        samples -= whole * one.samples;
        epoch += whole;
        if (whole < many)
            break;
    }
    while (samples > 0) {
        const piece p = piece_at(layout, epoch, first);
        if (samples <= p.samples)
            return batches + samples / p.size + (samples % p.size != 0);
        batches += p.batches;
        samples -= p.samples;
        first += p.samples;
    }
    return batches;
}

int64_t vvi_layout_batches_to(const vvi_layout *layout, int64_t position)
{
    const int64_t epoch = position / layout->count, end = position % layout->count;
    int64_t batches;
    vvi_layout_before(layout, epoch, &batches, NULL);
    for (int64_t first = 0; first < end;) {
        const piece p = piece_at(layout, epoch, first);
        if (p.batches == 0)
            break;
        const int64_t here = (end - first) / p.size + ((end - first) % p.size != 0);
        batches += here < p.batches ? here : p.batches;
        first += p.samples;
    }
    return batches;
}
