/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that do not use what they hold. */
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
