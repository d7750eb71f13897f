/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_simulated.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define GRACE     ((uint64_t)30000)
#define TEXT_SIZE 160

struct kept_record {
    struct journal_record record; /* its text is the one below */
    char text[TEXT_SIZE];
};

enum progress { STARTING, RUNNING, ENDED };

struct simulated_node {
    uint32_t host; /* by number */
    uint32_t *slots;
    uint32_t slot_count;
    enum progress progress;
    struct engine_simulated_behavior behavior;
    uint64_t next;     /* when it starts, then when it ends */
    uint64_t beat_at;  /* UINT64_MAX: never */
    uint64_t limit_at; /* UINT64_MAX: never */
    uint32_t cause;    /* of the end that is to come */
    bool killed;       /* by the end of the grace period */
    char why[TEXT_SIZE];
    struct kept_record *records;
    size_t count, room;
};

struct simulated_attempt {
    struct attempt attempt;
    uint64_t grace, time_limit;
    struct simulated_node *nodes;
    uint32_t count;
    struct simulated_attempt *next;
};

struct simulated_host {
    char *name, *pod;
    uint32_t slots;
    bool gpus;
    char reason[TEXT_SIZE]; /* "": it is up */
    bool *taken;            /* by slot */
};

/* The newest epoch of a run, also when its attempts are forgotten. */
struct simulated_run {
    char run[ATTEMPT_RUN_BYTES];
    uint64_t epoch;
    struct simulated_run *next;
};

struct engine_simulated {
    struct engine engine; /* first */
    struct engine_simulated_config config;
    struct simulated_host *hosts;
    uint32_t host_count;
    struct simulated_attempt *attempts;
    struct simulated_run *runs;
    uint64_t now;
};

static struct engine_simulated *simulated_of(const struct engine *engine)
{
    return (struct engine_simulated *)engine;
}

/* ---- records ---- */

/* Without memory for a record the simulation cannot be what it says: it ends. */
static struct journal_record *add_record(struct engine_simulated *simulated, struct simulated_node *node, uint32_t kind,
                                         const char *text)
{
    if (node->count == node->room) {
        node->room = node->room ? 2 * node->room : 4;
        node->records = realloc(node->records, node->room * sizeof *node->records);
        if (!node->records)
            abort();
    }
    struct kept_record *kept = &node->records[node->count++];
    *kept = (struct kept_record){.record = {.kind = kind, .sequence = node->count, .time = simulated->now * 1000}};
    snprintf(kept->text, sizeof kept->text, "%s", text);
    kept->record.size = (uint32_t)strlen(kept->text);
    return &kept->record;
}

/* ---- a node's life ---- */

static void leave_slots(struct engine_simulated *simulated, struct simulated_node *node)
{
    for (uint32_t i = 0; i < node->slot_count; i++)
        simulated->hosts[node->host].taken[node->slots[i]] = false;
    node->progress = ENDED;
    node->next = node->beat_at = node->limit_at = UINT64_MAX;
}

static void begin_node(struct engine_simulated *simulated, const struct simulated_attempt *attempt,
                       struct simulated_node *node)
{
    add_record(simulated, node, JOURNAL_STARTED, "")->started.process = 1;
    node->progress = RUNNING;
    node->next = simulated->now + node->behavior.duration;
    node->beat_at = simulated->config.heartbeat ? simulated->now + simulated->config.heartbeat : UINT64_MAX;
    node->limit_at = attempt->time_limit ? simulated->now + attempt->time_limit : UINT64_MAX;
}

static void end_node(struct engine_simulated *simulated, struct simulated_node *node)
{
    struct journal_record *record = add_record(simulated, node, JOURNAL_EXITED, node->why);
    record->exited.cause = node->cause;
    record->exited.killed = node->killed;
    if (node->killed || node->cause == JOURNAL_FENCED)
        record->exited.signal = SIGKILL;
    else if (node->progress == STARTING)
        record->exited.code = EX_TEMPFAIL; /* it never ran */
    else if (node->cause != JOURNAL_BY_ITSELF)
        record->exited.code = node->behavior.stop_code;
    else if (node->behavior.signal)
        record->exited.signal = node->behavior.signal;
    else
        record->exited.code = node->behavior.code;
    leave_slots(simulated, node);
}

