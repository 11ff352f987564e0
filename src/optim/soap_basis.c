/* soap_basis.c - soap's bases (Vyas et al., arXiv 2409.11321, algorithm 3).
 *
 * A matrix G [m,n] has L, the average of G G', and R, of G' G, with eigenvectors P and Q as
 * columns. Adam's moments are those of P' G Q, and the step goes back by P . Q'. At first P and Q
 * are the eigenvectors of the first gradient's L and R, which moves nothing; every `frequency`
 * steps they are brought up to date by one step of orthogonal iteration, P <- qr(L P): the first
 * moment is rotated along, the second one's rows and columns follow the order of the
 * eigenvalues.
 *
 * All that can fail is done before anything in the state changes: results wait in rooms. */
#include "optim/soap_basis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/linalg.h>
#include <vivace/memory.h>
#include <vivace/ops.h>

/* Up to here the first basis is exact; above, so many steps of orthogonal iteration. */
enum { VVI_EXACT_BASIS = 128, VVI_FIRST_ROUNDS = 8, MOST = 5 };

bool vvi_soap_side(const vv_optimizer_view *view, int which, int64_t *size)
{
    const vv_soap_opts *o = view->opts;
    const int64_t rows = view->value->shape[0];
    *size = which ? view->value->count / rows : rows;
    return *size <= o->max_size;
}

/* ---- room ---- */

static vv_status reserve_room(vvi_soap_room *room, const vv_optimizer_view *view)
{
    int64_t size[2];
    const size_t count = (size_t)view->value->count;
    size_t want = 4 * count;
    for (int s = 0; s < 2; s++)
        want += vvi_soap_side(view, s, &size[s]) ? 2 * (size_t)(size[s] * size[s]) : 0;
    if (want > room->capacity) {
        VV_TRY(vv_realloc_array(&room->memory, want, sizeof(float)));
        room->capacity = want;
    }
    room->direction = room->memory;
    room->moments[0] = room->memory + 2 * count;
    room->moments[1] = room->memory + 3 * count;
    float *next = room->memory + 4 * count;
    for (int s = 0; s < 2; s++) {
        room->side[s] = room->basis[s] = NULL;
        if (!vvi_soap_side(view, s, &size[s]))
            continue;
        room->side[s] = next;
        room->basis[s] = next + size[s] * size[s];
        next += 2 * size[s] * size[s];
    }
    return VV_OK;
}

static vv_status reserve(vvi_soap_self *self, const vv_optimizer_view *views, int count)
{
    size_t work = 0;
    if (count > self->capacity) {
        VV_TRY(vv_realloc_array(&self->rooms, (size_t)count, sizeof *self->rooms));
        memset(self->rooms + self->capacity, 0,
               (size_t)(count - self->capacity) * sizeof *self->rooms);
        self->capacity = count;
    }
    for (int i = 0; i < count; i++) {
        if (!views[i].slot || views[i].role != VVI_SOAP_MATRIX)
            continue;
        VV_TRY(reserve_room(&self->rooms[i], &views[i]));
        for (int s = 0; s < 2; s++) {
            int64_t n;
            if (vvi_soap_side(&views[i], s, &n) && (size_t)n > work)
                work = (size_t)n;
        }
    }
    if (work > self->work_count) {
        VV_TRY(vv_realloc_array(&self->work, (2 * work + 1) * work, sizeof *self->work));
        VV_TRY(vv_realloc_array(&self->order, 2 * work, sizeof *self->order));
        self->work_count = work;
    }
    return VV_OK;
}

/* ---- orthogonal columns ---- */

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Makes the rows of a [n,n] orthonormal, each with the span of those before it (Householder's
   reflections; the rows are the columns of the matrix that is meant). b [n,n] is their result. */
