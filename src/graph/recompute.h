/* recompute.h - what a plan would take if it dropped some activations after the forward part and
 * computed them again for the backward part. Internal to src/graph. */
#ifndef VVI_RECOMPUTE_H
#define VVI_RECOMPUTE_H

#include "graph/plan.h"

/* One instruction's turn in the order that is tried. */
typedef struct vvi_turn {
    int instr;
    bool again; /* a forward instruction, run a second time */
} vvi_turn;

/* A plan, the values dropped so far, and what that comes to. Values of the second run are numbered
   value_count + their number in the first. */
typedef struct vvi_trial {
    const vvi_plan *plan;
    int boundary; /* first instruction of the backward part */
    int value_count;
    bool in_place;
    int *maker;   /* per value: the instruction that writes it, -1 = none */
    bool *saved;  /* per value: in the slab, made before the boundary, read behind it */
    bool *dropped;
    size_t limit; /* bytes that may be alive */

    /* of the last try */
    vvi_turn *turns;
    int turn_count;
    bool *again;                /* per instruction before the boundary */
    int *needed;                /* scratch */
    int *first, *last, *holder; /* per value, 2 * value_count: lifetime, whose memory it has */
    double *live;               /* bytes alive per turn */
    double peak;
    double excess; /* sum over turns of what is alive above the limit */
    double cost;   /* of what runs twice: FLOPs, bytes moved counted as a few FLOPs each */
    int64_t flops; /* of what runs twice */
} vvi_trial;

vv_status vvi_trial_init(vvi_trial *trial, const vvi_plan *plan, bool in_place);
void vvi_trial_fini(vvi_trial *trial);
/* Orders the instructions with the dropped values left out, and measures. */
void vvi_trial_run(vvi_trial *trial);
/* Which value (numbered as above) an operand's root is for a reader in the backward part or in a
   second run; -1 = not in the slab. */
int vvi_trial_resolve(const vvi_trial *trial, int root);

#endif
