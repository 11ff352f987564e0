/* test_box_augment.c - what must hold of images that carry boxes: a box lies where its pixels lie,
 * whatever part was taken and whether it was mirrored; parts are of the sizes and ratios promised,
 * inside the image, and hold a box's centre; boxes are cut at the border, and what is left of small
 * ones goes; all choices come, and the same draws give the same. */
#include "vv_test.h"

#include <vivace/box_augment.h>

enum { SIDE = 120, OUT = 90 };

/* Grey, with one red rectangle. */
static void draw(uint8_t *image, const int edge[4])
{
    memset(image, 90, (size_t)SIDE * SIDE * 3);
    for (int y = edge[1]; y < edge[3]; y++)
        for (int x = edge[0]; x < edge[2]; x++)
            memcpy(image + (y * SIDE + x) * 3, (const uint8_t[]){250, 20, 20}, 3);
}

/* Bounds of what is more red than half, in shares; false if there is none. */
static bool bounds(const uint8_t *image, float box[4])
{
    int x0 = OUT, y0 = OUT, x1 = 0, y1 = 0;
    for (int y = 0; y < OUT; y++)
        for (int x = 0; x < OUT; x++)
            if (image[(y * OUT + x) * 3] - image[(y * OUT + x) * 3 + 1] > 115) {
                x0 = x < x0 ? x : x0;
                y0 = y < y0 ? y : y0;
                x1 = x >= x1 ? x + 1 : x1;
                y1 = y >= y1 ? y + 1 : y1;
            }
    box[0] = (float)x0 / OUT;
    box[1] = (float)y0 / OUT;
    box[2] = (float)x1 / OUT;
    box[3] = (float)y1 / OUT;
    return x1 > x0;
}

static void boxes_follow_pixels(void **state)
{
    (void)state;
    static uint8_t image[SIDE * SIDE * 3], out[OUT * OUT * 3], scratch[OUT * OUT * 3];
    const vv_image_shape in_shape = {SIDE, SIDE, 3}, out_shape = {OUT, OUT, 3};
    const vv_box_augment opts = {true, true, 1.0 / OUT, {0, 0, 0, 0}};
    int flips = 0, whole = 0, kept = 0;
    for (int i = 0; i < 600; i++) {
        vv_rng rng = vv_rng_at(4, "boxes", (uint64_t)i);
        const int x = (int)vv_rng_below(&rng, 90), y = (int)vv_rng_below(&rng, 90);
        const int w = 12 + (int)vv_rng_below(&rng, SIDE - x - 12);
        const int h = 12 + (int)vv_rng_below(&rng, SIDE - y - 12);
        vv_box_row row[1] = {{(float)x / SIDE, (float)y / SIDE, (float)(x + w) / SIDE,
                              (float)(y + h) / SIDE, 3, 0}};
        double part[4];
        float seen[4];
        bool flip;
        draw(image, (const int[]){x, y, x + w, y + h});
        const int64_t count = vv_boxes_augment(row, 1, &opts, &rng, part, &flip);
        whole += part[2] - part[0] == 1.0;
        flips += flip;
        assert_true(part[0] >= 0.0 && part[1] >= 0.0 && part[2] <= 1.0 && part[3] <= 1.0);
        for (int k = 0; k < 4; k++)
            part[k] *= SIDE;
        assert_ok(
            vv_image_resample(&out_shape, out, &in_shape, image, part, VV_IMAGE_BILINEAR));
        vv_boxes_finish(&out_shape, out, scratch, &opts, flip, &rng);
        assert_int_equal(count, 1); /* a part holds the only box's centre */
        kept++;
        assert_true(bounds(out, seen));
        for (int k = 0; k < 4; k++)
            if (!(fabsf(seen[k] - row[0][k]) <= 1.01f / OUT))
                fail_msg("draw %d: edge %d of the pixels is %g, of the box %g", i, k,
                         (double)seen[k], (double)row[0][k]);
        assert_true(row[0][4] == 3.0f);
    }
    assert_int_equal(kept, 600);
    assert_in_range(flips, 240, 360);
    assert_in_range(whole, 60, 400);
}

