/* run_store.h - every run as a row: what it was, how it went, what it cost. One SQLite file that
 * many processes read while others write. Builds without SQLite answer VV_EUNSUPPORTED. */
#ifndef VIVACE_RUN_STORE_H
#define VIVACE_RUN_STORE_H

#include <vivace/str.h>

VV_BEGIN_DECLS

typedef struct vv_run_store vv_run_store;

/* X(field, kind): t text, i int64_t, r double, b bool. Texts are never NULL when read; NULL = ""
   when written. Numbers that nobody knows are NaN or -1. */
#define VV_RUN_COLUMNS(X)                                                              \
    X(id, t) /* stable and unique: "NAME-s17-3f9a01c2" */                              \
    X(name, t)                                                                         \
    X(source, t) /* "vivace", or the format it was imported from */                    \
    X(status, t) /* running, done, interrupted, failed, killed; imported runs: done */ \
    X(dataset, t)                                                                      \
    X(model, t)                                                                        \
    X(optimizer, t)                                                                    \
    X(recipe, t) /* the resolved recipe as YAML */                                     \
    X(scale_schedule_ratio, r)                                                         \
    X(seed, i)                                                                         \
    X(batch_size, i)                                                                   \
    X(max_duration, t)                                                                 \
    X(parameters, i) /* trainable numbers of the model */                              \
    X(precision, t)                                                                    \
    X(threads, i)                                                                      \
    X(cores, i)                                                                        \
    X(processor, t)                                                                    \
    X(hardware, t) /* an entry of the price table; "" or "local" = this machine */     \
    X(usd_per_hour, r)                                                                 \
    X(price_kind, t)                                                                   \
    X(price_region, t)                                                                 \
    X(price_date, t)                                                                   \
    X(price_source, t)                                                                 \
    X(estimated, b) /* time or cost were computed, not measured */                     \
    X(started, r)   /* seconds since 1970 */                                           \
    X(seen, r)      /* when the run was last heard of */                               \
    X(ended, r)     /* NaN = not yet */                                                \
    X(host, t)                                                                         \
    X(pid, i)                                                                          \
    X(progress, r) /* 0 to 1 */                                                        \
    X(epochs, i)                                                                       \
    X(batches, i)                                                                      \
    X(samples, i)                                                                      \
    X(tokens, i)                                                                       \
    X(train_seconds, r)                                                                \
    X(eval_seconds, r)                                                                 \
    X(wall_seconds, r)                                                                 \
    X(samples_per_second, r)                                                           \
    X(usd, r)  /* train_seconds at usd_per_hour; NaN without a price */                \
    X(loss, r) /* of the last batch */                                                 \
    X(run_dir, t)                                                                      \
    X(version, t)                                                                      \
    X(git_commit, t)                                                                   \
    X(command, t)                                                                      \
    X(note, t)

#define VV_RUN_FIELD_t(name) const char *name;
#define VV_RUN_FIELD_i(name) int64_t name;
#define VV_RUN_FIELD_r(name) double name;
#define VV_RUN_FIELD_b(name) bool name;
#define VV_RUN_FIELD(name, kind) VV_RUN_FIELD_##kind(name)
typedef struct vv_run_row {
    VV_RUN_COLUMNS(VV_RUN_FIELD)
} vv_run_row;
#undef VV_RUN_FIELD
/* Texts "", numbers not known. */
VV_API void vv_run_row_init(vv_run_row *row);

typedef struct vv_run_method {
    const char *name, *settings; /* settings: a JSON object */
} vv_run_method;
typedef struct vv_run_setting {
    const char *key, *value; /* "optimizer.lr", "0.4" */
} vv_run_setting;
typedef struct vv_run_eval { /* one metric of one evaluation */
    const char *label, *metric;
    bool higher_is_better;
    int64_t epoch, batch, sample;
    double train_seconds, wall_seconds, value;
} vv_run_eval;
typedef struct vv_run_point { /* one logged number, thinned */
    const char *name;
    int64_t epoch, batch;
    double train_seconds, value;
} vv_run_point;

/* Opens a store. write: it is made if it is not there, and brought up to this version's schema;
   else it must exist. A store of a newer version is refused with a sentence. Used by one thread at
   a time; several processes may have one open. */
VV_API VV_MUST_USE vv_status vv_run_store_open(VV_OWNED vv_run_store **out, const char *path,
                                               bool write);
VV_API void vv_run_store_close(VV_TAKES vv_run_store *store);
VV_API bool vv_run_store_available(void); /* this build has SQLite */

