/* png_file.c - writing PNG images, whole or absent. The only user of libpng. */
#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "base/file.h"
#include "vvi_config.h"

#if VVI_HAVE_PNG
#include <png.h>
#endif

bool vv_png_available(void)
{
    return VVI_HAVE_PNG;
}

#if VVI_HAVE_PNG
vv_status vv_png_write(const char *path, const uint8_t *pixels, int64_t height, int64_t width,
                       int64_t channels)
{
    enum { MOST = 65536 };
    if (height < 1 || width < 1 || height > MOST || width > MOST ||
        (channels != 1 && channels != 3))
        return vv_fail(VV_EINVAL, "%s: a PNG image has 1 or 3 channels and at most %d pixels a "
                                  "side; this one is %lld x %lld x %lld", path, MOST,
                       (long long)height, (long long)width, (long long)channels);
    png_image image = {.version = PNG_IMAGE_VERSION};
    image.width = (png_uint_32)width;
    image.height = (png_uint_32)height;
    image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    png_alloc_size_t bytes = 0;
    void *buffer = NULL;
    vv_status status = VV_OK;
    if (!png_image_write_to_memory(&image, NULL, &bytes, 0, pixels, 0, NULL)) {
        status = vv_fail(VV_EIO, "%s: cannot make the image: %s", path, image.message);
        goto out;
    }
    VV_GO(vv_alloc(&buffer, bytes));
    if (!png_image_write_to_memory(&image, buffer, &bytes, 0, pixels, 0, NULL)) {
        status = vv_fail(VV_EIO, "%s: cannot make the image: %s", path, image.message);
        goto out;
    }
    VV_GO(vvi_file_write_atomic(path, buffer, bytes));
out:
    png_image_free(&image);
    vv_dealloc(buffer);
    return status;
}
#else
vv_status vv_png_write(const char *path, const uint8_t *pixels, int64_t height, int64_t width,
                       int64_t channels)
{
    (void)pixels, (void)height, (void)width, (void)channels;
    return vv_fail(VV_EUNSUPPORTED,
                   "%s: this build cannot write PNG images; build it with libpng (-Dpng=enabled)",
                   path);
}
#endif
