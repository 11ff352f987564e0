/* test_bert.c - what must hold of bert: Hugging Face's names and parameter counts; sees both ways
 * but no padding; segments; trains on masked tokens, classes and numbers; files, logits, gradients
 * and 20 steps as transformers has them. */
#include "language_test.h"

#include "bert.h"

#define HERE VV_SOURCE_ROOT "/models/bert/"

static const char small[] = "d=16,layers=2,heads=2,d_ff=24,context=11,dropout=0";

/* Rows of `length` tokens with one class a row. */
static vv_sample_spec class_spec(int64_t length, int64_t classes, int64_t vocabulary)
{
    vv_sample_spec spec = token_spec(length, classes);

    spec.target_ndim = 0;
    spec.vocabulary = vocabulary;
    return spec;
}

/* Counts of transformers' BertForMaskedLM and BertForSequenceClassification (2 classes), told from
   models of one and two layers and of one and two tokens. */
static void sizes(void **state)
{
    (void)state;
    const struct {
        const vv_model_desc *desc;
        const char *name;
        int64_t layers, masked, classes;
    } rows[] = {
        {&vv_model_bert_tiny, "bert-tiny", 2, 4416698, 4386178},
        {&vv_model_bert_small, "bert-small", 4, 28795194, 28764674},
        {&vv_model_bert_base, "bert-base", 12, 109514298, 109483778},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int head = 0; head < 2; head++) {
            const vv_sample_spec one = head ? class_spec(8, 2, 1) : token_spec(8, 1);
            const vv_sample_spec two = head ? class_spec(8, 2, 2) : token_spec(8, 2);
            const int64_t base = model_size(rows[i].desc, "layers=1", &one);
            const int64_t layer = model_size(rows[i].desc, "layers=2", &one) - base;
            const int64_t token = model_size(rows[i].desc, "layers=1", &two) - base;

            assert_string_equal(rows[i].desc->desc.name, rows[i].name);
            assert_int_equal(base + (rows[i].layers - 1) * layer + 30521 * token,
                             head ? rows[i].classes : rows[i].masked);
        }
    /* Data that do not tell their vocabulary. */
    const vv_sample_spec spec = class_spec(8, 2, 0);

    assert_int_equal(model_size(&vv_model_bert_tiny, NULL, &spec), 4386178);
}

static void names(void **state)
{
    (void)state;
    const vv_sample_spec masked = token_spec(8, 30), classes = class_spec(8, 3, 30);
    vv_model *model = model_make(&vv_model_bert, small, &masked);
    vv_module *layer = vv_module_find(model->net, "bert.encoder.layer.1");
    vv_module *predictions = vv_module_find(model->net, "cls.predictions");
    const vv_language *parts = vv_module_language(model->net);

    net_has_names(model->net,
                  "bert.embeddings.word_embeddings.weight "
                  "bert.embeddings.position_embeddings.weight "
                  "bert.embeddings.token_type_embeddings.weight bert.embeddings.LayerNorm.weight "
                  "bert.encoder.layer.0.attention.self.query.weight "
                  "bert.encoder.layer.0.attention.output.dense.bias "
                  "bert.encoder.layer.1.attention.output.LayerNorm.bias "
                  "bert.encoder.layer.1.intermediate.dense.weight "
                  "bert.encoder.layer.1.output.LayerNorm.weight cls.predictions.bias "
                  "cls.predictions.transform.dense.weight "
                  "cls.predictions.transform.LayerNorm.weight");
    assert_null(vv_module_find(model->net, "bert.pooler"));
    assert_ptr_equal(vv_module_param(vv_module_find(model->net, parts->head), "weight"),
                     vv_module_param(vv_module_find(model->net, parts->tokens), "weight"));
    assert_ptr_equal(vv_module_param(vv_module_find(predictions, "decoder"), "bias"),
                     vv_module_param(predictions, "bias"));
    assert_ptr_equal(vv_module_type(vv_module_find(layer, vv_module_mlp(layer)->in)),
                     &vv_linear_class);
    assert_ptr_equal(vv_module_type(vv_module_find(layer, vv_module_mlp(layer)->activation)),
                     &vv_activation_class);
    vv_model_free(model);

    model = model_make(&vv_model_bert, small, &classes);
    net_has_names(model->net, "bert.embeddings.word_embeddings.weight bert.pooler.dense.weight "
                              "bert.pooler.dense.bias classifier.weight classifier.bias");
    assert_null(vv_module_language(model->net)->head);
    vv_model_free(model);
}

