/* test_matrix.c - the promises together, on one small run with dropout, momentum, clipping and a
 * schedule: {microbatch 1, 3, whole} x {threads 1, 2} x {fp32, amp_bf16} x {plain, methods that
 * keep state}. Across microbatches and threads the weights are equal to rounding; and each of these
 * runs, killed at random moments and started again three times, ends with the same bits in every
 * tensor of its checkpoint: weights, optimizer, averages, gradients of methods.
 *
 * Each run is a process of its own, so that threads and a kill are real. The methods are all of the
 * registry that save anything; those that exclude each other go into different sets. */
#include "unit/train/train_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <vivace/registry.h>
#include <vivace/safetensors.h>

enum { SAMPLES = 24, BATCH = 6, MOST_METHODS = 32, EVENTS = 250 };

typedef struct job {
    const char *run_dir;
    int64_t microbatch, threads, precision, set, kill_at; /* set 0 = plain; kill_at 0 = never */
} job;

/* ---- which methods ---- */

static bool exclude(const vv_method_desc *a, const vv_method_desc *b)
{
    for (int side = 0; side < 2; side++) {
        const vv_conflict *c = (side ? b : a)->conflicts;
        for (; c && c->name; c++)
            if (strcmp(c->name, (side ? a : b)->desc.name) == 0)
                return true;
    }
    return false;
}

/* Methods of set 1, 2, ...: each goes into the first set where nobody excludes it. Returns how many
   are in `set`; *sets = how many sets there are. */
static int methods_of(int64_t set, const vv_method_desc **out, int *sets)
{
    const vv_method_desc *placed[MOST_METHODS];
    int where[MOST_METHODS], count = 0, chosen = 0;
    *sets = 0;
    const vv_desc *desc;
    for (int i = 0; (desc = vv_registry_at("method", i)); i++) {
        const vv_method_desc *m = (const vv_method_desc *)(const void *)desc;
        if (!m->save)
            continue;
        assert_true(count < MOST_METHODS);
        int at = 1;
        for (bool moved = true; moved;) {
            moved = false;
            for (int k = 0; k < count; k++)
                if (where[k] == at && exclude(placed[k], m)) {
                    at++;
                    moved = true;
                }
        }
        placed[count] = m;
        where[count++] = at;
        *sets = at > *sets ? at : *sets;
        if (at == set)
            out[chosen++] = m;
    }
    return chosen;
}

/* ---- one run, in a process of its own ---- */

static int64_t countdown;

static vv_status maybe_kill(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx, (void)event, (void)state;
    if (countdown > 0 && --countdown == 0)
        kill(getpid(), SIGKILL);
    return VV_OK;
}

static int live(const job *j)
{
    tt_data data;
    const vv_method_desc *types[MOST_METHODS];
    vv_method *methods[MOST_METHODS];
    int sets, count = methods_of(j->set, types, &sets);
    vv_set_threads((int)j->threads);
    countdown = j->kill_at;
    tt_data_init(&data, SAMPLES, BATCH, true);
    for (int i = 0; i < count; i++)
        if (vv_method_new(&methods[i], types[i], NULL) != VV_OK)
            return 3;
    vv_schedule *schedules[] = {NULL, NULL};
    const vv_schedule_desc *cosine = vv_schedule_find("cosine_decay");
    if (!cosine || vv_schedule_new(&schedules[0], cosine, NULL) != VV_OK)
        return 3;
    vv_callback *callbacks[] = {tt_listen_with(maybe_kill, NULL), NULL};
    vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3};
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    o.model = tt_mlp(0.25);
    o.optimizer_desc = vv_optimizer_find("sgd");
    o.optimizer_opts = &sgd;
    o.train = data.loader;
    o.max_duration = "2ep";
    o.schedules = schedules;
    o.methods = (vv_method_list){methods, count};
    o.callbacks = callbacks;
    o.microbatch = j->microbatch;
    o.precision = (vv_precision)j->precision;
    o.grad_clip_norm = 0.5;
    o.seed = 17;
    o.run_dir = j->run_dir;
    o.save_interval = "1ba";
    o.save_keep = 2;
    o.resume = true;
    vv_trainer *trainer;
    vv_status status = vv_trainer_new(&trainer, &o);
    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    if (status != VV_OK)
        fprintf(stderr, "# %s\n", vv_error());
    vv_trainer_free(trainer);
    tt_data_fini(&data);
    return status == VV_OK ? 0 : 4;
}

static int run_job(const job *j)
{
    const int64_t values[] = {j->microbatch, j->threads, j->precision, j->set, j->kill_at};
    char numbers[5][24];
    for (int i = 0; i < 5; i++)
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)values[i]);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "live", j->run_dir, numbers[0], numbers[1], numbers[2], numbers[3],
              numbers[4], (char *)NULL);
        _exit(127);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

/* ---- comparing checkpoints ---- */

