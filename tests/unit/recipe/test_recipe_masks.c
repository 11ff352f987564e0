/* test_recipe_masks.c - what must hold of recipes for masks: every loss trains, methods that know
 * masks train with them (label smoothing, mixing, resizing, averages, two passes), what would move
 * images without their masks is refused, and the resolved text says which loss. */
#include "vv_test.h"

#include <vivace/recipe.h>

#define BASE                                                                                    \
    "model: {name: unet, filters: 4, depth: 2}\n"                                               \
    "dataset: {name: synthetic, masks: true, kind: separable, height: 16, width: 24, "          \
    "classes: 3, count: 12, pool: 12}\n"                                                        \
    "optimizer: {name: sgd, lr: 0.05}\nbatch_size: 6\neval_batch_size: 6\nmax_duration: 4ep\n"   \
    "precision: fp32\nrun_db: off\nthreads: 1\n"

/* Trains BASE with more lines; the first and the last step's loss. */
static vv_status train(const char *more, double *loss, vv_str *text)
{
    char all[2048];
    vv_recipe *recipe = NULL;
    vv_run *run = NULL;
    vv_status status;

    snprintf(all, sizeof all, "%s%s", BASE, more);
    VV_GO(vv_recipe_parse(&recipe, all, "masks.yaml", NULL, 0));
    if (text)
        VV_GO(vv_recipe_text(recipe, text));
    VV_GO(vv_run_new(&run, recipe, NULL));
    VV_GO(vv_trainer_fit(vv_run_trainer(run)));
    *loss = vv_trainer_state(vv_run_trainer(run))->train_loss;
out:
    vv_run_free(run);
    vv_recipe_free(recipe);
    return status;
}

static void every_loss_trains(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "", "loss: dice\n", "loss: {name: ce_dice, dice_weight: 0.5, background: false}\n",
        "loss: {name: focal, class_weights: [1, 2, 0.5]}\n", "loss: sigmoid_focal\n",
        "loss: {name: cross_entropy, class_weights: \"1,2,3\"}\n", "loss: binary_cross_entropy\n"};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        double loss = (double)NAN;
        vv_str text = {0};

        assert_ok(train(lines[i], &loss, &text));
        assert_true(isfinite(loss) && loss > 0.0 && loss < 3.0);
        assert_true(!lines[i][0] == !strstr(vv_str_text(&text), "\nloss:\n"));
        vv_str_fini(&text);
    }
}

static void methods_that_know_masks(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "methods: {label_smoothing: on}\n",
        "methods: {cutmix: on}\n",
        "methods: {mixup: {alpha: 1}}\n",
        "methods: {mixup: {alpha: 1, interpolate_loss: true}}\nloss: ce_dice\n",
        "methods: {mixup: {alpha: 1}, label_smoothing: on}\nloss: ce_dice\n",
        "methods: {cutmix: on, label_smoothing: on}\nloss: focal\n",
        "methods: {progressive_resizing: {resize_targets: true, initial_scale: 0.5}}\n",
        "methods: {progressive_resizing: {resize_targets: true, mode: crop}}\nloss: dice\n",
        "methods: {ema: {half_life: 2ba}}\n",
        "methods: {sam: on}\nloss: ce_dice\n",
        "methods: {colout: on}\n",
        "methods: {channels_last: on}\nallow_no_effect: true\n",
        "microbatch: 2\nloss: ce_dice\n",
        "train_metrics: miou,dice\neval_metrics: miou,dice,accuracy,cross_entropy\n"};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        double loss = (double)NAN;
        const vv_status status = train(lines[i], &loss, NULL);

        if (status != VV_OK)
            fail_msg("%s%s", lines[i], vv_error());
        if (!(isfinite(loss) && loss > 0.0 && loss < 4.0))
            fail_msg("%sloss %g", lines[i], loss);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } rows[] = {
        {"transform: {flip: true}\n", "masks would stay"},
        {"transform: {crop_pad: 2}\n", "masks would stay"},
        {"methods: {augmix: on}\n", "masks would stay"},
        {"methods: {randaugment: on}\n", "masks would stay"},
        {"methods: {alternating_flip: on}\n", "masks would stay"},
        {"methods: {progressive_resizing: on}\n", "resize_targets"},
        {"loss: {name: focal, class_weights: \"1,2\"}\n", "3 numbers"},
        {"loss: dize\n", "dice"},
        {"loss: {name: dice, gamma: 1}\n", "gamma"},
        {"loss: {smooth: 1}\n", "name"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double loss;

        vv_error_clear();
        const vv_status status = train(rows[i].line, &loss, NULL);

        if (status == VV_OK)
            fail_msg("%s was taken", rows[i].line);
        assert_says(rows[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loss_trains),
        cmocka_unit_test(methods_that_know_masks),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
