/* recipe_run.c - a run made from a recipe: data sets, loaders, model, trainer, in that order, and
 * released in the reverse one. */
#include <string.h>

#include <vivace/losses.h>
#include <vivace/memory.h>
#include <vivace/prices.h>
#include <vivace/run_db.h>
#include <vivace/run_store.h>

#include "recipe/recipe_impl.h"

/* An evaluator's data. */
typedef struct eval_data {
    vv_dataset *set;
    vv_loader *loader;
    char interval[64], subset[64]; /* as the trainer takes them */
} eval_data;

struct vv_run {
    vv_dataset *train_set;
    vv_loader *train;
    eval_data *evals;
    vv_eval_set *eval_sets; /* what the trainer is told */
    int eval_count;
    vv_trainer *trainer;
};

/* Settings of the set "synthetic" for samples like a text's. */
static void text_settings(const vv_sample_spec *spec, int64_t count, vv_str *out)
{
    const char *target = spec->target_ndim == 1              ? "next"
                         : vv_dtype_is_float(spec->target_dtype) ? "number"
                                                                 : "class";
    vv_str_addf(out, "like=text,target=%s,seq=%lld,vocabulary=%lld,classes=%lld,count=%lld", target,
                (long long)spec->tokens, (long long)spec->vocabulary,
                (long long)(spec->target_ndim == 1 ? 0 : spec->classes), (long long)count);
    vv_str_add(out, spec->input_ndim == 2 ? ",segments=true" : "");
}

#define MAX_POOL_BYTES ((int64_t)16 << 20)

/* The same for images with a class, a mask or boxes. */
static void image_settings(const vv_sample_spec *spec, int64_t count, vv_str *out)
{
    const bool boxes = spec->target_ndim == 2 && spec->target_dtype == VV_F32;
    const int64_t bytes = spec->input_shape[0] * spec->input_shape[1] * spec->input_shape[2];
    const int64_t pool = bytes > 0 ? MAX_POOL_BYTES / bytes : 1;
    vv_str_addf(out, "like=imagenet,height=%lld,width=%lld,channels=%lld,classes=%lld,count=%lld",
                (long long)spec->input_shape[0], (long long)spec->input_shape[1],
                (long long)spec->input_shape[2], (long long)spec->classes, (long long)count);
    if (pool < 100) /* fewer of large ones: each pixel is drawn */
        vv_str_addf(out, ",pool=%lld", (long long)(pool > 2 ? pool : 2));
    if (boxes)
        vv_str_addf(out, ",boxes=%lld", (long long)spec->target_shape[0]);
    else if (spec->target_ndim == 2)
        vv_str_add(out, ",masks=true");
}

static vv_status synthetic_settings(const vvi_part *part, const char *split, vv_str *out)
{
    const vv_dataset_desc *like = (const vv_dataset_desc *)(const void *)part->desc;
    if (like->shape) {
        vv_sample_spec spec = {0};
        int64_t count = 0;
        VV_TRY(like->shape(part->opts, split, &spec, &count));
        if (spec.input_dtype == VV_U8 && spec.input_ndim == 3)
            image_settings(&spec, count, out);
        else
            text_settings(&spec, count, out);
    } else {
        vv_str_addf(out, "like=%s", like->desc.name);
    }
    return vv_str_status(out);
}

/* Random data in the place of the recipe's set: same shapes, classes and size. */
static vv_status open_synthetic(vv_dataset **out, const vvi_part *part, const char *split)
{
    const vv_dataset_desc *desc;
    vv_status status;
    vv_str settings = {0};
    void *opts = NULL;
    VV_TRY(vv_dataset_find(&desc, "synthetic"));
    VV_GO(synthetic_settings(part, split, &settings));
    VV_GO(vv_alloc(&opts, desc->desc.opts_size + 1));
    status = vv_opts_init(&desc->desc, opts);
    if (status == VV_OK) {
        status = vv_opts_set_all(&desc->desc, opts, vv_str_text(&settings));
        if (status == VV_OK)
            status = vv_dataset_open(out, desc, opts, split);
        vv_opts_fini(&desc->desc, opts);
    }
out:
    vv_dealloc(opts);
    vv_str_fini(&settings);
    return status;
}

