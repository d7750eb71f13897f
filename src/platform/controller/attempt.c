/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts: placed, started, heard, ended. */
#include "platform/controller/internal/state.h"
#include "platform/registry/secret_store.h"

#include "platform/registry/hosts.h"
#include "platform/registry/owner.h"
#include "platform/registry/slot_set.h"
#include "platform/snapshot/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define START_PERIOD   1000    /* milliseconds between two tries of starting what the machine refuses to start */
#define START_PATIENCE 3600000 /* milliseconds of such tries */
#define STOP_PERIOD    1000    /* and between two of telling an attempt to end */
#define NOTED_PERIOD   60000   /* milliseconds, and records, after which is written down how far a journal was heard */
#define NOTED_RECORDS  4096

struct attempt controlled_attempt(const struct controlled_run *run)
{
    struct attempt attempt = {.epoch = (uint64_t)run->epoch};
    snprintf(attempt.run, sizeof attempt.run, "%" PRId64, run->run);
    return attempt;
}

void attempt_forget(struct controller *controller, struct controlled_run *run)
{
    for (uint32_t i = 0; run->node && i < run->nodes; i++)
        if (!run->node[i].ended)
            controller->hosts[run->node[i].host].used &= ~run->node[i].slots;
    free(run->node);
    free(run->blamed);
    run->node = NULL;
    run->blamed = NULL;
    run->to_start = run->to_stop = run->started = run->leaving = false;
    run->stop_told = 0;
    progress_forget(run);
}

/* ---- it begins ---- */

weft_status attempt_place(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error)
{
    size_t bytes = run->nodes * sizeof(struct controlled_node);
    struct controlled_node *nodes = calloc(run->nodes, sizeof *nodes);
    struct registry_node *rows = calloc(run->nodes, sizeof *rows);
    bool free_now = nodes && rows;
    weft_status status = free_now ? WEFT_OK : error_memory(error, bytes, "the nodes of an attempt");
    for (uint32_t i = 0; i < run->nodes && free_now; i++) {
        nodes[i].host = run->promised[i];
        const struct controlled_host *host = &controller->hosts[run->promised[i]];
        nodes[i].slots = slot_set_choose(host->used, host->slots, run->slots);
        free_now = nodes[i].slots != 0;
        rows[i].node = i;
        snprintf(rows[i].host, sizeof rows[i].host, "%s", host->name);
        slot_set_write(nodes[i].slots, rows[i].slots);
    }
    struct registry_outcome outcome = {0};
    int64_t wanted = 0;
    bool enough = true;
    if (free_now)
        status = budget_look(controller, run, now, &wanted, &enough, error);
    if (status == WEFT_OK && !enough) /* somebody has taken what was set aside for it */
        runs_break_promise(controller, run, CONTROLLER_WAITS_FOR_BUDGET, now);
    free_now = free_now && status == WEFT_OK && enough;
    if (free_now)
        status = registry_run_place(controller->config.registry, run->run, controller->hosts[nodes[0].host].pod, rows,
                                    run->nodes, "", now, &run->epoch, &outcome, error);
    if (free_now && status == WEFT_OK && outcome.verdict == REGISTRY_DONE) {
        status = budget_hold(controller, run, wanted, now, error);
        for (uint32_t i = 0; i < run->nodes; i++)
            controller->hosts[nodes[i].host].used |= nodes[i].slots;
        run->node = nodes;
        run->to_start = true;
        run->since = now;
        run->had_turn = 0;
        free(run->promised);
        run->promised = NULL;
        nodes = NULL;
    }
    free(nodes);
    free(rows);
    return status;
}

/* What the controller goes by while the attempt is under way. */
static void note_specification(struct controlled_run *run, const struct run_specification *specification)
{
    run->first_leads = specification->launch != RUN_LAUNCH_NODES;
    run->min_nodes = (uint32_t)specification->min_nodes;
}

