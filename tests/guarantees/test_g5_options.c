/* test_g5_options.c - what can be asked of checkpoints: names from a template, the newest and the
 * best by a metric, weights only, packed, an old run's folder taken over; taken apart on load; the
 * sampler's seed and batches; surgery done again. A disk that fills up leaves what was there. The
 * first step after a resume costs the same reads at any position. */
#include "resume_world.h"

#include <sched.h>
#include <sys/mount.h>

#include <vivace/runs.h>
#include <vivace/safetensors.h>

#include "vvi_config.h"

/* Names of the folder's files in order, one behind the other. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_files(const char *run_dir, char *out, size_t bytes)
{
    char folder[300], *names[64];
    int count = 0;
    snprintf(folder, sizeof folder, "%s/checkpoints", run_dir);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    const struct dirent *entry;
    while ((entry = readdir(dir)) && count < 64)
        if (entry->d_name[0] != '.')
            names[count++] = strdup(entry->d_name);
    closedir(dir);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    out[0] = '\0';
    for (int i = 0; i < count; i++) {
        snprintf(out + strlen(out), bytes - strlen(out), "%s%s", i ? " " : "", names[i]);
        free(names[i]);
    }
}

static void assert_files(const char *run_dir, const char *expected)
{
    char found[2048];
    list_files(run_dir, found, sizeof found);
    assert_string_equal(found, expected);
}

static void run_ok(world *w)
{
    world_run(w);
    if (w->status != VV_OK)
        fail_msg("the run failed: %s", vv_error());
}

/* The newest, and the two with the lowest loss, whichever they are; each evaluation that is among
   the best is saved though the interval would not. */
static void test_names_and_best(void **unused)
{
    (void)unused;
    char folder[256], expected[512] = "", link[400], target[128] = "";
    tt_folder(folder, sizeof folder);
    world w = {.run_dir = folder,
               .duration = "6ep",
               .save = "0ep",
               .save_keep = 1,
               .name = "my/run",
               .saving = {.name = "{run_name}-ep{epoch}-ba{batch}-rank{rank}",
                          .latest = "newest",
                          .keep_best = 2,
                          .best_metric = "eval/cross_entropy"}};
    run_ok(&w);
    free(w.weights.values);
    vv_curve curve;
    assert_ok(vv_curve_read(&curve, folder, "eval", "cross_entropy"));
    assert_int_equal(curve.count, 6);
    for (int i = 0; i < 6; i++) {
        int better = 0;
        for (int j = 0; j < 6; j++)
            better += curve.points[j].value < curve.points[i].value ||
                      (curve.points[j].value == curve.points[i].value && j < i);
        if (better < 2 || i == 5)
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
                     "my-run-ep%d-ba%d-rank0.safetensors ", i + 1, 5 * (i + 1));
    }
    vv_curve_fini(&curve);
    strcat(expected, "newest");
    assert_files(folder, expected);
    snprintf(link, sizeof link, "%s/checkpoints/newest", folder);
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    assert_string_equal(target, "my-run-ep6-ba30-rank0.safetensors");

    /* The same names again: it is finished; a longer one goes on, and values are remembered. */
    run_ok(&w);
    assert_int_equal(w.batches, 30);
    free(w.weights.values);
    assert_files(folder, expected);
    /* A template that the old files do not follow finds them all the same. */
    w.duration = "7ep";
    w.saving.name = "b{batch}";
    run_ok(&w);
    assert_int_equal(w.batches, 35);
    free(w.weights.values);
    tt_remove(folder);
}

static void refused(const vv_save_opts *saving, int keep, vv_status code, const char *says)
{
    char folder[256];
    tt_folder(folder, sizeof folder);
    world w = {.run_dir = folder, .duration = "1ep", .save = "1ep", .save_keep = keep,
               .saving = *saving};
    vv_error_clear();
    world_run(&w);
    assert_int_equal(w.status, code);
    assert_int_equal(w.batches, 0);
    assert_says(says);
    tt_remove(folder);
}

static void test_wrong_settings(void **unused)
{
    (void)unused;
    refused(&(vv_save_opts){.name = "ep{epocs}"}, 0, VV_EINVAL, "{epoch}");
    refused(&(vv_save_opts){.best_metric = "acuracy", .keep_best = 1}, 0, VV_ENOTFOUND,
            "eval/accuracy");
    refused(&(vv_save_opts){.keep_best = -1}, 0, VV_EINVAL, "save_keep_best");
    refused(&(vv_save_opts){.latest = "a/b"}, 0, VV_EINVAL, "save_latest");
    refused(&(vv_save_opts){.latest = "x.safetensors"}, 0, VV_EINVAL, "save_latest");
    refused(&(vv_save_opts){.name = NULL}, -1, VV_EINVAL, "save_keep");
    if (!VVI_HAVE_ZSTD)
        refused(&(vv_save_opts){.zstd = true}, 0, VV_EUNSUPPORTED, "zstd");
}

