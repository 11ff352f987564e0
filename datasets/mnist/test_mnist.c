/* test_mnist.c - MNIST opens from IDX files, plain or gzipped, in the folder asked for; wrong files
 * are refused with a sentence that says what was expected and what was found. The real set, if it
 * is there, has the published numbers. */
#include "vv_test_files.h"

#include <vivace/data.h>

#include "mnist.h"

static void opens_both_splits(void **state)
{
    (void)state;
    char dir[256];
    temp_dir(dir);
    write_mnist(dir);
    const vv_mnist_opts opts = {{dir}};
    vv_dataset *train, *eval;
    assert_ok(vv_dataset_open(&train, &vv_dataset_mnist, &opts, "train"));
    assert_ok(vv_dataset_open(&eval, &vv_dataset_mnist, &opts, "eval"));
    assert_int_equal(train->count, 7);
    assert_int_equal(eval->count, 3);
    assert_int_equal(train->spec.input_ndim, 3);
    assert_int_equal(train->spec.input_shape[0], 28);
    assert_int_equal(train->spec.input_shape[2], 1);
    assert_int_equal(train->spec.target_ndim, 0);
    assert_string_equal(train->class_names[9], "9");
    uint8_t image[784];
    int32_t label;
    assert_ok(vv_dataset_read(train, 2, image, &label));
    for (int i = 0; i < 784; i++)
        assert_int_equal(image[i], ((2 * 784 + i) * 7 + 1) % 251);
    assert_int_equal(label, (2 * 7 + 2) % 10);
    assert_fails(vv_dataset_read(train, 7, image, &label), VV_EINVAL);
    vv_dataset *none;
    assert_fails(vv_dataset_open(&none, &vv_dataset_mnist, &opts, "test"), VV_EINVAL);
    assert_says("eval");
    vv_dataset_free(train);
    vv_dataset_free(eval);
    remove_dir(dir);
}

static void refuses_wrong_files(void **state)
{
    (void)state;
    static unsigned char buffer[8192];
    char dir[256];
    temp_dir(dir);
    const vv_mnist_opts opts = {{dir}};
    vv_dataset *set;
    assert_fails(vv_dataset_open(&set, &vv_dataset_mnist, &opts, "train"), VV_ENOTFOUND);
    assert_says("train-images-idx3-ubyte");

    write_mnist(dir);
    const int dims[3] = {7, 28, 28};
    size_t bytes = make_idx(buffer, 3, dims, 1, 251);
    write_file(dir, "train-images-idx3-ubyte", buffer, 1000);
    assert_fails(vv_dataset_open(&set, &vv_dataset_mnist, &opts, "train"), VV_EFORMAT);
    assert_says("train-images-idx3-ubyte: expected 5504 bytes for [7,28,28], found 1000");
    assert_null(set);

    const int wide[3] = {7, 14, 56};
    bytes = make_idx(buffer, 3, wide, 1, 251);
    write_file(dir, "train-images-idx3-ubyte", buffer, bytes);
    assert_fails(vv_dataset_open(&set, &vv_dataset_mnist, &opts, "train"), VV_EFORMAT);
    assert_says("expected images of 28x28, found 14x56");

    const int fewer[3] = {6, 28, 28};
    bytes = make_idx(buffer, 3, fewer, 1, 251);
    write_file(dir, "train-images-idx3-ubyte", buffer, bytes);
    assert_fails(vv_dataset_open(&set, &vv_dataset_mnist, &opts, "train"), VV_ESHAPE);
    assert_says("6 inputs but 7 targets");

    bytes = make_idx(buffer, 3, dims, 1, 251);
    write_file(dir, "train-images-idx3-ubyte", buffer, bytes);
    bytes = make_idx(buffer, 1, dims, 4, 30);
    write_file(dir, "train-labels-idx1-ubyte", buffer, bytes);
    assert_fails(vv_dataset_open(&set, &vv_dataset_mnist, &opts, "train"), VV_EFORMAT);
    assert_says("expected 0 to 9");
    remove_dir(dir);
}

static void names_a_missing_folder(void **state)
{
    (void)state;
    const vv_mnist_opts opts = {{"/nonexistent/mnist"}};
    vv_dataset *set;
    assert_fails(vv_dataset_open(&set, &vv_dataset_mnist, &opts, "train"), VV_ENOTFOUND);
    assert_says("/nonexistent/mnist");
}

static void real_set_has_the_published_numbers(void **state)
{
    (void)state;
    const char *root = getenv("VIVACE_DATA");
    char dir[1024];
    snprintf(dir, sizeof dir, "%s/mnist", root ? root : "");
    if (!root || access(dir, F_OK) != 0)
        skip();
    vv_dataset *set;
    assert_ok(vv_dataset_open(&set, &vv_dataset_mnist, NULL, "train"));
    assert_int_equal(set->count, 60000);
    const uint8_t *pixels = set->inputs;
    const int32_t *labels = set->targets;
    double sum = 0, square = 0;
    const int64_t total = set->count * 784;
    for (int64_t i = 0; i < total; i++) {
        const double pixel = pixels[i] / 255.0;
        sum += pixel;
        square += pixel * pixel;
    }
    const double mean = sum / (double)total;
    assert_near(mean, 0.1306605, 1e-6, 0);
    assert_near(sqrt(square / (double)total - mean * mean), 0.3081079, 1e-6, 0);
    assert_int_equal(labels[0], 5);
    assert_int_equal(labels[1], 0);
    assert_int_equal(labels[2], 4);
    vv_dataset_free(set);
    assert_ok(vv_dataset_open(&set, &vv_dataset_mnist, NULL, "eval"));
    assert_int_equal(set->count, 10000);
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_both_splits),
        cmocka_unit_test(refuses_wrong_files),
        cmocka_unit_test(names_a_missing_folder),
        cmocka_unit_test(real_set_has_the_published_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
