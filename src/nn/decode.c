/* decode.c - a row of tokens piece by piece: how many a tree has seen, and room for what its
 * attention layers keep of them. */
#include "nn/module.h"

bool vv_module_decoding(const vv_module *module)
{
    return module->decoding;
}

int64_t vv_module_past(const vv_module *module)
{
    return module->past;
}

static void set_past(vv_module *module, bool decoding, int64_t past)
{
    module->decoding = decoding;
    module->past = past;
    for (int i = 0; i < module->children.count; i++)
        set_past(module->children.items[i].u.module, decoding, past);
}

static vv_status begin(vv_module *module, int64_t tokens)
{
    if (module->type == &vv_attention_class)
        VV_TRY(vvi_attention_begin(module, tokens));
    for (int i = 0; i < module->children.count; i++)
        VV_TRY(begin(module->children.items[i].u.module, tokens));
    return VV_OK;
}

static void end(vv_module *module)
{
    if (module->type == &vv_attention_class)
        vvi_attention_end(module);
    for (int i = 0; i < module->children.count; i++)
        end(module->children.items[i].u.module);
}

vv_status vv_decode_begin(vv_module *net, int64_t tokens)
{
    if (!net || tokens < 1)
        return vv_fail(VV_EINVAL, net ? "decoding: room for %lld tokens; at least one is needed"
                                      : "decoding: no net for %lld tokens", (long long)tokens);

    const vv_status status = begin(net, tokens);

    if (status != VV_OK) {
        end(net);
        set_past(net, false, 0);
        return status;
    }
    set_past(net, true, 0);
    return VV_OK;
}

void vv_decode_advance(vv_module *net, int64_t count)
{
    if (net->decoding)
        set_past(net, true, net->past + count);
}

void vv_decode_end(vv_module *net)
{
    if (!net)
        return;
    end(net);
    set_past(net, false, 0);
}
