/* custom_dataset.c - a data set of your own: sample number i is made or read when it is asked for.
 * This one is two spirals; nothing of it is in memory. (If your data are arrays already,
 * vv_dataset_from_arrays is all you need; see custom_method.c.)
 *
 * Usage: custom_dataset [DURATION] */
#include <math.h>
#include <stdio.h>

#include <vivace/vivace.h>

typedef struct spirals_opts {
    vv_dataset_common common; /* every data set's options start with it; `dir` is not used here */
    int64_t count;            /* of the training split */
    double turns, noise;
} spirals_opts;

typedef struct spirals {
    double turns, noise;
    const char *stream; /* the splits draw different numbers */
} spirals;

/* A function of the index alone, so any thread may ask for any sample at any time. */
static vv_status read_sample(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const spirals *s = dataset->self;
    const int32_t arm = (int32_t)(index % 2);
    if (input) { /* NULL: not wanted */
        vv_rng rng = vv_rng_at(1, s->stream, (uint64_t)index);
        const double t = 0.1 + 0.9 * vv_rng_uniform(&rng); /* along the arm */
        const double angle = 6.283185307 * s->turns * t + 3.141592654 * arm;
        float *point = input;
        point[0] = (float)(2.0 * t * cos(angle) + s->noise * vv_rng_normal(&rng));
        point[1] = (float)(2.0 * t * sin(angle) + s->noise * vv_rng_normal(&rng));
    }
    if (target)
        *(int32_t *)target = arm;
    return VV_OK;
}

static void fini(vv_dataset *dataset)
{
    vv_dealloc(dataset->self);
}

static const vv_dataset_class spirals_class = {.read = read_sample, .fini = fini};

static vv_status open_spirals(vv_dataset **out, const void *settings, const char *split)
{
    static const char *const names[] = {"one arm", "the other"};
    const spirals_opts *opts = settings;
    const bool train = split[0] == 't';
    vv_dataset *set = NULL;
    spirals *self = NULL;
    vv_status status = VV_OK;
    *out = NULL;
    VV_GO(vv_alloc(&set, sizeof *set));
    VV_GO(vv_alloc(&self, sizeof *self));
    *self = (spirals){opts->turns, opts->noise, train ? "spirals train" : "spirals eval"};
    *set = (vv_dataset){
        .type = &spirals_class,
        .name = "spirals",
        .spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1, .input_shape = {2},
                 .classes = 2},
        .count = train ? opts->count : opts->count / 4,
        .class_names = names,
        .self = self,
    };
    *out = set;
    return VV_OK;
out:
    vv_dealloc(set);
    return status;
}

static const vv_field fields[] = {
    {"dir", "Not used.", VV_FIELD_STRING, offsetof(spirals_opts, common.dir), "", 0, 0, NULL},
    {"count", "Samples to train on; a quarter as many to evaluate.", VV_FIELD_INT,
     offsetof(spirals_opts, count), "800", 8, 1e9, NULL},
    {"turns", "Turns of each arm.", VV_FIELD_FLOAT, offsetof(spirals_opts, turns), "0.75", 0, 10,
     NULL},
    {"noise", "Standard deviation around the arm.", VV_FIELD_FLOAT, offsetof(spirals_opts, noise),
     "0.05", 0, 10, NULL},
    {.name = NULL},
};

static const vv_dataset_desc spirals_desc = {
    .desc = {.kind = "dataset",
             .name = "spirals",
             .summary = "Two spirals in the plane, one class each.",
             .cite = "",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(spirals_opts)},
    .open = open_spirals,
};

/* ---- a run with it ---- */

static vv_status train(vv_loader *train_data, vv_loader *eval_data, const char *duration)
{
    const vv_mlp_opts wide = {.width = 64, .layers = 2};
    const vv_adam_opts adam = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    vv_trainer *trainer = NULL;
    vv_status status = VV_OK;
    double accuracy, f1;
    VV_GO(vv_model_build(&o.model, &vv_model_mlp, &wide, &vv_loader_dataset(train_data)->spec, 17));
    const vv_eval_set evaluator = {.loader = eval_data, .metrics = "f1,accuracy"};
    o.optimizer_desc = vv_optimizer_find("adam");
    o.optimizer_opts = &adam;
    o.train = train_data;
    o.eval_sets = &evaluator;
    o.eval_set_count = 1;
    o.max_duration = duration;
    VV_GO(vv_trainer_new(&trainer, &o));
    VV_GO(vv_trainer_fit(trainer));
    VV_GO(vv_state_metric(vv_trainer_state(trainer), "eval", "f1", &f1));
    VV_GO(vv_state_metric(vv_trainer_state(trainer), "eval", "accuracy", &accuracy));
    printf("f1 %.4f\naccuracy %.4f\n", f1, accuracy);
out:
    vv_trainer_free(trainer);
    return status;
}

int main(int argc, char **argv)
{
    const spirals_opts settings = {.count = 800, .turns = 0.75, .noise = 0.05};
    vv_dataset *sets[2] = {NULL, NULL};
    vv_loader *loaders[2] = {NULL, NULL};
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_status status = VV_OK;
    for (int i = 0; i < 2; i++) {
        opts.batch_size = 50;
        opts.shuffle = i == 0;
        opts.seed = 17;
        VV_GO(vv_dataset_open(&sets[i], &spirals_desc, &settings, i == 0 ? "train" : "eval"));
        VV_GO(vv_loader_new(&loaders[i], sets[i], &opts));
    }
    VV_GO(train(loaders[0], loaders[1], argc > 1 ? argv[1] : "30ep"));
out:
    if (status != VV_OK)
        fprintf(stderr, "%s\n", vv_error());
    for (int i = 0; i < 2; i++) {
        vv_loader_free(loaders[i]);
        vv_dataset_free(sets[i]);
    }
    return status == VV_OK ? 0 : 1;
}
