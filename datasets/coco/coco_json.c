/* coco_json.c - reads a COCO annotation file.
 *
 * Such files are large (COCO's own half a gigabyte), so the outline is scanned here and only one
 * image, category or annotation at a time becomes a JSON value. The file is gone through twice:
 * annotations may come before what they name. */
#include "coco_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <vivace/memory.h>

typedef struct reader {
    vvi_coco_set *set;
    const char *name;
    const char *at, *end;
    const char *section; /* "image", "category", "annotation" */
    int64_t index;       /* of the element in its section */
} reader;

static vv_status fail(const reader *r, const char *what)
{
    return vv_fail(VV_EFORMAT, "%s: %s %lld: %s", r->name, r->section, (long long)r->index, what);
}

/* ---- the outline ---- */

static void skip_space(reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

static bool next_is(reader *r, char c)
{
    skip_space(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* Behind the closing quote; false at the end of the file. */
static bool skip_string(reader *r)
{
    for (r->at++; r->at < r->end; r->at++) {
        if (*r->at == '"') {
            r->at++;
            return true;
        }
        if (*r->at == '\\')
            r->at++;
    }
    r->at = r->end;
    return false;
}

/* Behind a value of any kind. What is inside is looked at by whoever needs it. */
static bool skip_value(reader *r)
{
    int64_t depth = 0;
    skip_space(r);
    const char *begin = r->at;
    while (r->at < r->end) {
        const char c = *r->at;
        if (c == '"') {
            if (!skip_string(r))
                return false;
        } else if (depth == 0 && (c == ',' || c == ']' || c == '}')) {
            return r->at > begin;
        } else {
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            r->at++;
        }
        if (depth == 0 && (c == '"' || c == '}' || c == ']'))
            return true;
    }
    return false;
}

static vv_status cut_short(const reader *r)
{
    return vv_fail(VV_EFORMAT, "%s: the JSON text ends too early or is damaged", r->name);
}

typedef vv_status (*element_fn)(reader *r, const json_t *element);

static vv_status read_element(reader *r, const char *text, size_t bytes, element_fn fn)
{
    json_error_t error;
    json_t *element = json_loadb(text, bytes, 0, &error);
    vv_status status;
    if (!element && json_error_code(&error) == json_error_out_of_memory)
        return vv_fail(VV_ENOMEM, "%s: no memory for %s %lld", r->name, r->section,
                       (long long)r->index);
    if (!json_is_object(element)) {
        json_decref(element);
        return fail(r, "is no JSON object");
    }
    status = fn(r, element);
    json_decref(element);
    return status;
}

static vv_status read_array(reader *r, element_fn fn)
{
    r->index = 0;
    if (!next_is(r, '['))
        return vv_fail(VV_EFORMAT, "%s: the list of its %ss is no JSON array", r->name, r->section);
    if (next_is(r, ']'))
        return VV_OK;
    do {
        skip_space(r);
        const char *begin = r->at;
        if (!skip_value(r))
            return cut_short(r);
        VV_TRY(read_element(r, begin, (size_t)(r->at - begin), fn));
        r->index++;
    } while (next_is(r, ','));
    return next_is(r, ']') ? VV_OK : cut_short(r);
}

typedef struct section {
    const char *key, *word;
    element_fn fn;
} section;

/* The whole file, with a function for each of the keys wanted in this pass; *found = bits of those
   that were there. */
static vv_status read_file(reader *r, const section *wanted, int count, unsigned *found)
{
    *found = 0;
    if (!next_is(r, '{'))
        return vv_fail(VV_EFORMAT, "%s: is no JSON object, as COCO's annotations are", r->name);
    if (next_is(r, '}'))
        return VV_OK;
    do {
        skip_space(r);
        const char *key = r->at;
        int which = 0;
        if (r->at >= r->end || *r->at != '"' || !skip_string(r))
            return cut_short(r);
        const size_t length = (size_t)(r->at - key) - 2;
        if (!next_is(r, ':'))
            return cut_short(r);
        while (which < count && (strlen(wanted[which].key) != length ||
                                 memcmp(wanted[which].key, key + 1, length) != 0))
            which++;
        if (which == count) {
            if (!skip_value(r))
                return cut_short(r);
            continue;
        }
        if (*found & 1u << which)
            return vv_fail(VV_EFORMAT, "%s: has \"%s\" twice", r->name, wanted[which].key);
        *found |= 1u << which;
        r->section = wanted[which].word;
        VV_TRY(read_array(r, wanted[which].fn));
    } while (next_is(r, ','));
    return next_is(r, '}') ? VV_OK : cut_short(r);
}

/* ---- elements ---- */

static vv_status need_int(const reader *r, const json_t *element, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(element, key);
    if (!json_is_integer(value))
        return vv_fail(VV_EFORMAT, "%s: %s %lld: needs \"%s\", a whole number", r->name, r->section,
                       (long long)r->index, key);
    *out = json_integer_value(value);
    return VV_OK;
}

static vv_status need_text(const reader *r, const json_t *element, const char *key, char **out)
{
    const char *text = json_string_value(json_object_get(element, key));
    if (!text || !text[0])
        return vv_fail(VV_EFORMAT, "%s: %s %lld: needs \"%s\", a text", r->name, r->section,
                       (long long)r->index, key);
    return vv_strdup(out, text);
}

/* Room for one more element of an array that doubles; the new room is zeroed. */
static vv_status grow(void **array, int64_t count, int64_t *room, size_t size)
{
    if (count < *room)
        return VV_OK;
    const int64_t wanted = *room ? 2 * *room : 64;
    VV_TRY(vv_realloc_array(array, (size_t)wanted, size));
    memset((char *)*array + (size_t)count * size, 0, (size_t)(wanted - count) * size);
    *room = wanted;
    return VV_OK;
}

/* Names lead below the folder of images. */
static bool stays_below(const char *file)
{
    if (file[0] == '/' || file[0] == '\\')
        return false;
    for (const char *part = file; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

static vv_status read_image(reader *r, const json_t *element)
{
    vvi_coco_set *set = r->set;
    void *images = set->images;
    const vv_status grown = grow(&images, set->image_count, &set->image_room, sizeof *set->images);
    set->images = images;
    VV_TRY(grown);
    vvi_coco_image *image = &set->images[set->image_count];
    VV_TRY(need_int(r, element, "id", &image->id));
    VV_TRY(need_int(r, element, "width", &image->width));
    VV_TRY(need_int(r, element, "height", &image->height));
    if (image->width < 1 || image->height < 1 || image->width > 1000000 || image->height > 1000000)
        return fail(r, "width and height are no sizes of an image");
    VV_TRY(need_text(r, element, "file_name", &image->file));
    set->image_count++;
    return stays_below(image->file) ? VV_OK
                                    : fail(r, "file_name leads out of the folder of images");
}

static vv_status read_category(reader *r, const json_t *element)
{
    vvi_coco_set *set = r->set;
    void *categories = set->categories;
    const vv_status grown =
        grow(&categories, set->category_count, &set->category_room, sizeof *set->categories);
    set->categories = categories;
    VV_TRY(grown);
    vvi_coco_category *category = &set->categories[set->category_count];
    VV_TRY(need_int(r, element, "id", &category->id));
    VV_TRY(need_text(r, element, "name", &category->name));
    set->category_count++;
    return VV_OK;
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ids are the first member of what is sorted. */
static vv_status sort_by_id(const reader *r, void *list, int64_t count, size_t size,
                            const char *word)
{
    const char *bytes = list;
    if (count > 1)
        qsort(list, (size_t)count, size, by_id);
    for (int64_t i = 1; i < count; i++) {
        const int64_t *id = (const void *)(bytes + (size_t)i * size);
        const int64_t *before = (const void *)(bytes + (size_t)(i - 1) * size);
        if (*id == *before)
            return vv_fail(VV_EFORMAT, "%s: two %s have the id %lld", r->name, word,
                           (long long)*id);
    }
    return VV_OK;
}

static int64_t find_id(const void *list, int64_t count, size_t size, int64_t id)
{
    const char *found = count ? bsearch(&id, list, (size_t)count, size, by_id) : NULL;
    return found ? (found - (const char *)list) / (int64_t)size : -1;
}

static vv_status read_bbox(const reader *r, const json_t *element, double box[4])
{
    const json_t *bbox = json_object_get(element, "bbox");
    if (!json_is_array(bbox) || json_array_size(bbox) != 4)
        return fail(r, "needs \"bbox\", four numbers: x, y, width, height");
    for (size_t i = 0; i < 4; i++) {
        const json_t *value = json_array_get(bbox, i);
        if (!json_is_number(value) || !(fabs(json_number_value(value)) < 1e9))
            return fail(r, "needs \"bbox\", four numbers: x, y, width, height");
        box[i] = json_number_value(value);
    }
    return VV_OK;
}

static double within(double v)
{
    return fmin(fmax(v, 0.0), 1.0);
}

static vv_status read_annotation(reader *r, const json_t *element)
{
    vvi_coco_set *set = r->set;
    int64_t image_id = 0, category_id = 0;
    double box[4];
    VV_TRY(need_int(r, element, "image_id", &image_id));
    VV_TRY(need_int(r, element, "category_id", &category_id));
    VV_TRY(read_bbox(r, element, box));
    const json_t *crowd = json_object_get(element, "iscrowd");
    const bool is_crowd = json_is_true(crowd) || json_integer_value(crowd) == 1;
    const int64_t image =
        find_id(set->images, set->image_count, sizeof *set->images, image_id);
    const int64_t category =
        find_id(set->categories, set->category_count, sizeof *set->categories, category_id);
    if (image < 0 || category < 0)
        return vv_fail(VV_EFORMAT, "%s: annotation %lld: no %s has the id %lld", r->name,
                       (long long)r->index, image < 0 ? "image" : "category",
                       (long long)(image < 0 ? image_id : category_id));
    const double width = (double)set->images[image].width;
    const double height = (double)set->images[image].height;
    const float row[6] = {(float)within(box[0] / width),
                          (float)within(box[1] / height),
                          (float)within((box[0] + box[2]) / width),
                          (float)within((box[1] + box[3]) / height),
                          (float)(category + 1),
                          is_crowd ? 1.0f : 0.0f};
    if (!(row[0] < row[2] && row[1] < row[3])) {
        set->empty++;
        return VV_OK;
    }
    if (set->row_count == set->row_room) {
        const int64_t wanted = set->row_room ? 2 * set->row_room : 256;
        VV_TRY(vv_realloc_array(&set->rows, (size_t)wanted, sizeof *set->rows));
        VV_TRY(vv_realloc_array(&set->owners, (size_t)wanted, sizeof *set->owners));
        set->row_room = wanted;
    }
    memcpy(set->rows[set->row_count], row, sizeof row);
    set->owners[set->row_count++] = image;
    set->images[image].count++;
    return VV_OK;
}

/* Rows of one image next to each other. */
static vv_status group_rows(vvi_coco_set *set)
{
    vv_box_row *rows = NULL;
    int64_t first = 0;
    VV_TRY(vv_alloc_array(&rows, (size_t)set->row_count + 1, sizeof *rows));
    for (int64_t i = 0; i < set->image_count; i++) {
        set->images[i].first = first;
        first += set->images[i].count;
        set->images[i].count = 0;
    }
    for (int64_t i = 0; i < set->row_count; i++) {
        vvi_coco_image *image = &set->images[set->owners[i]];
        memcpy(rows[image->first + image->count++], set->rows[i], sizeof rows[0]);
    }
    vv_dealloc(set->rows);
    vv_dealloc(set->owners);
    set->rows = rows;
    set->owners = NULL;
    return VV_OK;
}

/* ---- the whole ---- */

void vvi_coco_fini(vvi_coco_set *set)
{
    /* An element that failed half-way may hold a text behind those that count. */
    for (int64_t i = 0; i < set->image_room; i++)
        vv_dealloc(set->images[i].file);
    for (int64_t i = 0; i < set->category_room; i++)
        vv_dealloc(set->categories[i].name);
    vv_dealloc(set->images);
    vv_dealloc(set->categories);
    vv_dealloc(set->rows);
    vv_dealloc(set->owners);
    memset(set, 0, sizeof *set);
}

static vv_status parse(reader *r, const char *text)
{
    static const section first[] = {{"images", "image", read_image},
                                    {"categories", "category", read_category}};
    static const section second[] = {{"annotations", "annotation", read_annotation}};
    unsigned found;
    VV_TRY(read_file(r, first, 2, &found));
    if (found != 3)
        return vv_fail(VV_EFORMAT, "%s: has no \"%s\"", r->name,
                       found & 1 ? "categories" : "images");
    if (r->set->category_count < 1 || r->set->category_count > 100000)
        return vv_fail(VV_EFORMAT, "%s: has %lld categories; 1..100000 are possible", r->name,
                       (long long)r->set->category_count);
    VV_TRY(sort_by_id(r, r->set->images, r->set->image_count, sizeof *r->set->images, "images"));
    VV_TRY(sort_by_id(r, r->set->categories, r->set->category_count, sizeof *r->set->categories,
                      "categories"));
    r->at = text;
    VV_TRY(read_file(r, second, 1, &found));
    if (!found)
        return vv_fail(VV_EFORMAT, "%s: has no \"annotations\"", r->name);
    return group_rows(r->set);
}

vv_status vvi_coco_parse(vvi_coco_set *out, const char *name, const void *data, size_t bytes)
{
    memset(out, 0, sizeof *out);
    reader r = {.set = out, .name = name, .at = data, .end = (const char *)data + bytes};
    const vv_status status = parse(&r, data);
    if (status != VV_OK)
        vvi_coco_fini(out);
    return status;
}
