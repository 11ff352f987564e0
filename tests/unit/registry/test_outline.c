/* test_outline.c - models layer by layer: parameters and multiply-adds are the published ones; a
 * layer's numbers by hand; of every registered model the parts make the whole, and no setting hides
 * behind a word about data; nothing leaks when memory is out. */
#include "vv_test.h"

#include <vivace/outline.h>
#include <vivace/registry.h>

static void make(vv_outline *out, vv_model **model, const vv_model_desc *desc, const char *settings,
                 const char *data)
{
    vv_sample_spec spec = {.classes = 0};
    void *opts;
    assert_ok(vv_alloc(&opts, desc->desc.opts_size + 1));
    assert_ok(vv_opts_init(&desc->desc, opts));
    if (settings)
        assert_ok(vv_opts_set_all(&desc->desc, opts, settings));
    if (!data)
        data = desc->typical ? desc->typical : "image=224,classes=1000";
    assert_ok(vv_sample_spec_parse(&spec, data));
    assert_ok(vv_outline_build(model, desc, opts, &spec));
    assert_ok(vv_outline_make(out, *model, &spec));
    vv_opts_fini(&desc->desc, opts);
    vv_dealloc(opts);
}

static const vv_outline_row *row_of(const vv_outline *o, const char *path)
{
    for (int i = 0; i < o->count; i++)
        if (strcmp(o->rows[i].path, path) == 0)
            return &o->rows[i];
    fail_msg("no row \"%s\"", path);
    return NULL;
}

/* Parameters to the unit, G of multiply-adds to the digits that are published. */
static void published(void **state)
{
    (void)state;
    static const struct {
        const char *model, *settings;
        int64_t params;
        double giga, step;
    } rows[] = {
        {"resnet", "depth=18", 11689512, 1.81, 0.01}, {"resnet", "depth=34", 21797672, 3.66, 0.01},
        {"vit", "size=ti", 5717416, 1.26, 0.01},      {"vit", NULL, 22050664, 4.60, 0.01},
        {"efficientnet", NULL, 5288548, 0.39, 0.01},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const vv_model_desc *desc;
        vv_model *model;
        vv_outline o;
        assert_ok(vv_model_find(&desc, rows[i].model));
        make(&o, &model, desc, rows[i].settings, NULL);
        assert_int_equal(o.rows[0].params, rows[i].params);
        assert_near((double)o.rows[0].multiply_adds / 1e9, rows[i].giga, rows[i].step, 0.0);
        vv_outline_fini(&o);
        vv_model_free(model);
    }
}

/* ResNet-101 and -152 are ResNet-50 with more of the blocks that test_resnet.c counts. */
static void deep_resnets(void **state)
{
    (void)state;
    const vv_model_desc *desc;
    vv_model *model;
    vv_outline o;
    assert_ok(vv_model_find(&desc, "resnet"));
    make(&o, &model, desc, "depth=50", NULL);
    const vv_outline_row net = o.rows[0];
    const vv_outline_row two = *row_of(&o, "layer2.1"), three = *row_of(&o, "layer3.1");
    assert_int_equal(net.params, 25557032);
    assert_near((double)net.multiply_adds / 1e9, 4.09, 0.01, 0.0);
    assert_int_equal(net.params + 17 * three.params, 44549160);
    assert_near((double)(net.multiply_adds + 17 * three.multiply_adds) / 1e9, 7.80, 0.01, 0.0);
    assert_int_equal(net.params + 4 * two.params + 30 * three.params, 60192808);
    const int64_t deepest = net.multiply_adds + 4 * two.multiply_adds + 30 * three.multiply_adds;
    assert_near((double)deepest / 1e9, 11.51, 0.01, 0.0);
    vv_outline_fini(&o);
    vv_model_free(model);
}