/* The environment of a run: what was asked for, and where its checkpoints are. The array is to be freed. */
static char **environment_of(const struct run_specification *specification, char *checkpoints, struct error *error)
{
    size_t count = 0;
    while (specification->environment[count])
        count++;
    char **environment = calloc(count + 2, sizeof(char *));
    if (!environment) {
        error_memory(error, (count + 2) * sizeof(char *), "an environment");
        return NULL;
    }
    memcpy(environment, specification->environment, count * sizeof(char *));
    environment[count] = checkpoints;
    return environment;
}

/* Where the secrets of a run are: of its owner, else of its project. "VARIABLE=PLACE", to be freed as one. */
static weft_status places_of_secrets(const char *directory, const struct run_specification *specification,
                                     struct string_list *places, struct error *error)
{
    *places = (struct string_list){0};
    weft_status status = WEFT_OK;
    for (char **wanted = specification->secrets; status == WEFT_OK && directory && *wanted; wanted++) {
        char name[SECRET_NAME_BYTES], place[SECRET_PLACE_BYTES], entry[2 * SECRET_PLACE_BYTES];
        const char *variable = run_secret_variable(*wanted, name);
        secret_place(place, false, specification->owner, name);
        if (!secret_store_has(directory, place))
            secret_place(place, true, specification->project, name);
        snprintf(entry, sizeof entry, "%s=%s", variable, place);
        status = string_list_add(places, entry, error);
    }
    return status;
}

static const enum engine_launch launches[] = {
    [RUN_LAUNCH_RANKS] = ENGINE_RANKS, [RUN_LAUNCH_NODES] = ENGINE_EACH_NODE, [RUN_LAUNCH_FIRST] = ENGINE_FIRST_NODE};

/* The store that has the snapshot of a run; the one for all where none does, as what reads it says what is missing. */
static weft_status store_of_snapshot(const struct controller *controller, const struct run_specification *specification,
                                     char store[FILE_PATH_BYTES], struct error *error)
{
    char project[FILE_PATH_BYTES];
    weft_status status = file_join(project, controller->config.directories.snapshots, specification->project, error);
    if (status == WEFT_OK && !snapshot_store_find(store, project, specification->owner, specification->snapshot))
        memcpy(store, project, sizeof project);
    return status;
}

