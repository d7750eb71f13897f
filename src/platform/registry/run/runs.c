/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting, placing and changing runs. Only run_runs_apply() changes a run's state. */
#include "platform/registry/run/runs.h"

#include "base/text.h"
#include "platform/registry/internal/list.h"
#include "platform/registry/internal/run_row.h"
#include "platform/registry/projects.h"
#include "platform/store/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOSS_SECONDS 60 /* after a node was lost, a failure of the others is taken to be its fault */

const char *registry_verdict_name(enum registry_verdict verdict)
{
    static const char *const names[] = {"done", "stale", "refused"};
    return names[verdict];
}

weft_status registry_run_get(struct database *database, int64_t run, struct registry_run *found, struct error *error)
{
    struct statement *select = DATABASE_QUERY(database, "SELECT " REGISTRY_RUN_COLUMNS " FROM runs WHERE run = ?", run);
    weft_status status = WEFT_OK;
    bool there = statement_next(select);
    if (there)
        status = registry_run_row(select, found, error);
    weft_status ended = statement_end(select, error);
    if (status == WEFT_OK && (status = ended) == WEFT_OK && !there)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no run %" PRId64, run);
    return status;
}

/* ---- submitting ---- */

static weft_status run_runs_add_event(struct database *database, int64_t run, int64_t epoch, enum run_cause cause,
                                      const char *from, const char *to, enum registry_verdict verdict,
                                      const char *actor, const char *detail, int64_t now, struct error *error)
{
    return DATABASE_RUN(
        database, error,
        "INSERT INTO run_events (run, epoch, time, cause, from_state, to_state, verdict, actor, detail) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        run, epoch, now, run_cause_name(cause), from, to, verdict, actor, detail);
}

static weft_status run_runs_add_run(struct database *database, const struct run_specification *specification,
                                    const char *text, int64_t now, int64_t *run, struct error *error)
{
    weft_status status = DATABASE_RUN(
        database, error,
        "INSERT INTO runs (nodes, slots, processors, memory, time_limit, time_slice, priority, retries, "
        "preemptible, may_span_pods, interactive, submitted, waiting_since, changed, project, owner, class, "
        "name, state, cause, asked, slot_kind, detail, words) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?12, ?12, ?12, ?, ?, ?, ?, ?, ?18, ?18, ?, ?, "
        "lower(?16 || char(10) || ?13 || char(10) || ?14))",
        specification->nodes, specification->slots, specification->processors, specification->memory,
        specification->time_limit, specification->time_slice, specification->priority, specification->retries,
        specification->preemptible, specification->may_span_pods, specification->interactive, now,
        specification->project, specification->owner, specification->class_name, specification->name,
        run_state_name(RUN_QUEUED), run_cause_name(RUN_CAUSE_SUBMITTED), slot_kind_name(specification->slot_kind),
        run_cause_text(RUN_CAUSE_SUBMITTED));
    if (status != WEFT_OK)
        return status;
    *run = database_last_key(database);
    status =
        DATABASE_RUN(database, error, "INSERT INTO run_specifications (run, specification, heir_of) VALUES (?, ?, ?)",
                     *run, text, *specification->checkpoint ? specification->parent : 0);
    return status != WEFT_OK ? status
                             : run_runs_add_event(database, *run, 0, RUN_CAUSE_SUBMITTED, "",
                                                  run_state_name(RUN_QUEUED), REGISTRY_DONE, specification->owner,
                                                  run_cause_text(RUN_CAUSE_SUBMITTED), now, error);
}

/* Check the project and the owner's role in it. */
static weft_status check_submission(struct database *database, const struct run_specification *specification,
                                    struct error *error)
{
    struct registry_project project;
    weft_status status = registry_project_get(database, specification->project, &project, error);
    if (status == WEFT_OK)
        status = registry_role_need(database, specification->project, specification->owner, ROLE_MEMBER, error);
    if (status == WEFT_OK && project.closed)
        status = error_set(error, WEFT_ERROR_STATE, "project '%s' is closed: no run can be submitted to it",
                           specification->project);
    return status;
}

weft_status registry_run_submit(struct database *database, const struct run_specification *specification,
                                const struct registry_key *key, int64_t now, int64_t *run, bool *again,
                                struct error *error)
{
    struct json_writer text;
    int64_t made = 0;
    weft_status status = key ? registry_key_find(database, specification->owner, key, &made, error) : WEFT_OK;
    const bool found = made != 0;
    if (status == WEFT_OK && !found && (status = check_submission(database, specification, error)) == WEFT_OK) {
        json_begin(&text, JSON_LINE);
        run_specification_write(&text, NULL, specification);
        status = json_text(&text) ? run_runs_add_run(database, specification, json_text(&text), now, &made, error)
                                  : error_memory(error, RUN_SPECIFICATION_MOST, "the specification of a run");
        json_end(&text);
        if (status == WEFT_OK && key)
            status = registry_key_keep(database, specification->owner, key, made, now, error);
    }
    if (status == WEFT_OK) {
        *run = made;
        *again = found;
    }
    return status;
}

weft_status registry_run_specification(struct database *database, int64_t run, struct run_specification *specification,
                                       struct error *error)
{
    struct statement *select =
        DATABASE_QUERY(database, "SELECT specification FROM run_specifications WHERE run = ?", run);
    weft_status status = WEFT_OK;
    bool there = statement_next(select);
    if (there) {
        char where[64];
        const char *text = statement_text(select, 0);
        snprintf(where, sizeof where, "the specification of run %" PRId64, run);
        status = run_specification_parse(text, strlen(text), where, specification, error);
    }
    weft_status ended = statement_end(select, error);
    if (status == WEFT_OK && ended != WEFT_OK && there)
        run_specification_free(specification);
    if (status == WEFT_OK && (status = ended) == WEFT_OK && !there)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no run %" PRId64, run);
    return status;
}

/* ---- changing ---- */

/* A report or order being applied. */
struct change {
    struct database *database;
    struct registry_run *run; /* the current row, updated by each change */
    int64_t epoch;            /* of the report */
    const char *actor, *detail;
    int64_t now; /* when it happened; the report may be later */
    struct registry_outcome *outcome;
    struct error *error;
};

/* Record what was refused. */
static weft_status turn_down(struct change *change, enum run_cause cause, enum registry_verdict verdict)
{
    char detail[REGISTRY_DETAIL_BYTES];
    const char *state = run_state_name(change->run->state);
    change->outcome->verdict = verdict;
    change->outcome->from = change->outcome->to = change->run->state;
    change->outcome->cause = cause;
    return run_runs_add_event(change->database, change->run->run, change->epoch, cause, state, state, verdict,
                              change->actor, registry_detail(change->detail, run_cause_text(cause), detail),
                              change->now, change->error);
}

static weft_status start_attempt(const struct change *change)
{
    return DATABASE_RUN(change->database, change->error, "UPDATE attempts SET started = ? WHERE run = ? AND epoch = ?",
                        change->now, change->run->run, change->run->epoch);
}

static weft_status end_attempt(struct change *change, enum run_cause cause, const char *detail)
{
    const struct registry_run *run = change->run;
    weft_status status =
        DATABASE_RUN(change->database, change->error,
                     "UPDATE attempts SET ended = ?, cause = ?, detail = ? WHERE run = ? AND epoch = ?", change->now,
                     run_cause_name(cause), detail, run->run, run->epoch);
    if (status != WEFT_OK)
        return status;
    /* No reports about these nodes will follow. */
    return DATABASE_RUN(change->database, change->error,
                        "UPDATE nodes SET ended = ?, how = ? WHERE run = ? AND epoch = ? AND ended = 0", change->now,
                        RUN_EXIT_LOST, run->run, run->epoch);
}

/* Update other columns that follow from the state. */
static void run_runs_follow(struct change *change, enum run_cause cause)
{
    struct registry_run *run = change->run;
    const struct registry_outcome *outcome = change->outcome;
    if (cause == RUN_CAUSE_PLACED)
        run->started = 0;
    if (cause == RUN_CAUSE_STARTED) {
        run->started = change->now;
        if (!run->first_started)
            run->first_started = change->now;
    }
    if (run_cause_is_stop(cause) && outcome->to == RUN_STOPPING)
        run->asked = cause;
    if (outcome->attempt_ended) {
        if (run->started && change->now > run->started)
            run->served += change->now - run->started;
        run->asked = RUN_CAUSE_SUBMITTED;
        run->idle_since = 0;
        run->program_failures += cause == RUN_CAUSE_RETRIED || cause == RUN_CAUSE_PROGRAM_FAILED;
        run->platform_failures += run_cause_blame(cause) == RUN_BLAME_PLATFORM;
    }
    if (outcome->to == RUN_REQUEUED)
        run->waiting_since = change->now;
    if (run_state_is_final(outcome->to))
        run->ended = change->now;
}

static weft_status run_runs_store(struct change *change)
{
    const struct registry_run *run = change->run;
    return DATABASE_RUN(
        change->database, change->error,
        "UPDATE runs SET state = ?, cause = ?, asked = ?, detail = ?, epoch = ?, "
        "program_failures = ?, platform_failures = ?, waiting_since = ?, first_started = ?, "
        "started = ?, ended = ?, changed = ?, served = ?, idle_since = ?, progress_at = ? WHERE run = ?",
        run_state_name(run->state), run_cause_name(run->cause), run_cause_name(run->asked), run->detail, run->epoch,
        run->program_failures, run->platform_failures, run->waiting_since, run->first_started, run->started, run->ended,
        run->changed, run->served, run->idle_since, run->progress.reported, run->run);
}

/* What the attempt that ends has used, without the time after which it had nodes no more. */
static weft_status count_used(struct change *change)
{
    const struct registry_run *run = change->run;
    int64_t node_time = (change->now - run->started) * run->nodes, without = 0;
    struct statement *select =
        DATABASE_QUERY(change->database,
                       "SELECT ifnull(sum(max(0, ? - max(ended, ?))), 0) FROM nodes WHERE run = ? AND epoch = ? AND "
                       "dropped",
                       change->now, run->started, run->run, run->epoch);
    if (statement_next(select))
        STATEMENT_READ(select, 0, &without);
    change->outcome->used = (node_time - without) * run->slots;
    return statement_end(select, change->error);
}

/* Change the run by `cause` if allowed. */
static weft_status run_runs_apply(struct change *change, enum run_cause cause)
{
    struct registry_run *run = change->run;
    struct registry_outcome *outcome = change->outcome;
    enum run_state to;
    if (!run_state_next(run->state, cause, &to))
        return turn_down(change, cause, REGISTRY_REFUSED);
    *outcome = (struct registry_outcome){REGISTRY_DONE, run->state, to, cause, .used = outcome->used};
    outcome->attempt_ended = run_state_is_active(run->state) && !run_state_is_active(to);
    if (outcome->attempt_ended && run->started && change->now > run->started) {
        weft_status counted = count_used(change);
        if (counted != WEFT_OK)
            return counted;
    }
    run_runs_follow(change, cause);
    run->state = to;
    run->cause = cause;
    if (change->now > run->changed) /* otherwise the report is late, and a newer change is recorded */
        run->changed = change->now;
    registry_detail(change->detail, run_cause_text(cause), run->detail);
    weft_status status = run_runs_store(change);
    if (status == WEFT_OK && cause == RUN_CAUSE_STARTED)
        status = start_attempt(change);
    if (status == WEFT_OK && outcome->attempt_ended)
        status = end_attempt(change, cause, run->detail);
    return status != WEFT_OK ? status
                             : run_runs_add_event(change->database, run->run, run->epoch, cause,
                                                  run_state_name(outcome->from), run_state_name(to), REGISTRY_DONE,
                                                  change->actor, run->detail, run->changed, change->error);
}

/* Load the run. A report about another attempt than the current one is recorded and `*stale`. */
static weft_status run_runs_begin(struct change *change, int64_t run, enum run_cause cause, bool *stale)
{
    weft_status status = registry_run_get(change->database, run, change->run, change->error);
    *change->outcome = (struct registry_outcome){.cause = cause};
    if (status != WEFT_OK)
        return status;
    /* Only an order may leave the attempt open; a report must name it. */
    if (change->epoch == REGISTRY_PRESENT && !run_cause_is_end(cause) && cause != RUN_CAUSE_STARTED)
        change->epoch = change->run->epoch;
    *stale = change->epoch != change->run->epoch;
    return *stale ? turn_down(change, cause, REGISTRY_STALE) : WEFT_OK;
}

weft_status registry_run_change(struct database *database, int64_t run, int64_t epoch, enum run_cause cause,
                                const char *actor, const char *detail, int64_t now, struct registry_outcome *outcome,
                                struct error *error)
{
    struct registry_run row;
    struct change change = {database, &row, epoch, actor, detail, now, outcome, error};
    bool stale;
    if (cause == RUN_CAUSE_PLACED || cause == RUN_CAUSE_SUBMITTED || cause == RUN_CAUSE_NOTED ||
        run_cause_is_end(cause))
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is no change by itself", run_cause_name(cause));
    weft_status status = run_runs_begin(&change, run, cause, &stale);
    return status != WEFT_OK || stale ? status : run_runs_apply(&change, cause);
}

weft_status registry_run_note(struct database *database, int64_t run, const char *actor, const char *detail,
                              int64_t now, struct error *error)
{
    struct registry_run row;
    char kept[REGISTRY_DETAIL_BYTES];
    weft_status status = registry_run_get(database, run, &row, error);
    return status != WEFT_OK
               ? status
               : run_runs_add_event(database, run, row.epoch, RUN_CAUSE_NOTED, run_state_name(row.state),
                                    run_state_name(row.state), REGISTRY_DONE, actor,
                                    registry_detail(detail, run_cause_text(RUN_CAUSE_NOTED), kept), now, error);
}

weft_status registry_run_place(struct database *database, int64_t run, const char *pod,
                               const struct registry_node *nodes, size_t count, const char *detail, int64_t now,
                               int64_t *epoch, struct registry_outcome *outcome, struct error *error)
{
    struct registry_run row;
    struct change change = {database, &row, REGISTRY_PRESENT, "", detail, now, outcome, error};
    bool stale;
    weft_status status = run_runs_begin(&change, run, RUN_CAUSE_PLACED, &stale);
    if (status == WEFT_OK && row.nodes != (int64_t)count)
        status = error_set(error, WEFT_ERROR_DATA, "run %" PRId64 " has %" PRId64 " nodes, and was placed on %zu", run,
                           row.nodes, count);
    if (status != WEFT_OK)
        return status;
    if (!run_state_is_waiting(row.state))
        return turn_down(&change, RUN_CAUSE_PLACED, REGISTRY_REFUSED);
    row.epoch++;
    row.progress.reported = 0;
    status = DATABASE_RUN(database, error, "INSERT INTO attempts (run, epoch, pod, placed) VALUES (?, ?, ?, ?)", run,
                          row.epoch, pod, now);
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status =
            DATABASE_RUN(database, error, "INSERT INTO nodes (run, epoch, node, host, slots) VALUES (?, ?, ?, ?, ?)",
                         run, row.epoch, (int64_t)i, nodes[i].host, nodes[i].slots);
    if (status == WEFT_OK && (status = run_runs_apply(&change, RUN_CAUSE_PLACED)) == WEFT_OK)
        *epoch = row.epoch;
    return status;
}

/* End the current attempt. The cause follows from the ordered stop, the exit and the remaining retries. */
static weft_status run_runs_end(struct change *change, enum run_exit exit, int64_t platform_most)
{
    const struct registry_run *run = change->run;
    bool again = run->epoch < REGISTRY_ATTEMPTS_MOST;
    if (exit == RUN_EXIT_NOT_STARTED && run->state == RUN_RUNNING)
        exit = RUN_EXIT_LOST; /* it had reported its start */
    if (exit == RUN_EXIT_FAILED)
        again = again && run->program_failures < run->retries;
    if (exit == RUN_EXIT_LOST || exit == RUN_EXIT_NOT_STARTED)
        again = again && run->platform_failures < platform_most;
    enum run_cause cause = run_cause_of_end(run->asked, exit, again);
    /* A program cannot end before it has started: reports in between are missing. */
    if (run->state == RUN_PLACED && exit < RUN_EXIT_LOST) {
        weft_status status = run_runs_apply(change, RUN_CAUSE_ACCEPTED);
        if (status != WEFT_OK)
            return status;
    }
    return run_runs_apply(change, cause);
}

/* ---- nodes ---- */

/* The number of running nodes, the worst exit of the others, and the time of the last one. */
static weft_status run_runs_count_nodes(const struct change *change, const char *sql, int64_t *left, int64_t *worst,
                                        int64_t *last)
{
    struct statement *select = DATABASE_QUERY(change->database, sql, change->run->run, change->epoch);
    if (statement_next(select))
        STATEMENT_READ(select, 0, left, worst, last);
    return statement_end(select, change->error);
}

/* It was asked to stop before its start was reported. It stays stopping, but has run since then and is charged. */
static weft_status start_unheard(struct change *change)
{
    run_runs_follow(change, RUN_CAUSE_STARTED);
    const weft_status status = run_runs_store(change);
    return status == WEFT_OK ? start_attempt(change) : status;
}

weft_status registry_node_start(struct database *database, int64_t run, int64_t epoch, int64_t node, int64_t now,
                                struct registry_outcome *outcome, struct error *error)
{
    struct registry_run row;
    struct change change = {database, &row, epoch, "", "", now, outcome, error};
    int64_t left = 0, worst = 0;
    bool stale;
    weft_status status = run_runs_begin(&change, run, RUN_CAUSE_STARTED, &stale);
    if (status != WEFT_OK || stale)
        return status;
    outcome->from = outcome->to = row.state;
    status =
        DATABASE_RUN(database, error,
                     "UPDATE nodes SET started = max(?, (SELECT placed FROM attempts WHERE attempts.run = nodes.run "
                     "AND attempts.epoch = nodes.epoch)) WHERE run = ? AND epoch = ? AND node = ? AND started = 0",
                     now, run, epoch, node);
    if (status != WEFT_OK || database_changes(database) == 0)
        return status; /* reported before */
    /* The attempt starts with its last node; reports may be in another order. */
    status = run_runs_count_nodes(
        &change,
        "SELECT ifnull(sum(started = 0), 0), 0, ifnull(max(started), 0) FROM nodes WHERE run = ? AND "
        "epoch = ?",
        &left, &worst, &change.now);
    if (status != WEFT_OK || left > 0)
        return status;
    if (row.state == RUN_STOPPING)
        return start_unheard(&change);
    if (row.state != RUN_PLACED && row.state != RUN_STARTING)
        return WEFT_OK;
    /* The engine may report acceptance after the nodes report their start. */
    if (row.state == RUN_PLACED && (status = run_runs_apply(&change, RUN_CAUSE_ACCEPTED)) != WEFT_OK)
        return status;
    return run_runs_apply(&change, RUN_CAUSE_STARTED);
}

/* The detail of the node that made the attempt fail: the first one that ended as `worst`; "" if it has none. */
static weft_status first_detail(const struct change *change, int64_t worst, char detail[REGISTRY_DETAIL_BYTES])
{
    struct statement *select =
        DATABASE_QUERY(change->database,
                       "SELECT detail FROM nodes WHERE run = ? AND epoch = ? AND how = ? AND NOT dropped "
                       "AND detail != '' ORDER BY ended, node LIMIT 1",
                       change->run->run, change->epoch, worst);
    *detail = '\0';
    if (statement_next(select))
        statement_copy_text(select, 0, detail, REGISTRY_DETAIL_BYTES);
    return statement_end(select, change->error);
}

/* Whether a program failed because of a dropped node, that is within LOSS_SECONDS of its loss; then its detail. */
static bool failed_by_loss(const struct change *change, char detail[REGISTRY_DETAIL_BYTES])
{
    struct statement *select = DATABASE_QUERY(
        change->database,
        "SELECT lost.detail FROM nodes AS lost JOIN nodes AS failed USING (run, epoch) WHERE run = ? AND epoch = ? AND "
        "lost.dropped AND lost.how = ? AND failed.how = ? AND NOT failed.dropped AND abs(failed.ended - lost.ended) < ? "
        "ORDER BY lost.ended DESC LIMIT 1",
        change->run->run, change->epoch, (int64_t)RUN_EXIT_LOST, (int64_t)RUN_EXIT_FAILED,
        (int64_t)LOSS_SECONDS * 1000);
    const bool found = statement_next(select);
    if (found)
        statement_copy_text(select, 0, detail, REGISTRY_DETAIL_BYTES);
    return statement_end(select, NULL) == WEFT_OK && found;
}

weft_status registry_node_end(struct database *database, int64_t run, int64_t epoch, const struct registry_node *ended,
                              int64_t platform_most, int64_t now, int64_t *left, struct registry_outcome *outcome,
                              struct error *error)
{
    struct registry_run row;
    char detail[REGISTRY_DETAIL_BYTES];
    struct change change = {database, &row, epoch, "", ended->detail, now, outcome, error};
    int64_t worst = 0;
    bool stale;
    *left = 0;
    weft_status status = run_runs_begin(&change, run, run_cause_of_end(RUN_CAUSE_SUBMITTED, ended->how, true), &stale);
    if (status != WEFT_OK || stale)
        return status;
    outcome->from = outcome->to = row.state;
    status = DATABASE_RUN(database, error,
                          "UPDATE nodes SET ended = max(?, started), how = ?, code = ?, signal = ?, detail = ? "
                          "WHERE run = ? AND epoch = ? AND node = ? AND ended = 0",
                          now, ended->how, ended->code, ended->signal, registry_detail(ended->detail, "", detail), run,
                          epoch, ended->node);
    bool told_before = status == WEFT_OK && database_changes(database) == 0;
    if (status == WEFT_OK)
        status = run_runs_count_nodes(&change,
                                      "SELECT ifnull(sum(ended = 0), 0), ifnull(max(CASE WHEN ended AND NOT dropped "
                                      "THEN how END), 0), ifnull(max(CASE WHEN NOT dropped THEN ended END), 0) FROM "
                                      "nodes WHERE run = ? AND epoch = ?",
                                      left, &worst, &change.now);
    if (status != WEFT_OK || told_before || *left > 0 || !run_state_is_active(row.state))
        return status;
    if ((status = first_detail(&change, worst, detail)) != WEFT_OK)
        return status;
    if (worst == RUN_EXIT_FAILED && failed_by_loss(&change, detail))
        worst = RUN_EXIT_LOST;
    if (worst != RUN_EXIT_COMPLETED && row.asked == RUN_CAUSE_IDLE) /* more informative than the program's exit */
        snprintf(detail, sizeof detail, "was stopped because it was idle: %.*s", REGISTRY_DETAIL_BYTES - 64,
                 row.detail);
    if (worst != RUN_EXIT_COMPLETED && row.asked == RUN_CAUSE_DISK)
        snprintf(detail, sizeof detail, "was stopped because of the disk space that it takes: %.*s",
                 REGISTRY_DETAIL_BYTES - 64, row.detail);
    change.detail = detail;
    return run_runs_end(&change, (enum run_exit)worst, platform_most);
}

weft_status registry_node_drop(struct database *database, int64_t run, int64_t epoch, const struct registry_node *ended,
                               int64_t now, bool *dropped, struct error *error)
{
    struct registry_run row;
    struct registry_outcome outcome;
    char detail[REGISTRY_DETAIL_BYTES];
    struct change change = {database, &row, epoch, "", ended->detail, now, &outcome, error};
    int64_t left = 0, worst, last;
    bool stale;
    *dropped = false;
    weft_status status = run_runs_begin(&change, run, RUN_CAUSE_NODE_LOST, &stale);
    if (status != WEFT_OK || stale || row.state != RUN_RUNNING)
        return status;
    status = run_runs_count_nodes(
        &change, "SELECT ifnull(sum(ended = 0), 0), 0, 0 FROM nodes WHERE run = ? AND epoch = ?", &left, &worst, &last);
    if (status != WEFT_OK || left < 2)
        return status;
    status = DATABASE_RUN(database, error,
                          "UPDATE nodes SET ended = max(?, started), how = ?, code = ?, signal = ?, detail = ?, "
                          "dropped = 1 WHERE run = ? AND epoch = ? AND node = ? AND ended = 0",
                          now, ended->how, ended->code, ended->signal, registry_detail(ended->detail, "", detail), run,
                          epoch, ended->node);
    *dropped = status == WEFT_OK && database_changes(database) > 0;
    if (!*dropped)
        return status;
    snprintf(row.detail, sizeof row.detail,
             "runs on %" PRId64 " of its %" PRId64 " nodes since node-%" PRId64 " was lost%s%.*s", left - 1, row.nodes,
             ended->node, *detail ? ": " : "", REGISTRY_DETAIL_BYTES - 128, detail);
    if (now > row.changed)
        row.changed = now;
    status = run_runs_store(&change);
    return status != WEFT_OK
               ? status
               : run_runs_add_event(database, run, epoch, RUN_CAUSE_NOTED, run_state_name(row.state),
                                    run_state_name(row.state), REGISTRY_DONE, "", row.detail, row.changed, error);
}

weft_status registry_node_dealt(struct database *database, int64_t run, int64_t epoch, int64_t node, int64_t sequence,
                                struct error *error)
{
    struct statement *update = DATABASE_QUERY(
        database, "UPDATE nodes SET sequence = max(sequence, ?) WHERE run = ? AND epoch = ? AND node = ?", sequence,
        run, epoch, node);
    statement_can_wait(update);
    weft_status status = statement_run(update, error);
    if (status == WEFT_OK && database_changes(database) == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "attempt %" PRId64 " of run %" PRId64 " has no node %" PRId64,
                           epoch, run, node);
    return status;
}
