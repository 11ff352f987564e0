/* photo_labels.c - files of "key value" lines: the classes of loose images, names of classes. */
#include <stdlib.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "base/file.h"
#include "base/number.h"
#include "data/photos/photo_list.h"

#define MOST_BYTES ((size_t)1 << 30)

static bool is_separator(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

/* Cuts one line into key and the rest; false for empty lines and comments. */
static bool cut_line(char *line, char **key, char **value)
{
    line += strspn(line, " \t\r");
    if (!*line || *line == '#')
        return false;
    *key = line;
    while (*line && !is_separator(*line))
        line++;
    if (*line)
        *line++ = '\0';
    while (is_separator(*line))
        line++;
    *value = line;
    size_t length = strlen(line);
    while (length > 0 && (line[length - 1] == '\r' || is_separator(line[length - 1])))
        line[--length] = '\0';
    return true;
}

vv_status vvi_label_file_read(const char *path, vvi_label_fn *row, void *ctx)
{
    char *text = NULL, *key, *value;
    size_t bytes;
    long long number = 0;
    vv_status status = VV_OK;
    VV_TRY(vvi_file_read_head(&text, &bytes, path, MOST_BYTES));
    for (char *line = text; line && status == VV_OK;) {
        char *end = strchr(line, '\n');
        number++;
        if (end)
            *end++ = '\0';
        if (cut_line(line, &key, &value))
            status = vv_fail_within(row(ctx, key, value), "%s:%lld", path, number);
        line = end;
    }
    vv_dealloc(text);
    return status;
}

/* ---- labels ---- */

typedef struct labelling {
    vvi_photo_list *list;
    int64_t told;
} labelling;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const vvi_photo *)a)->path, ((const vvi_photo *)b)->path);
}

/* "n01440764", "n01440764 111 108 ..." or "0". */
static vv_status class_of(const vvi_photo_list *list, const char *value, int32_t *out)
{
    char word[256];
    const size_t length = strcspn(value, " \t,");
    *out = -1;
    if (length == 0 || length >= sizeof word)
        return vv_fail(VV_EFORMAT, "expected a name and a class");
    memcpy(word, value, length);
    word[length] = '\0';
    const char *sought = word;
    const char *const *found = bsearch(&sought, list->classes, (size_t)list->class_count,
                                       sizeof *list->classes, by_text);
    vvi_number number = {0};
    const char *end = found ? NULL : vvi_number_read(&number, word);
    if (found)
        *out = (int32_t)(found - (const char *const *)list->classes);
    else if (end && !*end && number.is_whole && number.integer >= 0 &&
             number.integer < list->class_count)
        *out = (int32_t)number.integer;
    else
        return vv_fail(VV_EFORMAT, "'%s' is neither a class folder nor a number from 0 to %lld",
                       word, (long long)list->class_count - 1);
    return VV_OK;
}

/* The photo of that name, which may lack its ending. */
static vvi_photo *find_photo(const vvi_photo_list *list, const char *key)
{
    const char *slash = strrchr(key, '/'), *name = slash ? slash + 1 : key;
    const vvi_photo sought = {.path = name};
    vvi_photo *found = bsearch(&sought, list->photos, (size_t)list->count, sizeof *list->photos,
                               by_path);
    static const char *const endings[] = {".JPEG", ".jpg", ".jpeg", ".JPG", ".png"};
    for (size_t i = 0; !found && i < sizeof endings / sizeof *endings; i++) {
        char whole[512];
        const size_t length = strlen(name), more = strlen(endings[i]);
        if (length + more >= sizeof whole)
            return NULL;
        memcpy(whole, name, length);
        memcpy(whole + length, endings[i], more + 1);
        const vvi_photo longer = {.path = whole};
        found = bsearch(&longer, list->photos, (size_t)list->count, sizeof *list->photos, by_path);
    }
    return found;
}

static vv_status label_row(void *ctx, const char *key, const char *value)
{
    labelling *at = ctx;
    int32_t label;
    if (strcmp(key, "ImageId") == 0) /* a heading */
        return VV_OK;
    VV_TRY(class_of(at->list, value, &label));
    vvi_photo *photo = at->list->count ? find_photo(at->list, key) : NULL;
    if (photo && photo->label < 0) {
        photo->label = label;
        at->told++;
    }
    return VV_OK;
}

static vv_status find_file(char **out, const char *dir, const char *const *names, int count)
{
    *out = NULL;
    for (int i = 0; i < count; i++) {
        VV_TRY(vvi_path_join(out, dir, names[i]));
        if (vvi_exists(*out))
            return VV_OK;
        vv_dealloc(*out);
        *out = NULL;
    }
    return VV_OK;
}

vv_status vvi_photo_labels(vvi_photo_list *list, const char *set, const char *dir,
                           const char *labels)
{
    static const char *const usual[] = {"val.txt", "val.tsv", "val_labels.txt",
                                        "LOC_val_solution.csv"};
    char *path = NULL;
    labelling at = {list, 0};
    if (list->count > 0)
        qsort(list->photos, (size_t)list->count, sizeof *list->photos, by_path);
    VV_TRY(labels[0] ? vvi_path_join(&path, dir, labels) : find_file(&path, dir, usual, 4));
    if (!path)
        return vv_fail(VV_ENOTFOUND, "data set %s: '%s' has no class folders, and no file says the "
                                     "classes of its images; give one with `labels` (lines of a "
                                     "file's name and its class)", set, list->root);
    const vv_status status = vvi_label_file_read(path, label_row, &at);
    vv_dealloc(path);
    VV_TRY(vv_fail_within(status, "data set %s", set));
    int64_t kept = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (list->photos[i].label >= 0)
            list->photos[kept++] = list->photos[i];
    list->count = kept;
    return VV_OK;
}

/* ---- names ---- */

static vv_status name_row(void *ctx, const char *key, const char *value)
{
    vvi_photo_list *list = ctx;
    const char *const *found = bsearch(&key, list->classes, (size_t)list->class_count,
                                       sizeof *list->classes, by_text);
    if (!found || !value[0])
        return VV_OK;
    const char *kept = vvi_arena_text(&list->texts, value);
    if (!kept)
        return VV_ENOMEM;
    list->shown[found - (const char *const *)list->classes] = kept;
    return VV_OK;
}

vv_status vvi_photo_class_names(vvi_photo_list *list, const char *dir)
{
    static const char *const usual[] = {"classes.tsv", "LOC_synset_mapping.txt", "words.txt"};
    char *path = NULL;
    VV_TRY(vv_alloc_array(&list->shown, (size_t)list->class_count, sizeof *list->shown));
    memcpy(list->shown, list->classes, (size_t)list->class_count * sizeof *list->shown);
    VV_TRY(find_file(&path, dir, usual, 3));
    const vv_status status = path ? vvi_label_file_read(path, name_row, list) : VV_OK;
    vv_dealloc(path);
    return status;
}
