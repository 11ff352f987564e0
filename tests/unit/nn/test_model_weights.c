/* test_model_weights.c - weights by name from files of other programs: prefixes that may stand
 * there or not, matrices stored the other way round (GPT-2's Conv1D), buffers that the model does
 * not need, wrappers' prefixes, counters of batch norms; in files of ours nothing is turned round.
 * Strict: what is missing or too much is named. Partial: told, and the model keeps its own. Whole
 * names by patterns with "*", one pair after the other; tensors of another shape that the model's
 * family makes fit. Patterns leave weights out. Shapes are checked before anything changes;
 * nothing leaks whichever allocation fails. */
#include "nn_test.h"

#include "vv_test_files.h"

#include <vivace/model.h>

/* ---- a model with the names of GPT-2: wte, h.0.attn.c_attn (2 -> 6), h.0.ln_1, ln_f ---- */
static const char *const prefixes[] = {"transformer.", NULL};
static const char *const transposed[] = {"h.*.c_attn.weight", NULL};
static const char *const ignored[] = {"*attn.bias", "*attn.masked_bias", "lm_head.weight", NULL};
static const char *const endings[] = {"bn.beta", "bn.bias", "bn.gamma", "bn.weight", NULL};
static const char *const renamed[] = {
    "norm.*_*", "bn.*.*", "bn.running.*", "bn.running_*", "none*", "bn*", NULL};

/* Twice as many rows as wanted: every other one. */
static vv_status adapt(vv_tensor **out, const vv_model *model, const char *name,
                       const vv_tensor *theirs, const vv_tensor *own, vv_str *told)
{
    (void)model;
    *out = NULL;
    if (strcmp(name, "h.0.attn.c_proj.bias") != 0 || theirs->shape[0] != 2 * own->shape[0])
        return VV_OK;
    VV_TRY(vv_tensor_new(out, VV_F32, own->ndim, own->shape));
    for (int64_t i = 0; i < own->count; i++)
        vv_tensor_set(*out, i, vv_tensor_get(theirs, 2 * i));
    vv_str_addf(told, "%s: every other row\n", name);
    return VV_OK;
}

static const vv_weight_map map = {prefixes, transposed, ignored, endings, renamed, adapt};

static vv_module *child(vv_module *parent, const char *name, vv_module *part)
{
    assert_ok(vv_module_add_child(parent, name, part));
    return part;
}

static vv_model *gpt(void)
{
    vv_module *net = new_sequential(), *part;
    vv_model *model;
    assert_ok(vv_embedding_new(&part, 3, 2));
    child(net, "wte", part);
    vv_module *h = child(net, "h", new_sequential());
    vv_module *block = child(h, "0", new_sequential());
    vv_module *attn = child(block, "attn", new_sequential());
    child(attn, "c_attn", new_linear(2, 6));
    child(attn, "c_proj", new_linear(2, 2));
    assert_ok(vv_batch_norm_new(&part, 2, 1e-5, 0.1));
    child(net, "bn", part);
    assert_ok(vv_classifier_new(&model, net, 2));
    model->weight_map = &map;
    return model;
}

typedef struct given { /* a tensor of a file: element i is base + i */
    const char *name;
    int64_t shape[2];
    float base;
} given;

static const given standard[] = {
    {"transformer.wte.weight", {3, 2}, 100},
    {"transformer.h.0.attn.c_attn.weight", {2, 6}, 200},
    {"transformer.h.0.attn.c_attn.bias", {6, 0}, 300},
    {"transformer.h.0.attn.c_proj.weight", {2, 2}, 400},
    {"transformer.h.0.attn.c_proj.bias", {2, 0}, 500},
    {"transformer.h.0.attn.bias", {2, 2}, 0},
    {"transformer.h.0.attn.masked_bias", {1, 0}, 0},
    {"transformer.bn.weight", {2, 0}, 600},
    {"transformer.bn.bias", {2, 0}, 700},
    {"transformer.bn.running_mean", {2, 0}, 800},
    {"transformer.bn.running_var", {2, 0}, 900},
    {"lm_head.weight", {3, 2}, 100},
};
enum { STANDARD = sizeof standard / sizeof standard[0] };

