/* test_registry.c - everything in this build is found by kind and name, and the nearest name is
 * told; every descriptor is sane: unique snake_case names, sentences, defaults that parse and lie
 * within their limits, and JSON that is JSON. */
#include "vv_test.h"

#include <ctype.h>

#include <jansson.h>
#include <vivace/registry.h>

static const char *const kinds[] = {"method",   "model",    "dataset", "optimizer",
                                    "schedule", "callback", "logger",  "metric",
                                    "loss"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void lists_every_kind(void **state)
{
    (void)state;
    static const char *const known[KINDS] = {"label_smoothing", "mlp",        "synthetic", "sgd",
                                             "cosine_decay",    "lr_monitor", "jsonl",     "miou",
                                             "ce_dice"};
    for (int k = 0; k < KINDS; k++) {
        char plural[32];
        const vv_desc *desc, *other;
        int count = 0;
        snprintf(plural, sizeof plural, "%s%s", kinds[k], strcmp(kinds[k], "loss") ? "s" : "es");
        for (; (desc = vv_registry_at(kinds[k], count)); count++) {
            assert_string_equal(desc->kind, kinds[k]);
            assert_ptr_equal(vv_registry_at(plural, count), desc);
            assert_ok(vv_registry_find(&other, kinds[k], desc->name));
            assert_ptr_equal(other, desc);
            assert_ok(vv_registry_find(&other, plural, desc->name));
            assert_ptr_equal(other, desc);
        }
        assert_true(count > 0);
        assert_null(vv_registry_at(kinds[k], -1));
        assert_null(vv_registry_at(kinds[k], count + 1));
        assert_ok(vv_registry_find(&desc, kinds[k], known[k]));
        assert_string_equal(desc->name, known[k]);
    }
    assert_null(vv_registry_at("thing", 0));
    assert_null(vv_registry_at("methodss", 0));
    assert_null(vv_registry_at("s", 0));
    assert_null(vv_registry_at("", 0));
    assert_null(vv_registry_at(NULL, 0));
}

static void tells_the_nearest_name(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"model", "resnt9", "there is no model called 'resnt9'; did you mean 'resnet9'?"},
        {"models", "resnt9", "there is no model called 'resnt9'; did you mean 'resnet9'?"},
        {"optimizer", "adamv", "there is no optimizer called 'adamv'; did you mean 'adam'?"},
        {"schedules", "cosine_deacy",
         "there is no schedule called 'cosine_deacy'; did you mean 'cosine_decay'?"},
        {"logger", "xylophone", "there is no logger called 'xylophone'; see `vivace list loggers`"},
        {"loggers", "xylophone", "there is no logger called 'xylophone'; see `vivace list loggers`"},
        {"dataset", "", "there is no dataset called ''; see `vivace list datasets`"},
    };
    const vv_desc *desc;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(vv_registry_find(&desc, cases[i][0], cases[i][1]), VV_ENOTFOUND);
        assert_string_equal(vv_error(), cases[i][2]);
        assert_null(desc);
    }
    assert_fails(vv_registry_find(&desc, "methods", NULL), VV_EINVAL);
    assert_string_equal(vv_error(), "method: no name was given");
    static const char *const unknown[] = {"thing", "methodss", "Method", ""};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        char sentence[256];
        snprintf(sentence, sizeof sentence,
                 "'%s' is not a kind of thing; kinds are methods, models, datasets, optimizers, "
                 "schedules, callbacks, loggers, metrics, losses", unknown[i]);
        assert_fails(vv_registry_find(&desc, unknown[i], "mlp"), VV_EINVAL);
        assert_string_equal(vv_error(), sentence);
    }
    assert_fails(vv_registry_find(&desc, NULL, "mlp"), VV_EINVAL);
}

static void finds_by_type(void **state)
{
    (void)state;
    const vv_method_desc *method;
    const vv_model_desc *model;
    const vv_dataset_desc *dataset;
    const vv_callback_desc *callback;
    const vv_logger_desc *logger;
    assert_ok(vv_method_find(&method, "label_smoothing"));
    assert_non_null(method->apply);
    assert_ok(vv_model_find(&model, "mlp"));
    assert_non_null(model->build);
    assert_ok(vv_dataset_find(&dataset, "synthetic"));
    assert_non_null(dataset->open);
    assert_ok(vv_callback_find(&callback, "lr_monitor"));
    assert_non_null(callback->apply);
    assert_ok(vv_logger_find(&logger, "jsonl"));
    assert_non_null(logger->metric);
    assert_fails(vv_method_find(&method, "label_smothing"), VV_ENOTFOUND);
    assert_null(method);
}

