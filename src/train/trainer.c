/* trainer.c - making and freeing a Trainer: what cannot work fails here, before step 0. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "profile.h"
#include "trainer_impl.h"

static int list_length(const void *items)
{
    void *const *list = items;
    int count = 0;
    while (list && list[count])
        count++;
    return count;
}

/* ---- taking what belongs to us from the call on ---- */

static void free_given(const vv_trainer_opts *o)
{
    vv_model_free(o->model);
    vv_optimizer_free(o->optimizer);
    for (int i = 0; i < o->methods.count; i++)
        vv_method_free(o->methods.items[i]);
    for (int i = 0; o->schedules && o->schedules[i]; i++)
        vv_schedule_free(o->schedules[i]);
    for (int i = 0; o->callbacks && o->callbacks[i]; i++)
        vv_callback_free(o->callbacks[i]);
    for (int i = 0; o->loggers && o->loggers[i]; i++)
        vv_logger_free(o->loggers[i]);
}

/* Those that are on by default and that the user did not give with settings of its own. */
static vv_status add_default_callbacks(vv_trainer *t)
{
    for (int i = 0; vvi_callback_table[i]; i++) {
        const vv_callback_desc *type = vvi_callback_table[i];
        bool given = !type->on_by_default;
        for (int j = 0; j < t->callback_count && !given; j++)
            given = strcmp(t->callbacks[j]->type->desc.name, type->desc.name) == 0;
        if (!given) {
            VV_TRY(vv_callback_new(&t->callbacks[t->callback_count], type, NULL));
            t->callback_count++;
        }
    }
    return VV_OK;
}

/* All arrays first, then everything moves at once: either all of it is ours or none. */
static vv_status take(vv_trainer *t, const vv_trainer_opts *o)
{
    int methods = o->methods.count > 0 ? o->methods.count : 0;
    int schedules = list_length(o->schedules), callbacks = list_length(o->callbacks);
    int loggers = list_length(o->loggers), defaults = list_length(vvi_callback_table);
    VV_TRY(vv_alloc_array(&t->methods, (size_t)methods, sizeof *t->methods));
    VV_TRY(vv_alloc_array(&t->method_lines, (size_t)methods, sizeof *t->method_lines));
    VV_TRY(vv_alloc_array(&t->schedules, (size_t)schedules, sizeof *t->schedules));
    VV_TRY(vv_alloc_array(&t->callbacks, (size_t)(callbacks + defaults), sizeof *t->callbacks));
    VV_TRY(vv_alloc_array(&t->loggers, (size_t)loggers, sizeof *t->loggers));
    for (int i = 0; i < methods; i++)
        t->methods[i] = o->methods.items[i];
    for (int i = 0; i < schedules; i++)
        t->schedules[i] = o->schedules[i];
    for (int i = 0; i < callbacks; i++)
        t->callbacks[i] = o->callbacks[i];
    for (int i = 0; i < loggers; i++)
        t->loggers[i] = o->loggers[i];
    t->method_count = methods;
    t->schedule_count = schedules;
    t->callback_count = callbacks;
    t->logger_count = loggers;
    t->state.model = o->model;
    t->state.optimizer = o->optimizer;
    return VV_OK;
}

/* ---- checks and parts ---- */

