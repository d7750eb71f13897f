/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry_run_discard.h"

#include "platform/registry_list.h"

#include <inttypes.h>

/* The runs that wait or run, and begin from a checkpoint of the run that `parent` is in SQL. In this order, by the
 * index run_heirs: a query looks at the heirs of one run, however many runs there are. */
#define HEIRS(parent)                                                                                                  \
    "FROM run_specifications h CROSS JOIN runs heir ON heir.run = h.run WHERE h.heir_of != 0 AND h.heir_of = " parent  \
    " AND heir.state NOT IN ('succeeded', 'failed', 'cancelled')"

static weft_status find_heir(struct database *database, int64_t run, int64_t *heir, struct error *error)
{
    struct statement *select = database_prepare(database, "SELECT ifnull(min(heir.run), 0) " HEIRS("?"));
    statement_bind_integer(select, run);
    *heir = statement_next(select) ? statement_integer(select, 0) : 0;
    return statement_end(select, error);
}

weft_status registry_run_discard(struct database *database, int64_t run, const char *actor, const char *detail,
                                 int64_t now, struct error *error)
{
    struct registry_run found;
    int64_t heir = 0;
    weft_status status = registry_run_get(database, run, &found, error);
    if (status == WEFT_OK && found.discarded)
        return WEFT_OK;
    if (status == WEFT_OK && !run_state_is_final(found.state))
        return error_set(error, WEFT_ERROR_STATE,
                         "run %" PRId64 " is %s: what it leaves can be discarded when it has ended", run,
                         run_state_name(found.state));
    if (status == WEFT_OK)
        status = find_heir(database, run, &heir, error);
    if (status == WEFT_OK && heir)
        return error_set(error, WEFT_ERROR_STATE,
                         "run %" PRId64 " begins from a checkpoint of run %" PRId64
                         ", which is needed until it has ended",
                         heir, run);
    if (status != WEFT_OK)
        return status;
    struct statement *update = database_prepare(database, "UPDATE runs SET discarded = ? WHERE run = ?");
    statement_bind_integer(update, now);
    statement_bind_integer(update, run);
    status = statement_run(update, error);
    return status == WEFT_OK ? registry_run_note(database, run, actor, detail, now, error) : status;
}

weft_status registry_runs_to_discard(struct database *database, int64_t before, size_t most, int64_t **runs,
                                     size_t *count, struct error *error)
{
    struct registry_list list = {0};
    struct statement *select = database_prepare(
        database, "SELECT run FROM runs WHERE state IN ('succeeded', 'failed', 'cancelled') AND ended < ? "
                  "AND discarded = 0 AND NOT EXISTS (SELECT 1 " HEIRS("runs.run") ") ORDER BY run LIMIT ?");
    statement_bind_integer(select, before);
    statement_bind_integer(select, (int64_t)most);
    while (statement_next(select)) {
        int64_t *run = registry_list_add(&list, sizeof *run);
        if (run)
            *run = statement_integer(select, 0);
    }
    return registry_list_end(&list, select, runs, count, error);
}