static vv_safetensors *open_last(const char *run_dir)
{
    vv_str path = {0};
    vv_safetensors *file;
    assert_ok(vv_checkpoint_latest(&path, run_dir));
    assert_ok(vv_safetensors_open(&file, vv_str_text(&path)));
    vv_str_fini(&path);
    return file;
}

static void assert_equal_files(const char *a, const char *b)
{
    vv_safetensors *x = open_last(a), *y = open_last(b);
    assert_int_equal(vv_safetensors_count(x), vv_safetensors_count(y));
    for (int i = 0; i < vv_safetensors_count(x); i++) {
        const char *name = vv_safetensors_name(x, i);
        const vv_tensor *t = vv_safetensors_tensor(x, i), *u = vv_safetensors_find(y, name);
        if (!u || t->bytes != u->bytes || memcmp(t->data, u->data, t->bytes) != 0)
            fail_msg("%s differs after being killed", name);
    }
    vv_safetensors_close(x);
    vv_safetensors_close(y);
}

/* |a - b| / |b| over the model's weights. */
static double distance(const char *a, const char *b)
{
    vv_safetensors *x = open_last(a), *y = open_last(b);
    double error = 0.0, size = 0.0;
    for (int i = 0; i < vv_safetensors_count(y); i++) {
        const char *name = vv_safetensors_name(y, i);
        if (strncmp(name, "vivace/", 7) == 0)
            continue;
        const vv_tensor *t = vv_safetensors_find(x, name), *u = vv_safetensors_tensor(y, i);
        assert_non_null(t);
        for (int64_t k = 0; k < u->count; k++) {
            double d = vv_tensor_get(t, k) - vv_tensor_get(u, k), v = vv_tensor_get(u, k);
            error += d * d;
            size += v * v;
        }
    }
    vv_safetensors_close(x);
    vv_safetensors_close(y);
    assert_true(size > 0.0);
    return sqrt(error / size);
}

/* ---- the matrix ---- */

static int lives, kills;

static void killed_three_times(job j, const char *whole, vv_rng *rng)
{
    char folder[256];
    tt_folder(folder, sizeof folder);
    j.run_dir = folder;
    for (int life = 0; life < 3; life++) {
        j.kill_at = 1 + (int64_t)(vv_rng_uniform(rng) * EVENTS / 3);
        int how = run_job(&j);
        bool killed = WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
        lives++;
        kills += killed;
        if (!killed && !(WIFEXITED(how) && WEXITSTATUS(how) == 0)) /* it may have come to its end */
            fail_msg("a life ended with %d", how);
    }
    j.kill_at = 0;
    assert_int_equal(run_job(&j), 0);
    assert_equal_files(folder, whole);
    tt_remove(folder);
}

static void test_set(int64_t set, int64_t precision, vv_rng *rng)
{
    static const int64_t microbatches[] = {0, 1, 3};
    char first[256] = "";
    /* fp32 rounds to 2^-24 of each number; bf16 to 2^-9 wherever a matmul begins */
    const double tolerance = precision == VV_PRECISION_FP32 ? 1e-5 : 1.0 / 512.0;
    for (int m = 0; m < 3; m++)
        for (int64_t threads = 1; threads <= 2; threads++) {
            char folder[256];
            tt_folder(folder, sizeof folder);
            job j = {folder, microbatches[m], threads, precision, set, 0};
            assert_int_equal(run_job(&j), 0);
            killed_three_times(j, folder, rng);
            if (!first[0]) {
                memcpy(first, folder, sizeof first);
                continue;
            }
            double d = distance(folder, first);
            if (!(d <= tolerance))
                fail_msg("set %d, precision %d, microbatch %d, threads %d: weights are %g away",
                         (int)set, (int)precision, (int)microbatches[m], (int)threads, d);
            tt_remove(folder);
        }
    tt_remove(first);
}

static void test_matrix(void **state)
{
    (void)state;
    const vv_method_desc *types[MOST_METHODS];
    int sets;
    methods_of(0, types, &sets);
    assert_true(sets >= 1);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const char *given = getenv("VV_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)now.tv_nsec;
    print_message("# VV_TEST_SEED=%llu, %d sets of methods\n", (unsigned long long)seed, sets);
    vv_rng rng = vv_rng_at(seed, "matrix", 0);
    for (int64_t set = 0; set <= sets; set++) {
        int count = methods_of(set, types, &sets);
        for (int i = 0; i < count; i++)
            print_message("# set %d: %s\n", (int)set, types[i]->desc.name);
        test_set(set, VV_PRECISION_FP32, &rng);
        test_set(set, VV_PRECISION_AMP_BF16, &rng);
    }
    print_message("# %d of %d lives were killed\n", kills, lives);
    assert_true(2 * kills > lives);
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[0], "live") == 0) {
        int64_t n[5];
        for (int i = 0; i < 5; i++)
            n[i] = strtoll(argv[2 + i], NULL, 10);
        const job j = {argv[1], n[0], n[1], n[2], n[3], n[4]};
        return live(&j);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
