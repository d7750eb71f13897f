/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/hosts.h"

#include "platform/registry/internal/list.h"
#include "platform/registry/internal/run_row.h"
#include "platform/store/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const state_names[REGISTRY_HOST_STATES] = {
    [REGISTRY_HOST_UP] = "up",
    [REGISTRY_HOST_DRAINED] = "drained",
    [REGISTRY_HOST_CORDONED] = "cordoned",
    [REGISTRY_HOST_LOST] = "lost",
    [REGISTRY_HOST_LOST_DRAINED] = "lost, drained",
    [REGISTRY_HOST_LOST_CORDONED] = "lost, cordoned",
};

const char *registry_host_state_name(enum registry_host_state state)
{
    return state_names[state];
}

static enum registry_host_state find_state(const char *name)
{
    int state = 0;
    while (state + 1 < REGISTRY_HOST_STATES && strcmp(state_names[state], name) != 0)
        state++;
    return (enum registry_host_state)state;
}

#define COLUMNS "host, pod, slots, slot_kind, processors, memory, state, heard, changed, detail"

static void read_host(struct statement *select, struct registry_host *host)
{
    STATEMENT_READ(select, 0, host->host, host->pod, &host->slots);
    host->slot_kind = strcmp(statement_text(select, 3), slot_kind_name(SLOT_CPU)) == 0 ? SLOT_CPU : SLOT_GPU;
    STATEMENT_READ(select, 4, &host->processors, &host->memory);
    host->state = find_state(statement_text(select, 6));
    STATEMENT_READ(select, 7, &host->heard, &host->changed, host->detail);
}

/* `*there` tells whether there is one; only that of the other function is an error. */
static weft_status look_up(struct database *database, const char *host, struct registry_host *found, bool *there,
                           struct error *error)
{
    struct statement *select = DATABASE_QUERY(database, "SELECT " COLUMNS " FROM hosts WHERE host = ?", host);
    if ((*there = statement_next(select)))
        read_host(select, found);
    return statement_end(select, error);
}

weft_status registry_host_get(struct database *database, const char *host, struct registry_host *found,
                              struct error *error)
{
    bool there;
    weft_status status = look_up(database, host, found, &there, error);
    if (status == WEFT_OK && !there)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no host '%s'; 'weft nodes' lists them", host);
    return status;
}

static weft_status registry_hosts_add_event(struct database *database, const char *host, const char *what,
                                            enum registry_host_state from, enum registry_host_state to,
                                            const char *actor, const char *detail, int64_t now, struct error *error)
{
    char kept[REGISTRY_DETAIL_BYTES];
    return DATABASE_RUN(database, error,
                        "INSERT INTO host_events (host, time, what, from_state, to_state, actor, detail) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?)",
                        host, now, what, state_names[from], state_names[to], actor,
                        registry_detail(detail, what, kept));
}

/* The state of a host, since when, and why. */
static weft_status set_state(struct database *database, const char *host, enum registry_host_state state, int64_t since,
                             const char *detail, struct error *error)
{
    return DATABASE_RUN(database, error, "UPDATE hosts SET state = ?, changed = ?, detail = ? WHERE host = ?",
                        state_names[state], since, detail, host);
}

/* Change the state of a host, with its event. */
static weft_status registry_hosts_change(struct database *database, const struct registry_host *host,
                                         enum registry_host_state to, const char *what, const char *actor,
                                         const char *detail, int64_t now, struct error *error)
{
    char kept[REGISTRY_DETAIL_BYTES];
    weft_status status = set_state(database, host->host, to, now, registry_detail(detail, what, kept), error);
    return status == WEFT_OK
               ? registry_hosts_add_event(database, host->host, what, host->state, to, actor, kept, now, error)
               : status;
}

bool registry_host_is_lost(enum registry_host_state state)
{
    return state >= REGISTRY_HOST_LOST;
}

/* What a host is besides lost: up, drained or cordoned. */
static enum registry_host_state use_of(enum registry_host_state state)
{
    return registry_host_is_lost(state) ? (enum registry_host_state)(state - REGISTRY_HOST_LOST) : state;
}

static enum registry_host_state state_of(bool lost, enum registry_host_state use)
{
    return lost ? (enum registry_host_state)(use + REGISTRY_HOST_LOST) : use;
}

static weft_status registry_hosts_check(const struct registry_host *host, struct error *error)
{
    weft_status status = platform_name_check(host->host, "the host", error);
    if (status == WEFT_OK)
        status = platform_name_check(host->pod, "the Pod", error);
    if (status == WEFT_OK &&
        (host->slots < 1 || host->slots > RUN_SLOTS_MOST || host->processors < 0 || host->memory < 0))
        status = error_set(error, WEFT_ERROR_DATA,
                           "host '%s' has %" PRId64 " slots, %" PRId64 " processors and %" PRId64
                           " bytes; 1 to %d slots can be",
                           host->host, host->slots, host->processors, host->memory, RUN_SLOTS_MOST);
    return status;
}

