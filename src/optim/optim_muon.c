/* optim_muon.c - Muon (K. Jordan et al., 2024) and NorMuon (Li et al., arXiv 2510.05491): matrices
 * step by their orthogonalised momentum, what is no matrix by SGD or AdamW. The orthogonalisation
 * is in muon_direction.c. Cautious decay (Chen et al., arXiv 2510.12402) is done only where it goes
 * the way of the step. */
#include <math.h>
#include <stddef.h>

#include "optim/muon_direction.h"
#include "optim/optim_kernels.h"

/* v <- mu v + g;  w <- keep w - rate d, d the direction computed from both. */
VVI_CLONES
static void step_matrix(float *restrict w, const float *restrict g, float *restrict v,
                        const float *restrict d, int64_t count, float mu, float keep, float rate)
{
    for (int64_t i = 0; i < count; i++) {
        v[i] = mu * v[i] + g[i];
        w[i] = w[i] * keep - rate * d[i];
    }
}

/* The same, where the weights that the step drives away from 0 do not decay. */
VVI_CLONES
static void step_cautious(float *restrict w, const float *restrict g, float *restrict v,
                          const float *restrict d, int64_t count, float mu, float scale,
                          float decay, float rate)
{
    for (int64_t i = 0; i < count; i++) {
        const float old = w[i] * scale, keep = d[i] * old >= 0.0f ? 1.0f - decay : 1.0f;
        v[i] = mu * v[i] + g[i];
        w[i] = old * keep - rate * d[i];
    }
}

/* v <- mu v + d;  w <- w - lr (d + mu v), d = g + l2 w. */
VVI_CLONES
static void step_sgd(float *restrict w, const float *restrict g, float *restrict v, int64_t count,
                     float lr, float l2, float mu)
{
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] + l2 * w[i];
        float velocity = mu * v[i] + d;
        v[i] = velocity;
        w[i] -= lr * (d + mu * velocity);
    }
}

typedef struct adam_numbers {
    float beta1, rest1, beta2, rest2, keep, rate, root, eps;
} adam_numbers;

VVI_CLONES
static void step_adamw(float *restrict w, const float *restrict g, float *restrict m,
                       float *restrict v, int64_t count, const adam_numbers *numbers)
{
    const adam_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float mean = n.beta1 * m[i] + n.rest1 * g[i];
        float square = n.beta2 * v[i] + n.rest2 * g[i] * g[i];
        m[i] = mean;
        v[i] = square;
        w[i] = w[i] * n.keep - n.rate * mean / (sqrtf(square) * n.root + n.eps);
    }
}

VVI_CLONES
static void step_cautious_adamw(float *restrict w, const float *restrict g, float *restrict m,
                                float *restrict v, int64_t count, const adam_numbers *numbers)
{
    const adam_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float mean = n.beta1 * m[i] + n.rest1 * g[i];
        float square = n.beta2 * v[i] + n.rest2 * g[i] * g[i];
        float keep = mean * w[i] > 0.0f ? n.keep : 1.0f;
        m[i] = mean;
        v[i] = square;
        w[i] = w[i] * keep - n.rate * mean / (sqrtf(square) * n.root + n.eps);
    }
}

static void fallback(const vv_muon_opts *o, double lr, const vv_optimizer_slot *slot, int64_t first,
                     int64_t last)
{
    float *w = slot->value + first, *m = slot->state[VVI_MUON_MOMENT] + first;
    const float *g = slot->grad + first;
    if (o->fallback == 0) {
        step_sgd(w, g, m, last - first, (float)lr, (float)o->fallback_weight_decay,
                 (float)o->fallback_momentum);
        return;
    }
    const double t = (double)slot->step;
    const adam_numbers n = {
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1.0 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1.0 - o->beta2),
        .keep = (float)(1.0 - lr * o->fallback_weight_decay),
        .rate = (float)(lr / (1.0 - pow(o->beta1, t))),
        .root = (float)(1.0 / sqrt(1.0 - pow(o->beta2, t))),
        .eps = (float)o->eps,
    };
    float *v = slot->state[VVI_MUON_SQUARES] + first;
    if (o->cautious)
        step_cautious_adamw(w, g, m, v, last - first, &n);
    else
        step_adamw(w, g, m, v, last - first, &n);
}

