/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A training step as a schedule: for each rank, the list of operations of a step. step_write() writes it, step_verify()
 * proves it, step_play() times it and step_draw() draws it. The executor (training/parallel/execute/) runs it.
 *
 * Layers are grouped into *units*, the smallest pieces that a schedule speaks of, and units into *stages*, which a
 * pipeline deals out: stage s belongs to pipeline rank s % pipeline. All ranks at one place of the pipeline execute the
 * same schedule, whatever their places on the other axes. A rank with fewer micro-batches than others executes the
 * operations of those that it lacks without computing, because the others wait for it in collectives.
 *
 * Operations are of two classes:
 *
 * - *Synchronous* ones (compute, release, norm, update, finish) run one after the other, in the order of the list.
 * - *Asynchronous* ones (sends, receives, collectives over the data axis) start when the list reaches them. The list
 *   goes on at once. Those on one channel start in the same order on all its ranks.
 *
 * So an operation may rely on all synchronous ones before it. What it needs of asynchronous ones it names as its
 * dependencies: the list waits there until they are complete, and an operation after it may rely on them, too.
 *
 * Under ZeRO-1 and 2 new weights are on their way when a step ends, and the first pass of a unit depends on the share of
 * the step before. Such a dependency is on an operation that comes later in the list; in a first step there is nothing
 * to wait for. step_rotate() makes of it a list in which every dependency comes before.
 *
 * Memory is named by small numbers, which the generator deals out:
 *
 * - a *slot* keeps a micro-batch's activations of a stage, from its forward pass to its last backward pass;
 * - an *input* holds the rows that enter a stage, for as long, and from the receive on;
 * - an *output* holds the rows that leave a stage, until they are sent;
 * - a *gradient* holds the gradient of the rows between two stages: received, turned into that of the stage's input in
 *   place, sent on.
 *
 * A schedule does not change after it is written and may be read by several threads.
 */
#ifndef WEFT_TRAINING_PARALLEL_STEP_STEP_H
#define WEFT_TRAINING_PARALLEL_STEP_STEP_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define STEP_NONE UINT32_MAX

enum step_operation_kind {
    OPERATION_FORWARD,          /**< of a unit for a micro-batch; the last unit's ends with the loss */
    OPERATION_BACKWARD_INPUT,   /**< of a unit for a micro-batch: the gradient of its input */
    OPERATION_BACKWARD_WEIGHTS, /**< and the gradients of its weights, added to the sum over micro-batches */
    OPERATION_SEND_OUTPUT,      /**< of a stage to the next one */
    OPERATION_RECEIVE_INPUT,
    OPERATION_SEND_GRADIENT, /**< of a stage's input to the stage before it */
    OPERATION_RECEIVE_GRADIENT,
    OPERATION_GATHER,  /**< a unit's weights from the data axis (ZeRO-3) */
    OPERATION_RELEASE, /**< the memory that a gather filled */
    OPERATION_REDUCE,  /**< a unit's gradients over the data axis: of the step, or of a micro-batch (ZeRO-2 and 3) */
    OPERATION_TIE,     /**< add the gradients of a tensor that the first and the last unit share */
    OPERATION_NORM,    /**< of the whole gradient; all ranks */
    OPERATION_UPDATE,  /**< the optimizer on this rank's shard of a unit */
    OPERATION_SHARE,   /**< a unit's new weights over the data axis (ZeRO-1 and 2), for the next step */
    OPERATION_FINISH,  /**< the step is over */
    OPERATION_KINDS
};

/** "forward", "send-output": as step_print() writes it. */
const char *step_operation_name(enum step_operation_kind kind);
bool step_operation_is_asynchronous(enum step_operation_kind kind);

/** Forward or one of the backward passes. */
bool step_operation_computes(enum step_operation_kind kind);

/** What does not apply to an operation is STEP_NONE. */
struct step_operation {
    enum step_operation_kind kind;
    uint32_t stage;
    uint32_t unit; /**< in network order over all stages */
    uint32_t micro_batch;
    uint32_t slot;   /**< compute: where the micro-batch's activations are kept */
    uint32_t input;  /**< compute and receive-input: where the rows that enter the stage are; none in stage 0 */
    uint32_t buffer; /**< the output that a stage's last forward unit writes and send-output sends; the gradient that
                        backward-input transforms, and that is sent or received; the buffer of weights' gradients that
                        backward-weights fills and a reduction empties, under ZeRO-2 and 3 */
    uint32_t dependency, dependency_count; /**< dependencies[dependency ...] of the schedule: numbers of operations */
};

