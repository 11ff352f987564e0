/* glue_table.c - tab-separated tables line by line, and two texts as one row of tokens. */
#include "glue_table.h"

#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#define MAX_FILE_BYTES ((size_t)1 << 34)

void vvi_glue_table_fini(vvi_glue_table *table)
{
    vv_dealloc(table->path);
    vv_dealloc(table->data);
    vv_dealloc(table->fields);
    vv_dealloc(table->names);
    *table = (vvi_glue_table){0};
}

/* The next line without its end; false at the file's end. Lines may end like Windows' do. */
static bool take_line(vvi_glue_table *table, vvi_span *line)
{
    if (table->rest == table->end)
        return false;
    const char *stop = memchr(table->rest, '\n', (size_t)(table->end - table->rest));
    const char *next = stop ? stop + 1 : table->end;
    stop = stop ? stop : table->end;
    if (stop > table->rest && stop[-1] == '\r')
        stop--;
    *line = (vvi_span){table->rest, (size_t)(stop - table->rest)};
    table->rest = next;
    table->line++;
    return true;
}

/* Cuts a line into at most `room` fields; returns how many there are. */
static int cut_line(vvi_span line, vvi_span *fields, int room)
{
    int count = 0;
    const char *at = line.text, *end = line.text + line.bytes;
    for (;;) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        const char *stop = tab ? tab : end;
        if (count < room)
            fields[count] = (vvi_span){at, (size_t)(stop - at)};
        count++;
        if (!tab)
            return count;
        at = tab + 1;
    }
}

static vv_status first_line(vvi_glue_table *table, bool header)
{
    vvi_span line;
    const char *start = table->rest;
    if (!take_line(table, &line))
        return vv_fail(VV_EFORMAT, "%s: the file is empty", table->path);
    table->columns = cut_line(line, NULL, 0);
    VV_TRY(vv_alloc_array(&table->fields, (size_t)table->columns, sizeof *table->fields));
    if (!header) {
        table->rest = start;
        table->line = 0;
        return VV_OK;
    }
    VV_TRY(vv_alloc_array(&table->names, (size_t)table->columns, sizeof *table->names));
    cut_line(line, table->names, table->columns);
    return VV_OK;
}

vv_status vvi_glue_table_open(vvi_glue_table *out, const char *dir, const char *name, bool header)
{
    vv_status status;
    size_t bytes;
    *out = (vvi_glue_table){0};
    VV_GO(vv_data_file_find(&out->path, dir, name));
    VV_GO(vv_data_file_read(&out->data, &bytes, out->path, MAX_FILE_BYTES));
    out->rest = out->data;
    out->end = out->rest + bytes;
    if (bytes >= 3 && memcmp(out->rest, "\xef\xbb\xbf", 3) == 0)
        out->rest += 3; /* a mark that it is UTF-8 */
    VV_GO(first_line(out, header));
    return VV_OK;
out:
    vvi_glue_table_fini(out);
    return status;
}

static vv_status no_column(const vvi_glue_table *table, const char *setting, const char *name)
{
    vv_str names = {0};
    for (int c = 0; table->names && c < table->columns; c++)
        vv_str_addf(&names, "%s%.*s", c ? ", " : "", (int)table->names[c].bytes,
                    table->names[c].text);
    const vv_status status =
        vv_fail(VV_EINVAL, "%s: %s: no column \"%s\"; there are %d%s%s", table->path, setting, name,
                table->columns, table->names ? ": " : ", told by number as there is no header",
                vv_str_text(&names));
    vv_str_fini(&names);
    return status;
}

vv_status vvi_glue_table_find(int *column, const vvi_glue_table *table, const char *setting,
                              const char *name)
{
    int number = 0;
    for (int c = 0; table->names && c < table->columns; c++)
        if (table->names[c].bytes == strlen(name) &&
            memcmp(table->names[c].text, name, table->names[c].bytes) == 0) {
            *column = c;
            return VV_OK;
        }
    const char *at = name;
    for (; *at >= '0' && *at <= '9' && number < 1000000; at++)
        number = number * 10 + (*at - '0');
    if (*at || number < 1 || number > table->columns)
        return no_column(table, setting, name);
    *column = number - 1;
    return VV_OK;
}

vv_status vvi_glue_table_next(vvi_glue_table *table, bool *more)
{
    vvi_span line;
    *more = take_line(table, &line);
    if (*more && line.bytes == 0 && table->rest == table->end)
        *more = false; /* an empty line at the end */
    if (!*more)
        return VV_OK;
    const int count = cut_line(line, table->fields, table->columns);
    if (count == table->columns)
        return VV_OK;
    return vv_fail(VV_EFORMAT, "%s:%lld: expected %d columns between tabs, found %d", table->path,
                   (long long)table->line, table->columns, count);
}

/* ---- rows of tokens ---- */

void vvi_glue_fit(const vvi_glue_layout *layout, bool pair, int64_t *first, int64_t *second)
{
    const int64_t special =
        (layout->cls >= 0) + (layout->sep >= 0 ? 1 + (int64_t)pair : 0);
    int64_t room = layout->seq - special;
    if (!pair)
        *second = 0;
    if (room < 0)
        room = 0;
    if (*first + *second <= room)
        return;
    /* As if the longer one lost its last token until both fit. */
    const int64_t half = room / 2;
    if (*second <= half)
        *first = room - *second;
    else if (*first <= room - half)
        *second = room - *first;
    else {
        *first = room - half;
        *second = half;
    }
}

void vvi_glue_join(const vvi_glue_layout *layout, bool pair, const int32_t *first,
                   int64_t first_count, const int32_t *second, int64_t second_count, int32_t *out)
{
    int32_t *segment = layout->segments ? out + layout->seq : NULL;
    int64_t at = 0;
    if (layout->cls >= 0 && at < layout->seq)
        out[at++] = layout->cls;
    for (int64_t i = 0; i < first_count && at < layout->seq; i++)
        out[at++] = first[i];
    if (layout->sep >= 0 && at < layout->seq)
        out[at++] = layout->sep;
    for (int64_t t = 0; segment && t < at; t++)
        segment[t] = 0;
    const int64_t border = at;
    for (int64_t i = 0; i < second_count && at < layout->seq; i++)
        out[at++] = second[i];
    if (pair && layout->sep >= 0 && at < layout->seq)
        out[at++] = layout->sep;
    for (int64_t t = border; segment && t < at; t++)
        segment[t] = 1;
    for (; at < layout->seq; at++) {
        out[at] = layout->pad;
        if (segment)
            segment[at] = -1;
    }
}
