/* test_fashion_mnist.c - Fashion-MNIST opens from the folder asked for, then from $VIVACE_DATA,
 * then from the system's place; mirrored crops of 2 are its training default. The real set, if it
 * is there, has 6,000 articles a class and the mean and deviation the descriptor states. */
#include "vv_test_files.h"

#include <vivace/data.h>

#include "fashion_mnist.h"

static void finds_its_folder(void **state)
{
    (void)state;
    char root[256], dir[300];
    char *before = getenv("VIVACE_DATA") ? strdup(getenv("VIVACE_DATA")) : NULL;
    temp_dir(root);
    snprintf(dir, sizeof dir, "%s/fashion_mnist", root);
    assert_int_equal(mkdir(dir, 0700), 0);
    write_mnist(dir);
    setenv("VIVACE_DATA", root, 1);
    vv_dataset *set;
    assert_ok(vv_dataset_open(&set, &vv_dataset_fashion_mnist, NULL, "train"));
    assert_int_equal(set->count, 7);
    assert_string_equal(set->class_names[0], "T-shirt/top");
    assert_string_equal(set->class_names[9], "Ankle boot");
    vv_dataset_free(set);
    const vv_fashion_mnist_opts opts = {{dir}};
    setenv("VIVACE_DATA", "/nonexistent", 1);
    assert_ok(vv_dataset_open(&set, &vv_dataset_fashion_mnist, &opts, "eval"));
    assert_int_equal(set->count, 3);
    vv_dataset_free(set);
    if (before)
        setenv("VIVACE_DATA", before, 1);
    else
        unsetenv("VIVACE_DATA");
    free(before);
    remove_dir(root);
}

static void describes_its_transforms(void **state)
{
    (void)state;
    const vv_image_transform *train = &vv_dataset_fashion_mnist.train_transform;
    const vv_image_transform *eval = &vv_dataset_fashion_mnist.eval_transform;
    assert_int_equal(train->crop_pad, 2);
    assert_true(train->flip && train->normalise);
    assert_true(eval->normalise && !eval->flip && eval->crop_pad == 0);
}

static void real_set_has_the_stated_numbers(void **state)
{
    (void)state;
    vv_dataset *set;
    const vv_status status = vv_dataset_open(&set, &vv_dataset_fashion_mnist, NULL, "train");
    if (status == VV_ENOTFOUND || status == VV_EUNSUPPORTED) /* not here, or no zlib to unpack it */
        skip();
    assert_non_null(set);
    assert_int_equal(set->count, 60000);
    const uint8_t *pixels = set->inputs;
    const int32_t *labels = set->targets;
    double sum = 0, square = 0;
    int count[10] = {0};
    const int64_t total = set->count * 784;
    for (int64_t i = 0; i < total; i++) {
        const double pixel = pixels[i] / 255.0;
        sum += pixel;
        square += pixel * pixel;
    }
    for (int64_t i = 0; i < set->count; i++)
        count[labels[i]]++;
    for (int c = 0; c < 10; c++)
        assert_int_equal(count[c], 6000);
    const double mean = sum / (double)total;
    assert_near(mean, (double)set->spec.mean[0], 1e-4, 0);
    assert_near(sqrt(square / (double)total - mean * mean), (double)set->spec.std[0], 1e-4, 0);
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_its_folder),
        cmocka_unit_test(describes_its_transforms),
        cmocka_unit_test(real_set_has_the_stated_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
