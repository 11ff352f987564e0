/* sweep_report.c - the plan of a sweep with its time and cost, and the table of what came out. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/recipe.h>

#include "base/csv_cell.h"
#include "base/number.h"
#include "sweep/sweep_impl.h"

enum { TIMED = 6 }; /* trainings whose step is timed for the plan */

static const char *const status_names[] = {"waiting", "running", "done", "failed"};

/* ---- the plan ---- */

static vv_status estimate(const vv_sweep *s, int trial, double *seconds, double *usd)
{
    vv_recipe *recipe = NULL;
    vv_run *run = NULL;
    vv_str text = {0};
    json_t *plan = NULL;
    json_error_t error;
    vv_run_opts opts = VV_RUN_DEFAULTS;
    vv_status status;
    *seconds = *usd = (double)NAN;
    VV_GO(vv_recipe_load(&recipe, s->recipe, (const char *const *)s->trials[trial].overrides,
                         s->trials[trial].override_count));
    VV_GO(vv_run_new(&run, recipe, &opts));
    VV_GO(vv_trainer_time_step(vv_run_trainer(run)));
    VV_GO(vv_trainer_plan_json(vv_run_trainer(run), &text));
    plan = json_loads(vv_str_text(&text), 0, &error);
    const json_t *s_value = json_object_get(plan, "expected_seconds");
    const json_t *u_value = json_object_get(plan, "expected_usd");
    if (json_is_number(s_value))
        *seconds = json_number_value(s_value);
    if (json_is_number(u_value))
        *usd = json_number_value(u_value);
out:
    json_decref(plan);
    vv_str_fini(&text);
    vv_run_free(run);
    vv_recipe_free(recipe);
    return status;
}

/* Mean over a few, spread evenly; trainings to come are taken to be like those that are known. */
static vv_status estimate_all(vv_sweep *s, int left, double *seconds, double *usd)
{
    const int timed = s->trial_count < TIMED ? s->trial_count : TIMED;
    double seconds_sum = 0.0, usd_sum = 0.0;
    for (int i = 0; i < timed; i++) {
        double one, price;
        const int trial = timed == 1 ? 0 : (int)((int64_t)i * (s->trial_count - 1) / (timed - 1));
        VV_TRY(
            vv_fail_within(estimate(s, trial, &one, &price), "training %s", s->trials[trial].name));
        seconds_sum += one;
        usd_sum += price;
    }
    *seconds = seconds_sum / timed * left;
    *usd = usd_sum / timed * left;
    if (s->strategy == VVI_SWEEP_HALVING) { /* the rungs to come are longer */
        double parts = 0.0;
        int configs = 0;
        for (int i = 0; i < s->ratio_count; i++) {
            const int size = vvi_halving_size(s, i);
            parts += size * s->ratios[i] / s->ratios[0];
            configs += size;
        }
        *seconds *= parts / configs;
        *usd *= parts / configs;
    }
    return VV_OK;
}

static void add_number(vv_str *out, double value)
{
    char text[40];
    vv_str_add(out, isfinite(value) ? vvi_number_text(value, text, sizeof text) : "null");
}

static void add_duration(vv_str *out, double seconds)
{
    if (seconds < 10.0)
        vv_str_addf(out, "%.1f s", seconds);
    else if (seconds < 120.0)
        vv_str_addf(out, "%.0f s", seconds);
    else if (seconds < 7200.0)
        vv_str_addf(out, "%.0f min", seconds / 60.0);
    else
        vv_str_addf(out, "%.1f h", seconds / 3600.0);
}

static void add_trial_json(vv_str *out, const vvi_trial *t, int i)
{
    vv_str_add(out, i ? ",\n{\"name\":" : "\n{\"name\":");
    vv_str_add_json(out, t->name);
    vv_str_addf(out, ",\"status\":\"%s\",\"settings\":[", status_names[t->status]);
    for (int j = 0; j < t->override_count; j++) {
        vv_str_add(out, j ? "," : "");
        vv_str_add_json(out, t->overrides[j]);
    }
    vv_str_add(out, "],\"quality\":");
    add_number(out, t->quality);
    vv_str_add(out, ",\"train_seconds\":");
    add_number(out, t->train_seconds);
    vv_str_add(out, ",\"usd\":");
    add_number(out, t->usd);
    vv_str_add(out, "}");
}

