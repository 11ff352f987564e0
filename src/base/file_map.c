/* file_map.c - files mapped into memory. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

vv_status vvi_file_map(vvi_mapping *out, const char *path)
{
    vv_status status = VV_OK;
    struct stat info;
    *out = (vvi_mapping){NULL, 0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return vv_fail(errno == ENOENT ? VV_ENOTFOUND : VV_EIO, "cannot open '%s': %s", path,
                       strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = vv_fail(VV_EIO, "%s: expected a regular file", path);
        goto out;
    }
    if ((uint64_t)info.st_size > SIZE_MAX / 2) {
        status = vv_fail(VV_EIO, "%s: too large for this machine's addresses", path);
        goto out;
    }
    out->data = "";
    if (info.st_size > 0) {
        void *at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED) {
            out->data = NULL;
            status = vv_fail(errno == ENOMEM ? VV_ENOMEM : VV_EIO,
                             "%s: cannot be mapped into memory: %s", path, strerror(errno));
            goto out;
        }
        out->data = at;
        out->bytes = (size_t)info.st_size;
    }
out:
    close(fd);
    return status;
}

void vvi_file_unmap(vvi_mapping *mapping)
{
    union {
        const void *data;
        void *address; /* munmap takes no const */
    } at = {.data = mapping->data};
    if (mapping->bytes > 0)
        munmap(at.address, mapping->bytes);
    *mapping = (vvi_mapping){NULL, 0};
}
