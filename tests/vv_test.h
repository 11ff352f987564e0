/* vv_test.h - what every test program includes: cmocka plus assertions that show the sentence. */
#ifndef VV_TEST_H
#define VV_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <vivace/memory.h>
#include <vivace/status.h>

/* Leaves the test out (data or a feature is not there). cmocka's own says "not ok # SKIP" in TAP,
   which readers of TAP count as a failure. */
#undef skip
#define skip()                                                                                     \
    do {                                                                                           \
        print_message("# left out: %s:%d\n", __FILE__, __LINE__);                                 \
        return;                                                                                    \
    } while (0)

/* The call succeeds; otherwise its sentence is shown. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        vv_error_clear();                                                                          \
        vv_status assert_ok_ = (call);                                                             \
        if (assert_ok_ != VV_OK)                                                                   \
            fail_msg("%s: %s: %s", #call, vv_status_name(assert_ok_), vv_error());                 \
    } while (0)

/* The call fails with this code and a sentence. */
#define assert_fails(call, code)                                                                   \
    do {                                                                                           \
        vv_error_clear();                                                                          \
        vv_status assert_fails_ = (call);                                                          \
        if (assert_fails_ != (code))                                                               \
            fail_msg("%s: expected %s, got %s (%s)", #call, vv_status_name(code),                  \
                     vv_status_name(assert_fails_), vv_error());                                   \
        if (!vv_error()[0])                                                                        \
            fail_msg("%s: failed without a sentence", #call);                                      \
    } while (0)

/* The last sentence contains this text. */
#define assert_says(text)                                                                          \
    do {                                                                                           \
        if (!strstr(vv_error(), (text)))                                                           \
            fail_msg("expected \"%s\" in: %s", (text), vv_error());                                \
    } while (0)

/* |a - b| <= abs_tol + rel_tol * |b| */
#define assert_near(a, b, abs_tol, rel_tol)                                                        \
    do {                                                                                           \
        double near_a_ = (a), near_b_ = (b);                                                       \
        if (!(fabs(near_a_ - near_b_) <= (abs_tol) + (rel_tol)*fabs(near_b_)))                     \
            fail_msg("%s = %.9g, expected %.9g", #a, near_a_, near_b_);                            \
    } while (0)

#endif
