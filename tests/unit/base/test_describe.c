/* test_describe.c - settings by their table.
 *
 * Defaults, texts and checks follow the table; wrong settings are refused with a sentence that
 * helps and leave the old value; what get writes, set reads; copies are deep; JSON is valid; every
 * allocation may fail without a leak. */
#include "vv_test.h"

#include <jansson.h>

#include <vivace/describe.h>

typedef struct opts {
    double alpha;
    int64_t count;
    bool enabled;
    const char *path;
    const char *label;
    int mode;
    vv_time warmup;
    vv_times milestones;
    double free_number;
    vv_time length;
    double gain;
} opts;

static const char *const modes[] = {"linear", "nearest", "cubic", NULL};

static const vv_field fields[] = {
    {"alpha", "Strength.", VV_FIELD_FLOAT, offsetof(opts, alpha), "0.2", 0, 10, NULL},
    {"count", "How many.", VV_FIELD_INT, offsetof(opts, count), "3", 1, 100, NULL},
    {"enabled", "Whether.", VV_FIELD_BOOL, offsetof(opts, enabled), "true", 0, 0, NULL},
    {"path", "Where the files lie.", VV_FIELD_STRING, offsetof(opts, path), NULL, 0, 0, NULL},
    {"label", "A name.", VV_FIELD_STRING, offsetof(opts, label), "a \"b\"", 0, 0, NULL},
    {"mode", "Which.", VV_FIELD_CHOICE, offsetof(opts, mode), "nearest", 0, 0, modes},
    {"warmup", "How long.", VV_FIELD_TIME, offsetof(opts, warmup), "0.1dur", 0, 0, NULL},
    {"milestones", "When.", VV_FIELD_TIMES, offsetof(opts, milestones), "[10ep, 20ep]", 0, 0, NULL},
    {"free_number", "Any.", VV_FIELD_FLOAT, offsetof(opts, free_number), "-1e-3", 0, 0, NULL},
    {"length", "Whole run.", VV_FIELD_TIME, offsetof(opts, length), NULL, 0, 0, NULL},
    {"gain", "Above 1.", VV_FIELD_FLOAT, offsetof(opts, gain), "2", 1, INFINITY, NULL},
    {0},
};

static const vv_desc desc = {"method", "mixup", "Mixes.", "", "cv", fields, sizeof(opts)};

static void test_defaults(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    opts o;
    assert_ok(vv_opts_init(&desc, &o));
    assert_true(o.alpha == 0.2 && o.count == 3 && o.enabled && o.mode == 1);
    assert_null(o.path);
    assert_string_equal(o.label, "a \"b\"");
    assert_true(o.warmup.unit == VV_UNIT_DURATION && o.warmup.fraction == 0.1);
    assert_int_equal(o.milestones.count, 2);
    assert_true(o.milestones.items[1].unit == VV_UNIT_EPOCH && o.milestones.items[1].count == 20);
    assert_true(o.free_number == -0.001 && o.gain == 2.0);
    assert_true(vv_time_is_none(o.length));
    vv_opts_fini(&desc, &o);
    vv_opts_fini(&desc, &o); /* twice is harmless */
    vv_opts_fini(&desc, NULL);
    assert_int_equal(vv_memory_live_count(), blocks);
    assert_ptr_equal(vv_desc_field(&desc, "mode"), &fields[5]);
    assert_null(vv_desc_field(&desc, "mod"));
}

static void assert_set(opts *o, const char *key, const char *value, const char *back)
{
    vv_str s = {0};
    assert_ok(vv_opts_set(&desc, o, key, value));
    assert_ok(vv_opts_get(&desc, o, key, &s));
    assert_string_equal(vv_str_text(&s), back);
    vv_str again = {0};
    assert_ok(vv_opts_set(&desc, o, key, vv_str_text(&s)));
    assert_ok(vv_opts_get(&desc, o, key, &again));
    assert_string_equal(vv_str_text(&again), back);
    vv_str_fini(&s);
    vv_str_fini(&again);
}

