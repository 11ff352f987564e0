/* muon_direction.c - muon's orthogonalised momentum: a quintic Newton-Schulz iteration pushes the
 * singular values of a matrix towards 1. Matrices of one shape are iterated together, in matmuls of
 * the graph. */
#include "optim/muon_direction.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/ops.h>

#include "optim/optim_kernels.h"

/* x <- a x + b (x x') x + c (x x')^2 x: steep at 0, and bounded near 1 for 0 < x <= 1. */
#define NS_A 3.4445
#define NS_B (-4.7750)
#define NS_C 2.0315

static int64_t row_count(const vv_tensor *value)
{
    return value->shape[0];
}

static bool is_matrix(const vv_muon_opts *o, const vv_tensor *value, bool head)
{
    if (value->ndim < 2 || value->count == 0)
        return false;
    switch ((vv_muon_matrices)o->matrices) {
    case VV_MUON_FILTERS: return value->ndim >= 3;
    case VV_MUON_HIDDEN: return !head;
    default: return true;
    }
}

static int find_head(const vv_optimizer_view *views, int count)
{
    for (int i = count - 1; i >= 0; i--)
        if (views[i].value->ndim >= 2)
            return i;
    return -1;
}

static vv_status reserve(vvi_muon_self *self, int count)
{
    if (count <= self->capacity)
        return VV_OK;
    VV_TRY(vv_realloc_array(&self->batch_of, (size_t)count, sizeof *self->batch_of));
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

static void sort_into_batches(vvi_muon_self *self, const vv_optimizer_view *views, int count)
{
    const int head = find_head(views, count);
    self->batch_count = 0;
    for (int i = 0; i < count; i++) {
        const vv_optimizer_view *view = &views[i];
        self->batch_of[i] = -1;
        if (!view->slot)
            continue;
        view->slot->role = i == head ? VVI_MUON_HEAD : VVI_MUON_OTHER;
        if (!is_matrix(view->opts, view->value, i == head))
            continue;
        const int64_t rows = row_count(view->value), columns = view->value->count / rows;
        const int at = rows <= columns ? batch_for(self, view->opts, rows, columns)
                                       : batch_for(self, view->opts, columns, rows);
        view->slot->role = VVI_MUON_MATRIX;
        self->batch_of[i] = at;
        self->batches[at].count++;
    }
}

/* to[c][r] = from[r][c] * factor */
static void transpose(float *restrict to, const float *restrict from, int64_t rows, int64_t columns,
                      float factor)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[c * rows + r] = factor * from[r * columns + c];
}

/* g + mu (mu v + g) (Nesterov) or mu v + g into `to`; returns its norm. */
static double momentum_of(float *to, const vv_muon_opts *o, const vv_optimizer_slot *slot)
{
    const float mu = (float)o->momentum;
    const float *g = slot->grad, *v = slot->state[0];
    for (int64_t i = 0; i < slot->count; i++) {
        const float next = mu * v[i] + g[i];
        to[i] = o->nesterov ? g[i] + mu * next : next;
    }
    return sqrt(vvi_grad_square_sum(to, slot->count));
}

/* The momentum over its norm, flat way up, into its place of the stack. */
static void fill(const vvi_muon_batch *batch, int64_t place, const vv_optimizer_view *view,
                 float *scratch)
{
    const int64_t rows = row_count(view->value), count = view->value->count;
    float *to = (float *)batch->stack->data + place * count;
    const bool tall = rows > count / rows;
    float *flat = tall ? scratch : to;
    const double norm = momentum_of(flat, view->opts, view->slot);
    const float factor = (float)(1.0 / (norm + 1e-7));
    if (tall)
        transpose(to, flat, rows, count / rows, factor);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] *= factor;
}

static vv_node *iterate(vv_node *x, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) {
        vv_node *a = vv_matmul(x, x, false, true);
        vv_node *b = vv_add(vv_affine(a, NS_B, 0.0),
                            vv_affine(vv_matmul(a, a, false, false), NS_C, 0.0));
        x = vv_add(vv_affine(x, NS_A, 0.0), vv_matmul(b, x, false, false));
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
            self->nodes[n++] = iterate(vv_leaf(graph, self->batches[i].stack),
                                       self->batches[i].opts->ns_steps);
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

/* Where the direction lies, upright again, and what the weights are multiplied by first. */
static void hand_out(const vvi_muon_batch *batch, int64_t place, const vv_optimizer_view *view,
                     float *scratch)
{
    const vv_muon_opts *o = view->opts;
    vv_optimizer_slot *slot = view->slot;
    const int64_t rows = row_count(view->value), count = view->value->count;
    float *at = (float *)batch->stack->data + place * count;
    if (rows > count / rows) {
        const double aspect = sqrt((double)rows * (double)rows / (double)count);
        transpose(scratch, at, count / rows, rows, o->aspect_scale ? (float)aspect : 1.0f);
        memcpy(at, scratch, (size_t)count * sizeof *at);
    }
    slot->direction = at;
    if (o->normalise_every > 0 && (slot->step - 1) % o->normalise_every == 0) {
        const double norm = sqrt(vvi_grad_square_sum(slot->value, count));
        slot->scale = norm > 0.0 ? sqrt((double)rows) / norm : 1.0;
    }
}

static vv_status make_stacks(vvi_muon_self *self)
{
    for (int i = 0; i < self->batch_count; i++) {
        vvi_muon_batch *b = &self->batches[i];
        const int64_t shape[] = {b->count, b->rows, b->columns};
        VV_TRY(vv_tensor_reuse(&b->stack, VV_F32, 3, shape));
        b->count = 0; /* counts again as places are taken */
    }
    return VV_OK;
}

vv_status vvi_muon_direct(void *own, const vv_optimizer_view *views, int count)
{
    vvi_muon_self *self = own;
    vv_status status = VV_OK;
    float *scratch = NULL;
    size_t largest = 0;
    VV_TRY(reserve(self, count));
    sort_into_batches(self, views, count);
    for (int i = 0; i < count; i++)
        if (self->batch_of[i] >= 0 && (size_t)views[i].value->count > largest)
            largest = (size_t)views[i].value->count;
    if (largest == 0)
        return VV_OK;
    VV_GO(vv_alloc_array(&scratch, largest, sizeof *scratch));
    VV_GO(make_stacks(self));
    for (int i = 0; i < count; i++)
        if (self->batch_of[i] >= 0) {
            vvi_muon_batch *batch = &self->batches[self->batch_of[i]];
            fill(batch, batch->count++, &views[i], scratch);
        }
    VV_GO(orthogonalise(self, 0));
    VV_GO(orthogonalise(self, 1));
    for (int i = 0; i < self->batch_count; i++)
        self->batches[i].count = 0;
    for (int i = 0; i < count; i++)
        if (self->batch_of[i] >= 0) {
            vvi_muon_batch *batch = &self->batches[self->batch_of[i]];
            hand_out(batch, batch->count++, &views[i], scratch);
        }
out:
    vv_dealloc(scratch);
    return status;
}

void vvi_muon_fini(void *own)
{
    vvi_muon_self *self = own;
    for (int i = 0; i < 2; i++)
        vv_graph_free(self->graph[i]);
    for (int i = 0; i < self->capacity; i++)
        vv_tensor_free(self->batches[i].stack);
    vv_dealloc(self->batches);
    vv_dealloc(self->nodes);
    vv_dealloc(self->batch_of);
}