static vv_status check_opts(const vv_trainer *t, const vv_trainer_opts *o)
{
    if (!o->model)
        return vv_fail(VV_EINVAL, "vv_trainer_new: no model");
    for (int i = 0; i < t->method_count; i++)
        if (!t->methods[i]) { /* its constructor has said why */
            vv_status status = vv_error_code();
            return status != VV_OK && vv_error()[0]
                       ? status
                       : vv_fail(VV_EINVAL, "vv_trainer_new: method number %d is NULL", i + 1);
        }
    if (o->microbatch < VV_MICROBATCH_FASTEST_ANY || o->eval_microbatch < 0)
        return vv_fail(VV_EINVAL, "microbatch: must not be negative; 0 = the whole batch");
    if (o->memory_limit < 0)
        return vv_fail(VV_EINVAL, "memory_limit: must not be negative; 0 = what is free");
    if (!(o->grad_clip_norm >= 0.0))
        return vv_fail(VV_EINVAL, "grad_clip_norm: %g is not a norm; 0 switches clipping off",
                       o->grad_clip_norm);
    if (!(o->scale_schedule_ratio > 0.0))
        return vv_fail(VV_EINVAL, "scale_schedule_ratio: %g; must be above 0",
                       o->scale_schedule_ratio);
    if (!(o->usd_per_hour >= 0.0) || !isfinite(o->usd_per_hour))
        return vv_fail(VV_EINVAL, "usd_per_hour: %g is not a price; 0 = not known",
                       o->usd_per_hour);
    if (!(o->deadline_seconds >= 0.0))
        return vv_fail(VV_EINVAL, "deadline_seconds: %g; must not be negative, 0 = none",
                       o->deadline_seconds);
    if (o->scale_schedule_ratio != 1.0 && t->schedule_count == 0)
        return vv_fail(VV_EINVAL, "scale_schedule_ratio: there is no schedule to scale");
    bool shared = o->train && o->train == o->eval;
    for (int i = 0; i < o->eval_set_count; i++)
        shared = shared || (o->train && o->eval_sets[i].loader == o->train);
    if (shared)
        return vv_fail(VV_EINVAL, "eval: training and evaluation need a loader each");
    return VV_OK;
}

static vv_status copy_text(char **out, const char *text)
{
    return text ? vv_strdup(out, text) : VV_OK;
}

static vv_status set_evaluators(vv_trainer *t, const vv_trainer_opts *o)
{
    int sets = o->eval_sets && o->eval_set_count > 0 ? o->eval_set_count : 0;
    VV_TRY(vv_alloc_array(&t->evaluators, (size_t)sets + 1, sizeof *t->evaluators));
    for (int i = o->eval ? -1 : 0; i < sets; i++) {
        vv_eval_set set = {.label = "eval", .loader = o->eval};
        if (i >= 0)
            set = o->eval_sets[i];
        vvi_evaluator *e = &t->evaluators[t->evaluator_count++];
        VV_TRY(vvi_evaluator_init(e, &set, o->eval_interval, t->state.model));
        if (vvi_train_metrics_label(e->label))
            return vv_fail(VV_EINVAL,
                           "eval_sets: the label \"%s\" is that of training's own metrics",
                           e->label);
        for (int j = 0; j < t->evaluator_count - 1; j++)
            if (strcmp(t->evaluators[j].label, e->label) == 0)
                return vv_fail(VV_EINVAL, "eval_sets: two are labelled \"%s\"", e->label);
    }
    return VV_OK;
}

/* A precision that is to be measured is settled when the optimizer is there (sizing.c). */
static vv_status set_graph(vv_trainer *t, const vv_trainer_opts *o)
{
    vv_state *s = &t->state;
    s->precision = o->precision == VV_PRECISION_AUTO ? VV_PRECISION_FP32 : o->precision;
    t->backend = o->backend ? o->backend : vv_backend_default();
    t->conv = o->conv;
    VV_TRY(vvi_graph_make(t, s->precision, &t->graph));
    s->graph = t->graph;
    return VV_OK;
}

static vv_status ask_plans(vv_trainer *t)
{
    for (int i = 0; i < t->method_count; i++) {
        vv_method *m = t->methods[i];
        vv_dealloc(t->method_lines[i]); /* of the order before */
        t->method_lines[i] = NULL;
        if (!m->type->plan)
            continue;
        vv_str line = {0};
        vv_status status = m->type->plan(m, &t->state, &line);
        if (status == VV_OK)
            status = vv_str_status(&line);
        if (status == VV_OK)
            status = vv_strdup(&t->method_lines[i], vv_str_text(&line));
        vv_str_fini(&line);
        VV_TRY(vv_fail_within(status, "method %s", m->type->desc.name));
    }
    return VV_OK;
}

