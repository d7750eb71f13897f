/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The hosts that come and go while a job runs: config->hosts_command is run every few seconds, and sooner where a rank waits
 * for a free slot. A list that it does not print changes nothing, and is reported once until there is one again.
 */
#ifndef WEFT_LAUNCH_INTERNAL_HOST_WATCH_H
#define WEFT_LAUNCH_INTERNAL_HOST_WATCH_H

#include "launch/hosts_command.h"
#include "launch/internal/host_helpers.h"
#include "launch/internal/output.h"
#include "launch/internal/replacements.h"

#include <stdbool.h>
#include <stdint.h>

struct host_watch {
    const struct launch_config *config;
    struct host_helpers *helpers;
    const struct replacements *replacements;
    struct output *output;
    struct hosts_command ask;
    uint64_t asked;    /**< clock_now(): when it was run last */
    bool failed;       /**< the last time */
    uint64_t deadline; /**< when host_watch_turn() must be called next; 0: never */
};

/** Begin. The arguments must live until host_watch_end(). */
void host_watch_begin(struct host_watch *watch, const struct launch_config *config, struct host_helpers *helpers,
                      const struct replacements *replacements, struct output *output);
void host_watch_end(struct host_watch *watch);

/** To be polled for reading; -1: nothing. */
static inline int host_watch_descriptor(const struct host_watch *watch)
{
    return watch->ask.process > 0 ? watch->ask.descriptor : -1;
}

/** Run the command if it is time; take its list. */
void host_watch_turn(struct host_watch *watch);

#endif
