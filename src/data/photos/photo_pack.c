/* photo_pack.c - photographs into MDS shards, on threads.
 *
 * Images carry tickets: a thread takes the next one, reads and converts it, and gives it to the
 * writer when all before it are there. So at most one image a thread is in memory, and the files do
 * not depend on the threads. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/ext/mds_shards.h>
#include <vivace/graph.h>
#include <vivace/memory.h>
#include <vivace/pack.h>

#include "base/file.h"
#include "data/photos/photo_list.h"

enum { MOST_THREADS = 64, MOST_NAMED = 20 };
#define MAX_FILE_BYTES ((size_t)1 << 30)

typedef struct packing {
    const vv_pack_opts *opts;
    const vvi_photo_list *list;
    vv_mds_writer *writer;
    vv_pack_info *info;
    int64_t before, total; /* images of earlier splits, of all */
    vv_str *notice;
    pthread_mutex_t lock;
    pthread_cond_t turn_came;
    int64_t issued, turn;
    bool stop;
    vv_status status; /* of the first failure in order */
    char sentence[1024];
} packing;

/* ---- one image ---- */

/* Pixels of the encoding pil: width, height and length of the mode as u32, mode, pixels. */
vv_status vv_pack_pixels(vv_packed_image *out, const vv_image *image)
{
    const char *mode = image->shape.channels == 1 ? "L" : "RGB";
    const size_t length = strlen(mode);
    const size_t pixels = (size_t)(image->shape.height * image->shape.width *
                                   image->shape.channels);
    const uint64_t head[3] = {(uint64_t)image->shape.width, (uint64_t)image->shape.height, length};
    unsigned char *at;
    VV_TRY(vv_alloc_aligned(&at, 12 + length + pixels));
    for (int i = 0; i < 12; i++)
        at[i] = (unsigned char)(head[i / 4] >> (8 * (i % 4)));
    memcpy(at + 12, mode, length);
    memcpy(at + 12 + length, image->pixels, pixels);
    out->bytes = at;
    out->size = 12 + length + pixels;
    out->height = image->shape.height;
    out->width = image->shape.width;
    return VV_OK;
}

static vv_status shrink(vv_image *image, int64_t max_side)
{
    const int64_t height = image->shape.height, width = image->shape.width;
    const int64_t longer = height > width ? height : width;
    if (max_side == 0 || longer <= max_side)
        return VV_OK;
    vv_image small = {.shape = image->shape};
    small.shape.height = (height * max_side + longer / 2) / longer;
    small.shape.width = (width * max_side + longer / 2) / longer;
    small.shape.height += small.shape.height == 0;
    small.shape.width += small.shape.width == 0;
    VV_TRY(vv_alloc_aligned(&small.pixels, (size_t)(small.shape.height * small.shape.width *
                                                    small.shape.channels)));
    const vv_status status = vv_image_resample(&small.shape, small.pixels, &image->shape,
                                               image->pixels, NULL, VV_IMAGE_BILINEAR);
    vv_image_fini(status == VV_OK ? image : &small);
    if (status == VV_OK)
        *image = small;
    return status;
}

/* A JPEG that fits stays as it is, to the byte, with its orientation. What is made anew is turned
   as EXIF says: the new file says nothing. */