static void test_set_and_get(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    opts o;
    assert_ok(vv_opts_init(&desc, &o));
    assert_set(&o, "alpha", "0.3", "0.3");
    assert_set(&o, "alpha", "1e-05", "1e-05");
    assert_set(&o, "alpha", "10", "10");
    assert_set(&o, "count", "1e2", "100");
    assert_set(&o, "count", "4.0", "4");
    assert_set(&o, "enabled", "No", "false");
    assert_set(&o, "enabled", "on", "true");
    assert_set(&o, "enabled", "0", "false");
    assert_set(&o, "path", "/a, b=c/[d]", "/a, b=c/[d]");
    assert_set(&o, "path", "", "");
    assert_set(&o, "mode", "cubic", "cubic");
    assert_set(&o, "warmup", "500ba", "500ba");
    assert_set(&o, "warmup", "none", "none");
    assert_set(&o, "warmup", "", "none");
    assert_set(&o, "warmup", "1h20m", "4800sec");
    assert_set(&o, "milestones", "1ep,0.5dur", "[1ep, 0.5dur]");
    assert_set(&o, "milestones", " [ 3ba ] ", "[3ba]");
    assert_set(&o, "milestones", "", "[]");
    assert_set(&o, "milestones", "[]", "[]");
    assert_set(&o, "milestones", "none", "[]");
    assert_set(&o, "free_number", "-inf", "-inf");
    assert_set(&o, "gain", "inf", "inf");
    vv_opts_fini(&desc, &o);
    assert_int_equal(vv_memory_live_count(), blocks);
}

static void assert_refused(opts *o, const char *key, const char *value, const char *sentence)
{
    vv_str before = {0}, after = {0};
    vv_opts_to_json(&desc, o, &before);
    vv_error_clear();
    vv_status status = vv_opts_set(&desc, o, key, value);
    if (status == VV_OK || !strstr(vv_error(), sentence))
        fail_msg("%s=%s: %s: \"%s\" lacks \"%s\"", key, value, vv_status_name(status), vv_error(),
                 sentence);
    vv_opts_to_json(&desc, o, &after);
    assert_string_equal(vv_str_text(&before), vv_str_text(&after));
    vv_str_fini(&before);
    vv_str_fini(&after);
}

static void test_refusals(void **state)
{
    (void)state;
    opts o;
    assert_ok(vv_opts_init(&desc, &o));
    assert_refused(&o, "alpha", "-1", "mixup.alpha: -1 is outside [0, 10]");
    assert_refused(&o, "alpha", "10.001", "mixup.alpha: 10.001 is outside [0, 10]");
    assert_refused(&o, "alpha", "inf", "mixup.alpha: inf is outside [0, 10]");
    assert_refused(&o, "alpha", "nan", "mixup.alpha: 'nan' is not a number");
    assert_refused(&o, "alpha", "", "is not a number");
    assert_refused(&o, "alpha", "0.2x", "'0.2x' is not a number");
    assert_refused(&o, "gain", "0.5", "mixup.gain: 0.5 is outside [1, inf)");
    assert_refused(&o, "count", "0", "mixup.count: 0 is outside [1, 100]");
    assert_refused(&o, "count", "2.5", "mixup.count: '2.5' is not a whole number");
    assert_refused(&o, "count", "99999999999999999999", "is not a whole number");
    assert_refused(&o, "enabled", "maybe", "mixup.enabled: 'maybe' is not true or false");
    assert_refused(&o, "mode", "linea", "did you mean 'linear'?");
    assert_refused(&o, "mode", "quadratic", "it is one of: linear, nearest, cubic");
    assert_refused(&o, "mode", "", "it is one of");
    assert_refused(&o, "warmup", "1.5ep", "mixup.warmup: '1.5ep'");
    assert_refused(&o, "warmup", "500", "mixup.warmup: '500' has no unit");
    assert_refused(&o, "milestones", "[1ep", "is not a list");
    assert_refused(&o, "milestones", "1ep]", "is not a list");
    assert_refused(&o, "milestones", "[1ep,]", "an item is empty");
    assert_refused(&o, "milestones", "[1ep,x]", "mixup.milestones: 'x'");
    assert_refused(&o, "alfa", "1", "unknown setting 'alfa' of mixup; did you mean 'alpha'?");
    assert_refused(&o, "temperature", "1", "it has: alpha, count, enabled");
    vv_str s = {0};
    assert_fails(vv_opts_get(&desc, &o, "alfa", &s), VV_ENOTFOUND);
    assert_says("did you mean 'alpha'?");
    vv_opts_fini(&desc, &o);
    static const vv_desc bare = {"method", "bare", "Has no settings.", "", "any", NULL, 1};
    char nothing;
    assert_ok(vv_opts_init(&bare, &nothing));
    assert_fails(vv_opts_set(&bare, &nothing, "a", "1"), VV_ENOTFOUND);
    assert_says("it has no settings");
}

