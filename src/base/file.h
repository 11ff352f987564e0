/* file.h - files and folders: read whole, write whole or not at all. */
#ifndef VVI_FILE_H
#define VVI_FILE_H

#include <vivace/status.h>

/* *out = the file's bytes and one NUL after them; *bytes (may be NULL) = their number without it.
   VV_ENOTFOUND if there is no such file, VV_EIO otherwise. Freed with vv_dealloc. */
VV_MUST_USE vv_status vvi_file_read_all(VV_OWNED char **out, size_t *bytes, const char *path);

/* Same, at most the first `limit` bytes. */
VV_MUST_USE vv_status vvi_file_read_head(VV_OWNED char **out, size_t *bytes, const char *path,
                                         size_t limit);

/* A file being written. */
typedef struct vvi_file vvi_file;
VV_MUST_USE vv_status vvi_file_put(vvi_file *file, const void *data, size_t bytes);
/* The same at an offset; what vvi_file_put writes goes on where it was. */
VV_MUST_USE vv_status vvi_file_put_at(vvi_file *file, uint64_t at, const void *data, size_t bytes);
/* Begins a file that appears at PATH only when it is finished; it is filled in the same folder. */
VV_MUST_USE vv_status vvi_file_begin(VV_OWNED vvi_file **out, const char *path);
/* fsync, rename to PATH, fsync of the folder. After a failure PATH is as it was. */
VV_MUST_USE vv_status vvi_file_finish(VV_TAKES vvi_file *file);
/* Removes what was begun; NULL is allowed. */
void vvi_file_abandon(VV_TAKES vvi_file *file);

/* Writes PATH whole or leaves it as it was: `write` fills a temporary file in the same folder,
   which is fsynced, renamed to PATH, and the folder is fsynced. */
typedef vv_status vvi_write_fn(vvi_file *file, const void *ctx);
VV_MUST_USE vv_status vvi_file_write_atomic_with(const char *path, vvi_write_fn *write,
                                                 const void *ctx);
VV_MUST_USE vv_status vvi_file_write_atomic(const char *path, const void *data, size_t bytes);

/* A regular file mapped into memory, read-only; an empty one has data "". */
typedef struct vvi_mapping {
    const void *data;
    size_t bytes;
} vvi_mapping;
VV_MUST_USE vv_status vvi_file_map(vvi_mapping *out, const char *path);
void vvi_file_unmap(vvi_mapping *mapping); /* zeroed ones are allowed */

/* *out = "folder/name"; `name` alone if it is absolute or `folder` is empty. */
VV_MUST_USE vv_status vvi_path_join(VV_OWNED char **out, const char *folder, const char *name);
/* Makes a folder and those above it; one that exists is no error. */
VV_MUST_USE vv_status vvi_mkdirs(const char *path);
bool vvi_exists(const char *path);
bool vvi_is_folder(const char *path);
/* Makes PATH a symbolic link to `target` (as seen from PATH's folder), in the place of what PATH
   was, at once. Where there are no links, PATH becomes a file with the target's name in it. */
VV_MUST_USE vv_status vvi_link_replace(const char *path, const char *target);
/* VV_EIO with a sentence if a file of so many bytes is known not to fit into the folder: too little
   free space, or the process may not write files so large. */
VV_MUST_USE vv_status vvi_room_for(const char *folder, uint64_t bytes);
/* Removes a file; one that is not there is no error. */
VV_MUST_USE vv_status vvi_file_remove(const char *path);

#endif