static void orthonormal_rows(double *a, double *b, double *sizes, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        double *v = a + k * n;
        const double norm = sqrt(dot(v + k, v + k, n - k));
        v[k] += v[k] >= 0.0 ? norm : -norm;
        sizes[k] = dot(v + k, v + k, n - k);
        for (int64_t r = k + 1; r < n && sizes[k] > 0.0; r++) {
            double *row = a + r * n;
            const double factor = 2.0 * dot(v + k, row + k, n - k) / sizes[k];
            for (int64_t i = k; i < n; i++)
                row[i] -= factor * v[i];
        }
    }
    memset(b, 0, (size_t)(n * n) * sizeof *b);
    for (int64_t r = 0; r < n; r++) {
        double *row = b + r * n;
        row[r] = 1.0;
        for (int64_t k = r; k >= 0; k--) { /* later reflections leave this one alone */
            const double *v = a + k * n;
            if (!(sizes[k] > 0.0))
                continue;
            const double factor = 2.0 * dot(v + k, row + k, n - k) / sizes[k];
            for (int64_t i = k; i < n; i++)
                row[i] -= factor * v[i];
        }
    }
}

static vv_node *square(vv_graph *g, int64_t n, const float *data)
{
    const int64_t shape[2] = {n, n};
    return vv_data(g, VV_F32, 2, shape, data);
}

/* out [n,n] = a b, both [n,n]. */
static vv_status multiply(vv_graph *graph, float *out, int64_t n, const float *a, const float *b)
{
    const vv_tensor *value;
    vv_status status = VV_OK;
    vv_graph_reset(graph);
    vv_node *const product = vv_matmul(square(graph, n, a), square(graph, n, b), false, false);
    VV_GO(vv_node_value(product, &value));
    memcpy(out, value->data, (size_t)(n * n) * sizeof *out);
out:
    vv_graph_reset(graph);
    return status;
}

/* basis <- qr(product), the columns in the given order (NULL: as they are). */
static void orthogonalise(vvi_soap_self *self, float *basis, const float *product, const int *order,
                          int64_t n)
{
    double *a = self->work, *b = a + n * n, *sizes = b + n * n;
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = 0; r < n; r++)
            a[c * n + r] = (double)product[r * n + (order ? order[c] : c)];
    orthonormal_rows(a, b, sizes, n);
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = 0; r < n; r++)
            basis[r * n + c] = (float)b[c * n + r];
}

static vv_status exact_basis(vvi_soap_self *self, float *basis, const float *side, int64_t n)
{
    double *a = self->work, *vectors = a + n * n, *values = vectors + n * n;
    for (int64_t i = 0; i < n * n; i++)
        a[i] = (double)side[i];
    VV_TRY(vv_symmetric_eigen(a, n, values, vectors));
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = 0; r < n; r++)
            basis[r * n + c] = (float)vectors[c * n + r];
    return VV_OK;
}

/* Eigenvectors of the first average. */
static vv_status first_basis(vvi_soap_self *self, float *basis, const float *side, int64_t n)
{
    if (n <= VVI_EXACT_BASIS)
        return exact_basis(self, basis, side, n);
    memset(basis, 0, (size_t)(n * n) * sizeof *basis);
    for (int64_t i = 0; i < n; i++)
        basis[i * n + i] = 1.0f;
    for (int round = 0; round < VVI_FIRST_ROUNDS; round++) {
        VV_TRY(multiply(self->graph, basis, n, side, basis));
        orthogonalise(self, basis, basis, NULL, n);
    }
    return VV_OK;
}

typedef struct ranked {
    double value;
    int index;
} ranked;

static int falling(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return x->index - y->index;
}

/* One step of orthogonal iteration from `old`; order = columns by eigenvalue, largest first. */
static vv_status next_basis(vvi_soap_self *self, float *basis, int *order, const float *side,
                            const float *old, int64_t n)
{
    VV_TRY(multiply(self->graph, basis, n, side, old));
    ranked *ranks = (ranked *)(void *)self->work;
    for (int64_t c = 0; c < n; c++) {
        ranks[c] = (ranked){0.0, (int)c};
        for (int64_t r = 0; r < n; r++)
            ranks[c].value += (double)old[r * n + c] * (double)basis[r * n + c];
    }
    qsort(ranks, (size_t)n, sizeof *ranks, falling);
    for (int64_t c = 0; c < n; c++)
        order[c] = ranks[c].index;
    orthogonalise(self, basis, basis, order, n);
    return VV_OK;
}

/* ---- one parameter ---- */

typedef struct turn {
    vvi_soap_self *self;
    const vv_optimizer_view *view;
    vvi_soap_room *room;
    int64_t size[2];
    bool on[2]; /* the side is rotated */
    bool fresh; /* new bases in this step */
} turn;

