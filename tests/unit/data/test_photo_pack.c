/* test_photo_pack.c - a packed folder of photographs trains like the folder: the same samples to
 * the bit where JPEGs are kept, evaluation and training, in memory-mapped shards or from a server,
 * for any number of threads, workers and whatever the network does; raw pixels and smaller sides
 * are what decoding and resizing give; what is damaged or there already is told. */
#include <sys/stat.h>

#include <vivace/datasets.h>
#include <vivace/ext/data_files.h>
#include <vivace/ext/mds_shards.h>
#include <vivace/pack.h>

#include "file_server.h"
#include "vvi_config.h"

enum { PHOTOS = 11, CLASSES = 3 };
static const char *const classes[CLASSES] = {"ant", "bee", "cow"};

static void draw_photo(uint8_t *pixels, int64_t height, int64_t width, int number)
{
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                pixels[(y * width + x) * 3 + c] =
                    (uint8_t)(127 + 90 * sin(0.1 * (double)(x * (c + 1) + y * (number % 7)) +
                                             number));
}

static void make_folder(const char *dir, const char *split, int salt)
{
    char path[512];
    uint8_t *pixels = malloc(200 * 200 * 3);
    assert_non_null(pixels);
    snprintf(path, sizeof path, "%s/%s", dir, split);
    assert_int_equal(mkdir(path, 0777), 0);
    for (int c = 0; c < CLASSES; c++) {
        snprintf(path, sizeof path, "%s/%s/%s", dir, split, classes[c]);
        assert_int_equal(mkdir(path, 0777), 0);
        for (int i = 0; i < PHOTOS - c; i++) {
            char name[32];
            const vv_image_shape shape = {60 + 7 * i, 120 - 5 * i + 10 * c, 3};
            void *file;
            size_t bytes;
            draw_photo(pixels, shape.height, shape.width, salt + i * 3 + c);
            assert_ok(vv_jpeg_encode(&file, &bytes, &shape, pixels, 85));
            snprintf(name, sizeof name, "%02d.jpg", i);
            write_file(path, name, file, bytes);
            vv_dealloc(file);
        }
    }
    free(pixels);
}

typedef struct world {
    char src[256], dst[256];
} world;

static void start(world *w)
{
    temp_dir(w->src);
    temp_dir(w->dst);
    make_folder(w->src, "train", 0);
    make_folder(w->src, "val", 100);
}

static void end(world *w)
{
    remove_dir(w->src);
    remove_dir(w->dst);
}

static vv_pack_info pack(const world *w, vv_pack_keep keep, int64_t max_side, int threads)
{
    vv_pack_opts opts = VV_PACK_DEFAULTS;
    vv_pack_info info;
    opts.src = w->src;
    opts.dst = w->dst;
    opts.keep = keep;
    opts.max_side = max_side;
    opts.threads = threads;
    opts.shard_bytes = 20000;
    opts.overwrite = true;
    assert_ok(vv_pack_photos(&info, &opts));
    return info;
}

static vv_dataset *open_set(const vv_dataset_desc *desc, const char *dir, const char *settings,
                            const char *split)
{
    vv_dataset *set;
    void *opts = calloc(1, desc->desc.opts_size);
    assert_non_null(opts);
    assert_ok(vv_opts_init(&desc->desc, opts));
    assert_ok(vv_opts_set(&desc->desc, opts, "dir", dir));
    assert_ok(vv_opts_set_all(&desc->desc, opts, settings));
    assert_ok(vv_dataset_open(&set, desc, opts, split));
    vv_opts_fini(&desc->desc, opts);
    free(opts);
    return set;
}

static vv_loader *make_loader(vv_dataset *set, bool shuffle, int workers)
{
    vv_loader *loader;
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = 4;
    opts.shuffle = shuffle;
    opts.seed = 3;
    opts.workers = workers;
    opts.transform = (vv_image_transform){.flip = true, .normalise = true};
    assert_ok(vv_loader_new(&loader, set, &opts));
    return loader;
}

