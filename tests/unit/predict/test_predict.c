/* test_predict.c - what must hold: a checkpoint alone gives for an image what evaluation gives for
 * the same sample; sizes, colours and names come from the checkpoint; a stream tells every path in
 * order, damaged files with their sentence, and does not wait for paths that are not there yet;
 * what stops it is told; damaged texts and a lack of memory are errors. */
#include "vv_test.h"
#include "vv_test_files.h"

#include <vivace/ext/data_files.h>
#include <vivace/predict.h>
#include <vivace/registry.h>

static char folder[256], checkpoint[512];

static const char recipe[] = "name: t\n"
                             "model: {name: mlp, width: 8, layers: 1}\n"
                             "dataset: {name: synthetic, like: cifar10, count: 16}\n"
                             "transform: {crop_pad: 0, flip: false}\n"
                             "batch_size: 8\nmax_duration: 2ba\nprecision: fp32\nthreads: 1\n"
                             "workers: 0\nrun_db: off\nsave_interval: none\n";

/* Trains two batches, keeps the first `count` evaluation samples' bytes and logits. */
static vv_tensor *train(uint8_t *samples, int64_t count, float *prepared)
{
    vv_recipe *r;
    vv_run *run;
    vv_tensor *logits;
    assert_ok(vv_recipe_parse(&r, recipe, "test", NULL, 0));
    assert_ok(vv_run_new(&run, r, NULL));
    assert_ok(vv_trainer_fit(vv_run_trainer(run)));
    assert_ok(vv_trainer_save(vv_run_trainer(run), checkpoint));
    vv_loader *loader = vv_run_eval_loader(run);
    assert_ok(vv_trainer_predict(vv_run_trainer(run), loader, &logits));
    for (int64_t i = 0; i < count; i++) {
        assert_ok(vv_dataset_read(vv_loader_dataset(loader), i, samples + i * 3072, NULL));
        assert_ok(vv_loader_sample(loader, 0, i, prepared + i * 3072));
    }
    vv_run_free(run);
    vv_recipe_free(r);
    return logits;
}

static void as_evaluation(void **unused)
{
    (void)unused;
    enum { COUNT = 5 };
    uint8_t *samples = test_calloc(COUNT, 3072);
    float *prepared = test_calloc(COUNT * 3072, sizeof *prepared);
    vv_tensor *logits = train(samples, COUNT, prepared), *output;
    vv_predictor *p;
    vv_image images[COUNT];
    assert_ok(vv_predictor_open(&p, checkpoint, NULL));
    const vv_saved_input *in = vv_predictor_input(p);
    assert_int_equal(in->spec.classes, 10);
    assert_int_equal(in->samples, 16);
    assert_true(in->normalise);
    assert_null(vv_predictor_class_name(p, 3));
    for (int i = 0; i < COUNT; i++) {
        float own[3072];
        images[i] = (vv_image){samples + i * 3072, {32, 32, 3}};
        assert_ok(vv_predictor_prepare(p, &images[i], own));
        assert_memory_equal(own, prepared + i * 3072, sizeof own); /* to the bit */
    }
    assert_ok(vv_predict_images(p, images, COUNT, &output));
    assert_int_equal(output->shape[0], COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        double sum = 0.0, all = 0.0;
        for (int64_t k = 0; k < 10; k++)
            sum += exp(vv_tensor_get(logits, i * 10 + k));
        for (int64_t k = 0; k < 10; k++) {
            const double want = exp(vv_tensor_get(logits, i * 10 + k)) / sum;
            assert_near(vv_tensor_get(output, i * 10 + k), want, 1e-6, 1e-5);
            all += vv_tensor_get(output, i * 10 + k);
        }
        assert_near(all, 1.0, 1e-5, 0);
    }
    vv_tensor_free(output);
    /* one by one, and once more: the same */
    assert_ok(vv_predict_images(p, images + 2, 1, &output));
    assert_int_equal(output->shape[0], 1);
    vv_tensor_free(output);
    assert_fails(vv_predict_images(p, images, 0, &output), VV_EINVAL);
    images[1].shape.channels = 2;
    assert_fails(vv_predict_images(p, images, 2, &output), VV_ESHAPE);
    assert_says("image 1");
    vv_tensor_free(logits);
    vv_predictor_free(p);
    test_free(samples);
    test_free(prepared);
}

/* Grey becomes three equal channels; larger images are cut in the centre after resizing. */
static void sizes_and_colours(void **unused)
{
    (void)unused;
    vv_predictor *p;
    float out[3072], twice[3072];
    uint8_t grey[64 * 96], rgb[64 * 96 * 3];
    double box[4];
    assert_ok(vv_predictor_open(&p, checkpoint, NULL));
    for (int i = 0; i < 64 * 96; i++) {
        grey[i] = (uint8_t)(i * 7 % 251);
        memset(rgb + 3 * i, grey[i], 3);
    }
    const vv_image one = {grey, {64, 96, 1}}, three = {rgb, {64, 96, 3}};
    assert_ok(vv_predictor_prepare(p, &one, out));
    assert_ok(vv_predictor_prepare(p, &three, twice));
    assert_memory_equal(out, twice, sizeof out);
    vv_predictor_region(p, 64, 96, box);
    assert_near(box[0], 16, 1e-9, 0);
    assert_near(box[1], 0, 1e-9, 0);
    assert_near(box[2], 80, 1e-9, 0);
    assert_near(box[3], 64, 1e-9, 0);
    vv_predictor_free(p);
}

