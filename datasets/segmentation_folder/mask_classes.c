/* mask_classes.c - what the numbers and colours in masks mean: names, classes, what is ignored. */
#include "mask_pairs.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#define MAX_TABLE_BYTES ((size_t)1 << 20)

void vvi_mask_classes_fini(vvi_mask_classes *classes)
{
    for (int i = 0; i < 256; i++)
        vv_dealloc(classes->names[i]);
    *classes = (vvi_mask_classes){0};
}

/* ---- the table: a line "number, tab, name, tab, red green blue" for each ---- */

typedef struct table {
    vvi_mask_classes *classes;
    const char *path;
    int64_t first;  /* number of class 0 */
    int64_t ignore; /* -1 = none */
    bool colours;   /* each line must have one */
    int64_t largest;
} table;

/* A whole number 0..255 at *at, behind spaces and tabs; -1 if there is none. */
static int64_t read_number(const char **at, const char *end)
{
    int64_t value = 0;
    const char *p = *at;

    while (p < end && (*p == ' ' || *p == '\t' || *p == ','))
        p++;
    if (p == end || *p < '0' || *p > '9')
        return -1;
    for (; p < end && *p >= '0' && *p <= '9' && value <= 255; p++)
        value = 10 * value + (*p - '0');
    *at = p;
    return value <= 255 ? value : -1;
}

static vv_status wrong_line(const table *t, int64_t line)
{
    return vv_fail(VV_EFORMAT,
                   "%s:%lld: expected a number from 0 to 255, a tab, a name%s", t->path,
                   (long long)line, t->colours ? ", a tab and red, green, blue" : "");
}

static vv_status read_line(table *t, const char *at, const char *end, int64_t line)
{
    vvi_mask_classes *c = t->classes;

    while (end > at && (end[-1] == '\r' || end[-1] == ' '))
        end--;
    if (at == end || *at == '#')
        return VV_OK;

    const int64_t number = read_number(&at, end);

    if (number < 0 || at == end || *at != '\t' || memchr(at, 0, (size_t)(end - at)))
        return wrong_line(t, line);
    at++;

    const char *tab = memchr(at, '\t', (size_t)(end - at)), *stop = tab ? tab : end;
    const int64_t class = number - t->first;

    if (number != t->ignore && class >= 0 && number != 255) {
        vv_str name = {0};
        vv_status status;

        vv_str_addn(&name, at, (size_t)(stop - at));
        status = vv_str_status(&name);
        vv_dealloc(c->names[class]);
        c->names[class] = NULL;
        if (status == VV_OK)
            status = vv_strdup(&c->names[class], vv_str_text(&name));
        vv_str_fini(&name);
        VV_TRY(status);
        t->largest = class > t->largest ? class : t->largest;
    }
    int64_t rgb[3] = {-1, -1, -1};

    for (int i = 0; tab && i < 3; i++)
        rgb[i] = read_number(&tab, end);
    if (rgb[0] < 0 || rgb[1] < 0 || rgb[2] < 0)
        return t->colours ? wrong_line(t, line) : VV_OK;
    if (c->colours < 256) {
        c->number[c->colours] = (uint8_t)number;
        c->colour[c->colours++] = (uint32_t)(rgb[0] << 16 | rgb[1] << 8 | rgb[2]);
    }
    return VV_OK;
}

static vv_status read_table(table *t)
{
    void *data = NULL;
    size_t bytes = 0;
    vv_status status;

    VV_GO(vv_data_file_read(&data, &bytes, t->path, MAX_TABLE_BYTES));
    const char *at = data, *end = at + bytes;

    for (int64_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        VV_GO(read_line(t, at, stop ? stop : end, line));
        at = stop ? stop + 1 : end;
    }
out:
    vv_dealloc(data);
    return status;
}

/* The file of the option, which must be there, or classes.txt of the folder, which may be. */
static vv_status find_table(char **out, bool *found, const char *option, const char *dir)
{
    vv_status status;

    *found = true;
    *out = NULL;
    if (option[0] == '/')
        return vv_strdup(out, option);
    status = vv_data_file_find(out, dir, option[0] ? option : "classes.txt");
    if (status == VV_ENOTFOUND && !option[0]) {
        vv_error_clear();
        *found = false;
        return VV_OK;
    }
    return status;
}

/* ---- classes ---- */

