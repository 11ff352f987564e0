/* bench.h - what the parts of `vivace bench` share. */
#ifndef VIVACE_BENCH_H
#define VIVACE_BENCH_H

#include "cli.h"

/* ---- settings ---- */

/* Settings of `bench step`; a described type, so that unknown keys get the nearest valid one. */
typedef struct bench_step_opts {
    const char *model, *model_settings, *data, *methods, *optimizer;
    int64_t batch, microbatch, steps, warmup, threads, size, seq, vocabulary;
    double masked;
    int precision, backend, conv;
    bool fuse;
} bench_step_opts;
extern const vv_desc bench_step_desc;
extern const char *const bench_precisions[];

/* Settings of a part of the verb from key=value words; `opts` is to be released with
   vv_opts_fini. */
vv_status bench_read_settings(const vv_desc *desc, void *opts, const cli_args *args);

/* ---- numbers ---- */

/* Sorts `values`. count > 0. */
double bench_median(double *values, size_t count);
/* The groups of the tables: "conv", "matmul", "attention", "norm", "pool", "element-wise", "loss",
   "other"; "optimizer" and "graph" are groups of their own. */
const char *bench_group_of(const char *op);

/* ---- one training step of a model (bench_work.c) ---- */

typedef struct bench_work {
    bench_step_opts opts;
    vv_precision precision;
    vv_model *model;
    vv_optimizer *optimizer;
    vv_graph *graph;
    vv_tensor *input, *target;
    vv_param **params;
    vv_node **nodes;
    int param_count, capacity;
    vv_status status;
} bench_work;
/* `work->opts` is read first; zero the rest. Freed after a failure too. */
vv_status bench_work_make(bench_work *work);
void bench_work_free(bench_work *work);
/* A whole step; seconds of its forward and backward part, and its FLOPs. */
vv_status bench_work_step(bench_work *work, double *forward_backward, int64_t *flops);

/* ---- the parts; each returns an exit code ---- */

int bench_step(const cli_args *args, bool json);
int bench_op(const cli_args *args, bool json);
int bench_data(const cli_args *args, bool json);
int bench_suite(const cli_args *args, bool json);

#endif
