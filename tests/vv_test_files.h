/* vv_test_files.h - for tests of data sets: a temporary folder and the files they are made of. */
#ifndef VV_TEST_FILES_H
#define VV_TEST_FILES_H

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vv_test.h"

/* A new folder; its path stays in `dir`. */
static inline void temp_dir(char dir[256])
{
    const char *root = getenv("TMPDIR");
    snprintf(dir, 256, "%s/vivace-test-XXXXXX", root && root[0] ? root : "/tmp");
    assert_non_null(mkdtemp(dir));
}

/* Removes the folder and the files in it. */
static inline void remove_dir(const char *dir)
{
    DIR *list = opendir(dir);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        char path[1024];
        const int length = snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        assert_in_range(length, 1, sizeof path - 1);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(path) != 0)
            remove_dir(path);
    }
    closedir(list);
    assert_int_equal(rmdir(dir), 0);
}

static inline void write_file(const char *dir, const char *name, const void *data, size_t bytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Files in the folder, "." and ".." not counted. */
static inline int count_files(const char *dir)
{
    int count = 0;
    DIR *list = opendir(dir);
    assert_non_null(list);
    while (readdir(list))
        count++;
    closedir(list);
    return count - 2;
}

/* An IDX file of bytes: dims, then value(i) = (i * 7 + seed) % modulus; returns its size. */
static inline size_t make_idx(unsigned char *out, int ndim, const int *dims, int seed, int modulus)
{
    size_t at = 0, count = 1;
    out[at++] = 0;
    out[at++] = 0;
    out[at++] = 8;
    out[at++] = (unsigned char)ndim;
    for (int i = 0; i < ndim; i++) {
        out[at++] = 0;
        out[at++] = 0;
        out[at++] = (unsigned char)(dims[i] >> 8);
        out[at++] = (unsigned char)dims[i];
        count *= (size_t)dims[i];
    }
    for (size_t i = 0; i < count; i++)
        out[at++] = (unsigned char)((i * 7 + (size_t)seed) % (size_t)modulus);
    return at;
}

/* The four files of a small MNIST in `dir`: 7 images to train, 3 to evaluate. */
static inline void write_mnist(const char *dir)
{
    static unsigned char buffer[8192];
    const int train[3] = {7, 28, 28}, eval[3] = {3, 28, 28};
    write_file(dir, "train-images-idx3-ubyte", buffer, make_idx(buffer, 3, train, 1, 251));
    write_file(dir, "train-labels-idx1-ubyte", buffer, make_idx(buffer, 1, train, 2, 10));
    write_file(dir, "t10k-images-idx3-ubyte", buffer, make_idx(buffer, 3, eval, 3, 251));
    write_file(dir, "t10k-labels-idx1-ubyte", buffer, make_idx(buffer, 1, eval, 4, 10));
}

#endif