static vv_status open_set(vv_dataset **out, const vvi_part *part, const vv_run_opts *opts,
                          const char *split)
{
    const vv_dataset_desc *desc = (const vv_dataset_desc *)(const void *)part->desc;
    if (opts->input)
        return vvi_blank_set(out, opts->input);
    if (opts->synthetic && strcmp(desc->desc.name, "synthetic") != 0)
        return open_synthetic(out, part, split);
    return vv_dataset_open(out, desc, part->opts, split);
}

/* The transform for a set: defaults of a descriptor are for images, if it may give other samples
   too. */
static vv_image_transform transform_for(const vv_dataset *set, const vv_image_transform *wanted,
                                        const vv_image_transform *usual)
{
    const bool images = set->spec.input_dtype == VV_U8 && set->spec.input_ndim == 3;
    const bool asked = wanted->crop_pad != usual->crop_pad || wanted->flip != usual->flip ||
                       wanted->translate != usual->translate ||
                       wanted->normalise != usual->normalise;
    return images || asked ? *wanted : (vv_image_transform){0};
}

static vv_status open_data(vv_run *run, const vv_recipe *r, const vv_run_opts *run_opts)
{
    const vv_dataset_desc *desc = (const vv_dataset_desc *)(const void *)r->dataset.desc;
    VV_TRY(open_set(&run->train_set, &r->dataset, run_opts, "train"));
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = r->top.batch_size;
    opts.shuffle = true;
    opts.drop_last = r->top.drop_last;
    opts.seed = (uint64_t)r->top.seed;
    opts.workers = (int)r->top.workers;
    opts.prefetch = opts.prefetch > opts.workers ? opts.prefetch : opts.workers + 1;
    opts.limit = r->top.limit;
    opts.transform = transform_for(run->train_set, &r->transform, &desc->train_transform);
    VV_TRY(vv_loader_new(&run->train, run->train_set, &opts));
    if (vv_loader_batch_count(run->train) == 0)
        return vv_fail(VV_EINVAL,
                       "%s: batch_size %lld is larger than the training set (%lld samples) "
                       "and drop_last leaves nothing; lower batch_size or set drop_last: false",
                       r->origin, (long long)r->top.batch_size,
                       (long long)(r->top.limit ? r->top.limit : run->train_set->count));
    return VV_OK;
}

/* NULL = never, as the trainer has it. */
static const char *interval_text(vv_time time, char *buf, size_t buf_bytes)
{
    return vv_time_is_none(time) ? NULL : vv_time_text(time, buf, buf_bytes);
}

/* A set to evaluate on must hold what the model was made for. */
static vv_status check_fits(const vv_sample_spec *train, const vv_sample_spec *eval)
{
    const int last = train->input_ndim - 1;
    if (train->input_dtype == eval->input_dtype && train->input_ndim == eval->input_ndim &&
        train->classes == eval->classes && train->vocabulary == eval->vocabulary &&
        (last < 0 || train->tokens > 0 || train->input_shape[last] == eval->input_shape[last]))
        return VV_OK; /* texts may be longer or shorter: the model knows what it takes */
    char have[96], want[96];
    return vv_fail(VV_EINVAL,
                   "its samples are %s %s of %lld classes, the training set's %s %s of %lld",
                   vv_dtype_name(eval->input_dtype),
                   vv_shape_text(eval->input_ndim, eval->input_shape, have, sizeof have),
                   (long long)eval->classes, vv_dtype_name(train->input_dtype),
                   vv_shape_text(train->input_ndim, train->input_shape, want, sizeof want),
                   (long long)train->classes);
}

