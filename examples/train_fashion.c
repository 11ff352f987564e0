/* train_fashion.c - trains a ResNet-9 on Fashion-MNIST with two methods, from C: the same as a
 * recipe says in ten lines. Arguments: the folder of the data ("" = where the system keeps it), the
 * duration. */
#include <stdio.h>

#include <vivace/vivace.h>

static vv_status open_loader(vv_dataset **set, vv_loader **loader, const char *dir,
                             const char *split)
{
    const vv_dataset_desc *desc = &vv_dataset_fashion_mnist;
    vv_fashion_mnist_opts where = {.common = {.dir = dir}};
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    const bool train = split[0] == 't';
    opts.batch_size = train ? 256 : 1000;
    opts.shuffle = opts.drop_last = train;
    opts.seed = 17;
    opts.transform = train ? desc->train_transform : desc->eval_transform;
    VV_TRY(vv_dataset_open(set, desc, &where, split));
    return vv_loader_new(loader, *set, &opts);
}

static vv_status train(vv_model *model, vv_loader *train_set, vv_loader *eval_set,
                       const char *duration)
{
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    o.model = model; /* taken, like the methods: also if this fails */
    o.train = train_set;
    o.eval = eval_set;
    o.max_duration = duration;
    o.methods = VV_LIST(vv_label_smoothing(0.1), vv_blurpool(NULL));
    vv_trainer *trainer;
    vv_status status;
    double accuracy;
    VV_GO(vv_trainer_new(&trainer, &o));
    VV_GO(vv_trainer_fit(trainer));
    VV_GO(vv_state_metric(vv_trainer_state(trainer), "eval", "accuracy", &accuracy));
    printf("accuracy %.4f after %s\n", accuracy, duration);
out:
    vv_trainer_free(trainer);
    return status;
}

static vv_status run(const char *dir, const char *duration)
{
    vv_dataset *sets[2] = {NULL, NULL};
    vv_loader *loaders[2] = {NULL, NULL};
    vv_model *model;
    vv_resnet9_opts width = {.width = 16};
    vv_status status;
    VV_GO(open_loader(&sets[0], &loaders[0], dir, "train"));
    VV_GO(open_loader(&sets[1], &loaders[1], dir, "eval"));
    VV_GO(vv_model_build(&model, &vv_model_resnet9, &width, &sets[0]->spec, 17));
    VV_GO(train(model, loaders[0], loaders[1], duration));
out:
    for (int i = 0; i < 2; i++) {
        vv_loader_free(loaders[i]);
        vv_dataset_free(sets[i]);
    }
    return status;
}

int main(int argc, char **argv)
{
    if (run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "2ep") == VV_OK)
        return 0;
    fprintf(stderr, "%s\n", vv_error());
    return 1;
}
