/* SPDX-License-Identifier: Apache-2.0 */
/** The executor's members, shared by the files of this directory. */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_INTERNAL_EXECUTOR_PARTS_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_INTERNAL_EXECUTOR_PARTS_H

#include "base/waiting.h"
#include "training/model/norm_group.h"
#include "training/model/tensor_group.h"
#include "training/parallel/execute/executor.h"
#include "training/parallel/sharding/sparse_gradient.h"

/** An operation of a list. Some are still under way when the next step begins. */
struct execution {
    weft_request *request; /**< of a message */
    bool under_way;
};

/** The collectives within a pass, to be repeated when something stands in for it. */
struct pass_moves {
    bool known;
    size_t count, room;
    struct pass_move {
        enum { MOVE_SUM, MOVE_SUM_PART, MOVE_GATHER } kind;
        weft_type type;
        size_t elements;
    } * moves;
};

/** A list of operations with the state of its execution. */
struct executor_list {
    struct step_shape shape;
    struct step_schedule schedule;
    struct execution *executions;   /**< of each operation */
    struct executor_passes *passes; /**< of each unit and kind, of the last execution */
};

/** What the lists that are executed have in common: a step or a part of an evaluation. */
struct executor_task {
    const struct executor_input *input;
    uint64_t first;      /**< number of this rank's micro-batch of round 0, as the input counts them */
    uint64_t stride;     /**< from one round to the next */
    uint32_t count;      /**< rounds that this rank computes; in later ones it takes part without computing */
    bool prepare;        /**< backward passes follow */
    double *losses;      /**< of all micro-batches; this rank fills in its own */
    double *accuracies;  /**< likewise, of an evaluation; NULL: not wanted */
    uint64_t loss_first; /**< number of the micro-batch that losses[0] belongs to */

    /* Of a step: */
    uint64_t number;
    double rate;
    double loss_scale;
    double loss, norm;
    bool stop, pause, diverged, skipped;
};

#define EXECUTOR_REQUESTS 2 /* to stop, to pause: summed with the norm */

struct executor {
    struct executor_config config;
    struct model_description *description;
    struct model *model;
    struct mesh_comms comms;
    /** Duplicates of the pipeline axis, for rows, their gradients and tied tables; NULL where it has one rank. */
    weft_comm *outputs, *to_inputs, *ties;
    weft_comm *layers;               /**< a duplicate of the tensor axis; NULL where it has one rank */
    uint32_t data, pipeline, tensor; /**< ranks on these axes */
    uint32_t data_rank, pipeline_rank, tensor_rank;
    struct tensor_group tensor_group; /**< for layers that are divided */
    weft_comm *norms;                 /**< a duplicate of the data axis; NULL: batch norms are not synchronized */
    struct norm_group norm_group;     /**< `ranks` is 0 there */
    void *norm_statistics;            /**< executor_norm_bytes(): of all ranks of the data axis */
    struct error layer_failure;       /**< the first of the collectives within layers */
    struct pass_moves *pass_moves;    /**< with a pace on a tensor axis: of each unit and kind of pass */
    struct pass_moves *recorded;      /**< of the pass under way; NULL: not recorded */
    void *moved;                      /**< the array of moves that are repeated */
    size_t moved_bytes;
    uint32_t *first_unit; /**< of each stage, and the number of units */
    struct executor_list training, evaluation;
    struct micro_batch_share share; /**< this rank's micro-batches of a global batch */

    struct value_groups *values;
    struct gradient_groups *gradients;
    struct sparse_gradient *table; /**< the embedding's part of the tied table's gradient; NULL: it is a group's */
    struct layer_arrays *arrays;   /**< of each unit; what lies in buffers is set before each pass */
    uint32_t *buffer_of;           /**< of each unit: the buffer that its weights are gathered in; STEP_NONE: none */
    bool *buffer_taken;            /**< of each such buffer */
    float *tied_total;             /**< of the other pipeline rank that uses the tied table */
    weft_request *tied_receive;    /**< of that */

    void *memory; /**< of the rows below, on the device */
    char *inputs, *moving_outputs, *moving_gradients;
    size_t input_bytes, moving_bytes;  /**< of one of them */
    size_t gradient_stride;            /**< from one gradient to the next; 0: there is one, for nothing moves */
    size_t *row_elements;              /**< of the rows of a micro-batch that leave each unit */
    struct model_arrays loaded_arrays; /**< of a micro-batch, in host memory: what this rank's layers read */
    bool reads;                        /**< any of them */

    double *sums; /**< squares of the gradient's blocks for each tensor rank, losses of a global batch, requests to
                     stop and to pause */
    size_t sum_count;
    float *block;                 /**< DEVICE_SQUARES_BLOCK elements, for the norm */
    double *scratch;              /**< sums of squares of one tensor, for the optimizer */
    bool *has_layer;              /**< of each layer */
    struct executor_task in_norm; /**< the step whose gradient is whole and whose norm is not known; number 0: none */
    struct executor_seconds seconds;
    double loaded;        /**< seconds of reading micro-batches, ever: no part of a pass */
    uint64_t began;       /**< clock_now(), of the step */
    uint64_t micro_batch; /**< of the pass under way */
};

/** Forward and both backward passes: the first kinds of operations. */
#define EXECUTOR_PASS_KINDS (OPERATION_BACKWARD_WEIGHTS + 1)

