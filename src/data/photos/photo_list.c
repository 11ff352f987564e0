/* photo_list.c - the files of a set of photographs: folders, classes, splits. */
#include "data/photos/photo_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <vivace/memory.h>
#include <vivace/rng.h>

#include "base/file.h"

enum { DEEPEST = 16 };

void vvi_photo_list_fini(vvi_photo_list *list)
{
    vvi_arena_fini(&list->texts);
    vv_dealloc(list->photos);
    vv_dealloc(list->classes);
    vv_dealloc(list->shown);
    memset(list, 0, sizeof *list);
}

vv_status vvi_photo_path(const vvi_photo_list *list, int64_t i, vv_str *out)
{
    vv_str_clear(out);
    vv_str_add(out, list->root);
    vv_str_add(out, "/");
    vv_str_add(out, list->photos[i].path);
    return vv_str_status(out);
}

static vv_status add(vvi_photo_list *list, const char *path, int32_t label)
{
    if (list->count == list->room) {
        const int64_t room = list->room ? 2 * list->room : 256;
        VV_TRY(vv_realloc_array(&list->photos, (size_t)room, sizeof *list->photos));
        list->room = room;
    }
    const char *kept = vvi_arena_text(&list->texts, path);
    if (!kept)
        return VV_ENOMEM;
    list->photos[list->count++] = (vvi_photo){kept, label};
    return VV_OK;
}

/* ---- folders ---- */

typedef enum entry_kind { ENTRY_OTHER, ENTRY_FILE, ENTRY_FOLDER } entry_kind;

static entry_kind kind_of(DIR *dir, const struct dirent *entry)
{
    struct stat info;
    if (entry->d_type == DT_REG)
        return ENTRY_FILE;
    if (entry->d_type == DT_DIR)
        return ENTRY_FOLDER;
    if (fstatat(dirfd(dir), entry->d_name, &info, 0) != 0) /* a link, or a system that won't say */
        return ENTRY_OTHER;
    return S_ISREG(info.st_mode) ? ENTRY_FILE : S_ISDIR(info.st_mode) ? ENTRY_FOLDER : ENTRY_OTHER;
}

typedef vv_status entry_fn(void *ctx, const char *name, entry_kind kind);

/* Each entry of a folder that is not hidden, in no order. */
static vv_status each_entry(const char *path, entry_fn *fn, void *ctx)
{
    DIR *dir = opendir(path);
    vv_status status = VV_OK;
    if (!dir)
        return vv_fail(VV_EIO, "cannot list '%s': %s", path, strerror(errno));
    for (const struct dirent *entry; status == VV_OK && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            status = fn(ctx, entry->d_name, kind_of(dir, entry));
    closedir(dir);
    return status;
}

/* ---- one class ---- */

typedef struct walk {
    vvi_photo_list *list;
    const char *below; /* from the root; "" = the root itself */
    int32_t label;
    int depth;
} walk;

static vv_status walk_folder(walk *at);

static vv_status walk_entry(void *ctx, const char *name, entry_kind kind)
{
    const walk *at = ctx;
    if (kind == ENTRY_OTHER)
        return VV_OK;
    vv_str path = {0};
    if (at->below[0])
        vv_str_addf(&path, "%s/", at->below);
    vv_str_add(&path, name);
    vv_status status = vv_str_status(&path);
    walk inner = {at->list, vv_str_text(&path), at->label, at->depth + 1};
    if (status == VV_OK && kind == ENTRY_FILE)
        status = add(at->list, vv_str_text(&path), at->label);
    else if (status == VV_OK && at->depth < DEEPEST && at->label >= 0)
        status = walk_folder(&inner);
    vv_str_fini(&path);
    return status;
}

static vv_status walk_folder(walk *at)
{
    char *path = NULL;
    VV_TRY(vvi_path_join(&path, at->list->root, at->below));
    const vv_status status = each_entry(path, walk_entry, at);
    vv_dealloc(path);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const vvi_photo *)a)->path, ((const vvi_photo *)b)->path);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- classes ---- */

static vv_status add_class(void *ctx, const char *name, entry_kind kind)
{
    vvi_photo_list *list = ctx;
    if (kind != ENTRY_FOLDER)
        return VV_OK;
    if (list->class_count == INT32_MAX / 2)
        return vv_fail(VV_EFORMAT, "too many folders");
    VV_TRY(vv_realloc_array(&list->classes, (size_t)list->class_count + 1, sizeof *list->classes));
    const char *kept = vvi_arena_text(&list->texts, name);
    if (!kept)
        return VV_ENOMEM;
    list->classes[list->class_count++] = kept;
    return VV_OK;
}

