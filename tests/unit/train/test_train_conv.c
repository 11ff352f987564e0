/* test_train_conv.c - conv: auto times the kernels of convolutions before step 0 and takes the
 * fastest, per shapes and pass; the plan tells them, a checkpoint holds them, and a run that goes
 * on takes those and times nothing, even where another kernel would win by then; rule, direct and
 * winograd time nothing; lines that are no choices are refused; all kernels agree. */
#include "train_test.h"

#include <vivace/ext/backend.h>

#include "train/trainer_impl.h"

enum { SIDE = 4, CHANNELS = 2, SAMPLES = 8, BATCH = 4 };

/* ---- a backend with two kernels for each convolution, one of which dawdles ---- */

static const char *slow = "second";
static int slow_runs;

static vv_status run_as(const vv_call *call, const char *name)
{
    if (!strcmp(name, slow)) {
        slow_runs++;
        for (double start = vv_clock(); vv_clock() - start < 2e-3;)
            ;
    }
    return vv_backend_find("ref")->kernels[call->op]->run(call);
}

static vv_status run_first(const vv_call *call)
{
    return run_as(call, "first");
}

static vv_status run_second(const vv_call *call)
{
    return run_as(call, "second");
}

static bool accepts(const vv_call *call)
{
    return call->in[0].dtype == VV_F32;
}

static const vv_kernel two[] = {{"first", accepts, NULL, run_first, NULL, 0},
                                {"second", accepts, NULL, run_second, NULL, 0},
                                {0}};

static const vv_backend *dawdler(void)
{
    static vv_backend backend;
    backend = *vv_backend_find("ref");
    for (int op = VV_OP_CONV2D; op <= VV_OP_CONV2D_GRAD_WEIGHT; op++) {
        assert_null(backend.kernels[op]->prepare); /* run_as passes no state on */
        backend.kernels[op] = two;
    }
    backend.next = vv_backend_find("ref");
    return &backend;
}

/* ---- a run of two convolutions ---- */

static vv_model *conv_net(void)
{
    vv_module *net, *layer;
    vv_model *model;
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    conv.pad[0] = conv.pad[1] = 1;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, CHANNELS, 3, 3, &conv, false);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_conv2d_new(&layer, 3, 3, 3, &conv, false);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 3 * SIDE * SIDE, TT_CLASSES, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 5));
    assert_ok(vv_classifier_new(&model, net, TT_CLASSES));
    return model;
}

static void image_data(tt_data *data)
{
    vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 3,
                           .input_shape = {SIDE, SIDE, CHANNELS}, .classes = TT_CLASSES};
    float inputs[SAMPLES * SIDE * SIDE * CHANNELS];
    int32_t targets[SAMPLES];
    vv_rng rng = vv_rng_at(7, "test data", 0);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        inputs[i] = (float)vv_rng_normal(&rng);
    for (int i = 0; i < SAMPLES; i++)
        targets[i] = i % TT_CLASSES;
    assert_ok(vv_dataset_from_arrays(&data->set, &spec, SAMPLES, inputs, targets));
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    opts.batch_size = BATCH;
    opts.workers = 0;
    assert_ok(vv_loader_new(&data->loader, data->set, &opts));
}

typedef struct run {
    tt_data data;
    vv_trainer *trainer;
} run;

static void open_run(run *r, vv_conv_choice conv, const char *run_dir, const char *duration)
{
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    image_data(&r->data);
    opts.model = conv_net();
    opts.train = r->data.loader;
    opts.backend = dawdler();
    opts.conv = conv;
    opts.run_dir = run_dir;
    opts.max_duration = duration;
    opts.save_interval = run_dir ? "1ep" : NULL;
    opts.resume = true;
    assert_ok(vv_trainer_new(&r->trainer, &opts));
}

static void close_run(run *r)
{
    vv_trainer_free(r->trainer);
    tt_data_fini(&r->data);
}

static void choices(const run *r, vv_str *out)
{
    vv_graph_conv_choices(r->trainer->graph, out);
    assert_ok(vv_str_status(out));
}

/* Lines that end in `name`. */
static int count_of(const vv_str *lines, const char *name)
{
    char ending[32];
    int count = 0;
    snprintf(ending, sizeof ending, " = %s\n", name);
    for (const char *at = vv_str_text(lines); (at = strstr(at, ending)); at++)
        count++;
    return count;
}

/* ---- tests ---- */

static void the_fastest_is_taken(void **state)
{
    (void)state;
    const char *const names[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        vv_str found = {0}, plan = {0};
        run r;
        slow = names[i];
        open_run(&r, VV_CONV_AUTO, NULL, "1ep");
        choices(&r, &found);
        /* two forward, one for data (nobody asks for the images' own), two for weights */
        assert_int_equal(count_of(&found, names[1 - i]), 5);
        assert_int_equal(count_of(&found, names[i]), 0);
        assert_ok(vv_trainer_plan(r.trainer, &plan));
        assert_non_null(strstr(vv_str_text(&plan), "by timed trials"));
        assert_non_null(strstr(vv_str_text(&plan), "conv2d_grad_weight f32[4,4,4,2]"));
        slow_runs = 0;
        assert_ok(vv_trainer_fit(r.trainer));
        assert_int_equal(slow_runs, 0); /* and nothing is timed again */
        vv_str_fini(&found);
        vv_str_fini(&plan);
        close_run(&r);
    }
}

