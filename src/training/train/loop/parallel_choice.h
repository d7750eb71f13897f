/* SPDX-License-Identifier: Apache-2.0 */
/** How a run is spread over its ranks: the mesh, its placement, the schedule. */
#ifndef WEFT_TRAINING_TRAIN_LOOP_PARALLEL_CHOICE_H
#define WEFT_TRAINING_TRAIN_LOOP_PARALLEL_CHOICE_H

#include "training/parallel/execute/executor.h"
#include "training/train/state/config.h"

struct parallel_choice {
    struct mesh mesh;
    struct mesh_placement placement;
    enum step_pipeline schedule;
    uint32_t stages; /**< of the pipeline, over all its ranks */
    uint32_t zero;
    bool central;               /**< a parameter server; zero is 1 */
    uint32_t micro_batches;     /**< of a global batch */
    const double *costs;        /**< of the layers (training/parallel/execute/costs.h), borrowed; NULL: estimated */
    const uint32_t *first_unit; /**< of each stage (training/parallel/execute/executor.h), borrowed; NULL: balanced */
    const uint32_t *shares;     /**< of each data rank (training/parallel/execute/executor.h), borrowed; NULL: alike */
};

/**
 * The choice for `ranks` ranks, without a placement. `description` has the network's layers. Pure, the same on all ranks.
 *
 * Errors: ARGUMENT if batch, mesh, schedule, layers and micro-batches do not go together; the message says what would.
 */
weft_status parallel_choice_of(const struct train_config *config, const struct model_description *description,
                               uint32_t ranks, struct parallel_choice *choice, struct error *error);

/** The placement that was asked for, or the one that sends the fewest bytes between nodes: nodes[rank] is the node that a
 * rank is on. Local. */
weft_status parallel_choice_place(const struct train_config *config, const struct model_description *description,
                                  const uint32_t *nodes, struct parallel_choice *choice, struct error *error);

/** How the data axis divides the micro-batches of a step. */
static inline struct micro_batch_division parallel_choice_division(const struct parallel_choice *choice)
{
    return (struct micro_batch_division){
        .total = choice->micro_batches, .ranks = choice->mesh.extent[MESH_DATA], .counts = choice->shares};
}

/** Whether a rank may hold weights or moments that no other rank holds, or that a failed step may leave updated in part,
 * in a run that goes on after it has lost ranks: other ranks then keep copies. */
bool parallel_choice_needs_copies(const struct train_config *config, const struct parallel_choice *choice);

/** The configuration of the run's executor, without context, communicator, devices and description. */
struct executor_config parallel_choice_executor(const struct train_config *config,
                                                const struct parallel_choice *choice);

#define PARALLEL_CHOICE_TEXT_BYTES 192

/** "data parallel over 4 ranks", "data=2,pipeline=2 over 4 ranks (1f1b, 2 stages; ZeRO-1)"; returns `text`. */
const char *parallel_choice_describe(const struct parallel_choice *choice, char text[PARALLEL_CHOICE_TEXT_BYTES]);

#endif
