/* training_time.h - how far a run has come: units, values, arithmetic, and the timestamp. */
#ifndef VIVACE_TRAINING_TIME_H
#define VIVACE_TRAINING_TIME_H

#include <vivace/status.h>

VV_BEGIN_DECLS

typedef enum vv_unit {
    VV_UNIT_ITERATION, /* "iter" */
    VV_UNIT_EPOCH,     /* "ep" */
    VV_UNIT_BATCH,     /* "ba": one optimizer step */
    VV_UNIT_SAMPLE,    /* "sp" */
    VV_UNIT_TOKEN,     /* "tok" */
    VV_UNIT_DURATION,  /* "dur": fraction of the maximum duration */
    VV_UNIT_SECOND,    /* "sec": of training; evaluation is not counted */
    VV_UNIT_USD,       /* "usd": a price in dollars; only a run's duration can be one */
    VV_UNIT_NONE,      /* no time given */
} vv_unit;

/* An amount of training time: `fraction` if the unit is VV_UNIT_DURATION or VV_UNIT_USD, `count`
   otherwise. */
typedef struct vv_time {
    vv_unit unit;
    int64_t count;
    double fraction;
} vv_time;

VV_API vv_time vv_time_of(int64_t count, vv_unit unit);
VV_API vv_time vv_time_fraction(double fraction);
VV_API vv_time vv_time_none(void);
VV_API bool vv_time_is_none(vv_time time);

/* Parses "<number><unit>" ("1ep", "4_000tok", "3e4ba", "0.5dur") or hours, minutes and seconds
   ("1h20m40s"); case does not matter. A bare number takes `bare` (VV_UNIT_NONE: refused). Only dur
   and usd take fractions. */
VV_API VV_MUST_USE vv_status vv_time_parse(vv_time *out, const char *text, vv_unit bare);
/* Writes e.g. "0.5dur" into buf (always terminated) and returns buf. */
VV_API const char *vv_time_text(vv_time time, char *buf, size_t buf_bytes);
VV_API VV_BORROWED const char *vv_unit_name(vv_unit unit);

/* Same unit required, else VV_ETYPE. */
VV_API VV_MUST_USE vv_status vv_time_add(vv_time *out, vv_time a, vv_time b);
VV_API VV_MUST_USE vv_status vv_time_sub(vv_time *out, vv_time a, vv_time b);
VV_API VV_MUST_USE vv_status vv_time_compare(int *out, vv_time a, vv_time b); /* -1, 0, 1 */
/* Scaled by a number; integer units truncate. */
VV_API vv_time vv_time_scale(vv_time time, double factor);
/* a / b as a fraction ("dur"); same unit required. */
VV_API VV_MUST_USE vv_status vv_time_ratio(double *out, vv_time a, vv_time b);
/* fraction-of-duration times duration: the result has the duration's unit. */
VV_API VV_MUST_USE vv_status vv_time_of_duration(vv_time *out, vv_time fraction, vv_time duration);

/* A point of an axis on which batches change in size: before batch number `batch` this many epochs
   and samples are done. */
typedef struct vv_axis_knot {
    double batch, epoch, sample;
} vv_axis_knot;

/* The one axis of a run, and what it is made of; -1 = unknown. It counts batches (optimizer steps),
   or seconds of training where the run is a budget of time or money: how many batches fit in is
   then not known before. */
typedef struct vv_axis {
    int64_t batches_per_epoch; /* this and the next two: of the first epoch where they change */
    int64_t samples_per_batch;
    int64_t tokens_per_batch;
    int64_t total_batches; /* the whole run; -1 on an axis of seconds */
    int64_t batches_per_iteration;
    double budget_seconds; /* the whole run on an axis of seconds; 0 = an axis of batches */
    /* Where batches change in size: from knot to knot in straight lines. NULL = they do not. */
    const vv_axis_knot *knots;
    int knot_count; /* at least 2 */
} vv_axis;
#define VV_AXIS_UNKNOWN {-1, -1, -1, -1, -1, 0.0, NULL, 0}

/* Any time as a number of batches (real-valued); refuses what cannot be resolved. */
VV_API VV_MUST_USE vv_status vv_time_to_batches(double *out, vv_time time, const vv_axis *axis);
/* Any time as a position on the axis, in what the axis counts; refuses what cannot be resolved. */
VV_API VV_MUST_USE vv_status vv_time_to_axis(double *out, vv_time time, const vv_axis *axis);
/* Batches of an epoch (-1 = unknown), and epochs done at a batch (NaN = unknown). */
VV_API int64_t vv_axis_epoch_batches(const vv_axis *axis, int64_t epoch);
VV_API double vv_axis_epochs(const vv_axis *axis, double batch);
/* Where the axis ends; -1 = unknown. */
VV_API double vv_axis_length(const vv_axis *axis);

/* How far the run is. All counts start at 0. */
typedef struct vv_timestamp {
    int64_t iteration, epoch, batch, sample, token;
    int64_t epoch_in_iteration, batch_in_iteration, token_in_iteration;
    int64_t batch_in_epoch, sample_in_epoch, token_in_epoch;
    double total_seconds, iteration_seconds, epoch_seconds, batch_seconds; /* training only */
} vv_timestamp;

/* The count in `unit` (seconds are whole seconds of the total); VV_ETYPE for "dur" and none. */
VV_API VV_MUST_USE vv_status vv_timestamp_get(int64_t *out, const vv_timestamp *now, vv_unit unit);
/* The position on the axis: batches done, or seconds trained. */
VV_API double vv_timestamp_position(const vv_timestamp *now, const vv_axis *axis);
VV_API void vv_timestamp_next_batch(vv_timestamp *now, int64_t samples, int64_t tokens,
                                    double seconds);
VV_API void vv_timestamp_next_epoch(vv_timestamp *now, double seconds);
VV_API void vv_timestamp_next_iteration(vv_timestamp *now, double seconds);

/* Monotonic wall clock in seconds. */
VV_API double vv_clock(void);

VV_END_DECLS

#endif