vv_status vv_pack_image(vv_packed_image *out, const vv_pack_opts *o, const char *path, bool orient)
{
    vv_image image = {0};
    vv_image_info info;
    void *data = NULL;
    size_t bytes;
    vv_status status;
    *out = (vv_packed_image){.bytes = NULL};
    VV_GO(vv_data_file_read(&data, &bytes, path, MAX_FILE_BYTES));
    out->read = bytes;
    VV_GO(vv_image_probe(&info, path, data, bytes));
    const int64_t longer = info.height > info.width ? info.height : info.width;
    if (o->keep == VV_PACK_JPEG && info.format == VV_IMAGE_JPEG &&
        (o->max_side == 0 || longer <= o->max_side)) {
        out->bytes = data;
        out->size = bytes;
        out->height = info.height;
        out->width = info.width;
        return VV_OK;
    }
    vv_image_decode_opts how = {.orient = orient};
    if (o->max_side > 0 && longer > o->max_side) /* the shorter side may be any: ask for both */
        how.min_height = how.min_width = o->max_side;
    VV_GO(vv_image_decode(&image, path, data, bytes, &how));
    VV_GO(vv_fail_within(shrink(&image, o->max_side), "%s", path));
    out->made_anew = true;
    if (o->keep == VV_PACK_RAW) {
        VV_GO(vv_pack_pixels(out, &image));
    } else {
        VV_GO(vv_fail_within(vv_jpeg_encode(&out->bytes, &out->size, &image.shape, image.pixels,
                                            o->quality), "%s", path));
        out->height = image.shape.height;
        out->width = image.shape.width;
    }
out:
    vv_image_fini(&image);
    vv_dealloc(data);
    return status;
}

/* ---- all of them ---- */

/* With the lock held, when its turn has come. */
static vv_status deliver(packing *p, int64_t i, const vv_packed_image *image, vv_status status,
                         const char *sentence)
{
    vv_pack_info *info = p->info;
    if (status == VV_EFORMAT && p->opts->damaged == VV_DAMAGED_SKIP) {
        if (info->left_out++ < MOST_NAMED)
            vv_str_addf(p->notice, "%s%s", p->notice->length ? "; " : "", sentence);
        status = VV_OK;
    } else if (status == VV_OK) {
        const int64_t label = p->list->photos[i].label;
        unsigned char class[8];
        for (int k = 0; k < 8; k++)
            class[k] = (unsigned char)((uint64_t)label >> (8 * k));
        const vv_mds_bytes values[2] = {{image->bytes, image->size}, {class, sizeof class}};
        info->bytes_in += image->read;
        info->made_anew += image->made_anew;
        VV_TRY(vv_mds_writer_add(p->writer, values));
    } else {
        return vv_fail(status, "%s", sentence);
    }
    if (p->opts->progress && !p->opts->progress(p->opts->ctx, p->before + i + 1, p->total))
        return vv_fail(VV_EINTERRUPTED, "stopped by the user after %lld of %lld images; the set is "
                                        "not finished, the same command begins again",
                       (long long)(p->before + i + 1), (long long)p->total);
    return status;
}

static void *work(void *arg)
{
    packing *p = arg;
    vv_str path = {0};
    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->issued < p->list->count) {
        const int64_t i = p->issued++;
        char sentence[1024] = "";
        vv_packed_image image = {.bytes = NULL};
        pthread_mutex_unlock(&p->lock);
        vv_status status = vvi_photo_path(p->list, i, &path);
        if (status == VV_OK)
            status = vv_pack_image(&image, p->opts, vv_str_text(&path), true);
        if (status != VV_OK)
            snprintf(sentence, sizeof sentence, "%s", vv_error());
        pthread_mutex_lock(&p->lock);
        while (p->turn != i)
            pthread_cond_wait(&p->turn_came, &p->lock);
        if (!p->stop && (status = deliver(p, i, &image, status, sentence)) != VV_OK) {
            p->stop = true;
            p->status = status;
            snprintf(p->sentence, sizeof p->sentence, "%s", vv_error());
        }
        p->turn++;
        pthread_cond_broadcast(&p->turn_came);
        vv_dealloc(image.bytes);
    }
    pthread_mutex_unlock(&p->lock);
    vv_str_fini(&path);
    return NULL;
}

static vv_status work_on_threads(packing *p, int wanted)
{
    pthread_t threads[MOST_THREADS];
    sigset_t every, before;
    int started = 0;
    wanted = wanted > 0 ? wanted : vv_threads();
    wanted = wanted < 1 ? 1 : wanted > MOST_THREADS ? MOST_THREADS : wanted;
    sigfillset(&every); /* signals are for the caller's thread */
    pthread_sigmask(SIG_SETMASK, &every, &before);
    while (started < wanted && pthread_create(&threads[started], NULL, work, p) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started == 0)
        work(p);
    for (int t = 0; t < started; t++)
        pthread_join(threads[t], NULL);
    return p->status == VV_OK ? VV_OK : vv_fail(p->status, "%s", p->sentence);
}

