/* onednn_winograd.c - 3x3 stride-1 convolutions in f32 by Winograd F(4x4,3x3) (Lavin & Gray, arXiv
 * 1509.09308), NHWC: our transforms, and between them 36 matrix products by oneDNN.
 *
 *   y = A' [ (G g G') * (B' x B) ] A      per tile of 4x4 results; sums over channels are the
 * products dx: the same with turned weights;  dg = G' [ sum over tiles of (B' x B) (A dy A') ] G
 *
 * A quarter of the multiplications of the direct sum, for an error of about 1e-6 instead of 2e-7.
 * Images go through in groups whose tiles fit in the last-level cache. Which shapes are worth it is
 * a fixed rule, so that a resumed run computes the same bits. */
#include "backend/cpu/onednn_winograd.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_winograd.h"

#include <vivace/memory.h>

#include <string.h>

enum { TAPS = 36, OUT = 4, MIN_CHANNELS = 32, GROUP_BYTES = 12 << 20 };

/* One plane of channels: an image batch with the padding in front of its tiles. */
typedef struct plane {
    const vv_buf *buf;
    int64_t channels, pad;
} plane;

typedef struct winograd {
    vv_op op;
    vvi_onednn_node *product;
    plane src, dst; /* tiles are read from src; dst is the 4x4 side (y, dx, or dy of the weights) */
    const vv_buf *weights, *bias;
    int64_t tiles_h, tiles_w, images, group; /* group: images at a time */
    size_t spread_at, product_at, weights_at, zeros_at, bias_at, trash_at, product_scratch_at;
    int slots;
} winograd;

static void describe(winograd *w, const vv_call *call)
{
    const int64_t pad = call->attr->conv.pad[0];
    const vv_buf *third = call->n_in > 2 && call->in[2].count > 0 ? &call->in[2] : NULL;
    memset(w, 0, sizeof *w);
    w->op = call->op;
    switch (call->op) {
    case VV_OP_CONV2D:
        w->src = (plane){&call->in[0], call->in[0].shape[3], pad};
        w->dst = (plane){&call->out[0], call->out[0].shape[3], 0};
        w->weights = &call->in[1];
        w->bias = third;
        break;
    case VV_OP_CONV2D_GRAD_DATA:
        w->src = (plane){&call->in[0], call->in[0].shape[3], 2 - pad};
        w->dst = (plane){&call->out[0], call->out[0].shape[3], 0};
        w->weights = &call->in[1];
        w->bias = third;
        break;
    default:
        w->src = (plane){&call->in[0], call->in[0].shape[3], pad};
        w->dst = (plane){&call->in[1], call->in[1].shape[3], 0};
        w->weights = &call->out[0];
        break;
    }
    w->images = w->src.buf->shape[0];
    w->tiles_h = vvi_chunks(w->dst.buf->shape[1], OUT);
    w->tiles_w = vvi_chunks(w->dst.buf->shape[2], OUT);
}

static int64_t tiles_of(const winograd *w)
{
    return w->group * w->tiles_h * w->tiles_w;
}

bool vvi_winograd_can(const vv_call *call)
{
    const vv_attr *a = call->attr;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].count > 0 && call->in[i].dtype != VV_F32)
            return false;
    if (call->out[0].dtype != VV_F32 || call->out[0].count == 0 || call->in[0].count == 0)
        return false;
    for (int d = 0; d < 2; d++)
        if (a->conv.stride[d] != 1 || a->conv.dilation[d] != 1 ||
            a->conv.pad[d] != a->conv.pad[0] || a->conv.pad[d] > 2)
            return false;
    winograd w;
    describe(&w, call);
    return a->conv.groups == 1 && w.weights->shape[2] == 3 && w.weights->shape[3] == 3;
}

