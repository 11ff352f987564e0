/* cmd_runs.c - `vivace runs`: the run store on the command line. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vivace/run_store.h>

/* ---- list ---- */

typedef struct listing {
    vv_run_store *store;
    const char *dataset, *model, *status;
    int count, hidden;
} listing;

typedef struct final { /* the metric that says most, of the last evaluation */
    char name[64];
    double value;
} final;

static bool keep_final(void *ctx, const vv_run_eval *eval)
{
    final *f = ctx;
    const bool first = !f->name[0] || strcmp(f->name, eval->metric) == 0;
    if (first || strcmp(eval->metric, "accuracy") == 0) {
        snprintf(f->name, sizeof f->name, "%s", eval->metric);
        f->value = eval->value;
    }
    return true;
}

static bool add_name(void *ctx, const vv_run_method *method)
{
    vv_str *names = ctx;
    vv_str_addf(names, "%s%s", names->length ? "," : "", method->name);
    return true;
}

static void print_time(double seconds)
{
    if (!isfinite(seconds))
        printf("%9s", "-");
    else if (seconds < 6000.0)
        printf("%8.1fs", seconds);
    else
        printf("%8.2fh", seconds / 3600.0);
}

static bool list_run(void *ctx, const vv_run_row *row)
{
    listing *l = ctx;
    final f = {"", (double)NAN};
    vv_str names = {0};
    if ((l->dataset && strcmp(l->dataset, row->dataset) != 0) ||
        (l->model && strcmp(l->model, row->model) != 0) ||
        (l->status && strcmp(l->status, row->status) != 0)) {
        l->hidden++;
        return true;
    }
    if (l->count++ == 0)
        printf("%-34s %-11s %-14s %-14s %9s %10s %-22s %s\n", "id", "status", "dataset", "model",
               "trained", "usd", "quality", "methods");
    bool ok = vv_run_store_evals(l->store, row->id, keep_final, &f) == VV_OK &&
              vv_run_store_methods(l->store, row->id, add_name, &names) == VV_OK;
    printf("%-34s %-11s %-14s %-14s ", row->id, row->status, row->dataset, row->model);
    print_time(row->train_seconds);
    if (isfinite(row->usd))
        printf(" %s%9.4f", row->estimated ? "~" : " ", row->usd);
    else
        printf(" %10s", "-");
    if (isfinite(f.value))
        printf(" %.13s %-8.4f", f.name, f.value);
    else
        printf(" %-22s", "-");
    printf(" %s\n", names.length ? vv_str_text(&names) : "-");
    vv_str_fini(&names);
    return ok;
}

static vv_status list(vv_run_store *store, const cli_args *args, bool json)
{
    listing l = {.store = store};
    for (int i = 0; i < args->override_count; i++) {
        const char *value = strchr(args->overrides[i], '=') + 1;
        if (strncmp(args->overrides[i], "dataset=", 8) == 0)
            l.dataset = value;
        else if (strncmp(args->overrides[i], "model=", 6) == 0)
            l.model = value;
        else if (strncmp(args->overrides[i], "status=", 7) == 0)
            l.status = value;
        else
            return vv_fail(VV_EINVAL, "%s: runs are chosen by dataset=, model= and status=",
                           args->overrides[i]);
    }
    if (json) {
        vv_str text = {0};
        vv_status status = vv_run_store_export_json(store, false, &text);
        if (status == VV_OK)
            fputs(vv_str_text(&text), stdout);
        vv_str_fini(&text);
        return status;
    }
    VV_TRY(vv_run_store_each(store, list_run, &l));
    printf("%d runs%s\n", l.count, l.hidden ? " (others left out as asked)" : "");
    return VV_OK;
}

/* ---- show ---- */

static void print_date(const char *what, double seconds)
{
    char text[64];
    time_t when = (time_t)seconds;
    struct tm utc;
    if (isfinite(seconds) && gmtime_r(&when, &utc) &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc))
        printf("%-20s %s\n", what, text);
}

