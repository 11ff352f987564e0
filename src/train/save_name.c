/* save_name.c - names of checkpoints made from a template (spec: trainer.md 12.2). */
#include "train/save_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    COUNT,   /* grows with the run */
    WITHIN,  /* starts anew with each epoch or iteration */
    SECONDS, /* of the wall clock */
    PLACE,   /* of this process */
} kind;

#define TIME(field) offsetof(vvi_name_facts, time.field)
#define FACT(field) offsetof(vvi_name_facts, field)
static const struct placeholder {
    const char *name;
    kind kind;
    size_t offset;
} placeholders[] = {
    {"iteration", COUNT, TIME(iteration)},
    {"epoch", COUNT, TIME(epoch)},
    {"batch", COUNT, TIME(batch)},
    {"sample", COUNT, TIME(sample)},
    {"token", COUNT, TIME(token)},
    {"epoch_in_iteration", WITHIN, TIME(epoch_in_iteration)},
    {"batch_in_iteration", WITHIN, TIME(batch_in_iteration)},
    {"token_in_iteration", WITHIN, TIME(token_in_iteration)},
    {"batch_in_epoch", WITHIN, TIME(batch_in_epoch)},
    {"sample_in_epoch", WITHIN, TIME(sample_in_epoch)},
    {"token_in_epoch", WITHIN, TIME(token_in_epoch)},
    {"total_wct", SECONDS, TIME(total_seconds)},
    {"iteration_wct", SECONDS, TIME(iteration_seconds)},
    {"epoch_wct", SECONDS, TIME(epoch_seconds)},
    {"batch_wct", SECONDS, TIME(batch_seconds)},
    {"rank", PLACE, FACT(rank)},
    {"local_rank", PLACE, FACT(local_rank)},
    {"world_size", PLACE, FACT(world_size)},
    {"local_world_size", PLACE, FACT(local_world_size)},
    {"node_rank", PLACE, FACT(node_rank)},
    {"run_name", PLACE, FACT(run_name)},
};
enum { PLACEHOLDERS = sizeof placeholders / sizeof placeholders[0], LONGEST = 200 };

/* One step through a template: a literal, or a placeholder. */
typedef struct piece {
    const char *text; /* literal, or the placeholder's name */
    size_t length;
    bool filled;  /* a placeholder */
    int which;    /* in the table; -1 = unknown */
    int width;    /* zeros up to here; -1 = "{name:...}" is no number */
} piece;

/* Reads the piece at *at and moves on; false at the end. An open brace is a literal. */
static bool next_piece(const char **at, piece *out)
{
    const char *s = *at, *end;
    *out = (piece){.text = s, .which = -1};
    if (!*s)
        return false;
    if (*s != '{' || !(end = strchr(s, '}'))) {
        out->length = *s == '{' ? 1 : strcspn(s, "{");
        *at = s + out->length;
        return true;
    }
    *at = end + 1;
    out->filled = true;
    out->text = s + 1;
    out->length = strcspn(s + 1, "}:");
    if (s[1 + out->length] == ':') {
        char *stop;
        long width = strtol(s + 2 + out->length, &stop, 10);
        out->width = stop == end && stop > s + 2 + out->length && width >= 1 && width <= 20
                         ? (int)width
                         : -1;
    }
    for (int i = 0; i < PLACEHOLDERS; i++)
        if (strlen(placeholders[i].name) == out->length &&
            strncmp(placeholders[i].name, out->text, out->length) == 0)
            out->which = i;
    return true;
}

static bool is_run_name(const piece *p)
{
    return placeholders[p->which].offset == FACT(run_name);
}

static int64_t number(const piece *p, const vvi_name_facts *facts)
{
    const char *at = (const char *)facts + placeholders[p->which].offset;
    double seconds;
    int64_t count;
    int place;
    switch (placeholders[p->which].kind) {
    case SECONDS:
        memcpy(&seconds, at, sizeof seconds);
        return (int64_t)seconds;
    case PLACE:
        memcpy(&place, at, sizeof place);
        return place;
    default:
        memcpy(&count, at, sizeof count);
        return count;
    }
}

/* A run's name as part of a file's: no slashes, no dot in front. */
static void add_run_name(vv_str *out, const char *name)
{
    for (const char *s = name && name[0] ? name : "run"; *s; s++)
        vv_str_addn(out, *s == '/' || (*s == '.' && out->length == 0) ? "-" : s, 1);
}

