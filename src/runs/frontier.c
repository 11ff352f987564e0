/* frontier.c - dots that no other dot beats, the curve through them, the same quality for less. */
#include <vivace/frontier.h>

#include <math.h>
#include <stdlib.h>

#include <vivace/memory.h>

static bool is_dot(const vv_dot *dot)
{
    return isfinite(dot->x) && dot->x >= 0.0 && isfinite(dot->quality);
}

static bool better(double a, double b, bool higher_is_better)
{
    return higher_is_better ? a > b : a < b;
}

static int by_x(const void *a, const void *b)
{
    const double xa = (*(vv_dot *const *)a)->x, xb = (*(vv_dot *const *)b)->x;
    return (xa > xb) - (xa < xb);
}

/* From left to right: of the dots at one x the best survive, if they beat all that came before. */
vv_status vv_frontier_mark(vv_dot *dots, int count, bool higher_is_better)
{
    vv_dot **order;
    int used = 0;
    VV_TRY(vv_alloc_array(&order, (size_t)(count > 0 ? count : 0), sizeof(vv_dot *)));
    for (int i = 0; i < count; i++) {
        dots[i].frontier = false;
        if (is_dot(&dots[i]))
            order[used++] = &dots[i];
    }
    qsort(order, (size_t)used, sizeof(vv_dot *), by_x);
    double best = higher_is_better ? (double)-INFINITY : (double)INFINITY;
    for (int i = 0, end; i < used; i = end) {
        double here = order[i]->quality;
        for (end = i; end < used && order[end]->x == order[i]->x; end++)
            if (better(order[end]->quality, here, higher_is_better))
                here = order[end]->quality;
        if (!better(here, best, higher_is_better))
            continue;
        best = here;
        for (int j = i; j < end; j++)
            order[j]->frontier = order[j]->quality == here;
    }
    vv_dealloc(order);
    return VV_OK;
}

bool vv_frontier_fit(const vv_dot *dots, int count, double *a, double *b)
{
    double n = 0.0, mean_x = 0.0, mean_y = 0.0, xx = 0.0, xy = 0.0;
    *a = *b = (double)NAN;
    for (int i = 0; i < count; i++)
        if (dots[i].frontier && dots[i].x > 0.0) {
            n++;
            mean_x += log(dots[i].x);
            mean_y += dots[i].quality;
        }
    if (n < 2.0)
        return false;
    mean_x /= n;
    mean_y /= n;
    for (int i = 0; i < count; i++)
        if (dots[i].frontier && dots[i].x > 0.0) {
            const double dx = log(dots[i].x) - mean_x;
            xx += dx * dx;
            xy += dx * (dots[i].quality - mean_y);
        }
    if (!(xx > 1e-18 * n))
        return false;
    *b = xy / xx;
    *a = mean_y - *b * mean_x;
    return true;
}

double vv_frontier_x_at(const vv_dot *dots, int count, bool higher_is_better, double quality)
{
    /* on a frontier quality grows with x: the neighbours are the first that reaches it and the last
       that does not */
    const vv_dot *below = NULL, *above = NULL;
    for (int i = 0; i < count; i++) {
        const vv_dot *dot = &dots[i];
        if (!dot->frontier)
            continue;
        if (better(quality, dot->quality, higher_is_better)) {
            if (!below || dot->x > below->x)
                below = dot;
        } else if (!above || dot->x < above->x) {
            above = dot;
        }
    }
    if (!above || isnan(quality))
        return (double)NAN;
    if (!below || above->quality == quality)
        return above->x;
    const double part = (quality - below->quality) / (above->quality - below->quality);
    if (below->x <= 0.0)
        return below->x + part * (above->x - below->x);
    return below->x * pow(above->x / below->x, part);
}

int vv_frontier_best_within(const vv_dot *dots, int count, bool higher_is_better, double most)
{
    int found = -1;
    for (int i = 0; i < count; i++)
        if (dots[i].frontier && dots[i].x <= most &&
            (found < 0 || better(dots[i].quality, dots[found].quality, higher_is_better)))
            found = i;
    return found;
}

/* ---- intervals ---- */

/* Probability that |t| of so many degrees of freedom is smaller: finite series of Abramowitz and
   Stegun, 26.7.3 and 26.7.4. */
static double t_inside(double t, int freedom)
{
    const double theta = atan(t / sqrt((double)freedom)), c = cos(theta);
    const bool odd = freedom % 2 == 1;
    double term = odd ? c : 1.0, sum = 0.0;
    for (int k = odd ? 1 : 0; k <= freedom - 2; k += 2) {
        sum += term;
        term *= c * c * (double)(k + 1) / (double)(k + 2);
    }
    return odd ? (theta + sin(theta) * sum) * 2.0 / 3.14159265358979323846 : sin(theta) * sum;
}

/* Where 95% are inside. */
static double t_95(int freedom)
{
    double low = 1.9, high = 13.0;
    if (freedom > 10000)
        return 1.959963984540054;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        if (t_inside(middle, freedom) < 0.95)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

vv_interval vv_interval_of(const double *values, int count)
{
    vv_interval out = {0, (double)NAN, (double)NAN, (double)NAN};
    double sum = 0.0, squares = 0.0;
    for (int i = 0; i < count; i++)
        if (isfinite(values[i])) {
            out.count++;
            sum += values[i];
        }
    if (out.count == 0)
        return out;
    out.mean = sum / out.count;
    for (int i = 0; i < count; i++)
        if (isfinite(values[i]))
            squares += (values[i] - out.mean) * (values[i] - out.mean);
    if (out.count > 1) {
        const double n = (double)out.count;
        const double half = t_95(out.count - 1) * sqrt(squares / (n - 1.0) / n);
        out.low = out.mean - half;
        out.high = out.mean + half;
    }
    return out;
}
