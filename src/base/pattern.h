/* pattern.h - lists of name patterns as settings give them: "fc.*, *.bias". */
#ifndef VVI_PATTERN_H
#define VVI_PATTERN_H

#include <vivace/status.h>

typedef struct vvi_pattern {
    char *text;
    bool used; /* has matched something */
} vvi_pattern;
typedef struct vvi_patterns {
    vvi_pattern *items;
    int count;
} vvi_patterns;

/* Comma-separated shell patterns (*, ?, [abc]; "*" also matches dots and slashes), spaces around
   them ignored; NULL and "" give none. Released with vvi_patterns_fini. */
VV_MUST_USE vv_status vvi_patterns_parse(vvi_patterns *out, const char *text);
/* Whether one of them matches the whole name; it is then marked as used. */
bool vvi_patterns_match(vvi_patterns *patterns, const char *name);
/* The same of a list given as text, without keeping anything. Parts of 255 bytes or more match
   nothing. */
bool vvi_patterns_have(const char *text, const char *name);
void vvi_patterns_fini(vvi_patterns *patterns);

#endif
