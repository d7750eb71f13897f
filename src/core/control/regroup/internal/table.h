/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The table in which a leader writes whom the next epoch has: epoch (4 bytes), ranks (4), draw (32), the first ranks (4
 * each), the endpoint info for the epoch, and that with the listeners that stay open; then how many ranks leave (4), and
 * their first ranks (4 each). Both lists ascend. With the regroup's lock.
 */
#ifndef WEFT_CORE_CONTROL_REGROUP_INTERNAL_TABLE_H
#define WEFT_CORE_CONTROL_REGROUP_INTERNAL_TABLE_H

#include "core/control/regroup/internal/state.h"

/** A table that is read in place. */
struct regroup_layout {
    uint32_t epoch, count;
    uint32_t ranks; /**< above all first ranks */
    const uint8_t *draw, *first, *endpoints, *listeners;
    uint32_t released_count;
    const uint8_t *released;
};

/** Whether a newcomer waits here, connected. */
bool regroup_waits_here(struct regroup *regroup, uint32_t rank);

/** Whether a rank takes part in the agreement, but is not a member of the epoch that this rank's table begins. */
bool regroup_releases(const struct regroup *regroup, uint32_t rank);

/** Whether a rank is a member of the epoch that this rank's table begins. */
bool regroup_takes(struct regroup *regroup, uint32_t rank);

void regroup_write_table(struct regroup *regroup, const uint8_t draw[SECRET_BYTES], struct buffer *table);

/** False if it is malformed. */
bool regroup_read_table(const uint8_t *bytes, size_t size, struct regroup_layout *table);

/** Whether `rank` is one of `count` ranks, such as those of `first`. */
bool regroup_lists(const uint8_t *bytes, uint32_t count, uint32_t rank);

/** The members are those of the table. */
void regroup_take_members(struct regroup *regroup, const struct regroup_layout *table);

/** The membership by the table that was adopted. Errors: DATA, MEMORY. */
weft_status regroup_result_read(const struct regroup *regroup, struct regroup_table *table, struct error *error);

#endif
