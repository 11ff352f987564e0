/* loader.c - batches in an order that is a function of (seed, epoch). */
#include <string.h>

#include <vivace/memory.h>
#include <vivace/training_time.h>

#include "data/loader_impl.h"

static vv_status check_opts(const vv_dataset *dataset, const vv_loader_opts *opts)
{
    if (opts->batch_size < 1 || opts->batch_size > (int64_t)1 << 31)
        return vv_fail(VV_EINVAL, "loader: batch_size %lld is outside [1, 2147483648]",
                       (long long)opts->batch_size);
    if (opts->workers < 0 || opts->workers > 256)
        return vv_fail(VV_EINVAL, "loader: workers %d is outside [0, 256]", opts->workers);
    if (opts->prefetch < 0 || opts->prefetch > 1024)
        return vv_fail(VV_EINVAL, "loader: prefetch %d is outside [0, 1024] batches",
                       opts->prefetch);
    if (opts->limit < 0)
        return vv_fail(VV_EINVAL, "loader: limit %lld is negative; 0 means all samples",
                       (long long)opts->limit);
    if (opts->ranks < 1 || opts->rank < 0 || opts->rank >= opts->ranks)
        return vv_fail(VV_EINVAL, "loader: rank %d of %d ranks does not exist", opts->rank,
                       opts->ranks);
    if (dataset->count < 1)
        return vv_fail(VV_EINVAL, "loader: data set %s has no samples", dataset->name);
    if (dataset->spec.input_ndim >= VV_MAX_DIMS || dataset->spec.target_ndim >= VV_MAX_DIMS)
        return vv_fail(VV_ESHAPE,
                       "loader: samples of data set %s have %d dimensions, at most %d fit "
                       "beside the batch's",
                       dataset->name, dataset->spec.input_ndim, VV_MAX_DIMS - 1);
    return VV_OK;
}

static vv_status sample_bytes(size_t *out, vv_dtype dtype, int ndim, const int64_t *shape)
{
    size_t bytes = vv_dtype_size(dtype);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return vv_fail(VV_ESHAPE, "loader: a sample's dimension %d is %lld", i,
                           (long long)shape[i]);
        VV_TRY(vv_size_mul(&bytes, bytes, (size_t)shape[i]));
    }
    *out = bytes;
    return VV_OK;
}

static bool transform_empty(const vv_image_transform *transform)
{
    return transform->crop_pad == 0 && transform->translate == 0 && !transform->flip &&
           !transform->normalise;
}

static vv_status init_samples(vv_loader *loader)
{
    const vv_sample_spec *spec = &loader->dataset->spec;
    VV_TRY(
        sample_bytes(&loader->input_bytes, spec->input_dtype, spec->input_ndim, spec->input_shape));
    VV_TRY(sample_bytes(&loader->target_bytes, spec->target_dtype, spec->target_ndim,
                        spec->target_shape));
    loader->images = spec->input_dtype == VV_U8 && spec->input_ndim == 3;
    if (loader->images && vv_sample_spec_is_placed(spec) &&
        (loader->opts.transform.flip || loader->opts.transform.crop_pad ||
         loader->opts.transform.translate))
        return vv_fail_within(vv_sample_spec_check_movable(spec),
                              "transform: crop_pad, translate or flip");
    if (loader->images)
        VV_TRY(vvi_transform_init(&loader->transform, spec, &loader->opts.transform,
                                  loader->opts.seed));
    else if (!transform_empty(&loader->opts.transform))
        return vv_fail(VV_ETYPE,
                       "loader: the image transform works on u8 images [H,W,C]; data set %s "
                       "has %s inputs with %d dimensions",
                       loader->dataset->name, vv_dtype_name(spec->input_dtype), spec->input_ndim);
    return vv_alloc_array(&loader->scratch, 2, loader->input_bytes);
}

