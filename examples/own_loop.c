/* own_loop.c - training without the Trainer: your own loop in C with methods as plain functions,
 * gradients accumulated over microbatches and clipped once, and metrics that are tallied.
 *
 * Usage: own_loop [synthetic | FOLDER] [STEPS]    (FOLDER: of Fashion-MNIST's four files) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/vivace.h>

enum { BATCH = 64, MICROBATCH = 24 };

typedef struct loop {
    vv_dataset *sets[2];
    vv_loader *loaders[2]; /* to train, to evaluate */
    vv_module *net;
    vv_optimizer *optimizer;
    vv_graph *graph;
    vv_param **params; /* those that learn */
    vv_node **nodes;   /* loss, gradients, leaves */
    int param_count;
    int64_t classes;
    vv_tensor *mixed, *mix_target; /* mixup's, used again for each batch */
} loop;

static vv_status open_data(loop *l, const char *from)
{
    const bool synthetic = strcmp(from, "synthetic") == 0;
    vv_synthetic_opts made;
    vv_fashion_mnist_opts files = {.common = {.dir = from}};
    VV_TRY(vv_opts_init(&vv_dataset_synthetic.desc, &made));
    made.height = made.width = 8;
    made.channels = 1;
    made.count = 512;
    made.classes = 4;
    made.kind = VV_SYNTHETIC_SEPARABLE;
    vv_status status = VV_OK;
    for (int i = 0; i < 2 && status == VV_OK; i++) {
        const vv_dataset_desc *desc = synthetic ? &vv_dataset_synthetic : &vv_dataset_fashion_mnist;
        vv_loader_opts opts = VV_LOADER_DEFAULTS;
        opts.batch_size = BATCH;
        opts.shuffle = opts.drop_last = i == 0; /* an evaluation sees each sample once */
        opts.seed = 17;
        opts.transform = i == 0 ? desc->train_transform : desc->eval_transform;
        status = vv_dataset_open(&l->sets[i], desc, synthetic ? (void *)&made : (void *)&files,
                                 i == 0 ? "train" : "eval");
        if (status == VV_OK)
            status = vv_loader_new(&l->loaders[i], l->sets[i], &opts);
    }
    vv_opts_fini(&vv_dataset_synthetic.desc, &made);
    if (status == VV_OK)
        l->classes = l->sets[0]->spec.classes;
    return status;
}

static bool add_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    loop *l = ctx;
    (void)path, (void)owner;
    if (l->params && !param->frozen)
        l->params[l->param_count] = param;
    l->param_count += !param->frozen;
    return true;
}

/* The net, changed by surgery before the optimizer learns its parameters. */
static vv_status make_model(loop *l)
{
    const vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4};
    int blurred;
    VV_TRY(vv_resnet9_new(&l->net, 1, l->classes, 8, 0.125));
    VV_TRY(vv_module_init_default(l->net, 17));
    VV_TRY(vv_apply_blurpool(l->net, NULL, NULL, &blurred));
    printf("blurpool: %d layers\n", blurred);
    VV_TRY(vv_optimizer_new(&l->optimizer, vv_optimizer_find("sgd"), &sgd, l->net));
    VV_TRY(vv_graph_new(&l->graph, NULL));
    vv_module_each_param(l->net, add_param, l); /* counts them */
    VV_TRY(vv_alloc_array(&l->params, (size_t)l->param_count, sizeof *l->params));
    VV_TRY(vv_alloc_array(&l->nodes, 1 + 2 * (size_t)l->param_count, sizeof(vv_node *)));
    l->param_count = 0;
    vv_module_each_param(l->net, add_param, l);
    return vv_grads_ensure(l->net);
}

/* Adds the gradients of rows [first, first + count). Dividing each row's loss by the rows of the
   whole batch makes the sum over microbatches the batch's gradient, whatever their size. */
static vv_status add_gradients(loop *l, int64_t step, int64_t first, int64_t count, double weight,
                               vv_tensor *target, double *loss)
{
    vv_tensor *rows[3] = {NULL, NULL, NULL};
    vv_tensor *const whole[3] = {l->mixed, target, l->mix_target};
    vv_graph *g = l->graph;
    vv_node **grads = l->nodes + 1, **leaves = grads + l->param_count;
    vv_status status = VV_OK;
    for (int i = 0; i < 3; i++)
        VV_GO(vv_tensor_rows(&rows[i], whole[i], first, count));
    vv_graph_reset(g);
    vv_graph_set_rng(g, 17, (uint64_t)step, first); /* random layers draw by row of the batch */
    vv_node *output = vv_module_forward(l->net, g, vv_leaf(g, rows[0]));
    vv_node *items[2]; /* mixing the losses is mixing the targets */
    for (int i = 0; i < 2; i++)
        items[i] = vv_cross_entropy(
            output, vv_smooth_labels(vv_leaf(g, rows[1 + i]), l->classes, 0.1), NULL, -100);
    vv_node *mixed = vv_lerp(items[0], items[1], vv_scalar(g, weight));
    l->nodes[0] = vv_div(vv_sum_all(mixed), vv_scalar(g, BATCH));
    for (int i = 0; i < l->param_count; i++)
        leaves[i] = vv_leaf(g, l->params[i]->value);
    VV_GO(vv_graph_status(g)); /* the first thing that went wrong above */
    VV_GO(vv_grad(g, l->nodes[0], leaves, l->param_count, grads));
    for (int i = 0; i < l->param_count; i++)
        VV_GO(vv_bind_output(grads[i], l->params[i]->grad, first ? VV_BIND_ADD : VV_BIND_WRITE));
    VV_GO(vv_eval(g, l->nodes, 1 + l->param_count));
    double part;
    VV_GO(vv_node_item(l->nodes[0], &part));
    *loss += part;
out:
    for (int i = 0; i < 3; i++)
        vv_tensor_free(rows[i]);
    return status;
}

