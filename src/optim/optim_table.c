/* optim_table.c - the built-in optimizers by name. */
#include <string.h>

#include "optim/optim_kernels.h"

static const vv_optimizer_desc *const table[] = {
    &vvi_adam,
    &vvi_adamw,
    &vvi_decoupled_adamw,
    &vvi_decoupled_sgdw,
    &vvi_muon,
    &vvi_normuon,
    &vvi_radam,
    &vvi_rmsprop,
    &vvi_schedule_free_adamw,
    &vvi_schedule_free_sgd,
    &vvi_sgd,
    &vvi_soap,
    NULL,
};

const vv_optimizer_desc *const *vv_optimizer_table(void)
{
    return table;
}

const vv_optimizer_desc *vv_optimizer_find(const char *name)
{
    for (int i = 0; table[i]; i++)
        if (strcmp(table[i]->desc.name, name) == 0)
            return table[i];
    return NULL;
}
