/* pass_linear_loss.c - a linear layer whose result only a cross-entropy reads becomes one
 * instruction that works chunk of rows by chunk, so that the logits of a whole batch never exist.
 *
 *   l = x W^T (+ b); c = cap tanh(l / cap) or l; loss = cross_entropy(c, target)
 *   -> loss, logsumexp = LINEAR_CROSS_ENTROPY(x, W, target, b)
 *   dl = cross_entropy_grad(dloss, c, target) (back through the cap); dx = dl W; dW = dl^T x;
 *   db = sum of dl
 *   -> dx, dW, db = LINEAR_CROSS_ENTROPY_GRAD(dloss, x, W, target, b, logsumexp)
 *
 * Where dloss does not depend on the loss (it is a sum divided by a number), both are done at once
 * and the logits are made a single time:
 *   dx, dW, db, loss = LINEAR_CROSS_ENTROPY_GRAD(dloss, x, W, target, b)
 *
 * The logits' memory is what is saved; with few classes there is little of it, and the plain form
 * stays. */
#include "graph/plan.h"

#include <string.h>

#include <vivace/memory.h>

enum { VVI_FEWEST_CLASSES = 1024, CAP = 3 };

/* Instructions of one head; -1 = absent. */
typedef struct head {
    int product, entropy, entropy_grad, dx, dweight, dbias;
    int cap[CAP], cap_grad[CAP]; /* x / cap, tanh, times cap; and back */
    bool capped;
    double softcap;
} head;

static int root_of(const vvi_plan *plan, int value)
{
    return value < 0 ? -1 : vvi_plan_root(plan, value);
}

static int maker_of(const vvi_plan *plan, int root)
{
    for (int i = 0; i < plan->instr_count && root >= 0; i++)
        for (int k = 0; k < plan->instrs[i].n_out; k++)
            if (!plan->instrs[i].dead && plan->instrs[i].op != VV_OP_RESHAPE &&
                plan->instrs[i].out[k] == root)
                return i;
    return -1;
}

/* Lists the instructions that read the memory of `root`; -1 if they are more than `most` or if it
   is a result. */
static int readers_of(const vvi_plan *plan, int root, int *list, int most)
{
    int count = 0;
    if (vvi_plan_is_result(plan, root))
        return -1;
    for (int i = 0; i < plan->instr_count; i++) {
        const vvi_instr *instr = &plan->instrs[i];
        bool reads = false;
        for (int k = 0; k < instr->n_in && !instr->dead && instr->op != VV_OP_RESHAPE; k++)
            reads = reads || root_of(plan, instr->in[k]) == root;
        if (reads && count == most)
            return -1;
        if (reads)
            list[count++] = i;
    }
    return count;
}

static bool only_reader(const vvi_plan *plan, int root, int *reader)
{
    return readers_of(plan, root, reader, 1) == 1;
}

static bool is_unary(const vvi_instr *instr, vv_op op, vv_unary kind)
{
    return instr->op == op && instr->attr.unary.kind == kind;
}

static bool is_scaling(const vvi_instr *instr, double *by)
{
    *by = instr->attr.unary.a;
    return is_unary(instr, VV_OP_UNARY, VV_UNARY_AFFINE) && instr->attr.unary.b == 0.0;
}

static bool is_f32(const vvi_plan *plan, int value)
{
    return value >= 0 && plan->values[value].shape.dtype == VV_F32;
}

static const vvi_shape *shape_of(const vvi_plan *plan, int value)
{
    return &plan->values[value].shape;
}

/* ---- the forward part ---- */

/* Goes from the entropy's operand back to the product, through the cap if there is one. */
static bool find_product(const vvi_plan *plan, head *h)
{
    int at = maker_of(plan, root_of(plan, plan->instrs[h->entropy].in[0]));
    double outer, inner;
    if (at >= 0 && is_scaling(&plan->instrs[at], &outer)) {
        h->cap[2] = at;
        h->cap[1] = maker_of(plan, root_of(plan, plan->instrs[at].in[0]));
        if (h->cap[1] < 0 || !is_unary(&plan->instrs[h->cap[1]], VV_OP_UNARY, VV_UNARY_TANH))
            return false;
        h->cap[0] = maker_of(plan, root_of(plan, plan->instrs[h->cap[1]].in[0]));
        if (h->cap[0] < 0 || !is_scaling(&plan->instrs[h->cap[0]], &inner) || !(outer > 0.0) ||
            inner != 1.0 / outer)
            return false;
        h->capped = true;
        h->softcap = outer;
        at = maker_of(plan, root_of(plan, plan->instrs[h->cap[0]].in[0]));
    }
    h->product = at;
    return at >= 0 && plan->instrs[at].op == VV_OP_MATMUL;
}

