/* status.h - errors are values with a sentence.
 *
 * Every function that can fail returns a vv_status; 0 is success. On failure the calling thread's
 * sentence (vv_error) says what went wrong, where, and how to mend it. The library never prints,
 * exits or aborts. */
#ifndef VIVACE_STATUS_H
#define VIVACE_STATUS_H

#include <vivace/attr.h>

VV_BEGIN_DECLS

typedef enum vv_status {
    VV_OK = 0,
    VV_ENOMEM,       /* out of memory */
    VV_EINVAL,       /* a wrong argument or setting */
    VV_ESHAPE,       /* shapes that do not fit together */
    VV_ETYPE,        /* element types or kinds that do not fit together */
    VV_EIO,          /* the operating system refused to read or write */
    VV_EFORMAT,      /* a file or text that is not what it should be */
    VV_ENOTFOUND,    /* a name or file that does not exist */
    VV_EEXIST,       /* something is there already */
    VV_ESTATE,       /* right call, wrong moment */
    VV_EUNSUPPORTED, /* understood, but this build or machine cannot do it */
    VV_ENUMERIC,     /* NaN or infinity where none may be */
    VV_EINTERRUPTED, /* stopped by the user */
    VV_EINTERNAL,    /* a defect of the library itself */
} vv_status;

/* The sentence of the calling thread's last failure; "" if none. Valid until the next failure. */
VV_API VV_BORROWED const char *vv_error(void);

/* Code of the calling thread's last failure, VV_OK if none since the last vv_error_clear. */
VV_API vv_status vv_error_code(void);

/* Forgets the calling thread's sentence. */
VV_API void vv_error_clear(void);

/* A status as one word ("EINVAL"), never NULL. */
VV_API VV_BORROWED const char *vv_status_name(vv_status status);

/* Sets code and sentence and returns the code: `return vv_fail(VV_ESHAPE, "...", ...)`. */
VV_API vv_status vv_fail(vv_status status, const char *format, ...) VV_PRINTF(2, 3);

/* Puts "<context>: " in front of the current sentence; returns `status` unchanged. Does nothing if
   status is VV_OK. */
VV_API vv_status vv_fail_within(vv_status status, const char *format, ...) VV_PRINTF(2, 3);

/* Returns the status out of the calling function if it is not VV_OK. */
#define VV_TRY(call)                                                                               \
    do {                                                                                           \
        vv_status vv_try_status_ = (call);                                                         \
        if (vv_try_status_ != VV_OK)                                                               \
            return vv_try_status_;                                                                 \
    } while (0)

/* Same, for functions that hold something: sets `status` and jumps to `out`. */
#define VV_GO(call)                                                                                \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != VV_OK)                                                                       \
            goto out;                                                                              \
    } while (0)

VV_END_DECLS

#endif
