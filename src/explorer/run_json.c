/* run_json.c - a run as JSON, light for lists and whole for its card. */
#include <inttypes.h>
#include <string.h>

#include <vivace/memory.h>

#include "explorer/api.h"
#include "runs/run_table.h"

/* Columns that a list does without: long, or nobody's business beyond this machine. */
static bool in_lists(const char *name)
{
    static const char *const left_out[] = {"recipe", "command", "host", "pid", "run_dir"};
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        if (strcmp(name, left_out[i]) == 0)
            return false;
    return true;
}

static void add_words(vv_str *out, const char *key, char *const *words, int count)
{
    vv_str_addf(out, ",\"%s\":[", key);
    for (int i = 0; i < count; i++) {
        vv_str_add(out, i ? "," : "");
        vv_str_add_json(out, words[i]);
    }
    vv_str_add(out, "]");
}

/* All but the closing brace. */
static void open_run(vv_str *out, const vv_run_light *run)
{
    vv_str_add(out, "{");
    for (int i = 0; i < vvi_run_column_count; i++)
        if (in_lists(vvi_run_columns[i].name))
            vvi_json_column(out, &run->row, i);
    add_words(out, "methods", run->methods, run->method_count);
    add_words(out, "tags", run->tags, run->tag_count);
    vv_str_add(out, ",\"metrics\":{");
    for (int i = 0; i < run->metric_count; i++) {
        const vv_run_metric *m = &run->metrics[i];
        vv_str_add(out, i ? "," : "");
        vv_str_add_json(out, m->name);
        vv_str_add(out, ":{\"final\":");
        vvi_json_real(out, m->final);
        vv_str_add(out, ",\"best\":");
        vvi_json_real(out, m->best);
        vv_str_add(out, ",\"higher_is_better\":");
        vv_str_add(out, m->higher_is_better ? "true}" : "false}");
    }
    vv_str_addf(out, "},\"group\":\"%016" PRIx64 "\",\"base\":\"%016" PRIx64 "\"", run->group,
                run->base);
}

/* Made once per change of the run: with thousands of them that is what takes time. */
void vvi_add_run(vvi_api *api, int i, vv_str *out)
{
    vv_str *kept = vvi_table_kept(api->table, i);
    if (!kept->length) {
        open_run(kept, vv_run_table_at(api->table, i));
        vv_str_add(kept, "}");
    }
    if (out->status == VV_OK)
        out->status = vv_str_status(kept);
    vv_str_addn(out, kept->text, kept->length);
    if (vv_str_status(kept) != VV_OK)
        vv_str_clear(kept);
}

static bool add_long_texts(void *ctx, const vv_run_row *row)
{
    vv_str *out = ctx;
    vv_str_add(out, ",\"recipe\":");
    vv_str_add_json(out, row->recipe);
    vv_str_add(out, ",\"command\":");
    vv_str_add_json(out, row->command);
    return true;
}

vv_status vvi_run_detail(vvi_api *api, const vv_run_light *run, vv_str *out)
{
    const char *id = run->row.id;
    open_run(out, run);
    VV_TRY(vv_run_store_get(api->store, id, add_long_texts, out));
    vv_str_add(out, ",\"settings\":");
    VV_TRY(vvi_json_settings(api->store, id, out));
    vv_str_add(out, ",\"method_settings\":");
    VV_TRY(vvi_json_methods(api->store, id, out));
    vv_str_add(out, ",\"evals\":");
    VV_TRY(vvi_json_evals(api->store, id, out));
    vv_str_add(out, ",\"points\":");
    VV_TRY(vvi_json_points(api->store, id, out));
    vv_str_add(out, "}");
    return vv_str_status(out);
}
