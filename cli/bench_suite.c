/* bench_suite.c - `vivace bench suite`: the standard workloads, each in processes of its own, as a
 * table and as JSON; against an earlier file, or in turns with another program. */
#include "bench.h"
#include "bench_suite.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <vivace/memory.h>

#include "vvi_config.h"

typedef struct suite_opts {
    const char *only, *precisions, *out, *against;
    int64_t rounds, steps, threads;
    bool quick;
} suite_opts;

#define AT(field) offsetof(suite_opts, field)
static const vv_field suite_fields[] = {
    {.name = "only", .help = "workloads to run, comma-separated; empty = all", .type = VV_FIELD_STRING, .offset = AT(only), .fallback = ""},
    {.name = "precisions", .help = "comma-separated: fp32, bf16", .type = VV_FIELD_STRING, .offset = AT(precisions), .fallback = "fp32,bf16"},
    {.name = "quick", .help = "smaller batches and fewer steps", .type = VV_FIELD_BOOL, .offset = AT(quick), .fallback = "false"},
    {.name = "rounds", .help = "processes per workload; medians are taken over them", .type = VV_FIELD_INT, .offset = AT(rounds), .fallback = "3", .min = 1, .max = 1000},
    {.name = "steps", .help = "steps measured in each; 0 = 5, quick 3", .type = VV_FIELD_INT, .offset = AT(steps), .fallback = "0", .min = 0, .max = 1e6},
    {.name = "threads", .help = "threads; 0 = all cores", .type = VV_FIELD_INT, .offset = AT(threads), .fallback = "0", .min = 0, .max = 4096},
    {.name = "out", .help = "file for the JSON; empty = none", .type = VV_FIELD_STRING, .offset = AT(out), .fallback = ""},
    {.name = "against", .help = "an earlier file of this benchmark, or another vivace program to take turns with", .type = VV_FIELD_STRING, .offset = AT(against), .fallback = ""},
    {.name = NULL},
};
static const vv_desc suite_desc = {.kind = "benchmark",
                                   .name = "bench suite",
                                   .summary = "the standard workloads",
                                   .cite = "",
                                   .domains = "any",
                                   .fields = suite_fields,
                                   .opts_size = sizeof(suite_opts)};

static const struct {
    const char *name, *settings; /* of bench step, separated by blanks */
    int64_t batch, quick_batch;
} workloads[] = {
    {"resnet9", "model=resnet9 data=cifar10", 512, 128},
    {"resnet20", "model=resnet_cifar model_settings=depth=20 data=cifar10", 512, 128},
    {"resnet18", "model=resnet model_settings=depth=18 data=imagenet size=224", 32, 4},
    {"resnet50", "model=resnet model_settings=depth=50 data=imagenet size=224", 32, 4},
    {"gpt2-10m", "model=gpt2-10m model_settings=dropout=0,d=384,layers=6,heads=6 seq=512 vocabulary=65", 8, 2},
    {"gpt2-30m", "model=gpt2-30m model_settings=dropout=0,d=512,layers=8,heads=8 seq=512 vocabulary=8192", 4, 1},
    {"gpt2-124m", "model=gpt2-124m model_settings=dropout=0 seq=1024", 1, 1},
    {"mlp", "model=mlp model_settings=width=1024 data=mnist", 512, 128},
    {"bert-small", "model=bert-small model_settings=dropout=0 seq=128 vocabulary=30522 masked=0.15", 32, 8},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads, MOST_ARGS = 24 };

/* ---- one process ---- */

typedef struct suite {
    suite_opts opts;
    const char *program, *other; /* other: NULL = nobody to take turns with */
    json_t *all, *rows, *earlier;
} suite;

