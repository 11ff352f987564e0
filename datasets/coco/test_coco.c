/* test_coco.c - what must hold of COCO's files: classes follow the ids' order, boxes are shares of
 * their image and cut at its border; training leaves out crowds and images without boxes,
 * evaluation keeps both; a box lies where its pixels are after any draw, which is the same for any
 * number of workers; damaged files are told in one sentence; an allocation that fails is an
 * error. */
#include "vv_test_files.h"

#include <vivace/image_files.h>

#include "coco.h"
#include "coco_json.h"

enum { SIDE = 60 };

/* Grey with one red rectangle. */
static void write_jpeg(const char *dir, const char *name, int width, int height, const int edge[4])
{
    const vv_image_shape shape = {height, width, 3};
    uint8_t *pixels = malloc((size_t)(width * height * 3));
    void *data;
    size_t bytes;
    assert_non_null(pixels);
    memset(pixels, 90, (size_t)(width * height * 3));
    for (int y = edge[1]; y < edge[3]; y++)
        for (int x = edge[0]; x < edge[2]; x++)
            memcpy(pixels + (y * width + x) * 3, (const uint8_t[]){250, 20, 20}, 3);
    assert_ok(vv_jpeg_encode(&data, &bytes, &shape, pixels, 95));
    write_file(dir, name, data, bytes);
    vv_dealloc(data);
    free(pixels);
}

/* Image 30 comes first in the file, but its id is last; image 20 shows nothing; 10 has a crowd. */
static const char annotations[] =
    "{\"info\": {\"note\": \"a ] in a \\\"text\\\"\", \"list\": [[1, 2], {}]},\n"
    "\"annotations\": [\n"
    " {\"id\": 1, \"image_id\": 10, \"category_id\": 9, \"bbox\": [40, 16, 48, 40], \"area\": "
    "1920,\n"
    "  \"iscrowd\": 0, \"segmentation\": [[40, 16, 88, 16, 88, 56, 40, 56]]},\n"
    " {\"id\": 2, \"image_id\": 30, \"category_id\": 4, \"bbox\": [-10, 30.5, 60, 200], "
    "\"iscrowd\": 0},\n"
    " {\"id\": 3, \"image_id\": 10, \"category_id\": 4, \"bbox\": [0, 0, 120, 80], \"iscrowd\": "
    "1},\n"
    " {\"id\": 4, \"image_id\": 30, \"category_id\": 4, \"bbox\": [5, 5, 0, 7], \"iscrowd\": 0}\n"
    "],\n"
    "\"images\": [\n"
    " {\"id\": 30, \"file_name\": \"c.jpg\", \"width\": 100, \"height\": 200},\n"
    " {\"id\": 10, \"file_name\": \"a.jpg\", \"width\": 120, \"height\": 80},\n"
    " {\"id\": 20, \"file_name\": \"b.jpg\", \"width\": 90, \"height\": 90}\n"
    "],\n"
    "\"categories\": [{\"id\": 9, \"name\": \"red\"}, {\"id\": 4, \"name\": \"other\"}]}\n";

static void write_set(char dir[256])
{
    char folder[300];
    temp_dir(dir);
    snprintf(folder, sizeof folder, "%s/images", dir);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_jpeg(folder, "a.jpg", 120, 80, (const int[]){40, 16, 88, 56});
    write_jpeg(folder, "b.jpg", 90, 90, (const int[]){0, 0, 0, 0});
    write_jpeg(folder, "c.jpg", 100, 200, (const int[]){0, 30, 50, 200});
    write_file(dir, "boxes.json", annotations, sizeof annotations - 1);
}

static vv_status open_set(vv_dataset **out, const char *dir, const char *split, int64_t max_boxes)
{
    const vv_coco_opts opts = {{dir}, "boxes.json", "boxes.json", "images",
                               "images", SIDE, max_boxes, true};
    return vv_dataset_open(out, &vv_dataset_coco, &opts, split);
}