/* Two epochs of both, batch by batch. */
static void check_equal(vv_loader *a, vv_loader *b)
{
    for (int64_t i = 0; i < 2 * (vv_loader_batch_count(a) + 1); i++) {
        vv_batch *left, *right;
        assert_ok(vv_loader_next(a, &left));
        assert_ok(vv_loader_next(b, &right));
        assert_int_equal(left == NULL, right == NULL);
        if (left) {
            assert_int_equal(left->count, right->count);
            assert_memory_equal(left->sample, right->sample,
                                (size_t)left->count * sizeof *left->sample);
            assert_memory_equal(left->input->data, right->input->data, left->input->bytes);
            assert_memory_equal(left->target->data, right->target->data, left->target->bytes);
        }
        vv_batch_free(left);
        vv_batch_free(right);
    }
}

static void trains_like_the_folder(void **state)
{
    (void)state;
    world w;
    start(&w);
    const vv_pack_info info = pack(&w, VV_PACK_JPEG, 0, 3);
    assert_int_equal(info.train, 3 * PHOTOS - 3);
    assert_int_equal(info.eval, 3 * PHOTOS - 3);
    assert_int_equal(info.classes, CLASSES);
    assert_int_equal(info.made_anew, 0);
    assert_true(info.bytes_out > info.bytes_in);
    static const char *const splits[] = {"train", "eval"};
    for (int s = 0; s < 2; s++) {
        vv_dataset *folder = open_set(&vv_dataset_image_folder, w.src,
                                      "size=48,color_jitter=0.4", splits[s]);
        vv_dataset *packed = open_set(&vv_dataset_mds, w.dst, "size=48,color_jitter=0.4",
                                      splits[s]);
        assert_int_equal(packed->spec.classes, CLASSES);
        assert_string_equal(packed->class_names[2], "cow");
        assert_memory_equal(packed->spec.mean, folder->spec.mean, 3 * sizeof(float));
        vv_loader *a = make_loader(folder, s == 0, 0), *b = make_loader(packed, s == 0, 2);
        check_equal(a, b);
        vv_loader_free(a);
        vv_loader_free(b);
        vv_dataset_free(folder);
        vv_dataset_free(packed);
    }
    end(&w);
}

/* A batch of the third epoch after a seek, for a resumed run. */
static void check_resumed(vv_dataset *set, vv_loader *from)
{
    vv_loader *again = make_loader(set, true, 1);
    vv_batch *want, *have;
    assert_ok(vv_loader_seek(from, 2, 3));
    assert_ok(vv_loader_seek(again, 2, 3));
    assert_ok(vv_loader_next(from, &want));
    assert_ok(vv_loader_next(again, &have));
    assert_memory_equal(want->input->data, have->input->data, want->input->bytes);
    vv_batch_free(want);
    vv_batch_free(have);
    vv_loader_free(again);
}

static void from_a_server(void **state)
{
    (void)state;
    if (!VVI_HAVE_CURL)
        skip();
    world w;
    char cache[256], settings[512];
    file_server server;
    start(&w);
    temp_dir(cache);
    pack(&w, VV_PACK_JPEG, 0, 2);
    file_server_start(&server, w.dst, 0);
    server.only = "shard";
    atomic_store(&server.refuse, 2);
    atomic_store(&server.cut, 2);
    atomic_store(&server.spoil, 1);
    atomic_store(&server.slow_us, 100);
    static const char common[] = "size=32,order=shards,window=10";
    snprintf(settings, sizeof settings,
             "%s,remote=http://127.0.0.1:%d/,retry_wait=0.001,cache_limit=%d", common, server.port,
             60000);
    vv_dataset *near = open_set(&vv_dataset_mds, w.dst, common, "train");
    vv_dataset *far = open_set(&vv_dataset_mds, cache, settings, "train");
    vv_loader *a = make_loader(near, true, 0), *b = make_loader(far, true, 3);
    check_equal(a, b);
    check_resumed(far, a);
    vv_loader_free(a);
    vv_loader_free(b);
    vv_dataset_free(near);
    vv_dataset_free(far);
    file_server_stop(&server);
    remove_dir(cache);
    end(&w);
}