static void makes_methods_from_text(void **state)
{
    (void)state;
    vv_method *method;
    vv_str text = {0};
    assert_ok(vv_method_make(&method, "label_smoothing", "smoothing=0.25"));
    assert_ok(vv_opts_get(&method->type->desc, method->opts, "smoothing", &text));
    assert_string_equal(vv_str_text(&text), "0.25");
    vv_method_free(method);
    vv_str_clear(&text);
    assert_ok(vv_method_make(&method, "mixup", " alpha=0.5, interpolate_loss=true "));
    assert_ok(vv_opts_get(&method->type->desc, method->opts, "interpolate_loss", &text));
    assert_string_equal(vv_str_text(&text), "true");
    vv_method_free(method);
    vv_str_fini(&text);
    static const char *const bad[][3] = {
        {"mixpu", NULL, "there is no method called 'mixpu'; did you mean 'mixup'?"},
        {"mixup", "alhpa=1", "unknown setting 'alhpa' of mixup; did you mean 'alpha'?"},
        {"mixup", "alpha=-1", "mixup.alpha: -1 is outside"},
        {"mixup", "alpha", "settings of mixup: 'alpha' is not key=value"},
        {NULL, NULL, "method: no name was given"},
    };
    const int64_t live = vv_memory_live_count();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vv_error_clear();
        assert_int_not_equal(vv_method_make(&method, bad[i][0], bad[i][1]), VV_OK);
        assert_says(bad[i][2]);
        assert_null(method);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

/* Every method of the build comes with its defaults, with "" and with NULL; each failing allocation
   is a status. */
static void makes_every_method(void **state)
{
    (void)state;
    const int64_t live = vv_memory_live_count();
    const vv_desc *desc;
    for (int i = 0; (desc = vv_registry_at("method", i)); i++) {
        vv_method *method;
        bool required = false;
        for (const vv_field *field = desc->fields; field && field->name; field++)
            required = required || !field->fallback;
        if (required)
            continue;
        assert_ok(vv_method_make(&method, desc->name, ""));
        assert_string_equal(method->type->desc.name, desc->name);
        vv_method_free(method);
        const uint64_t before = vv_memory_alloc_count();
        assert_ok(vv_method_make(&method, desc->name, NULL));
        const uint64_t allocations = vv_memory_alloc_count() - before;
        vv_method_free(method);
        for (uint64_t n = 1; n <= allocations; n++) {
            vv_memory_fail_at(n);
            assert_fails(vv_method_make(&method, desc->name, NULL), VV_ENOMEM);
            vv_memory_fail_at(0);
            assert_null(method);
            assert_int_equal(vv_memory_live_count(), live);
        }
    }
}

/* ---- descriptors ---- */

static bool is_snake(const char *name)
{
    if (!name || !islower((unsigned char)name[0]))
        return false;
    for (const char *s = name; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

/* "gpt2-124m", "gpt2-1.3b": a model's name with a size behind it. */
static bool is_preset(const char *kind, const char *name)
{
    const char *size = strchr(name, '-');
    char model[64];
    const vv_model_desc *desc;
    if (strcmp(kind, "model") != 0 || !size || !size[1])
        return false;
    for (const char *s = size + 1; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '.')
            return false;
    snprintf(model, sizeof model, "%.*s", (int)(size - name), name);
    return vv_model_find(&desc, model) == VV_OK;
}

static void check_field(const vv_desc *desc, const vv_field *field, const void *opts)
{
    const bool number = field->type == VV_FIELD_INT || field->type == VV_FIELD_FLOAT;
    if (!is_snake(field->name))
        fail_msg("%s.%s: not snake_case", desc->name, field->name);
    if (strcmp(field->name, "name") == 0)
        fail_msg("%s.name: a recipe cannot tell it from the thing's name", desc->name);
    if (!field->help || !field->help[0])
        fail_msg("%s.%s: no help", desc->name, field->name);
    if (field->min > field->max || (!number && (field->min != 0 || field->max != 0)))
        fail_msg("%s.%s: limits that are none", desc->name, field->name);
    if ((field->type == VV_FIELD_CHOICE) != (field->choices != NULL && field->choices[0] != NULL))
        fail_msg("%s.%s: choices of a field that is no choice, or none", desc->name, field->name);
    if (field->offset >= desc->opts_size)
        fail_msg("%s.%s: outside the options", desc->name, field->name);
    for (const vv_field *other = desc->fields; other < field; other++)
        if (strcmp(other->name, field->name) == 0 || other->offset == field->offset)
            fail_msg("%s.%s: name or place is %s's too", desc->name, field->name, other->name);
    /* a value reads back as itself */
    vv_str text = {0}, again = {0};
    if (!field->fallback)
        return;
    void *copy;
    assert_ok(vv_opts_get(desc, opts, field->name, &text));
    assert_ok(vv_alloc(&copy, desc->opts_size));
    assert_ok(vv_opts_copy(desc, copy, opts));
    assert_ok(vv_opts_set(desc, copy, field->name, vv_str_text(&text)));
    assert_ok(vv_opts_get(desc, copy, field->name, &again));
    assert_string_equal(vv_str_text(&text), vv_str_text(&again));
    vv_opts_fini(desc, copy);
    vv_dealloc(copy);
    vv_str_fini(&text);
    vv_str_fini(&again);
}

static void check_desc(const vv_desc *desc, const char *kind)
{
    assert_string_equal(desc->kind, kind);
    if (!is_snake(desc->name) && !is_preset(kind, desc->name))
        fail_msg("%s %s: not snake_case", kind, desc->name);
    const char *summary = desc->summary ? desc->summary : "";
    const size_t length = strlen(summary);
    if (length < 2 || summary[length - 1] != '.' || islower((unsigned char)summary[0]))
        fail_msg("%s %s: the summary is no sentence: %s", kind, desc->name, summary);
    assert_non_null(desc->cite);
    if (!desc->domains || !desc->domains[0])
        fail_msg("%s %s: no domains", kind, desc->name);
    void *opts;
    assert_ok(vv_alloc(&opts, desc->opts_size + 1));
    assert_ok(vv_opts_init(desc, opts));
    bool required = false;
    for (const vv_field *field = desc->fields; field && field->name; field++) {
        required = required || !field->fallback;
        check_field(desc, field, opts);
    }
    if (!required)
        assert_ok(vv_opts_check(desc, opts));
    vv_opts_fini(desc, opts);
    vv_dealloc(opts);
}

static void descriptors_are_sane(void **state)
{
    (void)state;
    const int64_t live = vv_memory_live_count();
    for (int k = 0; k < KINDS; k++) {
        const vv_desc *desc;
        for (int i = 0; (desc = vv_registry_at(kinds[k], i)); i++) {
            check_desc(desc, kinds[k]);
            for (int j = 0; j < i; j++)
                assert_string_not_equal(desc->name, vv_registry_at(kinds[k], j)->name);
        }
    }
    assert_int_equal(vv_memory_live_count(), live);
}

static const char *string_in(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void check_json_field(const vv_field *field, const json_t *json)
{
    assert_string_equal(string_in(json, "name"), field->name);
    assert_string_equal(string_in(json, "help"), field->help);
    assert_non_null(string_in(json, "type"));
    const json_t *fallback = json_object_get(json, "default");
    if (field->fallback)
        assert_string_equal(json_string_value(fallback), field->fallback);
    else
        assert_true(json_is_null(fallback));
    assert_non_null(json_object_get(json, "min"));
    assert_non_null(json_object_get(json, "max"));
    size_t choices = 0;
    while (field->choices && field->choices[choices])
        choices++;
    assert_int_equal(json_array_size(json_object_get(json, "choices")), choices);
}

static void descriptors_as_json(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        const vv_desc *desc;
        for (int i = 0; (desc = vv_registry_at(kinds[k], i)); i++) {
            vv_str text = {0};
            json_error_t error;
            vv_desc_to_json(desc, &text);
            assert_ok(vv_str_status(&text));
            json_t *json = json_loads(vv_str_text(&text), JSON_REJECT_DUPLICATES, &error);
            if (!json)
                fail_msg("%s %s: %s in %s", kinds[k], desc->name, error.text, vv_str_text(&text));
            assert_string_equal(string_in(json, "kind"), kinds[k]);
            assert_string_equal(string_in(json, "name"), desc->name);
            assert_string_equal(string_in(json, "summary"), desc->summary);
            assert_string_equal(string_in(json, "cite"), desc->cite);
            assert_string_equal(string_in(json, "domains"), desc->domains);
            const json_t *fields = json_object_get(json, "fields");
            size_t count = 0;
            for (; desc->fields && desc->fields[count].name; count++)
                check_json_field(&desc->fields[count], json_array_get(fields, count));
            assert_int_equal(json_array_size(fields), count);
            json_decref(json);
            vv_str_fini(&text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_every_kind),       cmocka_unit_test(tells_the_nearest_name),
        cmocka_unit_test(finds_by_type),          cmocka_unit_test(makes_methods_from_text),
        cmocka_unit_test(makes_every_method),     cmocka_unit_test(descriptors_are_sane),
        cmocka_unit_test(descriptors_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
