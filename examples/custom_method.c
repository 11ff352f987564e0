/* custom_method.c - a method of your own: noise on the gradients that fades as training goes
 * (Neelakantan et al., arXiv 1511.06807), as a plain function and as a method of the Trainer.
 *
 * Usage: custom_method [DURATION]. In the tree, `tools/new_method NAME` makes a method's folder. */
#include <math.h>
#include <stdio.h>

#include <vivace/vivace.h>

/* ---- the plain function: usable in a loop of your own ---- */

typedef struct noise {
    vv_rng rng;
    double std;
} noise;

static bool add_noise(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    noise *n = ctx;
    (void)path, (void)owner;
    if (param->frozen || !param->grad)
        return true;
    float *grad = param->grad->data;
    for (int64_t i = 0; i < param->grad->count; i++)
        grad[i] += (float)(n->std * vv_rng_normal(&n->rng));
    return true;
}

static void add_gradient_noise(vv_module *net, double std, vv_rng rng)
{
    noise n = {rng, std};
    vv_module_each_param(net, add_noise, &n);
}

/* ---- the method: settings, what it does at which event, a line for the plan ---- */

typedef struct gradient_noise_opts {
    double eta, gamma; /* variance eta / (1 + batch)^gamma */
} gradient_noise_opts;

static const vv_field fields[] = {
    {"eta", "Variance of the noise at the first batch.", VV_FIELD_FLOAT,
     offsetof(gradient_noise_opts, eta), "0.01", 0, 100, NULL},
    {"gamma", "How fast it fades.", VV_FIELD_FLOAT, offsetof(gradient_noise_opts, gamma), "0.55", 0,
     10, NULL},
    {.name = NULL},
};

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const gradient_noise_opts *opts = method->opts;
    const double std = sqrt(opts->eta / pow(1.0 + (double)state->time.batch, opts->gamma));
    (void)event;
    /* A function of (seed, batch): a run that was stopped and resumed draws the same numbers. */
    add_gradient_noise(state->model->net, std, vv_state_rng(state, "gradient_noise"));
    vv_log_metric(state, "gradient_noise/std", std);
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const gradient_noise_opts *opts = method->opts;
    (void)state;
    vv_str_addf(line, "adds noise of variance %g / (1 + batch)^%g to each gradient", opts->eta,
                opts->gamma);
    return vv_str_status(line);
}

static const vv_method_desc gradient_noise = {
    .desc = {.kind = "method",
             .name = "gradient_noise",
             .summary = "Adds fading noise to the gradients.",
             .cite = "Neelakantan et al., Adding Gradient Noise Improves Learning for Very Deep "
                     "Networks (arXiv 1511.06807)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(gradient_noise_opts)},
    .phase = VV_PHASE_GRADIENT,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH), /* the gradient is whole, no step taken */
    .apply = apply,
    .plan = plan,
};

/* ---- a run with it ---- */

/* Three classes of points in the plane, around three centres. */
static vv_status make_points(vv_dataset **out, const char *stream)
{
    enum { COUNT = 300 };
    const vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                                 .input_shape = {2}, .classes = 3};
    float points[2 * COUNT];
    int32_t classes[COUNT];
    vv_rng rng = vv_rng_at(17, stream, 0);
    for (int i = 0; i < COUNT; i++) {
        classes[i] = i % 3;
        points[2 * i] = (float)(2.0 * cos(2.1 * classes[i]) + 0.4 * vv_rng_normal(&rng));
        points[2 * i + 1] = (float)(2.0 * sin(2.1 * classes[i]) + 0.4 * vv_rng_normal(&rng));
    }
    return vv_dataset_from_arrays(out, &spec, COUNT, points, classes);
}

static vv_status train(vv_loader *train_data, vv_loader *eval_data, const char *duration)
{
    const gradient_noise_opts noisy = {.eta = 0.02, .gamma = 0.55};
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    vv_trainer *trainer = NULL;
    vv_method *method = NULL;
    vv_str plan_text = {0};
    vv_status status = VV_OK;
    double accuracy;
    VV_GO(vv_model_build(&o.model, &vv_model_mlp, NULL, &vv_loader_dataset(train_data)->spec, 17));
    o.train = train_data;
    o.eval = eval_data;
    o.max_duration = duration;
    status = vv_method_new(&method, &gradient_noise, &noisy);
    o.methods = VV_LIST(method);
    if (status == VV_OK)
        status = vv_trainer_new(&trainer, &o); /* takes model and method */
    else
        vv_model_free(o.model);
    if (status != VV_OK)
        goto out;
    VV_GO(vv_trainer_plan(trainer, &plan_text));
    fputs(vv_str_text(&plan_text), stdout);
    VV_GO(vv_trainer_fit(trainer));
    VV_GO(vv_state_metric(vv_trainer_state(trainer), "eval", "accuracy", &accuracy));
    printf("accuracy %.4f\n", accuracy);
out:
    vv_str_fini(&plan_text);
    vv_trainer_free(trainer);
    return status;
}

int main(int argc, char **argv)
{
    vv_dataset *sets[2] = {NULL, NULL};
    vv_loader *loaders[2] = {NULL, NULL};
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_status status = VV_OK;
    for (int i = 0; i < 2; i++) {
        opts.batch_size = 50;
        opts.shuffle = i == 0;
        VV_GO(make_points(&sets[i], i == 0 ? "train" : "eval"));
        VV_GO(vv_loader_new(&loaders[i], sets[i], &opts));
    }
    VV_GO(train(loaders[0], loaders[1], argc > 1 ? argv[1] : "20ep"));
out:
    if (status != VV_OK)
        fprintf(stderr, "%s\n", vv_error());
    for (int i = 0; i < 2; i++) {
        vv_loader_free(loaders[i]);
        vv_dataset_free(sets[i]);
    }
    return status == VV_OK ? 0 : 1;
}