static vv_status list_classes(vvi_photo_list *list, const char *set, const char *folder)
{
    VV_TRY(each_entry(folder, add_class, list));
    if (list->class_count == 0)
        return vv_fail(VV_EFORMAT, "data set %s: '%s' has no folders in it; it must have one for "
                                   "each class, with that class's images", set, folder);
    qsort(list->classes, (size_t)list->class_count, sizeof *list->classes, by_text);
    return VV_OK;
}

static vv_status walk_classes(vvi_photo_list *list)
{
    for (int64_t k = 0; k < list->class_count; k++) {
        char *path = NULL;
        VV_TRY(vvi_path_join(&path, list->root, list->classes[k]));
        const bool there = vvi_is_folder(path);
        vv_dealloc(path);
        walk at = {list, list->classes[k], (int32_t)k, 0};
        if (there) /* a split need not have every class */
            VV_TRY(walk_folder(&at));
    }
    return VV_OK;
}

/* ---- splits ---- */

/* A number in [0,1) that depends on the path alone. */
static double chance_of(const char *path)
{
    vv_rng rng = vv_rng_at2(0, "eval_fraction", vv_rng_stream(path), (uint32_t)strlen(path));
    return vv_rng_uniform(&rng);
}

static void keep_share(vvi_photo_list *list, bool train, double eval_fraction)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < list->count; i++)
        if ((chance_of(list->photos[i].path) < eval_fraction) != train)
            list->photos[kept++] = list->photos[i];
    list->count = kept;
}

/* *out = dir/name as a text of the list if it is a folder, else NULL. */
static vv_status folder_in(vvi_photo_list *list, const char *dir, const char *name,
                           const char **out)
{
    char *path = NULL;
    *out = NULL;
    VV_TRY(vvi_path_join(&path, dir, name));
    if (vvi_is_folder(path))
        *out = vvi_arena_text(&list->texts, path);
    const bool lost = !*out && vvi_is_folder(path);
    vv_dealloc(path);
    return lost ? VV_ENOMEM : VV_OK;
}

typedef struct stray {
    const vvi_photo_list *list;
    const char *set, *folder;
    int64_t known;
} stray;

/* A folder to evaluate on whose name no class of the training has. */
static vv_status check_class(void *ctx, const char *name, entry_kind kind)
{
    stray *at = ctx;
    if (kind != ENTRY_FOLDER)
        return VV_OK;
    if (!bsearch(&name, at->list->classes, (size_t)at->list->class_count,
                 sizeof *at->list->classes, by_text))
        return vv_fail(VV_EFORMAT, "data set %s: '%s' has a class '%s', which the training images "
                                   "do not have", at->set, at->folder, name);
    at->known++;
    return VV_OK;
}

static vv_status fill_eval(vvi_photo_list *list, const char *set, const char *dir,
                           const char *labels)
{
    stray at = {list, set, list->root, 0};
    VV_TRY(each_entry(list->root, check_class, &at));
    if (at.known > 0)
        return walk_classes(list);
    walk loose = {list, "", -1, 0};
    VV_TRY(walk_folder(&loose));
    return vvi_photo_labels(list, set, dir, labels);
}

vv_status vvi_photo_list_fill(vvi_photo_list *list, const char *set, const char *dir, bool train,
                              double eval_fraction, const char *labels)
{
    static const char *const eval_names[] = {"val", "valid", "validation", "test"};
    const char *train_root, *eval_root = NULL;
    VV_TRY(folder_in(list, dir, "train", &train_root));
    for (int i = 0; i < 4 && train_root && !eval_root; i++)
        VV_TRY(folder_in(list, dir, eval_names[i], &eval_root));
    list->root = train_root ? train_root : vvi_arena_text(&list->texts, dir);
    if (!list->root)
        return VV_ENOMEM;
    VV_TRY(list_classes(list, set, list->root));
    VV_TRY(vvi_photo_class_names(list, dir));
    if (!train && eval_root) {
        list->root = eval_root;
        VV_TRY(fill_eval(list, set, dir, labels));
    } else {
        VV_TRY(walk_classes(list));
        if (!eval_root)
            keep_share(list, train, eval_fraction);
    }
    if (list->count > 0)
        qsort(list->photos, (size_t)list->count, sizeof *list->photos, by_path);
    return VV_OK;
}
