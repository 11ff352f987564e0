/* test_imagenet.c - what must hold: evaluation images may lie in class folders, or loose beside a
 * file of their classes in any of the usual forms; what that file cannot mean is told with its
 * line; without the files the set has ImageNet's shape. */
#include "vv_test_photos.h"

#include "imagenet.h"

#define SMALL "size=8"

static void write_set(const char *dir)
{
    static const char *const classes[] = {"n01440764", "n01443537", "n02102040"};
    char path[600];
    make_folder(dir, "train");
    make_folder(dir, "val");
    snprintf(path, sizeof path, "%s/train", dir);
    for (int k = 0; k < 3; k++) {
        make_folder(path, classes[k]);
        char folder[700];
        snprintf(folder, sizeof folder, "%s/%s", path, classes[k]);
        write_photo(folder, "a.JPEG", 12, 10, 3, 50 * k);
    }
    snprintf(path, sizeof path, "%s/val", dir);
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "ILSVRC2012_val_0000000%d.JPEG", i + 1);
        write_photo(path, name, 10, 12, 3, 50 * i);
    }
}

static void check_labels(const char *dir, const char *settings, const int32_t want[4])
{
    vv_dataset *set;
    assert_ok(open_photos(&set, &vv_dataset_imagenet, dir, settings, "eval"));
    assert_int_equal(set->count, 4);
    assert_int_equal(set->spec.classes, 3);
    for (int i = 0; i < 4; i++) {
        int32_t label;
        assert_ok(vv_dataset_read(set, i, NULL, &label));
        assert_int_equal(label, want[i]);
    }
    vv_dataset_free(set);
}

static void classes_from_a_file(void **unused)
{
    (void)unused;
    static const int32_t want[4] = {2, 0, 1, 2};
    char dir[256];
    vv_dataset *set;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_set(dir);
    assert_fails(open_photos(&set, &vv_dataset_imagenet, dir, SMALL, "eval"), VV_ENOTFOUND);
    assert_says("give one with `labels`");
    write_text(dir, "LOC_val_solution.csv",
               "ImageId,PredictionString\nILSVRC2012_val_00000001,n02102040 1 2 3 4\n"
               "ILSVRC2012_val_00000003,n01443537 1 2 3 4 n01443537 5 6 7 8\n"
               "ILSVRC2012_val_00000002,n01440764 1 2 3 4\n"
               "ILSVRC2012_val_00000004,n02102040 0 0 1 1\n");
    check_labels(dir, SMALL, want);
    write_text(dir, "val.txt",
               "ILSVRC2012_val_00000001.JPEG 2\r\nval/ILSVRC2012_val_00000002.JPEG 0\n"
               "# three\nILSVRC2012_val_00000003.JPEG\t1\nILSVRC2012_val_00000004 2");
    check_labels(dir, SMALL, want);
    write_text(dir, "mine.csv", "ILSVRC2012_val_00000001.JPEG,n01440764\nnobody.JPEG 1\n");
    assert_ok(open_photos(&set, &vv_dataset_imagenet, dir, SMALL ",labels=mine.csv", "eval"));
    assert_int_equal(set->count, 1);
    vv_dataset_free(set);
    write_text(dir, "mine.csv", "ILSVRC2012_val_00000001.JPEG,n01440764\na.JPEG 3\n");
    assert_fails(open_photos(&set, &vv_dataset_imagenet, dir, SMALL ",labels=mine.csv", "eval"),
                 VV_EFORMAT);
    assert_says("mine.csv:2: '3' is neither a class folder nor a number from 0 to 2");
    write_text(dir, "mine.csv", "ILSVRC2012_val_00000001.JPEG\n");
    assert_fails(open_photos(&set, &vv_dataset_imagenet, dir, SMALL ",labels=mine.csv", "eval"),
                 VV_EFORMAT);
    assert_says("mine.csv:1: expected a name and a class");
    remove_dir(dir);
}

/* 400 changed label files: a set whose labels are classes, or one sentence that names the line. */
static void changed_label_files(void **unused)
{
    (void)unused;
    static const char text[] = "ILSVRC2012_val_00000001.JPEG n01440764\n"
                               "ILSVRC2012_val_00000002,2\n\n#\nILSVRC2012_val_00000003 1\n";
    char dir[256];
    int opened = 0, refused = 0;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_set(dir);
    for (uint64_t round = 0; round < 400; round++) {
        vv_rng rng = vv_rng_at(11, "labels", round);
        char copy[sizeof text];
        vv_dataset *set;
        memcpy(copy, text, sizeof text);
        for (int64_t k = vv_rng_below(&rng, 4); k > 0; k--)
            copy[vv_rng_below(&rng, sizeof text - 1)] = (char)vv_rng_below(&rng, 256);
        write_file(dir, "val.txt", copy, sizeof text - 1 - (size_t)vv_rng_below(&rng, 40));
        const vv_status status = open_photos(&set, &vv_dataset_imagenet, dir, SMALL, "eval");
        if (status == VV_OK) {
            for (int64_t i = 0; i < set->count; i++) {
                int32_t label = -1;
                assert_ok(vv_dataset_read(set, i, NULL, &label));
                assert_in_range(label, 0, 2);
            }
            opened++;
            vv_dataset_free(set);
        } else {
            assert_int_equal(status, VV_EFORMAT);
            assert_says("data set imagenet");
            refused++;
        }
    }
    if (opened < 20 || refused < 20)
        fail_msg("%d opened, %d refused", opened, refused);
    remove_dir(dir);
}

static void names_of_classes(void **unused)
{
    (void)unused;
    char dir[256];
    vv_dataset *set;
    if (!can_read_photos())
        skip();
    temp_dir(dir);
    write_set(dir);
    write_text(dir, "LOC_synset_mapping.txt",
               "n01440764 tench, Tinca tinca\nn99999999 nothing\nn02102040 English springer\n");
    assert_ok(open_photos(&set, &vv_dataset_imagenet, dir, SMALL, "train"));
    assert_int_equal(set->count, 3);
    assert_string_equal(set->class_names[0], "tench, Tinca tinca");
    assert_string_equal(set->class_names[1], "n01443537");
    assert_string_equal(set->class_names[2], "English springer");
    vv_dataset_free(set);
    remove_dir(dir);
}

static void shape_without_files(void **unused)
{
    (void)unused;
    vv_image_folder_opts opts;
    vv_sample_spec spec;
    int64_t count;
    assert_ok(vv_opts_init(&vv_dataset_imagenet.desc, &opts));
    assert_ok(vv_opts_set(&vv_dataset_imagenet.desc, &opts, "dir", "/nowhere/imagenet"));
    assert_ok(vv_dataset_imagenet.shape(&opts, "train", &spec, &count));
    assert_int_equal(count, 1281167);
    assert_int_equal(spec.classes, 1000);
    assert_int_equal(spec.input_shape[1], 224);
    assert_near(spec.mean[0], 0.485, 1e-6, 0);
    assert_ok(vv_dataset_imagenet.shape(&opts, "eval", &spec, &count));
    assert_int_equal(count, 50000);
    vv_opts_fini(&vv_dataset_imagenet.desc, &opts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_from_a_file),
        cmocka_unit_test(changed_label_files),
        cmocka_unit_test(names_of_classes),
        cmocka_unit_test(shape_without_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