static void by_hand(void **state)
{
    (void)state;
    const vv_model_desc *desc;
    const vv_outline_row *row;
    vv_model *model;
    vv_outline o;
    assert_ok(vv_model_find(&desc, "resnet"));
    make(&o, &model, desc, NULL, "image=64x32,channels=1,classes=7");
    row = row_of(&o, "conv1"); /* 7x7x1 -> 64, stride 2 */
    assert_string_equal(row->type, "Conv2d");
    assert_int_equal(row->ndim, 3);
    assert_int_equal(row->shape[0], 32);
    assert_int_equal(row->shape[1], 16);
    assert_int_equal(row->shape[2], 64);
    assert_int_equal(row->params, 7 * 7 * 64);
    assert_int_equal(row->multiply_adds, 32 * 16 * 64 * 7 * 7);
    row = row_of(&o, "layer2.0.conv1");
    assert_int_equal(row->level, 3);
    assert_int_equal(row->multiply_adds, 8 * 4 * 128 * 64 * 9);
    assert_int_equal(row_of(&o, "fc")->multiply_adds, 512 * 7);
    assert_int_equal(row_of(&o, "bn1")->multiply_adds, 0);
    vv_outline_fini(&o);
    vv_model_free(model);

    /* Attention: queries x keys and weights x values, each T T D. */
    assert_ok(vv_model_find(&desc, "vit"));
    make(&o, &model, desc, "width=32,heads=2,depth=1,pool=mean", "image=64,classes=7");
    row = row_of(&o, "blocks.0.attn.core");
    assert_int_equal(row->multiply_adds, 2 * 16 * 16 * 32);
    assert_int_equal(row_of(&o, "blocks.0.attn.qkv")->multiply_adds, 16 * 32 * 96);
    vv_outline_fini(&o);
    vv_model_free(model);
}

static void check_parts(const vv_outline *o, vv_model *model, const char *name)
{
    assert_int_equal(o->rows[0].params, vv_module_param_count(model->net));
    assert_true(o->rows[0].multiply_adds > 0);
    assert_true(o->rows[0].ndim >= 0);
    for (int i = 0; i < o->count; i++) {
        int64_t parts = 0;
        for (int k = i + 1; k < o->count && o->rows[k].level > o->rows[i].level; k++)
            if (o->rows[k].level == o->rows[i].level + 1)
                parts += o->rows[k].multiply_adds;
        if (parts > o->rows[i].multiply_adds)
            fail_msg("%s: \"%s\" counts less than its parts", name, o->rows[i].path);
        if (o->rows[i].multiply_adds > 0 && o->rows[i].ndim < 0)
            fail_msg("%s: \"%s\" works but has no output", name, o->rows[i].path);
    }
}

static void every_model(void **state)
{
    (void)state;
    static const char *const words[] = {"image", "channels", "classes", "tokens", "format",
                                        "tree_levels"};
    const vv_desc *found;
    for (int i = 0; (found = vv_registry_at("model", i)); i++) {
        const vv_model_desc *desc = (const vv_model_desc *)(const void *)found;
        const bool text = strstr(found->domains, "nlp") != NULL;
        const char *settings = text ? "d=32,layers=2,heads=2" : NULL;
        vv_model *model;
        vv_outline o;
        if (strchr(found->name, '-')) /* a size of another one */
            continue;
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
            if (vv_desc_field(found, words[k]))
                fail_msg("%s.%s is a word of `vivace describe`", found->name, words[k]);
        if (text && !desc->typical)
            fail_msg("%s: say in `typical` which tokens", found->name);
        make(&o, &model, desc, settings, text ? "tokens=8,classes=50" : NULL);
        check_parts(&o, model, found->name);
        vv_outline_fini(&o);
        vv_model_free(model);
    }
}

static void bad_words(void **state)
{
    (void)state;
    static const char *const bad[] = {"image=0", "image=x", "image=22y", "images=3", "tokens=-4",
                                      "classes=", "image=32x", "channels=1e9"};
    vv_sample_spec spec = {.classes = 0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(vv_sample_spec_parse(&spec, bad[i]), VV_EINVAL);
}

static void out_of_memory(void **state)
{
    (void)state;
    const vv_model_desc *desc;
    vv_sample_spec spec = {.classes = 0};
    vv_model *model = NULL;
    vv_outline o;
    assert_ok(vv_model_find(&desc, "mnist_classifier"));
    assert_ok(vv_sample_spec_parse(&spec, desc->typical));
    assert_ok(vv_outline_build(&model, desc, NULL, &spec));
    const int64_t live = vv_memory_live_count();
    for (uint64_t nth = 1;; nth++) {
        vv_memory_fail_at(nth);
        const vv_status status = vv_outline_make(&o, model, &spec);
        vv_memory_fail_at(0);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
        assert_null(o.rows);
        assert_int_equal(vv_memory_live_count(), live);
    }
    vv_outline_fini(&o);
    assert_int_equal(vv_memory_live_count(), live);
    vv_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published), cmocka_unit_test(deep_resnets), cmocka_unit_test(by_hand),
        cmocka_unit_test(every_model), cmocka_unit_test(bad_words),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
