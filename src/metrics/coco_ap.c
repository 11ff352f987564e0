/* coco_ap.c - average precision and recall of boxes (Lin et al., arXiv 1405.0312, and the rules of
 * COCO's evaluation).
 *
 * Per image and class, found boxes take true ones in falling order of score: each the free one it
 * overlaps most, at least by the threshold. True boxes that are crowds, or whose area is outside
 * the range, are neither hit nor missed, and found boxes that take them count neither way; crowds
 * take any number. Over all images, in falling order of score, hits and false alarms then give
 * precision and recall. Found boxes of equal score stand in the order of images. */
#include "metrics/coco_ap.h"

#include <math.h>
#include <stdlib.h>

#include <vivace/memory.h>

enum { IOUS = 10, RECALLS = 101, PER_IMAGE = 100 };

/* What became of a found box at each threshold. */
typedef enum verdict { ALARM, HIT, UNCOUNTED } verdict;

typedef struct judged {
    double score;
    int64_t order; /* of equal scores */
    uint8_t verdict[IOUS];
} judged;

typedef struct judge {
    const vvi_coco_opts *opts;
    double iou[IOUS];
    int ious;
    uint8_t *taken; /* [truths] of one image and class */
    judged *list;   /* of one class */
    int64_t count, real; /* found; true boxes that count */
    double sum;     /* over classes */
    int64_t classes;
} judge;

static int by_place(const void *a, const void *b)
{
    const vvi_coco_box *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    return 0;
}

static int by_truth(const void *a, const void *b)
{
    const vvi_coco_box *x = a, *y = b;
    const int place = by_place(a, b);
    return place ? place : (x->order > y->order) - (x->order < y->order);
}

static bool outside(const judge *j, double area)
{
    return area < j->opts->area[0] || area > j->opts->area[1];
}

static double area_of(const vvi_coco_box *box)
{
    return (box->edge[2] - box->edge[0]) * (box->edge[3] - box->edge[1]);
}

/* With a crowd: the share of the found box that lies in it. */
static double overlap(const vvi_coco_box *found, const vvi_coco_box *truth)
{
    const double w = fmin(found->edge[2], truth->edge[2]) - fmax(found->edge[0], truth->edge[0]);
    const double h = fmin(found->edge[3], truth->edge[3]) - fmax(found->edge[1], truth->edge[1]);
    if (w <= 0.0 || h <= 0.0)
        return 0.0;
    const double own = area_of(found);
    return w * h / (truth->crowd ? own : own + area_of(truth) - w * h);
}

static bool is_ignored(const judge *j, const vvi_coco_box *truth)
{
    return truth->crowd || outside(j, truth->area);
}

/* The true box that found box f takes at a threshold, -1 for none: those that count first. */
static int64_t take(const judge *j, const vvi_coco_box *found, const vvi_coco_box *truth,
                    int64_t truths, double threshold)
{
    int64_t best = -1;
    for (int pass = 0; pass < 2 && best < 0; pass++) {
        double at_least = fmin(threshold, 1.0 - 1e-10);
        for (int64_t i = 0; i < truths; i++) {
            if (is_ignored(j, &truth[i]) != pass || (j->taken[i] && !truth[i].crowd))
                continue;
            const double iou = overlap(found, &truth[i]);
            if (iou >= at_least) {
                at_least = iou;
                best = i;
            }
        }
    }
    return best;
}

/* Boxes of one image and class; found are in falling order of score. */
static void judge_image(judge *j, const vvi_coco_box *truth, int64_t truths,
                        const vvi_coco_box *found, int64_t founds)
{
    founds = founds < PER_IMAGE ? founds : PER_IMAGE;
    for (int64_t i = 0; i < truths; i++)
        j->real += !is_ignored(j, &truth[i]);
    for (int t = 0; t < j->ious; t++) {
        for (int64_t i = 0; i < truths; i++)
            j->taken[i] = 0;
        for (int64_t f = 0; f < founds; f++) {
            judged *to = &j->list[j->count + f];
            const int64_t hit = take(j, &found[f], truth, truths, j->iou[t]);
            to->score = found[f].score;
            to->order = j->count + f;
            if (hit >= 0)
                j->taken[hit] = 1;
            to->verdict[t] = hit >= 0 ? is_ignored(j, &truth[hit]) ? UNCOUNTED : HIT
                             : outside(j, area_of(&found[f])) ? UNCOUNTED
                                                              : ALARM;
        }
    }
    j->count += founds < j->opts->max_dets ? founds : j->opts->max_dets;
}

