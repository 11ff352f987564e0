/* glue_table.h - a table of tab-separated text, and what is made of its lines. */
#ifndef VVI_GLUE_TABLE_H
#define VVI_GLUE_TABLE_H

#include <vivace/data.h>

/* A piece of the file. */
typedef struct vvi_span {
    const char *text;
    size_t bytes;
} vvi_span;

typedef struct vvi_glue_table {
    char *path; /* for sentences */
    void *data;
    const char *rest, *end; /* lines to come */
    int64_t line;           /* of the last one read, from 1 */
    int columns;
    vvi_span *fields; /* of that line: `columns` of them */
    vvi_span *names;  /* of the header, NULL without one */
} vvi_glue_table;

/* The file (plain, .gz or .zst) `name` in `dir`; its first line tells how many columns there
   are. */
VV_MUST_USE vv_status vvi_glue_table_open(vvi_glue_table *out, const char *dir, const char *name,
                                          bool header);
void vvi_glue_table_fini(vvi_glue_table *table);
/* *column = a column by name, or by its number from 1. `setting`: for the sentence. */
VV_MUST_USE vv_status vvi_glue_table_find(int *column, const vvi_glue_table *table,
                                          const char *setting, const char *name);
/* The next line's fields; *more = false at the end. VV_EFORMAT with file and line if it has another
   number of columns. */
VV_MUST_USE vv_status vvi_glue_table_next(vvi_glue_table *table, bool *more);

/* How two texts become one row of `seq` tokens: [cls] a [sep] b [sep] pad ... Special tokens that
   are -1 are left out. */
typedef struct vvi_glue_layout {
    int64_t seq;
    int32_t cls, sep, pad;
    bool segments; /* a second row: 0 for the first text with its specials, 1, -1 = padding */
} vvi_glue_layout;
/* How many tokens of each text stay: the longer one is cut, of equals the second. `pair`: there are
   two texts. */
void vvi_glue_fit(const vvi_glue_layout *layout, bool pair, int64_t *first, int64_t *second);
/* Writes the row (with segments, two rows) from texts that fit. */
void vvi_glue_join(const vvi_glue_layout *layout, bool pair, const int32_t *first,
                   int64_t first_count, const int32_t *second, int64_t second_count, int32_t *out);

#endif