vv_status vv_loader_new(vv_loader **out, vv_dataset *dataset, const vv_loader_opts *opts)
{
    vv_status status;
    vv_loader *loader = NULL;
    *out = NULL;
    VV_TRY(check_opts(dataset, opts));
    VV_GO(vv_alloc(&loader, sizeof *loader));
    loader->dataset = dataset;
    loader->opts = *opts;
    loader->count = opts->limit > 0 && opts->limit < dataset->count ? opts->limit : dataset->count;
    VV_GO(vvi_layout_init(&loader->layout, loader->count, opts->batch_size, opts->drop_last));
    VV_GO(init_samples(loader));
    VV_GO(vvi_order_init(&loader->order, dataset, opts->seed, loader->count, opts->shuffle));
    /* At work, waiting, in the caller's hands, and kept by a graph until its next step. */
    VV_GO(vvi_batch_pool_new(&loader->pool, &dataset->spec,
                             loader->images ? VV_F32 : dataset->spec.input_dtype,
                             opts->workers + opts->prefetch + 4));
    if (opts->workers > 0)
        VV_GO(vvi_prefetch_new(&loader->prefetch, loader));
    *out = loader;
    return VV_OK;
out:
    vv_loader_free(loader);
    return status;
}

void vv_loader_free(vv_loader *loader)
{
    if (!loader)
        return;
    vvi_prefetch_free(loader->prefetch);
    vvi_batch_pool_free(loader->pool);
    vvi_augments_fini(loader);
    vvi_order_fini(&loader->order);
    vvi_layout_fini(&loader->layout);
    vvi_transform_fini(&loader->transform);
    vv_dealloc(loader->scratch);
    vv_dealloc(loader);
}

int64_t vv_loader_batch_count(const vv_loader *loader)
{
    return vvi_layout_epoch_batches(&loader->layout, 0);
}

int64_t vv_loader_batch_size(const vv_loader *loader)
{
    return loader->opts.batch_size;
}

bool vv_loader_drops_last(const vv_loader *loader)
{
    return loader->opts.drop_last;
}

int64_t vv_loader_sample_count(const vv_loader *loader)
{
    return vvi_layout_epoch_samples(&loader->layout, 0);
}

int64_t vv_loader_epoch_batches(const vv_loader *loader, int64_t epoch)
{
    return vvi_layout_epoch_batches(&loader->layout, epoch);
}

int64_t vv_loader_epoch_samples(const vv_loader *loader, int64_t epoch)
{
    return vvi_layout_epoch_samples(&loader->layout, epoch);
}

const vvi_layout *vvi_loader_layout(const vv_loader *loader)
{
    return &loader->layout;
}

bool vv_loader_stage_at(const vv_loader *loader, int i, vv_loader_stage *out)
{
    const bool there = i >= 0 && i < loader->layout.stage_count;
    if (there)
        *out = loader->layout.stages[i];
    return there;
}

vv_status vv_loader_set_stages(vv_loader *loader, const vv_loader_stage *stages, int count)
{
    const vv_loader_stage whole = {0, loader->opts.batch_size};
    if (count == 0 && loader->layout.stage_count == 1 &&
        loader->layout.stages[0].size == whole.size)
        return VV_OK;
    if (loader->prefetch)
        vvi_prefetch_pause(loader->prefetch);
    if (count == 0) { /* needs no memory: also on the way out */
        loader->layout.stages[0] = whole;
        loader->layout.stage_count = 1;
    } else {
        VV_TRY(vvi_layout_set(&loader->layout, stages, count));
    }
    loader->epoch = loader->batch = 0;
    return VV_OK;
}

uint64_t vv_loader_seed(const vv_loader *loader)
{
    return loader->opts.seed;
}

vv_status vv_loader_set_seed(vv_loader *loader, uint64_t seed)
{
    if (seed == loader->opts.seed)
        return VV_OK;
    vvi_prefetch_free(loader->prefetch); /* nobody may read the seed meanwhile */
    loader->prefetch = NULL;
    loader->opts.seed = loader->order.seed = seed;
    loader->transform.seed = seed;
    loader->order.epoch[0] = loader->order.epoch[1] = -1;
    loader->epoch = loader->batch = 0;
    return loader->opts.workers > 0 ? vvi_prefetch_new(&loader->prefetch, loader) : VV_OK;
}

