/* test_synthetic.c - synthetic sets take shape and size from a real set unless told otherwise;
 * samples repeat modulo the pool; gaussian pixels normalise to N(0, 1), separable ones to N(m, 1)
 * with m from -3 to 3; the same seed gives the same pool, and the splits differ. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_shape_and_size),
        cmocka_unit_test(repeats_modulo_the_pool),
        cmocka_unit_test(pixels_follow_the_kind),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
