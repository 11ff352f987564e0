/* bytes.c - amounts of memory as texts: "4GiB", "512 MiB". */
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include <vivace/str.h>

#include "base/number.h"

static const struct {
    const char *name;
    double bytes;
} units[] = {
    {"", 1},       {"b", 1},           {"kb", 1e3},           {"mb", 1e6},
    {"gb", 1e9},   {"tb", 1e12},       {"kib", 1024.0},       {"mib", 1048576.0},
    {"gib", 1073741824.0},             {"tib", 1099511627776.0},
};

vv_status vv_bytes_parse(int64_t *out, const char *text)
{
    *out = 0;
    vvi_number number = {0};
    const char *unit = vvi_number_read(&number, text);
    while (unit && *unit == ' ')
        unit++;
    for (size_t i = 0; unit && number.value >= 0.0 && i < sizeof units / sizeof *units; i++) {
        double bytes = number.value * units[i].bytes;
        if (strcasecmp(unit, units[i].name) != 0 || !(bytes < 9e18))
            continue;
        *out = (int64_t)rint(bytes);
        return VV_OK;
    }
    return vv_fail(VV_EINVAL, "'%s' is not an amount of memory; write 4GiB, 512MiB, 2GB", text);
}

const char *vv_bytes_text(size_t bytes, char *buf, size_t buf_bytes)
{
    static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double number = (double)bytes;
    int unit = 0;
    while (number >= 1024.0 && unit < 4) {
        number /= 1024.0;
        unit++;
    }
    snprintf(buf, buf_bytes, unit ? "%.1f %s" : "%.0f %s", number, names[unit]);
    return buf;
}
