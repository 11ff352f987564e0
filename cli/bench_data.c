/* bench_data.c - `vivace bench data`: how fast a loader gives batches, alone and with a set's usual
 * changes of its samples, for several numbers of threads. */
#include "bench.h"

#include <string.h>
#include <time.h>

#include <vivace/ext/image_sets.h>
#include <vivace/memory.h>

typedef struct data_opts {
    const char *data, *data_settings, *workers;
    int64_t batch, batches, threads;
    bool transform;
} data_opts;

#define AT(field) offsetof(data_opts, field)
static const vv_field data_fields[] = {
    {.name = "data", .help = "data set", .type = VV_FIELD_STRING, .offset = AT(data), .fallback = "synthetic"},
    {.name = "data_settings", .help = "its settings, like [like=cifar10]", .type = VV_FIELD_STRING, .offset = AT(data_settings), .fallback = ""},
    {.name = "batch", .help = "samples in a batch", .type = VV_FIELD_INT, .offset = AT(batch), .fallback = "512", .min = 1, .max = 1e7},
    {.name = "batches", .help = "batches measured", .type = VV_FIELD_INT, .offset = AT(batches), .fallback = "40", .min = 1, .max = 1e7},
    {.name = "workers", .help = "numbers of loader threads, comma-separated", .type = VV_FIELD_STRING, .offset = AT(workers), .fallback = "0,1,2"},
    {.name = "transform", .help = "the set's usual crop, flip and normalisation", .type = VV_FIELD_BOOL, .offset = AT(transform), .fallback = "true"},
    {.name = NULL},
};
static const vv_desc data_desc = {.kind = "benchmark",
                                  .name = "bench data",
                                  .summary = "a loader",
                                  .cite = "",
                                  .domains = "any",
                                  .fields = data_fields,
                                  .opts_size = sizeof(data_opts)};

typedef struct loader_times {
    double seconds, cpu, first_ms, bytes; /* cpu: of all threads */
    int64_t samples;
    bool staged; /* photographs tell where the time goes */
    vv_photo_times times;
} loader_times;

static vv_status time_loader(const data_opts *o, vv_dataset *set, const vv_dataset_desc *desc,
                             int workers, loader_times *t)
{
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_loader *loader = NULL;
    vv_status status;
    memset(t, 0, sizeof *t);
    opts.batch_size = o->batch;
    opts.shuffle = true;
    opts.workers = workers;
    opts.prefetch = workers + 1;
    if (o->transform && set->spec.input_dtype == VV_U8 && set->spec.input_ndim == 3)
        opts.transform = desc->train_transform;
    VV_GO(vv_loader_new(&loader, set, &opts));
    double start = vv_clock();
    clock_t cpu = clock();
    vv_photo_times before = {0};
    for (int64_t i = 0; i <= o->batches;) {
        vv_batch *batch = NULL;
        VV_GO(vv_loader_next(loader, &batch));
        if (!batch)
            continue; /* the end of an epoch */
        if (i++ == 0) {
            t->first_ms = 1e3 * (vv_clock() - start);
            start = vv_clock();
            cpu = clock();
            t->staged = vv_image_folder_times(set, &before);
        } else {
            t->samples += batch->count;
            t->bytes += (double)(batch->input->bytes + batch->target->bytes);
        }
        vv_batch_free(batch);
    }
    t->seconds = vv_clock() - start;
    t->cpu = (double)(clock() - cpu) / CLOCKS_PER_SEC;
    if (t->staged && vv_image_folder_times(set, &t->times)) {
        t->times.read -= before.read;
        t->times.decode -= before.decode;
        t->times.resample -= before.resample;
        t->times.colour -= before.colour;
    }
out:
    vv_loader_free(loader);
    return status;
}

