/* test_recipe.c - a recipe resolves to settings that are all known and in range, or is refused with
 * file, line and the nearest name; overrides change what they name; the resolved text is itself a
 * recipe with the same text; every failing allocation gives a status and leaves nothing behind. */
#include "vv_test.h"

#include <unistd.h>

#include <vivace/recipe.h>

enum { MAX_OVERRIDES = 4 };
typedef const char *override_list[MAX_OVERRIDES];

static int length_of(const override_list list)
{
    int count = 0;
    while (count < MAX_OVERRIDES && list[count])
        count++;
    return count;
}

/* Resolved text of a recipe; free with vv_str_fini. */
static vv_str resolved(const char *text, const override_list overrides)
{
    vv_recipe *recipe = NULL;
    vv_str out = {0};
    assert_ok(vv_recipe_parse(&recipe, text, "recipe.yaml", overrides,
                              overrides ? length_of(overrides) : 0));
    assert_ok(vv_recipe_text(recipe, &out));
    vv_recipe_free(recipe);
    return out;
}

static void has_line(const vv_str *text, const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(vv_str_text(text), whole))
        fail_msg("no line \"%s\" in:\n%s", line, vv_str_text(text));
}

static void has_not(const vv_str *text, const char *part)
{
    if (strstr(vv_str_text(text), part))
        fail_msg("\"%s\" in:\n%s", part, vv_str_text(text));
}

static const char small[] = "model: mlp\ndataset: {name: synthetic, like: mnist, count: 64}\n";

static void fills_in_defaults(void **state)
{
    (void)state;
    vv_str text = resolved(small, NULL);
    static const char *const lines[] = {
        "seed: 17", "max_duration: 10ep", "batch_size: 128", "precision: auto", "drop_last: true",
        "initializers: \"\"", "model:\n  name: mlp\n  width: 128", "  like: mnist", "  count: 64",
        "optimizer:\n  name: decoupled_sgdw", "transform:\n  crop_pad: 0",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        has_line(&text, lines[i]);
    has_not(&text, "schedules:");
    has_not(&text, "\nmethods:");
    vv_str_fini(&text);
    /* the data set decides about the augmentation, unless the recipe does */
    text = resolved("model: resnet9\ndataset: cifar10\n", NULL);
    has_line(&text, "  flip: true");
    vv_str_fini(&text);
    text = resolved("model: resnet9\ndataset: cifar10\ntransform: {flip: off}\n", NULL);
    has_line(&text, "  flip: false");
    vv_str_fini(&text);
}

static void empty_sections_are_left_out_ones(void **state)
{
    (void)state;
    static const char head[] = "model: mlp\ndataset: synthetic\n";
    static const char *const rest[] = {
        "transform:\noptimizer:\nschedules:\nmethods:\ncallbacks:\nloggers:\n",
        "schedules: []\nmethods: {}\ncallbacks: {}\nloggers: []\n",
        "schedules: none\nmethods: off\n",
    };
    vv_str plain = resolved(head, NULL);
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", head, rest[i]);
        vv_str other = resolved(text, NULL);
        assert_string_equal(vv_str_text(&plain), vv_str_text(&other));
        vv_str_fini(&other);
    }
    vv_str_fini(&plain);
}

