/* muon_direction.c - muon's orthogonalised momentum: a quintic iteration pushes the singular values
 * of a matrix towards 1. Matrices of one shape are iterated together, in matmuls of the graph. */
#include "optim/muon_direction.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/ops.h>

#include "base/pattern.h"
#include "optim/optim_kernels.h"

/* x <- a x + b (x x') x + c (x x')^2 x. Newton-Schulz: steep at 0, and bounded near 1 for 0 < x <=
   1. */
static const double newton_schulz[3] = {3.4445, -4.7750, 2.0315};
/* Polar Express (Amsel et al., arXiv 2505.16932): the best polynomial for each step in turn; the
   last one goes on. */
static const double polar_express[5][3] = {
    {8.15655, -22.48329, 15.87877}, {4.04293, -2.80892, 0.50002}, {3.89167, -2.77248, 0.50606},
    {3.28575, -2.36813, 0.46449},   {2.34654, -1.70978, 0.42324},
};

/* ---- roles and parts ---- */

static bool is_matrix(const vv_optimizer_view *view)
{
    const vv_muon_opts *o = view->opts;
    if (view->value->ndim < 2 || view->value->count == 0 || view->kind == VV_PARAM_TABLE ||
        vvi_patterns_have(o->others, view->path))
        return false;
    switch ((vv_muon_matrices)o->matrices) {
    case VV_MUON_FILTERS: return view->value->ndim >= 3;
    case VV_MUON_HIDDEN: return view->kind != VV_PARAM_HEAD;
    default: return true;
    }
}

vv_status vvi_muon_sort(const vv_optimizer_view *views, int count, int *roles)
{
    for (int i = 0; i < count; i++)
        roles[i] = is_matrix(&views[i])                 ? VVI_MUON_MATRIX
                   : views[i].kind == VV_PARAM_HEAD     ? VVI_MUON_HEAD
                   : views[i].kind == VV_PARAM_TABLE    ? VVI_MUON_TABLE
                                                        : VVI_MUON_OTHER;
    return VV_OK;
}

/* q has as many rows as the matrix has columns, or a third; what is left is k and v. */
static int rows_of_parts(const vv_optimizer_view *view, int64_t *rows)
{
    const vv_muon_opts *o = view->opts;
    const int64_t all = view->value->shape[0], columns = view->value->count / all;
    rows[0] = all;
    if (view->value->ndim != 2 || !vvi_patterns_have(o->split, view->path))
        return 1;
    const int64_t rest = all - columns;
    if (all % 3 == 0 && (all == 3 * columns || rest < 2)) {
        rows[0] = rows[1] = rows[2] = all / 3;
        return 3;
    }
    if (rest < 2 || rest % 2 != 0)
        return 1;
    rows[0] = columns;
    rows[1] = rows[2] = rest / 2;
    return 3;
}

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t vvi_muon_row_count(const vv_optimizer_view *view)
{
    int64_t rows[VVI_MUON_PARTS], count = 0;
    const int64_t columns = view->value->count / view->value->shape[0];
    const int parts = rows_of_parts(view, rows);
    for (int i = 0; i < parts; i++)
        count += longer(rows[i], columns);
    return count;
}

static vv_status reserve(vvi_muon_self *self, int count)
{
    if (count <= self->capacity)
        return VV_OK;
    VV_TRY(vv_realloc_array(&self->parts, (size_t)count, sizeof *self->parts));
    VV_TRY(vv_realloc_array(&self->nodes, (size_t)count, sizeof(vv_node *)));
    VV_TRY(vv_realloc_array(&self->batches, (size_t)count, sizeof *self->batches));
    memset(self->batches + self->capacity, 0,
           (size_t)(count - self->capacity) * sizeof *self->batches);
    self->capacity = count;
    return VV_OK;
}

/* The batch of this shape; a new one takes over the stack that lay at its place. */
static int batch_for(vvi_muon_self *self, const vv_muon_opts *o, int64_t rows, int64_t columns)
{
    for (int i = 0; i < self->batch_count; i++) {
        const vvi_muon_batch *b = &self->batches[i];
        if (b->opts == o && b->rows == rows && b->columns == columns)
            return i;
    }
    vvi_muon_batch *b = &self->batches[self->batch_count];
    *b = (vvi_muon_batch){o, rows, columns, 0, b->stack};
    return self->batch_count++;
}

static void list_parts(vvi_muon_self *self, const vv_optimizer_view *views, int count)
{
    self->batch_count = self->part_count = 0;
    for (int i = 0; i < count; i++) {
        const vv_optimizer_view *view = &views[i];
        if (!view->slot || view->role != VVI_MUON_MATRIX)
            continue;
        int64_t rows[VVI_MUON_PARTS], first = 0, row_at = 0;
        const int64_t columns = view->value->count / view->value->shape[0];
        const int parts = rows_of_parts(view, rows);
        for (int k = 0; k < parts; k++) {
            const int at = rows[k] <= columns ? batch_for(self, view->opts, rows[k], columns)
                                              : batch_for(self, view->opts, columns, rows[k]);
            self->parts[self->part_count++] = (vvi_muon_part){
                i, first, rows[k], columns, at, self->batches[at].count++, row_at};
            first += rows[k];
            row_at += longer(rows[k], columns);
        }
    }
}

