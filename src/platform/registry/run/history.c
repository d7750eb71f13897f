/* SPDX-License-Identifier: Apache-2.0 */
/* The history of a run: attempts, their nodes, events. */
#include "platform/registry/internal/list.h"
#include "platform/registry/run/runs.h"
#include "platform/store/query.h"

#include <string.h>

weft_status registry_attempts(struct database *database, int64_t run, struct registry_attempt **list, size_t *count,
                              struct error *error)
{
    struct registry_list attempts = {0};
    struct statement *select = DATABASE_QUERY(database,
                                              "SELECT epoch, placed, started, ended, pod, detail, cause "
                                              "FROM attempts WHERE run = ? ORDER BY epoch",
                                              run);
    for (struct registry_attempt *attempt; (attempt = registry_list_next(&attempts, select, sizeof *attempt));) {
        STATEMENT_READ(select, 0, &attempt->epoch, &attempt->placed, &attempt->started, &attempt->ended, attempt->pod,
                       attempt->detail);
        attempt->over = run_cause_find(statement_text(select, 6), &attempt->cause);
    }
    return registry_list_end(&attempts, select, list, count, error);
}

weft_status registry_nodes(struct database *database, int64_t run, int64_t epoch, struct registry_node **list,
                           size_t *count, struct error *error)
{
    struct registry_list nodes = {0};
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT node, host, slots, started, ended, how, code, signal, detail, sequence, dropped "
                       "FROM nodes WHERE run = ? AND epoch = ? ORDER BY node",
                       run, epoch);
    for (struct registry_node *node; (node = registry_list_next(&nodes, select, sizeof *node));)
        STATEMENT_READ(select, 0, &node->node, node->host, node->slots, &node->started, &node->ended, &node->how,
                       &node->code, &node->signal, node->detail, &node->sequence, &node->dropped);
    return registry_list_end(&nodes, select, list, count, error);
}

weft_status registry_dealt_each(struct database *database, registry_dealt_take *take, void *state, struct error *error)
{
    struct error here = {0};
    weft_status status = WEFT_OK;
    struct statement *select = database_prepare(
        database, "SELECT n.run, n.epoch, n.node, n.sequence FROM runs r CROSS JOIN nodes n ON n.run = r.run "
                  "WHERE r.discarded = 0 AND n.sequence > 0");
    while (status == WEFT_OK && statement_next(select)) {
        struct registry_dealt dealt;
        STATEMENT_READ(select, 0, &dealt.run, &dealt.epoch, &dealt.node, &dealt.sequence);
        status = take(state, &dealt, &here);
    }
    const weft_status ended = statement_end(select, error);
    return ended != WEFT_OK || status == WEFT_OK ? ended : error_set(error, status, "%s", here.text);
}

weft_status registry_run_events(struct database *database, int64_t run, int64_t after, size_t most,
                                struct registry_event **list, size_t *count, struct error *error)
{
    struct registry_list events = {0};
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT event, epoch, time, verdict, actor, detail, cause, from_state, to_state "
                       "FROM run_events WHERE run = ? AND event > ? ORDER BY event LIMIT ?",
                       run, after, most);
    bool known = true;
    for (struct registry_event *event; known && (event = registry_list_next(&events, select, sizeof *event));) {
        STATEMENT_READ(select, 0, &event->event, &event->epoch, &event->time, &event->verdict, event->actor,
                       event->detail);
        event->first = !*statement_text(select, 7);
        known = run_cause_find(statement_text(select, 6), &event->cause) &&
                (event->first || run_state_find(statement_text(select, 7), &event->from)) &&
                run_state_find(statement_text(select, 8), &event->to);
    }
    if (!known)
        return registry_list_drop(
            &events, select,
            error_set(error, WEFT_ERROR_DATA, "run %lld has an event that this program does not know", (long long)run));
    return registry_list_end(&events, select, list, count, error);
}

weft_status registry_last_event(struct database *database, int64_t *event, struct error *error)
{
    return statement_end_integer(database_prepare(database, "SELECT ifnull(max(event), 0) FROM run_events"), event,
                                 error);
}

weft_status registry_runs_changed(struct database *database, int64_t after, size_t most, int64_t **list, size_t *count,
                                  int64_t *last, struct error *error)
{
    struct registry_list runs = {0};
    int64_t newest = after;
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT run, max(event) FROM (SELECT run, event FROM run_events WHERE event > ? "
                       "ORDER BY event LIMIT ?) GROUP BY run",
                       after, most);
    for (int64_t *run; (run = registry_list_next(&runs, select, sizeof *run));) {
        *run = statement_integer(select, 0);
        if (statement_integer(select, 1) > newest)
            newest = statement_integer(select, 1);
    }
    weft_status status = registry_list_end(&runs, select, (void *)list, count, error);
    if (status == WEFT_OK)
        *last = newest;
    return status;
}