static vv_status interrupt_at(void *ctx, vv_event event, vv_state *state)
{
    if (event == VV_EVENT_BATCH_START && state->time.batch == *(const int64_t *)ctx)
        vv_trainer_interrupt(state->trainer);
    return VV_OK;
}

static void test_weights_only(void **unused)
{
    (void)unused;
    char folder[256], path[400];
    tt_folder(folder, sizeof folder);
    world w = {.run_dir = folder, .duration = "2ep", .save = "1ep",
               .saving = {.weights_only = true}};
    run_ok(&w);
    tt_weights trained = w.weights;
    snprintf(path, sizeof path, "%s/checkpoints/ep0002-ba00000010.safetensors", folder);
    vv_safetensors *file;
    assert_ok(vv_safetensors_open(&file, path));
    assert_int_equal(vv_safetensors_count(file), 4); /* two layers, and nothing beside */
    vv_safetensors_close(file);

    /* No run can go on from it, nor will it be written over unasked. */
    world_run(&w);
    assert_int_equal(w.status, VV_EEXIST);
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    vv_trainer *trainer;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.load_path = folder; /* a run's folder: its newest */
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EFORMAT);
    assert_says("load_weights_only");
    opts.model = tt_mlp(0.0);
    opts.load_weights_only = true;
    assert_ok(vv_trainer_new(&trainer, &opts));
    tt_weights loaded = tt_weights_of(trainer);
    assert_memory_equal(loaded.values, trained.values, loaded.count * sizeof(float));
    /* By hand, with a name of the same kind. */
    vv_str hand = {0};
    vv_str_addf(&hand, "%s/by-hand-{batch}.safetensors", folder);
    assert_ok(vv_trainer_save_weights(trainer, vv_str_text(&hand)));
    vv_str_fini(&hand);
    snprintf(path, sizeof path, "%s/by-hand-0.safetensors", folder);
    assert_ok(vv_safetensors_open(&file, path));
    vv_safetensors_close(file);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    free(loaded.values);
    free(trained.values);
    tt_remove(folder);

    /* Who interrupts such a run can go on all the same. */
    int64_t at = 6;
    tt_folder(folder, sizeof folder);
    w = (world){.run_dir = folder, .duration = "2ep", .save = "1ep", .listen = interrupt_at,
                .ctx = &at, .saving = {.weights_only = true}};
    world_run(&w);
    assert_int_equal(w.status, VV_EINTERRUPTED);
    free(w.weights.values);
    w.listen = NULL;
    run_ok(&w);
    assert_int_equal(w.batches, 10);
    free(w.weights.values);
    tt_remove(folder);
}

static void test_packed(void **unused)
{
    (void)unused;
    if (!VVI_HAVE_ZSTD)
        skip();
    char folder[256], whole_folder[256];
    tt_folder(folder, sizeof folder);
    tt_folder(whole_folder, sizeof whole_folder);
    world whole = {.run_dir = whole_folder, .duration = "4ep", .save = "1ep"};
    world w = {.run_dir = folder, .duration = "2ep", .save = "1ep", .save_keep = 1,
               .saving = {.zstd = true}};
    run_ok(&whole);
    run_ok(&w);
    free(w.weights.values);
    assert_files(folder, "ep0002-ba00000010.safetensors.zst latest");
    w.duration = "4ep";
    w.saving.zstd = false; /* goes on in the other form */
    run_ok(&w);
    assert_same_bits(&whole.weights, &w.weights);
    assert_files(folder, "ep0004-ba00000020.safetensors latest");
    free(w.weights.values);
    free(whole.weights.values);
    tt_remove(folder);
    tt_remove(whole_folder);
}

/* An old run's checkpoints stay until the new run has a whole one. */
static vv_status look(void *ctx, vv_event event, vv_state *state)
{
    if (event == VV_EVENT_BATCH_END && state->time.batch == 1)
        assert_files(ctx, "ep0001-ba00000005.safetensors ep0002-ba00000010.safetensors latest");
    return VV_OK;
}

static void test_overwrite(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    world w = {.run_dir = folder, .duration = "2ep", .save = "1ep"};
    run_ok(&w);
    free(w.weights.values);
    w.fresh = true;
    world_run(&w);
    assert_int_equal(w.status, VV_EEXIST);
    assert_says("save_overwrite");
    w.saving.overwrite = true;
    w.duration = "1ep";
    w.save = "2ba";
    w.listen = look;
    w.ctx = folder;
    run_ok(&w);
    free(w.weights.values);
    assert_files(folder, "ep0000-ba00000002.safetensors ep0000-ba00000004.safetensors "
                         "ep0001-ba00000005.safetensors latest");
    tt_remove(folder);
}

