/* run_folder.c - the run's folders: made and proved writable before step 0, and searched for the
 * newest checkpoint that is whole. */
#include "run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "tensor/safetensors_peek.h"
#include "trainer_impl.h"

size_t vvi_checkpoint_stem(const char *name)
{
    static const char *const endings[] = {".safetensors", ".safetensors.zst"};
    size_t length = strlen(name);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(endings[i]);
        if (length > n && strcmp(name + length - n, endings[i]) == 0)
            return length - n;
    }
    return 0;
}

/* ---- one checkpoint ---- */

static int64_t integer(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

bool vvi_checkpoint_read_texts(vvi_checkpoint *item, const vv_safetensors *file)
{
    const char *saved = vv_safetensors_text(file, "vivace.saved");
    const char *text = saved ? saved : vv_safetensors_text(file, "vivace.state");
    if (!text)
        return false;
    json_t *root = json_loads(text, 0, NULL);
    const json_t *time = saved ? root : json_object_get(root, "time");
    if (json_is_object(time)) {
        const json_t *value = json_object_get(root, "value");
        item->batch = integer(time, "batch");
        item->order = integer(root, "order");
        item->weights_only = json_is_false(json_object_get(root, "full"));
        item->valued = json_is_number(value);
        item->value = json_number_value(value);
    } else {
        item->damaged = true;
    }
    item->peeked = true;
    json_decref(root);
    return true;
}

/* ---- the list ---- */

/* Whether a comes before b. */
static bool newer(const vvi_checkpoint *a, const vvi_checkpoint *b)
{
    if (a->damaged != b->damaged)
        return a->damaged;
    if (a->batch != b->batch)
        return a->batch > b->batch;
    if (a->order != b->order)
        return a->order > b->order;
    return strcmp(a->name, b->name) > 0;
}

void vvi_checkpoint_list_drop(vvi_checkpoint_list *list, int i)
{
    vv_dealloc(list->items[i].name);
    list->count--;
    memmove(&list->items[i], &list->items[i + 1],
            (size_t)(list->count - i) * sizeof *list->items);
}

vv_status vvi_checkpoint_list_put(vvi_checkpoint_list *list, vvi_checkpoint item)
{
    if (list->count == list->room) {
        int room = list->room ? 2 * list->room : 16;
        vv_status status = vv_realloc_array(&list->items, (size_t)room, sizeof *list->items);
        if (status != VV_OK) {
            vv_dealloc(item.name);
            return status;
        }
        list->room = room;
    }
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, item.name) == 0) {
            vvi_checkpoint_list_drop(list, i);
            break;
        }
    int at = list->count;
    while (at > 0 && newer(&item, &list->items[at - 1]))
        at--;
    memmove(&list->items[at + 1], &list->items[at],
            (size_t)(list->count - at) * sizeof *list->items);
    list->items[at] = item;
    list->count++;
    return VV_OK;
}

void vvi_checkpoint_list_fini(vvi_checkpoint_list *list)
{
    for (int i = 0; i < list->count; i++)
        vv_dealloc(list->items[i].name);
    vv_dealloc(list->items);
    *list = (vvi_checkpoint_list){0};
}

/* Reads a file's header; *ours = false if no Trainer wrote it. */
static vv_status peek(vvi_checkpoint *item, const char *folder, bool *ours)
{
    char *path = NULL;
    vv_safetensors *file = NULL;
    *ours = true;
    VV_TRY(vvi_path_join(&path, folder, item->name));
    vv_status status = vvi_safetensors_texts(&file, path);
    vv_dealloc(path);
    if (status == VV_ENOMEM)
        return status;
    if (status == VV_OK)
        *ours = vvi_checkpoint_read_texts(item, file);
    else if (!item->batch)
        item->damaged = true;
    vv_safetensors_close(file);
    return VV_OK;
}

