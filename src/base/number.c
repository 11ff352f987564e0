/* number.c - numbers as text, the same in every locale. */
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

enum { NUMBER_MAX = 400 };

/* strtod and printf follow the host program's locale ("0,5"); recipes and logs must not. */
static locale_t enter_c_locale(locale_t *made)
{
    *made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return *made ? uselocale(*made) : (locale_t)0;
}

static void leave_c_locale(locale_t made, locale_t before)
{
    if (!made)
        return;
    uselocale(before);
    freelocale(made);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

typedef struct copy {
    char text[NUMBER_MAX + 1];
    size_t length;
} copy;

static void put(copy *to, char c)
{
    if (to->length < NUMBER_MAX)
        to->text[to->length++] = c;
}

/* Digits with single underscores between them; returns how many digits. */
static int read_digits(copy *to, const char **at)
{
    int count = 0;
    while (is_digit(**at) || (**at == '_' && count > 0 && is_digit((*at)[1]))) {
        if (**at != '_') {
            put(to, **at);
            count++;
        }
        ++*at;
    }
    return count;
}

static void read_exponent(copy *to, const char **at)
{
    const char *s = *at;
    if (*s != 'e' && *s != 'E')
        return;
    s++;
    char sign = *s == '-' ? '-' : '+';
    if (*s == '-' || *s == '+')
        s++;
    if (!is_digit(*s))
        return; /* "1ep": the unit's first letter */
    put(to, 'e');
    put(to, sign);
    read_digits(to, &s);
    *at = s;
}

const char *vvi_number_read(vvi_number *out, const char *text)
{
    copy plain = {.length = 0};
    const char *s = text;
    *out = (vvi_number){0};
    if (*s == '-')
        put(&plain, '-');
    if (*s == '-' || *s == '+')
        s++;
    int digits = read_digits(&plain, &s);
    const char *end_of_whole = s;
    if (*s == '.' && (digits || is_digit(s[1]))) {
        put(&plain, '.');
        s++;
        digits += read_digits(&plain, &s);
    }
    if (digits == 0)
        return NULL;
    read_exponent(&plain, &s);
    if (plain.length >= NUMBER_MAX)
        return NULL;
    plain.text[plain.length] = '\0';

    locale_t made, before = enter_c_locale(&made);
    out->value = strtod(plain.text, NULL);
    leave_c_locale(made, before);
    if (!isfinite(out->value))
        return NULL;
    if (s == end_of_whole) {
        errno = 0;
        long long exact = strtoll(plain.text, NULL, 10);
        out->is_whole = errno == 0;
        out->integer = exact;
    } else if (out->value == floor(out->value) && fabs(out->value) < 0x1p63) {
        out->is_whole = true;
        out->integer = (int64_t)out->value;
    }
    return s;
}

const char *vvi_number_text(double value, char *buf, size_t buf_bytes)
{
    locale_t made, before = enter_c_locale(&made);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, buf_bytes, "%.*g", digits, value);
        if (strtod(buf, NULL) == value)
            break;
    }
    leave_c_locale(made, before);
    return buf;
}
