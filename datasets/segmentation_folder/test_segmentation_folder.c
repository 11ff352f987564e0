/* test_segmentation_folder.c - what must hold of segmentation_folder: pictures and masks are found
 * in every layout, numbers and colours become classes, a thousand random draws keep each pixel with
 * its class, draws are functions of their cursor, evaluation sees the whole picture, what is wrong
 * in files is told in one sentence, and no bytes crash it. */
#include "vv_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include <vivace/ext/data_files.h>
#include <vivace/image_files.h>

#include "segmentation_folder.h"

static char root[] = "/tmp/vivace-test-XXXXXX";

static const char *at(const char *name)
{
    static char path[4][256];
    static int i;

    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", root, name);
    return path[i];
}

static void make_dirs(const char *path)
{
    char part[256];

    const char *slash = path + strlen(root);

    while ((slash = strchr(slash + 1, '/'))) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        mkdir(part, 0777);
    }
}

static void write_text(const char *name, const char *text)
{
    const char *path = at(name);
    FILE *file;

    make_dirs(path);
    file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A board of fields of `side` pixels: field f has class (f * 5 + seed) % classes; the picture's
   red is 40 times the class, green the seed. */
static void write_pair(const char *image, const char *mask, int64_t height, int64_t width,
                       int64_t side, int classes, int first, int seed)
{
    uint8_t *pixels = calloc((size_t)(height * width), 3);
    uint8_t *numbers = calloc((size_t)height, (size_t)width);

    for (int64_t i = 0; i < height * width; i++) {
        const int64_t field = i / width / side * 7 + i % width / side;
        const int class = (int)(field * 5 + seed) % classes;

        pixels[3 * i] = (uint8_t)(40 * class);
        pixels[3 * i + 1] = (uint8_t)seed;
        numbers[i] = (uint8_t)(class + first);
    }
    make_dirs(at(image));
    make_dirs(at(mask));
    assert_ok(vv_png_write(at(image), pixels, height, width, 3));
    assert_ok(vv_png_write(at(mask), numbers, height, width, 1));
    free(pixels);
    free(numbers);
}

static vv_status open_set(vv_dataset **out, const char *dir, const char *settings,
                          const char *split)
{
    const vv_desc *desc = &vv_dataset_segmentation_folder.desc;
    vv_segmentation_folder_opts opts;
    vv_status status;

    assert_ok(vv_opts_init(desc, &opts));
    assert_ok(vv_opts_set(desc, &opts, "dir", at(dir)));
    assert_ok(vv_opts_set_all(desc, &opts, settings));
    status = vv_dataset_open(out, &vv_dataset_segmentation_folder, &opts, split);
    vv_opts_fini(desc, &opts);
    return status;
}

static vv_augment_call call_at(int64_t epoch, int64_t index)
{
    vv_augment_call call = {.epoch = epoch, .index = index};

    call.rng = vv_rng_at2(5, "vary", (uint64_t)epoch, (uint32_t)index);
    return call;
}

/* ---- layouts ---- */

static void layouts(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *images[4], *masks[4], *settings;
        int first;
        int64_t train;
    } rows[] = {
        {"plain", {"plain/train/images/a.png", "plain/train/images/b.png", "plain/val/images/c.png"},
         {"plain/train/masks/a.png", "plain/train/masks/b.png", "plain/val/masks/c.png"},
         "classes=4", 0, 2},
        {"camvid", {"camvid/images/train/a.png", "camvid/images/train/b.png",
                    "camvid/images/val/c.png"},
         {"camvid/labels/train/a_L.png", "camvid/labels/train/b_L.png", "camvid/labels/val/c_L.png"},
         "classes=4", 0, 2},
        {"ade", {"ade/images/training/x.png", "ade/images/training/y.png",
                 "ade/images/validation/z.png"},
         {"ade/annotations/training/x.png", "ade/annotations/training/y.png",
          "ade/annotations/validation/z.png"}, "classes=4", 1, 2},
        {"pets", {"pets/images/cat_1.jpg", "pets/images/cat_2.jpg", "pets/images/dog_1.jpg"},
         {"pets/annotations/trimaps/cat_1.png", "pets/annotations/trimaps/cat_2.png",
          "pets/annotations/trimaps/dog_1.png"}, "classes=4", 1, 2},
        {"list", {"list/p/1.png", "list/p/2.png", "list/q/3.png"},
         {"list/m/1.png", "list/m/2.png", "list/m/3.png"}, "classes=4", 0, 2},
    };

    write_text("pets/annotations/trainval.txt", "#comment\ncat_1 1 1 1\ncat_2 1 1 1\n");
    write_text("pets/annotations/test.txt", "dog_1 2 2 1\n");
    write_text("list/train.txt", "p/1.png\tm/1.png\r\np/2.png m/2.png\n");
    write_text("list/val.txt", "q/3.png\tm/3.png");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char settings[96];
        uint8_t pixels[16 * 16 * 3];
        int32_t mask[16 * 16];

        for (int k = 0; k < 3; k++)
            write_pair(rows[i].images[k], rows[i].masks[k], 16, 16, 4, 4, rows[i].first, k);
        snprintf(settings, sizeof settings, "%s,height=16,width=16", rows[i].settings);
        for (int split = 0; split < 2; split++) {
            vv_dataset *set = NULL;

            assert_ok(open_set(&set, rows[i].dir, settings, split ? "eval" : "train"));
            assert_int_equal(set->count, split ? 1 : rows[i].train);
            assert_int_equal(set->spec.classes, 4);
            assert_int_equal(set->spec.target_ndim, 2);
            for (int64_t n = 0; n < set->count; n++) {
                assert_ok(vv_dataset_read(set, n, pixels, mask));
                assert_int_equal(pixels[1], split ? 2 : n); /* in the order of names */
                for (int p = 0; p < 16 * 16; p++)
                    assert_int_equal(pixels[3 * p], 40 * mask[p]);
            }
            vv_dataset_free(set);
        }
    }
}