/* Largest change of an output when token `at` of a row becomes another. */
static double effect(vv_module *net, vv_tensor *tokens, int64_t at, double value, int64_t on)
{
    vv_tensor *before = language_output(net, tokens);
    const int64_t width = before->shape[before->ndim - 1];
    const double old = vv_tensor_get(tokens, at);
    double largest = 0.0;

    vv_tensor_set(tokens, at, value);

    vv_tensor *after = language_output(net, tokens);

    vv_tensor_set(tokens, at, old);
    for (int64_t i = on * width; i < (on + 1) * width; i++)
        largest = fmax(largest, fabs(vv_tensor_get(after, i) - vv_tensor_get(before, i)));
    vv_tensor_free(before);
    vv_tensor_free(after);
    return largest;
}

static void sees_both_ways_but_no_padding(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(6, 30);
    const int32_t ids[] = {5, 6, 7, 8, 0, 0}, rows[] = {5, 6, 7, 8, 9, 9, 0, 0, 1, 1, -1, -1};
    const int64_t shape[] = {1, 6}, rows_shape[] = {1, 2, 6};
    vv_model *model = model_make(&vv_model_bert, small, &spec);
    vv_tensor *tokens = NULL, *two = NULL;

    for (int i = 0; i < 2; i++) /* louder than BERT's start */
        vv_param_fill_normal(vv_module_param(vv_module_find(model->net,
                                                            i ? "bert.encoder.layer.0.attention."
                                                                "self.query"
                                                              : "bert.encoder.layer.0.attention."
                                                                "self.value"), "weight"),
                             0.3, 1, "x");
    vv_module_set_training(model->net, false);
    assert_ok(vv_tensor_from(&tokens, VV_I32, 2, shape, ids));
    assert_ok(vv_tensor_from(&two, VV_I32, 3, rows_shape, rows));
    assert_true(effect(model->net, tokens, 0, 11, 3) > 1e-4); /* forwards */
    assert_true(effect(model->net, tokens, 3, 11, 0) > 1e-4); /* and backwards */
    /* The padding is not seen: no other token's output depends on how many there are of it. */
    assert_true(effect(model->net, tokens, 4, 12, 0) > 1e-4);
    assert_near(effect(model->net, two, 4, 12, 0), 0.0, 0.0, 0.0);
    assert_true(effect(model->net, two, 3, 12, 0) > 1e-4);
    assert_true(effect(model->net, two, 9, 0, 0) > 1e-4);   /* another segment */
    vv_tensor_free(tokens);
    vv_tensor_free(two);
    vv_model_free(model);
    /* pad_id=-1: token 0 is one like others. */
    model = model_make(&vv_model_bert, "d=16,layers=1,heads=2,context=11,dropout=0,pad_id=-1",
                       &spec);
    vv_module_set_training(model->net, false);
    assert_ok(vv_tensor_from(&tokens, VV_I32, 2, shape, ids));

    vv_tensor *with = language_output(model->net, tokens);
    const int32_t short_ids[] = {5, 6, 7, 8};
    const int64_t short_shape[] = {1, 4};
    vv_tensor *shorter = NULL;

    assert_ok(vv_tensor_from(&shorter, VV_I32, 2, short_shape, short_ids));

    vv_tensor *without = language_output(model->net, shorter);
    double moved = 0.0;

    for (int64_t i = 0; i < 30; i++)
        moved += fabs(vv_tensor_get(with, i) - vv_tensor_get(without, i));
    assert_true(moved > 1e-4);
    vv_tensor_free(with);
    vv_tensor_free(without);
    vv_tensor_free(shorter);
    vv_tensor_free(tokens);
    vv_model_free(model);
}

