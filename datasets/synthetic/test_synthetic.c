/* test_synthetic.c - synthetic sets take shape and size from a real set unless told otherwise;
 * samples repeat modulo the pool; gaussian pixels normalise to N(0, 1), separable ones to N(m, 1)
 * with m from -3 to 3; the same seed gives the same pool, and the splits differ. Texts have the
 * length, vocabulary and kind of target asked for; separable ones tell their target. */
#include "vv_test.h"

#include <vivace/data.h>

#include "synthetic.h"

static vv_dataset *open_with(const char *settings, const char *split)
{
    vv_synthetic_opts opts;
    vv_dataset *set = NULL;
    assert_ok(vv_opts_init(&vv_dataset_synthetic.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_dataset_synthetic.desc, &opts, settings));
    assert_ok(vv_dataset_open(&set, &vv_dataset_synthetic, &opts, split));
    vv_opts_fini(&vv_dataset_synthetic.desc, &opts);
    return set;
}

static void takes_shape_and_size(void **state)
{
    (void)state;
    vv_dataset *set = open_with("like=mnist", "train");
    assert_int_equal(set->count, 60000);
    assert_int_equal(set->spec.input_shape[0], 28);
    assert_int_equal(set->spec.input_shape[2], 1);
    assert_int_equal(set->spec.classes, 10);
    vv_dataset_free(set);
    set = open_with("like=mnist,width=5,channels=2,classes=3,count=12", "eval");
    assert_int_equal(set->count, 12);
    assert_int_equal(set->spec.input_shape[0], 28);
    assert_int_equal(set->spec.input_shape[1], 5);
    assert_int_equal(set->spec.input_shape[2], 2);
    assert_int_equal(set->spec.classes, 3);
    vv_dataset_free(set);
    assert_ok(vv_dataset_open(&set, &vv_dataset_synthetic, NULL, "eval"));
    assert_int_equal(set->count, 10000);
    assert_int_equal(set->spec.input_shape[1], 32);
    vv_dataset_free(set);
}

static void repeats_modulo_the_pool(void **state)
{
    (void)state;
    uint8_t a[75], b[75];
    int32_t label_a, label_b;
    vv_dataset *set = open_with("height=5,width=5,pool=4,count=100", "train");
    vv_dataset *again = open_with("height=5,width=5,pool=4,count=100", "train");
    vv_dataset *eval = open_with("height=5,width=5,pool=4,count=100", "eval");
    assert_ok(vv_dataset_read(set, 1, a, &label_a));
    assert_ok(vv_dataset_read(again, 97, b, &label_b));
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(label_a, label_b);
    assert_ok(vv_dataset_read(set, 2, b, &label_b));
    assert_memory_not_equal(a, b, sizeof a);
    assert_ok(vv_dataset_read(eval, 1, b, &label_b));
    assert_memory_not_equal(a, b, sizeof a);
    vv_dataset_free(set);
    vv_dataset_free(again);
    vv_dataset_free(eval);
}

/* Mean and deviation of sample `index` after normalising. */
static void moments(vv_dataset *set, int64_t index, double *mean, double *std)
{
    static uint8_t image[64 * 64];
    double sum = 0, square = 0;
    assert_ok(vv_dataset_read(set, index, image, NULL));
    for (int i = 0; i < 64 * 64; i++) {
        const double z = (image[i] / 255.0 - (double)set->spec.mean[0]) / (double)set->spec.std[0];
        sum += z;
        square += z * z;
    }
    *mean = sum / 4096;
    *std = sqrt(square / 4096 - *mean * *mean);
}

