/* losses.c - losses by name: Dice, cross-entropy with Dice, focal; binary cross-entropy is beside
 * this file. */
#include <vivace/losses.h>

#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

/* ---- formulas ---- */

/* [N,...,K] as f32 [N,P,K]. */
static vv_node *flat(vv_node *x)
{
    if (!x)
        return NULL;

    const int ndim = vv_node_ndim(x);
    const int64_t *old = vv_node_shape(x);
    int64_t shape[3] = {ndim > 1 ? old[0] : 1, 1, ndim ? old[ndim - 1] : 1};

    for (int i = 1; i < ndim - 1; i++)
        shape[1] *= old[i];
    if (vv_node_dtype(x) != VV_F32)
        x = vv_cast(x, VV_F32);
    return vv_reshape(x, 3, shape);
}

static vv_node *sum_last(vv_node *x)
{
    static const int last[] = {-1};

    return vv_sum(x, last, 1, false);
}

/* Over the pixels of [N,P,K] -> [N,K]. */
static vv_node *sum_pixels(vv_node *x)
{
    static const int pixels[] = {1};

    return vv_sum(x, pixels, 1, false);
}

static vv_node *at_least_one(vv_node *x)
{
    return x ? vv_maximum(x, vv_scalar(vv_node_graph(x), 1.0)) : NULL;
}

/* 1 for pixels that have a class, at all or in part: [N,P,K] -> [N,P,1]. */
static vv_node *has_class(vv_node *y)
{
    static const int last[] = {-1};

    return vv_sign(vv_sum(y, last, 1, true));
}

vv_node *vv_dice_loss(vv_node *logits, vv_node *target, double smooth, bool background, bool absent)
{
    vv_node *y = flat(target), *p = vv_softmax(flat(logits));
    vv_node *both, *all, *present, *ratio;

    if (!y || !p)
        return NULL;

    const int64_t classes = vv_node_shape(p)[2];

    p = vv_mul(p, has_class(y));
    both = vv_affine(sum_pixels(vv_mul(p, y)), 2.0, smooth);
    present = sum_pixels(y); /* [N,K] */
    all = vv_affine(vv_add(sum_pixels(p), present), 1.0, smooth);
    /* With smooth 0 a class that is nowhere has 0 / 0; it is left out below. */
    ratio = vv_div(both, smooth > 0.0 ? all
                                      : vv_maximum(all, vv_scalar(vv_node_graph(p), 1e-12)));
    present = vv_sign(present);
    if (absent) /* every class of an image that has any */
        present = vv_broadcast_to(vv_sign(vv_sum(present, (const int[]){-1}, 1, true)), 2,
                                  (const int64_t[]){vv_node_shape(p)[0], classes});
    if (!background && classes > 1) {
        ratio = vv_slice(ratio, 1, 1, classes, 1);
        present = vv_slice(present, 1, 1, classes, 1);
    }
    all = sum_last(present); /* classes that count: [N] */
    return vv_sub(vv_sign(all), vv_div(sum_last(vv_mul(ratio, present)), at_least_one(all)));
}

/* (1 - p)^gamma; the slope of the power stays finite at p = 1. */
static vv_node *modulate(vv_node *p, double gamma)
{
    vv_node *rest = vv_affine(p, -1.0, 1.0);

    return gamma == 2.0 ? vv_square(rest) : vv_pow(vv_clamp(rest, 1e-7, 1.0), gamma);
}

/* f32 [N,P] as the items of `logits` [N,...,K]. */
static vv_node *as_items(vv_node *x, vv_node *logits)
{
    if (!x || !logits)
        return NULL;

    const int ndim = vv_node_ndim(logits);

    return ndim == 3 ? x : vv_reshape(x, ndim > 1 ? ndim - 1 : 0, vv_node_shape(logits));
}

vv_node *vv_focal_loss(vv_node *logits, vv_node *target, vv_node *class_weights, double gamma)
{
    vv_node *log_p = vv_log_softmax(flat(logits)), *y = flat(target), *x;

    if (class_weights)
        y = vv_mul(y, class_weights);
    x = vv_mul(vv_mul(y, log_p), modulate(vv_exp(log_p), gamma));
    return as_items(vv_neg(sum_last(x)), logits);
}

vv_node *vv_sigmoid_focal_loss(vv_node *logits, vv_node *target, double alpha, double gamma)
{
    vv_node *x = flat(logits), *y = flat(target);
    vv_node *p = vv_sigmoid(x), *loss = vv_bce_with_logits(x, y, NULL);
    /* p_t = 1 - p - y + 2 p y */
    vv_node *p_t = vv_affine(vv_sub(vv_affine(vv_mul(p, y), 2.0, 0.0), vv_add(p, y)), 1.0, 1.0);

    loss = vv_mul(loss, modulate(p_t, gamma));
    if (alpha >= 0.0) /* (1 - alpha) + (2 alpha - 1) y */
        loss = vv_mul(loss, vv_affine(y, 2.0 * alpha - 1.0, 1.0 - alpha));
    return as_items(sum_last(vv_mul(loss, has_class(y))), logits);
}

