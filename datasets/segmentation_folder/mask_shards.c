/* mask_shards.c - pictures with masks as MDS shards: written by `vivace data pack`, read in place
 * of the files. Masks are packed as classes, so that no table of colours is needed any more. */
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/ext/mds_shards.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#include "mask_pairs.h"

enum { NONE = 255 };

struct vvi_mask_shards {
    vv_mds *mds;
    int image, mask; /* columns */
};

/* ---- reading ---- */

void vvi_mask_shards_close(vvi_mask_shards *shards)
{
    if (!shards)
        return;
    vv_mds_free(shards->mds);
    vv_dealloc(shards);
}

int64_t vvi_mask_shards_count(const vvi_mask_shards *shards)
{
    return vv_mds_count(shards->mds);
}

static vv_status read_classes(vvi_mask_classes *out, vv_mds *mds, int64_t asked)
{
    const char *const *names;
    int64_t count;

    VV_TRY(vv_mds_class_names(&names, &count, mds));
    out->classes = asked ? asked : count;
    if (out->classes < 1 || out->classes > NONE)
        return vv_fail(VV_EINVAL, "data set segmentation_folder: say with classes= how many "
                                  "classes there are; there is no classes.json beside the shards");
    for (int k = 0; k < 256; k++)
        out->of[k] = k < out->classes ? k : k == NONE ? VVI_NO_CLASS : VVI_BAD_CLASS;
    for (int64_t k = 0; count == out->classes && k < count; k++)
        VV_TRY(vv_strdup(&out->names[k], names[k]));
    return VV_OK;
}

vv_status vvi_mask_shards_open(vvi_mask_shards **out, vvi_mask_classes *classes,
                               const vv_segmentation_folder_opts *opts, const char *dir, bool train)
{
    vv_status status;
    char *index = NULL;
    vv_str path = {0};
    vvi_mask_shards *shards = NULL;
    const char *split = train ? opts->train : opts->eval;

    *out = NULL;
    vv_str_addf(&path, "%s/%s", dir, split[0] ? split : train ? "train" : "val");
    VV_GO(vv_str_status(&path));
    status = vv_data_file_find(&index, vv_str_text(&path), "index.json");
    if (status == VV_ENOTFOUND) { /* no packed set */
        status = VV_OK;
        goto out;
    }
    VV_GO(status);
    VV_GO(vv_alloc(&shards, sizeof *shards));
    VV_GO(vv_mds_open(&shards->mds, vv_str_text(&path)));
    VV_GO(vv_mds_find(&shards->image, shards->mds, "image"));
    VV_GO(vv_mds_find(&shards->mask, shards->mds, "mask"));
    if (vv_mds_count(shards->mds) < 1)
        VV_GO(vv_fail(VV_EINVAL, "%s has no samples", vv_str_text(&path)));
    VV_GO(read_classes(classes, shards->mds, opts->classes));
    *out = shards;
    shards = NULL;
out:
    vvi_mask_shards_close(shards);
    vv_dealloc(index);
    vv_str_fini(&path);
    return status;
}

static vv_status copy_mask(const vvi_mask_shards *shards, const void *data, size_t bytes,
                           vv_image *mask)
{
    const uint8_t *pixels;
    int64_t shape[3];

    VV_TRY(vv_mds_image(&pixels, shape, vv_mds_column_at(shards->mds, shards->mask)->encoding, data,
                        bytes));
    if (shape[2] != 1)
        return vv_fail(VV_EFORMAT, "mask: expected one channel, found %lld", (long long)shape[2]);
    VV_TRY(vv_alloc_array(&mask->pixels, (size_t)(shape[0] * shape[1]), 1));
    memcpy(mask->pixels, pixels, (size_t)(shape[0] * shape[1]));
    mask->shape = (vv_image_shape){shape[0], shape[1], 1};
    return VV_OK;
}

vv_status vvi_mask_shards_read(const vvi_mask_shards *shards, int64_t index, void **file,
                               size_t *bytes, vv_image *mask)
{
    vv_status status;
    vv_mds_sample sample;
    const void *data;
    size_t size;

    *file = NULL;
    *mask = (vv_image){0};
    VV_TRY(vv_mds_hold(shards->mds, index, &sample));
    VV_GO(vv_mds_column_of(shards->mds, &sample, shards->image, &data, &size));
    VV_GO(vv_alloc_array(file, size ? size : 1, 1));
    memcpy(*file, data, size);
    *bytes = size;
    VV_GO(vv_mds_column_of(shards->mds, &sample, shards->mask, &data, &size));
    VV_GO(copy_mask(shards, data, size, mask));
out:
    vv_mds_release(shards->mds, &sample);
    return status; /* the caller frees what there is */
}

/* ---- packing ---- */

typedef struct packing {
    const vv_pack_opts *opts;
    const vvi_mask_classes *classes;
    vv_pack_info *info;
    int64_t done, total;
} packing;

