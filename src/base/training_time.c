/* training_time.c - units, texts and arithmetic of training time, and the clock. */
#include <vivace/training_time.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/number.h"

static const char *const unit_names[] = {
    [VV_UNIT_ITERATION] = "iter", [VV_UNIT_EPOCH] = "ep",     [VV_UNIT_BATCH] = "ba",
    [VV_UNIT_SAMPLE] = "sp",      [VV_UNIT_TOKEN] = "tok",    [VV_UNIT_DURATION] = "dur",
    [VV_UNIT_SECOND] = "sec",     [VV_UNIT_USD] = "usd",    [VV_UNIT_NONE] = "no unit",
};

const char *vv_unit_name(vv_unit unit)
{
    return (unsigned)unit <= VV_UNIT_NONE ? unit_names[unit] : "no unit";
}

/* Whether times in this unit are real numbers. */
static bool is_real(vv_unit unit)
{
    return unit == VV_UNIT_DURATION || unit == VV_UNIT_USD;
}

vv_time vv_time_of(int64_t count, vv_unit unit)
{
    if (is_real(unit))
        return (vv_time){.unit = unit, .fraction = (double)count};
    if (unit == VV_UNIT_NONE)
        return vv_time_none();
    return (vv_time){.unit = unit, .count = count};
}

vv_time vv_time_fraction(double fraction)
{
    return (vv_time){.unit = VV_UNIT_DURATION, .fraction = fraction};
}

vv_time vv_time_none(void)
{
    return (vv_time){.unit = VV_UNIT_NONE};
}

