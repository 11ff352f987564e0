/* in_memory.c - the in_memory logger: one growing series per name. */
#include "in_memory.h"

#include <string.h>

#include <vivace/memory.h>

static const vv_field fields[] = {
    {"limit", "Newest values kept per name; 0 = all.", VV_FIELD_INT,
     offsetof(vv_in_memory_opts, limit), "0", 0, 1e15, NULL},
    {.name = NULL},
};

typedef struct series {
    char *name;
    double *values;
    vv_timestamp *times;
    int64_t first, count, capacity; /* kept: [first, first + count) */
} series;

typedef struct in_memory {
    series *items;
    int count;
    int next; /* the name that is likely to come: names come in the same order every batch */
    char **messages;
    int message_count;
} in_memory;

static series *find(const in_memory *m, const char *name)
{
    for (int k = 0; k < m->count; k++) {
        series *s = &m->items[(m->next + k) % m->count];
        if (strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

static vv_status add_series(in_memory *m, const char *name)
{
    VV_TRY(vv_realloc_array(&m->items, (size_t)m->count + 1, sizeof *m->items));
    m->items[m->count] = (series){0};
    VV_TRY(vv_strdup(&m->items[m->count].name, name));
    m->count++;
    return VV_OK;
}

/* Room for one more. With a limit the kept part wanders through twice as much room, so that a
   value costs constant time on average. */
static vv_status make_room(series *s, int64_t limit)
{
    if (limit > 0 && s->count == limit) {
        s->first++;
        s->count--;
    }
    if (s->first + s->count < s->capacity)
        return VV_OK;
    if (s->first >= s->capacity / 2 && s->first > 0) {
        memmove(s->values, s->values + s->first, (size_t)s->count * sizeof *s->values);
        memmove(s->times, s->times + s->first, (size_t)s->count * sizeof *s->times);
        s->first = 0;
        return VV_OK;
    }
    int64_t capacity = s->capacity ? 2 * s->capacity : 16;
    VV_TRY(vv_realloc_array(&s->values, (size_t)capacity, sizeof *s->values));
    VV_TRY(vv_realloc_array(&s->times, (size_t)capacity, sizeof *s->times));
    s->capacity = capacity;
    return VV_OK;
}

static vv_status in_memory_metric(vv_logger *logger, const vv_state *state, const char *name,
                                  double value)
{
    in_memory *m = logger->self;
    const vv_in_memory_opts *opts = logger->opts;
    series *s = find(m, name);
    if (!s) {
        VV_TRY(add_series(m, name));
        s = &m->items[m->count - 1];
    }
    VV_TRY(make_room(s, opts->limit));
    s->values[s->first + s->count] = value;
    s->times[s->first + s->count] = state->time;
    s->count++;
    m->next = (int)(s - m->items + 1) % m->count;
    return VV_OK;
}

static vv_status in_memory_message(vv_logger *logger, const vv_state *state, const char *text)
{
    (void)state;
    in_memory *m = logger->self;
    VV_TRY(vv_realloc_array(&m->messages, (size_t)m->message_count + 1, sizeof *m->messages));
    VV_TRY(vv_strdup(&m->messages[m->message_count], text));
    m->message_count++;
    return VV_OK;
}

static void in_memory_close(vv_logger *logger)
{
    in_memory *m = logger->self;
    for (int i = 0; i < m->count; i++) {
        vv_dealloc(m->items[i].name);
        vv_dealloc(m->items[i].values);
        vv_dealloc(m->items[i].times);
    }
    for (int i = 0; i < m->message_count; i++)
        vv_dealloc(m->messages[i]);
    vv_dealloc(m->items);
    vv_dealloc(m->messages);
    *m = (in_memory){0};
}

/* ---- reading ---- */

/* NULL if the logger is another one. */
static const in_memory *self_of(const vv_logger *logger)
{
    return logger && logger->type == &vv_logger_in_memory ? logger->self : NULL;
}

int vv_in_memory_count(const vv_logger *logger)
{
    const in_memory *m = self_of(logger);
    return m ? m->count : 0;
}

vv_in_memory_series vv_in_memory_at(const vv_logger *logger, int i)
{
    const in_memory *m = self_of(logger);
    if (!m || i < 0 || i >= m->count)
        return (vv_in_memory_series){0};
    const series *s = &m->items[i];
    return (vv_in_memory_series){s->name, s->values + s->first, s->times + s->first, s->count};
}

static const char *name_at(const void *ctx, int i)
{
    return ((const in_memory *)ctx)->items[i].name;
}

vv_status vv_in_memory_find(vv_in_memory_series *out, const vv_logger *logger, const char *name)
{
    *out = (vv_in_memory_series){0};
    const in_memory *m = self_of(logger);
    if (!m)
        return vv_fail(VV_EINVAL, "vv_in_memory_find: the logger is not of type in_memory");
    const series *s = find(m, name);
    if (s) {
        *out = vv_in_memory_at(logger, (int)(s - m->items));
        return VV_OK;
    }
    int near = vv_nearest(name, name_at, m, m->count);
    if (near < 0)
        return vv_fail(VV_ENOTFOUND, "nothing was logged as \"%s\"; %d other names were", name,
                       m->count);
    return vv_fail(VV_ENOTFOUND, "nothing was logged as \"%s\"; did you mean \"%s\"?", name,
                   m->items[near].name);
}

vv_status vv_in_memory_last(double *out, vv_timestamp *when, const vv_logger *logger,
                            const char *name)
{
    vv_in_memory_series s;
    *out = 0.0;
    VV_TRY(vv_in_memory_find(&s, logger, name));
    *out = s.values[s.count - 1];
    if (when)
        *when = s.times[s.count - 1];
    return VV_OK;
}

int vv_in_memory_message_count(const vv_logger *logger)
{
    const in_memory *m = self_of(logger);
    return m ? m->message_count : 0;
}

const char *vv_in_memory_message(const vv_logger *logger, int i)
{
    const in_memory *m = self_of(logger);
    return m && i >= 0 && i < m->message_count ? m->messages[i] : NULL;
}

const vv_logger_desc vv_logger_in_memory = {
    .desc = {"logger", "in_memory", "Every logged number kept in memory, with the clock.", "",
             "any", fields, sizeof(vv_in_memory_opts)},
    .self_size = sizeof(in_memory),
    .metric = in_memory_metric,
    .message = in_memory_message,
    .close = in_memory_close,
};
