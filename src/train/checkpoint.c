/* checkpoint.c - writing a run's state. Weights lie under their PyTorch names, everything else
 * under "vivace/...", numbers of the clock in one JSON text of the file's metadata. Random numbers
 * are functions of (seed, clock), so no generator state is needed. */
#include <string.h>

#include "record.h"
#include "trainer_impl.h"
#include "vvi_config.h"

typedef struct sink {
    vv_safetensors_writer *writer;
    const char *prefix;
    vv_status status;
} sink;

static bool add_tensor(void *ctx, const char *name, vv_tensor *tensor)
{
    sink *s = ctx;
    vv_str full = {0};
    vv_str_add(&full, s->prefix);
    vv_str_add(&full, name);
    s->status = vv_str_status(&full);
    if (s->status == VV_OK)
        s->status = vv_safetensors_add(s->writer, vv_str_text(&full), tensor);
    vv_str_fini(&full);
    return s->status == VV_OK;
}

static void add_clock(vv_str *out, const char *key, const vv_timestamp *now)
{
    vv_str_addf(out,
                "\"%s\":{\"iteration\":%lld,\"epoch\":%lld,\"batch\":%lld,\"sample\":%lld,"
                "\"token\":%lld,\"epoch_in_iteration\":%lld,\"batch_in_iteration\":%lld,"
                "\"token_in_iteration\":%lld,"
                "\"batch_in_epoch\":%lld,\"sample_in_epoch\":%lld,\"token_in_epoch\":%lld",
                key, (long long)now->iteration, (long long)now->epoch, (long long)now->batch,
                (long long)now->sample, (long long)now->token, (long long)now->epoch_in_iteration,
                (long long)now->batch_in_iteration, (long long)now->token_in_iteration,
                (long long)now->batch_in_epoch,
                (long long)now->sample_in_epoch, (long long)now->token_in_epoch);
    vv_str_add(out, ",\"total_seconds\":");
    vvi_json_number(out, now->total_seconds);
    vv_str_add(out, ",\"iteration_seconds\":");
    vvi_json_number(out, now->iteration_seconds);
    vv_str_add(out, ",\"epoch_seconds\":");
    vvi_json_number(out, now->epoch_seconds);
    vv_str_add(out, ",\"batch_seconds\":");
    vvi_json_number(out, now->batch_seconds);
    vv_str_add(out, "}");
}

static void add_methods(vv_str *out, const vv_trainer *t)
{
    vv_str_add(out, ",\"methods\":[");
    for (int i = 0; i < t->method_count; i++) {
        const vv_method *m = t->methods[i];
        vv_str_addf(out, "%s{\"name\":\"%s\",\"required_on_load\":%s,\"settings\":", i ? "," : "",
                    m->type->desc.name, m->type->required_on_load ? "true" : "false");
        vv_opts_to_json(&m->type->desc, m->opts, out);
        vv_str_add(out, "}");
    }
    vv_str_add(out, "],\"callbacks\":[");
    for (int i = 0; i < t->callback_count; i++)
        vv_str_addf(out, "%s\"%s\"", i ? "," : "", t->callbacks[i]->type->desc.name);
    vv_str_add(out, "]");
}

static void add_evaluators(vv_str *out, const vv_trainer *t)
{
    vv_str_add(out, ",\"evaluators\":[");
    for (int i = 0; i < t->evaluator_count; i++) {
        const vvi_evaluator *e = &t->evaluators[i];
        vv_str_addf(out, "%s{\"label\":", i ? "," : "");
        vv_str_add_json(out, e->label);
        vv_str_addf(out, ",\"last_batch\":%lld,\"metrics\":{", (long long)e->interval.last_batch);
        for (int j = 0, n = 0; j < e->metric_count; j++) {
            const vvi_metric *m = &e->metrics[j];
            if (!m->valid)
                continue;
            vv_str_addf(out, "%s\"%s\":{\"value\":", n++ ? "," : "", m->name);
            vvi_json_number(out, m->value);
            vv_str_add(out, ",\"best\":");
            vvi_json_number(out, m->best);
            vv_str_addf(out, ",\"best_batch\":%lld}", (long long)m->best_batch);
        }
        vv_str_add(out, "}}");
    }
    vv_str_add(out, "]");
}

static bool add_frozen(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)owner;
    vv_str *out = ctx;
    if (param->frozen) {
        if (out->text[out->length - 1] != '[')
            vv_str_add(out, ",");
        vv_str_add_json(out, path);
    }
    return vv_str_status(out) == VV_OK;
}

