/* custom_callback.c - a callback of your own: it watches a run without changing how it trains. This
 * one tells when the accuracy passes 50, 75 and 90 per cent, and how long that took; what it has
 * told is in the checkpoints, so that a resumed run does not tell it again.
 *
 * Usage: custom_callback [DURATION [RUN_FOLDER]] */
#include <stdio.h>

#include <vivace/vivace.h>

typedef struct milestones_opts {
    const char *label, *metric; /* what to watch */
} milestones_opts;

typedef struct milestones { /* its memory of the run */
    int64_t passed;
} milestones;

static const vv_field fields[] = {
    {"label", "The evaluator's label.", VV_FIELD_STRING, offsetof(milestones_opts, label), "eval", 0,
     0, NULL},
    {"metric", "The metric's name.", VV_FIELD_STRING, offsetof(milestones_opts, metric), "accuracy",
     0, 0, NULL},
    {.name = NULL},
};

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    static const double marks[] = {0.5, 0.75, 0.9};
    const milestones_opts *opts = callback->opts;
    milestones *self = callback->self;
    double value;
    vv_status status = vv_state_metric(state, opts->label, opts->metric, &value);
    if (event == VV_EVENT_FIT_START) /* a wrong name is told before the first batch */
        return status == VV_ESTATE ? VV_OK : status;
    if (status != VV_OK)
        return status == VV_ESTATE ? VV_OK : status; /* another evaluator came first */
    while (self->passed < 3 && value >= marks[self->passed]) {
        vv_str text = {0};
        vv_str_addf(&text, "%s/%s passed %g after %lld batches", opts->label, opts->metric,
                    marks[self->passed++], (long long)state->time.batch);
        vv_log_message(state, vv_str_text(&text)); /* to every logger and the run's log */
        printf("%s\n", vv_str_text(&text));
        vv_str_fini(&text);
    }
    vv_log_metric(state, "milestones/passed", (double)self->passed);
    return VV_OK;
}

static vv_status save(vv_callback *callback, vv_record *record)
{
    const milestones *self = callback->self;
    return vv_record_set_int(record, "passed", self->passed);
}

static vv_status load(vv_callback *callback, const vv_record *record)
{
    milestones *self = callback->self;
    return vv_record_get_int(record, "passed", &self->passed);
}

static const vv_callback_desc milestones_desc = {
    .desc = {.kind = "callback",
             .name = "milestones",
             .summary = "Tells when a metric passes 50, 75 and 90 per cent.",
             .cite = "",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(milestones_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_EVAL_END),
    .self_size = sizeof(milestones),
    .apply = apply,
    .save = save,
    .load = load,
};

/* ---- a run with it ---- */

static vv_status open_loader(vv_dataset **set, vv_loader **loader, const char *split)
{
    vv_synthetic_opts made;
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    VV_TRY(vv_opts_init(&vv_dataset_synthetic.desc, &made));
    made.height = made.width = 8;
    made.count = 400;
    made.classes = 4;
    made.kind = VV_SYNTHETIC_SEPARABLE;
    opts.batch_size = 50;
    opts.shuffle = split[0] == 't';
    opts.transform = vv_dataset_synthetic.eval_transform; /* normalises */
    vv_status status = vv_dataset_open(set, &vv_dataset_synthetic, &made, split);
    vv_opts_fini(&vv_dataset_synthetic.desc, &made);
    return status == VV_OK ? vv_loader_new(loader, *set, &opts) : status;
}

static vv_status train(vv_loader *train_data, vv_loader *eval_data, const char *duration,
                       const char *run_dir)
{
    const vv_sgd_opts sgd = {.lr = 0.01, .momentum = 0.9};
    vv_callback *callbacks[] = {NULL, NULL};
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    vv_trainer *trainer = NULL;
    vv_status status = VV_OK;
    double accuracy;
    VV_GO(vv_callback_new(&callbacks[0], &milestones_desc, NULL));
    status =
        vv_model_build(&o.model, &vv_model_mlp, NULL, &vv_loader_dataset(train_data)->spec, 17);
    if (status != VV_OK) {
        vv_callback_free(callbacks[0]);
        goto out;
    }
    o.optimizer_desc = vv_optimizer_find("sgd");
    o.optimizer_opts = &sgd;
    o.train = train_data;
    o.eval = eval_data;
    o.max_duration = duration;
    o.eval_interval = "2ba";
    o.callbacks = callbacks;
    o.run_dir = run_dir;
    o.save_interval = "1ep";
    o.resume = true;
    VV_GO(vv_trainer_new(&trainer, &o));
    VV_GO(vv_trainer_fit(trainer));
    VV_GO(vv_state_metric(vv_trainer_state(trainer), "eval", "accuracy", &accuracy));
    printf("accuracy %.4f\n", accuracy);
out:
    vv_trainer_free(trainer);
    return status;
}

int main(int argc, char **argv)
{
    vv_dataset *sets[2] = {NULL, NULL};
    vv_loader *loaders[2] = {NULL, NULL};
    vv_status status = VV_OK;
    VV_GO(open_loader(&sets[0], &loaders[0], "train"));
    VV_GO(open_loader(&sets[1], &loaders[1], "eval"));
    VV_GO(train(loaders[0], loaders[1], argc > 1 ? argv[1] : "8ep", argc > 2 ? argv[2] : NULL));
out:
    if (status != VV_OK)
        fprintf(stderr, "%s\n", vv_error());
    for (int i = 0; i < 2; i++) {
        vv_loader_free(loaders[i]);
        vv_dataset_free(sets[i]);
    }
    return status == VV_OK ? 0 : 1;
}
