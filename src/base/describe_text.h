/* describe_text.h - what describe.c and describe_text.c share. */
#ifndef VVI_DESCRIBE_TEXT_H
#define VVI_DESCRIBE_TEXT_H

#include <vivace/describe.h>

/* Where a field lies in an options struct. */
const void *vvi_field_slot(const vv_field *field, const void *opts);

/* Fails with a sentence that names the nearest setting, or all of them. */
vv_status vvi_unknown_key(const vv_desc *desc, const char *key);

/* Narrows [*start, *end) by the blanks at both ends. */
void vvi_trim(const char **start, const char **end);

#endif