/* ---- taken apart on load ---- */

static float value_of(vv_trainer *trainer, const char *layer, const char *name)
{
    vv_module *module = vv_module_find(vv_trainer_state(trainer)->model->net, layer);
    assert_non_null(module);
    return ((const float *)vv_module_param(module, name)->value->data)[0];
}

static bool log_says(const char *run_dir, const char *text)
{
    char path[400], line[4096];
    snprintf(path, sizeof path, "%s/log.jsonl", run_dir);
    FILE *file = fopen(path, "r");
    bool found = false;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        found = found || strstr(line, text);
    fclose(file);
    return found;
}

static void test_partial(void **unused)
{
    (void)unused;
    char folder[256], other[256];
    tt_folder(folder, sizeof folder);
    tt_folder(other, sizeof other);
    world w = {.run_dir = folder, .duration = "1ep", .save = "1ep"};
    run_ok(&w);
    free(w.weights.values);
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = train.loader;
    opts.load_path = folder;
    vv_trainer *trainer, *plain;
    opts.model = tt_mlp(0.0);
    assert_ok(vv_trainer_new(&trainer, &opts)); /* everything */
    opts.load_path = NULL;
    opts.model = tt_mlp(0.0);
    assert_ok(vv_trainer_new(&plain, &opts)); /* nothing */
    const float trained = value_of(trainer, "3", "weight"), own = value_of(plain, "3", "weight");
    const float body = value_of(trainer, "0", "weight");
    assert_true(trained != own);
    assert_int_equal(vv_trainer_state(trainer)->time.batch, 5);
    vv_trainer_free(trainer);
    vv_trainer_free(plain);

    opts.load_path = folder;
    opts.run_dir = other;
    opts.max_duration = "2ep";
    opts.load.ignore = "state/model/3.*, time, optimizer/3.*, nothing/*";
    opts.model = tt_mlp(0.0);
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_true(value_of(trainer, "3", "weight") == own);
    assert_true(value_of(trainer, "0", "weight") == body);
    assert_int_equal(vv_trainer_state(trainer)->time.batch, 0);
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    assert_true(log_says(other, "nothing/*"));
    assert_false(log_says(other, "\\\"time\\\" matches nothing"));
    assert_true(log_says(other, "method averager, which this run does not have"));

    /* Another optimizer: refused, unless its state is left out. */
    opts.run_dir = NULL;
    opts.optimizer_desc = vv_optimizer_find("adam");
    opts.optimizer_opts = NULL;
    opts.load.ignore = NULL;
    opts.model = tt_mlp(0.0);
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("load_ignore: optimizer");
    opts.load.ignore = "optimizer";
    opts.model = tt_mlp(0.0);
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_int_equal(vv_trainer_state(trainer)->time.batch, 5);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_remove(folder);
    tt_remove(other);
}

/* A resumed run takes the checkpoint's seeds, for the order of samples too; batches of another size
   are refused in the middle of an epoch. */
static void test_sampler(void **unused)
{
    (void)unused;
    char folder[256], whole_folder[256];
    tt_folder(folder, sizeof folder);
    tt_folder(whole_folder, sizeof whole_folder);
    world whole = {.run_dir = whole_folder, .duration = "3ep", .save = "1ba"};
    world w = {.run_dir = folder, .duration = "8ba", .save = "1ba"};
    run_ok(&whole);
    run_ok(&w);
    free(w.weights.values);
    w.duration = "3ep";
    w.seed = 99;
    run_ok(&w);
    assert_same_bits(&whole.weights, &w.weights);
    assert_true(log_says(folder, "seed replaces the run's"));
    free(w.weights.values);
    free(whole.weights.values);

    tt_data train;
    vv_trainer *trainer;
    char path[400];
    snprintf(path, sizeof path, "%s/checkpoints/ep0001-ba00000007.safetensors", folder);
    tt_data_init(&train, 10, 5, true);
    vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = &sgd;
    opts.train = train.loader;
    opts.load_path = path;
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("middle of an epoch of 5 batches of 2 samples");
    tt_data_fini(&train);
    tt_remove(folder);
    tt_remove(whole_folder);
}

/* ---- the cost of the first step ---- */

typedef struct counted {
    vv_dataset *inner;
    int64_t reads;
} counted;

static vv_status read_counted(vv_dataset *set, int64_t index, void *input, void *target)
{
    counted *self = set->self;
    self->reads++;
    return vv_dataset_read(self->inner, index, input, target);
}

static vv_status stop_after_one(void *ctx, vv_event event, vv_state *state)
{
    int64_t *reads = ctx;
    const counted *self = vv_loader_dataset(state->train_loader)->self;
    if (event == VV_EVENT_BATCH_END) {
        *reads = self->reads;
        vv_trainer_interrupt(state->trainer);
    }
    return VV_OK;
}

