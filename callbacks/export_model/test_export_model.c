/* test_export_model.c - after the run the file has the weights of its end; what cannot be exported
 * is told before the first batch. */
#include "callbacks/callback_test.h"

#include <vivace/export.h>
#include <vivace/export_model.h>
#include <vivace/safetensors.h>

typedef struct weights_seen {
    double first; /* the first weight at the end of the last batch */
    int64_t batches;
} weights_seen;

static vv_status watch(void *ctx, vv_event event, vv_state *state)
{
    weights_seen *seen = ctx;
    if (event == VV_EVENT_BATCH_END) {
        vv_module *layer = vv_module_find(state->model->net, "0");
        seen->first = vv_tensor_get(vv_module_param(layer, "weight")->value, 0);
        seen->batches++;
    }
    return VV_OK;
}

static void test_weights(void **unused)
{
    (void)unused;
    char folder[256], path[300];
    tt_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/out.safetensors", folder);
    vv_export_model_opts opts = {0, path};
    vv_callback *callback;
    vv_timestamp end;
    weights_seen seen = {0};
    assert_ok(vv_callback_new(&callback, &vv_callback_export_model, &opts));
    assert_ok(callback_run(callback, "1ep", watch, &seen, NULL, &end));
    vv_safetensors *file;
    assert_ok(vv_safetensors_open(&file, path));
    assert_int_equal(vv_safetensors_count(file), 4);
    assert_true(vv_tensor_get(vv_safetensors_find(file, "0.weight"), 0) == seen.first);
    vv_safetensors_close(file);
    tt_remove(folder);
}

static void test_onnx(void **unused)
{
    (void)unused;
    char folder[256], path[300];
    tt_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/out.onnx", folder);
    vv_export_model_opts opts = {1, path};
    vv_callback *callback;
    vv_timestamp end;
    weights_seen seen = {0};
    assert_ok(vv_callback_new(&callback, &vv_callback_export_model, &opts));
    vv_status status = callback_run(callback, "1ep", watch, &seen, NULL, &end);
    if (vv_export_has_onnx()) {
        assert_int_equal(status, VV_OK);
        assert_int_equal(access(path, R_OK), 0);
    } else {
        assert_int_equal(status, VV_EUNSUPPORTED);
        assert_says("protobuf-c");
        assert_int_equal(seen.batches, 0);
    }
    tt_remove(folder);
}

static void test_no_path(void **unused)
{
    (void)unused;
    vv_callback *callback;
    vv_timestamp end;
    weights_seen seen = {0};
    assert_ok(vv_callback_new(&callback, &vv_callback_export_model, NULL));
    assert_int_equal(callback_run(callback, "1ep", watch, &seen, NULL, &end), VV_EINVAL);
    assert_int_equal(seen.batches, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_onnx),
        cmocka_unit_test(test_no_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
