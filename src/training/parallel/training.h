/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The training of weft/train.h, for the files of this directory.
 *
 * Neighboring parameters form *groups*, which are summed as one (training_layout.c). Gradients become ready in any order;
 * a group is complete when the gradients of all its parameters are ready. Ranks reduce groups in an order that they
 * agree on: a complete group waits for those before it (training_gradients.c). Sums, weights and moments are those of
 * sharding/.
 */
#ifndef WEFT_TRAINING_PARALLEL_TRAINING_H
#define WEFT_TRAINING_PARALLEL_TRAINING_H

#include "training/optimizer/optimizer.h"
#include "training/parallel/sharding/gradient_groups.h"
#include "training/parallel/sharding/value_groups.h"
#include "training/parallel/state_copies.h"

#include <weft/train.h>

_Static_assert(WEFT_PARAMETER_DIMENSIONS == MODEL_DIMENSIONS && WEFT_PARAMETER_NAME_BYTES == MODEL_NAME_BYTES,
               "a parameter is a tensor of a flat array");

/** No round of reductions: of ZeRO-0 and 1. */
#define TRAINING_NO_ROUND UINT32_MAX

/**
 * Neighboring parameters that are never divided between groups: a large one (DEVICE_SQUARES_BLOCK elements or more) and
 * small ones after it. The blocks of the gradient's norm begin with segments, so the norm does not depend on groups.
 */
struct training_segment {
    uint32_t parameter, parameter_count;
    size_t offset, count; /**< elements of the flat array, without the gap at the end */
    size_t block;         /**< number of its first block in the gradient's norm */
    bool frozen;          /**< all of it */
};

/** Neighboring segments with about as many bytes as the program wants in one reduction. Group 0 has the end of the flat
 * array, which a backward pass reaches first. */
struct training_group {
    uint32_t segment, segment_count;
    uint32_t parameter, parameter_count;
    struct group_range range;
    uint32_t waiting;  /**< parameters whose gradients are not ready in this micro-batch */
    uint32_t position; /**< among groups, in the order in which they became complete in the last micro-batch */
    float *gradient;   /**< ZeRO-2 and 3: of this micro-batch; NULL: the program has not asked for it */
    float *values;     /**< ZeRO-3: the whole group, while it is gathered; otherwise NULL */
    uint32_t users;    /**< gathers without a release */
};

/** ZeRO-2 and 3: a reduction under way. */
struct training_reduction {
    uint32_t group, round;
    float *gradient; /**< belongs to the reduction; NULL: this rank has none */
};

struct weft_training {
    weft_context *context;
    weft_comm *comm;
    weft_training_config config;
    struct optimizer optimizer;
    struct device *device;
    bool started;
    bool is_over_world; /**< of the context, whose ranks may change */
    int epoch;          /**< of the context in which `comm` was made */
    uint32_t rank, ranks;
    uint32_t zero;       /**< 0 on one rank */
    uint32_t rate_ranks; /**< the ranks at the beginning, for the learning rate; 0: not known yet by one that joins */

    struct model_description
        description;    /**< parameters alone: as registered here, after the start in rank 0's order */
    uint32_t *index_of; /**< index in the description of each parameter in the order of registration on this rank */
    uint32_t *group_of; /**< of each parameter */
    struct training_segment *segments;
    uint32_t segment_count;
    size_t blocks; /**< of all segments */
    struct training_group *groups;
    uint32_t group_count;

    struct gradient_groups *gradients; /**< whole on every rank under ZeRO-0 and 1 */
    struct value_groups *values;       /**< one group with everything under ZeRO-0 and 1; otherwise as gradients */
    uint16_t *bf16_values;             /**< the program's copy; NULL: none */

    uint64_t steps;
    bool has_values;     /**< they were shared, loaded, trained, or brought from other ranks */
    bool is_updating;    /**< a step or a load has begun to change values and moments, and is not done */
    int waiting;         /**< ranks that wait to join or are to leave, as of the last step */
    char *directory;     /**< where the last checkpoint was saved or loaded; NULL: none was */
    uint64_t checkpoint; /**< the step of that checkpoint */
    struct error last;   /**< of the last call that failed since the last step */

    /* While the ranks change (training_recovery.c). */
    uint64_t
        known; /**< steps that some rank was known to have done: without its state, this rank does not begin again */
    bool is_behind; /**< this rank lacks the newest state: its arrays are not the former's, still needed */
    struct weft_training *former; /**< this training as it was in the former world: values, moments, steps, copies; or
                                     NULL */