weft_status registry_host_put(struct database *database, const struct registry_host *host, int64_t now,
                              struct error *error)
{
    struct registry_host old = {.state = REGISTRY_HOST_UP};
    bool there = false;
    weft_status status = registry_hosts_check(host, error);
    if (status == WEFT_OK)
        status = look_up(database, host->host, &old, &there, error);
    if (status != WEFT_OK)
        return status;
    struct statement *pod = DATABASE_QUERY(
        database, "INSERT INTO pods (pod, created) VALUES (?, ?) ON CONFLICT DO NOTHING", host->pod, now);
    if ((status = statement_run(pod, error)) != WEFT_OK)
        return status;
    status = DATABASE_RUN(
        database, error,
        "INSERT INTO hosts (host, pod, slots, slot_kind, processors, memory, state, heard, changed, detail) "
        "VALUES (?, ?, ?, ?, ?, ?, 'up', ?7, ?7, 'registered') ON CONFLICT DO UPDATE SET pod = excluded.pod, "
        "slots = excluded.slots, slot_kind = excluded.slot_kind, processors = excluded.processors, "
        "memory = excluded.memory",
        host->host, host->pod, host->slots, slot_kind_name(host->slot_kind), host->processors, host->memory, now);
    bool same = there && strcmp(old.pod, host->pod) == 0 && old.slots == host->slots &&
                old.slot_kind == host->slot_kind && old.processors == host->processors && old.memory == host->memory;
    if (status == WEFT_OK && !same)
        status = registry_hosts_add_event(database, host->host, there ? "changed" : "registered", old.state, old.state,
                                          "", "", now, error);
    return status == WEFT_OK ? registry_host_heard(database, host->host, now, error) : status;
}

/* A host was lost, and is drained or cordoned as before: time and reason are those of the original event. */
static weft_status tell_closing(struct database *database, const struct registry_host *host, struct error *error)
{
    char detail[REGISTRY_DETAIL_BYTES];
    int64_t since = 0;
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT time, detail FROM host_events WHERE host = ? AND what IN ('drained', "
                       "'cordoned') ORDER BY event DESC LIMIT 1",
                       host->host);
    bool known = statement_next(select);
    if (known)
        STATEMENT_READ(select, 0, &since, detail);
    weft_status status = statement_end(select, error);
    return status == WEFT_OK && known ? set_state(database, host->host, use_of(host->state), since, detail, error)
                                      : status;
}

weft_status registry_host_heard(struct database *database, const char *host, int64_t now, struct error *error)
{
    struct registry_host old;
    weft_status status = registry_host_get(database, host, &old, error);
    if (status != WEFT_OK)
        return status;
    status = DATABASE_RUN(database, error, "UPDATE hosts SET heard = max(heard, ?) WHERE host = ?", now, host);
    if (status != WEFT_OK || !registry_host_is_lost(old.state))
        return status;
    status = registry_hosts_change(database, &old, use_of(old.state), "heard", "", "heard from again", now, error);
    return status == WEFT_OK && use_of(old.state) != REGISTRY_HOST_UP ? tell_closing(database, &old, error) : status;
}

weft_status registry_host_lose(struct database *database, const char *host, const char *detail, int64_t now,
                               struct error *error)
{
    struct registry_host old;
    weft_status status = registry_host_get(database, host, &old, error);
    if (status == WEFT_OK && !registry_host_is_lost(old.state))
        status = registry_hosts_change(database, &old, state_of(true, old.state), "lost", "", detail, now, error);
    return status;
}

weft_status registry_host_drain(struct database *database, const char *host, const char *actor, const char *detail,
                                int64_t now, struct error *error)
{
    struct registry_host old;
    weft_status status = registry_host_get(database, host, &old, error);
    if (status == WEFT_OK && use_of(old.state) == REGISTRY_HOST_DRAINED)
        status = error_set(error, WEFT_ERROR_STATE, "host '%s' is drained already: %s", host, old.detail);
    return status == WEFT_OK ? registry_hosts_change(database, &old,
                                                     state_of(registry_host_is_lost(old.state), REGISTRY_HOST_DRAINED),
                                                     "drained", actor, detail, now, error)
                             : status;
}

weft_status registry_host_resume(struct database *database, const char *host, const char *actor, int64_t now,
                                 struct error *error)
{
    struct registry_host old;
    weft_status status = registry_host_get(database, host, &old, error);
    if (status == WEFT_OK && use_of(old.state) == REGISTRY_HOST_UP)
        status = error_set(error, WEFT_ERROR_STATE, "host '%s' is not drained, nor cordoned", host);
    return status == WEFT_OK
               ? registry_hosts_change(database, &old, state_of(registry_host_is_lost(old.state), REGISTRY_HOST_UP),
                                       "resumed", actor, "", now, error)
               : status;
}

