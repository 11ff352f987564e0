/* csv_cell.h - texts as cells of a table (RFC 4180). */
#ifndef VVI_CSV_CELL_H
#define VVI_CSV_CELL_H

#include <vivace/str.h>

/* Appends a cell, quoted where it must be. What a spreadsheet would take for a formula, and is no
   number, gets an apostrophe in front. */
void vvi_csv_cell(vv_str *out, const char *text);

#endif