static void update(const void *opts, double lr, double initial_lr, const vv_optimizer_slot *slot,
                   int64_t first, int64_t last)
{
    const vv_muon_opts *o = opts;
    if (slot->role == VVI_MUON_MATRIX) {
        float *w = slot->value + first, *v = slot->state[VVI_MUON_MOMENT] + first;
        const double decay = lr * o->weight_decay;
        if (o->cautious)
            step_cautious(w, slot->grad + first, v, slot->direction + first, last - first,
                          (float)o->momentum, (float)slot->scale, (float)decay, (float)lr);
        else
            step_matrix(w, slot->grad + first, v, slot->direction + first, last - first,
                        (float)o->momentum, (float)(slot->scale * (1.0 - decay)), (float)lr);
        return;
    }
    /* The fallback's learning rate follows the same schedule. */
    const double special = slot->role == VVI_MUON_HEAD    ? o->head_lr
                           : slot->role == VVI_MUON_TABLE ? o->embedding_lr
                                                          : 0.0;
    const double own = special > 0.0 ? special : o->fallback_lr;
    fallback(o, initial_lr > 0.0 ? own * lr / initial_lr : own, slot, first, last);
}

/* AdamW's squares only for what it steps; normuon's numbers only of matrices. */
static bool state_shape(const vv_optimizer_view *view, int i, int *ndim, int64_t *shape)
{
    const bool matrix = view->role == VVI_MUON_MATRIX;
    if (i == VVI_MUON_ROWS) {
        *ndim = 1;
        shape[0] = matrix ? vvi_muon_row_count(view) : 0;
        return matrix;
    }
    return i == VVI_MUON_MOMENT || (!matrix && ((const vv_muon_opts *)view->opts)->fallback == 1);
}

static vv_status check(const void *opts)
{
    const vv_muon_opts *o = opts;
    if (o->beta1 >= 1.0 || o->beta2 >= 1.0)
        return vv_fail(VV_EINVAL,
                       "beta1 %g and beta2 %g must be below 1, or nothing new is ever averaged in",
                       o->beta1, o->beta2);
    if (o->row_beta >= 1.0)
        return vv_fail(VV_EINVAL, "row_beta %g must be below 1, or no row is ever averaged in",
                       o->row_beta);
    return VV_OK;
}

#define ROW(member, kind, fallback_text, low, high, names, help)                               \
    {                                                                                          \
#member, help, kind, offsetof(vv_muon_opts, member), fallback_text, low, high, names           \
    }
#define NUMBER(member, fallback_text, high, help) \
    ROW(member, VV_FIELD_FLOAT, fallback_text, 0, high, NULL, help)
static const char *const matrices[] = {"filters", "hidden", "all", NULL};
static const char *const iterations[] = {"newton_schulz", "polar_express", NULL};
static const char *const precisions[] = {"fp32", "bf16", NULL};
static const char *const fallbacks[] = {"sgd", "adamw", NULL};

