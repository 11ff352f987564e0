/* pattern.c - lists of name patterns as settings give them. */
#include "base/pattern.h"

#include <fnmatch.h>
#include <string.h>

#include <vivace/memory.h>

/* The length of the next pattern: up to a comma that is not within brackets. */
static size_t pattern_length(const char *text)
{
    size_t n = 0;
    bool inside = false;
    for (; text[n] && (inside || text[n] != ','); n++)
        inside = text[n] == '[' ? true : text[n] == ']' ? false : inside;
    return n;
}

static vv_status add(vvi_patterns *patterns, const char *text, size_t length)
{
    while (length && (*text == ' ' || *text == '\t'))
        text++, length--;
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    if (!length)
        return VV_OK;
    VV_TRY(vv_realloc_array(&patterns->items, (size_t)patterns->count + 1,
                            sizeof *patterns->items));
    vvi_pattern *made = &patterns->items[patterns->count];
    *made = (vvi_pattern){0};
    VV_TRY(vv_alloc(&made->text, length + 1));
    memcpy(made->text, text, length);
    patterns->count++;
    return VV_OK;
}

vv_status vvi_patterns_parse(vvi_patterns *out, const char *text)
{
    *out = (vvi_patterns){0};
    while (text && *text) {
        size_t length = pattern_length(text);
        vv_status status = add(out, text, length);
        if (status != VV_OK) {
            vvi_patterns_fini(out);
            return status;
        }
        text += length + (text[length] == ',');
    }
    return VV_OK;
}

bool vvi_patterns_match(vvi_patterns *patterns, const char *name)
{
    bool found = false;
    for (int i = 0; i < patterns->count; i++)
        if (fnmatch(patterns->items[i].text, name, 0) == 0)
            found = patterns->items[i].used = true;
    return found;
}

bool vvi_patterns_have(const char *text, const char *name)
{
    char part[256];
    while (text && *text) {
        const size_t length = pattern_length(text);
        const char *first = text, *last = text + length;
        while (first < last && (*first == ' ' || *first == '\t'))
            first++;
        while (last > first && (last[-1] == ' ' || last[-1] == '\t'))
            last--;
        const size_t bytes = (size_t)(last - first);
        if (bytes > 0 && bytes < sizeof part) {
            memcpy(part, first, bytes);
            part[bytes] = '\0';
            if (fnmatch(part, name, 0) == 0)
                return true;
        }
        text += length + (text[length] == ',');
    }
    return false;
}

void vvi_patterns_fini(vvi_patterns *patterns)
{
    for (int i = 0; i < patterns->count; i++)
        vv_dealloc(patterns->items[i].text);
    vv_dealloc(patterns->items);
    *patterns = (vvi_patterns){0};
}