static void a_run_goes_on_with_its_kernels(void **state)
{
    (void)state;
    char dir[256];
    vv_str before = {0}, after = {0};
    run r;
    tt_folder(dir, sizeof dir);
    slow = "first";
    open_run(&r, VV_CONV_AUTO, dir, "1ep");
    assert_ok(vv_trainer_fit(r.trainer));
    choices(&r, &before);
    close_run(&r);
    assert_int_equal(count_of(&before, "second"), 5);

    slow = "second"; /* would lose now */
    slow_runs = 0;
    open_run(&r, VV_CONV_AUTO, dir, "2ep");
    choices(&r, &after);
    assert_string_equal(vv_str_text(&after), vv_str_text(&before));
    assert_int_equal(slow_runs, 0);
    assert_ok(vv_trainer_fit(r.trainer));
    assert_true(slow_runs > 0);
    close_run(&r);
    vv_str_fini(&before);
    vv_str_fini(&after);
    tt_remove(dir);
}

static void others_time_nothing(void **state)
{
    (void)state;
    const vv_conv_choice kinds[] = {VV_CONV_RULE, VV_CONV_DIRECT, VV_CONV_WINOGRAD};
    for (int i = 0; i < 3; i++) {
        vv_str found = {0};
        run r;
        slow = "second";
        slow_runs = 0;
        open_run(&r, kinds[i], NULL, "1ep");
        assert_ok(vv_trainer_fit(r.trainer));
        choices(&r, &found);
        assert_int_equal(found.length, 0);
        assert_int_equal(slow_runs, 0);
        vv_str_fini(&found);
        close_run(&r);
    }
}

static void other_lines_are_refused(void **state)
{
    (void)state;
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_str found = {0};
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    assert_fails(vv_graph_set_conv_choices(g, "conv2d f32[1] is fast"), VV_EFORMAT);
    assert_says("SHAPES");
    assert_ok(vv_graph_set_conv_choices(g, "a = b\nc d = e f\n"));
    vv_graph_conv_choices(g, &found);
    assert_string_equal(vv_str_text(&found), "a = b\nc d = e f\n");
    vv_str_fini(&found);
    vv_graph_free(g);
}

/* Winograd, direct and by trial: the same gradients, but for rounding. */
static void kernels_agree(void **state)
{
    (void)state;
    enum { C = 8, N = 2, S = 8 };
    const int64_t xs[4] = {N, S, S, C}, ws[4] = {C, C, 3, 3};
    const vv_conv_choice kinds[] = {VV_CONV_DIRECT, VV_CONV_WINOGRAD, VV_CONV_AUTO};
    float first[C * C * 9];
    vv_tensor *x, *w;
    assert_ok(vv_tensor_new(&x, VV_F32, 4, xs));
    assert_ok(vv_tensor_new(&w, VV_F32, 4, ws));
    vv_rng rng = vv_rng_at(3, "kernels", 0);
    for (int64_t i = 0; i < x->count; i++)
        ((float *)x->data)[i] = (float)vv_rng_normal(&rng);
    for (int64_t i = 0; i < w->count; i++)
        ((float *)w->data)[i] = (float)vv_rng_normal(&rng);
    for (int k = 0; k < 3; k++) {
        vv_graph_opts opts = VV_GRAPH_DEFAULTS;
        vv_conv_opts conv = VV_CONV_DEFAULTS;
        vv_graph *g;
        vv_node *leaf, *grad;
        const vv_tensor *value;
        conv.pad[0] = conv.pad[1] = 1;
        opts.conv = kinds[k];
        assert_ok(vv_graph_new(&g, &opts));
        leaf = vv_leaf(g, w);
        assert_ok(vv_grad(g, vv_sum_all(vv_square(vv_conv2d(vv_leaf(g, x), leaf, NULL, &conv))),
                          &leaf, 1, &grad));
        assert_ok(vv_node_value(grad, &value));
        for (int i = 0; i < C * C * 9; i++) {
            float got = ((const float *)value->data)[i];
            if (k == 0)
                first[i] = got;
            else
                assert_float_equal(got, first[i], 1e-2);
        }
        vv_graph_free(g);
    }
    vv_tensor_free(x);
    vv_tensor_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_is_taken),
        cmocka_unit_test(a_run_goes_on_with_its_kernels),
        cmocka_unit_test(others_time_nothing),
        cmocka_unit_test(other_lines_are_refused),
        cmocka_unit_test(kernels_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
