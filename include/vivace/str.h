/* str.h - a growing text, used for plans, JSON lines and reports. */
#ifndef VIVACE_STR_H
#define VIVACE_STR_H

#include <vivace/status.h>

VV_BEGIN_DECLS

/* Zero-initialise (`vv_str s = {0}`), append, free with vv_str_fini. The first failure sticks:
   appending afterwards does nothing and vv_str_status reports it. */
typedef struct vv_str {
    char *text; /* NUL-terminated, NULL while empty */
    size_t length, capacity;
    vv_status status;
} vv_str;

VV_API void vv_str_add(vv_str *str, const char *text);
VV_API void vv_str_addn(vv_str *str, const char *text, size_t length);
VV_API void vv_str_addf(vv_str *str, const char *format, ...) VV_PRINTF(2, 3);
/* Appends `text` as a JSON string with quotes and escapes. */
VV_API void vv_str_add_json(vv_str *str, const char *text);
VV_API VV_MUST_USE vv_status vv_str_status(const vv_str *str);
/* The text, "" if empty. */
VV_API VV_BORROWED const char *vv_str_text(const vv_str *str);
VV_API void vv_str_clear(vv_str *str);
VV_API void vv_str_fini(vv_str *str);

/* Amounts of memory: "4GiB", "512 MiB", "2GB", "1000". */
VV_API VV_MUST_USE vv_status vv_bytes_parse(int64_t *out, const char *text);
/* "3.2 GiB"; returns buf (24 bytes are enough). */
VV_API VV_BORROWED const char *vv_bytes_text(size_t bytes, char *buf, size_t buf_bytes);

/* Index of the candidate nearest to `word` by edit distance (case ignored), -1 if none is near
   enough to be meant (distance > max(2, length / 3), or nothing in common). `at(ctx, i)` gives
   candidate i. */
VV_API int vv_nearest(const char *word, const char *(*at)(const void *ctx, int i), const void *ctx,
                      int count);

VV_END_DECLS

#endif
