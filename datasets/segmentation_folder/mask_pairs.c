/* mask_pairs.c - finds pictures and their masks in the layouts that data sets come in. */
#include "mask_pairs.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#define MAX_LIST_BYTES ((size_t)256 << 20)

void vvi_mask_pairs_fini(vvi_mask_pairs *pairs)
{
    for (int64_t i = 0; i < pairs->count; i++) {
        vv_dealloc(pairs->items[i].image);
        vv_dealloc(pairs->items[i].mask);
    }
    vv_dealloc(pairs->items);
    *pairs = (vvi_mask_pairs){0};
}

/* "dir/a/b"; empty parts are left out. */
static vv_status join(char **out, const char *dir, const char *a, const char *b)
{
    vv_str path = {0};
    vv_status status;

    *out = NULL;
    vv_str_add(&path, dir);
    if (a[0])
        vv_str_addf(&path, "/%s", a);
    if (b[0])
        vv_str_addf(&path, "/%s", b);
    status = vv_str_status(&path);
    if (status == VV_OK)
        status = vv_strdup(out, vv_str_text(&path));
    vv_str_fini(&path);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* *yes = dir/a/b is a folder (or, with `file`, is there at all). */
static vv_status there(bool *yes, const char *dir, const char *a, const char *b, bool file)
{
    struct stat info;
    char *path;

    VV_TRY(join(&path, dir, a, b));
    *yes = file ? stat(path, &info) == 0 && S_ISREG(info.st_mode) : is_folder(path);
    vv_dealloc(path);
    return VV_OK;
}

/* Takes both texts. */
static vv_status push(vvi_mask_pairs *pairs, char *image, char *mask)
{
    vv_status status = VV_OK;

    if (pairs->count == pairs->room) {
        const int64_t room = pairs->room ? 2 * pairs->room : 256;

        status = vv_realloc_array(&pairs->items, (size_t)room, sizeof *pairs->items);
        if (status != VV_OK) {
            vv_dealloc(image);
            vv_dealloc(mask);
            return status;
        }
        pairs->room = room;
    }
    pairs->items[pairs->count++] = (vvi_mask_pair){image, mask};
    return VV_OK;
}

/* ---- lists ---- */

/* The next word of a line [at, end), NULL if there is none. Words end at a tab, or at a space where
   the line has no tab. */
static const char *next_word(const char **at, const char *end, size_t *length)
{
    const char *begin = *at, *stop;

    while (begin < end && (*begin == ' ' || *begin == '\t'))
        begin++;
    stop = memchr(begin, '\t', (size_t)(end - begin));
    if (!stop)
        stop = memchr(begin, ' ', (size_t)(end - begin));
    *at = stop ? stop : end;
    *length = (size_t)(*at - begin);
    return *length ? begin : NULL;
}

typedef struct list_rows {
    vvi_mask_pairs *pairs;
    const char *dir, *path;
    bool pets; /* the first word is a name */
} list_rows;

/* A word of a list as a path below the folder. */
static vv_status below(char **out, const list_rows *rows, const char *word, size_t length)
{
    vv_str text = {0};
    vv_status status;
    char *path = NULL;

    *out = NULL;
    vv_str_addn(&text, word, length);
    status = vv_str_status(&text);
    if (status == VV_OK)
        status = join(&path, rows->dir, vv_str_text(&text), "");
    vv_str_fini(&text);
    *out = path;
    return status;
}

static vv_status add_pet(const list_rows *rows, const char *name, size_t length)
{
    vv_str text = {0};
    char *image = NULL, *mask = NULL;
    vv_status status;

    vv_str_add(&text, rows->dir);
    vv_str_add(&text, "/images/");
    vv_str_addn(&text, name, length);
    vv_str_add(&text, ".jpg");
    VV_GO(vv_str_status(&text));
    VV_GO(vv_strdup(&image, vv_str_text(&text)));
    vv_str_fini(&text);
    vv_str_add(&text, rows->dir);
    vv_str_add(&text, "/annotations/trimaps/");
    vv_str_addn(&text, name, length);
    vv_str_add(&text, ".png");
    VV_GO(vv_str_status(&text));
    VV_GO(vv_strdup(&mask, vv_str_text(&text)));
    vv_str_fini(&text);
    return push(rows->pairs, image, mask);
out:
    vv_str_fini(&text);
    vv_dealloc(image);
    vv_dealloc(mask);
    return status;
}

static vv_status add_line(const list_rows *rows, const char *at, const char *end, int64_t line)
{
    size_t length, mask_length;
    const char *first, *second;
    char *image = NULL, *mask = NULL;
    vv_status status;

    while (end > at && (end[-1] == '\r' || end[-1] == ' '))
        end--;
    if (end <= at || *at == '#')
        return VV_OK;
    if (memchr(at, 0, (size_t)(end - at)))
        return vv_fail(VV_EFORMAT, "%s:%lld: holds a NUL byte; expected text", rows->path,
                       (long long)line);
    first = next_word(&at, end, &length);
    if (first && rows->pets)
        return add_pet(rows, first, length);
    second = first ? next_word(&at, end, &mask_length) : NULL;
    if (!second)
        return vv_fail(VV_EFORMAT, "%s:%lld: expected an image and its mask, with a tab or space "
                                   "between them", rows->path, (long long)line);
    VV_GO(below(&image, rows, first, length));
    VV_GO(below(&mask, rows, second, mask_length));
    return push(rows->pairs, image, mask);
out:
    vv_dealloc(image);
    return status;
}

static vv_status read_list(vvi_mask_pairs *pairs, const char *dir, const char *path, bool pets)
{
    const list_rows rows = {pairs, dir, path, pets};
    void *data = NULL;
    size_t bytes = 0;
    vv_status status;

    VV_GO(vv_data_file_read(&data, &bytes, path, MAX_LIST_BYTES));
    const char *at = data, *end = at + bytes;

    for (int64_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        VV_GO(add_line(&rows, at, stop ? stop : end, line));
        at = stop ? stop + 1 : end;
    }
out:
    vv_dealloc(data);
    return status;
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
    *list = (names){0};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Length of a picture's name without its ending; 0 if it is none. */
static size_t stem_of(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"};
    const size_t length = strlen(name);

    for (size_t i = 0; i < sizeof endings / sizeof *endings && name[0] != '.'; i++) {
        const size_t n = strlen(endings[i]);

        if (length > n && strcmp(name + length - n, endings[i]) == 0)
            return length - n;
    }
    return 0;
}

static vv_status list_pictures(names *out, const char *folder)
{
    vv_status status = VV_OK;
    DIR *dir = opendir(folder);

    if (!dir)
        return vv_fail(VV_ENOTFOUND, "%s: no such folder, or it cannot be read", folder);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (!stem_of(entry->d_name))
            continue;
        if (out->count == out->room) {
            const size_t room = out->room ? 2 * out->room : 256;

            VV_GO(vv_realloc_array(&out->items, room, sizeof *out->items));
            out->room = room;
        }
        VV_GO(vv_strdup(&out->items[out->count], entry->d_name));
        out->count++;
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_text);
out:
    closedir(dir);
    return status;
}

/* Stem of a mask: CamVid's masks are called NAME_L.png. */
static int compare_stems(const char *image, const char *mask)
{
    const size_t a = stem_of(image), b = stem_of(mask), n = a < b ? a : b;
    const int order = strncmp(image, mask, n);

    if (order || a == b)
        return order;
    if (b == a + 2 && strncmp(mask + a, "_L", 2) == 0)
        return 0;
    return a < b ? -1 : 1;
}

static const char *mask_for(const names *masks, const char *image)
{
    for (size_t low = 0, high = masks->count; low < high;) {
        const size_t middle = (low + high) / 2;
        const int order = compare_stems(image, masks->items[middle]);

        if (order == 0)
            return masks->items[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* A mask without an image, or the other way round, is an error: it would be missed silently. */
static vv_status pair_folders(vvi_mask_pairs *pairs, const char *images, const char *masks)
{
    names a = {0}, b = {0};
    vv_status status;

    VV_GO(list_pictures(&a, images));
    VV_GO(list_pictures(&b, masks));
    for (size_t i = 0; i < a.count; i++) {
        const char *mask = mask_for(&b, a.items[i]);
        char *image_path = NULL, *mask_path = NULL;

        if (!mask)
            VV_GO(vv_fail(VV_EFORMAT, "%s/%s: has no mask of its name in %s", images, a.items[i],
                          masks));
        VV_GO(join(&image_path, images, a.items[i], ""));
        status = join(&mask_path, masks, mask, "");
        if (status != VV_OK) {
            vv_dealloc(image_path);
            goto out;
        }
        VV_GO(push(pairs, image_path, mask_path));
    }
    if (b.count > a.count)
        status = vv_fail(VV_EFORMAT, "%s has %zu masks, %s %zu images; each mask needs its image",
                         masks, b.count, images, a.count);
out:
    names_fini(&a);
    names_fini(&b);
    return status;
}

/* images/SPLIT or SPLIT/images, and the same with the first name for masks that is there. */
static vv_status find_plain(vvi_mask_pairs *pairs, const char *dir, const char *split)
{
    static const char *const mask_names[] = {"masks", "labels", "annotations"};
    bool inside, yes = false;
    char *images = NULL, *masks = NULL;
    vv_status status;

    VV_GO(there(&inside, dir, split, "images", false));
    VV_GO(inside ? join(&images, dir, split, "images") : join(&images, dir, "images", split));
    if (!is_folder(images))
        VV_GO(vv_fail(VV_ENOTFOUND, "%s: has neither %s/images nor images/%s", dir, split, split));
    for (size_t i = 0; i < 3 && !yes; i++) {
        const char *name = mask_names[i];

        vv_dealloc(masks);
        masks = NULL;
        VV_GO(inside ? join(&masks, dir, split, name) : join(&masks, dir, name, split));
        yes = is_folder(masks);
    }
    if (!yes)
        VV_GO(vv_fail(VV_ENOTFOUND, "%s: no folder with masks beside it (masks, labels or "
                                    "annotations)", images));
    VV_GO(pair_folders(pairs, images, masks));
out:
    vv_dealloc(images);
    vv_dealloc(masks);
    return status;
}

/* ---- layouts ---- */

static vv_status guess(int *layout, const char *dir, const char *train)
{
    bool yes;
    vv_str list = {0};
    vv_status status;

    VV_TRY(there(&yes, dir, "images", "training", false));
    *layout = VV_MASK_LAYOUT_ADE20K;
    if (yes)
        return VV_OK;
    VV_TRY(there(&yes, dir, "annotations", "trimaps", false));
    *layout = VV_MASK_LAYOUT_PETS;
    if (yes)
        return VV_OK;
    vv_str_addf(&list, "%s.txt", train[0] ? train : "train");
    status = vv_str_status(&list);
    if (status == VV_OK)
        status = there(&yes, dir, vv_str_text(&list), "", true);
    vv_str_fini(&list);
    *layout = yes ? VV_MASK_LAYOUT_LIST : VV_MASK_LAYOUT_PLAIN;
    return status;
}

static vv_status find_listed(vvi_mask_pairs *out, const char *dir, const char *folder,
                             const char *split, bool pets)
{
    vv_str name = {0};
    char *path = NULL;
    vv_status status;

    vv_str_addf(&name, "%s.txt", split);
    VV_GO(vv_str_status(&name));
    VV_GO(join(&path, dir, folder, vv_str_text(&name)));
    VV_GO(read_list(out, dir, path, pets));
out:
    vv_str_fini(&name);
    vv_dealloc(path);
    return status;
}

static vv_status find_ade20k(vvi_mask_pairs *out, const char *dir, const char *split)
{
    char *images = NULL, *masks = NULL;
    vv_status status;

    VV_GO(join(&images, dir, "images", split));
    VV_GO(join(&masks, dir, "annotations", split));
    VV_GO(pair_folders(out, images, masks));
out:
    vv_dealloc(images);
    vv_dealloc(masks);
    return status;
}

vv_status vvi_mask_pairs_find(vvi_mask_pairs *out, int *layout,
                              const vv_segmentation_folder_opts *o, const char *dir, bool train)
{
    static const char *const usual[][2] = {{"train", "val"}, {"train", "val"},
                                           {"training", "validation"}, {"trainval", "test"},
                                           {"train", "val"}};
    const char *split = train ? o->train : o->eval;
    vv_status status;

    *out = (vvi_mask_pairs){0};
    *layout = o->layout;
    if (*layout == VV_MASK_LAYOUT_AUTO)
        VV_TRY(guess(layout, dir, o->train));
    if (!split[0])
        split = usual[*layout][train ? 0 : 1];
    if (*layout == VV_MASK_LAYOUT_ADE20K)
        status = find_ade20k(out, dir, split);
    else if (*layout == VV_MASK_LAYOUT_PLAIN)
        status = find_plain(out, dir, split);
    else
        status = find_listed(out, dir, *layout == VV_MASK_LAYOUT_PETS ? "annotations" : "", split,
                             *layout == VV_MASK_LAYOUT_PETS);
    if (status == VV_OK && !out->count)
        status = vv_fail(VV_EFORMAT, "%s: the split %s has no images", dir, split);
    if (status != VV_OK)
        vvi_mask_pairs_fini(out);
    return status;
}