/* Names with `cut` characters less in front and `front` before them; `skip` is left out. */
static vv_safetensors *make_file(const char *cut, const char *front, const char *leave,
                                 const given *more, bool ours)
{
    char dir[256], path[300];
    vv_safetensors_writer *writer;
    vv_safetensors *file;
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    assert_ok(vv_safetensors_writer_new(&writer));
    if (ours)
        assert_ok(vv_safetensors_add_text(writer, "vivace.version", "0"));
    for (int i = 0; i < STANDARD + (more ? 1 : 0); i++) {
        const given *g = i < STANDARD ? &standard[i] : more;
        const char *name = strncmp(g->name, cut, strlen(cut)) ? g->name : g->name + strlen(cut);
        char full[128];
        vv_tensor *tensor;
        if (i < STANDARD && leave && strstr(name, leave))
            continue;
        snprintf(full, sizeof full, "%s%s", front, name);
        assert_ok(vv_tensor_new(&tensor, VV_F32, g->shape[1] ? 2 : 1, g->shape));
        for (int64_t k = 0; k < tensor->count; k++)
            vv_tensor_set(tensor, k, (double)g->base + (double)k);
        assert_ok(vv_safetensors_add(writer, full, tensor));
        vv_tensor_free(tensor);
    }
    assert_ok(vv_safetensors_write(writer, path));
    vv_safetensors_writer_free(writer);
    assert_ok(vv_safetensors_open(&file, path));
    remove_dir(dir);
    return file;
}

static double weight(const vv_model *model, const char *path, const char *name, int64_t i)
{
    vv_module *layer = vv_module_find(model->net, path);
    assert_non_null(layer);
    vv_param *param = vv_module_param(layer, name);
    return vv_tensor_get(param ? param->value : vv_module_buffer(layer, name), i);
}

static void check_all(const vv_model *model, bool turned)
{
    for (int64_t i = 0; i < 6; i++)
        assert_true(weight(model, "wte", "weight", i) == (double)(100 + i));
    for (int64_t row = 0; row < 6; row++) /* ours [6,2]; the file's [2,6] */
        for (int64_t column = 0; column < 2; column++)
            assert_true(weight(model, "h.0.attn.c_attn", "weight", row * 2 + column) ==
                        (turned ? 200.0 + (double)(column * 6 + row)
                                : 200.0 + (double)(row * 2 + column)));
    assert_true(weight(model, "h.0.attn.c_attn", "bias", 5) == 305.0);
    assert_true(weight(model, "h.0.attn.c_proj", "weight", 1) == 401.0); /* not in the list */
    assert_true(weight(model, "bn", "running_var", 1) == 901.0);
}

static void names_of_gpt2(void **state)
{
    (void)state;
    const char *const ways[][2] = {
        {"", ""},                       /* as GPT2LMHeadModel writes */
        {"transformer.", ""},           /* as GPT2Model writes */
        {"", "module."},                /* data parallel */
        {"", "_orig_mod.module."},      /* compiled and data parallel */
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        vv_model *model = gpt();
        vv_safetensors *file = make_file(ways[i][0], ways[i][1], i == 2 ? "lm_head" : NULL, NULL,
                                         false);
        int loaded = 0;
        vv_status status = vv_model_load(model, file, i < 3, NULL, NULL, &loaded);
        if (i == 3)
            assert_int_equal(status, VV_OK);
        else
            assert_ok(status);
        check_all(model, true);
        assert_int_equal(loaded, 9);
        vv_safetensors_close(file);
        vv_model_free(model);
    }
}

/* Older files call a norm's scale gamma; with another prefix in front too. */
static void other_endings(void **state)
{
    (void)state;
    const given gamma = {"transformer.bn.gamma", {2, 0}, 650};
    const char *const fronts[] = {"", "module."};
    for (size_t i = 0; i < 2; i++) {
        vv_model *model = gpt();
        vv_safetensors *file = make_file("", fronts[i], "bn.weight", &gamma, false);
        int loaded = 0;
        assert_ok(vv_model_load(model, file, i == 0, NULL, NULL, &loaded));
        check_all(model, true);
        assert_int_equal(loaded, 9);
        assert_true(weight(model, "bn", "weight", 1) == 651.0);
        vv_safetensors_close(file);
        vv_model_free(model);
    }
}

/* "norm.running_var" -> "bn.running.var" -> "bn.running_var"; behind wrappers too. */
static void whole_names(void **state)
{
    (void)state;
    const given var = {"norm.running_var", {2, 0}, 950};
    const char *const fronts[] = {"", "_orig_mod.module."};
    for (size_t i = 0; i < 2; i++) {
        vv_model *model = gpt();
        vv_safetensors *file = make_file("", fronts[i], "running_var", &var, false);
        int loaded = 0;
        assert_ok(vv_model_load(model, file, false, NULL, NULL, &loaded));
        assert_int_equal(loaded, 9);
        assert_true(weight(model, "bn", "running_var", 1) == 951.0);
        vv_safetensors_close(file);
        vv_model_free(model);
    }
}