/* Where it wins: enough channels on both sides, and tiles that are mostly filled. */
bool vvi_winograd_accepts(const vv_call *call)
{
    if (!vvi_winograd_can(call))
        return false;
    winograd w;
    describe(&w, call);
    const int64_t h = w.dst.buf->shape[1], v = w.dst.buf->shape[2];
    const int64_t covered = w.tiles_h * w.tiles_w * OUT * OUT;
    return w.src.channels >= MIN_CHANNELS && w.dst.channels >= MIN_CHANNELS &&
           2 * h * v >= covered && w.images * w.tiles_h * w.tiles_w >= 64;
}

/* The largest divisor of the batch whose tiles fit. */
static void choose_group(winograd *w)
{
    const int64_t image = w->tiles_h * w->tiles_w * TAPS * (w->src.channels + w->dst.channels) * 4;
    w->group = 1;
    for (int64_t g = 1; g <= w->images; g++)
        if (w->images % g == 0 && g * image <= GROUP_BYTES)
            w->group = g;
}

static vv_buf f32_buf(int64_t count)
{
    vv_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.dtype = VV_F32;
    buf.count = count;
    return buf;
}

/* The 36 products: [T,C] x [C,O] forward, [C,T] x [T,O] for the weights (adding to what is there).
 */
static vv_status make_product(winograd *w)
{
    const int64_t t = tiles_of(w), c = w->src.channels, o = w->dst.channels;
    const bool grad = w->op == VV_OP_CONV2D_GRAD_WEIGHT;
    const int64_t m = grad ? c : t, k = grad ? t : c;
    const dnnl_dims_t a = {TAPS, m, k}, b = {TAPS, k, o}, y = {TAPS, m, o};
    const dnnl_dims_t as = {m * k, grad ? 1 : k, grad ? m : 1}, bs = {k * o, o, 1},
                      ys = {m * o, o, 1};
    const vv_buf a_buf = f32_buf(TAPS * m * k), b_buf = f32_buf(TAPS * k * o),
                 y_buf = f32_buf(TAPS * m * o);
    VV_TRY(vvi_onednn_new(&w->product));
    vvi_onednn_node *node = w->product;
    if (grad)
        VV_TRY(vvi_onednn_accumulate(node));
    VV_TRY(vvi_onednn_add(node, DNNL_ARG_SRC, 0, &a_buf, 3, a, as, VV_F32));
    VV_TRY(vvi_onednn_add(node, DNNL_ARG_WEIGHTS, 1, &b_buf, 3, b, bs, VV_F32));
    VV_TRY(vvi_onednn_add(node, DNNL_ARG_DST, 0, &y_buf, 3, y, ys, VV_F32));
    VVI_DNN(vvi_pd_matmul(&node->desc, node->engine, node->attr, node->args[0].plain,
                          node->args[1].plain, NULL, node->args[2].plain),
            "planning the products of a Winograd convolution");
    return vvi_onednn_finish(node);
}

static size_t reserve(size_t *total, int64_t floats)
{
    const size_t at = *total;
    *total += vvi_align64((size_t)floats * sizeof(float));
    return at;
}

void vvi_winograd_release(void *state)
{
    winograd *w = state;
    if (!w)
        return;
    vvi_onednn_free(w->product);
    vv_dealloc(w);
}

vv_status vvi_winograd_prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    winograd *w;
    VV_TRY(vv_alloc(&w, sizeof *w));
    describe(w, call);
    choose_group(w);
    const vv_status status = make_product(w);
    if (status != VV_OK) {
        vvi_winograd_release(w);
        return status;
    }
    const int64_t c = w->src.channels, o = w->dst.channels, t = tiles_of(w);
    size_t total = 0;
    w->slots = vv_threads();
    w->spread_at = reserve(&total, TAPS * t * c);
    w->product_at = reserve(&total, TAPS * t * o);
    w->weights_at = reserve(&total, TAPS * c * o);
    w->zeros_at = reserve(&total, vvi_max64(c, o));
    w->trash_at = reserve(&total, w->slots * vvi_max64(c, o));
    w->product_scratch_at =
        reserve(&total, (int64_t)(w->product->scratch_bytes / sizeof(float)) + 16);
    *state = w;
    *scratch_bytes = total;
    return VV_OK;
}