    /* Copies on other ranks of this world (training_copies.c). */
    struct state_copies *copies; /**< NULL: none */
    struct state_layout *layout; /**< that they are made by; NULL: none are */

    struct micro_batch_share share; /**< this rank's micro-batches of a global batch */
    uint32_t index;                 /**< of the current one in the share */
    bool *ready;                    /**< of each parameter, in the current micro-batch */
    size_t ready_count;             /**< how many are */
    bool *missing;                  /**< of each parameter: it was not ready in a micro-batch of this step */

    struct training_group **order; /**< in which reductions start */
    uint32_t next;                 /**< place in the order of the group to start next */
    uint32_t *positions;           /**< of each group, as ranks exchange them */
    uint32_t complete_count;       /**< groups that are complete in this micro-batch */
    bool disordered;               /**< in this step, a group had to wait for one before it */
    uint64_t agree_at;             /**< the order is not renegotiated before this step */
    struct training_reduction reductions[GRADIENT_EXCHANGES]; /**< oldest first */
    uint32_t reduction_count;
    struct error failure; /**< of the first reduction that could not start: no other one starts after it */
    double wait_seconds;  /**< waited in this step */

    /** Sums over the ranks that end a step: squares of the gradient's blocks, notes of each micro-batch, flags. */
    double *sums;
    double *notes;       /**< [WEFT_TRAINING_NOTES][micro-batches of a global batch] */
    double *flags;       /**< [TRAINING_FLAGS] */
    size_t sum_elements; /**< of all three */
};

/** Above 0 after the sum if it was set on some rank. */
enum training_flag {
    TRAINING_FLAG_MISSING, /**< some gradient was not ready */
    TRAINING_FLAG_DISORDERED,
    TRAINING_FLAG_WAITING, /**< the sum is the number of ranks that wait to join or are to leave */
    TRAINING_FLAGS,
};

/** ZeRO-2 and 3: gradients of one micro-batch are handed out group by group; totals are there in slices. */
static inline bool training_sums_slices(const weft_training *training)
{
    return training->zero >= 2;
}

/** ZeRO-3: weights are there in slices; whole groups are gathered on request. */
static inline bool training_gathers(const weft_training *training)
{
    return training->zero == 3;
}

/** Whether the current micro-batch is this rank's last one of the step. */
static inline bool training_is_last(const weft_training *training)
{
    return training->index + 1 == training->share.count;
}

/** Store the message for weft_message(), and return the status. */
weft_status training_note_error(weft_training *training, weft_status status, const struct error *error);

/** STATE before weft_training_start(); the message names `call`. */
weft_status training_check_started(const weft_training *training, const char *call, struct error *error);

/** ARGUMENT if `number` is not one of `count`; STATE before weft_training_start(). The message names `what`. */
weft_status training_check_number(const weft_training *training, int number, size_t count, const char *what,
                                  struct error *error);

/* ---- training_world.c ---- */

/** Take the communicator of the world: the ranks have changed, or the training is being opened. Local. */
void training_take_ranks(weft_training *training, weft_comm *comm);

/**
 * Lay the training out over its ranks: names, segments and groups, values, gradients. Where ranks have changed since
 * the job began, they also agree on what newcomers cannot know, and bring all to the newest state
 * (training_restore()). Collective. Errors: those of weft_training_start() and weft_training_recover().
 */
weft_status training_enter_world(weft_training *training, struct error *error);

/** Put the arrays of the training aside as its `former`; close them if there is one already. Local. Errors: MEMORY. */
weft_status training_leave_world(weft_training *training, struct error *error);

/** Free the arrays and everything else that depends on the ranks. */
void training_close_layout(weft_training *training);

/** Free the former and its copies, if there is one. */
void training_close_former(weft_training *training);

/* ---- training_recovery.c ---- */

/** How far a rank has come, as ranks exchange it after they have changed. */
struct training_standing {
    uint64_t steps;
    uint64_t known;      /**< as in the training */
    uint64_t copied[2];  /**< the steps of the copies of its part; UINT64_MAX: none */
    uint64_t checkpoint; /**< the step of the last checkpoint that was saved or loaded; UINT64_MAX: none */
    uint32_t micro_batches, rate_ranks; /**< rate_ranks 0: it has joined, and does not know them */
    bool has_state;                     /**< all values and moments that this rank held after `steps`, at least 1 */
};