/* With the default pad_id, two zeros at the end are as if the row were shorter. */
static void padding_is_nothing(void **state)
{
    (void)state;
    const vv_sample_spec spec = class_spec(6, 3, 30);
    const int32_t ids[] = {5, 6, 7, 8, 0, 0};
    const int64_t shape[] = {1, 6}, short_shape[] = {1, 4};
    vv_model *model = model_make(&vv_model_bert, small, &spec);
    vv_tensor *padded = NULL, *plain = NULL;

    vv_module_set_training(model->net, false);
    assert_ok(vv_tensor_from(&padded, VV_I32, 2, shape, ids));
    assert_ok(vv_tensor_from(&plain, VV_I32, 2, short_shape, ids));

    vv_tensor *a = language_output(model->net, padded), *b = language_output(model->net, plain);

    assert_int_equal(a->ndim, 2);
    assert_int_equal(a->shape[1], 3);
    assert_same_numbers("padded", a, b, false, 1e-5);
    vv_tensor_free(a);
    vv_tensor_free(b);
    vv_tensor_free(padded);
    vv_tensor_free(plain);
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = token_spec(10, 30);
    vv_model *model = model_make(&vv_model_bert, "d=32,layers=2,heads=2,context=11,dropout=0",
                                 &spec);

    language_trains(model, &spec, 5e-3, 0.7, "");
    vv_model_free(model);
}

/* One number for each row. */
static void numbers(void **state)
{
    (void)state;
    vv_sample_spec spec = class_spec(7, 0, 30);
    vv_model *model = NULL;
    vv_bert_opts opts;
    const float values[] = {0.5f, -1.0f};
    const int64_t count = 2;
    vv_tensor *targets = NULL, *tokens = random_tokens(2, 7, 30, 3);

    spec.target_dtype = VV_F32;
    assert_ok(vv_opts_init(&vv_model_bert_tiny.desc, &opts));
    opts.dropout = 0.0;
    assert_ok(vv_model_build(&model, &vv_model_bert_tiny, &opts, &spec, 2));
    assert_int_equal(model->task, VV_TASK_REGRESS);
    assert_ok(vv_tensor_from(&targets, VV_F32, 1, &count, values));

    const double loss = language_step(model, tokens, targets);

    assert_near(loss, (0.25 + 1.0) / 2.0, 0.3, 0.0);
    vv_tensor_free(targets);
    vv_tensor_free(tokens);
    vv_model_free(model);
}

static void bad_input(void **state)
{
    (void)state;
    const vv_sample_spec masked = token_spec(12, 30), classes = class_spec(8, 3, 30);
    const vv_sample_spec image = image_spec(8, 8, 3, 10);
    const vv_bert_opts wrong[] = {
        {VV_BERT_TINY, 0, 15, 0, 2, 0, 8, 2, 30, 0, 0.0},
        {9, 0, 0, 0, 0, 0, 8, 2, 30, 0, 0.0},
        {VV_BERT_TINY, 7, 0, 0, 0, 0, 8, 2, 30, 0, 0.0},
        {VV_BERT_TINY, 0, 0, 0, 0, 0, 0, 2, 30, 0, 0.0},
        {VV_BERT_TINY, VV_BERT_CLASSIFIER, 0, 0, 0, 0, 8, 2, 30, 0, 0.0},
    };
    vv_model *model = NULL;
    vv_module *net = NULL;
    vv_bert_opts opts = VV_BERT_DEFAULTS;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(vv_bert_new(&net, 0, &wrong[i], 1), VV_EINVAL);
    assert_fails(vv_model_build(&model, &vv_model_bert, NULL, &image, 1), VV_EINVAL);
    assert_says("token ids");
    opts.size = VV_BERT_TINY;
    opts.context = 11;
    assert_fails(vv_model_build(&model, &vv_model_bert, &opts, &masked, 1), VV_EINVAL);
    assert_says("12 tokens, the table of positions has 11 rows");
    opts.head = VV_BERT_MASKED_LM;
    assert_fails(vv_model_build(&model, &vv_model_bert, &opts, &classes, 1), VV_EINVAL);
    assert_says("a target for each sample");
    opts.head = VV_BERT_AUTO;
    opts.context = 12;
    opts.vocabulary = 20;
    assert_fails(vv_model_build(&model, &vv_model_bert, &opts, &masked, 1), VV_EINVAL);
    assert_says("vocabulary 20 is less than the data's 30");
}