/** How an order of compute is laid out over a pipeline. */
enum step_pipeline {
    STEP_GPIPE,          /**< all forward passes, then all backward passes (Huang et al. 2019) */
    STEP_1F1B,           /**< at most as many micro-batches under way as stages follow (Narayanan et al. 2019, 2021) */
    STEP_INTERLEAVED,    /**< several stages on each rank, in turns (Narayanan et al. 2021) */
    STEP_ZERO_BUBBLE_H1, /**< weights' gradients fill the bubble, memory as 1F1B (Qi et al. 2023) */
    STEP_EVALUATION      /**< forward passes alone, for the losses: no gradients, no optimizer */
};

/** Names of the orders of training steps, in the enumeration's order; ends with NULL. */
extern const char *const step_pipeline_names[];

/** "gpipe", "1f1b", "interleaved", "zb-h1" or "evaluation". */
const char *step_pipeline_name(enum step_pipeline order);

/** What a step has to do. */
struct step_shape {
    enum step_pipeline order;
    uint32_t pipeline;          /**< ranks of the pipeline axis */
    uint32_t stages;            /**< a multiple of `pipeline`; more than that only where interleaved, or
                                     in an evaluation */
    const uint32_t *first_unit; /**< of each stage, and after them the number of units: stages + 1, rising */
    uint32_t micro_batches;     /**< of the rank of the data axis that has the largest share */
    uint32_t data;              /**< ranks of the data axis */
    uint32_t zero;              /**< 0 to 3 */
    uint32_t prefetch;          /**< ZeRO-3: units that are gathered ahead of use, from 1 */
    bool shares_within;         /**< ZeRO-1 and 2: a step ends only when all ranks have the new weights */
    bool tied;                  /**< the first and the last unit share a tensor */
    bool recomputes;            /**< a pass for weights that does not follow its pass for inputs reads weights: it
                                   repeats the forward pass */
};

/** Buffers that are used in turn, so that a rank computes on one while others move. Outputs, and weights' gradients that
 * are reduced: one is filled while another moves. Gradients of rows: one is transformed while the one before is sent and
 * the one after received; with two, a receive could not start before the send of the pass before is done. */
#define STEP_OUTPUT_BUFFERS    2
#define STEP_GRADIENT_BUFFERS  3
#define STEP_REDUCTION_BUFFERS 2

/** One rank's schedule. */
struct step_schedule {
    uint32_t pipeline_rank;
    struct step_operation *operations;
    size_t count, room;
    uint32_t *dependencies;
    size_t dependency_count, dependency_room;
    uint32_t slots;    /**< how many are needed; any of them serves any stage of this rank */
    uint32_t inputs;   /**< the same */
    uint32_t gathered; /**< ZeRO-3: the most units that are gathered or being gathered at a time */
};

/** Whether the numbers of a shape go together. Errors: ARGUMENT, with a message that says what does not. */
weft_status step_check_shape(const struct step_shape *shape, struct error *error);

/** Write the schedule of one pipeline rank; step_free() frees it. Errors: those of step_check_shape(), MEMORY. */
weft_status step_write(const struct step_shape *shape, uint32_t pipeline_rank, struct step_schedule *schedule,
                       struct error *error);
void step_free(struct step_schedule *schedule);

/**
 * A step among many, from the end of its norm to that of the next one: the operations after the norm come first, so
 * that every dependency is on an operation before. All ranks are at the norm together, so steps take as long as this.
 * In place. Errors: MEMORY.
 */
weft_status step_rotate(struct step_schedule *schedule, struct error *error);

/** Count what that schedule needs, `slots`, `inputs` and `gathered`, without its operations: much faster. Errors: as above. */
weft_status step_count(const struct step_shape *shape, uint32_t pipeline_rank, struct step_schedule *schedule,
                       struct error *error);

/** Whether a stage is this pipeline rank's, and the stage of a unit. */
bool step_stage_is_local(const struct step_shape *shape, uint32_t pipeline_rank, uint32_t stage);
uint32_t step_unit_stage(const struct step_shape *shape, uint32_t unit);

/** Whether new weights move over the data axis at the end of a step, and whether the next one begins meanwhile. */
bool step_shares(const struct step_shape *shape);
bool step_shares_move_on(const struct step_shape *shape);

/** Whether a tied tensor's gradients are added up on the rank of this unit: of the first, and of the last where that is
 * another rank's. */
bool step_unit_adds_tied(const struct step_shape *shape, uint32_t unit);

/** The most slots that a schedule of this order may need on `pipeline_rank`: what its authors promise. */
uint32_t step_slots_bound(const struct step_shape *shape, uint32_t pipeline_rank);

#endif