static const float *state(const turn *t, int i)
{
    return t->view->slot->state[i];
}

static vv_node *matrix(const turn *t, const float *data)
{
    const int64_t shape[2] = {t->size[0], t->size[1]};
    return vv_data(t->self->graph, VV_F32, 2, shape, data);
}

static vv_node *basis_node(const turn *t, int side, const float *data)
{
    return t->on[side] ? square(t->self->graph, t->size[side], data) : NULL;
}

/* P' x Q, or P x Q' for the way back; an absent side is left as it is. */
static vv_node *rotate(vv_node *x, vv_node *p, vv_node *q, bool back)
{
    if (p)
        x = vv_matmul(p, x, !back, false);
    return q ? vv_matmul(x, q, false, back) : x;
}

/* beta side + (1 - beta) G G' (or G' G). */
static vv_node *next_side(const turn *t, int side, vv_node *gradient)
{
    const vv_soap_opts *o = t->view->opts;
    vv_node *gram = vv_matmul(gradient, gradient, side == 1, side == 0);
    vv_node *old = square(t->self->graph, t->size[side], state(t, VVI_SOAP_LEFT + side));
    return vv_add(vv_affine(old, o->beta2, 0.0), vv_affine(gram, 1.0 - o->beta2, 0.0));
}

/* The second moment with rows and columns in the new order. */
static void reorder(const turn *t)
{
    const float *from = state(t, VVI_SOAP_SQUARE);
    const int *rows = t->self->order, *columns = rows + t->self->work_count;
    for (int64_t r = 0; r < t->size[0]; r++)
        for (int64_t c = 0; c < t->size[1]; c++)
            t->room->moments[1][r * t->size[1] + c] =
                from[(t->on[0] ? rows[r] : r) * t->size[1] + (t->on[1] ? columns[c] : c)];
}

static vv_status renew(const turn *t)
{
    for (int s = 0; s < 2; s++)
        if (t->on[s])
            VV_TRY(next_basis(t->self, t->room->basis[s],
                              t->self->order + (size_t)s * t->self->work_count,
                              state(t, VVI_SOAP_LEFT + s), state(t, VVI_SOAP_LEFT_BASIS + s),
                              t->size[s]));
    reorder(t);
    return VV_OK;
}

/* Evaluates the nodes (NULL = none) into the given places. */
static vv_status fetch(vv_graph *graph, vv_node *const *nodes, float *const *places, int count)
{
    VV_TRY(vv_graph_status(graph));
    vv_node *all[MOST];
    int n = 0;
    for (int i = 0; i < count; i++)
        if (nodes[i])
            all[n++] = nodes[i];
    VV_TRY(vv_eval(graph, all, n));
    for (int i = 0; i < count; i++) {
        const vv_tensor *value;
        if (!nodes[i])
            continue;
        VV_TRY(vv_node_value(nodes[i], &value));
        memcpy(places[i], value->data, value->bytes);
    }
    return VV_OK;
}

static vv_status first_step(const turn *t)
{
    vv_node *g = matrix(t, t->view->slot->grad), *nodes[2] = {NULL, NULL};
    for (int s = 0; s < 2; s++)
        nodes[s] = t->on[s] ? next_side(t, s, g) : NULL;
    VV_TRY(fetch(t->self->graph, nodes, t->room->side, 2));
    for (int s = 0; s < 2; s++)
        if (t->on[s])
            VV_TRY(first_basis(t->self, t->room->basis[s], t->room->side[s], t->size[s]));
    return VV_OK;
}

/* The first moment as the old bases have it, in the new ones. */
static vv_node *turned_mean(const turn *t, vv_node *p, vv_node *q)
{
    vv_node *mean = matrix(t, state(t, VVI_SOAP_MEAN));
    if (!t->fresh)
        return mean;
    vv_node *old_p = basis_node(t, 0, state(t, VVI_SOAP_LEFT_BASIS));
    vv_node *old_q = basis_node(t, 1, state(t, VVI_SOAP_RIGHT_BASIS));
    return rotate(rotate(mean, old_p, old_q, true), p, q, false);
}

