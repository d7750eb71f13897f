/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of runs: read them, update what does not change their state, and find those that depend on each other. */
#include "platform/registry/internal/run_row.h"

#include "base/text.h"
#include "platform/registry/internal/list.h"
#include "platform/store/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

weft_status registry_run_row(struct statement *select, struct registry_run *run, struct error *error)
{
    STATEMENT_READ(select, 0, &run->run, &run->epoch, run->project, run->owner, run->class_name, run->name);
    const bool found = run_state_find(statement_text(select, 6), &run->state) &&
                       run_cause_find(statement_text(select, 7), &run->cause) &&
                       run_cause_find(statement_text(select, 8), &run->asked);
    STATEMENT_READ(select, 9, &run->nodes, &run->slots, &run->processors, &run->memory, &run->time_limit,
                   &run->time_slice, &run->priority, &run->retries);
    run->slot_kind = strcmp(statement_text(select, 17), slot_kind_name(SLOT_CPU)) == 0 ? SLOT_CPU : SLOT_GPU;
    STATEMENT_READ(select, 18, &run->preemptible, &run->may_span_pods, &run->interactive, &run->program_failures,
                   &run->platform_failures, &run->submitted, &run->waiting_since, &run->first_started, &run->started,
                   &run->ended, &run->changed, &run->served, &run->discarded, &run->idle_since);
    STATEMENT_READ(select, 32, &run->progress.reported, &run->progress.rank, &run->progress.done, &run->progress.total,
                   &run->progress.left, run->detail);
    return found ? WEFT_OK
                 : error_set(error, WEFT_ERROR_DATA, "run %" PRId64 " has a state that this program does not know",
                             run->run);
}

char *registry_detail(const char *detail, const char *otherwise, char kept[REGISTRY_DETAIL_BYTES])
{
    snprintf(kept, REGISTRY_DETAIL_BYTES, "%s", *detail ? detail : otherwise);
    return text_printable(kept);
}

/* ---- updates without a change of state ---- */

/* Set a column of a run by `sql`, with a note among its events. */
static weft_status run_column_set(struct database *database, const char *sql, int64_t value, int64_t run,
                                  const char *actor, const char *detail, int64_t now, struct error *error)
{
    weft_status status = DATABASE_RUN(database, error, sql, value, run);
    return status == WEFT_OK ? registry_run_note(database, run, actor, detail, now, error) : status;
}

weft_status registry_run_limit(struct database *database, int64_t run, int64_t time_limit, const char *detail,
                               int64_t now, struct error *error)
{
    return run_column_set(database, "UPDATE runs SET time_limit = ? WHERE run = ?", time_limit, run, "", detail, now,
                          error);
}

weft_status registry_run_idle(struct database *database, int64_t run, bool idle, const char *detail, int64_t now,
                              struct error *error)
{
    return run_column_set(database, "UPDATE runs SET idle_since = ? WHERE run = ?", idle ? now : 0, run, "", detail,
                          now, error);
}

weft_status registry_idle_runs(struct database *database, int64_t *count, struct error *error)
{
    /* The states first: few runs are active, of a history of years. */
    struct statement *select = database_prepare(
        database, "SELECT count(*) FROM runs WHERE state IN ('running', 'stopping') AND idle_since != 0");
    return statement_end_integer(select, count, error);
}

weft_status registry_run_progress(struct database *database, int64_t run, int64_t epoch,
                                  const struct run_progress *progress, struct error *error)
{
    struct statement *update =
        DATABASE_QUERY(database,
                       "UPDATE runs SET progress_at = ?, progress_rank = ?, progress_done = ?, "
                       "progress_total = ?, progress_left = ? WHERE run = ? AND epoch = ?",
                       progress->reported, progress->rank, progress->done, progress->total, progress->left, run, epoch);
    statement_can_wait(update);
    return statement_run(update, error);
}

weft_status registry_runs_shift(struct database *database, int64_t by, struct error *error)
{
    static const char *const updates[] = {
        "UPDATE runs SET first_started = first_started + CASE WHEN first_started = started THEN ?1 ELSE 0 END, "
        "started = started + ?1, progress_at = progress_at + CASE WHEN progress_at THEN ?1 ELSE 0 END WHERE started != "
        "0 AND state IN " RUN_STATES_ACTIVE_SQL,
        "UPDATE runs SET waiting_since = waiting_since + ?1 WHERE state IN ('queued', 'preempted', 're-queued')",
        "UPDATE nodes SET started = started + ?1, ended = ended + CASE WHEN dropped THEN ?1 ELSE 0 END WHERE started != 0 "
        "AND (ended = 0 OR dropped) AND (run, epoch) IN (SELECT run, epoch FROM attempts WHERE ended = 0)",
        "UPDATE attempts SET placed = placed + ?1, started = started + CASE WHEN started THEN ?1 ELSE 0 END "
        "WHERE ended = 0",
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(updates) && status == WEFT_OK; i++)
        status = DATABASE_RUN(database, error, updates[i], by);
    return status;
}

