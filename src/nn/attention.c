/* attention.c - the attention layer: positions, normalised queries, masks, keys kept while
 * decoding. */
#include "nn/module.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "graph/node.h"

/* While decoding, the kept keys are seen in whole pieces of this many, so that a plan serves many
   tokens. As many unused rows stand before the first. */
enum { PIECE = 64 };

/* ---- slopes and frequencies ---- */

/* Slopes for n heads, n a power of two: 2^(-8 i / n), i = 1..n. */
static float slope(int64_t n, int64_t i)
{
    return (float)exp2(-8.0 * (double)(i + 1) / (double)n);
}

void vv_alibi_slopes(int64_t heads, float *out)
{
    int64_t n = 1;

    while (2 * n <= heads)
        n *= 2;
    for (int64_t i = 0; i < heads; i++)
        out[i] = i < n ? slope(n, i) : slope(2 * n, 2 * (i - n));
}

static vv_node *slopes(const vv_attention_layer *self, vv_graph *graph)
{
    float *values = NULL;
    vv_status status = vv_alloc_array(&values, (size_t)self->heads, sizeof *values);

    if (status != VV_OK)
        return vv_graph_fail(graph, status);
    vv_alibi_slopes(self->heads, values);

    vv_node *node = vv_data(graph, VV_F32, 1, &self->heads, values);

    vv_dealloc(values);
    return node;
}

static vv_node *frequencies(const vv_attention_layer *self, vv_graph *graph)
{
    const int64_t half = self->head_dim / 2;
    const int64_t turned = (int64_t)(self->rotary_share * (double)half + 0.5);
    const double span = turned < half ? (double)(turned > 1 ? turned - 1 : 1) : (double)half;
    float *values = NULL;
    vv_status status = vv_alloc_array(&values, (size_t)half, sizeof *values);

    if (status != VV_OK)
        return vv_graph_fail(graph, status);
    for (int64_t i = 0; i < turned && i < half; i++)
        values[i] = (float)pow(self->rotary_base, -(double)i / span);

    vv_node *node = vv_data(graph, VV_F32, 1, &half, values);

    vv_dealloc(values);
    return node;
}

/* ---- what is kept while decoding ---- */

void vvi_attention_end(vv_module *layer)
{
    vv_attention_layer *self = layer->self;

    vv_tensor_free(self->keys);
    vv_tensor_free(self->values);
    self->keys = self->values = NULL;
}

vv_status vvi_attention_begin(vv_module *layer, int64_t tokens)
{
    vv_attention_layer *self = layer->self;
    const int64_t shape[2] = {PIECE + tokens, self->kv_heads * self->head_dim};

    vvi_attention_end(layer);
    VV_TRY(vv_tensor_new(&self->keys, VV_F32, 2, shape));
    return vv_tensor_new(&self->values, VV_F32, 2, shape);
}

/* Rows [first, first + count) of what is kept, as [1,count,K,D]. */
static vv_status kept_rows(vv_tensor **out, const vv_attention_layer *self, vv_tensor *kept,
                           int64_t first, int64_t count)
{
    const int64_t shape[4] = {1, count, self->kv_heads, self->head_dim};
    vv_tensor *rows = NULL;

    *out = NULL;
    VV_TRY(vv_tensor_rows(&rows, kept, PIECE + first, count));

    const vv_status status = vv_tensor_reshaped(out, rows, 4, shape);

    vv_tensor_free(rows);
    return status;
}

/* Keeps x [1,T,K,D] behind the first `past` rows once it is known; *x = the rows before (in whole
   pieces) and x. */
static vv_status keep(vv_graph *graph, const vv_attention_layer *self, vv_tensor *kept,
                      int64_t past, vv_node **x)
{
    const int64_t count = vv_node_shape(*x)[1], seen = (past + PIECE - 1) / PIECE * PIECE;
    vv_tensor *rows = NULL;

    VV_TRY(kept_rows(&rows, self, kept, past, count));
    if (vv_node_dtype(*x) != VV_F32)
        *x = vv_cast(*x, VV_F32);

    vv_status status = vv_update(graph, rows, *x);

    vv_tensor_free(rows);
    if (status != VV_OK || !past)
        return status;
    VV_TRY(kept_rows(&rows, self, kept, past - seen, seen));

    vv_node *both[2] = {vv_leaf(graph, rows), *x};

    vv_tensor_free(rows);
    *x = vv_concat(both, 2, 1);
    return VV_OK;
}