static void hugging_face(void **state)
{
    (void)state;
    vv_sample_spec masked = token_spec(9, 41), classes = class_spec(9, 3, 41);
    vv_model *model = model_make(&vv_model_bert, small, &masked);

    language_export_is(model, HERE "bert_mlm_hf.safetensors");
    language_golden(model, HERE "bert_mlm_hf.safetensors", HERE "bert_mlm_golden.safetensors",
                    NULL);
    vv_model_free(model);

    model = model_make(&vv_model_bert, small, &classes);
    language_export_is(model, HERE "bert_class_hf.safetensors");
    language_golden(model, HERE "bert_class_hf.safetensors", HERE "bert_class_golden.safetensors",
                    NULL);
    /* Weights of the masked model start a classifier: all but its own pooler and last layer. */
    vv_safetensors *file = NULL;
    vv_str told = {0};
    int loaded = 0;

    assert_ok(vv_safetensors_open(&file, HERE "bert_mlm_hf.safetensors"));
    assert_ok(vv_model_load(model, file, false, NULL, &told, &loaded));
    assert_int_equal(loaded, 5 + 2 * 16);
    assert_non_null(strstr(vv_str_text(&told), "4 of the model's 41 weights"));
    vv_str_fini(&told);
    vv_safetensors_close(file);
    vv_model_free(model);
}

/* As the first BERTs' files are: gamma and beta, the pre-training heads, ids of positions. */
static void older_files(void **state)
{
    (void)state;
    const char *const endings[] = {"LayerNorm.weight", "LayerNorm.gamma", "LayerNorm.bias",
                                   "LayerNorm.beta", NULL};
    const char *const masked_more[] = {
        "bert.embeddings.position_ids", "cls.seq_relationship.weight", "bert.pooler.dense.weight",
        "cls.predictions.decoder.weight", "cls.predictions.decoder.bias", NULL};
    const char *const class_more[] = {"cls.predictions.transform.dense.weight",
                                      "embeddings.position_ids", NULL};
    const vv_sample_spec masked = token_spec(9, 41), classes = class_spec(9, 3, 41);
    vv_tensor *tokens = random_tokens(1, 9, 41, 1);
    vv_model *model = model_make(&vv_model_bert, small, &masked);

    language_other_names(model, HERE "bert_mlm_hf.safetensors", "", endings, masked_more, tokens);
    vv_model_free(model);
    model = model_make(&vv_model_bert, small, &classes);
    language_other_names(model, HERE "bert_class_hf.safetensors", "bert.", endings, class_more,
                         tokens);
    vv_model_free(model);
    vv_tensor_free(tokens);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec masked = token_spec(8, 16), classes = class_spec(8, 2, 16);

    model_desc_is_sane(&vv_model_bert_tiny, &masked, 3);
    model_desc_is_sane(&vv_model_bert_tiny, &classes, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(names),
        cmocka_unit_test(sees_both_ways_but_no_padding),
        cmocka_unit_test(padding_is_nothing),
        cmocka_unit_test(trains),
        cmocka_unit_test(numbers),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(hugging_face),
        cmocka_unit_test(older_files),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
