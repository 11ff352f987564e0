/* backends.c - which backends this build has. */
#include <string.h>

#include <vivace/ext/backend.h>

#include "backend/ref/ref.h"
#include "vvi_config.h"
#if VVI_HAVE_CPU
#include "backend/cpu/cpu.h"
#endif

const vv_backend *vv_backend_default(void)
{
#if VVI_HAVE_CPU
    return &vvi_backend_cpu;
#else
    return &vvi_backend_ref;
#endif
}

const vv_backend *vv_backend_find(const char *name)
{
    for (const vv_backend *backend = vv_backend_default(); backend; backend = backend->next)
        if (strcmp(backend->name, name) == 0)
            return backend;
    return NULL;
}

const char *vv_backend_name(const vv_backend *backend)
{
    return backend ? backend->name : "none";
}

void vv_backend_describe(const vv_backend *backend, vv_str *out)
{
    if (backend && backend->describe)
        backend->describe(out);
}
