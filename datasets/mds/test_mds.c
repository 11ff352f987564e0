/* test_mds.c - what a column holds decides what samples are: tokens with the next token or masked,
 * classes, numbers, images; on shards that the original package wrote. Wrong columns, token ids
 * and classes are told with the sample and the column. */
#include "vv_test_files.h"

#include "mds.h"
#include "vvi_config.h"

static int token(int64_t sample, int64_t place)
{
    return (int)((sample * 31 + place * 7) % 200);
}

static vv_status open_with(vv_dataset **set, const char *settings)
{
    vv_mds_set_opts opts;
    *set = NULL;
    VV_TRY(vv_opts_init(&vv_dataset_mds.desc, &opts));
    vv_status status = vv_opts_set(&vv_dataset_mds.desc, &opts, "dir",
                                   VV_SOURCE_ROOT "/tests/unit/data/mds");
    if (status == VV_OK)
        status = vv_opts_set_all(&vv_dataset_mds.desc, &opts, settings);
    if (status == VV_OK)
        status = vv_dataset_open(set, &vv_dataset_mds, &opts, "train");
    vv_opts_fini(&vv_dataset_mds.desc, &opts);
    return status;
}

static void next_tokens(void **state)
{
    (void)state;
    static const char *const settings[] = {"train=plain,vocabulary=200",
                                           "train=zstd,vocabulary=200,seq=9,pad_id=7",
                                           "train=gz,vocabulary=200,seq=4",
                                           "train=v1,vocabulary=200,seq=21"};
    static const int64_t seqs[] = {8, 9, 4, 21};
    for (int c = 0; c < 4; c++) {
        vv_dataset *set;
        int32_t input[21], target[21];
        if ((c == 1 && !VVI_HAVE_ZSTD) || (c == 2 && !VVI_HAVE_ZLIB))
            continue; /* this build cannot unpack it */
        assert_ok(open_with(&set, settings[c]));
        assert_int_equal(set->count, c == 3 ? 10 : 12);
        assert_int_equal(set->spec.tokens, seqs[c]);
        assert_int_equal(set->spec.classes, 200);
        for (int64_t i = 0; i < set->count; i++) {
            const int64_t length = (c == 3 ? 20 : 8) + i % 3;
            assert_ok(vv_dataset_read(set, i, input, target));
            for (int64_t t = 0; t < seqs[c]; t++) {
                assert_int_equal(input[t], t < length ? token(i, t) : c == 1 ? 7 : 0);
                assert_int_equal(target[t], t + 1 < length ? token(i, t + 1) : -100);
            }
        }
        vv_dataset_free(set);
    }
}

