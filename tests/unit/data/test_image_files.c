/* test_image_files.c - what must hold: JPEG and PNG files of every kind become Pillow's pixels;
 * parts are the same pixels as the whole; smaller scales stay large enough and look like it; any
 * damage gives one sentence, nothing leaks, and no memory is taken for mere promises. */
#include "vv_test.h"

#include "photo_case.h"
#include "vvi_config.h"

#define MOST (GOLDEN_WIDTH * GOLDEN_HEIGHT * 3)
#define COUNT(x) (sizeof(x) / sizeof *(x))

static const struct photo_file *find(const char *name)
{
    for (size_t i = 0; i < COUNT(photo_files); i++)
        if (!strcmp(photo_files[i].name, name))
            return &photo_files[i];
    fail_msg("no golden %s", name);
    return NULL;
}

static bool readable(const struct photo_file *file)
{
    return vv_image_format_available(vv_image_format_of(file->data, (size_t)file->bytes));
}

static void check_as(const struct photo_file *file, const char *what, vv_image_decode_opts opts,
                     uint64_t sum)
{
    vv_image image;
    assert_ok(vv_image_decode(&image, file->name, file->data, (size_t)file->bytes, &opts));
    if (photo_image_sum(&image) != sum)
        fail_msg("%s, %s: %lld x %lld x %lld pixels, not Pillow's", file->name, what,
                 (long long)image.shape.height, (long long)image.shape.width,
                 (long long)image.shape.channels);
    vv_image_fini(&image);
}

static void as_pillow(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < COUNT(photo_files); i++) {
        const struct photo_file *file = &photo_files[i];
        const bool jpeg = !strncmp(file->name, "jpeg", 4);
        vv_image_info info;
        assert_ok(vv_image_probe(&info, file->name, file->data, (size_t)file->bytes));
        assert_int_equal(info.height, file->height);
        assert_int_equal(info.width, file->width);
        assert_int_equal(info.format, jpeg ? VV_IMAGE_JPEG : VV_IMAGE_PNG);
        assert_int_equal(info.palette, !strncmp(file->name, "png_palette", 11));
        if (!readable(file))
            continue;
        check_as(file, "as stored", (vv_image_decode_opts){0}, file->stored);
        check_as(file, "in RGB", (vv_image_decode_opts){.channels = 3}, file->rgb);
        check_as(file, "turned", (vv_image_decode_opts){.channels = 3, .orient = true},
                 file->turned);
        if (!jpeg || file->channels == 1) /* of a JPEG, grey is its own luma */
            check_as(file, "grey", (vv_image_decode_opts){.channels = 1}, file->grey);
        if (file->index)
            check_as(file, "numbers", (vv_image_decode_opts){.palette_index = true}, file->index);
    }
}

static void luma_is_near_grey(void **unused)
{
    (void)unused;
    const struct photo_file *file = find("jpeg_444");
    vv_image rgb, luma;
    if (!readable(file))
        skip();
    assert_ok(vv_image_decode(&rgb, "a", file->data, (size_t)file->bytes, NULL));
    assert_ok(vv_image_decode(&luma, "a", file->data, (size_t)file->bytes,
                              &(vv_image_decode_opts){.channels = 1}));
    double sum = 0;
    for (int i = 0; i < GOLDEN_HEIGHT * GOLDEN_WIDTH; i++) {
        const uint8_t *p = rgb.pixels + 3 * i;
        sum += fabs(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2] - luma.pixels[i]);
    }
    assert_true(sum / (GOLDEN_HEIGHT * GOLDEN_WIDTH) < 3); /* clipped colours differ */
    vv_image_fini(&rgb);
    vv_image_fini(&luma);
}

/* A larger JPEG, for parts and scales. */
static void make_jpeg(void **out, size_t *bytes, int height, int width, int channels)
{
    uint8_t *pixels = malloc((size_t)(height * width * channels));
    assert_non_null(pixels);
    for (int i = 0; i < height * width * channels; i++) {
        const int x = i / channels % width, y = i / channels / width;
        pixels[i] = (uint8_t)(128 + 60 * sin(x / 9.0 + i % channels) + 60 * cos(y / 13.0));
    }
    const vv_image_shape shape = {height, width, channels};
    assert_ok(vv_jpeg_encode(out, bytes, &shape, pixels, 90));
    free(pixels);
}

