/* registry_table.h - the generated tables, each ended by NULL. */
#ifndef VVI_REGISTRY_TABLE_H
#define VVI_REGISTRY_TABLE_H

#include <vivace/train.h>

extern const vv_method_desc *const vvi_method_table[];
extern const vv_model_desc *const vvi_model_table[];
extern const vv_dataset_desc *const vvi_dataset_table[];
extern const vv_callback_desc *const vvi_callback_table[];
extern const vv_logger_desc *const vvi_logger_table[];

#endif
