/* SPDX-License-Identifier: Apache-2.0 */
/* How long a run may run, where that is less than was asked for. */
#include "platform/registry_runs.h"

weft_status registry_run_limit(struct database *database, int64_t run, int64_t time_limit, const char *detail,
                               int64_t now, struct error *error)
{
    struct statement *update = database_prepare(database, "UPDATE runs SET time_limit = ? WHERE run = ?");
    statement_bind_integer(update, time_limit);
    statement_bind_integer(update, run);
    weft_status status = statement_run(update, error);
    return status == WEFT_OK ? registry_run_note(database, run, "", detail, now, error) : status;
}