static vv_status open_eval(vv_run *run, const vv_recipe *r, const vvi_eval_part *e,
                           const vv_run_opts *run_opts)
{
    eval_data *data = &run->evals[run->eval_count];
    vv_eval_set *told = &run->eval_sets[run->eval_count++];
    const vv_dataset_desc *desc = (const vv_dataset_desc *)(const void *)e->dataset.desc;
    VV_TRY(open_set(&data->set, &e->dataset, run_opts, e->opts.split ? "train" : "eval"));
    VV_TRY(check_fits(&run->train_set->spec, &data->set->spec));
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = e->opts.batch_size;
    opts.seed = (uint64_t)r->top.seed;
    opts.workers = (int)r->top.workers;
    opts.prefetch = opts.prefetch > opts.workers ? opts.prefetch : opts.workers + 1;
    opts.transform = transform_for(data->set, &desc->eval_transform, &desc->eval_transform);
    opts.transform.normalise = r->transform.normalise && data->set->spec.tokens == 0 &&
                               (data->set->spec.input_dtype == VV_U8 ||
                                !desc->eval_transform.normalise);
    VV_TRY(vv_loader_new(&data->loader, data->set, &opts));
    *told = (vv_eval_set){.label = e->label,
                          .loader = data->loader,
                          .metrics = e->opts.metrics,
                          .microbatch = e->opts.microbatch};
    if (r->evaluator_count) { /* else the trainer's own, which says so in its sentences */
        told->interval = interval_text(e->opts.interval, data->interval, sizeof data->interval);
        told->interval = told->interval ? told->interval : "";
    }
    told->subset = interval_text(e->opts.subset, data->subset, sizeof data->subset);
    return VV_OK;
}

/* Without a section of their own: the set "eval", by the settings at the top. */
static vv_status open_evals(vv_run *run, const vv_recipe *r, const vv_run_opts *run_opts)
{
    static char label[] = "eval";
    const vvi_eval_part usual = {
        label,
        r->dataset,
        {r->top.eval_metrics, r->top.eval_interval, vv_time_none(), r->top.eval_batch_size, 0, 0},
        false};
    const vvi_eval_part *all = r->evaluator_count ? r->evaluators : &usual;
    const int count = r->evaluator_count ? r->evaluator_count : 1;
    VV_TRY(vv_alloc_array(&run->evals, (size_t)count, sizeof *run->evals));
    VV_TRY(vv_alloc_array(&run->eval_sets, (size_t)count, sizeof *run->eval_sets));
    for (int i = 0; i < count; i++) {
        vv_status status = open_eval(run, r, &all[i], run_opts);
        if (status != VV_OK)
            return r->evaluator_count
                       ? vv_fail_within(status, "%s: evaluators.%s", r->origin, all[i].label)
                       : status;
    }
    return VV_OK;
}

static vv_status build_model(const vv_recipe *r, const vv_run *run, vv_model **out)
{
    const vv_model_desc *desc = (const vv_model_desc *)(const void *)r->model.desc;
    vv_model *model;
    *out = NULL;
    if (r->top.initializers[0] && desc->own_init)
        return vv_fail(VV_EINVAL, "%s: model %s initialises itself; leave out `initializers`",
                       r->origin, desc->desc.name);
    VV_TRY(
        vv_model_build(&model, desc, r->model.opts, &run->train_set->spec, (uint64_t)r->top.seed));
    const vv_loss_desc *loss = (const vv_loss_desc *)(const void *)r->loss.desc;
    vv_status status = loss ? vv_model_use_loss(model, loss, r->loss.opts) : VV_OK;
    if (status == VV_OK && r->top.initializers[0])
        status = vv_module_init(model->net, r->top.initializers, (uint64_t)r->top.seed);
    if (status != VV_OK) {
        vv_model_free(model);
        return vv_fail_within(status, "%s", r->origin);
    }
    *out = model;
    return VV_OK;
}

