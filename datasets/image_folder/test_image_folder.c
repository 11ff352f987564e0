/* test_image_folder.c - what must hold: folders are classes in sorted order, whatever the files are
 * called and whichever of the formats they are; splits come from folders or from the names alone; a
 * training sample is a function of (seed, epoch, index), whatever the threads; evaluation sees the
 * centre; damage is refused by name, or left out and named, also where it shows late. */
#include "vv_test_photos.h"

#include "image_folder.h"

#define SIZE 24
#define SMALL "size=24"

/* cat (100 + i), dog (180 + i) of several sizes and kinds, in train and val. */
static void write_pets(const char *dir)
{
    char path[600];
    make_folder(dir, "train");
    make_folder(dir, "val");
    for (int v = 0; v < 2; v++)
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s/%s", dir, v ? "val" : "train");
            make_folder(path, k ? "cat" : "dog");
            snprintf(path, sizeof path, "%s/%s/%s", dir, v ? "val" : "train", k ? "cat" : "dog");
            for (int i = 0; i < (v ? 2 : 5); i++) {
                char name[32];
                snprintf(name, sizeof name, "%d.%s", i, i == 3 ? "png" : "jpg");
                write_photo(path, name, 30 + 17 * i, 70 - 9 * i, i == 2 ? 1 : 3,
                            (k ? 100 : 180) + i);
            }
            write_text(path, "notes.txt", "not an image");
            write_text(path, ".hidden.jpg", "neither");
        }
}

static void classes_are_folders(void **unused)
{
    (void)unused;
    char dir[256];
    vv_dataset *set;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_pets(dir);
    for (int v = 0; v < 2; v++) {
        assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL, v ? "eval" : "train"));
        const int each = v ? 2 : 5;
        assert_int_equal(set->count, 2 * each);
        assert_int_equal(set->spec.classes, 2);
        assert_string_equal(set->class_names[0], "cat");
        assert_string_equal(set->class_names[1], "dog");
        assert_null(set->notice);
        for (int i = 0; i < 2 * each; i++) {
            uint8_t image[SIZE * SIZE * 3];
            int32_t label;
            assert_ok(vv_dataset_read(set, i, image, &label));
            assert_int_equal(label, i / each);
            const int shade = (i / each ? 180 : 100) + i % each + 7;
            double mean = 0;
            for (int k = 0; k < SIZE * SIZE * 3; k++)
                mean += (double)image[k] / (SIZE * SIZE * 3);
            assert_near(mean, shade, 0, 4);
        }
        vv_dataset_free(set);
    }
    write_text(dir, "classes.tsv", "dog\tgood dog\ncat, a cat\nbird\tbird\n");
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL ",channels=1", "train"));
    assert_string_equal(set->class_names[0], "a cat");
    assert_string_equal(set->class_names[1], "good dog");
    assert_int_equal(set->spec.input_shape[2], 1);
    vv_dataset_free(set);
    char path[600];
    snprintf(path, sizeof path, "%s/val", dir);
    make_folder(path, "bird");
    assert_fails(open_photos(&set, &vv_dataset_image_folder, dir, SMALL, "eval"), VV_EFORMAT);
    assert_says("has a class 'bird', which the training images do not have");
    remove_dir(dir);
}