static vv_status count_classes(vvi_mask_classes *c, const vv_segmentation_folder_opts *o,
                               int64_t listed, int layout)
{
    c->classes = o->classes ? o->classes : listed;
    if (!c->classes)
        c->classes = layout == VV_MASK_LAYOUT_ADE20K ? 150 : layout == VV_MASK_LAYOUT_PETS ? 3 : 0;
    if (c->classes < 1)
        return vv_fail(VV_EINVAL, "data set segmentation_folder: how many classes the masks have "
                                  "is not known; set `classes`, or put a classes.txt there "
                                  "(number, tab, name a line)");
    if (listed > c->classes)
        return vv_fail(VV_EINVAL, "data set segmentation_folder: classes is %lld, the table names "
                                  "%lld", (long long)c->classes, (long long)listed);
    return VV_OK;
}

/* Names for all classes or for none: a gap gets its number. */
static vv_status fill_names(vvi_mask_classes *c, int64_t listed)
{
    for (int64_t k = 0; listed && k < c->classes; k++) {
        vv_str name = {0};
        vv_status status = VV_OK;

        if (c->names[k])
            continue;
        vv_str_addf(&name, "%lld", (long long)k);
        status = vv_str_status(&name);
        if (status == VV_OK)
            status = vv_strdup(&c->names[k], vv_str_text(&name));
        vv_str_fini(&name);
        VV_TRY(status);
    }
    return VV_OK;
}

vv_status vvi_mask_classes_read(vvi_mask_classes *out, const vv_segmentation_folder_opts *o,
                                const char *dir, int layout)
{
    const bool from_one = layout == VV_MASK_LAYOUT_ADE20K || layout == VV_MASK_LAYOUT_PETS;
    table t = {.classes = out, .first = o->first >= 0 ? o->first : from_one,
               .ignore = o->ignore, .colours = o->colours[0] != '\0', .largest = -1};
    char *path = NULL;
    bool found;
    vv_status status;

    *out = (vvi_mask_classes){0};
    VV_GO(find_table(&path, &found, o->colours, dir));
    t.path = path;
    if (found)
        VV_GO(read_table(&t));
    VV_GO(count_classes(out, o, t.largest + 1, layout));
    VV_GO(fill_names(out, t.largest + 1));
    for (int64_t number = 0; number < 256; number++) {
        const int64_t class = number - t.first;

        if (number == o->ignore || class < 0)
            out->of[number] = VVI_NO_CLASS;
        else if (class < out->classes)
            out->of[number] = (int32_t)class;
        else
            out->of[number] = number == 255 ? VVI_NO_CLASS : VVI_BAD_CLASS;
    }
out:
    vv_dealloc(path);
    if (status != VV_OK)
        vvi_mask_classes_fini(out);
    return status;
}

vv_status vvi_mask_numbers(const vvi_mask_classes *c, const char *name, const uint8_t *pixels,
                           int64_t channels, int64_t count, uint8_t *out)
{
    int last = 0;

    for (int64_t i = 0; i < count && channels == 1; i++) {
        if (c->of[pixels[i]] == VVI_BAD_CLASS)
            return vv_fail(VV_EFORMAT,
                           "%s: holds the number %d, there are %lld classes; set `classes`, "
                           "`first` or `ignore`", name, pixels[i], (long long)c->classes);
        out[i] = pixels[i];
    }
    if (channels == 1)
        return VV_OK;
    if (!c->colours)
        return vv_fail(VV_EFORMAT, "%s: is a mask in RGB; name a table of colours (`colours`)",
                       name);
    for (int64_t i = 0; i < count; i++, pixels += 3) {
        const uint32_t rgb = (uint32_t)pixels[0] << 16 | (uint32_t)pixels[1] << 8 | pixels[2];

        if (c->colour[last] != rgb)
            for (last = 0; last < c->colours && c->colour[last] != rgb; last++)
                ;
        if (last == c->colours)
            return vv_fail(VV_EFORMAT, "%s: the colour %d %d %d is in no row of the table", name,
                           pixels[0], pixels[1], pixels[2]);
        out[i] = c->number[last];
        if (c->of[out[i]] == VVI_BAD_CLASS)
            return vv_fail(VV_EFORMAT, "%s: a colour means the number %d, there are %lld classes",
                           name, out[i], (long long)c->classes);
    }
    return VV_OK;
}
