/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/run/list.h"

#include "base/text.h"
#include "platform/registry/internal/list.h"
#include "platform/registry/internal/run_row.h"
#include "platform/store/query.h"

#include <stdio.h>
#include <string.h>

#define SQL_BYTES 2048

/* A statement under construction, with its text values in order. */
struct query {
    char sql[SQL_BYTES];
    size_t length;
    const char *texts[16];
    size_t text_count;
};

static void run_list_append(struct query *query, const char *text)
{
    size_t length = strlen(text);
    if (length < sizeof query->sql - query->length) {
        memcpy(query->sql + query->length, text, length + 1);
        query->length += length;
    }
}

/* Append "AND column = ?" if there is a value. */
static void append_equal(struct query *query, const char *condition, const char *text)
{
    if (!text)
        return;
    run_list_append(query, condition);
    query->texts[query->text_count++] = text;
}

/*
 * State names need no binding. Nearly all runs have ended, so a page of these is found fastest by scanning runs by
 * number. The unary plus keeps SQLite from using the index of states for them.
 */
static void append_states(struct query *query, unsigned states)
{
    unsigned all = (1u << RUN_STATES) - 1;
    if (!(states & all) || (states & all) == all)
        return;
    bool one = !(states & (states - 1));
    run_list_append(query, one || !(states & ~REGISTRY_LIVE) ? " AND state IN (" : " AND +state IN (");
    const char *comma = "'";
    for (int state = 0; state < RUN_STATES; state++)
        if (states >> state & 1) {
            run_list_append(query, comma);
            run_list_append(query, run_state_name((enum run_state)state));
            run_list_append(query, "'");
            comma = ",'";
        }
    run_list_append(query, ")");
}

#define VIEWED " AND project IN (SELECT project FROM members NATURAL JOIN users WHERE user = ? AND disabled = 0)"

static void append_whose(struct query *query, const struct registry_filter *filter)
{
    append_equal(query, VIEWED, filter->viewer);
    append_equal(query, " AND project = ?", filter->project);
}

static void append_words(struct query *query, const struct registry_filter *filter)
{
    append_equal(query, " AND owner = ?", filter->owner);
    append_equal(query, " AND class = ?", filter->class_name);
    if (filter->search && *filter->search) {
        append_equal(query, " AND (instr(words, lower(?)) > 0", filter->search);
        append_equal(query, " OR run = ?)", filter->search);
    }
}

static struct statement *run_list_prepare(struct database *database, const struct query *query)
{
    struct statement *select = database_prepare(database, query->sql);
    for (size_t i = 0; i < query->text_count; i++)
        statement_bind_text(select, query->texts[i]);
    return select;
}

weft_status registry_run_list(struct database *database, const struct registry_filter *filter,
                              struct registry_run **list, size_t *count, bool *more, struct error *error)
{
    struct query query = {.length = 0};
    struct registry_list runs = {0};
    if (filter->most < 1 || filter->most > REGISTRY_PAGE_MOST)
        return error_set(error, WEFT_ERROR_DATA, "a page of %zu runs is asked for; 1 to %d can be had", filter->most,
                         REGISTRY_PAGE_MOST);
    run_list_append(&query, "SELECT " REGISTRY_RUN_COLUMNS " FROM runs WHERE 1");
    append_whose(&query, filter);
    append_words(&query, filter);
    append_states(&query, filter->states);
    if (filter->beyond)
        run_list_append(&query, filter->oldest_first ? " AND run > ?" : " AND run < ?");
    run_list_append(&query, filter->oldest_first ? " ORDER BY run LIMIT ?" : " ORDER BY run DESC LIMIT ?");

    struct statement *select = run_list_prepare(database, &query);
    if (filter->beyond)
        statement_bind_integer(select, filter->beyond);
    statement_bind_integer(select, (int64_t)filter->most + 1);
    bool further = false;
    weft_status status = WEFT_OK;
    for (struct registry_run *run; status == WEFT_OK && (run = registry_list_next(&runs, select, sizeof *run));) {
        if ((further = runs.count > filter->most))
            break;
        status = registry_run_row(select, run, error);
    }
    if (status != WEFT_OK)
        return registry_list_drop(&runs, select, status);
    runs.count -= further;
    status = registry_list_end(&runs, select, list, count, error);
    if (status == WEFT_OK)
        *more = further;
    return status;
}

