/* SPDX-License-Identifier: Apache-2.0 */
/* The history of a run: attempts, their nodes, events. */
#include "platform/registry/internal/list.h"
#include "platform/registry/run/runs.h"

#include <string.h>

weft_status registry_attempts(struct database *database, int64_t run, struct registry_attempt **list, size_t *count,
                              struct error *error)
{
    struct registry_list attempts = {0};
    struct statement *select = database_prepare(database, "SELECT epoch, placed, started, ended, pod, cause, detail "
                                                          "FROM attempts WHERE run = ? ORDER BY epoch");
    statement_bind_integer(select, run);
    for (struct registry_attempt *attempt;
         statement_next(select) && (attempt = registry_list_add(&attempts, sizeof *attempt));) {
        attempt->epoch = statement_integer(select, 0);
        attempt->placed = statement_integer(select, 1);
        attempt->started = statement_integer(select, 2);
        attempt->ended = statement_integer(select, 3);
        statement_copy_text(select, 4, attempt->pod, sizeof attempt->pod);
        attempt->over = run_cause_find(statement_text(select, 5), &attempt->cause);
        statement_copy_text(select, 6, attempt->detail, sizeof attempt->detail);
    }
    return registry_list_end(&attempts, select, list, count, error);
}

weft_status registry_nodes(struct database *database, int64_t run, int64_t epoch, struct registry_node **list,
                           size_t *count, struct error *error)
{
    struct registry_list nodes = {0};
    struct statement *select =
        database_prepare(database, "SELECT node, host, slots, started, ended, how, code, signal, detail, sequence "
                                   "FROM nodes WHERE run = ? AND epoch = ? ORDER BY node");
    statement_bind_integer(select, run);
    statement_bind_integer(select, epoch);
    for (struct registry_node *node; statement_next(select) && (node = registry_list_add(&nodes, sizeof *node));) {
        node->node = statement_integer(select, 0);
        statement_copy_text(select, 1, node->host, sizeof node->host);
        statement_copy_text(select, 2, node->slots, sizeof node->slots);
        node->started = statement_integer(select, 3);
        node->ended = statement_integer(select, 4);
        node->how = (enum run_exit)statement_integer(select, 5);
        node->code = statement_integer(select, 6);
        node->signal = statement_integer(select, 7);
        statement_copy_text(select, 8, node->detail, sizeof node->detail);
        node->sequence = statement_integer(select, 9);
    }
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
        const struct registry_dealt dealt = {statement_integer(select, 0), statement_integer(select, 1),
                                             statement_integer(select, 2), statement_integer(select, 3)};
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
        database_prepare(database, "SELECT event, epoch, time, cause, from_state, to_state, verdict, actor, detail "
                                   "FROM run_events WHERE run = ? AND event > ? ORDER BY event LIMIT ?");
    statement_bind_integer(select, run);
    statement_bind_integer(select, after);
    statement_bind_integer(select, (int64_t)most);
    bool known = true;
    for (struct registry_event *event;
         known && statement_next(select) && (event = registry_list_add(&events, sizeof *event));) {
        event->event = statement_integer(select, 0);
        event->epoch = statement_integer(select, 1);
        event->time = statement_integer(select, 2);
        event->first = !*statement_text(select, 4);
        known = run_cause_find(statement_text(select, 3), &event->cause) &&
                (event->first || run_state_find(statement_text(select, 4), &event->from)) &&
                run_state_find(statement_text(select, 5), &event->to);
        event->verdict = (enum registry_verdict)statement_integer(select, 6);
        statement_copy_text(select, 7, event->actor, sizeof event->actor);
        statement_copy_text(select, 8, event->detail, sizeof event->detail);
    }
    if (!known)
        return registry_list_drop(
            &events, select,
            error_set(error, WEFT_ERROR_DATA, "run %lld has an event that this program does not know", (long long)run));
    return registry_list_end(&events, select, list, count, error);
}

weft_status registry_last_event(struct database *database, int64_t *event, struct error *error)
{
    struct statement *select = database_prepare(database, "SELECT ifnull(max(event), 0) FROM run_events");
    int64_t last = statement_next(select) ? statement_integer(select, 0) : 0;
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK)
        *event = last;
    return status;
}

weft_status registry_runs_changed(struct database *database, int64_t after, size_t most, int64_t **list, size_t *count,
                                  int64_t *last, struct error *error)
{
    struct registry_list runs = {0};
    int64_t newest = after;
    struct statement *select =
        database_prepare(database, "SELECT run, max(event) FROM (SELECT run, event FROM run_events WHERE event > ? "
                                   "ORDER BY event LIMIT ?) GROUP BY run");
    statement_bind_integer(select, after);
    statement_bind_integer(select, (int64_t)most);
    for (int64_t *run; statement_next(select) && (run = registry_list_add(&runs, sizeof *run));) {
        *run = statement_integer(select, 0);
        if (statement_integer(select, 1) > newest)
            newest = statement_integer(select, 1);
    }
    weft_status status = registry_list_end(&runs, select, (void *)list, count, error);
    if (status == WEFT_OK)
        *last = newest;
    return status;
}