static inline struct executor_passes *executor_list_passes(const struct executor_list *list,
                                                           enum step_operation_kind kind, uint32_t unit)
{
    return &list->passes[unit * EXECUTOR_PASS_KINDS + kind];
}

/** The number of units of a list's network. */
static inline uint32_t executor_list_units(const struct executor_list *list)
{
    return list->shape.first_unit[list->shape.stages];
}

/** Whether both users of a tied table are on this rank. */
static inline bool executor_has_both_uses(const struct executor *executor)
{
    return executor->description->tied_users == 2;
}

/** Whether the embedding's part of a tied table's gradient is sparse. */
static inline bool executor_table_is_sparse(const struct executor *executor)
{
    return executor->config.model.sparse_table;
}

/** Whether a tied table has a gradient group for each of its two users, and the number of the second one: it comes after
 * those of the groups. */
static inline bool executor_has_tied_part(const struct executor *executor)
{
    return executor_has_both_uses(executor) && !executor_table_is_sparse(executor);
}

static inline uint32_t executor_tied_part(const struct executor *executor)
{
    return (uint32_t)executor->description->group_count;
}

/** ZeRO-3 over more than one rank: weights are there only while they are used. */
static inline bool executor_gathers(const struct executor *executor)
{
    return executor->config.zero == 3;
}

/** ZeRO-2 and 3 over more than one rank: gradients have moving buffers. */
static inline bool executor_reduces_each(const struct executor *executor)
{
    return executor->config.zero >= 2;
}

/** The groups that a unit uses: its own, and the tied table if it is one of its users; returns their number. */
#define EXECUTOR_GROUPS_MOST 2
uint32_t executor_unit_groups(const struct executor *executor, uint32_t unit, uint32_t groups[EXECUTOR_GROUPS_MOST]);

/** The gradient group that receives a unit's part of the tied table's gradient; STEP_NONE: it is sparse. */
uint32_t executor_tied_gradient_group(const struct executor *executor, uint32_t unit);

/** The sums of squares of all blocks of all tensor ranks. */
static inline size_t executor_all_blocks(const struct executor *executor)
{
    return executor->tensor * executor->description->blocks;
}

/* tensor.c */

/** Open the communicator of the tensor axis. Collective over it. */
weft_status executor_open_tensor(struct executor *executor, struct error *error);

/** Around a collective within a layer: wait for the kernels that write its array, false after a failure; and note what
 * became of it, since `begin`. */
bool executor_begin_exchange(struct executor *executor);
void executor_end_exchange(struct executor *executor, uint64_t begin, weft_status status);

/** Wait for the kernels of a pass; returns the first failure of kernels and of collectives within layers. */
weft_status executor_finish_pass(struct executor *executor, struct error *error);

/**
 * With a pace: whether the collectives of a pass are known. If not, the pass under way has to be computed, and they are
 * noted until executor_finish_pass().
 */
bool executor_knows_moves(struct executor *executor, enum step_operation_kind kind, uint32_t unit);

/** Repeat them. A failure is that of executor_finish_pass(). */
void executor_repeat_moves(struct executor *executor, enum step_operation_kind kind, uint32_t unit);
void executor_free_moves(struct executor *executor);

/* norms.c */

/** Open the communicator of synchronized batch norms, if they are. Collective over the data axis. */
weft_status executor_open_norms(struct executor *executor, struct error *error);

/** Allocate the memory that they are gathered in. */
weft_status executor_open_norm_memory(struct executor *executor, struct error *error);

/* ---- operations: each begins one; those of asynchronous kinds are completed later ---- */

typedef weft_status (*executor_operation)(struct executor *executor, struct executor_task *task,
                                          struct executor_list *list, uint32_t number, struct error *error);

/* compute.c */
weft_status executor_forward(struct executor *executor, struct executor_task *task, struct executor_list *list,
                             uint32_t number, struct error *error);
weft_status executor_backward_input(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                    uint32_t number, struct error *error);
weft_status executor_backward_weights(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error);

/* messages.c */
weft_status executor_send_output(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                 uint32_t number, struct error *error);
weft_status executor_receive_input(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                   uint32_t number, struct error *error);
weft_status executor_send_gradient(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                   uint32_t number, struct error *error);
weft_status executor_receive_gradient(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error);
weft_status executor_message_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error);

/* weights.c */
weft_status executor_gather(struct executor *executor, struct executor_task *task, struct executor_list *list,
                            uint32_t number, struct error *error);
weft_status executor_gather_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                     uint32_t number, struct error *error);
weft_status executor_release(struct executor *executor, struct executor_task *task, struct executor_list *list,
                             uint32_t number, struct error *error);
weft_status executor_update(struct executor *executor, struct executor_task *task, struct executor_list *list,
                            uint32_t number, struct error *error);
weft_status executor_share(struct executor *executor, struct executor_task *task, struct executor_list *list,
                           uint32_t number, struct error *error);
weft_status executor_share_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                    uint32_t number, struct error *error);

/* sums.c */
weft_status executor_reduce(struct executor *executor, struct executor_task *task, struct executor_list *list,
                            uint32_t number, struct error *error);
weft_status executor_reduce_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                     uint32_t number, struct error *error);
weft_status executor_tie(struct executor *executor, struct executor_task *task, struct executor_list *list,
                         uint32_t number, struct error *error);
weft_status executor_tie_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                  uint32_t number, struct error *error);
weft_status executor_norm(struct executor *executor, struct executor_task *task, struct executor_list *list,
                          uint32_t number, struct error *error);

#endif
