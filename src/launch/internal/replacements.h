/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ranks that are started later, in place of those that failed or because more are wanted: on which host, at which place
 * there, and when. They join the running job. Each lost rank gets one replacement as long as config->restarts are left, and
 * each rank that was overtaken (verdict.h) one that does not count.
 * Ranks are started in the order in which they were requested, as long as the job goes on, no rank has finished or asked to
 * be run again, and the user has sent no signal. Afterward the helpers are finished.
 *
 * A replacement that fails within a minute of its start delays the next start by a second, doubling up to 30, so that
 * a program that cannot run does not use up all restarts at once.
 */
#ifndef WEFT_LAUNCH_INTERNAL_REPLACEMENTS_H
#define WEFT_LAUNCH_INTERNAL_REPLACEMENTS_H

#include "base/error.h"
#include "launch/internal/host_helpers.h"
#include "launch/internal/output.h"
#include "launch/internal/verdict.h"
#include "launch/launch.h"

#include <stdbool.h>
#include <stdint.h>

struct replacements {
    const struct launch_config *config;
    struct host_helpers *helpers;
    struct output *output;
    struct verdict *verdict;
    uint32_t *places;              /**< by rank: its place on its host */
    uint64_t *starts;              /**< by start, from 0: when it was */
    int64_t *wanted;               /**< by start: the rank that rank hosts.ranks + i replaces; -1: none */
    uint32_t requested, started;   /**< starts */
    uint32_t restarts;             /**< of those that were requested, in place of lost ranks */
    uint32_t seen;                 /**< how many of verdict->lost have been looked at */
    uint32_t restarted;            /**< lost ranks that were replaced */
    double backoff;                /**< seconds of the last delay; 0: there is none */
    uint64_t not_before;           /**< the next start; 0: at once */
    uint64_t deadline;             /**< when replacements_turn() must be called next; 0: after an event */
    bool lacks_restarts;           /**< a rank was lost that is not replaced */
    bool waits_for_place, used_up; /**< the message about it has been printed */
};

/** Begin; nothing is started. The arguments must live until replacements_close(). Errors: MEMORY. */
weft_status replacements_open(struct replacements *replacements, const struct launch_config *config,
                              struct host_helpers *helpers, struct output *output, struct verdict *verdict,
                              struct error *error);
void replacements_close(struct replacements *replacements);

/** Whether ranks are started at all: the job goes on. Once this is false it remains so. */
bool replacements_are_wanted(const struct replacements *replacements);

/** Request replacements of ranks that were lost since the last call, as far as restarts are left. */
void replacements_see_losses(struct replacements *replacements);

/** How many ranks could be started now, besides those that are requested. */
uint32_t replacements_free_slots(const struct replacements *replacements);

/** Request `count` more ranks, at most those free slots. */
void replacements_add(struct replacements *replacements, uint32_t count);

/** Withdraw the last requests, `count` at most, as far as they are not started. Returns how many. */
uint32_t replacements_withdraw(struct replacements *replacements, uint32_t count);

/** Start the ranks that are due; finish the helpers if there will be no more. */
void replacements_turn(struct replacements *replacements);

#endif
