/* estimate.c - how long a run will still take (spec: trainer.md 13, RuntimeEstimator). */
#include <math.h>

#include "trainer_impl.h"

double vvi_estimate(const vvi_estimator *e, double seconds, double progress, const int64_t *left,
                    const double *mean, int count)
{
    double done = progress - e->start_progress, evaluations = 0.0;
    for (int i = 0; i < count; i++)
        if (left[i] > 0 && !isnan(mean[i])) /* one that was never timed counts nothing */
            evaluations += (double)left[i] * mean[i];
    if (progress >= 1.0)
        return evaluations;
    if (!e->started || !(done > 0.0))
        return (double)NAN;
    return (seconds - e->start_seconds) / done * (1.0 - progress) + evaluations;
}

double vvi_eval_mean(const vvi_eval_times *times)
{
    if (times->runs == 0)
        return (double)NAN;
    if (times->runs == 1)
        return times->first;
    return (times->sum - times->first) / (double)(times->runs - 1);
}

/* Share of the run's work that is done: of its samples where batches change in size. */
static double work_done(const vv_trainer *t)
{
    const vv_state *s = &t->state;
    if (t->stage_count == 0)
        return s->progress;
    return fmin(1.0, (double)s->time.sample /
                         (double)vvi_stages_samples(t, s->axis.total_batches));
}

void vvi_estimate_batch(vv_trainer *t)
{
    vvi_estimator *e = &t->estimator;
    if (e->started)
        return;
    e->started = true;
    e->start_seconds = t->state.time.total_seconds;
    e->start_progress = work_done(t);
    for (int i = 0; i < t->evaluator_count; i++) {
        vvi_eval_times *times = &t->evaluators[i].times;
        times->expected = times->runs + vvi_points_after(t, &t->evaluators[i].interval,
                                                         t->state.time.batch - 1);
    }
}

double vv_state_remaining_seconds(const vv_state *state)
{
    enum { MOST = 64 };
    const vv_trainer *t = state->trainer;
    int64_t left[MOST];
    double mean[MOST];
    int count = t->evaluator_count < MOST ? t->evaluator_count : MOST;
    for (int i = 0; i < count; i++) {
        const vvi_eval_times *times = &t->evaluators[i].times;
        left[i] = times->expected - times->runs;
        mean[i] = vvi_eval_mean(times);
    }
    return vvi_estimate(&t->estimator, state->time.total_seconds, work_done(t), left, mean, count);
}
