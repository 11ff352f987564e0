/* safetensors_peek.h - the texts of a file without its data. */
#ifndef VVI_SAFETENSORS_PEEK_H
#define VVI_SAFETENSORS_PEEK_H

#include <vivace/safetensors.h>

#include "tensor/safetensors_zstd.h"

/* *out = a file with its texts and no tensors: the header alone is read, nothing is checked against
   checksums. The cost does not depend on the size of the data. */
VV_MUST_USE vv_status vvi_safetensors_texts(VV_OWNED vv_safetensors **out, const char *path);

#endif
