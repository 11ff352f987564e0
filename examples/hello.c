/* hello.c - the smallest program: one training step of a small network on random data. */
#include <stdio.h>

#include <vivace/vivace.h>

int main(void)
{
    vv_module *net;
    vv_graph *graph;
    vv_mlp_opts opts = VV_MLP_DEFAULTS;
    float pixels[32 * 8];
    int32_t classes[32];
    double loss;
    vv_rng rng = vv_rng_at(1, "hello", 0);
    for (int i = 0; i < 32; i++) {
        classes[i] = (int32_t)vv_rng_below(&rng, 3);
        for (int k = 0; k < 8; k++)
            pixels[i * 8 + k] = (float)(vv_rng_uniform(&rng) + classes[i]);
    }
    if (vv_mlp_new(&net, 8, 3, &opts) || vv_module_init_default(net, 1) ||
        vv_graph_new(&graph, NULL)) {
        fprintf(stderr, "%s\n", vv_error());
        return 1;
    }
    vv_node *x = vv_data(graph, VV_F32, 2, (const int64_t[]){32, 8}, pixels);
    vv_node *y = vv_data(graph, VV_I32, 1, (const int64_t[]){32}, classes);
    vv_node *items = vv_cross_entropy(vv_module_forward(net, graph, x), y, NULL, -100); /* [N] */
    vv_node *mean = vv_mean_all(items);
    if (vv_node_item(mean, &loss)) { /* reading a value runs the step */
        fprintf(stderr, "%s\n", vv_error());
        return 1;
    }
    printf("%lld parameters, loss %.3f (guessing: 1.099)\n", (long long)vv_module_param_count(net),
           loss);
    vv_graph_free(graph);
    vv_module_free(net);
    return 0;
}