static void add_piece(vv_str *out, const piece *p, const vvi_name_facts *facts)
{
    if (!p->filled)
        vv_str_addn(out, p->text, p->length);
    else if (is_run_name(p))
        add_run_name(out, facts->run_name);
    else
        vv_str_addf(out, "%0*" PRId64, p->width, number(p, facts));
}

static const char *name_at(const void *ctx, int i)
{
    (void)ctx;
    return placeholders[i].name;
}

static vv_status check_piece(const piece *p, const char *key)
{
    if (!p->filled)
        return p->text[0] == '{' ? vv_fail(VV_EINVAL, "%s: a \"{\" is not closed", key) : VV_OK;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(p->length < 60 ? p->length : 60), p->text);
    if (p->which >= 0 && p->width >= 0)
        return VV_OK;
    if (p->which >= 0)
        return vv_fail(VV_EINVAL, "%s: behind the colon of {%s:...} belongs a width from 1 to 20",
                       key, name);
    int near = vv_nearest(name, name_at, NULL, PLACEHOLDERS);
    return vv_fail(VV_EINVAL, "%s: there is no placeholder {%s}; %s {%s}", key, name,
                   near >= 0 ? "did you mean" : "the count of batches is",
                   near >= 0 ? placeholders[near].name : "batch");
}

vv_status vvi_name_check(const char *pattern, const char *key)
{
    piece p;
    bool counts = false, within = false, epoch = false;
    const char *at = pattern;
    while (next_piece(&at, &p)) {
        VV_TRY(check_piece(&p, key));
        if (!p.filled)
            continue;
        kind k = placeholders[p.which].kind;
        counts = counts || k == COUNT || placeholders[p.which].offset == TIME(total_seconds);
        within = within || k == WITHIN;
        epoch = epoch || placeholders[p.which].offset == TIME(epoch) ||
                placeholders[p.which].offset == TIME(iteration);
    }
    if (!pattern[0] || pattern[0] == '.' || strchr(pattern, '/'))
        return vv_fail(VV_EINVAL, "%s: \"%s\" is no name for a file in the run's folder (no slash, "
                                  "no dot in front)", key, pattern);
    if (strlen(pattern) > LONGEST)
        return vv_fail(VV_EINVAL, "%s: it is longer than %d bytes", key, (int)LONGEST);
    if (within && !epoch)
        return vv_fail(VV_EINVAL, "%s: \"%s\" repeats itself in each epoch; add {epoch}", key,
                       pattern);
    if (!counts)
        return vv_fail(VV_EINVAL, "%s: \"%s\" is the same name at any time; add {batch}", key,
                       pattern);
    return VV_OK;
}

vv_status vvi_name_fill(vv_str *out, const char *pattern, const vvi_name_facts *facts)
{
    piece p;
    for (const char *at = pattern; next_piece(&at, &p);) {
        VV_TRY(check_piece(&p, "name"));
        add_piece(out, &p, facts);
    }
    return vv_str_status(out);
}

/* Reads a number as a placeholder of this width writes it. */
static bool read_number(const char **at, int64_t *out)
{
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 18)
        return false;
    *out = strtoll(*at, NULL, 10);
    *at += digits;
    return true;
}

/* Matches one piece against the name; numbers that are read go into `facts`. */
static bool match_piece(const piece *p, const char **name, vvi_name_facts *facts)
{
    if (p->filled && placeholders[p->which].kind != PLACE) {
        int64_t count;
        if (!read_number(name, &count))
            return false;
        memcpy((char *)facts + placeholders[p->which].offset, &count, sizeof count);
        return true;
    }
    vv_str text = {0};
    add_piece(&text, p, facts);
    bool same = vv_str_status(&text) == VV_OK &&
                strncmp(*name, vv_str_text(&text), text.length) == 0;
    *name += same ? text.length : 0;
    vv_str_fini(&text);
    return same;
}

bool vvi_name_batch(const char *pattern, const vvi_name_facts *facts, const char *name,
                    int64_t *batch)
{
    vvi_name_facts read = *facts;
    bool found = false;
    piece p;
    const char *at = pattern, *rest = name;
    while (next_piece(&at, &p)) {
        if (p.filled && (p.which < 0 || placeholders[p.which].kind == SECONDS))
            return false;
        found = found || (p.filled && placeholders[p.which].offset == TIME(batch));
        if (!match_piece(&p, &rest, &read))
            return false;
    }
    if (!found || *rest)
        return false;
    /* What was read must give the same name again. */
    vv_str again = {0};
    bool same = vvi_name_fill(&again, pattern, &read) == VV_OK &&
                strcmp(vv_str_text(&again), name) == 0;
    vv_str_fini(&again);
    *batch = read.time.batch;
    return same;
}