/* Somebody wants a node to end within `grace`. */
static void want_end(struct engine_simulated *simulated, struct simulated_node *node, enum journal_cause cause,
                     uint64_t grace, const char *why)
{
    if (node->progress == ENDED)
        return;
    bool running = node->progress == RUNNING;
    uint64_t takes = running ? node->behavior.stop_takes : 0;
    uint64_t at = simulated->now + (takes < grace ? takes : grace);
    if (node->cause != JOURNAL_BY_ITSELF && at >= node->next && cause != JOURNAL_FENCED)
        return; /* it is on its way already */
    if (running && at > node->next)
        return; /* it ends by itself before that */
    if (node->cause == JOURNAL_BY_ITSELF || cause == JOURNAL_FENCED) {
        node->cause = cause;
        snprintf(node->why, sizeof node->why, "%s", why);
    }
    node->killed = running && takes > grace;
    node->next = at;
    node->limit_at = UINT64_MAX;
    if (at == simulated->now)
        end_node(simulated, node);
}

/* What a node does by itself at its next event. */
static uint64_t node_moment(const struct simulated_node *node)
{
    uint64_t first = node->next < node->beat_at ? node->next : node->beat_at;
    return first < node->limit_at ? first : node->limit_at;
}

static void node_act(struct engine_simulated *simulated, const struct simulated_attempt *attempt,
                     struct simulated_node *node)
{
    if (node->next <= simulated->now) {
        if (node->progress == STARTING)
            begin_node(simulated, attempt, node);
        else
            end_node(simulated, node);
    } else if (node->limit_at <= simulated->now) {
        node->limit_at = UINT64_MAX;
        want_end(simulated, node, JOURNAL_TIME_LIMIT, attempt->grace, "its time limit is over");
    } else {
        add_record(simulated, node, JOURNAL_HEARTBEAT, "");
        node->beat_at += simulated->config.heartbeat;
    }
}

uint64_t engine_simulated_now(const struct engine *engine)
{
    return simulated_of(engine)->now;
}

uint64_t engine_simulated_next(const struct engine *engine)
{
    uint64_t next = UINT64_MAX;
    for (const struct simulated_attempt *attempt = simulated_of(engine)->attempts; attempt; attempt = attempt->next)
        for (uint32_t i = 0; i < attempt->count; i++)
            if (node_moment(&attempt->nodes[i]) < next)
                next = node_moment(&attempt->nodes[i]);
    return next;
}

void engine_simulated_advance(struct engine *engine, uint64_t moment)
{
    struct engine_simulated *simulated = simulated_of(engine);
    for (uint64_t next; (next = engine_simulated_next(engine)) <= moment && next != UINT64_MAX;) {
        if (next > simulated->now)
            simulated->now = next;
        for (struct simulated_attempt *attempt = simulated->attempts; attempt; attempt = attempt->next)
            for (uint32_t i = 0; i < attempt->count; i++)
                while (node_moment(&attempt->nodes[i]) <= simulated->now)
                    node_act(simulated, attempt, &attempt->nodes[i]);
    }
    if (moment > simulated->now)
        simulated->now = moment;
}

/* Its number; host_count: there is none. */
static uint32_t host_of(const struct engine_simulated *simulated, const char *name)
{
    uint32_t host = 0;
    while (host < simulated->host_count && strcmp(simulated->hosts[host].name, name) != 0)
        host++;
    return host;
}

bool engine_simulated_sicken(struct engine *engine, const char *name, const char *illness)
{
    struct engine_simulated *simulated = simulated_of(engine);
    const uint32_t host = host_of(simulated, name);
    bool any = false;
    for (struct simulated_attempt *attempt = simulated->attempts; attempt; attempt = attempt->next)
        for (uint32_t i = 0; i < attempt->count; i++)
            if (attempt->nodes[i].host == host && attempt->nodes[i].progress == RUNNING) {
                add_record(simulated, &attempt->nodes[i], JOURNAL_UNFIT, illness);
                any = true;
            }
    return any;
}

bool engine_simulated_fail(struct engine *engine, const char *name, const char *reason)
{
    struct engine_simulated *simulated = simulated_of(engine);
    const uint32_t host = host_of(simulated, name);
    if (host == simulated->host_count)
        return false;
    snprintf(simulated->hosts[host].reason, TEXT_SIZE, "%s", reason ? reason : "");
    for (struct simulated_attempt *attempt = simulated->attempts; reason && attempt; attempt = attempt->next)
        for (uint32_t i = 0; i < attempt->count; i++) {
            struct simulated_node *node = &attempt->nodes[i];
            if (node->host != host || node->progress == ENDED)
                continue;
            add_record(simulated, node, JOURNAL_LOST, reason);
            leave_slots(simulated, node);
        }
    return true;
}

