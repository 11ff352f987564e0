/* test_tokens.c - the set opens the file of its split; training cuts whole samples, evaluation
 * counts each token once; masks when asked to; what is missing or damaged is told in a sentence;
 * its shape is known without the files. */
#include "vv_test_files.h"

#include <vivace/token_file.h>

#include "tokens.h"

static void write_tokens(const char *dir, const char *name, int32_t count)
{
    char path[1024];
    vv_tokens_writer *writer;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_ok(vv_tokens_writer_new(&writer, path, 300, 299, NULL));
    for (int32_t i = 0; i < count; i++)
        assert_ok(vv_tokens_writer_add(writer, &i, 1));
    assert_ok(vv_tokens_writer_finish(writer, NULL));
    vv_tokens_writer_free(writer);
}

static vv_status open_with(vv_dataset **set, const char *dir, const char *settings,
                           const char *split)
{
    vv_token_set_opts opts;
    *set = NULL;
    VV_TRY(vv_opts_init(&vv_dataset_tokens.desc, &opts));
    vv_status status = vv_opts_set(&vv_dataset_tokens.desc, &opts, "dir", dir);
    if (status == VV_OK)
        status = vv_opts_set_all(&vv_dataset_tokens.desc, &opts, settings);
    if (status == VV_OK)
        status = vv_dataset_open(set, &vv_dataset_tokens, &opts, split);
    vv_opts_fini(&vv_dataset_tokens.desc, &opts);
    return status;
}

static void opens_the_file_of_its_split(void **state)
{
    (void)state;
    char dir[256];
    int32_t input[16], target[16];
    temp_dir(dir);
    write_tokens(dir, "train.tokens", 100); /* and the end token: 101 */
    write_tokens(dir, "eval.tokens", 40);
    vv_dataset *train, *eval;
    assert_ok(open_with(&train, dir, "seq=16", "train"));
    assert_ok(open_with(&eval, dir, "seq=16", "eval"));
    assert_int_equal(train->count, 6); /* 100 pairs */
    assert_int_equal(eval->count, 3);  /* 40 pairs, the last sample padded */
    assert_null(train->tokenizer);
    assert_int_equal(train->spec.vocabulary, 300);
    assert_ok(vv_dataset_read(train, 5, input, target));
    assert_int_equal(input[15], 95);
    assert_int_equal(target[15], 96);
    assert_ok(vv_dataset_read(eval, 2, input, target));
    assert_int_equal(input[7], 39);
    assert_int_equal(target[7], 299);
    assert_int_equal(input[8], 0);
    assert_int_equal(target[8], -100);
    vv_dataset_free(train);
    vv_dataset_free(eval);
    write_file(dir, "tokenizer.json", "{}", 2); /* found beside the tokens */
    assert_ok(open_with(&train, dir, "seq=16", "train"));
    assert_non_null(strstr(train->tokenizer, "/tokenizer.json"));
    vv_dataset_free(train);

    char settings[400];
    snprintf(settings, sizeof settings, "seq=16,train=%s/eval.tokens", dir);
    assert_ok(open_with(&train, "", settings, "train"));
    assert_int_equal(train->count, 2);
    vv_dataset_free(train);
    remove_dir(dir);
}

static void masks_when_asked_to(void **state)
{
    (void)state;
    char dir[256];
    temp_dir(dir);
    write_tokens(dir, "train.tokens", 200);
    vv_dataset *set;
    assert_ok(open_with(&set, dir, "seq=200,mask=0.5,special_ids=[10,11]", "train"));
    assert_int_equal(set->spec.classes, 301);
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_loader *loader;
    vv_batch *batch;
    assert_ok(vv_loader_new(&loader, set, &opts));
    assert_ok(vv_loader_next(loader, &batch));
    int chosen = 0;
    for (int i = 0; i < 200; i++) {
        const int32_t target = ((int32_t *)batch->target->data)[i];
        assert_int_equal(target, target == -100 ? -100 : i);
        chosen += target != -100;
    }
    assert_in_range(chosen, 65, 135); /* of 198: 99 +- 7 */
    assert_int_equal(((int32_t *)batch->target->data)[10], -100);
    assert_int_equal(((int32_t *)batch->target->data)[11], -100);
    vv_batch_free(batch);
    vv_loader_free(loader);
    vv_dataset_free(set);
    assert_fails(open_with(&set, dir, "seq=200,mask=0.5,special_ids=300", "train"), VV_EINVAL);
    assert_says("special_ids");
    remove_dir(dir);
}

static void tells_what_is_wrong(void **state)
{
    (void)state;
    char dir[256];
    vv_dataset *set;
    temp_dir(dir);
    assert_fails(open_with(&set, dir, "", "train"), VV_ENOTFOUND);
    assert_says("train.tokens");
    assert_fails(open_with(&set, "/nonexistent", "", "train"), VV_ENOTFOUND);
    assert_says("/nonexistent");
    write_file(dir, "train.tokens", "words, words, words", 19);
    assert_fails(open_with(&set, dir, "", "train"), VV_EFORMAT);
    assert_says("train.tokens");
    write_tokens(dir, "train.tokens", 100);
    assert_fails(open_with(&set, dir, "", "train"), VV_EINVAL); /* seq 1024 */
    assert_says("lower seq");
    assert_fails(open_with(&set, dir, "seq=16,vocabulary=299", "train"), VV_EINVAL);
    assert_says("vocabulary 299 is too small");
    assert_fails(open_with(&set, dir, "seq=16", "test"), VV_EINVAL);
    assert_null(set);
    remove_dir(dir);
}

static void shape_is_known_without_the_files(void **state)
{
    (void)state;
    vv_token_set_opts opts;
    vv_sample_spec spec;
    int64_t count;
    assert_ok(vv_opts_init(&vv_dataset_tokens.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_dataset_tokens.desc, &opts, "dir=/nonexistent,seq=64,mask=0.15"));
    assert_ok(vv_dataset_tokens.shape(&opts, "train", &spec, &count));
    assert_int_equal(spec.tokens, 64);
    assert_int_equal(spec.classes, 50258);
    assert_true(count > 1000);
    assert_ok(vv_opts_set_all(&vv_dataset_tokens.desc, &opts, "vocabulary=300,mask_id=5"));
    assert_ok(vv_dataset_tokens.shape(&opts, "eval", &spec, &count));
    assert_int_equal(spec.classes, 300);
    char dir[256];
    temp_dir(dir);
    write_tokens(dir, "train.tokens", 130);
    assert_ok(vv_opts_set(&vv_dataset_tokens.desc, &opts, "dir", dir));
    assert_ok(vv_dataset_tokens.shape(&opts, "train", &spec, &count));
    assert_int_equal(count, 2);
    vv_opts_fini(&vv_dataset_tokens.desc, &opts);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_the_file_of_its_split),
        cmocka_unit_test(masks_when_asked_to),
        cmocka_unit_test(tells_what_is_wrong),
        cmocka_unit_test(shape_is_known_without_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