/* What the trainer takes; freed here if making all of it fails half way. */
typedef struct taken {
    vv_model *model;
    vv_method **methods;
    vv_schedule **schedules;
    vv_callback **callbacks;
    vv_logger **loggers;
    int logger_count;
} taken;

static vv_status make_all(const vv_recipe *r, const vv_run *run, const vv_run_opts *opts, taken *t)
{
    int extra = 0;
    while (opts->loggers && opts->loggers[extra])
        extra++;
    VV_TRY(vv_alloc_array(&t->loggers, (size_t)(r->loggers.count + extra) + 2, sizeof(void *)));
    while (t->logger_count < extra) {
        t->loggers[t->logger_count] = opts->loggers[t->logger_count];
        opts->loggers[t->logger_count++] = NULL;
    }
    VV_TRY(build_model(r, run, &t->model));
    VV_TRY(vv_alloc_array(&t->methods, (size_t)r->methods.count + 1, sizeof(void *)));
    VV_TRY(vv_alloc_array(&t->schedules, (size_t)r->schedules.count + 1, sizeof(void *)));
    VV_TRY(vv_alloc_array(&t->callbacks, (size_t)r->callbacks.count + 1, sizeof(void *)));
    for (int i = 0; i < r->methods.count; i++)
        VV_TRY(vv_method_new(&t->methods[i],
                             (const vv_method_desc *)(const void *)r->methods.items[i].desc,
                             r->methods.items[i].opts));
    for (int i = 0; i < r->schedules.count; i++)
        VV_TRY(vv_schedule_new(&t->schedules[i],
                               (const vv_schedule_desc *)(const void *)r->schedules.items[i].desc,
                               r->schedules.items[i].opts));
    for (int i = 0; i < r->callbacks.count; i++)
        VV_TRY(vv_callback_new(&t->callbacks[i],
                               (const vv_callback_desc *)(const void *)r->callbacks.items[i].desc,
                               r->callbacks.items[i].opts));
    for (int i = 0; i < r->loggers.count; i++)
        VV_TRY(vv_logger_new(&t->loggers[t->logger_count++],
                             (const vv_logger_desc *)(const void *)r->loggers.items[i].desc,
                             r->loggers.items[i].opts));
    return VV_OK;
}

static void free_taken(taken *t)
{
    vv_model_free(t->model);
    for (int i = 0; t->methods && t->methods[i]; i++)
        vv_method_free(t->methods[i]);
    for (int i = 0; t->schedules && t->schedules[i]; i++)
        vv_schedule_free(t->schedules[i]);
    for (int i = 0; t->callbacks && t->callbacks[i]; i++)
        vv_callback_free(t->callbacks[i]);
    for (int i = 0; t->loggers && t->loggers[i]; i++)
        vv_logger_free(t->loggers[i]);
}

static void free_arrays(taken *t)
{
    vv_dealloc(t->methods);
    vv_dealloc(t->schedules);
    vv_dealloc(t->callbacks);
    vv_dealloc(t->loggers);
}

/* The price of the hardware: what the recipe says, else the table's; *entry = of `list`, or NULL.
 */
static vv_status find_price(const vv_recipe *r, vv_price_list *list, const vv_price **entry,
                            double *usd_per_hour, vv_str *note)
{
    const vv_price *price;
    *entry = NULL;
    *usd_per_hour = r->top.usd_per_hour;
    if (*usd_per_hour > 0.0) {
        vv_str_add(note, "given as usd_per_hour");
        return vv_str_status(note);
    }
    if (!r->top.hardware[0] || strcmp(r->top.hardware, "local") == 0)
        return VV_OK;
    VV_TRY(vv_prices_read(list, NULL));
    VV_TRY(vv_fail_within(vv_price_find(&price, list, r->top.hardware), "%s: hardware", r->origin));
    *entry = price;
    *usd_per_hour = price->usd_per_hour;
    vv_str_addf(note, "%s%s%s, %s, %s", price->region, price->region[0] ? " " : "", price->kind,
                price->date[0] ? price->date : "date not noted", price->source);
    return vv_str_status(note);
}