static bool product_fits(const vvi_plan *plan, const head *h)
{
    const vvi_instr *p = &plan->instrs[h->product], *e = &plan->instrs[h->entropy];
    const vvi_shape *logits = shape_of(plan, e->in[0]), *w = shape_of(plan, p->in[1]);
    return !p->attr.matmul.trans_a && p->attr.matmul.trans_b && w->ndim == 2 &&
           shape_of(plan, p->in[0])->ndim == 2 && w->shape[0] >= VVI_FEWEST_CLASSES &&
           logits->shape[logits->ndim - 1] == w->shape[0] && is_f32(plan, p->in[0]) &&
           is_f32(plan, p->in[1]) && is_f32(plan, e->out[0]) &&
           !vv_dtype_is_float(shape_of(plan, e->in[1])->dtype) &&
           (e->n_in < 3 || e->in[2] < 0); /* class weights keep the plain form */
}

/* The readers of the (capped) logits: the entropy, and its gradient if there is one. */
static bool find_entropy_grad(const vvi_plan *plan, head *h)
{
    const vvi_instr *e = &plan->instrs[h->entropy];
    int readers[2], root = root_of(plan, e->in[0]);
    const int count = readers_of(plan, root, readers, 2);
    for (int i = 0; i < count; i++) {
        const vvi_instr *g = &plan->instrs[readers[i]];
        if (readers[i] == h->entropy)
            continue;
        if (g->op != VV_OP_CROSS_ENTROPY_GRAD || root_of(plan, g->in[1]) != root ||
            root_of(plan, g->in[2]) != root_of(plan, e->in[1]) || !is_f32(plan, g->in[0]) ||
            root_of(plan, g->in[0]) == root || memcmp(&g->attr, &e->attr, sizeof g->attr) != 0)
            return false;
        h->entropy_grad = readers[i];
    }
    return count >= 1;
}

/* ---- the backward part ---- */

/* Back through the cap: every link is read by the next one alone. Gives the root of dl. */
static int gradient_of_logits(const vvi_plan *plan, head *h)
{
    int root = plan->instrs[h->entropy_grad].out[0];
    const int tanh_root = h->capped ? plan->instrs[h->cap[1]].out[0] : -1;
    for (int i = CAP - 1; i >= 0 && h->capped; i--) {
        double by;
        if (!only_reader(plan, root, &h->cap_grad[i]))
            return -1;
        const vvi_instr *link = &plan->instrs[h->cap_grad[i]];
        bool fits = is_scaling(link, &by) && by == plan->instrs[h->cap[i]].attr.unary.a;
        if (i == 1)
            fits = is_unary(link, VV_OP_UNARY_GRAD, VV_UNARY_TANH) &&
                   root_of(plan, link->in[0]) == root && root_of(plan, link->in[1]) == tanh_root;
        if (!fits)
            return -1;
        root = link->out[0];
    }
    return root;
}

/* The readers of dl: at most one each of dx, dW and db. */
static bool find_gradients(const vvi_plan *plan, head *h)
{
    int readers[3];
    const int dl = gradient_of_logits(plan, h);
    const int count = dl < 0 ? -1 : readers_of(plan, dl, readers, 3);
    const vvi_instr *p = &plan->instrs[h->product];
    const int x = root_of(plan, p->in[0]), w = root_of(plan, p->in[1]);
    for (int i = 0; i < count; i++) {
        const vvi_instr *r = &plan->instrs[readers[i]];
        int *slot = NULL;
        if (r->op == VV_OP_REDUCE && r->attr.reduce.kind == VV_REDUCE_SUM &&
            r->attr.reduce.axes == 1 && shape_of(plan, r->in[0])->ndim == 2)
            slot = &h->dbias;
        else if (r->op == VV_OP_MATMUL && r->n_in == 2 && root_of(plan, r->in[0]) == dl &&
                 !r->attr.matmul.trans_b && shape_of(plan, r->in[0])->ndim == 2)
            slot = r->attr.matmul.trans_a && root_of(plan, r->in[1]) == x    ? &h->dweight
                   : !r->attr.matmul.trans_a && root_of(plan, r->in[1]) == w ? &h->dx
                                                                             : NULL;
        if (!slot || *slot >= 0 || !is_f32(plan, r->out[0]))
            return false;
        *slot = readers[i];
    }
    return count >= 0;
}