/* ---- the table's functions ---- */

static struct simulated_attempt *find(struct engine_simulated *simulated, const struct attempt *attempt)
{
    struct simulated_attempt *at = simulated->attempts;
    while (at && !attempt_same(&at->attempt, attempt))
        at = at->next;
    return at;
}

static weft_status unknown(const struct attempt *attempt, struct error *error)
{
    return error_set(error, WEFT_ERROR_STATE, "there is no attempt %" PRIu64 " of run %.63s in the simulation",
                     attempt->epoch, attempt->run);
}

static void free_attempt(struct simulated_attempt *attempt)
{
    for (uint32_t i = 0; attempt->nodes && i < attempt->count; i++) {
        free(attempt->nodes[i].slots);
        free(attempt->nodes[i].records);
    }
    free(attempt->nodes);
    free(attempt);
}

/* The host of a place, whose slots must be there and free; host_count: refused. */
static uint32_t check_place(struct engine_simulated *simulated, const struct engine_place *place, struct error *error)
{
    uint32_t host = 0, none = simulated->host_count;
    while (host < none && strcmp(simulated->hosts[host].name, place->host) != 0)
        host++;
    if (host == none) {
        error_set(error, WEFT_ERROR_ARGUMENT, "there is no host '%.80s' in the simulation", place->host);
        return none;
    }
    const struct simulated_host *there = &simulated->hosts[host];
    if (*there->reason) {
        error_set(error, WEFT_ERROR_SYSTEM, "host %s is down: %s", there->name, there->reason);
        return none;
    }
    for (uint32_t i = 0; i < place->count; i++) {
        if (place->slots[i] >= there->slots || there->taken[place->slots[i]]) {
            error_set(error, WEFT_ERROR_ARGUMENT, "slot %" PRIu32 " of host %s %s", place->slots[i], there->name,
                      place->slots[i] >= there->slots ? "is not there" : "is taken by another node");
            return none;
        }
    }
    return host;
}

/* Place every node and take its slots; on an error none is taken. */
static weft_status place_nodes(struct engine_simulated *simulated, const struct engine_order *order,
                               struct simulated_attempt *attempt, struct error *error)
{
    for (uint32_t i = 0; i < order->nodes; i++) {
        const struct engine_place *place = &order->places[i];
        struct simulated_node *node = &attempt->nodes[i];
        struct error found = {0};
        uint32_t host = check_place(simulated, place, &found);
        if (host < simulated->host_count)
            node->slots = calloc(place->count + 1, sizeof *node->slots);
        if (host == simulated->host_count || !node->slots) {
            for (uint32_t j = 0; j < i; j++)
                leave_slots(simulated, &attempt->nodes[j]);
            return node->slots || host == simulated->host_count ? error_set(error, found.status, "%s", found.text)
                                                                : error_memory(error, place->count, "a node");
        }
        memcpy(node->slots, place->slots, place->count * sizeof *node->slots);
        node->slot_count = place->count;
        node->host = host;
        for (uint32_t j = 0; j < place->count; j++)
            simulated->hosts[host].taken[place->slots[j]] = true;
        node->behavior = (struct engine_simulated_behavior){.duration = order->duration, .stop_code = EX_TEMPFAIL};
        if (simulated->config.behave)
            simulated->config.behave(simulated->config.context, &order->attempt, i, &node->behavior);
        node->next = simulated->now + simulated->config.start_takes;
        node->beat_at = node->limit_at = UINT64_MAX;
    }
    return WEFT_OK;
}

/* The entry of a run, made if it is missing. */
static struct simulated_run *find_run(struct engine_simulated *simulated, const char *name)
{
    struct simulated_run *run = simulated->runs;
    while (run && strcmp(run->run, name) != 0)
        run = run->next;
    if (!run && (run = calloc(1, sizeof *run))) {
        snprintf(run->run, sizeof run->run, "%s", name);
        run->next = simulated->runs;
        simulated->runs = run;
    }
    return run;
}

static void end_older(struct engine_simulated *simulated, const struct attempt *attempt)
{
    for (struct simulated_attempt *at = simulated->attempts; at; at = at->next)
        for (uint32_t i = 0; strcmp(at->attempt.run, attempt->run) == 0 && i < at->count; i++)
            want_end(simulated, &at->nodes[i], JOURNAL_FENCED, 0, "a newer attempt of the run exists");
}