void vvi_machine_json(const vv_trainer *t, vv_str *out)
{
    vv_str about = {0};
    vv_backend_describe(t->backend, &about);
    vv_str_addf(out, "\"version\":\"%s\",\"backend\":\"%s\",\"library\":", VVI_VERSION,
                vv_backend_name(t->backend));
    vv_str_add_json(out, vv_str_text(&about));
    static const char *const kernels[] = {"fixed rules", "timed trials", "no winograd", "winograd"};
    vv_str_addf(out, ",\"precision\":\"%s\",\"threads\":%d,\"kernels\":\"%s\"",
                vvi_precision_name(t->state.precision), vv_threads(), kernels[t->conv]);
    vv_str_fini(&about);
}

/* The sampler: order and augmentation are functions of its seed, the epoch and the position. */
static void add_data(vv_str *out, const vv_trainer *t)
{
    if (!t->train)
        return;
    vv_str_addf(out,
                ",\"data\":{\"samples\":%lld,\"batch_size\":%lld,\"batches_per_epoch\":%lld,"
                "\"seed\":\"%llu\"",
                (long long)vv_loader_dataset(t->train)->count,
                (long long)vv_loader_batch_size(t->train),
                (long long)vv_loader_batch_count(t->train),
                (unsigned long long)vv_loader_seed(t->train));
    vv_str_add(out, ",\"stages\":");
    vvi_stages_json(t, out);
    vv_str_add(out, "}");
}

/* Everything that is not a tensor. */
static vv_status state_json(vv_trainer *t, vv_str *out, bool weights_only)
{
    const vv_state *s = &t->state;
    char duration[64];
    int64_t log_bytes = -1;
    if (!weights_only)
        VV_TRY(vvi_log_sync(t, &log_bytes));
    vv_str_addf(out, "{\"format\":1,\"full\":%s,", weights_only ? "false" : "true");
    add_clock(out, "time", &s->time);
    if (t->put_off != VV_EVENT_COUNT) {
        vv_str_addf(out, ",\"put_off\":\"%s\",", vv_event_name(t->put_off));
        add_clock(out, "previous", &t->previous);
    }
    vv_str_add(out, ",\"run_name\":");
    vv_str_add_json(out, t->run_name ? t->run_name : "");
    vv_str_addf(out, ",\"seed\":\"%llu\",\"max_duration\":\"%s\",\"precision\":\"%s\"",
                (unsigned long long)s->seed,
                vv_time_text(t->max_duration, duration, sizeof duration),
                vvi_precision_name(s->precision));
    vv_str_addf(out, ",\"microbatch\":%lld", (long long)t->microbatch);
    if (t->conv == VV_CONV_AUTO) {
        vv_str trials = {0};
        vv_graph_conv_choices(t->graph, &trials);
        vv_str_add(out, ",\"conv_choices\":");
        vv_str_add_json(out, vv_str_text(&trials));
        vv_status status = vv_str_status(&trials);
        vv_str_fini(&trials);
        VV_TRY(status);
    }
    vv_str_addf(out, ",\"finished\":%s,\"stopped\":%s,\"last_save\":%lld,\"saves\":%lld",
                t->finished ? "true" : "false", t->stopped ? "true" : "false",
                (long long)t->save_every.last_batch, (long long)t->saver.saves);
    vv_str_add(out, ",\"train_loss\":");
    vvi_json_number(out, s->train_loss);
    vv_str_add(out, ",\"train_metrics\":");
    vvi_train_metrics_save(t, out);
    vv_str_add(out, ",\"eval_seconds\":");
    vvi_json_number(out, t->eval_seconds);
    vv_str_add(out, ",\"wall_seconds\":");
    vvi_json_number(out, vvi_wall_seconds(t));
    vv_str_addf(out, ",\"log_bytes\":%lld,\"log_pending\":", (long long)log_bytes);
    vv_str_add_json(out, vv_str_text(&t->pending));
    vv_str_add(out, ",\"lr\":[");
    for (int i = 0; s->optimizer && i < vv_optimizer_group_count(s->optimizer); i++) {
        vv_str_add(out, i ? "," : "");
        vvi_json_number(out, vv_optimizer_lr(s->optimizer, i));
    }
    vv_str_addf(out, "],\"optimizer\":\"%s\"",
                s->optimizer ? vv_optimizer_type(s->optimizer)->desc.name : "");
    add_methods(out, t);
    add_evaluators(out, t);
    vv_str_add(out, ",\"machine\":{");
    vvi_machine_json(t, out);
    vv_str_add(out, "}");
    add_data(out, t);
    vv_str_add(out, ",\"frozen\":[");
    VV_TRY(vv_str_status(out));
    vv_module_each_param(s->model->net, add_frozen, out);
    vv_str_add(out, "]}");
    return vv_str_status(out);
}

