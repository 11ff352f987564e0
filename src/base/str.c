/* str.c - a growing text whose first failure sticks. */
#include <vivace/str.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/utf8.h"

/* Room for `more` characters and the NUL; doubles, so that n appends cost O(n). */
static bool make_room(vv_str *str, size_t more)
{
    if (str->status != VV_OK)
        return false;
    if (more > SIZE_MAX / 2 - str->length - 1) {
        str->status =
            vv_fail(VV_ENOMEM, "out of memory: a text of %zu more bytes is too long", more);
        return false;
    }
    size_t need = str->length + more + 1;
    if (need <= str->capacity)
        return true;
    size_t capacity = str->capacity ? str->capacity : 64;
    while (capacity < need)
        capacity *= 2;
    str->status = vv_realloc_array(&str->text, capacity, 1);
    if (str->status != VV_OK)
        return false;
    str->capacity = capacity;
    return true;
}

void vv_str_addn(vv_str *str, const char *text, size_t length)
{
    if (!text || !make_room(str, length))
        return;
    memcpy(str->text + str->length, text, length);
    str->length += length;
    str->text[str->length] = '\0';
}

void vv_str_add(vv_str *str, const char *text)
{
    if (text)
        vv_str_addn(str, text, strlen(text));
}

void vv_str_addf(vv_str *str, const char *format, ...)
{
    char small[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (length < 0) {
        if (str->status == VV_OK)
            str->status = vv_fail(VV_EINTERNAL, "the format '%s' cannot be printed", format);
        return;
    }
    if ((size_t)length < sizeof small) {
        vv_str_addn(str, small, (size_t)length);
        return;
    }
    if (!make_room(str, (size_t)length))
        return;
    va_start(args, format);
    vsnprintf(str->text + str->length, (size_t)length + 1, format, args);
    va_end(args);
    str->length += (size_t)length;
}

static void add_escaped(vv_str *str, unsigned char c)
{
    static const char named[] = "\b\f\n\r\t";
    static const char letters[] = "bfnrt";
    const char *at = c ? strchr(named, c) : NULL;
    if (c == '"' || c == '\\')
        vv_str_addf(str, "\\%c", c);
    else if (at)
        vv_str_addf(str, "\\%c", letters[at - named]);
    else
        vv_str_addf(str, "\\u%04x", (unsigned)c);
}

void vv_str_add_json(vv_str *str, const char *text)
{
    vv_str_add(str, "\"");
    const unsigned char *s = (const unsigned char *)(text ? text : "");
    while (*s) {
        size_t n = vvi_utf8_length(s);
        if (n == 0) {
            /* JSON must be UTF-8: a stray byte becomes U+FFFD. */
            vv_str_add(str, "\\ufffd");
            s++;
        } else if (n == 1 && (*s < 0x20 || *s == '"' || *s == '\\' || *s == 0x7f)) {
            add_escaped(str, *s++);
        } else {
            vv_str_addn(str, (const char *)s, n);
            s += n;
        }
    }
    vv_str_add(str, "\"");
}

vv_status vv_str_status(const vv_str *str)
{
    return str->status;
}

const char *vv_str_text(const vv_str *str)
{
    return str->text ? str->text : "";
}

void vv_str_clear(vv_str *str)
{
    str->length = 0;
    str->status = VV_OK;
    if (str->text)
        str->text[0] = '\0';
}

void vv_str_fini(vv_str *str)
{
    if (!str)
        return;
    vv_dealloc(str->text);
    *str = (vv_str){0};
}
