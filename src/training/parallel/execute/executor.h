/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The executor: runs the schedules of training steps and evaluations on this rank.
 *
 * There is one for every kind of parallelism. It opens the communicators of a mesh, gives each pipeline rank its layers,
 * writes the schedule of a step, proves it, and owns what the step needs: weights, gradients and optimizer state (as far
 * as they are this rank's), activations, and the buffers of messages. A step then is a walk through the list:
 *
 *     status = executor_open(&config, &executor, &speaks, error);
 *     ... set the weights: executor_values() ...
 *     status = executor_step(executor, &input, number, rate, &result, error);
 *     status = executor_evaluate(executor, &held_out, first, count, &loss, &stopped, error);
 *     executor_close(executor);
 *
 * Results have the same bits on every mesh without a tensor axis: sums over micro-batches follow the canonical tree over
 * their numbers, each use of a tied table by its own tree; losses and the sums of squares of the gradient's norm are
 * added in an order that depends on the network and the micro-batches alone.
 *
 * On a tensor axis each layer's products are divided, which changes the order of sums within them: results are close to
 * serial ones, and have the same bits on any placement and with any other axes.
 *
 * Synchronized batch norms join the micro-batches of the ranks of the data axis: results depend on their number, and on
 * which micro-batches they compute at the same time (ZeRO-0 and 1: rank r of D computes the r-th of D runs of neighbors;
 * ZeRO-2 and 3: ranks take turns). They have the same bits on any placement and with any pipeline.
 *
 * An executor belongs to one thread. Everything but executor_settle() and the accessors is collective over the ranks of
 * the mesh.
 */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_EXECUTOR_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_EXECUTOR_H

#include "training/model/passes.h"
#include "training/optimizer/optimizer.h"
#include "training/parallel/mesh/mesh.h"
#include "training/parallel/sharding/gradient_groups.h"
#include "training/parallel/sharding/value_groups.h"
#include "training/parallel/state_pieces.h"
#include "training/parallel/step/step.h"

#include <stdatomic.h>

/**
 * Stands in for the passes of layers, to time schedules on more ranks than there are processors: it takes their time and
 * computes nothing. All else is real: messages, sums, the optimizer, and the collectives within layers of a tensor axis. For these
 * the first pass of each layer is computed. Losses are 0, and weights are of no use afterwards.
 */
struct executor_pace {
    /** A pass of a unit. Passes of one rank come one after the other. */
    void (*pass)(void *context, enum step_operation_kind kind, uint32_t unit);
    void *context;
};

struct executor_config {
    weft_context *context;
    weft_comm *comm;       /**< its ranks are those of the mesh; borrowed */
    struct device *device; /**< for the passes and the optimizer's steps, of f32; borrowed */
    struct device *sums;   /**< sums gradients: of f32, with activations of bf16; borrowed */
    /** The whole network, rules applied. Borrowed, and made that of this rank by executor_open(): model_divide(),
     * model_keep_layers(). */
    struct model_description *description;
    struct model_options model; /**< batch, sequence, recomputation, dropout, smoothing; the rest is ignored */
    struct optimizer optimizer;
    double clip; /**< largest norm of the gradient; 0: no clipping */

    struct mesh mesh;
    struct mesh_placement placement;
    enum step_pipeline schedule;
    uint32_t stages;            /**< of the pipeline, a multiple of its ranks; 0: one for each */
    const double *costs;        /**< of each layer (costs.h), the same on all ranks; needed while it is opened; NULL:
                               estimated */
    const uint32_t *first_unit; /**< the first layer of each stage and, at the end, their number; needed while it is
                                   opened; NULL: stages are balanced by costs */
    bool sequence_parallel;     /**< on a tensor axis: divide the rows between layers, too; batch x sequence must be a
                               multiple of its ranks */
    bool sync_batch_norm;   /**< the ranks of the data axis normalize the micro-batches that they compute at the same
                               time as one (training/model/norm_group.h); they need equal numbers of them */
    uint32_t zero;          /**< 0 to 3 */
    bool central;           /**< with zero 1: rank 0 of the data axis has all slices, as a parameter server does */
    uint32_t micro_batches; /**< in a global batch, over all ranks; at least one for each rank of the data axis */
    const uint32_t *shares; /**< of them, those of each rank of the data axis, with ZeRO-0 and 1; borrowed; NULL: they
                                   differ by at most one */
    weft_type gradients; /**< WEFT_F32, or WEFT_BF16: rounded at every leaf and sum of the tree, half the bytes move */
    size_t bucket_bytes; /**< gradients that are reduced together */
    const struct executor_pace *pace; /**< NULL: compute; borrowed */
    struct executor
        *former; /**< weights and moments that are the same there are shared with it, with their contents; the
                                others are 0 (sharding/value_groups.h); NULL: all are 0 */
};

/**
 * Whether the embedding's part of a tied table's gradient is kept as rows of the tokens that occur: where those of a
 * global batch are at most the table. It takes less memory, and moves fewer bytes. The same on any mesh.
 */
bool executor_wants_sparse_table(const struct executor_config *config);

/** How the data axis divides the micro-batches of a step. */
static inline struct micro_batch_division executor_division_of(const struct executor_config *config)
{
    return (struct micro_batch_division){
        .total = config->micro_batches, .ranks = config->mesh.extent[MESH_DATA], .counts = config->shares};
}

/** Whether mesh and micro-batches go together. Errors: ARGUMENT. */
weft_status executor_check_config(const struct executor_config *config, struct error *error);

struct executor;

/**
 * Errors: ARGUMENT if mesh, schedule, optimizer and micro-batches do not go together (the message says what would);
 * MEMORY; those of weft_comm_split(). All ranks get the same status; *speaks as in training/parallel/agreement.h. Values
 * are 0 until they are set.
 */
weft_status executor_open(const struct executor_config *config, struct executor **executor, bool *speaks,
                          struct error *error);
void executor_close(struct executor *executor);

/** Where a step or an evaluation gets its micro-batches. */
struct executor_input {
    void *context;

    /** Fill those arrays of micro-batch `number` that are not NULL: what the layers of this rank read. */
    weft_status (*read)(void *context, uint64_t number, const struct model_arrays *arrays, struct error *error);

    uint64_t seed;     /**< of dropout */
    double loss_scale; /**< gradients are computed times it, a power of two, and divided by it before they are used;
                               0: 1 */
    const atomic_int *stop; /**< not 0: this rank wants to stop; NULL: it never does */
    bool pause;             /**< this rank wants all to pause after the step */

    /** Called on each rank when its gradient is whole, before it sends its part of the norm; NULL: not called. */
    weft_status (*before_norm)(void *context, struct error *error);

    /** Called on each rank before weights change; NULL: not called. */
    void (*before_update)(void *context);
};

/** Where a step's time goes on a rank, in seconds, without loading data. */
struct executor_seconds {
    double wait;        /**< for other ranks */
    double tensor_wait; /**< of that, within passes: collectives over the tensor axis, and of synchronized
                           batch norms */
    double data_wait;   /**< of that, for collectives over the data axis */
    double pass;        /**< in passes of layers, with tensor_wait */
    double optimizer;   /**< the norm and updates, without waiting */
    double norm;        /**< from the beginning of the step until this rank came to the norm */
};

struct executor_result {
    double loss;          /**< mean over the global batch */
    double gradient_norm; /**< of the averaged gradient, before clipping */
    bool stop;            /**< some rank wants to stop */
    bool pause;           /**< some rank wants to pause */
    bool diverged;        /**< loss or norm is not finite, and the step was not taken */
    bool skipped; /**< the norm is not finite, though the loss is, with a loss scale above 1: weights and optimizer
                             state are as before */
    struct executor_seconds seconds;
};

/**
 * Step `number`, from 1, with micro-batches (number - 1) x micro_batches and on.
 *
 * The same result on every rank. Errors: WEFT_ERROR_DATA if loss or norm is not finite, unless the step is skipped: on
 * every rank, `result` is set, and weights and optimizer state are as before. Others may be this rank's alone; then the
 * job has to be aborted.
 */
weft_status executor_step(struct executor *executor, const struct executor_input *input, uint64_t number, double rate,
                          struct executor_result *result, struct error *error);

/**
 * Wait until this rank has the weights of the last step as a whole. Under ZeRO-1 and 2 those of other ranks may be on
 * their way until the next step uses them: call it before weights are read by other means. Not collective.
 */
weft_status executor_settle(struct executor *executor, struct error *error);

/**
 * Compare the replicated state of the data axis after a step: weights under ZeRO-0 to 2; under ZeRO-0 also sums of
 * gradients and moments. Nothing is replicated under ZeRO-3. Collective. Errors, on all ranks: DATA; the message names
 * the rank that differs from the others. *speaks as in training/parallel/agreement.h.
 */
weft_status executor_compare_replicas(struct executor *executor, bool *speaks, struct error *error);

/* ---- after other ranks have failed, and weft_shrink(): the executor's communicators are dead ---- */

/**
 * Whether a rank updates its weights and moments without the others, once it has the gradient's norm. Then its state is
 * always that of a whole step, and those of two ranks are at most one step apart. Otherwise (optimizer state that is
 * divided over the data axis, norms of tensors that are divided) a failed step may leave a part of the state updated.
 */
bool executor_updates_alone(const struct executor_config *config);

/** Whether step `number` failed on this rank when it had the whole gradient and waited for the norm. */
bool executor_has_gradient(const struct executor *executor, uint64_t number);

/** Complete that step with the result that another rank got. Local. Errors: those of the device. */
weft_status executor_complete_step(struct executor *executor, const struct executor_result *result,
                                   struct error *error);

/** Free everything but weights and moments: only executor_state_pieces() and executor_close() may follow. */
void executor_keep_state(struct executor *executor);

/** The result of an evaluation: means over its micro-batches. */
struct executor_scores {
    double loss;
    double accuracy; /**< share of predictions that are right; NAN for networks that do not classify */
};

/** Evaluate micro-batches `first` to first + count - 1 of the input. *stopped: some rank wanted to stop, and there are no
 * scores. */
weft_status executor_evaluate(struct executor *executor, const struct executor_input *input, uint64_t first,
                              uint32_t count, struct executor_scores *scores, bool *stopped, struct error *error);

/** Tell `watcher` of every pass of a layer on this rank: model_watch(). */
void executor_watch(struct executor *executor, model_watcher watcher, void *context);

/** For watchers: the arrays of the layer whose pass it is, and the number of its micro-batch as the input counts them. */
const struct layer_arrays *executor_arrays(const struct executor *executor, size_t layer);
uint64_t executor_micro_batch(const struct executor *executor);

/* ---- accessors; under ZeRO-1 and 2 their weights are whole after executor_settle() ---- */

struct value_groups *executor_values(struct executor *executor);

/** All weights as a flat array of the description; NULL where this rank does not have all of them. */
float *executor_flat_values(struct executor *executor);

/** This rank's weights and moments, as pieces of the tensors of the `whole` network. The list is the caller's to free();
 * the memory is the executor's, and `whole` is borrowed for as long as the list. Errors: MEMORY. */
weft_status executor_state_pieces(struct executor *executor, const struct model_description *whole,
                                  struct state_pieces *pieces, struct error *error);

/** Passes of one kind and unit in this rank's last step. */
struct executor_passes {
    double seconds; /**< of all of them, with the sum of their gradients over micro-batches */
    uint32_t count;
};
struct executor_passes executor_passes_of(const struct executor *executor, enum step_operation_kind kind,
                                          uint32_t unit);

/** This rank's micro-batches of a global batch. */
struct micro_batch_share executor_share_of_batch(const struct executor *executor);

/** Gradients that this rank sums over the data axis, but for sparse ones. */
size_t executor_gradient_elements(const struct executor *executor);

/** What a step has to do. */
const struct step_shape *executor_shape(const struct executor *executor);

/** Whether this rank computes a layer; and whether it counts a group in the norm, for its place on the other axes (a tied
 * table is on the first and on the last pipeline rank). */
bool executor_has_layer(const struct executor *executor, size_t layer);
bool executor_owns_group(const struct executor *executor, size_t group);

#endif