static void test_set_all(void **state)
{
    (void)state;
    opts o;
    assert_ok(vv_opts_init(&desc, &o));
    assert_ok(
        vv_opts_set_all(&desc, &o, " alpha = 0.5 ,milestones=[1ep, 2ep,3ep],path=a=b,label="));
    assert_true(o.alpha == 0.5 && o.count == 3);
    assert_int_equal(o.milestones.count, 3);
    assert_string_equal(o.path, "a=b");
    assert_string_equal(o.label, "");
    assert_ok(vv_opts_set_all(&desc, &o, ""));
    assert_ok(vv_opts_set_all(&desc, &o, "  "));
    assert_fails(vv_opts_set_all(&desc, &o, "alpha"), VV_EINVAL);
    assert_says("'alpha' is not key=value");
    assert_fails(vv_opts_set_all(&desc, &o, "alpha=1,"), VV_EINVAL);
    assert_fails(vv_opts_set_all(&desc, &o, "=1"), VV_EINVAL);
    assert_fails(vv_opts_set_all(&desc, &o, "alpha=1,cuont=2"), VV_ENOTFOUND);
    assert_says("did you mean 'count'?");
    assert_fails(vv_opts_set_all(&desc, &o, "milestones=[1ep,2ep"), VV_EINVAL);
    vv_opts_fini(&desc, &o);
}

static void test_check_of_structs_filled_in_c(void **state)
{
    (void)state;
    opts o;
    assert_ok(vv_opts_init(&desc, &o));
    assert_fails(vv_opts_check(&desc, &o), VV_EINVAL);
    assert_says("mixup.path must be given: Where the files lie.");
    vv_opts_fini(&desc, &o);
    opts good = {
        .alpha = 1, .count = 1, .path = "here", .gain = 1e30, .length = {VV_UNIT_EPOCH, 1, 0}};
    assert_ok(vv_opts_check(&desc, &good));
    opts bad = good;
    bad.alpha = 11;
    assert_fails(vv_opts_check(&desc, &bad), VV_EINVAL);
    assert_says("mixup.alpha: 11 is outside [0, 10]");
    bad.alpha = (double)NAN;
    assert_fails(vv_opts_check(&desc, &bad), VV_EINVAL);
    bad = good;
    bad.mode = 3;
    assert_fails(vv_opts_check(&desc, &bad), VV_EINVAL);
    bad.mode = -1;
    assert_fails(vv_opts_check(&desc, &bad), VV_EINVAL);
    bad = good;
    bad.length = vv_time_none();
    assert_fails(vv_opts_check(&desc, &bad), VV_EINVAL);
    assert_says("mixup.length must be given");
    bad = good;
    bad.milestones.count = 2;
    assert_fails(vv_opts_check(&desc, &bad), VV_EINVAL);
    bad = good;
    bad.warmup.unit = (vv_unit)77;
    assert_fails(vv_opts_check(&desc, &bad), VV_EINVAL);
}