/* The run's row in the store, unless the recipe says off or the build has none. */
static vv_status add_store(const vv_recipe *r, const vv_run_opts *opts, const vv_price *price,
                           taken *t)
{
    const vv_logger_desc *desc;
    vv_run_db_opts db = VV_RUN_DB_DEFAULTS;
    vv_str facts = {0};
    vv_status status;
    const bool named = r->top.run_db[0] != '\0';
    for (int i = 0; i < r->loggers.count; i++)
        if (strcmp(r->loggers.items[i].desc->name, "run_db") == 0)
            return VV_OK;
    if (strcmp(r->top.run_db, "off") == 0 || !opts->run_dir ||
        (!named && !vv_run_store_available()))
        return VV_OK;
    db.db = r->top.run_db;
    VV_GO(vv_logger_find(&desc, "run_db"));
    VV_GO(vvi_recipe_facts(r, price, &facts));
    db.facts = vv_str_text(&facts);
    VV_GO(vv_logger_new(&t->loggers[t->logger_count], desc, &db));
    t->logger_count++;
out:
    vv_str_fini(&facts);
    return status;
}

static void set_checkpoints(const vv_recipe *r, vv_trainer_opts *o, bool own_file)
{
    o->save = (vv_save_opts){
        .name = r->top.save_name,
        .latest = r->top.save_latest,
        .keep_best = (int)r->top.save_keep_best,
        .best_metric = r->top.save_best_metric,
        .best_mode = (vv_better)r->top.save_best_mode,
        .weights_only = r->top.save_weights_only,
        .zstd = r->top.save_compress == 1,
        .overwrite = r->top.save_overwrite,
    };
    o->load.find_method = vv_method_find;
    if (own_file) /* what the recipe says is about its load_path */
        return;
    o->load.partial = !r->top.load_strict;
    o->load.new_head = r->top.load_new_head;
    o->load.ignore = r->top.load_ignore;
    o->load.exclude_methods = r->top.load_exclude_methods;
}

