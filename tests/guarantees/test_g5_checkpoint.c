/* test_g5_checkpoint.c - guarantee G5 (case B29): a checkpoint is whole or absent. Processes killed
 * (SIGKILL) at random moments while they save: every file under its final name verifies, "latest"
 * names one of them, the run resumes. A damaged newest checkpoint is told and skipped. A folder
 * that cannot be written to fails before step 0. A full disk is a loud error that leaves the old
 * checkpoint intact. The newest N are kept. Weights lie under their plain names. */
#include "resume_world.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include <vivace/safetensors.h>

/* Every "*.safetensors" of the folder opens; returns how many there are. */
static int verify_all(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        const char *end = strstr(entry->d_name, ".safetensors");
        if (!end || strcmp(end, ".safetensors") != 0)
            continue;
        char path[600];
        vv_safetensors *file;
        snprintf(path, sizeof path, "%.300s/%.200s", folder, entry->d_name);
        assert_ok(vv_safetensors_open(&file, path));
        vv_safetensors_close(file);
        count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

/* The file that "latest" names; "" if there is no such pointer. */
static void read_latest(const char *folder, char *name, size_t bytes)
{
    char path[400];
    snprintf(path, sizeof path, "%s/latest", folder);
    ssize_t length = readlink(path, name, bytes - 1);
    name[length > 0 ? length : 0] = '\0';
}

/* Until "latest" has moved (a new life has begun to save), for at most 5 seconds. */
static void wait_for_saves(const char *folder)
{
    char before[128], now[128];
    read_latest(folder, before, sizeof before);
    for (int i = 0; i < 5000; i++) {
        usleep(1000);
        read_latest(folder, now, sizeof now);
        if (strcmp(before, now) != 0)
            return;
    }
}

static int lives = 25;

static void test_killed_while_saving(void **unused)
{
    (void)unused;
    uint64_t seed = (uint64_t)getpid() * 2654435761u + (uint64_t)(vv_clock() * 1e6);
    print_message("# seed of the random moments: %" PRIu64 "\n", seed);
    vv_rng rng = vv_rng_at(seed, "kill", 1);
    char folder[256], inner[300], name[128], path[500];
    tt_folder(folder, sizeof folder);
    snprintf(inner, sizeof inner, "%s/checkpoints", folder);
    int killed = 0;
    /* Saves after each of 20000 batches, far more than it lives to see. */
    world w = {.run_dir = folder, .duration = "20000ba", .save = "1ba", .save_keep = 3};
    for (int life = 0; life < lives; life++) {
        pid_t child = life_start(&w, "plain", 0, 0, 0);
        wait_for_saves(inner);
        struct timespec wait = {0, (long)vv_rng_below(&rng, 20000000)};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        int how = life_end(child);
        if (WIFEXITED(how) && WEXITSTATUS(how) != 0)
            fail_msg("life %d could not resume", life);
        killed += WIFSIGNALED(how);

        int count = verify_all(inner);
        read_latest(inner, name, sizeof name);
        if (name[0]) {
            vv_safetensors *file;
            snprintf(path, sizeof path, "%s/%s", inner, name);
            assert_ok(vv_safetensors_open(&file, path));
            vv_safetensors_close(file);
        }
        assert_true(count <= 4); /* 3, and the one whose elder was not yet removed */
    }
    assert_int_equal(killed, lives);
    assert_true(verify_all(inner) > 0);
    tt_remove(folder);
}

static vv_status note_start(void *ctx, vv_event event, vv_state *state)
{
    if (event == VV_EVENT_AFTER_LOAD)
        *(int64_t *)ctx = state->time.batch;
    return VV_OK;
}

static void test_damaged_newest(void **unused)
{
    (void)unused;
    char folder[256], path[400], line[4096];
    tt_folder(folder, sizeof folder);
    world w = {.run_dir = folder, .duration = "6ba", .save = "1ba"};
    world_run(&w);
    assert_int_equal(w.status, VV_OK);
    tt_weights expected = w.weights;
    snprintf(path, sizeof path, "%s/checkpoints/ep0001-ba00000006.safetensors", folder);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    FILE *file = fopen(path, "r+b"); /* one bit of the data */
    assert_non_null(file);
    fseek(file, -3, SEEK_END);
    int byte = fgetc(file);
    fseek(file, -3, SEEK_END);
    fputc(byte ^ 4, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/checkpoints/ep0001-ba00000005.safetensors", folder);
    assert_int_equal(truncate(path, info.st_size / 2), 0);

    int64_t started = -1;
    w.listen = note_start;
    w.ctx = &started;
    world_run(&w);
    assert_int_equal(w.status, VV_OK);
    assert_int_equal(started, 4);
    assert_same_bits(&expected, &w.weights);
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    file = fopen(path, "r");
    int told = 0;
    while (fgets(line, sizeof line, file))
        told += strstr(line, "checkpoint skipped") != NULL;
    fclose(file);
    assert_int_equal(told, 2);
    free(expected.values);
    free(w.weights.values);
    tt_remove(folder);
}

static int was_refused(const world *w)
{
    return w->status == VV_EIO && strstr(vv_error(), "run folder") && w->batches == 0 ? 0 : 6;
}

static void test_read_only(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    assert_int_equal(chmod(folder, 0555), 0);
    world w = {.run_dir = folder, .duration = "6ba", .save = "1ba"};
    int how = life_end(life_start(&w, "refused", 0, 0, 0));
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    chmod(folder, 0755);
    tt_remove(folder);

    w.run_dir = "/dev/null/run";
    vv_error_clear();
    world_run(&w);
    assert_int_not_equal(w.status, VV_OK);
    assert_int_equal(w.batches, 0);
    assert_says("/dev/null");
}

/* What can be known fails before step 0: a process that may not write files so large. */
static void test_limited(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    world w = {.run_dir = folder, .duration = "6ba", .save = "1ba"};
    int how = life_end(life_start(&w, "limited", 0, 0, 0));
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    tt_remove(folder);
}

static int was_limited(const world *w)
{
    return w->status == VV_EIO && strstr(vv_error(), "no room for a checkpoint") &&
                   strstr(vv_error(), "ulimit") && w->batches == 0
               ? 0
               : 6;
}

/* A limit on the size of files stands for a full disk: log lines fit, the checkpoint does not. */
static vv_status fill_disk(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    if (event == VV_EVENT_BATCH_END && state->time.batch == 3) {
        struct rlimit limit = {3000, 3000};
        signal(SIGXFSZ, SIG_IGN); /* the write then fails with EFBIG */
        if (setrlimit(RLIMIT_FSIZE, &limit))
            _exit(7);
    }
    return VV_OK;
}

static int was_loud(const world *w)
{
    return w->status == VV_EIO && strstr(vv_error(), "ba00000003.safetensors") ? 0 : 6;
}

static void test_full_disk(void **unused)
{
    (void)unused;
    char folder[256], inner[300], name[128];
    tt_folder(folder, sizeof folder);
    snprintf(inner, sizeof inner, "%s/checkpoints", folder);
    world w = {.run_dir = folder, .duration = "6ba", .save = "1ba"};
    int how = life_end(life_start(&w, "full disk", 0, 0, 0));
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_int_equal(verify_all(inner), 2);
    read_latest(inner, name, sizeof name);
    assert_string_equal(name, "ep0000-ba00000002.safetensors");

    char whole_folder[256]; /* and with room again the run goes on as if nothing had been */
    tt_folder(whole_folder, sizeof whole_folder);
    world whole = {.run_dir = whole_folder, .duration = "6ba", .save = "1ba"};
    world again = {.run_dir = folder, .duration = "6ba", .save = "1ba"};
    world_run(&whole);
    world_run(&again);
    assert_int_equal(again.status, VV_OK);
    assert_same_bits(&whole.weights, &again.weights);
    free(whole.weights.values);
    free(again.weights.values);
    tt_remove(folder);
    tt_remove(whole_folder);
}

static void test_rotation(void **unused)
{
    (void)unused;
    for (int keep = 0; keep <= 4; keep++) {
        char folder[256], inner[300], name[128];
        tt_folder(folder, sizeof folder);
        snprintf(inner, sizeof inner, "%s/checkpoints", folder);
        world w = {.run_dir = folder, .duration = "6ba", .save = "1ba", .save_keep = keep};
        world_run(&w);
        assert_int_equal(w.status, VV_OK);
        assert_int_equal(verify_all(inner), keep ? keep : 6);
        read_latest(inner, name, sizeof name);
        assert_string_equal(name, "ep0001-ba00000006.safetensors");
        free(w.weights.values);
        tt_remove(folder);
    }
}

static void test_content(void **unused)
{
    (void)unused;
    char folder[256], path[400];
    tt_folder(folder, sizeof folder);
    world w = {.run_dir = folder, .duration = "1ep", .save = "1ep"};
    world_run(&w);
    free(w.weights.values);
    snprintf(path, sizeof path, "%s/checkpoints/ep0001-ba00000005.safetensors", folder);
    vv_safetensors *file;
    assert_ok(vv_safetensors_open(&file, path));
    assert_non_null(vv_safetensors_find(file, "0.weight"));
    assert_non_null(vv_safetensors_find(file, "3.bias"));
    assert_non_null(vv_safetensors_find(file, "vivace/optimizer/0.weight.momentum_buffer"));
    assert_non_null(vv_safetensors_find(file, "vivace/method/averager/average"));
    assert_non_null(strstr(vv_safetensors_text(file, "vivace.state"), "\"batch\":5"));
    vv_safetensors_close(file);

    /* Weights only: a new run that starts from them, at time 0. */
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.load_path = path;
    opts.load_weights_only = true;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_int_equal(vv_trainer_state(trainer)->time.batch, 0);
    vv_trainer_free(trainer);
    /* Everything: the optimizer must be the one that made it, and methods' state is told about. */
    opts.model = tt_mlp(0.0);
    opts.load_weights_only = false;
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("optimizer sgd");
    /* An old run's folder is not overwritten by a new one. */
    opts = (vv_trainer_opts)VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.run_dir = folder;
    opts.save_interval = "1ep";
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EEXIST);
    tt_data_fini(&train);
    tt_remove(folder);
}

static const life_kind kinds[] = {
    {"plain", NULL, NULL},
    {"refused", NULL, was_refused},
    {"full disk", fill_disk, was_loud},
    {"limited", NULL, was_limited},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc == LIFE_ARGC) {
        /* Root may write anywhere. */
        if (strcmp(argv[5], "refused") == 0 && geteuid() == 0 && setuid(65534))
            return 5;
        if (strcmp(argv[5], "limited") == 0) {
            const struct rlimit limit = {1000, 1000};
            if (setrlimit(RLIMIT_FSIZE, &limit))
                return 5;
        }
        return life_main(argv, kinds);
    }
    if (argc == 2) { /* so many lives and nothing else: the slow suite */
        const struct CMUnitTest kills[] = {cmocka_unit_test(test_killed_while_saving)};
        lives = (int)strtol(argv[1], NULL, 10);
        return cmocka_run_group_tests(kills, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_while_saving), cmocka_unit_test(test_damaged_newest),
        cmocka_unit_test(test_read_only),           cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_limited),
        cmocka_unit_test(test_rotation),            cmocka_unit_test(test_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