/* Give the engine the order, once the run has its directories (`*made`). */
static weft_status give_order(struct controller *controller, struct controlled_run *run,
                              const struct run_specification *specification, bool *made, struct error *error)
{
    char work[FILE_PATH_BYTES], checkpoints[FILE_PATH_BYTES];
    char variable[FILE_PATH_BYTES + sizeof "WEFT_CHECKPOINT_DIR="];
    char account[REGISTRY_ACCOUNT_BYTES], store[FILE_PATH_BYTES] = "";
    const bool sends = controller->config.engine->sends_files;
    const struct engine_files files = {store, specification->snapshot};
    const struct run_directory_order directories = {.run = run->run,
                                                    .parent = specification->parent,
                                                    .project = specification->project,
                                                    .snapshot = sends ? "" : specification->snapshot,
                                                    .checkpoint = specification->checkpoint,
                                                    .account = account,
                                                    .owner = specification->owner};
    weft_status status = run_owner_of_user(controller->config.registry, specification->owner,
                                           controller->config.own_user, account, error);
    if (status == WEFT_OK)
        status = run_directories_make(controller->directories, &directories, made, work, checkpoints, error);
    if (status != WEFT_OK || !*made)
        return status;
    if (sends)
        status = store_of_snapshot(controller, specification, store, error);
    if (status != WEFT_OK)
        return status;
    snprintf(variable, sizeof variable, "WEFT_CHECKPOINT_DIR=%s", checkpoints);
    size_t bytes = run->nodes * (sizeof(struct engine_place) + SLOT_SET_MOST * sizeof(uint32_t));
    struct engine_place *places = malloc(run->nodes * sizeof *places);
    uint32_t *numbers = malloc(run->nodes * SLOT_SET_MOST * sizeof *numbers);
    char **environment = environment_of(specification, variable, error);
    struct string_list secrets;
    status = places_of_secrets(controller->config.secrets, specification, &secrets, error);
    if (status == WEFT_OK && (!places || !numbers || !environment)) {
        status = error_memory(error, bytes, "an order to the engine");
    } else if (status == WEFT_OK) {
        for (uint32_t i = 0; i < run->nodes; i++)
            places[i] = (struct engine_place){controller->hosts[run->node[i].host].name, &numbers[i * SLOT_SET_MOST],
                                              slot_set_numbers(run->node[i].slots, &numbers[i * SLOT_SET_MOST])};
        struct engine_order order = {.attempt = controlled_attempt(run),
                                     .places = places,
                                     .nodes = run->nodes,
                                     .command = specification->arguments,
                                     .environment = environment,
                                     .secrets = secrets.items,
                                     .secret_directory = controller->config.secrets,
                                     .directory = work,
                                     .files = sends ? &files : NULL,
                                     .user = account,
                                     .gpus = specification->slot_kind == SLOT_GPU,
                                     .launch = launches[specification->launch],
                                     .min_nodes = (uint32_t)specification->min_nodes,
                                     .restarts = (uint32_t)specification->retries,
                                     .grace = (uint64_t)controller->config.grace,
                                     .time_limit = (uint64_t)run->time_limit,
                                     .memory = (uint64_t)specification->memory,
                                     .processors = (uint32_t)specification->processors,
                                     .processes = (uint64_t)specification->processes};
        disk_limit_order(controller, specification->disk, &order);
        status = controller->config.engine->start(controller->config.engine, &order, error);
    }
    free(places);
    free(numbers);
    free(environment);
    string_list_free(&secrets);
    return status;
}

/*
 * What the machine refuses at the moment (a full disk, no more processes) is no fault of the run, and ends by itself or
 * by somebody's hand: until START_PATIENCE is over it is asked for again. What is started of an attempt stays so.
 */
static bool start_later(struct controlled_run *run, int64_t now)
{
    if (!run->start_failed)
        run->start_failed = now;
    run->start_due = now + START_PERIOD;
    return !run->to_stop && now - run->start_failed < START_PATIENCE;
}

/* Whether nothing runs of an attempt that could not be started whole; what does is killed. */
static bool nothing_runs(struct controller *controller, const struct controlled_run *run)
{
    struct engine *engine = controller->config.engine;
    struct attempt attempt = controlled_attempt(run);
    bool nothing = true;
    for (uint32_t i = 0; i < run->nodes; i++) {
        bool gone = false;
        nothing = engine->gone(engine, &attempt, i, true, &gone, NULL) == WEFT_OK && gone && nothing;
    }
    return nothing;
}

