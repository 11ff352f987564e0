/* utf8.h - checks that a text is UTF-8. */
#ifndef VVI_UTF8_H
#define VVI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the sequence that starts at `s` (NUL-terminated text), 0 if it is none. */
size_t vvi_utf8_length(const unsigned char *s);
bool vvi_utf8_valid(const char *text);

#endif