static void same_file_in_one_split_only(void **unused)
{
    (void)unused;
    enum { FILES = 200 };
    char dir[256], path[600];
    vv_dataset *part[2], *again;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    make_folder(dir, "a");
    make_folder(dir, "b");
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(path, sizeof path, "%s/%s", dir, i % 2 ? "a" : "b");
        snprintf(name, sizeof name, "IMG_%04d.png", i);
        write_photo(path, name, 4, 4, 1, i);
    }
    const char *settings = "size=4,resize=4,channels=1,eval_fraction=0.3";
    assert_ok(open_photos(&part[0], &vv_dataset_image_folder, dir, settings, "train"));
    assert_ok(open_photos(&part[1], &vv_dataset_image_folder, dir, settings, "eval"));
    assert_int_equal(part[0]->count + part[1]->count, FILES);
    assert_in_range(part[1]->count, FILES * 3 / 10 - 20, FILES * 3 / 10 + 20);
    int seen[256] = {0};
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < part[p]->count; i++) {
            uint8_t image[16];
            assert_ok(vv_dataset_read(part[p], i, image, NULL));
            seen[image[0]]++;
        }
    for (int i = 0; i < FILES; i++)
        assert_int_equal(seen[i], 1);
    /* one file more moves none of the others */
    write_photo(path, "extra.png", 4, 4, 1, 240);
    assert_ok(open_photos(&again, &vv_dataset_image_folder, dir, settings, "eval"));
    assert_true(again->count == part[1]->count || again->count == part[1]->count + 1);
    vv_dataset_free(again);
    vv_dataset_free(part[0]);
    vv_dataset_free(part[1]);
    remove_dir(dir);
}

/* All batches of two epochs as one list of floats. */
static float *draw_all(vv_dataset *set, uint64_t seed, int workers, int64_t *count)
{
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_loader *loader;
    float *out = malloc(2 * 10 * SIZE * SIZE * 3 * sizeof *out);
    assert_non_null(out);
    opts.batch_size = 3;
    opts.shuffle = true;
    opts.seed = seed;
    opts.workers = workers;
    opts.prefetch = 4;
    opts.transform = vv_dataset_image_folder.train_transform;
    assert_ok(vv_loader_new(&loader, set, &opts));
    *count = 0;
    for (int ends = 0; ends < 2;) {
        vv_batch *batch;
        assert_ok(vv_loader_next(loader, &batch));
        ends += !batch;
        if (batch) {
            memcpy(out + *count, batch->input->data, batch->input->bytes);
            *count += batch->input->count;
        }
        vv_batch_free(batch);
    }
    vv_loader_free(loader);
    return out;
}

static void samples_are_functions_of_seed_epoch_index(void **unused)
{
    (void)unused;
    char dir[256];
    vv_dataset *set;
    int64_t count, same;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_pets(dir);
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL ",color_jitter=0.3,hue=0.1",
                          "train"));
    float *alone = draw_all(set, 5, 0, &count), *threads = draw_all(set, 5, 3, &same);
    assert_int_equal(count, 2 * 10 * SIZE * SIZE * 3);
    assert_int_equal(same, count);
    assert_memory_equal(alone, threads, (size_t)count * sizeof *alone);
    free(threads);
    threads = draw_all(set, 6, 2, &same);
    assert_memory_not_equal(alone, threads, (size_t)count * sizeof *alone);
    free(threads);
    free(alone);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_loader *loader;
    float a[SIZE * SIZE * 3], b[SIZE * SIZE * 3];
    assert_ok(vv_loader_new(&loader, set, &opts));
    assert_ok(vv_loader_sample(loader, 3, 4, a));
    assert_ok(vv_loader_sample(loader, 3, 4, b));
    assert_memory_equal(a, b, sizeof a);
    assert_ok(vv_loader_sample(loader, 4, 4, b));
    assert_memory_not_equal(a, b, sizeof a);
    vv_loader_free(loader);
    vv_photo_times times;
    assert_true(vv_image_folder_times(set, &times));
    assert_true(times.decode > 0 && times.resample > 0 && times.colour > 0);
    vv_dataset_free(set);
    remove_dir(dir);
}

