/* gpt_parts.h - what gpt.c and gpt_parts.c share. */
#ifndef VVI_GPT_PARTS_H
#define VVI_GPT_PARTS_H

#include "gpt.h"

/* Adds a part to `module`, as its constructor made it (`made`). */
vv_status vvi_gpt_push(vv_module *module, const char *name, vv_status made, vv_module *part);
/* Adds an empty part of a class; *out is borrowed. */
vv_status vvi_gpt_push_part(vv_module **out, vv_module *module, const char *name,
                            const vv_module_class *type);
/* Fills a block. values: the table of value embeddings that its attention shares; NULL = none.
   Options have nothing left open. */
vv_status vvi_gpt_fill_block(vv_module *block, const vv_gpt_opts *o, vv_module *values);
/* For one forward: the tokens that tables of value embeddings below `net` are read at. */
void vvi_gpt_set_tokens(vv_module *net, vv_node *tokens);

#endif
