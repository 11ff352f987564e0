/* test_shapes.c - what must hold of shapes: images and boxes are functions of (seed, split, index);
 * a box is the bounds of the pixels its colour has; every class comes; training draws differ by
 * epoch and are the same again; loaders give boxes beside images; an allocation that fails is an
 * error. */
#include "vv_test.h"

#include "shapes.h"

enum { SIDE = 64 };

static vv_dataset *open_set(const char *settings, const char *split)
{
    vv_shapes_opts opts;
    vv_dataset *set;
    assert_ok(vv_opts_init(&vv_dataset_shapes.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_dataset_shapes.desc, &opts, settings));
    assert_ok(vv_dataset_open(&set, &vv_dataset_shapes, &opts, split));
    vv_opts_fini(&vv_dataset_shapes.desc, &opts);
    return set;
}

/* The shape's colour is that of its box's middle row's ... first pixel that occurs most: shapes are
   of one colour, so the box of the colour that touches all four edges is the box. */
static bool colour_fills(const uint8_t *image, const float *row, const uint8_t *colour)
{
    int x0 = SIDE, y0 = SIDE, x1 = 0, y1 = 0;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            if (memcmp(image + (y * SIDE + x) * 3, colour, 3) == 0) {
                x0 = x < x0 ? x : x0;
                y0 = y < y0 ? y : y0;
                x1 = x >= x1 ? x + 1 : x1;
                y1 = y >= y1 ? y + 1 : y1;
            }
    return (float)x0 / SIDE == row[0] && (float)y0 / SIDE == row[1] && (float)x1 / SIDE == row[2] &&
           (float)y1 / SIDE == row[3];
}

static void boxes_bound_their_colour(void **state)
{
    (void)state;
    static uint8_t image[SIDE * SIDE * 3];
    vv_box_row rows[VV_SHAPES_MOST];
    int seen[6] = {0}, boxes = 0;
    vv_dataset *set = open_set("size=64,classes=5,train=60", "train");
    assert_int_equal(set->spec.classes, 6);
    assert_string_equal(set->class_names[5], "cross");
    for (int64_t i = 0; i < 60; i++) {
        assert_ok(vv_dataset_read(set, i, image, rows));
        for (int k = 0; k < VV_SHAPES_MOST && rows[k][4] > 0; k++) {
            /* Some pixel of the bottom line belongs to the shape. */
            const int y = (int)lrintf(rows[k][3] * SIDE) - 1;
            bool found = false;
            for (int x = (int)lrintf(rows[k][0] * SIDE); x < rows[k][2] * SIDE && !found; x++)
                found = colour_fills(image, rows[k], image + (y * SIDE + x) * 3);
            assert_true(found);
            seen[(int)rows[k][4]]++;
            boxes++;
        }
    }
    for (int c = 1; c <= 5; c++)
        assert_true(seen[c] > 5);
    assert_in_range(boxes, 100, 240);
    vv_dataset_free(set);
}

static void draws_are_pure(void **state)
{
    (void)state;
    static uint8_t a[SIDE * SIDE * 3], b[SIDE * SIDE * 3];
    vv_box_row rows[2][VV_SHAPES_MOST];
    vv_dataset *set = open_set("size=64", "train"), *eval = open_set("size=64", "eval");
    vv_augment_call call = {.epoch = 1, .index = 7, .rng = vv_rng_at(1, "t", 7)}, same = call;
    assert_ok(set->type->draw(set, &call, a, rows[0]));
    assert_ok(set->type->draw(set, &same, b, rows[1]));
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    same.rng = vv_rng_at(1, "t", 8);
    assert_ok(set->type->draw(set, &same, b, rows[1]));
    assert_memory_not_equal(a, b, sizeof a);
    assert_null(eval->type->draw);
    assert_ok(vv_dataset_read(set, 0, a, NULL));
    assert_ok(vv_dataset_read(eval, 0, b, NULL));
    assert_memory_not_equal(a, b, sizeof a);
    assert_ok(vv_dataset_read(eval, 0, NULL, rows[1]));
    assert_int_equal(eval->count, 200);
    vv_dataset_free(set);
    vv_dataset_free(eval);
}

static void loaders_give_boxes(void **state)
{
    (void)state;
    vv_dataset *set = open_set("size=32,train=20", "train");
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_loader *loader;
    vv_batch *batch;
    opts.batch_size = 8;
    opts.transform.normalise = true;
    assert_ok(vv_loader_new(&loader, set, &opts));
    assert_ok(vv_loader_next(loader, &batch));
    assert_int_equal(batch->target->ndim, 3);
    assert_int_equal(batch->target->shape[1], VV_SHAPES_MOST);
    assert_int_equal(batch->target->shape[2], 6);
    assert_int_equal(batch->input->shape[1], 32);
    vv_batch_free(batch);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void memory_may_end(void **state)
{
    (void)state;
    static uint8_t image[SIDE * SIDE * 3];
    vv_box_row rows[VV_SHAPES_MOST];
    vv_dataset *set = NULL;
    const int64_t live = vv_memory_live_count();
    for (uint64_t nth = 1; !set; nth++) {
        vv_memory_fail_at(nth);
        const vv_status status = vv_dataset_open(&set, &vv_dataset_shapes, NULL, "train");
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || (status == VV_ENOMEM && !set));
        if (!set)
            assert_int_equal(vv_memory_live_count(), live);
    }
    vv_dataset_free(set);
    set = open_set("size=64", "train");
    vv_augment_call call = {.rng = vv_rng_at(1, "t", 0)};
    vv_memory_fail_at(1);
    assert_fails(set->type->draw(set, &call, image, rows), VV_ENOMEM);
    vv_memory_fail_at(0);
    vv_dataset_free(set);
    assert_fails(vv_dataset_open(&set, &vv_dataset_shapes, NULL, "test"), VV_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_bound_their_colour),
        cmocka_unit_test(draws_are_pure),
        cmocka_unit_test(loaders_give_boxes),
        cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