/* ---- a run ---- */

typedef struct job {
    const winograd *w; /* with the buffers of this call */
    char *scratch;
    int64_t first; /* image the group starts with */
} job;

static float *at_of(const job *j, size_t at)
{
    return (float *)(void *)(j->scratch + at);
}

/* Pixel (h, v) of an image, NULL outside. */
static float *pixel(const plane *p, int64_t n, int64_t h, int64_t v)
{
    const int64_t height = p->buf->shape[1], width = p->buf->shape[2];
    if (h < 0 || v < 0 || h >= height || v >= width)
        return NULL;
    return (float *)p->buf->data + ((n * height + h) * width + v) * p->channels;
}

/* A chunk is one row of tiles of one image. */
static void spread_input(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const winograd *w = j->w;
    const int64_t c = w->src.channels, tiles = tiles_of(w);
    const int64_t n = j->first + chunk / w->tiles_h, row = chunk % w->tiles_h;
    for (int64_t x = 0; x < w->tiles_w; x++) {
        const float *src[TAPS];
        float *dst[TAPS];
        float *to = at_of(j, w->spread_at) + (chunk * w->tiles_w + x) * c;
        for (int k = 0; k < TAPS; k++) {
            src[k] =
                pixel(&w->src, n, row * OUT + k / 6 - w->src.pad, x * OUT + k % 6 - w->src.pad);
            if (!src[k])
                src[k] = at_of(j, w->zeros_at);
            dst[k] = to + k * tiles * c;
        }
        vvi_wino_input(dst, src, c);
    }
}

static void gather_output(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const winograd *w = j->w;
    const int64_t o = w->dst.channels, tiles = tiles_of(w);
    const int64_t n = j->first + chunk / w->tiles_h, row = chunk % w->tiles_h;
    float *trash = at_of(j, w->trash_at) + slot * vvi_max64(w->src.channels, o);
    for (int64_t x = 0; x < w->tiles_w; x++) {
        const float *src[TAPS];
        float *dst[OUT * OUT];
        const float *from = at_of(j, w->product_at) + (chunk * w->tiles_w + x) * o;
        for (int k = 0; k < TAPS; k++)
            src[k] = from + k * tiles * o;
        for (int k = 0; k < OUT * OUT; k++) {
            dst[k] = pixel(&w->dst, n, row * OUT + k / OUT, x * OUT + k % OUT);
            if (!dst[k])
                dst[k] = trash;
        }
        vvi_wino_output(dst, src, o);
        for (int k = 0; w->bias && k < OUT * OUT; k++)
            if (dst[k] != trash)
                vvi_vec_add(dst[k], w->bias->data, o);
    }
}

static void spread_output_grad(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const winograd *w = j->w;
    const int64_t o = w->dst.channels, tiles = tiles_of(w);
    const int64_t n = j->first + chunk / w->tiles_h, row = chunk % w->tiles_h;
    for (int64_t x = 0; x < w->tiles_w; x++) {
        const float *src[OUT * OUT];
        float *dst[TAPS];
        float *to = at_of(j, w->product_at) + (chunk * w->tiles_w + x) * o;
        for (int k = 0; k < OUT * OUT; k++) {
            src[k] = pixel(&w->dst, n, row * OUT + k / OUT, x * OUT + k % OUT);
            if (!src[k])
                src[k] = at_of(j, w->zeros_at);
        }
        for (int k = 0; k < TAPS; k++)
            dst[k] = to + k * tiles * o;
        vvi_wino_output_grad(dst, src, o);
    }
}

enum { LANES = 64 };

/* Weights of input channel `chunk` (of the products) to all outputs, LANES at a time. The gradient
   for the data sees them turned by 180 degrees, with input and output exchanged. */
