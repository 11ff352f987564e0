/* op_build_attention.h - cases of attention for tables of op_case. */
#ifndef OP_BUILD_ATTENTION_H
#define OP_BUILD_ATTENTION_H

#include "op_case.h"

/* Shapes of one case; has_* say which optional operands it gets. */
typedef struct attention_case {
    op_case base;
    vv_attention_opts opts;
    bool has_slopes, has_mask, has_document;
} attention_case;

static inline vv_node *build_attention(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    const attention_case *a = (const attention_case *)c;
    int at = 3;
    vv_node *slopes = a->has_slopes ? in[at++] : NULL;
    vv_node *mask = a->has_mask ? in[at++] : NULL;
    vv_node *document = a->has_document ? in[at++] : NULL;
    return vv_attention(in[0], in[1], in[2], slopes, mask, document, &a->opts);
}

typedef struct attention_row {
    const char *name;
    int64_t batch, queries, keys, heads, kv_heads, width;
    vv_attention_opts opts;
    bool slopes, bool_mask, int_mask, document;
} attention_row;

static inline attention_case attention_of(const attention_row *r)
{
    attention_case a = {
        .base = {.name = r->name, .build = build_attention, .n_in = 3},
        .opts = r->opts,
        .has_slopes = r->slopes,
        .has_mask = r->bool_mask || r->int_mask,
        .has_document = r->document,
    };
    op_case *c = &a.base;
    c->in[0] = (op_operand){.kind = OP_FLOAT, .ndim = 4,
                            .shape = {r->batch, r->queries, r->heads, r->width}};
    for (int i = 1; i < 3; i++)
        c->in[i] = (op_operand){.kind = OP_FLOAT, .ndim = 4,
                                .shape = {r->batch, r->keys, r->kv_heads, r->width}};
    if (r->slopes)
        c->in[c->n_in++] = (op_operand){.kind = OP_FIXED, .ndim = 1, .shape = {r->heads},
                                        .lo = 0.05, .hi = 0.6, .f32 = true};
    if (a.has_mask)
        c->in[c->n_in++] = (op_operand){.kind = r->bool_mask ? OP_BOOL : OP_INDEX, .ndim = 2,
                                        .shape = {r->batch, r->keys}, .lo = 0, .hi = 3};
    if (r->document)
        c->in[c->n_in++] = (op_operand){.kind = OP_INDEX, .ndim = 2,
                                        .shape = {r->batch, r->keys}, .lo = 0, .hi = 3};
    return a;
}

#endif