static void made_to_fit(void **state)
{
    (void)state;
    given bias = {"transformer.h.0.attn.c_proj.bias", {4, 0}, 550};
    vv_str told = {0};
    vv_model *model = gpt();
    vv_safetensors *file = make_file("", "", "c_proj.bias", &bias, false);
    assert_ok(vv_model_load(model, file, true, NULL, &told, NULL));
    assert_true(weight(model, "h.0.attn.c_proj", "bias", 1) == 552.0);
    assert_string_equal(vv_str_text(&told), "h.0.attn.c_proj.bias: every other row\n");
    vv_str_fini(&told);
    vv_safetensors_close(file);
    bias.shape[0] = 5; /* not one that it can */
    file = make_file("", "", "c_proj.bias", &bias, false);
    assert_fails(vv_model_load(model, file, true, NULL, NULL, NULL), VV_ESHAPE);
    vv_safetensors_close(file);
    vv_model_free(model);
}

/* A file of ours holds what the tree holds: [6,2], under the tree's names. */
static void own_files_are_not_turned(void **state)
{
    (void)state;
    vv_model *model = gpt();
    vv_safetensors *file = make_file("transformer.", "", "", NULL, true);
    vv_safetensors_close(file);
    /* The standard file's [2,6] does not fit then, and neither does what is too much. */
    file = make_file("transformer.", "", NULL, NULL, true);
    assert_fails(vv_model_load(model, file, true, NULL, NULL, NULL), VV_EFORMAT);
    assert_says("lm_head.weight");
    assert_fails(vv_model_load(model, file, false, NULL, NULL, NULL), VV_ESHAPE);
    assert_says("h.0.attn.c_attn.weight");
    assert_true(weight(model, "wte", "weight", 1) != 101.0); /* nothing has changed */
    vv_safetensors_close(file);
    vv_model_free(model);
}

static void strict_and_partial(void **state)
{
    (void)state;
    const given extra = {"transformer.h.1.attn.c_proj.bias", {2, 0}, 1};
    vv_str told = {0};
    int loaded;
    vv_model *model = gpt();
    vv_safetensors *file = make_file("", "", "c_proj.weight", &extra, false);
    assert_fails(vv_model_load(model, file, true, NULL, NULL, NULL), VV_ENOTFOUND);
    assert_says("lacks 1 of the model's");
    assert_says("\"h.0.attn.c_proj.weight\"");
    double before = weight(model, "h.0.attn.c_proj", "weight", 0);
    assert_ok(vv_model_load(model, file, false, NULL, &told, &loaded));
    assert_int_equal(loaded, 8);
    assert_true(weight(model, "h.0.attn.c_proj", "weight", 0) == before);
    assert_non_null(strstr(vv_str_text(&told), "h.0.attn.c_proj.weight"));
    assert_non_null(strstr(vv_str_text(&told), "h.1.attn.c_proj.bias"));
    vv_safetensors_close(file);

    file = make_file("", "", NULL, &extra, false);
    assert_fails(vv_model_load(model, file, true, NULL, NULL, NULL), VV_EFORMAT);
    assert_says("h.1.attn.c_proj.bias");
    /* Patterns: with and without "model/" in front; one that matches nothing is told. */
    vv_str_clear(&told);
    assert_ok(vv_model_load(model, file, true, "*.h.1.*, model/bn.*, nothing*", &told, &loaded));
    assert_int_equal(loaded, 5);
    assert_non_null(strstr(vv_str_text(&told), "\"nothing*\" matches no weight"));
    assert_null(strstr(vv_str_text(&told), "bn"));
    vv_safetensors_close(file);

    file = make_file("", "elsewhere.", NULL, NULL, false);
    assert_fails(vv_model_load(model, file, false, NULL, NULL, NULL), VV_ENOTFOUND);
    assert_says("none of the model's");
    vv_safetensors_close(file);
    vv_str_fini(&told);
    vv_model_free(model);
}

static void each_allocation(void **state)
{
    (void)state;
    const given extra = {"transformer.h.1.attn.c_proj.bias", {2, 0}, 1};
    vv_model *model = gpt();
    vv_safetensors *file = make_file("", "", "c_proj.weight", &extra, false);
    int64_t live = vv_memory_live_count();
    int failed = 0;
    for (uint64_t nth = 1;; nth++) {
        vv_str told = {0};
        vv_memory_fail_at(nth);
        vv_status status = vv_model_load(model, file, false, "wte.*, x*", &told, NULL);
        vv_memory_fail_at(0);
        vv_str_fini(&told);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
        failed++;
    }
    assert_true(failed > 10);
    vv_safetensors_close(file);
    vv_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_gpt2),      cmocka_unit_test(own_files_are_not_turned),
        cmocka_unit_test(strict_and_partial), cmocka_unit_test(each_allocation),
        cmocka_unit_test(other_endings),
        cmocka_unit_test(whole_names),
        cmocka_unit_test(made_to_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
