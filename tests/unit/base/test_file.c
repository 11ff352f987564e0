/* test_file.c - files whole or not at all.
 *
 * What is written is read back; a failed write (no folder, a full disk, a callback that fails, any
 * allocation failing) leaves the old file and no temporary one; paths join and folders are made. */
#include "vv_test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/vivace_test_file_XXXXXX";
static char path[256];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails if anything was left behind */
}

static int files_in_folder(void)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

static void assert_content(const char *content, size_t bytes)
{
    char *data;
    size_t count;
    assert_ok(vvi_file_read_all(&data, &count, path));
    assert_int_equal(count, bytes);
    assert_memory_equal(data, content, bytes);
    assert_int_equal(data[count], '\0');
    vv_dealloc(data);
}

static void test_round_trip(void **state)
{
    (void)state;
    assert_ok(vvi_file_write_atomic(path, "a\0b", 3));
    assert_content("a\0b", 3);
    assert_ok(vvi_file_write_atomic(path, "", 0));
    assert_content("", 0);
    char *large;
    assert_ok(vv_alloc(&large, 300000));
    memset(large, 'x', 300000);
    assert_ok(vvi_file_write_atomic(path, large, 300000));
    assert_content(large, 300000);
    vv_dealloc(large);
    assert_int_equal(files_in_folder(), 1);
    char *data;
    size_t count;
    if (access("/proc/self/status", R_OK) == 0) { /* a file whose size reads 0 */
        assert_ok(vvi_file_read_all(&data, &count, "/proc/self/status"));
        assert_true(count > 100);
        vv_dealloc(data);
    }
}

static void test_sentences(void **state)
{
    (void)state;
    char *data = path;
    assert_fails(vvi_file_read_all(&data, NULL, "/nowhere/x"), VV_ENOTFOUND);
    assert_says("/nowhere/x");
    assert_null(data);
    assert_fails(vvi_file_read_all(&data, NULL, folder), VV_EIO);
    assert_says("directory");
    assert_fails(vvi_file_write_atomic("/nowhere/x", "a", 1), VV_ENOTFOUND);
    assert_fails(vvi_file_write_atomic(folder, "a", 1), VV_EIO); /* a folder is in the way */
    assert_true(vvi_is_folder(folder));
}

static vv_status fail_half_way(vvi_file *file, const void *ctx)
{
    (void)ctx;
    VV_TRY(vvi_file_put(file, "half", 4));
    return vv_fail(VV_EINTERRUPTED, "stopped by the test");
}

static void test_failed_callback_keeps_the_old_file(void **state)
{
    (void)state;
    assert_ok(vvi_file_write_atomic(path, "old", 3));
    assert_fails(vvi_file_write_atomic_with(path, fail_half_way, NULL), VV_EINTERRUPTED);
    assert_content("old", 3);
    assert_int_equal(files_in_folder(), 1);
}

static void test_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    static char large[100000];
    struct rlimit before, small;
    assert_ok(vvi_file_write_atomic(path, "old", 3));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 50000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    vv_error_clear();
    vv_status status = vvi_file_write_atomic(path, large, sizeof large);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, VV_EIO);
    assert_says(path);
    assert_content("old", 3);
    assert_int_equal(files_in_folder(), 1);
}

static void test_each_allocation_failing(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    assert_ok(vvi_file_write_atomic(path, "old", 3));
    for (uint64_t n = 1;; n++) {
        char *data = NULL;
        vv_memory_fail_at(n);
        vv_status status = vvi_file_write_atomic(path, "new", 3);
        if (status == VV_OK)
            status = vvi_file_read_all(&data, NULL, path);
        vv_memory_fail_at(0);
        vv_dealloc(data);
        assert_int_equal(vv_memory_live_count(), blocks);
        assert_int_equal(files_in_folder(), 1);
        if (status == VV_OK) {
            assert_true(n > 2);
            assert_content("new", 3);
            break;
        }
        if (n <= 2)
            assert_content("old", 3);
        assert_int_equal(status, VV_ENOMEM);
    }
}

static void assert_join(const char *a, const char *b, const char *want)
{
    char *joined;
    assert_ok(vvi_path_join(&joined, a, b));
    assert_string_equal(joined, want);
    vv_dealloc(joined);
}

static void test_paths_and_folders(void **state)
{
    (void)state;
    assert_join("a", "b", "a/b");
    assert_join("a/", "b", "a/b");
    assert_join("", "b", "b");
    assert_join(NULL, "b", "b");
    assert_join("a", "/b", "/b");
    char deep[300], middle[300];
    snprintf(middle, sizeof middle, "%s/one", folder);
    snprintf(deep, sizeof deep, "%s/one/two//three/", folder);
    assert_ok(vvi_mkdirs(deep));
    assert_true(vvi_is_folder(deep));
    assert_ok(vvi_mkdirs(deep));
    assert_ok(vvi_mkdirs(""));
    assert_ok(vvi_mkdirs("/"));
    assert_ok(vvi_file_write_atomic(path, "", 0));
    assert_true(vvi_exists(path) && !vvi_is_folder(path));
    char below[300];
    snprintf(below, sizeof below, "%s/file/below", folder);
    assert_true(vvi_mkdirs(below) != VV_OK);
    assert_false(vvi_exists(below));
    assert_ok(vvi_file_remove(path));
    assert_ok(vvi_file_remove(path));
    assert_false(vvi_exists(path));
    assert_true(vvi_file_remove(middle) != VV_OK);
    rmdir(deep);
    snprintf(deep, sizeof deep, "%s/one/two", folder);
    rmdir(deep);
    rmdir(middle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_failed_callback_keeps_the_old_file),
        cmocka_unit_test(test_full_disk_keeps_the_old_file),
        cmocka_unit_test(test_each_allocation_failing),
        cmocka_unit_test(test_paths_and_folders),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