static int redness(const uint8_t *pixel)
{
    return pixel[0] - pixel[1];
}

/* Bounds, in shares, of what is at least half as red as the reddest; false if hardly anything is
   red any more. */
static bool bounds(const uint8_t *image, float box[4])
{
    int x0 = SIDE, y0 = SIDE, x1 = 0, y1 = 0, most = 0;
    for (int i = 0; i < SIDE * SIDE; i++)
        most = redness(image + 3 * i) > most ? redness(image + 3 * i) : most;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            if (2 * redness(image + (y * SIDE + x) * 3) > most) {
                x0 = x < x0 ? x : x0;
                y0 = y < y0 ? y : y0;
                x1 = x >= x1 ? x + 1 : x1;
                y1 = y >= y1 ? y + 1 : y1;
            }
    const float found[4] = {(float)x0 / SIDE, (float)y0 / SIDE, (float)x1 / SIDE, (float)y1 / SIDE};
    memcpy(box, found, sizeof found);
    return most > 60;
}

static void reads_what_the_file_says(void **state)
{
    (void)state;
    static uint8_t image[SIDE * SIDE * 3];
    char dir[256];
    vv_box_row rows[3];
    float seen[4];
    vv_dataset *set;
    write_set(dir);
    assert_ok(open_set(&set, dir, "eval", 3));
    assert_int_equal(set->count, 3);
    assert_int_equal(set->spec.classes, 3);
    assert_true(set->prepare.whole); /* other images are made alike: nothing is cut */
    assert_string_equal(set->notice,
                        "data set coco: boxes.json: 1 boxes without an area are left out");
    assert_string_equal(set->class_names[0], "background");
    assert_string_equal(set->class_names[1], "other"); /* id 4 before id 9 */
    assert_string_equal(set->class_names[2], "red");
    assert_ok(vv_dataset_read(set, 0, image, rows));
    const float a[3][6] = {{40.0f / 120, 16.0f / 80, 88.0f / 120, 56.0f / 80, 2, 0},
                           {0, 0, 1, 1, 1, 1},
                           {0, 0, 0, 0, -1, 0}};
    for (int i = 0; i < 18; i++)
        assert_near((double)rows[i / 6][i % 6], (double)a[i / 6][i % 6], 1e-6, 0);
    assert_true(bounds(image, seen));
    for (int k = 0; k < 4; k++)
        assert_near((double)seen[k], (double)a[0][k], 1.01 / SIDE, 0);
    assert_ok(vv_dataset_read(set, 1, image, rows)); /* nothing to find */
    assert_true(rows[0][4] == -1.0f);
    assert_ok(
        vv_dataset_read(set, 2, NULL, rows)); /* cut at the border; an empty box is left out */
    const float c[6] = {0, 30.5f / 200, 0.5f, 1, 1, 0};
    for (int k = 0; k < 6; k++)
        assert_near((double)rows[0][k], (double)c[k], 1e-6, 0);
    assert_true(rows[1][4] == -1.0f);
    vv_dataset_free(set);
    assert_ok(open_set(&set, dir, "train", 1)); /* without the crowd one row is enough */
    assert_int_equal(set->count, 2);
    assert_non_null(
        strstr(set->notice, "1 images without boxes and 1 boxes without an area are left"));
    assert_ok(vv_dataset_read(set, 0, NULL, rows));
    assert_near((double)rows[0][4], 2, 0, 0);
    vv_dataset_free(set);
    assert_fails(open_set(&set, dir, "eval", 1), VV_EINVAL);
    assert_says("a.jpg has 2 boxes, max_boxes is 1");
    remove_dir(dir);
}

