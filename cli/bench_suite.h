/* bench_suite.h - what a suite's runs are summed up to, and the tables. */
#ifndef VIVACE_BENCH_SUITE_H
#define VIVACE_BENCH_SUITE_H

#include "bench_child.h"

/* Adds a workload's medians over its "runs": step_ms, samples_per_second, gflops, by_group. */
void bench_suite_sum(json_t *row);
/* Adds "peak_gflops" (per precision, the best that any run measured) and each workload's
   percent_of_peak. */
void bench_suite_peaks(json_t *all);

void bench_suite_table(const json_t *all, vv_str *out);
/* Ratios of this program's medians to those of the one it took turns with. */
void bench_suite_turns(const json_t *all, const char *other, vv_str *out);
/* The same against an earlier file: another time, so another load on the machine. */
void bench_suite_against(const json_t *all, const json_t *earlier, const char *name, vv_str *out);

#endif