vv_status vv_loader_seek(vv_loader *loader, int64_t epoch, int64_t batch)
{
    const int64_t epochs = INT64_MAX / (loader->count + 1) - 2;
    if (epoch < 0 || epoch > epochs)
        return vv_fail(VV_EINVAL, "loader: epoch %lld is outside [0, %lld]", (long long)epoch,
                       (long long)epochs);
    const int64_t batches = vvi_layout_epoch_batches(&loader->layout, epoch);
    if (batch < 0 || batch > batches)
        return vv_fail(VV_EINVAL, "loader: batch %lld is outside [0, %lld] of an epoch",
                       (long long)batch, (long long)batches);
    loader->epoch = epoch;
    loader->batch = batch;
    if (loader->prefetch && batches > 0)
        vvi_prefetch_seek(loader->prefetch, vvi_loader_ticket(loader));
    return VV_OK;
}

/* Tells the set which samples come within its `lookahead` behind a batch, those of all ranks: each
   once, or again after a seek. What cannot be told is found out when it is read. */
static void tell_soon(vv_loader *loader, int64_t position, int64_t rows)
{
    vv_dataset *dataset = loader->dataset;
    const int64_t ahead = dataset->lookahead < loader->count ? dataset->lookahead : loader->count;
    const int64_t end = position + rows + ahead;
    int64_t piece[256];
    if (loader->told < position || loader->told > end)
        loader->told = position;
    while (loader->told < end) {
        const int64_t epoch = loader->told / loader->count, first = loader->told % loader->count;
        int64_t many = end - loader->told < 256 ? end - loader->told : 256;
        many = many < loader->count - first ? many : loader->count - first;
        if (vvi_order_get(&loader->order, epoch, first, many, piece) != VV_OK)
            return;
        dataset->type->soon(dataset, piece, many);
        loader->told += many;
    }
}

vv_status vvi_loader_begin(vv_loader *loader, int64_t ticket, vv_batch **out)
{
    const vvi_place at = vvi_layout_find(&loader->layout, ticket);
    int64_t first = at.first;
    const int64_t whole = at.rows;
    /* This rank's contiguous share; the first `whole % ranks` ranks have one row more. */
    const int64_t base = whole / loader->opts.ranks, extra = whole % loader->opts.ranks;
    const int64_t rank = loader->opts.rank;
    const int64_t rows = base + (rank < extra ? 1 : 0);
    first += rank * base + (rank < extra ? rank : extra);
    VV_TRY(vvi_batch_pool_take(loader->pool, rows, out));
    (*out)->epoch = at.epoch;
    (*out)->index = at.batch;
    const vv_status status = vvi_order_get(&loader->order, at.epoch, first, rows, (*out)->sample);
    if (status != VV_OK) {
        vv_batch_free(*out);
        *out = NULL;
        return status;
    }
    if (loader->dataset->type->soon)
        tell_soon(loader, at.epoch * loader->count + at.first, at.rows);
    return VV_OK;
}

/* One sample of the set: in place if the set is in memory, else read into scratch. */
static vv_status raw_sample(const vv_loader *loader, int64_t index, void *scratch,
                            const void **input, void *target)
{
    vv_dataset *dataset = loader->dataset;
    if (dataset->inputs && dataset->targets) {
        *input = (const char *)dataset->inputs + (size_t)index * loader->input_bytes;
        if (target)
            memcpy(target, (const char *)dataset->targets + (size_t)index * loader->target_bytes,
                   loader->target_bytes);
        return VV_OK;
    }
    *input = scratch;
    return dataset->type->read(dataset, index, scratch, target);
}

typedef vv_status (*vary_fn)(vv_dataset *dataset, vv_augment_call *call, void *input, void *target);

/* The set's own variation or drawing of the sample in this epoch; `target` may be NULL. */
static vv_status vary(const vv_loader *loader, vary_fn fn, int64_t epoch, int64_t index,
                      void *input, void *target)
{
    vv_dataset *dataset = loader->dataset;
    vv_augment_call call = {.epoch = epoch, .index = index};
    if (loader->images)
        call.shape = (vv_image_shape){loader->transform.height, loader->transform.width,
                                      loader->transform.channels};
    call.rng = vv_rng_at2(loader->opts.seed, "vary", (uint64_t)epoch, (uint32_t)index);
    return fn(dataset, &call, input, target);
}

/* One sample of the set, read and varied, into memory of the caller's. */
static vv_status own_sample(const vv_loader *loader, int64_t epoch, int64_t index, void *input,
                            void *target)
{
    const vv_dataset_class *type = loader->dataset->type;
    if (type->draw)
        return vary(loader, type->draw, epoch, index, input, target);
    VV_TRY(type->read(loader->dataset, index, input, target));
    return type->vary ? vary(loader, type->vary, epoch, index, input, target) : VV_OK;
}