static void masked_tokens(void **state)
{
    (void)state;
    vv_dataset *set;
    assert_ok(open_with(&set, "train=plain,vocabulary=201,mask_id=200,mask=0.5,seq=9"));
    vv_loader_opts opts = VV_LOADER_DEFAULTS;
    vv_loader *loader;
    vv_batch *batch;
    assert_ok(vv_loader_new(&loader, set, &opts));
    assert_ok(vv_loader_next(loader, &batch));
    int chosen = 0;
    for (int64_t i = 0; i < 12; i++)
        for (int64_t t = 0; t < 9; t++) {
            const int32_t input = ((int32_t *)batch->input->data)[i * 9 + t];
            const int32_t target = ((int32_t *)batch->target->data)[i * 9 + t];
            const int32_t was = t < 8 + i % 3 ? token(i, t) : 0;
            if (target == -100)
                assert_int_equal(input, was);
            else
                assert_int_equal(target, was);
            if (t >= 8 + i % 3)
                assert_int_equal(target, -100);
            chosen += target != -100;
        }
    assert_in_range(chosen, 25, 80); /* of 104 */
    vv_batch_free(batch);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void classes_numbers_and_images(void **state)
{
    (void)state;
    vv_dataset *set;
    uint8_t pixels[18];
    int32_t tokens[8], class;
    float x[4], y;
    assert_ok(open_with(&set, VVI_HAVE_ZLIB ? "train=gz,input=image,target=short,classes=65536"
                                            : "train=plain,input=image,target=short,"
                                              "classes=65536"));
    assert_int_equal(set->spec.input_dtype, VV_U8);
    assert_int_equal(set->spec.input_ndim, 3);
    assert_int_equal(set->spec.input_shape[1], 3);
    assert_int_equal(set->spec.tokens, 0);
    assert_ok(vv_dataset_read(set, 7, pixels, &class));
    for (int k = 0; k < 18; k++)
        assert_int_equal(pixels[k], (k * 5 + 7) % 256);
    assert_int_equal(class, 65007);
    vv_dataset_free(set);

    assert_ok(open_with(&set, "train=plain,target=score,vocabulary=200"));
    assert_int_equal(set->spec.target_dtype, VV_F32);
    assert_int_equal(set->spec.target_ndim, 0);
    assert_int_equal(set->spec.classes, 0);
    assert_ok(vv_dataset_read(set, 5, tokens, &y));
    assert_int_equal(tokens[3], token(5, 3));
    assert_near(y, 1.25, 0, 0);
    vv_dataset_free(set);

    assert_ok(open_with(&set, "train=numbers,input=x,target=y"));
    assert_int_equal(set->spec.input_dtype, VV_F32);
    assert_ok(vv_dataset_read(set, 2, x, &y));
    assert_near(x[3], 3.5, 0, 0);
    assert_near(y, 3.0, 0, 0);
    vv_dataset_free(set);
}

static void tells_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *settings, *text;
    } cases[] = {
        {"train=nowhere", "nowhere"},
        {"train=plain,input=word", "no column \"word\""},
        {"train=plain,input=text", "encoding str holds no numbers"},
        {"train=plain,input=image", "say with classes= how many classes column label has"},
        {"train=numbers,input=x", "name the column to learn as target"},
        {"train=plain,input=tokens,dtype=int65", "say which"},
        {"train=plain,target=label,mask=0.1", "leave one of them out"},
        {"train=plain,target=text", "encoding str holds no numbers"},
        {"train=plain,vocabulary=10,pad_id=10", "pad_id 10"},
        {"train=plain,special_ids=x", "special_ids"},
    };
    vv_dataset *set;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_int_not_equal(open_with(&set, cases[c].settings), VV_OK);
        assert_says(cases[c].text);
        assert_null(set);
    }
    int32_t tokens[8], class;
    assert_ok(open_with(&set, "train=plain,vocabulary=150"));
    assert_fails(vv_dataset_read(set, 5, tokens, tokens), VV_EFORMAT); /* token(5, 0) = 155 */
    assert_says("sample 5: tokens: number 0 is 155, expected a whole one from 0 to 149");
    vv_dataset_free(set);
    assert_ok(open_with(&set, "train=plain,target=label,classes=2,vocabulary=200"));
    assert_ok(vv_dataset_read(set, 2, tokens, &class));
    assert_int_equal(class, 1);
    assert_fails(vv_dataset_read(set, 3, tokens, &class), VV_EFORMAT);
    assert_says("sample 3: label");
    assert_fails(vv_dataset_read(set, 4, tokens, &class), VV_EFORMAT);
    assert_says("class -1, expected 0 to 1");
    vv_dataset_free(set);
}

static void shape_is_known_without_the_shards(void **state)
{
    (void)state;
    vv_mds_set_opts opts;
    vv_sample_spec spec;
    int64_t count;
    assert_ok(vv_opts_init(&vv_dataset_mds.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_dataset_mds.desc, &opts, "dir=/nonexistent,seq=64"));
    assert_ok(vv_dataset_mds.shape(&opts, "train", &spec, &count));
    assert_int_equal(spec.tokens, 64);
    assert_int_equal(spec.classes, 50257);
    assert_int_equal(spec.target_ndim, 1);
    assert_ok(vv_opts_set_all(&vv_dataset_mds.desc, &opts, "target=y,classes=3"));
    assert_ok(vv_dataset_mds.shape(&opts, "eval", &spec, &count));
    assert_int_equal(spec.classes, 3);
    assert_int_equal(spec.target_ndim, 0);
    vv_opts_fini(&vv_dataset_mds.desc, &opts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_tokens),
        cmocka_unit_test(masked_tokens),
        cmocka_unit_test(classes_numbers_and_images),
        cmocka_unit_test(tells_what_is_wrong),
        cmocka_unit_test(shape_is_known_without_the_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
