/* memory_available.c - how much memory this process may still take: what the machine has free, and
 * what its control group (a container's limit) leaves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

/* A number behind `key` in a file of "key value" lines; key NULL = the file is one number. */
static bool read_number(const char *path, const char *key, unsigned long long *out)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        const char *at = line;
        if (key) {
            size_t length = strlen(key);
            if (strncmp(line, key, length) != 0)
                continue;
            at = line + length + strspn(line + length, ": \t");
        }
        char *end;
        *out = strtoull(at, &end, 10);
        found = end != at;
        if (!key)
            break;
    }
    fclose(file);
    return found;
}

/* What one group leaves; SIZE_MAX if it has no limit. Cached files are given back on demand. */
static size_t group_leaves(const char *folder)
{
    char path[512];
    unsigned long long most, used = 0, cached = 0;
    snprintf(path, sizeof path, "%s/memory.max", folder);
    if (!read_number(path, NULL, &most)) /* "max" or no such file */
        return SIZE_MAX;
    snprintf(path, sizeof path, "%s/memory.current", folder);
    if (!read_number(path, NULL, &used))
        return SIZE_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (read_number(path, "inactive_file", &cached) && cached < used)
        used -= cached;
    return used < most ? (size_t)(most - used) : 0;
}

/* The smallest over the group of this process and those around it. */
static size_t groups_leave(void)
{
    FILE *file = fopen("/proc/self/cgroup", "r");
    if (!file)
        return SIZE_MAX;
    char line[400], folder[480];
    size_t least = SIZE_MAX;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::", 3) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", line + 3);
        for (;;) {
            size_t leaves = group_leaves(folder);
            least = leaves < least ? leaves : least;
            char *cut = strrchr(folder, '/');
            if (!cut || strlen(folder) <= strlen("/sys/fs/cgroup"))
                break;
            *cut = 0;
        }
    }
    fclose(file);
    return least;
}

size_t vv_memory_available(void)
{
    unsigned long long kib;
    size_t free_bytes =
        read_number("/proc/meminfo", "MemAvailable", &kib) ? (size_t)kib * 1024 : SIZE_MAX;
    size_t left = groups_leave();
    size_t least = free_bytes < left ? free_bytes : left;
    return least == SIZE_MAX ? 0 : least;
}