/* ---- writing ---- */
/* What lies between is written whole or not at all. */
VV_API VV_MUST_USE vv_status vv_run_store_begin(vv_run_store *store);
VV_API VV_MUST_USE vv_status vv_run_store_commit(vv_run_store *store);
VV_API void vv_run_store_rollback(vv_run_store *store);
/* Adds the row, or replaces the one of that id (tags and what belongs to it stay). */
VV_API VV_MUST_USE vv_status vv_run_store_put(vv_run_store *store, const vv_run_row *row);
/* Replace what there was. */
VV_API VV_MUST_USE vv_status vv_run_store_set_methods(vv_run_store *store, const char *id,
                                                      const vv_run_method *methods, int count);
VV_API VV_MUST_USE vv_status vv_run_store_set_settings(vv_run_store *store, const char *id,
                                                       const vv_run_setting *settings, int count);
/* An evaluation at the same batch replaces the earlier one. */
VV_API VV_MUST_USE vv_status vv_run_store_add_eval(vv_run_store *store, const char *id,
                                                   const vv_run_eval *eval);
VV_API VV_MUST_USE vv_status vv_run_store_add_point(vv_run_store *store, const char *id,
                                                    const vv_run_point *point);
/* Forgets evaluations and points behind a batch: a run goes on from an earlier checkpoint. */
VV_API VV_MUST_USE vv_status vv_run_store_rewind(vv_run_store *store, const char *id,
                                                 int64_t batch);
/* VV_ENOTFOUND with the nearest id if there is no such run. A tag is one word. */
VV_API VV_MUST_USE vv_status vv_run_store_tag(vv_run_store *store, const char *id, const char *tag,
                                              bool on);
VV_API VV_MUST_USE vv_status vv_run_store_note(vv_run_store *store, const char *id,
                                               const char *note);
VV_API VV_MUST_USE vv_status vv_run_store_delete(vv_run_store *store, const char *id);

/* ---- reading: `fn` returns false to stop; what it is given is valid during the call ---- */
typedef bool (*vv_run_fn)(void *ctx, const vv_run_row *row);
/* In order of their start. A run that says "running" and was not heard of for a minute, or whose
   process on this host is gone, is read as killed. */
VV_API VV_MUST_USE vv_status vv_run_store_each(vv_run_store *store, vv_run_fn fn, void *ctx);
/* *out = the full id: `text` is one, or the beginning of one, or a name, of exactly one run (of
   several of that name the latest). */
VV_API VV_MUST_USE vv_status vv_run_store_find(vv_run_store *store, const char *text, vv_str *out);
VV_API VV_MUST_USE vv_status vv_run_store_get(vv_run_store *store, const char *id, vv_run_fn fn,
                                              void *ctx);
VV_API VV_MUST_USE vv_status vv_run_store_methods(vv_run_store *store, const char *id,
                                                  bool (*fn)(void *ctx, const vv_run_method *),
                                                  void *ctx);
VV_API VV_MUST_USE vv_status vv_run_store_settings(vv_run_store *store, const char *id,
                                                   bool (*fn)(void *ctx, const vv_run_setting *),
                                                   void *ctx);
VV_API VV_MUST_USE vv_status vv_run_store_evals(vv_run_store *store, const char *id,
                                                bool (*fn)(void *ctx, const vv_run_eval *),
                                                void *ctx);
VV_API VV_MUST_USE vv_status vv_run_store_points(vv_run_store *store, const char *id,
                                                 bool (*fn)(void *ctx, const vv_run_point *),
                                                 void *ctx);
VV_API VV_MUST_USE vv_status vv_run_store_tags(vv_run_store *store, const char *id,
                                               bool (*fn)(void *ctx, const char *tag), void *ctx);

/* ---- to and from other files ---- */
/* One run with all that belongs to it as a JSON object. */
VV_API VV_MUST_USE vv_status vv_run_store_json(vv_run_store *store, const char *id, bool points,
                                               vv_str *out);
/* Every run: {"format":"vivace-runs","version":1,"runs":[...]}, or a table with a row a run: the
   columns, the methods' names, and final and best value of each metric. */
VV_API VV_MUST_USE vv_status vv_run_store_export_json(vv_run_store *store, bool points,
                                                      vv_str *out);
VV_API VV_MUST_USE vv_status vv_run_store_export_csv(vv_run_store *store, vv_str *out);
/* Takes runs from a file: our JSON; a CSV table (ours, MLflow's `search_runs`, W&B's page, or any
   with the names of our columns in its head; "params.x" are settings, "metrics.x" values); the log
   of one run as CSV with a row a moment, in Composer's names (batch, metrics/eval/..., loss/...;
   the run is called what the file is); a DAWNBench entry (X.json with X.tsv beside it), or a folder
   of such entries. Runs that are there already (same id) are replaced. *count = runs taken. A file
   that is damaged is named with the place; nothing of it is taken. */
VV_API VV_MUST_USE vv_status vv_run_store_import(vv_run_store *store, const char *path, int *count);

VV_END_DECLS

#endif
