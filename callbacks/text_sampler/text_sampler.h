/* text_sampler.h - lets a language model go on with texts while it trains. */
#ifndef VIVACE_CALLBACKS_TEXT_SAMPLER_H
#define VIVACE_CALLBACKS_TEXT_SAMPLER_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_text_sampler_opts {
    vv_time interval;
    const char *prompts;   /* "|" between them; an empty one = the beginning of a document */
    const char *tokenizer; /* as vv_tokenizer_open takes it; "" = the data's, or the usual one */
    int64_t tokens;        /* new ones of each sample */
    double temperature, top_p;
    int64_t top_k, seed;
    const char *dir;       /* "" = samples in the run's folder, if it has one */
} vv_text_sampler_opts;
#define VV_TEXT_SAMPLER_DEFAULTS \
    {{VV_UNIT_BATCH, 500, 0.0}, "", "", 100, 0.8, 1.0, 0, 0, ""}

extern VV_API const vv_callback_desc vv_callback_text_sampler;

VV_END_DECLS

#endif
