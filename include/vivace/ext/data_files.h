/* ext/data_files.h - for those who write data sets: the file formats, and sets over tensors.
 *
 * Every reader checks sizes before it allocates, and reports a file that is cut short or foreign in
 * one sentence with file, expected and found. */
#ifndef VIVACE_EXT_DATA_FILES_H
#define VIVACE_EXT_DATA_FILES_H

#include <vivace/data.h>

VV_BEGIN_DECLS

/* *out = path of `name`, `name`.gz or `name`.zst in `dir`, the first that exists; VV_ENOTFOUND. */
VV_API VV_MUST_USE vv_status vv_data_file_find(VV_OWNED char **out, const char *dir,
                                               const char *name);
/* *out = the whole file; gzip and zstd (told by their first bytes) are unpacked. More than
   max_bytes after unpacking is refused. */
VV_API VV_MUST_USE vv_status vv_data_file_read(VV_OWNED void **out, size_t *bytes, const char *path,
                                               size_t max_bytes);
/* *out = u8 tensor of an IDX file (the MNIST format) in `dir`, plain or compressed, with `ndim`
   dimensions. */
VV_API VV_MUST_USE vv_status vv_idx_read(VV_OWNED vv_tensor **out, const char *dir,
                                         const char *name, int ndim, size_t max_bytes);
/* Reads CIFAR binary files (records of one label byte and three 32x32 planes) of `dir` in the order
   of `names` (ended by NULL): images u8 [N,32,32,3], labels i32 [N]. */
VV_API VV_MUST_USE vv_status vv_cifar_read(VV_OWNED vv_tensor **images, VV_OWNED vv_tensor **labels,
                                           const char *dir, const char *const *names);
/* Unpacks from dir/archive (.tar.gz) into `dir` the files whose last path component is one of
   `names` (ended by NULL); VV_EFORMAT if one is missing. Each appears whole or not at all. */
VV_API VV_MUST_USE vv_status vv_tar_gz_unpack(const char *dir, const char *archive,
                                              const char *const *names);
/* The two sets of IDX files of MNIST and its relatives, in the folder that `opts` (a
   vv_dataset_common), $VIVACE_DATA or system_dir name. spec gives mean, std and classes. */
VV_API VV_MUST_USE vv_status vv_dataset_open_idx(VV_OWNED vv_dataset **out, const char *name,
                                                 const vv_dataset_common *opts,
                                                 const char *system_dir, const char *split,
                                                 const vv_sample_spec *spec);
/* In-memory set over tensors inputs [count, ...] and targets [count, ...], which it takes. Shapes
   and types of `spec` are set from them; class targets (i32, spec->classes > 0) are checked. */
VV_API VV_MUST_USE vv_status vv_dataset_from_tensors(VV_OWNED vv_dataset **out, const char *name,
                                                     const vv_sample_spec *spec,
                                                     VV_TAKES vv_tensor *inputs,
                                                     VV_TAKES vv_tensor *targets);
/* Writes an image [height,width,channels] of 1 or 3 channels as PNG, whole or not at all.
   VV_EUNSUPPORTED in a build without libpng. */
VV_API bool vv_png_available(void);
VV_API VV_MUST_USE vv_status vv_png_write(const char *path, const uint8_t *pixels, int64_t height,
                                          int64_t width, int64_t channels);
/* *train = true for "train", false for "eval"; anything else is VV_EINVAL. */
VV_API VV_MUST_USE vv_status vv_dataset_split(bool *train, const char *name, const char *split);
/* An order for sets whose samples lie in groups (shards): the groups in random order, one after the
   other, cut into windows of so many samples, which are shuffled; so a window's samples lie in few
   groups. Group g has the samples from first[g] on, first[0] = 0, ascending. out[count] = samples
   0 .. count - 1, a function of (seed, epoch) and the groups only. */
VV_API VV_MUST_USE vv_status vv_order_windows(int64_t *out, int64_t count, const int64_t *first,
                                              int64_t groups, int64_t window, uint64_t seed,
                                              int64_t epoch);

VV_END_DECLS

#endif
