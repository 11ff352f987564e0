/* describe.h - described types: every configurable thing (method, model, data set, optimizer,
 * schedule, callback, logger) has one table of settings. Recipes, `key=value` overrides, the
 * command line's `describe`, documentation and checkpoints all read that table. */
#ifndef VIVACE_DESCRIBE_H
#define VIVACE_DESCRIBE_H

#include <vivace/str.h>
#include <vivace/training_time.h>

VV_BEGIN_DECLS

typedef enum vv_field_type {
    VV_FIELD_BOOL,   /* bool */
    VV_FIELD_INT,    /* int64_t */
    VV_FIELD_FLOAT,  /* double */
    VV_FIELD_STRING, /* const char * (owned by the options object) */
    VV_FIELD_CHOICE, /* int: index into `choices` */
    VV_FIELD_TIME,   /* vv_time; text "" or "none" = VV_UNIT_NONE */
    VV_FIELD_TIMES,  /* vv_times: a list, in text "[10ep, 20ep]" or "10ep,20ep" */
} vv_field_type;

typedef struct vv_times {
    vv_time *items; /* owned by the options object */
    int count;
} vv_times;

/* One setting. A table of fields ends with a row whose name is NULL. */
typedef struct vv_field {
    const char *name;
    const char *help; /* one sentence with unit */
    vv_field_type type;
    size_t offset;               /* into the options struct */
    const char *fallback;        /* the default as text; NULL = the user must give it */
    double min, max;             /* inclusive; both 0 = no limits (numbers only) */
    const char *const *choices;  /* VV_FIELD_CHOICE: NULL-ended names */
} vv_field;

/* Head of every descriptor. `kind` is one of "method", "model", "dataset", "optimizer", "schedule",
   "callback", "logger", "metric", "loss". */
typedef struct vv_desc {
    const char *kind;
    const char *name;
    const char *summary; /* one sentence */
    const char *cite;    /* paper or origin; "" if none */
    const char *domains; /* "cv", "nlp", "any", comma-separated */
    const vv_field *fields;
    size_t opts_size;
} vv_desc;

/* Fills an options struct (desc->opts_size bytes) with the defaults; required fields stay zero. The
   struct is released with vv_opts_fini. */
VV_API VV_MUST_USE vv_status vv_opts_init(const vv_desc *desc, void *opts);
/* Deep copy of a caller's options struct into `dst` (uninitialised memory). */
VV_API VV_MUST_USE vv_status vv_opts_copy(const vv_desc *desc, void *dst, const void *src);
/* Sets one field from text. Unknown key: an error that names the nearest valid one. Out of range or
   wrong type: an error that names key, value and range. */
VV_API VV_MUST_USE vv_status vv_opts_set(const vv_desc *desc, void *opts, const char *key,
                                         const char *value);
/* Sets "key=value,key=value" (commas inside [] belong to the value); fields not named keep their
   value. */
VV_API VV_MUST_USE vv_status vv_opts_set_all(const vv_desc *desc, void *opts, const char *settings);
/* Checks every field against its limits (for structs filled in C). */
VV_API VV_MUST_USE vv_status vv_opts_check(const vv_desc *desc, const void *opts);
/* One field as text, as vv_opts_set would read it. */
VV_API VV_MUST_USE vv_status vv_opts_get(const vv_desc *desc, const void *opts, const char *key,
                                         vv_str *out);
/* All fields as a JSON object. */
VV_API void vv_opts_to_json(const vv_desc *desc, const void *opts, vv_str *out);
VV_API void vv_opts_fini(const vv_desc *desc, void *opts);
/* The field called `name`, NULL if there is none. */
VV_API VV_BORROWED const vv_field *vv_desc_field(const vv_desc *desc, const char *name);
/* {"name", "summary", "domains", "cite",
   "fields":[{"name","type","default","help","min","max","choices"}]}. */
VV_API void vv_desc_to_json(const vv_desc *desc, vv_str *out);

VV_END_DECLS

#endif