static void evaluation_sees_the_centre(void **unused)
{
    (void)unused;
    char dir[256], path[600];
    vv_dataset *set;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_pets(dir);
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL ",resize=26,scaled_decode=no",
                          "eval"));
    snprintf(path, sizeof path, "%s/val/cat/0.jpg", dir);
    vv_image image;
    uint8_t got[SIZE * SIZE * 3], want[SIZE * SIZE * 3];
    double box[4];
    const vv_image_shape shape = {SIZE, SIZE, 3};
    assert_ok(vv_image_read(&image, path, NULL));
    vv_image_centre_crop(box, 30, 70, 26, SIZE, SIZE);
    assert_ok(vv_image_resample(&shape, want, &image.shape, image.pixels, box, VV_IMAGE_BILINEAR));
    assert_ok(vv_dataset_read(set, 0, got, NULL));
    assert_memory_equal(got, want, sizeof got);
    assert_int_equal(set->prepare.resize, 26);
    assert_int_equal(set->prepare.filter, 1 + VV_IMAGE_BILINEAR);
    assert_true(set->prepare.orient);
    vv_image_fini(&image);
    vv_dataset_free(set);
    remove_dir(dir);
}

/* Cuts a file to a part of its size. */
static void cut_file(const char *dir, const char *name, double part)
{
    char path[600];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, (off_t)((double)info.st_size * part)), 0);
}

static void damage_is_named(void **unused)
{
    (void)unused;
    char dir[256];
    vv_dataset *set;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_pets(dir);
    cut_file(dir, "train/cat/1.jpg", 0.6);
    cut_file(dir, "train/dog/3.png", 0.9);
    cut_file(dir, "train/dog/4.jpg", 0);
    assert_fails(open_photos(&set, &vv_dataset_image_folder, dir, SMALL, "train"), VV_EFORMAT);
    assert_says("3 of 10 files are damaged");
    assert_says("cat/1.jpg: damaged JPEG image");
    assert_says("dog/3.png: damaged PNG image");
    assert_says("dog/4.jpg: not a JPEG or PNG image (it is empty)");
    assert_null(set);
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL ",damaged=skip", "train"));
    assert_int_equal(set->count, 7);
    assert_non_null(strstr(set->notice, "3 of 10 files are damaged and left out"));
    assert_non_null(strstr(set->notice, "cat/1.jpg"));
    vv_dataset_free(set);
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL, "eval"));
    vv_dataset_free(set);
    remove_dir(dir);
}

/* Both ends are sound, the middle is not. */
static void damage_that_shows_late(void **unused)
{
    (void)unused;
    char dir[256], path[600];
    uint8_t image[SIZE * SIZE * 3], other[SIZE * SIZE * 3];
    int32_t label;
    vv_dataset *set;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_pets(dir);
    snprintf(path, sizeof path, "%s/train/cat/4.jpg", dir);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    fseek(file, size / 2, SEEK_SET);
    for (long i = size / 2; i < size - 2; i++)
        fputc(i % 2 ? 0xd9 : 0xff, file);
    fclose(file);
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL ",scale=1,ratio=1", "train"));
    assert_int_equal(set->count, 10);
    assert_fails(vv_dataset_read(set, 4, image, &label), VV_EFORMAT);
    assert_says("train/cat/4.jpg: damaged JPEG image");
    vv_dataset_free(set);
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL ",damaged=skip", "train"));
    assert_int_equal(set->count, 10);
    assert_ok(vv_dataset_read(set, 4, image, &label));
    assert_int_equal(label, 1); /* the first dog stands in */
    assert_ok(vv_dataset_read(set, 5, other, NULL));
    assert_memory_equal(image, other, sizeof image);
    vv_dataset_free(set);
    assert_fails(open_photos(&set, &vv_dataset_image_folder, dir, SMALL ",check=all", "train"),
                 VV_EFORMAT);
    assert_says("1 of 10 files are damaged");
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, SMALL ",check=all,damaged=skip",
                          "train"));
    assert_int_equal(set->count, 9);
    vv_dataset_free(set);
    remove_dir(dir);
}