static vv_status pack_split(const vv_pack_opts *o, const vvi_photo_list *list, const char *split,
                            vv_pack_info *info, int64_t before, int64_t total, vv_str *notice)
{
    vv_status status;
    char *dir = NULL;
    const vv_mds_column columns[2] = {{"image", o->keep == VV_PACK_RAW ? "pil" : "jpeg", 0},
                                      {"label", "int", 0}};
    const vv_mds_writer_opts opts = {columns, 2, o->shard_bytes, o->compression, o->hashes,
                                     o->overwrite};
    packing p = {.opts = o, .list = list, .info = info, .before = before, .total = total,
                 .notice = notice};
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.turn_came, NULL);
    VV_GO(vvi_path_join(&dir, o->dst, split));
    VV_GO(vv_mds_writer_new(&p.writer, dir, &opts));
    VV_GO(work_on_threads(&p, o->threads));
    VV_GO(vv_mds_writer_classes(p.writer, list->shown, list->class_count));
    VV_GO(vv_mds_writer_finish(p.writer));
    info->bytes_out += vv_mds_writer_bytes(p.writer);
    *(split[0] == 't' ? &info->train : &info->eval) = vv_mds_writer_count(p.writer);
    info->classes = list->class_count;
out:
    vv_mds_writer_free(p.writer);
    vv_dealloc(dir);
    pthread_cond_destroy(&p.turn_came);
    pthread_mutex_destroy(&p.lock);
    return status;
}

static vv_status check_opts(const vv_pack_opts *o)
{
    if (!o->src || !o->src[0] || !o->dst || !o->dst[0])
        return vv_fail(VV_EINVAL, "say which folder to pack, and where to");
    if (o->max_side < 0 || o->quality < 1 || o->quality > 100)
        return vv_fail(VV_EINVAL, "max_side %lld, quality %d: expected at least 0, and 1 to 100",
                       (long long)o->max_side, o->quality);
    if (!vvi_is_folder(o->src))
        return vv_fail(VV_ENOTFOUND, "%s: there is no such folder", o->src);
    return VV_OK;
}

static vv_status list_split(vvi_photo_list *list, const vv_pack_opts *o, bool train, vv_str *notice)
{
    VV_TRY(vvi_photo_list_fill(list, "pack", o->src, train, o->eval_fraction, o->labels));
    VV_TRY(vvi_photo_list_check(list, "pack", o->check, o->damaged, notice));
    return list->count > 0 ? VV_OK
                           : vv_fail(VV_EFORMAT, "%s: no JPEG or PNG images for %s in it", o->src,
                                     train ? "training" : "evaluation");
}

vv_status vv_pack_photos(vv_pack_info *info, const vv_pack_opts *opts)
{
    vv_status status;
    vvi_photo_list train = {0}, eval = {0};
    vv_str notice = {0};
    *info = (vv_pack_info){0};
    VV_GO(check_opts(opts));
    VV_GO(list_split(&train, opts, true, &notice));
    VV_GO(list_split(&eval, opts, false, &notice));
    const int64_t total = train.count + eval.count;
    VV_GO(pack_split(opts, &train, "train", info, 0, total, &notice));
    VV_GO(pack_split(opts, &eval, "val", info, train.count, total, &notice));
    VV_GO(vv_str_status(&notice));
    if (notice.length)
        VV_GO(vv_strdup(&info->notice, vv_str_text(&notice)));
out:
    if (status != VV_OK)
        *info = (vv_pack_info){0};
    vvi_photo_list_fini(&train);
    vvi_photo_list_fini(&eval);
    vv_str_fini(&notice);
    return vv_fail_within(status, "pack");
}