static void pixels_follow_the_kind(void **state)
{
    (void)state;
    double mean, std;
    /* 4,096 pixels: the mean's deviation is 1/64; 5 deviations are allowed. */
    vv_dataset *set = open_with("height=64,width=64,channels=1,classes=3,count=9", "train");
    for (int i = 0; i < 9; i++) {
        moments(set, i, &mean, &std);
        assert_near(mean, 0, 0.08, 0);
        assert_near(std, 1, 0.06, 0);
    }
    vv_dataset_free(set);
    set = open_with("height=64,width=64,channels=1,classes=3,count=9,kind=separable", "train");
    for (int i = 0; i < 9; i++) {
        moments(set, i, &mean, &std);
        assert_near(mean, -3 + 3 * (i % 3), 0.08, 0);
        assert_near(std, 1, 0.06, 0);
    }
    vv_dataset_free(set);
}

static void texts_have_the_shape_asked_for(void **state)
{
    (void)state;
    int32_t input[2][7], target[7];
    vv_dataset *set = open_with("like=text,seq=7,vocabulary=50,pool=9,count=40", "train");
    assert_int_equal(set->count, 40);
    assert_int_equal(set->spec.tokens, 7);
    assert_int_equal(set->spec.classes, 50);
    assert_int_equal(set->spec.vocabulary, 50);
    assert_int_equal(set->spec.input_ndim, 1);
    int seen[50] = {0}, kinds = 0;
    for (int i = 0; i < 9; i++) {
        assert_ok(vv_dataset_read(set, i, input[0], target));
        assert_memory_equal(input[0] + 1, target, 6 * sizeof(int32_t));
        for (int t = 0; t < 7; t++) {
            assert_in_range(input[0][t], 0, 49);
            assert_in_range(target[t], 0, 49);
            kinds += seen[input[0][t]]++ == 0;
        }
    }
    assert_true(kinds > 20); /* of 63 draws among 50 */
    assert_ok(vv_dataset_read(set, 17, input[1], NULL));
    assert_memory_equal(input[0], input[1], sizeof input[0]); /* 8 and 17, of a pool of 9 */
    vv_dataset_free(set);

    set = open_with("like=text,seq=7,vocabulary=50,kind=separable", "eval");
    for (int i = 0; i < 5; i++) {
        assert_ok(vv_dataset_read(set, i, input[0], target));
        for (int t = 0; t < 7; t++)
            assert_int_equal(target[t], (5 * input[0][t] + 1) % 50);
    }
    vv_dataset_free(set);

    set = open_with("like=text,seq=7,vocabulary=50,kind=separable,target=class,classes=3,"
                    "segments=true", "train");
    assert_int_equal(set->spec.classes, 3);
    assert_int_equal(set->spec.target_ndim, 0);
    assert_int_equal(set->spec.input_ndim, 2);
    for (int i = 0; i < 6; i++) {
        assert_ok(vv_dataset_read(set, i, input, target));
        assert_int_equal(target[0], i % 3);
        for (int t = 0; t < 7; t++) {
            assert_int_equal(input[0][t] % 3, i % 3);
            assert_in_range(input[0][t], 0, 49);
            assert_int_equal(input[1][t], t >= 3);
        }
    }
    vv_dataset_free(set);

    float number;
    set = open_with("like=text,seq=7,vocabulary=50,kind=separable,target=number", "train");
    assert_int_equal(set->spec.classes, 0);
    assert_int_equal(set->spec.target_dtype, VV_F32);
    for (int i = 0; i < 6; i++) {
        assert_ok(vv_dataset_read(set, i, input[0], &number));
        assert_true(number >= 0 && number < 1);
        for (int t = 0; t < 7; t++)
            assert_true((float)input[0][t] <= 50 * number);
    }
    vv_dataset_free(set);
}

static vv_status open_texts(vv_dataset **set)
{
    vv_synthetic_opts opts;
    vv_status status = vv_opts_init(&vv_dataset_synthetic.desc, &opts);
    *set = NULL;
    if (status == VV_OK)
        status = vv_opts_set_all(&vv_dataset_synthetic.desc, &opts, "like=text,seq=4");
    if (status == VV_OK)
        status = vv_dataset_open(set, &vv_dataset_synthetic, &opts, "train");
    vv_opts_fini(&vv_dataset_synthetic.desc, &opts);
    return status;
}

