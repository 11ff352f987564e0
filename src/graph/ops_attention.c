/* ops_attention.c - attention: its shape rule and gradient. */
#include "graph/node.h"

#include <math.h>

static const char OP[] = "attention";

static vv_node *fail_shape(const char *what, const vv_node *x, const char *need)
{
    char text[128];
    return vvi_node_fail(x->graph, VV_ESHAPE, "%s: %s has shape %s, must be %s", OP, what,
                         vv_shape_text(x->out[0].ndim, x->out[0].shape, text, sizeof text), need);
}

static bool check_qkv(const vv_node *q, vv_node *k, vv_node *v)
{
    const vvi_shape *sq = &q->out[0], *sk = &k->out[0], *sv = &v->out[0];
    if (!vvi_need_dims(OP, "k", k, 4) || !vvi_need_dims(OP, "v", v, 4))
        return false;
    if (sk->dtype != sq->dtype || sv->dtype != sq->dtype) {
        vvi_node_fail(q->graph, VV_ETYPE, "%s: q is %s, k is %s, v is %s; cast them to one type",
                      OP, vv_dtype_name(sq->dtype), vv_dtype_name(sk->dtype),
                      vv_dtype_name(sv->dtype));
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (sk->shape[i] != sv->shape[i]) {
            char text[128];
            vvi_node_fail(q->graph, VV_ESHAPE, "%s: v has shape %s, must be as k", OP,
                          vv_shape_text(4, sv->shape, text, sizeof text));
            return false;
        }
    }
    if (sk->shape[0] != sq->shape[0] || sk->shape[3] != sq->shape[3]) {
        char text[128];
        vvi_node_fail(q->graph, VV_ESHAPE,
                      "%s: k has shape %s, its first and last axis must be q's, %lld and %lld", OP,
                      vv_shape_text(4, sk->shape, text, sizeof text), (long long)sq->shape[0],
                      (long long)sq->shape[3]);
        return false;
    }
    if (sq->shape[2] < 1 || sq->shape[3] < 1 || sk->shape[2] < 1) {
        fail_shape("q", q, "[batch,time,heads,width] with at least one head and one channel");
        return false;
    }
    if (sq->shape[2] % sk->shape[2] != 0) {
        vvi_node_fail(q->graph, VV_ESHAPE,
                      "%s: the %lld heads of q do not divide into groups for the %lld heads of k",
                      OP, (long long)sq->shape[2], (long long)sk->shape[2]);
        return false;
    }
    return true;
}

static bool check_slopes(const vv_node *q, const vv_node *slopes)
{
    const vvi_shape *s = &slopes->out[0];
    if (s->dtype != VV_F32) {
        vvi_node_fail(q->graph, VV_ETYPE, "%s: slopes are %s, must be f32; cast them", OP,
                      vv_dtype_name(s->dtype));
        return false;
    }
    if (s->ndim != 1 || s->shape[0] != q->out[0].shape[2]) {
        fail_shape("slopes", slopes, "[heads of q]");
        return false;
    }
    return true;
}

/* key_mask and document: one number per key. */
static bool check_per_key(const char *what, const vv_node *k, const vv_node *x, bool may_be_bool)
{
    const vvi_shape *s = &x->out[0];
    if (s->dtype != VV_I32 && !(may_be_bool && s->dtype == VV_BOOL)) {
        vvi_node_fail(k->graph, VV_ETYPE, "%s: %s is %s, must be %s; cast it", OP, what,
                      vv_dtype_name(s->dtype), may_be_bool ? "bool or i32" : "i32");
        return false;
    }
    if (s->ndim != 2 || s->shape[0] != k->out[0].shape[0] || s->shape[1] != k->out[0].shape[1]) {
        fail_shape(what, x, "[batch,time] of k");
        return false;
    }
    return true;
}

