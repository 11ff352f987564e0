/* nan_search.h - which tensor of a step went bad first. */
#ifndef VIVACE_CALLBACKS_NAN_SEARCH_H
#define VIVACE_CALLBACKS_NAN_SEARCH_H

#include <vivace/ext/train.h>

/* The second pass over the batch that looks at each module's output. */
typedef struct nan_probe {
    bool active, infinity;
    struct nan_output {
        vv_module *module;
        vv_node *node;
    } *outputs; /* of this microbatch, in the order in which they were made */
    int count, capacity;
    vv_status status;
    vv_module *found; /* first one with a bad output */
} nan_probe;

/* Adds to `out` which of parameters, buffers, the batch, activations and gradients is bad, in this
   order: what lies earlier in the computation comes first. *weights = a parameter is bad, so that
   the next step would be too. Only at AFTER_TRAIN_BATCH; the monitor hands AFTER_FORWARD to
   nan_probe_look meanwhile. */
VV_MUST_USE vv_status nan_search(nan_probe *probe, vv_state *state, vv_str *out, bool *weights);
VV_MUST_USE vv_status nan_probe_look(nan_probe *probe);
/* The first parameter that is bad is added to `out`. */
bool nan_in_weights(vv_module *net, bool infinity, vv_str *out);
void nan_probe_fini(nan_probe *probe);

#endif
