/* boxes.c - overlap of boxes, offsets from default boxes, and which default box stands for what. */
#include <vivace/detection.h>

#include <math.h>

#include <vivace/memory.h>

/* Liu et al., arXiv 1512.02325, section 2.2; the divisors are those of its code. */
#define CENTRE_UNIT 0.1
#define SIDE_UNIT 0.2
/* ln of a ratio of sides is at most ln(1000 / 16): no box grows without bound. */
#define MAX_LOG_RATIO 4.135166556742356

double vv_box_iou(const float a[4], const float b[4])
{
    const double w = fmin((double)a[2], (double)b[2]) - fmax((double)a[0], (double)b[0]);
    const double h = fmin((double)a[3], (double)b[3]) - fmax((double)a[1], (double)b[1]);
    if (!(w > 0.0 && h > 0.0))
        return 0.0;
    const double area_a = ((double)a[2] - (double)a[0]) * ((double)a[3] - (double)a[1]);
    const double area_b = ((double)b[2] - (double)b[0]) * ((double)b[3] - (double)b[1]);
    return w * h / (area_a + area_b - w * h);
}

void vv_box_encode(float out[4], const float box[4], const float prior[4])
{
    for (int i = 0; i < 2; i++) {
        const double side = (double)box[i + 2] - (double)box[i];
        const double centre = 0.5 * ((double)box[i + 2] + (double)box[i]);
        const double unit = (double)prior[i + 2];
        out[i] = (float)((centre - (double)prior[i]) / unit / CENTRE_UNIT);
        out[i + 2] = (float)(log(side / unit) / SIDE_UNIT);
    }
}

void vv_box_decode(float out[4], const float offsets[4], const float prior[4])
{
    for (int i = 0; i < 2; i++) {
        const double unit = (double)prior[i + 2];
        const double centre = (double)prior[i] + (double)offsets[i] * CENTRE_UNIT * unit;
        const double ratio = fmin((double)offsets[i + 2] * SIDE_UNIT, MAX_LOG_RATIO);
        const double side = unit * exp(ratio);
        out[i] = (float)(centre - 0.5 * side);
        out[i + 2] = (float)(centre + 0.5 * side);
    }
}

static void corners(float out[4], const float prior[4])
{
    for (int i = 0; i < 2; i++) {
        out[i] = prior[i] - 0.5f * prior[i + 2];
        out[i + 2] = prior[i] + 0.5f * prior[i + 2];
    }
}

static bool is_box(const float *row)
{
    return row[VV_TARGET_CLASS] >= 0.5f && row[VV_TARGET_CROWD] < 0.5f;
}

/* A box and the free default box it overlaps most. */
typedef struct claim {
    int64_t row, prior;
    double iou;
} claim;

static void claim_best(claim *c, const float *box, const float *priors, int64_t count,
                       const int32_t *match)
{
    c->prior = -1;
    c->iou = 0.0;
    for (int64_t i = 0; i < count; i++) {
        float edges[4];
        if (match[i] >= 0)
            continue;
        corners(edges, priors + 4 * i);
        const double iou = vv_box_iou(box, edges);
        if (iou > c->iou) {
            c->iou = iou;
            c->prior = i;
        }
    }
}

/* The largest overlap is settled first; a box whose default box is gone claims anew. */
static void settle(claim *claims, int64_t count, const float *priors, int64_t prior_count,
                   const float *target, int32_t *match)
{
    while (count > 0) {
        int64_t best = 0;
        for (int64_t i = 1; i < count; i++)
            if (claims[i].iou > claims[best].iou)
                best = i;
        claim *c = &claims[best];
        if (c->prior >= 0 && match[c->prior] >= 0) {
            claim_best(c, target + c->row * VV_TARGET_COLUMNS, priors, prior_count, match);
            continue;
        }
        if (c->prior >= 0)
            match[c->prior] = (int32_t)c->row;
        for (count--; best < count; best++) /* the order decides among equals */
            claims[best] = claims[best + 1];
    }
}

vv_status vv_boxes_match(int32_t *match, const float *priors, int64_t prior_count,
                         const float *target, int64_t rows, double overlap)
{
    claim *claims = NULL;
    int64_t boxes = 0;
    VV_TRY(vv_alloc_array(&claims, (size_t)(rows > 0 ? rows : 1), sizeof *claims));
    for (int64_t i = 0; i < prior_count; i++)
        match[i] = -1;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = target + r * VV_TARGET_COLUMNS;
        if (!is_box(row))
            continue;
        claims[boxes].row = r;
        claim_best(&claims[boxes++], row, priors, prior_count, match);
    }
    const int64_t all = boxes;
    settle(claims, boxes, priors, prior_count, target, match);
    vv_dealloc(claims);
    for (int64_t i = 0; all > 0 && i < prior_count; i++) {
        float edges[4];
        double best = overlap;
        if (match[i] >= 0)
            continue;
        corners(edges, priors + 4 * i);
        for (int64_t r = 0; r < rows; r++) {
            const float *row = target + r * VV_TARGET_COLUMNS;
            const double iou = is_box(row) ? vv_box_iou(row, edges) : 0.0;
            if (iou > best) {
                best = iou;
                match[i] = (int32_t)r;
            }
        }
    }
    return VV_OK;
}