static vv_status run_one(const suite *s, const char *program, int workload, const char *precision,
                         json_t **out)
{
    char *argv[MOST_ARGS] = {NULL}, *settings, *save = NULL, batch[40], steps[40], threads[40],
         bf16[40];
    int n = 0;
    *out = NULL;
    VV_TRY(vv_strdup(&settings, workloads[workload].settings));
    char words[3][8] = {"vivace", "bench", "step"}, json[8] = "--json";
    for (int i = 0; i < 3; i++)
        argv[n++] = words[i];
    for (char *word = strtok_r(settings, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[n++] = word;
    snprintf(batch, sizeof batch, "batch=%lld",
             (long long)(s->opts.quick ? workloads[workload].quick_batch
                                       : workloads[workload].batch));
    snprintf(steps, sizeof steps, "steps=%lld",
             (long long)(s->opts.steps ? s->opts.steps : s->opts.quick ? 3 : 5));
    snprintf(threads, sizeof threads, "threads=%lld", (long long)s->opts.threads);
    snprintf(bf16, sizeof bf16, "precision=%s", strcmp(precision, "bf16") ? precision : "amp_bf16");
    argv[n++] = batch;
    argv[n++] = steps;
    argv[n++] = threads;
    argv[n++] = bf16;
    argv[n++] = json;
    vv_status status = bench_child_run(program, argv, out);
    vv_dealloc(settings);
    return status;
}

static void progress(const suite *s, int workload, const char *precision, int64_t round)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s %s, round %lld of %lld", workloads[workload].name, precision,
                (long long)round + 1, (long long)s->opts.rounds);
}

/* Rounds of one workload; with another program the two take turns, and turns in going first. */
static vv_status run_rounds(suite *s, int workload, const char *precision)
{
    json_t *row = json_object(), *mine = json_array(), *others = json_array();
    json_object_set_new(row, "name", json_string(workloads[workload].name));
    json_object_set_new(row, "precision", json_string(precision));
    json_object_set_new(row, "settings", json_string(workloads[workload].settings));
    json_object_set_new(row, "runs", mine);
    json_object_set_new(row, "other_runs", others);
    json_array_append_new(s->rows, row);
    for (int64_t round = 0; round < s->opts.rounds; round++) {
        progress(s, workload, precision, round);
        for (int turn = 0; turn < 2; turn++) {
            const bool other = turn != (int)(round % 2);
            json_t *run;
            if (other && !s->other)
                continue;
            VV_TRY(run_one(s, other ? s->other : s->program, workload, precision, &run));
            json_array_append_new(other ? others : mine, run);
        }
    }
    bench_suite_sum(row);
    return VV_OK;
}

/* ---- the whole ---- */