static void parts_are_the_whole(void **unused)
{
    (void)unused;
    static const double boxes[][4] = {{0, 0, 1e9, 1e9}, {3, 5, 40, 37}, {100, 90, 333, 211},
                                      {16, 16, 32, 32}, {398, 298, 400, 300}, {0, 150, 400, 151},
                                      {64.25, 31.5, 120.75, 90.5}, {7, 0, 250, 299}};
    if (!vv_image_format_available(VV_IMAGE_JPEG))
        skip();
    for (int channels = 1; channels <= 3; channels += 2) {
        void *data;
        size_t bytes;
        vv_image whole, part;
        make_jpeg(&data, &bytes, 300, 400, channels);
        assert_ok(vv_image_decode(&whole, "a", data, bytes, NULL));
        for (size_t i = 0; i < COUNT(boxes); i++) {
            double box[4];
            memcpy(box, boxes[i], sizeof box);
            assert_ok(vv_image_decode_part(&part, box, "a", data, bytes, NULL));
            const int64_t x0 = (int64_t)floor(boxes[i][0]), y0 = (int64_t)floor(boxes[i][1]);
            const double x1 = fmin(boxes[i][2], 400), y1 = fmin(boxes[i][3], 300);
            assert_int_equal(part.shape.width, (int64_t)ceil(x1) - x0);
            assert_int_equal(part.shape.height, (int64_t)ceil(y1) - y0);
            assert_near(box[0], boxes[i][0] - (double)x0, 0, 1e-9);
            assert_near(box[3], y1 - (double)y0, 0, 1e-9);
            for (int64_t y = 0; y < part.shape.height; y++)
                assert_memory_equal(part.pixels + y * part.shape.width * channels,
                                    whole.pixels + ((y0 + y) * 400 + x0) * channels,
                                    (size_t)(part.shape.width * channels));
            vv_image_fini(&part);
        }
        vv_image_fini(&whole);
        vv_dealloc(data);
    }
}

static void scales_stay_large_enough(void **unused)
{
    (void)unused;
    static const struct {
        double box[4];
        int64_t least, by;
    } cases[] = {{{0, 0, 400, 300}, 301, 1}, {{0, 0, 400, 300}, 150, 2}, {{0, 0, 400, 300}, 151, 1},
                 {{0, 0, 400, 300}, 75, 4},  {{0, 0, 400, 300}, 37, 8},  {{0, 0, 400, 300}, 1, 8},
                 {{100, 100, 340, 290}, 64, 2}, {{33, 47, 301, 299}, 60, 4}};
    if (!vv_image_format_available(VV_IMAGE_JPEG))
        skip();
    void *data;
    size_t bytes;
    vv_image whole, small;
    make_jpeg(&data, &bytes, 300, 400, 3);
    assert_ok(vv_image_decode(&whole, "a", data, bytes, NULL));
    for (size_t i = 0; i < COUNT(cases); i++) {
        const int64_t n = cases[i].least;
        const vv_image_decode_opts opts = {.min_height = n, .min_width = n};
        uint8_t *a = malloc((size_t)(n * n * 3)), *b = malloc((size_t)(n * n * 3));
        const vv_image_shape shape = {n, n, 3};
        double box[4];
        memcpy(box, cases[i].box, sizeof box);
        assert_ok(vv_image_decode_part(&small, box, "a", data, bytes, &opts));
        assert_near(box[2] - box[0], (cases[i].box[2] - cases[i].box[0]) / (double)cases[i].by, 0,
                    1e-9);
        assert_true(cases[i].by == 1 || (box[2] - box[0] >= (double)n && box[3] - box[1] >= n));
        assert_ok(vv_image_resample(&shape, a, &small.shape, small.pixels, box, VV_IMAGE_BILINEAR));
        assert_ok(vv_image_resample(&shape, b, &whole.shape, whole.pixels, cases[i].box,
                                    VV_IMAGE_BILINEAR));
        double sum = 0;
        for (int64_t k = 0; k < n * n * 3; k++)
            sum += abs(a[k] - b[k]);
        if (sum / (double)(n * n * 3) > 5.0)
            fail_msg("1/%d: %g grey levels", (int)cases[i].by, sum / (double)(n * n * 3));
        vv_image_fini(&small);
        free(a);
        free(b);
    }
    vv_image_fini(&whole);
    vv_dealloc(data);
}

