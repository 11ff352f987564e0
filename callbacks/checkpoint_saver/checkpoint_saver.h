/* checkpoint_saver.h - a further series of checkpoints, beside the run's own. */
#ifndef VIVACE_CALLBACKS_CHECKPOINT_SAVER_H
#define VIVACE_CALLBACKS_CHECKPOINT_SAVER_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_checkpoint_saver_opts {
    const char *dir; /* "" = "saved" in the run's folder; a path without / in front lies there */
    const char *filename; /* of a file, without its ending; placeholders as in vv_save_opts */
    vv_time interval;
    int64_t keep;      /* how many of the newest; 0 = all */
    bool weights_only; /* no state to continue from */
    bool zstd;         /* packed: "NAME.safetensors.zst" */
} vv_checkpoint_saver_opts;
#define VV_CHECKPOINT_SAVER_DEFAULTS                                              \
    {                                                                             \
        "", "ep{epoch:04}-ba{batch:08}", {VV_UNIT_EPOCH, 1, 0.0}, 0, false, false \
    }

extern VV_API const vv_callback_desc vv_callback_checkpoint_saver;

VV_END_DECLS

#endif
