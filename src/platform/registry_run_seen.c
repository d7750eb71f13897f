/* SPDX-License-Identifier: Apache-2.0 */
/* What running runs are seen to do: that they do not use what they hold, and how far they are. */
#include "platform/registry_runs.h"

weft_status registry_run_idle(struct database *database, int64_t run, bool idle, const char *detail, int64_t now,
                              struct error *error)
{
    struct statement *update = database_prepare(database, "UPDATE runs SET idle_since = ? WHERE run = ?");
    statement_bind_integer(update, idle ? now : 0);
    statement_bind_integer(update, run);
    weft_status status = statement_run(update, error);
    return status == WEFT_OK ? registry_run_note(database, run, "", detail, now, error) : status;
}

weft_status registry_idle_runs(struct database *database, int64_t *count, struct error *error)
{
    /* Only what runs can be: few, of a history of years. */
    struct statement *select = database_prepare(
        database, "SELECT count(*) FROM runs WHERE state IN ('running', 'stopping') AND idle_since != 0");
    int64_t found = statement_next(select) ? statement_integer(select, 0) : 0;
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK)
        *count = found;
    return status;
}

weft_status registry_run_progress(struct database *database, int64_t run, int64_t epoch,
                                  const struct run_progress *progress, struct error *error)
{
    struct statement *update =
        database_prepare(database, "UPDATE runs SET progress_at = ?, progress_rank = ?, progress_done = ?, "
                                   "progress_total = ?, progress_left = ? WHERE run = ? AND epoch = ?");
    statement_bind_integer(update, progress->reported);
    statement_bind_integer(update, progress->rank);
    statement_bind_number(update, progress->done);
    statement_bind_number(update, progress->total);
    statement_bind_number(update, progress->left);
    statement_bind_integer(update, run);
    statement_bind_integer(update, epoch);
    statement_can_wait(update);
    return statement_run(update, error);
}
