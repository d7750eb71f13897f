/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The members of the job as its ranks report them, and requests of weft scale for another number of ranks.
 *
 * More ranks are started as replacements are. For fewer, the ranks with the highest numbers leave, one after the other: the
 * lowest rank is asked to release one with the next change of the members (weft_grow()), and is asked again until that rank
 * has ended. So no two ranks leave at once that hold a part of the program's state and the only copy of it.
 */
#ifndef WEFT_LAUNCH_INTERNAL_SCALING_H
#define WEFT_LAUNCH_INTERNAL_SCALING_H

#include "base/error.h"
#include "launch/internal/output.h"
#include "launch/internal/rendezvous_service.h"
#include "launch/internal/replacements.h"
#include "launch/internal/verdict.h"
#include "launch/launch.h"

#include <stdbool.h>
#include <stdint.h>

struct scaling {
    const struct launch_config *config;
    struct output *output;
    struct verdict *verdict;
    struct replacements *replacements;
    struct rendezvous_service *rendezvous;
    uint32_t target;   /**< ranks that were asked for last */
    uint32_t excess;   /**< ranks that are still to leave, without `leaving` */
    bool failed;       /**< the lowest rank could not be asked to release `leaving`, and a warning says so */
    int64_t leaving;   /**< the rank that is asked to leave; -1: none */
    bool asked;        /**< the lowest rank of the present members knows it */
    uint64_t ask_at;   /**< when to ask it next */
    uint64_t changes;  /**< of the members */
    uint64_t deadline; /**< when scaling_turn() must be called next; 0: after an event */
};

/** Begin. The arguments must live as long as `scaling`, which needs no end. */
void scaling_begin(struct scaling *scaling, const struct launch_config *config, struct output *output,
                   struct verdict *verdict, struct replacements *replacements, struct rendezvous_service *rendezvous);

/** Answer one request at the socket of config->job_directory, which is readable. */
void scaling_answer(struct scaling *scaling);

/** Note the members; let the next rank leave. */
void scaling_turn(struct scaling *scaling);

#endif