static void largest(void **unused)
{
    (void)unused;
    const float values[] = {1, 5, 3, 5, 2};
    int64_t at[8];
    assert_int_equal(vv_predict_top(values, 5, 3, at), 3);
    assert_int_equal(at[0], 1);
    assert_int_equal(at[1], 3);
    assert_int_equal(at[2], 2);
    assert_int_equal(vv_predict_top(values, 5, 8, at), 5);
    assert_int_equal(at[4], 0);
    assert_int_equal(vv_predict_top(values, 5, 0, at), 0);
}

/* ---- streams ---- */

typedef struct list {
    char paths[40][64];
    int count, next;
    bool waits;    /* nothing comes until `told` has told the first ones */
    int told, bad; /* heard of */
    int stop_at;   /* told fails at this one; -1 = never */
    int next_fails_at;
} list;

static vv_status give(void *ctx, vv_str *path, bool *end)
{
    list *l = ctx;
    if (l->next == l->next_fails_at)
        return vv_fail(VV_EIO, "the list is torn");
    if (l->next == l->count) {
        *end = true;
        return VV_OK;
    }
    if (l->waits && l->next == 3 && __atomic_load_n(&l->told, __ATOMIC_SEQ_CST) < 3) {
        usleep(1000);
        return VV_OK;
    }
    vv_str_addf(path, "%s/%s", folder, l->paths[l->next++]);
    return vv_str_status(path);
}

static vv_status hear(void *ctx, const vv_prediction *one)
{
    list *l = ctx;
    char want[512];
    if (l->told == l->stop_at)
        return vv_fail(VV_EIO, "nobody listens");
    snprintf(want, sizeof want, "%s/%s", folder, l->paths[l->told]);
    assert_string_equal(one->path, want);
    if (one->error) {
        l->bad++;
        assert_null(one->output);
    } else {
        assert_int_equal(one->count, 10);
        assert_int_equal(one->ndim, 1);
        assert_int_equal(one->height, 20);
        assert_int_equal(one->width, 30);
    }
    __atomic_fetch_add(&l->told, 1, __ATOMIC_SEQ_CST);
    return VV_OK;
}

static list make_list(int count)
{
    list l = {.count = count, .stop_at = -1, .next_fails_at = -1};
    for (int i = 0; i < count; i++)
        snprintf(l.paths[i], sizeof l.paths[i], i % 5 == 4 ? "none%d.png" : "image.png", i);
    return l;
}

static void streams(void **unused)
{
    (void)unused;
    if (!vv_png_available())
        skip();
    vv_predictor *p;
    uint8_t pixels[20 * 30 * 3];
    char path[512];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 11);
    snprintf(path, sizeof path, "%s/image.png", folder);
    assert_ok(vv_png_write(path, pixels, 20, 30, 3));
    assert_ok(vv_predictor_open(&p, checkpoint, NULL));
    for (int threads = 1; threads <= 4; threads += 3)
        for (int64_t batch = 1; batch <= 16; batch *= 4) {
            const vv_predict_files_opts opts = {batch, threads};
            list l = make_list(33);
            assert_ok(vv_predict_files(p, &opts, give, &l, hear, &l));
            assert_int_equal(l.told, 33);
            assert_int_equal(l.bad, 6);
        }
    /* Three paths and then nothing for a while: they are told before the rest comes. */
    list slow = make_list(12);
    slow.waits = true;
    assert_ok(vv_predict_files(p, NULL, give, &slow, hear, &slow));
    assert_int_equal(slow.told, 12);
    list none = make_list(0);
    assert_ok(vv_predict_files(p, NULL, give, &none, hear, &none));
    list deaf = make_list(30);
    deaf.stop_at = 7;
    assert_fails(vv_predict_files(p, NULL, give, &deaf, hear, &deaf), VV_EIO);
    assert_says("nobody listens");
    list torn = make_list(30);
    torn.next_fails_at = 9;
    assert_fails(vv_predict_files(p, NULL, give, &torn, hear, &torn), VV_EIO);
    assert_says("the list is torn");
    vv_predictor_free(p);
}

/* ---- what files may say ---- */

static void write_input(const char *text)
{
    vv_safetensors_writer *writer;
    char path[512];
    snprintf(path, sizeof path, "%s/input.safetensors", folder);
    assert_ok(vv_safetensors_writer_new(&writer));
    assert_ok(vv_safetensors_add_text(writer, "vivace.input", text));
    assert_ok(vv_safetensors_write(writer, path));
    vv_safetensors_writer_free(writer);
}

