/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ranks that are started in place of those that failed: on which host, at which place there, and when. They join the
 * running job. Each lost rank gets one replacement, in the order of the losses, as long as config->restarts are left,
 * the job goes on, no rank has finished or asked to be run again, and the user has sent no signal. Afterward the helpers
 * are finished.
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
    uint64_t *starts;              /**< by replacement, from 0: when it was started */
    uint32_t started;              /**< the replacements: verdict->lost[i] was replaced by rank hosts.ranks + i */
    uint32_t seen;                 /**< how many of verdict->lost have been looked at */
    double backoff;                /**< seconds of the last delay; 0: there is none */
    uint64_t not_before;           /**< the next start; 0: at once */
    uint64_t deadline;             /**< when replacements_turn() must be called next; 0: after an event */
    bool waits_for_place, used_up; /**< the message about it has been printed */
};

/** Begin; nothing is started. The arguments must live until replacements_close(). Errors: MEMORY. */
weft_status replacements_open(struct replacements *replacements, const struct launch_config *config,
                              struct host_helpers *helpers, struct output *output, struct verdict *verdict,
                              struct error *error);
void replacements_close(struct replacements *replacements);

/** Start the replacements that are due; finish the helpers if there will be no more. */
void replacements_turn(struct replacements *replacements);

#endif
