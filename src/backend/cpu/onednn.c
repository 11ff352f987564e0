/* onednn.c - engine, operands and execution of oneDNN primitives.
 *
 * All objects are made in `prepare`. A run sets data handles and executes; it allocates nothing. */
#include "backend/cpu/onednn.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <vivace/memory.h>

#include <stdatomic.h>

#include "vvi_config.h"

#if VVI_HAVE_OPENMP
#include <omp.h>
#endif

vv_status vvi_onednn_check(dnnl_status_t status, const char *what)
{
    switch (status) {
    case dnnl_success:
        return VV_OK;
    case dnnl_out_of_memory:
        return vv_fail(VV_ENOMEM, "oneDNN ran out of memory: %s", what);
    case dnnl_unimplemented:
        return vv_fail(VV_EUNSUPPORTED, "oneDNN has no kernel for this: %s", what);
    default:
        return vv_fail(VV_EINTERNAL, "oneDNN refused (status %d): %s", (int)status, what);
    }
}

dnnl_data_type_t vvi_onednn_type(vv_dtype dtype)
{
    return dtype == VV_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* One engine and one stream for the process, made by whoever comes first and kept to its end. */
static vv_status shared_engine(dnnl_engine_t *engine, dnnl_stream_t *stream)
{
    static _Atomic(dnnl_engine_t) the_engine;
    static _Atomic(dnnl_stream_t) the_stream;
    *engine = atomic_load(&the_engine);
    if (!*engine) {
        dnnl_engine_t made, seen = NULL;
        VVI_DNN(dnnl_engine_create(&made, dnnl_cpu, 0), "making the CPU engine");
        if (!atomic_compare_exchange_strong(&the_engine, &seen, made)) {
            dnnl_engine_destroy(made);
            made = seen;
        }
        *engine = made;
    }
    *stream = atomic_load(&the_stream);
    if (!*stream) {
        dnnl_stream_t made, seen = NULL;
        VVI_DNN(dnnl_stream_create(&made, *engine, dnnl_stream_default_flags), "making a stream");
        if (!atomic_compare_exchange_strong(&the_stream, &seen, made)) {
            dnnl_stream_destroy(made);
            made = seen;
        }
        *stream = made;
    }
    return VV_OK;
}

static void use_threads(int threads)
{
#if VVI_HAVE_OPENMP
    if (omp_get_max_threads() != threads)
        omp_set_num_threads(threads);
#else
    (void)threads;
#endif
}

vv_status vvi_onednn_new(vvi_onednn_node **out)
{
    vvi_onednn_node *node;
    *out = NULL;
    VV_TRY(vv_alloc(&node, sizeof *node));
    vv_status status = VV_OK;
    node->threads = vv_threads();
    use_threads(node->threads);
    VV_GO(shared_engine(&node->engine, &node->stream));
    VV_GO(vvi_onednn_check(dnnl_primitive_attr_create(&node->attr), "making attributes"));
    VV_GO(vvi_onednn_check(
        dnnl_primitive_attr_set_scratchpad_mode(node->attr, dnnl_scratchpad_mode_user),
        "asking for a scratchpad of ours"));
    *out = node;
    node = NULL;
out:
    vvi_onednn_free(node);
    return status;
}

void vvi_onednn_free(void *state)
{
    vvi_onednn_node *node = state;
    if (!node)
        return;
    for (int i = 0; i < node->n_args; i++) {
        vvi_onednn_arg *arg = &node->args[i];
        vvi_md_free(arg->plain);
        if (arg->plain_memory)
            dnnl_memory_destroy(arg->plain_memory);
        if (arg->wanted_memory)
            dnnl_memory_destroy(arg->wanted_memory);
        if (arg->reorder)
            dnnl_primitive_destroy(arg->reorder);
    }
    if (node->scratchpad)
        dnnl_memory_destroy(node->scratchpad);
    if (node->primitive)
        dnnl_primitive_destroy(node->primitive);
    if (node->desc)
        dnnl_primitive_desc_destroy(node->desc);
    if (node->forward)
        dnnl_primitive_desc_destroy(node->forward);
    if (node->attr)
        dnnl_primitive_attr_destroy(node->attr);
    vv_dealloc(node);
}

static size_t reserve(vvi_onednn_node *node, size_t bytes)
{
    const size_t at = node->scratch_bytes;
    node->scratch_bytes += vvi_align64(bytes);
    return at;
}

vv_status vvi_onednn_add(vvi_onednn_node *node, int id, int buf, const vv_buf *operand, int ndims,
                         const dnnl_dims_t dims, const dnnl_dims_t strides, vv_dtype compute)
{
    vvi_onednn_arg *arg = &node->args[node->n_args++];
    arg->id = id;
    arg->buf = buf;
    arg->dtype = operand->dtype;
    arg->count = operand->count;
    arg->convert = operand->dtype != compute;
    if (arg->convert)
        arg->converted_at = reserve(node, (size_t)operand->count * sizeof(float));
    VVI_DNN(vvi_md_new(&arg->plain, ndims, dims, vvi_onednn_type(compute), strides),
            "describing an operand");
    VVI_DNN(dnnl_memory_create(&arg->plain_memory, arg->plain, node->engine, DNNL_MEMORY_NONE),
            "making a memory object");
    return VV_OK;
}

static vv_status make_reorder(vvi_onednn_node *node, vvi_onednn_arg *arg, vvi_md wanted,
                              bool result)
{
    if (dnnl_memory_desc_equal(arg->plain, wanted))
        return VV_OK;
    arg->wanted_at = reserve(node, dnnl_memory_desc_get_size(wanted));
    VVI_DNN(dnnl_memory_create(&arg->wanted_memory, wanted, node->engine, DNNL_MEMORY_NONE),
            "making a memory object");
    dnnl_primitive_desc_t desc;
    VVI_DNN(dnnl_reorder_primitive_desc_create(&desc, result ? wanted : arg->plain, node->engine,
                                               result ? arg->plain : wanted, node->engine, NULL),
            "planning a change of layout");
    const dnnl_status_t made = dnnl_primitive_create(&arg->reorder, desc);
    dnnl_primitive_desc_destroy(desc);
    return vvi_onednn_check(made, "making a change of layout");
}

vv_status vvi_onednn_finish(vvi_onednn_node *node)
{
    VVI_DNN(dnnl_primitive_create(&node->primitive, node->desc), "making a primitive");
    for (int i = 0; i < node->n_args; i++)
        VV_TRY(make_reorder(
            node, &node->args[i],
            dnnl_primitive_desc_query_md(node->desc, dnnl_query_exec_arg_md, node->args[i].id),
            i == node->n_args - 1));
    vvi_md scratchpad = dnnl_primitive_desc_query_md(node->desc, dnnl_query_scratchpad_md, 0);
    if (scratchpad && dnnl_memory_desc_get_size(scratchpad) > 0) {
        node->scratchpad_at = reserve(node, dnnl_memory_desc_get_size(scratchpad));
        VVI_DNN(dnnl_memory_create(&node->scratchpad, scratchpad, node->engine, DNNL_MEMORY_NONE),
                "making a memory object");
    }
    return VV_OK;
}

static vv_status execute_reorder(vvi_onednn_node *node, dnnl_primitive_t reorder,
                                 dnnl_memory_t from, dnnl_memory_t to)
{
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    VVI_DNN(dnnl_primitive_execute(reorder, node->stream, 2, args), "changing a layout");
    return VV_OK;
}

/* Points the operand's memory objects at our buffers; brings an input into the wanted form. */
static vv_status bind(vvi_onednn_node *node, vvi_onednn_arg *arg, const vv_call *call, bool result)
{
    char *scratch = call->scratch;
    const vv_buf *buf = result ? &call->out[arg->buf] : &call->in[arg->buf];
    void *data = buf->data;
    if (arg->convert) {
        float *converted = (float *)(void *)(scratch + arg->converted_at);
        if (!result)
            vvi_vec_load_all(converted, arg->dtype, data, arg->count);
        data = converted;
    }
    VVI_DNN(dnnl_memory_set_data_handle(arg->plain_memory, data), "setting an operand");
    if (!arg->wanted_memory)
        return VV_OK;
    VVI_DNN(dnnl_memory_set_data_handle(arg->wanted_memory, scratch + arg->wanted_at),
            "setting an operand");
    if (result)
        return VV_OK;
    return execute_reorder(node, arg->reorder, arg->plain_memory, arg->wanted_memory);
}

vv_status vvi_onednn_execute(vvi_onednn_node *node, const vv_call *call)
{
    dnnl_exec_arg_t args[VVI_ONEDNN_MAX_ARGS + 1];
    int n = 0;
    use_threads(node->threads);
    for (int i = 0; i < node->n_args; i++) {
        vvi_onednn_arg *arg = &node->args[i];
        VV_TRY(bind(node, arg, call, i == node->n_args - 1));
        args[n].arg = arg->id;
        args[n++].memory = arg->wanted_memory ? arg->wanted_memory : arg->plain_memory;
    }
    if (node->scratchpad) {
        VVI_DNN(dnnl_memory_set_data_handle(node->scratchpad,
                                            (char *)call->scratch + node->scratchpad_at),
                "setting the scratchpad");
        args[n].arg = DNNL_ARG_SCRATCHPAD;
        args[n++].memory = node->scratchpad;
    }
    VVI_DNN(dnnl_primitive_execute(node->primitive, node->stream, n, args), "running a primitive");
    vvi_onednn_arg *result = &node->args[node->n_args - 1];
    if (result->wanted_memory)
        VV_TRY(execute_reorder(node, result->reorder, result->wanted_memory, result->plain_memory));
    return VV_OK;
}

float *vvi_onednn_result(const vvi_onednn_node *node, const vv_call *call)
{
    const vvi_onednn_arg *result = &node->args[node->n_args - 1];
    if (!result->convert)
        return call->out[result->buf].data;
    return (float *)(void *)((char *)call->scratch + result->converted_at);
}

void vvi_onednn_store(const vvi_onednn_node *node, const vv_call *call)
{
    const vvi_onednn_arg *result = &node->args[node->n_args - 1];
    if (result->convert)
        vvi_vec_store_all(result->dtype, call->out[result->buf].data, vvi_onednn_result(node, call),
                          result->count);
}

vv_status vvi_onednn_run(vvi_onednn_node *node, const vv_call *call)
{
    VV_TRY(vvi_onednn_execute(node, call));
    vvi_onednn_store(node, call);
    return VV_OK;
}

vv_status vvi_onednn_execute_on(vvi_onednn_node *node, void *const *data, void *scratch)
{
    dnnl_exec_arg_t args[VVI_ONEDNN_MAX_ARGS + 1];
    int n = 0;
    use_threads(node->threads);
    for (int i = 0; i < node->n_args; i++) {
        VVI_DNN(dnnl_memory_set_data_handle(node->args[i].plain_memory, data[i]),
                "setting an operand");
        args[n].arg = node->args[i].id;
        args[n++].memory = node->args[i].plain_memory;
    }
    if (node->scratchpad) {
        VVI_DNN(
            dnnl_memory_set_data_handle(node->scratchpad, (char *)scratch + node->scratchpad_at),
            "setting the scratchpad");
        args[n].arg = DNNL_ARG_SCRATCHPAD;
        args[n++].memory = node->scratchpad;
    }
    VVI_DNN(dnnl_primitive_execute(node->primitive, node->stream, n, args), "running a primitive");
    return VV_OK;
}

vv_status vvi_onednn_accumulate(vvi_onednn_node *node)
{
    dnnl_post_ops_t ops;
    VVI_DNN(dnnl_post_ops_create(&ops), "making a list of further operations");
    dnnl_status_t status = vvi_post_ops_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(node->attr, ops);
    dnnl_post_ops_destroy(ops);
    return vvi_onednn_check(status, "asking for accumulation");
}

void vvi_onednn_describe(vv_str *out)
{
    const dnnl_version_t *version = dnnl_version();
    vv_str_addf(out, "oneDNN %d.%d.%d, instruction set %#x", version->major, version->minor,
                version->patch, (unsigned)dnnl_get_effective_cpu_isa());
}
