/* attr.h - words used in signatures: ownership, visibility, checks the compiler can make. */
#ifndef VIVACE_ATTR_H
#define VIVACE_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ownership, readable in every signature (they expand to nothing):
   VV_OWNED    the result (or out-parameter) belongs to the caller, who frees it;
   VV_BORROWED the result is valid as long as the object it came from;
   VV_TAKES    the argument belongs to the callee from the call on, even if the call fails.
   An unmarked pointer is only looked at during the call. */
#define VV_OWNED
#define VV_BORROWED
#define VV_TAKES

#if defined(__GNUC__)
#define VV_API __attribute__((visibility("default")))
#define VV_MUST_USE __attribute__((warn_unused_result))
#define VV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define VV_INTERNAL __attribute__((visibility("hidden")))
#else
#define VV_API
#define VV_MUST_USE
#define VV_PRINTF(fmt, args)
#define VV_INTERNAL
#endif

#if defined(__cplusplus)
#define VV_BEGIN_DECLS extern "C" {
#define VV_END_DECLS }
#else
#define VV_BEGIN_DECLS
#define VV_END_DECLS
#endif

#endif