/* The forms a section of several things may take all say the same. */
static void sections_have_several_forms(void **state)
{
    (void)state;
    static const char *const same[] = {
        "schedules: {cosine_decay: {alpha_f: 0.5}, constant: {}}\n",
        "schedules:\n  cosine_decay: {alpha_f: 0.5}\n  constant:\n",
        "schedules:\n  cosine_decay: {alpha_f: 0.5}\n  constant: on\n  step: off\n",
        "schedules: [{name: cosine_decay, alpha_f: 0.5}, constant]\n",
        "schedules:\n  - cosine_decay:\n      alpha_f: 0.5\n  - constant:\n",
        "schedules:\n  - {alpha_f: 0.5, name: cosine_decay}\n  - constant: true\n  - step: false\n",
    };
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", small, same[0]);
    vv_str first = resolved(whole, NULL);
    has_line(&first, "schedules:\n  - name: cosine_decay");
    has_line(&first, "    alpha_f: 0.5");
    has_line(&first, "  - name: constant");
    for (size_t i = 1; i < sizeof same / sizeof same[0]; i++) {
        snprintf(whole, sizeof whole, "%s%s", small, same[i]);
        vv_str other = resolved(whole, NULL);
        assert_string_equal(vv_str_text(&first), vv_str_text(&other));
        vv_str_fini(&other);
    }
    vv_str_fini(&first);
    snprintf(whole, sizeof whole, "%sschedules: {name: cosine_decay, alpha_f: 0.5}\n", small);
    vv_str one = resolved(whole, NULL);
    has_line(&one, "schedules:\n  - name: cosine_decay");
    has_line(&one, "    alpha_f: 0.5");
    vv_str_fini(&one);
    snprintf(whole, sizeof whole, "%sinitializers: [kaiming_normal, bn_uniform]\n", small);
    one = resolved(whole, NULL);
    has_line(&one, "initializers: \"kaiming_normal,bn_uniform\"");
    vv_str_fini(&one);
}

static void says(const char *text, const override_list overrides, const char *sentence)
{
    vv_recipe *recipe = NULL;
    vv_error_clear();
    assert_int_not_equal(vv_recipe_parse(&recipe, text, "recipe.yaml", overrides,
                                         overrides ? length_of(overrides) : 0),
                         VV_OK);
    assert_null(recipe);
    assert_string_equal(vv_error(), sentence);
}

#define HEAD "model: mlp\ndataset: synthetic\n"

