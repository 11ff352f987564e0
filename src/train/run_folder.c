/* run_folder.c - the run's folders: made and proved writable before step 0, and searched for the
 * newest checkpoint that is whole. */
#include "run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "trainer_impl.h"

void vvi_checkpoint_name_at(int64_t epoch, int64_t batch, vvi_checkpoint_name *out)
{
    out->epoch = epoch;
    out->batch = batch;
    snprintf(out->text, sizeof out->text, "ep%04" PRId64 "-ba%08" PRId64 ".safetensors", epoch,
             batch);
}

/* Whether `name` is a checkpoint's: what it says must give the same name again. */
static bool parse_name(const char *name, vvi_checkpoint_name *out)
{
    char *end;
    if (strncmp(name, "ep", 2) != 0)
        return false;
    int64_t epoch = strtoll(name + 2, &end, 10);
    if (strncmp(end, "-ba", 3) != 0)
        return false;
    vvi_checkpoint_name_at(epoch, strtoll(end + 3, NULL, 10), out);
    return strcmp(out->text, name) == 0;
}

static int newest_first(const void *a, const void *b)
{
    const vvi_checkpoint_name *x = a, *y = b;
    if (x->batch != y->batch)
        return x->batch > y->batch ? -1 : 1;
    return x->epoch > y->epoch ? -1 : x->epoch < y->epoch;
}

vv_status vvi_checkpoint_list_read(vvi_checkpoint_list *out, const char *folder)
{
    *out = (vvi_checkpoint_list){0};
    DIR *dir = opendir(folder);
    if (!dir) {
        if (errno == ENOENT)
            return VV_OK;
        return vv_fail(VV_EIO, "%s: cannot read the folder: %s", folder, strerror(errno));
    }
    vv_status status = VV_OK;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        vvi_checkpoint_name name;
        if (!parse_name(entry->d_name, &name))
            continue;
        if (out->count == out->capacity) {
            int capacity = out->capacity ? 2 * out->capacity : 16;
            VV_GO(vv_realloc_array(&out->items, (size_t)capacity, sizeof *out->items));
            out->capacity = capacity;
        }
        out->items[out->count++] = name;
    }
    if (out->count)
        qsort(out->items, (size_t)out->count, sizeof *out->items, newest_first);
out:
    closedir(dir);
    if (status != VV_OK)
        vvi_checkpoint_list_fini(out);
    return status;
}

void vvi_checkpoint_list_fini(vvi_checkpoint_list *list)
{
    vv_dealloc(list->items);
    *list = (vvi_checkpoint_list){0};
}

vv_status vvi_checkpoint_find(const char *folder, vv_safetensors **file, char **path, vv_str *told)
{
    *file = NULL;
    *path = NULL;
    vvi_checkpoint_list list;
    VV_TRY(vvi_checkpoint_list_read(&list, folder));
    vv_status status = VV_OK;
    for (int i = 0; i < list.count && !*file; i++) {
        VV_GO(vvi_path_join(path, folder, list.items[i].text));
        status = vv_safetensors_open(file, *path);
        if (status == VV_ENOMEM)
            goto out;
        if (status != VV_OK) {
            vv_str_addf(told, "checkpoint skipped: %s\n", vv_error());
            vv_dealloc(*path);
            *path = NULL;
        }
        status = vv_str_status(told);
        if (status != VV_OK)
            goto out;
    }
out:
    vvi_checkpoint_list_fini(&list);
    if (status != VV_OK) {
        vv_safetensors_close(*file);
        vv_dealloc(*path);
        *file = NULL;
        *path = NULL;
    }
    return status;
}

vv_status vv_checkpoint_latest(vv_str *out, const char *run_dir)
{
    char *folder = NULL, *path = NULL;
    vv_safetensors *file = NULL;
    vv_str told = {0};
    vv_status status;
    VV_GO(vvi_path_join(&folder, run_dir, "checkpoints"));
    VV_GO(vvi_checkpoint_find(folder, &file, &path, &told));
    if (!path)
        VV_GO(vv_fail(VV_ENOTFOUND, "%s: there is no checkpoint that can be used%s%s", folder,
                      told.length ? "; " : "", vv_str_text(&told)));
    vv_str_add(out, path);
    status = vv_str_status(out);
out:
    vv_safetensors_close(file);
    vv_str_fini(&told);
    vv_dealloc(path);
    vv_dealloc(folder);
    return status;
}

/* A killed write leaves its temporary file; nobody else writes here. */
static vv_status remove_leftovers(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return vv_fail(VV_EIO, "%s: cannot read the folder: %s", folder, strerror(errno));
    vv_status status = VV_OK;
    char *path = NULL;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (!strstr(entry->d_name, ".safetensors.tmp-") &&
            strncmp(entry->d_name, "latest.tmp-", 11) != 0)
            continue;
        VV_GO(vvi_path_join(&path, folder, entry->d_name));
        VV_GO(vvi_file_remove(path));
        vv_dealloc(path);
        path = NULL;
    }
out:
    vv_dealloc(path);
    closedir(dir);
    return status;
}

vv_status vvi_folders_prepare(const char *run_dir, const char *checkpoint_dir)
{
    vv_status status = VV_OK;
    char *probe = NULL;
    const char *folders[] = {run_dir, checkpoint_dir};
    for (int i = 0; i < 2; i++) {
        VV_GO(vvi_mkdirs(folders[i]));
        VV_GO(vvi_path_join(&probe, folders[i], "write-probe"));
        VV_GO(vvi_file_write_atomic(probe, "", 0));
        VV_GO(vvi_file_remove(probe));
        vv_dealloc(probe);
        probe = NULL;
    }
    VV_GO(remove_leftovers(checkpoint_dir));
out:
    vv_dealloc(probe);
    return vv_fail_within(status, "run folder");
}
