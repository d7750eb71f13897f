/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The engine that runs nothing: attempts take virtual time, and hosts fail when the test says so. For tests of what
 * drives engines, and for traces. It reads no clock, no file and no network; the same calls give the same records.
 *
 * Each node is started `start_takes` after start(), runs for as long as its behavior says, and ends. Nothing happens
 * but in start(), stop() and engine_simulated_advance(). Unlike a real engine it refuses slots that another node still
 * holds: who hands them out twice is found here.
 *
 * Times are virtual milliseconds since 1970.
 */
#ifndef WEFT_TESTS_ENGINE_SIMULATED_H
#define WEFT_TESTS_ENGINE_SIMULATED_H

#include "platform/engine/engine.h"

/** What a node's program does. */
struct engine_simulated_behavior {
    uint64_t duration;     /**< until it ends by itself */
    uint32_t code, signal; /**< how */
    uint64_t stop_takes;   /**< from a wish to end to its end; longer than the grace period: it is killed */
    uint32_t stop_code;    /**< exit code then; 75 where a checkpoint is written */
};

struct engine_simulated_host {
    const char *name;
    uint32_t slots;
    bool gpus;
    const char *pod; /**< NULL: "" */
};

struct engine_simulated_config {
    const struct engine_simulated_host *hosts;
    uint32_t host_count;
    uint64_t begin;       /**< the first moment */
    uint64_t start_takes; /**< from start() to JOURNAL_STARTED */
    uint64_t heartbeat;   /**< between two of a node; 0: none */
    /** Fill in `behavior`, which is set to the order's duration, exit code 0, and 75 at once when stopped. May be
     * NULL. */
    void (*behave)(void *context, const struct attempt *attempt, uint32_t node,
                   struct engine_simulated_behavior *behavior);
    void *context;
};

/** engine->close() frees it. exec() is refused with ARGUMENT. */
weft_status engine_simulated_open(const struct engine_simulated_config *config, struct engine **engine,
                                  struct error *error);

/** The present time; the next time at which something happens by itself, UINT64_MAX if nothing will. */
uint64_t engine_simulated_now(const struct engine *engine);
uint64_t engine_simulated_next(const struct engine *engine);

/** Let everything happen up to and at `moment`, in order of time; a time that has passed changes nothing. */
void engine_simulated_advance(struct engine *engine, uint64_t moment);

/**
 * A host fails now, for `reason`: what runs there is lost, and nothing can be started; with reason NULL it is up again.
 * False if there is no such host.
 */
bool engine_simulated_fail(struct engine *engine, const char *host, const char *reason);

/** The nodes that run on a host report now that a GPU of theirs is ill, in these words (JOURNAL_UNFIT). False: none runs
 * there. */
bool engine_simulated_sicken(struct engine *engine, const char *host, const char *illness);

#endif