/** That of this rank. */
struct training_standing training_describe_standing(const weft_training *training);

/** Note how far the training had come, and whether this rank lacks the newest state. `all` has the standings of all. */
void training_note_standings(weft_training *training, const struct training_standing *all);

/** All ranks remember the newest checkpoint that one of them has saved or loaded. Collective. Errors: MEMORY. */
weft_status training_share_checkpoint(weft_training *training, const struct training_standing *all,
                                      struct error *error);

/**
 * Bring values, moments and step of the rank that has come farthest to all ranks; `all` has their standings. Without
 * such a rank the training is new. Collective. Errors: DATA if the state is lost and there is
 * no checkpoint; MEMORY.
 */
weft_status training_restore(weft_training *training, const struct training_standing *all, struct error *error);

/* ---- training_copies.c ---- */

/** Open copies of this world's state on other ranks, if the configuration wants them, and make the first one if there is
 * a state. Collective. Errors: MEMORY. */
weft_status training_open_copies(weft_training *training, struct error *error);

/** After a step: begin a copy, if it is time for one. Errors: MEMORY, perhaps on this rank alone. */
weft_status training_begin_copy(weft_training *training, struct error *error);

/** Before the norm of the next step: the copy has arrived. */
weft_status training_finish_copy(weft_training *training, struct error *error);

/** Have a copy of each rank's part of the state as it is now, before ranks leave. Collective. */
weft_status training_copy_parts(weft_training *training, struct error *error);

/** The state is about to become another one, of an older step perhaps. */
void training_forget_copies(weft_training *training);

/* ---- training_layout.c ---- */

/** Lay out the flat array, segments and groups; index_of and the list of parameters are complete. Local. Errors: MEMORY.
 */
weft_status training_lay_out(weft_training *training, struct error *error);

/* ---- training_gradients.c ---- */

/** Open sums of gradients; the micro-batches have been divided. Collective. Errors: MEMORY. */
weft_status training_open_gradients(weft_training *training, struct error *error);
void training_close_gradients(weft_training *training);

/** ZeRO-3: before a gather. If all gradients of the micro-batch are ready, other ranks may need them to get there. */
void training_start_before_gather(weft_training *training);

/** End a micro-batch. Gradients that are not ready take part as they are, because other ranks wait for them. */
weft_status training_end_micro_batch(weft_training *training, struct error *error);

/** Wait for all reductions, after the last micro-batch. */
weft_status training_finish_gradients(weft_training *training, struct error *error);

/** Agree on the order in which the groups became complete, as the new order of reductions. Collective. */
weft_status training_agree_on_order(weft_training *training, struct error *error);

/** The sum of a part of a group's gradients: `slice` receives this rank's, or the whole group. */
float *training_total(weft_training *training, uint32_t group, struct group_slice *slice);

/** ZeRO-0 and 1: the flat array of gradients; otherwise NULL. */
float *training_flat_gradients(weft_training *training);

/* ---- training_values.c ---- */

/** Open weights and moments. Collective. Errors: MEMORY. */
weft_status training_open_values(weft_training *training, struct error *error);
void training_close_values(weft_training *training);

/** The range of a group of `values`, and how many there are. */
struct group_range training_value_range(const weft_training *training, uint32_t group);
uint32_t training_value_groups(const weft_training *training);

/** What this rank holds of values and moments. The list is the caller's to free. Errors: MEMORY. */
weft_status training_list_pieces(const weft_training *training, struct state_pieces *pieces, struct error *error);

/** The layout of all ranks' pieces. Collective. Errors: MEMORY. */
weft_status training_open_layout(const weft_training *training, struct state_layout **layout, struct error *error);

/** The slices have new values: bring them to the ranks that keep all. Gathered groups are released. */
weft_status training_values_updated(weft_training *training, struct error *error);

/* ---- training_checkpoint.c ---- */

/**
 * Read the checkpoint of `step` below `directory`, of a training that has started on all ranks. UINT64_MAX: the newest
 * one; if there is none, `*found` is false. Collective. Errors: those of weft_training_load().
 */
weft_status training_load_checkpoint(weft_training *training, const char *directory, uint64_t step, bool *found,
                                     struct error *error);

/** The training has a checkpoint of `step` below `directory`, which belongs to the training from now on. Local. */
void training_remember_checkpoint(weft_training *training, char *directory, uint64_t step);

#endif