#define SHOW_t(name)                                  \
    if (row->name[0] && strcmp(#name, "recipe") != 0) \
        printf("%-20s %s\n", #name, row->name);
#define SHOW_i(name)     \
    if (row->name != -1) \
        printf("%-20s %lld\n", #name, (long long)row->name);
#define SHOW_r(name)                                                    \
    if (strcmp(#name, "started") == 0 || strcmp(#name, "ended") == 0 || \
        strcmp(#name, "seen") == 0)                                     \
        print_date(#name, row->name);                                   \
    else if (isfinite(row->name))                                       \
        printf("%-20s %.6g\n", #name, row->name);
#define SHOW_b(name) \
    if (row->name)   \
        printf("%-20s yes\n", #name);
#define SHOW(name, kind) SHOW_##kind(name)

static bool show_row(void *ctx, const vv_run_row *row)
{
    (void)ctx;
    VV_RUN_COLUMNS(SHOW)
    return true;
}

static bool show_method(void *ctx, const vv_run_method *method)
{
    (void)ctx;
    printf("%-20s %s %s\n", "method", method->name, method->settings);
    return true;
}

static bool show_tag(void *ctx, const char *tag)
{
    (void)ctx;
    printf("%-20s %s\n", "tag", tag);
    return true;
}

static bool show_eval(void *ctx, const vv_run_eval *eval)
{
    (void)ctx;
    printf("%-20s batch %lld, epoch %lld, %.1f s: %s/%s %.6g\n", "evaluation",
           (long long)eval->batch, (long long)eval->epoch, eval->train_seconds, eval->label,
           eval->metric, eval->value);
    return true;
}

static vv_status show(vv_run_store *store, const char *id, bool json)
{
    if (json) {
        vv_str text = {0};
        vv_status status = vv_run_store_json(store, id, true, &text);
        if (status == VV_OK)
            puts(vv_str_text(&text));
        vv_str_fini(&text);
        return status;
    }
    VV_TRY(vv_run_store_get(store, id, show_row, NULL));
    VV_TRY(vv_run_store_methods(store, id, show_method, NULL));
    VV_TRY(vv_run_store_tags(store, id, show_tag, NULL));
    return vv_run_store_evals(store, id, show_eval, NULL);
}

/* ---- diff: only what differs ---- */

typedef struct pair {          /* settings of two runs, both sorted by key */
    vv_str keys[2], values[2]; /* NUL-ended texts one behind the other */
    int side;
} pair;

static bool keep_setting(void *ctx, const vv_run_setting *setting)
{
    pair *p = ctx;
    vv_str_addn(&p->keys[p->side], setting->key, strlen(setting->key));
    vv_str_addn(&p->keys[p->side], "\n", 1);
    vv_str_add_json(&p->values[p->side], setting->value);
    vv_str_addn(&p->values[p->side], "\n", 1);
    return true;
}

static int print_difference(const char *key, size_t key_length, const char *a, size_t a_length,
                            const char *b, size_t b_length)
{
    if (a_length == b_length && strncmp(a, b, a_length) == 0)
        return 0;
    printf("%-40.*s %-28.*s %.*s\n", (int)key_length, key, a_length ? (int)a_length : 1,
           a_length ? a : "-", b_length ? (int)b_length : 1, b_length ? b : "-");
    return 1;
}

static int print_differences(const pair *p)
{
    const char *key[2], *value[2];
    int count = 0;
    for (int i = 0; i < 2; i++) {
        key[i] = vv_str_text(&p->keys[i]);
        value[i] = vv_str_text(&p->values[i]);
    }
    while (*key[0] || *key[1]) {
        size_t n[2], m[2];
        for (int i = 0; i < 2; i++) {
            n[i] = strcspn(key[i], "\n");
            m[i] = strcspn(value[i], "\n");
        }
        const size_t shorter = n[0] < n[1] ? n[0] : n[1];
        int order = strncmp(key[0], key[1], shorter);
        order = order ? order : (n[0] > n[1]) - (n[0] < n[1]);
        order = !*key[0] ? 1 : !*key[1] ? -1 : order;
        count += print_difference(key[order > 0], n[order > 0], value[0], order > 0 ? 0 : m[0],
                                  value[1], order < 0 ? 0 : m[1]);
        for (int i = 0; i < 2; i++)
            if (i == 0 ? order <= 0 : order >= 0) {
                key[i] += n[i] + (key[i][n[i]] == '\n');
                value[i] += m[i] + (value[i][m[i]] == '\n');
            }
    }
    return count;
}

static vv_status diff(vv_run_store *store, const char *a, const char *b)
{
    pair p = {.side = 0};
    vv_status status = vv_run_store_settings(store, a, keep_setting, &p);
    p.side = 1;
    if (status == VV_OK)
        status = vv_run_store_settings(store, b, keep_setting, &p);
    if (status == VV_OK) {
        printf("%-40s %-28s %s\n", "setting", a, b);
        if (print_differences(&p) == 0)
            printf("no setting differs\n");
        for (int i = 0; i < 2; i++) {
            final f = {"", (double)NAN};
            status = vv_run_store_evals(store, i ? b : a, keep_final, &f);
            if (isfinite(f.value))
                printf("%-40s %s %.6g\n", i ? b : a, f.name, f.value);
        }
    }
    for (int i = 0; i < 2; i++) {
        vv_str_fini(&p.keys[i]);
        vv_str_fini(&p.values[i]);
    }
    return status;
}

/* ---- files ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static vv_status export_to(vv_run_store *store, const char *path)
{
    vv_str text = {0};
    vv_status status = ends_with(path, ".csv") ? vv_run_store_export_csv(store, &text)
                                               : vv_run_store_export_json(store, true, &text);
    if (status == VV_OK) {
        FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
        bool written = file && fwrite(vv_str_text(&text), 1, text.length, file) == text.length;
        if (file && file != stdout)
            written = fclose(file) == 0 && written;
        if (!written)
            status = vv_fail(VV_EIO, "%s cannot be written", path);
    }
    vv_str_fini(&text);
    return status;
}

static vv_status import_from(vv_run_store *store, const char *path)
{
    int count;
    VV_TRY(vv_run_store_import(store, path, &count));
    printf("%d runs taken from %s\n", count, path);
    return VV_OK;
}

/* ---- the verb ---- */

typedef struct action {
    const char *name;
    int words; /* behind the name */
    bool write;
} action;

static const action actions[] = {
    {"list", 0, false},  {"show", 1, false},   {"diff", 2, false},
    {"tag", 2, true},    {"untag", 2, true},   {"note", 2, true},
    {"delete", 1, true}, {"export", 1, false}, {"import", 1, true},
};

static const char *action_name(const void *ctx, int i)
{
    (void)ctx;
    return actions[i].name;
}

static vv_status act(vv_run_store *store, const action *what, const cli_args *args, bool json)
{
    const char *const *words = args->words + 1;
    vv_str a = {0}, b = {0};
    vv_status status = VV_OK;
    if (strcmp(what->name, "list") == 0)
        return list(store, args, json);
    if (strcmp(what->name, "export") == 0)
        return export_to(store, words[0]);
    if (strcmp(what->name, "import") == 0)
        return import_from(store, words[0]);
    status = vv_run_store_find(store, words[0], &a);
    if (status == VV_OK && strcmp(what->name, "diff") == 0)
        status = vv_run_store_find(store, words[1], &b);
    const char *id = vv_str_text(&a);
    if (status != VV_OK)
        goto out;
    if (strcmp(what->name, "show") == 0)
        status = show(store, id, json);
    else if (strcmp(what->name, "diff") == 0)
        status = diff(store, id, vv_str_text(&b));
    else if (strcmp(what->name, "delete") == 0)
        status = vv_run_store_delete(store, id);
    else if (strcmp(what->name, "note") == 0)
        status = vv_run_store_note(store, id, words[1]);
    else
        status = vv_run_store_tag(store, id, words[1], strcmp(what->name, "tag") == 0);
out:
    vv_str_fini(&a);
    vv_str_fini(&b);
    return status;
}

static int runs(int argc, char **argv)
{
    const char *db = "runs/runs.db";
    bool json = false;
    cli_args args;
    const cli_option options[] = {{"--db", NULL, &db}, {"--json", &json, NULL}, {NULL, NULL, NULL}};
    const int count = (int)(sizeof actions / sizeof actions[0]);
    int code = cli_parse(&cli_runs, argc, argv, options, 4, &args);
    if (code != CLI_DONE)
        goto out;
    code = CLI_USAGE;
    const action *what = NULL;
    for (int i = 0; args.word_count && i < count; i++)
        if (strcmp(args.words[0], actions[i].name) == 0)
            what = &actions[i];
    if (!what) {
        int nearest = args.word_count ? vv_nearest(args.words[0], action_name, NULL, count) : -1;
        if (nearest >= 0)
            cli_usage(&cli_runs, "\"%s\" is none of its actions; did you mean \"%s\"?",
                      args.words[0], actions[nearest].name);
        else
            cli_usage(&cli_runs, "say what to do with the runs");
        goto out;
    }
    if (args.word_count != what->words + 1) {
        cli_usage(&cli_runs, "%s takes %d %s", what->name, what->words,
                  what->words == 1 ? "word" : "words");
        goto out;
    }
    vv_run_store *store;
    vv_status status = vv_run_store_open(&store, db, what->write);
    if (status == VV_OK)
        status = act(store, what, &args, json);
    vv_run_store_close(store);
    code = status == VV_OK ? CLI_DONE : cli_fail();
out:
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_runs = {
    "runs",
    "list [dataset=] [model=] [status=] | show RUN | diff RUN RUN | tag RUN TAG | untag RUN TAG | "
    "note RUN TEXT | delete RUN | export FILE | import FILE [--db FILE] [--json]",
    "Shows, marks, exports and imports the runs of a store.", runs};