weft_status attempt_start(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    struct run_specification specification;
    weft_status status = registry_run_specification(registry, run->run, &specification, error);
    if (status != WEFT_OK)
        return status;
    struct error refusal = {0};
    bool made = false;
    status = give_order(controller, run, &specification, &made, &refusal);
    note_specification(run, &specification);
    run_specification_free(&specification);
    if (status == WEFT_OK && !made)
        return WEFT_OK;
    if (status == WEFT_ERROR_MEMORY)
        return error_set(error, status, "%s", refusal.text);
    if (status == WEFT_ERROR_SYSTEM && controller->config.engine->refuses_for_all && start_later(run, now))
        return WEFT_OK;
    if (status != WEFT_OK && !nothing_runs(controller, run)) {
        run->start_due = now + START_PERIOD; /* its slots are its own until then */
        return WEFT_OK;
    }
    run->to_start = false;
    run->start_due = run->start_failed = 0;
    run->slice_end = run->time_slice ? now + run->time_slice : INT64_MAX;
    run->started = status == WEFT_OK;
    struct registry_outcome outcome;
    weft_status told = database_begin(registry, DATABASE_DURABLE, error);
    if (told != WEFT_OK)
        return told;
    if (status == WEFT_OK)
        told = registry_run_change(registry, run->run, run->epoch, RUN_CAUSE_ACCEPTED, "", "", now, &outcome, error);
    for (uint32_t i = 0; status != WEFT_OK && i < run->nodes && told == WEFT_OK; i++) {
        /* All nodes end by that; the last one ends the attempt, and attempt_hear() is not needed for it. */
        struct registry_node ended = {.node = i, .how = RUN_EXIT_NOT_STARTED};
        int64_t left;
        snprintf(ended.detail, sizeof ended.detail, "%.*s", REGISTRY_DETAIL_BYTES - 1, refusal.text);
        told = registry_node_end(registry, run->run, run->epoch, &ended, controller->config.platform_most, now, &left,
                                 &outcome, error);
        if (told == WEFT_OK)
            told = budget_settle(controller, run, &outcome, now, error);
    }
    return database_end(registry, told, error);
}

/* ---- it is asked to end ---- */

weft_status attempt_ask(struct controller *controller, struct controlled_run *run, enum run_cause cause,
                        const char *actor, const char *detail, int64_t now, struct error *error)
{
    struct registry_outcome outcome;
    weft_status status = registry_run_change(controller->config.registry, run->run, run->epoch, cause, actor, detail,
                                             now, &outcome, error);
    if (status != WEFT_OK || outcome.verdict != REGISTRY_DONE)
        return status;
    run->to_stop = run->leaving = true;
    run->start_due = 0; /* what was not started yet is, to be ended */
    run->how = run_cause_gives_way(cause) ? ENGINE_CHECKPOINT : ENGINE_STOP;
    return WEFT_OK;
}

weft_status attempt_ask_durably(struct controller *controller, struct controlled_run *run, enum run_cause cause,
                                const char *detail, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    return database_end(registry, attempt_ask(controller, run, cause, "", detail, now, error), error);
}

/* It has the grace period from now on. One that the scheduler has preempted has no slots any more in its book. */
static void note_told(struct controller *controller, struct controlled_run *run, int64_t now)
{
    run->stop_told = now;
    if (run->place != CONTROLLED_ON_HOSTS || run->promised)
        return;
    scheduler_expect_end(controller->scheduler, run->name, controlled_seconds(now + controller->config.grace));
    controller->plan_stale = true;
}

weft_status attempt_stop(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    struct attempt attempt = controlled_attempt(run);
    struct error refusal = {0};
    weft_status status = controller->config.engine->stop(controller->config.engine, &attempt, run->how, 0, &refusal);
    if (status == WEFT_ERROR_MEMORY)
        return error_set(error, status, "%s", refusal.text);
    /* An attempt that the engine does not know has nothing to end. */
    run->to_stop = status != WEFT_OK && status != WEFT_ERROR_STATE;
    run->stop_due = run->to_stop ? now + STOP_PERIOD : 0;
    if (!run->to_stop && !run->stop_told)
        note_told(controller, run, now);
    if (!run->to_stop || run->troubled == run->epoch)
        return WEFT_OK;
    status = database_begin(registry, DATABASE_AS_NEEDED, error);
    if (status == WEFT_OK)
        status = database_end(registry,
                              silence_note(controller, run, "the request to end cannot be delivered, and is repeated",
                                           refusal.text, now, error),
                              error);
    return status;
}

/* ---- what the engine tells ---- */

struct hearing {
    struct controller *controller;
    struct controlled_run *run;
    uint32_t node;
    int64_t now;
    bool noted; /* something of it is in the registry, and so is how far it was heard */
    weft_status status;
    struct error *error;
};

