/* fuzz_coco.c - COCO's annotation files: any bytes give boxes inside their images, or a
 * sentence. */
#include <stdlib.h>

#include "datasets/coco/coco_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    vvi_coco_set set;
    vv_error_clear();
    if (vvi_coco_parse(&set, "fuzz", data, bytes) != VV_OK) {
        if (!vv_error()[0] || set.images || set.rows)
            abort();
        return 0;
    }
    int64_t rows = 0;
    for (int64_t i = 0; i < set.image_count; i++) {
        if (set.images[i].first != rows || !set.images[i].file)
            abort();
        rows += set.images[i].count;
    }
    if (rows != set.row_count)
        abort();
    for (int64_t i = 0; i < rows; i++) {
        const float *r = set.rows[i];
        if (!(r[0] >= 0.0f && r[0] < r[2] && r[2] <= 1.0f && r[1] >= 0.0f && r[1] < r[3] &&
              r[3] <= 1.0f && r[4] >= 1.0f && r[4] <= (float)set.category_count))
            abort();
    }
    vvi_coco_fini(&set);
    return 0;
}
