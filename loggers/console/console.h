/* console.h - what was logged, as blocks of lines for people who read logs. */
#ifndef VIVACE_LOGGERS_CONSOLE_H
#define VIVACE_LOGGERS_CONSOLE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_console_stream { VV_CONSOLE_STDERR, VV_CONSOLE_STDOUT } vv_console_stream;
typedef struct vv_console_opts {
    vv_time interval; /* batches or epochs between two blocks; the first batch always has one */
    int stream;       /* vv_console_stream */
    bool recipe;      /* prints the resolved recipe when a run starts */
} vv_console_opts;

extern VV_API const vv_logger_desc vv_logger_console;

VV_END_DECLS

#endif
