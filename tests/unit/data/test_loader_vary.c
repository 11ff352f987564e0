/* test_loader_vary.c - what a set varies in a sample is a function of (seed, epoch, index): the
 * same for any number of workers, after any seek, in any place of a batch; another in the next
 * epoch and with another seed; input and target change together; images are varied before the
 * transform; what the set holds stays as it was; a failure tells which sample it was. */
#include "data_case.h"

#define LENGTH 12
#define VOCABULARY 50
#define HIDDEN 49

typedef struct text_set {
    vv_dataset set;
    vv_dataset_class type;
    int32_t tokens[31][LENGTH];
    int64_t refuse; /* this sample fails; -1 = none */
} text_set;

static vv_status text_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const text_set *text = dataset->self;
    if (input)
        memcpy(input, text->tokens[index], sizeof text->tokens[index]);
    for (int t = 0; target && t < LENGTH; t++)
        ((int32_t *)target)[t] = -100;
    return VV_OK;
}

/* Hides a third of the tokens; they become the target. */
static vv_status text_vary(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    const text_set *text = dataset->self;
    int32_t *token = input;
    if (call->index == text->refuse)
        return vv_fail(VV_EFORMAT, "sample %d cannot be varied", (int)call->index);
    assert_int_equal(call->shape.height, 0);
    for (int t = 0; t < LENGTH; t++) {
        if (vv_rng_uniform(&call->rng) >= 1.0 / 3)
            continue;
        if (target)
            ((int32_t *)target)[t] = token[t];
        token[t] = HIDDEN;
    }
    return VV_OK;
}

static void text_init(text_set *text)
{
    *text = (text_set){.type = {.read = text_read, .vary = text_vary}, .refuse = -1};
    text->set = (vv_dataset){
        .type = &text->type,
        .name = "text",
        .spec = {.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1, .target_ndim = 1,
                 .input_shape = {LENGTH}, .target_shape = {LENGTH}, .classes = VOCABULARY,
                 .tokens = LENGTH, .vocabulary = VOCABULARY},
        .count = 31,
        .self = text,
    };
    for (int i = 0; i < 31; i++)
        for (int t = 0; t < LENGTH; t++)
            text->tokens[i][t] = (i * LENGTH + t) % HIDDEN;
}

static vv_loader_opts opts_of(int workers)
{
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 8;
    opts.shuffle = true;
    opts.seed = 5;
    opts.workers = workers;
    opts.prefetch = 3;
    return opts;
}

/* All samples of one epoch by index: the inputs as they came. */
static void read_epoch(vv_loader *loader, int64_t epoch, int32_t out[31][LENGTH])
{
    assert_ok(vv_loader_seek(loader, epoch, 0));
    for (vv_batch *batch; (batch = case_next(loader)) != NULL; vv_batch_free(batch))
        for (int64_t i = 0; i < batch->count; i++)
            memcpy(out[batch->sample[i]], (int32_t *)batch->input->data + i * LENGTH,
                   sizeof out[0]);
}

static void is_the_same_for_any_workers_and_after_a_seek(void **state)
{
    (void)state;
    text_set text;
    text_init(&text);
    vv_loader_opts plain_opts = opts_of(0);
    vv_loader *plain = case_loader(&text.set, &plain_opts);
    for (int workers = 1; workers <= 3; workers++) {
        vv_loader_opts opts = opts_of(workers);
        vv_loader *threads = case_loader(&text.set, &opts);
        assert_ok(vv_loader_seek(plain, 0, 0));
        for (int i = 0; i < 2 * 5; i++) {
            vv_batch *a = case_next(plain), *b = case_next(threads);
            assert_int_equal(a == NULL, b == NULL);
            if (a)
                assert_same_batch(a, b);
            vv_batch_free(a);
            vv_batch_free(b);
        }
        static const int places[][2] = {{1, 3}, {0, 1}, {7, 0}, {0, 0}};
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            assert_ok(vv_loader_seek(plain, places[p][0], places[p][1]));
            assert_ok(vv_loader_seek(threads, places[p][0], places[p][1]));
            vv_batch *a = case_next(plain), *b = case_next(threads);
            assert_same_batch(a, b);
            vv_batch_free(a);
            vv_batch_free(b);
        }
        vv_loader_free(threads);
    }
    vv_loader_free(plain);
}

