/* trainer.c - a Trainer program with most of what it offers: methods, a schedule, several
 * evaluators, metrics of training, a callback, a run's folder that the same command continues.
 *
 * Usage: trainer [DURATION [RUN_FOLDER]] */
#include <stdio.h>

#include <vivace/vivace.h>

/* Images of noise whose brightness tells the class: a task that is learned in seconds. */
static vv_status open_data(vv_dataset **set, vv_loader **loader, const char *split)
{
    vv_synthetic_opts made;
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    VV_TRY(vv_opts_init(&vv_dataset_synthetic.desc, &made));
    made.height = made.width = 8;
    made.count = 512;
    made.classes = 4;
    made.kind = VV_SYNTHETIC_SEPARABLE;
    opts.batch_size = 64;
    opts.shuffle = opts.drop_last = split[0] == 't';
    opts.seed = 17;
    opts.transform = vv_dataset_synthetic.eval_transform; /* normalises */
    vv_status status = vv_dataset_open(set, &vv_dataset_synthetic, &made, split);
    vv_opts_fini(&vv_dataset_synthetic.desc, &made);
    return status == VV_OK ? vv_loader_new(loader, *set, &opts) : status;
}

static vv_status print_plan(vv_trainer *trainer)
{
    vv_str plan = {0};
    vv_status status = vv_trainer_plan(trainer, &plan);
    if (status == VV_OK)
        fputs(vv_str_text(&plan), stdout);
    vv_str_fini(&plan);
    return status;
}

static vv_status train(vv_loader *train_data, vv_loader *eval_data, const char *duration,
                       const char *run_dir)
{
    const vv_sample_spec *spec = &vv_loader_dataset(train_data)->spec;
    const vv_resnet9_opts width = {.width = 8, .logit_scale = 0.125};
    const vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9};
    const vv_eval_set evaluators[] = {
        {.label = "test", .loader = eval_data, .metrics = "accuracy,top3,cross_entropy"},
        {.label = "quick", .loader = eval_data, .interval = "4ba", .subset = "100sp"},
    };
    vv_schedule *schedules[] = {NULL, NULL};
    vv_callback *callbacks[] = {NULL, NULL};
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    vv_trainer *trainer = NULL;
    vv_status status = VV_OK;
    double accuracy;
    VV_GO(vv_model_build(&o.model, &vv_model_resnet9, &width, spec, 17));
    VV_GO(vv_schedule_new(&schedules[0], vv_schedule_find("cosine_decay"), NULL));
    VV_GO(vv_callback_new(&callbacks[0], &vv_callback_lr_monitor, NULL));
    o.optimizer_desc = vv_optimizer_find("sgd");
    o.optimizer_opts = &sgd;
    o.train = train_data;
    o.train_metrics = "accuracy";
    o.eval_sets = evaluators;
    o.eval_set_count = 2;
    o.max_duration = duration;
    o.microbatch = 32; /* less memory, the same training */
    o.methods = VV_LIST(vv_label_smoothing(0.1), vv_blurpool(NULL),
                        vv_gradient_clipping(VV_CLIPPING_NORM, 1.0));
    o.schedules = schedules;
    o.callbacks = callbacks;
    o.run_dir = run_dir;
    o.save_interval = "1ep";
    o.resume = true; /* the same command goes on where the folder stands */
    status = vv_trainer_new(&trainer, &o);
    o.model = NULL; /* taken with all the rest, even by a call that fails */
    schedules[0] = NULL;
    callbacks[0] = NULL;
    if (status != VV_OK)
        goto out;
    VV_GO(print_plan(trainer));
    VV_GO(vv_trainer_fit(trainer));
    const vv_state *state = vv_trainer_state(trainer);
    const char *label, *name;
    for (int i = 0; vv_state_metric_at(state, i, &label, &name, &accuracy); i++)
        printf("%s/%s %.4f\n", label, name, accuracy);
    VV_GO(vv_state_metric(state, "test", "accuracy", &accuracy));
    printf("accuracy %.4f\n", accuracy);
out:
    vv_trainer_free(trainer);
    vv_model_free(o.model);
    vv_schedule_free(schedules[0]);
    vv_callback_free(callbacks[0]);
    return status;
}

int main(int argc, char **argv)
{
    vv_dataset *sets[2] = {NULL, NULL};
    vv_loader *loaders[2] = {NULL, NULL};
    vv_status status = VV_OK;
    VV_GO(open_data(&sets[0], &loaders[0], "train"));
    VV_GO(open_data(&sets[1], &loaders[1], "eval"));
    VV_GO(train(loaders[0], loaders[1], argc > 1 ? argv[1] : "10ep", argc > 2 ? argv[2] : NULL));
out:
    if (status != VV_OK)
        fprintf(stderr, "%s\n", vv_error());
    for (int i = 0; i < 2; i++) {
        vv_loader_free(loaders[i]);
        vv_dataset_free(sets[i]);
    }
    return status == VV_OK ? 0 : 1;
}