/* ---- duplicates, dependents, snapshots ---- */

/* The part of a specification that determines what a run computes. Owner and preemption do not. */
#define RUN_WORK(specification)                                                                                        \
    "json_remove(" specification ", '$.owner', '$.preemptible', '$.may_span_pods', "                                   \
    "'$.min_nodes')"

weft_status registry_run_duplicate(struct database *database, int64_t run, int64_t *duplicate, struct error *error)
{
    /* The states first: few runs wait or run, of a history of years. */
    struct statement *select = DATABASE_QUERY(
        database,
        "SELECT ifnull(min(runs.run), 0) FROM runs CROSS JOIN run_specifications AS asked ON asked.run = runs.run "
        "WHERE runs.state IN ('queued', 'placed', 'starting', 'running', 'stopping', 'preempted', 're-queued') "
        "AND runs.run != ?1 AND " RUN_WORK(
            "asked.specification") " = "
                                   "(SELECT " RUN_WORK("specification") " FROM run_specifications WHERE run = ?1)",
        run);
    return statement_end_integer(select, duplicate, error);
}

/* The unfinished runs that begin from a checkpoint of run `parent` (SQL). This order of tables uses the index
 * run_heirs, so a query reads the dependents of one run, however many runs there are. */
#define DEPENDENTS(parent)                                                                                             \
    "FROM run_specifications s CROSS JOIN runs dependent ON dependent.run = s.run WHERE s.heir_of != 0 AND s.heir_of " \
    "= " parent " AND dependent.state NOT IN " RUN_STATES_FINAL_SQL

static weft_status run_dependent_find(struct database *database, int64_t run, int64_t *dependent, struct error *error)
{
    struct statement *select = DATABASE_QUERY(database, "SELECT ifnull(min(dependent.run), 0) " DEPENDENTS("?"), run);
    return statement_end_integer(select, dependent, error);
}

weft_status registry_run_discard(struct database *database, int64_t run, const char *actor, const char *detail,
                                 int64_t now, struct error *error)
{
    struct registry_run found;
    int64_t dependent = 0;
    weft_status status = registry_run_get(database, run, &found, error);
    if (status == WEFT_OK && found.discarded)
        return WEFT_OK;
    if (status == WEFT_OK && !run_state_is_final(found.state))
        return error_set(error, WEFT_ERROR_STATE,
                         "run %" PRId64 " is %s: what it leaves can be discarded when it has ended", run,
                         run_state_name(found.state));
    if (status == WEFT_OK)
        status = run_dependent_find(database, run, &dependent, error);
    if (status == WEFT_OK && dependent)
        return error_set(error, WEFT_ERROR_STATE,
                         "run %" PRId64 " begins from a checkpoint of run %" PRId64
                         ", which is needed until it has ended",
                         dependent, run);
    return status != WEFT_OK ? status
                             : run_column_set(database, "UPDATE runs SET discarded = ? WHERE run = ?", now, run, actor,
                                              detail, now, error);
}

weft_status registry_runs_to_discard(struct database *database, int64_t before, size_t most, int64_t **runs,
                                     size_t *count, struct error *error)
{
    struct registry_list list = {0};
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT run FROM runs WHERE state IN " RUN_STATES_FINAL_SQL " AND ended < ? "
                       "AND discarded = 0 AND NOT EXISTS (SELECT 1 " DEPENDENTS("runs.run") ") ORDER BY run LIMIT ?",
                       before, (int64_t)most);
    for (int64_t *run; (run = registry_list_next(&list, select, sizeof *run));)
        *run = statement_integer(select, 0);
    return registry_list_end(&list, select, runs, count, error);
}

weft_status registry_run_snapshots(struct database *database, const char *project, char (**ids)[RUN_SNAPSHOT_BYTES],
                                   size_t *count, struct error *error)
{
    struct registry_list list = {0};
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT DISTINCT json_extract(specification, '$.snapshot') AS snapshot FROM runs "
                       "JOIN run_specifications USING (run) WHERE project = ? AND snapshot != '' ORDER BY snapshot",
                       project);
    for (char(*id)[RUN_SNAPSHOT_BYTES]; (id = registry_list_next(&list, select, sizeof *id));)
        statement_copy_text(select, 0, *id, sizeof *id);
    return registry_list_end(&list, select, ids, count, error);
}
