/* test_seq_length_warmup.c - what must hold: lengths follow the formula, with ends at min and max;
 * truncation keeps the number of rows and their beginnings, cutting keeps the order and drops less
 * than a row; a token keeps its target; the rule for the end of a sequence; runs grow, count loss
 * by the tokens that are left, and depend on neither microbatches nor interruptions. */
#include "language_world.h"

#include "seq_length_warmup.h"

static void lengths(void **unused)
{
    (void)unused;
    /* 1000 batches, 300 of them to grow: n = 127 */
    static const struct {
        int64_t batch, length;
    } rows[] = {{0, 8}, {2, 8}, {3, 16}, {150, 512}, {254, 864}, {299, 1016}, {300, 1024},
                {999, 1024}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(vv_warmup_length(NULL, (double)rows[i].batch / 1000.0), rows[i].length);
    vv_seq_length_warmup_opts o = VV_SEQ_LENGTH_WARMUP_DEFAULTS;
    o.duration = 0; /* no warm-up */
    assert_int_equal(vv_warmup_length(&o, 0), 1024);
    o = (vv_seq_length_warmup_opts){1, 10, 25, 8, true, false}; /* one step, then max */
    assert_int_equal(vv_warmup_length(&o, 0.99), 10);
    assert_int_equal(vv_warmup_length(&o, 1), 25);
    o.max_seq_length = 10;
    assert_int_equal(vv_warmup_length(&o, 0.5), 10);
    o = (vv_seq_length_warmup_opts){0.3, 0, 30, 1, true, false};
    for (int b = 0; b < 30; b++) /* whole batches come out whole */
        assert_int_equal(vv_warmup_length(&o, b / 100.0), b);
}

static vv_tensor *rows_of(int ndim, const int64_t *shape)
{
    vv_tensor *t;
    assert_ok(vv_tensor_new(&t, VV_I32, ndim, shape));
    for (int64_t i = 0; i < t->count; i++)
        ((int32_t *)t->data)[i] = (int32_t)i;
    return t;
}

static void is(const vv_tensor *t, const int64_t *shape, const int32_t *values)
{
    int64_t count = 1;
    for (int i = 0; i < t->ndim; i++) {
        assert_int_equal(t->shape[i], shape[i]);
        count *= shape[i];
    }
    assert_memory_equal(t->data, values, (size_t)count * sizeof *values);
}

static void cutting(void **unused)
{
    (void)unused;
    const int64_t shape[] = {3, 5}, three = 3;
    vv_tensor *x = rows_of(2, shape), *y = rows_of(2, shape), *classes = rows_of(1, &three);
    vv_tensor *out = NULL, *target = NULL;
    assert_ok(vv_set_sequence_length(&out, &target, x, y, 2, true, false));
    const int64_t short_rows[] = {3, 2};
    is(out, short_rows, (const int32_t[]){0, 1, 5, 6, 10, 11});
    is(target, short_rows, (const int32_t[]){0, 1, 5, 6, 10, 11});
    assert_ok(vv_set_sequence_length(&out, &target, x, y, 2, true, true));
    is(out, short_rows, (const int32_t[]){0, 4, 5, 9, 10, 14});
    is(target, short_rows, (const int32_t[]){0, 4, 5, 9, 10, 14});
    assert_ok(vv_set_sequence_length(&out, &target, x, classes, 4, true, false));
    assert_ptr_equal(target, classes);
    /* joined: 15 tokens make 7 rows of 2 */
    assert_ok(vv_set_sequence_length(&out, &target, x, y, 2, false, false));
    const int64_t many[] = {7, 2};
    is(out, many, (const int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
    is(target, many, (const int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
    assert_fails(vv_set_sequence_length(&out, &target, x, classes, 2, false, false), VV_ESHAPE);
    assert_fails(vv_set_sequence_length(&x, &target, x, NULL, 2, true, false), VV_EINVAL);
    assert_fails(vv_set_sequence_length(&out, &target, x, NULL, 0, true, false), VV_EINVAL);
    assert_fails(vv_set_sequence_length(&out, &target, classes, NULL, 1, true, false), VV_ETYPE);
    assert_ok(vv_set_sequence_length(&out, &target, x, y, 5, true, true));
    assert_ptr_equal(out, x);
    assert_ptr_equal(target, y);
    vv_tensor *const all[] = {x, y, classes, out, target};
    for (int i = 0; i < 5; i++)
        vv_tensor_free(all[i]);
}

/* Ids and segments [N,2,T]: both are cut alike; padding (segment -1) has no end to preserve. */
static void with_segments(void **unused)
{
    (void)unused;
    const int64_t shape[] = {2, 2, 6}, cut[] = {2, 2, 3}, many[] = {4, 2, 3};
    vv_tensor *x = rows_of(3, shape), *out = NULL, *none = NULL;
    int32_t *v = x->data;
    v[6 + 4] = v[6 + 5] = -1;                            /* row 0: 4 valid tokens */
    for (int i = 2; i < 6; i++)
        v[18 + i] = -1;                                  /* row 1: 2 valid tokens */
    assert_ok(vv_set_sequence_length(&out, &none, x, NULL, 3, true, true));
    is(out, cut, (const int32_t[]){0, 1, 3, 6, 7, 9, 12, 13, 14, 18, 19, -1});
    assert_ok(vv_set_sequence_length(&out, &none, x, NULL, 3, false, false));
    is(out, many, (const int32_t[]){0, 1, 2, 6, 7, 8, 3, 4, 5, 9, -1, -1,
                                    12, 13, 14, 18, 19, -1, 15, 16, 17, -1, -1, -1});
    vv_tensor_free(x);
    vv_tensor_free(out);
}

static void training(void **unused)
{
    (void)unused;
    lw_seen seen = {.count = 0};
    const char *how = "duration=0.5,min_seq_length=4,step_size=4";
    lw_run("8ba", 0, "seq_length_warmup", how, &seen); /* n = 3 steps in 4 batches */
    static const int64_t length[] = {4, 4, 8, 12, 16, 16, 16, 16};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(seen.rows[i], 4);
        assert_int_equal(seen.length[i], length[i]);
        assert_int_equal(seen.items[i], 4 * length[i]);
    }
    lw_guarantees("8ba", "seq_length_warmup", how);
    how = "duration=0.5,min_seq_length=5,step_size=5,truncate=false"; /* n = 2 */
    seen.count = 0;
    lw_run("8ba", 0, "seq_length_warmup", how, &seen);
    static const int64_t pieces[] = {5, 5, 10, 10, 16, 16, 16, 16},
                         rows[] = {12, 12, 6, 6, 4, 4, 4, 4};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(seen.length[i], pieces[i]);
        assert_int_equal(seen.rows[i], rows[i]);
    }
    lw_guarantees("8ba", "seq_length_warmup", how);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_seq_length_warmup_opts defaults = VV_SEQ_LENGTH_WARMUP_DEFAULTS;
    vv_seq_length_warmup_opts bad = defaults;
    mw_data d;
    vv_trainer *trainer;
    lw_same_defaults(&vv_method_seq_length_warmup, &defaults);
    bad.max_seq_length = 4;
    vv_error_clear();
    assert_null(vv_seq_length_warmup(&bad));
    assert_says("below min_seq_length");
    mw_open(&d, 12, 6); /* images */
    vv_trainer_opts opts = mw_opts(&d, false, "1ba");
    vv_method *m = vv_seq_length_warmup(NULL);
    opts.methods = (vv_method_list){&m, 1};
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("rows of tokens");
    mw_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),  cmocka_unit_test(cutting),  cmocka_unit_test(with_segments),
        cmocka_unit_test(training), cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
