/* frontier_json.c - the frontier of a data set and model as JSON, of single runs or by group. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "explorer/api.h"
#include "runs/store.h"

typedef struct question {
    const char *dataset, *model, *metric, *status; /* NULL = all */
    bool cost, best, grouped, higher_is_better;
} question;

typedef struct point { /* of one run, or the means of several */
    const vv_run_light *run;
    vv_interval x, quality;
} point;

static vv_status read_question(question *q, const vvi_target *target)
{
    const char *x = vvi_target_get(target, "x"), *value = vvi_target_get(target, "value");
    const char *group = vvi_target_get(target, "group");
    const char *metric = vvi_target_get(target, "metric");
    const char *status = vvi_target_get(target, "status");
    *q = (question){.dataset = vvi_target_get(target, "dataset"),
                    .model = vvi_target_get(target, "model"),
                    .metric = metric ? metric : "eval/accuracy",
                    .status = status ? status : "done",
                    .cost = x && strcmp(x, "cost") == 0,
                    .best = value && strcmp(value, "best") == 0,
                    .grouped = group && strcmp(group, "1") == 0,
                    .higher_is_better = true};
    if (x && !q->cost && strcmp(x, "time") != 0)
        return vv_fail(VV_EINVAL, "x=%.40s: x is time or cost", x);
    if (value && !q->best && strcmp(value, "final") != 0)
        return vv_fail(VV_EINVAL, "value=%.40s: value is final or best", value);
    if (group && !q->grouped && strcmp(group, "0") != 0)
        return vv_fail(VV_EINVAL, "group=%.40s: group is 0 or 1", group);
    if (strcmp(q->status, "any") == 0)
        q->status = NULL;
    return VV_OK;
}

static bool same(const char *wanted, const char *text)
{
    return !wanted || strcmp(wanted, text) == 0;
}

/* False: the run is no dot of this plot. */
static bool dot_of(const question *q, const vv_run_light *run, vv_dot *dot)
{
    const vv_run_metric *m = vv_run_light_metric(run, q->metric);
    if (!m || !same(q->dataset, run->row.dataset) || !same(q->model, run->row.model) ||
        !same(q->status, run->row.status))
        return false;
    dot->x = q->cost ? run->row.usd : run->row.train_seconds;
    dot->quality = q->best ? m->best : m->final;
    return isfinite(dot->x) && dot->x >= 0.0 && isfinite(dot->quality);
}

static int by_group(const void *a, const void *b)
{
    const vv_run_light *x = ((const point *)a)->run, *y = ((const point *)b)->run;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return strcmp(x->row.id, y->row.id);
}

/* Points of one configuration become one, which keeps the first run; scratch has room for two
   numbers a point. */
static int merge_groups(point *points, int count, double *scratch)
{
    int merged = 0;
    if (count > 1)
        qsort(points, (size_t)count, sizeof *points, by_group);
    for (int i = 0, end; i < count; i = end) {
        const uint64_t group = points[i].run->group;
        for (end = i; end < count && points[end].run->group == group; end++) {
            scratch[end - i] = points[end].x.mean;
            scratch[count + end - i] = points[end].quality.mean;
        }
        points[merged++] = (point){points[i].run, vv_interval_of(scratch, end - i),
                                   vv_interval_of(scratch + count, end - i)};
    }
    return merged;
}

static void add_number(vv_str *out, const char *key, double value)
{
    vv_str_addf(out, ",\"%s\":", key);
    vvi_json_real(out, value);
}

static void add_point(vv_str *out, const question *q, const point *p, bool frontier)
{
    vv_str_add(out, "{\"id\":");
    vv_str_add_json(out, p->run->row.id);
    if (q->grouped) {
        vv_str_addf(out, ",\"group\":\"%016" PRIx64 "\",\"count\":%d", p->run->group, p->x.count);
        add_number(out, "x_low", p->x.low);
        add_number(out, "x_high", p->x.high);
        add_number(out, "quality_low", p->quality.low);
        add_number(out, "quality_high", p->quality.high);
    }
    add_number(out, "x", p->x.mean);
    add_number(out, "quality", p->quality.mean);
    vv_str_add(out, frontier ? ",\"frontier\":true}" : ",\"frontier\":false}");
}

static vv_status add_answer(vv_str *out, const question *q, const point *points, vv_dot *dots,
                            int count)
{
    double a, b;
    for (int i = 0; i < count; i++)
        dots[i] = (vv_dot){points[i].x.mean, points[i].quality.mean, false};
    VV_TRY(vv_frontier_mark(dots, count, q->higher_is_better));
    vv_str_addf(out, "{\"x\":\"%s\",\"metric\":", q->cost ? "cost" : "time");
    vv_str_add_json(out, q->metric);
    vv_str_addf(out, ",\"higher_is_better\":%s,\"points\":[",
                q->higher_is_better ? "true" : "false");
    for (int i = 0; i < count; i++) {
        vv_str_add(out, i ? "," : "");
        add_point(out, q, &points[i], dots[i].frontier);
    }
    vv_str_add(out, "],\"fit\":");
    if (vv_frontier_fit(dots, count, &a, &b)) {
        vv_str_add(out, "{\"a\":");
        vvi_json_real(out, a);
        add_number(out, "b", b);
        vv_str_add(out, "}}");
    } else {
        vv_str_add(out, "null}");
    }
    return vv_str_status(out);
}

vv_status vvi_frontier_answer(vvi_api *api, const vvi_target *target, vv_str *out)
{
    const int runs = vv_run_table_count(api->table);
    question q;
    point *points = NULL;
    vv_dot *dots = NULL;
    double *scratch = NULL;
    int count = 0;
    vv_status status;
    VV_GO(read_question(&q, target));
    VV_GO(vv_alloc_array(&points, (size_t)runs, sizeof *points));
    VV_GO(vv_alloc_array(&dots, (size_t)runs, sizeof *dots));
    VV_GO(vv_alloc_array(&scratch, (size_t)runs, 2 * sizeof *scratch));
    for (int i = 0; i < runs; i++) {
        const vv_run_light *run = vv_run_table_at(api->table, i);
        vv_dot dot;
        if (!dot_of(&q, run, &dot))
            continue;
        q.higher_is_better = vv_run_light_metric(run, q.metric)->higher_is_better;
        points[count++] = (point){run, vv_interval_of(&dot.x, 1), vv_interval_of(&dot.quality, 1)};
    }
    if (q.grouped)
        count = merge_groups(points, count, scratch);
    VV_GO(add_answer(out, &q, points, dots, count));
out:
    vv_dealloc(points);
    vv_dealloc(dots);
    vv_dealloc(scratch);
    return status;
}