static void refuses_with_file_line_and_nearest_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {HEAD "optimiser: sgd\n",
         "recipe.yaml:3: unknown key 'optimiser'; did you mean 'optimizer'?"},
        /* the line of the key, not of what stands below */
        {HEAD "optimiser:\n  name: sgd\n",
         "recipe.yaml:3: unknown key 'optimiser'; did you mean 'optimizer'?"},
        {HEAD "xylophone: 1\n", "recipe.yaml:3: unknown key 'xylophone' in a recipe"},
        {"dataset: synthetic\nmodel: resnt9\n",
         "recipe.yaml:2: there is no model called 'resnt9'; did you mean 'resnet9'?"},
        {"dataset: synthetic\nmodel:\n  width: 3\n  name: resnt9\n",
         "recipe.yaml:4: there is no model called 'resnt9'; did you mean 'resnet9'?"},
        {"model: xylophone\n",
         "recipe.yaml:1: there is no model called 'xylophone'; see `vivace list models`"},
        {"model: mlp\ndataset: mnits\n",
         "recipe.yaml:2: there is no dataset called 'mnits'; did you mean 'mnist'?"},
        {HEAD "schedules:\n  - constant\n  - linear_decay\n  - cosin_decay\n",
         "recipe.yaml:6: there is no schedule called 'cosin_decay'; did you mean 'cosine_decay'?"},
        {HEAD "schedules:\n  cosin_decay: off\n",
         "recipe.yaml:4: there is no schedule called 'cosin_decay'; did you mean 'cosine_decay'?"},
        {HEAD "schedules:\n  - cosin_decay:\n      alpha_f: 1\n",
         "recipe.yaml:4: there is no schedule called 'cosin_decay'; did you mean 'cosine_decay'?"},
        {"dataset: synthetic\nmodel:\n  name: mlp\n  widht: 8\n",
         "recipe.yaml:4: unknown setting 'widht' of mlp; did you mean 'width'?"},
        {HEAD "schedules: {constant: {name: step}}\n",
         "recipe.yaml:3: unknown setting 'name' of constant; it has: alpha, t_max"},
        {HEAD "batch_size: 0\n", "recipe.yaml:3: recipe.batch_size: 0 is outside [1, 1000000000]"},
        {HEAD "batch_size: many\n",
         "recipe.yaml:3: recipe.batch_size: 'many' is not a whole number"},
        {HEAD "batch_size: 1.5\n", "recipe.yaml:3: recipe.batch_size: '1.5' is not a whole number"},
        {HEAD "batch_size: [1, 2]\n",
         "recipe.yaml:3: recipe.batch_size: '[1, 2]' is not a whole number"},
        {HEAD "batch_size: {a: 1}\n",
         "recipe.yaml:3: batch_size: a plain value is expected here, not a group of settings"},
        {HEAD "name: [{a: 1}]\n",
         "recipe.yaml:3: name: a plain value is expected here, not a group of settings"},
        {HEAD "drop_last: maybe\n",
         "recipe.yaml:3: recipe.drop_last: 'maybe' is not true or false"},
        {HEAD "precision: fp16\n",
         "recipe.yaml:3: recipe.precision: unknown choice 'fp16'; did you mean 'fp32'?"},
        {HEAD "backend: cuda\n",
         "recipe.yaml:3: recipe.backend: unknown choice 'cuda'; it is one of: auto, cpu, ref"},
        {HEAD "optimizer: {name: sgd, lr: -0.1}\n",
         "recipe.yaml:3: sgd.lr: -0.1 is outside [0, 1000000]"},
        {HEAD "transform:\n  flpi: true\n",
         "recipe.yaml:4: unknown setting 'flpi' of transform; did you mean 'flip'?"},
        {HEAD "transform: yes\n",
         "recipe.yaml:3: transform needs settings by name, like `flip: true`"},
        {"dataset: synthetic\n", "recipe.yaml: the recipe names no model; add `model: NAME`"},
        {"model: mlp\n", "recipe.yaml: the recipe names no dataset; add `dataset: NAME`"},
        {"", "recipe.yaml: the recipe names no model; add `model: NAME`"},
        {"model:\ndataset: synthetic\n",
         "recipe.yaml:1: the recipe names no model; add `model: NAME`"},
        {"dataset: synthetic\nmodel: {width: 8}\n",
         "recipe.yaml:2: model has no `name`; write `model: NAME`, or `name: NAME` beside its "
         "settings"},
        {"dataset: synthetic\nmodel: [mlp]\n",
         "recipe.yaml:2: model has no `name`; write `model: NAME`, or `name: NAME` beside its "
         "settings"},
        {HEAD "schedules: [[constant]]\n",
         "recipe.yaml:3: schedules: entry 0 is neither a name nor `name: settings`"},
        {HEAD "schedules: {constant: 0.3}\n", "recipe.yaml:3: schedules.constant: settings are "
                                              "`key: value` lines, or `on`, or `off`; found "
                                              "'0.3'"},
        {HEAD "schedules:\n  - constant\n  - step: 3ep\n",
         "recipe.yaml:5: schedules.step: settings are `key: value` lines, or `on`, or `off`; found "
         "'3ep'"},
        {HEAD "schedules: {constant: [a]}\n",
         "recipe.yaml:3: schedules.constant: settings are `key: value` lines, or `on`, or `off`"},
        /* required settings of every type */
        {HEAD "schedules:\n  - polynomial\n",
         "recipe.yaml:4: polynomial.power must be given: exponent of the remaining share of time"},
        {HEAD "schedules:\n  - name: multistep\n",
         "recipe.yaml:4: multistep.milestones must be given: times of the drops"},
        {HEAD "schedules: one_cycle\n",
         "recipe.yaml:3: one_cycle.t_peak must be given: when the factor is 1"},
        {"- model\n", "recipe.yaml: a recipe is a list of `key: value` lines"},
        {"just words\n", "recipe.yaml: a recipe is a list of `key: value` lines"},
        {HEAD "model: resnet9\n", "recipe.yaml:3: 'model' is given twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        says(cases[i][0], NULL, cases[i][1]);
}