static void draws_keep_boxes_on_their_pixels(void **state)
{
    (void)state;
    static uint8_t image[SIDE * SIDE * 3];
    char dir[256];
    vv_dataset *set;
    int red = 0;
    write_set(dir);
    assert_ok(open_set(&set, dir, "train", 2));
    for (int64_t i = 0; i < 200; i++) {
        vv_augment_call call = {.epoch = i, .index = 0, .rng = vv_rng_at(3, "draws", (uint64_t)i)};
        vv_box_row rows[2];
        float seen[4];
        assert_ok(set->type->draw(set, &call, image, rows));
        assert_true(rows[0][4] == 2.0f && rows[1][4] == -1.0f);
        if (!bounds(image, seen))
            continue;
        red++;
        for (int k = 0; k < 4; k++)
            /* One pixel of the file, which stores colours at half resolution, is up to three
               here. */
            if (!(fabsf(seen[k] - rows[0][k]) < 3.1f / SIDE))
                fail_msg("draw %d: edge %d of the pixels is %g, of the box %g", (int)i, k,
                         (double)seen[k], (double)rows[0][k]);
    }
    assert_true(red > 120);
    vv_dataset_free(set);
    remove_dir(dir);
}

static void workers_cannot_be_seen(void **state)
{
    (void)state;
    char dir[256];
    vv_dataset *set;
    vv_tensor *input[2], *target[2];
    write_set(dir);
    assert_ok(open_set(&set, dir, "train", 2));
    for (int w = 0; w < 2; w++) {
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        vv_loader *loader;
        vv_batch *batch;
        opts.batch_size = 2;
        opts.workers = 2 * w;
        opts.shuffle = true;
        opts.transform.normalise = true;
        assert_ok(vv_loader_new(&loader, set, &opts));
        assert_ok(vv_loader_seek(loader, 3, 0));
        assert_ok(vv_loader_next(loader, &batch));
        input[w] = vv_tensor_keep(batch->input);
        target[w] = vv_tensor_keep(batch->target);
        vv_batch_free(batch);
        vv_loader_free(loader);
    }
    assert_memory_equal(input[0]->data, input[1]->data, (size_t)input[0]->count * sizeof(float));
    assert_memory_equal(target[0]->data, target[1]->data, (size_t)target[0]->count * sizeof(float));
    for (int w = 0; w < 2; w++) {
        vv_tensor_free(input[w]);
        vv_tensor_free(target[w]);
    }
    vv_dataset_free(set);
    remove_dir(dir);
}

static void damaged_files_are_told(void **state)
{
    (void)state;
#define IMAGES "\"images\":[{\"id\":1,\"file_name\":\"a.jpg\",\"width\":9,\"height\":9}]"
#define KINDS "\"categories\":[{\"id\":1,\"name\":\"x\"}]"
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "is no JSON object"},
        {"[]", "is no JSON object"},
        {"{}", "has no \"images\""},
        {"{" IMAGES "}", "has no \"categories\""},
        {"{" IMAGES "," KINDS "}", "has no \"annotations\""},
        {"{" IMAGES "," KINDS ",\"annotations\":{}}", "list of its annotations is no JSON array"},
        {"{" IMAGES "," IMAGES "}", "has \"images\" twice"},
        {"{" IMAGES "," KINDS ",\"annotations\":[", "ends too early"},
        {"{" IMAGES "," KINDS ",\"annotations\":[7]}", "annotation 0: is no JSON object"},
        {"{" IMAGES "," KINDS ",\"annotations\":[{]}", "too early or is damaged"},
        {"{" IMAGES "," KINDS ",\"annotations\":[{}]}", "needs \"image_id\""},
        {"{" IMAGES "," KINDS ",\"annotations\":[{\"image_id\":1,\"category_id\":1,\"bbox\":[1,2,3]}]}",
         "annotation 0: needs \"bbox\""},
        {"{" IMAGES "," KINDS ",\"annotations\":[{\"image_id\":2,\"category_id\":1,\"bbox\":[1,2,3,4]}]}",
         "annotation 0: no image has the id 2"},
        {"{" IMAGES "," KINDS ",\"annotations\":[{\"image_id\":1,\"category_id\":5,\"bbox\":[1,2,3,4]}]}",
         "annotation 0: no category has the id 5"},
        {"{\"images\":[{\"id\":1,\"file_name\":\"../a\",\"width\":9,\"height\":9}]," KINDS "}",
         "image 0: file_name leads out"},
        {"{\"images\":[{\"id\":1,\"file_name\":\"a\",\"width\":0,\"height\":9}]," KINDS "}",
         "no sizes of an image"},
        {"{" KINDS ",\"images\":[{\"id\":1,\"file_name\":\"a\",\"width\":1,\"height\":9},"
         "{\"id\":1,\"file_name\":\"b\",\"width\":1,\"height\":9}]}", "two images have the id 1"},
        {"{" IMAGES ",\"categories\":[]}", "has 0 categories"},
    };
    vvi_coco_set set;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_fails(vvi_coco_parse(&set, "b.json", rows[i].text, strlen(rows[i].text)),
                     VV_EFORMAT);
        assert_says("b.json: ");
        assert_says(rows[i].says);
    }
}

