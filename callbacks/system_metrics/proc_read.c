/* proc_read.c - reads /proc/stat, self/stat, meminfo, diskstats and net/dev (proc(5)). */
#include "proc_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static FILE *open_file(const char *proc, const char *name)
{
    char path[512];
    int length = snprintf(path, sizeof path, "%s/%s", proc, name);
    return length > 0 && (size_t)length < sizeof path ? fopen(path, "r") : NULL;
}

/* "cpu user nice system idle iowait irq softirq steal ..."; guests are in user and nice already. */
static void read_cpu(proc_counters *out, const char *proc)
{
    double t[8] = {0};
    FILE *file = open_file(proc, "stat");
    if (!file)
        return;
    int n = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4],
                   &t[5], &t[6], &t[7]);
    fclose(file);
    if (n < 4)
        return;
    out->cpu_total = 0.0;
    for (int i = 0; i < 8; i++)
        out->cpu_total += t[i];
    out->cpu_busy = out->cpu_total - t[3] - t[4];
}

/* Fields 14 and 15 (user, system), behind the name in brackets, which may hold anything. */
static void read_process(proc_counters *out, const char *proc)
{
    char line[1024];
    double user, system;
    FILE *file = open_file(proc, "self/stat");
    if (!file)
        return;
    const char *text = fgets(line, sizeof line, file);
    fclose(file);
    const char *end = text ? strrchr(text, ')') : NULL;
    if (end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf", &user,
                      &system) == 2)
        out->process = user + system;
}

static void read_memory(proc_counters *out, const char *proc)
{
    char line[256];
    double kib;
    FILE *file = open_file(proc, "meminfo");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %lf", &kib) == 1)
            out->memory_total = 1024.0 * kib;
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1)
            out->memory_free = 1024.0 * kib;
    }
    fclose(file);
}

/* Partitions follow their disk and begin with its name; what lies on top of disks counts their
   bytes a second time. */
static bool is_disk(const char *name, const char *disk)
{
    static const char *const above[] = {"loop", "ram", "zram", "dm-", "md"};
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        if (strncmp(name, above[i], strlen(above[i])) == 0)
            return false;
    return !disk[0] || strncmp(name, disk, strlen(disk)) != 0;
}

static void read_disks(proc_counters *out, const char *proc)
{
    enum { SECTOR = 512 }; /* always, whatever the disk's own is */
    char line[512], name[64], disk[64] = "";
    double read, written;
    FILE *file = open_file(proc, "diskstats");
    if (!file)
        return;
    out->disk_read = out->disk_written = 0.0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " %*d %*d %63s %*d %*d %lf %*d %*d %*d %lf", name, &read, &written) != 3 ||
            !is_disk(name, disk))
            continue;
        memcpy(disk, name, sizeof disk);
        out->disk_read += SECTOR * read;
        out->disk_written += SECTOR * written;
    }
    fclose(file);
}

static void read_network(proc_counters *out, const char *proc)
{
    char line[512], name[64];
    double received, sent;
    FILE *file = open_file(proc, "net/dev");
    if (!file)
        return;
    out->net_received = out->net_sent = 0.0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " %63[^:]: %lf %*f %*f %*f %*f %*f %*f %*f %lf", name, &received, &sent) !=
                3 ||
            strcmp(name, "lo") == 0)
            continue;
        out->net_received += received;
        out->net_sent += sent;
    }
    fclose(file);
}

void proc_read(proc_counters *out, const char *proc)
{
    const double unknown = (double)NAN;
    *out = (proc_counters){unknown, unknown, unknown, unknown, unknown,
                           unknown, unknown, unknown, unknown};
    read_cpu(out, proc);
    read_process(out, proc);
    read_memory(out, proc);
    read_disks(out, proc);
    read_network(out, proc);
}
