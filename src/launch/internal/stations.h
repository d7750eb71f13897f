/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The hosts of a job as the launcher sees them: a helper on each (node.h), reached over a pipe, by way of an agent if
 * it is elsewhere. What ranks print goes to the output, how they end to the verdict.
 *
 * Nothing is started anywhere before every host has answered.
 */
#ifndef WEFT_LAUNCH_INTERNAL_STATIONS_H
#define WEFT_LAUNCH_INTERNAL_STATIONS_H

#include "base/error.h"
#include "launch/agent.h"
#include "launch/internal/output.h"
#include "launch/internal/verdict.h"
#include "launch/launch.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define STATION_WORDS_BYTES 400

/** A host and our connection to its helper. */
struct station {
    const struct host *host;
    bool local;
    struct agent_process agent;
    struct buffer in, out;
    char words[STATION_WORDS_BYTES]; /**< what the agent said last, for the message if it fails */
    uint32_t cores;                  /**< that its helper may use */
    bool greeted, ordered, done;
};

struct stations {
    const struct launch_config *config;
    const struct texts *environment; /**< what every rank gets */
    struct output *output;
    struct verdict *verdict;
    struct station *all;
    uint32_t count, open; /**< stations, and those that are not done */
    bool remote;          /**< one of them is on another machine */
    char *directory;      /**< the ranks' working directory: ours */
    uint64_t deadline;    /**< for every host's answer; 0: all have */
    uint32_t threads;     /**< compute threads a rank */
    size_t input_window;  /**< bytes of input that may be on their way to rank 0 */
};

/** Prepare, and start nothing. stations_close() frees; what is given must live until then. Errors: MEMORY, SYSTEM. */
weft_status stations_open(struct stations *stations, const struct launch_config *config,
                          const struct texts *environment, struct output *output, struct verdict *verdict,
                          struct error *error);

/** Start the agents; this process must have no other threads yet. Errors: as agent_start(). */
weft_status stations_start(struct stations *stations, struct error *error);

/** How many of `polls` stations_watch() fills in. */
static inline size_t stations_polls(const struct stations *stations)
{
    return 3 * (size_t)stations->count;
}

/** What to wait for; then act on what has come. While `full`, ranks are not read. */
void stations_watch(const struct stations *stations, bool full, struct pollfd *polls);
void stations_turn(struct stations *stations, const struct pollfd *polls);

/** Send signal `number` to every rank. */
void stations_signal(struct stations *stations, int number);

/** How many bytes of input rank 0 can be sent now; send them (none: the end of the input). */
size_t stations_input_room(const struct stations *stations);
void stations_input(struct stations *stations, const uint8_t *bytes, size_t size);

/** Give up on hosts that have not answered in time, or that a job which has failed no longer needs. */
void stations_give_up(struct stations *stations);

/** Let the helpers and agents go; who has not ended within two seconds is killed. */
void stations_close(struct stations *stations);

#endif