/* Palette masks are their numbers, RGB masks the table's; classes.txt names, 255 and `ignore` are
   no class. */
static void numbers_and_colours(void **state)
{
    (void)state;
    static const uint8_t image[2 * 2 * 3] = {0}, grey[] = {0, 1, 255, 9},
                         rgb[] = {9, 9, 9, 1, 2, 3, 200, 0, 0, 9, 9, 9};
    vv_dataset *set = NULL;
    uint8_t pixels[8 * 8 * 3];
    int32_t mask[64];

    for (int k = 0; k < 2; k++) {
        make_dirs(at("rgb/train/images/x"));
        make_dirs(at("rgb/train/masks/x"));
        assert_ok(vv_png_write(at("rgb/train/images/a.png"), image, 2, 2, 3));
        assert_ok(vv_png_write(at("rgb/train/masks/a.png"), k ? rgb : grey, 2, 2, k ? 3 : 1));
        write_text("rgb/classes.txt", "# number name colour\n0\tsky\t9 9 9\n1\troad\t1 2 3\n"
                                      "9\tnothing\t200 0 0\n");
        assert_ok(open_set(&set, "rgb", "ignore=9,height=8,width=8,augment=false", "train"));
        assert_int_equal(set->spec.classes, 2);
        assert_string_equal(set->class_names[1], "road");
        assert_ok(vv_dataset_read(set, 0, pixels, mask));
        assert_int_equal(mask[0], 0);
        assert_int_equal(mask[7], 1);
        assert_int_equal(mask[56], -1);
        assert_int_equal(mask[63], k ? 0 : -1);
        vv_dataset_free(set);
    }
    write_text("rgb/classes.txt", "0\tsky\t9 9 9\n");
    assert_ok(open_set(&set, "rgb", "height=8,width=8,classes=2", "train"));
    assert_fails(vv_dataset_read(set, 0, pixels, mask), VV_EFORMAT);
    assert_says("1 2 3");
    vv_dataset_free(set);
    assert_ok(vv_png_write(at("rgb/train/masks/a.png"), grey, 2, 2, 1));
    assert_ok(open_set(&set, "rgb", "height=8,width=8,classes=2", "train"));
    assert_fails(vv_dataset_read(set, 0, pixels, mask), VV_EFORMAT);
    assert_says("holds the number 9");
    vv_dataset_free(set);
    write_text("rgb/classes.txt", "0 sky\n");
    assert_fails(open_set(&set, "rgb", "height=8,width=8", "train"), VV_EFORMAT);
    assert_says("classes.txt:1");
    unlink(at("rgb/classes.txt"));
    assert_fails(open_set(&set, "rgb", "height=8,width=8", "train"), VV_EINVAL);
    assert_says("classes");
}