/* Which of the keys are there: those of the last `past` kept rows and the new ones. */
static vv_node *kept_mask(vv_graph *graph, int64_t past, int64_t count)
{
    const int64_t seen = (past + PIECE - 1) / PIECE * PIECE, shape[2] = {1, seen + count};
    int32_t *mask = NULL;
    vv_status status = vv_alloc_array(&mask, (size_t)shape[1], sizeof *mask);

    if (status != VV_OK)
        return vv_graph_fail(graph, status);
    for (int64_t i = seen - past; i < shape[1]; i++)
        mask[i] = 1;

    vv_node *node = vv_data(graph, VV_I32, 2, shape, mask);

    vv_dealloc(mask);
    return node;
}

static vv_status use_kept(const vv_module *layer, vv_graph *graph, vv_node **k, vv_node **v)
{
    const vv_attention_layer *self = layer->self;
    const int64_t *shape = vv_node_shape(*k);

    if (layer->training)
        return vv_fail(VV_ESTATE, "Attention: decoding needs the net in evaluation mode");
    if (shape[0] != 1)
        return vv_fail(VV_ESHAPE, "Attention: decoding takes one row of tokens, not %lld",
                       (long long)shape[0]);
    if (layer->past + shape[1] > self->keys->shape[0] - PIECE)
        return vv_fail(VV_ESHAPE,
                       "Attention: %lld tokens in a row, there is room for %lld; begin with more",
                       (long long)(layer->past + shape[1]),
                       (long long)(self->keys->shape[0] - PIECE));
    VV_TRY(keep(graph, self, self->keys, layer->past, k));
    return keep(graph, self, self->values, layer->past, v);
}

/* ---- forward ---- */

/* [N,T,heads * D] -> [N,T,heads,D] */
static vv_node *split_heads(const vv_attention_layer *self, vv_graph *graph, vv_node *x,
                            int64_t heads)
{
    if (!x)
        return NULL;

    const int64_t *from = vv_node_shape(x);

    if (vv_node_ndim(x) != 3 || from[2] != heads * self->head_dim)
        return vvi_node_fail(graph, VV_ESHAPE,
                             "Attention: %lld heads of %lld need x [N,T,%lld], it has %d axes and "
                             "ends with %lld", (long long)heads, (long long)self->head_dim,
                             (long long)(heads * self->head_dim), vv_node_ndim(x),
                             (long long)(vv_node_ndim(x) ? from[vv_node_ndim(x) - 1] : 1));

    const int64_t shape[4] = {from[0], from[1], heads, self->head_dim};

    return vv_reshape(x, 4, shape);
}

static vv_node *attend(vv_module *layer, vv_graph *graph, vv_node *q, vv_node *k, vv_node *v)
{
    const vv_attention_layer *self = layer->self;
    const int64_t past = layer->past;
    vv_node *mask = self->key_mask, *document = self->document;

    q = split_heads(self, graph, q, self->heads);
    k = split_heads(self, graph, k, self->kv_heads);
    v = split_heads(self, graph, v, self->kv_heads);
    if (self->qk_norm) {
        q = vv_rms_norm(q, NULL, 1e-6);
        k = vv_rms_norm(k, NULL, 1e-6);
    }
    if (self->rotary_base > 0.0) {
        vv_node *turns = frequencies(self, graph);

        q = vv_rotary(q, turns, past);
        k = vv_rotary(k, turns, past);
    }
    if (!q || !k || !v)
        return NULL;
    if (self->keys) {
        const vv_status status = use_kept(layer, graph, &k, &v);

        if (status != VV_OK)
            return vv_graph_fail(graph, status);
        if (past) {
            mask = kept_mask(graph, past, vv_node_shape(q)[1]);
            document = NULL; /* a row that is decoded is one document */
            if (vv_node_dtype(q) != VV_F32)
                q = vv_cast(q, VV_F32);
        }
    }

    const vv_attention_opts opts = {.causal = self->causal,
                                    .window = self->window,
                                    .scale = self->scale,
                                    .dropout = layer->training ? self->dropout : 0.0};
    vv_node *y = vv_attention(q, k, v, self->alibi ? slopes(self, graph) : NULL, mask, document,
                              &opts);

    if (!y)
        return NULL;

    const int64_t shape[3] = {vv_node_shape(y)[0], vv_node_shape(y)[1],
                              self->heads * self->head_dim};

    return vv_reshape(y, 3, shape);
}