/* Whether nothing runs there, as far as anybody knows. */
static weft_status check_left(struct database *database, const char *host, struct error *error)
{
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT min(run) FROM attempts JOIN nodes USING (run, epoch) WHERE attempts.ended = 0 AND "
                       "nodes.ended = 0 AND nodes.host = ?",
                       host);
    int64_t run = 0;
    weft_status status = statement_end_integer(select, &run, error);
    if (status == WEFT_OK && run)
        status =
            error_set(error, WEFT_ERROR_STATE,
                      "host '%s' cannot be removed: run %" PRId64 " has not ended there; stop it first", host, run);
    return status;
}

weft_status registry_host_remove(struct database *database, const char *host, const char *actor, int64_t now,
                                 struct error *error)
{
    struct registry_host old;
    weft_status status = registry_host_get(database, host, &old, error);
    if (status == WEFT_OK && !registry_host_is_lost(old.state))
        status = error_set(error, WEFT_ERROR_STATE,
                           "host '%s' is there: only one that is lost can be removed; to start nothing more on it, "
                           "drain it",
                           host);
    if (status == WEFT_OK)
        status = check_left(database, host, error);
    if (status != WEFT_OK)
        return status;
    status = DATABASE_RUN(database, error, "DELETE FROM hosts WHERE host = ?", host);
    return status == WEFT_OK
               ? registry_hosts_add_event(database, host, "removed", old.state, old.state, actor, "", now, error)
               : status;
}

weft_status registry_host_fail(struct database *database, const char *host, const char *detail, int64_t most,
                               int64_t window, int64_t now, bool *cordoned, struct error *error)
{
    struct registry_host old;
    char reason[REGISTRY_DETAIL_BYTES];
    weft_status status = registry_host_get(database, host, &old, error);
    if (status == WEFT_OK)
        status = registry_hosts_add_event(database, host, "failure", old.state, old.state, "", detail, now, error);
    if (status != WEFT_OK)
        return status;
    struct statement *select = DATABASE_QUERY(
        database,
        "SELECT count(*) FROM host_events WHERE host = ?1 AND what = 'failure' AND time > ?2 AND event > "
        "ifnull((SELECT max(event) FROM host_events WHERE host = ?1 AND what = 'resumed'), 0)",
        host, now - window);
    int64_t failures = 0;
    status = statement_end_integer(select, &failures, error);
    const bool cordon = status == WEFT_OK && failures >= most && use_of(old.state) == REGISTRY_HOST_UP;
    /* Everybody reads it; what the failed runs say is in the events. */
    snprintf(reason, sizeof reason, "failed %" PRId64 " time%s: see `weft nodes events %s`", failures,
             failures == 1 ? "" : "s", host);
    if (cordon)
        status =
            registry_hosts_change(database, &old, state_of(registry_host_is_lost(old.state), REGISTRY_HOST_CORDONED),
                                  "cordoned", "", reason, now, error);
    if (status == WEFT_OK)
        *cordoned = cordon;
    return status;
}

weft_status registry_host_cordon(struct database *database, const char *host, const char *detail, int64_t now,
                                 bool *cordoned, struct error *error)
{
    struct registry_host old;
    weft_status status = registry_host_get(database, host, &old, error);
    if (status != WEFT_OK)
        return status;
    const bool cordon = use_of(old.state) == REGISTRY_HOST_UP;
    if (cordon)
        status =
            registry_hosts_change(database, &old, state_of(registry_host_is_lost(old.state), REGISTRY_HOST_CORDONED),
                                  "cordoned", "", detail, now, error);
    else
        status = registry_hosts_add_event(database, host, "failure", old.state, old.state, "", detail, now, error);
    if (status == WEFT_OK)
        *cordoned = cordon;
    return status;
}

weft_status registry_hosts(struct database *database, struct registry_host **list, size_t *count, struct error *error)
{
    struct registry_list hosts = {0};
    struct statement *select = database_prepare(
        database, "SELECT " COLUMNS " FROM hosts ORDER BY pod COLLATE natural_order, host COLLATE natural_order");
    for (struct registry_host *host; (host = registry_list_next(&hosts, select, sizeof *host));)
        read_host(select, host);
    return registry_list_end(&hosts, select, list, count, error);
}

weft_status registry_host_events(struct database *database, const char *host, int64_t before, size_t most,
                                 struct registry_host_event **list, size_t *count, struct error *error)
{
    struct registry_list events = {0};
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT event, time, host, actor, what, from_state, to_state, detail "
                       "FROM host_events WHERE host = ? AND event < ? ORDER BY event DESC LIMIT ?",
                       host, before > 0 ? before : INT64_MAX, (int64_t)most);
    for (struct registry_host_event *event; (event = registry_list_next(&events, select, sizeof *event));) {
        STATEMENT_READ(select, 0, &event->event, &event->time, event->host, event->actor, event->what);
        event->from = find_state(statement_text(select, 5));
        event->to = find_state(statement_text(select, 6));
        statement_copy_text(select, 7, event->detail, sizeof event->detail);
    }
    return registry_list_end(&events, select, list, count, error);
}

weft_status registry_last_host_event(struct database *database, int64_t *event, struct error *error)
{
    struct statement *select = database_prepare(database, "SELECT ifnull(max(event), 0) FROM host_events");
    return statement_end_integer(select, event, error);
}