static void refuse(const void *data, size_t bytes, const vv_image_decode_opts *opts,
                   const char *sentence)
{
    vv_image image;
    memset(&image, 1, sizeof image);
    assert_true(vv_image_decode(&image, "dir/a.jpg", data, bytes, opts) != VV_OK);
    assert_says("dir/a.jpg");
    assert_says(sentence);
    assert_null(image.pixels);
}

static void one_sentence_each(void **unused)
{
    (void)unused;
    const struct photo_file *jpeg = find("jpeg_420"), *png = find("png_rgb");
    uint8_t copy[MOST * 2];
    refuse("", 0, NULL, "it is empty");
    refuse("GIF89a", 6, NULL, "it is a GIF image");
    refuse("<html>", 6, NULL, "not a JPEG or PNG image");
    refuse("\xff\xd8\xff\xe0", 4, NULL, "cut short before its size");
    refuse(jpeg->data, (size_t)jpeg->bytes, &(vv_image_decode_opts){.max_pixels = 100},
           "61 x 47 pixels, more than the 100 allowed");
    refuse(jpeg->data, (size_t)jpeg->bytes, &(vv_image_decode_opts){.channels = 2}, "channels");
    if (readable(jpeg)) {
        refuse(jpeg->data, (size_t)jpeg->bytes, &(vv_image_decode_opts){.palette_index = true},
               "store it as PNG");
        refuse(jpeg->data, (size_t)jpeg->bytes * 2 / 3, NULL, "damaged JPEG image");
        /* 65,535 x 2,000 pixels out of nothing: nothing is allocated for them */
        memcpy(copy, jpeg->data, (size_t)jpeg->bytes);
        for (int i = 0; i < jpeg->bytes - 8; i++)
            if (copy[i] == 0xff && copy[i + 1] == 0xc0) {
                copy[i + 5] = 0x07, copy[i + 6] = 0xd0;
                copy[i + 7] = copy[i + 8] = 0xff;
                break;
            }
        vv_memory_peak_reset();
        const size_t before = vv_memory_peak_bytes();
        refuse(copy, (size_t)jpeg->bytes, NULL, "cannot hold 65535 x 2000 pixels");
        assert_true(vv_memory_peak_bytes() - before < 1 << 20);
    } else {
        refuse(jpeg->data, (size_t)jpeg->bytes, NULL, "-Djpeg=enabled");
    }
    if (readable(png)) {
        refuse(png->data, (size_t)png->bytes / 2, NULL, "damaged PNG image: it is cut short");
        refuse(png->data, (size_t)png->bytes, &(vv_image_decode_opts){.palette_index = true},
               "a mask must be");
        memcpy(copy, png->data, (size_t)png->bytes);
        copy[18] = 0x7f; /* width 32,573 */
        refuse(copy, (size_t)png->bytes, NULL, "damaged PNG image");
    } else {
        refuse(png->data, (size_t)png->bytes, NULL, "-Dpng=enabled");
    }
}

/* 1,000 and more changed files: each gives an image or one sentence, and nothing is left. */
static void mutations(void **unused)
{
    (void)unused;
    static uint8_t copy[MOST * 2];
    const int64_t live = vv_memory_live_count();
    int refused = 0, tried = 0;
    for (size_t f = 0; f < COUNT(photo_files); f++) {
        const struct photo_file *file = &photo_files[f];
        for (uint64_t round = 0; round < 80; round++, tried++) {
            vv_rng rng = vv_rng_at2(3, "mutations", round, (uint32_t)f);
            size_t bytes = (size_t)file->bytes;
            memcpy(copy, file->data, bytes);
            const int64_t kind = vv_rng_below(&rng, 4);
            if (kind == 0) /* cut short */
                bytes = (size_t)vv_rng_below(&rng, file->bytes);
            else if (kind == 1) /* a stretch taken out */
                memmove(copy + bytes / 3, copy + bytes / 3 + bytes / 7,
                        bytes - bytes / 3 - bytes / 7);
            for (int64_t k = kind == 2 ? 1 : 1 + vv_rng_below(&rng, 8); k > 0 && bytes > 0; k--)
                copy[vv_rng_below(&rng, kind == 3 && bytes > 600 ? 600 : (int64_t)bytes)] =
                    (uint8_t)vv_rng_below(&rng, 256);
            vv_image image;
            const vv_image_decode_opts opts = {.channels = (int)(round % 3 == 1 ? 1 : 3),
                                               .orient = round % 2 == 1,
                                               .palette_index = round % 7 == 3,
                                               .min_height = (int64_t)round % 30,
                                               .min_width = (int64_t)round % 30,
                                               .max_pixels = 1 << 22};
            double box[4] = {(double)(round % 11), (double)(round % 5), 30, 1e9};
            vv_error_clear();
            const vv_status status = vv_image_decode_part(&image, box, "m", copy, bytes, &opts);
            if (status != VV_OK) {
                refused++;
                assert_null(image.pixels);
                assert_true(strlen(vv_error()) > 10 && !strchr(vv_error(), '\n'));
            } else {
                assert_true(image.shape.height > 0 && image.shape.width > 0);
                assert_true(box[0] >= 0 && box[2] <= (double)image.shape.width);
                assert_true(box[1] >= 0 && box[3] <= (double)image.shape.height);
            }
            vv_image_fini(&image);
            assert_int_equal(vv_memory_live_count(), live);
        }
    }
    assert_true(tried >= 1000);
    assert_true(refused > tried / 4);
}

