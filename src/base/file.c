/* file.c - files and folders: read whole, write whole or not at all. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <vivace/memory.h>
#include <vivace/str.h>

/* One system call takes at most about 2 GiB. */
#define CHUNK_BYTES ((size_t)1 << 30)

struct vvi_file {
    int fd, folder;  /* folder: fsynced after the rename; -1 if it cannot be opened */
    char *path;      /* the one the user knows, and for sentences */
    char *temporary; /* NULL = nothing to remove */
};

static vv_status fail_errno(const char *what, const char *path, int error)
{
    vv_status status = error == ENOENT ? VV_ENOTFOUND : error == EEXIST ? VV_EEXIST : VV_EIO;
    const char *hint = error == ENOSPC || error == EDQUOT
                           ? "; free some space or choose another folder"
                       : error == EACCES || error == EROFS ? "; choose a place you may write to"
                                                           : "";
    if (status == VV_ENOTFOUND || error == EISDIR)
        hint = "; check the path";
    return vv_fail(status, "cannot %s '%s': %s%s", what, path, strerror(error), hint);
}

static int open_retry(const char *path, int flags, mode_t mode)
{
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static vv_status read_to_end(char **data, size_t *length, int fd, size_t guess, size_t limit,
                             const char *path)
{
    size_t capacity = guess + 1; /* one more, to see the end without growing */
    VV_TRY(vv_realloc_array(data, capacity, 1));
    while (*length < limit) {
        size_t room = capacity - *length;
        room = room < limit - *length ? room : limit - *length;
        if (room == 0) {
            VV_TRY(vv_size_mul(&capacity, capacity, 2));
            VV_TRY(vv_realloc_array(data, capacity, 1));
            continue;
        }
        ssize_t n = read(fd, *data + *length, room < CHUNK_BYTES ? room : CHUNK_BYTES);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno("read", path, errno);
        *length += (size_t)n;
    }
    if (*length == capacity)
        VV_TRY(vv_realloc_array(data, capacity + 1, 1));
    (*data)[*length] = '\0';
    return VV_OK;
}

vv_status vvi_file_read_head(char **out, size_t *bytes, const char *path, size_t limit)
{
    *out = NULL;
    if (bytes)
        *bytes = 0;
    vv_status status = VV_OK;
    char *data = NULL;
    size_t length = 0;
    struct stat info;
    int fd = open_retry(path, O_RDONLY, 0);
    if (fd < 0)
        return fail_errno("open", path, errno);
    if (fstat(fd, &info)) {
        status = fail_errno("read", path, errno);
        goto out;
    }
    if (S_ISDIR(info.st_mode)) {
        status = fail_errno("read", path, EISDIR);
        goto out;
    }
    size_t guess = info.st_size > 0 ? (size_t)info.st_size : 4095;
    VV_GO(read_to_end(&data, &length, fd, guess < limit ? guess : limit, limit, path));
    *out = data;
    data = NULL;
    if (bytes)
        *bytes = length;
out:
    vv_dealloc(data);
    close(fd);
    return status;
}

vv_status vvi_file_read_all(char **out, size_t *bytes, const char *path)
{
    return vvi_file_read_head(out, bytes, path, SIZE_MAX);
}

vv_status vvi_file_put(vvi_file *file, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t n = write(file->fd, at, bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_errno("write", file->path, n < 0 ? errno : ENOSPC);
        at += n;
        bytes -= (size_t)n;
    }
    return VV_OK;
}

vv_status vvi_file_put_at(vvi_file *file, uint64_t at, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes) {
        const size_t piece = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
        ssize_t n = pwrite(file->fd, from, piece, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_errno("write", file->path, n < 0 ? errno : ENOSPC);
        from += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return VV_OK;
}

/* "<path>.tmp-<pid>-<n>", a name nobody else uses; *name has room for it. */
static void temporary_name(char *name, size_t room, const char *path)
{
    static _Atomic unsigned next;
    snprintf(name, room, "%s.tmp-%ld-%u", path, (long)getpid(), atomic_fetch_add(&next, 1));
}

static vv_status temporary_room(char **name, size_t *room, const char *path)
{
    VV_TRY(vv_size_add(room, strlen(path), 48));
    return vv_alloc(name, *room);
}

/* Opens a temporary file beside PATH; *name is the caller's to free. */
static vv_status open_temporary(int *fd, char **name, const char *path)
{
    size_t room;
    VV_TRY(temporary_room(name, &room, path));
    do {
        temporary_name(*name, room, path);
        *fd = open_retry(*name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    } while (*fd < 0 && errno == EEXIST);
    return *fd < 0 ? fail_errno("write", path, errno) : VV_OK;
}

/* The folder of a file, to be fsynced after a rename; -1 if it may be entered but not opened. */
static vv_status open_folder_of(int *fd, const char *path)
{
    char *folder;
    VV_TRY(vv_strdup(&folder, path));
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    *fd = open_retry(slash ? folder : ".", O_RDONLY | O_DIRECTORY, 0);
    vv_dealloc(folder);
    return VV_OK;
}

/* Makes a rename last through a power cut. Some file systems cannot fsync a folder: EINVAL. */
static vv_status sync_folder(int folder, const char *path)
{
    if (folder >= 0 && fsync(folder) && errno != EINVAL && errno != EROFS)
        return fail_errno("write", path, errno);
    return VV_OK;
}

void vvi_file_abandon(vvi_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    if (file->folder >= 0)
        close(file->folder);
    if (file->temporary)
        unlink(file->temporary);
    vv_dealloc(file->temporary);
    vv_dealloc(file->path);
    vv_dealloc(file);
}

vv_status vvi_file_begin(vvi_file **out, const char *path)
{
    vv_status status;
    vvi_file *file = NULL;
    char *name = NULL;
    *out = NULL;
    VV_GO(vv_alloc(&file, sizeof *file));
    file->fd = file->folder = -1;
    VV_GO(vv_strdup(&file->path, path));
    VV_GO(open_folder_of(&file->folder, path));
    VV_GO(open_temporary(&file->fd, &name, path));
    file->temporary = name;
    *out = file;
    return VV_OK;
out:
    vv_dealloc(name);
    vvi_file_abandon(file);
    return status;
}

vv_status vvi_file_finish(vvi_file *file)
{
    vv_status status = VV_OK;
    if (fsync(file->fd)) {
        status = fail_errno("write", file->path, errno);
        goto out;
    }
    const int closed = close(file->fd);
    file->fd = -1;
    if (closed || rename(file->temporary, file->path)) {
        status = fail_errno("write", file->path, errno);
        goto out;
    }
    vv_dealloc(file->temporary);
    file->temporary = NULL;
    status = sync_folder(file->folder, file->path);
out:
    vvi_file_abandon(file);
    return status;
}

vv_status vvi_file_write_atomic_with(const char *path, vvi_write_fn *write_content, const void *ctx)
{
    vvi_file *file;
    VV_TRY(vvi_file_begin(&file, path));
    const vv_status status = write_content(file, ctx);
    if (status == VV_OK)
        return vvi_file_finish(file);
    vvi_file_abandon(file);
    return status;
}

typedef struct span {
    const void *data;
    size_t bytes;
} span;

static vv_status put_span(vvi_file *file, const void *ctx)
{
    const span *content = ctx;
    return vvi_file_put(file, content->data, content->bytes);
}

vv_status vvi_file_write_atomic(const char *path, const void *data, size_t bytes)
{
    const span content = {data, bytes};
    return vvi_file_write_atomic_with(path, put_span, &content);
}

vv_status vvi_link_replace(const char *path, const char *target)
{
    vv_status status = VV_OK;
    int folder = -1, made;
    char *name = NULL;
    size_t room;
    VV_GO(open_folder_of(&folder, path));
    VV_GO(temporary_room(&name, &room, path));
    do {
        temporary_name(name, room, path);
        made = symlink(target, name);
    } while (made && errno == EEXIST);
    if (made && (errno == EPERM || errno == ENOTSUP || errno == ENOSYS)) {
        status = vvi_file_write_atomic(path, target, strlen(target));
        goto out;
    }
    if (made || rename(name, path)) {
        status = fail_errno("write", path, errno);
        if (!made)
            unlink(name);
        goto out;
    }
    status = sync_folder(folder, path);
out:
    if (folder >= 0)
        close(folder);
    vv_dealloc(name);
    return status;
}

vv_status vvi_room_for(const char *folder, uint64_t bytes)
{
    struct statvfs info;
    struct rlimit limit;
    char need[32], room[32];
    vv_bytes_text((size_t)bytes, need, sizeof need);
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (uint64_t)limit.rlim_cur < bytes)
        return vv_fail(VV_EIO, "%s: %s are needed, but this process may write files of at most %s "
                               "(ulimit -f)", folder, need,
                       vv_bytes_text((size_t)limit.rlim_cur, room, sizeof room));
    if (statvfs(folder, &info) || info.f_blocks == 0)
        return VV_OK; /* unknown */
    const uint64_t blocks = info.f_bavail, size = info.f_frsize;
    if (!size || blocks > UINT64_MAX / size || blocks * size >= bytes)
        return VV_OK;
    return vv_fail(VV_EIO, "%s: %s are needed, %s are free; free some space or choose another "
                           "folder", folder, need,
                   vv_bytes_text((size_t)(blocks * size), room, sizeof room));
}

vv_status vvi_path_join(char **out, const char *folder, const char *name)
{
    *out = NULL;
    size_t length = folder ? strlen(folder) : 0;
    if (length == 0 || name[0] == '/')
        return vv_strdup(out, name);
    const char *slash = folder[length - 1] == '/' ? "" : "/";
    size_t room;
    VV_TRY(vv_size_add(&room, length + 2, strlen(name)));
    VV_TRY(vv_alloc(out, room));
    snprintf(*out, room, "%s%s%s", folder, slash, name);
    return VV_OK;
}

static vv_status make_one(const char *path)
{
    if (mkdir(path, 0777) == 0 || vvi_is_folder(path))
        return VV_OK;
    return fail_errno("make the folder", path, errno);
}

vv_status vvi_mkdirs(const char *path)
{
    if (!path[0])
        return VV_OK;
    char *part;
    VV_TRY(vv_strdup(&part, path));
    vv_status status = VV_OK;
    for (char *s = part + 1; *s; s++) {
        if (*s != '/')
            continue;
        *s = '\0';
        VV_GO(make_one(part));
        *s = '/';
    }
    status = make_one(part);
out:
    vv_dealloc(part);
    return status;
}

bool vvi_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool vvi_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

vv_status vvi_file_remove(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return VV_OK;
    return fail_errno("remove", path, errno);
}