static vv_node *attention_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_attention_layer *self = module->self;
    const int64_t q_end = self->heads * self->head_dim;
    const int64_t k_end = q_end + self->kv_heads * self->head_dim;
    const int64_t v_end = k_end + self->kv_heads * self->head_dim;
    const int ndim = vv_node_ndim(x);

    if (ndim != 3 || vv_node_shape(x)[2] != v_end)
        return vvi_node_fail(graph, VV_ESHAPE,
                             "Attention: queries, keys and values need x [N,T,%lld], it has %d "
                             "axes and ends with %lld", (long long)v_end, ndim,
                             (long long)(ndim ? vv_node_shape(x)[ndim - 1] : 1));
    return attend(module, graph, vv_slice(x, 2, 0, q_end, 1), vv_slice(x, 2, q_end, k_end, 1),
                  vv_slice(x, 2, k_end, v_end, 1));
}

static void attention_fini(vv_module *module)
{
    vvi_attention_end(module);
}

const vv_module_class vv_attention_class = {"Attention", attention_forward, attention_fini};

vv_node *vv_attention_attend(vv_module *layer, vv_graph *graph, vv_node *q, vv_node *k, vv_node *v)
{
    vv_node *parts[3] = {q, k, v};

    if (!layer || !q || !k || !v)
        return NULL;
    if (layer->type != &vv_attention_class)
        return vv_module_forward(layer, graph, vv_concat(parts, 3, 2));
    if (layer->scope[0])
        vv_graph_push_scope(graph, layer->scope);

    vv_node *y = attend(layer, graph, q, k, v);

    if (y && layer->observe)
        layer->observe(layer->observe_ctx, layer, graph, y);
    if (layer->scope[0])
        vv_graph_pop_scope(graph);
    return y;
}

void vv_attention_mask(vv_module *net, vv_node *key_mask, vv_node *document)
{
    if (net->type == &vv_attention_class) {
        vv_attention_layer *self = net->self;

        self->key_mask = key_mask;
        self->document = document;
    }
    for (int i = 0; i < net->children.count; i++)
        vv_attention_mask(net->children.items[i].u.module, key_mask, document);
}

/* ---- making ---- */

static vv_status check(const vv_attention_layer *s)
{
    if (s->heads < 1 || s->kv_heads < 1 || s->head_dim < 1 || s->heads % s->kv_heads)
        return vv_fail(VV_EINVAL,
                       "Attention: %lld heads of %lld with %lld of keys; all must be positive, and "
                       "the heads a multiple of those of keys", (long long)s->heads,
                       (long long)s->head_dim, (long long)s->kv_heads);
    if (!(s->dropout >= 0.0 && s->dropout < 1.0))
        return vv_fail(VV_EINVAL, "Attention: dropout %g is outside [0, 1)", s->dropout);
    if (s->window < 0 || !(s->scale >= 0.0))
        return vv_fail(VV_EINVAL, "Attention: window %lld and scale %g must not be negative",
                       (long long)s->window, s->scale);
    if (s->rotary_base != 0.0 && (!(s->rotary_base > 1.0) || s->head_dim % 2))
        return vv_fail(VV_EINVAL,
                       "Attention: rotary positions need a base above 1 and an even size of a "
                       "head, not %g and %lld", s->rotary_base, (long long)s->head_dim);
    if (!(s->rotary_share >= 0.0 && s->rotary_share <= 1.0))
        return vv_fail(VV_EINVAL, "Attention: the share of pairs that turn, %g, is outside [0, 1]",
                       s->rotary_share);
    return VV_OK;
}

vv_status vv_attention_new(vv_module **out, const vv_attention_layer *settings)
{
    vv_attention_layer *self;

    *out = NULL;
    if (!settings)
        return vv_fail(VV_EINVAL, "Attention: settings are NULL; heads and head_dim are needed");
    VV_TRY(check(settings));
    VV_TRY(vv_module_new(out, &vv_attention_class, sizeof *self));
    self = (*out)->self;
    *self = *settings;
    if (self->rotary_share == 0.0)
        self->rotary_share = 1.0;
    self->key_mask = self->document = NULL;
    self->keys = self->values = NULL;
    return VV_OK;
}
