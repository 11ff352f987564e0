/* jpeg_probe.c - what a JPEG file's markers say: size, components, orientation (ITU-T T.81). */
#include <string.h>

#include "data/image_file.h"

static vv_status cut_short(const char *name)
{
    return vv_fail(VV_EFORMAT, "%s: this JPEG image is cut short before its size; fetch it again "
                               "or take it out", name);
}

static bool is_frame(int marker) /* SOF0..15 without DHT, JPG, DAC */
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static vv_status read_frame(vv_image_info *out, const char *name, const uint8_t *p, size_t length)
{
    if (length < 8)
        return vv_fail(VV_EFORMAT, "%s: damaged JPEG image: its frame header has %zu bytes, "
                                   "needs 8", name, length);
    out->bits = p[2];
    out->height = p[3] << 8 | p[4];
    out->width = p[5] << 8 | p[6];
    out->channels = p[7];
    if (out->height < 1 || out->width < 1)
        return vv_fail(VV_EFORMAT, "%s: damaged JPEG image: it claims %lld x %lld pixels", name,
                       (long long)out->width, (long long)out->height);
    if (out->bits != 8)
        return vv_fail(VV_EUNSUPPORTED, "%s: a JPEG image of %d bits a value; only 8 are read",
                       name, out->bits);
    if (out->channels != 1 && out->channels != 3 && out->channels != 4)
        return vv_fail(VV_EFORMAT, "%s: a JPEG image of %d components; 1 (grey), 3 and 4 (CMYK) "
                                   "are read", name, out->channels);
    return VV_OK;
}

vv_status vvi_jpeg_probe(vv_image_info *out, const char *name, const uint8_t *data, size_t bytes)
{
    out->format = VV_IMAGE_JPEG;
    out->orientation = 1;
    for (size_t at = 2; at + 2 <= bytes;) {
        if (data[at] != 0xff) { /* garbage between markers: readers skip it */
            at++;
            continue;
        }
        const int marker = data[at + 1];
        if (marker == 0xff) {
            at++;
            continue;
        }
        at += 2;
        if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) /* without length */
            continue;
        if (marker == 0xd9 || marker == 0xda)
            return vv_fail(VV_EFORMAT, "%s: damaged JPEG image: its data begin before its size is "
                                       "told", name);
        if (at + 2 > bytes)
            break;
        const size_t length = (size_t)(data[at] << 8 | data[at + 1]);
        const size_t there = length < bytes - at ? length : bytes - at;
        if (length < 2)
            return vv_fail(VV_EFORMAT, "%s: damaged JPEG image: a marker of %zu bytes", name,
                           length);
        if (is_frame(marker))
            return there < length && there < 8 ? cut_short(name)
                                               : read_frame(out, name, data + at, there);
        if (marker == 0xe1 && there > 8 && memcmp(data + at + 2, "Exif\0", 6) == 0)
            out->orientation = vvi_exif_orientation(data + at + 8, there - 8);
        at += length;
    }
    return cut_short(name);
}
