/* tfevents.h - TensorBoard's event files: records with masked CRC-32C, and the few protocol buffer
 * messages that are needed, written and read by hand. */
#ifndef VVI_TFEVENTS_H
#define VVI_TFEVENTS_H

#include <stdio.h>

#include <vivace/str.h>

/* CRC-32C (Castagnoli). */
typedef struct vvi_crc32c {
    uint32_t table[256];
} vvi_crc32c;
void vvi_crc32c_init(vvi_crc32c *crc);
/* As TFRecord stores it: rotated and shifted, so that a checksum of data that holds checksums is
   none of theirs. */
uint32_t vvi_crc32c_masked(const vvi_crc32c *crc, const void *data, size_t bytes);

/* Events, appended to `out` as the bytes of the message alone. */
void vvi_event_version(vv_str *out, double wall_time);
void vvi_event_start(vv_str *out, double wall_time, int64_t step);
void vvi_event_scalar(vv_str *out, double wall_time, int64_t step, const char *tag, double value);
void vvi_event_text(vv_str *out, double wall_time, int64_t step, const char *tag,
                    const char *markdown);
/* A message as a record: length, its checksum, data, its checksum. */
void vvi_event_record(vv_str *out, const vvi_crc32c *crc, const vv_str *event);

/* What reading back needs of an event. */
typedef struct vvi_event_view {
    int64_t step;
    const char *tag; /* of its first value, not NUL-terminated; NULL = none */
    size_t tag_bytes;
} vvi_event_view;
/* The next whole record of `file` into `data`; false at the end, and before a torn or damaged
   one. */
bool vvi_event_read(FILE *file, const vvi_crc32c *crc, vv_str *data, vvi_event_view *out);

#endif