static bool check_opts(const vv_node *q, const vv_attention_opts *o)
{
    if (!(o->dropout >= 0.0 && o->dropout <= 1.0)) {
        vvi_node_fail(q->graph, VV_EINVAL, "%s: dropout is %g, it must be within 0..1", OP,
                      o->dropout);
        return false;
    }
    if (!isfinite(o->scale)) {
        vvi_node_fail(q->graph, VV_EINVAL, "%s: scale is %g, must be a number; 0 means 1/sqrt(D)",
                      OP, o->scale);
        return false;
    }
    if (o->window < 0) {
        vvi_node_fail(q->graph, VV_EINVAL, "%s: window is %lld, must not be negative; 0 means none",
                      OP, (long long)o->window);
        return false;
    }
    return true;
}

vv_node *vv_attention(vv_node *q, vv_node *k, vv_node *v, vv_node *slopes, vv_node *key_mask,
                      vv_node *document, const vv_attention_opts *opts)
{
    static const vv_attention_opts defaults = VV_ATTENTION_DEFAULTS;
    const vv_attention_opts *o = opts ? opts : &defaults;
    if (!q || !k || !v || !vvi_need_float(OP, q) || !vvi_need_dims(OP, "q", q, 4) ||
        !check_qkv(q, k, v) || !check_opts(q, o) || (slopes && !check_slopes(q, slopes)) ||
        (key_mask && !check_per_key("key_mask", k, key_mask, true)) ||
        (document && !check_per_key("document", k, document, false)))
        return NULL;
    const int64_t *shape = q->out[0].shape;
    if (document && shape[1] != k->out[0].shape[1])
        return vvi_node_fail(q->graph, VV_ESHAPE,
                             "%s: document needs as many queries as keys, there are %lld and %lld",
                             OP, (long long)shape[1], (long long)k->out[0].shape[1]);
    vv_attr attr = {.raw = {0}};
    attr.attention.scale = o->scale != 0.0 ? o->scale : 1.0 / sqrt((double)shape[3]);
    attr.attention.causal = o->causal;
    attr.attention.window = o->window;
    attr.attention.p = o->dropout;
    if (o->dropout > 0.0)
        attr.attention.id = vvi_graph_next_random(q->graph);
    vv_node *const operands[6] = {q, k, v, slopes, key_mask, document};
    vv_node *y = vvi_node_new(q->graph, VV_OP_ATTENTION, &attr, q->out[0].dtype, 4, shape, operands,
                              6, 3);
    const int64_t rows[3] = {shape[0], shape[2], shape[1]};
    const vv_dtype dtype = q->out[0].dtype == VV_F64 ? VV_F64 : VV_F32;
    return vvi_node_add_out(y, dtype, 3, rows) ? y : NULL;
}

void vvi_grad_attention(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!dout[0] || !(need[0] || need[1] || need[2]))
        return;
    vv_node *logsumexp = vvi_node_pick(node, 1);
    vv_node *const operands[9] = {dout[0],   node->in[0], node->in[1], node->in[2], node,
                                  logsumexp, node->in[3], node->in[4], node->in[5]};
    const vvi_shape *q = &node->in[0]->out[0], *k = &node->in[1]->out[0];
    vv_node *dq = vvi_node_new(node->graph, VV_OP_ATTENTION_GRAD, &node->attr, q->dtype, q->ndim,
                               q->shape, operands, 9, 6);
    din[0] = dq;
    din[1] = vvi_node_add_out(dq, k->dtype, k->ndim, k->shape);
    din[2] = vvi_node_add_out(dq, k->dtype, k->ndim, k->shape);
}

int64_t vvi_attention_pairs(const vv_attr *attr, int64_t queries, int64_t keys)
{
    int64_t pairs = 0;
    for (int64_t i = 0; i < queries; i++) {
        const int64_t at = i + keys - queries, window = attr->attention.window;
        int64_t first = 0, end = attr->attention.causal && at < keys - 1 ? at + 1 : keys;
        if (window > 0) {
            first = at - window + 1 > 0 ? at - window + 1 : 0;
            end = at < end - window ? at + window : end;
        }
        pairs += end > first ? end - first : 0;
    }
    return pairs;
}
