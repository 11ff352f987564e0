/* registry.h - everything this build has, by kind and name. The tables are generated from the lists
 * in methods/, models/, datasets/, callbacks/ and loggers/. */
#ifndef VIVACE_REGISTRY_H
#define VIVACE_REGISTRY_H

#include <vivace/train.h>

VV_BEGIN_DECLS

/* Descriptor number i of a kind ("method", "model", "dataset", "optimizer", "schedule", "callback",
   "logger", "metric", "loss"; plurals are allowed), NULL past the end or for an unknown kind. */
VV_API VV_BORROWED const vv_desc *vv_registry_at(const char *kind, int i);
/* By name; VV_ENOTFOUND with the nearest name. */
VV_API VV_MUST_USE vv_status vv_registry_find(VV_BORROWED const vv_desc **out, const char *kind,
                                              const char *name);
VV_API VV_MUST_USE vv_status vv_method_find(VV_BORROWED const vv_method_desc **out,
                                            const char *name);
VV_API VV_MUST_USE vv_status vv_model_find(VV_BORROWED const vv_model_desc **out, const char *name);
VV_API VV_MUST_USE vv_status vv_dataset_find(VV_BORROWED const vv_dataset_desc **out,
                                             const char *name);
VV_API VV_MUST_USE vv_status vv_callback_find(VV_BORROWED const vv_callback_desc **out,
                                              const char *name);
VV_API VV_MUST_USE vv_status vv_logger_find(VV_BORROWED const vv_logger_desc **out,
                                            const char *name);
/* A method by name with settings as text ("alpha=0.2,interpolate_loss=true"; NULL = defaults). */
VV_API VV_MUST_USE vv_status vv_method_make(VV_OWNED vv_method **out, const char *name,
                                            const char *settings);

VV_END_DECLS

#endif
