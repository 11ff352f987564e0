/* test_yaml_tree.c - a document becomes a tree with the lines of its keys; what recipes leave out
 * of YAML is refused with file and line; an override sets exactly one place of the tree; every
 * failing allocation gives a status and leaves nothing behind. */
#include "vv_test.h"

#include "recipe/yaml_tree.h"

static vvi_yaml *parsed(const char *text)
{
    vvi_yaml *root = NULL;
    assert_ok(vvi_yaml_parse(&root, text, strlen(text), "r.yaml"));
    return root;
}

/* The tree in one line: {key: value, ...} and [a, b]. */
static void show(const vvi_yaml *node, char *out, size_t room)
{
    const size_t at = strlen(out);
    if (node->kind == VVI_YAML_TEXT) {
        snprintf(out + at, room - at, "%s", node->text);
        return;
    }
    const bool is_map = node->kind == VVI_YAML_MAP;
    snprintf(out + at, room - at, is_map ? "{" : "[");
    for (int i = 0; i < node->count; i++) {
        const size_t end = strlen(out);
        snprintf(out + end, room - end, "%s%s%s", i ? ", " : "", is_map ? node->keys[i] : "",
                 is_map ? ": " : "");
        show(node->items[i], out, room);
    }
    const size_t end = strlen(out);
    snprintf(out + end, room - end, is_map ? "}" : "]");
}

static void assert_shows(const vvi_yaml *root, const char *expected)
{
    char text[1024] = "";
    show(root, text, sizeof text);
    assert_string_equal(text, expected);
}

static void reads_maps_lists_and_lines(void **state)
{
    (void)state;
    vvi_yaml *root = parsed("# a recipe\n"
                            "model:\n"
                            "  name: mlp\n"
                            "\n"
                            "  width: 8\n"
                            "t: [0.5dur, '0.7dur']\n"
                            "list:\n"
                            "  - a\n"
                            "  - b: {c: 1}\n"
                            "empty:\n"
                            "quoted: \"a\\tb\"\n");
    assert_shows(root, "{model: {name: mlp, width: 8}, t: [0.5dur, 0.7dur], "
                       "list: [a, {b: {c: 1}}], empty: , quoted: a\tb}");
    const vvi_yaml *model = vvi_yaml_get(root, "model");
    assert_int_equal(model->line, 2); /* of the key, not of the first setting */
    assert_int_equal(vvi_yaml_get(model, "width")->line, 5);
    const vvi_yaml *list = vvi_yaml_get(root, "list");
    assert_int_equal(list->line, 7);
    assert_int_equal(list->items[1]->line, 9);
    assert_int_equal(vvi_yaml_get(root, "empty")->line, 10);
    assert_null(vvi_yaml_get(root, "none"));
    assert_null(vvi_yaml_get(list, "b"));
    vv_str flat = {0};
    assert_ok(vvi_yaml_flat(vvi_yaml_get(root, "t"), &flat));
    assert_string_equal(vv_str_text(&flat), "[0.5dur, 0.7dur]");
    assert_fails(vvi_yaml_flat(model, &flat), VV_EINVAL);
    vv_str_fini(&flat);
    vvi_yaml_free(root);
    root = parsed("");
    assert_shows(root, "{}");
    vvi_yaml_free(root);
    root = parsed("# nothing but a comment\n");
    assert_shows(root, "{}");
    vvi_yaml_free(root);
}

static void refuses(const char *text, size_t length, const char *sentence)
{
    vvi_yaml *root = NULL;
    vv_error_clear();
    assert_int_equal(vvi_yaml_parse(&root, text, length, "r.yaml"), VV_EFORMAT);
    assert_null(root);
    assert_says(sentence);
}

