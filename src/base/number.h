/* number.h - numbers as text, the same in every locale. */
#ifndef VVI_NUMBER_H
#define VVI_NUMBER_H

#include <vivace/status.h>

typedef struct vvi_number {
    double value;
    int64_t integer; /* valid if is_whole */
    bool is_whole;   /* no fraction, and fits in int64_t */
} vvi_number;

/* Reads a decimal number ("12", "-0.5", "4_000", "3e4", "030.0") at the start of `text`; returns
   the first character after it, NULL if there is no number or it is beyond a double. */
const char *vvi_number_read(vvi_number *out, const char *text);

/* A double as the shortest usual text that reads back to the same value; returns buf. */
const char *vvi_number_text(double value, char *buf, size_t buf_bytes);

#endif
