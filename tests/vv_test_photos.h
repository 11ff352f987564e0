/* vv_test_photos.h - for tests: folders of small photographs that are made on the spot. */
#ifndef VV_TEST_PHOTOS_H
#define VV_TEST_PHOTOS_H

#include "vv_test_files.h"

#include <vivace/ext/data_files.h>
#include <vivace/ext/image_sets.h>
#include <vivace/memory.h>

/* Nothing can be tested in a build that reads no images but that it says so. */
static inline bool can_read_photos(void)
{
    return vv_image_format_available(VV_IMAGE_JPEG) && vv_image_format_available(VV_IMAGE_PNG);
}

static inline void make_folder(const char *dir, const char *name)
{
    char path[1400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* height x width pixels, mostly of one colour, which `shade` tells. */
static inline void write_photo(const char *dir, const char *name, int height, int width,
                               int channels, int shade)
{
    const vv_image_shape shape = {height, width, channels};
    uint8_t *pixels = NULL;
    assert_ok(vv_alloc(&pixels, (size_t)(height * width * channels)));
    for (int i = 0; i < height * width * channels; i++)
        pixels[i] = (uint8_t)(shade + i / channels % width % 16);
    if (strstr(name, ".png")) {
        char path[1400];
        snprintf(path, sizeof path, "%s/%s", dir, name);
        assert_ok(vv_png_write(path, pixels, height, width, channels));
    } else {
        void *data;
        size_t bytes;
        assert_ok(vv_jpeg_encode(&data, &bytes, &shape, pixels, 90));
        write_file(dir, name, data, bytes);
        vv_dealloc(data);
    }
    vv_dealloc(pixels);
}

static inline void write_text(const char *dir, const char *name, const char *text)
{
    write_file(dir, name, text, strlen(text));
}

/* Opens with settings "key=value,..." of the descriptor. */
static inline vv_status open_photos(vv_dataset **out, const vv_dataset_desc *desc, const char *dir,
                                    const char *settings, const char *split)
{
    vv_image_folder_opts opts;
    char all[700];
    snprintf(all, sizeof all, "dir=%s%s%s", dir, settings[0] ? "," : "", settings);
    assert_ok(vv_opts_init(&desc->desc, &opts));
    assert_ok(vv_opts_set_all(&desc->desc, &opts, all));
    const vv_status status = vv_dataset_open(out, desc, &opts, split);
    vv_opts_fini(&desc->desc, &opts);
    return status;
}

#endif
