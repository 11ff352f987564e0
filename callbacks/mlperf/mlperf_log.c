/* mlperf_log.c - the text files of MLPerf's result folder: `:::MLLOG {json}`, one event a line. */
#include "mlperf_log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* The folder of the file. */
static vv_status make_folders(const char *path)
{
    vv_str folder = {0};
    vv_str_addn(&folder, path, (size_t)(strrchr(path, '/') - path));
    vv_status status = vv_str_status(&folder);
    if (status == VV_OK)
        status = vv_make_folder(vv_str_text(&folder));
    vv_str_fini(&folder);
    return status;
}

static vv_status append(const char *path, const vv_str *text)
{
    VV_TRY(vv_str_status(text));
    FILE *file = fopen(path, "a");
    bool wrong = !file || fwrite(vv_str_text(text), 1, text->length, file) != text->length;
    wrong = (file && fclose(file) != 0) || wrong;
    return wrong ? vv_fail(VV_EIO, "%s: cannot write: %s", path, strerror(errno)) : VV_OK;
}

vv_status mlperf_log_open(mlperf_log *log, const char *dir, const char *system,
                          const char *benchmark, int64_t index, bool resumed)
{
    struct stat info;
    vv_str_clear(&log->path);
    vv_str_addf(&log->path, "%s/results/%s/%s/result_%lld.txt", dir, system, benchmark,
                (long long)index);
    VV_TRY(vv_str_status(&log->path));
    if (!resumed && stat(vv_str_text(&log->path), &info) == 0)
        return vv_fail(VV_EEXIST, "%s is there already; choose another index or folder",
                       vv_str_text(&log->path));
    return make_folders(vv_str_text(&log->path));
}

vv_status mlperf_log_system(const char *dir, const char *system, const char *submitter,
                            const char *division, const char *status_word, int threads)
{
    struct stat info;
    vv_str path = {0}, json = {0};
    vv_str_addf(&path, "%s/systems/%s.json", dir, system);
    vv_status status = vv_str_status(&path);
    if (status == VV_OK && stat(vv_str_text(&path), &info) != 0) {
        vv_str_add(&json, "{\n  \"submitter\": ");
        vv_str_add_json(&json, submitter);
        vv_str_add(&json, ",\n  \"system_name\": ");
        vv_str_add_json(&json, system);
        vv_str_addf(&json,
                    ",\n  \"division\": \"%s\",\n  \"status\": \"%s\",\n  \"number_of_nodes\": 1,\n"
                    "  \"threads_per_node\": %d,\n  \"accelerators_per_node\": 0,\n"
                    "  \"framework\": \"Vivace\"\n}\n", division, status_word, threads);
        status = make_folders(vv_str_text(&path));
        if (status == VV_OK)
            status = append(vv_str_text(&path), &json);
    }
    vv_str_fini(&path);
    vv_str_fini(&json);
    return status;
}

vv_status mlperf_log_line(const mlperf_log *log, const char *type, const char *key,
                          const char *value, const char *metadata)
{
    struct timespec now;
    vv_str line = {0};
    timespec_get(&now, TIME_UTC);
    vv_str_addf(&line,
                ":::MLLOG {\"namespace\": \"\", \"time_ms\": %lld, \"event_type\": \"%s\", "
                "\"key\": \"%s\", \"value\": %s, \"metadata\": {%s}}\n",
                (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000, type, key, value, metadata);
    vv_status status = append(vv_str_text(&log->path), &line);
    vv_str_fini(&line);
    return status;
}

void mlperf_log_fini(mlperf_log *log)
{
    vv_str_fini(&log->path);
}