static vv_status open_set(const data_opts *o, const vv_dataset_desc **desc, vv_dataset **set)
{
    void *opts = NULL;
    vv_status status;
    VV_TRY(vv_dataset_find(desc, o->data));
    VV_TRY(vv_alloc(&opts, (*desc)->desc.opts_size + 1));
    VV_GO(vv_opts_init(&(*desc)->desc, opts));
    if (o->data_settings[0])
        VV_GO(vv_opts_set_all(&(*desc)->desc, opts, o->data_settings));
    VV_GO(vv_dataset_open(set, *desc, opts, "train"));
out:
    vv_opts_fini(&(*desc)->desc, opts);
    vv_dealloc(opts);
    return status;
}

/* CPU time a sample; the copy is what is left, with the loader's own crop and mirror. */
static void report_cpu(const loader_times *t, bool json, vv_str *out)
{
    const double ms = 1e3 / (double)t->samples;
    const vv_photo_times *s = &t->times;
    double copy = t->cpu - s->read - s->decode - s->resample - s->colour;
    copy = copy > 0.0 ? copy : 0.0; /* threads were ahead at the start */
    vv_str_addf(out, json ? ", \"samples_per_cpu_second\": %.2f, \"cpu_ms_per_sample\": %.4f"
                          : "    %.0f samples a second of CPU time, %.3f ms each",
                (double)t->samples / t->cpu, t->cpu * ms);
    if (t->staged)
        vv_str_addf(out, json ? ", \"stages_ms\": {\"read\": %.4f, \"decode\": %.4f, "
                                "\"resample\": %.4f, \"colour\": %.4f, \"copy\": %.4f}"
                              : ": read %.3f, decode %.3f, resample %.3f, colour %.3f, copy %.3f",
                    s->read * ms, s->decode * ms, s->resample * ms, s->colour * ms, copy * ms);
    vv_str_add(out, json ? "}" : "\n");
}

static vv_status measure(const data_opts *o, bool json, vv_str *out)
{
    const vv_dataset_desc *desc;
    vv_dataset *set = NULL;
    char *list = NULL, *save = NULL;
    vv_status status;
    bool any = false;
    VV_GO(open_set(o, &desc, &set));
    if (set->notice)
        fprintf(stderr, "vivace: %s\n", set->notice);
    VV_GO(vv_strdup(&list, o->workers));
    if (json)
        vv_str_addf(out, "{\"data\": \"%s\", \"batch\": %lld, \"loaders\": [", o->data,
                    (long long)o->batch);
    else
        vv_str_addf(out, "%s, batch %lld, %lld batches%s\n", o->data, (long long)o->batch,
                    (long long)o->batches, o->transform ? "" : ", no transform");
    for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        loader_times t;
        int64_t workers;
        VV_GO(vv_bytes_parse(&workers, word));
        if (workers > 1024)
            VV_GO(vv_fail(VV_EINVAL, "bench data: workers: %s threads are too many", word));
        VV_GO(time_loader(o, set, desc, (int)workers, &t));
        vv_str_addf(out,
                    json ? "%s{\"workers\": %d, \"samples_per_second\": %.2f, \"batch_ms\": %.4f, "
                           "\"mbytes_per_second\": %.2f, \"first_batch_ms\": %.3f"
                         : "%s  %d workers: %.0f samples/s, %.3f ms a batch, %.0f MB/s; "
                           "first batch after %.1f ms\n",
                    json && any ? ", " : "", (int)workers, (double)t.samples / t.seconds,
                    1e3 * t.seconds / (double)o->batches, t.bytes / t.seconds / 1e6, t.first_ms);
        report_cpu(&t, json, out);
        any = true;
    }
    if (json)
        vv_str_add(out, "]}\n");
    status = vv_str_status(out);
out:
    vv_dealloc(list);
    vv_dataset_free(set);
    return status;
}

int bench_data(const cli_args *args, bool json)
{
    data_opts opts;
    vv_str out = {0};
    int code = CLI_DONE;
    memset(&opts, 0, sizeof opts);
    vv_status status = bench_read_settings(&data_desc, &opts, args);
    if (status == VV_OK)
        status = measure(&opts, json, &out);
    if (status == VV_OK)
        fputs(vv_str_text(&out), stdout);
    else
        code = cli_fail();
    vv_str_fini(&out);
    vv_opts_fini(&data_desc, &opts);
    return code;
}
