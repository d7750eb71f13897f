/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that would do the same work twice. */
#include "platform/registry_runs.h"

/* What two runs have in common that go on with the same one from the same place: neither whose they are nor how they
 * stand to others changes what they compute. */
#define SETTINGS(specification) "json_remove(" specification ", '$.owner', '$.preemptible', '$.may_span_pods')"

weft_status registry_run_twin(struct database *database, int64_t run, int64_t *twin, struct error *error)
{
    /* Of the runs that wait or run: few, of a history of years. */
    struct statement *select = database_prepare(
        database,
        "SELECT ifnull(min(runs.run), 0) FROM runs CROSS JOIN run_specifications AS asked ON asked.run = runs.run "
        "WHERE runs.state IN ('queued', 'placed', 'starting', 'running', 'stopping', 'preempted', 're-queued') "
        "AND runs.run != ?1 AND " SETTINGS(
            "asked.specification") " = "
                                   "(SELECT " SETTINGS("specification") " FROM run_specifications WHERE run = ?1)");
    statement_bind_integer(select, run);
    const int64_t found = statement_next(select) ? statement_integer(select, 0) : 0;
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK)
        *twin = found;
    return status;
}