/* The bytes of all shards of both splits, one after the other. */
static size_t gather(const world *w, unsigned char *out, size_t room)
{
    size_t bytes = 0;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < 100; i++) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s/shard.%05d.mds", w->dst, s ? "val" : "train", i);
            FILE *file = fopen(path, "rb");
            if (!file)
                break;
            bytes += fread(out + bytes, 1, room - bytes, file);
            fclose(file);
        }
    return bytes;
}

static void any_number_of_threads(void **state)
{
    (void)state;
    enum { ROOM = 1 << 21 };
    world w;
    unsigned char *one = malloc(ROOM), *many = malloc(ROOM);
    assert_true(one && many);
    start(&w);
    const vv_pack_info info = pack(&w, VV_PACK_JPEG, 80, 1);
    assert_true(info.made_anew > 20);
    const size_t bytes = gather(&w, one, ROOM);
    assert_true(bytes > 50000);
    pack(&w, VV_PACK_JPEG, 80, 5);
    assert_int_equal(gather(&w, many, ROOM), bytes);
    assert_memory_equal(one, many, bytes);
    free(one);
    free(many);
    end(&w);
}

static void raw_pixels_and_sides(void **state)
{
    (void)state;
    world w;
    vv_mds *mds;
    char path[512];
    start(&w);
    pack(&w, VV_PACK_RAW, 64, 2);
    snprintf(path, sizeof path, "%s/train", w.dst);
    assert_ok(vv_mds_open(&mds, path));
    for (int i = 0; i < PHOTOS; i++) {
        vv_image image;
        const void *data;
        const uint8_t *pixels;
        size_t bytes;
        int column;
        int64_t shape[3];
        assert_ok(vv_mds_find(&column, mds, "image"));
        assert_ok(vv_mds_read(mds, i, column, &data, &bytes));
        assert_ok(vv_mds_image(&pixels, shape, "pil", data, bytes));
        assert_int_equal(shape[0] > shape[1] ? shape[0] : shape[1], 64);
        snprintf(path, sizeof path, "%s/train/ant/%02d.jpg", w.src, i);
        assert_ok(vv_image_read(&image, path, NULL));
        const vv_image_shape small = {shape[0], shape[1], 3};
        uint8_t *want = malloc((size_t)(shape[0] * shape[1] * 3));
        assert_non_null(want);
        assert_ok(vv_image_resample(&small, want, &image.shape, image.pixels, NULL,
                                    VV_IMAGE_BILINEAR));
        int64_t off = 0; /* decoded at a part of the size where that is enough */
        for (int64_t k = 0; k < shape[0] * shape[1] * 3; k++)
            off += abs(want[k] - pixels[k]);
        assert_true(off < 3 * shape[0] * shape[1] * 3);
        free(want);
        vv_image_fini(&image);
    }
    vv_mds_free(mds);
    vv_dataset *set = open_set(&vv_dataset_mds, w.dst, "size=32", "train");
    vv_loader *a = make_loader(set, true, 0), *b = make_loader(set, true, 2);
    check_equal(a, b);
    vv_loader_free(a);
    vv_loader_free(b);
    vv_dataset_free(set);
    set = open_set(&vv_dataset_mds, w.dst, "size=32,channels=1", "eval");
    uint8_t grey[32 * 32];
    int32_t class;
    assert_ok(vv_dataset_read(set, PHOTOS, grey, &class));
    assert_int_equal(class, 1);
    vv_dataset_free(set);
    end(&w);
}

static bool stop_after_three(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    assert_int_equal(total, 6 * PHOTOS - 6);
    return done < 3;
}