weft_status registry_run_counts(struct database *database, const struct registry_filter *filter,
                                int64_t counts[RUN_STATES], struct error *error)
{
    const bool kept = !filter->owner && !filter->class_name && !(filter->search && *filter->search);
    struct query query = {.length = 0};
    run_list_append(&query,
                    kept ? "SELECT state, runs FROM run_counts WHERE 1" : "SELECT state, count(*) FROM runs WHERE 1");
    append_whose(&query, filter);
    if (!kept) {
        append_words(&query, filter);
        run_list_append(&query, " GROUP BY state");
    }
    struct statement *select = run_list_prepare(database, &query);
    memset(counts, 0, RUN_STATES * sizeof *counts);
    while (statement_next(select)) {
        enum run_state state;
        if (run_state_find(statement_text(select, 0), &state))
            counts[state] += statement_integer(select, 1);
    }
    return statement_end(select, error);
}

weft_status registry_placements(struct database *database, struct registry_placement **list, size_t *count,
                                struct error *error)
{
    struct registry_list placements = {0};
    struct statement *select = database_prepare(
        database, "SELECT r.run, n.node, n.host, r.project, r.owner, n.slots, r.slots FROM runs r JOIN nodes n "
                  "ON n.run = r.run AND n.epoch = r.epoch WHERE r.state IN " RUN_STATES_ACTIVE_SQL
                  " AND n.ended = 0 ORDER BY n.host COLLATE natural_order, r.run, n.node");
    for (struct registry_placement *placement;
         (placement = registry_list_next(&placements, select, sizeof *placement));)
        STATEMENT_READ(select, 0, &placement->run, &placement->node, placement->host, placement->project,
                       placement->owner, placement->slots, &placement->slot_count);
    return registry_list_end(&placements, select, list, count, error);
}

size_t registry_placements_on(const struct registry_placement *placements, size_t count, const char *host)
{
    size_t from = 0, to = count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        const char *const there = placements[middle].host;
        if (text_compare_natural(there, strlen(there), host, strlen(host)) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

weft_status registry_timeline(struct database *database, int64_t from, int64_t to, size_t most,
                              struct registry_bar **list, size_t *count, struct error *error)
{
    struct registry_list bars = {0};
    struct statement *select = DATABASE_QUERY(
        database,
        "SELECT a.run, a.epoch, n.node, n.host, r.project, r.owner, n.slots, a.placed, "
        "iif(n.ended, n.ended, a.ended), a.cause FROM attempts a JOIN nodes n ON n.run = a.run AND n.epoch = a.epoch JOIN runs r ON r.run = "
        "a.run WHERE (a.ended = 0 OR a.ended >= ?) AND a.placed <= ? AND (n.ended = 0 OR n.ended >= ?) "
        "ORDER BY a.placed DESC, a.run, n.node LIMIT ?",
        from, to, from, most);
    for (struct registry_bar *bar; (bar = registry_list_next(&bars, select, sizeof *bar));) {
        STATEMENT_READ(select, 0, &bar->run, &bar->epoch, &bar->node, bar->host, bar->project, bar->owner, bar->slots,
                       &bar->from, &bar->to);
        bar->over = run_cause_find(statement_text(select, 9), &bar->cause);
    }
    return registry_list_end(&bars, select, list, count, error);
}

weft_status registry_lengths(struct database *database, int64_t most, struct registry_length **list, size_t *count,
                             struct error *error)
{
    struct registry_list lengths = {0};
    struct statement *select = DATABASE_QUERY(
        database,
        "SELECT project, owner, nodes, slots, served FROM runs WHERE run > (SELECT max(run) FROM runs) - ? "
        "AND +state IN ('succeeded', 'failed') AND cause IN (?, ?) ORDER BY project, owner, run",
        most, run_cause_name(RUN_CAUSE_COMPLETED), run_cause_name(RUN_CAUSE_PROGRAM_FAILED));
    for (struct registry_length *length; (length = registry_list_next(&lengths, select, sizeof *length));)
        STATEMENT_READ(select, 0, length->project, length->owner, &length->nodes, &length->slots, &length->served);
    return registry_list_end(&lengths, select, list, count, error);
}

weft_status registry_waiting_slots(struct database *database, int64_t *slots, struct error *error)
{
    return statement_end_integer(
        database_prepare(database,
                         "SELECT ifnull(sum(nodes * slots), 0) FROM runs WHERE state IN " RUN_STATES_WAITING_SQL),
        slots, error);
}