static double iou(const float *box, const double *part)
{
    const double w = fmin((double)box[2], part[2]) - fmax((double)box[0], part[0]);
    const double h = fmin((double)box[3], part[3]) - fmax((double)box[1], part[1]);
    const double own = ((double)box[2] - (double)box[0]) * ((double)box[3] - (double)box[1]);
    return w > 0 && h > 0 ? w * h / (own + (part[2] - part[0]) * (part[3] - part[1]) - w * h) : 0;
}

static void parts_are_as_promised(void **state)
{
    (void)state;
    const vv_box_row rows[2] = {{0.1f, 0.1f, 0.5f, 0.6f, 1, 0}, {0.7f, 0.8f, 0.8f, 0.95f, 2, 0}};
    int loose = 0, tight = 0, parts = 0;
    for (int i = 0; i < 4000; i++) {
        vv_rng rng = vv_rng_at(5, "parts", (uint64_t)i), again = rng;
        double part[4], same[4];
        vv_boxes_random_crop(part, &rng, rows, 2);
        vv_boxes_random_crop(same, &again, rows, 2);
        assert_memory_equal(part, same, sizeof part);
        const double w = part[2] - part[0], h = part[3] - part[1];
        if (w == 1.0 && h == 1.0)
            continue;
        bool centre = false;
        double most = 0;
        for (int k = 0; k < 2; k++) {
            const double x = 0.5 * ((double)rows[k][0] + (double)rows[k][2]);
            const double y = 0.5 * ((double)rows[k][1] + (double)rows[k][3]);
            centre = centre || (x > part[0] && x < part[2] && y > part[1] && y < part[3]);
            most = fmax(most, iou(rows[k], part));
        }
        assert_true(centre);
        assert_true(w >= 0.3 - 1e-9 && h >= 0.3 - 1e-9 && w <= 2.0001 * h && h <= 2.0001 * w);
        parts++;
        loose += most < 0.3;
        tight += most > 0.5;
    }
    assert_in_range(parts, 2000, 3600); /* the whole comes by itself once in seven tries */
    assert_true(loose > 50 && tight > 20);
    /* Without boxes nothing can be held. */
    vv_rng rng = vv_rng_at(5, "parts", 0);
    double part[4];
    vv_boxes_random_crop(part, &rng, rows, 0);
    assert_near(part[2] - part[0], 1.0, 0, 0);
}

static void boxes_are_cut_and_dropped(void **state)
{
    (void)state;
    vv_box_row rows[5] = {
        {0.0f, 0.0f, 0.4f, 0.4f, 1, 0},   /* centre outside */
        {0.2f, 0.3f, 0.6f, 0.7f, 2, 0},   /* cut */
        {0.6f, 0.6f, 0.601f, 0.7f, 3, 0}, /* a sliver */
        {0.5f, 0.5f, 0.6f, 0.6f, 4, 1},   /* whole */
    };
    const double crop[4] = {0.25, 0.25, 0.75, 0.75};
    assert_int_equal(vv_boxes_crop(rows, 4, crop, 0.01), 2);
    const float cut[6] = {0.0f, 0.1f, 0.7f, 0.9f, 2, 0}, inner[6] = {0.5f, 0.5f, 0.7f, 0.7f, 4, 1};
    for (int k = 0; k < 6; k++) {
        assert_near((double)rows[0][k], (double)cut[k], 1e-6, 0);
        assert_near((double)rows[1][k], (double)inner[k], 1e-6, 0);
    }
    vv_boxes_flip(rows, 2);
    assert_near((double)rows[0][0], 0.3, 1e-6, 0);
    assert_near((double)rows[0][2], 1.0, 1e-6, 0);
    vv_boxes_pad(rows, 2, 5);
    for (int i = 2; i < 5; i++)
        assert_true(rows[i][4] == -1.0f && rows[i][0] == 0.0f && rows[i][5] == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_follow_pixels),
        cmocka_unit_test(parts_are_as_promised),
        cmocka_unit_test(boxes_are_cut_and_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
