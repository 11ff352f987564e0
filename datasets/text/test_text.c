/* test_text.c - samples are the text's tokens and the ones behind them; the tokens are made once,
 * made again when text, division or tokenizer change or the file in the cache is damaged; masks
 * when asked to; what cannot be is told in a sentence; the shape is known without the text; order
 * and position are the loader's; each allocation may fail. */
#include "vv_test_files.h"

#include <vivace/corpus.h>

#include "text.h"

static char dir[256], cache[300];

static int set_up(void **state)
{
    (void)state;
    temp_dir(dir);
    snprintf(cache, sizeof cache, "%s/cache", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_dir(dir);
    return 0;
}

static void put(const char *name, const char *text)
{
    write_file(dir, name, text, strlen(text));
}

static vv_status open_with(vv_dataset **set, const char *settings, const char *split)
{
    vv_text_set_opts opts;
    *set = NULL;
    VV_TRY(vv_opts_init(&vv_dataset_text.desc, &opts));
    vv_status status = vv_opts_set(&vv_dataset_text.desc, &opts, "dir", dir);
    if (status == VV_OK)
        status = vv_opts_set(&vv_dataset_text.desc, &opts, "cache", cache);
    if (status == VV_OK)
        status = vv_opts_set_all(&vv_dataset_text.desc, &opts, settings);
    if (status == VV_OK)
        status = vv_dataset_open(set, &vv_dataset_text, &opts, split);
    vv_opts_fini(&vv_dataset_text.desc, &opts);
    return status;
}

static void reads_the_text(void **state)
{
    (void)state;
    vv_dataset *train, *eval;
    int32_t input[4], target[4];
    put("a.txt", "abcdefghijklmnopqrst"); /* 18 bytes train, 2 evaluate */
    assert_ok(open_with(&train, "seq=4", "train"));
    assert_int_equal(train->count, 4); /* 17 pairs */
    assert_int_equal(train->spec.classes, 256);
    assert_int_equal(train->spec.tokens, 4);
    assert_string_equal(train->tokenizer, "bytes");
    for (int i = 0; i < 4; i++) {
        assert_ok(vv_dataset_read(train, i, input, target));
        for (int k = 0; k < 4; k++) {
            assert_int_equal(input[k], 'a' + 4 * i + k);
            assert_int_equal(target[k], 'a' + 4 * i + k + 1);
        }
    }
    vv_dataset_free(train);
    assert_ok(open_with(&eval, "seq=4", "eval"));
    assert_int_equal(eval->count, 1);
    assert_ok(vv_dataset_read(eval, 0, input, target));
    assert_int_equal(input[0], 's');
    assert_int_equal(target[0], 't');
    assert_int_equal(target[1], -100);
    vv_dataset_free(eval);
}

static int opened(const char *settings)
{
    vv_dataset *set;
    assert_ok(open_with(&set, settings, "train"));
    vv_dataset_free(set);
    return count_files(cache);
}

static void tokens_are_made_once(void **state)
{
    (void)state;
    put("a.txt", "one text of some length, and then some more of it");
    assert_int_equal(opened("seq=4"), 2);
    assert_int_equal(opened("seq=8,stride=2"), 2); /* samples are cut from the same file */
    assert_int_equal(opened("seq=4,validation=0.2"), 4);
    put("b.txt", "another");
    assert_int_equal(opened("seq=4"), 6);
    put("a.txt", "one text of some length, and then some more of IT");
    assert_int_equal(opened("seq=4"), 8);
    put("a.txt", "one text of some length, and then some more of it");
    assert_int_equal(opened("seq=4"), 8); /* known again */
    put("tokenizer.json",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}, "
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}}");
    char settings[400];
    vv_dataset *set;
    snprintf(settings, sizeof settings, "seq=4,tokenizer=%s/tokenizer.json", dir);
    assert_fails(open_with(&set, settings, "train"), VV_EFORMAT);
    assert_says("has no token in");
    put("a.txt", "ababababababab");
    put("b.txt", "bbbbbbbbbbb");
    assert_int_equal(opened(settings), 10);
    assert_int_equal(opened("seq=4"), 12);
}

/* Every file in the cache loses its end; it is made again. */
static void damaged_files_are_made_again(void **state)
{
    (void)state;
    put("a.txt", "one text of some length, and then some more of it");
    assert_int_equal(opened("seq=4"), 2);
    DIR *list = opendir(cache);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
        assert_int_equal(truncate(path, 300), 0);
    }
    closedir(list);
    assert_int_equal(opened("seq=4"), 2);
    vv_dataset *set;
    assert_ok(open_with(&set, "seq=4", "eval"));
    vv_dataset_free(set);
}

static void masks_when_asked_to(void **state)
{
    (void)state;
    vv_dataset *set;
    put("a.txt", "one text of some length, and then some more of it, which is not short at all");
    assert_ok(open_with(&set, "seq=16,mask=0.15", "train"));
    assert_int_equal(set->spec.vocabulary, 257); /* and the mask */
    vv_dataset_free(set);
}

