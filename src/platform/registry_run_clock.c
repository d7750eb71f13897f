/* SPDX-License-Identifier: Apache-2.0 */
/* The wall clock was set: the times since which runs wait or run are shifted, so that durations stay as they are. */
#include "platform/registry_runs.h"

weft_status registry_runs_shift(struct database *database, int64_t by, struct error *error)
{
    static const char *const updates[] = {
        "UPDATE runs SET first_started = first_started + CASE WHEN first_started = started THEN ?1 ELSE 0 END, "
        "started = started + ?1, progress_at = progress_at + CASE WHEN progress_at THEN ?1 ELSE 0 END WHERE started != "
        "0 AND state IN ('placed', 'starting', 'running', 'stopping')",
        "UPDATE runs SET waiting_since = waiting_since + ?1 WHERE state IN ('queued', 'preempted', 're-queued')",
        "UPDATE nodes SET started = started + ?1 WHERE started != 0 AND ended = 0 AND (run, epoch) IN "
        "(SELECT run, epoch FROM attempts WHERE ended = 0)",
        "UPDATE attempts SET placed = placed + ?1, started = started + CASE WHEN started THEN ?1 ELSE 0 END "
        "WHERE ended = 0",
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof updates / sizeof *updates && status == WEFT_OK; i++) {
        struct statement *update = database_prepare(database, updates[i]);
        statement_bind_integer(update, by);
        status = statement_run(update, error);
    }
    return status;
}
