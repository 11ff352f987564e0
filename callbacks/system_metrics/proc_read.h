/* proc_read.h - counters of the machine, from the kernel's files. */
#ifndef VIVACE_CALLBACKS_PROC_READ_H
#define VIVACE_CALLBACKS_PROC_READ_H

#include <vivace/status.h>

/* NaN where the kernel does not tell. All but memory grow from the machine's start. */
typedef struct proc_counters {
    double cpu_busy, cpu_total;           /* ticks of all cores */
    double process;                       /* ticks of this process */
    double memory_total, memory_free;     /* bytes; free: available to programs */
    double disk_read, disk_written;       /* bytes, whole disks */
    double net_received, net_sent;        /* bytes, all interfaces but the loopback */
} proc_counters;

void proc_read(proc_counters *out, const char *proc);

#endif
