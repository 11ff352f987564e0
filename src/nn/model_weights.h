/* model_weights.h - loading weights with patterns that the caller watches. */
#ifndef VVI_MODEL_WEIGHTS_H
#define VVI_MODEL_WEIGHTS_H

#include <vivace/model.h>

#include "base/pattern.h"

/* vv_model_load; `ignore` is compared with "fc.weight" and "model/fc.weight". */
VV_MUST_USE vv_status vvi_model_load(vv_model *model, const vv_safetensors *file, bool strict,
                                     bool new_head, vvi_patterns *ignore, vv_str *told,
                                     int *loaded);

#endif
