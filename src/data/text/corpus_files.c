/* corpus_files.c - which files a corpus is made of. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <vivace/memory.h>

#include "base/pattern.h"
#include "data/text/corpus_impl.h"

#define MAX_DEPTH 32 /* of folders */

/* What a word in a file's path says. */
static vvi_file_use use_of_word(const char *word, size_t length)
{
    static const struct {
        const char *word;
        vvi_file_use use;
    } words[] = {
        {"train", VVI_USE_TRAIN},     {"training", VVI_USE_TRAIN}, {"valid", VVI_USE_EVAL},
        {"validation", VVI_USE_EVAL}, {"val", VVI_USE_EVAL},       {"eval", VVI_USE_EVAL},
        {"dev", VVI_USE_EVAL},        {"test", VVI_USE_TEST},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == length && strncasecmp(words[i].word, word, length) == 0)
            return words[i].use;
    return VVI_USE_UNKNOWN;
}

/* By the last word of the path (below what the user gave) that says something. */
static vvi_file_use use_of(const char *path)
{
    vvi_file_use use = VVI_USE_UNKNOWN;
    while (*path) {
        size_t length = 0;
        while (isalnum((unsigned char)path[length]))
            length++;
        const vvi_file_use word = use_of_word(path, length);
        if (word != VVI_USE_UNKNOWN)
            use = word;
        path += length + (path[length] != '\0');
    }
    return use;
}

static vv_status add_file(vv_corpus *corpus, const char *path, const char *below, int64_t bytes)
{
    if (corpus->file_count == corpus->file_room) {
        const size_t room = corpus->file_room ? corpus->file_room * 2 : 16;
        VV_TRY(vv_realloc_array(&corpus->files, room, sizeof *corpus->files));
        corpus->file_room = room;
    }
    if (corpus->file_count >= INT32_MAX)
        return vv_fail(VV_EUNSUPPORTED, "%s: more than %d files", path, INT32_MAX);
    vvi_text_file *file = &corpus->files[corpus->file_count];
    *file = (vvi_text_file){.bytes = bytes, .use = use_of(below)};
    VV_TRY(vv_strdup(&file->path, path));
    corpus->file_count++;
    return VV_OK;
}

/* ---- folders ---- */

typedef struct names {
    char **items;
    size_t count, room;
} names;

static void names_fini(names *list)
{
    for (size_t i = 0; i < list->count; i++)
        vv_dealloc(list->items[i]);
    vv_dealloc(list->items);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static vv_status read_names(names *list, const char *folder)
{
    vv_status status = VV_OK;
    DIR *dir = opendir(folder);
    if (!dir)
        return vv_fail(VV_EIO, "cannot read the folder '%s': %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        if (list->count == list->room) {
            const size_t room = list->room ? list->room * 2 : 64;
            VV_GO(vv_realloc_array(&list->items, room, sizeof *list->items));
            list->room = room;
        }
        VV_GO(vv_strdup(&list->items[list->count], entry->d_name));
        list->count++;
    }
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, by_text);
out:
    closedir(dir);
    return status;
}

static vv_status find_in_folder(vv_corpus *corpus, const char *folder, size_t root,
                                vvi_patterns *patterns, int depth);

static vv_status find_entry(vv_corpus *corpus, const char *path, const char *name, size_t root,
                            vvi_patterns *patterns, int depth)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return VV_OK; /* gone meanwhile */
    if (S_ISDIR(info.st_mode))
        return find_in_folder(corpus, path, root, patterns, depth + 1);
    /* A link to a file is one; a link to a folder could lead round in circles. */
    if (S_ISLNK(info.st_mode) && stat(path, &info) != 0)
        return VV_OK;
    if (!S_ISREG(info.st_mode) || info.st_size == 0 || !vvi_patterns_match(patterns, name))
        return VV_OK;
    return add_file(corpus, path, path + root, (int64_t)info.st_size);
}

static vv_status find_in_folder(vv_corpus *corpus, const char *folder, size_t root,
                                vvi_patterns *patterns, int depth)
{
    vv_status status;
    names list = {NULL, 0, 0};
    char *path = NULL;
    if (depth > MAX_DEPTH)
        return vv_fail(VV_EUNSUPPORTED, "%s: more than %d folders deep", folder, MAX_DEPTH);
    VV_GO(read_names(&list, folder));
    for (size_t i = 0; i < list.count; i++) {
        VV_GO(vvi_path_join(&path, folder, list.items[i]));
        VV_GO(find_entry(corpus, path, list.items[i], root, patterns, depth));
        vv_dealloc(path);
        path = NULL;
    }
out:
    vv_dealloc(path);
    names_fini(&list);
    return status;
}

vv_status vvi_corpus_find(vv_corpus *corpus, const char *path, const char *patterns)
{
    struct stat info;
    vvi_patterns parsed;
    if (stat(path, &info) != 0)
        return vv_fail(errno == ENOENT ? VV_ENOTFOUND : VV_EIO, "cannot read '%s': %s", path,
                       strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        const char *slash = strrchr(path, '/');
        if (!S_ISREG(info.st_mode))
            return vv_fail(VV_EIO, "%s: expected a file or a folder", path);
        if (info.st_size == 0)
            return vv_fail(VV_EFORMAT, "%s: the file is empty; leave it out", path);
        return add_file(corpus, path, slash ? slash + 1 : path, (int64_t)info.st_size);
    }
    const size_t before = corpus->file_count;
    VV_TRY(vvi_patterns_parse(&parsed, patterns));
    const vv_status status = find_in_folder(corpus, path, strlen(path), &parsed, 0);
    vvi_patterns_fini(&parsed);
    if (status == VV_OK && corpus->file_count == before)
        return vv_fail(VV_ENOTFOUND, "%s: no file with text in it matches %s; name others with "
                                     "files=", path, patterns);
    return status;
}
