/* SPDX-License-Identifier: Apache-2.0 */
/** The state of a simulation: the players, one for each class of ranks, and how far they have come. */
#ifndef WEFT_TRAINING_SIMULATE_INTERNAL_STEP_PLAYERS_H
#define WEFT_TRAINING_SIMULATE_INTERNAL_STEP_PLAYERS_H

#include "training/simulate/internal/step_network.h"

/** Asynchronous operations of a rank that begin one after the other. */
enum step_lane {
    LANE_SEND_OUTPUT,
    LANE_RECEIVE_INPUT,
    LANE_SEND_GRADIENT,
    LANE_RECEIVE_GRADIENT,
    LANE_TIE,
    LANE_DATA,
    STEP_LANES
};

/** The schedule of a pipeline rank, with its operations by lane. */
struct step_program {
    struct step_schedule schedule;
    uint32_t *lanes[STEP_LANES]; /**< numbers of operations, in order */
    uint32_t lane_counts[STEP_LANES];
    bool *repeats; /**< of each operation: a pass for weights that has to repeat the forward pass */
};

enum player_state {
    PLAYER_READY,   /**< to go on with the next operation */
    PLAYER_WAITS,   /**< for dependencies of the next operation */
    PLAYER_WORKS,   /**< a pass, an update or the norm's sums */
    PLAYER_TENSOR,  /**< in a collective within a pass */
    PLAYER_AT_NORM, /**< for all other players */
    PLAYER_DONE
};

struct class_player {
    const struct step_program *program;
    uint32_t class, rank; /**< its first rank */
    uint32_t device, micro_batches;
    uint32_t at;         /**< the next operation, or the one that is under way */
    uint32_t dependency; /**< of its dependencies, those that are known to be complete */
    enum player_state state;
    double since;            /**< of the state */
    double work, left, rate; /**< seconds of the work, and what is left of it since `settled`; 1: at full speed */
    double settled;
    double repeated;           /**< share of the work that repeats a forward pass */
    uint32_t active, messages; /**< asynchronous activities of this rank, and messages among them */
    uint32_t reached[STEP_LANES], begun[STEP_LANES]; /**< operations of each lane */
    uint32_t held;                                   /**< reductions that wait for the last pass */
    bool *complete;                                  /**< of each operation */
    double *begin, *end;                             /**< of each operation; NULL: not wanted */
    double terms[STEP_TERMS];
    double finished;
};

struct step_simulation {
    const struct step_costs *costs;
    const struct step_options *options;
    struct step_fold fold;
    struct step_program *programs; /**< of each pipeline rank */
    struct class_player *players;  /**< of each class; their events are those of the objects with their numbers */
    bool *busy;                    /**< of each channel */
    double *began;                 /**< when its activity began */
    struct step_network network;
    struct step_events events;
    uint32_t at_norm, done;
    uint64_t operations;
    double now;
};

/** Whether the rank lacks the micro-batch of an operation: passes and messages of it take no time. */
static inline bool player_lacks(const struct class_player *player, const struct step_operation *operation)
{
    return operation->micro_batch != STEP_NONE && operation->micro_batch >= player->micro_batches &&
           (step_operation_computes(operation->kind) || operation->kind == OPERATION_SEND_OUTPUT ||
            operation->kind == OPERATION_RECEIVE_INPUT || operation->kind == OPERATION_SEND_GRADIENT ||
            operation->kind == OPERATION_RECEIVE_GRADIENT);
}

/** STEP_LANES for operations that are not asynchronous. */
enum step_lane step_lane_of(enum step_operation_kind kind);

/** Open and close all of it; step_simulation_close() frees it, also after an error. Errors: ARGUMENT, MEMORY. */
weft_status step_simulation_open(struct step_simulation *simulation, const struct step_costs *costs,
                                 const struct step_options *options, struct error *error);
void step_simulation_close(struct step_simulation *simulation);

/** When all players are done: fill in what was found. The times become the result's. Errors: MEMORY. */
weft_status step_simulation_result(struct step_simulation *simulation, struct step_result *result, struct error *error);

#endif
