/* bench_child.h - runs a measurement in a process of its own. */
#ifndef VIVACE_BENCH_CHILD_H
#define VIVACE_BENCH_CHILD_H

#include <jansson.h>

#include "cli.h"

/* Runs program with argv (ended by NULL) and reads the JSON object it prints; free it with
   json_decref. VV_EIO with the first line it said if it fails. */
vv_status bench_child_run(const char *program, char *const *argv, json_t **out);

#endif