/* When it happened, by the node's clock; that may be long ago, if nobody was here to hear of it. */
static int64_t controller_attempt_moment_of(const struct hearing *hearing, const struct journal_record *record)
{
    const int64_t told = record->time ? controlled_told(hearing->controller, (int64_t)(record->time / 1000)) : 0;
    return told > 0 && told < hearing->now ? told : hearing->now;
}

/* How a node ended, from its last record. */
static struct registry_node controller_attempt_end_of(const struct hearing *hearing,
                                                      const struct journal_record *record)
{
    const uint32_t node = hearing->node;
    struct registry_node ended = {.node = node};
    snprintf(ended.detail, sizeof ended.detail, "%.*s", (int)record->size, record->size ? record->text : "");
    if (record->kind == JOURNAL_LOST) {
        ended.how = RUN_EXIT_LOST;
        return ended;
    }
    /* A run that was asked to end needs no cause for that: its own state change has the reason. */
    const bool told = record->exited.cause == JOURNAL_STOPPED || record->exited.cause == JOURNAL_CHECKPOINTED;
    if (told)
        snprintf(ended.detail, sizeof ended.detail, "%s",
                 record->exited.killed ? "was killed, as it had not ended when its grace period was over" : "");
    ended.code = record->exited.code;
    ended.signal = record->exited.signal;
    if (record->exited.cause == JOURNAL_NOT_STARTED)
        ended.how = RUN_EXIT_NOT_STARTED;
    else if (record->exited.cause == JOURNAL_HOST || record->exited.cause == JOURNAL_LEASE)
        ended.how = RUN_EXIT_LOST;
    else if (ended.signal) /* one that the engine itself has asked to leave is not to blame */
        ended.how =
            record->exited.cause == JOURNAL_CHECKPOINTED && !hearing->run->leaving ? RUN_EXIT_AGAIN : RUN_EXIT_FAILED;
    else
        ended.how = ended.code == 0 ? RUN_EXIT_COMPLETED : ended.code == EX_TEMPFAIL ? RUN_EXIT_AGAIN : RUN_EXIT_FAILED;
    if (ended.how == RUN_EXIT_FAILED && record->exited.cause == JOURNAL_BY_ITSELF && !*ended.detail)
        blame_say(hearing->run, node, &ended);
    return ended;
}

/* A host on which the platform has failed a run: the run is tried elsewhere, if there is an elsewhere; the host is
 * cordoned if it is to blame too often. */
static weft_status avoid_host(struct controller *controller, const struct controlled_run *run,
                              const struct registry_node *ended, bool blames_host, int64_t now, struct error *error)
{
    const uint32_t host = run->node[ended->node].host;
    bool cordoned = false;
    weft_status status = WEFT_OK;
    if (blames_host)
        status =
            registry_host_fail(controller->config.registry, controller->hosts[host].name, ended->detail,
                               controller->config.cordon_most, controller->config.cordon_window, now, &cordoned, error);
    if (status == WEFT_OK && cordoned)
        status = controller_hosts_changed(controller, error);
    if (status == WEFT_OK)
        scheduler_avoid(controller->scheduler, run->name, host);
    return status;
}

weft_status attempt_end_node(struct controller *controller, struct controlled_run *run,
                             const struct registry_node *ended, bool blames_host, int64_t moment, int64_t now,
                             struct error *error)
{
    struct registry_outcome outcome;
    struct controlled_node *node = &run->node[ended->node];
    int64_t left = 0;
    weft_status status = WEFT_OK;
    if (ended->how == RUN_EXIT_LOST || ended->how == RUN_EXIT_NOT_STARTED)
        status = avoid_host(controller, run, ended, blames_host, now, error);
    bool dropped = false;
    if (status == WEFT_OK)
        status = loss_drop(controller, run, ended, moment, &dropped, error);
    if (status != WEFT_OK || dropped)
        return status;
    if (status == WEFT_OK)
        status = registry_node_end(controller->config.registry, run->run, run->epoch, ended,
                                   controller->config.platform_most, moment, &left, &outcome, error);
    if (status == WEFT_OK)
        status = budget_settle(controller, run, &outcome, now, error);
    if (status != WEFT_OK)
        return status;
    node->ended = true;
    controller->hosts[node->host].used &= ~node->slots;
    controlled_change(controller);
    /* A gang without one of its nodes is of no use; one whose nodes end well is left to end, but for those that wait.
     */
    bool led = run->first_leads && ended->node == 0;
    if (left && (ended->how != RUN_EXIT_COMPLETED || led)) {
        run->to_stop = true;
        run->how = ENGINE_STOP;
    }
    return WEFT_OK;
}

