/* run_table.h - the table's inside: entries, and reading what belongs to them. */
#ifndef VVI_RUN_TABLE_H
#define VVI_RUN_TABLE_H

#include <vivace/frontier.h>

#include "runs/store.h"

typedef struct vvi_entry {
    vv_run_light run;
    char *texts; /* of the row */
    bool fresh;  /* not yet in the table: its parts are to be read */
    vv_str kept; /* a text that a user of the table keeps with the run ... */
    uint64_t kept_revision; /* ... made at this revision of the run */
} vvi_entry;
typedef struct vvi_gone {
    char *id;
    uint64_t revision;
} vvi_gone;

struct vv_run_table {
    vv_run_store *store;
    vvi_entry **ids, **starts; /* the same ones by id and by start */
    int count;
    uint64_t revision;
    int64_t version;      /* SQLite's count of others' changes, when last looked */
    bool stale;           /* only part was read then */
    double newest;        /* `seen` of the run last heard of; NaN = none */
    double scanned, full; /* when rows, and all rows, were read */
    vvi_gone *gone;
    int gone_count;
    char **names; /* of metrics, each once */
    int name_count;
};

/* The text kept with run i in order of start: "" if none was, or the run changed since. */
vv_str *vvi_table_kept(vv_run_table *table, int i);
void vvi_entry_free(vvi_entry *entry);
vvi_entry *vvi_table_entry(const vv_run_table *table, const char *id);
/* Methods, metrics and group of the fresh ones among entries sorted by id or not. */
VV_MUST_USE vv_status vvi_table_read_parts(vv_run_table *table, vvi_entry **entries, int count,
                                           int fresh);
/* Whether a setting is one of what makes a group. */
bool vvi_of_configuration(const char *key);
/* Tags of all; runs whose tags changed get a new revision. */
VV_MUST_USE vv_status vvi_table_read_tags(vv_run_table *table);

#endif