static void refuses_what_recipes_leave_out(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a: 1\nb: &x 2\n", "r.yaml:2: anchors and aliases are not supported in recipes"},
        {"a: &x {b: 1}\n", "r.yaml:1: anchors and aliases"},
        {"a: &x [1]\n", "r.yaml:1: anchors and aliases"},
        {"a: 1\n\nb: *x\n", "r.yaml:3: anchors and aliases"},
        {"&k a: 1\n", "r.yaml:1: anchors and aliases"},
        {"*k : 1\n", "r.yaml:1: anchors and aliases"},
        {"a: 1\n<<: *x\n", "r.yaml:2: anchors and aliases"},
        {"a: !!int 3\n", "r.yaml:1: tags (`!...`) are not supported in recipes"},
        {"a: !mine {b: 1}\n", "r.yaml:1: tags"},
        {"!!str a: 1\n", "r.yaml:1: tags"},
        {"a: 1\nb: 2\na: 3\n", "r.yaml:3: 'a' is given twice"},
        {"m:\n  a: 1\n  a: 2\n", "r.yaml:3: 'a' is given twice"},
        {"a: 1\n[b, c]: 2\n", "r.yaml:2: a key must be a plain word"},
        {"{{a: 1}: 2}\n", "r.yaml:1: a key must be a plain word"},
        {"a: 1\n---\nb: 2\n", "r.yaml:2: a recipe is one document"},
        {"a: 1\nb: \"x\\0y\"\n", "r.yaml:2: a NUL character has no place in a recipe"},
        {"\"x\\0y\": 1\n", "r.yaml:1: a NUL character"},
        {"a: [1\nb: 2\n", "r.yaml:2: not valid YAML: did not find expected ',' or ']' while parsing a "
                          "flow sequence"},
        {"a: 1\n\tb: 2\n", "r.yaml:2: not valid YAML: "},
        {"a: b: c\n", "r.yaml:1: not valid YAML: mapping values are not allowed"},
        /* libyaml gives no line for a byte that is no character */
        {"a: 1\nb: 2\nc: \xff\n", "r.yaml:3: not valid YAML: invalid leading UTF-8 octet"},
        {"a: 1\nb: \x01\n", "r.yaml:2: not valid YAML: control characters are not allowed"},
        {"a: [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n", "r.yaml:1: nested too deeply"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuses(cases[i][0], strlen(cases[i][0]), cases[i][1]);
    refuses("a: 1\nb: \0 2\n", 12, "r.yaml:2: not valid YAML: control characters");
}

/* Depth, entries and bytes are bounded whatever is fed. */
static void refuses_huge_inputs(void **state)
{
    (void)state;
    const size_t bytes = (1 << 20) + 1;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, '[', 100000);
    refuses(text, 100000, "nested too deeply");
    for (size_t i = 0; i < 100000; i += 4)
        memcpy(text + i, "- a\n", 4);
    refuses(text, 100000, "r.yaml:4096: too many entries for a recipe");
    memset(text, 'x', bytes);
    refuses(text, bytes, "r.yaml: 1048577 bytes are too many for a recipe; at most 1048576");
    vvi_yaml *root;
    assert_ok(vvi_yaml_parse(&root, text, bytes - 1, "r.yaml"));
    assert_int_equal(strlen(root->text), bytes - 1);
    vvi_yaml_free(root);
    free(text);
}

static void overrides_to(const char *text, const char *assignment, const char *expected)
{
    vvi_yaml *root = parsed(text);
    assert_ok(vvi_yaml_override(root, assignment));
    assert_shows(root, expected);
    vvi_yaml_free(root);
}

