/* fuzz_runs.c - files of runs to import: our JSON, tables and logs as CSV, or, with a line "===="
 * in it, a DAWNBench entry and its rows. Any bytes give runs that can be read and exported, or a
 * sentence and a store as it was. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vivace/memory.h>
#include <vivace/run_store.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char folder[64];
static vv_run_store *store;

static const char *in_folder(const char *name)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void forget(void)
{
    static const char *const names[] = {"runs.db", "runs.db-wal", "runs.db-shm", "file.json",
                                        "file.tsv"};
    vv_run_store_close(store);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        remove(in_folder(names[i]));
    rmdir(folder);
}

static void put_file(const char *name, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(in_folder(name), "wb");
    if (!file || (bytes && fwrite(data, 1, bytes, file) != bytes) || fclose(file) != 0)
        abort();
}

/* Every run as JSON that reads back, and as a table. */
static void use(int count)
{
    vv_str text = {0};
    json_error_t error;
    if (count < 1 || vv_run_store_export_csv(store, &text) != VV_OK)
        abort();
    vv_str_clear(&text);
    if (vv_run_store_export_json(store, true, &text) != VV_OK)
        abort();
    json_t *root = json_loads(vv_str_text(&text), JSON_REJECT_DUPLICATES, &error);
    const size_t runs = json_array_size(json_object_get(root, "runs"));
    if (runs < 1 || runs > (size_t)count)
        abort();
    json_decref(root);
    vv_str_fini(&text);
}

static bool is_there(void *ctx, const vv_run_row *row)
{
    snprintf(ctx, 4096, "%s", row->id);
    return false;
}

/* Deletes what there is; false: there was none. */
static bool empty(void)
{
    bool some = false;
    for (;;) {
        char id[4096] = "";
        if (vv_run_store_each(store, is_there, id) != VV_OK)
            abort();
        if (!id[0])
            return some;
        some = true;
        if (vv_run_store_delete(store, id) != VV_OK)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char cut[] = "\n====\n";
    int count;
    if (!vv_run_store_available())
        return 0;
    if (!store) {
        snprintf(folder, sizeof folder, "%s/vivace-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"); /* in memory: quick */
        if (!mkdtemp(folder) || vv_run_store_open(&store, in_folder("runs.db"), true) != VV_OK)
            abort();
        atexit(forget);
    }
    const uint8_t *at = memmem(data, bytes, cut, sizeof cut - 1);
    if (at)
        put_file("file.tsv", at + sizeof cut - 1, bytes - (size_t)(at - data) - (sizeof cut - 1));
    else
        remove(in_folder("file.tsv"));
    put_file("file.json", data, at ? (size_t)(at - data) : bytes);
    vv_error_clear();
    if (vv_run_store_import(store, in_folder("file.json"), &count) == VV_OK) {
        use(count);
        if (!empty())
            abort();
    } else if (!vv_error()[0] || count != 0 || empty()) {
        abort();
    }
    return 0;
}
