/* ssd_boxes.c - SSD's default boxes, for maps of any size.
 *
 * Scales as shares of the image: .07 for the first map, then from .15 to 1.05 in even steps; with
 * six maps these are the 21, 45, 99, ... 315 of 300 pixels that NVIDIA's and Composer's SSD300
 * have. */
#include "ssd.h"

#include <math.h>

#define FIRST_SCALE 0.07
#define SMALLEST_SCALE 0.15
#define LARGEST_SCALE 1.05

/* Scale i of `levels` maps, 0..levels. */
static double scale_at(int64_t i, int64_t levels)
{
    if (i == 0)
        return FIRST_SCALE;
    if (levels == 1)
        return SMALLEST_SCALE;
    return SMALLEST_SCALE +
           (LARGEST_SCALE - SMALLEST_SCALE) * (double)(i - 1) / (double)(levels - 1);
}

/* The first map and the last two have no boxes of ratio 3. */
static int ratios_at(int64_t level, int64_t levels)
{
    return level == 0 || level >= levels - 2 ? 1 : 2;
}

int vv_ssd_boxes_per_cell(int64_t level, int64_t levels)
{
    return 2 + 2 * ratios_at(level, levels);
}

/* Side of a cell as a share of the image. SSD300's steps are 8, 16, 32, 64, 100 and 300 pixels for
   maps of 38, 19, 10, 5, 3 and 1: strides as far as they halve maps and leave more than 3 cells,
   then equal parts. */
static double step_at(int64_t level, int64_t cells, int64_t pixels)
{
    if (level > 3 || cells <= 3)
        return 1.0 / (double)cells;
    return (double)(INT64_C(8) << level) / (double)pixels;
}

static float within(double v)
{
    return (float)fmin(fmax(v, 0.0), 1.0);
}

static float *put(float *at, double x, double y, double width, double height)
{
    at[0] = within(x);
    at[1] = within(y);
    at[2] = within(width);
    at[3] = within(height);
    return at + 4;
}

static float *put_cell(float *at, double x, double y, int64_t level, int64_t levels)
{
    const double scale = scale_at(level, levels), next = scale_at(level + 1, levels);
    const double both = sqrt(scale * next);
    at = put(at, x, y, scale, scale);
    at = put(at, x, y, both, both);
    for (int ratio = 2; ratio < 2 + ratios_at(level, levels); ratio++) {
        const double root = sqrt((double)ratio);
        at = put(at, x, y, scale * root, scale / root);
        at = put(at, x, y, scale / root, scale * root);
    }
    return at;
}

int64_t vv_ssd_boxes(float *boxes, const int64_t size[2], int64_t levels, const int64_t (*sides)[2])
{
    int64_t count = 0;
    for (int64_t l = 0; l < levels; l++) {
        const double step_y = step_at(l, sides[l][0], size[0]);
        const double step_x = step_at(l, sides[l][1], size[1]);
        count += sides[l][0] * sides[l][1] * vv_ssd_boxes_per_cell(l, levels);
        for (int64_t i = 0; boxes && i < sides[l][0]; i++)
            for (int64_t j = 0; j < sides[l][1]; j++)
                boxes = put_cell(boxes, ((double)j + 0.5) * step_x, ((double)i + 0.5) * step_y, l,
                                 levels);
    }
    return count;
}