/* The product and the links of the cap are read by nobody else. */
static bool nobody_else_reads(const vvi_plan *plan, const head *h)
{
    int reader, readers[2];
    if (!h->capped)
        return true;
    const int count = readers_of(plan, plan->instrs[h->cap[1]].out[0], readers, 2);
    for (int i = 0; i < count; i++)
        if (readers[i] != h->cap[2] && (h->entropy_grad < 0 || readers[i] != h->cap_grad[1]))
            return false;
    return count >= 1 && only_reader(plan, plan->instrs[h->product].out[0], &reader) &&
           only_reader(plan, plan->instrs[h->cap[0]].out[0], &reader);
}

/* ---- the change ---- */

static void bury(vvi_plan *plan, int instr)
{
    if (instr >= 0)
        plan->instrs[instr].dead = true;
}

/* Gives an instruction other operands and results. */
static vv_status rewrite(vvi_plan *plan, int at, vv_op op, const vv_attr *attr, int n_in, int n_out,
                         const int *operands)
{
    int *room = vvi_arena_alloc(&plan->arena, (size_t)(n_in + n_out) * sizeof *room);
    if (!room)
        return VV_ENOMEM;
    memcpy(room, operands, (size_t)(n_in + n_out) * sizeof *room);
    vvi_instr *instr = &plan->instrs[at];
    instr->op = op;
    instr->attr = *attr;
    instr->in = room;
    instr->n_in = n_in;
    instr->out = room + n_in;
    instr->n_out = n_out;
    return VV_OK;
}

static int result_of(const vvi_plan *plan, int instr)
{
    return instr < 0 ? -1 : plan->instrs[instr].out[0];
}

static vv_status replace(vvi_plan *plan, const head *h)
{
    const vvi_instr p = plan->instrs[h->product], e = plan->instrs[h->entropy];
    const int bias = p.n_in > 2 ? p.in[2] : -1;
    vv_attr attr = e.attr;
    attr.cross_entropy.softcap = h->softcap;
    const int logsumexp = vvi_plan_value(plan, shape_of(plan, e.out[0]));
    if (logsumexp < 0)
        return VV_ENOMEM;
    const int forward[6] = {p.in[0], p.in[1], e.in[1], bias, e.out[0], logsumexp};
    VV_TRY(rewrite(plan, h->entropy, VV_OP_LINEAR_CROSS_ENTROPY, &attr, 4, 2, forward));
    if (h->entropy_grad >= 0) {
        const int dloss = plan->instrs[h->entropy_grad].in[0];
        const int backward[9] = {dloss, p.in[0], p.in[1], e.in[1], bias, logsumexp,
                                 result_of(plan, h->dx), result_of(plan, h->dweight),
                                 result_of(plan, h->dbias)};
        VV_TRY(rewrite(plan, h->entropy_grad, VV_OP_LINEAR_CROSS_ENTROPY_GRAD, &attr, 6, 3,
                       backward));
    }
    const int gone[] = {h->product, h->dx, h->dweight, h->dbias};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        bury(plan, gone[i]);
    for (int i = 0; i < CAP; i++) {
        bury(plan, h->cap[i]);
        bury(plan, h->cap_grad[i]);
    }
    return VV_OK;
}

static vv_status match(vvi_plan *plan, int entropy)
{
    head h = {.product = -1, .entropy = entropy, .entropy_grad = -1, .dx = -1, .dweight = -1,
              .dbias = -1, .cap = {-1, -1, -1}, .cap_grad = {-1, -1, -1}};
    const bool fits = find_product(plan, &h) && product_fits(plan, &h) &&
                      find_entropy_grad(plan, &h) &&
                      (h.entropy_grad < 0 || find_gradients(plan, &h)) &&
                      nobody_else_reads(plan, &h);
    return fits ? replace(plan, &h) : VV_OK;
}

/* ---- equal entropies ---- */

/* A metric that is the loss once more reads the loss. */
static void merge_equal(vvi_plan *plan, int second)
{
    const vvi_instr *b = &plan->instrs[second];
    for (int first = 0; first < second; first++) {
        const vvi_instr *a = &plan->instrs[first];
        bool equal = !a->dead && a->op == VV_OP_CROSS_ENTROPY && a->n_in == b->n_in &&
                     memcmp(&a->attr, &b->attr, sizeof a->attr) == 0 &&
                     shape_of(plan, a->out[0])->dtype == shape_of(plan, b->out[0])->dtype;
        for (int k = 0; equal && k < a->n_in; k++)
            equal = root_of(plan, a->in[k]) == root_of(plan, b->in[k]);
        if (!equal)
            continue;
        plan->values[b->out[0]].alias = a->out[0];
        plan->instrs[second].dead = true;
        return;
    }
}