static void refuses_durations_that_are_none(void **state)
{
    (void)state;
    static const char *const values[] = {"0ep", "-3ep", "0.5dur", "0sec", "0usd", "-1usd",
                                         "none", "\"\""};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, HEAD "max_duration: %s\n", values[i]);
        says(text, NULL,
             "recipe.yaml:3: max_duration must be a positive number of epochs, batches, samples, "
             "tokens, iterations, seconds or dollars, like 10ep or 1h20m");
    }
    static const char *const unreadable[] = {"10", "soon", "1.5ep", "9e99ba", "ep"};
    for (size_t i = 0; i < sizeof unreadable / sizeof unreadable[0]; i++) {
        char text[256], start[64];
        vv_recipe *recipe;
        snprintf(text, sizeof text, HEAD "max_duration: %s\n", unreadable[i]);
        snprintf(start, sizeof start, "recipe.yaml:3: recipe.max_duration: '%s'", unreadable[i]);
        vv_error_clear();
        assert_int_not_equal(vv_recipe_parse(&recipe, text, "recipe.yaml", NULL, 0), VV_OK);
        assert_says(start);
    }
}

static void overrides_change_what_they_name(void **state)
{
    (void)state;
    static const char base[] =
        HEAD "optimizer: sgd\n"
             "schedules:\n  - constant\n  - {name: cosine_decay, alpha_f: 0.5}\n";
    static const struct {
        override_list overrides;
        const char *line, *missing;
    } cases[] = {
        {{"batch_size=32"}, "batch_size: 32", "batch_size: 128"},
        {{"optimizer.lr=0.25"}, "optimizer:\n  name: sgd\n  lr: 0.25", "lr: 0.1"},
        {{"optimizer=", "optimizer.lr=0.75"}, "  name: decoupled_sgdw\n  lr: 0.75", "name: sgd"},
        {{"optimizer=adam", "optimizer.beta2=0.5"}, "  beta2: 0.5", "name: sgd"},
        {{"model.width=8", "model.layers=0"}, "  width: 8\n  layers: 0", "width: 128"},
        {{"transform.flip=true"}, "  flip: true", "flip: false"},
        {{"schedules.1.alpha_f=0.75"}, "    alpha_f: 0.75", "alpha_f: 0.5\n"},
        {{"schedules.cosine_decay.alpha_f=0.75"}, "    alpha_f: 0.75", "alpha_f: 0.5\n"},
        {{"schedules.cosine_decay={alpha_f: 0.75}"}, "    alpha_f: 0.75", "alpha_f: 0.5\n"},
        {{"schedules.cosine_decay=on"}, "    alpha_f: 0", "alpha_f: 0.5\n"},
        {{"schedules.cosine_decay=off"}, "  - name: constant", "cosine_decay"},
        {{"schedules.0=off"}, "  - name: cosine_decay", "name: constant"},
        {{"schedules.constant=off", "schedules.1=off"}, "optimizer:\n  name: sgd", "schedules:"},
        {{"schedules.multistep.milestones=[0.5dur, 3ep]"},
         "    milestones: [0.5dur, 3ep]", "milestones: []"},
        {{"schedules.multistep.milestones=[0.5dur, 3ep]", "schedules.multistep.milestones.1=4ep"},
         "    milestones: [0.5dur, 4ep]", "3ep"},
        {{"schedules="}, "optimizer:\n  name: sgd", "schedules:"},
        {{"schedules=linear_decay"}, "schedules:\n  - name: linear_decay", "cosine_decay"},
        {{"save_interval=none"}, "save_interval: none", "save_interval: 1ep"},
        {{"name=a=b"}, "dataset:\n  name: synthetic", "name: \"\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vv_str text = resolved(base, cases[i].overrides);
        has_line(&text, cases[i].line);
        has_not(&text, cases[i].missing);
        vv_str_fini(&text);
    }
}

static void methods_are_switched_off_and_on(void **state)
{
    (void)state;
    static const char *const forms[] = {
        HEAD "methods: {mixup: {alpha: 0.5}, label_smoothing: {}}\n",
        HEAD "methods: [{mixup: {alpha: 0.5}}, label_smoothing]\n",
        HEAD "methods: [{name: mixup, alpha: 0.5}, label_smoothing]\n",
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        vv_str text = resolved(forms[i], (override_list){"methods.mixup=off"});
        has_line(&text, "methods:\n  - name: label_smoothing");
        has_not(&text, "mixup");
        vv_str_fini(&text);
        text = resolved(forms[i], (override_list){"methods.mixup.interpolate_loss=true"});
        has_line(&text, "  - name: mixup\n    alpha: 0.5\n    interpolate_loss: true");
        vv_str_fini(&text);
        text = resolved(forms[i], (override_list){"methods.blurpool=on", "methods.mixup=on"});
        has_line(&text, "  - name: mixup\n    alpha: 0.2");
        has_line(&text, "  - name: blurpool");
        vv_str_fini(&text);
        says(forms[i], (override_list){"methods.mixpu=off"},
             "recipe.yaml (override): there is no method called 'mixpu'; did you mean 'mixup'?");
    }
}

static void refuses_bad_overrides(void **state)
{
    (void)state;
    says(small, (override_list){"optimiser.lr=1"},
         "recipe.yaml (override): unknown key 'optimiser'; did you mean 'optimizer'?");
    says(small, (override_list){"optimizer.lr=-1"},
         "recipe.yaml (override): decoupled_sgdw.lr: -1 is outside [0, 1000000]");
    says(small, (override_list){"model.widht=3"},
         "recipe.yaml (override): unknown setting 'widht' of mlp; did you mean 'width'?");
    says(small, (override_list){"batch_size.x=3"},
         "recipe.yaml (override): batch_size: a plain value is expected here, not a group of "
         "settings");
    says(small, (override_list){"batch_size"}, "'batch_size' is not an override; write key=value");
    says("- a list\n", (override_list){"batch_size=3"},
         "recipe.yaml: a recipe is a list of `key: value` lines");
}

static const char *const whole_recipes[] = {
    HEAD,
    "model: {name: resnet9, width: 16}\ndataset: cifar10\n"
    "optimizer: {name: adamw, lr: 0.001, weight_decay: 1e-5, beta2: 0.99}\n"
    "schedules:\n  - {name: multistep, milestones: [0.5dur, 10ep, 1e3ba], gamma: "
    "0.3333333333333333}\n"
    "  - {name: polynomial, power: 0.1}\n"
    "transform: {crop_pad: 4, flip: true}\n"
    "methods: {mixup: {alpha: 0.7}, label_smoothing: {}, blurpool: {min_channels: 3}}\n"
    "callbacks: [lr_monitor, {name: speed_monitor}]\nloggers: [jsonl]\n"
    "save_interval: none\neval_interval: 0.1dur\ngrad_clip_norm: 1e-30\nscale_schedule_ratio: "
    "0.1\n",
    /* texts that need quotes, and characters YAML takes for line breaks or refuses */
    HEAD "name: \"a: 'b' # \\\"c\\\"\\n\\t\\\\ \\x7f \\x85 \\u2028 \\u2029 \\ufeff \\u00e9 "
         "\\U0001F600\"\n"
         "initializers: ' kaiming_normal '\n",
    HEAD "profile: {wait: 3, active: 2, repeat: 0}\n",
    HEAD
    "eval_metrics: top5\nevaluators:\n  eval: {}\n  \"a: b\": {dataset: cifar10, split: train, "
    "subset: 10ba, interval: 2ep}\n",
    HEAD "name: off\nmax_duration: 1e6sp\nseed: 4294967295\n",
};

static void resolved_text_is_a_fixed_point(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof whole_recipes / sizeof whole_recipes[0]; i++) {
        vv_str first = resolved(whole_recipes[i], NULL);
        vv_str second = resolved(vv_str_text(&first), NULL);
        assert_string_equal(vv_str_text(&first), vv_str_text(&second));
        vv_str_fini(&first);
        vv_str_fini(&second);
    }
    vv_str text = resolved(whole_recipes[1], NULL);
    has_line(&text, "    milestones: [0.5dur, 10ep, 1000ba]\n    gamma: 0.333333333333333" "3");
    vv_str_fini(&text);
}