static vv_status add_file(vvi_checkpoint_list *list, const char *folder, const char *name,
                          const char *pattern, const vvi_name_facts *facts, bool must_peek)
{
    char stem[256];
    size_t length = vvi_checkpoint_stem(name);
    if (!length || length >= sizeof stem)
        return VV_OK;
    memcpy(stem, name, length);
    stem[length] = '\0';
    vvi_checkpoint item = {0};
    bool ours = true, explained = vvi_name_batch(pattern, facts, stem, &item.batch);
    VV_TRY(vv_strdup(&item.name, name));
    vv_status status = must_peek || !explained ? peek(&item, folder, &ours) : VV_OK;
    if (status == VV_OK && ours)
        return vvi_checkpoint_list_put(list, item);
    vv_dealloc(item.name);
    return status;
}

vv_status vvi_checkpoint_list_read(vvi_checkpoint_list *out, const char *folder,
                                   const char *pattern, const vvi_name_facts *facts, bool must_peek)
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
    while (status == VV_OK && (entry = readdir(dir)))
        status = add_file(out, folder, entry->d_name, pattern, facts, must_peek);
    closedir(dir);
    if (status != VV_OK)
        vvi_checkpoint_list_fini(out);
    return status;
}

vv_status vvi_checkpoint_find(vvi_checkpoint_list *list, const char *folder, bool weights,
                              vv_safetensors **file, char **path, vv_str *told)
{
    vv_status status = VV_OK;
    *file = NULL;
    *path = NULL;
    for (int i = 0; i < list->count && !*file; i++) {
        vvi_checkpoint seen = {0};
        if (list->items[i].weights_only && !weights)
            continue;
        VV_GO(vvi_path_join(path, folder, list->items[i].name));
        status = vv_safetensors_open(file, *path);
        if (status == VV_ENOMEM)
            goto out;
        bool whole = status == VV_OK && vvi_checkpoint_read_texts(&seen, *file) &&
                     (weights || !seen.weights_only) && !seen.damaged;
        if (status != VV_OK) {
            vv_str_addf(told, "checkpoint skipped: %s\n", vv_error());
            /* The run goes on from before it and will make it again. */
            list->items[i].old = status == VV_EFORMAT;
            list->items[i].damaged = status != VV_EFORMAT;
        }
        list->items[i].weights_only = list->items[i].weights_only || seen.weights_only;
        if (!whole) {
            vv_safetensors_close(*file);
            vv_dealloc(*path);
            *file = NULL;
            *path = NULL;
        }
        VV_GO(vv_str_status(told));
    }
out:
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
    vvi_checkpoint_list list = {0};
    const vvi_name_facts facts = {0};
    vv_str told = {0};
    vv_status status;
    VV_GO(vvi_path_join(&folder, run_dir, "checkpoints"));
    VV_GO(vvi_checkpoint_list_read(&list, folder, VVI_SAVE_NAME, &facts, false));
    VV_GO(vvi_checkpoint_find(&list, folder, true, &file, &path, &told));
    if (!path)
        VV_GO(vv_fail(VV_ENOTFOUND, "%s: there is no checkpoint that can be used%s%s", folder,
                      told.length ? "; " : "", vv_str_text(&told)));
    vv_str_add(out, path);
    status = vv_str_status(out);
out:
    vv_safetensors_close(file);
    vvi_checkpoint_list_fini(&list);
    vv_str_fini(&told);
    vv_dealloc(path);
    vv_dealloc(folder);
    return status;
}

/* ---- the folders ---- */

/* "<anything>.tmp-<digits>-<digits>": what a killed write leaves. Nobody else writes here. */
static bool is_leftover(const char *name)
{
    const char *tail = strstr(name, ".tmp-");
    if (!tail || tail == name)
        return false;
    tail += 5;
    size_t first = strspn(tail, "0123456789");
    return first && tail[first] == '-' &&
           strspn(tail + first + 1, "0123456789") == strlen(tail + first + 1);
}

static vv_status remove_leftovers(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return vv_fail(VV_EIO, "%s: cannot read the folder: %s", folder, strerror(errno));
    vv_status status = VV_OK;
    char *path = NULL;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (!is_leftover(entry->d_name))
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

vv_status vv_run_path(char **out, const char *run_dir, const char *name)
{
    return vvi_path_join(out, run_dir, name);
}

vv_status vv_make_folder(const char *path)
{
    return vvi_mkdirs(path);
}
