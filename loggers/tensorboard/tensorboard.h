/* tensorboard.h - logged numbers, the recipe and messages as TensorBoard event files. */
#ifndef VIVACE_LOGGERS_TENSORBOARD_H
#define VIVACE_LOGGERS_TENSORBOARD_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_tensorboard_opts {
    const char *dir; /* "" = tensorboard; a relative path lies in the run's folder */
} vv_tensorboard_opts;

extern VV_API const vv_logger_desc vv_logger_tensorboard;

VV_END_DECLS

#endif