/* ---- as losses of models ---- */

static vv_node *weights_node(const vv_model *model, vv_node *output)
{
    return output && model->class_weights ? vv_leaf(vv_node_graph(output), model->class_weights)
                                          : NULL;
}

static vv_node *focal_items(const vv_model *model, vv_node *output, vv_node *target)
{
    const vv_class_loss_opts *o = model->loss_opts;

    return vv_focal_loss(output, vv_model_dense_target(model, output, target),
                         weights_node(model, output), o->gamma);
}

static vv_node *sigmoid_focal_items(const vv_model *model, vv_node *output, vv_node *target)
{
    const vv_class_loss_opts *o = model->loss_opts;

    return vv_sigmoid_focal_loss(output, vv_model_dense_target(model, output, target), o->alpha,
                                 o->gamma);
}

static vv_node *dice_items(const vv_model *model, vv_node *output, vv_node *target)
{
    const vv_class_loss_opts *o = model->loss_opts;

    return vv_dice_loss(output, vv_model_dense_target(model, output, target), o->smooth,
                        o->background, o->absent);
}

/* The mean cross-entropy of an image's pixels, and its Dice loss. */
static vv_node *ce_dice_items(const vv_model *model, vv_node *output, vv_node *target)
{
    static const int pixels[] = {1, 2};
    const vv_class_loss_opts *o = model->loss_opts;
    const vv_entropy_opts entropy = {.ignore_index = model->ignore_index,
                                     .z_loss = model->z_loss};
    vv_node *dense = vv_model_dense_target(model, output, target);
    vv_node *ce = vv_cross_entropy_with(output, target, weights_node(model, output), &entropy);

    if (!ce || !dense)
        return NULL;

    const int64_t shape[3] = {vv_node_shape(output)[0], -1, 1};

    ce = vv_sum(vv_reshape(ce, 3, shape), pixels, 2, false);
    ce = vv_div(ce, at_least_one(vv_sum(has_class(flat(dense)), pixels, 2, false)));
    return vv_add(vv_affine(ce, o->ce_weight, 0.0),
                  vv_affine(vv_dice_loss(output, dense, o->smooth, o->background, o->absent),
                            o->dice_weight, 0.0));
}

/* Images with at least one pixel that has a class. */
static int64_t count_images(const vv_model *model, const vv_tensor *target)
{
    const bool soft = vv_dtype_is_float(target->dtype);
    const int64_t images = target->ndim ? target->shape[0] : 1;
    const int64_t each = images ? target->count / images : 0;
    int64_t count = 0;

    for (int64_t i = 0; i < images; i++) {
        bool any = false;

        for (int64_t k = 0; k < each && !any; k++) {
            const double value = vv_tensor_get(target, i * each + k);

            any = soft ? value != 0.0 : (int64_t)value != model->ignore_index;
        }
        count += any;
    }
    return count;
}

static const vv_loss_class focal_class = {.name = "focal", .items = focal_items};
static const vv_loss_class sigmoid_focal_class = {.name = "sigmoid_focal",
                                                  .items = sigmoid_focal_items};
static const vv_loss_class dice_class = {
    .name = "dice", .items = dice_items, .count = count_images};
static const vv_loss_class ce_dice_class = {
    .name = "ce_dice", .items = ce_dice_items, .count = count_images};

/* ---- the table ---- */

#define AT(member) offsetof(vv_class_loss_opts, member)
#define WEIGHTS {"class_weights", "One a class, like 0.5,1,2; empty = 1 each", VV_FIELD_STRING, \
                 AT(class_weights), "", 0, 0, NULL}
#define DICE                                                                                     \
    {"smooth", "Added above and below the Dice fraction", VV_FIELD_FLOAT, AT(smooth), "1e-5", 0, \
     1e6, NULL},                                                                                 \
        {"background", "Dice counts class 0", VV_FIELD_BOOL, AT(background), "true", 0, 0,     \
         NULL},                                                                                  \
        {"absent", "Dice counts classes that an image does not have", VV_FIELD_BOOL, AT(absent), \
         "false", 0, 0, NULL}
#define GAMMA {"gamma", "How much less what is right already counts; 0 = not", VV_FIELD_FLOAT, \
               AT(gamma), "2", 0, 20, NULL}
#define END {.name = NULL}
static const vv_field ce_fields[] = {WEIGHTS, END}, dice_fields[] = {DICE, END},
                      focal_fields[] = {GAMMA, WEIGHTS, END};
static const vv_field sigmoid_focal_fields[] = {
    GAMMA,
    {"alpha", "Weight of a class that is there, 1 - alpha of one that is not; -1 = 1 each",
     VV_FIELD_FLOAT, AT(alpha), "0.25", -1, 1, NULL},
    END};