static weft_status simulated_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    struct engine_simulated *simulated = simulated_of(engine);
    if (!attempt_is_valid(&order->attempt) || order->nodes == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "an attempt needs a name, an epoch and nodes");
    if (find(simulated, &order->attempt))
        return WEFT_OK;
    struct simulated_run *run = find_run(simulated, order->attempt.run);
    struct simulated_attempt *attempt = calloc(1, sizeof *attempt);
    if (attempt)
        attempt->nodes = calloc(order->nodes, sizeof *attempt->nodes);
    if (!run || !attempt || !attempt->nodes) {
        free(attempt);
        return error_memory(error, order->nodes * sizeof *attempt->nodes, "an attempt");
    }
    attempt->attempt = order->attempt;
    attempt->count = order->nodes;
    attempt->grace = order->grace ? order->grace : GRACE;
    attempt->time_limit = order->time_limit;
    weft_status status = WEFT_OK;
    if (run->epoch >= order->attempt.epoch)
        status = error_set(error, WEFT_ERROR_STATE, "attempt %" PRIu64 " of run %s is over: the run has gone on",
                           order->attempt.epoch, order->attempt.run);
    if (status == WEFT_OK) {
        run->epoch = order->attempt.epoch;
        end_older(simulated, &order->attempt);
        status = place_nodes(simulated, order, attempt, error);
        if (status != WEFT_OK)
            run->epoch--; /* the same one may be tried again */
    }
    if (status != WEFT_OK) {
        free_attempt(attempt);
        return status;
    }
    attempt->next = simulated->attempts;
    simulated->attempts = attempt;
    return WEFT_OK;
}

static weft_status simulated_stop(struct engine *engine, const struct attempt *attempt, enum engine_end how,
                                  uint64_t grace, struct error *error)
{
    struct engine_simulated *simulated = simulated_of(engine);
    struct simulated_attempt *at = find(simulated, attempt);
    if (!at)
        return unknown(attempt, error);
    for (uint32_t i = 0; i < at->count; i++)
        want_end(simulated, &at->nodes[i], how == ENGINE_CHECKPOINT ? JOURNAL_CHECKPOINTED : JOURNAL_STOPPED,
                 how == ENGINE_KILL ? 0
                 : grace            ? grace
                                    : at->grace,
                 how == ENGINE_CHECKPOINT ? "it had to write a checkpoint and end" : "it had to stop");
    return WEFT_OK;
}

static weft_status simulated_remark(struct engine *engine, const struct attempt *attempt, const char *message,
                                    struct error *error)
{
    struct engine_simulated *simulated = simulated_of(engine);
    struct simulated_attempt *at = find(simulated, attempt);
    if (!at)
        return unknown(attempt, error);
    if (at->nodes[0].progress != ENDED)
        add_record(simulated, &at->nodes[0], JOURNAL_NOTE, message);
    return WEFT_OK;
}

static weft_status simulated_poll(struct engine *engine, const struct attempt *attempt, uint32_t number, uint64_t after,
                                  engine_record_visit *visit, void *context, struct error *error)
{
    struct simulated_attempt *at = find(simulated_of(engine), attempt);
    if (!at || number >= at->count)
        return unknown(attempt, error);
    const struct simulated_node *node = &at->nodes[number];
    for (size_t i = after; i < node->count; i++) {
        struct journal_record record = node->records[i].record;
        record.text = node->records[i].text;
        if (!visit(context, &record))
            break;
    }
    return WEFT_OK;
}

static weft_status simulated_gone(struct engine *engine, const struct attempt *attempt, uint32_t number, bool kill,
                                  bool *gone, struct error *error)
{
    struct engine_simulated *simulated = simulated_of(engine);
    struct simulated_attempt *at = find(simulated, attempt);
    struct simulated_node *node = at && number < at->count ? &at->nodes[number] : NULL;
    if (node && node->progress != ENDED && kill) {
        add_record(simulated, node, JOURNAL_LOST, "it was killed, as nothing could be heard of it");
        leave_slots(simulated, node);
    }
    *gone = !node || node->progress == ENDED;
    return WEFT_OK;
}

static weft_status simulated_attempts(struct engine *engine, engine_attempt_visit *visit, void *context,
                                      struct error *error)
{
    for (struct simulated_attempt *at = simulated_of(engine)->attempts; at; at = at->next)
        if (!visit(context, &at->attempt, at->count, true))
            break;
    return WEFT_OK;
}

