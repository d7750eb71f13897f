/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A training step in virtual time: the schedules of all ranks of a mesh, as step_write() writes them, on a described
 * cluster.
 *
 * Synchronous operations occupy their rank. Asynchronous ones (messages, collectives over the data axis) are activities:
 * one begins when all its ranks have reached it and the one before it on the same channel has ended. Alone it takes the
 * seconds of its costs. Activities that are under way at the same time share the interfaces of hosts and the uplinks of
 * leaves and pods max-min fairly, each direction by itself: rates rise together until a resource is full, whose
 * activities keep theirs, and so on (progressive filling; D. Bertsekas and R. Gallager, "Data Networks", 1992, 6.5.2).
 * Messages of different pipelines that fill an interface leave it one after the other, in the order in which they were ready.
 * Computing slows while asynchronous communication of its rank is under way (struct step_cluster).
 *
 * *Folded*, ranks that cannot differ are simulated once: ranks are divided into classes so that all ranks of a class have
 * the same schedule, device and costs, and activities to the same classes over equally loaded resources (the coarsest
 * equitable partition, found by refinement as in graph isomorphism). Then every rank of a class does everything at the
 * same time, so folding is exact. Perturbations of a rank or of a link give it a class of its own.
 *
 * Deterministic. Thread-safe.
 */
#ifndef WEFT_TRAINING_SIMULATE_STEP_SIMULATE_H
#define WEFT_TRAINING_SIMULATE_STEP_SIMULATE_H

#include "training/parallel/step/play.h"
#include "training/simulate/step_costs.h"

/** What is not as described; zeros are nothing. */
struct step_perturbation {
    uint64_t seed;
    double jitter;         /**< each pass takes 1 + jitter x e times as long, e exponentially distributed with mean 1 */
    uint32_t slow_rank;    /**< with slow_factor: its passes take that many times as long */
    double slow_factor;    /**< 0: none */
    double degraded_share; /**< 0: none; above 0 to 1: the links upward of a unit have that share of their bandwidth */
    uint32_t degraded_level, degraded_unit; /**< 0: a host's interfaces; 1: a leaf's uplinks; 2: a pod's */
    double reading, writing; /**< bytes/s that other traffic takes of every host's interfaces, inward and outward */
};

struct step_options {
    bool unfolded;   /**< every rank by itself */
    bool keep_times; /**< fill in struct step_result's times */
    struct step_perturbation perturbation;
};

/**
 * Where the time of a step goes, in seconds; means over the ranks. They add up to the step's.
 */
enum step_term {
    STEP_TERM_COMPUTE,       /**< passes without recomputation and collectives */
    STEP_TERM_RECOMPUTATION, /**< repeated forward passes */
    STEP_TERM_BUBBLE,        /**< waiting for other ranks' passes */
    STEP_TERM_TENSOR,        /**< collectives within layers */
    STEP_TERM_PIPELINE,      /**< waiting for messages that are under way */
    STEP_TERM_DATA,          /**< waiting for collectives over the data axis, and for its slower ranks */
    STEP_TERM_OPTIMIZER,     /**< norm and updates */
    STEP_TERMS
};

/** "compute", "recomputation", "bubble", "tensor communication"... */
extern const char *const step_term_names[STEP_TERMS];

/** "within hosts", "between hosts"... */
extern const char *const step_level_names[STEP_LINK_LEVELS];

struct step_result {
    double seconds; /**< of the step */
    double terms[STEP_TERMS];
    double bytes[STEP_LINK_LEVELS]; /**< that all ranks together send over each level of links in a step */
    double peak[STEP_LINK_LEVELS];  /**< mean use of the busiest unit of a level over the step, as a share of its
                                       bandwidth */
    uint32_t classes;               /**< of ranks that were simulated */
    uint64_t operations;            /**< that were simulated */

    /** With keep_times: class_of[rank], and for each class the pipeline rank whose schedule it executes and when its
     * operations began and ended. schedules[pipeline rank] are what was executed. */
    uint32_t *class_of;
    uint32_t *pipeline_of;
    double **begin, **end;
    struct step_schedule *schedules;
    uint32_t pipeline;
};

/**
 * Simulate a step. step_result_free() frees what keep_times fills in.
 *
 * Errors: SCHEDULE if ranks wait for each other for ever; ARGUMENT for a perturbation of a rank or host that does not
 * exist; MEMORY.
 */
weft_status step_simulate(const struct step_costs *costs, const struct step_options *options,
                          struct step_result *result, struct error *error);
void step_result_free(struct step_result *result);

/** The times of rank 0's copy of the pipeline as step_play() gives them, for step_draw(); step_times_free() frees them.
 * With keep_times. Errors: MEMORY. */
weft_status step_result_times(const struct step_costs *costs, const struct step_result *result,
                              struct step_times *times, struct error *error);

#endif