static void test_cost_of_resuming(void **unused)
{
    (void)unused;
    static const vv_dataset_class type = {.read = read_counted};
    const char *const positions[] = {"3ba", "197ba", "1803ba"}; /* of 2000, 20 an epoch */
    int64_t first = -1;
    for (int i = 0; i < 3; i++) {
        char folder[256];
        tt_folder(folder, sizeof folder);
        for (int life = 0; life < 2; life++) {
            tt_data data;
            tt_data_init(&data, 40, 2, true);
            counted self = {data.set, 0};
            vv_dataset set = *data.set;
            set.type = &type;
            set.inputs = set.targets = NULL;
            set.self = &self;
            vv_loader *loader;
            vv_loader_opts how = VV_LOADER_DEFAULTS;
            how.batch_size = 2;
            how.shuffle = true;
            how.workers = 0;
            assert_ok(vv_loader_new(&loader, &set, &how));
            int64_t reads = -1;
            vv_callback *callbacks[] = {life ? tt_listen_with(stop_after_one, &reads) : NULL, NULL};
            vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
            opts.model = tt_mlp(0.0);
            opts.train = loader;
            opts.max_duration = life ? "2000ba" : positions[i];
            opts.callbacks = callbacks;
            opts.run_dir = folder;
            opts.save_interval = "0ba";
            opts.resume = true;
            opts.backend = vv_backend_find("ref");
            vv_trainer *trainer;
            assert_ok(vv_trainer_new(&trainer, &opts));
            vv_status status = vv_trainer_fit(trainer);
            assert_int_equal(status, life ? VV_EINTERRUPTED : VV_OK);
            vv_trainer_free(trainer);
            if (life) {
                assert_true(reads > 0);
                first = first < 0 ? reads : first;
                assert_int_equal(reads, first);
            }
            vv_loader_free(loader);
            tt_data_fini(&data);
        }
        tt_remove(folder);
    }
}

/* ---- a small disk ---- */

static char small_disk[256];

/* Leaves less than a checkpoint needs. */
static void fill_up(void)
{
    char path[400], block[4096] = {0};
    snprintf(path, sizeof path, "%s/filler", small_disk);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    setvbuf(file, NULL, _IONBF, 0);
    while (fwrite(block, 1, sizeof block, file) == sizeof block)
        ;
    fclose(file);
}

static vv_status fill_at_three(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    if (event == VV_EVENT_BATCH_START && state->time.batch == 2)
        fill_up();
    return VV_OK;
}

/* In a process of its own, whose mounts nobody else sees: 0 = as it should be, 77 = not allowed. */
static int live_on_small_disk(const char *folder)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", folder, "tmpfs", 0, "size=256k"))
        return 77;
    char run_dir[300], inner[320], filler[300];
    snprintf(small_disk, sizeof small_disk, "%.200s", folder);
    snprintf(run_dir, sizeof run_dir, "%.200s/run", folder);
    snprintf(filler, sizeof filler, "%.200s/filler", folder);
    snprintf(inner, sizeof inner, "%.300s/checkpoints/latest", run_dir);
    world w = {.run_dir = run_dir, .duration = "6ba", .save = "1ba", .listen = fill_at_three};
    world_run(&w);
    free(w.weights.values);
    if (w.status != VV_EIO || w.batches > 3)
        return 1;
    vv_str out = {0}; /* whole files, and a link to one of them */
    int wrong = -1;
    if (vv_checkpoint_verify(&out, &wrong, run_dir) != VV_OK || wrong != 0 || access(inner, R_OK))
        return 2;
    vv_str_fini(&out);
    /* Known before step 0 the next time. */
    vv_error_clear();
    w.listen = NULL;
    w.batches = 0;
    world_run(&w);
    if (w.status != VV_EIO || w.batches != 0 || !strstr(vv_error(), "no room for a checkpoint"))
        return 3;
    unlink(filler);
    world_run(&w);
    free(w.weights.values);
    return w.status == VV_OK && w.batches == 6 ? 0 : 4;
}

static void test_small_disk(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "life", "small disk", folder, (char *)NULL);
        _exit(127);
    }
    int how = life_end(child);
    tt_remove(folder);
    assert_true(WIFEXITED(how));
    if (WEXITSTATUS(how) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(how), 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "small disk") == 0)
        return live_on_small_disk(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_best),   cmocka_unit_test(test_wrong_settings),
        cmocka_unit_test(test_weights_only),     cmocka_unit_test(test_packed),
        cmocka_unit_test(test_overwrite),        cmocka_unit_test(test_partial),
        cmocka_unit_test(test_sampler),          cmocka_unit_test(test_cost_of_resuming),
        cmocka_unit_test(test_small_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