static void spread_weights(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const winograd *w = j->w;
    const int64_t c = w->src.channels, o = w->dst.channels, own = w->weights->shape[1];
    const bool turned = w->op == VV_OP_CONV2D_GRAD_DATA;
    const float *data = w->weights->data;
    float taps[9][LANES];
    for (int64_t first = 0; first < o; first += LANES) {
        const int64_t n = vvi_min64(LANES, o - first);
        for (int64_t i = 0; i < n; i++) {
            const float *g =
                data + (turned ? chunk * own + first + i : (first + i) * own + chunk) * 9;
            for (int k = 0; k < 9; k++)
                taps[k][i] = g[turned ? 8 - k : k];
        }
        const float *src[9];
        float *dst[TAPS];
        for (int k = 0; k < 9; k++)
            src[k] = taps[k];
        for (int k = 0; k < TAPS; k++)
            dst[k] = at_of(j, w->weights_at) + (k * c + chunk) * o + first;
        vvi_wino_weights(dst, src, n);
    }
}

static void gather_weights(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const winograd *w = j->w;
    const int64_t c = w->src.channels, o = w->dst.channels;
    float *data = w->weights->data;
    float taps[9][LANES];
    for (int64_t first = 0; first < o; first += LANES) {
        const int64_t n = vvi_min64(LANES, o - first);
        const float *src[TAPS];
        float *dst[9];
        for (int k = 0; k < 9; k++)
            dst[k] = taps[k];
        for (int k = 0; k < TAPS; k++)
            src[k] = at_of(j, w->weights_at) + (k * c + chunk) * o + first;
        vvi_wino_weights_grad(dst, src, n);
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 9; k++)
                data[((first + i) * c + chunk) * 9 + k] = taps[k][i];
    }
}

static vv_status multiply(const job *j, size_t a, size_t b, size_t y)
{
    void *const data[3] = {at_of(j, a), at_of(j, b), at_of(j, y)};
    return vvi_onednn_execute_on(j->w->product, data, j->scratch + j->w->product_scratch_at);
}

/* The state with this call's buffers in place of those seen by `prepare`. */
static winograd bound(const vv_call *call)
{
    winograd w = *(const winograd *)call->state, now;
    describe(&now, call);
    w.src = now.src;
    w.dst = now.dst;
    w.weights = now.weights;
    w.bias = now.bias;
    return w;
}

vv_status vvi_winograd_run(const vv_call *call)
{
    const winograd w = bound(call);
    job j = {&w, call->scratch, 0};
    memset(at_of(&j, w.zeros_at), 0,
           (size_t)vvi_max64(w.src.channels, w.dst.channels) * sizeof(float));
    vvi_cpu_for(w.src.channels, w.slots, spread_weights, &j);
    for (; j.first < w.images; j.first += w.group) {
        vvi_cpu_for(w.group * w.tiles_h, w.slots, spread_input, &j);
        VV_TRY(multiply(&j, w.spread_at, w.weights_at, w.product_at));
        vvi_cpu_for(w.group * w.tiles_h, w.slots, gather_output, &j);
    }
    return VV_OK;
}

vv_status vvi_winograd_run_grad_weight(const vv_call *call)
{
    const winograd w = bound(call);
    job j = {&w, call->scratch, 0};
    const size_t sums = (size_t)(TAPS * w.src.channels * w.dst.channels) * sizeof(float);
    memset(at_of(&j, w.zeros_at), 0,
           (size_t)vvi_max64(w.src.channels, w.dst.channels) * sizeof(float));
    memset(at_of(&j, w.weights_at), 0, sums);
    for (; j.first < w.images; j.first += w.group) {
        vvi_cpu_for(w.group * w.tiles_h, w.slots, spread_input, &j);
        vvi_cpu_for(w.group * w.tiles_h, w.slots, spread_output_grad, &j);
        VV_TRY(multiply(&j, w.spread_at, w.product_at, w.weights_at));
    }
    vvi_cpu_for(w.src.channels, w.slots, gather_weights, &j);
    return VV_OK;
}
