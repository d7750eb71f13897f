/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A simulation under way: what simulate.c sets up and runs, and steps.c changes. Belongs to one call.
 *
 * Where nodes are folded (internal/fold.h) the ranks here are those of the first node, and a channel also has a
 * distance.
 */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_SIMULATION_H
#define WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_SIMULATION_H

#include "core/schedule/simulate/internal/events.h"
#include "core/schedule/simulate/internal/fold.h"
#include "core/schedule/simulate/internal/network.h"

/** Iterations simulated of a long loop; the rest takes the mean time of those after the first few. */
#define ITERATIONS_SETTLED 4
#define ITERATIONS_MOST    8

/** Limits of a channel number: ranks of a folded node, and folded nodes. */
#define FOLD_RANKS 4096
#define FOLD_NODES (1u << 24)

/** What is the same for a message step in every iteration. */
struct simulated_route {
    uint32_t pipe;
    bool known;
    uint8_t crossed; /**< levels that the ranks differ in */
};

/** One lane of one rank. */
struct runner {
    uint32_t rank, lane;
    uint32_t iteration, at;
    uint32_t signals;               /**< that can be seen */
    uint32_t channel;               /**< of a send under way */
    struct simulated_route *routes; /**< of its steps */
    bool blocked;                   /**< waits for an event */
    bool published;                 /**< in an exchange */
    double since;                   /**< from when its step could begin */
};

/** Messages from one rank to another on one channel. */
struct pipe {
    uint64_t key;     /**< 0: empty entry of the table */
    uint32_t arrived; /**< and not yet received */
    uint32_t waiting; /**< the lane that receives, or none */
};

/** A core that ranks take turns on. */
struct core {
    double busy;   /**< until when it is */
    uint32_t rank; /**< that was there last */
};

struct simulate_simulation {
    struct schedule *const *schedules; /**< of the ranks simulated */
    const struct schedule_shape *shape;
    const struct simulated_cluster *cluster;
    const struct simulated_fold *fold; /**< NULL: all ranks are simulated */
    const struct simulated_watch *watch;
    uint32_t ranks, iterations;
    uint64_t block_bytes;
    uint32_t runner_count, *first; /**< first lane of each rank */
    struct runner *runners;
    double *busy;       /**< until when each rank is */
    double *worked;     /**< seconds that each rank has worked */
    double *given;      /**< bytes that each rank has sent, or moved in the memory of others */
    struct core *cores; /**< of all machines with fewer cores than ranks; NULL where every rank has its own */
    double bandwidth;   /**< of a core's work */
    struct pipe *pipes;
    struct simulated_route *routes; /**< of all steps of all ranks */
    uint32_t pipe_mask;
    struct simulated_network network;
    struct simulate_events events;
    double *iteration_end;    /**< when the last lane of all ended each iteration */
    double limit;             /**< seconds: what takes longer need not be simulated to the end */
    uint64_t all_iterations;  /**< of which `iterations` are simulated */
    bool every_rank;          /**< where nodes are folded: means add every rank of the shape, so that they have the
                                   bits of the whole simulation */
    uint32_t settling, going; /**< lanes that have not ended iteration ITERATIONS_SETTLED, the last */
    uint64_t messages, draws; /**< sent; random numbers drawn */
    void *memory;
};

/**
 * schedule_simulate_folded(), ended early where the result is more than `limit` seconds: then report->seconds is
 * infinite, and nothing else is set.
 */
weft_status simulation_run_folded(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                  const struct simulated_cluster *cluster, double limit,
                                  struct simulated_report *report, bool *folded, struct error *error);

/** The same for schedule_simulate_shape(), folded where that is possible. The result has the same bits. */
weft_status simulation_run_shape(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                 const struct simulated_cluster *cluster, double limit, struct simulated_report *report,
                                 struct error *error);

/** Bytes of a step's data in an iteration. */
uint64_t simulation_step_bytes(const struct schedule *schedule, const struct step *step, uint64_t block_bytes,
                               uint32_t iteration);

/** Seconds of a rank's own work for a step that moves `bytes`, at `bandwidth`: streams of memory (a copy is two). */
double simulation_step_seconds(const struct schedule *schedule, const struct step *step, uint64_t bytes,
                               double bandwidth);

/** The bandwidth of that work: within the cache, if what the ranks of a node touch fits there. */
double simulation_bandwidth(const struct schedule *schedule, const struct simulated_cluster *cluster,
                            uint64_t block_bytes, uint32_t ranks_of_node);

/** The rank of the shape that is simulated as `rank`. */
static inline uint32_t simulation_rank(const struct simulate_simulation *simulation, uint32_t rank)
{
    return simulation->fold ? simulation->fold->rank_at[rank] : rank;
}

/** The step that a lane is at. */
static inline const struct step *simulation_step(const struct simulate_simulation *simulation,
                                                 const struct runner *runner)
{
    const struct schedule *schedule = simulation->schedules[runner->rank];
    return &schedule->steps[schedule->lane_first[runner->lane] + runner->at];
}

/** An event happens (steps.c). */
void simulation_step_event(struct simulate_simulation *simulation, const struct simulate_event *event);

#endif
