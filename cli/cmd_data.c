/* cmd_data.c - `vivace data`: fetch a data set from its official address, or look into one. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vivace/memory.h>

static void show_progress(void *ctx, const char *file, int64_t done, int64_t total)
{
    const bool terminal = *(const bool *)ctx;
    if (terminal && total > 0)
        fprintf(stderr, "\r%s: %.1f of %.1f MB ", file, (double)done / 1e6, (double)total / 1e6);
    if (total > 0 && done == total)
        fprintf(stderr, terminal ? "\n" : "%s: done\n", file);
}

static int fetch(const vv_dataset_desc *desc, const char *dir, const char *from)
{
    bool terminal = isatty(STDERR_FILENO);
    if (!desc->files) {
        printf("%s: nothing to fetch\n", desc->desc.name);
        return CLI_DONE;
    }
    if (vv_dataset_fetch(desc, dir, from, show_progress, &terminal) != VV_OK)
        return cli_fail();
    printf("%s: fetched and verified\n", desc->desc.name);
    return CLI_DONE;
}

static vv_status open_from(vv_dataset **out, const vv_dataset_desc *desc, const char *dir,
                           const char *split)
{
    void *opts;
    VV_TRY(vv_alloc(&opts, desc->desc.opts_size + 1));
    vv_status status = vv_opts_init(&desc->desc, opts);
    if (status == VV_OK) {
        if (dir)
            status = vv_opts_set(&desc->desc, opts, "dir", dir);
        if (status == VV_OK)
            status = vv_dataset_open(out, desc, opts, split);
        vv_opts_fini(&desc->desc, opts);
    }
    vv_dealloc(opts);
    return status;
}

static int inspect_split(const vv_dataset_desc *desc, const char *dir, const char *split)
{
    vv_dataset *set;
    if (open_from(&set, desc, dir, split) != VV_OK)
        return cli_fail();
    char shape[128];
    if (set->notice)
        fprintf(stderr, "vivace: %s\n", set->notice);
    printf("%s: %lld samples, input %s %s, %lld classes\n", split, (long long)set->count,
           vv_dtype_name(set->spec.input_dtype),
           vv_shape_text(set->spec.input_ndim, set->spec.input_shape, shape, sizeof shape),
           (long long)set->spec.classes);
    int code = CLI_DONE;
    if (set->spec.classes > 0 && set->spec.classes <= 1000 && set->spec.target_ndim == 0) {
        int64_t *counts = calloc((size_t)set->spec.classes, sizeof *counts);
        for (int64_t i = 0; counts && i < set->count; i++) {
            int32_t label = -1;
            if (vv_dataset_read(set, i, NULL, &label) != VV_OK) {
                code = cli_fail();
                break;
            }
            if (label >= 0 && label < set->spec.classes)
                counts[label]++;
        }
        for (int64_t k = 0; counts && code == CLI_DONE && k < set->spec.classes; k++)
            printf("  class %lld%s%s: %lld\n", (long long)k, set->class_names ? " " : "",
                   set->class_names ? set->class_names[k] : "", (long long)counts[k]);
        free(counts);
    }
    vv_dataset_free(set);
    return code;
}

static int data(int argc, char **argv)
{
    const char *dir = NULL, *from = NULL;
    cli_args args;
    if (argc > 0 && strcmp(argv[0], "tokenize") == 0)
        return cli_data_tokenize(argc - 1, argv + 1);
    if (argc > 0 && strcmp(argv[0], "train-bpe") == 0)
        return cli_data_train_bpe(argc - 1, argv + 1);
    if (argc > 0 && strcmp(argv[0], "pack") == 0)
        return cli_data_pack(argc - 1, argv + 1);
    const cli_option options[] = {
        {"--dir", NULL, &dir}, {"--from", NULL, &from}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_data, argc, argv, options, 2, &args);
    const char *what = args.words[0], *name = args.words[1];
    cli_args_fini(&args);
    if (code != CLI_DONE)
        return code;
    if (!what || !name)
        return cli_usage(&cli_data, "say what to do with which data set");
    bool fetching = strcmp(what, "fetch") == 0;
    if (!fetching && strcmp(what, "inspect") != 0)
        return cli_usage(&cli_data, "'%s' is neither fetch, inspect, pack, tokenize nor train-bpe",
                         what);
    const vv_dataset_desc *desc;
    if (vv_dataset_find(&desc, name) != VV_OK)
        return cli_fail();
    if (fetching)
        return fetch(desc, dir, from);
    code = inspect_split(desc, dir, "train");
    return code == CLI_DONE ? inspect_split(desc, dir, "eval") : code;
}

const cli_verb cli_data = {
    "data",
    "fetch|inspect NAME [--dir DIR] [--from URL] | pack SRC DST [key=value ...] | "
    "tokenize|train-bpe INPUT... out=PATH [key=value ...]",
    "Fetches a data set and verifies it, shows what is in one, or makes one of photographs or "
    "texts.",
    data};
