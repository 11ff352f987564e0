/* vivace.h - everything a user of the library needs. Extensions also include vivace/ext/
 * headers. */
#ifndef VIVACE_VIVACE_H
#define VIVACE_VIVACE_H

#include <vivace/attr.h>
#include <vivace/box_augment.h>
#include <vivace/callbacks.h>
#include <vivace/corpus.h>
#include <vivace/data.h>
#include <vivace/datasets.h>
#include <vivace/describe.h>
#include <vivace/detection.h>
#include <vivace/explorer.h>
#include <vivace/export.h>
#include <vivace/frontier.h>
#include <vivace/generate.h>
#include <vivace/graph.h>
#include <vivace/image.h>
#include <vivace/image_files.h>
#include <vivace/linalg.h>
#include <vivace/loggers.h>
#include <vivace/losses.h>
#include <vivace/memory.h>
#include <vivace/methods.h>
#include <vivace/metrics.h>
#include <vivace/model.h>
#include <vivace/models.h>
#include <vivace/nn.h>
#include <vivace/ops.h>
#include <vivace/optim.h>
#include <vivace/outline.h>
#include <vivace/pack.h>
#include <vivace/prices.h>
#include <vivace/recipe.h>
#include <vivace/recommend.h>
#include <vivace/registry.h>
#include <vivace/rng.h>
#include <vivace/run_store.h>
#include <vivace/runs.h>
#include <vivace/safetensors.h>
#include <vivace/status.h>
#include <vivace/str.h>
#include <vivace/tensor.h>
#include <vivace/token_file.h>
#include <vivace/tokenizer.h>
#include <vivace/train.h>
#include <vivace/training_time.h>
#include <vivace/weights.h>

#endif
