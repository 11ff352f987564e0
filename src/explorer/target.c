/* target.c - the path and query of a request, taken apart and decoded. */
#include <string.h>

#include <vivace/memory.h>

#include "explorer/api.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place; false for a broken or NUL escape. plus: "+" is a blank, as in forms. */
static bool decode(char *text, bool plus)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        char c = *from;
        if (c == '%') {
            const int high = hex(from[1]), low = high < 0 ? -1 : hex(from[2]);
            if (low < 0 || high * 16 + low == 0)
                return false;
            c = (char)(high * 16 + low);
            from += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

static vv_status malformed(void)
{
    return vv_fail(VV_EINVAL, "the address cannot be read: broken %% escapes, too many values or "
                              "too long");
}

static vv_status read_query(vvi_target *out, char *query)
{
    while (*query) {
        char *next = query + strcspn(query, "&");
        char *end = next;
        next += *next == '&';
        *end = '\0';
        if (*query) {
            char *value = query + strcspn(query, "=");
            if (*value)
                *value++ = '\0';
            if (out->count == VVI_MAX_ARGS || !decode(query, true) || !decode(value, true))
                return malformed();
            out->keys[out->count] = query;
            out->values[out->count++] = value;
        }
        query = next;
    }
    return VV_OK;
}

vv_status vvi_target_read(vvi_target *out, const char *text)
{
    *out = (vvi_target){.text = NULL};
    if (text[0] != '/' || strlen(text) > VVI_TARGET_LIMIT)
        return malformed();
    VV_TRY(vv_strdup(&out->text, text));
    char *query = out->text + strcspn(out->text, "?");
    if (*query)
        *query++ = '\0';
    out->path = out->text;
    return decode(out->text, false) ? read_query(out, query) : malformed();
}

void vvi_target_fini(vvi_target *target)
{
    vv_dealloc(target->text);
    target->text = NULL;
}

const char *vvi_target_get(const vvi_target *target, const char *key)
{
    for (int i = 0; i < target->count; i++)
        if (strcmp(target->keys[i], key) == 0)
            return target->values[i];
    return NULL;
}