static vv_status open_loggers(vv_trainer *t)
{
    while (t->loggers_open < t->logger_count) {
        vv_logger *logger = t->loggers[t->loggers_open];
        if (logger->type->open)
            VV_TRY(vv_fail_within(logger->type->open(logger, t->run_dir, t->resumed), "logger %s",
                                  logger->type->desc.name));
        t->loggers_open++;
    }
    return VV_OK;
}

/* ---- the model and its optimizer ---- */

static vv_status check_effects(vv_trainer *t)
{
    for (int i = 0; i < t->method_count; i++) {
        const vv_method *m = t->methods[i];
        bool waived = t->allow_no_effect || m->allow_no_effect;
        if (m->surgery && m->effect == 0 && !waived)
            return vv_fail(VV_EINVAL,
                           "method %s found nothing to change in the model %s; remove it, or set "
                           "allow_no_effect to keep it anyway", m->type->desc.name,
                           t->state.model->name ? t->state.model->name : "(unnamed)");
    }
    return VV_OK;
}

/* After surgery: the optimizer holds exactly the tree's parameters. */
static vv_status set_optimizer(vv_trainer *t, const vv_trainer_opts *o)
{
    vv_state *s = &t->state;
    if (!s->optimizer) {
        if (vv_module_param_count(s->model->net) == 0)
            return VV_OK; /* fit refuses */
        const vv_optimizer_desc *desc = o->optimizer_desc;
        if (!desc)
            desc = vv_optimizer_find("decoupled_sgdw");
        VV_TRY(vv_optimizer_new(&s->optimizer, desc, o->optimizer_opts, s->model->net));
    }
    VV_TRY(vv_optimizer_sync(s->optimizer, s->model->net));
    return vv_optimizer_check(s->optimizer, s->model->net);
}


/* What methods ask of the Trainer itself. */
static vv_status configure(vv_trainer *t, vv_trainer_opts *o)
{
    for (int i = 0; i < t->method_count; i++) {
        vv_method *m = t->methods[i];
        if (m && m->type->configure)
            VV_TRY(vv_fail_within(m->type->configure(m, o), "method %s", m->type->desc.name));
    }
    return VV_OK;
}

static vv_status set_up(vv_trainer *t, const vv_trainer_opts *o)
{
    vv_status status = VV_OK;
    vvi_start start = {0};
    const vv_loader *data = o->train;
    VV_GO(check_opts(t, o));
    if (!o->no_default_callbacks)
        VV_GO(add_default_callbacks(t));
    VV_GO(vvi_engine_order(t->methods, t->method_count));
    t->state.methods = t->methods;
    t->state.method_count = t->method_count;
    VV_GO(copy_text(&t->run_name, o->run_name));
    VV_GO(copy_text(&t->recipe_text, o->recipe_text));
    VV_GO(copy_text(&t->command, o->command));
    VV_GO(copy_text(&t->hardware, o->hardware));
    VV_GO(copy_text(&t->price_note, o->price_note));
    VV_GO(set_evaluators(t, o));
    VV_GO(vvi_train_metrics_init(t, o->train_metrics));
    VV_GO(vvi_axis_resolve(t, o));
    t->save_keep = o->save_keep;
    status = vvi_interval_parse(&t->save_every, o->save_interval, true);
    VV_GO(vv_fail_within(status, "save_interval"));
    VV_GO(vvi_axis_check_intervals(t));
    if (!data && t->evaluator_count)
        data = t->evaluators[0].loader;
    if (data)
        t->state.input_spec = vv_loader_dataset(data)->spec;
    VV_GO(set_graph(t, o));
    VV_GO(vvi_saver_init(t, o));
    VV_GO(vvi_loading_init(&t->loading, &o->load));
    VV_GO(ask_plans(t));
    const int asked = t->method_count;
    VV_GO(vvi_start_open(t, o, &start));
    if (t->method_count != asked)
        VV_GO(ask_plans(t));
    if (o->profile)
        VV_GO(vvi_profiler_new(&t->profiler, o->profile, t));
    VV_GO(open_loggers(t));
    VV_GO(vvi_engine_fire(t, VV_EVENT_INIT));
    vvi_tell_lines(t, &start.told);
    vvi_evaluators_tell(t);
    VV_GO(check_effects(t));
    VV_GO(set_optimizer(t, o));
    VV_GO(vvi_saver_room(t));
    VV_GO(vvi_size_up(t, o, t->resumed ? start.file : NULL));
    status = vvi_start_load(t, &start);
out:
    vvi_start_fini(&start);
    return status;
}