static int by_judged_score(const void *a, const void *b)
{
    const judged *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

static int by_found_score(const void *a, const void *b)
{
    const vvi_coco_box *x = a, *y = b;
    const int place = by_place(a, b);
    if (place)
        return place;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Sorting may move equals; COCO's evaluation goes by their order. */
static void sort_boxes(vvi_coco_box *list, int64_t count, int (*order)(const void *, const void *))
{
    for (int64_t i = 0; i < count; i++)
        list[i].order = i;
    qsort(list, (size_t)count, sizeof *list, order);
}

/* Precision at recall 0, .01, ... 1, as the largest at that recall or a higher one; their mean. */
static double precision(const judge *j, int t, double *last_recall)
{
    double best[RECALLS] = {0.0}, hits = 0.0, alarms = 0.0, recall = 0.0, sum = 0.0;
    int reached = 0;
    for (int64_t i = 0; i < j->count; i++) {
        hits += j->list[i].verdict[t] == HIT;
        alarms += j->list[i].verdict[t] == ALARM;
        recall = hits / (double)j->real;
        const double now = hits / (hits + alarms + 2.220446049250313e-16);
        while (reached < RECALLS && recall >= (reached == RECALLS - 1 ? 1.0 : reached * 0.01))
            reached++;
        /* Every level reached so far is also reached here. */
        if (reached > 0 && now > best[reached - 1])
            best[reached - 1] = now;
    }
    for (int r = RECALLS - 1; r > 0; r--)
        best[r - 1] = fmax(best[r - 1], best[r]);
    for (int r = 0; r < RECALLS; r++)
        sum += best[r];
    *last_recall = recall;
    return sum / RECALLS;
}

static void finish_class(judge *j)
{
    double sum = 0.0;
    if (j->real == 0)
        return;
    qsort(j->list, (size_t)j->count, sizeof *j->list, by_judged_score);
    for (int t = 0; t < j->ious; t++) {
        double recall = 0.0;
        const double mean = precision(j, t, &recall);
        sum += j->opts->recall ? recall : mean;
    }
    j->sum += sum / j->ious;
    j->classes++;
}

/* End of the run of boxes of one class, or of one image too. */
static int64_t run_end(const vvi_coco_box *box, int64_t at, int64_t count, int32_t label,
                       int64_t image)
{
    while (at < count && box[at].label == label && (image < 0 || box[at].image == image))
        at++;
    return at;
}

static void judge_class(judge *j, int32_t label, const vvi_coco_box *truth, int64_t truths,
                        const vvi_coco_box *found, int64_t founds)
{
    int64_t g = 0, f = 0;
    j->count = j->real = 0;
    while (g < truths || f < founds) {
        const int64_t image = f == founds || (g < truths && truth[g].image < found[f].image)
                                  ? truth[g].image
                                  : found[f].image;
        const int64_t g_end = run_end(truth, g, truths, label, image);
        const int64_t f_end = run_end(found, f, founds, label, image);
        judge_image(j, truth + g, g_end - g, found + f, f_end - f);
        g = g_end;
        f = f_end;
    }
    finish_class(j);
}

static void set_thresholds(judge *j)
{
    j->ious = j->opts->iou > 0.0 ? 1 : IOUS;
    for (int t = 0; t < j->ious; t++)
        j->iou[t] = t * ((0.95 - 0.5) / (IOUS - 1)) + 0.5;
    if (j->ious == 1)
        j->iou[0] = j->opts->iou;
    else
        j->iou[IOUS - 1] = 0.95;
}

vv_status vvi_coco_ap(double *out, vvi_coco_box *truth, int64_t truths, vvi_coco_box *found,
                      int64_t founds, int64_t classes, const vvi_coco_opts *opts)
{
    judge j = {.opts = opts};
    vv_status status = VV_OK;
    int64_t g = 0, f = 0;
    set_thresholds(&j);
    VV_GO(vv_alloc_array(&j.taken, (size_t)truths + 1, sizeof *j.taken));
    VV_GO(vv_alloc_array(&j.list, (size_t)founds + 1, sizeof *j.list));
    sort_boxes(truth, truths, by_truth);
    sort_boxes(found, founds, by_found_score);
    for (int32_t label = 1; label < (int32_t)classes; label++) {
        while (g < truths && truth[g].label < label)
            g++;
        while (f < founds && found[f].label < label)
            f++;
        const int64_t g_end = run_end(truth, g, truths, label, -1);
        const int64_t f_end = run_end(found, f, founds, label, -1);
        judge_class(&j, label, truth + g, g_end - g, found + f, f_end - f);
        g = g_end;
        f = f_end;
    }
    *out = j.classes ? j.sum / (double)j.classes : (double)NAN;
out:
    vv_dealloc(j.taken);
    vv_dealloc(j.list);
    return status;
}
