/* test_glue.c - sentences and pairs become rows of tokens with their special tokens, padding and
 * segments; what does not fit is cut from the longer sentence; labels are classes by number or
 * name, or numbers; columns go by name or number; whatever is wrong with a line is told with file
 * and line. */
#include "vv_test_files.h"

#include "glue.h"
#include "glue_table.h"

static vv_status open_with(vv_dataset **set, const char *dir, const char *settings,
                           const char *split)
{
    vv_glue_opts opts;
    *set = NULL;
    VV_TRY(vv_opts_init(&vv_dataset_glue.desc, &opts));
    vv_status status = vv_opts_set(&vv_dataset_glue.desc, &opts, "dir", dir);
    if (status == VV_OK)
        status = vv_opts_set_all(&vv_dataset_glue.desc, &opts, settings);
    if (status == VV_OK)
        status = vv_dataset_open(set, &vv_dataset_glue, &opts, split);
    vv_opts_fini(&vv_dataset_glue.desc, &opts);
    return status;
}

static void write_text(const char *dir, const char *name, const char *text)
{
    write_file(dir, name, text, strlen(text));
}

/* ids against text: a letter is itself, '^' cls (256), '|' sep (257), '_' pad (258). */
static void assert_row(vv_dataset *set, int64_t index, const char *want, const int *segments)
{
    static const char specials[] = "^|_";
    int32_t input[64];
    const int64_t seq = (int64_t)strlen(want);
    assert_int_equal(set->spec.tokens, seq);
    assert_ok(vv_dataset_read(set, index, input, NULL));
    for (int64_t t = 0; t < seq; t++) {
        const char *special = strchr(specials, want[t]);
        assert_int_equal(input[t], special ? 256 + (special - specials) : want[t]);
        if (segments)
            assert_int_equal(input[seq + t], segments[t]);
    }
}

static void single_sentences(void **state)
{
    (void)state;
    char dir[256];
    int32_t label;
    vv_dataset *set;
    temp_dir(dir);
    write_text(dir, "train.tsv", "sentence\tlabel\nabc\t1\r\n\t0\nabcdefghij\t1\n");
    write_text(dir, "dev.tsv", "\xef\xbb\xbfsentence\tlabel\nxy\t0");
    assert_ok(open_with(&set, dir, "seq=8,cls=256,sep=257,pad=258", "train"));
    assert_int_equal(set->count, 3);
    assert_int_equal(set->spec.classes, 2);
    assert_int_equal(set->spec.vocabulary, 259);
    assert_int_equal(set->spec.input_ndim, 1);
    assert_row(set, 0, "^abc|___", NULL);
    assert_row(set, 1, "^|______", NULL);
    assert_row(set, 2, "^abcdef|", NULL);
    assert_ok(vv_dataset_read(set, 0, NULL, &label));
    assert_int_equal(label, 1);
    vv_dataset_free(set);
    assert_ok(open_with(&set, dir, "seq=4,pad=258", "eval"));
    assert_int_equal(set->count, 1);
    assert_row(set, 0, "xy__", NULL);
    vv_dataset_free(set);
    assert_ok(open_with(&set, dir, "seq=1,cls=256,sep=257,vocabulary=300", "eval"));
    assert_int_equal(set->spec.vocabulary, 300);
    assert_row(set, 0, "^", NULL);
    vv_dataset_free(set);
    remove_dir(dir);
}

static void pairs_by_number_with_names(void **state)
{
    (void)state;
    static const int segments[3][12] = {{0, 0, 0, 0, 0, 1, 1, 1, -1, -1, -1, -1},
                                        {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1},
                                        {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}};
    char dir[256];
    int32_t label;
    vv_dataset *set;
    temp_dir(dir);
    write_text(dir, "train.tsv", "7\tabc\tyes\tde\n8\tabcdefghi\tno\tklmnopqrstuv\n"
                                 "9\tabcdefghijkl\tno\txy\n");
    assert_ok(open_with(&set, dir,
                        "header=false,text=2,pair=4,label=3,labels=[no, yes],segments=true,seq=12,"
                        "cls=256,sep=257,pad=258",
                        "train"));
    assert_int_equal(set->spec.input_ndim, 2);
    assert_int_equal(set->spec.input_shape[0], 2);
    assert_int_equal(set->spec.input_shape[1], 12);
    assert_int_equal(set->spec.classes, 2);
    assert_string_equal(set->class_names[1], "yes");
    assert_row(set, 0, "^abc|de|____", segments[0]);
    assert_row(set, 1, "^abcde|klmn|", segments[1]);
    assert_row(set, 2, "^abcdefg|xy|", segments[2]);
    static const int32_t classes[] = {1, 0, 0};
    for (int64_t i = 0; i < 3; i++) {
        assert_ok(vv_dataset_read(set, i, NULL, &label));
        assert_int_equal(label, classes[i]);
    }
    vv_dataset_free(set);
    remove_dir(dir);
}

static void lengths_follow_the_longer(void **state)
{
    (void)state;
    for (int64_t room = 0; room < 9; room++)
        for (int64_t a = 0; a < 12; a++)
            for (int64_t b = 0; b < 12; b++) {
                const vvi_glue_layout layout = {room, -1, -1, 0, false};
                int64_t first = a, second = b, x = a, y = b;
                while (x + y > room) { /* the rule, word by word */
                    if (x > y)
                        x--;
                    else
                        y--;
                }
                vvi_glue_fit(&layout, true, &first, &second);
                assert_int_equal(first, x);
                assert_int_equal(second, y);
            }
}

