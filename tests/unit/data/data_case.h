/* data_case.h - a small image set, and batches written down so that they can be compared. */
#ifndef DATA_CASE_H
#define DATA_CASE_H

#include <vivace/data.h>
#include <vivace/rng.h>

#include "vv_test.h"

#define CASE_HEIGHT 6
#define CASE_WIDTH 5
#define CASE_CHANNELS 3
#define CASE_PIXELS (CASE_HEIGHT * CASE_WIDTH * CASE_CHANNELS)

static const vv_sample_spec case_spec = {
    .input_dtype = VV_U8,
    .target_dtype = VV_I32,
    .input_ndim = 3,
    .input_shape = {CASE_HEIGHT, CASE_WIDTH, CASE_CHANNELS},
    .classes = 7,
    .mean = {0.4f, 0.5f, 0.6f},
    .std = {0.2f, 0.25f, 0.3f},
};

static const vv_image_transform case_transform = {.crop_pad = 2, .flip = true, .normalise = true};

/* `count` random images; the target of sample i is i % 7. */
static inline vv_dataset *case_set(int64_t count)
{
    uint8_t *pixels = malloc((size_t)count * CASE_PIXELS);
    int32_t *targets = malloc((size_t)count * sizeof *targets);
    vv_rng rng = vv_rng_at(1, "case", 0);
    for (int64_t i = 0; i < count * CASE_PIXELS; i++)
        pixels[i] = (uint8_t)vv_rng_u32(&rng);
    for (int64_t i = 0; i < count; i++)
        targets[i] = (int32_t)(i % 7);
    vv_dataset *set;
    assert_ok(vv_dataset_from_arrays(&set, &case_spec, count, pixels, targets));
    free(pixels);
    free(targets);
    return set;
}

static inline vv_loader *case_loader(vv_dataset *set, const vv_loader_opts *opts)
{
    vv_loader *loader;
    assert_ok(vv_loader_new(&loader, set, opts));
    return loader;
}

/* The next batch; NULL at the end of the epoch. */
static inline vv_batch *case_next(vv_loader *loader)
{
    vv_batch *batch;
    assert_ok(vv_loader_next(loader, &batch));
    return batch;
}

/* Everything in two batches is the same, bit for bit. */
static inline void assert_same_batch(const vv_batch *a, const vv_batch *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->input->bytes, b->input->bytes);
    if (a->count == 0)
        return;
    assert_memory_equal(a->sample, b->sample, (size_t)a->count * sizeof *a->sample);
    assert_memory_equal(a->input->data, b->input->data, a->input->bytes);
    assert_memory_equal(a->target->data, b->target->data, a->target->bytes);
}

#endif