static bool in_list(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* A word that names nothing is a mistake, not an empty table. */
static vv_status check_words(const char *what, const char *list, const char *const *words,
                             int count)
{
    char *copy, *save = NULL;
    vv_status status = VV_OK;
    VV_TRY(vv_strdup(&copy, list));
    for (char *word = strtok_r(copy, ",", &save); word && status == VV_OK;
         word = strtok_r(NULL, ",", &save)) {
        int i = 0;
        while (i < count && strcmp(words[i], word) != 0)
            i++;
        if (i == count) {
            vv_str known = {0};
            for (int k = 0; k < count; k++)
                vv_str_addf(&known, "%s%s", k ? ", " : "", words[k]);
            status = vv_fail(VV_EINVAL, "bench suite: %s '%s' is none of %s", what, word,
                             vv_str_text(&known));
            vv_str_fini(&known);
        }
    }
    vv_dealloc(copy);
    return status;
}

static vv_status open_against(suite *s)
{
    const char *name = s->opts.against;
    json_error_t where;
    if (!name[0])
        return VV_OK;
    FILE *file = fopen(name, "r");
    if (!file)
        return vv_fail(VV_ENOTFOUND, "bench suite: against: there is no file %s", name);
    int first = fgetc(file);
    fclose(file);
    if (first != '{') {
        if (access(name, X_OK) != 0)
            return vv_fail(VV_EINVAL, "bench suite: against: %s is neither a file that this "
                                      "benchmark wrote nor a program", name);
        s->other = name;
        return VV_OK;
    }
    s->earlier = json_load_file(name, 0, &where);
    if (!json_is_array(json_object_get(s->earlier, "workloads")))
        return vv_fail(VV_EFORMAT, "bench suite: against: %s has no \"workloads\": it is no file "
                                   "of this benchmark", name);
    return VV_OK;
}

static void add_head(suite *s)
{
    char text[128];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_object_set_new(s->all, "format", json_string("vivace-bench-suite"));
    json_object_set_new(s->all, "version", json_string(VVI_VERSION));
    json_object_set_new(s->all, "at", json_string(text));
    json_object_set_new(s->all, "processor",
                        json_string(vv_processor_name(text, sizeof text)));
    json_object_set_new(s->all, "cores", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(s->all, "threads",
                        json_integer(s->opts.threads ? s->opts.threads : vv_threads()));
    json_object_set_new(s->all, "bf16_instructions", json_boolean(vv_cpu_has_bf16()));
    vv_str backend = {0};
    vv_backend_describe(vv_backend_default(), &backend);
    json_object_set_new(s->all, "backend", json_string(vv_str_text(&backend)));
    vv_str_fini(&backend);
    json_object_set_new(s->all, "quick", json_boolean(s->opts.quick));
    json_object_set_new(s->all, "workloads", s->rows);
    json_object_set_new(s->all, "skipped", json_array());
}

static void skip(suite *s, const char *name, const char *precision, const char *reason)
{
    json_t *row = json_pack("{s:s, s:s, s:s}", "name", name, "precision", precision, "reason",
                            reason);
    json_array_append_new(json_object_get(s->all, "skipped"), row);
}

static vv_status run_all(suite *s)
{
    static const char *const precisions[] = {"fp32", "bf16"};
    const char *names[WORKLOADS];
    for (int i = 0; i < WORKLOADS; i++)
        names[i] = workloads[i].name;
    VV_TRY(check_words("only:", s->opts.only, names, WORKLOADS));
    VV_TRY(check_words("precisions:", s->opts.precisions, precisions, 2));
    VV_TRY(open_against(s));
    s->all = json_object();
    s->rows = json_array();
    add_head(s);
    for (int i = 0; i < WORKLOADS; i++) {
        if (s->opts.only[0] && !in_list(s->opts.only, names[i]))
            continue;
        for (int p = 0; p < 2; p++) {
            if (!in_list(s->opts.precisions, precisions[p]))
                continue;
            if (p == 1 && !vv_cpu_has_bf16())
                skip(s, names[i], precisions[p],
                     "this CPU has no bf16 instructions (AVX512-BF16 or AMX)");
            else
                VV_TRY(run_rounds(s, i, precisions[p]));
        }
    }
    bench_suite_peaks(s->all);
    return VV_OK;
}

int bench_suite(const cli_args *args, bool json)
{
    suite s;
    char self[4096];
    vv_str out = {0};
    int code = CLI_DONE;
    memset(&s, 0, sizeof s);
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    s.program = self;
    vv_status status = bench_read_settings(&suite_desc, &s.opts, args);
    if (status == VV_OK)
        status = run_all(&s);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    if (status == VV_OK && s.opts.out[0] &&
        json_dump_file(s.all, s.opts.out, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) != 0)
        status = vv_fail(VV_EIO, "bench suite: cannot write %s", s.opts.out);
    if (status == VV_OK && json) {
        json_dumpf(s.all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(8));
        putchar('\n');
    } else if (status == VV_OK) {
        bench_suite_table(s.all, &out);
        if (s.other)
            bench_suite_turns(s.all, s.other, &out);
        if (s.earlier)
            bench_suite_against(s.all, s.earlier, s.opts.against, &out);
        status = vv_str_status(&out);
        fputs(vv_str_text(&out), stdout);
    }
    if (status != VV_OK)
        code = cli_fail();
    vv_str_fini(&out);
    if (s.all)
        json_decref(s.all);
    json_decref(s.earlier);
    vv_opts_fini(&suite_desc, &s.opts);
    return code;
}