static void test_copy_is_deep(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    vv_time items[] = {{VV_UNIT_EPOCH, 4, 0}};
    opts from_c = {.path = "literal", .milestones = {items, 1}}, copy, second;
    assert_ok(vv_opts_copy(&desc, &copy, &from_c));
    assert_string_equal(copy.path, "literal");
    assert_true(copy.path != from_c.path && copy.milestones.items != items);
    assert_null(copy.label);
    assert_ok(vv_opts_copy(&desc, &second, &copy));
    vv_opts_fini(&desc, &copy);
    assert_string_equal(second.path, "literal");
    assert_int_equal(second.milestones.items[0].count, 4);
    vv_opts_fini(&desc, &second);
    assert_int_equal(vv_memory_live_count(), blocks);
}

static void test_json(void **state)
{
    (void)state;
    opts o;
    vv_str s = {0};
    assert_ok(vv_opts_init(&desc, &o));
    assert_ok(vv_opts_set(&desc, &o, "gain", "inf"));
    vv_opts_to_json(&desc, &o, &s);
    assert_ok(vv_str_status(&s));
    assert_string_equal(vv_str_text(&s),
                        "{\"alpha\":0.2,\"count\":3,\"enabled\":true,\"path\":null,"
                        "\"label\":\"a \\\"b\\\"\",\"mode\":\"nearest\",\"warmup\":\"0.1dur\","
                        "\"milestones\":[\"10ep\",\"20ep\"],\"free_number\":-0.001,"
                        "\"length\":\"none\",\"gain\":\"inf\"}");
    vv_str_clear(&s);
    vv_desc_to_json(&desc, &s);
    assert_ok(vv_str_status(&s));
    json_t *root = json_loads(vv_str_text(&s), 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "name")), "mixup");
    json_t *list = json_object_get(root, "fields");
    assert_int_equal(json_array_size(list), 11);
    json_t *alpha = json_array_get(list, 0), *mode = json_array_get(list, 5);
    assert_true(json_number_value(json_object_get(alpha, "max")) == 10.0);
    assert_string_equal(json_string_value(json_object_get(alpha, "default")), "0.2");
    assert_string_equal(json_string_value(json_object_get(mode, "type")), "choice");
    assert_int_equal(json_array_size(json_object_get(mode, "choices")), 3);
    assert_true(json_is_null(json_object_get(json_array_get(list, 3), "default")));
    json_decref(root);
    vv_str_fini(&s);
    vv_opts_fini(&desc, &o);
}

static vv_status use_everything(void)
{
    vv_status status = VV_OK;
    opts o = {0}, copy = {0};
    vv_str s = {0};
    VV_GO(vv_opts_init(&desc, &o));
    VV_GO(vv_opts_set_all(&desc, &o, "path=p,milestones=[1ep,2ep],label=l"));
    VV_GO(vv_opts_copy(&desc, &copy, &o));
    VV_GO(vv_opts_get(&desc, &copy, "milestones", &s));
    vv_desc_to_json(&desc, &s);
    VV_GO(vv_str_status(&s));
out:
    vv_str_fini(&s);
    vv_opts_fini(&desc, &copy);
    vv_opts_fini(&desc, &o);
    return status;
}

static void test_each_allocation_failing(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    int n = 1;
    for (;; n++) {
        vv_error_clear();
        vv_memory_fail_at((uint64_t)n);
        vv_status status = use_everything();
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), blocks);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
        assert_true(vv_error()[0] != '\0');
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_set_and_get),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_set_all),
        cmocka_unit_test(test_check_of_structs_filled_in_c),
        cmocka_unit_test(test_copy_is_deep),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