static void texts_survive_each_allocation_failing(void **state)
{
    (void)state;
    vv_dataset *set;
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(open_texts(&set));
    const uint64_t allocations = vv_memory_alloc_count() - before;
    vv_dataset_free(set);
    for (uint64_t n = 1; n <= allocations; n++) {
        vv_memory_fail_at(n);
        assert_fails(open_texts(&set), VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_null(set);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

/* Each allocation of an opening fails once: an error, and nothing is left. */
static void survives_each_allocation_failing(void **state)
{
    (void)state;
    vv_dataset *set;
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(vv_dataset_open(&set, &vv_dataset_synthetic, NULL, "eval"));
    const uint64_t allocations = vv_memory_alloc_count() - before;
    vv_dataset_free(set);
    assert_true(allocations >= 4);
    for (uint64_t n = 1; n <= allocations; n++) {
        vv_memory_fail_at(n);
        assert_fails(vv_dataset_open(&set, &vv_dataset_synthetic, NULL, "eval"), VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_null(set);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    vv_synthetic_opts opts;
    vv_dataset *set;
    assert_ok(vv_opts_init(&vv_dataset_synthetic.desc, &opts));
    assert_fails(vv_opts_set(&vv_dataset_synthetic.desc, &opts, "like", "cifar11"), VV_EINVAL);
    opts.height = opts.width = 4096;
    opts.pool = 1000000;
    opts.count = 1000000;
    assert_fails(vv_dataset_open(&set, &vv_dataset_synthetic, &opts, "train"), VV_EINVAL);
    assert_says("smaller pool");
    assert_null(set);
    vv_opts_fini(&vv_dataset_synthetic.desc, &opts);
}

static void boxes_lie_in_the_image(void **state)
{
    (void)state;
    static uint8_t image[16 * 16 * 3];
    float rows[5][6];
    int there = 0;
    vv_synthetic_opts opts;
    vv_dataset *set;
    assert_ok(vv_opts_init(&vv_dataset_synthetic.desc, &opts));
    assert_ok(vv_opts_set_all(&vv_dataset_synthetic.desc, &opts,
                              "height=16,width=16,classes=4,boxes=5,count=50"));
    assert_ok(vv_dataset_open(&set, &vv_dataset_synthetic, &opts, "train"));
    assert_int_equal(set->spec.target_ndim, 2);
    assert_int_equal(set->spec.target_shape[0], 5);
    for (int64_t i = 0; i < 50; i++) {
        assert_ok(vv_dataset_read(set, i, image, rows));
        for (int b = 0; b < 5; b++) {
            if (rows[b][4] < 0)
                continue;
            there++;
            assert_true(rows[b][4] >= 1 && rows[b][4] <= 3);
            assert_true(rows[b][0] >= 0 && rows[b][0] < rows[b][2] && rows[b][2] <= 1);
            assert_true(rows[b][1] >= 0 && rows[b][1] < rows[b][3] && rows[b][3] <= 1);
        }
    }
    assert_in_range(there, 40, 110);
    vv_dataset_free(set);
    assert_ok(vv_opts_set_all(&vv_dataset_synthetic.desc, &opts, "classes=1"));
    assert_fails(vv_dataset_open(&set, &vv_dataset_synthetic, &opts, "train"), VV_EINVAL);
    assert_says("boxes need two classes");
    vv_opts_fini(&vv_dataset_synthetic.desc, &opts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_shape_and_size),
        cmocka_unit_test(repeats_modulo_the_pool),
        cmocka_unit_test(pixels_follow_the_kind),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(survives_each_allocation_failing),
        cmocka_unit_test(boxes_lie_in_the_image),
        cmocka_unit_test(texts_have_the_shape_asked_for),
        cmocka_unit_test(texts_survive_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
