/* bench_op.h - the operations that `vivace bench op` knows. */
#ifndef VIVACE_BENCH_OP_H
#define VIVACE_BENCH_OP_H

#include "cli.h"

/* Sizes an operation may have; 0 = the kind's own. */
typedef struct bench_op_opts {
    int64_t batch, size, channels, out, kernel, stride, groups, rows, inner, columns, heads, seq,
        head_dim, vocabulary, repeats, threads;
    int precision;
    bool causal, ref;
} bench_op_opts;

enum { BENCH_OP_LEAVES = 4 };

/* One operation, ready to be built into a graph. */
typedef struct bench_case {
    bench_op_opts o;
    vv_tensor *leaves[BENCH_OP_LEAVES];
    bool wanted[BENCH_OP_LEAVES]; /* its gradient is */
    int count;
} bench_case;

typedef struct bench_kind {
    const char *name, *help; /* help: the sizes it reads */
    bench_op_opts usual;
    vv_status (*fill)(bench_case *c);
    vv_node *(*build)(const bench_case *c, vv_node *const *leaves);
} bench_kind;
extern const bench_kind bench_kinds[]; /* ended by name NULL */

#endif