static vv_status make_trainer(const vv_recipe *r, vv_run *run, const vv_run_opts *opts)
{
    taken t = {0};
    vv_str text = {0}, price_note = {0};
    vv_price_list prices = {0};
    const vv_price *price = NULL;
    double usd_per_hour = 0.0;
    char duration[64], iteration[64], eval_interval[64], save_interval[64];
    vv_status status = make_all(r, run, opts, &t);
    if (status == VV_OK)
        status = vv_recipe_text(r, &text);
    if (status == VV_OK)
        status = find_price(r, &prices, &price, &usd_per_hour, &price_note);
    if (status == VV_OK)
        status = add_store(r, opts, price, &t);
    if (status != VV_OK) {
        free_taken(&t);
        goto out;
    }
    static const char *const backends[] = {NULL, "cpu", "ref"};
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    o.model = t.model;
    o.optimizer_desc = (const vv_optimizer_desc *)(const void *)r->optimizer.desc;
    o.optimizer_opts = r->optimizer.opts;
    o.train = run->train;
    o.eval_sets = run->eval_sets;
    o.eval_set_count = run->eval_count;
    o.train_metrics = r->top.train_metrics;
    o.max_duration = vv_time_text(r->top.max_duration, duration, sizeof duration);
    o.iteration_length = interval_text(r->top.iteration_length, iteration, sizeof iteration);
    o.usd_per_hour = usd_per_hour;
    o.hardware = r->top.hardware;
    o.price_note = price_note.length ? vv_str_text(&price_note) : NULL;
    o.deadline_seconds = r->top.deadline;
    o.eval_interval = interval_text(r->top.eval_interval, eval_interval, sizeof eval_interval);
    o.methods = (vv_method_list){t.methods, r->methods.count};
    o.schedules = r->schedules.count ? t.schedules : NULL;
    o.scale_schedule_ratio = r->top.scale_schedule_ratio;
    o.callbacks = r->callbacks.count ? t.callbacks : NULL;
    o.no_default_callbacks = true; /* the recipe has resolved them */
    o.loggers = t.logger_count ? t.loggers : NULL;
    o.precision = (vv_precision)r->top.precision;
    o.conv = (vv_conv_choice)r->top.conv;
    o.backend = r->top.backend ? vv_backend_find(backends[r->top.backend]) : NULL;
    o.microbatch = r->microbatch;
    o.memory_limit = r->memory_limit;
    o.recompute = (vv_recompute)r->top.recompute;
    o.seed = (uint64_t)r->top.seed;
    o.grad_clip_norm = r->top.grad_clip_norm;
    o.run_dir = opts->run_dir;
    o.run_name = r->top.name;
    o.save_interval = interval_text(r->top.save_interval, save_interval, sizeof save_interval);
    o.save_keep = (int)r->top.save_keep;
    o.resume = opts->resume && opts->run_dir && r->top.autoresume;
    o.load_path = opts->load_path ? opts->load_path : r->top.load_path;
    o.load_weights_only = opts->load_path || r->top.load_weights_only;
    set_checkpoints(r, &o, opts->load_path != NULL);
    o.allow_no_effect = r->top.allow_no_effect;
    o.profile = r->profiled && opts->run_dir ? &r->profile : NULL;
    o.recipe_text = vv_str_text(&text);
    o.command = opts->command;
    if (r->top.backend && !o.backend) {
        free_taken(&t);
        status = vv_fail(VV_EUNSUPPORTED, "%s: backend '%s' is not in this build", r->origin,
                         backends[r->top.backend]);
        goto out;
    }
    vv_set_threads((int)r->top.threads);
    status = vv_trainer_new(&run->trainer, &o);
out:
    free_arrays(&t);
    vv_str_fini(&text);
    vv_str_fini(&price_note);
    vv_prices_fini(&prices);
    return status;
}

vv_status vv_run_new(vv_run **out, const vv_recipe *recipe, const vv_run_opts *opts)
{
    static const vv_run_opts defaults = VV_RUN_DEFAULTS;
    *out = NULL;
    if (!opts)
        opts = &defaults;
    vv_run *run = NULL;
    vv_status status;
    VV_GO(vv_alloc(&run, sizeof *run));
    VV_GO(open_data(run, recipe, opts));
    VV_GO(open_evals(run, recipe, opts));
    VV_GO(make_trainer(recipe, run, opts));
    *out = run;
    run = NULL;
out:
    for (int i = 0; status != VV_OK && opts->loggers && opts->loggers[i]; i++)
        vv_logger_free(opts->loggers[i]);
    vv_run_free(run);
    return status;
}

vv_trainer *vv_run_trainer(vv_run *run)
{
    return run->trainer;
}

const char *vv_run_notice(const vv_run *run, int i)
{
    int at = 0;
    for (int k = -1; k < run->eval_count; k++) {
        const vv_dataset *set = k < 0 ? run->train_set : run->evals[k].set;
        if (set && set->notice && at++ == i)
            return set->notice;
    }
    return NULL;
}

vv_loader *vv_run_eval_loader(vv_run *run)
{
    return run->evals[0].loader;
}

void vv_run_free(vv_run *run)
{
    if (!run)
        return;
    vv_trainer_free(run->trainer);
    vv_loader_free(run->train);
    for (int i = 0; i < run->eval_count; i++) {
        vv_loader_free(run->evals[i].loader);
        vv_dataset_free(run->evals[i].set);
    }
    vv_dealloc(run->evals);
    vv_dealloc(run->eval_sets);
    vv_dataset_free(run->train_set);
    vv_dealloc(run);
}