static void describes_its_settings(void **state)
{
    (void)state;
    assert_non_null(vv_desc_field(vv_recipe_desc("recipe"), "max_duration"));
    assert_non_null(vv_desc_field(vv_recipe_desc("transform"), "flip"));
    assert_non_null(vv_desc_field(vv_recipe_desc("profile"), "active"));
    assert_null(vv_recipe_desc("model"));
}

/* What an entry leaves out is the recipe's; an override reaches into it. */
static void evaluators(void **state)
{
    (void)state;
    static const char text[] =
        HEAD "eval_metrics: accuracy\neval_interval: 3ep\neval_batch_size: 50\n"
             "evaluators:\n  clean: {}\n  hard:\n    dataset: {name: synthetic, like: cifar10}\n"
             "    metrics: [accuracy, top5]\n    subset: 500sp\n  none: off\n";
    vv_str out = resolved(text, (const override_list){"evaluators.hard.interval=10ba"});
    has_line(&out, "evaluators:\n  \"clean\":\n    dataset:\n      name: synthetic");
    has_line(&out,
             "    metrics: \"accuracy\"\n    interval: 3ep\n    subset: none\n    batch_size: 50");
    has_line(&out, "  \"hard\":\n    dataset:\n      name: synthetic");
    has_line(&out, "    metrics: \"accuracy,top5\"\n    interval: 10ba\n    subset: 500sp");
    has_not(&out, "none:");
    vv_str_fini(&out);
    assert_non_null(vv_desc_field(vv_recipe_desc("evaluator"), "subset"));
    static const char *const wrong[][2] = {
        {HEAD "evaluators: [accuracy]\n", "recipe.yaml:3: evaluators: each has a label"},
        {HEAD "evaluators: {hard: accuracy}\n", "recipe.yaml:3: evaluators.hard: give settings by"},
        {HEAD "evaluators: {hard: {metric: x}}\n", "did you mean 'metrics'?"},
        {HEAD "evaluators: {hard: {dataset: minst}}\n", "did you mean 'mnist'?"},
        {HEAD "evaluators: {hard: {subset: 2ep}}\n", "subset: give batches or samples"},
        {HEAD "evaluator: {hard: {}}\n", "did you mean 'evaluators'?"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vv_recipe *recipe;
        vv_error_clear();
        assert_int_not_equal(vv_recipe_parse(&recipe, wrong[i][0], "recipe.yaml", NULL, 0), VV_OK);
        assert_says(wrong[i][1]);
    }
}

/* A word switches profiling on with its defaults or off; settings switch it on. */
static void profile_is_a_word_or_settings(void **state)
{
    (void)state;
    vv_recipe *recipe = NULL;
    vv_str text = resolved(small, (override_list){"profile=on"});
    has_line(&text, "profile:\n  skip_first: 0\n  wait: 0\n  warmup: 1\n  active: 4\n  repeat: 1");
    vv_str_fini(&text);
    text = resolved(small, (override_list){"profile.active=2"});
    has_line(&text, "  active: 2");
    vv_str_fini(&text);
    text = resolved("model: mlp\ndataset: synthetic\nprofile: off\n", NULL);
    has_not(&text, "profile");
    vv_str_fini(&text);
    assert_fails(vv_recipe_parse(&recipe, small, "r.yaml", (override_list){"profile=often"}, 1),
                 VV_EINVAL);
    assert_says("profile is `on`, `off`, or settings by name");
    assert_fails(vv_recipe_parse(&recipe, small, "r.yaml", (override_list){"profile.actve=2"}, 1),
                 VV_ENOTFOUND);
    assert_says("did you mean 'active'?");
    assert_fails(vv_recipe_parse(&recipe, small, "r.yaml", (override_list){"profile.active=0"}, 1),
                 VV_EINVAL);
}

static void loads_files(void **state)
{
    (void)state;
    const char *root = getenv("TMPDIR");
    char path[256];
    snprintf(path, sizeof path, "%s/vivace-recipe-XXXXXX", root && root[0] ? root : "/tmp");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, small, sizeof small - 1), sizeof small - 1);
    vv_recipe *recipe;
    assert_ok(vv_recipe_load(&recipe, path, (override_list){"batch_size=8"}, 1));
    vv_recipe_free(recipe);
    assert_int_equal(write(fd, "a\0b", 3), 3);
    assert_fails(vv_recipe_load(&recipe, path, NULL, 0), VV_EFORMAT);
    assert_says("not a text file (it holds NUL bytes)");
    assert_null(recipe);
    close(fd);
    unlink(path);
    assert_fails(vv_recipe_load(&recipe, path, NULL, 0), VV_ENOTFOUND);
    assert_says(path);
    assert_null(recipe);
    vv_recipe_free(NULL);
}

