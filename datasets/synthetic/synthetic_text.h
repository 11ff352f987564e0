/* synthetic_text.h - the texts of the set `synthetic`. */
#ifndef VVI_SYNTHETIC_TEXT_H
#define VVI_SYNTHETIC_TEXT_H

#include "synthetic.h"

VV_MUST_USE vv_status vvi_synthetic_text(VV_OWNED vv_dataset **out, const vv_synthetic_opts *opts,
                                         bool train);

#endif
