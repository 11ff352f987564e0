/* box_augment.c - random changes of images that carry boxes. */
#include <vivace/box_augment.h>

#include <math.h>
#include <string.h>

enum { CLASS = 4, TRIES = 100 };

static double area(const double box[4])
{
    const double w = box[2] - box[0], h = box[3] - box[1];
    return w > 0.0 && h > 0.0 ? w * h : 0.0;
}

static double iou(const vv_box_row row, const double crop[4])
{
    const double own[4] = {(double)row[0], (double)row[1], (double)row[2], (double)row[3]};
    const double both[4] = {fmax(own[0], crop[0]), fmax(own[1], crop[1]), fmin(own[2], crop[2]),
                            fmin(own[3], crop[3])};
    const double shared = area(both);
    return shared > 0.0 ? shared / (area(own) + area(crop) - shared) : 0.0;
}

static bool holds_centre(const vv_box_row row, const double crop[4])
{
    const double x = 0.5 * ((double)row[0] + (double)row[2]);
    const double y = 0.5 * ((double)row[1] + (double)row[3]);
    return x > crop[0] && x < crop[2] && y > crop[1] && y < crop[3];
}

static bool is_wanted(const double crop[4], const vv_box_row *rows, int64_t count, double least)
{
    bool overlaps = false, holds = false;
    for (int64_t i = 0; i < count; i++) {
        overlaps = overlaps || iou(rows[i], crop) >= least;
        holds = holds || holds_centre(rows[i], crop);
    }
    return overlaps && holds;
}

void vv_boxes_random_crop(double crop[4], vv_rng *rng, const vv_box_row *rows, int64_t count)
{
    /* The least overlap of each choice; the first keeps the whole image, the last takes any. */
    static const double least[] = {2.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.0};
    const double whole[4] = {0.0, 0.0, 1.0, 1.0};
    for (int i = 0; i < TRIES; i++) {
        const int64_t choice = vv_rng_below(rng, (int64_t)(sizeof least / sizeof *least));
        if (choice == 0)
            break;
        const double w = vv_rng_uniform_in(rng, 0.3, 1.0), h = vv_rng_uniform_in(rng, 0.3, 1.0);
        const double x = vv_rng_uniform_in(rng, 0.0, 1.0 - w);
        const double y = vv_rng_uniform_in(rng, 0.0, 1.0 - h);
        const double part[4] = {x, y, x + w, y + h};
        if (w > 2.0 * h || h > 2.0 * w || !is_wanted(part, rows, count, least[choice]))
            continue;
        memcpy(crop, part, sizeof part);
        return;
    }
    memcpy(crop, whole, sizeof whole);
}

int64_t vv_boxes_crop(vv_box_row *rows, int64_t count, const double crop[4], double min_side)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        float moved[4];
        if (!holds_centre(rows[i], crop))
            continue;
        for (int k = 0; k < 4; k++) {
            const double side = crop[k % 2 + 2] - crop[k % 2];
            moved[k] = (float)fmin(fmax(((double)rows[i][k] - crop[k % 2]) / side, 0.0), 1.0);
        }
        if ((double)moved[2] - (double)moved[0] < min_side ||
            (double)moved[3] - (double)moved[1] < min_side || moved[0] >= moved[2] ||
            moved[1] >= moved[3])
            continue;
        memmove(rows[kept], rows[i], sizeof rows[i]);
        memcpy(rows[kept++], moved, sizeof moved);
    }
    return kept;
}

void vv_boxes_flip(vv_box_row *rows, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float left = rows[i][0];
        rows[i][0] = 1.0f - rows[i][2];
        rows[i][2] = 1.0f - left;
    }
}

void vv_boxes_pad(vv_box_row *rows, int64_t count, int64_t room)
{
    for (int64_t i = count; i < room; i++) {
        memset(rows[i], 0, sizeof rows[i]);
        rows[i][CLASS] = -1.0f;
    }
}

int64_t vv_boxes_augment(vv_box_row *rows, int64_t count, const vv_box_augment *opts, vv_rng *rng,
                         double crop[4], bool *flip)
{
    const double whole[4] = {0.0, 0.0, 1.0, 1.0};
    memcpy(crop, whole, sizeof whole);
    if (opts->crop)
        vv_boxes_random_crop(crop, rng, (const vv_box_row *)rows, count);
    *flip = opts->flip && vv_rng_uniform(rng) < 0.5;
    count = vv_boxes_crop(rows, count, crop, opts->min_side);
    if (*flip)
        vv_boxes_flip(rows, count);
    return count;
}

void vv_boxes_finish(const vv_image_shape *shape, uint8_t *image, uint8_t *scratch,
                     const vv_box_augment *opts, bool flip, vv_rng *rng)
{
    if (flip)
        vv_image_flip(shape, image);
    vv_image_color_jitter(shape, image, scratch, &opts->jitter, rng);
}