/* ---- draws ---- */

/* Wherever the smoothed picture shows the colour of one class alone, around the pixel too, the mask
   must be that class. */
static void pixels_keep_their_class(void **state)
{
    (void)state;
    enum { H = 40, W = 56 };
    vv_dataset *set = NULL;
    uint8_t pixels[H * W * 3], again[H * W * 3];
    int32_t mask[H * W], mask_again[H * W];
    int64_t sure = 0, padded = 0, all = 0;

    for (int k = 0; k < 5; k++) {
        char image[64], name[64];

        snprintf(image, sizeof image, "draw/train/images/%d.png", k);
        snprintf(name, sizeof name, "draw/train/masks/%d.png", k);
        write_pair(image, name, 48 + 13 * k, 90 - 11 * k, 9, 5, 0, k);
    }
    assert_ok(open_set(&set, "draw", "classes=5,height=40,width=56,distort=false", "train"));
    for (int64_t draw = 0; draw < 1000; draw++) {
        vv_augment_call call = call_at(draw / 5, draw % 5), same = call_at(draw / 5, draw % 5);

        assert_ok(set->type->draw(set, &call, pixels, mask));
        if (draw % 50 == 0) {
            assert_ok(set->type->draw(set, &same, again, mask_again));
            assert_memory_equal(pixels, again, sizeof pixels);
            assert_memory_equal(mask, mask_again, sizeof mask);
        }
        for (int y = 1; y < H - 1; y++)
            for (int x = 1; x < W - 1; x++) {
                const int p = y * W + x, red = pixels[3 * p];
                const int step[] = {-W - 1, -W, -W + 1, -1, 1, W - 1, W, W + 1};
                bool clear = red % 40 == 0;

                if (mask[p] < 0) { /* what the picture does not fill: its mean colour */
                    assert_int_equal(red, 124);
                    padded++;
                    continue;
                }
                all++;
                for (int k = 0; k < 8 && clear; k++)
                    clear = pixels[3 * (p + step[k])] == red;
                if (!clear)
                    continue;
                sure++;
                if (mask[p] != red / 40)
                    fail_msg("draw %d, pixel %d %d: class %d, the picture shows %d", (int)draw, y,
                             x, mask[p], red / 40);
            }
    }
    assert_true(sure > all / 4); /* and not for want of clear pixels */
    assert_true(padded > 0);
    vv_dataset_free(set);
}

/* A cut with nearly all of one class is drawn again; mirrored or not, half of the time. */
static void shares_and_flips(void **state)
{
    (void)state;
    enum { SIDE = 24 };
    vv_dataset *set = NULL;
    uint8_t *image = calloc(48 * 48, 3), *mask = calloc(48, 48), pixels[SIDE * SIDE * 3];
    int32_t cut[SIDE * SIDE];
    int mixed[2] = {0, 0}, flipped = 0;

    for (int i = 0; i < 48 * 48; i++) { /* class 1 at the right and below, redder to the right */
        mask[i] = i % 48 >= 32 || i / 48 >= 32;
        image[3 * i] = (uint8_t)(5 * (i % 48));
    }
    make_dirs(at("share/train/images/x"));
    make_dirs(at("share/train/masks/x"));
    assert_ok(vv_png_write(at("share/train/images/a.png"), image, 48, 48, 3));
    assert_ok(vv_png_write(at("share/train/masks/a.png"), mask, 48, 48, 1));
    for (int share = 0; share < 2; share++) {
        char settings[128];

        snprintf(settings, sizeof settings, "classes=2,height=24,width=24,min_scale=1,max_scale=1,"
                                            "distort=false,max_share=%s", share ? "0.75" : "1");
        assert_ok(open_set(&set, "share", settings, "train"));
        for (int64_t draw = 0; draw < 200; draw++) {
            vv_augment_call call = call_at(draw, 0);
            int ones = 0;

            assert_ok(set->type->draw(set, &call, pixels, cut));
            for (int i = 0; i < SIDE * SIDE; i++)
                ones += cut[i];
            mixed[share] += ones >= SIDE * SIDE / 4 && ones <= SIDE * SIDE * 3 / 4;
            flipped += pixels[0] > pixels[3 * (SIDE - 1)];
        }
        vv_dataset_free(set);
    }
    assert_true(mixed[1] > 190 && mixed[0] < 150);
    assert_true(flipped > 150 && flipped < 250);
    free(image);
    free(mask);
}