static void survives_without_memory(void **unused)
{
    (void)unused;
    static const char *const names[] = {"jpeg_420", "png_palette", "jpeg_turned"};
    for (size_t f = 0; f < COUNT(names); f++) {
        const struct photo_file *file = find(names[f]);
        const vv_image_decode_opts opts = {.orient = true};
        vv_image image;
        if (!readable(file))
            continue;
        const int64_t live = vv_memory_live_count();
        const uint64_t before = vv_memory_alloc_count();
        assert_ok(vv_image_decode(&image, "a", file->data, (size_t)file->bytes, &opts));
        const uint64_t allocations = vv_memory_alloc_count() - before;
        vv_image_fini(&image);
        for (uint64_t n = 1; n <= allocations; n++) {
            vv_memory_fail_at(n);
            const vv_status status = vv_image_decode(&image, "a", file->data, (size_t)file->bytes,
                                                     &opts);
            vv_memory_fail_at(0);
            assert_true(status != VV_OK || image.pixels);
            vv_image_fini(&image);
            assert_int_equal(vv_memory_live_count(), live);
        }
    }
}

static void writes_jpeg(void **unused)
{
    (void)unused;
    static uint8_t in[MOST];
    if (!vv_image_format_available(VV_IMAGE_JPEG)) {
        void *none;
        size_t bytes;
        const vv_image_shape dot = {1, 1, 1};
        assert_fails(vv_jpeg_encode(&none, &bytes, &dot, in, 90), VV_EUNSUPPORTED);
        return;
    }
    for (int channels = 1; channels <= 3; channels += 2) {
        const vv_image_shape shape = photo_make(channels, in);
        size_t bytes[2];
        void *data[2];
        vv_image image;
        for (int i = 0; i < 2; i++)
            assert_ok(vv_jpeg_encode(&data[i], &bytes[i], &shape, in, i ? 95 : 30));
        assert_true(bytes[0] < bytes[1]);
        assert_ok(vv_image_decode(&image, "a", data[1], bytes[1], NULL));
        assert_int_equal(image.shape.channels, channels);
        double sum = 0;
        for (int i = 0; i < GOLDEN_HEIGHT * GOLDEN_WIDTH * channels; i++)
            sum += abs(image.pixels[i] - in[i]);
        if (sum / (GOLDEN_HEIGHT * GOLDEN_WIDTH * channels) > (channels == 1 ? 4 : 25))
            fail_msg("%d channels: %g", channels, sum / (GOLDEN_HEIGHT * GOLDEN_WIDTH * channels));
        vv_image_fini(&image);
        vv_dealloc(data[0]);
        vv_dealloc(data[1]);
        assert_fails(vv_jpeg_encode(&data[0], bytes, &shape, in, 0), VV_EINVAL);
        const vv_image_shape flat = {0, 4, channels};
        assert_fails(vv_jpeg_encode(&data[0], bytes, &flat, in, 90), VV_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_pillow),
        cmocka_unit_test(luma_is_near_grey),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(scales_stay_large_enough),
        cmocka_unit_test(one_sentence_each),
        cmocka_unit_test(mutations),
        cmocka_unit_test(survives_without_memory),
        cmocka_unit_test(writes_jpeg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