/* The mask as classes, as large as its picture has become. */
static vv_status pack_mask(const packing *p, const char *path, const vv_packed_image *image,
                           vv_packed_image *out)
{
    vv_status status;
    vv_image mask = {0}, small = {.shape = {image->height, image->width, 1}};

    VV_GO(vvi_mask_read(p->classes, path, &mask));
    for (int64_t i = 0; i < mask.shape.height * mask.shape.width; i++) {
        const int32_t class = p->classes->of[mask.pixels[i]];
        mask.pixels[i] = class < 0 ? NONE : (uint8_t)class;
    }
    if (mask.shape.height == image->height && mask.shape.width == image->width) {
        status = vv_pack_pixels(out, &mask);
    } else {
        VV_GO(vv_alloc_array(&small.pixels, (size_t)(image->height * image->width), 1));
        VV_GO(vv_image_resample(&small.shape, small.pixels, &mask.shape, mask.pixels, NULL,
                                VV_IMAGE_NEAREST));
        status = vv_pack_pixels(out, &small);
    }
out:
    vv_image_fini(&mask);
    vv_image_fini(&small);
    return status;
}

static vv_status pack_pair(packing *p, const vvi_mask_pair *pair, vv_mds_writer *writer)
{
    vv_status status;
    vv_packed_image image = {.bytes = NULL}, mask = {.bytes = NULL};

    VV_GO(vv_pack_image(&image, p->opts, pair->image, false));
    VV_GO(pack_mask(p, pair->mask, &image, &mask));
    const vv_mds_bytes values[2] = {{image.bytes, image.size}, {mask.bytes, mask.size}};
    VV_GO(vv_mds_writer_add(writer, values));
    p->info->bytes_in += image.read;
    p->info->made_anew += image.made_anew;
    p->done++;
    if (p->opts->progress && !p->opts->progress(p->opts->ctx, p->done, p->total))
        status = vv_fail(VV_EINTERRUPTED, "stopped by the user after %lld of %lld images; the set "
                                          "is not finished, the same command begins again",
                         (long long)p->done, (long long)p->total);
out:
    vv_dealloc(image.bytes);
    vv_dealloc(mask.bytes);
    return status;
}

static vv_status pack_split(packing *p, const vvi_mask_pairs *pairs, const char *split)
{
    static const vv_mds_column columns[2] = {{"image", "jpeg", 0}, {"mask", "pil", 0}};
    const vv_pack_opts *o = p->opts;
    const vv_mds_writer_opts opts = {columns, 2, o->shard_bytes, o->compression, o->hashes,
                                     o->overwrite};
    const char *const *names = (const char *const *)p->classes->names;
    vv_status status;
    vv_str dir = {0};
    vv_mds_writer *writer = NULL;

    vv_str_addf(&dir, "%s/%s", o->dst, split);
    VV_GO(vv_str_status(&dir));
    VV_GO(vv_mds_writer_new(&writer, vv_str_text(&dir), &opts));
    for (int64_t i = 0; i < pairs->count; i++)
        VV_GO(pack_pair(p, &pairs->items[i], writer));
    if (names[0])
        VV_GO(vv_mds_writer_classes(writer, names, p->classes->classes));
    VV_GO(vv_mds_writer_finish(writer));
    p->info->bytes_out += vv_mds_writer_bytes(writer);
    *(split[0] == 't' ? &p->info->train : &p->info->eval) = vv_mds_writer_count(writer);
out:
    vv_mds_writer_free(writer);
    vv_str_fini(&dir);
    return status;
}

vv_status vv_pack_masks(vv_pack_info *info, const vv_pack_opts *pack,
                        const vv_segmentation_folder_opts *opts)
{
    vv_status status;
    int layout;
    vvi_mask_pairs train = {0}, eval = {0};
    vvi_mask_classes classes = {0};

    *info = (vv_pack_info){0};
    if (pack->keep != VV_PACK_JPEG)
        VV_GO(vv_fail(VV_EUNSUPPORTED, "pictures with masks are kept as JPEG; leave out keep"));
    VV_GO(vvi_mask_pairs_find(&train, &layout, opts, pack->src, true));
    VV_GO(vvi_mask_pairs_find(&eval, &layout, opts, pack->src, false));
    VV_GO(vvi_mask_classes_read(&classes, opts, pack->src, layout));
    if (classes.classes > NONE)
        VV_GO(vv_fail(VV_EINVAL, "%lld classes; masks have room for 255",
                      (long long)classes.classes));
    info->classes = classes.classes;
    packing p = {pack, &classes, info, 0, train.count + eval.count};
    VV_GO(pack_split(&p, &train, "train"));
    VV_GO(pack_split(&p, &eval, "val"));
out:
    if (status != VV_OK)
        *info = (vv_pack_info){0};
    vvi_mask_pairs_fini(&train);
    vvi_mask_pairs_fini(&eval);
    vvi_mask_classes_fini(&classes);
    return vv_fail_within(status, "pack");
}
