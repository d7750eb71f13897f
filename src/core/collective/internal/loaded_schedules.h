/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Schedules that the program has loaded into a communicator: weft_comm_load_schedule().
 *
 * They are kept until the communicator is freed, because schedules made from them may be in use. Guarded by the
 * context's progress lock.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_LOADED_SCHEDULES_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_LOADED_SCHEDULES_H

#include "core/schedule/text/read.h"

/** One that was loaded; the newest first. */
struct loaded_schedule {
    struct schedule_text *written;
    uint32_t number; /**< from 1, in the order of loading: equal on all ranks */
    struct loaded_schedule *next;
};

struct loaded_schedules {
    struct loaded_schedule *all;
    struct loaded_schedule *chosen[COLLECTIVES]; /**< NULL: an algorithm serves */
};

/**
 * The verified schedule of `rank` from loaded schedule `number`; *shm: whether any rank's schedule uses shared memory.
 * Errors: as schedule_text_prove().
 */
weft_status loaded_schedules_of_rank(const struct loaded_schedules *loaded, uint32_t number,
                                     const struct schedule_shape *shape, uint32_t rank, struct schedule **schedule,
                                     bool *shm, struct error *error);

void loaded_schedules_free(struct loaded_schedules *loaded);

#endif
