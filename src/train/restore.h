/* restore.h - reading a checkpoint's state: what the files that do it share. */
#ifndef VVI_RESTORE_H
#define VVI_RESTORE_H

#include <jansson.h>

#include "trainer_impl.h"

/* *out = the state among the file's texts, NULL if it has none. */
vv_status vvi_restore_state(json_t **out, const vv_safetensors *file);
/* Weights, optimizer, what is frozen, methods; not the clock. *batch = when it was saved. */
vv_status vvi_restore_learned(vv_trainer *trainer, const vv_safetensors *file, int64_t *batch);
vv_status vvi_get_int(const json_t *object, const char *key, int64_t *out);
/* Saved state of methods by name, of callbacks by name and occurrence. */
vv_status vvi_restore_methods(vv_trainer *trainer, const vv_safetensors *file, const json_t *state,
                              vv_str *told);
vv_status vvi_restore_callbacks(vv_trainer *trainer, const vv_safetensors *file,
                                const json_t *state, vv_str *told);

#endif
