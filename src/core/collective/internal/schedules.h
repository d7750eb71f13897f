/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Schedules that the user has loaded into a communicator: weft_comm_load_schedule().
 *
 * They are kept until the communicator is freed, since plans and names of them may be in use. Guarded by the context's
 * baton.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_SCHEDULES_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_SCHEDULES_H

#include "core/schedule/text/read.h"

/** One that was loaded; the newest first. */
struct schedule {
    struct written *written;
    uint32_t number; /**< from 1, in the order of loading: equal on all ranks */
    struct schedule *next;
};

struct schedules {
    struct schedule *all;
    struct schedule *chosen[COLLECTIVES]; /**< NULL: an algorithm serves */
};

/**
 * The proved plan of `rank` by schedule number `number`; *near: any rank's plan uses near memory. Errors: as
 * written_prove().
 */
weft_status schedules_plan(const struct schedules *schedules, uint32_t number, const struct plan_shape *shape,
                           uint32_t rank, struct plan **plan, bool *near, struct error *error);

void schedules_free(struct schedules *schedules);

#endif
