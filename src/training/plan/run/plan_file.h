/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Plans in files: a strategy, what it was made for, and what was predicted. `weft plan --save` writes them, `weft train
 * --plan` runs them, `weft plan compare` sets them against what was measured. JSON, with a version.
 */
#ifndef WEFT_TRAINING_PLAN_RUN_PLAN_FILE_H
#define WEFT_TRAINING_PLAN_RUN_PLAN_FILE_H

#include "base/format/json.h"
#include "core/topology/cluster_file.h"
#include "training/plan/search.h"
#include "training/train/loop/parallel_choice.h"

#define PLAN_FILE_VERSION 1

struct plan {
    char model[CLUSTER_NAME_BYTES];
    uint64_t model_hash; /**< plan_model_hash() */
    char cluster[CLUSTER_NAME_BYTES];
    uint32_t batch, sequence;
    enum optimizer_kind optimizer;
    weft_type gradients;
    struct strategy strategy;
    uint32_t *first_unit; /**< of each stage and the end: stages x pipeline + 1 */
    uint32_t *shares;     /**< micro-batches of each rank of the data axis; NULL: they differ by at most one */
    struct price price;
    uint64_t memory; /**< bytes of the device, or host, that needs most */
};

void plan_free(struct plan *plan);

/** A hash of a network's layers and tensors: names, kinds and shapes. Vocabularies may differ: weft train takes the data's. */
uint64_t plan_model_hash(const struct model_description *description);

/** Write to `path` atomically. Errors: SYSTEM; MEMORY. */
weft_status plan_save(const struct plan *plan, const char *path, struct error *error);

/** A member of a JSON object that is a number from `least` to `most`, or the name of a type of products: f32, bf16, f16.
 * `where` names the file in messages. Errors: DATA. */
weft_status plan_get_number(const cJSON *object, const char *key, const char *where, int64_t least, int64_t most,
                            uint32_t *number, struct error *error);
weft_status plan_get_type(const cJSON *object, const char *key, const char *where, weft_type *type,
                          struct error *error);

/** Put the members of a strategy, as a plan's file has them, into the object that is open. */
void plan_put_strategy(struct json_writer *writer, const struct strategy *strategy);

/** The same of the shares of `data` ranks; NULL: nothing is put. */
void plan_put_shares(struct json_writer *writer, const uint32_t *shares, uint32_t data);

/** plan_free() frees it. Errors: SYSTEM; DATA, with the key and value at fault; MEMORY. */
weft_status plan_load(const char *path, struct plan *plan, struct error *error);

/** What `description`, with its name, and the ranks of a run are, other than the plan's. */
#define PLAN_DIFFERENCES_BYTES 1024

/**
 * How a run differs from its plan: write "the plan is for batch 64, the run has 32; ..." to `text`, which is empty where
 * nothing differs. `config` has the run's batch, sequence, optimizer and gradients; NULL description: of unknown shape.
 */
const char *plan_differences(const struct plan *plan, const struct train_config *config,
                             const struct model_description *description, uint32_t ranks,
                             char text[PLAN_DIFFERENCES_BYTES]);

#endif
