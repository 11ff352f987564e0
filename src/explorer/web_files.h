/* web_files.h - the page, built in from web/ by tools/embed. */
#ifndef VVI_WEB_FILES_H
#define VVI_WEB_FILES_H

#include <stddef.h>

typedef struct vvi_web_file {
    const char *name; /* "index.html" */
    const unsigned char *data;
    size_t bytes;
} vvi_web_file;
extern const vvi_web_file vvi_web_files[]; /* ends with name NULL */

#endif
