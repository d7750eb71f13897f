/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The hosts of a job as the launcher sees them: a helper on each (node.h) at the other end of a pipe, through an agent if
 * it is on another host. Output of ranks goes to the output, their wait statuses to the verdict.
 *
 * No rank is started before every host has answered. With config->additions the helpers then stay, for ranks that are
 * started later, until host_helpers_finish().
 */
#ifndef WEFT_LAUNCH_INTERNAL_HOST_HELPERS_H
#define WEFT_LAUNCH_INTERNAL_HOST_HELPERS_H

#include "base/error.h"
#include "launch/agent.h"
#include "launch/internal/output.h"
#include "launch/internal/verdict.h"
#include "launch/launch.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define HOST_HELPER_WORDS_BYTES 400
#define HOST_HELPER_JOB_BYTES   17

/** A host and the connection to its helper. */
struct host_helper {
    const struct host *host;
    bool local;
    struct agent_process agent;
    struct buffer in, out;
    char words[HOST_HELPER_WORDS_BYTES]; /**< the last output of the agent, for the message if it fails */
    uint32_t cores;                      /**< that its helper may use */
    uint32_t running;                    /**< ranks that have not ended there */
    uint32_t slots;                      /**< ranks that may run there at a time from now on */
    bool greeted, ordered, done;
    bool attaches;     /**< it runs already, and is to be taken over: `ordered` once it has reported its ranks */
    bool stays;        /**< the helper waits for more ranks, or for host_helpers_finish() */
    struct host *late; /**< its host, if it was added by host_helpers_update(); otherwise NULL */
};

struct host_helpers {
    const struct launch_config *config;
    const struct string_list *environment; /**< of every rank */
    struct output *output;
    struct verdict *verdict;
    struct host_helper *all;
    uint32_t count, open;            /**< all helpers, and those not done */
    bool began;                      /**< host_helpers_start() is over: there may be threads */
    bool remote;                     /**< one of them is on another machine */
    char *directory;                 /**< the ranks' working directory: ours */
    uint64_t deadline;               /**< for every host's answer; 0: all have */
    uint32_t threads;                /**< compute threads a rank */
    char job[HOST_HELPER_JOB_BYTES]; /**< names the helpers' sockets for another launcher; "": there is to be none */
    uint32_t attached;               /**< helpers that were taken over */
    size_t input_window;             /**< bytes of input that may be on their way to rank 0 */
    bool resigned; /**< the helpers go on without this launcher: host_helpers_close() leaves them alone */
};

/** Prepare; nothing is started. The arguments must live until host_helpers_close(). Errors: MEMORY, SYSTEM. */
weft_status host_helpers_open(struct host_helpers *helpers, const struct launch_config *config,
                              const struct string_list *environment, struct output *output, struct verdict *verdict,
                              struct error *error);

/**
 * Before host_helpers_start(): the helpers run already and are to be taken over; each rank that a helper no longer has has
 * ended. host_helpers_append_late() adds a host that had come later.
 */
void host_helpers_attach(struct host_helpers *helpers);
weft_status host_helpers_append_late(struct host_helpers *helpers, const struct host *host, struct error *error);

/** Answer its greeting, with the random digits `draw`; then take the payload of ORDER_RANKS. */
void host_helper_prove(struct host_helpers *helpers, struct host_helper *helper, const char *draw);
void host_helper_take_ranks(struct host_helpers *helpers, struct host_helper *helper, struct reader reader);

/** Start the agent of one helper, or the proxy of one that is taken over. Errors: as agent_start(). */
weft_status host_helper_start(struct host_helpers *helpers, struct host_helper *helper, struct error *error);

/** Start the agents; this process must have no other threads yet. Errors: as agent_start(). */
weft_status host_helpers_start(struct host_helpers *helpers, struct error *error);

/** Number of elements of `polls` that host_helpers_watch() fills in. */
static inline size_t host_helpers_polls(const struct host_helpers *helpers)
{
    return 3 * (size_t)helpers->count;
}

/** Fill in what to poll for; then act on the result. While `full`, no output is read. */
void host_helpers_watch(const struct host_helpers *helpers, bool full, struct pollfd *polls);
void host_helpers_turn(struct host_helpers *helpers, const struct pollfd *polls);

/** How many more ranks may be started on that host now. */
uint32_t host_helper_free_slots(const struct host_helper *helper);

/** Start rank `rank` there at `place`. Only before host_helpers_finish(). */
void host_helper_add(struct host_helper *helper, uint32_t rank, uint32_t place);

/**
 * These hosts can be used from now on. A new one gets a helper; if that cannot be reached, the job goes on without it. One that
 * is no longer listed gets no more ranks, and those that run there go on. Once all ranks have met.
 */
void host_helpers_update(struct host_helpers *helpers, const struct host_list *hosts);

/** No more ranks will be added: the helpers may end as soon as their ranks have. May be repeated. */
void host_helpers_finish(struct host_helpers *helpers);

/** Kill the ranks that are stopped. */
void host_helpers_kill_stopped(struct host_helpers *helpers);

/** Tell every helper that the launcher lives. */
void host_helpers_beat(struct host_helpers *helpers);

/** Send signal `number` to every rank. */
void host_helpers_signal(struct host_helpers *helpers, int number);

/** The bytes of input that rank 0 can take now; send some (`size` 0: the end of the input). */
size_t host_helpers_input_room(const struct host_helpers *helpers);
void host_helpers_input(struct host_helpers *helpers, const uint8_t *bytes, size_t size);

/** Give up on hosts that have not answered in time, or that a job which has failed no longer needs. The job fails, unless such a
 * host was added later. */
void host_helpers_give_up(struct host_helpers *helpers);

/** Close the pipes and free; kill helpers and agents that have not ended within two seconds. */
void host_helpers_close(struct host_helpers *helpers);

#endif