/* ---- both parts at once ---- */

static bool reads_marked(const vvi_plan *plan, const vvi_instr *instr, const bool *marked)
{
    bool reads = false;
    for (int k = 0; k < instr->n_in; k++)
        reads = reads || (instr->in[k] >= 0 && marked[root_of(plan, instr->in[k])]);
    return reads;
}

/* Marks what depends on the loss up to the gradient. */
static void mark_dependents(const vvi_plan *plan, int forward, int backward, bool *marked)
{
    marked[root_of(plan, plan->instrs[forward].out[0])] = true;
    for (int i = forward + 1; i < backward; i++) {
        const vvi_instr *instr = &plan->instrs[i];
        if (instr->dead || !reads_marked(plan, instr, marked))
            continue;
        for (int k = 0; k < instr->n_out; k++)
            if (instr->out[k] >= 0)
                marked[root_of(plan, instr->out[k])] = true;
    }
}

/* The loss comes out of the gradient's instruction; what reads it moves behind. */
static vv_status merge(vvi_plan *plan, int forward, int backward)
{
    vv_status status;
    bool *marked = NULL;
    vvi_instr *order = NULL;
    const vvi_instr g = plan->instrs[backward];
    VV_GO(vv_alloc_array(&marked, (size_t)plan->value_count + 1, sizeof *marked));
    VV_GO(vv_alloc_array(&order, (size_t)(backward - forward) + 1, sizeof *order));
    mark_dependents(plan, forward, backward, marked);
    if (marked[root_of(plan, g.in[0])])
        goto out;
    const int operands[10] = {g.in[0], g.in[1], g.in[2], g.in[3], g.in[4], -1, g.out[0], g.out[1],
                              g.n_out > 2 ? g.out[2] : -1, plan->instrs[forward].out[0]};
    VV_GO(rewrite(plan, backward, VV_OP_LINEAR_CROSS_ENTROPY_GRAD, &g.attr, 6, 4, operands));
    plan->instrs[forward].dead = true;
    int count = 0;
    for (int late = 0; late < 2; late++) {
        for (int i = forward; i < backward; i++) {
            const vvi_instr *instr = &plan->instrs[i];
            if ((i > forward && reads_marked(plan, instr, marked)) != (late == 1))
                continue;
            order[count] = *instr;
            order[count++].backward = instr->backward || late;
        }
        if (!late)
            order[count++] = plan->instrs[backward];
    }
    memcpy(plan->instrs + forward, order, (size_t)count * sizeof *order);
out:
    vv_dealloc(marked);
    vv_dealloc(order);
    return status;
}

/* The forward instruction that a gradient belongs to. */
static int forward_of(const vvi_plan *plan, int backward)
{
    const vvi_instr *g = &plan->instrs[backward];
    for (int i = 0; i < backward; i++) {
        const vvi_instr *f = &plan->instrs[i];
        if (!f->dead && f->op == VV_OP_LINEAR_CROSS_ENTROPY && g->in[5] >= 0 &&
            root_of(plan, f->out[1]) == root_of(plan, g->in[5]))
            return i;
    }
    return -1;
}

/* Results that nobody wants are not computed. */
static void drop_unread(vvi_plan *plan, vvi_instr *g)
{
    for (int k = 0; k < g->n_out; k++)
        if (g->out[k] >= 0 && !vvi_plan_is_result(plan, g->out[k]) &&
            vvi_plan_uses(plan, g->out[k]) == 0)
            g->out[k] = -1;
}

vv_status vvi_pass_linear_loss(vvi_plan *plan)
{
    for (int i = 0; i < plan->instr_count; i++)
        if (plan->instrs[i].op == VV_OP_CROSS_ENTROPY)
            merge_equal(plan, i);
    for (int i = 0; i < plan->instr_count; i++)
        if (plan->instrs[i].op == VV_OP_CROSS_ENTROPY && !plan->instrs[i].dead)
            VV_TRY(match(plan, i));
    for (int i = 0; i < plan->instr_count; i++) {
        vvi_instr *instr = &plan->instrs[i];
        if (instr->op != VV_OP_LINEAR_CROSS_ENTROPY_GRAD || instr->dead)
            continue;
        drop_unread(plan, instr);
        const int forward = forward_of(plan, i);
        if (forward >= 0)
            VV_TRY(merge(plan, forward, i));
    }
    vvi_plan_compact(plan);
    return VV_OK;
}