bool vv_time_is_none(vv_time time)
{
    return time.unit == VV_UNIT_NONE;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* "1h20m40s" and its parts. Returns false if the text has another form or the seconds overflow. */
static bool read_clock_form(int64_t *seconds, const char *text)
{
    static const struct {
        char letter;
        int64_t seconds;
    } parts[] = {{'h', 3600}, {'m', 60}, {'s', 1}};
    int64_t total = 0;
    size_t part = 0;
    if (!*text)
        return false;
    while (*text) {
        int64_t number = 0;
        const char *digits = text;
        for (; *text >= '0' && *text <= '9'; text++) {
            if (number > (INT64_MAX - 9) / 10)
                return false;
            number = number * 10 + (*text - '0');
        }
        if (text == digits)
            return false;
        while (part < 3 && parts[part].letter != (*text | 0x20))
            part++;
        if (part == 3 || number > (INT64_MAX - total) / parts[part].seconds)
            return false;
        total += number * parts[part].seconds;
        part++;
        text++;
    }
    *seconds = total;
    return true;
}

static vv_status bad_text(const char *text)
{
    return vv_fail(
        VV_EINVAL,
        "'%s' is not a training time; write a number and a unit (ep, ba, sp, tok, iter, "
        "dur, sec, usd), such as 90ep, 500ba or 0.1dur, or hours, minutes and seconds, such as "
        "1h20m",
        text);
}

static vv_status read_unit(vv_unit *unit, const char *at, const char *text, vv_unit bare)
{
    if (*at == '\0') {
        *unit = bare;
        if (bare == VV_UNIT_NONE)
            return vv_fail(
                VV_EINVAL,
                "'%s' has no unit; write %sep for epochs, %sba for batches, or another of "
                "sp, tok, iter, dur, sec, usd",
                text, text, text);
        return VV_OK;
    }
    for (int i = 0; i < VV_UNIT_NONE; i++) {
        if (strcasecmp(at, unit_names[i]) == 0) {
            *unit = (vv_unit)i;
            return VV_OK;
        }
    }
    return bad_text(text);
}

vv_status vv_time_parse(vv_time *out, const char *text, vv_unit bare)
{
    char word[512];
    *out = vv_time_none();
    const char *start = text;
    while (is_space(*start))
        start++;
    size_t length = strlen(start);
    while (length && is_space(start[length - 1]))
        length--;
    if (length >= sizeof word)
        return vv_fail(VV_EINVAL, "a training time of %zu characters is too long", length);
    memcpy(word, start, length);
    word[length] = '\0';

    int64_t seconds;
    if (read_clock_form(&seconds, word)) {
        *out = vv_time_of(seconds, VV_UNIT_SECOND);
        return VV_OK;
    }
    vvi_number number;
    const char *end = vvi_number_read(&number, word);
    if (!end)
        return bad_text(word);
    vv_unit unit = bare;
    VV_TRY(read_unit(&unit, end, word, bare));
    if (is_real(unit)) {
        *out = (vv_time){.unit = unit, .fraction = number.value};
        return VV_OK;
    }
    if (!number.is_whole && number.value == floor(number.value))
        return vv_fail(VV_EINVAL, "'%s' is too large for a training time", word);
    if (!number.is_whole)
        return vv_fail(VV_ETYPE,
                       "'%s': a time in %s is a whole number; only dur and usd take fractions",
                       word, unit_names[unit]);
    *out = vv_time_of(number.integer, unit);
    return VV_OK;
}

const char *vv_time_text(vv_time time, char *buf, size_t buf_bytes)
{
    char number[40];
    if (buf_bytes == 0)
        return buf;
    if (vv_time_is_none(time))
        snprintf(buf, buf_bytes, "none");
    else if (is_real(time.unit))
        snprintf(buf, buf_bytes, "%s%s", vvi_number_text(time.fraction, number, sizeof number),
                 vv_unit_name(time.unit));
    else
        snprintf(buf, buf_bytes, "%lld%s", (long long)time.count, vv_unit_name(time.unit));
    return buf;
}

static vv_status same_unit(vv_time a, vv_time b, const char *verb)
{
    char a_text[48], b_text[48];
    if (a.unit == b.unit && !vv_time_is_none(a))
        return VV_OK;
    return vv_fail(VV_ETYPE, "cannot %s %s and %s: both need the same unit", verb,
                   vv_time_text(a, a_text, sizeof a_text), vv_time_text(b, b_text, sizeof b_text));
}

static vv_status add_counts(vv_time *out, vv_time a, int64_t b)
{
    if ((b > 0 && a.count > INT64_MAX - b) || (b < 0 && a.count < INT64_MIN - b))
        return vv_fail(VV_EINVAL, "the time %lld%s plus %lld%s is too large", (long long)a.count,
                       vv_unit_name(a.unit), (long long)b, vv_unit_name(a.unit));
    *out = vv_time_of(a.count + b, a.unit);
    return VV_OK;
}

vv_status vv_time_add(vv_time *out, vv_time a, vv_time b)
{
    *out = vv_time_none();
    VV_TRY(same_unit(a, b, "add"));
    if (!is_real(a.unit))
        return add_counts(out, a, b.count);
    *out = (vv_time){.unit = a.unit, .fraction = a.fraction + b.fraction};
    return VV_OK;
}

vv_status vv_time_sub(vv_time *out, vv_time a, vv_time b)
{
    *out = vv_time_none();
    VV_TRY(same_unit(a, b, "subtract"));
    if (is_real(a.unit)) {
        *out = (vv_time){.unit = a.unit, .fraction = a.fraction - b.fraction};
        return VV_OK;
    }
    if (b.count == INT64_MIN)
        return vv_fail(VV_EINVAL, "the time %lld%s is too small to subtract", (long long)b.count,
                       vv_unit_name(b.unit));
    return add_counts(out, a, -b.count);
}

vv_status vv_time_compare(int *out, vv_time a, vv_time b)
{
    *out = 0;
    VV_TRY(same_unit(a, b, "compare"));
    if (is_real(a.unit))
        *out = (a.fraction > b.fraction) - (a.fraction < b.fraction);
    else
        *out = (a.count > b.count) - (a.count < b.count);
    return VV_OK;
}

/* Truncates to a whole number; what does not fit becomes the nearest that does, NaN becomes 0. */
static int64_t truncated(double value)
{
    if (value >= 0x1p63)
        return INT64_MAX;
    if (value < -0x1p63)
        return INT64_MIN;
    return value == value ? (int64_t)value : 0;
}

vv_time vv_time_scale(vv_time time, double factor)
{
    if (is_real(time.unit))
        return (vv_time){.unit = time.unit, .fraction = time.fraction * factor};
    return vv_time_of(truncated((double)time.count * factor), time.unit);
}

vv_status vv_time_ratio(double *out, vv_time a, vv_time b)
{
    *out = 0.0;
    VV_TRY(same_unit(a, b, "divide"));
    double whole = is_real(b.unit) ? b.fraction : (double)b.count;
    if (whole == 0.0)
        return vv_fail(VV_EINVAL, "cannot divide by a time of 0%s", vv_unit_name(b.unit));
    *out = (is_real(a.unit) ? a.fraction : (double)a.count) / whole;
    return VV_OK;
}

vv_status vv_time_of_duration(vv_time *out, vv_time fraction, vv_time duration)
{
    char text[48];
    *out = vv_time_none();
    if (fraction.unit != VV_UNIT_DURATION)
        return vv_fail(VV_ETYPE, "%s is not a fraction of the duration; write it in dur",
                       vv_time_text(fraction, text, sizeof text));
    if (vv_time_is_none(duration))
        return vv_fail(VV_ETYPE, "%s: the run has no duration to take a fraction of",
                       vv_time_text(fraction, text, sizeof text));
    *out = vv_time_scale(duration, fraction.fraction);
    return VV_OK;
}

static vv_status need_known(int64_t known, vv_time time, const char *what)
{
    char text[48];
    if (known > 0)
        return VV_OK;
    return vv_fail(VV_EINVAL, "cannot turn %s into batches: %s is not known; give the time in ba",
                   vv_time_text(time, text, sizeof text), what);
}

/* ---- batches that change in size ---- */
typedef enum knot_axis { KNOT_BATCH, KNOT_EPOCH, KNOT_SAMPLE } knot_axis;

static double knot_at(const vv_axis_knot *knot, knot_axis which)
{
    return which == KNOT_BATCH ? knot->batch : which == KNOT_EPOCH ? knot->epoch : knot->sample;
}

/* From one count to another; beyond the last knot on as before it. */
static double on_knots(const vv_axis *axis, double x, knot_axis from, knot_axis to)
{
    int i = 0;
    while (i + 2 < axis->knot_count && x >= knot_at(&axis->knots[i + 1], from))
        i++;
    const vv_axis_knot *a = &axis->knots[i], *b = a + 1;
    const double run = knot_at(b, from) - knot_at(a, from);
    if (!(run > 0.0))
        return knot_at(b, to);
    return knot_at(a, to) + (x - knot_at(a, from)) * (knot_at(b, to) - knot_at(a, to)) / run;
}

int64_t vv_axis_epoch_batches(const vv_axis *axis, int64_t epoch)
{
    if (!axis->knots)
        return axis->batches_per_epoch;
    return (int64_t)(rint(on_knots(axis, (double)epoch + 1.0, KNOT_EPOCH, KNOT_BATCH)) -
                     rint(on_knots(axis, (double)epoch, KNOT_EPOCH, KNOT_BATCH)));
}

double vv_axis_epochs(const vv_axis *axis, double batch)
{
    if (axis->knots)
        return on_knots(axis, batch, KNOT_BATCH, KNOT_EPOCH);
    return axis->batches_per_epoch > 0 ? batch / (double)axis->batches_per_epoch : (double)NAN;
}

vv_status vv_time_to_batches(double *out, vv_time time, const vv_axis *axis)
{
    char text[48];
    *out = 0.0;
    double count = (double)time.count;
    switch (time.unit) {
    case VV_UNIT_BATCH:
        *out = count;
        return VV_OK;
    case VV_UNIT_EPOCH:
        VV_TRY(need_known(axis->batches_per_epoch, time, "the number of batches in an epoch"));
        *out = axis->knots ? on_knots(axis, count, KNOT_EPOCH, KNOT_BATCH)
                           : count * (double)axis->batches_per_epoch;
        return VV_OK;
    case VV_UNIT_SAMPLE:
        VV_TRY(need_known(axis->samples_per_batch, time, "the number of samples in a batch"));
        *out = axis->knots ? on_knots(axis, count, KNOT_SAMPLE, KNOT_BATCH)
                           : count / (double)axis->samples_per_batch;
        return VV_OK;
    case VV_UNIT_TOKEN:
        VV_TRY(need_known(axis->tokens_per_batch, time, "the number of tokens in a batch"));
        *out = count / (double)axis->tokens_per_batch;
        if (axis->knots) /* as many tokens in each sample */
            *out = on_knots(axis, *out * (double)axis->samples_per_batch, KNOT_SAMPLE, KNOT_BATCH);
        return VV_OK;
    case VV_UNIT_DURATION:
        VV_TRY(need_known(axis->total_batches, time, "the length of the run"));
        *out = time.fraction * (double)axis->total_batches;
        return VV_OK;
    case VV_UNIT_ITERATION:
        VV_TRY(need_known(axis->batches_per_iteration, time,
                          "the number of batches in an iteration"));
        *out = count * (double)axis->batches_per_iteration;
        return VV_OK;
    case VV_UNIT_SECOND:
    case VV_UNIT_USD:
    case VV_UNIT_NONE:
        break;
    }
    return vv_fail(VV_ETYPE,
                   "cannot turn %s into batches; give the time in ba, ep, sp, tok, iter or dur",
                   vv_time_text(time, text, sizeof text));
}

vv_status vv_time_to_axis(double *out, vv_time time, const vv_axis *axis)
{
    char text[48];
    *out = 0.0;
    if (!(axis->budget_seconds > 0.0))
        return vv_time_to_batches(out, time, axis);
    if (time.unit == VV_UNIT_SECOND) {
        *out = (double)time.count;
        return VV_OK;
    }
    if (time.unit == VV_UNIT_DURATION) {
        *out = time.fraction * axis->budget_seconds;
        return VV_OK;
    }
    return vv_fail(VV_ETYPE,
                   "cannot turn %s into seconds: the run is a budget of %g seconds, and how many "
                   "batches fit in is not known before; give the time in sec or dur",
                   vv_time_text(time, text, sizeof text), axis->budget_seconds);
}

double vv_axis_length(const vv_axis *axis)
{
    return axis->budget_seconds > 0.0 ? axis->budget_seconds : (double)axis->total_batches;
}

double vv_timestamp_position(const vv_timestamp *now, const vv_axis *axis)
{
    return axis->budget_seconds > 0.0 ? now->total_seconds : (double)now->batch;
}

vv_status vv_timestamp_get(int64_t *out, const vv_timestamp *now, vv_unit unit)
{
    *out = 0;
    switch (unit) {
    case VV_UNIT_ITERATION:
        *out = now->iteration;
        return VV_OK;
    case VV_UNIT_EPOCH:
        *out = now->epoch;
        return VV_OK;
    case VV_UNIT_BATCH:
        *out = now->batch;
        return VV_OK;
    case VV_UNIT_SAMPLE:
        *out = now->sample;
        return VV_OK;
    case VV_UNIT_TOKEN:
        *out = now->token;
        return VV_OK;
    case VV_UNIT_SECOND:
        *out = truncated(now->total_seconds);
        return VV_OK;
    case VV_UNIT_DURATION:
    case VV_UNIT_USD:
    case VV_UNIT_NONE:
        break;
    }
    return vv_fail(VV_ETYPE,
                   "a timestamp has no count in '%s'; ask in iter, ep, ba, sp, tok or sec",
                   vv_unit_name(unit));
}

void vv_timestamp_next_batch(vv_timestamp *now, int64_t samples, int64_t tokens, double seconds)
{
    now->batch++;
    now->batch_in_epoch++;
    now->batch_in_iteration++;
    now->sample += samples;
    now->sample_in_epoch += samples;
    now->token += tokens;
    now->token_in_epoch += tokens;
    now->token_in_iteration += tokens;
    now->total_seconds += seconds;
    now->iteration_seconds += seconds;
    now->epoch_seconds += seconds;
    now->batch_seconds = seconds;
}

static void clear_epoch(vv_timestamp *now)
{
    now->batch_in_epoch = 0;
    now->sample_in_epoch = 0;
    now->token_in_epoch = 0;
    now->epoch_seconds = 0.0;
    now->batch_seconds = 0.0;
}

void vv_timestamp_next_epoch(vv_timestamp *now, double seconds)
{
    now->epoch++;
    now->epoch_in_iteration++;
    now->total_seconds += seconds;
    now->iteration_seconds += seconds;
    clear_epoch(now);
}

void vv_timestamp_next_iteration(vv_timestamp *now, double seconds)
{
    now->iteration++;
    now->epoch_in_iteration = 0;
    now->batch_in_iteration = 0;
    now->token_in_iteration = 0;
    now->total_seconds += seconds;
    now->iteration_seconds = 0.0;
    clear_epoch(now);
}

double vv_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