static const vv_field ce_dice_fields[] = {
    {"ce_weight", "Weight of the cross-entropy", VV_FIELD_FLOAT, AT(ce_weight), "1", 0, 1e6, NULL},
    {"dice_weight", "Weight of the Dice loss", VV_FIELD_FLOAT, AT(dice_weight), "1", 0, 1e6, NULL},
    DICE,
    WEIGHTS,
    END};

#define ROW(id, text, paper, list, class, weights)                                       \
    static const vv_loss_desc loss_##id = {                                              \
        {"loss", #id, text, paper, "any", list, sizeof(vv_class_loss_opts)}, class, weights}
ROW(cross_entropy, "Cross-entropy of each item, with weights of classes.", "", ce_fields, NULL,
    true);
ROW(binary_cross_entropy,
    "Each class for itself: sum over classes of the binary cross-entropy. Start with the "
    "initializer linear_log_constant_bias.",
    "Wightman et al., ResNet strikes back, arXiv 2110.00476", ce_fields,
    &vv_binary_cross_entropy_class, true);
ROW(dice, "One minus the Dice coefficient of each image, a mean over its classes.",
    "Milletari et al., V-Net, arXiv 1606.04797", dice_fields, &dice_class, false);
ROW(ce_dice, "Cross-entropy of an image's pixels plus its Dice loss, weighted.",
    "Isensee et al., nnU-Net, arXiv 1809.10486", ce_dice_fields, &ce_dice_class, true);
ROW(focal, "Cross-entropy in which what is right already counts less.",
    "Lin et al., Focal loss for dense object detection, arXiv 1708.02002", focal_fields,
    &focal_class, true);
ROW(sigmoid_focal, "The same with each class for itself.",
    "Lin et al., Focal loss for dense object detection, arXiv 1708.02002", sigmoid_focal_fields,
    &sigmoid_focal_class, false);

static const vv_loss_desc *const table[] = {
    &loss_cross_entropy, &loss_binary_cross_entropy, &loss_dice,
    &loss_ce_dice,       &loss_focal,                &loss_sigmoid_focal,
    NULL,
};

const vv_loss_desc *const *vv_loss_table(void)
{
    return table;
}

static bool is_listed(const vv_loss_class *type)
{
    for (int i = 0; table[i]; i++)
        if (table[i]->type == type)
            return true;
    return false;
}

/* "a,b,c" into a tensor of `classes` weights. */
static vv_status parse_weights(vv_tensor **out, const char *text, int64_t classes)
{
    vv_tensor *weights = NULL;
    vv_status status;
    const char *at = text;

    *out = NULL;
    VV_GO(vv_tensor_new(&weights, VV_F32, 1, &classes));
    for (int64_t k = 0; k < classes; k++) {
        char *end;
        const double value = strtod(at, &end);

        if (end == at || !(value >= 0.0) || value > 1e6 || *end != (k < classes - 1 ? ',' : '\0'))
            VV_GO(vv_fail(VV_EINVAL, "class_weights \"%s\": needs %lld numbers from 0 on with "
                                     "commas between, one for each class", text,
                          (long long)classes));
        vv_tensor_set(weights, k, value);
        at = end + 1;
    }
    *out = weights;
    weights = NULL;
out:
    vv_tensor_free(weights);
    return status;
}

static vv_status set_loss(vv_model *model, const vv_loss_desc *desc, const vv_class_loss_opts *o)
{
    vv_class_loss_opts *block = NULL;
    vv_tensor *weights = NULL;

    VV_TRY(vv_opts_check(&desc->desc, o));
    if (desc->weighted && o->class_weights[0])
        VV_TRY(parse_weights(&weights, o->class_weights, model->classes));

    const vv_status status = vv_alloc(&block, sizeof *block);

    if (status != VV_OK) {
        vv_tensor_free(weights);
        return status;
    }
    *block = *o;
    block->class_weights = ""; /* the tensor has them */
    vv_tensor_free(model->class_weights);
    vv_dealloc(model->loss_opts);
    model->class_weights = weights;
    model->loss_opts = block;
    model->loss = desc->type;
    return VV_OK;
}

vv_status vv_model_use_loss(vv_model *model, const vv_loss_desc *desc, const void *opts)
{
    vv_class_loss_opts own = {0};
    vv_status status;

    if (model->task != VV_TASK_CLASSIFY)
        return vv_fail(VV_EINVAL, "loss %s is for models that give classes; %s gives %s",
                       desc->desc.name, model->name ? model->name : "this model",
                       model->task == VV_TASK_DETECT ? "boxes and has a loss of its own"
                                                     : "numbers");
    if (model->loss && !is_listed(model->loss))
        return vv_fail(VV_EINVAL, "the model %s has a loss of its own (%s), and takes no other",
                       model->name ? model->name : "(unnamed)", model->loss->name);
    VV_TRY(opts ? vv_opts_copy(&desc->desc, &own, opts) : vv_opts_init(&desc->desc, &own));
    status = vv_fail_within(set_loss(model, desc, &own), "loss %s", desc->desc.name);
    vv_opts_fini(&desc->desc, &own);
    return status;
}
