/* test_image_visualizer.c - the files show the batch as it is when the network gets it, pixel for
 * pixel, with the normalisation taken off; they come for the first batch and each interval, and for
 * each evaluation's first batch; data that are no images, and a run without a folder, are
 * refused. */
#include "callbacks/callback_test.h"

#include "vvi_config.h"

#include <vivace/ext/data_files.h>
#include <vivace/image_visualizer.h>

#if VVI_HAVE_PNG
#include <png.h>

enum { SIDE = 5, COUNT = 12, GAP = 2, BATCH = 3, SHOWN = 2 };

/* Pixels of a PNG file; free them. */
static uint8_t *read_png(const char *path, int *height, int *width, int *channels)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    assert_true(png_image_begin_read_from_file(&image, path));
    *channels = image.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    image.format = *channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    *height = (int)image.height;
    *width = (int)image.width;
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(image));
    assert_true(png_image_finish_read(&image, NULL, pixels, 0, NULL));
    return pixels;
}

typedef struct world {
    uint8_t pixels[COUNT * SIDE * SIDE * 3];
    int64_t first[8][SHOWN]; /* samples of the first rows of training batch b */
} world;

static vv_status watch(void *ctx, vv_event event, vv_state *state)
{
    world *w = ctx;
    if (event == VV_EVENT_BATCH_START)
        for (int i = 0; i < SHOWN; i++)
            w->first[state->time.batch][i] = state->batch->sample[i];
    return VV_OK;
}

static vv_status run(world *w, int channels, const char *folder, bool normalise)
{
    vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                           .input_shape = {SIDE, SIDE, channels}, .classes = 3,
                           .mean = {0.4f, 0.5f, 0.3f}, .std = {0.2f, 0.25f, 0.3f}};
    int32_t targets[COUNT] = {0};
    for (size_t i = 0; i < sizeof w->pixels; i++)
        w->pixels[i] = (uint8_t)(i * 97 % 256);
    vv_dataset *set;
    vv_loader *train, *eval;
    vv_loader_opts rows = VV_LOADER_DEFAULTS;
    rows.batch_size = BATCH;
    rows.workers = 0;
    rows.transform.normalise = normalise;
    assert_ok(vv_dataset_from_arrays(&set, &spec, COUNT, w->pixels, targets));
    assert_ok(vv_loader_new(&eval, set, &rows));
    rows.shuffle = true;
    assert_ok(vv_loader_new(&train, set, &rows));
    vv_image_visualizer_opts opts = {{VV_UNIT_BATCH, 3, 0.0}, SHOWN, ""};
    vv_callback *callbacks[3] = {NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_image_visualizer, &opts));
    callbacks[1] = tt_listen_with(watch, w);
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, SIDE * SIDE * channels, 3, true);
    assert_ok(vv_sequential_push(net, made, layer));
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_build(&o.model, net, 3, 1));
    o.train = train;
    o.eval = eval;
    o.max_duration = "1ep";
    o.run_dir = folder;
    o.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &o));
    vv_status status = vv_trainer_fit(trainer);
    vv_trainer_free(trainer);
    vv_loader_free(train);
    vv_loader_free(eval);
    vv_dataset_free(set);
    return status;
}

static void shows(const world *w, const char *folder, const char *name, int channels,
                  const int64_t *samples)
{
    char path[512];
    int height, width, c;
    snprintf(path, sizeof path, "%s/images/%s", folder, name);
    uint8_t *got = read_png(path, &height, &width, &c);
    assert_int_equal(c, channels);
    assert_int_equal(height, SIDE + 2 * GAP);
    assert_int_equal(width, 2 * (SIDE + GAP) + GAP); /* two images in two columns */
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int k = 0; k < c; k++) {
                int column = (x - GAP) / (SIDE + GAP), left = GAP + column * (SIDE + GAP);
                bool inside = x >= left && x < left + SIDE && y >= GAP && y < GAP + SIDE;
                int expected = 255;
                if (inside)
                    expected = w->pixels[((samples[column] * SIDE + y - GAP) * SIDE + x - left) *
                                             c + k];
                assert_int_equal(got[(y * width + x) * c + k], expected);
            }
    free(got);
}

static void test_files(void **unused)
{
    (void)unused;
    const int64_t in_order[SHOWN] = {0, 1};
    for (int i = 0; i < 4; i++) {
        char folder[256], path[512];
        int channels = i % 2 ? 1 : 3;
        world w = {0};
        tt_folder(folder, sizeof folder);
        assert_ok(run(&w, channels, folder, i < 2));
        shows(&w, folder, "train-ba00000000.png", channels, w.first[0]);
        shows(&w, folder, "train-ba00000003.png", channels, w.first[3]);
        shows(&w, folder, "eval-ba00000004.png", channels, in_order);
        snprintf(path, sizeof path, "%s/images/train-ba00000001.png", folder);
        assert_int_equal(access(path, F_OK), -1);
        tt_remove(folder);
    }
}

static void test_refusals(void **unused)
{
    (void)unused;
    world w = {0};
    vv_callback *callback;
    vv_timestamp end;
    assert_int_equal(run(&w, 3, NULL, true), VV_EINVAL);
    assert_says("dir must be given");
    assert_ok(vv_callback_new(&callback, &vv_callback_image_visualizer, NULL));
    assert_int_equal(callback_run(callback, "1ep", NULL, NULL, NULL, &end), VV_EINVAL);
    assert_says("shows images");
    assert_int_equal(vv_png_write("/nowhere/x.png", w.pixels, 2, 2, 3), VV_ENOTFOUND);
    assert_int_equal(vv_png_write("x.png", w.pixels, 2, 2, 2), VV_EINVAL);
}
#else
static void test_files(void **unused)
{
    (void)unused;
    uint8_t pixel = 0;
    assert_false(vv_png_available());
    assert_int_equal(vv_png_write("x.png", &pixel, 1, 1, 1), VV_EUNSUPPORTED);
    assert_says("libpng");
}

static void test_refusals(void **unused)
{
    (void)unused;
    vv_callback *callback;
    vv_timestamp end;
    assert_ok(vv_callback_new(&callback, &vv_callback_image_visualizer, NULL));
    assert_int_equal(callback_run(callback, "1ep", NULL, NULL, NULL, &end), VV_EINVAL);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