static weft_status controller_attempt_hear_end(struct hearing *hearing, const struct journal_record *record)
{
    struct controller *controller = hearing->controller;
    struct controlled_run *run = hearing->run;
    struct registry_outcome outcome;
    struct registry_node ended = controller_attempt_end_of(hearing, record);
    const int64_t moment = controller_attempt_moment_of(hearing, record);
    if (run->first_leads && hearing->node > 0 && ended.how == RUN_EXIT_COMPLETED)
        *ended.detail = '\0'; /* other nodes are always asked to end, so this is not the reason of the run's end */
    weft_status status = WEFT_OK;
    if (record->kind == JOURNAL_EXITED && record->exited.cause == JOURNAL_TIME_LIMIT)
        status = registry_run_change(controller->config.registry, run->run, run->epoch, RUN_CAUSE_TIME_LIMIT, "", "",
                                     moment, &outcome, hearing->error);
    /* A host that is shut down, or whose batch system ends the job, is well. */
    const bool blames_host = record->kind != JOURNAL_EXITED || record->exited.cause != JOURNAL_HOST;
    return status == WEFT_OK
               ? attempt_end_node(controller, run, &ended, blames_host, moment, hearing->now, hearing->error)
               : status;
}

static weft_status hear_start(struct hearing *hearing, const struct journal_record *record)
{
    struct controlled_run *run = hearing->run;
    const int64_t moment = controller_attempt_moment_of(hearing, record);
    struct registry_outcome outcome;
    weft_status status = registry_node_start(hearing->controller->config.registry, run->run, run->epoch, hearing->node,
                                             moment, &outcome, hearing->error);
    if (status == WEFT_OK && outcome.from != outcome.to && outcome.to == RUN_RUNNING) {
        run->since = moment;
        hearing->controller->plan_stale = true;
        budget_started(hearing->controller, run);
    }
    return status;
}

static bool hear_record(void *context, const struct journal_record *record)
{
    struct hearing *hearing = context;
    struct controlled_run *run = hearing->run;
    const struct controller_config *config = &hearing->controller->config;
    hearing->noted = hearing->noted || record->kind == JOURNAL_STARTED || record->kind == JOURNAL_UNFIT ||
                     journal_is_end(record->kind);
    if (journal_is_end(record->kind))
        hearing->status = progress_keep(hearing->controller, run, true, hearing->now, hearing->error);
    if (hearing->status != WEFT_OK)
        return false;
    if (record->kind == JOURNAL_STARTED)
        hearing->status = hear_start(hearing, record);
    else if (journal_is_end(record->kind))
        hearing->status = controller_attempt_hear_end(hearing, record);
    else if (record->kind == JOURNAL_UNFIT)
        hearing->status = unfit_hear(hearing->controller, run, hearing->node, record, hearing->now, hearing->error);
    else if (record->kind == JOURNAL_OUTPUT)
        blame_hear(run, hearing->node, record);
    else if (record->kind == JOURNAL_METRICS)
        progress_hear(hearing->controller, run, hearing->node, record, hearing->now);
    if (hearing->status == WEFT_OK && config->sink)
        hearing->status = config->sink(config->context, run->run, run->epoch, hearing->node, record, hearing->error);
    if (hearing->status == WEFT_OK)
        run->node[hearing->node].dealt = record->sequence;
    return hearing->status == WEFT_OK;
}