static void tells_what_is_wrong(void **state)
{
    (void)state;
    world w;
    char path[512];
    vv_pack_opts opts = VV_PACK_DEFAULTS;
    vv_pack_info info;
    vv_mds *mds;
    start(&w);
    opts.src = w.src;
    opts.dst = w.dst;
    opts.progress = stop_after_three;
    assert_fails(vv_pack_photos(&info, &opts), VV_EINTERRUPTED);
    assert_says("begins again");
    opts.progress = NULL;
    snprintf(path, sizeof path, "%s/train", w.dst);
    assert_fails(vv_mds_open(&mds, path), VV_ENOTFOUND);
    assert_ok(vv_pack_photos(&info, &opts)); /* from the beginning */
    assert_null(info.notice);
    assert_fails(vv_pack_photos(&info, &opts), VV_EEXIST);
    assert_says("finished set");

    snprintf(path, sizeof path, "%s/train/bee/04.jpg", w.src);
    assert_int_equal(truncate(path, 900), 0);
    opts.overwrite = true;
    assert_fails(vv_pack_photos(&info, &opts), VV_EFORMAT);
    assert_says("bee/04.jpg");
    opts.damaged = VV_DAMAGED_SKIP;
    assert_ok(vv_pack_photos(&info, &opts));
    assert_int_equal(info.train, 3 * PHOTOS - 4);
    assert_non_null(strstr(info.notice, "bee/04.jpg"));
    vv_dealloc(info.notice);
    opts.check = VV_CHECK_NONE; /* found while it is made smaller */
    opts.max_side = 40;
    assert_ok(vv_pack_photos(&info, &opts));
    assert_int_equal(info.left_out, 1);
    assert_non_null(strstr(info.notice, "bee/04.jpg"));
    vv_dealloc(info.notice);

    opts.src = "/nonexistent";
    assert_fails(vv_pack_photos(&info, &opts), VV_ENOTFOUND);
    opts.src = w.src;
    opts.quality = 101;
    assert_fails(vv_pack_photos(&info, &opts), VV_EINVAL);
    opts.quality = 90;
    opts.compression = "rar";
    assert_fails(vv_pack_photos(&info, &opts), VV_EINVAL);
    end(&w);
}

/* Columns that other writers make: PNG, names as str and json, numbers as json. */
static void columns_of_others(void **state)
{
    (void)state;
    static const vv_mds_column columns[] = {
        {"image", "png", 0}, {"label", "str", 0}, {"y", "json", 0}};
    static const char *const names[] = {"dog", "cat", "a \"b\""};
    static const char *const json[] = {"\"dog\"", "1", "\"a \\\"b\\\"\""};
    char dir[256], png[512];
    vv_mds_writer *writer;
    vv_mds_writer_opts opts = VV_MDS_WRITER_DEFAULTS;
    uint8_t pixels[12 * 10 * 3], have[12 * 10 * 3];
    int32_t class;
    if (!vv_png_available())
        skip();
    temp_dir(dir);
    snprintf(png, sizeof png, "%s/train", dir);
    opts.columns = columns;
    opts.column_count = 3;
    assert_ok(vv_mds_writer_new(&writer, png, &opts));
    snprintf(png, sizeof png, "%s/one.png", dir);
    for (int i = 0; i < 3; i++) {
        void *file;
        size_t bytes;
        draw_photo(pixels, 12, 10, i);
        assert_ok(vv_png_write(png, pixels, 12, 10, 3));
        assert_ok(vv_data_file_read(&file, &bytes, png, 1 << 20));
        const vv_mds_bytes values[3] = {
            {file, bytes}, {names[i], strlen(names[i])}, {json[i], strlen(json[i])}};
        assert_ok(vv_mds_writer_add(writer, values));
        vv_dealloc(file);
    }
    assert_ok(vv_mds_writer_classes(writer, names, 3));
    assert_ok(vv_mds_writer_finish(writer));
    vv_mds_writer_free(writer);
    for (int t = 0; t < 2; t++) {
        vv_dataset *set = open_set(&vv_dataset_mds, dir, t ? "target=y" : "", "train");
        assert_int_equal(set->spec.classes, 3);
        assert_int_equal(set->spec.input_shape[0], 12);
        for (int i = 0; i < 3; i++) {
            draw_photo(pixels, 12, 10, i);
            assert_ok(vv_dataset_read(set, i, have, &class));
            assert_int_equal(class, i);
            assert_memory_equal(have, pixels, sizeof pixels);
        }
        vv_dataset_free(set);
    }
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_like_the_folder), cmocka_unit_test(from_a_server),
        cmocka_unit_test(any_number_of_threads),  cmocka_unit_test(raw_pixels_and_sides),
        cmocka_unit_test(tells_what_is_wrong),    cmocka_unit_test(columns_of_others),
    };
    if (!vv_image_format_available(VV_IMAGE_JPEG)) {
        puts("1..0 # SKIP this build has no libjpeg");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