/* Whether the parameter has further parts. */
static bool is_split(const vv_optimizer_view *views, const vvi_muon_part *part)
{
    return part->rows != views[part->view].value->shape[0];
}

/* ---- before the iteration ---- */

/* to[c][r] = from[r][c] * factor */
static void transpose(float *restrict to, const float *restrict from, int64_t rows, int64_t columns,
                      float factor)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[c * rows + r] = factor * from[r * columns + c];
}

/* g + mu (mu v + g) (Nesterov) or mu v + g into `to`; returns its norm. */
static double momentum_of(float *to, const vv_muon_opts *o, const float *g, const float *v,
                          int64_t count)
{
    const float mu = (float)o->momentum;
    for (int64_t i = 0; i < count; i++) {
        const float next = mu * v[i] + g[i];
        to[i] = o->nesterov ? g[i] + mu * next : next;
    }
    return sqrt(vvi_grad_square_sum(to, count));
}

/* The momentum over its norm, flat way up, into its place of the stack. */
static void fill(const vvi_muon_self *self, const vv_optimizer_view *views,
                 const vvi_muon_part *part)
{
    const vv_muon_opts *o = views[part->view].opts;
    const vv_optimizer_slot *slot = views[part->view].slot;
    const int64_t count = part->rows * part->columns, first = part->first * part->columns;
    float *to = (float *)self->batches[part->batch].stack->data + part->place * count;
    const bool tall = part->rows > part->columns;
    float *flat = tall ? self->scratch : to;
    const double norm = momentum_of(flat, o, slot->grad + first,
                                    slot->state[VVI_MUON_MOMENT] + first, count);
    /* Polar Express needs a largest singular value safely below 1 */
    const double size = o->iteration ? 1.02 * norm + 1e-6 : norm + 1e-7;
    const float factor = (float)(1.0 / size);
    if (tall)
        transpose(to, flat, part->rows, part->columns, factor);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] *= factor;
}

/* ---- the iteration ---- */

static vv_node *iterate(vv_node *x, const vv_muon_opts *o)
{
    for (int64_t i = 0; i < o->ns_steps; i++) {
        const double *abc = o->iteration ? polar_express[i < 5 ? i : 4] : newton_schulz;
        vv_node *a = vv_matmul(x, x, false, true);
        vv_node *b = vv_add(vv_affine(a, abc[1], 0.0),
                            vv_affine(vv_matmul(a, a, false, false), abc[2], 0.0));
        x = vv_add(vv_affine(x, abc[0], 0.0), vv_matmul(b, x, false, false));
    }
    return x;
}

/* All batches of one precision in one run of the graph; results replace the stacks' contents. */
static vv_status orthogonalise(vvi_muon_self *self, int precision)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    int n = 0;
    opts.precision = precision ? VV_PRECISION_AMP_BF16 : VV_PRECISION_FP32;
    for (int i = 0; i < self->batch_count; i++)
        n += self->batches[i].opts->precision == precision;
    if (n == 0)
        return VV_OK;
    if (!self->graph[precision])
        VV_TRY(vv_graph_new(&self->graph[precision], &opts));
    vv_graph *graph = self->graph[precision];
    vv_status status = VV_OK;
    n = 0;
    for (int i = 0; i < self->batch_count; i++)
        if (self->batches[i].opts->precision == precision)
            self->nodes[n++] =
                iterate(vv_leaf(graph, self->batches[i].stack), self->batches[i].opts);
    VV_GO(vv_graph_status(graph));
    VV_GO(vv_eval(graph, self->nodes, n));
    n = 0;
    for (int i = 0; i < self->batch_count; i++) {
        const vv_tensor *value;
        if (self->batches[i].opts->precision != precision)
            continue;
        VV_GO(vv_node_value(self->nodes[n++], &value));
        VV_GO(vv_tensor_copy(self->batches[i].stack, value));
    }
out:
    vv_graph_reset(graph);
    return status;
}

/* ---- after the iteration ---- */

/* Divides each row of the matrix (each column of a wide one) by the root of the running average of
   its mean square, and gives the whole its norm again (NorMuon, Li et al., arXiv 2510.05491). d is
   as it lies in the stack, [shorter, longer]: the numbers belong to its columns; to the rows of a
   square one. */