static vv_status parse_once(vv_recipe **out, const char *text)
{
    static const override_list overrides = {"optimizer.lr=0.5", "methods.mixup=off",
                                            "schedules.step.step_size=2ep", "batch_size=3"};
    return vv_recipe_parse(out, text, "recipe.yaml", overrides, MAX_OVERRIDES);
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        vv_recipe *recipe = NULL;
        const int64_t live = vv_memory_live_count();
        const uint64_t before = vv_memory_alloc_count();
        assert_ok(parse_once(&recipe, whole_recipes[i]));
        const uint64_t allocations = vv_memory_alloc_count() - before;
        vv_str text = {0};
        for (uint64_t n = 1;; n++) {
            vv_memory_fail_at(n);
            const vv_status status = vv_recipe_text(recipe, &text);
            vv_memory_fail_at(0);
            vv_str_fini(&text);
            if (status == VV_OK)
                break;
            assert_int_equal(status, VV_ENOMEM);
        }
        vv_recipe_free(recipe);
        assert_int_equal(vv_memory_live_count(), live);
        for (uint64_t n = 1; n <= allocations; n++) {
            vv_memory_fail_at(n);
            assert_fails(parse_once(&recipe, whole_recipes[i]), VV_ENOMEM);
            vv_memory_fail_at(0);
            assert_null(recipe);
            assert_int_equal(vv_memory_live_count(), live);
        }
    }
}

