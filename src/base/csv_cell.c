/* csv_cell.c - one cell of a table. */
#include "base/csv_cell.h"

#include <string.h>

#include "base/number.h"

static bool is_number(const char *text)
{
    vvi_number number;
    const char *rest = vvi_number_read(&number, text);
    return rest && !*rest;
}

void vvi_csv_cell(vv_str *out, const char *text)
{
    const bool formula = text[0] && strchr("=+-@", text[0]) != NULL && !is_number(text);
    if (!strpbrk(text, ",\"\r\n") && !formula) {
        vv_str_add(out, text);
        return;
    }
    vv_str_add(out, formula ? "\"'" : "\"");
    for (const char *p = text; *p; p++) {
        if (*p == '"')
            vv_str_add(out, "\"");
        vv_str_addn(out, p, 1);
    }
    vv_str_add(out, "\"");
}