/* What the folder's keeper wants to know without reading more than this. */
static vv_status add_saved(const vv_trainer *t, vv_safetensors_writer *writer, bool weights_only)
{
    vv_str json = {0};
    double value;
    vv_str_addf(&json, "{\"batch\":%lld,\"epoch\":%lld,\"order\":%lld,\"full\":%s",
                (long long)t->state.time.batch, (long long)vvi_saver_facts(t).time.epoch,
                (long long)t->saver.saves, weights_only ? "false" : "true");
    if (vvi_saver_value(t, &value)) {
        const vvi_evaluator *e = &t->evaluators[t->saver.evaluator];
        vv_str name = {0};
        vv_str_addf(&name, "%s/%s", e->label, e->metrics[t->saver.metric].name);
        vv_str_add(&json, ",\"metric\":");
        vv_str_add_json(&json, vv_str_text(&name));
        vv_str_add(&json, ",\"value\":");
        vvi_json_number(&json, value);
        vv_str_fini(&name);
    }
    vv_str_add(&json, "}");
    vv_status status = vv_str_status(&json);
    if (status == VV_OK)
        status = vv_safetensors_add_text(writer, "vivace.saved", vv_str_text(&json));
    vv_str_fini(&json);
    return status;
}

static vv_status add_records(vv_trainer *t, vv_safetensors_writer *writer, vv_record **records)
{
    int n = 0;
    for (int i = 0; i < t->method_count + t->callback_count; i++) {
        vv_record *record;
        VV_TRY(vv_record_new(&record));
        records[n++] = record;
        vv_str prefix = {0};
        vv_status status = VV_OK;
        if (i < t->method_count) {
            vv_method *m = t->methods[i];
            vv_str_addf(&prefix, "vivace/method/%s/", m->type->desc.name);
            if (m->type->save)
                status = vv_fail_within(m->type->save(m, record), "method %s", m->type->desc.name);
        } else {
            vv_callback *c = t->callbacks[i - t->method_count];
            vv_str_addf(&prefix, "vivace/callback/%d/", i - t->method_count);
            if (c->type->save)
                status =
                    vv_fail_within(c->type->save(c, record), "callback %s", c->type->desc.name);
        }
        if (status == VV_OK)
            status = vv_str_status(&prefix);
        if (status == VV_OK)
            status = vvi_record_write(record, writer, vv_str_text(&prefix));
        vv_str_fini(&prefix);
        VV_TRY(status);
    }
    return VV_OK;
}

static vv_status add_texts(vv_trainer *t, vv_safetensors_writer *writer, bool weights_only)
{
    vv_str json = {0};
    vv_status status = state_json(t, &json, weights_only);
    if (status == VV_OK)
        status = vv_safetensors_add_text(writer, "vivace.state", vv_str_text(&json));
    vv_str_fini(&json);
    VV_TRY(status);
    VV_TRY(add_saved(t, writer, weights_only));
    VV_TRY(vv_safetensors_add_text(writer, "format", "pt"));
    VV_TRY(vv_safetensors_add_text(writer, "vivace.version", VVI_VERSION));
    VV_TRY(vvi_saved_input_write(t, writer));
    if (t->recipe_text)
        VV_TRY(vv_safetensors_add_text(writer, "vivace.recipe", t->recipe_text));
    return VV_OK;
}

vv_status vvi_checkpoint_write(vv_trainer *t, const char *path, bool weights_only)
{
    vv_state *s = &t->state;
    vv_status status = VV_OK;
    vv_safetensors_writer *writer = NULL;
    vv_record **records = NULL;
    int record_count = t->method_count + t->callback_count;
    bool averaged = vvi_weights_average(t, true); /* what is deployed is what was evaluated */
    VV_GO(vv_safetensors_writer_new(&writer));
    VV_GO(vv_alloc_array(&records, (size_t)record_count, sizeof *records));
    sink weights = {writer, "", VV_OK};
    vv_module_each_state(s->model->net, add_tensor, &weights);
    VV_GO(weights.status);
    if (s->optimizer && !weights_only) {
        sink state = {writer, "vivace/optimizer/", VV_OK};
        VV_GO(vv_optimizer_each_state(s->optimizer, s->model->net, add_tensor, &state));
        VV_GO(state.status);
    }
    if (!weights_only)
        VV_GO(add_records(t, writer, records));
    VV_GO(add_texts(t, writer, weights_only));
    VV_GO(vv_safetensors_write(writer, path));
out:
    for (int i = 0; records && i < record_count; i++)
        vv_record_free(records[i]);
    vv_dealloc(records);
    vv_safetensors_writer_free(writer);
    vvi_weights_average(t, averaged);
    return vv_fail_within(status, "checkpoint %s", path);
}
