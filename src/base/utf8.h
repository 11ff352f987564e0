/* utf8.h - checks that a text is UTF-8. */
#ifndef VVI_UTF8_H
#define VVI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the sequence that starts at `s` (NUL-terminated text), 0 if it is none. */
size_t vvi_utf8_length(const unsigned char *s);
bool vvi_utf8_valid(const char *text);
/* How many of the bytes, from the first on, are whole UTF-8 sequences; a NUL is one. */
size_t vvi_utf8_prefix(const char *text, size_t bytes);

#endif