static weft_status simulated_nodes(struct engine *engine, const struct attempt *attempt, engine_node_visit *visit,
                                   void *context, struct error *error)
{
    struct engine_simulated *simulated = simulated_of(engine);
    struct simulated_attempt *at = find(simulated, attempt);
    if (!at)
        return unknown(attempt, error);
    for (uint32_t i = 0; i < at->count; i++) {
        const struct simulated_node *node = &at->nodes[i];
        struct engine_node told = {i, at->count, simulated->hosts[node->host].name,
                                   node->progress == STARTING  ? ENGINE_NODE_STARTING
                                   : node->progress == RUNNING ? ENGINE_NODE_RUNNING
                                                               : ENGINE_NODE_ENDED};
        if (!visit(context, &told))
            break;
    }
    return WEFT_OK;
}

static weft_status simulated_exec(struct engine *engine, const struct attempt *attempt, uint32_t number,
                                  const struct node_exec_order *order, struct node_exec *exec, struct error *error)
{
    return error_set(error, WEFT_ERROR_ARGUMENT, "nothing can be run on a node of a simulation");
}

static weft_status simulated_hosts(struct engine *engine, engine_host_visit *visit, void *context, struct error *error)
{
    struct engine_simulated *simulated = simulated_of(engine);
    for (uint32_t i = 0; i < simulated->host_count; i++) {
        const struct simulated_host *host = &simulated->hosts[i];
        struct engine_host told = {host->name, host->pod, host->slots, host->gpus, !*host->reason, host->reason, 0, 0};
        if (!visit(context, &told))
            break;
    }
    return WEFT_OK;
}

static weft_status simulated_forget(struct engine *engine, const struct attempt *attempt, struct error *error)
{
    struct simulated_attempt **at = &simulated_of(engine)->attempts;
    while (*at && !attempt_same(&(*at)->attempt, attempt))
        at = &(*at)->next;
    if (!*at)
        return WEFT_OK;
    for (uint32_t i = 0; i < (*at)->count; i++)
        if ((*at)->nodes[i].progress != ENDED)
            return error_set(error, WEFT_ERROR_STATE,
                             "attempt %" PRIu64 " of run %s cannot be forgotten: its node %" PRIu32 " has not ended",
                             attempt->epoch, attempt->run, i);
    struct simulated_attempt *gone = *at;
    *at = gone->next;
    free_attempt(gone);
    return WEFT_OK;
}

static void simulated_close(struct engine *engine)
{
    struct engine_simulated *simulated = simulated_of(engine);
    for (struct simulated_attempt *at = simulated->attempts, *next; at; at = next) {
        next = at->next;
        free_attempt(at);
    }
    for (struct simulated_run *run = simulated->runs, *next; run; run = next) {
        next = run->next;
        free(run);
    }
    for (uint32_t i = 0; i < simulated->host_count; i++) {
        free(simulated->hosts[i].name);
        free(simulated->hosts[i].pod);
        free(simulated->hosts[i].taken);
    }
    free(simulated->hosts);
    free(simulated);
}

weft_status engine_simulated_open(const struct engine_simulated_config *config, struct engine **engine,
                                  struct error *error)
{
    struct engine_simulated *simulated = calloc(1, sizeof *simulated);
    bool good = simulated && (simulated->hosts = calloc(config->host_count + 1, sizeof *simulated->hosts));
    for (uint32_t i = 0; good && i < config->host_count; i++) {
        struct simulated_host *host = &simulated->hosts[simulated->host_count++];
        *host = (struct simulated_host){.name = strdup(config->hosts[i].name),
                                        .pod = strdup(config->hosts[i].pod ? config->hosts[i].pod : ""),
                                        .slots = config->hosts[i].slots,
                                        .gpus = config->hosts[i].gpus,
                                        .taken = calloc(config->hosts[i].slots + 1, sizeof *host->taken)};
        good = host->name && host->pod && host->taken;
    }
    if (!good) {
        if (simulated)
            simulated_close(&simulated->engine);
        return error_memory(error, sizeof *simulated, "the simulated engine");
    }
    simulated->config = *config;
    simulated->now = config->begin;
    simulated->engine = (struct engine){
        .name = "simulated",
        .heartbeat = config->heartbeat,
        .descriptor = -1,
        .start = simulated_start,
        .stop = simulated_stop,
        .remark = simulated_remark,
        .poll = simulated_poll,
        .gone = simulated_gone,
        .attempts = simulated_attempts,
        .nodes = simulated_nodes,
        .exec = simulated_exec,
        .hosts = simulated_hosts,
        .forget = simulated_forget,
        .close = simulated_close,
    };
    *engine = &simulated->engine;
    return WEFT_OK;
}