static void numbers_to_be_met(void **state)
{
    (void)state;
    char dir[256];
    float label;
    vv_dataset *set;
    temp_dir(dir);
    write_text(dir, "train.tsv", "a\tb\tscore\nx\ty\t4.25\nx\ty\t-1e-1\n");
    assert_ok(open_with(&set, dir, "text=a,pair=b,label=score,classes=0,seq=4", "train"));
    assert_int_equal(set->spec.target_dtype, VV_F32);
    assert_int_equal(set->spec.classes, 0);
    assert_ok(vv_dataset_read(set, 0, NULL, &label));
    assert_near(label, 4.25, 0, 0);
    assert_ok(vv_dataset_read(set, 1, NULL, &label));
    assert_near(label, -0.1, 1e-7, 0);
    vv_dataset_free(set);
    remove_dir(dir);
}

static void tells_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *table, *settings, *text;
    } cases[] = {
        {"sentence\tlabel\na\t1\nb\t1\tc\n", "", "train.tsv:3: expected 2 columns between tabs, "
                                                   "found 3"},
        {"sentence\tlabel\na\t1\n\nb\t1\n", "", "train.tsv:3: expected 2 columns"},
        {"sentence\tlabel\na\t1\nb\t2\n", "", "train.tsv:3: label 2, expected 0 to 1"},
        {"sentence\tlabel\na\tgood\n", "", "train.tsv:2: label \"good\" is no number"},
        {"sentence\tlabel\na\tgood\n", "labels=[bad, fine]", "\"good\" is none of those"},
        {"sentence\tlabel\na\t\n", "", "train.tsv:2: a label of 0 characters"},
        {"sentence\tlabel\na\tnan\n", "classes=0", "train.tsv:2: label \"nan\""},
        {"sentence\tlabel\n", "", "no lines with samples"},
        {"", "", "train.tsv: the file is empty"},
        {"sentence\tlabel\na\t1\n", "label=lable", "label: no column \"lable\"; there are 2: "
                                                   "sentence, label"},
        {"a\t1\n", "header=false", "text: no column \"sentence\"; there are 2, told by number"},
        {"a\t1\n", "header=false,text=0", "no column \"0\""},
        {"a\t1\n", "header=false,text=3", "no column \"3\""},
        {"sentence\tlabel\na\t1\n", "cls=[CLS]", "cls: the tokenizer bytes has no token \"[CLS]\""},
        {"sentence\tlabel\na\t1\n", "vocabulary=255", "vocabulary 255 is too small"},
    };
    char dir[256];
    vv_dataset *set;
    temp_dir(dir);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        write_text(dir, "train.tsv", cases[c].table);
        assert_int_not_equal(open_with(&set, dir, cases[c].settings, "train"), VV_OK);
        assert_says(cases[c].text);
        assert_null(set);
    }
    assert_fails(open_with(&set, dir, "", "eval"), VV_ENOTFOUND);
    assert_says("dev.tsv");
    remove_dir(dir);
}

static void shape_is_known_without_the_files(void **state)
{
    (void)state;
    vv_glue_opts opts;
    vv_sample_spec spec;
    int64_t count;
    assert_ok(vv_opts_init(&vv_dataset_glue.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_dataset_glue.desc, &opts,
                              "dir=/nonexistent,seq=64,cls=256,segments=true,labels=a"));
    assert_ok(vv_dataset_glue.shape(&opts, "train", &spec, &count));
    assert_int_equal(spec.vocabulary, 257);
    assert_int_equal(spec.classes, 1);
    assert_int_equal(spec.input_shape[1], 64);
    assert_ok(vv_opts_set_all(&vv_dataset_glue.desc, &opts, "tokenizer=/nonexistent,classes=3"));
    assert_ok(vv_opts_set(&vv_dataset_glue.desc, &opts, "labels", ""));
    assert_ok(vv_dataset_glue.shape(&opts, "eval", &spec, &count));
    assert_int_equal(spec.vocabulary, 30522);
    assert_int_equal(spec.classes, 3);
    vv_opts_fini(&vv_dataset_glue.desc, &opts);
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    char dir[256];
    temp_dir(dir);
    write_text(dir, "train.tsv", "sentence\tlabel\nabc\tx\nabcdefghij\ty\n");
    const int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    for (uint64_t n = 1; status != VV_OK; n++) {
        vv_dataset *set;
        vv_memory_fail_at(n);
        status = open_with(&set, dir, "labels=[x, y],seq=8,cls=256", "train");
        vv_memory_fail_at(0);
        vv_dataset_free(set);
        assert_int_equal(vv_memory_live_count(), live);
        assert_in_range(n, 1, 1000);
    }
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_sentences),
        cmocka_unit_test(pairs_by_number_with_names),
        cmocka_unit_test(lengths_follow_the_longer),
        cmocka_unit_test(numbers_to_be_met),
        cmocka_unit_test(tells_file_and_line),
        cmocka_unit_test(shape_is_known_without_the_files),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
