/* nearest.c - the name that was probably meant: edit distance over a list of names. */
#include <vivace/str.h>

#include <string.h>

enum { WORD_MAX = 64 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static int min2(int a, int b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance by rows; both lengths are at most WORD_MAX. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length)
{
    int row[WORD_MAX + 1];
    for (int j = 0; j <= b_length; j++)
        row[j] = j;
    for (int i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int replaced = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            row[j] = min2(replaced, 1 + min2(row[j], row[j - 1]));
        }
    }
    return row[b_length];
}

int vv_nearest(const char *word, const char *(*at)(const void *ctx, int i), const void *ctx,
               int count)
{
    size_t length = strlen(word);
    if (length == 0 || length > WORD_MAX)
        return -1;
    int best = -1;
    int limit = (int)length / 3 > 2 ? (int)length / 3 : 2;
    for (int i = 0; i < count; i++) {
        const char *name = at(ctx, i);
        size_t name_length = name ? strlen(name) : 0;
        if (name_length == 0 || name_length > WORD_MAX)
            continue;
        int distance = edit_distance(word, (int)length, name, (int)name_length);
        /* Two short words without a common letter are within any limit, but no typing error. */
        if (distance >= (int)(length > name_length ? length : name_length))
            continue;
        if (distance <= limit) {
            best = i;
            limit = distance - 1;
        }
    }
    return best;
}