/* What every run has is written out; `off`, for it or for the section, waives it, and the resolved
   text keeps that. */
static void default_callbacks(void **state)
{
    (void)state;
    static const struct {
        const char *callbacks, *line;
    } cases[] = {
        {"", "callbacks:\n  - name: nan_monitor\n    action: stop"},
        {"callbacks: [lr_monitor]", "  - name: nan_monitor\n    action: stop"},
        {"callbacks: {nan_monitor: {action: skip}}", "  - name: nan_monitor\n    action: skip"},
        {"callbacks: [{name: nan_monitor, action: skip}]", "    action: skip"},
        {"callbacks: {nan_monitor: off, lr_monitor: on}", "  - name: lr_monitor\n  - nan_monitor: off"},
        {"callbacks: [nan_monitor: off]", "callbacks:\n  - nan_monitor: off"},
        {"callbacks: off", "callbacks:\n  - nan_monitor: off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char recipe[256];
        snprintf(recipe, sizeof recipe, "%s%s\n", small, cases[i].callbacks);
        vv_str text = resolved(recipe, NULL), again = resolved(vv_str_text(&text), NULL);
        has_line(&text, cases[i].line);
        const char *found = strstr(vv_str_text(&text), "nan_monitor");
        assert_null(strstr(found + 1, "nan_monitor"));
        assert_string_equal(vv_str_text(&text), vv_str_text(&again));
        vv_str_fini(&text);
        vv_str_fini(&again);
    }
    const override_list off = {"callbacks.nan_monitor=off"};
    vv_str text = resolved(small, off);
    has_line(&text, "callbacks:\n  - nan_monitor: off");
    vv_str_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_in_defaults),
        cmocka_unit_test(empty_sections_are_left_out_ones),
        cmocka_unit_test(sections_have_several_forms),
        cmocka_unit_test(refuses_with_file_line_and_nearest_name),
        cmocka_unit_test(refuses_durations_that_are_none),
        cmocka_unit_test(overrides_change_what_they_name),
        cmocka_unit_test(methods_are_switched_off_and_on),
        cmocka_unit_test(refuses_bad_overrides),
        cmocka_unit_test(resolved_text_is_a_fixed_point),
        cmocka_unit_test(default_callbacks),
        cmocka_unit_test(describes_its_settings),
        cmocka_unit_test(evaluators),
        cmocka_unit_test(profile_is_a_word_or_settings),
        cmocka_unit_test(loads_files),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