static vv_status read_input(vv_saved_input *in)
{
    vv_safetensors *file;
    char path[512];
    snprintf(path, sizeof path, "%s/input.safetensors", folder);
    assert_ok(vv_safetensors_open(&file, path));
    *in = (vv_saved_input){0};
    vv_status status = vv_saved_input_read(in, file);
    vv_safetensors_close(file);
    return status;
}

#define GOOD_END                                                                                  \
    "\"mean\":[0.5,0.5,0.5,0],\"std\":[0.25,0.25,0.25,0],\"classes\":2,\"tokens\":0,"              \
    "\"vocabulary\":0,\"samples\":9,\"normalise\":true,\"resize\":36,\"filter\":\"bicubic\","      \
    "\"whole\":false,\"orient\":true,\"class_names\":[\"a\",\"b \\\"x\\\"\"]}"
#define GOOD_TARGET "\"target\":{\"dtype\":\"i32\",\"shape\":[]},"

static void damaged_texts(void **unused)
{
    (void)unused;
    vv_saved_input in;
    write_input("{\"input\":{\"dtype\":\"u8\",\"shape\":[32,32,3]}," GOOD_TARGET GOOD_END);
    assert_ok(read_input(&in));
    assert_string_equal(in.class_names[1], "b \"x\"");
    assert_int_equal(in.prepare.filter, 1 + VV_IMAGE_BICUBIC);
    assert_int_equal(in.prepare.resize, 36);
    assert_true(in.prepare.orient && !in.prepare.whole);
    assert_near((double)in.spec.std[1], 0.25, 0, 0);
    vv_saved_input_fini(&in);
    static const char *const bad[] = {
        "", "[1]", "{", "{}",
        "{\"input\":{\"dtype\":\"u7\",\"shape\":[32,32,3]}," GOOD_TARGET GOOD_END,
        "{\"input\":{\"dtype\":\"u8\",\"shape\":[32,-1,3]}," GOOD_TARGET GOOD_END,
        "{\"input\":{\"dtype\":\"u8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1]}," GOOD_TARGET GOOD_END,
        "{\"input\":{\"dtype\":\"u8\",\"shape\":[32,32,3]}," GOOD_END,
        "{\"input\":{\"dtype\":\"u8\",\"shape\":[32,32,3]}," GOOD_TARGET "\"classes\":3," GOOD_END,
        "{\"input\":{\"dtype\":\"u8\",\"shape\":[32,32,3]}," GOOD_TARGET "\"classes\":1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_input(bad[i]);
        const vv_status status = read_input(&in);
        if (i == 8) /* the last of equal keys counts */
            assert_ok(status);
        else
            assert_int_equal(status, VV_EFORMAT);
        vv_saved_input_fini(&in);
    }
}

static void wrong_runs(void **unused)
{
    (void)unused;
    vv_predictor *p;
    char path[512];
    assert_fails(vv_predictor_open(&p, "/nowhere/run", NULL), VV_ENOTFOUND);
    assert_says("neither a run's folder");
    assert_null(p);
    write_input("{\"input\":{\"dtype\":\"u8\",\"shape\":[32,32,3]}," GOOD_TARGET GOOD_END);
    snprintf(path, sizeof path, "%s/input.safetensors", folder);
    assert_fails(vv_predictor_open(&p, path, NULL), VV_ENOTFOUND);
    assert_says("does not say its recipe");
}

static void survives_failing_allocations(void **unused)
{
    (void)unused;
    const int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    uint8_t grey[40 * 40];
    const vv_image image = {grey, {40, 40, 1}};
    memset(grey, 9, sizeof grey);
    for (uint64_t nth = 1; nth < 40000 && status != VV_OK; nth += nth / 40 + 1) {
        vv_predictor *p = NULL;
        vv_tensor *output = NULL;
        vv_memory_fail_at(nth);
        status = vv_predictor_open(&p, checkpoint, NULL);
        if (status == VV_OK)
            status = vv_predict_images(p, &image, 1, &output);
        vv_memory_fail_at(0);
        vv_tensor_free(output);
        vv_predictor_free(p);
        if (status != VV_OK)
            assert_int_equal(status, VV_ENOMEM);
        assert_int_equal(vv_memory_live_count(), live);
    }
    assert_ok(status);
}

int main(void)
{
    temp_dir(folder);
    snprintf(checkpoint, sizeof checkpoint, "%s/t.safetensors", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_evaluation), /* first: it makes the checkpoint */
        cmocka_unit_test(sizes_and_colours), cmocka_unit_test(largest),
        cmocka_unit_test(streams), cmocka_unit_test(damaged_texts), cmocka_unit_test(wrong_runs),
        cmocka_unit_test(survives_failing_allocations),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_dir(folder);
    return failed;
}
