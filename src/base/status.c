/* status.c - the calling thread's last failure: a code and a sentence in a fixed buffer. */
#include <vivace/status.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fixed, so that reporting "out of memory" needs no memory. */
enum { SENTENCE_BYTES = 1024 };

static _Thread_local char sentence[SENTENCE_BYTES];
static _Thread_local vv_status last_code = VV_OK;

/* A sentence that did not fit ends with "...", so that nobody takes the cut for the end. */
static void mark_cut(char *text)
{
    memcpy(text + SENTENCE_BYTES - 4, "...", 4);
}

const char *vv_error(void)
{
    return sentence;
}

vv_status vv_error_code(void)
{
    return last_code;
}

void vv_error_clear(void)
{
    sentence[0] = '\0';
    last_code = VV_OK;
}

const char *vv_status_name(vv_status status)
{
    static const char *const names[] = {
        [VV_OK] = "OK",
        [VV_ENOMEM] = "ENOMEM",
        [VV_EINVAL] = "EINVAL",
        [VV_ESHAPE] = "ESHAPE",
        [VV_ETYPE] = "ETYPE",
        [VV_EIO] = "EIO",
        [VV_EFORMAT] = "EFORMAT",
        [VV_ENOTFOUND] = "ENOTFOUND",
        [VV_EEXIST] = "EEXIST",
        [VV_ESTATE] = "ESTATE",
        [VV_EUNSUPPORTED] = "EUNSUPPORTED",
        [VV_ENUMERIC] = "ENUMERIC",
        [VV_EINTERRUPTED] = "EINTERRUPTED",
        [VV_EINTERNAL] = "EINTERNAL",
    };
    if ((unsigned)status >= sizeof names / sizeof names[0])
        return "unknown status";
    return names[status];
}

vv_status vv_fail(vv_status status, const char *format, ...)
{
    /* Formatted aside first: an argument may be the current sentence itself. */
    char text[SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        text[0] = '\0';
    if (length >= SENTENCE_BYTES)
        mark_cut(text);
    memcpy(sentence, text, sizeof text);
    last_code = status;
    return status;
}

vv_status vv_fail_within(vv_status status, const char *format, ...)
{
    if (status == VV_OK)
        return status;
    char context[SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(context, sizeof context, format, args);
    va_end(args);
    if (length < 0)
        context[0] = '\0';
    const char *inner = sentence[0] ? sentence : vv_status_name(status);
    return vv_fail(status, "%s: %s", context, inner);
}