vv_status vv_trainer_new(vv_trainer **out, const vv_trainer_opts *given)
{
    *out = NULL;
    vv_trainer_opts copy = *given;
    const vv_trainer_opts *o = &copy;
    vv_trainer *t = NULL;
    vv_status status = vv_alloc(&t, sizeof *t);
    if (status == VV_OK)
        status = take(t, o);
    if (status != VV_OK) {
        free_given(o);
        vv_trainer_free(t);
        return status;
    }
    status = configure(t, &copy);
    t->state.trainer = t;
    t->state.seed = o->seed;
    t->train = o->train;
    t->state.train_loader = o->train;
    t->microbatch = o->microbatch;
    t->state.microbatch = o->microbatch;
    t->eval_microbatch = o->eval_microbatch;
    t->grad_clip_norm = o->grad_clip_norm;
    t->deadline_seconds = o->deadline_seconds;
    t->allow_no_effect = o->allow_no_effect;
    t->memory_limit = o->memory_limit;
    t->recompute = o->recompute;
    t->log_bytes = -1;
    atomic_init(&t->interrupted, 0);
    t->put_off = VV_EVENT_COUNT;
    if (status == VV_OK)
        status = set_up(t, o);
    if (status != VV_OK) {
        vv_trainer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}

void vv_trainer_free(vv_trainer *t)
{
    if (!t)
        return;
    for (int i = t->loggers_open - 1; i >= 0; i--)
        if (t->loggers[i]->type->close)
            t->loggers[i]->type->close(t->loggers[i]);
    for (int i = 0; i < t->logger_count; i++)
        vv_logger_free(t->loggers[i]);
    for (int i = 0; i < t->callback_count; i++)
        vv_callback_free(t->callbacks[i]);
    for (int i = 0; i < t->method_count; i++) {
        vv_method_free(t->methods[i]);
        vv_dealloc(t->method_lines[i]);
    }
    for (int i = 0; i < t->schedule_count; i++)
        vv_schedule_free(t->schedules[i]);
    for (int i = 0; i < t->evaluator_count; i++)
        vvi_evaluator_fini(&t->evaluators[i]);
    vvi_train_metrics_fini(t);
    vvi_log_close(t);
    vvi_profiler_free(t->profiler);
    vvi_saver_fini(&t->saver);
    vvi_loading_fini(&t->loading);
    vvi_stages_fini(t);
    vv_graph_free(t->graph);
    vv_optimizer_free(t->state.optimizer);
    vv_model_free(t->state.model);
    vv_str_fini(&t->pending);
    vv_str_fini(&t->early);
    vv_str_fini(&t->deferred_text);
    void *const blocks[] = {t->loggers,    t->callbacks,  t->methods,  t->method_lines,
                            t->schedules,  t->evaluators, t->run_dir,  t->checkpoint_dir,
                            t->run_name,   t->recipe_text, t->command, t->params,
                            t->nodes,      t->hardware,   t->price_note};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        vv_dealloc(blocks[i]);
    vv_dealloc(t);
}

vv_state *vv_trainer_state(vv_trainer *t)
{
    return &t->state;
}

vv_graph *vv_trainer_graph(vv_trainer *t)
{
    return t->graph;
}

const char *vv_trainer_run_dir(const vv_trainer *t)
{
    return t->run_dir;
}

vv_rng vv_state_rng(const vv_state *state, const char *stream)
{
    return vv_rng_at(state->seed, stream, (uint64_t)state->time.batch);
}

const char *vv_state_run_name(const vv_state *state)
{
    return state->trainer ? state->trainer->run_name : NULL;
}

const char *vv_state_recipe(const vv_state *state)
{
    return state->trainer ? state->trainer->recipe_text : NULL;
}
