/* split_regex.c - other expressions for pieces, by PCRE2. */
#include <string.h>

#include <vivace/memory.h>
#include <vivace/str.h>

#include "data/tokenizer/split.h"
#include "vvi_config.h"

bool vvi_regex_available(void)
{
    return VVI_HAVE_PCRE2;
}

#if VVI_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define JIT_STACK_BYTES ((size_t)1 << 20)

struct vvi_regex {
    pcre2_code *code;
    char *pattern; /* for sentences */
};
struct vvi_regex_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL = without just-in-time code */
};

/* PCRE2's \s also matches U+180E; the tokenizers' means White_Space. */
static vv_status spell_spaces(vv_str *out, const char *pattern)
{
    for (const char *at = pattern; *at; at++) {
        if (at[0] == '\\' && (at[1] == 's' || at[1] == 'S')) {
            vv_str_add(out, at[1] == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
            at++;
        } else if (at[0] == '\\' && at[1]) {
            vv_str_addn(out, at++, 2);
        } else {
            vv_str_addn(out, at, 1);
        }
    }
    return vv_str_status(out);
}

static pcre2_code *compile(const char *pattern, int *error, size_t *where)
{
    return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, error,
                         where, NULL);
}

vv_status vvi_regex_new(vvi_regex **out, const char *pattern)
{
    vv_status status;
    vvi_regex *regex = NULL;
    vv_str spelled = {0};
    int error;
    size_t where;
    *out = NULL;
    VV_GO(vv_alloc(&regex, sizeof *regex));
    VV_GO(vv_strdup(&regex->pattern, pattern));
    VV_GO(spell_spaces(&spelled, pattern));
    regex->code = compile(vv_str_text(&spelled), &error, &where);
    if (!regex->code) /* a PCRE2 before 10.40 does not know the property */
        regex->code = compile(pattern, &error, &where);
    if (!regex->code) {
        unsigned char text[256] = "";
        pcre2_get_error_message(error, text, sizeof text);
        status = vv_fail(VV_EFORMAT, "the expression '%s' is wrong at character %zu: %s", pattern,
                         where, (const char *)text);
        goto out;
    }
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* slower without, that is all */
    *out = regex;
    regex = NULL;
out:
    vv_str_fini(&spelled);
    vvi_regex_free(regex);
    return status;
}

void vvi_regex_free(vvi_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    vv_dealloc(regex->pattern);
    vv_dealloc(regex);
}

vv_status vvi_regex_match_new(vvi_regex_match **out, const vvi_regex *regex)
{
    vv_status status;
    vvi_regex_match *match;
    *out = NULL;
    VV_TRY(vv_alloc(&match, sizeof *match));
    match->data = pcre2_match_data_create_from_pattern(regex->code, NULL);
    match->context = pcre2_match_context_create(NULL);
    if (!match->data || !match->context) {
        status = vv_fail(VV_ENOMEM, "out of memory for matching '%s'", regex->pattern);
        vvi_regex_match_free(match);
        return status;
    }
    match->stack = pcre2_jit_stack_create(JIT_STACK_BYTES / 32, JIT_STACK_BYTES, NULL);
    if (match->stack)
        pcre2_jit_stack_assign(match->context, NULL, match->stack);
    *out = match;
    return VV_OK;
}

void vvi_regex_match_free(vvi_regex_match *match)
{
    if (!match)
        return;
    if (match->stack)
        pcre2_jit_stack_free(match->stack);
    pcre2_match_context_free(match->context);
    pcre2_match_data_free(match->data);
    vv_dealloc(match);
}

vv_status vvi_regex_find(const vvi_regex *regex, vvi_regex_match *match, const unsigned char *text,
                         size_t bytes, size_t from, size_t *first, size_t *last)
{
    *first = *last = bytes;
    const int count = pcre2_match(regex->code, text, bytes, from,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match->data, match->context);
    if (count == PCRE2_ERROR_NOMATCH)
        return VV_OK;
    if (count < 0) {
        unsigned char message[256] = "";
        pcre2_get_error_message(count, message, sizeof message);
        return vv_fail(VV_EFORMAT, "the expression '%s' cannot be matched at byte %zu: %s",
                       regex->pattern, from, (const char *)message);
    }
    const size_t *ends = pcre2_get_ovector_pointer(match->data);
    *first = ends[0];
    *last = ends[1];
    if (*first < from || *last <= *first) /* \K can do that */
        return vv_fail(VV_EFORMAT, "the expression '%s' matches backwards", regex->pattern);
    return VV_OK;
}

#else

vv_status vvi_regex_new(vvi_regex **out, const char *pattern)
{
    *out = NULL;
    return vv_fail(VV_EUNSUPPORTED,
                   "this build has no PCRE2, which the expression '%s' needs; build with "
                   "libpcre2-dev, or use a tokenizer with GPT-2's expression",
                   pattern);
}

void vvi_regex_free(vvi_regex *regex)
{
    (void)regex;
}

vv_status vvi_regex_match_new(vvi_regex_match **out, const vvi_regex *regex)
{
    (void)regex;
    *out = NULL;
    return VV_OK;
}

void vvi_regex_match_free(vvi_regex_match *match)
{
    (void)match;
}

vv_status vvi_regex_find(const vvi_regex *regex, vvi_regex_match *match, const unsigned char *text,
                         size_t bytes, size_t from, size_t *first, size_t *last)
{
    (void)regex, (void)match, (void)text, (void)from;
    *first = *last = bytes;
    return vv_fail(VV_EUNSUPPORTED, "this build has no PCRE2");
}

#endif