/* ---- what is wrong ---- */

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    vv_dataset *set = NULL;
    uint8_t pixels[8 * 8 * 3];
    int32_t mask[64];

    assert_fails(open_set(&set, "nowhere", "classes=2", "train"), VV_ENOTFOUND);
    write_pair("bad/train/images/a.png", "bad/train/masks/a.png", 8, 8, 4, 2, 0, 0);
    assert_fails(open_set(&set, "bad", "classes=2", "eval"), VV_ENOTFOUND);
    assert_fails(open_set(&set, "bad", "classes=2,min_scale=3", "train"), VV_EINVAL);
    assert_fails(open_set(&set, "bad", "classes=2,base_width=9", "train"), VV_EINVAL);
    write_pair("bad/train/images/b.png", "bad/train/masks/c.png", 8, 8, 4, 2, 0, 0);
    assert_fails(open_set(&set, "bad", "classes=2", "train"), VV_EFORMAT);
    assert_says("b.png: has no mask");
    unlink(at("bad/train/images/b.png"));
    assert_fails(open_set(&set, "bad", "classes=2", "train"), VV_EFORMAT);
    assert_says("2 masks");
    unlink(at("bad/train/masks/c.png"));
    write_pair("bad/other/a.png", "bad/train/masks/a.png", 8, 9, 4, 2, 0, 0);
    assert_ok(open_set(&set, "bad", "classes=2,height=8,width=8", "train"));
    assert_fails(vv_dataset_read(set, 0, pixels, mask), VV_EFORMAT);
    assert_says("the mask is 9x8");
    vv_dataset_free(set);
    write_text("bad/train/masks/a.png", "not an image");
    assert_ok(open_set(&set, "bad", "classes=2,height=8,width=8", "train"));
    assert_fails(vv_dataset_read(set, 0, pixels, mask), VV_EFORMAT);
    vv_dataset_free(set);
    write_text("bad/train.txt", "one_word_only\n");
    assert_fails(open_set(&set, "bad", "classes=2", "train"), VV_EFORMAT);
    assert_says("train.txt:1");
    write_text("bad/train.txt", "");
    assert_fails(open_set(&set, "bad", "classes=2", "train"), VV_EFORMAT);
    assert_says("no images");
}

/* A thousand changed masks, lists and tables: a sample or one sentence. */
static void any_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"any/m/1.png", "any/train.txt", "any/classes.txt",
                                        "any/p/1.png"};
    uint8_t pixels[8 * 8 * 3], *data[4];
    size_t bytes[4];
    int32_t mask[64];
    int refused = 0;

    write_pair("any/p/1.png", "any/m/1.png", 12, 10, 3, 3, 0, 0);
    write_text("any/train.txt", "p/1.png\tm/1.png\np/1.png m/1.png\n");
    write_text("any/classes.txt", "0\ta\t1 2 3\n1\tb\t4 5 6\n2\tc\t7 8 9\n");
    for (int f = 0; f < 4; f++) {
        void *whole;

        assert_ok(vv_data_file_read(&whole, &bytes[f], at(names[f]), 1 << 20));
        data[f] = whole;
    }
    for (int round = 0; round < 1000; round++) {
        const int f = round % 4;
        vv_rng rng = vv_rng_at(11, "bytes", (uint64_t)round);
        const size_t cut = round % 3 ? bytes[f] : (size_t)vv_rng_below(&rng, (int64_t)bytes[f] + 1);
        uint8_t *changed = malloc(bytes[f] + 1);
        vv_dataset *set = NULL;
        FILE *file = fopen(at(names[f]), "wb");

        memcpy(changed, data[f], bytes[f]);
        for (int k = 0; k < 1 + round % 5; k++)
            changed[vv_rng_below(&rng, (int64_t)bytes[f])] = (uint8_t)vv_rng_u32(&rng);
        assert_non_null(file);
        fwrite(changed, 1, cut, file);
        fclose(file);
        vv_error_clear();
        vv_status status = open_set(&set, "any", "height=8,width=8", "train");

        for (int64_t i = 0; status == VV_OK && i < set->count; i++) {
            vv_augment_call call = call_at(round, i);

            status = set->type->draw(set, &call, pixels, mask);
            for (int p = 0; status == VV_OK && p < 64; p++)
                assert_true(mask[p] >= -1 && mask[p] < set->spec.classes);
        }
        vv_dataset_free(set);
        refused += status != VV_OK;
        if (status != VV_OK && (!vv_error()[0] || strchr(vv_error(), '\n')))
            fail_msg("round %d: \"%s\" is no sentence", round, vv_error());
        file = fopen(at(names[f]), "wb");
        assert_non_null(file);
        fwrite(data[f], 1, bytes[f], file);
        fclose(file);
        free(changed);
    }
    assert_true(refused > 300);
    for (int f = 0; f < 4; f++)
        vv_dealloc(data[f]);
}

