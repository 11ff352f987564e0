/* batch_size_schedule.c - batches that grow in stages (Smith et al., arXiv 1711.00489): many small
 * steps while gradients agree, large ones when noise is what is left. The Trainer and its loader do
 * the work (vv_trainer_opts.batch_stages); here settings become stages. */
#include "batch_size_schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads "0.25, 0.5, 1", with or without brackets. */
static vv_status read_scales(const char *text, double *scales, int *count)
{
    const char *at = text ? text : "";
    *count = 0;
    at += strspn(at, " [");
    while (*at && *at != ']') {
        char *end;
        if (*count == VV_BATCH_SIZE_STAGES)
            return vv_fail(VV_EINVAL, "scales: more than %d stages", VV_BATCH_SIZE_STAGES);
        const double scale = strtod(at, &end);
        if (end == at || !(scale > 0.0) || scale > 1e6)
            return vv_fail(VV_EINVAL, "scales: \"%s\"; give numbers above 0 such as 0.25,0.5,1",
                           text);
        scales[(*count)++] = scale;
        at = end + strspn(end, " ");
        if (*at == ',')
            at += 1 + strspn(at + 1, " ");
        else if (*at && *at != ']')
            return vv_fail(VV_EINVAL, "scales: \"%s\" is no list of numbers", text);
    }
    if (*count == 0)
        return vv_fail(VV_EINVAL, "scales: no stage; give numbers such as 0.25,0.5,1");
    return VV_OK;
}

vv_status vv_batch_size_stages(vv_batch_stage *stages, int *count,
                               const vv_batch_size_schedule_opts *opts, int64_t batch_size)
{
    double scales[VV_BATCH_SIZE_STAGES];
    VV_TRY(read_scales(opts->scales, scales, count));
    if (opts->at.count != *count - 1)
        return vv_fail(VV_EINVAL,
                       "scales has %d stages and at has %d times; a time is needed for each stage "
                       "after the first",
                       *count, opts->at.count);
    for (int i = 0; i < *count; i++) {
        const double size = rint(scales[i] * (double)batch_size);
        stages[i] = (vv_batch_stage){.from = i ? opts->at.items[i - 1] : vv_time_fraction(0.0),
                                     .size = size < 1.0 ? 1 : (int64_t)size,
                                     .lr_factor = pow(scales[i], opts->lr_power)};
    }
    return VV_OK;
}

/* ---- the Trainer's method ---- */

typedef struct stager {
    vv_batch_stage stages[VV_BATCH_SIZE_STAGES];
} stager;

static vv_status check(const void *opts)
{
    vv_batch_stage stages[VV_BATCH_SIZE_STAGES];
    int count;
    return vv_batch_size_stages(stages, &count, opts, 1);
}

static vv_status configure(vv_method *method, struct vv_trainer_opts *trainer)
{
    stager *self = method->self;
    if (!trainer->train)
        return VV_OK;
    if (trainer->batch_stage_count)
        return vv_fail(
            VV_EINVAL,
            "stages of batch sizes are given twice: the trainer has batch_stages already");
    VV_TRY(vv_batch_size_stages(self->stages, &trainer->batch_stage_count, method->opts,
                                vv_loader_batch_size(trainer->train)));
    trainer->batch_stages = self->stages;
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    method->effect++;
    vv_log_metric(state, "batch_size_schedule/batch_size", (double)state->batch->count);
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_batch_size_schedule_opts *o = method->opts;
    int64_t first, size;
    double factor;
    if (!state->train_loader)
        vv_str_add(line, "nothing to train");
    for (int i = 0; vv_state_batch_stage(state, i, &first, &size, &factor); i++) {
        vv_str_addf(line, i ? ", %lld from batch %lld on" : "batches of %lld", (long long)size,
                    (long long)first);
        if (o->lr_power != 0.0)
            vv_str_addf(line, " (learning rate times %.4g)", factor);
    }
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_batch_size_schedule_opts, member)
static const vv_field fields[] = {
    {"scales", "Batch size of each stage as a share of the run's batch_size.", VV_FIELD_STRING,
     AT(scales), "0.25,0.5,1", 0, 0, NULL},
    {"at", "When each stage after the first begins: dur, ep, ba, sp or tok.", VV_FIELD_TIMES,
     AT(at), "[0.3333dur, 0.6667dur]", 0, 0, NULL},
    {"lr_power", "The learning rate is multiplied by scale^lr_power; 0 = not.", VV_FIELD_FLOAT,
     AT(lr_power), "0", 0, 4, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_batch_size_schedule = {
    .desc = {.kind = "method",
             .name = "batch_size_schedule",
             .summary = "Starts with small batches and lets them grow in stages.",
             .cite = "Smith et al., Don't decay the learning rate (arXiv 1711.00489)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_batch_size_schedule_opts)},
    .phase = VV_PHASE_SELECT,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .self_size = sizeof(stager),
    .check = check,
    .apply = apply,
    .plan = plan,
    .configure = configure,
};

vv_method *vv_batch_size_schedule(const vv_batch_size_schedule_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_batch_size_schedule, opts) == VV_OK ? method : NULL;
}