static void says_what_is_wrong(void **unused)
{
    (void)unused;
    char dir[256];
    vv_dataset *set;
    temp_dir(dir);
    assert_fails(open_photos(&set, &vv_dataset_image_folder, dir, "", "train"), VV_EFORMAT);
    assert_says("has no folders in it; it must have one for each class");
    make_folder(dir, "a");
    assert_fails(open_photos(&set, &vv_dataset_image_folder, dir, "", "train"), VV_EFORMAT);
    assert_says("no JPEG or PNG images to train on");
    assert_fails(open_photos(&set, &vv_dataset_image_folder, dir, "size=64,resize=32", "train"),
                 VV_EINVAL);
    assert_says("resize 32 is less than size 64");
    assert_fails(open_photos(&set, &vv_dataset_image_folder, dir, "channels=2", "train"),
                 VV_EINVAL);
    assert_fails(open_photos(&set, &vv_dataset_image_folder, "/nowhere/at/all", "", "train"),
                 VV_ENOTFOUND);
    assert_says("/nowhere/at/all does not exist");
    vv_image_folder_opts opts;
    vv_sample_spec spec;
    int64_t count;
    assert_ok(vv_opts_init(&vv_dataset_image_folder.desc, &opts));
    assert_ok(vv_dataset_image_folder.shape(&opts, "train", &spec, &count));
    assert_int_equal(spec.input_shape[0], 224);
    assert_true(spec.classes > 1 && count > 1);
    vv_opts_fini(&vv_dataset_image_folder.desc, &opts);
    remove_dir(dir);
}

static void survives_each_allocation_failing(void **unused)
{
    (void)unused;
    char dir[256];
    vv_dataset *set;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_pets(dir);
    cut_file(dir, "train/cat/1.jpg", 0.6);
    const char *settings = SMALL ",damaged=skip";
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(open_photos(&set, &vv_dataset_image_folder, dir, settings, "train"));
    const uint64_t allocations = vv_memory_alloc_count() - before;
    vv_dataset_free(set);
    vv_image_folder_opts opts;
    char all[700];
    snprintf(all, sizeof all, "dir=%s,%s", dir, settings);
    assert_ok(vv_opts_init(&vv_dataset_image_folder.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_dataset_image_folder.desc, &opts, all));
    const int64_t with_opts = vv_memory_live_count();
    int failed = 0;
    for (uint64_t n = 1; n <= allocations; n++) {
        vv_memory_fail_at(n);
        const vv_status status = vv_dataset_open(&set, &vv_dataset_image_folder, &opts, "train");
        vv_memory_fail_at(0);
        if (status == VV_OK) { /* the last ones were those of the settings */
            vv_dataset_free(set);
        } else {
            failed++;
            assert_int_equal(status, VV_ENOMEM);
            assert_null(set);
        }
        assert_int_equal(vv_memory_live_count(), with_opts);
    }
    assert_true(failed > 20);
    vv_opts_fini(&vv_dataset_image_folder.desc, &opts);
    assert_int_equal(vv_memory_live_count(), live);
    remove_dir(dir);
}

static void real_photographs(void **unused)
{
    (void)unused;
    const char *root = getenv("VIVACE_DATA");
    char dir[1024];
    vv_dataset *set;
    snprintf(dir, sizeof dir, "%s/caltech-10/images", root ? root : "");
    if (!root || access(dir, F_OK) != 0 || !can_read_photos())
        skip();
    int64_t count = 0;
    for (int v = 0; v < 2; v++) {
        assert_ok(open_photos(&set, &vv_dataset_image_folder, "caltech-10/images", "check=all",
                              v ? "eval" : "train"));
        assert_int_equal(set->spec.classes, 10);
        count += set->count;
        vv_dataset_free(set);
    }
    assert_int_equal(count, 592);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_folders),
        cmocka_unit_test(same_file_in_one_split_only),
        cmocka_unit_test(samples_are_functions_of_seed_epoch_index),
        cmocka_unit_test(evaluation_sees_the_centre),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(damage_that_shows_late),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(survives_each_allocation_failing),
        cmocka_unit_test(real_photographs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