static void no_memory(void **state)
{
    (void)state;
    uint8_t pixels[8 * 8 * 3];
    int32_t mask[64];
    int64_t live;
    bool done = false;

    write_pair("mem/train/images/a.png", "mem/train/masks/a.png", 9, 13, 3, 3, 0, 0);
    write_text("mem/classes.txt", "0\ta\t1 2 3\n1\tb\t4 5 6\n2\tc\t7 8 9\n");
    live = vv_memory_live_count();
    for (uint64_t nth = 1; !done; nth++) {
        const vv_desc *desc = &vv_dataset_segmentation_folder.desc;
        vv_segmentation_folder_opts opts;
        vv_dataset *set = NULL;
        vv_augment_call call = call_at(0, 0);

        assert_ok(vv_opts_init(desc, &opts));
        assert_ok(vv_opts_set(desc, &opts, "dir", at("mem")));
        assert_ok(vv_opts_set_all(desc, &opts, "height=8,width=8"));
        vv_memory_fail_at(nth);
        vv_status status = vv_dataset_open(&set, &vv_dataset_segmentation_folder, &opts, "train");

        if (status == VV_OK)
            status = set->type->draw(set, &call, pixels, mask);
        vv_memory_fail_at(0);
        done = status == VV_OK;
        /* libpng tells in words of its own. */
        if (!done && status != VV_ENOMEM && !strstr(vv_error(), "memory"))
            fail_msg("allocation %d: %s", (int)nth, vv_error());
        vv_dataset_free(set);
        vv_opts_fini(desc, &opts);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

/* The real CamVid at a quarter of its size, where it is. */
static void camvid(void **state)
{
    (void)state;
    const char *data = getenv("VIVACE_DATA");
    char path[512];
    vv_dataset *set = NULL;
    uint8_t *pixels;
    int32_t *mask;
    int64_t counts[12] = {0};

    snprintf(path, sizeof path, "%s/camvid-240x180", data ? data : "/nowhere");
    if (!data || access(path, R_OK) != 0 || !vv_image_format_available(VV_IMAGE_JPEG))
        skip();
    const vv_desc *desc = &vv_dataset_segmentation_folder.desc;
    vv_segmentation_folder_opts opts;

    assert_ok(vv_opts_init(desc, &opts));
    assert_ok(vv_opts_set_all(desc, &opts, "set=camvid-240x180,ignore=11,height=180,width=240"));
    assert_ok(vv_dataset_open(&set, &vv_dataset_segmentation_folder, &opts, "train"));
    assert_int_equal(set->count, 367);
    assert_int_equal(set->spec.classes, 11);
    assert_string_equal(set->class_names[8], "Car");
    pixels = malloc(180 * 240 * 3);
    mask = malloc(180 * 240 * sizeof *mask);
    for (int64_t i = 0; i < 367; i++) {
        assert_ok(vv_dataset_read(set, i, NULL, mask));
        for (int p = 0; p < 180 * 240; p++)
            counts[mask[p] < 0 ? 11 : mask[p]]++;
    }
    assert_ok(vv_dataset_read(set, 366, pixels, mask));
    assert_int_equal(counts[0], 2685388);
    assert_int_equal(counts[10], 46297);
    assert_int_equal(counts[11], 623421);
    free(pixels);
    free(mask);
    vv_dataset_free(set);
    vv_opts_fini(desc, &opts);
}

/* ---- packed into shards ---- */

static void read_both(vv_dataset *a, vv_dataset *b, bool draw)
{
    enum { SIDE = 32 };
    static uint8_t x[SIDE * SIDE * 3], y[SIDE * SIDE * 3];
    static int32_t m[SIDE * SIDE], n[SIDE * SIDE];

    for (int64_t i = 0; i < a->count; i++) {
        vv_augment_call one = call_at(3, i), two = call_at(3, i);
        int64_t off = 0;

        assert_ok(draw ? a->type->draw(a, &one, x, m) : vv_dataset_read(a, i, x, m));
        assert_ok(draw ? b->type->draw(b, &two, y, n) : vv_dataset_read(b, i, y, n));
        assert_memory_equal(m, n, sizeof m);
        for (int k = 0; k < SIDE * SIDE * 3; k++)
            off += abs(x[k] - y[k]);
        assert_true(off < 20 * SIDE * SIDE * 3); /* JPEG, its colours at half resolution */
    }
}

/* The same masks to the pixel, pictures as JPEG keeps them; numbers have become classes. */
static void packed(void **state)
{
    (void)state;
    static const char settings[] = "classes=4,first=1,ignore=0,height=32,width=32,distort=false";
    const vv_desc *desc = &vv_dataset_segmentation_folder.desc;
    vv_segmentation_folder_opts opts;
    vv_pack_opts pack = VV_PACK_DEFAULTS;
    vv_pack_info info;
    char src[256], dst[256];

    if (!vv_image_format_available(VV_IMAGE_JPEG))
        skip();
    write_pair("topack/train/images/a.png", "topack/train/masks/a.png", 40, 48, 8, 4, 1, 1);
    write_pair("topack/train/images/b.png", "topack/train/masks/b.png", 64, 50, 10, 4, 1, 2);
    write_pair("topack/val/images/c.png", "topack/val/masks/c.png", 56, 56, 8, 4, 1, 3);
    snprintf(src, sizeof src, "%s", at("topack"));
    snprintf(dst, sizeof dst, "%s", at("packed"));
    pack.src = src;
    pack.dst = dst;
    assert_ok(vv_opts_init(desc, &opts));
    assert_ok(vv_opts_set_all(desc, &opts, settings));
    assert_ok(vv_pack_masks(&info, &pack, &opts));
    assert_int_equal(info.train, 2);
    assert_int_equal(info.eval, 1);
    assert_int_equal(info.classes, 4);
    for (int s = 0; s < 2; s++) {
        vv_dataset *folder, *shards;

        assert_ok(open_set(&folder, "topack", settings, s ? "eval" : "train"));
        assert_ok(open_set(&shards, "packed", "classes=4,height=32,width=32,distort=false",
                           s ? "eval" : "train"));
        assert_int_equal(folder->count, shards->count);
        assert_int_equal(shards->spec.classes, 4);
        read_both(folder, shards, false);
        if (s == 0)
            read_both(folder, shards, true);
        vv_dataset_free(folder);
        vv_dataset_free(shards);
    }
    assert_fails(vv_pack_masks(&info, &pack, &opts), VV_EEXIST);
    pack.overwrite = true;
    pack.max_side = 24; /* smaller, both alike */
    assert_ok(vv_pack_masks(&info, &pack, &opts));
    assert_int_equal(info.made_anew, 3);
    vv_opts_fini(desc, &opts);

    vv_dataset *small;

    assert_fails(open_set(&small, "packed", "height=32,width=32", "train"), VV_EINVAL);
    assert_says("say with classes=");
    assert_ok(open_set(&small, "packed", "classes=4,height=32,width=32", "train"));
    read_both(small, small, true);
    vv_dataset_free(small);
}

static int remove_root(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),          cmocka_unit_test(numbers_and_colours),
        cmocka_unit_test(pixels_keep_their_class), cmocka_unit_test(shares_and_flips),
        cmocka_unit_test(what_is_wrong_is_told),   cmocka_unit_test(any_bytes),
        cmocka_unit_test(no_memory),               cmocka_unit_test(camvid),
        cmocka_unit_test(packed),
    };

    if (!vv_png_available() || !vv_image_format_available(VV_IMAGE_PNG))
        return 0;
    if (!mkdtemp(root))
        return 1;
    return cmocka_run_group_tests(tests, NULL, remove_root);
}