static void sets_one_place(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"a: 1\nb: 2\n", "a=3", "{a: 3, b: 2}"},
        {"a: 1\n", "b=2", "{a: 1, b: 2}"},
        {"a: 1\n", "b.c.d=2", "{a: 1, b: {c: {d: 2}}}"},
        {"a: {b: 1, c: 2}\n", "a.b=[1, 2]", "{a: {b: [1, 2], c: 2}}"},
        {"a: {b: 1}\n", "a=x", "{a: x}"},
        {"a: 1\n", "a=", "{a: }"},
        {"a: 1\n", "a= # nothing", "{a: }"},
        {"a: 1\n", "a=b=c", "{a: b=c}"},
        {"a: 1\n", "a={}", "{a: {}}"},
        /* a plain name becomes a map */
        {"optimizer: sgd\n", "optimizer.lr=0.1", "{optimizer: {name: sgd, lr: 0.1}}"},
        {"methods:\n", "methods.x.y=1", "{methods: {x: {y: 1}}}"},
        /* lists by number */
        {"s: [a, b]\n", "s.1=c", "{s: [a, c]}"},
        {"s: [a, b]\n", "s.1.x=1", "{s: [a, {name: b, x: 1}]}"},
        {"s: [{name: a, t: [1, 2]}]\n", "s.0.t.1=3", "{s: [{name: a, t: [1, 3]}]}"},
        /* lists right below the root also by name */
        {"s: [a, b]\n", "s.b.x=1", "{s: [a, {b: {x: 1}}]}"},
        {"s: [a, b]\n", "s.b=off", "{s: [a, {b: off}]}"},
        {"s: [{name: a, x: 1}]\n", "s.a.y=2", "{s: [{a: {x: 1, y: 2}}]}"},
        {"s: [{x: 1, name: a}]\n", "s.a=off", "{s: [{a: off}]}"},
        {"s: [{a: {x: 1}}, b]\n", "s.a.x=2", "{s: [{a: {x: 2}}, b]}"},
        {"s: [{a: }, b]\n", "s.a.x=2", "{s: [{a: {x: 2}}, b]}"},
        {"s: [a]\n", "s.c={x: 1}", "{s: [a, {c: {x: 1}}]}"},
        {"s: []\n", "s.c.x=1", "{s: [{c: {x: 1}}]}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        overrides_to(cases[i][0], cases[i][1], cases[i][2]);
    vvi_yaml *root = parsed("a: {b: 1}\n");
    assert_ok(vvi_yaml_override(root, "a.c={d: 1}"));
    const vvi_yaml *c = vvi_yaml_get(vvi_yaml_get(root, "a"), "c");
    assert_int_equal(c->line, 0);
    assert_int_equal(vvi_yaml_get(c, "d")->line, 0);
    vvi_yaml_free(root);
}

static void refuses_bad_overrides(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a", "'a' is not an override; write key=value"},
        {"=1", "'=1' is not an override; write key=value"},
        {"a..b=1", "'a..b=1' is not an override; a part of the key is empty"},
        {".a=1", "a part of the key is empty"},
        {"a.=1", "a part of the key is empty"},
        {"s.7=1", "'s.7=1': there is no entry 7; the list has 2, counted from 0"},
        {"s.99999999999999999999=1", "there is no entry 99999999999999999999"},
        {"m.t.x=1", "'m.t.x=1': entries of a list are given by number, from 0; 'x' is none"},
        {"a=[1", "a: not valid YAML: "},
        {"a.b=&x 1", "a.b: anchors and aliases"},
        {"a=@", "a: not valid YAML: found character that cannot start any token"},
        {"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1", "the key has more than 16 parts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vvi_yaml *root = parsed("a: 1\ns: [x, y]\nm: {t: [1, 2]}\n");
        vv_error_clear();
        assert_int_not_equal(vvi_yaml_override(root, cases[i][0]), VV_OK);
        assert_says(cases[i][1]);
        vvi_yaml_free(root);
    }
}

static vv_status read_and_override(void)
{
    static const char text[] = "a: {b: 1}\ns: [x, {name: y, k: [1, 2]}, z]\no: sgd\n";
    static const char *const overrides[] = {"a.c.d={e: [1, 2]}", "s.x.k=1", "s.y=off", "s.new.k=2",
                                            "o.lr=1", "a.b=", "s.2.w=3"};
    vvi_yaml *root = NULL;
    vv_status status = vvi_yaml_parse(&root, text, sizeof text - 1, "r.yaml");
    for (size_t i = 0; status == VV_OK && i < sizeof overrides / sizeof overrides[0]; i++)
        status = vvi_yaml_override(root, overrides[i]);
    if (status == VV_OK)
        assert_shows(root, "{a: {b: , c: {d: {e: [1, 2]}}}, s: [{x: {k: 1}}, {y: off}, "
                           "{name: z, w: 3}, {new: {k: 2}}], o: {name: sgd, lr: 1}}");
    vvi_yaml_free(root);
    return status;
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(read_and_override());
    const uint64_t allocations = vv_memory_alloc_count() - before;
    assert_true(allocations > 60);
    for (uint64_t n = 1; n <= allocations; n++) {
        vv_memory_fail_at(n);
        assert_fails(read_and_override(), VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_maps_lists_and_lines),
        cmocka_unit_test(refuses_what_recipes_leave_out),
        cmocka_unit_test(refuses_huge_inputs),
        cmocka_unit_test(sets_one_place),
        cmocka_unit_test(refuses_bad_overrides),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
