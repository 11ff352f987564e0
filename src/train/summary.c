/* summary.c - summary.json: what the run is and how it went, rewritten whole while it runs. */
#include <math.h>

#include "base/file.h"
#include "trainer_impl.h"
#include "src/train/vvi_commit.h" /* generated */
#include "vvi_config.h"

const char *vvi_precision_name(vv_precision precision)
{
    switch (precision) {
    case VV_PRECISION_FP32:
        return "fp32";
    case VV_PRECISION_AMP_BF16:
        return "amp_bf16";
    case VV_PRECISION_BF16:
        return "bf16";
    default:
        return "auto";
    }
}

double vvi_wall_seconds(const vv_trainer *t)
{
    return t->wall_before + (t->fitting ? vv_clock() - t->wall_start : 0.0);
}

static const char *status_name(vvi_run_status status)
{
    static const char *const names[] = {"running", "done", "interrupted", "failed"};
    return names[status];
}

static void add_number(vv_str *out, const char *key, double value)
{
    vv_str_addf(out, ",\n  \"%s\": ", key);
    vvi_json_number(out, value);
}

static void add_text(vv_str *out, const char *key, const char *text)
{
    vv_str_addf(out, ",\n  \"%s\": ", key);
    vv_str_add_json(out, text ? text : "");
}

/* {"eval": {"accuracy": 0.9, ...}, ...}; `best` gives the value with the batch it was reached
   at. */
static void add_metrics(vv_str *out, const vv_trainer *t, bool best)
{
    vv_str_addf(out, ",\n  \"%s\": {", best ? "best" : "metrics");
    for (int i = 0; i < t->evaluator_count; i++) {
        const vvi_evaluator *e = &t->evaluators[i];
        vv_str_add(out, i ? ", " : "");
        vv_str_add_json(out, e->label);
        vv_str_add(out, ": {");
        for (int j = 0, n = 0; j < e->metric_count; j++) {
            const vvi_metric *m = &e->metrics[j];
            if (!m->valid)
                continue;
            vv_str_addf(out, "%s\"%s\": ", n++ ? ", " : "", m->name);
            if (best)
                vv_str_add(out, "{\"value\": ");
            vvi_json_number(out, best ? m->best : m->value);
            if (best)
                vv_str_addf(out, ", \"batch\": %lld}", (long long)m->best_batch);
        }
        vv_str_add(out, "}");
    }
    vv_str_add(out, "}");
}

vv_status vv_trainer_summary(vv_trainer *t, vv_str *out)
{
    const vv_state *s = &t->state;
    double seconds = s->time.total_seconds;
    vv_str_addf(out, "{\n  \"status\": \"%s\"", status_name(t->run_status));
    vv_str_addf(out, ",\n  \"epochs\": %lld", (long long)s->time.epoch);
    vv_str_addf(out, ",\n  \"batches\": %lld", (long long)s->time.batch);
    vv_str_addf(out, ",\n  \"samples\": %lld", (long long)s->time.sample);
    add_number(out, "train_seconds", seconds);
    add_number(out, "eval_seconds", t->eval_seconds);
    add_number(out, "wall_seconds", vvi_wall_seconds(t));
    if (s->usd_per_hour > 0.0)
        add_number(out, "usd", seconds / 3600.0 * s->usd_per_hour);
    add_number(out, "usd_per_hour", s->usd_per_hour > 0.0 ? s->usd_per_hour : (double)NAN);
    add_text(out, "hardware", t->hardware);
    add_text(out, "price_note", t->price_note);
    add_number(out, "samples_per_second", seconds > 0.0 ? (double)s->time.sample / seconds : 0.0);
    if (s->time.token > 0) {
        vv_str_addf(out, ",\n  \"tokens\": %lld", (long long)s->time.token);
        add_number(out, "tokens_per_second",
                   seconds > 0.0 ? (double)s->time.token / seconds : 0.0);
    }
    add_metrics(out, t, false);
    add_metrics(out, t, true);
    add_text(out, "precision", vvi_precision_name(s->precision));
    vv_str_addf(out, ",\n  \"threads\": %d", vv_threads());
    vv_str_addf(out, ",\n  \"seed\": %llu", (unsigned long long)s->seed);
    vv_str_addf(out, ",\n  \"peak_memory_bytes\": %zu", vv_memory_peak_bytes());
    add_text(out, "recipe", t->recipe_text);
    add_text(out, "version", VVI_VERSION);
    add_text(out, "commit", VVI_COMMIT);
    add_text(out, "command", t->command);
    vv_str_add(out, "\n}\n");
    return vv_str_status(out);
}

vv_status vvi_summary_write(vv_trainer *t, vvi_run_status run_status)
{
    t->run_status = run_status;
    if (!t->run_dir || !t->fitting)
        return VV_OK;
    vv_str text = {0};
    char *path = NULL;
    vv_status status = VV_OK;
    VV_GO(vv_trainer_summary(t, &text));
    VV_GO(vvi_path_join(&path, t->run_dir, "summary.json"));
    VV_GO(vvi_file_write_atomic(path, vv_str_text(&text), text.length));
out:
    vv_dealloc(path);
    vv_str_fini(&text);
    return status;
}