static void what_cannot_be(void **state)
{
    (void)state;
    vv_dataset *set;
    assert_fails(open_with(&set, "", "train"), VV_ENOTFOUND);
    assert_says("data set text: ");
    assert_says("no file with text in it matches");
    put("a.txt", "short");
    assert_fails(open_with(&set, "seq=4,validation=0", "eval"), VV_EINVAL);
    assert_says("no text is for evaluation");
    assert_fails(open_with(&set, "seq=100", "train"), VV_EINVAL);
    assert_fails(open_with(&set, "tokenizer=/nowhere", "train"), VV_ENOTFOUND);
    assert_fails(open_with(&set, "", "test"), VV_EINVAL);
    write_file(dir, "b.txt", "caf\xe9", 4);
    assert_fails(open_with(&set, "seq=2", "train"), VV_EFORMAT);
    assert_says("b.txt: byte 3 is 0xe9, which is not UTF-8 there");
    assert_null(set);
}

static void shape_without_the_text(void **state)
{
    (void)state;
    vv_text_set_opts opts;
    vv_sample_spec spec;
    int64_t count;
    assert_ok(vv_opts_init(&vv_dataset_text.desc, &opts));
    assert_ok(vv_opts_set(&vv_dataset_text.desc, &opts, "dir", "/nowhere/at/all"));
    assert_ok(vv_opts_set(&vv_dataset_text.desc, &opts, "seq", "32"));
    assert_ok(vv_dataset_text.shape(&opts, "train", &spec, &count));
    assert_int_equal(spec.classes, 256);
    assert_int_equal(spec.tokens, 32);
    assert_int_equal(count, 1000000);
    vv_opts_fini(&vv_dataset_text.desc, &opts);
}

/* The first token of each row of a batch. */
static void first_tokens(vv_loader *loader, int32_t out[2])
{
    vv_batch *batch;
    assert_ok(vv_loader_next(loader, &batch));
    assert_non_null(batch);
    for (int i = 0; i < 2; i++)
        out[i] = ((const int32_t *)batch->input->data)[4 * i];
    vv_batch_free(batch);
}

static void the_loader_gives_order_and_position(void **state)
{
    (void)state;
    vv_dataset *set;
    vv_loader *loader;
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    int32_t first[8][2], again[2];
    char text[100];
    bool ordered = true;
    for (int i = 0; i < 99; i++)
        text[i] = (char)(' ' + i % 94);
    text[99] = '\0';
    put("a.txt", text);
    assert_ok(open_with(&set, "seq=4,validation=0", "train"));
    opts.batch_size = 2;
    opts.shuffle = true;
    opts.seed = 7;
    assert_ok(vv_loader_new(&loader, set, &opts));
    for (int i = 0; i < 8; i++) {
        first_tokens(loader, first[i]);
        ordered = ordered && first[i][0] == ' ' + 8 * i;
    }
    assert_false(ordered);
    assert_ok(vv_loader_seek(loader, 0, 5));
    first_tokens(loader, again);
    assert_memory_equal(again, first[5], sizeof again);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    put("a.txt", "one text of some length, and then some more of it");
    const int64_t live = vv_memory_live_count();
    for (uint64_t n = 1;; n++) {
        vv_dataset *set;
        vv_memory_fail_at(n);
        const vv_status status = open_with(&set, "seq=4", "train");
        vv_memory_fail_at(0);
        if (status == VV_OK) {
            vv_dataset_free(set);
            assert_true(n > 30);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
        assert_null(set);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

/* The corpora in VIVACE_DATA, by name, with the numbers of tokens that are published. */
static void corpora_by_name(void **state)
{
    (void)state;
    const char *root = getenv("VIVACE_DATA");
    char path[1024], settings[400];
    vv_dataset *set;
    snprintf(path, sizeof path, "%s/tinyshakespeare/input.txt", root ? root : "");
    if (!root || access(path, R_OK) != 0)
        skip();
    assert_ok(open_with(&set, "dir=,seq=256", "train"));
    assert_int_equal(set->count, (1003854 - 1) / 256);
    vv_dataset_free(set);
    snprintf(path, sizeof path, "%s/novels-en/novels.valid.txt", root);
    if (access(path, R_OK) != 0)
        skip();
    snprintf(settings, sizeof settings,
             "dir=,corpus=novels-en,separator=\\n\\n\\n\\n,seq=100,by_document=false");
    assert_ok(open_with(&set, settings, "eval"));
    assert_int_equal(set->count, (1220056 - 2 * 4 - 1 + 99) / 100); /* 3 books, 2 separators */
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_the_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tokens_are_made_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_files_are_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(masks_when_asked_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shape_without_the_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_loader_gives_order_and_position, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_each_allocation_failing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(corpora_by_name, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