/* A raw image as the loader's transform takes it: varied by the set, then by methods. */
static vv_status raw_image(const vv_loader *loader, int64_t epoch, int64_t index, void *scratch,
                           const void **image, void *target)
{
    const vv_dataset_class *type = loader->dataset->type;
    *image = scratch;
    if (type->draw) {
        VV_TRY(own_sample(loader, epoch, index, scratch, target));
        return vvi_augments_apply(loader, epoch, index, image, scratch);
    }
    VV_TRY(raw_sample(loader, index, scratch, image, target));
    if (type->vary) {
        if (*image != scratch)
            memcpy(scratch, *image, loader->input_bytes);
        *image = scratch;
        VV_TRY(vary(loader, type->vary, epoch, index, scratch, target));
    }
    return vvi_augments_apply(loader, epoch, index, image, scratch);
}

vv_status vvi_loader_fill(const vv_loader *loader, vv_batch *batch, void *scratch)
{
    char *target = batch->target->data;
    const int64_t pixels = loader->images ? loader->transform.height * loader->transform.width *
                                                loader->transform.channels
                                          : 0;
    for (int64_t i = 0; i < batch->count; i++, target += loader->target_bytes) {
        const int64_t index = batch->sample[i];
        if (loader->images) {
            const void *raw;
            VV_TRY(raw_image(loader, batch->epoch, index, scratch, &raw, target));
            vvi_transform_apply(&loader->transform,
                                vvi_transform_draw(&loader->transform, batch->epoch, index), raw,
                                (float *)batch->input->data + i * pixels);
        } else {
            void *input = (char *)batch->input->data + (size_t)i * loader->input_bytes;
            VV_TRY(own_sample(loader, batch->epoch, index, input, target));
        }
    }
    return VV_OK;
}

vv_status vv_loader_next(vv_loader *loader, vv_batch **out)
{
    vv_status status;
    vv_batch *batch = NULL;
    *out = NULL;
    if (loader->batch == vvi_layout_epoch_batches(&loader->layout, loader->epoch)) {
        loader->epoch++;
        loader->batch = 0;
        return VV_OK;
    }
    const double start = vv_clock();
    const int64_t ticket = vvi_loader_ticket(loader);
    if (loader->prefetch) {
        VV_GO(vvi_prefetch_next(loader->prefetch, ticket, &batch));
    } else {
        VV_GO(vvi_loader_begin(loader, ticket, &batch));
        VV_GO(vvi_loader_fill(loader, batch, loader->scratch));
    }
    loader->batch++;
    *out = batch;
    batch = NULL;
out:
    loader->wait_seconds += vv_clock() - start;
    vv_batch_free(batch);
    return status;
}

double vv_loader_wait_seconds(const vv_loader *loader)
{
    return loader->wait_seconds;
}

const vv_image_transform *vv_loader_transform(const vv_loader *loader)
{
    return &loader->opts.transform;
}

vv_dataset *vv_loader_dataset(const vv_loader *loader)
{
    return loader->dataset;
}

vv_status vv_loader_sample(vv_loader *loader, int64_t epoch, int64_t index, float *out)
{
    vv_dataset *dataset = loader->dataset;
    const void *raw;
    if (index < 0 || index >= dataset->count || epoch < 0)
        return vv_fail(
            VV_EINVAL, "loader: no sample %lld in epoch %lld; data set %s has %lld samples",
            (long long)index, (long long)epoch, dataset->name, (long long)dataset->count);
    if (!loader->images && dataset->spec.input_dtype != VV_F32)
        return vv_fail(VV_ETYPE, "loader: samples of data set %s are %s, not images or f32",
                       dataset->name, vv_dtype_name(dataset->spec.input_dtype));
    if (!loader->images)
        return own_sample(loader, epoch, index, out, NULL);
    VV_TRY(raw_image(loader, epoch, index, loader->scratch, &raw, NULL));
    vvi_transform_apply(&loader->transform, vvi_transform_draw(&loader->transform, epoch, index),
                        raw, out);
    return VV_OK;
}