static void plan_text(const vv_sweep *s, int done, int failed, double seconds, double usd,
                      vv_str *out)
{
    for (int i = 0; i < s->trial_count; i++) {
        const vvi_trial *t = &s->trials[i];
        vv_str_addf(out, "%-28s", t->name);
        for (int j = s->fixed_count; j < t->override_count; j++)
            vv_str_addf(out, " %s", t->overrides[j]);
        vv_str_add(out, t->status == VV_TRIAL_DONE     ? "  (done)\n"
                        : t->status == VV_TRIAL_FAILED ? "  (failed)\n"
                                                       : "\n");
    }
    vv_str_addf(out, "sweep %s: %d trainings", s->name, vv_sweep_total(s));
    if (vv_sweep_total(s) > s->trial_count)
        vv_str_addf(out, ", %d of them known before the first results", s->trial_count);
    if (done || failed)
        vv_str_addf(out, "; %d done, %d failed", done, failed);
    vv_str_add(out, "\nexpected: about ");
    add_duration(out, seconds / s->jobs);
    vv_str_addf(out, " of training with %d at once", s->jobs);
    if (isfinite(usd))
        vv_str_addf(out, ", %.4f USD", usd);
    vv_str_add(out, " (steps timed now; evaluation comes on top)\n");
}

vv_status vv_sweep_plan(vv_sweep *s, const char *dir, bool json, vv_str *out)
{
    int done = 0, failed = 0;
    double seconds, usd;
    for (int i = 0; i < s->trial_count; i++) {
        if (dir)
            VV_TRY(vvi_trial_read(s, i, dir));
        done += s->trials[i].status == VV_TRIAL_DONE;
        failed += s->trials[i].status == VV_TRIAL_FAILED;
    }
    VV_TRY(estimate_all(s, vv_sweep_total(s) - done - failed, &seconds, &usd));
    if (!json) {
        plan_text(s, done, failed, seconds, usd, out);
        return vv_str_status(out);
    }
    vv_str_add(out, "{\"name\":");
    vv_str_add_json(out, s->name);
    vv_str_addf(out, ",\"total\":%d,\"done\":%d,\"failed\":%d,\"jobs\":%d,\"expected_seconds\":",
                vv_sweep_total(s), done, failed, s->jobs);
    add_number(out, seconds / s->jobs);
    vv_str_add(out, ",\"expected_usd\":");
    add_number(out, usd);
    vv_str_add(out, ",\"trainings\":[");
    for (int i = 0; i < s->trial_count; i++)
        add_trial_json(out, &s->trials[i], i);
    vv_str_add(out, "\n]}\n");
    return vv_str_status(out);
}

/* ---- the table ---- */

/* What the training chose of a factor: the value, or the method's on and off with its settings. */
static void add_choice(vv_str *out, char *const *option)
{
    vv_str text = {0};
    for (; *option; option++) {
        const char *value = strchr(*option, '=') + 1;
        const char *key = *option;
        for (const char *c = *option; c < value; c++)
            if (*c == '.')
                key = c + 1;
        if (text.length)
            vv_str_addf(&text, " %s", key);
        else
            vv_str_add(&text, value);
    }
    vvi_csv_cell(out, vv_str_text(&text));
    vv_str_fini(&text);
}

static void add_cell_number(vv_str *out, double value)
{
    char text[40];
    vv_str_addf(out, ",%s", isfinite(value) ? vvi_number_text(value, text, sizeof text) : "");
}

vv_status vv_sweep_table(vv_sweep *s, const char *dir, bool json, vv_str *out)
{
    const int seeds = s->seed_count ? s->seed_count : 1;
    for (int i = 0; i < s->trial_count; i++)
        VV_TRY(vvi_trial_read(s, i, dir));
    if (json) {
        vv_str_add(out, "[");
        for (int i = 0; i < s->trial_count; i++)
            add_trial_json(out, &s->trials[i], i);
        vv_str_add(out, "\n]\n");
        return vv_str_status(out);
    }
    vv_str_add(out, "training,status");
    for (int f = 0; f < s->factor_count; f++) {
        vv_str_add(out, ",");
        vvi_csv_cell(out, s->factors[f].name);
    }
    vv_str_addf(out, ",ratio,seed,%s,train_seconds,usd\n", s->metric);
    for (int i = 0; i < s->trial_count; i++) {
        const vvi_trial *t = &s->trials[i];
        const vvi_config *c = &s->configs[i / seeds];
        vv_str_addf(out, "%s,%s", t->name, status_names[t->status]);
        for (int f = 0; f < s->factor_count; f++) {
            vv_str_add(out, ",");
            add_choice(out, s->factors[f].options[c->choice[f]]);
        }
        vv_str_add(out, ",");
        if (s->strategy == VVI_SWEEP_HALVING)
            vv_str_addf(out, "%g", s->ratios[c->rung]);
        vv_str_addf(out, ",%s", s->seed_count ? s->seeds[i % seeds] : "");
        add_cell_number(out, t->quality);
        add_cell_number(out, t->train_seconds);
        add_cell_number(out, t->usd);
        vv_str_add(out, "\n");
    }
    return vv_str_status(out);
}