static vv_status train_step(loop *l, const vv_batch *batch, int64_t step, int64_t steps)
{
    int64_t partner[BATCH];
    double weight, norm, loss = 0.0;
    vv_rng rng = vv_rng_at(17, "own loop", (uint64_t)step);
    vv_mixup_draw(&rng, 0.2, BATCH, partner, &weight);
    VV_TRY(vv_mixup_batch(&l->mixed, &l->mix_target, batch->input, batch->target, partner, weight));
    for (int64_t first = 0; first < BATCH; first += MICROBATCH)
        VV_TRY(add_gradients(l, step, first,
                             BATCH - first < MICROBATCH ? BATCH - first : MICROBATCH, weight,
                             batch->target, &loss));
    VV_TRY(vv_clip_grad_norm(l->net, 1.0, &norm)); /* once, on the whole gradient */
    vv_optimizer_set_lr_factor(l->optimizer,
                               0.5 * (1.0 + cos(M_PI * (double)step / (double)steps)));
    VV_TRY(vv_optimizer_step(l->optimizer));
    if (step % 10 == 0)
        printf("step %lld: loss %.4f, norm %.3f\n", (long long)step, loss, norm);
    return VV_OK;
}

static vv_status train(loop *l, int64_t steps)
{
    vv_batch *batch = NULL;
    vv_module_set_training(l->net, true);
    for (int64_t step = 0; step < steps;) {
        VV_TRY(vv_loader_next(l->loaders[0], &batch));
        if (!batch) /* an epoch ends; the next call gives the next one's first */
            continue;
        vv_status status = train_step(l, batch, step++, steps);
        vv_graph_reset(l->graph); /* lets go of the batch's tensors */
        vv_batch_free(batch);
        VV_TRY(status);
    }
    return VV_OK;
}

/* Tallies add up over batches; the last, smaller one has its own weight. */
static vv_status add_batch(loop *l, vv_metric *metric, const vv_batch *batch)
{
    vv_node *nodes[VV_METRIC_NODES];
    int count;
    vv_graph_reset(l->graph);
    vv_graph_set_updates(l->graph, false);
    vv_node *output = vv_module_forward(l->net, l->graph, vv_leaf(l->graph, batch->input));
    vv_node *target = vv_leaf(l->graph, batch->target);
    VV_TRY(vv_graph_status(l->graph));
    VV_TRY(vv_metric_build(metric, output, target, nodes, &count));
    VV_TRY(vv_eval(l->graph, nodes, count));
    return vv_metric_add(metric, nodes, count);
}

static vv_status evaluate(loop *l)
{
    vv_model *model = NULL;
    vv_metric *metric = NULL;
    vv_batch *batch = NULL;
    vv_status status = VV_OK;
    double value;
    VV_GO(vv_classifier_new(&model, vv_module_keep(l->net), l->classes)); /* what a metric asks */
    VV_GO(vv_metric_make(&metric, "accuracy", model));
    vv_module_set_training(l->net, false);
    for (;;) {
        VV_GO(vv_loader_next(l->loaders[1], &batch));
        if (!batch)
            break;
        status = add_batch(l, metric, batch);
        vv_graph_reset(l->graph);
        vv_batch_free(batch);
        if (status != VV_OK)
            goto out;
    }
    VV_GO(vv_metric_value(metric, &value));
    printf("accuracy %.4f\n", value);
out:
    vv_metric_free(metric);
    vv_model_free(model);
    return status;
}

int main(int argc, char **argv)
{
    loop l = {0};
    vv_status status = VV_OK;
    VV_GO(open_data(&l, argc > 1 ? argv[1] : "synthetic"));
    VV_GO(make_model(&l));
    VV_GO(train(&l, argc > 2 ? strtol(argv[2], NULL, 10) : 100));
    VV_GO(evaluate(&l));
out:
    if (status != VV_OK)
        fprintf(stderr, "%s\n", vv_error());
    vv_graph_free(l.graph);
    vv_optimizer_free(l.optimizer);
    vv_module_free(l.net);
    vv_tensor_free(l.mixed);
    vv_tensor_free(l.mix_target);
    vv_dealloc(l.params);
    vv_dealloc(l.nodes);
    for (int i = 0; i < 2; i++) {
        vv_loader_free(l.loaders[i]);
        vv_dataset_free(l.sets[i]);
    }
    return status == VV_OK ? 0 : 1;
}