/* Write down how far a journal was heard: with what the registry has of it, and otherwise now and then. Thousands of
 * nodes tell all the time that they live and what they print, and to hear a minute of it once more costs less than to
 * write each of these numbers. */
static weft_status note_dealt(struct hearing *hearing)
{
    struct controlled_node *node = &hearing->run->node[hearing->node];
    const bool due = hearing->now - node->noted_at >= NOTED_PERIOD || node->dealt - node->noted >= NOTED_RECORDS;
    if (node->dealt == node->noted || (!hearing->noted && !due))
        return WEFT_OK;
    node->noted = node->dealt;
    node->noted_at = hearing->now;
    return registry_node_dealt(hearing->controller->config.registry, hearing->run->run, hearing->run->epoch,
                               hearing->node, (int64_t)node->dealt, hearing->error);
}

weft_status attempt_hear(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error)
{
    struct engine *engine = controller->config.engine;
    struct attempt attempt = controlled_attempt(run);
    for (uint32_t i = 0; i < run->nodes; i++) {
        struct controlled_node *node = &run->node[i];
        if (node->ended)
            continue;
        struct hearing hearing = {controller, run, i, now, false, WEFT_OK, error};
        const uint64_t dealt = node->dealt;
        struct error refusal = {0};
        weft_status status = engine->poll(engine, &attempt, i, node->dealt, hear_record, &hearing, &refusal);
        if (status == WEFT_ERROR_MEMORY)
            return error_set(error, status, "%s", refusal.text);
        if (node->dealt != dealt)
            node->heard_at = now;
        if (hearing.status == WEFT_OK && !node->ended)
            hearing.status = status == WEFT_OK ? silence_heed(controller, run, i, now, error)
                                               : silence_miss(controller, run, i, &refusal, now, error);
        if (hearing.status == WEFT_OK)
            hearing.status = note_dealt(&hearing);
        if (hearing.status != WEFT_OK)
            return hearing.status;
    }
    return progress_keep(controller, run, false, now, error);
}

/* ---- it was under way before ---- */

weft_status attempt_take_up(struct controller *controller, struct controlled_run *run, struct error *error)
{
    struct run_specification specification;
    struct registry_node *rows;
    size_t count;
    weft_status status = registry_run_specification(controller->config.registry, run->run, &specification, error);
    if (status != WEFT_OK)
        return status;
    note_specification(run, &specification);
    run_specification_free(&specification);
    status = registry_nodes(controller->config.registry, run->run, run->epoch, &rows, &count, error);
    if (status != WEFT_OK)
        return status;
    run->to_start = true;
    run->node = calloc(run->nodes, sizeof *run->node);
    if (!run->node)
        status = error_memory(error, run->nodes * sizeof *run->node, "the nodes of an attempt");
    for (uint32_t i = 0; i < count && i < run->nodes && status == WEFT_OK; i++) {
        struct controlled_node *node = &run->node[i];
        if (!hosts_find(controller, rows[i].host, &node->host) || !slot_set_read(rows[i].slots, &node->slots)) {
            status = error_set(error, WEFT_ERROR_STATE,
                               "run %" PRId64 " has slots %s of host '%s', which the state does not know any more: "
                               "start the server with that host",
                               run->run, rows[i].slots, rows[i].host);
            break;
        }
        node->ended = rows[i].ended != 0;
        node->dropped = rows[i].dropped;
        run->to_start = run->to_start && !rows[i].started && !node->ended;
        node->dealt = node->noted = (uint64_t)rows[i].sequence;
        if (!node->ended)
            controller->hosts[node->host].used |= node->slots;
        else if (!node->dropped && (rows[i].how != RUN_EXIT_COMPLETED || (i == 0 && run->first_leads)))
            run->to_stop = true; /* the others: the previous controller may not have come to that */
    }
    free(rows);
    return status;
}
