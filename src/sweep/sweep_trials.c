/* sweep_trials.c - configurations and the trainings that each is. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/crc32.h"
#include "sweep/sweep_impl.h"

/* ---- trials ---- */

static vv_status add_trial(vv_sweep *s, const int *choice, int rung, const char *seed)
{
    VV_TRY(vv_realloc_array(&s->trials, (size_t)s->trial_count + 1, sizeof *s->trials));
    vvi_trial *t = &s->trials[s->trial_count];
    char text[64];
    vvi_crc32 sum;
    *t = (vvi_trial){.quality = (double)NAN, .train_seconds = (double)NAN, .usd = (double)NAN};
    s->trial_count++;
    for (int i = 0; i < s->fixed_count; i++)
        VV_TRY(vvi_append_text(&t->overrides, &t->override_count, s->fixed[i]));
    for (int i = 0; i < s->factor_count; i++)
        for (char **o = s->factors[i].options[choice[i]]; *o; o++)
            VV_TRY(vvi_append_text(&t->overrides, &t->override_count, *o));
    if (s->strategy == VVI_SWEEP_HALVING) {
        snprintf(text, sizeof text, "scale_schedule_ratio=%.9g", s->ratios[rung]);
        VV_TRY(vvi_append_text(&t->overrides, &t->override_count, text));
    }
    if (seed) {
        snprintf(text, sizeof text, "seed=%s", seed);
        VV_TRY(vvi_append_text(&t->overrides, &t->override_count, text));
    }
    /* Named by its settings alone: a sweep that grows, or shares its folder, meets no wrong run. */
    vvi_crc32_init(&sum);
    vvi_crc32_add(&sum, s->recipe, strlen(s->recipe) + 1);
    for (int i = 0; i < t->override_count; i++)
        vvi_crc32_add(&sum, t->overrides[i], strlen(t->overrides[i]) + 1);
    snprintf(text, sizeof text, "%.40s-%08x", s->name, (unsigned)vvi_crc32_value(&sum));
    return vv_strdup(&t->name, text);
}

vv_status vvi_sweep_add(vv_sweep *s, const int *choice, int rung)
{
    const size_t count = (size_t)s->factor_count;
    VV_TRY(vv_realloc_array(&s->configs, (size_t)s->config_count + 1, sizeof *s->configs));
    vvi_config *c = &s->configs[s->config_count];
    *c = (vvi_config){.rung = rung, .trial = s->trial_count};
    VV_TRY(vv_alloc_array(&c->choice, count + 1, sizeof *c->choice));
    s->config_count++;
    memcpy(c->choice, choice, count * sizeof *choice);
    if (s->seed_count == 0)
        return add_trial(s, choice, rung, NULL);
    for (int i = 0; i < s->seed_count; i++)
        VV_TRY(add_trial(s, choice, rung, s->seeds[i]));
    return VV_OK;
}

const char *vv_sweep_name(const vv_sweep *s)
{
    return s->name;
}

int vv_sweep_known(const vv_sweep *s)
{
    return s->trial_count;
}

int vv_sweep_total(const vv_sweep *s)
{
    return vvi_sweep_config_total(s) * (s->seed_count ? s->seed_count : 1);
}

vv_trial vv_sweep_trial(const vv_sweep *s, int i)
{
    const vvi_trial *t = &s->trials[i];
    return (vv_trial){i,
                      t->name,
                      (const char *const *)t->overrides,
                      t->override_count,
                      t->status,
                      t->quality,
                      t->train_seconds,
                      t->usd};
}

void vv_sweep_interrupt(vv_sweep *s)
{
    atomic_store(&s->interrupted, 1);
}