static void depends_on_seed_epoch_and_index_alone(void **state)
{
    (void)state;
    text_set text;
    text_init(&text);
    static int32_t first[31][LENGTH], other[31][LENGTH];
    vv_loader_opts opts = opts_of(1);
    vv_loader *loader = case_loader(&text.set, &opts);
    read_epoch(loader, 0, first);
    read_epoch(loader, 1, other);
    assert_memory_not_equal(first, other, sizeof first);
    int changed = 0;
    for (int i = 0; i < 31; i++) /* nearly every sample is varied anew */
        changed += memcmp(first[i], other[i], sizeof first[i]) != 0;
    assert_in_range(changed, 25, 31);
    vv_loader_free(loader);

    opts.batch_size = 3; /* other batches, another order, the same samples */
    opts.shuffle = false;
    loader = case_loader(&text.set, &opts);
    read_epoch(loader, 0, other);
    assert_memory_equal(first, other, sizeof first);
    assert_ok(vv_loader_set_seed(loader, 6));
    read_epoch(loader, 0, other);
    assert_memory_not_equal(first, other, sizeof first);
    vv_loader_free(loader);
}

static void changes_input_and_target_together(void **state)
{
    (void)state;
    text_set text;
    text_init(&text);
    vv_loader_opts opts = opts_of(0);
    vv_loader *loader = case_loader(&text.set, &opts);
    int hidden = 0;
    for (vv_batch *batch; (batch = case_next(loader)) != NULL; vv_batch_free(batch))
        for (int64_t i = 0; i < batch->count; i++)
            for (int t = 0; t < LENGTH; t++) {
                const int32_t input = ((int32_t *)batch->input->data)[i * LENGTH + t];
                const int32_t target = ((int32_t *)batch->target->data)[i * LENGTH + t];
                const int32_t token = text.tokens[batch->sample[i]][t];
                assert_int_equal(input, input == HIDDEN ? HIDDEN : token);
                assert_int_equal(target, input == HIDDEN ? token : -100);
                hidden += input == HIDDEN;
            }
    assert_in_range(hidden, 80, 170); /* of 372, a third each: 124 +- 9 */
    for (int i = 0; i < 31; i++)
        for (int t = 0; t < LENGTH; t++)
            assert_int_equal(text.tokens[i][t], (i * LENGTH + t) % HIDDEN);
    vv_loader_free(loader);
}

static void tells_which_sample_failed(void **state)
{
    (void)state;
    text_set text;
    text_init(&text);
    text.refuse = 9;
    for (int workers = 0; workers < 2; workers++) {
        vv_loader_opts opts = opts_of(workers);
        opts.shuffle = false;
        vv_loader *loader = case_loader(&text.set, &opts);
        vv_batch *batch;
        vv_batch_free(case_next(loader));
        assert_fails(vv_loader_next(loader, &batch), VV_EFORMAT);
        assert_says("sample 9 cannot be varied");
        assert_null(batch);
        vv_loader_free(loader);
    }
}

/* ---- images ---- */

static uint8_t image_pixels[CASE_PIXELS] = {10, 20, 30};
static const int32_t image_target = 3;

static vv_status image_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    (void)dataset;
    (void)index;
    if (input)
        memcpy(input, image_pixels, sizeof image_pixels);
    if (target)
        memcpy(target, &image_target, sizeof image_target);
    return VV_OK;
}

static vv_status image_vary(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    (void)dataset;
    assert_int_equal(call->shape.height, CASE_HEIGHT);
    assert_int_equal(call->shape.channels, CASE_CHANNELS);
    ((uint8_t *)input)[0] += 5;
    if (target)
        ((int32_t *)target)[0] += 1;
    return VV_OK;
}

static vv_status twice(const void *ctx, vv_augment_call *call, uint8_t *image, uint8_t *scratch)
{
    (void)ctx;
    (void)call;
    (void)scratch;
    image[0] = (uint8_t)(2 * image[0]); /* after the set's own: (10 + 5) * 2 */
    return VV_OK;
}