static vv_status later_step(const turn *t)
{
    const vv_soap_opts *o = t->view->opts;
    vv_graph *graph = t->self->graph;
    const double steps = (double)(t->view->slot->step - 1);
    const float *bases[2], *squares = t->fresh ? t->room->moments[1] : state(t, VVI_SOAP_SQUARE);
    for (int s = 0; s < 2; s++)
        bases[s] = t->fresh ? t->room->basis[s] : state(t, VVI_SOAP_LEFT_BASIS + s);
    vv_node *p = basis_node(t, 0, bases[0]), *q = basis_node(t, 1, bases[1]);
    vv_node *g = matrix(t, t->view->slot->grad), *turned = rotate(g, p, q, false);
    vv_node *old = turned_mean(t, p, q);
    vv_node *mean = vv_add(vv_affine(old, o->beta1, 0.0), vv_affine(turned, 1.0 - o->beta1, 0.0));
    vv_node *square_of = vv_add(vv_affine(matrix(t, squares), o->beta2, 0.0),
                                vv_affine(vv_square(turned), 1.0 - o->beta2, 0.0));
    const double scale = sqrt(1.0 - pow(o->beta2, steps)) / (1.0 - pow(o->beta1, steps));
    vv_node *step = vv_div(vv_mul(mean, vv_scalar(graph, scale)),
                           vv_affine(vv_sqrt(square_of), 1.0, o->eps));
    const int64_t count = t->view->value->count;
    vv_node *const nodes[MOST] = {rotate(step, p, q, true), turned,
                                  t->on[0] ? next_side(t, 0, g) : NULL,
                                  t->on[1] ? next_side(t, 1, g) : NULL, t->fresh ? old : NULL};
    float *const places[MOST] = {t->room->direction, t->room->direction + count, t->room->side[0],
                                 t->room->side[1], t->room->moments[0]};
    return fetch(graph, nodes, places, MOST);
}

static turn turn_of(vvi_soap_self *self, const vv_optimizer_view *view, vvi_soap_room *room)
{
    const vv_soap_opts *o = view->opts;
    const int64_t step = view->slot->step;
    turn t = {.self = self, .view = view, .room = room,
              .fresh = step > 2 && (step - 2) % o->frequency == 0};
    for (int s = 0; s < 2; s++)
        t.on[s] = vvi_soap_side(view, s, &t.size[s]);
    return t;
}

static vv_status compute(const turn *t)
{
    vv_status status = VV_OK;
    if (t->view->slot->step == 1)
        VV_GO(first_step(t));
    else {
        if (t->fresh)
            VV_GO(renew(t));
        vv_graph_reset(t->self->graph);
        VV_GO(later_step(t));
    }
out:
    vv_graph_reset(t->self->graph);
    return status;
}

static void commit(const turn *t)
{
    vv_optimizer_slot *slot = t->view->slot;
    const bool first = slot->step == 1;
    for (int s = 0; s < 2; s++) {
        const size_t bytes = (size_t)(t->size[s] * t->size[s]) * sizeof(float);
        if (!t->on[s])
            continue;
        memcpy(slot->state[VVI_SOAP_LEFT + s], t->room->side[s], bytes);
        if (first || t->fresh)
            memcpy(slot->state[VVI_SOAP_LEFT_BASIS + s], t->room->basis[s], bytes);
    }
    for (int i = 0; i < 2 && t->fresh; i++)
        memcpy(slot->state[VVI_SOAP_MEAN + i], t->room->moments[i],
               (size_t)slot->count * sizeof(float));
    slot->direction = first ? NULL : t->room->direction;
}

vv_status vvi_soap_direct(void *own, const vv_optimizer_view *views, int count)
{
    vvi_soap_self *self = own;
    VV_TRY(reserve(self, views, count));
    if (!self->graph) {
        const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
        VV_TRY(vv_graph_new(&self->graph, &opts));
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++) {
            if (!views[i].slot || views[i].role != VVI_SOAP_MATRIX)
                continue;
            const turn t = turn_of(self, &views[i], &self->rooms[i]);
            if (pass == 0)
                VV_TRY(compute(&t));
            else
                commit(&t);
        }
    return VV_OK;
}

void vvi_soap_fini(void *own)
{
    vvi_soap_self *self = own;
    vv_graph_free(self->graph);
    for (int i = 0; i < self->capacity; i++)
        vv_dealloc(self->rooms[i].memory);
    vv_dealloc(self->rooms);
    vv_dealloc(self->work);
    vv_dealloc(self->order);
}
