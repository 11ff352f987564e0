/* report.c - what plans look like and where the time went. */
#include <string.h>

#include "graph/plan.h"

void vv_graph_profile(const vv_graph *g, vv_profile_fn fn, void *ctx)
{
    enum { MOST = 256 };
    struct row {
        const char *op, *kernel;
        int64_t calls, flops;
        double seconds;
    } rows[MOST];
    int count = 0;
    for (int p = 0; p < g->plan_count; p++) {
        const vvi_plan *plan = g->plans[p];
        for (int i = 0; i < plan->instr_count; i++) {
            const vvi_instr *instr = &plan->instrs[i];
            if (!instr->calls)
                continue;
            int k = 0;
            while (k < count && (rows[k].op != vv_op_name(instr->op) ||
                                 strcmp(rows[k].kernel, instr->kernel->name) != 0))
                k++;
            if (k == MOST)
                continue;
            if (k == count)
                rows[count++] = (struct row){vv_op_name(instr->op), instr->kernel->name, 0, 0, 0.0};
            rows[k].calls += instr->calls;
            rows[k].flops += instr->flops * instr->calls;
            rows[k].seconds += instr->seconds;
        }
    }
    for (int k = 0; k < count; k++)
        fn(ctx, rows[k].op, rows[k].kernel, rows[k].calls, rows[k].seconds, rows[k].flops);
}

void vv_graph_profile_clear(vv_graph *g)
{
    for (int p = 0; p < g->plan_count; p++)
        for (int i = 0; i < g->plans[p]->instr_count; i++) {
            g->plans[p]->instrs[i].calls = 0;
            g->plans[p]->instrs[i].seconds = 0.0;
        }
}

static void describe_value(const vvi_plan *plan, int value, vv_str *out)
{
    if (value < 0) {
        vv_str_add(out, " -");
        return;
    }
    const vvi_value *v = &plan->values[value], *root = &plan->values[vvi_plan_root(plan, value)];
    char shape[128];
    vv_str_addf(out, " %s%s", vv_dtype_name(v->shape.dtype),
                vv_shape_text(v->shape.ndim, v->shape.shape, shape, sizeof shape));
    if (root->place == VVI_SLAB)
        vv_str_addf(out, "@%zu", root->offset);
    else
        vv_str_addf(out, "@%s%d", root->place == VVI_LEAF ? "leaf" : "result", root->slot);
}

void vv_graph_describe_plan(const vv_graph *g, vv_str *out)
{
    const vvi_plan *plan = g->last_plan;
    if (!plan)
        return;
    vv_str_addf(out, "%d instructions, slab %zu bytes, %lld flops\n", plan->instr_count,
                plan->slab_bytes, (long long)plan->flops);
    for (int i = 0; i < plan->instr_count; i++) {
        const vvi_instr *instr = &plan->instrs[i];
        vv_str_addf(out, "%4d %s [%s %s]:", i, instr->name, vv_op_name(instr->op),
                    instr->kernel->name);
        for (int k = 0; k < instr->n_in; k++)
            describe_value(plan, instr->in[k], out);
        vv_str_add(out, " ->");
        for (int k = 0; k < instr->n_out; k++)
            describe_value(plan, instr->out[k], out);
        if (instr->scratch_bytes)
            vv_str_addf(out, " scratch %zu", instr->scratch_bytes);
        vv_str_add(out, "\n");
    }
}