static void images_are_varied_before_other_changes(void **state)
{
    (void)state;
    static const vv_dataset_class type = {.read = image_read, .vary = image_vary};
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        vv_dataset set = {.type = &type, .name = "image", .spec = case_spec, .count = 1};
        set.inputs = in_memory ? image_pixels : NULL;
        set.targets = in_memory ? &image_target : NULL;
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        vv_loader *loader = case_loader(&set, &opts);
        assert_ok(vv_loader_set_augment(loader, "double", twice, NULL));
        vv_batch *batch = case_next(loader);
        float one[CASE_PIXELS];
        assert_near(((float *)batch->input->data)[0], 30 / 255.0, 1e-6, 0);
        assert_near(((float *)batch->input->data)[1], 20 / 255.0, 1e-6, 0);
        assert_int_equal(((int32_t *)batch->target->data)[0], 4);
        assert_ok(vv_loader_sample(loader, 0, 0, one));
        assert_near(one[0], 30 / 255.0, 1e-6, 0);
        vv_batch_free(batch);
        vv_loader_free(loader);
        assert_int_equal(image_pixels[0], 10);
    }
}

/* Token ids and targets beyond the vocabulary are told before anything is trained. */
static void texts_in_memory_are_checked(void **state)
{
    (void)state;
    vv_sample_spec spec = {.input_dtype = VV_I32, .target_dtype = VV_I32, .input_ndim = 1,
                           .target_ndim = 1, .input_shape = {2}, .target_shape = {2},
                           .classes = 5, .tokens = 2, .vocabulary = 5};
    int32_t inputs[3][2] = {{0, 1}, {1, 4}, {4, 0}}, targets[3][2] = {{1, 4}, {4, 0}, {0, -100}};
    vv_dataset *set;
    assert_ok(vv_dataset_from_arrays(&set, &spec, 3, inputs, targets));
    vv_dataset_free(set);
    inputs[2][1] = 5;
    assert_fails(vv_dataset_from_arrays(&set, &spec, 3, inputs, targets), VV_EFORMAT);
    assert_says("token 1 of sample 2 is 5, the vocabulary has 0 to 4");
    inputs[2][1] = 0;
    targets[1][0] = 5;
    assert_fails(vv_dataset_from_arrays(&set, &spec, 3, inputs, targets), VV_EFORMAT);
    assert_says("the target of sample 1 is 5");
}

/* As read and vary together, from one call. */
static vv_status text_draw(vv_dataset *dataset, vv_augment_call *call, void *input, void *target)
{
    const vv_status status = text_read(dataset, call->index, input, target);
    return status == VV_OK ? text_vary(dataset, call, input, target) : status;
}

static void drawing_takes_the_place_of_reading_and_varying(void **state)
{
    (void)state;
    text_set text, drawn;
    text_init(&text);
    text_init(&drawn);
    drawn.type.draw = text_draw;
    drawn.type.vary = NULL;
    for (int workers = 0; workers <= 2; workers += 2) {
        vv_loader_opts opts = opts_of(workers);
        vv_loader *a = case_loader(&text.set, &opts), *b = case_loader(&drawn.set, &opts);
        for (int i = 0; i < 2 * 5; i++) {
            vv_batch *x = case_next(a), *y = case_next(b);
            assert_int_equal(x == NULL, y == NULL);
            if (x)
                assert_same_batch(x, y);
            vv_batch_free(x);
            vv_batch_free(y);
        }
        vv_loader_free(a);
        vv_loader_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_same_for_any_workers_and_after_a_seek),
        cmocka_unit_test(depends_on_seed_epoch_and_index_alone),
        cmocka_unit_test(changes_input_and_target_together),
        cmocka_unit_test(tells_which_sample_failed),
        cmocka_unit_test(images_are_varied_before_other_changes),
        cmocka_unit_test(texts_in_memory_are_checked),
        cmocka_unit_test(drawing_takes_the_place_of_reading_and_varying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