static void even_out(float *d, const vvi_muon_part *part, float *squares, double beta)
{
    const bool tall = part->rows > part->columns;
    const int64_t n = tall ? part->rows : part->columns, m = tall ? part->columns : part->rows;
    const int64_t next = n == m ? n : 1, along = n == m ? 1 : n; /* number to number, within one */
    const double before = vvi_grad_square_sum(d, n * m);
    for (int64_t c = 0; c < n; c++) {
        double sum = 0.0;
        for (int64_t r = 0; r < m; r++)
            sum += (double)d[r * along + c * next] * (double)d[r * along + c * next];
        squares[c] = (float)(beta * (double)squares[c] + (1.0 - beta) * sum / (double)m);
        const double least = (double)squares[c] > 1e-10 ? (double)squares[c] : 1e-10;
        const float factor = (float)(1.0 / sqrt(least));
        for (int64_t r = 0; r < m; r++)
            d[r * along + c * next] *= factor;
    }
    const double after = vvi_grad_square_sum(d, n * m);
    const float whole = after > 0.0 ? (float)sqrt(before / after) : 0.0f;
    for (int64_t i = 0; i < n * m; i++)
        d[i] *= whole;
}

/* The direction upright at its place: in the stack, or beside the other parts' ones. */
static void hand_out(const vvi_muon_self *self, const vv_optimizer_view *views,
                     const vvi_muon_part *part, float *joined, bool even)
{
    const vv_optimizer_view *view = &views[part->view];
    const vv_muon_opts *o = view->opts;
    vv_optimizer_slot *slot = view->slot;
    const int64_t count = part->rows * part->columns;
    float *at = (float *)self->batches[part->batch].stack->data + part->place * count;
    if (even)
        even_out(at, part, slot->state[VVI_MUON_ROWS] + part->row_at, o->row_beta);
    if (part->rows > part->columns) {
        const double aspect = sqrt((double)part->rows / (double)part->columns);
        transpose(self->scratch, at, part->columns, part->rows,
                  o->aspect_scale ? (float)aspect : 1.0f);
        memcpy(at, self->scratch, (size_t)count * sizeof *at);
    }
    if (!joined) {
        slot->direction = at;
        return;
    }
    memcpy(joined + part->first * part->columns, at, (size_t)count * sizeof *at);
    slot->direction = joined;
}

/* What the weights are multiplied by first. */
static void scale_weights(const vv_optimizer_view *view)
{
    const vv_muon_opts *o = view->opts;
    vv_optimizer_slot *slot = view->slot;
    if (o->normalise_every <= 0 || (slot->step - 1) % o->normalise_every != 0)
        return;
    const double norm = sqrt(vvi_grad_square_sum(slot->value, view->value->count));
    slot->scale = norm > 0.0 ? sqrt((double)view->value->shape[0]) / norm : 1.0;
}

static vv_status grow(float **room, size_t *have, size_t want)
{
    if (want <= *have)
        return VV_OK;
    VV_TRY(vv_realloc_array(room, want, sizeof **room));
    *have = want;
    return VV_OK;
}

/* Room for all that follows. */
static vv_status make_room(vvi_muon_self *self, const vv_optimizer_view *views)
{
    size_t largest = 0, joined = 0;
    for (int i = 0; i < self->part_count; i++) {
        const vvi_muon_part *part = &self->parts[i];
        const size_t count = (size_t)(part->rows * part->columns);
        largest = count > largest ? count : largest;
        joined += is_split(views, part) ? count : 0;
    }
    for (int i = 0; i < self->batch_count; i++) {
        vvi_muon_batch *b = &self->batches[i];
        const int64_t shape[] = {b->count, b->rows, b->columns};
        VV_TRY(vv_tensor_reuse(&b->stack, VV_F32, 3, shape));
    }
    VV_TRY(grow(&self->scratch, &self->scratch_count, largest));
    return grow(&self->joined, &self->joined_count, joined);
}

static vv_status direct(vvi_muon_self *self, const vv_optimizer_view *views, int count, bool even)
{
    VV_TRY(reserve(self, VVI_MUON_PARTS * count));
    list_parts(self, views, count);
    if (self->part_count == 0)
        return VV_OK;
    VV_TRY(make_room(self, views));
    for (int i = 0; i < self->part_count; i++)
        fill(self, views, &self->parts[i]);
    VV_TRY(orthogonalise(self, 0));
    VV_TRY(orthogonalise(self, 1));
    float *joined = self->joined, *next = joined;
    for (int i = 0; i < self->part_count; i++) {
        const vvi_muon_part *part = &self->parts[i];
        const bool split = is_split(views, part);
        if (part->first == 0) {
            scale_weights(&views[part->view]);
            joined = next;
            next += split ? views[part->view].value->count : 0;
        }
        hand_out(self, views, part, split ? joined : NULL, even);
    }
    return VV_OK;
}

vv_status vvi_muon_direct(void *self, const vv_optimizer_view *views, int count)
{
    return direct(self, views, count, false);
}

vv_status vvi_normuon_direct(void *self, const vv_optimizer_view *views, int count)
{
    return direct(self, views, count, true);
}

void vvi_muon_fini(void *own)
{
    vvi_muon_self *self = own;
    for (int i = 0; i < 2; i++)
        vv_graph_free(self->graph[i]);
    for (int i = 0; i < self->capacity; i++)
        vv_tensor_free(self->batches[i].stack);
    vv_dealloc(self->batches);
    vv_dealloc(self->parts);
    vv_dealloc(self->nodes);
    vv_dealloc(self->scratch);
    vv_dealloc(self->joined);
}