#define MATRIX_ROWS(lr_text)                                                                    \
    NUMBER(lr, lr_text, 1e6, "initial learning rate of matrices"),                              \
        NUMBER(momentum, "0.95", 1, "share of the last velocity that is kept"),                 \
        ROW(nesterov, VV_FIELD_BOOL, "true", 0, 0, NULL, "look ahead along the velocity"),      \
        ROW(ns_steps, VV_FIELD_INT, "5", 1, 100, NULL, "steps of the iteration"),               \
        ROW(iteration, VV_FIELD_CHOICE, "newton_schulz", 0, 0, iterations,                      \
            "the polynomials that make a matrix orthogonal"),                                   \
        NUMBER(weight_decay, "0", 1e6,                                                          \
               "times the learning rate: share of a matrix taken off each step"),               \
        ROW(cautious, VV_FIELD_BOOL, "false", 0, 0, NULL,                                       \
            "weights decay only where the step goes the same way (not those of sgd)"),          \
        ROW(aspect_scale, VV_FIELD_BOOL, "true", 0, 0, NULL,                                    \
            "steps times sqrt(rows / columns) where there are more rows"),                      \
        ROW(matrices, VV_FIELD_CHOICE, "hidden", 0, 0, matrices,                                \
            "which parameters: of three or more axes, of two or more but the head, of two or "  \
            "more; never the tables of embeddings"),                                            \
        ROW(others, VV_FIELD_STRING, "", 0, 0, NULL,                                            \
            "names (patterns, comma-separated) that are never matrices"),                       \
        ROW(split, VV_FIELD_STRING, "*c_attn.weight,*qkv.weight,*in_proj_weight", 0, 0, NULL,   \
            "names (patterns) whose rows hold q, k and v: three matrices of their own"),        \
        ROW(precision, VV_FIELD_CHOICE, "fp32", 0, 0, precisions, "precision of the iteration")
#define OTHER_ROWS(fallback_text, lr_text)                                                        \
    ROW(fallback, VV_FIELD_CHOICE, fallback_text, 0, 0, fallbacks,                                \
        "what steps the other parameters"),                                                       \
        NUMBER(fallback_lr, lr_text, 1e6, "initial learning rate of the others"),                 \
        NUMBER(head_lr, "0", 1e6, "that of the head if it is one of the others; 0 = the same"),   \
        NUMBER(embedding_lr, "0", 1e6, "that of the tables of embeddings; 0 = the same"),         \
        NUMBER(fallback_momentum, "0.85", 1, "momentum (Nesterov) of sgd"),                       \
        NUMBER(fallback_weight_decay, "0", 1e6,                                                   \
               "of the others: added to the gradient (sgd), times the learning rate (adamw)"),    \
        NUMBER(beta1, "0.9", 1, "of adamw: share kept of the average gradient, below 1"),         \
        NUMBER(beta2, "0.95", 1, "of adamw: share kept of the average squared gradient, below 1"), \
        NUMBER(eps, "1e-8", 1, "of adamw: added to the denominator")

static const vv_field fields[] = {
    MATRIX_ROWS("0.02"),
    ROW(normalise_every, VV_FIELD_INT, "0", 0, 1e9, NULL,
        "steps between matrices being scaled to norm sqrt(rows), for layers before a norm; 0 = "
        "never"),
    OTHER_ROWS("sgd", "0.05"),
    VVI_OPTIM_ROW_END,
};
static const vv_field even_fields[] = {
    MATRIX_ROWS("0.02"),
    NUMBER(row_beta, "0.95", 1, "share kept of the average squares of rows, below 1"),
    OTHER_ROWS("adamw", "0.003"),
    VVI_OPTIM_ROW_END,
};
static const char *const state_names[] = {"momentum_buffer", "exp_avg_sq", "row_avg_sq", NULL};

#define MUON(text, what, paper, rows, states, function)                                     \
    {                                                                                       \
        .desc = {.kind = "optimizer",                                                       \
                 .name = text,                                                              \
                 .summary = what,                                                           \
                 .cite = paper,                                                             \
                 .domains = "any",                                                          \
                 .fields = rows,                                                            \
                 .opts_size = sizeof(vv_muon_opts)},                                        \
        .state_count = states, .state_names = state_names, .update = update,                \
        .state_shape = state_shape, .sort = vvi_muon_sort, .check = check,                  \
        .self_size = sizeof(vvi_muon_self), .direct = function, .fini_self = vvi_muon_fini, \
    }

const vv_optimizer_desc vvi_muon =
    MUON("muon", "Matrices step by their orthogonalised momentum, the rest by SGD or AdamW.",
         "K. Jordan et al., Muon: An optimizer for hidden layers in neural networks (2024)", fields,
         2, vvi_muon_direct);
const vv_optimizer_desc vvi_normuon =
    MUON("normuon", "Muon whose directions have rows of one size over time.",
         "Li et al., arXiv 2510.05491", even_fields, 3, vvi_normuon_direct);
