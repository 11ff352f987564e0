/* no_op_model.h - a model of one parameter, to time everything but the model. */
#ifndef VIVACE_METHODS_NO_OP_MODEL_H
#define VIVACE_METHODS_NO_OP_MODEL_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* *out = a module with one parameter "weight" (1.5): [N,...] -> logits [N,classes], logit k =
   weight * k / classes in every row. */
VV_API VV_MUST_USE vv_status vv_no_op_model_new(VV_OWNED vv_module **out, int64_t classes);
extern VV_API const vv_module_class vv_no_op_model_class;

/* Puts such a module in the place of the model's net; *changed (may be NULL) = 0 if it is one
   already. optimizer (may be NULL) is kept in step. On failure nothing has changed. */
VV_API VV_MUST_USE vv_status vv_apply_no_op_model(vv_model *model, vv_optimizer *optimizer,
                                                  int *changed);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. */
VV_API VV_OWNED vv_method *vv_no_op_model(void);
extern VV_API const vv_method_desc vv_method_no_op_model;

VV_END_DECLS

#endif