static void wrong_images_are_told(void **state)
{
    (void)state;
    static uint8_t image[SIDE * SIDE * 3];
    char dir[256], path[300];
    vv_dataset *set;
    write_set(dir);
    assert_ok(open_set(&set, dir, "eval", 3));
    snprintf(path, sizeof path, "%s/images", dir);
    write_jpeg(path, "a.jpg", 80, 120, (const int[]){0, 0, 8, 8});
    assert_fails(vv_dataset_read(set, 0, image, NULL), VV_EFORMAT);
    assert_says("a.jpg: is 80x120 pixels, the annotations say 120x80");
    write_file(path, "a.jpg", "no image", 8);
    assert_fails(vv_dataset_read(set, 0, image, NULL), VV_EFORMAT);
    assert_says("a.jpg");
    snprintf(path, sizeof path, "%s/images/a.jpg", dir);
    assert_int_equal(unlink(path), 0);
    vv_error_clear();
    assert_int_not_equal(vv_dataset_read(set, 0, image, NULL), VV_OK);
    assert_says("a.jpg");
    vv_dataset_free(set);
    remove_dir(dir);
}

static void memory_may_end(void **state)
{
    (void)state;
    static uint8_t image[SIDE * SIDE * 3];
    char dir[256];
    vv_dataset *set = NULL;
    vv_box_row rows[2];
    vv_status status = VV_ENOMEM;
    write_set(dir);
    const int64_t live = vv_memory_live_count();
    for (uint64_t nth = 1; !set; nth++) {
        vv_memory_fail_at(nth);
        status = open_set(&set, dir, "train", 2);
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || (status == VV_ENOMEM && !set));
        if (!set)
            assert_int_equal(vv_memory_live_count(), live);
    }
    const int64_t open = vv_memory_live_count();
    for (uint64_t nth = 1; status != VV_OK || nth == 1; nth++) {
        vv_augment_call call = {.rng = vv_rng_at(1, "t", 0)};
        vv_memory_fail_at(nth);
        status = set->type->draw(set, &call, image, rows);
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || status == VV_ENOMEM);
        assert_int_equal(vv_memory_live_count(), open);
    }
    vv_dataset_free(set);
    assert_int_equal(vv_memory_live_count(), live);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest without[] = {cmocka_unit_test(damaged_files_are_told)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files_are_told),
        cmocka_unit_test(reads_what_the_file_says),
        cmocka_unit_test(draws_keep_boxes_on_their_pixels),
        cmocka_unit_test(workers_cannot_be_seen),
        cmocka_unit_test(wrong_images_are_told),
        cmocka_unit_test(memory_may_end),
    };
    /* All but the first write JPEG files. */
    if (!vv_image_format_available(VV_IMAGE_JPEG))
        return cmocka_run_group_tests_name("without JPEG", without, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
